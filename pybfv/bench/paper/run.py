"""Measures the panels one after the other; what is done stays in a folder, and a rerun goes on from there."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pybfv import __version__
from pybfv.bench.measure import machine
from pybfv.bench.paper import measured, report, rows
from pybfv.bench.paper.facts import DPUS, PANELS, SETS
from pybfv.bench.paper.measured import Scale, Timing
from pybfv.errors import OutputError
from pybfv.io.atomic import atomic_output
from pybfv.params import get_set


def quick() -> Scale:
    """Less than a minute."""
    return Scale("quick", _resident(64 << 20), 16, 1)


def whole() -> Scale:
    """Minutes."""
    return Scale("whole", _resident(256 << 20), 64, 5)


def _resident(least: int) -> int:
    """Twice the caches, 1 GiB at most."""
    return min(max(least, 2 * measured.cache_bytes()), 1 << 30)


STEPS = len(PANELS) + 3 * len(SETS)
"""Steps that ``progress`` counts at most: panels, and for each level our side, the limb kernels and SEAL."""


def measure(
    scale: Scale,
    kernels: Sequence[str],
    folder: str | None = None,
    force: bool = False,
    progress: Callable[[int], None] = lambda done: None,
    told: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """All panels as one document; with ``folder`` written there too.

    ``kernels``: of "limb" and "ntt". A folder that holds panels of the same run is continued, or ``force`` starts anew.
    OutputError where it holds another run's, or can't be written.
    """
    key = {"version": __version__, "scale": scale.name, "kernels": list(kernels), "machine": machine(), "dpus": DPUS}
    place = None if folder is None else _Folder(Path(folder), key, force)
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        progress(done)

    @cache
    def ours(bits: int) -> dict[tuple[str, str], Timing]:
        found = measured.ours(get_set(SETS[bits]), scale)
        step()
        return found

    @cache
    def limb(bits: int) -> dict[str, Timing]:
        found = measured.limb(get_set(SETS[bits]), scale)
        step()
        return found

    @cache
    def seal(bits: int) -> measured.Seal | None:
        found = measured.seal(get_set(SETS[bits]).n, scale)
        step()
        return found

    times = rows.Times(ours, limb, seal)
    panels = []
    for panel in PANELS:
        kept = place.load(panel.name) if place else None
        if kept is None:
            found = list(rows.rows_of(panel, kernels, times))
            kept = {"name": panel.name, "title": panel.title, "counts": panel.counts, "rows": found}
            kept["text"] = rows.text_of(panel, found)
            if place:
                place.save(panel.name, kept)
        panels.append(kept)
        step()
    if panels[0]["rows"][0]["measured_seal_s"] is None:
        told("no SEAL: its columns are empty (pip install 'pybfv[seal]')")
    document = {
        "schema_version": 1,
        **key,
        "versions": _versions(),
        "columns": list(rows.COLUMNS),
        "panels": panels,
        "notes": list(report.NOTES),
    }
    if place:
        place.finish(document, told)
    return document


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name in ("numpy", "tenseal"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


class _Folder:
    """The output folder: panel-NAME.json as each is done; paper.json, paper.csv, paper.txt and plots at the end."""

    def __init__(self, path: Path, key: dict[str, Any], force: bool) -> None:
        self._path, self._key = path, key
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise OutputError(f"{path} can't be a folder for the figures: {e.strerror}") from None
        for old in sorted(path.glob("panel-*.json")):
            if force:
                old.unlink(missing_ok=True)
            elif self._read(old).get("key") != key:
                raise OutputError(f"{old} is of another run: give --force to start anew, or another folder")

    @staticmethod
    def _read(path: Path) -> dict[str, Any]:
        try:
            found = json.loads(path.read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def load(self, name: str) -> dict[str, Any] | None:
        """A panel that is done."""
        return self._read(self._path / f"panel-{name}.json").get("panel")

    def save(self, name: str, panel: dict[str, Any]) -> None:
        """Keeps a panel."""
        self._write(f"panel-{name}.json", _json({"key": self._key, "panel": panel}))

    def finish(self, document: dict[str, Any], told: Callable[[str], None]) -> None:
        """Everything that is made of the panels."""
        self._write("paper.json", _json(document))
        self._write("paper.csv", report.table(document["panels"]))
        self._write("paper.txt", report.text(document).encode() + b"\n")
        files = report.plots(document["panels"])
        if files is None:
            told("no plots: matplotlib is not installed (pip install 'pybfv[plots]')")
        for name, content in (files or {}).items():
            self._write(name, content)

    def _write(self, name: str, content: bytes) -> None:
        with atomic_output(str(self._path / name), force=True) as stream:
            stream.write(content)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=True, indent=1).encode() + b"\n"
