"""What the paper reports: panels, sizes, ratios. Its GPU columns are not reproduced."""

from __future__ import annotations

from dataclasses import dataclass

DPUS = 2524
"""DPUs of the paper's machine."""

SETS = {32: "n1024_q27", 64: "n2048_q54", 128: "n4096_q109"}
"""Our set of each of its levels, by the bits of the integers that hold a coefficient."""

FEATURES = 3
"""Of a regression's sample."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times faster PIM is than a rival, as the paper says: from, to; below 1 the rival is faster."""

    low: float
    high: float

    def __str__(self) -> str:
        if self.high <= 1:
            return f"{_span(1 / self.high, 1 / self.low)}x slower"
        return f"{_span(self.low, self.high)}x faster"


def _span(low: float, high: float) -> str:
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"


@dataclass(frozen=True, slots=True)
class Panel:
    """One figure panel.

    ``sizes``: ciphertexts (addition, product) or users. ``cpu``, ``seal``: PIM against them, by bits of an integer,
    where the paper gives a number for these bits.
    """

    name: str
    title: str
    counts: str
    sizes: tuple[int, ...]
    bits: tuple[int, ...]
    cpu: dict[int, Ratio]
    seal: dict[int, Ratio]
    per_user: int = 1


_ALL = (32, 64, 128)
_WIDE = (128,)

PANELS = (
    Panel(
        "addition", "Addition of ciphertexts", "ciphertexts", (20_480, 40_960, 81_920, 163_840, 327_680), _ALL,
        dict.fromkeys(_ALL, Ratio(20, 150)), dict.fromkeys(_ALL, Ratio(35, 80)),
    ),
    Panel(
        "product", "Products of ciphertexts", "products", (5_120, 10_240, 20_480, 40_960, 81_920), _ALL,
        dict.fromkeys(_ALL, Ratio(40, 50)), {32: Ratio(2, 2), 64: Ratio(1 / 4, 1 / 2), 128: Ratio(1 / 4, 1 / 2)},
    ),
    Panel(
        "mean", "Mean", "users", (640, 1280, 2560), _WIDE,
        {128: Ratio(25, 100)}, {128: Ratio(11, 50)},
    ),
    Panel(
        "variance", "Variance", "users", (640, 1280, 2560), _WIDE,
        {128: Ratio(6, 25)}, {128: Ratio(1 / 10, 1 / 2)},
    ),
    Panel(
        "regression-32", "Linear regression, 32 ciphertexts a user", "users", (640,), _WIDE,
        {128: Ratio(7.5, 7.5)}, {}, per_user=32,
    ),
    Panel(
        "regression-64", "Linear regression, 64 ciphertexts a user", "users", (640,), _WIDE,
        {}, {128: Ratio(1 / 11.4, 1 / 11.4)}, per_user=64,
    ),
)  # fmt: skip
"""The six panels. The paper does not say at which level the last four are; these are at 128 bits."""

READINGS = {
    "normal equations": "a ciphertext holds x1, x2, x3 or y: the upper triangle of X'X, and X'y, 9 products of four",
    "predictions": "a ciphertext stands for a sample of 3 encrypted features: w x with encrypted w, 3 products each",
}
"""What the paper leaves open: what a regression's ciphertexts hold."""


@dataclass(frozen=True, slots=True)
class Job:
    """Operations on ciphertexts of one row; squares and products of the workloads are accumulated, those of the panels
    "addition" and "product" are all kept."""

    additions: int = 0
    squares: int = 0
    products: int = 0


def job_of(panel: Panel, size: int, reading: str = "") -> Job:
    """The operations of one row: ``size`` as in the panel, ``reading`` one of READINGS in a regression."""
    if panel.name == "addition":
        return Job(additions=size)
    if panel.name == "product":
        return Job(products=size)
    if panel.name == "mean":
        return Job(additions=size)
    if panel.name == "variance":
        return Job(squares=size)
    ciphertexts = size * panel.per_user
    if reading == "predictions":
        return Job(products=FEATURES * ciphertexts)
    groups = ciphertexts // (FEATURES + 1)
    return Job(squares=FEATURES * groups, products=(FEATURES * (FEATURES + 1) // 2) * groups)
