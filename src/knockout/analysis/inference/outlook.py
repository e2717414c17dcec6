"""The outlook of a design, before anything runs: what can be detected, and which verdicts are within reach.

`knockout check` prints it. The verdicts are those of `analysis/RULES.md`, section "The verdict".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scipy import stats

from knockout.analysis.inference.verdict import Verdict
from knockout.analysis.stats.exact import floor, seeds_for_floor
from knockout.analysis.stats.metric import sized, unit_of
from knockout.analysis.stats.power import (
    detectable_effect,
    seeds_for_difference,
    seeds_for_equivalence,
    span,
    t_power,
    tost_power,
)
from knockout.study import Plan


@dataclass(frozen=True, kw_only=True)
class Level:
    """What one contrast can show when it is tested at this level. Effects in points, chances from 0 to 1."""

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


def reachable(
    *, n: int, sd: float, margin: float, alpha: float, failures: Literal["none", "some"]
) -> tuple[Verdict, ...]:
    """The verdicts that a contrast of n pairs tested at `alpha` can reach if the sd of differences is as planned.

    `sd` and `margin` in the same unit. `failures`: whether a run of the contrast failed, and worst ranks are tested.
    """
    if n <= 2:
        return ("undecidable by design",)
    if failures == "some":
        return ("better", "worse", "inconclusive") if floor(n) <= alpha else ("undecidable by design",)
    width = margin * math.sqrt(n) / sd
    one_sided, two_sided = float(stats.t.ppf(1 - alpha, n - 1)), float(stats.t.ppf(1 - alpha / 2, n - 1))
    within: list[Verdict] = ["better", "worse"]
    if width >= one_sided + two_sided:
        within.append("trivial")
    if width >= one_sided:
        within.append("equivalent")
    return (*within, "inconclusive")


def outlook(*, n: int, k: int, plan: Plan) -> Outlook:
    """What n seeds can show of k contrasts under this plan."""
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
    """The outlook in sentences, as `knockout check` prints them."""
    plan, alone, first = view.plan, view.alone, view.first
    unit = unit_of(plan.metric)
    contrasts = f"{view.k} contrast{'s' if view.k != 1 else ''}"
    lines = [f"{view.n} seed{'s' if view.n != 1 else ''}, {contrasts}, alpha {plan.alpha:g} (Holm)."]
    lines += [f"Undecidable by design: {case}." for case in view.undecidable]
    if view.n <= 2:
        return [*lines, "Three seeds are the least for any verdict."]
    shows = "equivalent" in {*alone.verdicts, *first.verdicts}
    equal = f"equivalence within {sized(plan.margin, unit)} {'can' if shows else 'can hardly'} be shown"
    lines.append(
        f"If paired differences have an sd of {sized(plan.planned_sd, unit)}, as the plan assumes, differences of about"
        f" {_range(alone.detectable, first.detectable, '.2g')} {unit} are found with a chance of {plan.power:.0%}, and"
        f" {equal}. Of two numbers the first is for a contrast tested alone, the second for the first of {view.k} under"
        " Holm."
        if view.k > 1
        else f"If paired differences have an sd of {sized(plan.planned_sd, unit)}, as the plan assumes, a difference of"
        f" {alone.detectable:.2g} {unit} is found with a chance of {plan.power:.0%}, and {equal}."
    )
    lines.append(
        f"A true difference of one margin ({sized(plan.margin, unit)}) is found with a chance of"
        f" {_range(alone.chance_margin, first.chance_margin, '.0%')}, of two margins"
        f" {_range(alone.chance_two_margins, first.chance_two_margins, '.0%')}; where there is none, equivalence is"
        f" shown with a chance of {_range(alone.chance_equivalent, first.chance_equivalent, '.0%')}."
    )
    lines.append(
        f"For {plan.power:.0%}: {span(alone.seeds_difference, first.seeds_difference)} seeds to find a difference of"
        f" one margin, {span(alone.seeds_equivalence, first.seeds_equivalence)} seeds to show equivalence."
    )
    lines.append(
        f"Verdicts within reach of every contrast, if the sd comes out at just that:"
        f" {_lists(alone.verdicts, first.verdicts)}; of one in which a run failed:"
        f" {_lists(alone.verdicts_after_failure, first.verdicts_after_failure)}."
    )
    if view.n < view.seeds_for_exact_floor:
        lines.append(
            f"The t test decides here on normal theory only: an exact test needs {view.seeds_for_exact_floor} seeds for"
            f" {contrasts} (its smallest p at {view.n} is {view.exact_floor:.3g})."
        )
    return lines


def _range(alone: float, first: float, form: str) -> str:
    one, other = format(alone, form), format(first, form)
    return one if one == other else f"{one} to {other}"


def _lists(alone: Sequence[str], first: Sequence[str]) -> str:
    one, other = ", ".join(alone), ", ".join(first)
    return one if one == other else f"{one} (as the first under Holm: {other})"


def _level(n: int, k: int, plan: Plan) -> Level:
    alpha, margin_in_sd = plan.alpha / k, plan.margin / plan.planned_sd
    decided = n > 2
    return Level(
        alpha=alpha,
        detectable=detectable_effect(n, alpha, plan.power) * plan.planned_sd if decided else math.inf,
        chance_equivalent=tost_power(n, margin_in_sd, alpha) if decided else 0.0,
        chance_margin=t_power(margin_in_sd, n=n, alpha=alpha) if decided else 0.0,
        chance_two_margins=t_power(2 * margin_in_sd, n=n, alpha=alpha) if decided else 0.0,
        seeds_difference=seeds_for_difference(margin_in_sd, alpha, plan.power),
        seeds_equivalence=seeds_for_equivalence(margin_in_sd, alpha, plan.power),
        verdicts=reachable(n=n, sd=plan.planned_sd, margin=plan.margin, alpha=alpha, failures="none"),
        verdicts_after_failure=reachable(n=n, sd=plan.planned_sd, margin=plan.margin, alpha=alpha, failures="some"),
    )
