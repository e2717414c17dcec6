"""Small multiples of curves: a panel per arm on common axes, the baseline first, every seed under the median."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from knockout.analysis.report.curves import even_rows, log_rows
from knockout.analysis.report.svg import (
    BASELINE_COLOUR,
    Drawing,
    SeedLook,
    colours,
    line_count,
    plain_axes,
    seed_looks,
    wrapped,
)
from knockout.analysis.report.theme import INK, RULE

MOST = 38_000
"""The most points that the lines of single seeds have in one figure, so that it stays well under 1.5 MB."""
SUMMARY_POINTS = 80
"""The most points of a median's line where there are more than twelve panels, which are small."""
PLACES = 60
"""The most places across a panel at which points beyond the axis are marked."""
DASHED = (0, (4, 1.5))
EMPTY = pd.DataFrame({"variant": [], "seed": [], "x": [], "value": [], "status": []})


@dataclass(frozen=True, kw_only=True)
class Curves:
    """What the panels show. Frames have a row per point, and a column `variant`."""

    runs: pd.DataFrame
    """variant, seed, x, value, status"""
    summary: pd.DataFrame
    """variant, x, median, lower, upper"""
    baseline: str
    seeds: Sequence[object]
    """all seeds of the study, in its order: the same look for a seed in all panels and figures"""
    beside: pd.DataFrame = field(default_factory=lambda: EMPTY)
    """the summary of other values on the same axes, such as validation loss: x, median, lower, upper"""
    ended: pd.DataFrame = field(default_factory=lambda: EMPTY)
    """variant, x: where runs diverged"""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The common axes of all panels."""

    x_label: str
    y_label: str
    low: float
    high: float
    x: Literal["linear", "log"] = "linear"
    reference: float | None = None
    """a dotted level"""


def loss_scale(curves: Curves, *, x_label: str, y_label: str, chance: float | None) -> Scale:
    """Axes for a loss, from 0: one spike before a divergence does not flatten all other curves."""
    usual = max([float(t["upper"].quantile(0.99)) for t in (curves.summary, curves.beside) if len(t)]) * 1.5
    high = min(float(curves.runs["value"].max()), max(usual, 1.25 * (chance or 0.0)))
    return Scale(x_label=x_label, y_label=y_label, low=0.0, high=1.04 * (high or 1.0), reference=chance)


def close_scale(curves: Curves, *, x_label: str, y_label: str, chance: float | None) -> Scale:
    """Axes for the first steps, a log axis across, close about the middle 99 % of all points and the medians."""
    values = curves.runs["value"]
    low = min(float(values.quantile(0.005)), float(curves.summary["lower"].min()), chance or math.inf)
    high = max(float(values.quantile(0.995)), float(curves.summary["upper"].quantile(0.99)), chance or 0.0)
    pad = 0.08 * (high - low or 1.0)
    return Scale(x_label=x_label, y_label=y_label, low=low - pad, high=high + pad, x="log", reference=chance)


def points_per_run(runs: pd.DataFrame) -> int:
    """The most points of a single seed's line, so that a figure of many runs can still be opened."""
    return max(20, MOST // max(len(runs[["variant", "seed"]].drop_duplicates()), 1))


def drawn_rows(runs: pd.DataFrame, *, log: bool) -> pd.DataFrame:
    """The rows of which the lines of single seeds are drawn: all, or as many of each run as `points_per_run`."""
    return _thinned(runs, ["variant", "seed"], points_per_run(runs), log=log)


def _thinned(rows: pd.DataFrame, by: Sequence[str], most: int, *, log: bool) -> pd.DataFrame:
    """At most so many rows of each group, evenly over its length or, with `log`, over its logarithm."""
    pick = log_rows if log else even_rows
    groups = rows.groupby(list(by), sort=False).indices.values()
    kept = [group[pick(len(group), most)] for group in groups]
    return rows.iloc[np.sort(np.concatenate(kept))] if kept else rows


def beyond(curves: Curves, scale: Scale) -> int:
    """How many points of single seeds lie beyond the axis."""
    return int(((curves.runs["value"] > scale.high) | (curves.runs["value"] < scale.low)).sum())


def panels_caption(curves: Curves, scale: Scale, *, seeds: int) -> str:
    """What the panels show, in words: n, the band, the baseline, what is cut and what is thinned."""
    lines = [
        f"Thin lines: one per seed, n = {seeds} where none is missing; dashes and shades tell seeds apart.",
        "They are the same in all panels, and the CSV numbers them.",
        "Thick line: the median over the runs that reached that step; band: their interquartile range, not a",
        "confidence interval. Grey and dashed, and in the first panel: the baseline.",
    ]
    longest = int(curves.runs.groupby(["variant", "seed"], sort=False).size().max())
    if longest > points_per_run(curves.runs):
        lines.append(f"Of each seed's {longest} points {points_per_run(curves.runs)} are drawn; the CSV has all.")
    cut = beyond(curves, scale)
    if cut:
        lie = "point lies" if cut == 1 else "points lie"
        lines.append(f"{cut:,} {lie} beyond the axis: triangles at its edge, or the x of a run that diverged.")
    if len(curves.ended):
        lines.append("A run that diverged ends in x; ticks along the bottom: the steps at which runs diverged.")
    return " ".join(lines)


def draw_curves(
    curves: Curves, *, ax: Axes, arm: str, colour: str, scale: Scale, looks: Mapping[object, SeedLook]
) -> Axes:
    """One arm's runs, faint, under their median and quartiles, and the baseline's median in grey.

    `curves.runs` is drawn as it is; lines end at the edge of the axis. Diverged runs end in x.
    """
    single = curves.runs["x"].nunique() == 1
    layers = [(curves.baseline, BASELINE_COLOUR, 4, DASHED, 1.1)] if arm != curves.baseline else []
    for name, tone, depth, line, width in [(arm, colour, 2, "-", 1.6), *layers]:
        middle = curves.summary[curves.summary["variant"] == name]
        ax.fill_between(
            middle["x"], middle["lower"], middle["upper"], color=tone, alpha=0.22, linewidth=0, zorder=depth
        )
        ax.plot(middle["x"], middle["median"], color=tone, linewidth=width, linestyle=line,
                marker="o" if single else "None", zorder=depth + 1)  # fmt: skip
    own = curves.runs[curves.runs["variant"] == arm]
    _draw_seeds(own, ax=ax, colour=colour, scale=scale, looks=looks, single=single)
    beside = curves.beside[curves.beside["variant"] == arm]
    if len(beside):
        ax.vlines(beside["x"], beside["lower"], beside["upper"], color=INK, linewidth=0.8, zorder=6)
        ax.plot(beside["x"], beside["median"], color=INK, linewidth=0.8, linestyle=":", marker="o", markersize=3.5,
                markerfacecolor="none", markeredgewidth=0.9, zorder=7)  # fmt: skip
    ended = curves.ended[curves.ended["variant"] == arm]
    if len(ended):
        ax.plot(ended["x"], np.full(len(ended), 0.015), "|", color=INK, markersize=7, markeredgewidth=0.9,
                transform=ax.get_xaxis_transform(), clip_on=False, zorder=8)  # fmt: skip
    return ax


def _draw_seeds(
    own: pd.DataFrame, *, ax: Axes, colour: str, scale: Scale, looks: Mapping[object, SeedLook], single: bool
) -> None:
    lines, tones, dashes = [], [], []
    for seed, run in own.groupby("seed", sort=False):
        x, y = run["x"].to_numpy(dtype=float), run["value"].to_numpy(dtype=float)
        inside = np.clip(y, scale.low, scale.high)
        look = looks[seed]
        lines.append(np.column_stack([x, inside]))
        tones.append(to_rgba(colour, look.alpha))
        dashes.append(look.dash)
        if single:
            ax.plot(x, inside, look.marker, color=colour, alpha=look.alpha, markersize=3.5, zorder=1)
        if run["status"].iloc[-1] == "diverged":
            ax.plot(x[-1:], inside[-1:], "x", color=colour, markersize=6, zorder=8, clip_on=False)
    ax.add_collection(LineCollection(lines, colors=tones, linestyles=dashes, linewidths=0.55, zorder=1))


def draw_beyond(own: pd.DataFrame, *, ax: Axes, colour: str, scale: Scale) -> None:
    """Triangles at the edge where points of one arm's runs lie beyond the axis."""
    last = (own["status"] == "diverged") & ~own.duplicated("seed", keep="last")  # has its x there
    for cut, edge, shape in (
        ((own["value"] > scale.high) & ~last, scale.high, "^"),
        ((own["value"] < scale.low) & ~last, scale.low, "v"),
    ):
        if cut.any():
            places = np.unique(own.loc[cut, "x"].to_numpy(dtype=float))
            places = places[even_rows(len(places), PLACES)]
            ax.plot(places, np.full(len(places), edge), shape, color=colour, markersize=4, markeredgewidth=0,
                    clip_on=False, zorder=8)  # fmt: skip


def panels(curves: Curves, variants: Sequence[str], *, name: str, scale: Scale) -> Drawing:
    """A panel per arm, the baseline first: three in a row, and four of more than twelve."""
    arms = [arm for arm in (curves.baseline, *variants) if (curves.summary["variant"] == arm).any()]
    palette = {curves.baseline: BASELINE_COLOUR, **colours(variants)}
    most, length = (3, 30) if len(arms) <= 12 else (4, 22)
    columns = min(most, len(arms))
    rows = -(-len(arms) // columns)
    titles = {arm: wrapped(arm, length) for arm in arms}
    log = scale.x == "log"
    drawn = replace(
        curves,
        runs=drawn_rows(curves.runs, log=log),
        summary=_thinned(curves.summary, ["variant"], SUMMARY_POINTS if len(arms) > 12 else 10_000, log=log),
    )
    looks = seed_looks(curves.seeds)

    def draw(canvas: Canvas) -> None:
        grid = canvas.subplots(rows, columns, squeeze=False)  # each with equal limits: shared axes are slow by dozens
        for i, ax in enumerate(grid.flat):
            if i >= len(arms):
                ax.set_visible(False)
                continue
            arm = arms[i]
            _frame(ax, curves.runs["x"], scale)
            if scale.reference is not None:
                ax.axhline(scale.reference, color=RULE, linewidth=0.8, linestyle=":", zorder=0)
            draw_curves(drawn, ax=ax, arm=arm, colour=palette[arm], scale=scale, looks=looks)
            draw_beyond(curves.runs[curves.runs["variant"] == arm], ax=ax, colour=palette[arm], scale=scale)
            of = "" if arm != curves.baseline or arm == "baseline" else " (baseline)"
            ax.set_title(titles[arm] + of, fontsize=9.5, loc="left", color=INK)
            plain_axes(ax)
            ax.tick_params(labelbottom=i + columns >= len(arms), labelleft=i % columns == 0)
        canvas.supylabel(scale.y_label, fontsize=9.5)
        canvas.supxlabel(scale.x_label, fontsize=9.5)

    per_row = [max(line_count(titles[arm]) for arm in arms[r * columns : (r + 1) * columns]) for r in range(rows)]
    width = 9.2 if columns > 1 else 5.4
    return Drawing(draw, name=name, width=width, height=0.6 + sum(1.75 + 0.16 * lines for lines in per_row))


def _frame(ax: Axes, x: pd.Series, scale: Scale) -> None:
    """The ends and ticks of one panel, equal for all."""
    ax.set_autoscale_on(False)
    ax.set_ylim(scale.low, scale.high)
    low, high = float(x.min()), float(x.max())
    if low == high:
        ax.set_xlim(low - 1, low + 1)
    elif scale.x == "log":
        ax.set_xscale("log")
        ax.set_xlim(low / 1.08, high * 1.08)
        sizes = [m * 10.0**k for k in range(math.ceil(math.log10(high)) + 1) for m in (1, 2, 5)]
        inside = [s for s in sizes if low <= s <= high]
        ax.xaxis.set_major_locator(FixedLocator(inside if len(inside) < 8 else inside[::3]))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.xaxis.set_minor_locator(NullLocator())
        return
    else:
        ax.set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
