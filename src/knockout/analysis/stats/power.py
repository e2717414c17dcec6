"""Power: the minimum detectable effect of a number of seeds, and the seeds that an effect or equivalence needs.

Effects are standardised: d_z = mean of the paired differences / their sd. Never computed from an observed effect.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import integrate, optimize, stats
from statsmodels.stats.power import TTestIndPower, TTestPower, ttest_power

MAX_SEEDS = 1_000_000
"""Where the search for a number of seeds ends."""


def t_power(effect_dz: float, *, n: int, alpha: float) -> float:
    """Power of the two-sided paired t at a true d_z: the chance of a rejection on either side."""
    return _two_sided(TTestPower(), effect_dz, n, alpha)


@cache
def detectable_effect(n: int, alpha: float, power: float) -> float:
    """The smallest d_z that the two-sided paired t on n pairs finds with this power (n = 10: .996 at .05 and .8)."""
    if n < 2:
        return math.inf
    return _root(lambda d: t_power(d, n=n, alpha=alpha) - power)


@dataclass(frozen=True, kw_only=True)
class UnpairedNeeds:
    """The minimum detectable difference of an unpaired comparison, at the sds that it saw. In the metric's unit."""

    detectable: float
    """the smallest difference found with the plan's power, tested alone (at alpha)"""
    detectable_first: float
    """the same as the first of K under Holm (at alpha / K)"""


def unpaired_needs(
    sd_variant: float, sd_baseline: float, n_variant: int, n_baseline: int, k: int, alpha: float, power: float
) -> UnpairedNeeds:
    """What two independent samples of these sizes and sds could detect, among k contrasts."""
    sds, sizes = (sd_variant, sd_baseline), (n_variant, n_baseline)
    alone, first = (detectable_unpaired(sds, sizes, level, power) for level in (alpha, alpha / k))
    return UnpairedNeeds(detectable=alone, detectable_first=first)


def detectable_unpaired(sds: tuple[float, float], sizes: tuple[int, int], alpha: float, power: float) -> float:
    """The smallest difference of two means that Welch's two-sided test finds with this power, in the unit of the sds.

    By the noncentral t with Welch and Satterthwaite's degrees of freedom at these sds. At equal sds and sizes it is
    Student's: 1.32 sds at 10 against 10 (.05 and .8), 2.02 at 5 against 5. Needs two runs and an sd above 0.
    """
    variances = [sd**2 / n for sd, n in zip(sds, sizes, strict=True)]
    error = math.sqrt(sum(variances))
    df = error**4 / sum(v**2 / (n - 1) for v, n in zip(variances, sizes, strict=True))
    return _root(lambda x: welch_power(x, df, alpha) - power) * error


def welch_power(size: float, df: float, alpha: float) -> float:
    """Power of a two-sided t test of a difference of `size` standard errors, by the noncentral t."""
    right = float(ttest_power(size, 1, alpha / 2, df=df, alternative="larger"))
    wrong = float(ttest_power(-size, 1, alpha / 2, df=df, alternative="larger"))
    return _both(right, wrong)


@cache
def pairing_pays_above(n: int, alpha: float, power: float) -> float:
    """The correlation between arms above which pairing detects smaller effects than two independent samples of n.

    Pairing buys the variance 2(1 - r) with half the degrees of freedom: .56 at n = 3, .28 at 5, .12 at 10.
    """
    unpaired = _root(lambda d: _two_sided(TTestIndPower(), d, n, alpha) - power)
    return 1.0 - (unpaired / detectable_effect(n, alpha, power)) ** 2 / 2.0


def seeds_for_difference(effect_dz: float, alpha: float, power: float) -> int | None:
    """The least n, from 3, at which the two-sided paired t has this power; `None` above a million."""
    return _least(lambda n: t_power(effect_dz, n=n, alpha=alpha) >= power) if effect_dz > 0 else None


def tost_power(n: int, margin_in_sd: float, alpha: float) -> float:
    """The chance that two one-sided paired t tests both reject at +-margin when the true difference is 0.

    They do when |mean| <= margin - t s / sqrt(n). Given s that is a normal probability; s follows a chi distribution
    with n - 1 degrees of freedom, over which it is integrated (Simpson, 801 points).
    """
    if n < 2:
        return 0.0
    df = n - 1
    critical = float(stats.t.ppf(1 - alpha, df))
    bound = math.sqrt(n) * margin_in_sd
    centre = math.sqrt(df)
    low, high = max(0.0, centre - 9.0), min(bound / critical * centre, centre + 9.0)
    if high <= low:
        return 0.0
    chi = np.linspace(low, high, 801)
    inside = 2 * stats.norm.cdf(bound - critical * chi / centre) - 1
    return float(integrate.simpson(inside * stats.chi.pdf(chi, df), x=chi))


def seeds_for_equivalence(margin_in_sd: float, alpha: float, power: float) -> int | None:
    """The least n, from 3, at which TOST at +-margin has this power when the truth is 0; `None` above a million."""
    return _least(lambda n: tost_power(n, margin_in_sd, alpha) >= power) if margin_in_sd > 0 else None


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a study could find at the sd that it saw, never computed from the difference that it saw.

    Each twice: tested alone (at alpha), and as the first of K under Holm (at alpha / K). Sizes in the metric's unit.
    """

    detectable: float
    """the smallest difference found with the plan's power"""
    detectable_first: float
    seeds_difference: int | None
    """to find a difference of one margin with the plan's power; None above a million"""
    seeds_difference_first: int | None
    seeds_equivalence: int | None
    """to show equivalence with the plan's power if the truth is 0"""
    seeds_equivalence_first: int | None
    seeds_difference_low: int | None
    """of `seeds_difference_first`: the seeds at the lower end of the 95 % confidence interval of the sd"""
    seeds_difference_high: int | None
    seeds_equivalence_low: int | None
    """the same of `seeds_equivalence_first`"""
    seeds_equivalence_high: int | None


def needs(sd: float, margin: float, n: int, k: int, alpha: float, power: float, pairs: int) -> Needs:
    """What n seeds and an sd of differences give, and what one margin would take, among k contrasts.

    `pairs`: the number of differences, at least 2, that the sd comes from.
    """
    size, first = margin / sd, alpha / k
    sizes = [margin / bound for bound in sd_interval(sd, pairs)]
    seeds = [seeds_for_difference(x, first, power) for x in sizes]
    equal = [seeds_for_equivalence(x, first, power) for x in sizes]
    return Needs(
        detectable=detectable_effect(n, alpha, power) * sd,
        detectable_first=detectable_effect(n, first, power) * sd,
        seeds_difference=seeds_for_difference(size, alpha, power),
        seeds_difference_first=seeds_for_difference(size, first, power),
        seeds_equivalence=seeds_for_equivalence(size, alpha, power),
        seeds_equivalence_first=seeds_for_equivalence(size, first, power),
        seeds_difference_low=seeds[0],
        seeds_difference_high=seeds[1],
        seeds_equivalence_low=equal[0],
        seeds_equivalence_high=equal[1],
    )


def sd_interval(sd: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """The confidence interval of a standard deviation from n normal values, by the chi-square distribution.

    n = 3: .52 to 6.28 times the sd; n = 10: .69 to 1.83 times.
    """
    tail = (1.0 - level) / 2.0
    low, high = (math.sqrt((n - 1) / float(stats.chi2.isf(q, n - 1))) for q in (tail, 1.0 - tail))
    return sd * low, sd * high


def paired_to_unpaired(sd: float, sd_variant: float, sd_baseline: float, pays_above: float) -> float:
    """The minimum detectable effect of the paired test over that of two independent samples of the same size.

    `sd`: of the differences; the other two: of the arms; `pays_above`: the correlation from `pairing_pays_above`.
    With equal sds of the arms this is sqrt((1 - r) / (1 - pays_above)) for a correlation r.
    """
    return sd / math.sqrt((sd_variant**2 + sd_baseline**2) * (1.0 - pays_above))


def span(alone: int | None, first: int | None) -> str:
    """Seeds needed tested alone, and as the first under Holm: "11" or "11 to 17"."""
    least, most = (f"over {MAX_SEEDS:,}" if n is None else f"{n:,}" for n in (alone, first))
    return least if least == most else f"{least} to {most}"


def _two_sided(family: TTestPower | TTestIndPower, effect: float, n: int, alpha: float) -> float:
    right = float(family.power(effect, n, alpha / 2, alternative="larger"))
    wrong = float(family.power(-effect, n, alpha / 2, alternative="larger"))
    return _both(right, wrong)


def _both(right: float, wrong: float) -> float:
    # scipy's noncentral t gives NaN (and with it statsmodels' two-sided power) far out in either tail.
    return (1.0 if math.isnan(right) else right) + (0.0 if math.isnan(wrong) else wrong)


def _root(excess: Callable[[float], float]) -> float:
    """Where an increasing function of d_z crosses zero."""
    high = 1.0
    while excess(high) < 0:
        high *= 2
    return float(optimize.brentq(excess, 0.0, high, xtol=1e-9))


def _least(enough: Callable[[int], bool]) -> int | None:
    """The least n from 3 for which an n-increasing condition holds."""
    high = 3
    while not enough(high):
        if high >= MAX_SEEDS:
            return None
        high = min(2 * high, MAX_SEEDS)
    low = high // 2 if high > 3 else 3
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return high
