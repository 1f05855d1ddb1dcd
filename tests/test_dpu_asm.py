"""The assembly of dpu/core, run by an interpreter: equal to Python's integers and to its twins in C, and as short as
said. What UPMEM's assembler and hardware would make of the text, no test here can show."""

from __future__ import annotations

import ctypes
import random
import re
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from dpu.blocks import Block, Operand, blocks
from dpu.cases import CASES, Case, Draw, twins
from dpu.counts import rows, targets
from dpu.interp import MASK, AsmError, Machine, assemble

from dpu import blocks as extraction
from dpu import sizes

RUNS = 100
LONG = ("limb_mul_4", "limb_mac_4", "terms_product")
ALL_OF = tuple(case for case in CASES if case.steps > 1 or case.block not in {c.block for c in CASES if c.steps > 1})
"""With one term a loop does not turn back."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return twins(tmp_path_factory.mktemp("twins"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.block}-{case.argument}")
def test_block(case: Case, library: ctypes.CDLL) -> None:
    draw = Draw(7)
    executed = [case.check(case, library, draw).executed for _ in range(RUNS)]
    assert max(executed) <= case.at_most
    assert max(executed) <= blocks()[case.block].size * case.steps


def test_every_block_has_a_case() -> None:
    assert set(blocks()) == {case.block for case in CASES}


def test_counts_are_printed() -> None:
    table = {row[0]: row for row in rows()}
    assert table["wide_mul"][2:5] == (34, "34", 34)
    assert table["wide_mul"][5] == 0  # its operands are pinned so


def test_targets() -> None:
    for what, most, each, whole in targets():
        assert each <= most, what
        assert whole is None or whole[0] <= whole[1], what


# ---- the tests can fail --------------------------------------------------------------------------


def check_often(case: Case, library: ctypes.CDLL, draw: Draw) -> None:
    for _ in range(200):
        case.check(case, library, draw)


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.slow] if case.block in LONG else []) for case in ALL_OF],
    ids=[f"{case.block}-{case.argument}" for case in ALL_OF],
)
def test_every_instruction_matters(case: Case, library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any one of its instructions a block fails."""
    block = blocks()[case.block]
    lines = [line for line in block.text.split("\n") if line.strip()]
    for index, line in enumerate(lines):
        if line.strip().rstrip(":").isdigit() or (case.argument == 0 and "lsl_sub" in line and line.endswith(" 15")):
            continue  # a label; the digit that this case's primes have not
        label = line[: line.index(":") + 1] if line.strip()[:2].rstrip(":").isdigit() and ":" in line else ""
        broken = replace(block, text="\n".join([*lines[:index], label, *lines[index + 1 :]]))
        monkeypatch.setitem(blocks(), case.block, broken)
        with pytest.raises((AsmError, AssertionError)):
            check_often(case, library, Draw(index))
        monkeypatch.setitem(blocks(), case.block, block)


def test_declarations_are_held_to() -> None:
    block = Block(
        "sum",
        "add %[r], %[a], %[b]\n addc r4, %[a], 0\n",
        (Operand("r", "=&r", "r"),),
        (Operand("a", "r", "a"), Operand("b", "r", "b")),
        frozenset({"r4"}),
        {},
    )
    assert block.run(random.Random(1), a=MASK, b=2).values == {"r": 1}
    with pytest.raises(AsmError, match="writes"):
        replace(block, clobbers=frozenset()).run(random.Random(1), a=1, b=2)
    with pytest.raises(AsmError, match="writes"):
        replace(block, text="move %[r], 0\n move %[b], 0").run(random.Random(1), a=1, b=2)
    with pytest.raises(AsmError, match="memory"):
        replace(block, text="lw %[r], %[a], 0").run(random.Random(1), a=64, b=2)
    with pytest.raises(AsmError, match="takes"):
        block.run(random.Random(1), a=1)
    with pytest.raises(AsmError, match="no operand"):
        replace(block, text="move %[x], 0").run(random.Random(1), a=1, b=2)
    with pytest.raises(AsmError, match="unset"):
        replace(block, text="move r4, 0").run(random.Random(1), a=1, b=2)


def test_output_without_early_clobber_may_share_a_register() -> None:
    """``r`` is written before ``b`` is read: with "=r" some placement must go wrong."""
    outputs, inputs = (Operand("r", "=r", "r"),), (Operand("a", "r", "a"), Operand("b", "r", "b"))
    careless = Block("careless", "move %[r], %[a]\n add %[r], %[r], %[b]", outputs, inputs, frozenset(), {})
    found = set()
    for seed in range(40):
        found.add(careless.run(random.Random(seed), a=1, b=10).values["r"])
    assert found == {11, 2}


# ---- the interpreter -----------------------------------------------------------------------------


def run(text: str, **registers: int) -> Machine:
    machine = Machine(registers)
    machine.run(assemble(text))
    return machine


def test_carry() -> None:
    """As on the machine: set after a subtraction that borrowed nothing."""
    assert run("sub r2, r0, r1", r0=1, r1=2).carry == 0
    assert run("sub r2, r0, r1", r0=2, r1=1).carry == 1
    assert run("sub r2, r0, r1\n subc r3, r4, r5", r0=1, r1=2, r4=5, r5=3).registers["r3"] == 1
    assert (
        run("add r2, r0, r1\n lsl r3, r0, 4\n mul_ul_ul r3, r0, r1\n addc r3, zero, 0", r0=MASK, r1=1).registers["r3"]
        == 1
    )  # others leave it
    assert run("sub r2, r0, r1\n addc r3, r3, -1", r0=1, r1=2, r3=7).registers["r3"] == 6


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("mul_ul_uh r2, r0, r1", 0x78 * 0xDE),
        ("mul_uh_ul r2, r0, r1", 0x56 * 0xF0),
        ("lsl_add r2, r0, r1, 8", (0x12345678 + (0x9ABCDEF0 << 8)) & MASK),
        ("lsl_sub r2, r0, r1, 4", (0x12345678 - (0x9ABCDEF0 << 4)) & MASK),
        ("lsr_add r2, r0, r1, 16", 0x12345678 + 0x9ABC),
        ("lsr r2, r1, 16", 0x9ABC),
        ("xor r2, r0, r1", 0x12345678 ^ 0x9ABCDEF0),
        ("move r2, -1", MASK),
        ("sub r2, r0, r1, geu, 1f\n add r2, r2, r1\n1:", 0x12345678),
        ("sub r2, r1, r0, geu, 1f\n add r2, r2, r0\n1:", 0x9ABCDEF0 - 0x12345678),
        ("mul_ul_ul r2, r0, r1, spl, 1f\n move r2, 0\n1:", 0x78 * 0xF0),
        ("mul_ul_ul r2, r1, r0, spl, 1f\n move r2, 0\n1:", 0),
        ("move r2, 0\n move r3, 5\n1: add r2, r2, r3\n add r3, r3, -1, nz, 1b", 15),
    ],
)
def test_meaning(text: str, value: int) -> None:
    assert run(text, r0=0x12345678, r1=0x9ABCDEF0).registers["r2"] == value


def test_pairs() -> None:
    machine = Machine({"r0": 64, "r4": 0x11111111, "r5": 0x22222222})
    machine.run(assemble("sd r0, 8, d4\n ld d6, r0, 8\n lw r8, r0, 8"))
    assert (machine.registers["r6"], machine.registers["r7"], machine.registers["r8"]) == (
        0x11111111,
        0x22222222,
        0x22222222,
    )


def test_parity() -> None:
    assert run("add r0, r2, r4\n add r0, r2, r3\n mul_ul_ul r0, r2, r2", r2=1, r3=1, r4=1).conflicts == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mul_step d0, r2, d0, 4", "unknown instruction"),
        ("umul r0, r1, r2", "unknown instruction"),
        ("add r0, r1", "operands"),
        ("addc r0, r0, zero", "no register that can stand here"),
        ("subc r0, r0, 0", "condition only"),
        ("add zero, r0, r1", "cannot be written"),
        ("add r24, r0, r1", "cannot be written"),
        ("lsl r0, r1, 32", "below 32"),
        ("lsl_add r0, r1, r2, r3", "below 32"),
        ("add r0, r1, 1000, nz, 1f\n1:", "8 bits"),
        ("add r0, r1, r2, geu, 1f\n1:", "no condition geu"),
        ("ld d3, r0, 0", "not a pair"),
        ("jump 1f", "nothing is labelled"),
        ("sub r0, r1, r2, geu, 1f", "nothing is labelled"),
        ("move r0, %[a]", "no register"),
    ],
)
def test_refuses_text(text: str, said: str) -> None:
    with pytest.raises(AsmError, match=said):
        assemble(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("add r0, r1, r9", "read before"),
        ("addc r0, r1, r1", "carry is read before"),
        ("ld d4, r2, 0", "aligned"),
        ("lw r4, zero, 0", "null"),
        ("lw r4, r3, 0", "out of WRAM"),
        ("1: jump 1b", "still running"),
    ],
)
def test_refuses_runs(text: str, said: str) -> None:
    with pytest.raises(AsmError, match=said):
        run(text, r1=0, r2=68, r3=1 << 16)


def test_extraction_reads_what_the_compiler_reads() -> None:
    """Every asm statement of the preprocessed text is a block, and nothing else is."""
    text = extraction.preprocessed()
    pins = text.count('__asm__("r') + text.count('__asm__("d')
    assert text.count("__asm__") - pins == len(blocks())


# ---- sizes of programs ---------------------------------------------------------------------------


def elf(*sections: tuple[int, int, int, bytes], functions: tuple[tuple[str, int], ...] = ()) -> bytes:
    """A linked program: sections (type, flags, address, content), symbols of functions (name, bytes)."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name, _ in functions)
    symbols, at = b"", 1
    for name, size in functions:
        symbols += struct.pack("<IIIBBH", at, 0, size, 2, 0, 1)
        at += len(name) + 1
    contents = [*sections, (3, 0, 0, names), (2, 0, 0, symbols)]
    body, headers, offset = b"", b"", 52
    for kind, flags, address, content in contents:
        link = len(contents) - 2 if kind == 2 else 0
        headers += struct.pack("<10I", 0, kind, flags, address, offset + len(body), len(content), link, 0, 0, 0)
        body += content
    head = b"\x7fELF\x01\x01" + bytes(26) + struct.pack("<I", offset + len(body)) + bytes(10)
    return head + struct.pack("<HHH", 40, len(contents), 0) + body + headers


def test_sizes_of_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, data, mram, atomic, comment = (
        (1, 6, 0x80000000, bytes(8 * 300)),
        (1, 3, 0x100, bytes(1000)),
        (1, 3, 0x08000000, bytes(64)),
        (1, 2, 0xF0000000, bytes(256)),
        (1, 0, 0, bytes(77)),
    )
    program = sizes.read(elf(text, data, mram, atomic, comment, functions=(("main", 80), ("stage", 1600))))
    assert program == sizes.Program(300, 1000, 64, (("stage", 200), ("main", 10)))
    fitting, large, wide, none = (tmp_path / name for name in ("a.dpu", "b.dpu", "c.dpu", "d.dpu"))
    fitting.write_bytes(elf((1, 6, 0x80000000, bytes(8 * 4096)), (1, 3, 0, bytes(sizes.WRAM_STATIC["ntt"]))))
    large.write_bytes(elf((1, 6, 0x80000000, bytes(8 * 4097))))
    wide.write_bytes(elf(text, (1, 3, 0, bytes(sizes.WRAM_STATIC["ntt"] + 1))))
    none.write_bytes(b"\x7fELF\x02\x01" + bytes(100))
    assert sizes.main([str(fitting)]) == 0
    assert "4096" in capsys.readouterr().out
    for path, said in (
        (large, "does not fit"),
        (wide, "does not fit"),
        (none, "not a 32"),
        (tmp_path / "e", "No such"),
    ):
        assert sizes.main([str(path)]) == 1
        assert said in capsys.readouterr().err


def test_sizes_know_the_heaps() -> None:
    """The limits are what abi.h leaves beside the heaps."""
    text = (extraction.ROOT / "dpu/core/abi.h").read_text()
    for family, static in sizes.WRAM_STATIC.items():
        stack = re.search(rf"BFV_{family.upper()}_STACK_BYTES = (\d+),", text)
        heap = re.search(
            rf"BFV_{family.upper()}_HEAP_BYTES = \(1 << 16\) - (\d+) - (\d+) \* BFV_{family.upper()}_STACK_BYTES,", text
        )
        assert stack is not None
        assert heap is not None
        assert int(heap[1]) + int(heap[2]) * int(stack[1]) == static


@pytest.mark.parametrize("goal", ["dpu", "host", "check-dpu"])
@pytest.mark.parametrize("home", ["", "/nonexistent"])
def test_without_an_sdk_make_says_so_in_one_line(goal: str, home: str) -> None:
    command = ["make", "--no-print-directory", goal, f"UPMEM_HOME={home}"]
    done = subprocess.run(command, cwd=extraction.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert "UPMEM SDK" in done.stderr
    assert home in done.stderr
    assert ("was not run" in done.stderr) == (goal == "check-dpu")
