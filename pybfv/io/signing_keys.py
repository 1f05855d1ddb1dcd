"""Files of signing and verifying keys: PEM (PKCS #8, SubjectPublicKeyInfo), as other programs have them, too."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable

from pybfv.errors import KeyRefusedError, MissingInputError
from pybfv.io.atomic import MAX_PEM, atomic_output, pair_folder
from pybfv.io.sign import SigningKey, Trust, is_weak
from pybfv.io.source import KeyPermissionWarning, PathLike, open_source, shown

_NEVER = "keys are never overwritten: name another folder"
KEY_ENDINGS = (".key", ".pem")
"""How the names of keys in a folder of verifying keys end."""


def write_signing_pair(folder: PathLike, key: SigningKey) -> tuple[str, str]:
    """Writes ``folder``/sign.key (mode 0600 from its creation) and ``folder``/verify.key; never overwrites.

    Returns both paths. The folder is made when it is missing. Both files are whole on the disk before either has its
    name, and verify.key gets its name first: what a kill between the two leaves signs nothing.
    """
    paths = os.path.join(os.fsdecode(folder), "sign.key"), os.path.join(os.fsdecode(folder), "verify.key")
    public = key.public_pem()
    with (
        pair_folder(*paths, public, _NEVER),
        atomic_output(paths[0], secret=True, hint=_NEVER) as secret,
    ):
        secret.write(key.private_pem())
        secret.sync()  # type: ignore[attr-defined]
        with atomic_output(paths[1], hint=_NEVER) as stream:
            stream.write(public)
    return paths


def read_signing_key(path: PathLike) -> SigningKey:
    """The signing key in a PEM file; KeyRefusedError for anything else, and through a symbolic link."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    text, origin = _read_pem(path, private=True)
    try:
        key = load_pem_private_key(text, None)
    except TypeError:
        raise KeyRefusedError(f"{origin} is protected by a passphrase; store it without one") from None
    except Exception:  # whatever a library says of bytes that are no key
        raise KeyRefusedError(f"{origin} is not a signing key; make one with pybfv signkey") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyRefusedError(f"{origin} is not an Ed25519 key; make one with pybfv signkey")
    return SigningKey(key)


def read_verifying_key(path: PathLike) -> str:
    """The signer that a PEM file of a public key names; KeyRefusedError for a private key and anything else."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    text, origin = _read_pem(path, private=False)
    try:
        key = load_pem_public_key(text)
    except Exception:
        raise KeyRefusedError(f"{origin} is not a verifying key; give the verify.key of pybfv signkey") from None
    if not isinstance(key, Ed25519PublicKey):
        raise KeyRefusedError(f"{origin} is not an Ed25519 key; give the verify.key of pybfv signkey")
    signer = key.public_bytes_raw().hex()
    if is_weak(signer):
        raise KeyRefusedError(
            f"{origin} is no key of one person: anybody can sign under it; get another from its holder"
        )
    return signer


def read_trust(paths: Iterable[PathLike]) -> Trust:
    """Trust in the verifying keys of some files, and of folders' files that end in .key or .pem."""
    signers = []
    for path in paths:
        name = os.fspath(path)
        if name != "-" and os.path.isdir(name):
            try:
                inside = sorted(n for n in os.listdir(name) if n.endswith(KEY_ENDINGS) and not n.startswith("."))
            except OSError as exc:
                raise MissingInputError(f"{shown(name)} can't be read: {exc.strerror}") from None
            if not inside:
                raise MissingInputError(f"{shown(name)} holds no verifying keys (*.key, *.pem); name one")
            signers += [read_verifying_key(os.path.join(name, n)) for n in inside]
        else:
            signers.append(read_verifying_key(path))
    return Trust(signers)


def _read_pem(path: PathLike, private: bool) -> tuple[bytes, str]:
    with open_source(path) as source:
        if private and source.via_symlink:
            raise KeyRefusedError(
                f"{source.origin} is a symbolic link to a signing key; name the key's own file instead"
            )
        text = source.read_up_to(MAX_PEM + 1)
        if len(text) > MAX_PEM:
            raise KeyRefusedError(f"{source.origin} is no key: it has over {MAX_PEM} bytes")
        is_private = b"PRIVATE KEY-----" in text
        if is_private and not private:
            raise KeyRefusedError(f"{source.origin} is a signing key, which stays with its holder; give its verify.key")
        if private and not is_private:
            raise KeyRefusedError(f"{source.origin} is not a signing key; give the sign.key of pybfv signkey")
        if private and source.mode is not None and source.mode & 0o077:
            warnings.warn(
                f"{source.origin} is a signing key that others may use (mode {source.mode:04o}): run chmod 600 on it",
                KeyPermissionWarning,
                stacklevel=3,
            )
        return text, source.origin
