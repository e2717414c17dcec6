"""Crossings: the main effects and interactions of a full factorial, seed by seed, judged as a family of their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
import pandas as pd

from knockout.analysis.inference.pairs import Pair, Row, Seed, complete, differences, estimate, pair
from knockout.analysis.inference.secondary import rows_of
from knockout.analysis.inference.sensitivity import flipped, own_seed
from knockout.analysis.inference.verdict import Judgement, Tested, judge
from knockout.analysis.stats.exact import SignFlip
from knockout.analysis.stats.factorial import Factorial, crossed, effects, find_factorials
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.trace import Caller
from knockout.study import Plan

Finding = Literal["raises", "lowers", "trivial", "none within the margin", "inconclusive", "undecidable by design"]


@dataclass(frozen=True, kw_only=True)
class EffectEstimate:
    """The size of an effect over n seeds, in the metric's unit: as `Estimate`, less what speaks of two arms."""

    n: int
    difference: float
    low: float | None
    high: float | None
    sd: float | None
    d_z: float | None
    g_z: float | None
    t: float | None


@dataclass(frozen=True, kw_only=True)
class JudgedEffect:
    """One main effect or interaction on the metric."""

    name: str
    """the factor, or the factors joined by " x " """
    order: int
    """1 for a main effect, 2 for an interaction of two factors, and so on"""
    n_planned: int
    n: int
    """seeds at which every cell finished without a failure"""
    estimate: EffectEstimate | None
    judgement: Judgement
    sign_flip: SignFlip | None
    finding: Finding
    """the verdict in words that fit an effect: it raises or lowers the metric"""


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """A full factorial of two levels, with its effects."""

    factorial: Factorial
    effects: tuple[JudgedEffect, ...]


def crossings(
    runs: pd.DataFrame,
    changes: Mapping[str, Mapping[str, object]],
    *,
    asked: Sequence[Sequence[str]] = (),
    metric: Metric,
    baseline: str,
    seeds: Sequence[Seed],
    plan: Plan,
    caller: Caller,
) -> tuple[Crossing, ...]:
    """Every full factorial among the variants. `changes`: variant -> factor -> level; the baseline changes nothing.

    `asked`: the axes of those that were planned as such; what is found besides is told after them.

    Effects are paired by seed as contrasts are, and Holm corrects over the effects of one factorial. A run that failed
    has no place on a scale of effects: then nothing is tested, and the estimate is over the seeds at which all cells
    came through.
    """
    found = [crossed(axes, changes, baseline=baseline) for axes in asked]
    for other in find_factorials(changes, baseline=baseline):
        if not any(set(other.cells.values()) <= set(f.cells.values()) for f in found):
            found.append(other)
    rows = rows_of(runs, "value") if found else {}
    return tuple(
        _crossing(f, rows, metric=metric, baseline=baseline, seeds=seeds, plan=plan, caller=caller) for f in found
    )


def _crossing(
    factorial: Factorial,
    rows: Mapping[tuple[str, Seed], Row],
    *,
    metric: Metric,
    baseline: str,
    seeds: Sequence[Seed],
    plan: Plan,
    caller: Caller,
) -> Crossing:
    shape = (2,) * len(factorial.factors)
    cells = {
        place: [pair(s, rows.get((name, s)), rows.get((baseline, s)), metric) for s in seeds]
        for place, name in factorial.cells.items()
    }
    states = [{cells[place][i].state for place in cells} for i in range(len(seeds))]
    whole = [i for i, seen in enumerate(states) if seen == {"complete"}]
    values = np.zeros((*shape, len(whole)))
    for place, pairs in cells.items():
        values[place] = [pairs[i].variant or 0.0 for i in whole]
    title = " x ".join(factorial.factors)
    made = effects(values, factorial.factors) if whole else ()
    names = [e.name for e in made]
    # An effect is told in the metric's unit, and "better" is then said of its sign.
    scaled = [replace(metric, worth=metric.worth / e.divisor, better="higher") for e in made]
    judged: list[Judgement] = []
    if len(whole) == len(seeds):
        paired = [_pairs(e.sums, seeds, m) for e, m in zip(made, scaled, strict=True)]
        # One divisor for all effects but the highest: Holm is over effects, each on a scale of its own.
        judged = _judge(paired, names, scaled, plan=plan, section=f"crossing {title}", caller=caller)
    else:
        failed = sum(bool(seen - {"complete", "missing"}) for seen in states)
        absent = sum("missing" in seen for seen in states)
        why = [f"a run failed at {failed} of {len(seeds)} seeds"] if failed else []
        why += [f"a run is missing at {absent} of {len(seeds)} seeds"] if absent else []
        judged = [
            Judgement(tested=Tested(), p_holm=1.0, p_tost_holm=1.0, verdict="inconclusive", reason=" and ".join(why))
            for _ in made
        ]
    told = []
    for effect, m, judgement in zip(made, scaled, judged, strict=True):
        of = (f"crossing {title}", effect.name)
        pairs = _pairs(effect.sums, [seeds[i] for i in whole], m)
        a, b = complete(pairs)
        d = differences(a, b)
        given = {"values": d, "worth": m.worth}
        tested = len(whole) == len(seeds) > 2
        told.append(
            JudgedEffect(
                name=effect.name,
                order=effect.order,
                n_planned=len(seeds),
                n=len(whole),
                estimate=caller.call(of, sized_effect, given),
                judgement=judgement,
                sign_flip=caller.call(
                    (*of, "sign_flip"),
                    flipped,
                    {"differences": d, "draws": plan.draws, "seed": own_seed(plan, effect.name)},
                )
                if tested
                else None,
                finding=_finding(judgement),
            )
        )
    return Crossing(factorial=factorial, effects=tuple(told))


def sized_effect(values: Sequence[float], worth: float) -> EffectEstimate | None:
    """An effect from its value at each seed, or `None` where there are none."""
    told = estimate(values, [0.0] * len(values), worth, 1)
    if told is None:
        return None
    return EffectEstimate(**{f.name: getattr(told, f.name) for f in fields(EffectEstimate)})


def _judge(
    paired: Sequence[Sequence[Pair]],
    names: Sequence[str],
    metrics: Sequence[Metric],
    *,
    plan: Plan,
    section: str,
    caller: Caller,
) -> list[Judgement]:
    """All effects share one unit, so one metric judges them once their sums are over one divisor."""
    worth = min(m.worth for m in metrics)
    same = [
        [replace(p, variant=(p.variant or 0.0) * round(m.worth / worth)) for p in pairs]
        for pairs, m in zip(paired, metrics, strict=True)
    ]
    return judge(
        same,
        names,
        metric=replace(metrics[0], worth=worth),
        plan=plan,
        family=len(names),
        section=section,
        caller=caller,
    )


def _pairs(sums: Sequence[float], seeds: Sequence[Seed], metric: Metric) -> list[Pair]:
    """An effect's value at each seed, as a pair with 0."""
    return [
        Pair(seed=s, state="complete", variant=x, baseline=0, difference=x * metric.worth, identical=False)
        for s, x in zip(seeds, sums, strict=True)
    ]


def _finding(judgement: Judgement) -> Finding:
    words: dict[str, Finding] = {
        "better": "raises",
        "worse": "lowers",
        "trivial": "trivial",
        "equivalent": "none within the margin",
        "undecidable by design": "undecidable by design",
    }
    return words.get(judgement.verdict, "inconclusive")
