"""The pipeline of accumulate: two buffers, many batches, and errors that come out of the worker."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pybfv import flow
from pybfv.errors import DataError, InternalError, KeyRefusedError
from pybfv.io.partial import read_partial, write_partial
from pybfv.server import accumulate as module
from pybfv.server.accumulate import Accumulation, accumulate
from pybfv.server.backend import opener
from pybfv.study import PRODUCTS


@pytest.fixture(params=PRODUCTS)
def contributions(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[list[str], flow.Planned]:
    """Five files of 1 to 9 blocks at N = 64."""
    files = []
    rows = [10, 200, 64, 65, 560]
    (tmp_path / "all.csv").write_text("x\n" + "".join(f"{i % 97}\n" for i in range(sum(rows))))
    planned = flow.plan(
        str(tmp_path / "all.csv"), ["variance:x"], max_contributions=5, set_name="insecure_n64_q214", insecure=True,
        product=request.param,
    )  # fmt: skip
    _, public = flow.keygen(planned.study)
    for k, count in enumerate(rows):
        (tmp_path / f"{k}.csv").write_text("x\n" + "".join(f"{(i * k) % 97}\n" for i in range(count)))
        files.append(str(tmp_path / f"{k}.bfvc"))
        flow.encrypt(planned.study, str(tmp_path / f"{k}.csv"), public, files[-1])
    return files, planned


def states(files: list[str], threads: int = 1) -> dict[str, bytes]:
    partial, _ = accumulate(files, opener(flow.Engine(threads=threads)))
    return {name: x.tobytes() for name, x in partial.accumulators.items()}


def test_any_size_of_batch_gives_the_same_partial(contributions, monkeypatch: pytest.MonkeyPatch) -> None:
    files, planned = contributions
    whole = states(files)
    block = planned.study.per_block * 2 * len(planned.study.ps.primes) * planned.study.ps.n * 4
    for blocks in (1, 2, 3, 7):
        monkeypatch.setattr(module, "BATCH_BYTES", blocks * block)
        assert states(files) == whole
        assert states(files[::-1]) == whole
        assert states(files, threads=3) == whole


@pytest.mark.parametrize("cut", [1, 2, 4])
def test_partials_of_any_split_combine_to_the_same_bytes(contributions, tmp_path: Path, cut: int) -> None:
    files, planned = contributions
    _, other = flow.keygen(planned.study)
    flow.compute_to_partial(files, str(tmp_path / "whole.bfvp"))
    for k, half in enumerate((files[cut:], files[:cut])):
        flow.compute_to_partial(half, str(tmp_path / f"{k}.bfvp"))
    merged = module.merge([str(tmp_path / f"{k}.bfvp") for k in (0, 1)], read_partial, opener(flow.Engine(threads=2)))
    with (tmp_path / "merged.bfvp").open("wb") as stream:
        write_partial(stream, merged)
    assert (tmp_path / "merged.bfvp").read_bytes() == (tmp_path / "whole.bfvp").read_bytes()
    assert read_partial(tmp_path / "whole.bfvp").ciphertexts == 1 + 4 + 1 + 2 + 9
    with pytest.raises(KeyRefusedError):
        flow.combine([str(tmp_path / "0.bfvp")], str(tmp_path / "r.bfvr"), key=other)


@pytest.mark.parametrize("failing", [1, 2, 5, 16])
def test_an_error_in_any_batch_comes_out(contributions, monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    files, _ = contributions
    monkeypatch.setattr(module, "BATCH_BYTES", 1)
    real, calls = Accumulation.feed, []

    def feed(self: Accumulation, ciphertexts, blocks: int) -> None:
        calls.append(blocks)
        if len(calls) == failing:
            raise InternalError("a device failed")
        real(self, ciphertexts, blocks)

    monkeypatch.setattr(Accumulation, "feed", feed)
    with pytest.raises(InternalError, match="a device failed"):
        states(files)
    assert len(calls) == failing, "nothing is fed after an error"
    assert not [t for t in threading.enumerate() if t.name.startswith("pybfv-accumulate")]


def test_a_bad_file_ends_the_worker(contributions, monkeypatch: pytest.MonkeyPatch) -> None:
    files, _ = contributions
    monkeypatch.setattr(module, "BATCH_BYTES", 1)
    damaged = bytearray(Path(files[-1]).read_bytes())
    damaged[-2000] ^= 1
    Path(files[-1]).write_bytes(damaged)
    with pytest.raises(DataError):
        states(files)
    assert not [t for t in threading.enumerate() if t.name.startswith("pybfv-accumulate")]
