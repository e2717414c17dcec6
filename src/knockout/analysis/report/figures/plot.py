"""What a figure is: its data, its drawing, its caption, and what it is drawn from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from knockout.analysis.inference.comparison import Comparison
from knockout.analysis.inference.instability import Instability
from knockout.analysis.report.blocks import Figure
from knockout.analysis.report.figure_formats import Format
from knockout.analysis.report.svg import Drawing
from knockout.analysis.results import Results
from knockout.analysis.stats.curve import RunCurve

Frames = Mapping[str, pd.DataFrame]
"""file name without ending -> the data drawn; the first is named as the figure"""


@dataclass(frozen=True, kw_only=True)
class Source:
    """What figures are drawn from; a comparison of runs from elsewhere has no `results`, and may have no curves."""

    comparison: Comparison
    results: Results | None
    curves: tuple[RunCurve, ...] = ()
    """of the baseline and the variants, as far as they were recorded"""
    instability: Instability | None = None

    @property
    def arms(self) -> tuple[str, ...]:
        """The baseline, and the variants in their order."""
        return (self.comparison.baseline, *self.comparison.variants)

    @property
    def other_batches(self) -> dict[str, tuple[str, ...]]:
        """The variants whose batches hold other examples than the baseline's -> what changes them."""
        if self.results is None:
            return {}
        described = self.results.design.described
        arms = (v for v in self.comparison.variants if v in described)
        return {v: described[v].own_batches for v in arms if described[v].own_batches}


@dataclass(frozen=True, kw_only=True)
class Plot:
    """One figure of every report: its data, its drawing, its caption. Left out where there are no data."""

    name: str
    title: Callable[[Source], str]
    frames: Callable[[Source], Frames]
    draw: Callable[[Source, Frames], Drawing]
    caption: Callable[[Source, Frames], str]


def drawn(plot: Plot, source: Source, *, formats: Sequence[Format] = ("svg",)) -> Figure | None:
    """The figure with its data and caption, in the formats asked for; `None` where it has no data."""
    frames = plot.frames(source)
    if not frames:
        return None
    drawing, title, caption = plot.draw(source, frames), plot.title(source), plot.caption(source, frames)
    return Figure(
        name=plot.name,
        title=title,
        caption=caption,
        svg=drawing.svg(title, caption),
        data=frames,
        further={form: drawing.render(form) for form in formats if form != "svg"},
    )
