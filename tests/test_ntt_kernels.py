"""The scalar arithmetic under both NTT back ends against Python integers, and the ranges that debug builds assert."""

from __future__ import annotations

import ctypes
import random
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pybfv.params import SETS

ROOT = Path(__file__).resolve().parent.parent
CORE = ["cc", "-std=c11", "-O1", "-Wall", "-Wextra", "-DPYBFV_DEBUG", f"-I{ROOT}/dpu/core"]
BODIES = {"host": [], "split": ["-DBFV_FAMILY_NTT", "-DBFV_WIDE_SPLIT"]}

KERNELS = """
#include "ntt.h"
static void quotients(uint32_t p, uint32_t *s) { for (uint32_t w = 0; w < p; w++) s[w] = zq_shoup(w, p); }
/* Results for all x, y below `most` and all twiddles w below p, pairs of words; last: 3w + 1 as the second. */
void all(int kind, uint32_t p, uint32_t most, uint32_t *out) {
    uint32_t s[64];
    quotients(p, s);
    for (uint32_t x = 0; x < most; x++) {
        for (uint32_t y = 0; y < most; y++) {
            for (uint32_t w = 0; w < p; w++, out += 2) {
                const uint32_t second = (3 * w + 1) % p;
                out[0] = x;
                out[1] = y;
                if (kind == 0) {
                    ntt_butterfly_forward(out, out + 1, w, s[w], p);
                } else if (kind == 1) {
                    ntt_butterfly_inverse(out, out + 1, w, s[w], p);
                } else {
                    ntt_butterfly_last(out, out + 1, w, s[w], second, s[second], p);
                }
            }
        }
    }
}
uint32_t reduce(uint32_t x, uint32_t p) { return ntt_reduce_word(x, p); }
void products(uint32_t p, const uint32_t *a, const uint32_t *b, uint32_t *out, uint32_t count) {
    const struct zq_mod mod = zq_mod_init(p);
    for (uint32_t i = 0; i < count; i++) out[i] = zq_mul(a[i], b[i], &mod);
}
"""


@pytest.fixture(scope="module", params=list(BODIES))
def kernels(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """dpu/core/ntt.h and zq.h, ranges asserted, over the host's product and the DPU's split one."""
    folder = tmp_path_factory.mktemp("ntt")
    (folder / "kernels.c").write_text(KERNELS)
    out = folder / "kernels.so"
    command = [*CORE, "-Werror", *BODIES[request.param], "-shared", "-fPIC", "-o", out, folder / "kernels.c"]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(out))
    library.reduce.restype = ctypes.c_uint32
    return library


def cells(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@pytest.mark.parametrize("p", [5, 17])
@pytest.mark.parametrize(("kind", "lazy", "below"), [(0, 4, 4), (1, 2, 2), (2, 2, 1)])
def test_every_butterfly(kernels: ctypes.CDLL, kind: int, lazy: int, below: int, p: int) -> None:
    """Every x, y of the lazy range and every twiddle: the right class mod p, in the range stated."""
    most = lazy * p
    out = np.zeros((most, most, p, 2), dtype=np.uint32)
    kernels.all(kind, p, most, cells(out))
    x, y, w = np.ogrid[:most, :most, :p]
    first, second = {
        0: (x + w * y, x - w * y),
        1: (x + y + 0 * w, (x - y) * w),
        2: ((x + y) * w, (x - y) * ((3 * w + 1) % p)),
    }[kind]
    assert out.max() < below * p
    assert np.array_equal(out[..., 0] % p, first % p)
    assert np.array_equal(out[..., 1] % p, second % p)


def test_reduced_words(kernels: ctypes.CDLL) -> None:
    for p in (5, 17):
        assert [kernels.reduce(x, p) for x in range(4 * p)] == [x % p for x in range(4 * p)]
    p = 1073741789
    edges = [k * p + d for k in range(5) for d in (-1, 0, 1) if 0 <= k * p + d < 4 * p]
    assert [kernels.reduce(ctypes.c_uint32(x), p) for x in edges] == [x % p for x in edges]


@pytest.mark.parametrize("p", [3, 5, 17, *SETS["n8192_q214"].primes, 1073692673, 1073741789])
def test_products_mod_p(kernels: ctypes.CDLL, p: int) -> None:
    """zq_mul on edges and at random."""
    rng = random.Random(p)
    edges = sorted({e % p for e in (0, 1, 2, p // 2, p // 2 + 1, p - 2, p - 1, 1 << 16, (1 << 16) - 1)})
    pairs = [(a, b) for a in edges for b in edges] + [(rng.randrange(p), rng.randrange(p)) for _ in range(3000)]
    a, b = (np.array(column, dtype=np.uint32) for column in zip(*pairs, strict=True))
    out = np.zeros(len(pairs), dtype=np.uint32)
    kernels.products(p, cells(a), cells(b), cells(out), len(pairs))
    assert out.tolist() == [x * y % p for x, y in pairs]


# ---- assertions ----------------------------------------------------------------------------------

TRAPS = """
#include <stdlib.h>
#include "ntt_reduce.c"
#include "ntt.h"
#include "limb.h"
enum { P = 17 };
int main(int argc, char **argv) {
    if (argc != 2) return 9;
    volatile uint32_t bad = (uint32_t)(argv[1][0] == '!'); /* one step outside the range */
    const int at = atoi(argv[1] + 1);
    const uint32_t most = UINT32_MAX, limit = ZQ_PRIME_LIMIT;
    uint32_t x[40] __attribute__((aligned(8))) = {0}, y[40] __attribute__((aligned(8))) = {0};
    uint32_t w[4] = {1, 1, 1, 1}, s[4] = {0};
    uint64_t sums[3 * BFV_UNIT] = {0};
    for (int i = 0; i < 4; i++) s[i] = zq_shoup(1, P);
    switch (at) {
CASES
    default: return 8;
    }
    return 0;
}
"""
CASES = {
    "forward x": "x[0] = 4 * P - 1 + bad; ntt_butterfly_forward(x, y, 1, s[0], P);",
    "forward y": "y[0] = 4 * P - 1 + bad; ntt_butterfly_forward(x, y, 1, s[0], P);",
    "inverse x": "x[0] = 2 * P - 1 + bad; ntt_butterfly_inverse(x, y, 1, s[0], P);",
    "inverse y": "y[0] = 2 * P - 1 + bad; ntt_butterfly_inverse(x, y, 1, s[0], P);",
    "last x": "x[0] = 2 * P - 1 + bad; ntt_butterfly_last(x, y, 1, s[0], 1, s[0], P);",
    "last y": "y[0] = 2 * P - 1 + bad; ntt_butterfly_last(x, y, 1, s[0], 1, s[0], P);",
    "word": "x[1] = 4 * P - 1 + bad; ntt_reduce(x, 2, P);",
    "forward words": "x[3] = 4 * P - 1 + bad; ntt_forward(x, 4, w, s, P);",
    "forward stage": "ntt_forward_stage_lazy(x, 4, 2 + 2 * bad, w, s, P);",
    "inverse words": "x[3] = 2 * P - 1 + bad; ntt_inverse(x, 4, w, s, P);",
    "inverse stage": "ntt_inverse_stage_lazy(x, 4, 2 - bad, w, s, P);",
    "lazy residue": "y[1] = most / 2 + bad; limb_add_lazy(x, y, 2);",
    "lazy count": "x[0] = x[1] = most; x[2] = most / 2 - 1 + bad; y[0] = 1; limb_add_lazy(x, y, 2);",
    "mac": "x[4] = most / 2; x[0] = 0 - bad; x[1] = x[2] = x[3] = most; y[0] = 1; limb_mac(x, y, y, 2);",
    "acc add": "x[4] = most / 2; y[4] = bad; limb_acc_add(x, y, 2);",
    "acc sub": "x[4] = most / 2 + 1; y[4] = bad; limb_acc_sub(x, y, 2);",
    "product on a": "limb_mul(x, x + 4 - bad * 4, y, 2);",
    "product on b": "limb_mul(x, y, x + 4 - bad * 2, 2);",
    "negate": "limb_negate_if(x, most - bad, 3);",
    "add signed": "(void)limb_add_signed(x, x, y, most - bad, 2);",
    "sum word": "y[0] = limit - 1 + bad; terms_sum(sums, y, 2, 1);",
    "sum terms": "y[0] = y[8] = y[16] = limit - 1; y[24] = limit - 1; y[32] = 3 + bad; terms_sum(sums, y, 8, 5);",
    "sum": "sums[0] = (UINT64_C(1) << 63) - 1 + bad; terms_sum(sums, y, 8, 1);",
    "square word 0": "y[0] = limit - 1 + bad; terms_square(sums, y, 0, 1);",
    "square word 1": "y[BFV_UNIT] = limit - 1 + bad; terms_square(sums, y, 0, 1);",
    "square sum 0": "sums[0] = UINT64_MAX - 1 + bad; y[0] = 1; terms_square(sums, y, 0, 1);",
    "square sum 1": "sums[BFV_UNIT] = UINT64_MAX - 4 + bad; y[0] = y[BFV_UNIT] = 1; terms_square(sums, y, 0, 1);",
    "square sum 2": "sums[2 * BFV_UNIT] = UINT64_MAX - 1 + bad; y[BFV_UNIT] = 1; terms_square(sums, y, 0, 1);",
    "square terms": "terms_square(sums, y, 0, 64 + bad);",
    "product word a": "y[BFV_UNIT] = limit - 1 + bad; terms_product(sums, y, x, 0, 1);",
    "product word b": "x[0] = limit - 1 + bad; terms_product(sums, y, x, 0, 1);",
    "product sum": "sums[BFV_UNIT] = UINT64_MAX - 4 + bad; x[0] = y[0] = x[BFV_UNIT] = y[BFV_UNIT] = 1; "
    "terms_product(sums, y, x, 0, 1);",
}


@pytest.fixture(scope="module")
def traps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that runs one case, '=N' at the edge of its range and '!N' one step outside."""
    folder = tmp_path_factory.mktemp("traps")
    body = "\n".join(f"    case {i}: {text} break;" for i, text in enumerate(CASES.values()))
    (folder / "traps.c").write_text(TRAPS.replace("CASES", body))
    includes = [f"-I{ROOT}/dpu/kernels", f"-I{ROOT}/host_c/sim/device", "-DBFV_FAMILY_NTT", "-DNR_TASKLETS=1"]
    # Only the arithmetic is kept: what would call the simulator goes.
    command = [*CORE, "-Wno-unused", *includes, "-ffunction-sections", "-Wl,--gc-sections"]
    subprocess.run([*command, "-o", folder / "traps", folder / "traps.c"], check=True)
    return folder / "traps"


@pytest.mark.parametrize("case", list(CASES))
def test_ranges_trap(traps: Path, case: str) -> None:
    """At the edge of the stated range a debug build goes on; one step further it traps."""
    at = list(CASES).index(case)
    assert subprocess.run([traps, f"={at}"]).returncode == 0
    assert subprocess.run([traps, f"!{at}"]).returncode in (-signal.SIGILL, -signal.SIGTRAP)
