"""All rows in one run, and the document that is made of them."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pybfv import native
from pybfv.bench.measure import Row, check, machine
from pybfv.bench.our_side import OurSide
from pybfv.bench.seal_side import BGV, DEFAULT, LIKE, SealSide
from pybfv.bench.speed import client, server
from pybfv.bench.speed.rows import (
    MESSAGES,
    SETS,
    SQUARES,
    Scale,
    SpeedRow,
    Work,
    alternate,
    fits_products,
    random_messages,
)

SHARE = 0.6
"""Of the targets at N = 4096, what is asked at other N."""

Document = dict[str, Any]


def measure(scale: Scale, told: Callable[[str], None] = lambda text: None) -> Document:
    """Every row. SystemExit where a result of either side is wrong: then no figure is worth anything."""
    rows: list[SpeedRow] = []
    sides: list[Document] = []
    for n in scale.sizes:
        told(f"bench: N = {n} ...")
        rows += _size(n, scale, sides)
    others: list[Row] = []
    if scale.files:
        from pybfv.bench import files, simulator

        told("bench: from file to file ...")
        others += files.measure()
        told("bench: the simulator beside the cpu ...")
        others += simulator.measure()
    return {
        "schema_version": 2,
        "scale": scale.name,
        "machine": {"cpu": machine(), "bodies": native.bodies()},
        "versions": {name: _version(name) for name in ("pybfv", "tenseal", "numpy", "pyarrow")},
        "rows": [row.document() for row in rows],
        "others": [
            {
                "name": r.name, "unit": r.unit, "ours": r.ours, "at_least": r.at_least, "below": r.below,
                "met": r.met,
            }
            for r in others
        ],
        "sides": sides,
    }  # fmt: skip


def missed(document: Document) -> list[str]:
    """The rows that miss what is asked of them."""
    found = [f"{r['job']}, {r['set']}, against {r['against']}" for r in document["rows"] if r["met"] is False]
    return found + [r["name"] for r in document["others"] if r["met"] is False]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _size(n: int, scale: Scale, sides: list[Document]) -> list[SpeedRow]:
    name, t = SETS[n]
    messages = random_messages(n, t)
    ours = OurSide(name, t, messages, scale.count)
    sums = server.Sums(ours)
    total, squares = server.expected_sums(ours)
    products = fits_products(n)
    if products:
        sums.checked("sum", total)
        sums.checked("product", squares)
        sums.checked("scaled", squares)
        sums.checked_regression()
    else:
        sums.checked_mod_q()
    main, rows = n == 4096, []
    sides.append(_our_side(ours, sums, products))
    for kind in (DEFAULT, LIKE, BGV) if main else (DEFAULT,):
        seal = SealSide(kind, t, messages, scale.count)
        squared = _check_seal(seal, ours, total, products)
        sides.append(_seal_side(seal, squared, products))
        if kind == BGV:
            rows.append(_bgv(sums, seal, scale))
            continue
        share = None if kind == LIKE else 1.0 if main else SHARE
        found = server.rows(ours, sums, seal, scale, share)
        rows += found
        if products:
            rows += client.rows(ours, seal, scale, share)
        if main and kind == DEFAULT:
            some = min(SQUARES, seal.count)
            pair = alternate(1, sums.work("product"), Work(lambda s=seal, k=some: s.squares(k, k), some))
            rows.append(server.quoted(found[1], pair.others[0]))
            rows += server.portable(ours, seal, scale)
        del seal, squared
    if main:
        rows += server.alone(ours, sums, scale)
        rows += client.two_threads(ours, scale)
    return rows


def _check_seal(seal: SealSide, ours: OurSide, total: list[int], products: bool) -> Any:
    if not products:  # nor does the noise of a long sum fit at N = 1024
        expected = ours.messages[:2].sum(axis=0) % ours.t
        check(seal.decrypt(seal.sum(2)) == expected.tolist(), "SEAL's sum of two")
        return None
    check(seal.decrypt(seal.sum()) == total, f"SEAL's sum, {seal.kind}")
    some = min(SQUARES, MESSAGES, seal.count)
    squared = seal.squares(some, some)
    expected = sum(m * m for m in ours.messages[:some].astype(object)) % ours.t
    check(seal.decrypt(squared) == expected.tolist(), f"SEAL's squares, {seal.kind}")
    return squared


def _bgv(sums: server.Sums, seal: SealSide, scale: Scale) -> SpeedRow:
    some = min(SQUARES, seal.count)
    pair = alternate(scale.repeats, sums.work("product"), Work(lambda: seal.squares(some, some), some))
    return pair.row(f"variance of {sums.count}, scale-free", sums.ours.name, "SEAL BGV, square and add", 6.0)


def _our_side(ours: OurSide, sums: server.Sums, products: bool) -> Document:
    total = ours.budget(_finished(sums, "sum"))
    facts = {
        "side": f"pybfv {ours.name}", "n": ours.n, "data_level_bits": round(ours.bits, 1), "t": ours.t,
        "bytes_per_ciphertext": ours.bytes, "security": "128 bits", "relinearised": False,
        "noise_budget_after_sum": int(total), "noise_budget_after_squares": None,
    }  # fmt: skip
    if products:
        left = {kind: int(ours.budget(_finished(sums, kind))) for kind in ("product", "scaled")}
        facts["noise_budget_after_squares"] = {"scale-free": left["product"], "scaled": left["scaled"]}
    return facts


def _finished(sums: server.Sums, kind: str) -> Any:
    return sums.finish(sums.accumulate(kind, [(0, 0)])[0])


def _seal_side(seal: SealSide, squared: Any, products: bool) -> Document:
    return {
        "side": f"SEAL {seal.kind}", "n": seal.n, "data_level_bits": round(seal.bits, 1), "t": seal.t,
        "bytes_per_ciphertext": seal.bytes,
        "relinearised": False,
        "security": "none (its check is off)" if seal.kind == LIKE else "128 bits, 2018 standard",
        "noise_budget_after_sum": seal.budget(seal.sum()),
        "noise_budget_after_squares": seal.budget(squared) if products else None,
    }  # fmt: skip
