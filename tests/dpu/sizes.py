"""Prints what DPU programs take: ``python -m tests.dpu.sizes PROGRAM...``; exit 1 when one does not fit.

Reads the ELF files that UPMEM's linker writes: instructions are 8 bytes in the file and 6 in instruction memory.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from pathlib import Path

IRAM = 4096
"""Instructions of a chip v1A."""
WRAM_STATIC = {"ntt": 2048 + 24 * 1024, "limb": 2048 + 24 * 1280}
"""Bytes for constants, arguments, the run time and the stacks: what dpu/core/abi.h leaves beside a family's heap."""
ALLOCATED, SYMBOLS, FUNCTION = 2, 2, 2
FIRST_MRAM, FIRST_IRAM, FIRST_ATOMIC = 0x08000000, 0x80000000, 0xF0000000


@dataclass(frozen=True)
class Program:
    instructions: int
    wram: int
    """Bytes, stacks included."""
    mram: int
    functions: tuple[tuple[str, int], ...]
    """(name, instructions), the largest first."""


def read(data: bytes) -> Program:
    """Raises ValueError for what is not a 32-bit little-endian ELF file with sections."""
    if data[:6] != b"\x7fELF\x01\x01" or len(data) < 52:
        raise ValueError("not a 32-bit little-endian ELF file")
    offset, size, count = *struct.unpack_from("<I", data, 32), *struct.unpack_from("<HH", data, 46)
    if size != 40 or count == 0 or offset + size * count > len(data):
        raise ValueError("its section headers are damaged")
    sections = [struct.unpack_from("<10I", data, offset + size * i) for i in range(count)]
    memory = {"iram": 0, "wram": 0, "mram": 0}
    functions: dict[str, int] = {}
    for _, kind, flags, address, start, length, link, *_ in sections:
        if flags & ALLOCATED and address < FIRST_ATOMIC:
            where = "iram" if address >= FIRST_IRAM else "mram" if address >= FIRST_MRAM else "wram"
            memory[where] += length
        if kind != SYMBOLS:
            continue
        names = sections[link][4]
        for name, _, bytes_, info, _, _ in struct.iter_unpack("<IIIBBH", data[start : start + length]):
            if info & 15 == FUNCTION and bytes_:
                end = data.index(b"\0", names + name)
                functions[data[names + name : end].decode()] = bytes_ // 8
    largest = sorted(functions.items(), key=lambda item: (-item[1], item[0]))
    return Program(memory["iram"] // 8, memory["wram"], memory["mram"], tuple(largest))


def main(paths: list[str]) -> int:
    fits = True
    print(f"{'program':14}{'instructions':>14}{'IRAM bytes':>12}{'WRAM static':>13}{'MRAM':>8}   largest functions")
    for path in paths:
        try:
            program = read(Path(path).read_bytes())
        except (OSError, ValueError) as e:
            print(f"{path}: {e}", file=sys.stderr)
            return 1
        largest = ", ".join(f"{name} {size}" for name, size in program.functions[:4])
        sizes = f"{program.instructions:14}{6 * program.instructions:12}{program.wram:13}{program.mram:8}"
        print(f"{Path(path).stem:14}{sizes}   {largest}")
        room = WRAM_STATIC["limb" if "limb" in Path(path).stem else "ntt"]
        if program.instructions > IRAM or program.wram > room:
            fits = False
            print(f"{path}: does not fit: {IRAM} instructions, {room} bytes beside the heap", file=sys.stderr)
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
