"""Plain delimited text to numbers, in C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pybfv.native._lib import BFV, check, check_integer, view


class PlainRows:
    """Room for ``room`` rows of plain numbers, filled in one or more reads.

    ``places``: for each column of the text which of the wanted columns it is, -1 for none. Of the rows read:
    ``mantissa``, ``decimals``: int64 [wanted, room], the number mantissa * 10^-decimals; decimals -1 where the cell is
    no plain number. ``spans``: uint32 [wanted, room, 2], where a cell's text begins and ends in the text of its read.
    """

    def __init__(self, places: Sequence[int], room: int, delimiter: str, mark: str) -> None:
        wanted = 1 + max(places, default=-1)
        self.rows, self.room = 0, room
        self.mantissa = np.empty((wanted, room), np.int64)
        self.decimals = np.empty((wanted, room), np.int64)
        self.spans = np.empty((wanted, room, 2), np.uint32)
        self._style = check_integer(ord(delimiter), 1, 127, "delimiter"), check_integer(ord(mark), 1, 127, "mark")
        self._places = BFV.ffi.new("int32_t[]", list(places))

    def read(self, text: bytes, start: int) -> tuple[int, bool]:
        """Takes the plain records of ``text`` from byte ``start``; where the next one begins, and whether it is plain.

        It is not known to be plain when it is not complete, or when there is no room for more rows.
        """
        part: Any = memoryview(text)[start:]
        rows, used = BFV.ffi.new("uint64_t *"), BFV.ffi.new("uint64_t *")
        before = self.rows
        status = BFV.lib.bfv_csv_read(
            view(BFV, "uint8_t[]", part, "text"), len(part), *self._style, len(self._places), self._places,
            before, self.room,
            view(BFV, "int64_t[]", self.mantissa, "mantissa", write=True),
            view(BFV, "int64_t[]", self.decimals, "decimals", write=True),
            view(BFV, "uint32_t[]", self.spans, "spans", write=True),
            rows, used,
        )  # fmt: skip
        if status != BFV.lib.BFV_E_UNSUPPORTED:
            check(status, "a table")
        self.rows = int(rows[0])
        self.spans[:, before : self.rows] += np.uint32(start)
        return start + int(used[0]), status == 0
