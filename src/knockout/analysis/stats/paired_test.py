"""The test of one number per run, paired by seed, where some runs failed: rule D1 of analysis/RULES.md."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from knockout.analysis.stats.exact import floor, rank_sum, wilcoxon
from knockout.analysis.stats.numeric import SMALLEST_P


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """One variant against the baseline on one number per run."""

    n: int
    """pairs in which both runs have a value or failed"""
    ranked: int
    """of these, pairs in which a run counts as the worst"""
    estimate: float | None
    """over the other pairs: the geometric mean of the ratios, or the mean difference"""
    low: float | None
    """95 % t interval of the estimate, not corrected; none under three pairs or where they do not vary"""
    high: float | None
    p: float | None
    """two-sided; none where nothing is tested"""
    exact: bool
    """whether p is of the exact signed-rank test; else of the paired t test"""
    direction: int
    """1 where the variant's values are higher, by the sum of signed ranks; -1 lower; 0 neither"""


def paired_tests(
    variants: Sequence[Sequence[float | None]],
    baseline: Sequence[float | None],
    *,
    ratio: bool,
    exact: bool,
) -> list[PairedTest]:
    """`paired_test` of each variant, seed by seed, with one baseline."""
    return [paired_test(own, baseline, ratio=ratio, exact=exact) for own in variants]


def paired_test(
    variant: Sequence[float | None], baseline: Sequence[float | None], *, ratio: bool, exact: bool
) -> PairedTest:
    """The exact signed-rank test on logarithms of ratios, or on differences; with `exact=False` the paired t test where
    no run failed.

    An infinite value is a failed run, with the sign of the worse side; two of them are a difference of 0. Null: each
    difference is symmetric about 0 (for t: normal about 0). Nothing is tested below three pairs, and while a value is
    `None`. Raises `ValueError` for a ratio of values that are not above 0, and for NaN.
    """
    pairs = [(a, b) for a, b in zip(variant, baseline, strict=True) if a is not None and b is not None]
    whole = [_difference(a, b, ratio=ratio) for a, b in pairs if math.isfinite(a) and math.isfinite(b)]
    ranked = len(pairs) - len(whole)
    d = [_signed(a, b, ratio=ratio) for a, b in pairs]
    exact = exact or ranked > 0
    p = None
    if len(pairs) > 2 and len(pairs) == len(variant):
        p = wilcoxon(d).p if exact else _t(d)
    estimate, low, high = _interval(whole)
    if ratio:
        estimate, low, high = (None if x is None else _exponential(x) for x in (estimate, low, high))
    return PairedTest(
        n=len(pairs),
        ranked=ranked,
        estimate=estimate,
        low=low,
        high=high,
        p=p,
        exact=exact,
        direction=int(np.sign(rank_sum(d))) if d else 0,
    )


def _signed(a: float, b: float, *, ratio: bool) -> float:
    if math.isfinite(a) and math.isfinite(b):
        return _difference(a, b, ratio=ratio)
    if math.isnan(a) or math.isnan(b):
        raise ValueError("NaN has no rank")
    return 0.0 if a == b else a if math.isinf(a) else -b


def _difference(a: float, b: float, *, ratio: bool) -> float:
    if not ratio:
        return a - b
    if not (a > 0 and b > 0):
        raise ValueError("a ratio needs values above 0")
    return math.log(a) - math.log(b)


def _t(d: Sequence[float]) -> float:
    """Two-sided p of the paired t test; the smallest exact p where all differences are one number (step 6)."""
    if max(d) - min(d) <= 1e-12 * max(map(abs, d)):
        return floor(len(d)) if d[0] else 1.0
    return max(SMALLEST_P, float(stats.ttest_1samp(np.array(d) / max(map(abs, d)), 0.0).pvalue))


def _interval(d: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Mean and 95 % t interval."""
    if not d:
        return None, None, None
    unit = max(map(abs, d)) or 1.0
    values = np.array(d) / unit
    mean, sd = float(values.mean()), float(values.std(ddof=1)) if len(d) > 1 else 0.0
    if len(d) < 3 or sd <= 1e-12:
        return mean * unit, None, None
    reach = float(stats.t.ppf(0.975, len(d) - 1)) * sd / math.sqrt(len(d))
    return mean * unit, (mean - reach) * unit, (mean + reach) * unit


def _exponential(x: float) -> float | None:
    """e^x; `None` beyond the largest double."""
    return math.exp(x) if x < 700 else None
