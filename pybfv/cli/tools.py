"""What commands share: options to objects, notes and progress on stderr, results on stdout."""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from pybfv.errors import OutputError, UsageError
from pybfv.words import printable, words

if TYPE_CHECKING:
    from pybfv.client.csvio import CsvOptions
    from pybfv.flow import Engine
    from pybfv.io.key import PublicKey
    from pybfv.study import Study


def csv_of(no_header: bool, delimiter: str, decimal: str, thousands: str | None, encoding: str) -> CsvOptions:
    from pybfv.client.csvio import CsvOptions

    tab = "\t" if delimiter == "\\t" else delimiter
    return CsvOptions(not no_header, tab, decimal, thousands, encoding)


def engine_of(
    backend: str, kernels: str, threads: int, dpus: str | None, tasklets: int | None, check: str | None
) -> Engine:
    from pybfv.flow import Engine

    count = 0
    if dpus == "all" and backend == "cpu":
        raise UsageError("--dpus belongs to --backend sim or upmem; leave it out")
    if dpus is not None and dpus != "all":
        if not dpus.isascii() or not dpus.isdigit() or len(dpus) > 9 or int(dpus) == 0:
            raise UsageError(f"--dpus {dpus[:20]!r} is not all or a number from 1")
        count = int(dpus)
    if check is not None and backend == "cpu":
        raise UsageError("--check belongs to --backend sim or upmem; leave it out")
    return Engine(backend, kernels, threads, count, tasklets or 0, check or "linear")


def reporter(timings: bool) -> Callable[[dict[str, Any]], None]:
    """Says where a backend's time went; simulated DPUs are not hardware, and the line says so."""

    def report(info: dict[str, Any]) -> None:
        stats, name = info["stats"], info["name"]
        if info.get("mended"):
            left = f"; {stats['left_out']} left out" if stats["left_out"] else ""
            note(f"warning: DPUs erred, and their work was done again ({info['dpus']} DPUs{left}): {info['mended']}")
        if not timings:
            return
        if name == "cpu":
            note(f"timings: cpu with {info['threads']} threads keeps no split; {stats['bytes_in']} bytes in")
            return
        label = "simulator wall time, not hardware" if name == "sim" else "wall time"
        parts = (
            ("host_to_dpu", "host to DPU"), ("kernel", "kernel"), ("dpu_to_host", "DPU to host"),
            ("convert", "conversion"), ("check", "check"),
        )  # fmt: skip
        split = ", ".join(f"{text} {stats[key] / 1e6:.1f} ms" for key, text in parts)
        where = f"{info['kernels']} kernels, {info['dpus']} DPUs, {info['tasklets']} tasklets"
        seed = "" if info["seed"] is None else f", seed {info['seed']}"
        note(f"timings ({label}), {where}{seed}: {split}")
        if info["events"]:
            from pybfv.bench.model import summary

            note(summary(info["events"]))

    return report


def note(text: str) -> None:
    with suppress(OSError):  # a closed or full stderr must not undo the work
        click.echo(f"pybfv: {printable(text)}", err=True)


def note_security(study: Study) -> None:
    """Tells of a set that is not within today's limits."""
    if study.ps.basis != "2024/463":
        note(f"this study uses {study.ps.name}: {study.ps.security}")


def moduli_of(texts: tuple[str, ...]) -> list[int]:
    found = []
    for text in texts:
        for part in text.split(","):
            digits = part.strip()
            if not re.fullmatch("-?[0-9]{1,200}", digits):
                raise UsageError(f"--plain-modulus {part[:40]!r} is not a whole number")
            found.append(int(digits))
    return found


@contextmanager
def progress_bar(unit: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, with its rate and, where about the total is known, the remaining time.

    Nothing when stderr is not a terminal.
    """
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from tqdm import tqdm

    with tqdm(total=total, unit=unit, file=sys.stderr, leave=False) as bar:
        yield lambda done: bar.update(done - bar.n)


@contextmanager
def key_warnings() -> Iterator[None]:
    """Turns warnings about a key's permissions into one line on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        note(f"warning: {warning.message}")


def public_of(path: str | None) -> PublicKey | None:
    from pybfv.io.key import read_public

    return None if path is None else read_public(path)


def check_free(output: str | None, force: bool) -> None:
    """Refuses an existing output before the work, not after it."""
    if output not in (None, "-") and os.path.lexists(str(output)) and not force:
        raise OutputError(f"{output} exists: give --force or another name")


def one_stdin(*paths: str | None) -> None:
    if paths.count("-") > 1:
        raise UsageError("standard input (-) can serve one argument only")


def put(document: dict[str, Any], output: str | None, force: bool, as_json: bool, inputs: Sequence[str]) -> None:
    from pybfv.io.atomic import atomic_output

    text = json.dumps(document, ensure_ascii=True) if as_json else words(document)
    if output is None:
        click.echo(text)
        return
    with atomic_output(output, force=force, inputs=inputs) as stream:
        stream.write(text.encode() + b"\n")
