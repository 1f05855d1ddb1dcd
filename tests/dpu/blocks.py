"""The asm statements of dpu/core, as the C preprocessor leaves them: text, operands, pinned registers, clobbers."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .interp import PAIRS, REGISTERS, AsmError, Machine, assemble, halves

ROOT = Path(__file__).resolve().parent.parent.parent
HEADERS = ("limb.h", "ntt_fast.h", "terms.h")
FREE = REGISTERS[:22]
"""r22 is the stack pointer, r23 the return address."""


@dataclass(frozen=True)
class Operand:
    name: str
    constraint: str
    variable: str


@dataclass(frozen=True)
class Run:
    """What a run left: each operand's value afterwards, and the counts."""

    values: dict[str, int]
    executed: int
    conflicts: int
    machine: Machine


@dataclass(frozen=True)
class Block:
    name: str
    text: str
    outputs: tuple[Operand, ...]
    inputs: tuple[Operand, ...]
    clobbers: frozenset[str]
    pins: Mapping[str, str]
    """C variable -> its register."""

    @property
    def size(self) -> int:
        """Instructions in the text."""
        return len(assemble(self._placed(self.place(random.Random(0)))))

    def place(self, rng: random.Random) -> dict[str, str]:
        """Registers for the operands, as a compiler might choose them: an output without & may share an input's."""
        taken = {name for name in self.clobbers if name in REGISTERS}
        places: dict[str, str] = {}
        for operand in (*self.outputs, *self.inputs):
            pin = self.pins.get(operand.variable)
            if pin is not None:
                places[operand.name] = pin
                taken.update(halves(pin) if pin in PAIRS else (pin,))
        for operand in (*self.inputs, *(o for o in self.outputs if "&" in o.constraint or "+" in o.constraint)):
            if operand.name not in places:
                free = [name for name in FREE if name not in taken]
                if not free:
                    raise AsmError(f"{self.name}: more operands than registers")
                places[operand.name] = rng.choice(free)
                taken.add(places[operand.name])
        for operand in self.outputs:
            if operand.name not in places:
                shareable = [places[i.name] for i in self.inputs if places[i.name] not in self.pins.values()]
                places[operand.name] = rng.choice(shareable or [name for name in FREE if name not in taken])
        return places

    def _placed(self, places: Mapping[str, str]) -> str:
        def register(found: re.Match[str]) -> str:
            name = found[1] or f"%{found[2]}"
            if name not in places:
                raise AsmError(f"{self.name}: no operand {name}")
            return places[name]

        return re.sub(r"%(?:\[(\w+)\]|(\d+))", register, self.text)

    def run(self, rng: random.Random, memory: bytearray | None = None, **values: int) -> Run:
        """Runs the block on ``values`` of its inputs and "+" outputs, by operand name.

        Raises AsmError when the text writes a register that it does not declare, touches memory without saying so,
        or changes an input.
        """
        places = self.place(rng)
        program = assemble(self._placed(places))
        machine = Machine() if memory is None else Machine(memory=memory)
        given = {o.name for o in self.inputs} | {o.name for o in self.outputs if "+" in o.constraint}
        if given != set(values):
            raise AsmError(f"{self.name} takes {sorted(given)}, not {sorted(values)}")
        for name, value in values.items():
            place = places[name]
            if place in PAIRS:
                high, low = halves(place)
                machine.registers[high], machine.registers[low] = value >> 32, value & 0xFFFFFFFF
            else:
                machine.registers[place] = value
        machine.run(program)
        own: set[str] = set()
        for operand in self.outputs:
            place = places[operand.name]
            own.update(halves(place) if place in PAIRS else (place,))
        stray = machine.written - own - self.clobbers
        if stray:
            raise AsmError(f"{self.name} writes {sorted(stray)} without saying so")
        if (machine.loads or machine.stores) and "memory" not in self.clobbers:
            raise AsmError(f"{self.name} reaches memory without saying so")
        after = {}
        for operand in self.outputs:
            place = places[operand.name]
            words = [machine.registers.get(name) for name in (halves(place) if place in PAIRS else ("zero", place))]
            if words[1] is None:
                raise AsmError(f"{self.name} leaves {operand.name} unset")
            after[operand.name] = (words[0] or 0) << 32 | words[1]
        return Run(after, machine.executed, machine.conflicts, machine)


# ---- from C ----------------------------------------------------------------------------------------


def _closing(text: str, at: int) -> int:
    """Index of the bracket that closes the one at ``at``; strings may hold others."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    stack: list[str] = []
    for token in re.finditer(r'"(?:\\.|[^"\\])*"|[(){}\[\]]', text[at:]):
        mark = token[0]
        if mark in pairs:
            stack.append(pairs[mark])
        elif mark in pairs.values():
            if mark != stack.pop():
                raise AsmError("brackets do not match")
            if not stack:
                return at + token.start()
    raise AsmError("an open bracket")


def _split(text: str, mark: str) -> list[str]:
    """Split at ``mark`` outside of strings and brackets."""
    parts, depth, last = [], 0, 0
    for token in re.finditer(r'"(?:\\.|[^"\\])*"|[(){}\[\],:]', text):
        if token[0] in "([{":
            depth += 1
        elif token[0] in ")]}":
            depth -= 1
        elif token[0] == mark and depth == 0:
            parts.append(text[last : token.start()].strip())
            last = token.end()
    return [*parts, text[last:].strip()]


def _string(text: str) -> str:
    """The C string literals of ``text``, joined."""
    rest = re.sub(r'"(?:\\.|[^"\\])*"', "", text).strip()
    if rest:
        raise AsmError(f"not a string: {rest}")
    joined = "".join(part[1:-1] for part in re.findall(r'"(?:\\.|[^"\\])*"', text))
    return joined.replace("\\n", "\n").replace("\\t", "\t")


def _operands(text: str, first: int) -> tuple[Operand, ...]:
    found = []
    for number, part in enumerate(_split(text, ",") if text else []):
        match = re.fullmatch(r'(?:\[(\w+)\])?\s*"([^"]*)"\s*\((.*)\)', part, re.S)
        if match is None:
            raise AsmError(f"not an operand: {part}")
        found.append(Operand(match[1] or f"%{first + number}", match[2], match[3].strip()))
    return tuple(found)


def _block(name: str, statement: str, pins: Mapping[str, str]) -> Block:
    parts = [*_split(statement, ":"), "", "", ""][:4]
    outputs = _operands(parts[1], 0)
    return Block(
        name,
        _string(parts[0]),
        outputs,
        _operands(parts[2], len(outputs)),
        frozenset(_string(clobber) for clobber in _split(parts[3], ",") if clobber),
        pins,
    )


@cache
def preprocessed() -> str:
    """dpu/core as a DPU's compiler sees it, without the system's headers."""
    source = "".join(f'#include "{header}"\n' for header in HEADERS)
    command = ["cc", "-E", "-P", "-std=c11", "-DDPU", "-DBFV_FAMILY_NTT", f"-I{ROOT}/dpu/core", "-x", "c", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


@cache
def blocks() -> dict[str, Block]:
    """Every asm statement of dpu/core: by its function's name, or ``function/case`` in a switch."""
    text, found = preprocessed(), {}
    for head in re.finditer(r"\b(\w+)\s*\(([^(){};]*)\)\s*\{", text):
        if head[1] in ("if", "for", "while", "switch"):
            continue
        start = head.end() - 1
        body = text[start : _closing(text, start)]
        pins = {}
        for declaration in re.finditer(r"\bregister\s[^;]*;", body):
            for variable, register in re.findall(r'(\w+)\s+__asm__\s*\(\s*"(\w+)"\s*\)', declaration[0]):
                pins[variable] = register
        for statement in re.finditer(r'__asm__\s*(?:volatile)?\s*\((?!\s*"\w+"\s*\))', body):
            opening = statement.end() - 1
            before = body[: statement.start()]
            cases = re.findall(r"\b(?:case\s+(\d+)|(default))\s*:", before)
            name = head[1] + (f"/{cases[-1][0] or cases[-1][1]}" if cases else "")
            if name in found:
                raise AsmError(f"two statements in {name}")
            found[name] = _block(name, body[opening + 1 : _closing(body, opening)], pins)
    return found
