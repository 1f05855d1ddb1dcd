"""How many products in a row a set carries: ``python -m pybfv.evaluator.depth`` prints docs/evaluator.md's table."""

from __future__ import annotations

import math

from pybfv.evaluator.noise import Model
from pybfv.params import SETS

TABLE_T = (257, 12289, 65537, 1032193)


def depth(n: int, primes: tuple[int, ...], t: int) -> int:
    """Scaled products in a row that decrypt for certain, each by a fresh public-key ciphertext.

    Every product is relinearised before the next, with a digit for each of the primes of q.
    """
    model, count = Model(n, math.prod(primes), t), 0
    fresh = v = model.fresh("public")
    while model.decryptable(v):
        v = model.scaled_product(v, fresh) + model.product_rounding()
        if not model.decryptable(v):
            break
        count += 1
        v = v + model.relinearisation(tuple(p // 2 for p in primes))
    return count


def table() -> str:
    """Depth by set and t, as Markdown."""
    lines = [f"| set | {' | '.join(f't = {t}' for t in TABLE_T)} |", "| --- |" + " --- |" * len(TABLE_T)]
    for ps in SETS.values():
        if not ps.insecure:
            cells = [str(depth(ps.n, ps.primes, t)) for t in TABLE_T]
            lines.append(f"| {ps.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
