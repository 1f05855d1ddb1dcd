"""Checkpoints of a long accumulation, beside its output: ordinary partials, from which a run that was ended goes on.

A checkpoint holds whole contributions only, each checked to its end, so that a resumed run gives the bytes of one
that was never ended. It is as little blinded as any partial, and stays with the server.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pybfv.errors import DataError, OutputError
from pybfv.io.atomic import atomic_output
from pybfv.io.ciphertext import ContributionReader
from pybfv.io.container import Kind, open_records
from pybfv.io.partial import Partial, read_partial, write_partial
from pybfv.io.sign import Trust
from pybfv.study import Study

if TYPE_CHECKING:
    from pybfv.server.accumulate import Ledger

SUFFIX = ".checkpoint"
SECONDS = 60.0
"""How often a checkpoint is written: its cost is then a small part of the work."""


class Checkpoint:
    """The checkpoint of the output ``output``, written every ``seconds`` seconds, between contributions.

    ``resume``: begin with what an earlier run left there. ``told`` takes lines for who runs it. Raises OutputError
    when something else stands there, DataError for a damaged one to resume from.
    """

    def __init__(
        self,
        output: str | os.PathLike[str],
        sources: Sequence[str],
        *,
        seconds: float = SECONDS,
        resume: bool = False,
        told: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.path = os.fspath(output) + SUFFIX
        self.start: Partial | None = None
        """What a resumed run begins with."""
        self._sources = sources
        self._seconds = seconds
        self._told = told
        self._warned = False
        self._last = time.monotonic()
        self._kept = os.path.lexists(self.path)
        if not self._kept:
            if resume:
                told(f"there is no {self.path} to go on from: computing from the beginning")
        elif resume:
            self.start = read_partial(self.path)
        else:
            try:
                with open_records(self.path, Kind.PARTIAL):
                    pass
            except DataError:
                raise OutputError(
                    f"{self.path}, where checkpoints go, is something else; move it away or name another output"
                ) from None
            told(f"{self.path} is of a run that was ended; --resume would go on from it, this run begins anew")

    @property
    def due(self) -> bool:
        """Whether it is time for the next."""
        return self._seconds > 0 and time.monotonic() - self._last >= self._seconds

    def write(self, partial: Partial) -> None:
        """Replaces the checkpoint in one step. Where it can't be written the run goes on, and a line says so once."""
        try:
            with atomic_output(self.path, force=True, inputs=self._sources) as stream:
                write_partial(stream, partial)
            self._kept = True
        except OutputError as error:
            if not self._warned:
                self._told(f"warning: no checkpoint: {error}; going on without")
            self._warned = True
        self._last = time.monotonic()

    def ended(self) -> None:
        """The run failed or was ended: says what is left to go on from."""
        if self._kept:
            self._told(f"{self.path} holds what was computed so far; the same command with --resume goes on from it")

    def done(self) -> None:
        """The output is there: the checkpoint goes."""
        if self._kept:
            try:
                os.unlink(self.path)
            except OSError as error:
                self._told(f"warning: {self.path} can't be removed ({error.strerror}); it is of no use any more")


def take_up(
    ledger: Ledger,
    part: Partial,
    origin: str,
    sources: Sequence[str],
    check: Callable[[Study, str], None],
    trust: Trust | None = None,
) -> list[str]:
    """Enters a checkpoint's contributions into an empty ledger; returns the sources that are still to be added.

    Every contribution in it must be among the sources, with the study, key, signer and counts that it had then; of
    these files the header and the end are read. ``trust``: the checkpoint must say that the signatures of all were
    checked when they were counted, since a file of the same id need not be the one that was. DataError or
    KeyRefusedError otherwise.
    """
    if trust is not None and not part.verified:
        raise DataError(
            f"{origin} is of a run without --require-signature, whose signatures nobody checked; "
            "begin anew without --resume"
        )
    signers = dict(zip(part.contribution_ids, part.signers, strict=True)) if part.signers else {}
    check(ledger.admit(origin, part.study, part.key_id, ()), part.key_id)
    known = set(part.contribution_ids)
    left: list[str] = []
    rows = dropped = blocks = 0
    for source in sources:
        with ContributionReader(source, trust) as reader:
            if reader.contribution_id not in known:
                left.append(source)
                continue
            if reader.signer != signers.get(reader.contribution_id, ""):
                raise DataError(
                    f"{origin} counts contribution {reader.contribution_id} of another signer than {reader.origin} "
                    "names: the file was changed meanwhile; begin anew without --resume"
                )
            ledger.admit(reader.origin, reader.study, reader.key_id, [reader.contribution_id], [reader.signer])
            reader.skip()
            rows += reader.rows or 0
            dropped += reader.dropped or 0
            blocks += reader.blocks
    gone = sorted(known - ledger.ids.keys())
    if gone:
        raise DataError(
            f"{origin} holds {len(gone)} contribution(s) that are not among the inputs, the first is {gone[0]}: "
            "give their files again, or begin anew without --resume"
        )
    if (rows, dropped, blocks) != (part.rows, part.dropped, part.ciphertexts):
        raise DataError(
            f"{origin} counts {part.rows} rows and {part.dropped} dropped ones, the files of its contributions "
            f"{rows} and {dropped}: one was changed meanwhile; begin anew without --resume"
        )
    ledger.count(origin, rows, dropped, blocks)
    return left
