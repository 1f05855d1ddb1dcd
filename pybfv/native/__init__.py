"""The C library in Python: rings, encoders, lifters, backends, checksums. One method per C function.

Arrays are C-contiguous numpy arrays: residues are uint32 [..., L, N], a ciphertext is [parts, L, N].
What doesn't fit is a UsageError. The library is opened at first use, not on import.
"""

from __future__ import annotations

from pybfv.native._backend import CHECKS, Acc, Array, Backend
from pybfv.native._encoder import Encoder
from pybfv.native._lib import bodies, crc32c, empty
from pybfv.native._lifter import Lifter, Lifter64
from pybfv.native._ring import Ring, error_bytes, sample_error, sample_ternary, ternary_bytes
from pybfv.native._table import decimals

__all__ = [
    "CHECKS",
    "Acc",
    "Array",
    "Backend",
    "Encoder",
    "Lifter",
    "Lifter64",
    "Ring",
    "bodies",
    "crc32c",
    "decimals",
    "empty",
    "error_bytes",
    "sample_error",
    "sample_ternary",
    "ternary_bytes",
]
