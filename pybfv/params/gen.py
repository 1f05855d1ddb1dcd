"""Write the generated parameter tables from sets.toml.

``python -m pybfv.params.gen`` writes ``pybfv/params/_table.py`` and ``dpu/core/params_gen.h``;
``python -m pybfv.params.gen --check`` writes nothing and exits 1 when either differs.
"""

from __future__ import annotations

import difflib
import sys
import tomllib
from pathlib import Path

from pybfv.params._arith import is_prime

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COMMAND = "python -m pybfv.params.gen"
MIN_N, MAX_N, MAX_PRIMES, WORD_BITS = 8, 16384, 16, 30
WIDE_BITS = 28
PER_LENGTH, AT_TOP = 4, 10


def max_products(p: int) -> int:
    """How many products of two residues below p a 64-bit accumulator holds."""
    return (2**64 - 1) // (p - 1) ** 2


def max_sums(p: int) -> int:
    """How many residues below p a 32-bit accumulator holds."""
    return (2**32 - 1) // (p - 1)


def batching_list(n: int, excluded: set[int]) -> list[int]:
    """A spread of primes = 1 mod 2n below 2^30, sorted, without the excluded ones.

    Per bit length up to four, evenly spaced in the logarithm from the smallest to the largest;
    at 30 bits the ten largest, so that large composite t need few factors.
    """
    step, chosen = 2 * n, set(excluded)

    def nearest(target: int, low: int, high: int) -> int | None:
        base = target - target % step + 1
        for k in range((high - low) // step + 2):
            for p in (base + k * step, base - k * step):
                if max(low, 3) <= p < high and p not in chosen and is_prime(p):
                    return p
        return None

    for bits in range(2, WORD_BITS + 1):
        low, high = 2 ** (bits - 1), 2**bits
        spread = [low, high - 1, *(int(low * 2 ** (i / (PER_LENGTH - 1))) for i in range(1, PER_LENGTH - 1))]
        for target in spread if bits < WORD_BITS else [high - 1] * AT_TOP:
            p = nearest(target, low, high)
            if p is not None:
                chosen.add(p)
    return sorted(chosen - excluded)


def wide_list(count: int) -> list[int]:
    """The largest ``count`` primes = 1 mod 2 MAX_N below 2^WIDE_BITS, descending."""
    step = 2 * MAX_N
    found: list[int] = []
    p = 2**WIDE_BITS - step + 1
    while len(found) < count:
        if is_prime(p):
            found.append(p)
        p -= step
    return found


def load() -> dict:
    """sets.toml as a dictionary."""
    return tomllib.loads((HERE / "sets.toml").read_text(encoding="utf-8"))


def set_rows(source: dict) -> list[tuple[str, int, tuple[int, ...], bool]]:
    """(name, n, primes, insecure) of each set, in the order of the source."""
    rows = []
    for name, row in source["sets"].items():
        primes = row["primes"] if "primes" in row else source["chain"][: row["count"]]
        rows.append((name, row["n"], tuple(primes), row.get("insecure", False)))
    return rows


def all_primes(source: dict) -> list[int]:
    """Every ciphertext prime once: the chain first, then those that only other sets use."""
    seen = dict.fromkeys(source["chain"])
    for _, _, primes, _ in set_rows(source):
        seen.update(dict.fromkeys(primes))
    return list(seen)


def _wrap(values: list[int] | tuple[int, ...], indent: str) -> list[str]:
    lines, line = [], indent
    for value in values:
        item = f"{value}, "
        if len(line) + len(item) > 106:
            lines.append(line.rstrip())
            line = indent
        line += item
    return [*lines, line.rstrip()]


def python_text(source: dict) -> str:
    """The text of _table.py."""
    out = [f'"""Generated from sets.toml by `{COMMAND}`. Do not edit."""', "", "# fmt: off"]
    out += [f"MIN_N, MAX_N, MAX_PRIMES = {MIN_N}, {MAX_N}, {MAX_PRIMES}", "", "SECURITY = {"]
    for n, limits in source["security"].items():
        items = ", ".join(f'"{basis}": {bits}' for basis, bits in limits.items())
        out.append(f"    {n}: {{{items}}},")
    out += ["}", "", "# name, n, primes, insecure", "SETS = ("]
    for name, n, primes, insecure in set_rows(source):
        out += ["    (", f'        "{name}",', f"        {n},", "        ("]
        out += _wrap(primes, " " * 12)
        out += ["        ),", f"        {insecure},", "    ),"]
    out += [")", "", "# The wide primes of scaled products, in the order in which they are taken.", "WIDE = ("]
    out += _wrap(wide_list(source["wide"]), "    ")
    out += [")", "", "# prime: (most products in 64 bits, most residues in 32 bits)", "LIMITS = {"]
    out += [f"    {p}: ({max_products(p)}, {max_sums(p)})," for p in all_primes(source)]
    out += ["}", "", "BATCHING = {"]
    excluded = set(all_primes(source)) | set(source["reserved"])
    n = MIN_N
    while n <= MAX_N:
        out += [f"    {n}: (", *_wrap(batching_list(n, excluded), " " * 8), "    ),"]
        n *= 2
    out += ["}", "", "# Ceilings on a key's functionals, by n: see docs/noise.md.", "CEILINGS = {"]
    for n, row in source.get("ceilings", {}).items():
        out.append(f"    {n}: {{")
        out += [f'        "{key}": {value!r},' for key, value in row.items()]
        out.append("    },")
    return "\n".join([*out, "}", ""])


def header_text(source: dict) -> str:
    """The text of params_gen.h: X-macro lists only, so that it defines no object."""
    out = [
        f"/* Generated from pybfv/params/sets.toml by `{COMMAND}`. Do not edit. */",
        "#ifndef BFV_PARAMS_GEN_H",
        "#define BFV_PARAMS_GEN_H",
        "",
        "#include <stdint.h>",
        "",
        f"#define BFV_SETS_MIN_N {MIN_N}u",
        f"#define BFV_SETS_MAX_N {MAX_N}u",
        f"#define BFV_SETS_MAX_PRIMES {MAX_PRIMES}u",
        "",
        "/* X(p, log2ceil, neg_inv32, max_products, max_sums): log2ceil = ceil(log2 p);",
        " * neg_inv32 = -1/p mod 2^32; max_products = floor((2^64 - 1) / (p - 1)^2), the products of",
        " * two residues that 64 bits hold; max_sums = floor((2^32 - 1) / (p - 1)), the residues that",
        " * 32 bits hold. */",
        "#define BFV_PRIMES(X) \\",
    ]
    rows = []
    for p in all_primes(source):
        neg_inv = -pow(p, -1, 2**32) % 2**32
        limits = f"UINT64_C({max_products(p)}), {max_sums(p)}u"
        rows.append(f"    X({p}u, {p.bit_length()}u, UINT32_C({neg_inv}), {limits})")
    out += [" \\\n".join(rows), "", "/* The primes of a set, in order: BFV_SET_PRIMES_<name>. */"]
    for name, _, primes, _ in set_rows(source):
        out.append(f"#define BFV_SET_PRIMES_{name} \\")
        out.append(" \\\n".join(_wrap([f"{p}u" for p in primes], "    ")).rstrip(","))
    out += ["", "/* X(name, n, number of primes, insecure), in the planner's order. */"]
    out += ["#define BFV_SETS(X) \\"]
    out.append(
        " \\\n".join(
            f"    X({name}, {n}u, {len(primes)}u, {int(insecure)})" for name, n, primes, insecure in set_rows(source)
        )
    )
    return "\n".join([*out, "", "#endif /* BFV_PARAMS_GEN_H */", ""])


def main(arguments: list[str]) -> int:
    """Generate, or with ``--check`` compare; returns the exit status."""
    if arguments not in ([], ["--check"]):
        print(f"usage: {COMMAND} [--check]", file=sys.stderr)
        return 2
    source = load()
    wanted = {
        HERE / "_table.py": python_text(source),
        ROOT / "dpu" / "core" / "params_gen.h": header_text(source),
    }
    status = 0
    for path, text in wanted.items():
        name = path.relative_to(ROOT).as_posix()
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if old == text:
            continue
        if arguments:
            status = 1
            sys.stdout.writelines(
                difflib.unified_diff(old.splitlines(True), text.splitlines(True), name, f"{name} as generated")
            )
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
