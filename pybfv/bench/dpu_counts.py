"""How many instructions a DPU takes for each command of dpu/core/abi.h: the one table of them.

Source: the kernels at -Os by the public back end of the DPU's compiler (LLVM 15), every executed instruction of
a launch counted on a third-party simulator (dpu/README.md, "What they cost"); differences of runs that differ
in their terms, coefficients or stages give the rows. Conflicts and cycles are that simulator's. Whoever changes a
kernel counts again and changes the row.
"""

from __future__ import annotations

from dataclasses import dataclass

UNIT = 16
"""Words of a unit of the NTT family (BFV_UNIT)."""

LAUNCH = 8000
"""Instructions of any launch: 24 tasklets boot, read their arguments and meet twice."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Instructions of one command.

    ``step``: of one pass of its innermost loop. ``finish``: once a result. What a pass and a result are, ``unit`` says;
    pybfv.bench.model.instructions counts them. ``term``: for each term of a block. ``merge``: of ``finish``, what one
    tasklet does alone with a word of another's result while the others wait. ``conflicts``: how many of the
    instructions, as a share, take their two sources from registers of equal parity.
    """

    command: int
    name: str
    unit: str
    step: float
    finish: float = 0.0
    term: float = 0.0
    merge: float = 0.0
    conflicts: float = 0.0


_WORD = "a word of a term; finish: a word of the accumulator, for each tasklet that shares it"
_COEFFICIENT = "a coefficient and prime of a term; finish: a word of the accumulator, for each tasklet that shares it"
_PAIR = "a product of two coefficients; finish: an output coefficient of all parts"
_TENSOR = f"{_PAIR}; three products a pair of ciphertexts"
_LAZY = "a coefficient of a term; finish: a coefficient"

NTT = (
    Cost(0x101, "sum", _WORD, 7.1, 205, 70, 14, 0.61),
    Cost(0x102, "product", _COEFFICIENT, 166.8, 205, 131, 14, 0.76),
    Cost(0x103, "square", _COEFFICIENT, 83.6, 205, 69, 14, 0.69),
    Cost(0x111, "add", "a word", 15.1, conflicts=0.16),
    Cost(0x112, "sub", "a word", 16.6, conflicts=0.38),
    Cost(0x113, "multiply", "a word", 129.8, conflicts=0.60),
    Cost(0x114, "tensor", "a coefficient and prime", 506.1, conflicts=0.59),
    Cost(0x121, "forward", "a butterfly; finish: a stage", 70.0, 6760, conflicts=0.61),
    Cost(0x122, "inverse", "a butterfly; finish: a stage", 75.0, 7030, conflicts=0.60),
)
"""The NTT family, by command."""

LIMB = {
    1: (
        Cost(0x201, "add", "a coefficient", 28.8, conflicts=0.47),
        Cost(0x202, "sub", "a coefficient", 24.6, conflicts=0.47),
        Cost(0x204, "lazy sum", _LAZY, 10.4, 526, conflicts=0.56),
        Cost(0x211, "product", _PAIR, 55.9, 660, conflicts=0.67),
        Cost(0x212, "tensor", _TENSOR, 55.9, 1990, conflicts=0.67),
    ),
    2: (
        Cost(0x201, "add", "a coefficient", 38.5, conflicts=0.53),
        Cost(0x202, "sub", "a coefficient", 31.2, conflicts=0.53),
        Cost(0x204, "lazy sum", _LAZY, 11.9, 1420, conflicts=0.67),
        Cost(0x211, "product", _PAIR, 143.3, 1580, conflicts=0.73),
        Cost(0x212, "tensor", _TENSOR, 143.3, 4730, conflicts=0.74),
    ),
    4: (
        Cost(0x201, "add", "a coefficient", 34.5, conflicts=0.67),
        Cost(0x202, "sub", "a coefficient", 50.3, conflicts=0.57),
        Cost(0x204, "lazy sum", _LAZY, 17.8, 3820, conflicts=0.71),
        Cost(0x211, "product", _PAIR, 449.0, 4090, conflicts=0.74),
        Cost(0x212, "tensor", _TENSOR, 449.0, 12270, conflicts=0.74),
    ),
}
"""The limb family, by words of a coefficient, then by command. Eight words have not been counted."""

COSTS: dict[tuple[int, int], Cost] = {
    **{(0, cost.command): cost for cost in NTT},
    **{(limbs, cost.command): cost for limbs, costs in LIMB.items() for cost in costs},
}
"""By (limbs, command); limbs is 0 in the NTT family."""

COUNTED: tuple[tuple[int, int, int, int, int, int, int, int, int], ...] = (
    # command, limbs (0: NTT), log2 N, parts, tasklets, block, count, positions, instructions
    (0x101, 0, 4, 2, 16, 1, 64, 1, 144_207),
    (0x101, 0, 4, 2, 16, 1, 320, 1, 220_221),
    (0x101, 0, 10, 2, 16, 2, 400, 64, 7_109_945),
    (0x102, 0, 4, 3, 16, 1, 320, 1, 1_073_783),
    (0x102, 0, 10, 3, 16, 2, 80, 64, 14_601_459),
    (0x103, 0, 4, 3, 16, 1, 64, 1, 272_452),
    (0x103, 0, 4, 3, 16, 1, 320, 1, 632_726),
    (0x103, 0, 10, 3, 16, 2, 400, 64, 35_774_056),
    (0x111, 0, 10, 2, 16, 3, 20, 64, 626_152),
    (0x112, 0, 10, 2, 16, 3, 20, 64, 687_503),
    (0x113, 0, 10, 2, 16, 3, 20, 64, 5_325_708),
    (0x114, 0, 10, 2, 16, 4, 20, 64, 10_374_086),
    (0x121, 0, 10, 0, 16, 0, 10, 0, 4_270_971),
    (0x121, 0, 12, 0, 16, 0, 6, 0, 10_764_764),
    (0x122, 0, 10, 0, 16, 0, 10, 0, 4_553_081),
    (0x122, 0, 12, 0, 16, 0, 6, 0, 11_497_653),
    (0x201, 1, 10, 0, 16, 0, 84, 2048, 4_951_403),
    (0x201, 2, 10, 0, 16, 0, 84, 2048, 6_620_499),
    (0x201, 4, 10, 0, 16, 0, 84, 2048, 5_920_894),
    (0x204, 1, 10, 0, 16, 0, 84, 2048, 2_872_875),
    (0x204, 2, 10, 0, 16, 0, 84, 2048, 4_940_803),
    (0x204, 4, 10, 0, 16, 0, 84, 2048, 10_867_075),
    (0x204, 4, 4, 0, 16, 0, 404, 32, 361_555),
    (0x211, 4, 8, 0, 16, 0, 6, 256, 181_904_642),
    (0x212, 1, 6, 0, 16, 0, 5, 64, 3_599_451),
    (0x212, 1, 9, 0, 16, 0, 1, 512, 44_950_893),
    (0x212, 2, 9, 0, 16, 0, 1, 512, 115_116_425),
    (0x212, 4, 6, 0, 16, 0, 5, 64, 28_455_736),
    (0x212, 4, 9, 0, 16, 0, 1, 512, 359_376_094),
)
"""Launches whose instructions were counted whole: what the rows above are made of, and must give back."""

TIMED: tuple[tuple[str, str, int, int, int, int, int], ...] = (
    # what (pybfv.bench.paper.pim.run), kernels, primes, N, ciphertexts, cycles, of these conflicts
    ("sum", "ntt", 1, 16, 2560, 1_495_550, 530_059),
    ("sum", "ntt", 1, 1024, 80, 2_840_950, 1_079_026),
    ("square", "ntt", 1, 16, 320, 1_151_150, 416_805),
    ("square", "ntt", 1, 16, 2560, 6_493_550, 2_605_166),
    ("square", "ntt", 1, 1024, 16, 3_442_250, 1_389_681),
    ("product", "ntt", 1, 16, 640, 3_574_550, 1_501_762),
    ("add", "ntt", 1, 1024, 20, 739_200, 97_218),
    ("tensor", "ntt", 1, 1024, 4, 3_323_950, 1_230_042),
    ("add", "limb", 4, 1024, 20, 2_329_250, 930_619),
    ("sum", "limb", 2, 1024, 200, 13_008_100, 5_232_513),
    ("sum", "limb", 4, 16, 404, 2_023_700, 6_013),
    ("tensor", "limb", 1, 256, 1, 19_216_750, 7_720_077),
    ("tensor", "limb", 4, 128, 1, 41_098_400, 17_450_877),
)
"""Launches of one DPU with 16 tasklets by a third-party simulator of the pipeline, for the model as a whole."""
