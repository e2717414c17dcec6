"""Exact tests on paired differences: tie-safe sign-flip, worst-rank signed-rank, discordant failures, and their floors.

scipy's `permutation_test` takes seconds at n = 20 and its `wilcoxon` is silently asymptotic with ties from n = 14
(measured on 1.17.1), so the reference distribution is computed here, by a dynamic programme over integer sums.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats


def sign_flip(differences: Sequence[int]) -> float:
    """Two-sided exact p of the sum, under the null that each paired difference is symmetric about zero.

    Ties and zeros are exact, since sums are integers. `[1, 2, 3]` gives 2/8 = .25. Cost: n times the sum of |d|.
    Raises `ValueError` for what is not an integer.
    """
    if any(int(d) != d for d in differences):
        raise ValueError(f"differences must be integers (counts), got {list(differences)}")
    sizes = [abs(int(d)) for d in differences if d != 0]
    if not sizes:
        return 1.0
    unit = math.gcd(*sizes)
    sizes = sorted(s // unit for s in sizes)
    observed = abs(sum(int(d) for d in differences)) // unit
    total = sum(sizes)
    probability = np.zeros(total + 1)  # of the sum of the sizes whose sign came out positive
    probability[0] = 1.0
    reach = 0
    for size in sizes:
        flipped = probability[: reach + 1].copy()
        probability[size : reach + size + 1] += flipped
        probability[: reach + size + 1] *= 0.5
        reach += size
    signed_sums = 2 * np.arange(total + 1) - total
    return min(1.0, float(probability[np.abs(signed_sums) >= observed].sum()))


def rank_sum(differences: Sequence[float]) -> int:
    """Twice the signed-rank sum, whose sign says who won: zeros dropped, ties with their mean rank, infinities last.

    Raises `ValueError` for NaN.
    """
    return sum(_signed_ranks(differences))


def worst_rank(differences: Sequence[float]) -> float:
    """Two-sided exact p of the signed-rank sum where a failed variant is -inf, a failed baseline +inf, both failed 0.

    Worst-rank scores after Lachin 1999. `[.1, .2, -inf, .3, .4, .5]` gives .4375. Raises `ValueError` for NaN.
    """
    return sign_flip(_signed_ranks(differences))


def discordant(failed_variant_only: int, failed_baseline_only: int) -> float:
    """Two-sided exact p of paired failures, under the null that either arm is as likely to be the one that failed.

    The exact McNemar test: 3 against 0 gives .25, 6 against 0 .03125, none at all 1.
    """
    n = failed_variant_only + failed_baseline_only
    return float(stats.binomtest(failed_variant_only, n, 0.5).pvalue) if n else 1.0


def floor(n: int) -> float:
    """The smallest two-sided p that an exact test on n pairs can give: 2^(1-n)."""
    return min(1.0, 2.0 ** (1 - n))


def seeds_for_floor(k: int, alpha: float) -> int:
    """The least n whose floor, as the smallest of k under Holm, reaches alpha."""
    n = 1
    while k * floor(n) > alpha:
        n += 1
    return n


def _signed_ranks(differences: Sequence[float]) -> list[int]:
    if any(math.isnan(d) for d in differences):
        raise ValueError("a difference is NaN: a failed run is -inf or +inf, two failed runs are 0")
    kept = np.array([d for d in differences if d != 0], dtype=float)
    if not kept.size:
        return []
    doubled = np.rint(2 * stats.rankdata(np.abs(kept))).astype(int)  # a mean rank is a multiple of one half
    return [int(r) for r in np.where(kept > 0, doubled, -doubled)]
