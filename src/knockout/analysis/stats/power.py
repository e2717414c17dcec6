"""What a design can decide, before anything runs: detectable effects, seeds needed, verdicts within reach.

Effects are standardised: d_z = mean of the paired differences / their sd. Never computed from an observed effect.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from scipy import integrate, optimize, stats
from statsmodels.stats.power import TTestIndPower, TTestPower

from knockout.analysis.stats.exact import floor, seeds_for_floor
from knockout.analysis.stats.metric import sized, unit_of
from knockout.study import Plan

Verdict = Literal["better", "worse", "trivial", "equivalent", "inconclusive", "undecidable by design"]
Holm = Literal["first", "last"]
"""Where a contrast comes in the family: tested at alpha / K (the smallest p) or at alpha (the largest)."""

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


def reachable(
    *, n: int, k: int, sd: float, margin: float, alpha: float, holm: Holm, failures: Literal["none", "some"]
) -> tuple[Verdict, ...]:
    """The verdicts that a contrast of n pairs among k can reach when the sd of differences comes out as planned.

    `sd` and `margin` in the same unit. `failures`: whether a run of the contrast failed, and worst ranks are tested.
    """
    level = alpha / k if holm == "first" else alpha
    if n <= 2:
        return ("undecidable by design",)
    if failures == "some":
        return ("better", "worse", "inconclusive") if floor(n) <= level else ("undecidable by design",)
    width = margin * math.sqrt(n) / sd
    one_sided, two_sided = float(stats.t.ppf(1 - level, n - 1)), float(stats.t.ppf(1 - level / 2, n - 1))
    found: list[Verdict] = ["better", "worse"]
    if width >= one_sided + two_sided:
        found.append("trivial")
    if width >= one_sided:
        found.append("equivalent")
    return (*found, "inconclusive")


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


def needs(sd: float, margin: float, n: int, k: int, alpha: float, power: float) -> Needs:
    """What n seeds and an sd of differences give, and what one margin would take, among k contrasts."""
    size, first = margin / sd, alpha / k
    return Needs(
        detectable=detectable_effect(n, alpha, power) * sd,
        detectable_first=detectable_effect(n, first, power) * sd,
        seeds_difference=seeds_for_difference(size, alpha, power),
        seeds_difference_first=seeds_for_difference(size, first, power),
        seeds_equivalence=seeds_for_equivalence(size, alpha, power),
        seeds_equivalence_first=seeds_for_equivalence(size, first, power),
    )


@dataclass(frozen=True, kw_only=True)
class Level:
    """What one contrast can do when it is tested at this level. Effects in points, chances from 0 to 1."""

    alpha: float
    detectable: float
    chance_equivalent: float
    """of `equivalent` or `trivial` when the truth is 0"""
    chance_margin: float
    """of `better` or `worse` when the truth is one margin"""
    chance_two_margins: float
    seeds_difference: int | None
    """to find a difference of one margin with the plan's power"""
    seeds_equivalence: int | None
    """to show equivalence with the plan's power when the truth is 0"""
    verdicts: tuple[Verdict, ...]
    verdicts_after_failure: tuple[Verdict, ...]


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What a study of n seeds and k contrasts can decide at the plan's sd."""

    n: int
    k: int
    plan: Plan
    exact_floor: float
    seeds_for_exact_floor: int
    alone: Level
    """tested at alpha: the only contrast, or the last under Holm"""
    first: Level
    """tested at alpha / k: the smallest p under Holm"""
    undecidable: tuple[str, ...]
    """in words, the cases that this design cannot decide whatever comes out"""


def outlook(*, n: int, k: int, plan: Plan) -> Outlook:
    """What `knockout check` says before a study runs."""
    cases: list[str] = []
    need = seeds_for_floor(k, plan.alpha)
    if n <= 2:
        cases.append(f"every contrast: {n} {'seed gives' if n == 1 else 'seeds give'} estimates only")
    elif floor(n) > plan.alpha:
        cases.append(f"every contrast in which a run fails: its exact p is at least {floor(n):.3g} at {n} seeds")
    elif n < need:
        cases.append(
            f"a contrast in which a run fails, unless enough other contrasts come out with smaller p: its exact p is at"
            f" least {floor(n):.3g}, times up to {k} under Holm"
        )
    return Outlook(
        n=n,
        k=k,
        plan=plan,
        exact_floor=floor(n),
        seeds_for_exact_floor=need,
        alone=_level(n, 1, plan),
        first=_level(n, k, plan),
        undecidable=tuple(cases),
    )


def sentences(view: Outlook) -> list[str]:
    """An outlook in plain words."""
    plan, alone, first = view.plan, view.alone, view.first
    unit = unit_of(plan.metric)
    contrasts = f"{view.k} contrast{'s' if view.k != 1 else ''}"
    told = [f"{view.n} seed{'s' if view.n != 1 else ''}, {contrasts}, alpha {plan.alpha:g} (Holm)."]
    told += [f"Undecidable by design: {case}." for case in view.undecidable]
    if view.n <= 2:
        return [*told, "Three seeds are the least for any verdict."]
    shows = "equivalent" in {*alone.verdicts, *first.verdicts}
    equal = f"equivalence within {sized(plan.margin, unit)} {'can' if shows else 'can hardly'} be shown"
    told.append(
        f"If paired differences have an sd of {sized(plan.planned_sd, unit)}, as the plan assumes, differences of about"
        f" {_range(alone.detectable, first.detectable, '.2g')} {unit} are found with a chance of {plan.power:.0%}, and"
        f" {equal}. Of two numbers the first is for a contrast tested alone, the second for the first of {view.k} under"
        " Holm."
        if view.k > 1
        else f"If paired differences have an sd of {sized(plan.planned_sd, unit)}, as the plan assumes, a difference of"
        f" {alone.detectable:.2g} {unit} is found with a chance of {plan.power:.0%}, and {equal}."
    )
    told.append(
        f"A true difference of one margin ({sized(plan.margin, unit)}) is found with a chance of"
        f" {_range(alone.chance_margin, first.chance_margin, '.0%')}, of two margins"
        f" {_range(alone.chance_two_margins, first.chance_two_margins, '.0%')}; where there is none, equivalence is"
        f" shown with a chance of {_range(alone.chance_equivalent, first.chance_equivalent, '.0%')}."
    )
    told.append(
        f"For {plan.power:.0%}: {span(alone.seeds_difference, first.seeds_difference)} seeds to find a difference of"
        f" one margin, {span(alone.seeds_equivalence, first.seeds_equivalence)} seeds to show equivalence."
    )
    told.append(
        f"Verdicts within reach of every contrast, if the sd comes out at just that:"
        f" {_lists(alone.verdicts, first.verdicts)}; of one in which a run failed:"
        f" {_lists(alone.verdicts_after_failure, first.verdicts_after_failure)}."
    )
    if view.n < view.seeds_for_exact_floor:
        told.append(
            f"The t test decides here on normal theory only: an exact test needs {view.seeds_for_exact_floor} seeds for"
            f" {contrasts} (its smallest p at {view.n} is {view.exact_floor:.3g})."
        )
    return told


def _range(alone: float, first: float, form: str) -> str:
    one, other = format(alone, form), format(first, form)
    return one if one == other else f"{one} to {other}"


def _lists(alone: Sequence[str], first: Sequence[str]) -> str:
    one, other = ", ".join(alone), ", ".join(first)
    return one if one == other else f"{one} (as the first under Holm: {other})"


def span(alone: int | None, first: int | None) -> str:
    """Seeds needed tested alone, and as the first under Holm: "11" or "11 to 17"."""
    least, most = (f"over {MAX_SEEDS:,}" if n is None else f"{n:,}" for n in (alone, first))
    return least if least == most else f"{least} to {most}"


def _level(n: int, k: int, plan: Plan) -> Level:
    alpha, margin_in_sd = plan.alpha / k, plan.margin / plan.planned_sd
    common = {"n": n, "k": k, "sd": plan.planned_sd, "margin": plan.margin, "alpha": plan.alpha}
    decided = n > 2
    return Level(
        alpha=alpha,
        detectable=detectable_effect(n, alpha, plan.power) * plan.planned_sd if decided else math.inf,
        chance_equivalent=tost_power(n, margin_in_sd, alpha) if decided else 0.0,
        chance_margin=t_power(margin_in_sd, n=n, alpha=alpha) if decided else 0.0,
        chance_two_margins=t_power(2 * margin_in_sd, n=n, alpha=alpha) if decided else 0.0,
        seeds_difference=seeds_for_difference(margin_in_sd, alpha, plan.power),
        seeds_equivalence=seeds_for_equivalence(margin_in_sd, alpha, plan.power),
        verdicts=reachable(**common, holm="first", failures="none"),  # type: ignore[arg-type]  # ints and floats by name
        verdicts_after_failure=reachable(**common, holm="first", failures="some"),  # type: ignore[arg-type]
    )


def _two_sided(family: TTestPower | TTestIndPower, effect: float, n: int, alpha: float) -> float:
    right = float(family.power(effect, n, alpha / 2, alternative="larger"))
    wrong = float(family.power(-effect, n, alpha / 2, alternative="larger"))
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
