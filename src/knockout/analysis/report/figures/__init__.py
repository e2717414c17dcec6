"""Figures: one module for each kind, one list of all. Colour is never the only carrier."""

from collections.abc import Iterable, Sequence

from knockout.analysis.inference.comparison import Comparison
from knockout.analysis.inference.instability import Instability
from knockout.analysis.report.blocks import Figure
from knockout.analysis.report.figure_formats import FORMATS, Format
from knockout.analysis.report.figures import (
    attention,
    cost,
    early_loss,
    examples,
    forest,
    gradient_norm,
    interaction,
    learning_curves,
    learning_rates,
    paired_excess,
    power,
    probe,
    spread,
)
from knockout.analysis.report.figures import instability as heat_map
from knockout.analysis.report.figures.plot import Plot, Source, drawn
from knockout.analysis.results import Results
from knockout.analysis.run_curves import run_curves
from knockout.analysis.stats.curve import RunCurve

PLOTS: tuple[Plot, ...] = (
    forest.PLOT,
    examples.PLOT,
    interaction.PLOT,
    heat_map.PLOT,
    learning_curves.LOSS,
    early_loss.PLOT,
    paired_excess.PLOT,
    spread.PLOT,
    probe.PLOT,
    gradient_norm.PLOT,
    learning_curves.VALIDATION,
    learning_rates.PLOT,
    attention.PLOT,
    cost.PLOT,
    power.PLOT,
)
"""Every figure, in the order of a report."""


def draw_all(
    comparison: Comparison,
    results: Results | None = None,
    instability: Instability | None = None,
    curves: Sequence[RunCurve] | None = None,
    *,
    formats: Sequence[Format] = ("svg",),
) -> list[Figure]:
    """Every figure that has data, as SVG with its data and caption, and in the other formats that are asked for.

    `curves`: of runs from elsewhere; by default those of `results`.
    """
    if curves is None:
        curves = () if results is None else run_curves(results)
    source = Source(comparison=comparison, results=results, curves=tuple(curves), instability=instability)
    return [figure for plot in PLOTS if (figure := drawn(plot, source, formats=formats)) is not None]


def outdated(written: Iterable[str]) -> list[str]:
    """Files of figures that an earlier report may have left and this one has not: names below the report's folder."""
    possible = [f"figures/{plot.name}.{form}" for plot in PLOTS for form in FORMATS]
    return [name for name in possible if name not in set(written)]
