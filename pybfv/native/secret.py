"""The part of the C library that touches a secret key; nothing under pybfv/server may import this.

A cffi view of its own: the declarations of bfv_secret.h exist in no other module.
"""

from __future__ import annotations

import math
import mmap
import weakref
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pybfv.errors import UsageError
from pybfv.native._encoder import Encoder
from pybfv.native._lib import (
    BFV,
    Binding,
    check,
    check_apart,
    check_array,
    check_integer,
    empty,
    view,
    words_of,
)
from pybfv.native._ring import Ring


def _secret_cdef() -> str:
    from pybfv.native._cdef_secret import CDEF  # here: gen.py, which writes it, must run without it

    return "typedef struct bfv_ring bfv_ring;\ntypedef struct bfv_encoder bfv_encoder;\n" + CDEF


_SECRET = Binding(_secret_cdef)


def _ring_pointer(ring: Ring) -> Any:
    """The ring's handle in this module's cffi view."""
    address = int(BFV.ffi.cast("uintptr_t", ring.pointer))
    return _SECRET.ffi.cast("bfv_ring *", address)


def _encoder_pointer(encoder: Encoder) -> Any:
    address = int(BFV.ffi.cast("uintptr_t", encoder.pointer))
    return _SECRET.ffi.cast("bfv_encoder *", address)


def _u32(x: np.ndarray, write: bool = False) -> Any:
    return view(_SECRET, "uint32_t[]", x, "the array", write=write)


class Secret:
    """A secret key over a ring: N coefficients of {-1, 0, 1}, int8 [N], kept in NTT form.

    The C copy lives in locked memory where the system allows, outside core dumps, and is wiped on close;
    wiping ``s`` is the caller's: ``wipe``. UsageError for coefficients that are not ternary.
    """

    def __init__(self, ring: Ring, s: np.ndarray) -> None:
        check_array(s, (ring.n,), "the secret", np.int8)
        out = _SECRET.ffi.new("bfv_secret **")
        status = _SECRET.lib.bfv_secret_open(_ring_pointer(ring), view(_SECRET, "int8_t[]", s, "s"), out)
        check(status, "opening a secret key", argument="a secret key's coefficients must be -1, 0 or 1")
        self._pointer = out[0]
        self._ring = ring  # C keeps a pointer to it
        self._close = weakref.finalize(self, _SECRET.lib.bfv_secret_close, out[0])
        self._tail = (len(ring.primes), ring.n)

    @property
    def _handle(self) -> Any:
        if not self._close.alive:
            raise UsageError("this secret key is closed: open it again")
        _ = self._ring.pointer  # refuses a closed ring
        return self._pointer

    def close(self) -> None:
        """Wipes and frees the key; closing twice is fine."""
        self._close()

    def __enter__(self) -> Secret:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<secret key, N = {self._ring.n}, {'open' if self._close.alive else 'closed'}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a secret key can't be copied or pickled")

    def public(self, a: np.ndarray, e: np.ndarray) -> np.ndarray:
        """p0 = -(a s + e) in NTT form, [L, N]; a [L, N] uniform in NTT form, e int8 [N], |e| <= 21."""
        check_array(a, self._tail, "a")
        check_array(e, (self._ring.n,), "e", np.int8)
        out = empty(self._tail)
        error = view(_SECRET, "int8_t[]", e, "e")
        status = _SECRET.lib.bfv_secret_public(self._handle, _u32(a), error, _u32(out, True))
        check(status, "making a public key", argument="an error coefficient lies outside -21 to 21")
        return out

    def encrypt(self, a: np.ndarray, m: np.ndarray | None, rnd: Any) -> np.ndarray:
        """c0 = -a s + e + m in NTT form, [L, N]: a symmetric encryption whose part 1 is ``a``.

        a [L, N] uniform in NTT form; m [L, N], scaled, in coefficient form, or None for zero; rnd:
        ``error_bytes(n)`` fresh random bytes.
        """
        check_array(a, self._tail, "a")
        if m is not None:
            check_array(m, self._tail, "m")
        out = empty(self._tail)
        scaled = _SECRET.ffi.NULL if m is None else _u32(m)
        data = view(_SECRET, "uint8_t[]", rnd, "rnd")
        status = _SECRET.lib.bfv_secret_encrypt(self._handle, _u32(a), scaled, data, len(data), _u32(out, True))
        check(status, "encryption under the secret key")
        return out

    def encrypt_many(
        self,
        a: np.ndarray,
        encoder: Encoder,
        rows: Sequence[np.ndarray | Sequence[int]],
        rnd: Any,
        out: np.ndarray,
        stride: int = 1,
        threads: int = 1,
    ) -> np.ndarray:
        """Encodes vectors of one length and encrypts them: part 0 of vector k to out[k * stride], ``out`` [*, L, N].

        What `Encoder.encode` and `encrypt` give, in one call of C: a [vectors, L, N]; rnd: ``error_bytes(n)`` fresh
        random bytes for each vector, in turn. threads: 0 for all cores.
        """
        values, words, width = encoder.batch(rows, self._ring)
        check_array(a, (len(rows), *self._tail), "a")
        check_array(out, (None, *self._tail), "out", write=True)
        check_integer(stride, 1, 2**31, "stride")
        check_integer(threads, 0, BFV.lib.BFV_MAX_THREADS, "threads")
        if (len(rows) - 1) * stride >= len(out):
            raise UsageError(f"out holds {len(out)} polynomials: {len(rows)} at every {stride} don't fit")
        check_apart(out, a)
        data = view(_SECRET, "uint8_t[]", rnd, "rnd")
        status = _SECRET.lib.bfv_secret_encrypt_many(
            self._handle, _u32(a), _encoder_pointer(encoder), view(_SECRET, "uint64_t[]", values, "values"), words,
            width, len(rows), data, len(data), threads, _u32(out, True), stride,
        )  # fmt: skip
        check(status, "encryption under the secret key")
        return out

    def phase(self, ct: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """c0 + c1 s (+ c2 s^2) in coefficient form, [L, N]; ct [parts, L, N] in NTT form, 2 or 3 parts."""
        check_array(ct, (None, *self._tail), "ct")
        parts = check_integer(ct.shape[0], 2, 3, "the number of parts")
        target = empty(self._tail) if out is None else check_array(out, self._tail, "out", write=True)
        check_apart(target, ct)
        status = _SECRET.lib.bfv_secret_phase(self._handle, _u32(ct), parts, _u32(target, True))
        check(status, "a ciphertext to decrypt")
        return target


def _scaled(bound: Fraction | int) -> int:
    """A bound in units of 2^-64."""
    if isinstance(bound, Fraction) and bound < Fraction(1, 2):
        bound = min(math.ceil(bound * 2**64), 2**63 - 1)
    return check_integer(bound, 0, 2**63 - 1, "the bound times 2^64")


_NOISY = "the result can't be decrypted with this key: its noise lies outside the study's bound"


def phase_slots(
    ring: Ring, phase: np.ndarray, encoder: Encoder, bound: Fraction | int, refusal: str | None = None
) -> np.ndarray:
    """`round_phase` of a whole phase for the t of a batched encoder, and its slots: residues, uint32 [primes of t, N].

    The slots in vector order mod each prime of t; bound and refusal as in `round_phase`.
    """
    check_array(phase, (len(ring.primes), ring.n), "phase")
    if encoder.t_primes is None:
        raise UsageError("this encoder has no slots: it puts values into coefficients")
    if encoder.n != ring.n or encoder.ring_primes != ring.primes:
        raise UsageError("the encoder was made for another ring")
    out = empty((len(encoder.t_primes), ring.n))
    status = _SECRET.lib.bfv_secret_slots(
        _ring_pointer(ring), _encoder_pointer(encoder), _u32(phase), _scaled(bound), _u32(out, True)
    )
    check(status, "decryption", noise=refusal or _NOISY)
    return out


def round_phase(
    ring: Ring,
    phase: np.ndarray,
    t: int,
    first: int,
    count: int,
    bound: Fraction | int,
    refusal: str | None = None,
) -> list[int]:
    """m = round(t x / q) mod t for ``count`` coefficients x of a phase [L, N] from ``first``.

    bound: what |t x/q - round(t x/q)| may be, below 1/2: a Fraction (rounded up to 2^-64, so that a small
    one never becomes 0) or an integer in units of 2^-64. If any coefficient lies outside: DataError with
    ``refusal`` as its message.
    """
    check_array(phase, (len(ring.primes), ring.n), "phase")
    limit = BFV.lib.BFV_MAX_T_WORDS
    check_integer(t, 2, 2 ** (64 * limit) - 1, "t")
    check_integer(first, 0, ring.n, "first")
    check_integer(count, 0, ring.n - first, "count")
    scaled = _scaled(bound)
    words = (int(t).bit_length() + 63) // 64
    modulus = view(_SECRET, "uint64_t[]", words_of([int(t)], words, signed=False), "t")
    out = bytearray(8 * words * max(count, 1))
    into = view(_SECRET, "uint64_t[]", out, "out", write=True)
    status = _SECRET.lib.bfv_secret_round(_ring_pointer(ring), _u32(phase), modulus, words, first, count, scaled, into)
    check(
        status,
        "decryption",
        argument=f"t = {t} can't be a plaintext modulus here: it must be below q",
        noise=refusal or _NOISY,
    )
    size = 8 * words
    values = [int.from_bytes(out[i : i + size], "little") for i in range(0, size * count, size)]
    wipe(out)
    return values


def private(size: int) -> np.ndarray:
    """Zeros, uint8 [size], in pages of their own that no core dump holds, whatever the process's limit is."""
    pages = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_DONTDUMP"):
        pages.madvise(mmap.MADV_DONTDUMP)
    return np.frombuffer(pages, dtype=np.uint8)[:size]


def wipe(buffer: Any) -> None:
    """Overwrites a writable contiguous buffer with zeros."""
    data = view(_SECRET, "uint8_t[]", buffer, "the buffer", write=True)
    _SECRET.lib.bfv_wipe(data, len(data))
