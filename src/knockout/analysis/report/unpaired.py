"""The unpaired comparison as it prints itself: sentences, tables, and the files of its report."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd

from knockout.analysis.inference import unpaired
from knockout.analysis.inference.unpaired import UnpairedContrast, UnpairedEstimate
from knockout.analysis.report.blocks import Table
from knockout.analysis.report.formats import Shown
from knockout.analysis.report.printed import SHOWN, provenance_of
from knockout.analysis.report.sections.unpaired import (
    WEAKER,
    runs_text,
    unpaired_page,
    unpaired_sentence,
    unpaired_verdict_table,
)
from knockout.analysis.report.sentences import title
from knockout.analysis.stats.power import UnpairedNeeds

BRIEF = (
    *("variant", "verdict", "variant_mean", "baseline_mean", "difference", "low", "high", "p_holm"),
    *("variant_runs", "variant_failures"),
)
"""The columns of contrasts.csv that `UnpairedComparison.table` shows unless asked for all."""


@dataclass(frozen=True, kw_only=True, repr=False)
class UnpairedComparison(Shown, unpaired.UnpairedComparison):
    """What `compare_unpaired` returns: the weaker comparison, of runs without seeds. Printed, it is sentences."""

    def __getitem__(self, variant: str) -> UnpairedContrast:
        """The contrast of a variant. Raises `KeyError` for a name that was not compared."""
        for contrast in self.contrasts:
            if contrast.variant == variant:
                return contrast
        raise KeyError(variant)

    def sentences(self) -> list[str]:
        """One sentence for each contrast, with its verdict and its numbers."""
        return [unpaired_sentence(c) for c in self.contrasts]

    def table(self, *, all: bool = False) -> pd.DataFrame:
        """One row per variant: the ten columns that matter, or with `all=True` every column of contrasts.csv."""
        whole = unpaired_table(self.contrasts)
        return whole if all else whole[list(BRIEF)]

    def verdict_table(self) -> Table:
        """The report's table of verdicts, the baseline first."""
        return unpaired_verdict_table(self)

    def caption(self) -> str:
        """What was compared, and that it is unpaired, in one sentence."""
        return (
            f"UNPAIRED, the weaker comparison: {title(self.metric)} ({self.metric.better} is better) against"
            f" {self.baseline}, {runs_text(self)}, margin {self.metric.size(self.plan.margin)}"
        )

    def write(
        self,
        folder: str | Path,
        *,
        title: str = "",
        question: str = "",
        provenance: Sequence[tuple[str, str]] = (),
    ) -> dict[str, Path]:
        """Write the report (HTML, Markdown, CSV) into a folder. Returns the paths by name below it.

        Raises `ResultsError` for a folder that holds other files, or where no run has finished.
        """
        from knockout.analysis.report.write import write_files  # which imports this module's neighbours

        runs = self.contrasts[0].baseline.runs + sum(c.arm.runs for c in self.contrasts)
        page = unpaired_page(
            self,
            title=title or f"Unpaired comparison of {runs:,} runs",
            question=question or f"Which variants differ from {self.baseline} in {self.metric.name}?",
            provenance=provenance or provenance_of(runs),
        )
        verdicts = [
            {"variant": c.variant, "verdict": c.verdict, "reason": c.reason, "sentence": unpaired_sentence(c)}
            for c in self.contrasts
        ]
        return write_files(self, Path(folder), runs=runs, page=page, table=self.table(all=True), verdicts=verdicts)

    def __str__(self) -> str:
        return "\n".join([self.caption(), *self.sentences(), WEAKER, *self.notes])

    def __repr__(self) -> str:
        verdicts = [f"{c.variant}: {c.verdict}" for c in self.contrasts[:SHOWN]]
        more = [f"{len(self.contrasts) - SHOWN} more"] if len(self.contrasts) > SHOWN else []
        return f"<UnpairedComparison, {self.caption()}; {', '.join([*verdicts, *more])}>"


def printed_unpaired(computed: unpaired.UnpairedComparison) -> UnpairedComparison:
    """The same comparison with the methods that print it."""
    return UnpairedComparison(**{f.name: getattr(computed, f.name) for f in fields(computed)})


def unpaired_table(contrasts: Sequence[UnpairedContrast]) -> pd.DataFrame:
    """Every number of every unpaired contrast, one row per variant: contrasts.csv."""
    return pd.DataFrame([unpaired_row(c) for c in contrasts])


def unpaired_row(c: UnpairedContrast) -> dict[str, Any]:
    """One unpaired contrast as it stands in contrasts.csv."""
    row: dict[str, Any] = {"variant": c.variant, "metric": c.metric.name, "unit": c.metric.unit}
    row |= {"comparison": "unpaired", "verdict": c.verdict}
    row |= {f"variant_{k}": v for k, v in asdict(c.arm).items()} | {"variant_planned": c.planned[0]}
    row |= {f"baseline_{k}": v for k, v in asdict(c.baseline).items()} | {"baseline_planned": c.planned[1]}
    estimate = c.estimate
    row |= {f.name: None if estimate is None else getattr(estimate, f.name) for f in fields(UnpairedEstimate)}
    row |= {f.name: None if c.needs is None else getattr(c.needs, f.name) for f in fields(UnpairedNeeds)}
    row |= {"family": c.family, "alpha": c.alpha, "margin": c.margin}
    row |= {"test": c.test, "p": c.p, "p_holm": c.p_holm, "p_tost": c.p_tost, "p_tost_holm": c.p_tost_holm}
    for name, found, holm in (("rank_sum", c.rank_sum, c.rank_sum_holm), ("permuted", c.permuted, c.permuted_holm)):
        row |= {f"p_{name}": None if found is None else found.p, f"p_{name}_holm": holm}
        row |= {f"{name}_method": None if found is None else found.method}
    return {**row, "disagree": ", ".join(c.disagree), "direction": c.direction, "reason": c.reason}
