"""Exact tests on paired differences: tie-safe sign-flip, max-T, signed-rank, discordant failures, and their floors.

scipy's `permutation_test` takes seconds at n = 20 and its `wilcoxon` is silently asymptotic with ties from n = 14
(measured on 1.17.1), so the reference distribution is computed here, by a dynamic programme over integer sums.

n pairs (seeds), K variants. Every p is two-sided and over 0.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from knockout.analysis.stats.numeric import SMALLEST_P

Array = npt.NDArray[np.float64]
Method = Literal["exact by dynamic programme", "exact by enumeration", "sampled"]

TIE = 1e-9
"""Sums and sizes that differ by less, relatively, are ties.

The difference of two metrics carries an error of some 1e-16 of the metric: relative to the difference that is 2e-12 for
one prediction in 25,000, which 12 significant digits split in 3 % of cases, and 8e-11 for one in a million (measured).
A false tie only makes p larger.
"""
ENUMERATED = 16
"""Up to so many pairs `sign_flip_real` goes through all sign patterns."""
MAX_T_ENUMERATED = 12
"""Up to so many pairs `max_t` goes through all sign patterns."""
PROGRAMME_TOTAL = 1_000_000
"""The largest sum of |d|, in the unit that all share, for the dynamic programme: n times as many additions, 8 MB."""
_CHUNK = 1 << 21  # numbers held at once while sampling: 16 MB


@dataclass(frozen=True, kw_only=True)
class SignFlip:
    """The sign-flip test of one contrast."""

    p: float
    method: Method
    draws: int | None
    """random sign patterns, where sampled"""


@dataclass(frozen=True, kw_only=True)
class MaxT:
    """The joint sign-flip test of K contrasts."""

    p: tuple[float, ...]
    """adjusted for the family-wise error over the K columns, in the order given"""
    method: Method
    draws: int | None
    """random sign patterns, where sampled"""


@dataclass(frozen=True, kw_only=True)
class Wilcoxon:
    """The exact signed-rank test of one contrast."""

    p: float
    statistic: float
    """W+: the sum of the ranks of positive differences"""
    w_minus: float
    rank_biserial: float
    """(W+ - W-) / (W+ + W-), in [-1, 1] (Kerby 2014); 0 where no difference is left"""
    n_used: int
    """differences other than zero"""
    ties: bool
    """whether two of these have the same size, and so share a mid-rank"""
    zeros: int
    """differences that were dropped"""


def sign_flip(differences: Sequence[int]) -> float:
    """Two-sided exact p of the sum, under the null that each paired difference is symmetric about zero.

    Ties and zeros are exact, since sums are integers. `[1, 2, 3]` gives 2/8 = .25. Cost: n times the sum of |d|.
    Full relative precision to n = 1,000; a p under the smallest positive double (n > 1,074) is that double.
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
    return min(1.0, max(SMALLEST_P, float(probability[np.abs(signed_sums) >= observed].sum())))


def sign_flip_real(differences: Sequence[float], *, draws: int, rng: np.random.Generator) -> SignFlip:
    """Two-sided p of the sum of real-valued differences, under the null that each is symmetric about zero.

    Zeros are dropped: their flip changes nothing. Sums within `TIE` of the sum of |d| are ties, since floats break them
    (.825 - .775 is not .375 - .325). Differences that are whole multiples of a common unit, as floats, go through the
    dynamic programme at any n, to a sum of |d| of `PROGRAMME_TOTAL` units; others through all sign patterns to n = 16;
    others through `draws` random patterns, of which b reach the observed sum: p = (b + 1)/(draws + 1) (Phipson & Smyth
    2010). The scale of the differences does not matter. `[.1, .2, .3]` gives .25. Raises `ValueError` for NaN, an
    infinity, or draws under 1.
    """
    d = _finite(differences, dimensions=1)
    _check_draws(draws)
    d = _scaled(d[d != 0])
    whole = _whole(d)
    if whole is not None:
        return SignFlip(p=sign_flip(whole), method="exact by dynamic programme", draws=None)
    least = abs(float(d.sum())) - TIE * float(np.abs(d).sum())
    if d.size <= ENUMERATED:
        p = float(np.mean(np.abs(_half_of_sums(d)) >= least))
        return SignFlip(p=p, method="exact by enumeration", draws=None)
    reached = sum(int(np.count_nonzero(np.abs(signs @ d) >= least)) for signs in _random_signs(d.size, draws, rng))
    return SignFlip(p=(reached + 1) / (draws + 1), method="sampled", draws=draws)


def max_t(differences: npt.ArrayLike, *, draws: int, rng: np.random.Generator) -> MaxT:
    """Single-step max-T: p of each variant, adjusted for the largest |t| among all K. `differences` is (n, K).

    Null: the n rows are jointly symmetric about zero. A row is one seed, and its sign is flipped for all variants at
    once, so that the correlation between variants is kept (Westfall & Young 1993, with sign flips as in Winkler et al.
    2014; not the step-down variant, whose p would be a little smaller). Each column keeps its own sd. |t| increases in
    |sum| / sqrt(sum of d^2), whose root no flip changes: that ratio is compared. It is finite for a constant column,
    where t is not, and ranks it first. A column of zeros has p = 1. Ties as in `sign_flip_real`. The smallest p is
    2^(1-n) for any K. All sign patterns to n = 12, after rows of zeros are dropped; above that `draws` random ones, of
    which b reach the observed value: p = (b + 1)/(draws + 1). Columns [1, 2, 3] and [1, -1, 0] give .25 and 1.
    Raises `ValueError` for NaN, an infinity, another shape, or draws under 1.
    """
    d = _finite(differences, dimensions=2)
    _check_draws(draws)
    d = _scaled(d[np.any(d != 0, axis=1)])
    n, k = d.shape
    if not d.size:
        return MaxT(p=(1.0,) * k, method="exact by enumeration", draws=None)
    norms = np.sqrt((d * d).sum(axis=0))
    d = d / np.where(norms > 0, norms, 1.0)
    least = np.abs(d.sum(axis=0)) - TIE * np.abs(d).sum(axis=0)
    if n <= MAX_T_ENUMERATED:
        largest = np.abs(_half_of_sums(d)).max(axis=1)
        p = np.mean(largest[:, None] >= least, axis=0)
        return MaxT(p=tuple(float(x) for x in p), method="exact by enumeration", draws=None)
    reached = np.zeros(k, dtype=np.int64)
    for signs in _random_signs(n, draws, rng, columns=k):
        reached += np.count_nonzero(np.abs(signs @ d).max(axis=1)[:, None] >= least, axis=0)
    return MaxT(p=tuple((int(b) + 1) / (draws + 1) for b in reached), method="sampled", draws=draws)


def wilcoxon(differences: Sequence[float]) -> Wilcoxon:
    """The exact signed-rank test, under the null that each paired difference is symmetric about zero.

    Zeros are dropped (Wilcoxon 1945), ties share their mean rank, and p is exact given the ties at any n (n^3 / 2
    additions: a tenth of a second at n = 1,000). Sizes within a relative `TIE` of each other are ties. A failed variant
    may stand as -inf, a failed baseline as +inf. `[1, 1, 2, 3, 4]` gives p = .0625 and W+ = 15.
    Raises `ValueError` for NaN.
    """
    ranks = _signed_ranks(differences)
    plus, minus = sum(r for r in ranks if r > 0) / 2, -sum(r for r in ranks if r < 0) / 2
    return Wilcoxon(
        p=sign_flip(ranks),
        statistic=plus,
        w_minus=minus,
        rank_biserial=(plus - minus) / (plus + minus) if ranks else 0.0,
        n_used=len(ranks),
        ties=len({abs(r) for r in ranks}) < len(ranks),
        zeros=len(differences) - len(ranks),
    )


def rank_sum(differences: Sequence[float]) -> int:
    """Twice the signed-rank sum, whose sign says who won: zeros dropped, ties with their mean rank, infinities last.

    Raises `ValueError` for NaN.
    """
    return sum(_signed_ranks(differences))


def worst_rank(differences: Sequence[float]) -> float:
    """Two-sided exact p of the signed-rank sum where a failed variant is -inf, a failed baseline +inf, both failed 0.

    Worst-rank scores after Lachin 1999. Sizes within a relative `TIE` of each other are ties.
    `[.1, .2, -inf, .3, .4, .5]` gives .4375. Raises `ValueError` for NaN.
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
    doubled = np.rint(2 * stats.rankdata(_levels(np.abs(kept)))).astype(int)  # a mean rank is a multiple of one half
    return [int(r) for r in np.where(kept > 0, doubled, -doubled)]


def _levels(sizes: Array) -> npt.NDArray[np.int64]:
    """A whole number for each size, in their order, the same for sizes that are equal but for rounding."""
    order = np.argsort(sizes)
    ordered = sizes[order]
    level = np.zeros(sizes.size, dtype=np.int64)
    # The larger is shrunk, not the smaller stretched: the largest double would overflow, and infinities must tie.
    level[order[1:]] = np.cumsum(ordered[:-1] < ordered[1:] * (1 - TIE))
    return level


def _finite(differences: npt.ArrayLike, *, dimensions: int) -> Array:
    d = np.asarray(differences, dtype=float)
    if d.ndim != dimensions:
        allowed = "one list of n numbers" if dimensions == 1 else "an array of shape (n seeds, K variants)"
        raise ValueError(f"differences must be {allowed}, got shape {d.shape}")
    if not np.isfinite(d).all():
        raise ValueError(
            f"differences must be finite, got {float(d[~np.isfinite(d)][0])}: leave the pair out and say so, or use"
            " worst_rank, where a failed run is -inf or +inf"
        )
    return d


def _check_draws(draws: int) -> None:
    if draws < 1:
        raise ValueError(f"draws must be 1 or more, got {draws}")


def _scaled(d: Array) -> Array:
    """Each column over a power of two that brings it near 1: exact, and no sum or square can overflow or underflow."""
    if not d.size:
        return d
    _, exponent = np.frexp(np.abs(d).max(axis=0))
    return np.asarray(np.ldexp(d, -exponent), dtype=float)


def _whole(d: Array) -> list[int] | None:
    """The differences in the largest unit that divides them all, or `None` where the programme would take too long.

    A float is a fraction over a power of two, so the unit is exact. Rounding errors never pass as small whole numbers:
    they make the unit tiny and the sum of |d| huge.
    """
    ratios = [x.as_integer_ratio() for x in d.tolist()]
    denominator = max((r[1] for r in ratios), default=1)
    whole = [numerator * (denominator // r) for numerator, r in ratios]
    unit = math.gcd(*whole) or 1
    whole = [w // unit for w in whole]
    return whole if sum(map(abs, whole)) <= PROGRAMME_TOTAL else None


def _half_of_sums(d: Array) -> Array:
    """The sums over axis 0 under the 2^(n-1) sign patterns that leave the first sign alone; the others mirror these."""
    sums = d[:1]
    for row in d[1:]:
        sums = np.concatenate((sums + row, sums - row))
    return sums


def _random_signs(n: int, draws: int, rng: np.random.Generator, *, columns: int = 1) -> Iterator[Array]:
    """`draws` sign patterns in all, in chunks of shape (rows, n) whose sums over `columns` columns fit in memory."""
    rows = max(1, _CHUNK // max(n, columns))
    for start in range(0, draws, rows):
        bits = rng.integers(0, 2, size=(min(rows, draws - start), n), dtype=np.int8)
        yield 2 * bits.astype(np.float64) - 1
