"""How many instructions a DPU takes for each command of dpu/core/abi.h: the one table of them.

Source: the kernels at -Os by the public back end of the DPU's compiler (LLVM 15), every executed instruction of
a launch counted on a third-party simulator (dpu/README.md, "What they cost"); differences of runs that differ
in their terms, coefficients or stages give the rows. Conflicts and cycles are that simulator's. Whoever changes a
kernel counts again and changes the row.
"""

from __future__ import annotations

from dataclasses import dataclass

UNIT = 8
"""Words of a unit of the NTT family (BFV_UNIT)."""

RUN = 16
"""Coefficients that a DPU of the limb family takes at least (BFV_RUN)."""

LAUNCH = 8000
"""Instructions of any launch: 24 tasklets boot, read their arguments and meet twice."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Instructions of one command.

    ``step``: of one pass of its innermost loop. ``finish``: once a result. What a pass and a result are, ``unit`` says;
    pybfv.bench.model.instructions counts them. ``read``: for each DMA from MRAM. ``tasklet``: for each at work.
    ``conflicts``: how many of the instructions, as a share, take their two sources from registers of equal parity.
    """

    command: int
    name: str
    unit: str
    step: float
    finish: float = 0.0
    read: float = 0.0
    tasklet: float = 0.0
    conflicts: float = 0.0


_WORD = "a word of a term; finish: a word of the accumulator"
_COEFFICIENT = "a coefficient and prime of a term; finish: a word of the accumulator"
_PAIR = "a product of two coefficients; finish: an output coefficient of all parts"
_TENSOR = f"{_PAIR}; three products a pair of ciphertexts"
_LAZY = "a coefficient of a term; finish: a coefficient"

NTT = (
    Cost(0x101, "sum", _WORD, 2.3, 220, 65, 1000, 0.71),
    Cost(0x102, "product", _COEFFICIENT, 117.4, 228, 0, 1315, 0.68),
    Cost(0x103, "square", _COEFFICIENT, 71.9, 224, 0, 1350, 0.52),
    Cost(0x111, "add", "a word", 15.8, conflicts=0.19),
    Cost(0x112, "sub", "a word", 17.3, conflicts=0.41),
    Cost(0x113, "multiply", "a word", 81.7, conflicts=0.60),
    Cost(0x114, "tensor", "a coefficient and prime", 290.4, conflicts=0.58),
    Cost(0x121, "forward", "a butterfly; finish: a stage", 65.9, 6740, conflicts=0.62),
    Cost(0x122, "inverse", "a butterfly; finish: a stage", 69.8, 7150, conflicts=0.63),
)
"""The NTT family, by command."""

LIMB = {
    1: (
        Cost(0x201, "add", "a coefficient", 28.8, conflicts=0.47),
        Cost(0x202, "sub", "a coefficient", 24.6, conflicts=0.47),
        Cost(0x204, "lazy sum", _LAZY, 7.1, 524, conflicts=0.62),
        Cost(0x211, "product", _PAIR, 55.9, 660, conflicts=0.67),
        Cost(0x212, "tensor", _TENSOR, 55.9, 1990, conflicts=0.67),
    ),
    2: (
        Cost(0x201, "add", "a coefficient", 38.5, conflicts=0.53),
        Cost(0x202, "sub", "a coefficient", 31.2, conflicts=0.53),
        Cost(0x204, "lazy sum", _LAZY, 8.3, 1413, conflicts=0.70),
        Cost(0x211, "product", _PAIR, 143.3, 1580, conflicts=0.73),
        Cost(0x212, "tensor", _TENSOR, 143.3, 4730, conflicts=0.74),
    ),
    4: (
        Cost(0x201, "add", "a coefficient", 34.5, conflicts=0.67),
        Cost(0x202, "sub", "a coefficient", 50.3, conflicts=0.57),
        Cost(0x204, "lazy sum", _LAZY, 11.8, 3813, conflicts=0.71),
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

COUNTED: tuple[tuple[int, int, int, int, int, int, int, int, int, int], ...] = (
    # command, limbs (0: NTT), log2 N, parts, tasklets, block, count, positions, reads (0: not needed), instructions
    (0x101, 0, 3, 2, 16, 1, 64, 1, 32, 33_410),
    (0x101, 0, 3, 2, 16, 1, 2560, 1, 96, 123_420),
    (0x101, 0, 4, 2, 16, 2, 320, 2, 64, 63_275),
    (0x101, 0, 4, 2, 16, 2, 2560, 2, 192, 242_130),
    (0x101, 0, 10, 2, 16, 4, 80, 128, 2_624, 1_016_210),
    (0x101, 0, 10, 2, 16, 4, 400, 128, 12_864, 3_287_054),
    (0x102, 0, 3, 3, 16, 1, 320, 1, 80, 335_039),
    (0x102, 0, 4, 3, 16, 1, 640, 2, 2_576, 1_242_093),
    (0x102, 0, 10, 3, 16, 1, 80, 128, 20_496, 10_347_009),
    (0x103, 0, 3, 3, 16, 1, 64, 1, 32, 71_741),
    (0x103, 0, 3, 3, 16, 1, 2560, 1, 96, 1_486_944),
    (0x103, 0, 4, 3, 16, 2, 320, 2, 64, 411_604),
    (0x103, 0, 4, 3, 16, 2, 2560, 2, 208, 3_013_194),
    (0x103, 0, 10, 3, 16, 2, 16, 128, 1_056, 1_894_607),
    (0x103, 0, 10, 3, 16, 2, 400, 128, 25_632, 30_075_177),
    (0x111, 0, 10, 2, 16, 8, 20, 128, 768, 654_970),
    (0x112, 0, 10, 2, 16, 8, 20, 128, 768, 716_111),
    (0x113, 0, 10, 2, 16, 8, 20, 128, 768, 3_353_972),
    (0x114, 0, 10, 2, 16, 8, 4, 128, 256, 1_199_173),
    (0x114, 0, 10, 2, 16, 8, 20, 128, 768, 5_955_958),
    (0x121, 0, 10, 0, 16, 0, 10, 0, 2_080, 4_056_182),
    (0x121, 0, 12, 0, 16, 0, 6, 0, 2_400, 10_212_231),
    (0x122, 0, 10, 0, 16, 0, 10, 0, 2_080, 4_298_177),
    (0x122, 0, 12, 0, 16, 0, 6, 0, 2_400, 10_818_547),
    (0x201, 1, 10, 0, 16, 0, 84, 2048, 0, 4_951_403),
    (0x201, 2, 10, 0, 16, 0, 84, 2048, 0, 6_620_499),
    (0x201, 4, 10, 0, 16, 0, 84, 2048, 0, 5_920_894),
    (0x204, 1, 10, 0, 16, 0, 84, 2048, 2_704, 2_298_141),
    (0x204, 2, 10, 0, 16, 0, 84, 2048, 5_392, 4_336_709),
    (0x204, 2, 10, 0, 16, 0, 200, 2048, 12_816, 6_307_205),
    (0x204, 4, 4, 0, 16, 0, 404, 32, 824, 285_872),
    (0x204, 4, 10, 0, 16, 0, 84, 2048, 10_768, 9_846_199),
    (0x211, 4, 8, 0, 16, 0, 6, 256, 0, 181_904_642),
    (0x212, 1, 6, 0, 16, 0, 5, 64, 0, 3_599_451),
    (0x212, 1, 9, 0, 16, 0, 1, 512, 0, 44_950_893),
    (0x212, 2, 9, 0, 16, 0, 1, 512, 0, 115_116_425),
    (0x212, 4, 6, 0, 16, 0, 5, 64, 0, 28_455_736),
    (0x212, 4, 9, 0, 16, 0, 1, 512, 0, 359_376_094),
)
"""Launches whose instructions were counted whole: what the rows above are made of, and must give back."""

TIMED: tuple[tuple[str, str, int, int, int, int, int], ...] = (
    # what (pybfv.bench.paper.pim.run), kernels, primes, N, ciphertexts, cycles, of these conflicts
    ("sum", "ntt", 1, 8, 2560, 213_150, 86_121),
    ("sum", "ntt", 1, 1024, 80, 1_753_850, 717_990),
    ("square", "ntt", 1, 16, 320, 633_850, 209_507),
    ("square", "ntt", 1, 8, 2560, 2_249_100, 758_934),
    ("square", "ntt", 1, 1024, 400, 45_978_100, 15_843_965),
    ("product", "ntt", 1, 16, 640, 2_110_850, 842_544),
    ("add", "ntt", 1, 1024, 20, 789_950, 121_652),
    ("tensor", "ntt", 1, 1024, 4, 1_906_800, 696_157),
    ("add", "limb", 4, 1024, 20, 2_329_250, 930_619),
    ("sum", "limb", 2, 1024, 200, 10_799_950, 4_476_273),
    ("sum", "limb", 4, 16, 404, 1_612_100, 55_853),
    ("tensor", "limb", 1, 256, 1, 19_216_750, 7_720_077),
    ("tensor", "limb", 4, 128, 1, 41_098_400, 17_450_877),
)
"""Launches of one DPU with 16 tasklets by a third-party simulator of the pipeline, for the model as a whole."""
