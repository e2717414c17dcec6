"""When a study with `seeds = "anytime"` has seeds enough: the plan's e-process over its complete blocks."""

from collections.abc import Sequence
from dataclasses import dataclass

from knockout.analysis.history import dropped
from knockout.analysis.inference.family import family_of
from knockout.analysis.inference.pairs import rows_of
from knockout.analysis.inference.sequential import Sequential, sequential
from knockout.analysis.results import Results
from knockout.analysis.stats.e_process import fewest_seeds
from knockout.study import Plan

NAMES = {"sign": "sign e-process", "t": "t e-process"}


@dataclass(frozen=True, kw_only=True)
class Stop:
    """How far the decision has come."""

    outcome: Sequential
    counted: tuple[int, ...]
    """the complete seeds, in order from the first, on which the decision rests"""
    needless: tuple[int, ...]
    """the planned seeds after them, once every contrast is decided; none before"""

    @property
    def decided(self) -> bool:
        return self.outcome.decided_at is not None

    def __str__(self) -> str:
        """One line: "decided after 9 seeds: up better, down worse; seeds 9 to 39 were not needed"."""
        outcome, n = self.outcome, len(self.counted)
        words = {1: "better", -1: "worse", 0: "different"}
        ended = [f"{name} {words[d.direction]}" for name, d in outcome.decisions.items() if d.rejected_at is not None]
        if outcome.decided_at is not None:
            rest = f"; {_span(self.needless)} not needed" if self.needless else ""
            return f"decided after {_seeds(outcome.decided_at)}: {', '.join(ended)}{rest}"
        so_far = f"decided: {', '.join(ended)}; " if ended else ""
        return f"after {_seeds(n)} in order {so_far}not decided: {', '.join(outcome.undecided)}"


def look(results: Results) -> Stop | None:
    """The decision over the complete blocks of seeds in order; `None` where the study's seeds are fixed.

    The family is that of the report: the variants, and those that were dropped since the first run.
    """
    if results.anytime is None:
        return None
    counted = results.complete_seeds
    family = family_of(
        rows_of(results.runs),
        metric=results.metric,
        plan=results.plan,
        baseline=results.baseline,
        variants=results.variants,
        seeds=counted,
        size=len(results.variants) + len(dropped(results)),
    )
    outcome = sequential(family, results.anytime)
    rest = results.seeds[len(counted) :] if outcome.decided_at is not None else []
    return Stop(outcome=outcome, counted=tuple(counted), needless=tuple(rest))


def sentences(*, k: int, plan: Plan, max_seeds: int) -> list[str]:
    """The outlook of a study that ends as soon as all is decided, as `knockout check` prints it."""
    process, goal = NAMES[plan.anytime], k / plan.alpha
    least = fewest_seeds(plan.anytime, family=k, alpha=plan.alpha)
    contrasts, it = ("the contrast", "it") if k == 1 else (f"all {k} contrasts", "every contrast")
    lines = [f"At most {_seeds(max_seeds)}, {k} contrast{'' if k == 1 else 's'}, alpha {plan.alpha:g} (e-Holm)."]
    lines.append(f"Seeds are added in order until the {process} has decided {it}. One may look after every seed.")
    how = (
        "as many straight wins (or losses) without a tie"
        if plan.anytime == "sign"
        else "differences that hardly vary; with a failed run it stands still"
    )
    lines.append(
        f"The fewest seeds at which it can decide {contrasts} are {least}: {how}"
        f" ({'e' if k == 1 else 'each e'} has to reach {goal:g})."
    )
    if least > max_seeds:
        lines.append(
            f"Undecidable by design: every contrast, since max_seeds is {max_seeds}, and the first to be decided needs"
            f" that e too; max_seeds = {least} or more would do."
        )
    lines.append(
        "A contrast without a difference stays undecided, and the study then runs to max_seeds: an e-process finds"
        " differences, and shows no equivalence."
    )
    return lines


def _seeds(n: int) -> str:
    return f"{n} seed{'' if n == 1 else 's'}"


def _span(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]} was" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]} were"
