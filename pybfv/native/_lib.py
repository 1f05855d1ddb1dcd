"""The shared library: opened at first use; statuses to errors; memory and checks for arrays."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pybfv.errors import (
    BackendUnavailableError,
    DataError,
    InternalError,
    PybfvError,
    UsageError,
    in_a_line,
    is_of_memory,
)

LIBRARY = Path(__file__).resolve().with_name("libpybfv.so")

_ALIGN = 64
_HUGE_PAGE = 1 << 21
_BIG = 4 << 20
"""From this many bytes on an array is worth huge pages of its own."""


class Binding:
    """One cffi view of the library, limited to the declarations it is given."""

    def __init__(self, cdef: Callable[[], str]) -> None:
        self._cdef = cdef

    @cached_property
    def ffi(self) -> Any:
        """The cffi instance with the declarations parsed."""
        import cffi  # here: importing pybfv.native stays cheap

        ffi = cffi.FFI()
        ffi.cdef(self._cdef())
        return ffi

    @cached_property
    def lib(self) -> Any:
        """The opened library."""
        if not LIBRARY.exists():
            raise InternalError(f"the C library {LIBRARY.name} is not built: run: make lib")
        try:
            return self.ffi.dlopen(str(LIBRARY))
        except OSError as error:
            if is_of_memory(error):
                raise MemoryError("the C library does not fit") from None
            raise InternalError(f"the C library can't be loaded ({error}): run: make lib") from None


def _public_cdef() -> str:
    from pybfv.native._cdef import CDEF  # here: gen.py, which writes it, must run without it

    return CDEF


BFV = Binding(_public_cdef)
"""The binding of bfv.h."""


def _crc_cdef() -> str:
    return next(line for line in _public_cdef().splitlines() if " bfv_crc32c(" in line)


_CRC = Binding(_crc_cdef)
"""Of bfv.h the checksum alone: whoever only reads files need not wait for all declarations to be parsed."""


def check(status: int, what: str, **messages: str) -> None:
    """Raises the error of a negative status; the one place where statuses become errors.

    ``what`` opens the message; ``argument``, ``unsupported`` or ``noise`` replace it where the
    caller knows what such a status means: a bad argument is then the user's (UsageError).
    """
    if status != 0:
        raise _error(status, what, messages)


def _error(status: int, what: str, messages: dict[str, str]) -> Exception:
    lib = BFV.lib
    if status == lib.BFV_E_MEMORY:
        return MemoryError(f"{what}: out of memory")
    if status == lib.BFV_E_ARGUMENT and "argument" in messages:
        return UsageError(messages["argument"])
    known: dict[int, PybfvError] = {
        lib.BFV_E_RESIDUE: DataError(
            f"{what}: a residue is not below its prime; the data are damaged or have other parameters"
        ),
        lib.BFV_E_UNSUPPORTED: BackendUnavailableError(
            messages.get("unsupported", f"{what}: not available on this machine or in this build")
        ),
        lib.BFV_E_RANDOM: InternalError(f"{what}: the random bytes given did not suffice"),
        lib.BFV_E_NOISE: DataError(messages.get("noise", f"{what}: coefficients lie outside the noise bound")),
        lib.BFV_E_BACKEND: InternalError(f"{what}: a thread or a device failed"),
    }
    return known.get(status, InternalError(f"{what}: the C library refused its arguments ({status})"))


def empty(shape: int | Sequence[int]) -> np.ndarray:
    """An uninitialised uint32 array, C-contiguous and 64-byte aligned; big ones ask for huge pages."""
    dims = (shape,) if isinstance(shape, int) else tuple(shape)
    size = 4
    for d in dims:
        size *= d
    if size >= _BIG:
        raw = _map_pages(size)
    else:
        block = np.empty(size + _ALIGN, dtype=np.uint8)
        start = -block.ctypes.data % _ALIGN
        raw = block[start : start + size]
    return raw.view(np.uint32).reshape(dims)


def _map_pages(size: int) -> np.ndarray:
    # private: shared anonymous memory follows another huge page setting, mostly "never"
    pages = mmap.mmap(-1, size + _HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a wish: a kernel without huge pages serves small ones
            pages.madvise(mmap.MADV_HUGEPAGE)
    block = np.frombuffer(pages, dtype=np.uint8)
    start = -block.ctypes.data % _HUGE_PAGE
    return block[start : start + size]


def check_integer(value: Any, low: int, high: int, name: str) -> int:
    """``value`` as an int in [low, high], else UsageError."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not low <= value <= high:
        raise UsageError(f"{name} must be an integer from {low} to {high}, not {in_a_line(value)}")
    return int(value)


def check_array(
    x: Any, shape: tuple[int | None, ...], name: str, dtype: Any = np.uint32, *, write: bool = False
) -> np.ndarray:
    """``x`` as a C-contiguous array of ``dtype`` and ``shape`` (None: any length), else UsageError."""
    want = "[" + ", ".join("*" if d is None else str(d) for d in shape) + "]"
    if not isinstance(x, np.ndarray) or x.dtype != np.dtype(dtype):
        kind = x.dtype if isinstance(x, np.ndarray) else type(x).__name__
        raise UsageError(f"{name} must be an array of {np.dtype(dtype)} {want}, not {kind}")
    if x.ndim != len(shape) or any(d is not None and d != e for d, e in zip(shape, x.shape, strict=True)):
        raise UsageError(f"{name} must have the shape {want}, not {list(x.shape)}")
    _check_memory(x, name, write)
    return x


def check_polys(x: Any, tail: tuple[int, int], name: str, dtype: Any = np.uint32, *, write: bool = False) -> int:
    """The number of residue polynomials in an array [..., L, N] of ``dtype``, else UsageError."""
    if not isinstance(x, np.ndarray) or x.dtype != np.dtype(dtype):
        kind = x.dtype if isinstance(x, np.ndarray) else type(x).__name__
        raise UsageError(f"{name} must be an array of {np.dtype(dtype)} [..., {tail[0]}, {tail[1]}], not {kind}")
    if x.ndim < 2 or x.shape[-2:] != tail:
        raise UsageError(f"{name} must have the shape [..., {tail[0]}, {tail[1]}], not {list(x.shape)}")
    if x.size == 0:
        raise UsageError(f"{name} is empty, {list(x.shape)}: it must hold a polynomial")
    _check_memory(x, name, write)
    return x.size // (tail[0] * tail[1])


def _check_memory(x: np.ndarray, name: str, write: bool) -> None:
    if not (x.flags.c_contiguous and x.flags.aligned):
        raise UsageError(f"{name} must be C-contiguous and aligned: copy it first")
    if write and not x.flags.writeable:
        raise UsageError(f"{name} must be writable: copy it first")


def check_apart(out: np.ndarray, *inputs: np.ndarray | None) -> None:
    """UsageError when ``out`` may share memory with an input."""
    if any(x is not None and np.may_share_memory(out, x) for x in inputs):
        raise UsageError("the output must not overlap an input: pass another array")


def check_in_place(out: np.ndarray, *inputs: np.ndarray) -> None:
    """UsageError when ``out`` lies partly in an input of its shape; it may be an input."""
    if any(np.may_share_memory(out, x) and out.ctypes.data != x.ctypes.data for x in inputs):
        raise UsageError("the output may be an input, but not lie partly in one: pass another array")


def view(binding: Binding, c_type: str, x: Any, name: str, *, write: bool = False) -> Any:
    """A cffi array over the memory of a contiguous buffer; it keeps the buffer alive."""
    try:
        return binding.ffi.from_buffer(c_type, x, require_writable=write)
    except (TypeError, ValueError, BufferError) as error:
        raise UsageError(f"{name} must be a contiguous buffer: {error}") from None


def text_argument(text: str | None, name: str) -> Any:
    """A C string, NULL for None; UsageError where C would read another text."""
    if text is None:
        return BFV.ffi.NULL
    if not isinstance(text, str) or not text.isprintable():  # so there are no NULs and no halves of surrogate pairs
        raise UsageError(f"{name} must be a printable text, not {text!a}")
    return BFV.ffi.new("char[]", text.encode())


def words_of(values: Sequence[int], words: int, *, signed: bool) -> bytearray:
    """Integers as ``words`` little-endian 64-bit words each."""
    return bytearray(b"".join(v.to_bytes(8 * words, "little", signed=signed) for v in values))


def crc32c(data: Any, crc: int = 0) -> int:
    """CRC-32C (Castagnoli) of a C-contiguous buffer, continued from ``crc``."""
    check_integer(crc, 0, 2**32 - 1, "crc")
    buffer = view(_CRC, "uint8_t[]", data, "data")
    return int(_CRC.lib.bfv_crc32c(crc, buffer, len(buffer)))


def bodies() -> list[str]:
    """Kernel bodies that this build has and this CPU can run, best first."""
    names: list[str] = []
    while (name := BFV.lib.bfv_body(len(names))) != BFV.ffi.NULL:
        names.append(BFV.ffi.string(name).decode())
    return names
