"""Comparisons and contrasts that print themselves: what `compare` returns."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from knockout.analysis.inference import comparison, contrasts
from knockout.analysis.report.blocks import Table
from knockout.analysis.report.formats import Shown
from knockout.analysis.report.sections.verdicts import verdict_table
from knockout.analysis.report.sentences import effect_sentence, secondary_sentence, sentence, title
from knockout.analysis.report.tables import contrast_table
from knockout.plurals import plural

BRIEF = (
    *("variant", "verdict", "variant_mean", "baseline_mean", "difference", "low", "high", "p_holm"),
    *("n_pairs", "variant_failures"),
)
"""The columns of contrasts.csv that `Comparison.table` shows unless asked for all."""

SHOWN = 6
"""Variants whose verdicts a `repr` names."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Contrast(contrasts.Contrast):
    """A contrast. Printed, it is one sentence."""

    def __repr__(self) -> str:
        return f"<Contrast {self.variant!r}: {self.label}>"

    def __str__(self) -> str:
        return sentence(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(Shown, comparison.Comparison):
    """What `compare` returns. Printed, it is one sentence per contrast; a notebook shows its table of verdicts."""

    contrasts: tuple[Contrast, ...]

    def __getitem__(self, variant: str) -> Contrast:
        """The contrast of a variant. Raises `KeyError` for a name that was not compared."""
        for contrast in self.contrasts:
            if contrast.variant == variant:
                return contrast
        raise KeyError(variant)

    def sentences(self) -> list[str]:
        """One sentence for each contrast, with its verdict, its numbers and what limits it."""
        return [sentence(c) for c in self.contrasts]

    def table(self, *, all: bool = False) -> pd.DataFrame:
        """One row per variant: the ten columns that matter, or with `all=True` every column of contrasts.csv."""
        whole = contrast_table(self.contrasts, {})
        return whole if all else whole[list(BRIEF)]

    def verdict_table(self) -> Table:
        """The report's table of verdicts, the baseline first."""
        return verdict_table(self, described={}, late={})

    def caption(self) -> str:
        """What was compared, in one sentence."""
        return (
            f"{title(self.metric)} ({self.metric.better} is better) against {self.baseline}, paired by"
            f" {plural(len(self.seeds), 'seed')}, margin {self.metric.size(self.plan.margin)}"
        )

    def write(self, folder: str | Path, *, formats: Sequence[str] = ("svg",)) -> dict[str, Path]:
        """Write the report (HTML, Markdown, CSV files, figures) into a folder. Returns the paths by name below it.

        `formats`: of the figures, "pdf" and "png" beside "svg". Raises `UserError` for another one, and `ResultsError`
        for a folder that holds other files, or where no run has finished.
        """
        from knockout.analysis.report.write import write_comparison

        runs = self.contrasts[0].baseline.runs + sum(c.arm.runs for c in self.contrasts)
        return write_comparison(
            self,
            Path(folder),
            title=f"Comparison of {runs:,} runs",
            question=f"Which variants differ from {self.baseline} in {title(self.metric)}?",
            provenance=provenance_of(runs),
            formats=formats,
        )

    def __repr__(self) -> str:
        verdicts = [f"{c.variant}: {c.label}" for c in self.contrasts[:SHOWN]]
        more = [f"{len(self.contrasts) - SHOWN} more"] if len(self.contrasts) > SHOWN else []
        return f"<Comparison, {self.caption()}; {', '.join([*verdicts, *more])}>"

    def __str__(self) -> str:
        head = (
            f"{title(self.metric)} ({self.metric.better} is better) against {self.baseline}, {len(self.seeds)} seeds,"
            f" margin {self.metric.size(self.plan.margin)}"
        )
        effects = [effect_sentence(e, self.metric) for crossing in self.crossings for e in crossing.effects]
        others = [secondary_sentence(s) for s in self.secondary]
        return "\n".join([head, *self.sentences(), *effects, *others, *self.notes])


def provenance_of(runs: int) -> list[tuple[str, str]]:
    """Where the runs of a frame come from, as far as that is known."""
    return [("Runs", f"{runs:,} with a result, of a pandas frame"), ("Knockout that reports", version("knockout"))]


def printed(computed: comparison.Comparison) -> Comparison:
    """The same comparison with the methods that print it."""
    values = {f.name: getattr(computed, f.name) for f in fields(computed)}
    own = tuple(Contrast(**{f.name: getattr(c, f.name) for f in fields(c)}) for c in computed.contrasts)
    return Comparison(**values | {"contrasts": own})
