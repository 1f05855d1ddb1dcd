"""The binding of bfv.h against Python integers: rings, samplers, encryption, backends, refusals."""

from __future__ import annotations

import hashlib
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest

from pybfv import native
from pybfv.errors import BackendUnavailableError, DataError, InternalError, UsageError
from pybfv.native import _lib, gen
from pybfv.ring import Ring as Reference
from pybfv.ring import negacyclic

P133 = (67043329, 134348801, 132120577, 67239937, 134250497)
TOY = (17, 97, 113)  # = 1 mod 16: N = 8
CASES = [(2, (5, 13)), (8, TOY), (16, (97,)), (64, P133[:2])]


def stream(size: int, label: str = "") -> bytes:
    """Bytes that look random and are the same in every run."""
    return hashlib.shake_256(label.encode()).digest(size)


def uniform(rng: random.Random, primes: tuple[int, ...], *shape: int) -> np.ndarray:
    """Random residues [*shape[:-1], L, N], N = shape[-1]; extremes are common."""
    out = native.empty((*shape[:-1], len(primes), shape[-1]))
    for i, p in enumerate(primes):
        plane = [rng.choice((0, p - 1, rng.randrange(p))) for _ in range(out[..., i, :].size)]
        out[..., i, :] = np.array(plane, dtype=np.uint32).reshape(out[..., i, :].shape)
    return out


def integers(reference: Reference, x: np.ndarray) -> list[int]:
    """A residue polynomial in coefficient form as integers mod q."""
    return [reference.crt(column) for column in x.T.tolist()]


def residues(reference: Reference, coefficients: list[int]) -> np.ndarray:
    """Integers in coefficient form to residues [L, N]."""
    return np.array([[c % p for c in coefficients] for p in reference.primes], dtype=np.uint32)


# the library and its declarations


def test_crc32c() -> None:
    assert native.crc32c(b"123456789") == 0xE3069283
    assert native.crc32c(b"") == 0
    data = stream(1000)
    for cut in (0, 1, 7, 8, 500, 1000):
        assert native.crc32c(data[cut:], native.crc32c(data[:cut])) == native.crc32c(data)
    array = np.frombuffer(data, dtype=np.uint8)
    assert native.crc32c(array.view(np.uint32)) == native.crc32c(memoryview(data)) == native.crc32c(data)
    with pytest.raises(UsageError, match="contiguous"):
        native.crc32c(array[::2])
    with pytest.raises(UsageError, match="crc"):
        native.crc32c(data, -1)


def test_bodies_end_with_portable() -> None:
    names = native.bodies()
    assert names[-1] == "portable"
    assert len(set(names)) == len(names)
    for name in names:
        with native.Ring(8, TOY, name) as ring:
            assert ring.body == name
    with pytest.raises(BackendUnavailableError, match=r"'mmx'.*portable"):
        native.Ring(8, TOY, "mmx")


def test_declarations_are_generated(tmp_path, monkeypatch, capsys) -> None:
    assert gen.main(["--check"]) == 0
    for target in gen.TARGETS.values():
        shutil.copy(gen.HERE / target, tmp_path / target)
    monkeypatch.setattr(gen, "HERE", tmp_path)
    assert gen.main(["--check"]) == 0
    (tmp_path / "_cdef.py").write_text("CDEF = ''\n")
    assert gen.main(["--check"]) == 1
    assert "_cdef.py differs from bfv.h" in capsys.readouterr().err
    assert gen.main([]) == gen.main(["--check"]) == 0
    assert gen.main(["--help"]) == 2
    with pytest.raises(ValueError, match="marks"):
        gen.extract("int f(void);")


def test_every_declared_function_is_in_the_library() -> None:
    from pybfv.native import secret

    public, private = dir(_lib.BFV.lib), dir(secret._SECRET.lib)
    assert "bfv_acc_mul" in public
    assert "bfv_secret_phase" in private
    assert not [name for name in public if "secret" in name or name == "bfv_wipe"]
    for binding, names in ((_lib.BFV, public), (secret._SECRET, private)):
        for name in names:
            getattr(binding.lib, name)


def test_import_is_lazy() -> None:
    code = "import sys, pybfv.native; print([m for m in sys.modules if 'cffi' in m or '_cdef' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_or_broken_library_says_what_to_do(tmp_path, monkeypatch) -> None:
    for name, content in (("none.so", None), ("text.so", b"not a library")):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        monkeypatch.setattr(_lib, "LIBRARY", path)
        with pytest.raises(InternalError, match="run: make lib") as caught:
            _ = _lib.Binding(lambda: "int bfv_nothing(void);").lib
        assert "\n" not in str(caught.value)


def test_statuses_become_errors() -> None:
    check, lib = _lib.check, _lib.BFV.lib
    assert check(lib.BFV_OK, "x") is None
    expected = {
        lib.BFV_E_ARGUMENT: InternalError,
        lib.BFV_E_MEMORY: MemoryError,
        lib.BFV_E_RESIDUE: DataError,
        lib.BFV_E_UNSUPPORTED: BackendUnavailableError,
        lib.BFV_E_RANDOM: InternalError,
        lib.BFV_E_NOISE: DataError,
        lib.BFV_E_BACKEND: InternalError,
    }
    assert sorted(expected) == list(range(lib.BFV_E_LAST, 0))
    for status, error in expected.items():
        with pytest.raises(error, match=r"^opening the box: ") as caught:
            check(status, "opening the box")
        assert type(caught.value) is error
    with pytest.raises(UsageError, match=r"^too big$"):
        check(lib.BFV_E_ARGUMENT, "x", argument="too big")
    with pytest.raises(DataError, match=r"^noisy$"):
        check(lib.BFV_E_NOISE, "x", noise="noisy")
    with pytest.raises(InternalError):
        check(lib.BFV_E_LAST - 1, "x")


@pytest.mark.parametrize("shape", [3, (2, 3), (0, 8), (1,), (2, 5, 131072), (1 << 20,)])
def test_empty_is_aligned(shape) -> None:
    x = native.empty(shape)
    dims = (shape,) if isinstance(shape, int) else shape
    assert x.shape == dims
    assert x.dtype == np.uint32
    assert x.flags.c_contiguous
    assert x.size == 0 or x.ctypes.data % 64 == 0
    x[...] = 7
    assert x.size == 0 or (x.min(), x.max()) == (7, 7)


# rings


@pytest.mark.parametrize(("n", "primes"), CASES)
def test_ntt_is_seals(n: int, primes: tuple[int, ...]) -> None:
    rng = random.Random(1)
    reference = Reference(n, primes)
    with native.Ring(n, primes) as ring:
        assert (ring.n, ring.primes, ring.roots) == (n, primes, reference.roots)
        a = uniform(rng, primes, n)
        x = a.copy()
        assert ring.forward(x) is x
        assert x.tolist() == [reference.ntt_by_definition(a[i].tolist(), i) for i in range(len(primes))]
        ring.inverse(x)
        assert (x == a).all()
        stack = np.stack([a, a])[None]
        assert (ring.inverse(ring.forward(stack.copy())) == stack).all()


@pytest.mark.parametrize(("n", "primes"), CASES)
def test_pointwise_functions(n: int, primes: tuple[int, ...]) -> None:
    rng = random.Random(2)
    column = np.array(primes, dtype=np.uint64)[:, None]
    with native.Ring(n, primes) as ring:
        a, b = uniform(rng, primes, 3, n), uniform(rng, primes, 3, n)
        u, v = a.astype(np.uint64), b.astype(np.uint64)
        assert (ring.add(a, b) == (u + v) % column).all()
        assert (ring.sub(a, b) == (u + column - v) % column).all()
        assert (ring.neg(a) == (column - u) % column).all()
        assert (ring.mul(a, b) == u * v % column).all()
        s = [p - 1 - i for i, p in enumerate(primes)]
        assert (ring.mul_scalar(a, s) == u * np.array(s, dtype=np.uint64)[:, None] % column).all()
        out = native.empty(a.shape)
        assert ring.add(a, b, out) is out
        assert ring.add(a, b, a) is a
        assert (a == out).all()
        # the product in NTT form is the ring's
        reference = Reference(n, primes)
        f, g = b[0], b[1]
        product = ring.inverse(ring.mul(ring.forward(f.copy()), ring.forward(g.copy())))
        want = negacyclic(integers(reference, f), integers(reference, g))
        assert integers(reference, product) == [c % reference.q for c in want]


def test_from_int64() -> None:
    values = np.array([0, 1, -1, 2**62 - 1, 1 - 2**62, 96, -97, 5], dtype=np.int64)
    with native.Ring(8, TOY) as ring:
        assert ring.from_int64(values).tolist() == [[int(v) % p for v in values] for p in TOY]
        values[3] = 2**62
        with pytest.raises(UsageError, match=r"2\^62"):
            ring.from_int64(values)


@pytest.mark.parametrize(
    ("n", "primes"),
    [
        (8, ()),
        (8, TOY * 9),
        (8, (17, 17)),
        (8, (19,)),
        (8, (33,)),
        (12, (97,)),
        (0, (17,)),
        (32768, (65537,)),
        (8, (2**31 - 1,)),
        (8, (-17,)),
        (8.0, (17,)),
        (8, (17.0,)),
        (8, (2**40,)),
    ],
)
def test_bad_rings_are_refused(n, primes) -> None:
    with pytest.raises(UsageError) as caught:
        native.Ring(n, primes)
    assert "\n" not in str(caught.value)


def test_arrays_that_do_not_fit_are_refused() -> None:
    with native.Ring(8, TOY) as ring:
        good = np.zeros((3, 8), dtype=np.uint32)
        locked = good.copy()
        locked.flags.writeable = False
        skewed = np.frombuffer(bytearray(4 * 24 + 1), dtype=np.uint8)[1:].view(np.uint32).reshape(3, 8)
        for bad in (
            good.astype(np.int32),
            good.astype(np.uint64),
            good.tolist(),
            None,
            good[:2],
            good[:, :4],
            np.zeros((8, 3), dtype=np.uint32).T,
            np.zeros((3, 16), dtype=np.uint32)[:, ::2],
            good.reshape(-1),
            skewed,
        ):
            for call in (ring.forward, ring.inverse, ring.check_residues, ring.neg):
                with pytest.raises(UsageError):
                    call(bad)
            with pytest.raises(UsageError):
                ring.add(good, bad)
            with pytest.raises(UsageError):
                ring.add(good, good, out=bad if bad is not None else locked)
            with pytest.raises(UsageError):
                ring.encrypt_public(np.zeros((2, 3, 8), dtype=np.uint32), bad if bad is not None else good[:2], b"")
        with pytest.raises(UsageError, match="writable"):
            ring.forward(locked)
        with pytest.raises(UsageError, match="shape"):
            ring.add(good, np.zeros((1, 3, 8), dtype=np.uint32))
        for factors in ((1, 2), (1, 2, 3, 4), (17, 0, 0), (0, 0, -1)):
            with pytest.raises(UsageError, match="factor"):
                ring.mul_scalar(good, factors)
        with pytest.raises(UsageError):
            ring.from_int64(np.zeros(8, dtype=np.int32))
        with pytest.raises(UsageError):
            ring.from_int64(np.zeros(7, dtype=np.int64))


def test_check_residues() -> None:
    with native.Ring(8, TOY) as ring:
        x = np.array([[p - 1] * 8 for p in TOY], dtype=np.uint32)
        ring.check_residues(x)
        for i, p in enumerate(TOY):
            for wrong in (p, 2**32 - 1):
                bad = np.stack([x, x])
                bad[1, i, 7] = wrong
                with pytest.raises(DataError, match=r"^record 3: a residue is not below its prime"):
                    ring.check_residues(bad, "record 3")


def test_a_closed_ring_is_refused() -> None:
    ring = native.Ring(8, TOY)
    ring.close()
    ring.close()
    with pytest.raises(UsageError, match="closed"):
        ring.forward(np.zeros((3, 8), dtype=np.uint32))


# samplers


def expected_uniform(p: int, data: bytes) -> list[int]:
    words = [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]
    return [w for w in (w % 2 ** p.bit_length() for w in words) if w < p]


@pytest.mark.parametrize("p", [17, 97, *P133[:3]])
def test_expand_uniform(p: int) -> None:
    with native.Ring(8, (113, p)) as ring:
        data = stream(400, f"uniform {p}")
        want = expected_uniform(p, data)
        out = np.zeros(8, dtype=np.uint32)
        assert ring.expand_uniform(1, data, out, 0) == 8
        assert out.tolist() == want[:8]
        # in pieces, words in any split
        out[:], filled, position = 0, 0, 0
        while filled < 8:
            filled = ring.expand_uniform(1, data[position : position + 4], out, filled)
            position += 4
        assert out.tolist() == want[:8]
        # the edges of the rule: p - 1 kept, p and the mask refused, high bits ignored
        bits = p.bit_length()
        words = [p - 1, p, 2**bits - 1, 0, (2**32 - 2**bits) | 1]
        edge = b"".join(w.to_bytes(4, "little") for w in words)
        assert ring.expand_uniform(1, edge, out, 2) == 5
        assert out.tolist() == [*want[:2], p - 1, 0, 1, *out[5:].tolist()]


def test_expand_uniform_refuses() -> None:
    with native.Ring(8, TOY) as ring:
        out = np.zeros(8, dtype=np.uint32)
        for index, data, filled in ((3, b"", 0), (-1, b"", 0), (0, b"123", 0), (0, b"", 9)):
            with pytest.raises(UsageError):
                ring.expand_uniform(index, data, out, filled)
        assert ring.expand_uniform(0, b"", out, 3) == 3
        assert ring.expand_uniform(0, stream(64), out, 8) == 8
        assert not out.any()


def test_ternary_over_all_bytes() -> None:
    data = bytes(range(256)) * 2
    want = [b % 3 - 1 for b in data if b != 255]
    assert [want[:255].count(v) for v in (-1, 0, 1)] == [85, 85, 85]
    for n in (2, 256):
        assert native.sample_ternary(n, data).tolist() == want[:n]
    assert native.sample_ternary(4, b"\xff\x00\xff\x01\x02\xff\x03").tolist() == [-1, 0, 1, -1]
    for short in (b"", b"\xff" * 100, b"\x00\xff\x01\x02\xff"):
        with pytest.raises(InternalError, match="did not suffice"):
            native.sample_ternary(4, short)
    assert native.ternary_bytes(4096) == 4096 + 512 + 64
    for n in (1, 16385, 2.0):
        with pytest.raises(UsageError):
            native.sample_ternary(n, data)


def expected_error(data: bytes) -> list[int]:
    words = [int.from_bytes(data[i : i + 6], "little") for i in range(0, len(data), 6)]
    return [(w & (2**21 - 1)).bit_count() - (w >> 21 & (2**21 - 1)).bit_count() for w in words]


def test_error_over_all_words_of_one_side() -> None:
    """All 2^21 words of either half, the other half and the ignored bits full or empty."""
    counts = np.zeros(1, dtype=np.int8)
    for _ in range(21):
        counts = np.concatenate([counts, counts + 1]).astype(np.int8)
    words = np.arange(2**21, dtype=np.uint64)
    ones = np.uint64(2**21 - 1)
    for values, want in (
        (words | np.uint64(63 << 42), counts),
        (words << np.uint64(21) | ones, 21 - counts),
    ):
        raw = values.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :6]
        for k in range(0, 2**21, 16384):
            block = np.ascontiguousarray(raw[k : k + 16384])
            assert (native.sample_error(16384, block) == want[k : k + 16384]).all()


def test_error_layout_and_distribution() -> None:
    for bit in range(48):
        data = (1 << bit).to_bytes(6, "little") + bytes(6)
        assert native.sample_error(2, data).tolist() == [1 if bit < 21 else -1 if bit < 42 else 0, 0]
    data = stream(6 * 16384, "errors")
    x = native.sample_error(16384, data)
    assert x.tolist() == expected_error(data)
    # 16384 samples: the mean's deviation is 0.025, the variance's about 0.11
    assert abs(x.mean()) < 0.13
    assert abs(x.astype(float).var() - 10.5) < 0.6
    assert native.error_bytes(16384) == len(data)
    with pytest.raises(InternalError, match="did not suffice"):
        native.sample_error(16384, data[:-1])
    t = native.sample_ternary(16384, stream(native.ternary_bytes(16384), "ternary"))
    assert all(abs((t == v).mean() - 1 / 3) < 0.02 for v in (-1, 0, 1))


# encryption under the public key, recomputed from its random bytes


def split_randomness(n: int, parts: int, rnd: bytes) -> tuple[list[list[int]], list[list[int]]]:
    """The ternary and error polynomials in the order of bfv.h, by the rules of FORMAT.md."""
    block, ternaries, errors = n + n // 8 + 64, [], []
    for k in range(parts - 1):
        kept = [b % 3 - 1 for b in rnd[k * block : (k + 1) * block] if b != 255]
        ternaries.append(kept[:n])
    rest = rnd[(parts - 1) * block :]
    errors = [expected_error(rest[6 * n * k : 6 * n * (k + 1)]) for k in range(parts)]
    return ternaries, errors


def poly_sum(q: int, *polys: list[int]) -> list[int]:
    return [sum(column) % q for column in zip(*polys, strict=True)]


@pytest.mark.parametrize(("n", "primes"), CASES)
def test_encrypt_public_and_zero3(n: int, primes: tuple[int, ...]) -> None:
    rng = random.Random(n)
    reference = Reference(n, primes)
    q = reference.q
    with native.Ring(n, primes) as ring:
        pk = uniform(rng, primes, 2, n)
        p0, p1 = (integers(reference, ring.inverse(x.copy())) for x in pk)
        m = uniform(rng, primes, n)
        message = integers(reference, m)

        rnd = stream(ring.encrypt_bytes(2), f"encrypt {n}")
        (u,), (e0, e1) = split_randomness(n, 2, rnd)
        zero = [0] * n
        for plain, scaled in ((m, message), (None, zero)):
            ct = ring.encrypt_public(pk, plain, rnd)
            found = [integers(reference, ring.inverse(x.copy())) for x in ct]
            assert found[0] == poly_sum(q, negacyclic(p0, u), e0, scaled)
            assert found[1] == poly_sum(q, negacyclic(p1, u), e1)
        out = native.empty((2, len(primes), n))
        assert ring.encrypt_public(pk, None, rnd, out) is out
        assert (out == ct).all()

        rnd = stream(ring.encrypt_bytes(3), f"zero {n}")
        (u1, u2), (e0, e1, e2) = split_randomness(n, 3, rnd)
        found = [integers(reference, ring.inverse(x.copy())) for x in ring.encrypt_zero3(pk, rnd)]
        assert found[0] == poly_sum(q, negacyclic(p0, u1), e0)
        assert found[1] == poly_sum(q, negacyclic(p1, u1), negacyclic(p0, u2), e1)
        assert found[2] == poly_sum(q, negacyclic(p1, u2), e2)


def test_bodies_encrypt_alike() -> None:
    rng = random.Random(5)
    pk, rnd = uniform(rng, P133, 2, 1024), None
    found = []
    for body in native.bodies():
        with native.Ring(1024, P133, body) as ring:
            rnd = rnd or stream(ring.encrypt_bytes(3), "bodies")
            found.append((ring.encrypt_public(pk, None, rnd).tobytes(), ring.encrypt_zero3(pk, rnd).tobytes()))
    assert len(set(found)) == 1


def test_encryption_refuses() -> None:
    with native.Ring(8, TOY) as ring:
        pk = np.zeros((2, 3, 8), dtype=np.uint32)
        size = ring.encrypt_bytes(2)
        assert size == (8 + 1 + 64) + 2 * 48
        assert ring.encrypt_bytes(3) == 2 * (8 + 1 + 64) + 3 * 48
        for parts in (1, 4):
            with pytest.raises(UsageError):
                ring.encrypt_bytes(parts)
        out = np.full((2, 3, 8), 7, dtype=np.uint32)
        for rnd in (bytes(size - 1), b"\xff" * size):
            with pytest.raises(InternalError, match="did not suffice"):
                ring.encrypt_public(pk, None, rnd, out)
        with pytest.raises(InternalError):
            ring.encrypt_zero3(pk, bytes(size))
        bad = pk.copy()
        bad[1, 2, 7] = 113
        with pytest.raises(DataError, match="not below its prime"):
            ring.encrypt_public(bad, None, bytes(size), out)
        with pytest.raises(DataError, match="not below its prime"):
            ring.encrypt_public(pk, bad[1], bytes(size), out)
        assert (out == 7).all()
        with pytest.raises(UsageError, match="overlap"):
            ring.encrypt_public(pk, None, bytes(size), pk)
        with pytest.raises(UsageError):
            ring.encrypt_public(pk[:1], None, bytes(size))


def test_c_checks_its_own_arguments() -> None:
    """The C functions, called past the wrappers: a status, and outputs unchanged."""
    lib, ffi = _lib.BFV.lib, _lib.BFV.ffi
    null, wrong = ffi.NULL, lib.BFV_E_ARGUMENT
    with native.Ring(8, TOY) as ring:
        r = ring.pointer
        pk, out = ffi.new("uint32_t[48]"), ffi.new("uint32_t[72]", [7] * 72)
        rnd, small = ffi.new("uint8_t[1000]"), ffi.new("int8_t[8]", [7] * 8)
        filled = ffi.new("uint32_t *", 0)
        t, encoder = ffi.new("uint64_t[9]", [10] + [0] * 8), ffi.new("bfv_encoder **")
        t_primes = ffi.new("uint32_t[]", [241])
        assert lib.bfv_encoder_open_batched(r, t_primes, 1, encoder) == 0
        e, spare = encoder[0], ffi.new("bfv_encoder **")
        values = ffi.new("uint64_t[72]")
        for status in (
            lib.bfv_expand_uniform(null, 0, rnd, 4, out, filled),
            lib.bfv_expand_uniform(r, 3, rnd, 4, out, filled),
            lib.bfv_expand_uniform(r, 0, null, 4, out, filled),
            lib.bfv_expand_uniform(r, 0, rnd, 3, out, filled),
            lib.bfv_expand_uniform(r, 0, rnd, 4, null, filled),
            lib.bfv_expand_uniform(r, 0, rnd, 4, out, null),
            lib.bfv_expand_uniform(r, 0, rnd, 4, out, ffi.new("uint32_t *", 9)),
            lib.bfv_sample_ternary(8, null, 100, small),
            lib.bfv_sample_ternary(8, rnd, 100, null),
            lib.bfv_sample_ternary(1, rnd, 100, small),
            lib.bfv_sample_error(8, null, 100, small),
            lib.bfv_sample_error(8, rnd, 100, null),
            lib.bfv_sample_error(16385, rnd, 100, small),
            lib.bfv_encrypt_public(null, pk, null, rnd, 1000, out),
            lib.bfv_encrypt_public(r, null, null, rnd, 1000, out),
            lib.bfv_encrypt_public(r, pk, null, null, 1000, out),
            lib.bfv_encrypt_public(r, pk, null, rnd, 1000, null),
            lib.bfv_encrypt_zero3(null, pk, rnd, 1000, out),
            lib.bfv_encrypt_zero3(r, null, rnd, 1000, out),
            lib.bfv_encrypt_zero3(r, pk, null, 1000, out),
            lib.bfv_encrypt_zero3(r, pk, rnd, 1000, null),
            lib.bfv_encoder_open_batched(null, t_primes, 1, spare),
            lib.bfv_encoder_open_batched(r, null, 1, spare),
            lib.bfv_encoder_open_batched(r, t_primes, 0, spare),
            lib.bfv_encoder_open_batched(r, t_primes, 21, spare),
            lib.bfv_encoder_open_batched(r, t_primes, 1, null),
            lib.bfv_encoder_open_coefficients(null, t, 1, spare),
            lib.bfv_encoder_open_coefficients(r, null, 1, spare),
            lib.bfv_encoder_open_coefficients(r, t, 0, spare),
            lib.bfv_encoder_open_coefficients(r, t, 9, spare),
            lib.bfv_encoder_open_coefficients(r, t, 1, null),
            lib.bfv_encode(null, values, 1, 8, out),
            lib.bfv_encode(e, null, 1, 8, out),
            lib.bfv_encode(e, values, 0, 8, out),
            lib.bfv_encode(e, values, 9, 8, out),
            lib.bfv_encode(e, values, 1, 9, out),
            lib.bfv_encode(e, values, 1, 8, null),
            lib.bfv_decode_slots(null, values, 1, out),
            lib.bfv_decode_slots(e, null, 1, out),
            lib.bfv_decode_slots(e, values, 0, out),
            lib.bfv_decode_slots(e, values, 9, out),
            lib.bfv_decode_slots(e, values, 1, null),
            lib.bfv_decode_slots(e, ffi.new("uint64_t[8]", [0] * 7 + [241]), 1, out),
        ):
            assert status == wrong
        assert list(out) == [7] * 72
        assert list(small) == [7] * 8
        assert (filled[0], spare[0]) == (0, null)
        assert lib.bfv_encrypt_public(r, pk, null, rnd, 168, out) == lib.BFV_E_RANDOM
        assert lib.bfv_sample_ternary(8, rnd, 7, small) == lib.BFV_E_RANDOM
        assert list(out) == [7] * 72
        assert [lib.bfv_encrypt_bytes(n, parts) for n, parts in ((8, 1), (8, 4), (1, 2))] == [0, 0, 0]
        lib.bfv_encoder_close(e)
        lib.bfv_encoder_close(null)
