"""Microsoft SEAL as judge: its objects made from our arrays, and read back, through its files.

SEAL drops the last prime of a context from its ciphertexts, so a Judge's context has our primes and one
more; and since our q has no standard key-switching shape, security checks are off, but for SEAL's default primes.
SEAL keeps BFV ciphertexts in coefficient form and keys in NTT form; our ciphertexts and keys are in NTT form, in the
same order with the same roots, where primes are below 2^30, else ciphertexts of 64-bit words in coefficient form.

A SEAL file is a 16-byte header (magic 0xa15e, header size, SEAL's version in two bytes, compression: 0
none, 2 zstd, then at byte 8 the total length) and a body. Bodies, little-endian, `array` being a header of
its own, the number of words, and 64-bit words:

    plaintext, secret key   parms_id[32] coefficients u64, scale f64, array
    ciphertext, public key  parms_id[32] is_ntt u8, parts u64, N u64, primes u64, scale f64, factor u64, array
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tenseal.sealapi as seal
import zstandard

from pybfv import native
from pybfv.ring import bit_reverse

DUMMY_PRIME = 1073692673
"""The prime that SEAL drops: no factor of our q, = 1 mod 2N up to N = 8192."""

_MAGIC = 0xA15E
_HEADER = struct.Struct("<HBBBBHQ")
_PLAIN = struct.Struct("<32sQd")
_CIPHER = struct.Struct("<32sBQQQdQ")
_COUNT = struct.Struct("<Q")


def _saved(thing: Any) -> bytes:
    """The file that SEAL writes of an object."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "object")
        thing.save(str(path))
        return path.read_bytes()


_VERSION = tuple(_saved(seal.Plaintext("0"))[3:5])  # this SEAL's own: it refuses others


def _framed(body: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, _HEADER.size, *_VERSION, 0, 0, _HEADER.size + len(body)) + body


def _array(words: np.ndarray) -> bytes:
    return _framed(_COUNT.pack(words.size) + words.astype("<u8").tobytes())


def _words(raw: bytes) -> np.ndarray:
    """The words of an array, which must fill ``raw`` to its end."""
    start = _HEADER.size + _COUNT.size
    words = np.frombuffer(raw, dtype="<u8", offset=start)
    assert _COUNT.unpack_from(raw, _HEADER.size) == (words.size,)
    return words


def _id_bytes(parms_id: Sequence[int]) -> bytes:
    return struct.pack("<4Q", *parms_id)


def forward(a: np.ndarray, p: int) -> np.ndarray:
    """[a(psi^(2 brv(k) + 1)) mod p], psi the smallest primitive root, of int64 [N]: the NTT for a prime of any size."""
    n = len(a)
    psi = next(x for x in (pow(g, (p - 1) // (2 * n), p) for g in range(2, p)) if pow(x, n, p) == p - 1)
    psi = min(pow(psi, k, p) for k in range(1, 2 * n, 2))
    bits, x, groups = n.bit_length() - 1, a.astype(object) % p, 1
    while groups < n:
        twiddles = np.array([pow(psi, bit_reverse(groups + g, bits), p) for g in range(groups)], dtype=object)
        pairs = x.reshape(groups, 2, -1)
        u, v = pairs[:, 0], pairs[:, 1] * twiddles[:, None]
        x, groups = np.stack([(u + v) % p, (u - v) % p], axis=1).reshape(-1), 2 * groups
    return x.astype(np.uint64)


class Judge:
    """A SEAL context for N and plaintext modulus t (below 2^60), its data level over ``primes``.

    ``special``: the prime that SEAL drops; None for a context of one prime, which it keeps.
    ``default``: with SEAL's own check of 128-bit security.
    """

    def __init__(
        self, n: int, primes: Sequence[int], t: int, special: int | None = DUMMY_PRIME, default: bool = False
    ) -> None:
        self.n, self.t, self.primes = n, t, tuple(primes)
        self.key_primes = self.primes if special is None else (*self.primes, special)
        parms = seal.EncryptionParameters(seal.SCHEME_TYPE.BFV)
        parms.set_poly_modulus_degree(n)
        parms.set_coeff_modulus([seal.Modulus(p) for p in self.key_primes])
        parms.set_plain_modulus(seal.Modulus(t))
        level = seal.SEC_LEVEL_TYPE.TC128 if default else seal.SEC_LEVEL_TYPE.NONE
        self.context = seal.SEALContext(parms, True, level)
        assert self.context.parameters_set(), self.context.parameters_error_name()
        assert self.context.using_keyswitching() == (special is not None), "not the primes that were to be dropped"
        self.evaluator = seal.Evaluator(self.context)

    @cached_property
    def ring(self) -> native.Ring:
        """The data level's ring, for primes below 2^30."""
        return native.Ring(self.n, self.primes)

    @cached_property
    def key_ring(self) -> native.Ring:
        """The keys' ring, for primes below 2^30."""
        return native.Ring(self.n, self.key_primes)

    # objects through files

    def _load(self, kind: type, body: bytes) -> Any:
        found = kind()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "object")
            path.write_bytes(_framed(body))
            found.load(self.context, str(path))
        return found

    @staticmethod
    def _save(thing: Any) -> bytes:
        raw = _saved(thing)
        magic, size, _, _, compression, _, total = _HEADER.unpack_from(raw)
        assert (magic, size, compression, total) == (_MAGIC, _HEADER.size, 2, len(raw))
        return zstandard.ZstdDecompressor().decompressobj().decompress(raw[size:])

    def _parts(self, ct: np.ndarray, kind: type, level: Sequence[int], ntt: bool) -> Any:
        parts, primes, n = ct.shape
        head = _CIPHER.pack(_id_bytes(level), ntt, parts, n, primes, 1.0, 1)
        return self._load(kind, head + _array(ct))

    # ours to SEAL

    def secret(self, s: np.ndarray) -> Any:
        """SEAL's secret key of ours, int8 [N]."""
        key = np.stack([forward(s.astype(np.int64), p) for p in self.key_primes])
        head = _PLAIN.pack(_id_bytes(self.context.key_parms_id()), key.size, 1.0)
        return self._load(seal.SecretKey, head + _array(key))

    def public(self, pk: np.ndarray) -> Any:
        """SEAL's public key of ours over the primes and the dummy, [2, L + 1, N] in NTT form."""
        assert pk.shape == (2, len(self.primes) + 1, self.n)
        return self._parts(pk, seal.PublicKey, self.context.key_parms_id(), True)

    def ciphertext(self, ct: np.ndarray) -> Any:
        """SEAL's ciphertext of ours, [parts, L, N]; in NTT form if uint32."""
        assert ct.shape[1:] == (len(self.primes), self.n)
        plain = self.ring.inverse(ct.copy()) if ct.dtype == np.uint32 else ct
        return self._parts(plain, seal.Ciphertext, self.context.first_parms_id(), False)

    def plaintext(self, coefficients: Sequence[int]) -> Any:
        """SEAL's plaintext with these N coefficients in [0, t)."""
        words = np.array(coefficients, dtype=np.uint64)
        return self._load(seal.Plaintext, _PLAIN.pack(bytes(32), words.size, 1.0) + _array(words))

    # SEAL's to ours

    def read_secret(self, key: Any) -> np.ndarray:
        """int8 [N] of SEAL's secret key; it must be one ternary polynomial under every prime."""
        raw = self._save(key)
        planes = _words(raw[_PLAIN.size :]).reshape(len(self.primes) + 1, self.n).astype(np.uint32)
        residues = self.key_ring.inverse(planes).astype(np.int64)
        signed = [np.where(x > p // 2, x - p, x) for x, p in zip(residues, self.key_ring.primes, strict=True)]
        assert all(np.array_equal(x, signed[0]) for x in signed)
        assert set(np.unique(signed[0])) <= {-1, 0, 1}
        return signed[0].astype(np.int8)

    def read_public(self, key: Any) -> np.ndarray:
        """[2, L + 1, N] in NTT form of SEAL's public key."""
        raw = self._save(key)
        _, ntt, parts, n, primes, _, _ = _CIPHER.unpack_from(raw)
        assert (ntt, parts, n, primes) == (1, 2, self.n, len(self.primes) + 1)
        return _words(raw[_CIPHER.size :]).reshape(parts, primes, n).astype(np.uint32)

    def read_ciphertext(self, ct: Any) -> np.ndarray:
        """[parts, L, N] of SEAL's ciphertext, as ours are."""
        raw = self._save(ct)
        parms_id, ntt, parts, n, primes, scale, factor = _CIPHER.unpack_from(raw)
        assert parms_id == _id_bytes(self.context.first_parms_id())
        assert (ntt, n, primes, scale, factor) == (0, self.n, len(self.primes), 1.0, 1)
        words = _words(raw[_CIPHER.size :]).reshape(parts, primes, n)
        return words.astype(np.uint64) if max(self.primes) >= 2**30 else self.ring.forward(words.astype(np.uint32))

    def read_plaintext(self, plain: Any) -> list[int]:
        """The N coefficients of SEAL's plaintext."""
        raw = self._save(plain)
        found = _words(raw[_PLAIN.size :]).tolist()
        return found + [0] * (self.n - len(found))

    # what SEAL does with them

    def encode(self, slots: Sequence[int]) -> Any:
        """SEAL's plaintext with these slots; t must be a batching prime."""
        plain = seal.Plaintext()
        seal.BatchEncoder(self.context).encode(list(slots), plain)
        return plain

    def slots(self, plain: Any) -> list[int]:
        """SEAL's slots of its plaintext, in [0, t); t must be a batching prime."""
        return seal.BatchEncoder(self.context).decode_uint64(plain)

    def decrypt(self, ct: np.ndarray, s: np.ndarray) -> Any:
        """SEAL's decryption of our ciphertext under our secret."""
        plain = seal.Plaintext()
        seal.Decryptor(self.context, self.secret(s)).decrypt(self.ciphertext(ct), plain)
        return plain
