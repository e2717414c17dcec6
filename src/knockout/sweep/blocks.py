"""Blocks of a study with `seeds = "anytime"`: which of its runs are wanted still, as results come in."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from knockout.design import Design
from knockout.job import RECORDED
from knockout.ledger import Ledger
from knockout.study import Run, Study
from knockout.sweep.answer import Answer

if TYPE_CHECKING:
    from knockout.analysis.stopping import Stop


class Blocks:
    """One block for each seed, in order. No run of a block after one with a gap is wanted, nor after the decision.

    A gap is a run that was lost: it crashed, was killed, ran out of memory or time, and waits for the next `run`.
    Nothing is decided past it. Placebo arms take no part in the decision; they are wanted for the seeds that count.
    """

    def __init__(
        self,
        study: Study,
        root: Path,
        *,
        runs: Sequence[Run],
        design: Design,
        ledger: Ledger,
        lost: Iterable[Run],
    ) -> None:
        """`design`: as it would be laid down now. `lost`: the runs without a result that are not tried now."""
        self.root, self.design, self.judged = root, design, frozenset(study.compared)
        self.number = {seed: i for i, seed in enumerate(study.seeds)}
        self.open: list[set[str]] = [set() for _ in study.seeds]  # ids without a result
        for run in ledger.missing([r for r in runs if r.variant in self.judged]):
            self.open[self.number[run.seed]].add(run.id)
        self.complete = 0
        self.gap = len(study.seeds)  # the first block with one
        self.stop: Stop | None = None
        for run in lost:
            self._lost(run)
        self.look()

    @property
    def decided(self) -> bool:
        return self.stop is not None and self.stop.decided

    def ended(self, answer: Answer) -> str:
        """Take in how a run ended; returns a line to print where no later seed may start because of it, else ""."""
        if answer.status in RECORDED:
            self.open[self.number[answer.run.seed]].discard(answer.run.id)
        elif answer.status != "stopped" and self._lost(answer.run):
            return f"a run without a result holds the decision up: no seed after {answer.run.seed} is begun"
        return ""

    def _lost(self, run: Run) -> bool:
        before = self.gap
        if run.variant in self.judged:
            self.gap = min(self.gap, self.number[run.seed])
        return self.gap < before

    def look(self) -> str:
        """Decide again where a block was completed since; returns a line to print once all is decided, else ""."""
        done = next((i for i, ids in enumerate(self.open) if ids), len(self.open))
        if done == self.complete:
            return ""
        before = self.decided
        from knockout.analysis.results import load  # pandas, statsmodels: only where there is something to decide
        from knockout.analysis.stopping import look

        self.complete = done
        self.stop = look(load(self.root, design=self.design))
        now = self.decided and not before
        return "every contrast is decided: no new seed is begun" if now else ""

    def wanted(self, run: Run) -> bool:
        block = self.number[run.seed]
        return block < self.complete if self.decided else block <= self.gap

    def counts(self, run: Run, ledger: Ledger) -> bool:
        """Whether this run is one of those that the study is made of: it was run, or has to be."""
        return run.id in ledger.records or not self.decided or self.wanted(run)
