"""Checkpoints of compute: a run that was ended goes on and gives the same bytes; what doesn't fit is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import Command
from io_tools import put_together, take_apart

from pybfv import flow
from pybfv.errors import DataError, KeyRefusedError, OutputError, UsageError
from pybfv.io.ciphertext import ContributionReader
from pybfv.io.partial import read_partial
from pybfv.io.sign import SigningKey, Trust
from pybfv.server import checkpoint as module
from pybfv.study import PRODUCTS

FILES = 9
ENGINES = {
    "cpu": flow.Engine(threads=2),
    "sim": flow.Engine(backend="sim", dpus=3, tasklets=4),
    "limb": flow.Engine(backend="sim", kernels="limb", dpus=2, tasklets=4),
}


class Job:
    """A folder of contributions, some of several blocks, and the partial of an uninterrupted run."""

    def __init__(self, folder: Path, product: str, name: str = "insecure_n64_q214", column: str = "x") -> None:
        self.inbox, self.output = str(folder / "inbox"), str(folder / "p")
        self.kept = self.output + ".checkpoint"
        (folder / "inbox").mkdir(parents=True)
        rows = [1 + 37 * k % 150 for k in range(FILES)]
        self.study = flow.plan(
            {column: range(sum(rows) + 9)}, f"variance:{column}", bounds=f"{column}=0:2000",
            max_contributions=FILES + 1, set_name=name, insecure=True, product=product,
        ).study  # fmt: skip
        self.key = flow.keygen(self.study)[1]
        for k, count in enumerate(rows):
            self.encrypt(f"{k}.bfvc", [(k + 3) * i % 2001 for i in range(count)])
        flow.compute_to_partial(self.inbox, str(folder / "whole"))
        self.whole = (folder / "whole").read_bytes()

    def encrypt(self, name: str, values: list[int], sign: SigningKey | None = None) -> None:
        flow.encrypt(self.study, {self.study.columns[1].name: values}, self.key, f"{self.inbox}/{name}", sign=sign)

    def compute(self, end_after: int = 99, **options) -> list[str]:
        """Computes with a checkpoint after each file; ended when so many files are done. What it told."""
        told: list[str] = []

        def progress(done: int) -> None:
            if done >= end_after:
                raise KeyboardInterrupt

        options = {"checkpoint": 1e-9, "told": told.append, **options}
        try:
            flow.compute_to_partial(self.inbox, self.output, progress=progress, **options)
        except KeyboardInterrupt:
            assert not os.path.exists(self.output)
        return told

    def result(self) -> bytes:
        assert not os.path.exists(self.kept)
        return Path(self.output).read_bytes()


@pytest.fixture(params=PRODUCTS)
def job(tmp_path: Path, request: pytest.FixtureRequest) -> Job:
    return Job(tmp_path, request.param)


@pytest.fixture
def one(tmp_path: Path) -> Job:
    return Job(tmp_path, "scale-free")


@pytest.mark.parametrize("engine", ENGINES)
def test_an_ended_run_goes_on_to_the_same_bytes(job: Job, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = ContributionReader.read_block

    def reading(self: ContributionReader, *arrays) -> bool:
        read.append(self.origin)
        return real(self, *arrays)

    monkeypatch.setattr(ContributionReader, "read_block", reading)
    told = job.compute(2, engine=ENGINES[engine])
    assert told == [f"{job.kept} holds what was computed so far; the same command with --resume goes on from it"]
    assert read_partial(job.kept).contributions == 1
    for end_after in (3, 6, FILES):  # the last ends after all files, before the output
        read.clear()
        before = read_partial(job.kept).contributions
        job.compute(end_after, engine=ENGINES[engine], resume=True)
        assert len(set(read)) == end_after - before, "what the checkpoint holds is not read again"
    job.compute(engine=ENGINES[engine], resume=True)
    assert job.result() == job.whole


def test_a_checkpoint_of_one_backend_serves_another(one: Job) -> None:
    for k, engine in enumerate(("sim", "cpu", "limb")):
        one.compute(2 + 2 * k, engine=ENGINES[engine], resume=True)
    one.compute(resume=True)
    assert one.result() == one.whole


def test_files_may_come_in_another_order_and_more_may_have_come(one: Job) -> None:
    one.compute(5)
    os.rename(f"{one.inbox}/0.bfvc", f"{one.inbox}/z.bfvc")
    one.encrypt("a.bfvc", [7, 8])
    one.compute(resume=True)
    flow.compute_to_partial(one.inbox, one.output + "2")
    assert one.result() == Path(one.output + "2").read_bytes() != one.whole


def test_a_checkpoint_is_a_partial_that_combines(one: Job, tmp_path: Path) -> None:
    one.compute(4)
    kept = read_partial(one.kept)
    assert kept.contributions == 3
    rest = [f"{one.inbox}/{k}.bfvc" for k in range(FILES)][3:]
    flow.compute_to_partial(rest, str(tmp_path / "rest"))
    result = flow.combine([one.kept, str(tmp_path / "rest")], str(tmp_path / "r"), key=one.key)
    assert (result.contributions, result.rows) == (FILES, read_partial(tmp_path / "whole").rows)


def refusal(job: Job, error: type[Exception], **options) -> str:
    before = Path(job.kept).read_bytes()
    with pytest.raises(error) as caught:
        job.compute(resume=True, **options)
    assert Path(job.kept).read_bytes() == before
    assert not os.path.exists(job.output)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_changed_meanwhile_is_refused(one: Job, tmp_path: Path) -> None:
    one.compute(5)
    first, held = Path(one.inbox, "0.bfvc"), Path(one.inbox, "held")
    with ContributionReader(first) as reader:
        identity = reader.contribution_id
    first.rename(held)
    said = refusal(one, DataError)
    assert f"holds 1 contribution(s) that are not among the inputs, the first is {identity}: give their files" in said
    held.rename(first)
    # the same id, and other counts
    kind, records = take_apart(first.read_bytes())
    end = records[-1][1]
    assert int.from_bytes(end[8:16], "little") == 1
    Path(one.inbox, "0.bfvc").write_bytes(put_together(kind, [*records[:-1], (b"END ", end[:8] + b"\2" + end[9:])]))
    assert "one was changed meanwhile" in refusal(one, DataError)
    first.write_bytes(put_together(kind, records))
    (tmp_path / "inbox" / "again.bfvc").write_bytes(first.read_bytes())
    assert "0.bfvc holds already" in refusal(one, DataError)
    (tmp_path / "inbox" / "again.bfvc").unlink()
    one.compute(resume=True)
    assert one.result() == one.whole


def test_another_study_or_key_is_refused(one: Job, tmp_path: Path) -> None:
    one.compute(5)
    other = Job(tmp_path / "other", "scaled")
    for k in range(FILES):
        os.replace(f"{one.inbox}/{k}.bfvc", tmp_path / f"{k}.bfvc")
        os.replace(f"{other.inbox}/{k}.bfvc", f"{one.inbox}/{k}.bfvc")
    assert "not among the inputs" in refusal(one, DataError)
    for k in range(4):
        os.replace(tmp_path / f"{k}.bfvc", f"{one.inbox}/{k}.bfvc")
    assert "is of another study than " + one.kept in refusal(one, DataError)
    for k in range(4, FILES):
        os.unlink(f"{one.inbox}/{k}.bfvc")
    one.key = flow.keygen(one.study)[1]
    one.encrypt("new.bfvc", [1])
    assert "is under key" in refusal(one, KeyRefusedError)
    with pytest.raises(KeyRefusedError, match="not under the given key"):
        flow.compute(one.inbox, one.output, key=one.key, resume=True)


def test_a_damaged_checkpoint_is_refused_and_what_is_none_is_left_alone(one: Job) -> None:
    one.compute(5)
    whole = bytearray(Path(one.kept).read_bytes())
    whole[-100] ^= 1
    Path(one.kept).write_bytes(whole)
    assert "damaged" in refusal(one, DataError)
    Path(one.kept).write_bytes(b"mine")
    assert "not a pybfv file" in refusal(one, DataError)
    for options in ({}, {"checkpoint": 60}):
        with pytest.raises(OutputError, match="something else; move it away"):
            one.compute(**options)
    assert Path(one.kept).read_bytes() == b"mine"
    assert one.compute(checkpoint=0) == []
    assert Path(one.output).read_bytes() == one.whole
    assert Path(one.kept).read_bytes() == b"mine"


def test_a_run_that_is_not_resumed_says_what_it_leaves(one: Job) -> None:
    one.compute(5)
    told = one.compute()
    assert told == [f"{one.kept} is of a run that was ended; --resume would go on from it, this run begins anew"]
    assert one.result() == one.whole
    os.unlink(one.output)
    assert one.compute(resume=True) == [f"there is no {one.kept} to go on from: computing from the beginning"]
    assert one.result() == one.whole


def test_short_runs_write_none(one: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.Checkpoint, "write", lambda *_: pytest.fail("written"))
    assert one.compute(checkpoint=module.SECONDS) == []
    os.unlink(one.output)
    assert one.compute(checkpoint=0) == []


def test_no_room_for_a_checkpoint_does_not_end_the_run(one: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args, **_kwargs):
        raise OutputError("p.checkpoint can't be written: No space left on device")

    monkeypatch.setattr(module, "atomic_output", full)
    said = "warning: no checkpoint: p.checkpoint can't be written: No space left on device; going on without"
    assert one.compute() == [said]
    assert one.result() == one.whole


def test_arguments(one: Job) -> None:
    for seconds in (-1, float("nan"), float("inf"), "60", None, True):
        with pytest.raises(UsageError, match="checkpoint must be a number of seconds"):
            one.compute(checkpoint=seconds)
    with pytest.raises(UsageError, match="can be resumed"):
        flow.compute_to_partial(one.inbox, "-", resume=True)
    with pytest.raises(UsageError, match="can be resumed"):
        flow.compute_to_partial(["-"], one.output, resume=True)


def test_on_the_command_line(one: Job, pybfv: Command) -> None:
    one.compute(5)
    pybfv.refused(2, "compute", "-", "--partial", "--resume", "-o", "p")
    pybfv.refused(2, "compute", "inbox", "--partial", "--checkpoint", "-1", "-o", "p")
    held = pybfv.folder / "held"
    (pybfv.folder / "inbox" / "0.bfvc").rename(held)
    done = pybfv("compute", "inbox", "--partial", "--resume", "-o", "p")
    assert done.returncode == 65
    first, last = done.stderr.decode().splitlines()
    assert first == "pybfv: p.checkpoint holds what was computed so far; the same command with --resume goes on from it"
    assert "not among the inputs" in last
    held.rename(pybfv.folder / "inbox" / "0.bfvc")
    assert "partial" in pybfv.ok("inspect", "p.checkpoint")
    pybfv.ok("compute", "inbox", "--partial", "--resume", "-o", "p")
    assert one.result() == one.whole


def signed_job(folder: Path) -> tuple[Job, list[SigningKey], Trust]:
    """A job of three contributions, each signed by another; the signers, and trust in all of them."""
    job = Job(folder, "scale-free")
    people = [SigningKey.generate() for _ in range(3)]
    for name in os.listdir(job.inbox):
        os.unlink(f"{job.inbox}/{name}")
    for k, person in enumerate(people):
        job.encrypt(f"{k}.bfvc", [k, k + 1], sign=person)
    return job, people, Trust([person.signer for person in people])


def test_checked_signatures_stay_checked(tmp_path: Path) -> None:
    job, _, trust = signed_job(tmp_path)
    flow.compute_to_partial(job.inbox, str(tmp_path / "signed"), trust=trust)
    job.compute(2, trust=trust)
    assert read_partial(job.kept).verified
    job.compute(resume=True, trust=trust)
    assert job.result() == (tmp_path / "signed").read_bytes()
    os.unlink(job.output)
    job.compute(2, trust=trust)
    job.compute(resume=True)  # who asks for less may go on from more
    flow.compute_to_partial(job.inbox, str(tmp_path / "claimed"))
    assert job.result() == (tmp_path / "claimed").read_bytes() != (tmp_path / "signed").read_bytes()


def test_signatures_that_nobody_checked_are_not_taken_up_as_checked(tmp_path: Path) -> None:
    """The first run counts a file with a bad signature; then the right one comes in its place."""
    job, _, trust = signed_job(tmp_path)
    honest = Path(f"{job.inbox}/0.bfvc").read_bytes()
    number, records = take_apart(honest)
    at = [tag for tag, _ in records].index(b"SIGN")
    Path(f"{job.inbox}/0.bfvc").write_bytes(
        put_together(number, [*records[:at], (b"SIGN", bytes(64)), *records[at + 1 :]])
    )
    job.compute(2)
    assert not read_partial(job.kept).verified
    Path(f"{job.inbox}/0.bfvc").write_bytes(honest)
    assert "without --require-signature" in refusal(job, DataError, trust=trust)


def test_signers_of_a_checkpoint_are_remembered_and_trusted_anew(tmp_path: Path) -> None:
    job, people, trust = signed_job(tmp_path)
    job.compute(2, trust=trust)
    others = Trust([person.signer for person in people[1:]])
    assert people[0].signer in refusal(job, DataError, trust=others)
    job.encrypt("00.bfvc", [5], sign=people[0])
    text = refusal(job, DataError, trust=trust)
    assert "/0.bfvc" in text
    assert "00.bfvc" in text
    assert people[0].signer in text
    os.unlink(f"{job.inbox}/00.bfvc")
    renamed = Path(f"{job.inbox}/0.bfvc").read_bytes()
    number, records = take_apart(renamed)
    head = records[0][1].replace(people[0].signer.encode(), b"ab" * 32)
    Path(f"{job.inbox}/0.bfvc").write_bytes(put_together(number, [(b"HEAD", head), *records[1:]]))
    assert "another signer" in refusal(job, DataError)
