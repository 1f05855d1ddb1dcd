"""General BFV for people who know SEAL: keys, encoders, encryption, and exact arithmetic mod t on ciphertexts.

    context = Context("n4096_q106", t=1032193)
    keys = KeyGenerator(context)
    encoder, evaluator = BatchEncoder(context), Evaluator(context)
    x = Encryptor(keys.public_key).encrypt(encoder.encode([1, 2, 3]))
    y = evaluator.relinearize(evaluator.square(x), keys.relin_keys())
    encoder.decode(Decryptor(keys.secret_key).decrypt(y))[:3]  # [1, 4, 9]

Never a wrong number: what can't be decrypted for certain is refused before it is computed (docs/evaluator.md).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pybfv.engine import Engine
    from pybfv.evaluator.context import Context
    from pybfv.evaluator.crypto import Decryptor, Encryptor
    from pybfv.evaluator.encoders import BatchEncoder, CoefficientEncoder
    from pybfv.evaluator.evaluate import Evaluator
    from pybfv.evaluator.keys import KeyGenerator, SecretKey
    from pybfv.evaluator.noise import NoiseError
    from pybfv.evaluator.objects import Ciphertext, Plaintext, PublicKey, RelinKeys

_HOMES = {
    "BatchEncoder": ".encoders",
    "Ciphertext": ".objects",
    "CoefficientEncoder": ".encoders",
    "Context": ".context",
    "Decryptor": ".crypto",
    "Encryptor": ".crypto",
    "Engine": "..engine",
    "Evaluator": ".evaluate",
    "KeyGenerator": ".keys",
    "NoiseError": ".noise",
    "Plaintext": ".objects",
    "PublicKey": ".objects",
    "RelinKeys": ".objects",
    "SecretKey": ".keys",
}

__all__ = [
    "BatchEncoder",
    "Ciphertext",
    "CoefficientEncoder",
    "Context",
    "Decryptor",
    "Encryptor",
    "Engine",
    "Evaluator",
    "KeyGenerator",
    "NoiseError",
    "Plaintext",
    "PublicKey",
    "RelinKeys",
    "SecretKey",
]


def __getattr__(name: str) -> Any:
    """A class on first use, so that who computes without a secret loads no code that handles one."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)
