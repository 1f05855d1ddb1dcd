"""The operations on ciphertexts. None needs a key that opens anything; each checks its noise before it runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pybfv.engine import Engine
from pybfv.errors import UsageError
from pybfv.evaluator.arithmetic import MAX_PAIRS, digit_bounds
from pybfv.evaluator.context import Context
from pybfv.evaluator.noise import NoiseError, Norms
from pybfv.evaluator.objects import Ciphertext, Plaintext, RelinKeys, frozen, same_context, same_key, same_kind
from pybfv.scheme.noise import embeddings

PRODUCTS = ("scaled", "scale-free")
_FEWER = "take fewer operations, a smaller t or a larger set"


class Evaluator:
    """Exact arithmetic mod t on ciphertexts of one context and one key.

    Every method returns a new ciphertext, and raises before it computes: UsageError for objects of other
    parameters, KeyRefusedError for mixed keys, NoiseError for a result that could not be decrypted for certain.
    A result that would hide nothing (its parts but the first are zero, as of x - x) is a UsageError.
    """

    def __init__(self, context: Context) -> None:
        same_kind(context, Context, "Evaluator")
        self.context = context

    # linear operations

    def add(self, a: Ciphertext, b: Ciphertext) -> Ciphertext:
        """a + b. Unlike factors (of a scale-free product and a fresh ciphertext) are made equal, which costs noise."""
        return self._linear("add", a, b, self.context.arithmetic.add)

    def sub(self, a: Ciphertext, b: Ciphertext) -> Ciphertext:
        """a - b; factors as in `add`."""
        return self._linear("sub", a, b, self.context.arithmetic.sub)

    def negate(self, a: Ciphertext) -> Ciphertext:
        """-a."""
        self._check("negate", a)
        return self._made("negate", a, self.context.arithmetic.neg(a.parts), a.factor, a.noise)

    def add_many(self, values: Iterable[Ciphertext]) -> Ciphertext:
        """The sum of one or more ciphertexts."""
        total: Ciphertext | None = None
        for ct in _sequence("add_many", values):
            self._check("add_many", ct)
            total = ct if total is None else self._linear("add_many", total, ct, self.context.arithmetic.add)
        if total is None:
            raise UsageError("add_many: there is nothing to add; give one ciphertext or more")
        return total

    def add_plain(self, a: Ciphertext, p: Plaintext) -> Ciphertext:
        """a + p."""
        return self._add_plain("add_plain", a, p, 1)

    def sub_plain(self, a: Ciphertext, p: Plaintext) -> Ciphertext:
        """a - p."""
        return self._add_plain("sub_plain", a, p, -1)

    def multiply_plain(self, a: Ciphertext, p: Plaintext) -> Ciphertext:
        """a p. The noise grows by the plaintext's norms, so the bound of the result tells something about it."""
        self._check("multiply_plain", a)
        self._check_kind("multiply_plain", p, Plaintext)
        if not any(p.coefficients):
            raise UsageError("multiply_plain: a product with 0 hides nothing; use the plain value 0")
        noise = self.context.model.check(a.noise.times_polynomial(p.norms), "multiply_plain", _FEWER)
        parts = self.context.arithmetic.times(a.parts, p.centred())
        return self._made("multiply_plain", a, parts, a.factor, noise)

    # products

    def multiply(self, a: Ciphertext, b: Ciphertext, product: str = "scaled") -> Ciphertext:
        """a b, of size 3; a and b of size 2 (`relinearize` products first).

        product: "scaled", the usual one, keeps the product of the factors; "scale-free" has less work, -q times
        that factor, and noise t v w that multiplies from product to product.
        """
        return self._dot("multiply", [(a, b)], product)

    def square(self, a: Ciphertext, product: str = "scaled") -> Ciphertext:
        """a a, as `multiply`."""
        return self._dot("square", [(a, a)], product)

    def dot(
        self,
        a: Sequence[Ciphertext],
        b: Sequence[Ciphertext],
        product: str = "scaled",
        *,
        engine: Engine | None = None,
    ) -> Ciphertext:
        """The sum of a_i b_i over 1 to 4096 pairs, of size 3: accumulated exactly and rounded once.

        engine: the backend that accumulates, Engine("sim", kernels="limb", dpus=64) for example, for any context; the
        result is the same to the last bit. BackendUnavailableError where it isn't there or can't serve the ring.
        """
        if engine is not None and not isinstance(engine, Engine):
            raise UsageError(f'dot: engine must be an Engine, not {type(engine).__name__}; give engine=Engine("cpu")')
        a, b = _sequence("dot", a), _sequence("dot", b)
        if len(a) != len(b):
            raise UsageError(f"dot: {len(a)} and {len(b)} ciphertexts; give as many on both sides")
        if not 1 <= len(a) <= MAX_PAIRS:
            raise UsageError(f"dot: {len(a)} pairs; give 1 to {MAX_PAIRS}, and add the results of several")
        return self._dot("dot", list(zip(a, b, strict=True)), product, engine)

    def relinearize(self, a: Ciphertext, keys: RelinKeys) -> Ciphertext:
        """The same message and factor in size 2; a ciphertext of size 2 is returned as it is."""
        self._check("relinearize", a)
        self._check_kind("relinearize", keys, RelinKeys)
        same_key(a.key_id, keys.key_id, "relinearize")
        if a.size == 2:
            return a
        arithmetic, bits = self.context.arithmetic, keys.digit_bits
        added = self.context.model.relinearisation(digit_bounds(self.context.moduli, bits))
        way_out = "make keys with fewer digit_bits, or decrypt the product as it is"
        noise = self.context.model.check(a.noise + added, "relinearize", way_out)
        parts = arithmetic.switched(a.parts, keys.widened, bits)
        return self._made("relinearize", a, parts, a.factor, noise)

    # shared

    def _check(self, operation: str, a: Ciphertext, *others: Ciphertext) -> None:
        """Ciphertexts of this context and of one key."""
        for x in (a, *others):
            self._check_kind(operation, x, Ciphertext)
            same_key(a.key_id, x.key_id, operation)

    def _check_kind(self, operation: str, x: Any, kind: type) -> None:
        same_kind(x, kind, operation)
        same_context(self.context, x.context, operation)

    def _made(self, operation: str, a: Ciphertext, parts: np.ndarray, factor: int, noise: Norms) -> Ciphertext:
        if not parts[1:].any():
            raise UsageError(f"{operation}: the result would hide nothing; it is known without any ciphertext")
        return Ciphertext(self.context, a.key_id, frozen(parts), factor, noise)

    def _linear(self, operation: str, a: Ciphertext, b: Ciphertext, function: Any) -> Ciphertext:
        self._check(operation, a, b)
        model, t = self.context.model, self.context.t
        up_a = up_b = 1
        noise, factor = a.noise + b.noise, a.factor
        if a.factor != b.factor:
            to_a, to_b = _centred(a.factor * pow(b.factor, -1, t), t), _centred(b.factor * pow(a.factor, -1, t), t)
            choices = [
                (a.noise + b.noise.times(abs(to_a)), a.factor, 1, to_a),
                (a.noise.times(abs(to_b)) + b.noise, b.factor, to_b, 1),
            ]
            noise, factor, up_a, up_b = min(choices, key=lambda c: c[0].largest)
        model.check(noise, operation, _FEWER)
        x, y = self._grown(a, up_a, b.size), self._grown(b, up_b, a.size)
        return self._made(operation, a, function(x, y), factor, noise)

    def _grown(self, a: Ciphertext, factor: int, size: int) -> np.ndarray:
        """The parts times a factor, with zeros up to a size."""
        parts = a.parts if factor == 1 else self.context.arithmetic.scale(a.parts, factor)
        if a.size >= size:
            return parts
        return np.concatenate([parts, np.zeros_like(parts[:1])])

    def _add_plain(self, operation: str, a: Ciphertext, p: Plaintext, sign: int) -> Ciphertext:
        self._check(operation, a)
        self._check_kind(operation, p, Plaintext)
        model, arithmetic = self.context.model, self.context.arithmetic
        noise = model.check(a.noise + model.rounding(), operation, _FEWER)
        parts = a.parts.copy()
        parts[0] = arithmetic.add(parts[0], arithmetic.encode(p.centred(sign * a.factor)))
        return self._made(operation, a, parts, a.factor, noise)

    def _dot(
        self,
        operation: str,
        pairs: list[tuple[Ciphertext, Ciphertext]],
        product: str,
        engine: Engine | None = None,
    ) -> Ciphertext:
        if not isinstance(product, str) or product not in PRODUCTS:
            shown = repr(product[:20]) if isinstance(product, str) else f"of type {type(product).__name__}"
            raise UsageError(f"{operation}: unknown product {shown}; known are: {', '.join(PRODUCTS)}")
        t, sums = self.context.t, {}
        for a, b in pairs:
            self._check(operation, pairs[0][0], a, b)
            if a.size != 2 or b.size != 2:
                raise UsageError(f"{operation}: a ciphertext of size 3 can't be multiplied; relinearize it first")
            sums.setdefault(a.factor * b.factor % t, []).append((a, b))
        noises = {f: self._product_noise(group, product) for f, group in sums.items()}
        for noise in noises.values():
            self.context.model.check(noise, operation, _FEWER)
        total: Ciphertext | None = None
        for factor, group in sums.items():
            part = self._product(operation, group, product, factor, noises[factor], engine)
            total = part if total is None else self._linear(operation, total, part, self.context.arithmetic.add)
        assert total is not None, "there is at least one pair"
        return total

    def _product_noise(self, pairs: list[tuple[Ciphertext, Ciphertext]], product: str) -> Norms:
        model = self.context.model
        if product == "scale-free":
            noises = [model.scale_free_product(a.noise, b.noise) for a, b in pairs]
        else:
            noises = [model.scaled_product(a.noise, b.noise) for a, b in pairs] + [model.product_rounding()]
        total = noises[0]
        for noise in noises[1:]:
            total = total + noise
        return total

    def _product(
        self,
        operation: str,
        pairs: list[tuple[Ciphertext, Ciphertext]],
        product: str,
        factor: int,
        noise: Norms,
        engine: Engine | None,
    ) -> Ciphertext:
        arithmetic, t = self.context.arithmetic, self.context.t
        arrays = [(a.parts, b.parts) for a, b in pairs]
        if product == "scale-free":
            factor = -self.context.q * factor % t
            return self._made(operation, pairs[0][0], arithmetic.scale_free(arrays, t, engine), factor, noise)
        checked: set[int] = set()
        for ct in (ct for pair in pairs for ct in pair):
            if id(ct) not in checked:
                self._check_spread(operation, ct)
                checked.add(id(ct))
        return self._made(operation, pairs[0][0], arithmetic.scaled(arrays, t, engine), factor, noise)

    def _check_spread(self, operation: str, ct: Ciphertext) -> None:
        """NoiseError unless the parts meet the ceilings that the scaled product's bound relies on.

        An encryption's parts look uniform, and uniform ones meet them but once in 2^148.
        """
        model, x = self.context.model, self.context.arithmetic.fractions(ct.parts)
        # next to q/2 a double does not tell the sign, and another sign moves every embedding by 1 at most
        unsure = (np.abs(x) > 0.5 - _NEAR).sum(axis=-1)
        far = float((np.sqrt(embeddings(x).max(axis=-1)) + unsure).max())
        length = math.sqrt(float(np.einsum("ij,ij->i", x, x).max()))
        if far > model.part_embedding - _NEAR * self.context.n or length > model.part_length - _NEAR * self.context.n:
            raise NoiseError(
                f"{operation}: the ciphertext's parts are not spread like an encryption's, so its product has no "
                "bound; encrypt the message anew"
            )


_NEAR = 1e-9
"""More than the error of one coefficient in double precision."""


def _sequence(operation: str, values: Any) -> list[Ciphertext]:
    if not isinstance(values, Iterable):
        raise UsageError(f"{operation}: a sequence of ciphertexts is needed, not {type(values).__name__}")
    return list(values)


def _centred(x: int, t: int) -> int:
    return (x + t // 2) % t - t // 2
