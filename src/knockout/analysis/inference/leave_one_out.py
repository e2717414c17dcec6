"""Robustness: the whole family judged again with each seed left out, in the other arms as in this one (step 11)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from knockout.analysis.inference.pairs import Pair, Seed, complete, differences
from knockout.analysis.inference.verdict import Judgement, judge
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.power import Verdict
from knockout.analysis.stats.trace import Caller
from knockout.study import Plan

LEAST_SEEDS = 4
"""Below it, what is left are two seeds or fewer, from which nothing is inferred."""


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """One contrast without one seed."""

    seed: Seed
    difference: float | None
    """over the other complete pairs, in the metric's unit"""
    p_holm: float
    p_tost_holm: float
    verdict: Verdict
    flips: bool
    """whether the verdict is another than with all seeds"""


def leave_one_out(
    paired: Sequence[Sequence[Pair]],
    names: Sequence[str],
    judged: Sequence[Judgement],
    *,
    metric: Metric,
    plan: Plan,
    family: int,
    section: str,
    caller: Caller,
) -> list[tuple[LeftOut, ...]]:
    """For every contrast what it would be without each of its seeds; nothing where there are under four, or where a run
    of the family is missing: leaving its seed out would then only hide that."""
    seeds = [p.seed for p in paired[0]] if paired else []
    if len(seeds) < LEAST_SEEDS or any(p.state == "missing" for pairs in paired for p in pairs):
        return [() for _ in paired]
    found: list[list[LeftOut]] = [[] for _ in paired]
    for i, seed in enumerate(seeds):
        rest = [[p for j, p in enumerate(pairs) if j != i] for pairs in paired]
        again = judge(
            rest,
            names,
            metric=metric,
            plan=plan,
            family=family,
            section=f"{section} without seed {seed}",
            caller=caller,
        )
        for k, judgement in enumerate(again):
            known = differences(*complete(rest[k]))
            of = (f"{section} without seed {seed}", names[k], "difference")
            found[k].append(
                LeftOut(
                    seed=seed,
                    difference=caller.call(of, mean, {"differences": known, "worth": metric.worth}) if known else None,
                    p_holm=judgement.p_holm,
                    p_tost_holm=judgement.p_tost_holm,
                    verdict=judgement.verdict,
                    flips=judgement.verdict != judged[k].verdict,
                )
            )
    return [tuple(strip) for strip in found]


def mean(differences: Sequence[float], worth: float) -> float:
    """The mean in the metric's unit, whatever the order. `worth`: of a 1 among the differences, in that unit."""
    return math.fsum(differences) / len(differences) * worth
