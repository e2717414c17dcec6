"""Leave-one-out: the whole family judged again without each seed, in the other arms as in this one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knockout.analysis.inference.family import Family
from knockout.analysis.inference.pairs import Seed, complete, differences
from knockout.analysis.inference.verdict import Judgement, Verdict, judge
from knockout.analysis.stats.trace import traced

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


def leave_one_out(family: Family, judged: Mapping[str, Judgement]) -> dict[str, tuple[LeftOut, ...]]:
    """Every contrast without each of its seeds. `judged`: the verdicts with all seeds.

    Empty under four seeds, and where a run of the family is missing: leaving its seed out would only hide that.
    """
    missing = any(p.state == "missing" for pairs in family.pairs.values() for p in pairs)
    if not family.pairs or len(family.seeds) < LEAST_SEEDS or missing:
        return dict.fromkeys(family.names, ())
    rows: dict[str, list[LeftOut]] = {name: [] for name in family.names}
    for seed in family.seeds:
        rest = family.without(seed)
        for name, judgement in judge(rest).items():
            known = differences(*complete(rest.pairs[name]), family.metric.rounding)
            of = (rest.section, name, "difference")
            rows[name].append(
                LeftOut(
                    seed=seed,
                    difference=traced(of, mean, known, family.metric.scale) if known else None,
                    p_holm=judgement.p_holm,
                    p_tost_holm=judgement.p_tost_holm,
                    verdict=judgement.verdict,
                    flips=judgement.verdict != judged[name].verdict,
                )
            )
    return {name: tuple(own) for name, own in rows.items()}


def mean(differences: Sequence[float], worth: float) -> float:
    """The mean in the metric's unit, whatever the order. `worth`: the metric's `scale`."""
    return math.fsum(differences) / len(differences) * worth
