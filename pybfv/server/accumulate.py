"""Accumulate: contributions in, one partial out. Deterministic and associative, no key needed.

A partial holds the unscaled accumulators, reduced (mod q; of scaled products the integer tensor, mod q and the
wide primes), and the ids of the contributions in it; the same contributions give the same bytes in any
order, split, thread count and backend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np

from pybfv import native
from pybfv.errors import DataError, KeyRefusedError
from pybfv.io.ciphertext import ContributionReader
from pybfv.io.partial import Partial
from pybfv.io.sign import Trust
from pybfv.io.study import StudyDoc
from pybfv.scheme.random import expand_uniform
from pybfv.server.backend import Backend
from pybfv.server.checkpoint import Checkpoint, take_up
from pybfv.study import Study

BATCH_BYTES = 32 << 20
"""Blocks are handed to the backend in batches of about this size, so memory stays flat."""


class Accumulation:
    """The accumulators of a study on a backend."""

    def __init__(self, study: Study, backend: Backend) -> None:
        self.study = study
        self.backend = backend
        self._accs: dict[str, Any] = {}
        for name, key, _, parts in study.names():
            self._accs[name] = backend.acc_new(study.kind(key), parts)

    def feed(self, ciphertexts: Any, blocks: int) -> None:
        """Adds ``blocks`` row blocks: ciphertexts [blocks * per_block, 2, L, N] in file order.

        They have been read when it returns; a backend with devices may still be computing on its copy, and says
        at the next call, or in save, when that fails.
        """
        study, backend = self.study, self.backend
        stride = study.per_block
        array = backend.put(ciphertexts, borrow=True)
        try:
            # squares last: the cpu keeps what it lifts for a product of two, and a square then takes it from there
            for name, key, r, _ in sorted(study.names(), key=lambda entry: len(set(entry[1])) < len(entry[1])):
                first = [study.index(c, r) for c in key]
                if len(key) == 1:
                    backend.acc_add(self._accs[name], array, first[0], stride, blocks)
                else:
                    backend.acc_mul(self._accs[name], array, first[0], array, first[1], stride, blocks)
        finally:
            backend.drop(array)

    def load(self, states: dict[str, Any]) -> None:
        """Adds saved states."""
        for name, key, _, parts in self.study.names():
            other = self.backend.acc_new(self.study.kind(key), parts)
            try:
                self.backend.acc_load(other, states[name])
                self.backend.acc_merge(self._accs[name], other)
            finally:
                self.backend.acc_drop(other)

    def save(self) -> dict[str, Any]:
        """The canonical states by name."""
        self.backend.sync()
        return {name: self.backend.acc_save(acc) for name, acc in self._accs.items()}

    def close(self) -> None:
        """Frees the accumulators."""
        for acc in self._accs.values():
            self.backend.acc_drop(acc)
        self._accs = {}


class _Feeder:
    """Two buffers of blocks: one is read into while the backend works on the other.

    ``slot`` is the place for the next block; ``advance`` says that it was filled. One batch is under way at
    a time, and on a device the end of the one before; errors come out at a later batch or at ``finish``.
    """

    def __init__(self, sums: Accumulation, capacity: int) -> None:
        study = sums.study
        self._sums = sums
        shape = (capacity, study.per_block, 2, len(study.ps.primes), study.ps.n)
        self._buffers = [native.empty(shape), native.empty(shape)]
        self._turn = self._filled = 0
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="pybfv-accumulate")
        self._ticket: Future[None] | None = None

    @property
    def slot(self) -> np.ndarray:
        """Where the next block goes, [per_block, 2, L, N]."""
        if self._filled == len(self._buffers[self._turn]):
            self._send()
        return self._buffers[self._turn][self._filled]

    def advance(self) -> None:
        """The slot holds a block."""
        self._filled += 1

    def _send(self) -> None:
        self._wait()  # the other buffer is free once its batch is done
        used = self._buffers[self._turn][: self._filled]
        self._ticket = self._worker.submit(self._feed, used.reshape(-1, *used.shape[2:]), self._filled)
        self._turn, self._filled = 1 - self._turn, 0

    def _feed(self, ciphertexts: np.ndarray, blocks: int) -> None:
        self._sums.feed(ciphertexts, blocks)
        # a device goes on while the next batch is prepared, if that is there already
        if self._filled < len(self._buffers[self._turn]):
            self._sums.backend.sync()

    def _wait(self) -> None:
        if self._ticket is not None:
            self._ticket.result()
            self._ticket = None

    def finish(self) -> None:
        """Everything filled has been added."""
        if self._filled:
            self._send()
        self._wait()

    def close(self) -> None:
        """Ends the worker; what it is at is waited for, as it holds the backend."""
        self._worker.shutdown(wait=True)


class Ledger:
    """What has been taken in so far; refuses mixing, doubling and too much, naming both sides."""

    def __init__(self, verified: bool = False) -> None:
        """``verified``: the signature of everything that is admitted is checked."""
        self.verified = verified
        self.study: Study | None = None
        self.key_id = ""
        self.origin = ""
        self.rows = self.dropped = self.ciphertexts = 0
        self.ids: dict[str, str] = {}
        self.signers: dict[str, str] = {}  # of contributions, by id, where somebody signed
        self._signed: dict[str, str] = {}  # where a signer was met

    def admit(self, origin: str, doc: StudyDoc, key_id: str, ids: Sequence[str], signers: Sequence[str] = ()) -> Study:
        """Checks that a file belongs with what came before; returns the common study.

        ``signers``: of the contributions ``ids``, in their order, "" for nobody; () when nobody signed any.
        """
        if self.study is None:
            self.study, self.key_id, self.origin = Study(doc), key_id, origin
        elif doc.hash != self.study.hash:
            raise DataError(
                f"{origin} is of another study than {self.origin}: {_difference(self.study.doc, doc)}; "
                "compute each study on its own"
            )
        if key_id != self.key_id:
            raise KeyRefusedError(
                f"{origin} is under key {key_id} but {self.origin} is under key {self.key_id}; "
                "all contributions must be encrypted with one public key"
            )
        for identity in ids:
            if identity in self.ids:
                raise DataError(
                    f"{origin} holds contribution {identity}, which {self.ids[identity]} holds already; "
                    "give each contribution once"
                )
            self.ids[identity] = origin
        for identity, signer in zip(ids, signers, strict=False):
            if signer in self._signed:
                raise DataError(
                    f"{origin} holds a contribution signed by {signer}, "
                    f"of whom {self._signed[signer]} holds one already; count each contributor once"
                )
            if signer:
                self._signed[signer] = origin
                self.signers[identity] = signer
        return self.study

    def count(self, origin: str, rows: int, dropped: int, ciphertexts: int) -> None:
        """Adds a file's counts and checks them against the plan."""
        self.rows += rows
        self.dropped += dropped
        self.ciphertexts += ciphertexts
        assert self.study is not None
        self.study.check_limits(self.rows, len(self.ids), self.ciphertexts, origin)

    def partial(self, states: dict[str, Any]) -> Partial:
        """The partial of everything taken in."""
        assert self.study is not None
        return Partial(
            study=self.study.doc,
            key_id=self.key_id,
            contribution_ids=tuple(sorted(self.ids)),
            rows=self.rows,
            dropped=self.dropped,
            ciphertexts=self.ciphertexts,
            accumulators=states,
            signers=tuple(self.signers.get(one, "") for one in sorted(self.ids)) if self.signers else (),
            verified=self.verified,
        )


def _difference(ours: StudyDoc, theirs: StudyDoc) -> str:
    """The first field in which two studies differ, with both values."""
    for field in ("set", "t", "statistics", "columns", *sorted({*ours.data, *theirs.data})):
        mine, other = ours.data.get(field), theirs.data.get(field)
        if mine != other:
            return f"{field} is {_short(other)} instead of {_short(mine)}"
    return f"study {theirs.hash[:16]} instead of {ours.hash[:16]}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def accumulate(
    sources: Sequence[str],
    open_backend: Callable[[Study], Backend],
    progress: Callable[[int], None] = lambda done: None,
    check: Callable[[Study, str], None] = lambda study, key_id: None,
    checkpoint: Checkpoint | None = None,
    trust: Trust | None = None,
) -> tuple[Partial, dict[str, Any]]:
    """Accumulates contributions (paths, or "-") into a partial; also the backend's info, "stats" and "events".

    Memory does not grow with rows or files. ``trust``: each must be signed by one of these signers. Raises DataError
    for damaged, mixed, doubled or too many contributions and KeyRefusedError for contributions under different keys.
    ``checkpoint``: where to keep, and perhaps to take up, what has been done; the sources are then files.
    """
    ledger = Ledger(verified=trust is not None)
    work: _Work | None = None
    done = 0
    try:
        if checkpoint is not None and checkpoint.start is not None:
            start, given = checkpoint.start, len(sources)
            sources = take_up(ledger, start, checkpoint.path, sources, check, trust)
            work = _Work(Study(start.study), open_backend)
            work.sums.load(_states(work.sums.study, start, checkpoint.path))
            done = given - len(sources)
            progress(done)
        for source in sources:
            with ContributionReader(source, trust) as reader:
                study = ledger.admit(
                    reader.origin, reader.study, reader.key_id, [reader.contribution_id], [reader.signer]
                )
                _check_fits(reader, study)
                if work is None:
                    check(study, reader.key_id)  # a key that is refused is refused before the work
                    work = _Work(study, open_backend)
                work.add(reader)
                ledger.count(reader.origin, reader.rows or 0, reader.dropped or 0, reader.blocks)
            done += 1
            progress(done)
            if checkpoint is not None and checkpoint.due:
                checkpoint.write(ledger.partial(work.states()))
        if work is None:
            raise DataError("no contribution is given; give .bfvc files or a folder that holds some")
        backend = work.sums.backend
        return ledger.partial(work.states()), {**backend.info(), "stats": backend.stats(), "events": backend.events()}
    finally:
        if work is not None:
            work.close()


def _check_fits(reader: ContributionReader, study: Study) -> None:
    """Refuses a contribution that is not made as its study says."""
    if reader.mode == "symmetric" and study.reveal == "totals":
        raise KeyRefusedError(
            f"{reader.origin} was encrypted with a secret key, which totals do not allow; encrypt with the public key"
        )
    if reader.params != study.ps or reader.per_block != study.per_block:
        raise DataError(
            f"{reader.origin} has {reader.per_block} ciphertexts a block at {reader.params.name}; its "
            f"study says {study.per_block} at {study.ps.name}: get the file again from its maker"
        )


class _Work:
    """A backend at work on a study's contributions, with what feeds it."""

    def __init__(self, study: Study, open_backend: Callable[[Study], Backend]) -> None:
        self._backend = open_backend(study)
        self._feeder: _Feeder | None = None
        try:
            self.sums = Accumulation(study, self._backend)
            block_bytes = study.per_block * 2 * len(study.ps.primes) * study.ps.n * 4
            # a limb product takes seconds on a simulator: one block a call, so that Ctrl-C is heard
            capacity = 1 if self._backend.info()["kernels"] == "limb" else max(1, BATCH_BYTES // block_bytes)
            self._feeder = _Feeder(self.sums, capacity)
        except BaseException:
            self._backend.close()
            raise

    def add(self, reader: ContributionReader) -> None:
        """Takes in a contribution; it has been read and checked to its end then, and may still be computed on."""
        assert self._feeder is not None
        expand = _Expander(self.sums.study) if reader.mode == "symmetric" else None
        while expand(reader, self._feeder.slot) if expand else reader.read_block(self._feeder.slot):
            self._feeder.advance()
        if expand:
            expand.close()

    def states(self) -> dict[str, Any]:
        """The states of everything that was taken in."""
        assert self._feeder is not None
        self._feeder.finish()
        return self.sums.save()

    def close(self) -> None:
        """Ends the work and frees everything."""
        try:
            if self._feeder is not None:
                self._feeder.close()
            with suppress(Exception):
                self.sums.close()
        finally:
            self._backend.close()


class _Expander:
    """Reads blocks of symmetric contributions: part 1 is expanded from its public seed."""

    def __init__(self, study: Study) -> None:
        ps = study.ps
        self._ring = native.Ring(ps.n, ps.primes)
        self._seeds = np.empty((study.per_block, 32), dtype=np.uint8)
        self._halves = np.empty((study.per_block, len(ps.primes), ps.n), dtype=np.uint32)

    def __call__(self, reader: ContributionReader, out: np.ndarray) -> bool:
        if not reader.read_block(self._halves, self._seeds):
            return False
        out[:, 0] = self._halves
        for k, seed in enumerate(self._seeds):
            expand_uniform(self._ring, seed.tobytes(), out[k, 1])
        return True

    def close(self) -> None:
        self._ring.close()


def merge(sources: Sequence[str], read: Callable[[str], Partial], open_backend: Callable[[Study], Backend]) -> Partial:
    """One partial of several, by addition; refuses mixed studies and keys and shared contributions."""
    ledger = Ledger(verified=True)
    backend: Backend | None = None
    try:
        sums: Accumulation | None = None
        for source in sources:
            part = read(source)
            ledger.verified &= part.verified
            study = ledger.admit(source, part.study, part.key_id, part.contribution_ids, part.signers)
            states = _states(study, part, source)
            if sums is None:
                backend = open_backend(study)
                sums = Accumulation(study, backend)
            sums.load(states)
            ledger.count(source, part.rows, part.dropped, part.ciphertexts)
        if sums is None:
            raise DataError("no partial is given; give .bfvp files or a folder that holds some")
        return ledger.partial(sums.save())
    finally:
        if backend is not None:
            backend.close()


def _states(study: Study, part: Partial, origin: str) -> dict[str, Any]:
    """The accumulators of a partial, if they are those of its study."""
    expected = {name: study.state_shape(key, parts) for name, key, _, parts in study.names()}
    if {name: x.shape for name, x in part.accumulators.items()} != expected or part.params != study.ps:
        raise DataError(f"{origin}: its accumulators are not those of its study; get the file again")
    return part.accumulators
