"""Outputs appear whole or not at all; permissions; one-line refusals."""

from __future__ import annotations

import io
import os
import stat
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import without_privileges
from io_tools import SAMPLES, samples

from pybfv.errors import DataError, MissingInputError, OutputError, PybfvError
from pybfv.io import (
    atomic_output,
    describe,
    read_partial,
    read_study,
    write_partial,
)

# ---- outputs


@pytest.fixture(params=["nameless", "named"])
def how(request, monkeypatch):
    """Files without a name until they are whole, and named ones, as on file systems that have no others."""
    if request.param == "named":
        monkeypatch.delattr(os, "O_TMPFILE")


@pytest.mark.usefixtures("how")
def test_output_appears_whole(tmp_path):
    path = tmp_path / "out"
    with atomic_output(path) as stream:
        stream.write(b"abc")
        stream.write(memoryview(b"def"))
        assert not path.exists()
    assert path.read_bytes() == b"abcdef"
    assert os.listdir(tmp_path) == ["out"]
    before = os.umask(0o022)
    with atomic_output(tmp_path / "two"):
        pass
    os.umask(before)
    assert stat.S_IMODE((tmp_path / "two").stat().st_mode) == 0o644


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, DataError])
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.usefixtures("how")
def test_a_failed_output_leaves_nothing(tmp_path, error, force):
    path = tmp_path / "out"
    if force:
        path.write_bytes(b"old")

    def fail() -> None:
        with atomic_output(path, force=force) as stream:
            stream.write(b"new")
            raise error

    with pytest.raises(error):
        fail()
    assert os.listdir(tmp_path) == (["out"] if force else [])
    assert not force or path.read_bytes() == b"old"


@pytest.mark.usefixtures("how")
def test_output_that_exists(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(OutputError, match="exists: give --force or another name"), atomic_output(path):
        pytest.fail("entered")
    assert path.read_bytes() == b"old"
    with atomic_output(path, force=True) as stream:
        stream.write(b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.usefixtures("how")
def test_output_that_appears_meanwhile(tmp_path, monkeypatch, links):
    def no_links(*_args, **_kwargs):
        raise PermissionError(1, "no links here")

    if not links:
        monkeypatch.setattr(os, "link", no_links)
        with atomic_output(tmp_path / "first") as stream:
            stream.write(b"x")
        assert (tmp_path / "first").read_bytes() == b"x"
        with atomic_output(tmp_path / "first", force=True) as stream:
            stream.write(bytes(100_000))
        assert (tmp_path / "first").read_bytes() == bytes(100_000)
        (tmp_path / "first").unlink()
    path = tmp_path / "out"

    def write() -> None:
        with atomic_output(path) as stream:
            stream.write(b"ours")
            path.write_bytes(b"theirs")

    with pytest.raises(OutputError, match="exists"):
        write()
    assert path.read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["out"]


def test_outputs_that_cannot_be(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in (
        "folder",
        "folder/",
        "new/",
        "missing/out",
        "file/out",
        "fifo",
        "loop/out",
        "x" * 300,
        "null",
    ):
        with pytest.raises(OutputError) as caught, atomic_output(f"{tmp_path}/{name}"):
            pytest.fail(f"entered for {name}")
        assert "\n" not in str(caught.value)
    for name in ("folder", "fifo", "null"):
        with pytest.raises(OutputError), atomic_output(tmp_path / name, force=True):
            pytest.fail(f"entered for {name}")
    for name in ("", "a\0b"):
        with pytest.raises(OutputError), atomic_output(name):
            pytest.fail("entered")
    assert sorted(os.listdir(tmp_path)) == ["fifo", "file", "folder", "loop", "null"]


def test_a_full_disk_is_an_output_error(tmp_path, monkeypatch):
    def full(_fd):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OutputError, match="No space left"), atomic_output(tmp_path / "out") as stream:
            stream.write(b"x")
    with open("/dev/full", "wb", buffering=0) as raw:
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=raw))
        with (
            pytest.raises(OutputError, match=r"standard output .* No space left"),
            atomic_output("-") as stream,
        ):
            stream.write(b"x")
    assert os.listdir(tmp_path) == []


def test_standard_output(monkeypatch):
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=buffer))
    with atomic_output("-") as stream:
        write_partial(stream, samples.partial())
    assert buffer.getvalue() == (SAMPLES / "partial.bfvp").read_bytes()
    assert not buffer.closed


@pytest.fixture
def unprivileged_folder():
    """A folder that the tests may use without root's rights (tmp_path's parents are closed to others)."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_permissions_are_respected(unprivileged_folder):
    closed, unreadable = unprivileged_folder / "closed", unprivileged_folder / "unreadable"
    closed.mkdir(mode=0o555)
    unreadable.write_bytes(b"{}\n")
    unreadable.chmod(0)
    with without_privileges():
        with pytest.raises(OutputError, match="out can't be written: Permission denied"):
            with atomic_output(closed / "out"):
                pytest.fail("entered")
        for read in (read_study, read_partial, describe):
            with pytest.raises(MissingInputError, match="unreadable can't be read: Permission denied"):
                read(unreadable)


def test_refusals_are_one_line(tmp_path):
    odd = tmp_path / "a\nb\x1b[31m\udcff"
    with pytest.raises(MissingInputError) as caught:
        read_partial(odd)
    assert str(caught.value).isprintable()
    assert isinstance(caught.value, PybfvError)
