"""When a study with `seeds = "anytime"` has seeds enough: the plan's e-process over its complete blocks."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from knockout.analysis.history import dropped
from knockout.analysis.inference.pairs import pair
from knockout.analysis.inference.secondary import rows_of
from knockout.analysis.inference.verdict import ranked_differences
from knockout.analysis.results import Results
from knockout.analysis.stats.e_process import Decisions, decide, fewest_seeds
from knockout.analysis.stats.metric import Metric
from knockout.study import Plan

NAMES = {"sign": "sign e-process", "t": "t e-process"}


@dataclass(frozen=True, kw_only=True)
class Stop:
    """How far the decision has come."""

    decisions: Decisions
    counted: tuple[int, ...]
    """the complete seeds, in order from the first: what was decided on"""
    needless: tuple[int, ...]
    """the planned seeds after them, once every contrast is decided; none before"""

    @property
    def decided(self) -> bool:
        return self.decisions.decided_at is not None

    def __str__(self) -> str:
        """One line: "decided after 9 seeds: up better, down worse; seeds 9 to 39 were not needed"."""
        told, n = self.decisions, len(self.counted)
        words = {1: "better", -1: "worse", 0: "different"}
        found = [f"{name} {words[c.direction]}" for name, c in told.contrasts.items() if c.rejected_at is not None]
        if told.decided_at is not None:
            rest = f"; {_span(self.needless)} not needed" if self.needless else ""
            return f"decided after {_seeds(told.decided_at)}: {', '.join(found)}{rest}"
        so_far = f"decided: {', '.join(found)}; " if found else ""
        return f"after {_seeds(n)} in order {so_far}not decided: {', '.join(told.undecided)}"


def look(results: Results) -> Stop | None:
    """The decision over the complete blocks of seeds in order; `None` where the study's seeds are fixed.

    The family is that of the report: the variants, and those that were dropped since the first run.
    """
    if results.anytime is None:
        return None
    counted = results.complete_seeds
    told = decide(
        {
            v: differences(results.runs, v, baseline=results.baseline, seeds=counted, metric=results.metric)
            for v in results.variants
        },
        process=results.anytime,
        alpha=results.plan.alpha,
        family=len(results.variants) + len(dropped(results)),
    )
    rest = results.seeds[len(counted) :] if told.decided_at is not None else []
    return Stop(decisions=told, counted=tuple(counted), needless=tuple(rest))


def differences(
    runs: pd.DataFrame, variant: str, *, baseline: str, seeds: Sequence[int], metric: Metric
) -> list[float]:
    """What the report judges: differences at seeds of which both came to a result, above 0 where the variant is better.

    -inf: the variant failed, inf: the baseline failed, 0: both did.
    """
    rows = rows_of(runs[runs["variant"].isin([variant, baseline])], "value")
    return ranked_differences([pair(s, rows[variant, s], rows[baseline, s], metric) for s in seeds], metric)


def sentences(*, k: int, plan: Plan, max_seeds: int) -> list[str]:
    """What `knockout check` says of a study that is to end as soon as it is decided, in plain words."""
    process, goal = NAMES[plan.anytime], k / plan.alpha
    least = fewest_seeds(plan.anytime, family=k, alpha=plan.alpha)
    contrasts, it = ("the contrast", "it") if k == 1 else (f"all {k} contrasts", "every contrast")
    told = [f"At most {_seeds(max_seeds)}, {k} contrast{'' if k == 1 else 's'}, alpha {plan.alpha:g} (e-Holm)."]
    told.append(f"Seeds are added in order until the {process} has decided {it}. One may look after every seed.")
    how = (
        "as many straight wins (or losses) without a tie"
        if plan.anytime == "sign"
        else "differences that hardly vary; with a failed run it stands still"
    )
    told.append(
        f"The fewest seeds at which it can decide {contrasts} are {least}: {how}"
        f" ({'e' if k == 1 else 'each e'} has to reach {goal:g})."
    )
    if least > max_seeds:
        told.append(
            f"Undecidable by design: every contrast, since max_seeds is {max_seeds}, and the first to be decided needs"
            f" that e too; max_seeds = {least} or more would do."
        )
    told.append(
        "A contrast without a difference stays undecided, and the study then runs to max_seeds: an e-process finds"
        " differences, and shows no equivalence."
    )
    return told


def _seeds(n: int) -> str:
    return f"{n} seed{'' if n == 1 else 's'}"


def _span(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]} was" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]} were"
