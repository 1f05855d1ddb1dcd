"""A passphrase over a secret key: scrypt makes a key of it, AES-256-GCM encrypts (FORMAT.md, section 5).

Nothing under pybfv/server may import this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from pybfv.entropy import fresh_bytes
from pybfv.errors import KeyRefusedError
from pybfv.io.header import Fields
from pybfv.native.secret import private, wipe

CIPHER, KDF = "aes-256-gcm", "scrypt"
SALT_BYTES, NONCE_BYTES, TAG_BYTES = 16, 12, 16
LOG2_N, R, P = 17, 8, 1
"""scrypt's costs of new files: 128 MiB of memory, some tenths of a second."""
MAX_MEMORY = 1 << 29
"""A file may ask for so many bytes at most, 128 N r."""
MAX_WORK = 1 << 22
"""... and for so much work, N r p: four times that of new files."""
MAX_PASSPHRASE = 1024
"""Bytes of a passphrase."""

Passphrase = str | bytes | bytearray | Callable[[str], bytearray]
"""A passphrase (text counts as its UTF-8 bytes), or what asks for one, given a file's name: its answer is wiped."""


@contextmanager
def passphrase_bytes(passphrase: Passphrase, origin: str) -> Iterator[bytes | bytearray]:
    """A passphrase as bytes, asked for where it must be, and then wiped; KeyRefusedError when empty or too long."""
    answer = passphrase(origin) if callable(passphrase) else passphrase
    try:
        try:
            given = answer.encode() if isinstance(answer, str) else answer
        except UnicodeEncodeError:
            raise KeyRefusedError(f"a passphrase for {origin} must be text that UTF-8 can hold; give bytes") from None
        if not isinstance(given, bytes | bytearray) or not 0 < len(given) <= MAX_PASSPHRASE:
            raise KeyRefusedError(f"a passphrase for {origin} must have 1 to {MAX_PASSPHRASE} bytes; give another")
        yield given
    finally:
        if callable(passphrase) and isinstance(answer, bytearray):
            wipe(answer)


@dataclass(frozen=True)
class Protection:
    """The parameters in a protected key's header: scrypt with N = 2^log2_n, r, p, and GCM's nonce."""

    log2_n: int = field(default_factory=lambda: LOG2_N)
    r: int = field(default_factory=lambda: R)
    p: int = field(default_factory=lambda: P)
    salt: bytes = field(default_factory=lambda: fresh_bytes(SALT_BYTES))
    nonce: bytes = field(default_factory=lambda: fresh_bytes(NONCE_BYTES))

    @property
    def memory(self) -> int:
        """Bytes that deriving the key takes, but for 128 r p."""
        return 128 * self.r << self.log2_n

    def described(self) -> dict[str, Any]:
        """The value of the header's field ``protection``."""
        return {
            "cipher": CIPHER,
            "kdf": KDF,
            "log2_n": self.log2_n,
            "nonce": self.nonce.hex(),
            "p": self.p,
            "r": self.r,
            "salt": self.salt.hex(),
        }

    @classmethod
    def read(cls, value: Any, origin: str) -> Protection:
        """What described gave; DataError for anything else, and for costs beyond the limits."""
        fields = Fields(value, origin)
        fields.choice("cipher", (CIPHER,))
        fields.choice("kdf", (KDF,))
        found = cls(
            fields.integer("log2_n", 1, 30),
            fields.integer("r", 1, 1 << 10),
            fields.integer("p", 1, 1 << 10),
            bytes.fromhex(fields.hexadecimal("salt", 2 * SALT_BYTES)),
            bytes.fromhex(fields.hexadecimal("nonce", 2 * NONCE_BYTES)),
        )
        fields.done()
        if found.memory > MAX_MEMORY or (found.r * found.p) << found.log2_n > MAX_WORK:
            raise fields.bad(f"its passphrase would take {found.memory >> 20} MiB or too long to check")
        return found

    def seal(self, passphrase: Passphrase, origin: str, secret: np.ndarray, associated: bytes) -> bytes:
        """Ciphertext and tag of ``secret`` (uint8 [n]); ``associated`` is authenticated with it."""
        with self._cipher(passphrase, origin) as key:
            encryptor = Cipher(algorithms.AES256(key), modes.GCM(self.nonce)).encryptor()
            encryptor.authenticate_additional_data(associated)
            sealed = encryptor.update(memoryview(secret)) + encryptor.finalize()
            return sealed + encryptor.tag

    def open(self, passphrase: Passphrase, origin: str, sealed: bytes | bytearray, associated: bytes) -> np.ndarray:
        """What seal was given, in memory outside core dumps, the caller's to wipe; KeyRefusedError in one message."""
        size = len(sealed) - TAG_BYTES
        out = private(size + 15)  # a block less one byte more, as the library wants it
        with self._cipher(passphrase, origin) as key:
            decryptor = Cipher(algorithms.AES256(key), modes.GCM(self.nonce)).decryptor()
            decryptor.authenticate_additional_data(associated)
            try:
                decryptor.update_into(memoryview(sealed)[:size], memoryview(out))
                decryptor.finalize_with_tag(bytes(sealed[size:]))
            except InvalidTag:
                wipe(out)
                raise KeyRefusedError(
                    f"{origin} does not open: the passphrase is wrong, or the file was changed;"
                    " try again, or take a copy of the key"
                ) from None
        return out[:size]

    @contextmanager
    def _cipher(self, passphrase: Passphrase, origin: str) -> Iterator[np.ndarray]:
        """The cipher's key, wiped afterwards."""
        key = private(32)
        try:
            with passphrase_bytes(passphrase, origin) as given:
                self._derive(given, key, origin)
            yield key
        finally:
            wipe(key)

    def _derive(self, passphrase: bytes | bytearray, key: np.ndarray, origin: str) -> None:
        scrypt = Scrypt(salt=self.salt, length=len(key), n=1 << self.log2_n, r=self.r, p=self.p)
        try:
            if hasattr(scrypt, "derive_into"):
                scrypt.derive_into(passphrase, memoryview(key))
            else:  # an older library leaves a copy of the key until the memory is used again
                key[:] = np.frombuffer(scrypt.derive(passphrase), dtype=np.uint8)
        except MemoryError:
            raise KeyRefusedError(
                f"{origin} takes {self.memory >> 20} MiB of memory to check its passphrase, more than there is;"
                " raise the limit or use another machine"
            ) from None
