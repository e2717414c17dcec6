"""Differences over seeds, and over seeds and test examples."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from knockout.analysis.report import tables
from knockout.analysis.report.figures.differences import margin_axis, row_names, row_places, rows_height
from knockout.analysis.report.figures.plot import Frames, Plot, Source
from knockout.analysis.report.svg import Drawing, colours, plain_axes


def _examples_frames(source: Source) -> Frames:
    frame = tables.examples_table(source.comparison.contrasts)
    if frame.empty:
        return {}
    return {"examples": frame.sort_values("difference", ascending=False, kind="stable", ignore_index=True)}


def _examples_drawing(source: Source, frames: Frames) -> Drawing:
    margin = source.comparison.plan.margin if source.comparison.metric.unit == "points" else None
    frame, palette = frames["examples"], colours(source.comparison.variants)

    def draw(canvas: Canvas) -> None:
        draw_examples(frame, ax=canvas.subplots(), margin=margin, palette=palette)

    height = 1.15 + rows_height([str(v) for v in frame["variant"]])
    return Drawing(draw, name="examples", width=9.2, height=height)


def _examples_caption(source: Source, _: Frames) -> str:
    examples = next(c.two_source.examples for c in source.comparison.contrasts if c.two_source is not None)
    return (
        "Difference in accuracy over the pairs in which neither run failed, sorted; n = "
        f"{len(source.comparison.seeds)} unless the table gives another number. Diamond: mean."
        " Upper, thick line:"
        " 95 % confidence interval (t) over seeds, on this test set. Lower, thin line: 95 % "
        "confidence interval over seeds and"
        f" {examples:,} test examples (crossed random effects), for other test examples like these. Shades: the middle"
        f" 50, 80 and 95 % of {source.comparison.plan.draws:,} bootstrap draws over seeds and examples. All for"
        " illustration; verdicts do not use it."
    )


def draw_examples(frame: pd.DataFrame, *, ax: Axes, margin: float | None, palette: Mapping[str, str]) -> Axes:
    """Differences in points over seeds (thick line) and over seeds and test examples (thin), on bootstrap bands.

    `frame`: variant, difference, seeds_low, seeds_high, both_low, both_high, and the quantiles q025 to q975 of the
    bootstrap; one row each, drawn from the top. `margin`: None where the plan's has another unit. `palette`: variant
    -> colour.
    """
    numbers = frame.drop(columns="variant").to_numpy(dtype=float)
    margin_axis(ax, [float(x) for x in numbers[np.isfinite(numbers)]], margin=margin)
    places = row_places([str(v) for v in frame["variant"]])
    for y, row in zip(places, frame.to_dict("records"), strict=True):
        colour = palette[row["variant"]]
        for low, high, alpha in (("q025", "q975", 0.14), ("q100", "q900", 0.22), ("q250", "q750", 0.34)):
            ax.fill_betweenx([y - 0.3, y + 0.3], row[low], row[high], color=colour, alpha=alpha, linewidth=0, zorder=2)
        for low, high, place, width in (
            ("seeds_low", "seeds_high", -0.1, 2.2),
            ("both_low", "both_high", 0.12, 1.1),
        ):
            if pd.notna(row[low]):
                ax.plot([row[low], row[high]], [y + place] * 2, color=colour, linewidth=width, zorder=3)
                ax.plot([row[low], row[high]], [y + place] * 2, "|", color=colour, markersize=6, zorder=3)
        ax.plot([row["difference"]], [y], "D", color=colour, markersize=4.5, zorder=4)
    row_names(ax, [str(v) for v in frame["variant"]])
    ax.set_xlabel("difference in accuracy (points), variant minus baseline")
    plain_axes(ax)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


PLOT = Plot(
    name="examples",
    title=lambda _: "Over seeds, and over other test examples like these",
    frames=_examples_frames,
    draw=_examples_drawing,
    caption=_examples_caption,
)
