"""What a study shows while it runs: the paired differences over the blocks that are complete, without a test.

Whoever tests after each block, and stops once a result is significant, gets more false positives than the plan allows.
So there are means and standard deviations here: no p values, no verdicts, and no intervals, since an interval that
leaves out zero is a test. Only an e-process (`seeds = "anytime"`) may decide early, and its state is shown.

In plain Python on the metrics that the coordinator holds anyway: a study that trains does not wait for pandas.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from knockout.job import RECORDED
from knockout.record import Record
from knockout.study import Run, Study
from knockout.sweep.answer import Answer, accuracy, test_metrics
from knockout.variants import BASELINE

if TYPE_CHECKING:
    from knockout.analysis.inference.sequential import Sequential
    from knockout.analysis.stopping import Stop

FEWEST = 2
"""Complete blocks from which something is shown: one difference has no spread."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One arm over the complete blocks. Numbers in points (hundredths), for log-loss in nats."""

    variant: str
    diverged: int
    mean: float | None
    """over the runs that did not diverge"""
    sd: float | None
    """of a sample (n - 1)"""
    pairs: int = 0
    """the seeds at which neither this arm nor the baseline diverged"""
    difference: float | None = None
    """mean over these seeds, variant minus baseline; `None` for the baseline"""
    difference_sd: float | None = None
    """of a sample (n - 1)"""
    decision: str = ""
    """with `seeds = "anytime"`: the state of the contrast's e-process"""


@dataclass(frozen=True, kw_only=True)
class Interim:
    """The state of a study after some of its blocks."""

    blocks: int
    """that are complete"""
    planned: int
    """blocks; with `seeds = "anytime"` at most so many"""
    measure: str
    """what the numbers are, such as "accuracy, %" """
    digits: int
    """decimals to show"""
    rows: tuple[Row, ...]
    """the baseline first, then the variants; the one that harms most comes first, what has no difference last"""
    notes: tuple[str, ...]
    """how far the decision is, in words, and what the numbers are not"""


class Interims:
    """Takes in how runs end, and gives the state of the study after each complete block."""

    def __init__(self, study: Study, runs: Iterable[Run], records: Mapping[str, Record]) -> None:
        """`records`: run id -> the result of a run that ended before, in this session or another."""
        self.study = study
        self.loss = study.plan.metric == "log_loss"
        self.values: dict[tuple[str, int], float | None] = {}
        """(arm, seed) of the runs with a result -> the metric; `None` where the run has no value"""
        self.diverged: set[tuple[str, int]] = set()
        self.given = 0
        for run in runs:
            if run.id in records:
                outcome = records[run.id].outcome
                self._take(run, outcome["status"], test_metrics(outcome["metrics"]))

    def ended(self, answer: Answer) -> None:
        """Take in how a run ended."""
        if answer.status in RECORDED:
            self._take(answer.run, answer.status, answer.test)

    def _take(self, run: Run, status: str, test: Mapping[str, Any]) -> None:
        if run.variant not in self.study.compared:  # a placebo
            return
        key = run.variant, run.seed
        self.values[key] = self._value(test) if status == "finished" else None
        if status == "diverged":
            self.diverged.add(key)

    def _value(self, test: Mapping[str, Any]) -> float | None:
        value = float(test.get("loss", math.nan)) if self.loss else 100 * accuracy(test) if test else math.nan
        return value if math.isfinite(value) else None

    def complete(self) -> list[int]:
        """The seeds of which the baseline and every variant have a result, in the study's order.

        With `seeds = "anytime"` only those before the first gap count.
        """
        arms = self.study.compared
        whole = {seed for seed in self.study.seeds if all((arm, seed) in self.values for arm in arms)}
        if self.study.anytime is not None:
            return list(takewhile(lambda seed: seed in whole, self.study.seeds))
        return [seed for seed in self.study.seeds if seed in whole]

    def next(self, *, stop: "Stop | None" = None) -> Interim | None:
        """The state, where a block was completed since the last one; else, and under two blocks, `None`.

        `stop`: with `seeds = "anytime"`, the newest decision, and the blocks that it has seen are those that count.
        """
        seeds = self.complete()
        if self.study.anytime is not None:
            seeds = seeds[: len(stop.counted)] if stop is not None else []
        if len(seeds) < FEWEST or len(seeds) == self.given:
            return None
        self.given = len(seeds)
        base = self._row(BASELINE, seeds, None)
        rows = [self._row(name, seeds, stop) for name in self.study.variants]
        sign = -1 if self.loss else 1
        rows.sort(key=lambda row: (row.difference is None, sign * (row.difference or 0.0)))
        return Interim(
            blocks=len(seeds),
            planned=len(self.study.seeds),
            measure="log-loss, nats" if self.loss else "accuracy, %",
            digits=max(2, 2 - math.floor(math.log10(self.study.plan.margin))) if self.loss else 2,
            rows=(base, *rows),
            notes=self._notes(len(seeds), stop),
        )

    def _row(self, name: str, seeds: Sequence[int], stop: "Stop | None") -> Row:
        values = [v for seed in seeds if (v := self.values[name, seed]) is not None]
        pairs = [(self.values[name, seed], self.values[BASELINE, seed]) for seed in seeds if name != BASELINE]
        differences = [a - b for a, b in pairs if a is not None and b is not None]
        mean, sd = _spread(values)
        difference, difference_sd = _spread(differences)
        return Row(
            variant=name,
            diverged=sum((name, seed) in self.diverged for seed in seeds),
            mean=mean,
            sd=sd,
            pairs=len(differences),
            difference=difference,
            difference_sd=difference_sd,
            decision=decision_text(stop.outcome, name) if stop is not None and name != BASELINE else "",
        )

    def _notes(self, blocks: int, stop: "Stop | None") -> tuple[str, ...]:
        planned = len(self.study.seeds)
        if stop is not None:
            state = str(stop) if stop.decided else f"{stop}; at most {planned} seeds"
        else:
            when = "now, by `knockout report`" if blocks == planned else "at the end"
            state = f"not decided: {blocks} of {planned} seeds; the planned test is made once, {when}"
        estimates = "estimates: runs at chance level, which the report counts as failed, are still in them"
        if self.study.plan.metric == "macro_f1":
            estimates += "; of accuracy, since macro-F1 is read off the predictions, by the report"
        return state, estimates


def _spread(values: Collection[float]) -> tuple[float | None, float | None]:
    """Mean and sd (n - 1), as far as there are any."""
    return fmean(values) if values else None, stdev(values) if len(values) > 1 else None


def decision_text(outcome: "Sequential", variant: str) -> str:
    """The state of one contrast's e-process: "worse, decided at 8 seeds", "not decided (e = 3.2)"."""
    decision = outcome.decisions[variant]
    if decision.rejected_at is None:
        return f"not decided (e = {decision.e_max:.3g})"
    word = {1: "better", -1: "worse", 0: "different"}[decision.direction]
    return f"{word}, decided at {decision.rejected_at} seeds"
