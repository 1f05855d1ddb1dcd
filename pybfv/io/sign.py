"""Signatures of contributions, partials and results: who signs, what is signed, who is trusted (FORMAT.md, section 3).

A signer's name is its Ed25519 public key in 64 hexadecimal digits.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import Any, NoReturn

from pybfv.errors import DataError, KeyRefusedError

SIGNATURE_BYTES = 64
SIGNER_DIGITS = 64
_DOMAIN = b"pybfv signed file 1\0"
_COUNTS = struct.Struct("<QQQ")
_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P


def message(digest: bytes, rows: int, dropped: int, blocks: int) -> bytes:
    """What is signed: SHA-256 of all bytes before the signature's record, and the counts of the end record."""
    return _DOMAIN + digest + _COUNTS.pack(rows, dropped, blocks)


def new_digest() -> Any:
    """The running hash of a file's bytes."""
    return hashlib.sha256()


def is_weak(signer: str) -> bool:
    """Whether a name is no key that one person alone can hold.

    These are the eight points of small order, under which signatures hold that nobody made: on -x^2 + y^2 =
    1 + d x^2 y^2 their y are 1, -1, 0 and the roots of d y^4 + 2 y^2 = 1. And names with y of 2^255 - 19 or more, as
    the same point then has another name, too (RFC 8032, 5.1.3).
    """
    y = int.from_bytes(bytes.fromhex(signer), "little") & (1 << 255) - 1
    return y >= _P or y * (y * y - 1) * (_D * y**4 + 2 * y * y - 1) % _P == 0


class SigningKey:
    """An Ed25519 signing key. It shows no secret, and is not pickled or copied.

    ``signer``: its public key, 64 lower-case hexadecimal digits.
    """

    __slots__ = ("_key", "signer")

    def __init__(self, key: Any) -> None:
        self._key = key
        self.signer: str = key.public_key().public_bytes_raw().hex()

    @classmethod
    def generate(cls) -> SigningKey:
        """A new key, from the operating system's randomness."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    def sign(self, data: bytes) -> bytes:
        """The signature of ``data``, SIGNATURE_BYTES long; deterministic (RFC 8032)."""
        return self._key.sign(data)

    def private_pem(self) -> bytes:
        """PKCS #8, without a passphrase."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def public_pem(self) -> bytes:
        """SubjectPublicKeyInfo."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def __repr__(self) -> str:
        return f"SigningKey(signer={self.signer})"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise KeyRefusedError("a signing key is never pickled or copied; write it with write_signing_pair")


class Trust:
    """The signers that a reader accepts; a file by anybody else, or by nobody, is refused.

    ``signers``: names of 64 lower-case hexadecimal digits, at least one.
    """

    __slots__ = ("signers",)

    def __init__(self, signers: Iterable[str]) -> None:
        self.signers = frozenset(signers)
        for one in self.signers:
            if type(one) is not str or len(one) != SIGNER_DIGITS or set(one) - set("0123456789abcdef"):
                raise DataError(f"a signer is {SIGNER_DIGITS} lower-case hexadecimal digits, not {ascii(one)[:80]}")
            if is_weak(one):
                raise DataError(f"signer {one} is no key of one person: anybody can sign under it; leave it out")
        if not self.signers:
            raise DataError("no signer is trusted; give the verifying key of one at least")

    def admit(self, signer: str, origin: str) -> None:
        """DataError unless the file ``origin`` names a trusted signer ("": none)."""
        if not signer:
            raise DataError(f"{origin} is not signed, and a signature is required; get it signed (--sign) by its maker")
        if signer not in self.signers:
            raise DataError(
                f"{origin} names signer {signer}, who is not among the {len(self.signers)} trusted;"
                " refuse the file, or give that verifying key if it is right"
            )

    def __repr__(self) -> str:
        return f"Trust({sorted(self.signers)})"


def verify(signer: str, signature: bytes, data: bytes, origin: str) -> None:
    """DataError unless ``signature`` is the signer's over ``data``."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(signer)).verify(signature, data)
    except (InvalidSignature, ValueError):
        raise DataError(
            f"{origin} has a wrong signature: it is not as signer {signer} made it; get it again from its maker"
        ) from None
