"""Cells of tables to numbers, in C."""

from __future__ import annotations

import numpy as np

from pybfv.errors import UsageError
from pybfv.native._lib import BFV, check, check_array, view


def decimals(text: bytes | memoryview, ends: np.ndarray, mark: str) -> tuple[np.ndarray, np.ndarray]:
    """The numbers mantissa * 10^-decimals of cells, two arrays of int64; decimals -1 where a cell is no plain number.

    ``ends``: int32 [cells + 1], cell k is text[ends[k]:ends[k + 1]]. Plain: -?[0-9]*mark?[0-9]* with 1 to 18 digits,
    perhaps after blanks. ``mark``: one ASCII character.
    """
    check_array(ends, (None,), "ends", np.int32)
    if not len(ends) or len(mark) != 1 or not mark.isascii():
        raise UsageError(f"decimals take at least one end and a mark of one ASCII character, not {mark!a}")
    found = np.empty((2, len(ends) - 1), np.int64)
    buffer = view(BFV, "uint8_t[]", text, "text")
    status = BFV.lib.bfv_decimals(
        buffer, len(buffer), view(BFV, "int32_t[]", ends, "ends"), len(ends) - 1, ord(mark),
        view(BFV, "int64_t[]", found[0], "mantissa", write=True),
        view(BFV, "int64_t[]", found[1], "decimals", write=True),
    )  # fmt: skip
    check(status, "decimals", argument="ends must ascend, from 0 or more up to the length of the text or less")
    return found[0], found[1]
