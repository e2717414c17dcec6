"""Curves of runs from elsewhere without a metric to judge: what was measured on them, their figures and their page."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from knockout.analysis.inference.comparison import Comparison
from knockout.analysis.inference.instability import Instability, instability_of
from knockout.analysis.report import tables
from knockout.analysis.report.audit_trail import account_of
from knockout.analysis.report.render import html_page, markdown_page
from knockout.analysis.report.sections import instability as unstable
from knockout.analysis.report.sections.curves_alone import curves_page
from knockout.analysis.report.write import write_alone
from knockout.analysis.stats.curve import RunCurve
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.trace import Trace, recording
from knockout.job import RECORDED
from knockout.plan import Plan

Seed = int | str

LOSS = Metric(name="instability of the training loss", unit="nats", scale=1.0, better="lower", whole=False)


@dataclass(frozen=True, kw_only=True)
class CurvesAlone(Comparison):
    """A comparison in which nothing is judged: the baseline and the variants of curves, for figures and files."""

    arms: tuple[str, ...]
    """the variants, without the baseline"""

    @property
    def variants(self) -> tuple[str, ...]:
        return self.arms


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Loss curves of runs from elsewhere, and what was measured on them."""

    instability: Instability
    curves: tuple[RunCurve, ...]
    """of all runs that were read, also of those that came to no result"""
    same_batches: bool
    """whether the runs of a seed saw the same batches"""
    notes: tuple[str, ...]
    """what was decided about the runs, in words"""
    comparison: CurvesAlone

    @property
    def runs(self) -> pd.DataFrame:
        """One row per run, a column per measure: what instability.csv holds."""
        return unstable.run_table(self.instability)

    @property
    def contrasts(self) -> pd.DataFrame:
        """One row per variant and measure, against the baseline: what instability_contrasts.csv holds."""
        return unstable.contrast_table(self.instability)

    def write(
        self,
        target: str | Path,
        *,
        title: str = "Instability of loss curves",
        provenance: Sequence[tuple[str, str]] = (),
    ) -> dict[str, Path]:
        """Write report.html, report.md, figures, CSV files and analysis.json into a folder; returns name -> path.

        Raises `knockout.analysis.results.ResultsError` where the folder holds something else.
        """
        from knockout.analysis.report.figures.curves_alone import draw_curves_alone

        figures = draw_curves_alone(self.comparison, self.curves, self.instability, same_batches=self.same_batches)
        page = curves_page(
            self.instability,
            self.curves,
            title=title,
            notes=self.notes,
            figures=figures,
            provenance=provenance,
            same_batches=self.same_batches,
        )
        files = {
            "instability.csv": tables.csv_text(self.runs),
            "instability_contrasts.csv": tables.csv_text(self.contrasts),
            "analysis.json": self.account(),
            "report.md": markdown_page(page),
            "report.html": html_page(page),
        }
        return write_alone(self.comparison, Path(target), files, figures)

    def account(self) -> str:
        """The audit trail: every number with the call that made it, as JSON."""
        found = self.instability
        cells = [asdict(cell) for cell in found.cells]
        return account_of(self.comparison, cells, {"seeds": list(found.seeds), "missing": dict(found.missing)})


def judge_curves(
    curves: Sequence[RunCurve],
    *,
    baseline: str,
    variants: Sequence[str],
    seeds: Sequence[Seed],
    plan: Plan,
    same_batches: bool,
    notes: Sequence[str],
) -> Curves:
    """Every measure of every run that came to a result, and every variant against the baseline on each."""
    ended = [c for c in curves if c.status in RECORDED and len(c.loss)]
    with recording(Trace()) as trace:
        found = instability_of(
            ended,
            baseline=baseline,
            plan=plan,
            variants=variants,
            seeds=seeds,
            other_batches=() if same_batches else variants,
        )
    comparison = CurvesAlone(
        metric=LOSS,
        baseline=baseline,
        seeds=tuple(seeds),
        plan=plan,
        contrasts=(),
        secondary=(),
        crossings=(),
        placebos=None,
        sequential=None,
        notes=tuple(notes),
        trace=trace,
        arms=tuple(variants),
    )
    return Curves(
        instability=found,
        curves=tuple(curves),
        same_batches=same_batches,
        notes=tuple(notes),
        comparison=comparison,
    )
