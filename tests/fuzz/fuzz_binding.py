"""The binding of the C library: any objects as arguments of any method. Refused in Python, or computed.

What is accepted lands in C, so a missing check shows as a crash; numbers are compared with Python integers by the
tests of the binding and by fuzz_ring.c and fuzz_backend.c.
"""

from __future__ import annotations

import atheris
from common import EDGES, Input, refusal_or, run  # first: it says what is instrumented

with atheris.instrument_imports(include=["pybfv"]):
    from fractions import Fraction

    import numpy as np

    from pybfv import native
    from pybfv.errors import InternalError
    from pybfv.native import secret as secrets

PRIMES = (97, 193, 257, 7681, 65537, 67043329, 134348801, 1073741441)
T_PRIMES = (353, 449, 114689, 97)
WRONG_TYPES = (TypeError, AttributeError, MemoryError)
"""What Python says of objects of a wrong type. ValueError, IndexError and the like would be findings."""
DTYPES = ("u4", "u4", "u4", "u4", ">u4", "i4", "u8", "i8", "i1", "u1", "f8", "O", "S4", "bool")


class World:
    """A ring and what was made from it; methods are called with what is found here."""

    def __init__(self, source: Input) -> None:
        self.source = source
        self.n = 1 << 1 + source.byte() % 4
        self.primes = [PRIMES[(source.byte() + k) % len(PRIMES)] for k in range(1 + source.byte() % 3)]
        self.primes = list(dict.fromkeys(self.primes))
        self.tail = (len(self.primes), self.n)
        self.ring = native.Ring(self.n, self.primes)
        self.backend = native.Backend("cpu", self.n, self.primes)
        self.secret = secrets.Secret(self.ring, np.ones(self.n, np.int8))
        self.encoders = [
            found
            for found in (
                refusal_or(native.Encoder.coefficients, self.ring, 2 + source.number()),
                refusal_or(native.Encoder.batched, self.ring, [source.pick(T_PRIMES)]),
            )
            if found is not None
        ]
        self.arrays: list[object] = []
        self.accs: list[object] = []

    def close(self) -> None:
        for thing in (self.secret, *self.encoders, self.backend, self.ring):
            thing.close()

    # arguments

    def integer(self):
        source = self.source
        kind = source.byte()
        if kind < 160:
            return kind % 6
        if kind < 200:
            value = source.pick(EDGES)
            return -value if kind % 2 else value
        return source.pick([None, True, "1", 1.0, b"1", np.int64(1), np.uint64((1 << 64) - 1), Fraction(1, 2), [], 1j])

    def residues(self, *shape: int) -> np.ndarray:
        noise = np.random.default_rng(self.source.byte()).integers(0, 1 << 30, (*shape, *self.tail), np.uint32)
        return noise % np.array(self.primes, np.uint32)[:, None]

    def array(self, *shape: int):
        """Mostly an array of the wanted shape; else of another, another type, order, or none."""
        source = self.source
        kind = source.byte()
        if kind < 150:
            return self.residues(*shape)
        if kind < 170 and 0 not in shape:
            array = self.residues(*shape)
            array.flat[source.byte() % array.size] = source.pick([97, (1 << 30) - 1, (1 << 32) - 1])
            return array
        if kind < 200:
            sizes = [source.byte() % 5 for _ in range(source.byte() % 5)]
            return np.zeros(sizes, source.pick(DTYPES))
        array = self.residues(*shape)
        return source.pick(
            [
                lambda: np.asfortranarray(array),
                lambda: array[..., ::-1],
                lambda: array[..., :-1],
                lambda: array.astype(source.pick(DTYPES[4:])),
                lambda: np.frombuffer(b"\0" + array.tobytes(), np.uint8)[1:].view(np.uint32).reshape(array.shape),
                lambda: array.tolist(),
                lambda: None,
                lambda: array.tobytes(),
                lambda: self.locked(array),
                lambda: np.broadcast_to(np.uint32(0), array.shape),
            ]
        )()

    @staticmethod
    def locked(array: np.ndarray) -> np.ndarray:
        array.flags.writeable = False
        return array

    def small(self):
        source = self.source
        if source.byte() < 200:
            return np.random.default_rng(source.byte()).integers(-22, 22, self.n).astype(np.int8)
        return source.pick([None, np.zeros(self.n), np.zeros(self.n + 1, np.int8), [0] * self.n, self.array()])

    def octets(self, size: int):
        source = self.source
        kind = source.byte()
        if kind < 200:
            return bytes(source.byte() for _ in range(8)) * (size // 8 + 1)
        return source.pick(
            [b"", None, "text", bytes(size - 1), bytearray(size), np.zeros(size), memoryview(bytes(size))]
        )

    def sequence(self):
        source = self.source
        values = [source.pick(self.primes) - 1 - source.byte() % 3 for _ in self.primes]
        return source.pick([values, tuple(values), values[1:], [*values, 1], None, [*values[1:], self.integer()], "ab"])

    def values(self):
        source = self.source
        return source.pick(
            [
                [source.pick(EDGES) * (-1) ** source.byte() for _ in range(source.byte() % 6)],
                np.arange(source.byte() % 20, dtype=np.int64),
                np.arange(4, dtype=source.pick(DTYPES[5:11])),
                [1 << 600, -(1 << 700)],
                [0.5],
                [None],
                None,
                "12",
                range(3),
                [True, np.int8(-3)],
            ]
        )

    def handle(self):
        return self.source.pick([*(self.arrays or [None]), *(self.arrays or [None]), *self.accs, None, self.ring])

    def acc(self):
        return self.source.pick([*(self.accs or [None]), *(self.accs or [None]), *self.arrays, None, 7])

    def word(self):
        return self.source.pick(["ntt", "coefficient", "sum", "product", "pointwise", "convolve", "", None, 1, "limb"])

    def text(self):
        return self.source.pick([None, "portable", "avx2", "", "none", "\0", "\ud800", 3, b"portable", "é"])

    # calls

    def on_ring(self) -> None:
        source, ring = self.source, self.ring
        polys = source.byte() % 3
        a, b = self.array(polys), self.array(polys)
        out = source.pick([None, None, a, b, self.array(polys)])
        if isinstance(a, np.ndarray) and a.shape == (2, *self.tail) and source.byte() % 4 == 0:
            a, out = a[:1], a.reshape(-1)[: a[0].size + 1][1:].reshape(1, *self.tail) if a.flags.c_contiguous else out
        call = source.byte() % 14
        if call == 0:
            return ring.forward(a)
        if call == 1:
            return ring.inverse(a)
        if call == 2:
            return ring.check_residues(a)
        if call in (3, 4, 5):
            return (ring.add, ring.sub, ring.mul)[call - 3](a, b, out)
        if call == 6:
            return ring.neg(a, out)
        if call == 7:
            return ring.mul_scalar(a, self.sequence(), out)
        if call == 8:
            return ring.from_int64(source.pick([np.arange(self.n), self.values(), a]))
        if call == 9:
            return ring.expand_uniform(self.integer(), self.octets(64), self.small_out(), self.integer())
        if call == 10:
            return ring.encrypt_public(self.array(2), source.pick([None, self.array()]), self.octets(400), out)
        if call == 11:
            return ring.encrypt_zero3(self.array(2), self.octets(600), out)
        if call == 12:
            return native.Ring(self.integer(), source.pick([self.primes, self.values(), self.sequence()]), self.text())
        return ring.encrypt_bytes(self.integer())

    def small_out(self):
        return self.source.pick([np.zeros(self.n, np.uint32), self.array(), self.small(), None])

    def on_samples(self) -> None:
        size = self.source.pick([self.n, self.integer()])
        function = self.source.pick([native.sample_error, native.sample_ternary])
        function(size, self.octets(200))
        native.crc32c(self.source.pick([b"abc", self.array(), "x", None]), self.integer())
        native.ternary_bytes(self.integer())

    def on_encoder(self) -> None:
        source = self.source
        if source.byte() % 8 == 0:
            native.Encoder.coefficients(self.ring, self.integer())
            native.Encoder.batched(self.ring, self.values())
        encoder = source.pick(self.encoders or [None])
        made = encoder.encode(self.values(), source.pick([None, None, self.array()]))
        assert made.shape == self.tail
        slots = encoder.decode_slots(source.pick([[source.byte() % 300] * self.n, self.values(), [encoder.t] * self.n]))
        assert len(slots) == self.n

    def on_secret(self) -> None:
        source = self.source
        call = source.byte() % 5
        if call == 0:
            self.secret.public(self.array(), self.small())
        elif call == 1:
            self.secret.encrypt(self.array(), source.pick([None, self.array()]), self.octets(100))
        elif call == 2:
            ciphertext = self.array(2 + source.byte() % 2)
            inside = (
                ciphertext[0]
                if isinstance(ciphertext, np.ndarray) and ciphertext.ndim > 1 and len(ciphertext)
                else None
            )
            self.secret.phase(ciphertext, source.pick([None, self.array(), inside]))
        elif call == 3:
            bound = source.pick([0, 1, Fraction(1, 3), Fraction(1, 2), Fraction(-1, 3), (1 << 63) - 1, self.integer()])
            t = source.pick([2, 353, self.integer()])
            secrets.round_phase(self.ring, self.array(), t, self.integer(), self.integer(), bound)
        else:
            secrets.wipe(source.pick([bytearray(9), b"constant", self.array(), None]))
            secrets.Secret(self.ring, self.small()).close()

    def on_backend(self) -> None:
        source, backend = self.source, self.backend
        call = source.byte() % 20
        if call < 4:
            form = source.pick(["ntt", "ntt", "ntt", self.word()])
            purpose = source.pick(["pointwise", "pointwise", self.word()])
            given = self.array(1 + source.byte() % 3, 2 + source.byte() % 2)
            wait = source.byte() % 4 != 0
            made = backend.put(given, source.byte() % 2 == 0, form=form, purpose=purpose, wait=wait)
            self.arrays = [*self.arrays[-3:], made]
        elif call == 4:
            backend.get(self.handle(), self.integer(), source.pick([None, self.integer()]))
        elif call in (5, 6, 7):
            made = (backend.add, backend.sub, backend.mul)[call - 5](self.handle(), self.handle())
            self.arrays = [*self.arrays[-3:], made]
        elif call == 8:
            self.arrays = [*self.arrays[-3:], backend.neg(self.handle())]
        elif call in (9, 10):
            made = (backend.add_plain, backend.mul_plain)[call - 9](self.handle(), self.array())
            self.arrays = [*self.arrays[-3:], made]
        elif call == 11:
            self.arrays = [*self.arrays[-3:], backend.convert(self.handle(), self.word())]
        elif call == 12:
            source.pick([backend.drop, backend.wait])(self.handle())
        elif call == 13:
            self.accs = [*self.accs[-3:], backend.acc_new(source.pick(["sum", "product", self.word()]), self.integer())]
        elif call == 14:
            backend.acc_add(self.acc(), self.handle(), self.integer(), self.integer(), self.integer())
        elif call == 15:
            numbers = [self.integer() for _ in range(4)]
            backend.acc_mul(self.acc(), self.handle(), numbers[0], self.handle(), *numbers[1:])
        elif call == 16:
            source.pick([lambda: backend.acc_merge(self.acc(), self.acc()), lambda: backend.acc_drop(self.acc())])()
        elif call == 17:
            state = backend.acc_save(self.acc())
            backend.acc_load(self.acc(), source.pick([state, self.array(2), self.array(3)]))
        elif call == 18:
            self.arrays = [*self.arrays[-3:], backend.acc_finish(self.acc(), self.sequence())]
        else:
            backend.sync()
            assert backend.info()["name"] == "cpu"
            assert backend.stats()["bytes_in"] >= 0

    def on_opening(self) -> None:
        name = self.source.pick(["cpu", "cpu", "", "\0", "é", "../x", "cpu\0", None, "quantum"])
        kernels = self.source.pick(["ntt", "ntt", "limb", "x", None])
        native.Backend(name, self.n, self.primes, self.integer(), self.text(), kernels, self.integer()).close()

    def on_closing(self) -> None:
        """What is closed refuses, and closing again is fine."""
        thing = self.source.pick([self.secret, self.backend, self.ring, *self.encoders])
        thing.close()
        thing.close()


CALLS = [World.on_ring] * 4 + [World.on_backend] * 6 + [World.on_encoder, World.on_secret] * 2
CALLS += [World.on_samples, World.on_opening, World.on_closing]


def call(function, world: World) -> None:
    try:
        function(world)
    except InternalError as error:
        if "did not suffice" not in str(error):  # random bytes, of which the fuzzer may give too few
            raise


def test(data: bytes) -> None:
    source = Input(data)
    world = World(source)
    try:
        for _ in range(40):
            if not source.left:
                break
            refusal_or(call, source.pick(CALLS), world, also=WRONG_TYPES)
    finally:
        world.close()


if __name__ == "__main__":
    run(test)
