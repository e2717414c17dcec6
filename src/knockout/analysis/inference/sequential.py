"""Sequential judging: seeds added until all is decided, by an e-process that may be looked at after each (step 10)."""

from collections.abc import Sequence
from dataclasses import dataclass

from knockout.analysis.inference.contrasts import Contrast
from knockout.analysis.inference.pairs import Pair
from knockout.analysis.inference.verdict import Judgement, Tested, ranked_differences
from knockout.analysis.stats.e_process import Decision, Process, decide
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.power import Verdict
from knockout.analysis.stats.trace import Caller
from knockout.study import Plan


@dataclass(frozen=True, kw_only=True)
class Sequential:
    """All contrasts under the plan's e-process."""

    process: Process
    n: int
    """complete seeds, in order from the first: those that were looked at"""
    decided_at: int | None
    """the number of seeds at which all contrasts were decided; None where they are not"""
    decisions: tuple[Decision, ...]
    """in the order of the contrasts"""
    judgements: tuple[Judgement, ...]


def sequential(
    found: Sequence[Contrast], *, process: Process, plan: Plan, metric: Metric, caller: Caller
) -> Sequential:
    """Judges contrasts whose seeds were added one by one. Only a difference can be shown, never equivalence.

    Looked at are the seeds in order, up to the first at which a contrast has a missing pair.
    """
    n = min(_whole(c.pairs) for c in found)
    given = {
        "differences": [ranked_differences(c.pairs[:n], metric) for c in found],
        "process": process,
        "alpha": plan.alpha,
        "family": found[0].family,
    }
    told = caller.call(("sequential", "decision"), decisions, given, items=[c.variant for c in found])
    reached = [d.rejected_at for d in told]
    return Sequential(
        process=process,
        n=n,
        decided_at=None if None in reached else max(r for r in reached if r is not None),
        decisions=told,
        judgements=tuple(_judged(d, n=n, process=process, alpha=plan.alpha) for d in told),
    )


def decisions(
    differences: Sequence[Sequence[float]], process: Process, alpha: float, family: int
) -> tuple[Decision, ...]:
    """`decide` on one sequence of differences per contrast, in the order given."""
    told = decide({str(i): d for i, d in enumerate(differences)}, process=process, alpha=alpha, family=family)
    return tuple(told.contrasts.values())


def _whole(pairs: Sequence[Pair]) -> int:
    for i, p in enumerate(pairs):
        if p.state == "missing":
            return i
    return len(pairs)


def _judged(decision: Decision, *, n: int, process: Process, alpha: float) -> Judgement:
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
