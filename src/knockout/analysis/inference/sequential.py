"""Sequential judging: seeds added until all is decided, by an e-process that may be looked at after each seed.

The rule is in `analysis/RULES.md`, section "The verdict".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knockout.analysis.inference.family import Family
from knockout.analysis.inference.pairs import Pair
from knockout.analysis.inference.verdict import Judgement, Tested, Verdict, ranked_differences
from knockout.analysis.stats.e_process import Decision, Process, decide
from knockout.analysis.stats.trace import traced_each


@dataclass(frozen=True, kw_only=True)
class Sequential:
    """All contrasts under the plan's e-process."""

    process: Process
    n: int
    """complete seeds, in order from the first: those that were looked at"""
    decided_at: int | None
    """the number of seeds at which all contrasts were decided; None where they are not"""
    decisions: Mapping[str, Decision]
    """name of the contrast -> its decision, in the order of the contrasts"""
    judgements: Mapping[str, Judgement]

    @property
    def undecided(self) -> tuple[str, ...]:
        """The contrasts that are not decided."""
        return tuple(name for name, d in self.decisions.items() if d.rejected_at is None)


def sequential(family: Family, process: Process) -> Sequential:
    """The decision on contrasts whose seeds were added one by one. Only a difference can be shown, never equivalence.

    Looked at are the seeds in order, up to the first at which a contrast has a missing pair.
    """
    n = min(_complete_from_start(pairs) for pairs in family.pairs.values())
    looked_at = [ranked_differences(pairs[:n], family.metric) for pairs in family.pairs.values()]
    alpha = family.plan.alpha
    made = traced_each(("sequential", "decision"), family.names, decisions, looked_at, process, alpha, family.size)
    by_name = dict(zip(family.names, made, strict=True))
    reached = [d.rejected_at for d in made]
    return Sequential(
        process=process,
        n=n,
        decided_at=None if None in reached else max(r for r in reached if r is not None),
        decisions=by_name,
        judgements={name: _judgement(d, n=n, process=process, alpha=alpha) for name, d in by_name.items()},
    )


def decisions(
    differences: Sequence[Sequence[float]], process: Process, alpha: float, family: int
) -> tuple[Decision, ...]:
    """`decide` on one sequence of differences per contrast, in the order given."""
    by_place = decide({str(i): d for i, d in enumerate(differences)}, process=process, alpha=alpha, family=family)
    return tuple(by_place.contrasts.values())


def _complete_from_start(pairs: Sequence[Pair]) -> int:
    for i, p in enumerate(pairs):
        if p.state == "missing":
            return i
    return len(pairs)


def _judgement(decision: Decision, *, n: int, process: Process, alpha: float) -> Judgement:
    verdict: Verdict = "inconclusive"
    looked = f"{n} seed{'' if n == 1 else 's'}"
    reason = f"not decided by the {process} e-process after {looked}; an e-process cannot show equivalence"
    if decision.rejected_at is not None and decision.direction:
        verdict = "better" if decision.direction > 0 else "worse"
        reason = f"decided by the {process} e-process at {decision.rejected_at} seeds (e >= {1 / alpha:g} after Holm)"
    return Judgement(
        tested=Tested(test="e-process", p=decision.p, p_tost=None, direction=decision.direction),
        p_holm=decision.p_holm,
        p_tost_holm=1.0,
        verdict=verdict,
        reason=reason,
    )
