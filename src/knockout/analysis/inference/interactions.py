"""Interactions: the main effects and interactions of a full factorial, seed by seed, judged as one family."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np

from knockout.analysis.inference.family import Family
from knockout.analysis.inference.pairs import Pair, Rows, Seed, State, complete, differences, estimate, pair
from knockout.analysis.inference.sensitivity import flipped, own_seed
from knockout.analysis.inference.verdict import Judgement, Tested, judge
from knockout.analysis.stats.exact import SignFlip
from knockout.analysis.stats.factorial import Effect, Factorial, crossed, effects, find_factorials
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.trace import traced

Finding = Literal["raises", "lowers", "trivial", "none within the margin", "inconclusive", "undecidable by design"]


@dataclass(frozen=True, kw_only=True)
class EffectEstimate:
    """The size of an effect over n seeds, in the metric's unit: the fields of `Estimate` that need no second arm."""

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
    rows: Rows,
    changes: Mapping[str, Mapping[str, object]],
    family: Family,
    *,
    asked: Sequence[Sequence[str]] = (),
) -> tuple[Crossing, ...]:
    """Every full factorial among the variants. `changes`: variant -> factor -> level; the baseline changes nothing.

    `asked`: the axes of those that were planned as such; others that are there come after them. Metric, plan, baseline
    and seeds are those of `family`, the contrasts of the same runs.

    Effects are paired by seed as contrasts are, and Holm corrects over the effects of one factorial. A run that failed
    has no place on a scale of effects: then nothing is tested, and the estimate is over the seeds at which all cells
    came through.
    """
    baseline = family.baseline
    factorials = [crossed(axes, changes, baseline=baseline) for axes in asked]
    for other in find_factorials(changes, baseline=baseline):
        if not any(set(other.cells.values()) <= set(f.cells.values()) for f in factorials):
            factorials.append(other)
    return tuple(_crossing(f, rows, family) for f in factorials)


def _crossing(factorial: Factorial, rows: Rows, family: Family) -> Crossing:
    metric, plan, seeds = family.metric, family.plan, family.seeds
    cells = {
        place: [pair(s, rows.get((name, s)), rows.get((family.baseline, s)), metric) for s in seeds]
        for place, name in factorial.cells.items()
    }
    states = [{cells[place][i].state for place in cells} for i in range(len(seeds))]
    whole = [i for i, seen in enumerate(states) if seen == {"complete"}]
    values = np.zeros((*((2,) * len(factorial.factors)), len(whole)))
    for place, pairs in cells.items():
        values[place] = [pairs[i].variant or 0.0 for i in whole]
    section = f"crossing {' x '.join(factorial.factors)}"
    made = effects(values, factorial.factors, rounding=metric.rounding) if whole else ()
    judged = _judge(made, family, section) if len(whole) == len(seeds) else _untested(made, states)
    results = []
    for effect in made:
        m = _metric(metric, effect)
        d = differences(*complete(_pairs(effect.sums, [seeds[i] for i in whole], m)), m.rounding)
        estimated = traced((section, effect.name), sized_effect, d, m.scale)
        flip = None
        if len(whole) == len(seeds) > 2:
            seed = own_seed(plan, effect.name)
            flip = traced((section, effect.name, "sign_flip"), flipped, d, plan.draws, seed)
        results.append(
            JudgedEffect(
                name=effect.name,
                order=effect.order,
                n_planned=len(seeds),
                n=len(whole),
                estimate=estimated,
                judgement=judged[effect.name],
                sign_flip=flip,
                finding=_finding(judged[effect.name]),
            )
        )
    return Crossing(factorial=factorial, effects=tuple(results))


def sized_effect(values: Sequence[float], worth: float) -> EffectEstimate | None:
    """An effect from its value at each seed, or `None` where there are none. `worth`: the metric's `scale`."""
    estimated = estimate(values, [0.0] * len(values), worth, 1)
    if estimated is None:
        return None
    return EffectEstimate(**{f.name: getattr(estimated, f.name) for f in fields(EffectEstimate)})


def _metric(metric: Metric, effect: Effect) -> Metric:
    """That of the sums of an effect: displayed in the metric's unit, and "better" is then said of the effect's sign."""
    return replace(metric, scale=metric.scale / effect.divisor, better="higher")


def _judge(made: Sequence[Effect], family: Family, section: str) -> dict[str, Judgement]:
    """All effects share one unit, so one metric judges them once their sums are over one divisor."""
    scales = {e.name: _metric(family.metric, e).scale for e in made}
    scale = min(scales.values())
    pairs = {
        e.name: tuple(
            replace(p, variant=(p.variant or 0.0) * round(scales[e.name] / scale))
            for p in _pairs(e.sums, family.seeds, _metric(family.metric, e))
        )
        for e in made
    }
    metric = replace(family.metric, scale=scale, better="higher")
    return judge(replace(family, metric=metric, size=len(pairs), pairs=pairs, section=section))


def _untested(made: Sequence[Effect], states: Sequence[set[State]]) -> dict[str, Judgement]:
    failed = sum(bool(seen - {"complete", "missing"}) for seen in states)
    absent = sum("missing" in seen for seen in states)
    why = [f"a run failed at {failed} of {len(states)} seeds"] if failed else []
    why += [f"a run is missing at {absent} of {len(states)} seeds"] if absent else []
    untested = Judgement(tested=Tested(), p_holm=1.0, p_tost_holm=1.0, verdict="inconclusive", reason=" and ".join(why))
    return {e.name: untested for e in made}


def _pairs(sums: Sequence[float], seeds: Sequence[Seed], metric: Metric) -> list[Pair]:
    """An effect's value at each seed, as a pair with 0."""
    return [
        Pair(seed=s, state="complete", variant=x, baseline=0, difference=x * metric.scale, identical=False)
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
