"""Texts that fuzzing found (tests/fuzz): studies, tables and arguments that were not refused in one line."""

from __future__ import annotations

import numpy as np
import pytest
from io_tools import SAMPLES, samples

from pybfv import native
from pybfv.client.csvio import CsvOptions, read_header
from pybfv.errors import DataError, UsageError
from pybfv.io import StudyDoc, read_study
from pybfv.study import Study

GOLDEN = SAMPLES.parent / "golden"


@pytest.mark.parametrize("folder", ["slots", "regression"])
def test_a_study_with_a_field_that_is_equal_to_python_only(folder):
    data = read_study(GOLDEN / folder / "study.json").data
    Study(StudyDoc.from_data(data))
    numbers = [key for key, value in data.items() if type(value) in (int, bool) and value in (0, 1)]
    assert "insecure" in numbers
    for field, value in [("surplus", None), *((key, int(data[key])) for key in numbers if key != "version")]:
        if type(data.get(field)) is not int:
            with pytest.raises(DataError, match=f"field '{field}' does not follow"):
                Study(StudyDoc.from_data(data | {field: value}))


@pytest.mark.parametrize("encoding", ["idna", "hex", "undefined"])
def test_encodings_that_are_no_encodings_of_tables(encoding):
    with pytest.raises(UsageError, match="unknown encoding"):
        CsvOptions(encoding=encoding)


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (b"A-\x0c\x0c>\x0c", CsvOptions(encoding="punycode"), "is not punycode"),
        (b'a\t"b"c\n', CsvOptions(delimiter="\t"), "broken CSV"),
    ],
)
def test_what_a_library_says_of_a_table_is_printable(data, options, words, tmp_path):
    path = tmp_path / "table"
    path.write_bytes(data)
    with pytest.raises(DataError, match=words) as caught:
        read_header(path, options)
    assert str(caught.value).isprintable()


def test_arguments_of_the_binding():
    ring = native.Ring(samples.N, samples.PRIMES)
    pool = np.zeros((3, *ring._tail), np.uint32)
    for out in (
        pool.reshape(-1)[1 : 1 + pool[0].size].reshape(pool[0].shape),
        pool.reshape(-1)[5:-27].reshape(2, 2, 16),
    ):
        for call in (
            lambda o, x: ring.add(x, x, o),
            lambda o, x: ring.neg(x, o),
            lambda o, x: ring.mul_scalar(x, [1, 1], o),
        ):
            with pytest.raises(UsageError, match="lie partly"):
                call(out, pool[: len(out)] if out.ndim == 3 else pool[0])
    ring.add(pool[0], pool[1], pool[0])
    with pytest.raises(UsageError, match="is empty"):
        ring.forward(np.zeros((0, *ring._tail), np.uint32))
    for text in ("portable\0", "\ud800", b"portable", 3):
        with pytest.raises(UsageError, match="printable text"):
            native.Ring(samples.N, samples.PRIMES, text)
        with pytest.raises(UsageError, match="printable text"):
            native.Backend(text, samples.N, samples.PRIMES)
        with pytest.raises(UsageError, match="printable text"):
            native.Backend("cpu", samples.N, samples.PRIMES, profile=text)
