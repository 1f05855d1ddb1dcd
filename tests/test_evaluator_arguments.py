"""The evaluator given everything that it doesn't take: one line of pybfv.errors, never an exception of Python's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from evaluator_tools import party

from pybfv import evaluator, native
from pybfv.errors import PybfvError, UsageError
from pybfv.evaluator import (
    BatchEncoder,
    Ciphertext,
    CoefficientEncoder,
    Context,
    Decryptor,
    Encryptor,
    Engine,
    Evaluator,
    KeyGenerator,
    Plaintext,
    PublicKey,
    RelinKeys,
    SecretKey,
)
from pybfv.evaluator.keys import relin_keys

P = party("slots_of_64")
C, KEYS, RELIN, EV = P.context, P.keys, P.relin, P.evaluator
PUBLIC, KEY_ID = KEYS.public_key, KEYS.public_key.key_id
PLAIN = P.encoder.encode([1, 2])
CT = P.public.encrypt(PLAIN)
PRODUCT = EV.square(CT)
NAME = "insecure_n64_q214"

THINGS: list[Any] = [
    None, True, 5, -1, 1.5, float("nan"), 2**70, 10**5000, [10**5000], "x", "a\nb", b"", b"\x00" * 64, [1], [], {},
    object(), Context, lambda: 0, np.arange(3), np.eye(3), np.eye(3, dtype=int), [np.eye(2)], [None],
    np.float64(1), np.bool_(True),
    C, KEYS, PUBLIC, KEYS.secret_key, RELIN, PLAIN, CT, P.encoder, EV, P.public, P.decryptor, Engine(),
]  # fmt: skip

CALLS: dict[str, tuple[Callable[[Any], Any], tuple[type, ...]]] = {
    "KeyGenerator": (KeyGenerator, (Context,)),
    "BatchEncoder": (BatchEncoder, (Context,)),
    "CoefficientEncoder": (CoefficientEncoder, (Context,)),
    "Evaluator": (Evaluator, (Context,)),
    "Encryptor": (Encryptor, (PublicKey, SecretKey)),
    "Decryptor": (Decryptor, (SecretKey,)),
    "KeyGenerator.relin_keys": (KEYS.relin_keys, (type(None), int)),
    "relin_keys": (relin_keys, (SecretKey,)),
    "encode": (P.encoder.encode, (list, np.ndarray)),
    "CoefficientEncoder.encode": (CoefficientEncoder(C).encode, (list, np.ndarray)),
    "decode": (P.encoder.decode, (Plaintext,)),
    "decode, signed": (lambda x: P.encoder.decode(PLAIN, x), (bool, np.bool_)),
    "encrypt": (P.public.encrypt, (Plaintext,)),
    "decrypt": (P.decryptor.decrypt, (Ciphertext,)),
    "add": (lambda x: EV.add(CT, x), (Ciphertext,)),
    "add, left": (lambda x: EV.add(x, CT), (Ciphertext,)),
    "sub": (lambda x: EV.sub(PRODUCT, x), (Ciphertext,)),
    "negate": (EV.negate, (Ciphertext,)),
    "add_many": (EV.add_many, ()),
    "add_many, one": (lambda x: EV.add_many([CT, x]), (Ciphertext,)),
    "add_plain": (lambda x: EV.add_plain(CT, x), (Plaintext,)),
    "add_plain, left": (lambda x: EV.add_plain(x, PLAIN), (Ciphertext,)),
    "sub_plain": (lambda x: EV.sub_plain(CT, x), (Plaintext,)),
    "multiply_plain": (lambda x: EV.multiply_plain(CT, x), (Plaintext,)),
    "multiply": (lambda x: EV.multiply(CT, x), (Ciphertext,)),
    "multiply, left": (lambda x: EV.multiply(x, CT), (Ciphertext,)),
    "multiply, product": (lambda x: EV.multiply(CT, CT, x), ()),
    "square": (EV.square, (Ciphertext,)),
    "dot": (lambda x: EV.dot([CT], x), ()),
    "dot, left": (lambda x: EV.dot(x, [CT]), ()),
    "dot, one": (lambda x: EV.dot([x], [CT]), (Ciphertext,)),
    "dot, product": (lambda x: EV.dot([CT], [CT], x), ()),
    "dot, engine": (lambda x: EV.dot([CT], [CT], engine=x), (type(None), Engine)),
    "relinearize": (lambda x: EV.relinearize(x, RELIN), (Ciphertext,)),
    "relinearize, keys": (lambda x: EV.relinearize(PRODUCT, x), (RelinKeys,)),
    "of_parts": (lambda x: Ciphertext.of_parts(C, KEY_ID, x), ()),
    "of_parts, context": (lambda x: Ciphertext.of_parts(x, KEY_ID, CT.parts), (Context,)),
    "of_parts, key": (lambda x: Ciphertext.of_parts(C, x, CT.parts), (str,)),
    "of_parts, factor": (lambda x: Ciphertext.of_parts(C, KEY_ID, CT.parts, factor=x), (int,)),
    "of_parts, noise": (lambda x: Ciphertext.of_parts(C, KEY_ID, CT.parts, noise=x), (type(None),)),
    "from_bytes": (Ciphertext.from_bytes, ()),
    "from_bytes, context": (lambda x: PLAIN.from_bytes(PLAIN.to_bytes(), x), (type(None), Context)),
    "restore": (SecretKey.restore, ()),
    "restore, context": (lambda x: SecretKey.restore(KEYS.secret_key.export(), x), (type(None), Context)),
    "Context": (lambda x: Context(x, t=12289, insecure=True), ()),
    "Context, t": (lambda x: Context(NAME, t=x, insecure=True), ()),
    "Context, n": (lambda x: Context(n=x, moduli=C.moduli, t=12289, insecure=True), ()),
    "Context, moduli": (lambda x: Context(n=64, moduli=x, t=12289, insecure=True), ()),
    "Context, batching": (lambda x: Context(NAME, t=12289, batching=x, insecure=True), (bool, np.bool_)),
    "Context, insecure": (lambda x: Context(NAME, t=12289, insecure=x), (bool, np.bool_)),
    "Plaintext": (lambda x: Plaintext(C, x), ()),
    "Plaintext, context": (lambda x: Plaintext(x, PLAIN.coefficients), (Context,)),
    "PublicKey": (lambda x: PublicKey(C, KEY_ID, x), ()),
    "PublicKey, context": (lambda x: PublicKey(x, KEY_ID, PUBLIC.polys), (Context,)),
    "PublicKey, key": (lambda x: PublicKey(C, x, PUBLIC.polys), ()),
    "RelinKeys": (lambda x: RelinKeys(C, KEY_ID, 0, x), ()),
    "RelinKeys, context": (lambda x: RelinKeys(x, KEY_ID, 0, RELIN.polys), (Context,)),
    "RelinKeys, digits": (lambda x: RelinKeys(C, KEY_ID, x, RELIN.polys), ()),
    "ct + x": (lambda x: CT + x, (Plaintext, Ciphertext)),
    "x + ct": (lambda x: x + CT, (Plaintext, Ciphertext)),
    "ct - x": (lambda x: PRODUCT - x, (Plaintext, Ciphertext)),
    "x - ct": (lambda x: x - PRODUCT, (Plaintext, Ciphertext)),
    "ct * x": (lambda x: CT * x, (Plaintext, Ciphertext)),
    "x * ct": (lambda x: x * CT, (Plaintext, Ciphertext)),
    "Engine": (Engine, ()),
    "Engine, kernels": (lambda x: Engine("sim", x), ()),
    "Engine, check": (lambda x: Engine("sim", check=x), ()),
    "Engine, threads": (lambda x: Engine(threads=x), (int,)),
    "Engine, dpus": (lambda x: Engine("sim", dpus=x), (int,)),
    "Engine, tasklets": (lambda x: Engine("upmem", tasklets=x), (int,)),
}


@pytest.mark.parametrize("name", CALLS)
def test_everything_else_is_refused_in_one_line(name: str) -> None:
    call, taken = CALLS[name]
    worked: set[type] = set()
    for thing in THINGS:
        try:
            call(thing)
        except PybfvError as refusal:
            assert len(str(refusal)) > 10
            assert "\n" not in str(refusal), refusal
        else:
            assert isinstance(thing, taken), thing
            worked.add(type(thing))
    assert not taken or worked


def test_contexts_are_made_with_a_name_and_t() -> None:
    for made in (KeyGenerator, BatchEncoder, CoefficientEncoder, Evaluator):
        with pytest.raises(
            UsageError, match=rf"^{made.__name__}: a Context is needed, not str; make one with Context\("
        ):
            made("n4096_q106")  # type: ignore[arg-type]


def test_numbers_of_backends_in_one_line() -> None:
    for wrong in (np.eye(3), [np.eye(2)], "a\nb"):
        with pytest.raises(UsageError, match=r"^dpus must be an integer from 0 to \d+, not [^\n]+$"):
            native.Backend("sim", 64, C.moduli, dpus=wrong)


def documented(owner: Any) -> Iterator[tuple[str, Any]]:
    """Public functions of a class, its own; properties as what computes them."""
    for name, member in vars(owner).items():
        found = getattr(member, "__func__", getattr(member, "fget", None) or getattr(member, "func", None) or member)
        if inspect.isfunction(found) and (not name.startswith("_") or name == "__init__"):
            yield f"{owner.__name__}.{name}", found


def test_what_is_public_is_typed_and_says_what_it_does() -> None:
    """Every class has a docstring, every method one and types for all that it takes and gives."""
    for name in evaluator.__all__:
        owner = getattr(evaluator, name)
        assert owner.__doc__, name
        assert not str(owner.__doc__).startswith(f"{name}("), name  # the one that dataclasses write
        for full, function in documented(owner):
            if function.__module__.startswith("pybfv"):
                assert full.endswith("__init__") or function.__doc__, full
                taken = set(inspect.signature(function).parameters) - {"self", "cls"}
                assert taken | {"return"} <= set(function.__annotations__), full


def test_objects_are_immutable() -> None:
    for thing in (C, PLAIN, CT, PUBLIC, RELIN, Engine(), CT.noise):
        for field in thing.__dataclass_fields__:
            with pytest.raises(FrozenInstanceError):
                setattr(thing, field, None)
    for array in (CT.parts, PUBLIC.polys, RELIN.polys):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
