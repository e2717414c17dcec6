"""Two independent samples: Welch's t test with its interval and equivalence test, and two permutation tests beside it.

For runs that cannot be paired, because nothing says which of them share a seed. What a shared seed explains stays in
the error then, so these tests need more runs than paired ones. Every p is two-sided unless said, and over 0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

from knockout.analysis.stats.exact import TIE
from knockout.analysis.stats.numeric import SMALLEST_P
from knockout.analysis.stats.trace import made_with

Array = npt.NDArray[np.float64]
Method = Literal["exact", "sampled", "normal approximation"]

ENUMERATED = 20_000
"""Up to so many ways to split the runs, `permuted_means` goes through all of them (8 against 8: 12,870)."""

PROGRAMME = 200_000_000
"""Additions above which `rank_sum_test` uses the normal approximation (about 65 against 65)."""


@dataclass(frozen=True, kw_only=True)
class Welch:
    """Welch's t test of two means (Welch 1947; statsmodels `CompareMeans`)."""

    t: float
    df: float
    """Welch and Satterthwaite's degrees of freedom"""
    p: float
    low: float
    """confidence interval of the difference of means, a minus b"""
    high: float


@dataclass(frozen=True, kw_only=True)
class Permuted:
    """A permutation test of two independent samples."""

    p: float
    method: Method


@made_with("statsmodels.stats.weightstats.CompareMeans")
def welch(a: Sequence[float], b: Sequence[float], level: float = 0.95) -> Welch:
    """Welch's test, under the null that the means of two normal populations are equal; their variances may differ.

    `welch([1, 2, 3, 4], [2, 4, 6, 8])` gives t = -1.7321 on 4.4118 df. The scale of the values does not matter.
    Raises `ValueError` for fewer than two values in a sample, or two samples without any spread.
    """
    compared, unit = _compared(a, b)
    t, p, df = compared.ttest_ind(usevar="unequal")
    low, high = compared.tconfint_diff(alpha=1 - level, usevar="unequal")
    return Welch(t=float(t), df=float(df), p=max(SMALLEST_P, float(p)), low=float(low) * unit, high=float(high) * unit)


@made_with("statsmodels.stats.weightstats.CompareMeans")
def welch_tost(a: Sequence[float], b: Sequence[float], margin: float) -> float:
    """p of two one-sided Welch tests (Schuirmann 1987), under the null that the means differ by at least the margin.

    Raises `ValueError` as `welch` does.
    """
    compared, unit = _compared(a, b)
    return max(SMALLEST_P, float(compared.ttost_ind(-margin / unit, margin / unit, usevar="unequal")[0]))


def rank_sum_test(a: Sequence[float], b: Sequence[float]) -> Permuted:
    """Wilcoxon's rank-sum (Mann-Whitney) test, exact given the ties, under the null that all splits are as likely.

    -inf stands for a failed run, which ranks below all others; failed runs tie (worst ranks, Lachin 1999). Sizes that
    differ by less than a relative 1e-9 tie. `rank_sum_test([1, 2, 3], [4, 5, 6])` gives .1. Large samples: the normal
    approximation (`scipy.stats.mannwhitneyu`). Raises `ValueError` for NaN or an empty sample.
    """
    ranks = _doubled_ranks(a, b)
    n, m = len(ranks), len(a)
    centre, observed = m * (n + 1), int(ranks[:m].sum())
    if n * m * int(ranks.sum()) > PROGRAMME:
        p = float(stats.mannwhitneyu(ranks[:m], ranks[m:], method="asymptotic").pvalue)
        return Permuted(p=min(1.0, max(SMALLEST_P, p)), method="normal approximation")
    reached = np.abs(np.arange(int(ranks.sum()) + 1) - centre) >= abs(observed - centre)
    p = float(_chances(ranks, m)[reached].sum())
    return Permuted(p=min(1.0, max(SMALLEST_P, p)), method="exact")


def rank_sum_floor(n: int, m: int) -> float:
    """The smallest two-sided p that a rank-sum test of n against m runs can give, without ties: 2 / C(n + m, n)."""
    return min(1.0, max(SMALLEST_P, 2 / math.comb(n + m, n)))


def rank_direction(a: Sequence[float], b: Sequence[float]) -> int:
    """1 where a has the higher mean rank, -1 where b has, 0 where neither. -inf stands for a failed run."""
    ranks = _doubled_ranks(a, b)
    return int(np.sign(int(ranks[: len(a)].sum()) - len(a) * (len(ranks) + 1)))


def permuted_means(a: Sequence[float], b: Sequence[float], draws: int, seed: Sequence[int]) -> Permuted:
    """Permutation test of the difference of means, under the null that every split of the runs is as likely.

    All splits up to 20,000 of them, above that `draws` random ones, of which k reach the observed difference:
    p = (k + 1) / (draws + 1) (Phipson & Smyth 2010). Differences that are equal but for rounding tie.
    `permuted_means([1, 2, 3], [4, 5, 6], 1000, [0])` gives .1. Raises `ValueError` for a value that is not finite.
    """
    x = np.array([*a, *b], dtype=float)
    if not len(a) or not len(b) or not np.isfinite(x).all():
        raise ValueError("both samples must hold finite numbers")
    x = x / (np.abs(x).max() or 1.0)
    n, m = len(x), len(a)
    expected, slack = m * float(x.mean()), TIE * float(np.abs(x - x.mean()).sum())
    least = abs(float(x[:m].sum()) - expected) - slack
    if math.comb(n, m) <= ENUMERATED:
        sums = x[np.array(list(combinations(range(n), m)))].sum(axis=1)
        return Permuted(p=float(np.mean(np.abs(sums - expected) >= least)), method="exact")
    rng = np.random.default_rng(list(seed))
    reached = sum(abs(float(rng.permutation(x)[:m].sum()) - expected) >= least for _ in range(draws))
    return Permuted(p=(reached + 1) / (draws + 1), method="sampled")


def _compared(a: Sequence[float], b: Sequence[float]) -> tuple[CompareMeans, float]:
    """The two samples for statsmodels, divided by a power of two that keeps squares in range, and that number.

    The values are taken about the mean of all, so that an arm of one repeated number has no spread but its rounding.
    """
    if min(len(a), len(b)) < 2:
        raise ValueError(f"two runs or more are needed in each sample, got {len(a)} and {len(b)}")
    x = np.array([*a, *b], dtype=float)
    if not np.isfinite(x).all():
        raise ValueError("both samples must hold finite numbers")
    largest = float(np.abs(x).max())
    unit = math.ldexp(1.0, math.frexp(largest)[1]) if largest else 1.0
    first, second = x[: len(a)] / unit, x[len(a) :] / unit
    if not np.ptp(first) and not np.ptp(second):
        raise ValueError("neither sample has any spread: Welch's t is not defined")
    centre = float(first[0])
    return CompareMeans(DescrStatsW(first - centre), DescrStatsW(second - centre)), unit


def _doubled_ranks(a: Sequence[float], b: Sequence[float]) -> npt.NDArray[np.int64]:
    """Twice the mid-ranks of all values, those of `a` first: whole numbers."""
    values = np.array([*a, *b], dtype=float)
    if not len(a) or not len(b) or np.isnan(values).any():
        raise ValueError("both samples must hold numbers: a failed run is -inf")
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    with np.errstate(invalid="ignore"):  # -inf - -inf
        apart = ordered[1:] - ordered[:-1] > TIE * np.maximum(np.abs(ordered[1:]), np.abs(ordered[:-1]))
    apart |= np.isinf(ordered[:-1]) & np.isfinite(ordered[1:])
    level = np.zeros(values.size, dtype=np.int64)
    level[order[1:]] = np.cumsum(apart)
    return np.asarray(np.rint(2 * stats.rankdata(level)), dtype=np.int64)


def _chances(ranks: npt.NDArray[np.int64], m: int) -> Array:
    """Chance of each sum of the ranks of `m` runs drawn from all, without replacement: a dynamic programme.

    Row k, after i ranks: the chance that k of the first i were drawn and sum to that column, if each rank is drawn with
    the chance that keeps m in all. Chances never leave [0, 1], so nothing overflows at any number of runs.
    """
    n, total = len(ranks), int(ranks.sum())
    chance = np.zeros((m + 1, total + 1))
    chance[0, 0] = 1.0
    for i, rank in enumerate(ranks.tolist()):
        left = n - i
        drawn = (m - np.arange(m + 1)) / left  # chance that the next rank is drawn, k being drawn already
        drawn = np.clip(drawn, 0.0, 1.0)[:, None]
        taken = (chance * drawn)[:-1, : total + 1 - rank]
        chance *= 1.0 - drawn
        chance[1:, rank:] += taken
    return np.asarray(chance[m])
