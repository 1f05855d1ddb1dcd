"""Backends: arrays of ciphertexts and exact accumulators, one method per C function.

Handles free themselves in any order: an array or accumulator keeps its backend alive, and closing a
backend frees what it still owns, after which they are refused.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from pybfv.errors import UsageError
from pybfv.native._lib import BFV, check_array, check_integer, empty, text_argument, view
from pybfv.native._lib import check as raise_status
from pybfv.native._ring import body_message, prime_argument

_KERNELS = ("ntt", "limb")
_PURPOSES = ("pointwise", "convolve")
_FORMS = ("ntt", "coefficient")
_KINDS = ("sum", "product", "scaled")
_COUNT_LIMIT = 2**63 - 1


_EVENTS = ("launch", "to_dpus", "from_dpus")
_WAYS = ("serial", "parallel", "broadcast", "gather")
_LAUNCH = ("command", "log_n", "primes", "parts", "tasklets", "block", "count", "positions", "reads", "read_bytes",
           "writes", "write_bytes", "busiest_reads", "busiest_writes", "busiest_bytes")  # fmt: skip


def _event(event: Any) -> dict[str, Any]:
    found = {"kind": _EVENTS[event.kind], "dpus": int(event.dpus), "times": int(event.times)}
    if found["kind"] != "launch":
        return found | {"bytes": int(event.bytes), "way": _WAYS[event.way], "wram": bool(event.wram)}
    return found | {name: int(getattr(event, name)) for name in _LAUNCH} | {"sizes": [int(x) for x in event.sizes]}


class _Owner:
    """The C backend and the lock that gives it to one thread at a time."""

    def __init__(self, pointer: Any) -> None:
        self.pointer: Any = pointer
        self._lock = threading.RLock()
        self._pending: list[tuple[Any, Any, Any]] = []

    def run(self, function: Any, *arguments: Any) -> int:
        """Calls ``function(backend, *arguments)``."""
        with self._lock:
            self._drain()
            if self.pointer is None:
                raise UsageError("this backend is closed: open another")
            return function(self.pointer, *arguments)

    def drop(self, function: Any, pointer: Any, keep: Any) -> None:
        """Frees a handle, now or, while another thread computes, before the next call.

        Finalizers end here, on whatever thread; they must not wait. ``keep`` lives until then.
        """
        self._pending.append((function, pointer, keep))
        if self._lock.acquire(blocking=False):
            try:
                self._drain()
            finally:
                self._lock.release()

    def _drain(self) -> None:
        while self._pending:
            function, pointer, _ = self._pending.pop()
            if self.pointer is not None:
                function(self.pointer, pointer)

    def close(self) -> None:
        with self._lock:
            self._drain()
            if self.pointer is not None:
                BFV.lib.bfv_close(self.pointer)
                self.pointer = None


class _Handle:
    """What a backend owns: the C handle, freed with the object or by the backend's drop."""

    def __init__(self, backend: Backend, pointer: Any, free: Any, keep: Any) -> None:
        self.backend = backend
        self._pointer = pointer
        self._free = weakref.finalize(self, backend._owner.drop, free, pointer, keep)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"{type(self).__name__} objects belong to a backend and can't be copied or pickled")


class Array(_Handle):
    """``count`` ciphertexts of ``parts`` parts in a backend."""

    def __init__(self, backend: Backend, pointer: Any, count: int, parts: int, form: str, keep: Any) -> None:
        super().__init__(backend, pointer, BFV.lib.bfv_drop, keep)
        self.count = count
        self.parts = parts
        self.form = form
        self.ticket: int | None = None


class Acc(_Handle):
    """An accumulator of a backend: kind "sum", "product" or "scaled"."""

    def __init__(self, backend: Backend, pointer: Any, kind: str, parts: int) -> None:
        super().__init__(backend, pointer, BFV.lib.bfv_acc_drop, None)
        self.kind = kind
        self.parts = parts


def _missing(name: str, kernels: str, body: str | None, detail: str) -> str:
    """What to say when a backend can't be opened here; detail: the library's own words, or ""."""
    said = f" ({detail})" if detail else ""
    if name == "cpu" and kernels == "ntt":
        return body_message(body)
    if "no DPU is free" in detail:
        return f"backend {name!r}: {detail}"
    if name == "sim":
        hint = "take another set or kernels ntt" if "ring" in detail else "build it with: make lib"
        return f"backend 'sim' with kernels {kernels!r} can't be used{said}: {hint}"
    if name == "upmem":
        return (
            f"backend 'upmem' with kernels {kernels!r} can't be used{said}: it needs UPMEM hardware, its SDK, and "
            "the backend built against it (UPMEM_HOME=... make host); check with: pybfv doctor"
        )
    return f"backend {name!r} with kernels {kernels!r} is not available in this build: use cpu, ntt"


def _index(value: str, known: tuple[str, ...], name: str) -> int:
    if value not in known:
        raise UsageError(f"unknown {name} {value!r}; known are: {', '.join(known)}")
    return known.index(value)


_STRICT = {None: 0, True: 1, False: 2}
CHECKS = ("linear", "none", "full")
"""How far results of DPUs are checked; the first is the default."""
_TIMES = ("host_to_dpu", "kernel", "dpu_to_host", "convert", "check")
_DETAIL_SIZE = 512


class Backend:
    """A backend of the C library, opened by name ("cpu", "sim", "upmem") for one ring.

    threads: CPU threads, 1 to 256, 0 for all cores. body: a CPU kernel body, None for the best. kernels:
    "ntt" or "limb" (sim and upmem). dpus: 1 to 4096, 0 for the default (sim 64, upmem all). tasklets: 1
    to 24, 0 for 16. strict: how sim runs its programs, None as PYBFV_SIM says ("strict" or "faithful"),
    strict without it. profile: "key=value,..." for the SDK's dpu_alloc. wide: the wide primes that "scaled"
    accumulators need (params.wide_primes), distinct from ``primes``. check (sim and upmem): "linear" compares
    what DPUs return with what the host works out at random points, "full" with all of it, "none" with nothing;
    unless "none", what a DPU got wrong is computed again without it, once.

    BackendUnavailableError for a backend, kernels, body or hardware that isn't here; UsageError for
    numbers out of range, more DPUs than exist among them.
    """

    def __init__(
        self,
        name: str,
        n: int,
        primes: Sequence[int],
        threads: int = 1,
        body: str | None = None,
        kernels: str = "ntt",
        dpus: int = 0,
        tasklets: int = 0,
        strict: bool | None = None,
        profile: str | None = None,
        wide: Sequence[int] = (),
        check: str = "linear",
    ) -> None:
        lib, ffi = BFV.lib, BFV.ffi
        argument = prime_argument(primes, lib.BFV_MAX_Q_PRIMES, "primes")
        wide_argument = prime_argument(wide, lib.BFV_MAX_PRIMES - len(argument), "wide") if wide else None
        body_text = text_argument(body, "body")
        options = ffi.new("bfv_options *")
        options.n = check_integer(n, lib.BFV_MIN_N, lib.BFV_MAX_N, "n")
        options.count = len(argument)
        options.primes = argument
        options.kernels = _index(kernels, _KERNELS, "kernels")
        mode = os.environ.get("PYBFV_SIM") or "strict"
        if mode not in ("strict", "faithful"):
            raise UsageError(f"PYBFV_SIM is {mode!r}; it can be strict or faithful")
        options.threads = check_integer(threads, 0, lib.BFV_MAX_THREADS, "threads")
        options.body = body_text
        options.dpus = check_integer(dpus, 0, lib.BFV_MAX_DPUS, "dpus")
        options.tasklets = check_integer(tasklets, 0, lib.BFV_MAX_TASKLETS, "tasklets")
        profile_text = text_argument(profile, "profile")
        options.profile = profile_text
        options.strict = _STRICT[strict]
        _index(check, CHECKS, "check")
        options.check = getattr(lib, f"BFV_CHECK_{check.upper()}")
        if wide_argument is not None:
            options.wide, options.wide_count = wide_argument, len(wide_argument)
        detail_text = ffi.new("char[]", _DETAIL_SIZE)
        options.detail, options.detail_size = detail_text, _DETAIL_SIZE
        out = ffi.new("bfv_backend **")
        status = lib.bfv_open(text_argument(name, "the backend's name"), options, out)
        detail = ffi.string(detail_text).decode(errors="replace")
        raise_status(
            status,
            f"opening backend {name!r}" + (f": {detail}" if detail else ""),
            unsupported=_missing(name, kernels, body, detail),
            argument=f"backend {name!r}: {detail}"
            + ("" if "DPUs were asked for" in detail else ": choose other numbers, or another profile")
            if detail
            else f"N = {n} with primes {', '.join(map(str, (*primes, *wide)))} is no ring for a backend: N must be "
            f"a power of two, the primes distinct, prime, 1 mod {2 * n} and below 2^30",
        )
        self.n = int(n)
        self.primes = tuple(int(p) for p in primes)
        self.wide = tuple(int(p) for p in wide)
        self._tail = (len(self.primes), self.n)
        self._owner = _Owner(out[0])
        self._close = weakref.finalize(self, self._owner.close)
        self._lent: weakref.WeakKeyDictionary[Array, list[Any]] = weakref.WeakKeyDictionary()

    def close(self) -> None:
        """Frees the backend and all it owns; closing twice is fine."""
        self._close()

    def __enter__(self) -> Backend:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a backend can't be copied or pickled")

    def _run(self, what: str, function: Any, *arguments: Any) -> None:
        status = self._owner.run(function, *arguments)
        if status in (BFV.lib.BFV_E_BACKEND, BFV.lib.BFV_E_MEMORY):
            detail = self._detail()
            what += f": {detail}" if detail else ""
        raise_status(status, what)

    def _detail(self) -> str:
        return BFV.ffi.string(self._owner.run(BFV.lib.bfv_backend_error)).decode(errors="replace")

    def _handle(self, handle: Any, kind: type[_Handle]) -> Any:
        if not isinstance(handle, kind) or handle.backend is not self:
            raise UsageError(f"not an {kind.__name__} of this backend: {type(handle).__name__}")
        if not handle._free.alive:
            raise UsageError(f"this {kind.__name__} was dropped: make another")
        return handle._pointer

    def info(self) -> dict[str, Any]:
        """name, body, kernels, threads, dpus, tasklets, seed (sim in strict mode); None where one doesn't apply.

        dpus: those at work. mended: what went wrong with DPUs and was computed again, a sentence.
        """
        out = BFV.ffi.new("bfv_info *")
        self._run("info", BFV.lib.bfv_get_info, out)
        return {
            "name": BFV.ffi.string(out.name).decode(),
            "body": BFV.ffi.string(out.body).decode(),
            "kernels": _KERNELS[out.kernels],
            "threads": int(out.threads) or None,
            "dpus": int(out.dpus) or None,
            "tasklets": int(out.tasklets) or None,
            "seed": int(out.seed) or None,
            "mended": self._detail() if self.stats()["redone"] else None,
        }

    def stats(self) -> dict[str, int]:
        """sums, products: ciphertexts and products accumulated; bytes_in, bytes_out: put and taken back.

        host_to_dpu, kernel, dpu_to_host, convert, check: nanoseconds of wall time, 0 for cpu. redone: how often
        work was done again as DPUs erred; left_out: how many were left out for it.
        """
        out = BFV.ffi.new("bfv_stats *")
        self._run("stats", BFV.lib.bfv_get_stats, out)
        names = ("sums", "products", "bytes_in", "bytes_out", *_TIMES, "redone", "left_out")
        return {name: int(getattr(out, name)) for name in names}

    def events(self) -> list[dict[str, Any]]:
        """What "sim" recorded of its DPUs, for a time model; equal events once, [] for other backends.

        Each has ``kind`` ("launch", "to_dpus", "from_dpus"), ``dpus``, ``times``. Transfers: ``bytes`` of each DPU,
        ``way`` ("serial", "parallel", "broadcast", "gather"), ``wram``. Launches: the arguments and the DMA
        transfers of the DPU with the most work, named as in bfv_event.
        """
        count = BFV.ffi.new("uint32_t *")
        self._run("events", BFV.lib.bfv_get_events, BFV.ffi.NULL, 0, count)
        room = int(count[0])
        out = BFV.ffi.new("bfv_event[]", max(room, 1))
        self._run("events", BFV.lib.bfv_get_events, out, room, count)
        return [_event(out[i]) for i in range(min(room, int(count[0])))]

    # arrays

    def put(
        self,
        array: np.ndarray,
        borrow: bool = False,
        *,
        form: str = "ntt",
        purpose: str = "pointwise",
        wait: bool = True,
    ) -> Array:
        """Takes ciphertexts, uint32 [count, parts, L, N]; DataError when a residue is not below its prime.

        The source is free again on return, unless ``borrow`` (it must stay unchanged until drop) or
        ``wait=False`` (until ``wait`` or ``sync``). It is kept alive in any case.
        """
        check_array(array, (None, None, *self._tail), "array")
        count, parts = array.shape[:2]
        check_integer(count, 1, _COUNT_LIMIT, "the number of ciphertexts")
        check_integer(parts, 2, 3, "the number of parts")
        desc = BFV.ffi.new("bfv_desc *")
        desc.n, desc.primes, desc.word, desc.parts = self.n, len(self.primes), 32, parts
        desc.form = _index(form, _FORMS, "form")
        desc.purpose = _index(purpose, _PURPOSES, "purpose")
        desc.flags = BFV.lib.BFV_PUT_BORROW if borrow else 0
        out, ticket = BFV.ffi.new("bfv_array **"), BFV.ffi.new("bfv_ticket *")
        source = view(BFV, "uint32_t[]", array, "array")
        self._run("ciphertexts for the backend", BFV.lib.bfv_put, desc, source, count, out, ticket)
        keep = [source]
        result = Array(self, out[0], count, parts, form, keep)
        result.ticket = int(ticket[0])
        if not borrow:
            self._lent[result] = keep
            if wait:
                self.wait(result)
        return result

    def get(self, array: Array, first: int = 0, count: int | None = None) -> np.ndarray:
        """Ciphertexts ``first`` and following, by default all, [count, parts, L, N]."""
        pointer = self._handle(array, Array)
        check_integer(first, 0, array.count - 1, "first")
        number = check_integer(array.count - first if count is None else count, 1, array.count - first, "count")
        out = empty((number, array.parts, *self._tail))
        into = view(BFV, "uint32_t[]", out, "out", write=True)
        self._run("ciphertexts from the backend", BFV.lib.bfv_get, pointer, first, number, into)
        return out

    def drop(self, array: Array) -> None:
        """Frees an array."""
        self._handle(array, Array)
        array._free()

    def wait(self, array: Array) -> None:
        """Returns when the array's source is no longer needed (unless it is borrowed)."""
        self._handle(array, Array)
        if array.ticket is not None:
            self._run("wait", BFV.lib.bfv_wait, array.ticket)
            self._release(array)

    def sync(self) -> None:
        """Waits for everything; raises the first error since the last sync."""
        self._run("sync", BFV.lib.bfv_sync)
        for array in list(self._lent):
            self._release(array)

    def _release(self, array: Array) -> None:
        # the finalizer holds the same list: emptying it lets the source go
        self._lent.pop(array, []).clear()

    # arithmetic

    def _result(self, what: str, function: Any, count: int, parts: int, form: str, *arguments: Any) -> Array:
        out = BFV.ffi.new("bfv_array **")
        self._run(what, function, *arguments, out)
        return Array(self, out[0], count, parts, form, None)

    def _binary(self, what: str, function: Any, a: Array, b: Array) -> Array:
        pointers = self._handle(a, Array), self._handle(b, Array)
        if (a.count, a.parts, a.form) != (b.count, b.parts, b.form):
            raise UsageError(f"{what} needs arrays of equal count, parts and form")
        return self._result(what, function, a.count, a.parts, a.form, *pointers)

    def add(self, a: Array, b: Array) -> Array:
        """a + b, ciphertext by ciphertext."""
        return self._binary("add", BFV.lib.bfv_add, a, b)

    def sub(self, a: Array, b: Array) -> Array:
        """a - b, ciphertext by ciphertext."""
        return self._binary("sub", BFV.lib.bfv_sub, a, b)

    def neg(self, a: Array) -> Array:
        """-a."""
        return self._result("neg", BFV.lib.bfv_neg, a.count, a.parts, a.form, self._handle(a, Array))

    def _plain(self, what: str, function: Any, a: Array, m: np.ndarray) -> Array:
        pointer = self._handle(a, Array)
        self._need_ntt(a)
        check_array(m, self._tail, "m")
        plain = view(BFV, "uint32_t[]", m, "m")
        return self._result(what, function, a.count, a.parts, a.form, pointer, plain)

    def add_plain(self, a: Array, m: np.ndarray) -> Array:
        """a + m, m one scaled plaintext [L, N] in NTT form."""
        return self._plain("add_plain", BFV.lib.bfv_add_plain, a, m)

    def mul_plain(self, a: Array, m: np.ndarray) -> Array:
        """a m, m one reduced, unscaled plaintext [L, N] in NTT form."""
        return self._plain("mul_plain", BFV.lib.bfv_mul_plain, a, m)

    def mul(self, a: Array, b: Array) -> Array:
        """The tensor mod q without any factor, 2 and 2 parts to 3, ciphertext by ciphertext."""
        pointers = self._handle(a, Array), self._handle(b, Array)
        if (a.count, a.parts, b.count, b.parts) != (a.count, 2, a.count, 2):
            raise UsageError("mul needs arrays of equal count and two parts")
        self._need_ntt(a, b)
        return self._result("mul", BFV.lib.bfv_mul, a.count, 3, a.form, *pointers)

    def convert(self, array: Array, form: str) -> Array:
        """The array in ``form``, "ntt" or "coefficient", the one that it isn't in."""
        number = _index(form, _FORMS, "form")
        if array.form == form:
            raise UsageError(f"these ciphertexts are in {form} form already")
        pointer = self._handle(array, Array)
        return self._result("convert", BFV.lib.bfv_convert, array.count, array.parts, form, pointer, number)

    # accumulators

    def acc_new(self, kind: str, parts: int) -> Acc:
        """An accumulator, 0: kind "sum" with 2 or 3 parts, "product" with 3, or "scaled" with 3.

        "scaled": the tensor over the integers, mod ``primes`` and ``wide``. UsageError without wide primes;
        BackendUnavailableError when the backend hasn't this kind.
        """
        number = _index(kind, _KINDS, "kind of accumulator")
        check_integer(parts, 2 if kind == "sum" else 3, 3, "parts")
        if kind == "scaled" and not self.wide:
            raise UsageError("a scaled accumulator needs a backend that was opened with wide primes")
        out = BFV.ffi.new("bfv_acc **")
        self._run("acc_new", BFV.lib.bfv_acc_new, number, parts, out)
        return Acc(self, out[0], kind, parts)

    def acc_drop(self, acc: Acc) -> None:
        """Frees an accumulator."""
        self._handle(acc, Acc)
        acc._free()

    @staticmethod
    def _need_ntt(*arrays: Array) -> None:
        if any(a.form != "ntt" for a in arrays):
            raise UsageError("this operation needs ciphertexts in NTT form")

    @staticmethod
    def _check_terms(array: Array, first: int, stride: int, count: int) -> None:
        check_integer(first, 0, array.count - 1, "first")
        check_integer(stride, 1, _COUNT_LIMIT, "stride")
        check_integer(count, 1, (array.count - 1 - first) // stride + 1, "count")

    def acc_add(self, acc: Acc, arr: Array, first: int, stride: int, count: int) -> None:
        """acc += sum over k < count of arr[first + k stride]."""
        pointers = self._handle(acc, Acc), self._handle(arr, Array)
        if acc.kind != "sum" or acc.parts != arr.parts:
            raise UsageError(f"a {acc.kind} of {acc.parts} parts can't add ciphertexts of {arr.parts} parts")
        self._need_ntt(arr)
        self._check_terms(arr, first, stride, count)
        self._run("acc_add", BFV.lib.bfv_acc_add, *pointers, first, stride, count)

    def acc_mul(self, acc: Acc, a: Array, first_a: int, b: Array, first_b: int, stride: int, count: int) -> None:
        """acc += sum over k < count of the tensor a[first_a + k stride] (x) b[first_b + k stride]."""
        pointer, left, right = self._handle(acc, Acc), self._handle(a, Array), self._handle(b, Array)
        if acc.kind == "sum" or (a.parts, b.parts) != (2, 2):
            raise UsageError("acc_mul needs a product accumulator and ciphertexts of two parts")
        self._need_ntt(a, b)
        self._check_terms(a, first_a, stride, count)
        self._check_terms(b, first_b, stride, count)
        self._run("acc_mul", BFV.lib.bfv_acc_mul, pointer, left, first_a, right, first_b, stride, count)

    def acc_merge(self, acc: Acc, other: Acc) -> None:
        """acc += other, another accumulator of the same kind and parts."""
        pointers = self._handle(acc, Acc), self._handle(other, Acc)
        if acc is other or (acc.kind, acc.parts) != (other.kind, other.parts):
            raise UsageError("acc_merge needs another accumulator of the same kind and parts")
        self._run("acc_merge", BFV.lib.bfv_acc_merge, *pointers)

    def _state_shape(self, acc: Acc) -> tuple[int, int, int]:
        planes = len(self.primes) + (len(self.wide) if acc.kind == "scaled" else 0)
        return acc.parts, planes, self.n

    def acc_save(self, acc: Acc) -> np.ndarray:
        """The canonical state, [parts, L, N]; of a scaled one [3, L + K, N]."""
        pointer = self._handle(acc, Acc)
        out = empty(self._state_shape(acc))
        self._run("acc_save", BFV.lib.bfv_acc_save, pointer, view(BFV, "uint32_t[]", out, "out", write=True))
        return out

    def acc_load(self, acc: Acc, state: np.ndarray) -> None:
        """Replaces the state, as acc_save gives it; DataError when a residue is not below its prime."""
        pointer = self._handle(acc, Acc)
        check_array(state, self._state_shape(acc), "state")
        self._run("an accumulator's state", BFV.lib.bfv_acc_load, pointer, view(BFV, "uint32_t[]", state, "state"))

    def acc_finish(self, acc: Acc, factor: Sequence[int]) -> Array:
        """The accumulator times factor[i] mod p_i, 0 <= factor[i] < p_i, as an array of one ciphertext.

        Not for a scaled one: Lifter.scale_round finishes its state.
        """
        pointer = self._handle(acc, Acc)
        if acc.kind == "scaled":
            raise UsageError("a scaled accumulator is finished by Lifter.scale_round of its state")
        if len(factor) != len(self.primes):
            raise UsageError(f"{len(self.primes)} factors are needed, one a prime, not {len(factor)}")
        values = [check_integer(f, 0, p - 1, f"the factor mod {p}") for f, p in zip(factor, self.primes, strict=True)]
        factors = BFV.ffi.new("uint32_t[]", values)
        return self._result("acc_finish", BFV.lib.bfv_acc_finish, 1, acc.parts, "ntt", pointer, factors)
