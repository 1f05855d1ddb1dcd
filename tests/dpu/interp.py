"""An interpreter of exactly the DPU instructions that the assembly blocks of dpu/core use.

It refuses what it does not know: an instruction, a condition, a form of operands that UPMEM's assembler has not.
It also refuses what is wrong whatever the result: a register or the carry read before it was written, an address out
of WRAM or not aligned. Meanings after UPMEM's instruction reference: ``addc`` adds the carry; ``sub`` is
ra + ~rb + 1, so that the carry is set when nothing was borrowed; only additions and subtractions write the carry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

MASK = 0xFFFFFFFF
WRAM = 1 << 16
CONSTANTS = {"zero": 0, "one": 1, "lneg": MASK, "mneg": 1 << 31}
REGISTERS = tuple(f"r{i}" for i in range(24))
PAIRS = ("d0", *(f"d{i}" for i in range(2, 24, 2)))
"""d2k is r(2k), the high word, and r(2k + 1)."""

SUMS = {"add", "addc", "sub", "subc"}
LOGIC = {"and", "or", "xor", "lsl", "lsr"}
PRODUCTS = {f"mul_{a}_{b}" for a in ("ul", "uh") for b in ("ul", "uh")}
SHIFTED = {"lsl_add", "lsl_sub", "lsr_add"}
COMMON = {"z", "nz", "pl", "mi", "sz", "snz", "spl", "smi"}
CONDITIONS = {
    "add": {*COMMON, "c", "nc", "true"},
    "addc": {*COMMON, "c", "nc", "true"},
    "sub": {*COMMON, "ltu", "geu", "true"},
    "subc": {*COMMON, "ltu", "geu", "true"},
    **{op: {*COMMON, "true"} for op in (*LOGIC, *PRODUCTS, *SHIFTED, "move")},
}


class AsmError(Exception):
    """Text that is no assembly of a DPU, or a run that a correct block never makes."""


@dataclass(frozen=True)
class Instruction:
    op: str
    operands: tuple[str, ...]
    condition: str | None = None
    target: int | None = None
    """Index of the instruction jumped to."""
    text: str = ""


def halves(pair: str) -> tuple[str, str]:
    """The registers of a pair, (high, low)."""
    if pair not in PAIRS:
        raise AsmError(f"{pair} is not a pair")
    k = int(pair[1:])
    return f"r{k}", f"r{k + 1}"


def is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+", text) is not None


def _writable(text: str, line: str) -> None:
    if text not in REGISTERS:
        raise AsmError(f"{line}: {text} cannot be written")


def _readable(text: str, line: str, *, second: bool = False) -> None:
    """Constant registers are readable as first operand only."""
    if text not in REGISTERS and (second or text not in CONSTANTS):
        raise AsmError(f"{line}: {text} is no register that can stand here")


def _offset(text: str, line: str) -> None:
    if not is_number(text) or not -(1 << 23) <= int(text) < 1 << 23:
        raise AsmError(f"{line}: {text} is no offset")


def _check(op: str, args: list[str], condition: str | None, line: str) -> None:
    """Whether the assembler has this form."""

    def count(n: int) -> None:
        if len(args) != n:
            raise AsmError(f"{line}: {len(args)} operands where {n} belong")

    if op in SUMS or op in LOGIC or op in PRODUCTS:
        count(3)
        _writable(args[0], line)
        _readable(args[1], line)
        if not is_number(args[2]) or op in PRODUCTS:
            _readable(args[2], line, second=True)
        elif op in ("lsl", "lsr"):
            if not 0 <= int(args[2]) < 32:
                raise AsmError(f"{line}: a shift is below 32")
        elif op == "subc" and condition is None:
            raise AsmError(f"{line}: subc of a number exists with a condition only; write addc of -number - 1")
        elif condition is not None and not -128 <= int(args[2]) < 128:
            raise AsmError(f"{line}: with a jump a number has 8 bits")
    elif op in SHIFTED:
        count(4)
        _writable(args[0], line)
        _readable(args[1], line)
        _readable(args[2], line, second=True)
        if not is_number(args[3]) or not 0 <= int(args[3]) < 32:
            raise AsmError(f"{line}: a shift is a number below 32")
    elif op == "move":
        count(2)
        _writable(args[0], line)
        if not is_number(args[1]):
            _readable(args[1], line)
    elif op in ("lw", "ld"):
        count(3)
        (_writable if op == "lw" else lambda pair, _: halves(pair))(args[0], line)
        _readable(args[1], line)
        _offset(args[2], line)
    elif op in ("sw", "sd"):
        count(3)
        _readable(args[0], line)
        _offset(args[1], line)
        if op == "sw":
            _readable(args[2], line, second=True)
        else:
            halves(args[2])
    else:
        raise AsmError(f"{line}: unknown instruction")


@lru_cache(maxsize=1024)
def assemble(text: str) -> tuple[Instruction, ...]:
    """The instructions of a block, numeric labels (``1:``, ``1f``, ``1b``) resolved.

    Raises AsmError for anything else than the forms above.
    """
    lines: list[str] = []
    labels: list[tuple[str, int]] = []
    for raw in re.split(r"[\n;]", text):
        line = raw.strip()
        while (label := re.match(r"(\d+):\s*", line)) is not None:
            labels.append((label[1], len(lines)))
            line = line[label.end() :]
        if line:
            lines.append(line)

    def resolve(name: str, at: int, line: str) -> int:
        found = re.fullmatch(r"(\d+)([fb])", name)
        if found is None:
            raise AsmError(f"{line}: {name} is no label")
        places = [index for label, index in labels if label == found[1]]
        places = [i for i in places if i > at] if found[2] == "f" else [i for i in places if i <= at][::-1]
        if not places:
            raise AsmError(f"{line}: nothing is labelled {name}")
        return places[0]

    program = []
    for at, line in enumerate(lines):
        op, _, rest = line.partition(" ")
        args = [word.strip() for word in rest.split(",")] if rest.strip() else []
        condition, target = None, None
        if op == "jump":
            if len(args) != 1:
                raise AsmError(f"{line}: jump takes a label")
            program.append(Instruction("jump", (), "true", resolve(args[0], at, line), line))
            continue
        if len(args) >= 2 and re.fullmatch(r"\d+[fb]", args[-1]) and not is_number(args[-1]):
            target, condition = resolve(args[-1], at, line), args[-2]
            args = args[:-2]
            if condition not in CONDITIONS.get(op, ()):
                raise AsmError(f"{line}: {op} has no condition {condition}")
        _check(op, args, condition, line)
        program.append(Instruction(op, tuple(args), condition, target, line))
    return tuple(program)


@dataclass
class Machine:
    """One tasklet: registers, carry, WRAM; counts of what it has executed."""

    registers: dict[str, int] = field(default_factory=dict)
    """Only what was written; reading another is an error."""
    memory: bytearray = field(default_factory=lambda: bytearray(WRAM))
    carry: int | None = None
    executed: int = 0
    conflicts: int = 0
    """Instructions whose two source registers are both even or both odd: a cycle each."""
    written: set[str] = field(default_factory=set)
    loads: int = 0
    stores: int = 0

    def _get(self, name: str, line: str) -> int:
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name not in self.registers:
            raise AsmError(f"{line}: {name} is read before it is written")
        return self.registers[name]

    def _set(self, name: str, value: int) -> None:
        self.registers[name] = value & MASK
        self.written.add(name)

    def _sources(self, *names: str) -> None:
        numbers = {int(name[1:]) for name in names if name in REGISTERS}
        if len(numbers) == 2 and len({n % 2 for n in numbers}) == 1:
            self.conflicts += 1

    def _address(self, base: str, offset: str, size: int, line: str) -> int:
        at = (self._get(base, line) + int(offset)) & MASK
        if at % size != 0 or at < 8 or at + size > WRAM:
            raise AsmError(f"{line}: address {at:#x} is not aligned, null or out of WRAM")
        return at

    def _sum(self, op: str, a: int, b: int, line: str) -> int:
        if op in ("addc", "subc"):
            if self.carry is None:
                raise AsmError(f"{line}: the carry is read before it is written")
            more = self.carry
        else:
            more = int(op == "sub")
        total = a + (b if op in ("add", "addc") else ~b & MASK) + more
        self.carry = total >> 32
        return total & MASK

    def _memory(self, op: str, args: tuple[str, ...], line: str) -> None:
        size = 4 if op in ("lw", "sw") else 8
        if op in ("lw", "ld"):
            self.loads += 1
            at = self._address(args[1], args[2], size, line)
            value = int.from_bytes(self.memory[at : at + size], "little")
            if op == "lw":
                self._set(args[0], value)
            else:
                for name, word in zip(halves(args[0]), (value >> 32, value), strict=True):
                    self._set(name, word)
        else:
            self.stores += 1
            at = self._address(args[0], args[1], size, line)
            if op == "sw":
                value = self._get(args[2], line)
                self._sources(args[0], args[2])
            else:
                high, low = halves(args[2])
                value = self._get(high, line) << 32 | self._get(low, line)
            self.memory[at : at + size] = value.to_bytes(size, "little")

    def _compute(self, op: str, args: tuple[str, ...], line: str) -> tuple[int, int]:
        """The result and the first operand, for the conditions."""
        if op == "move":
            a = int(args[1]) & MASK if is_number(args[1]) else self._get(args[1], line)
            return a, a
        a = self._get(args[1], line)
        b = int(args[2]) & MASK if is_number(args[2]) else self._get(args[2], line)
        self._sources(args[1], args[2])
        if op in SUMS:
            return self._sum(op, a, b, line), a
        if op in PRODUCTS:
            x = a >> 8 if op[4:6] == "uh" else a
            y = b >> 8 if op[7:9] == "uh" else b
            return (x & 255) * (y & 255), a
        if op in SHIFTED:
            shift = int(args[3])
            moved = b >> shift if op == "lsr_add" else b << shift
            return (a - moved if op == "lsl_sub" else a + moved) & MASK, a
        logic = {"and": a & b, "or": a | b, "xor": a ^ b, "lsl": a << (b & 31), "lsr": a >> (b & 31)}
        return logic[op] & MASK, a

    def _holds(self, condition: str, result: int, source: int) -> bool:
        return {
            "true": True,
            "z": result == 0,
            "nz": result != 0,
            "pl": result >> 31 == 0,
            "mi": result >> 31 == 1,
            "sz": source == 0,
            "snz": source != 0,
            "spl": source >> 31 == 0,
            "smi": source >> 31 == 1,
            "c": self.carry == 1,
            "nc": self.carry == 0,
            "geu": self.carry == 1,
            "ltu": self.carry == 0,
        }[condition]

    def run(self, program: tuple[Instruction, ...], limit: int = 100_000) -> None:
        """Runs to the end of the text. Raises AsmError, also past ``limit`` instructions."""
        at = 0
        while at < len(program):
            instruction = program[at]
            op, args, line = instruction.op, instruction.operands, instruction.text
            self.executed += 1
            if self.executed > limit:
                raise AsmError(f"{line}: still running after {limit} instructions")
            at += 1
            if op == "jump":
                at = instruction.target if instruction.target is not None else at
                continue
            if op in ("lw", "ld", "sw", "sd"):
                self._memory(op, args, line)
                continue
            result, source = self._compute(op, args, line)
            self._set(args[0], result)
            if (
                instruction.condition is not None
                and instruction.target is not None
                and self._holds(instruction.condition, result, source)
            ):
                at = instruction.target
