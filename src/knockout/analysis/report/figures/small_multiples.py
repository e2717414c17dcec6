"""Small multiples: one panel per arm, on common axes, with every seed under its median and quartiles."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from knockout.analysis.report.svg import BASELINE_COLOUR, Drawing, colours, label_text, line_count, plain_axes, wrapped

COLUMNS = 3
TITLE_LINE = 30
"""Characters of a panel's title in one line; a longer name has two."""
MINUS = "−"
NAMED = 8
"""So many names stand in a caption."""
NOTE_COLOUR = "#555555"
DASHED = (0, (4, 1.5))


@dataclass(frozen=True, kw_only=True)
class Look:
    """What all panels of a figure share."""

    x_label: str
    y_label: str
    low: float
    high: float
    """ends of the y axis; what lies beyond is marked at the edge"""
    scale: Literal["linear", "log", "symlog"] = "linear"
    linear: float = 1.0
    """of a symlog axis: it is linear to plus and minus this, and logarithmic beyond"""
    steps: bool = True
    """whether whole numbers of steps stand across; else the panel's own ticks stay"""
    level: float | None = None
    """a thin line across all panels"""
    levels: Mapping[str, float] = field(default_factory=dict)
    """arm -> a dashed line of its own"""
    notes: Mapping[str, str] = field(default_factory=dict)
    """arm -> small print under its name"""


def panels(arms: Sequence[str], draw_panel: Callable[[str, Axes], object], *, name: str, look: Look) -> Drawing:
    """One panel per arm as SVG, each drawn by `draw_panel`."""
    columns = min(COLUMNS, len(arms))
    rows = -(-len(arms) // columns)
    lines = [max(line_count(panel_title(arm)) for arm in arms[r * columns : (r + 1) * columns]) for r in range(rows)]
    height = sum(1.74 + (0.16 if look.notes else 0.0) + 0.16 * most for most in lines)

    def draw(canvas: Canvas) -> None:
        grid = canvas.subplots(rows, columns, squeeze=False)
        shown = list(grid.flat)[: len(arms)]
        for arm, ax in zip(arms, shown, strict=True):
            draw_panel(arm, ax)
        ends = [ax.get_xlim() for ax in shown]  # matplotlib's shared axes take three times as long for 40 panels
        for i, ax in enumerate(grid.flat):
            if i >= len(arms):
                ax.set_visible(False)
                continue
            ax.set_xlim(min(low for low, _ in ends), max(high for _, high in ends))
            frame_panel(ax, arms[i], look)
            ax.tick_params(labelbottom=i + columns >= len(arms), labelleft=i % columns == 0)
        canvas.supylabel(look.y_label if rows > 1 else look.y_label.replace(" (", "\n("), fontsize=9.5)
        canvas.supxlabel(look.x_label, fontsize=9.5)

    return Drawing(draw, name=name, width=9.2 if columns > 1 else 5.4, height=max(2.9, 0.5 + height))


def frame_panel(ax: Axes, arm: str, look: Look) -> None:
    """The axes of a panel: its name, its note, its levels, its ends."""
    if look.scale == "symlog":
        ax.set_yscale("symlog", linthresh=look.linear, linscale=0.6)
    elif look.scale == "log":
        ax.set_yscale("log")
    if look.level is not None:
        ax.axhline(look.level, color="#888888", linewidth=0.8, zorder=0)
    if arm in look.levels:
        ax.axhline(look.levels[arm], color="#888888", linewidth=1.0, linestyle=(0, (1.5, 1.5)), zorder=5)
    ax.set_ylim(look.low, look.high)
    if look.scale != "linear":
        ax.yaxis.set_major_locator(FixedLocator(ticks(look)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("-", MINUS)))
        ax.yaxis.set_minor_locator(NullLocator())
    if look.steps:
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    note = look.notes.get(arm, "")
    ax.set_title(panel_title(arm), fontsize=9.5, loc="left", color="#222222", pad=16 if note else 6)
    if note:
        ax.text(0.0, 1.03, label_text(note, 60), transform=ax.transAxes, fontsize=8, color=NOTE_COLOUR)
    plain_axes(ax)


def ticks(look: Look) -> list[float]:
    """The places of the ticks of an axis that is logarithmic, in part or all of it: four to seven round numbers."""
    reach = max(abs(look.low), abs(look.high))
    least = look.low if look.scale == "log" else look.linear
    decades = range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(reach)) + 1)
    span = math.log10(reach / least)
    steps = (1, 2, 5) if span < 1.3 else (1, 3) if span < 3.2 else (1,)
    sizes = [float(f"{step}e{decade}") for decade in decades for step in steps]
    if look.scale == "log":
        inside = [size for size in sizes if look.low <= size <= look.high]
        even = [float(tick) for tick in MaxNLocator(4).tick_values(look.low, look.high)]
        return inside if len(inside) > 2 else [tick for tick in even if look.low <= tick <= look.high and tick > 0]
    sizes = [size for size in sizes if size >= look.linear]
    return [tick for tick in (*(-size for size in reversed(sizes)), 0.0, *sizes) if look.low <= tick <= look.high]


def panel_title(arm: str) -> str:
    """An arm's whole name over a panel, in as many lines as it needs."""
    return wrapped(arm, TITLE_LINE)


def draw_runs(runs: pd.DataFrame, *, ax: Axes, colour: str, low: float, high: float) -> Axes:
    """Every seed of one arm as a thin line; x where one diverged, and a triangle where it leaves the axis.

    `runs`: seed, x, value, status, of one arm. Values beyond `low` and `high` are drawn at the edge.
    """
    lines = []
    for _, run in runs.groupby("seed", sort=False):
        x, y = run["x"].to_numpy(dtype=float), run["value"].to_numpy(dtype=float)
        inside = np.clip(y, low, high)
        lines.append(np.column_stack([x, inside]))
        for beyond, edge, mark in ((y > high, high, "^"), (y < low, low, "v")):
            if beyond.any():
                ax.plot(x[beyond], np.full(int(beyond.sum()), edge), mark, color=colour, markersize=3, alpha=0.6,
                        markeredgewidth=0, clip_on=False, zorder=6)  # fmt: skip
        if len(run) and run["status"].iloc[-1] == "diverged":
            ax.plot(x[-1:], inside[-1:], "x", color=colour, markersize=6, clip_on=False, zorder=7)
    ax.add_collection(LineCollection(lines, colors=colour, linewidths=0.5, alpha=0.4, zorder=1))
    if any(len(line) == 1 for line in lines):  # a line through one point would not be seen
        single = np.concatenate([line for line in lines if len(line) == 1])
        ax.plot(single[:, 0], single[:, 1], "o", color=colour, markersize=3, alpha=0.5, zorder=1)
    ax.autoscale_view()
    return ax


def draw_median(summary: pd.DataFrame, *, ax: Axes, colour: str, dashed: bool = False) -> Axes:
    """The median of one arm, and the band between its quartiles. `summary`: x, median, lower, upper."""
    depth = 4 if dashed else 2
    ax.fill_between(
        summary["x"], summary["lower"], summary["upper"], color=colour, alpha=0.22, linewidth=0, zorder=depth
    )
    ax.plot(
        summary["x"], summary["median"], color=colour, linewidth=1.1 if dashed else 1.6,
        linestyle=DASHED if dashed else "-", marker="o" if len(summary) == 1 else "None", markersize=4,
        zorder=depth + 1,
    )  # fmt: skip
    return ax


def beyond(runs: pd.DataFrame, low: float, high: float) -> int:
    """How many points lie beyond the axis."""
    return int(((runs["value"] < low) | (runs["value"] > high)).sum())


def beyond_text(count: int) -> str:
    """The same in words; nothing where there are none."""
    if not count:
        return ""
    return f"{count:,} point{' lies' if count == 1 else 's lie'} beyond the axis: a triangle at the edge."


def some(names: Sequence[str]) -> str:
    """Names in a caption: all of a few, else the first and how many more."""
    shown = ", ".join(names[:NAMED])
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED} more"


def log_ends(values: pd.Series, levels: Sequence[float] = (), *, decades: float = 5.0) -> tuple[float, float]:
    """Ends of a log axis that holds positive values and levels, down to so many decades under their largest."""
    known = [float(v) for v in (*values.to_numpy(dtype=float), *levels) if math.isfinite(v) and v > 0]
    if not known:
        return 0.1, 10.0
    high = max(known)
    low = max(min(known), high / 10**decades)
    pad = (high / low) ** 0.06 if high > low else 1.5
    return low / pad, high * pad


def arm_colours(variants: Sequence[str], baseline: str) -> dict[str, str]:
    """The colours of all arms, those of every other figure."""
    return {baseline: BASELINE_COLOUR, **colours(variants)}


SEEDS_CAPTION = (
    "Thin lines: one per seed, n = {n} where none is missing. Thick line: the median over the runs that reached that"
    " step; band: their interquartile range, not a confidence interval."
)
BASELINE_CAPTION = "Grey and dashed: the baseline's median and interquartile range."
