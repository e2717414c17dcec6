"""The spread of the training loss over seeds, step by step, as a ratio to the baseline's."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes

from knockout.analysis.report.figures.plot import Frames, Plot, Source
from knockout.analysis.report.figures.small_multiples import Look, arm_colours, log_ends, panels, some
from knockout.analysis.report.figures.steps import (
    blocks,
    joined,
    rows_per_block,
    steps_per_block,
)
from knockout.analysis.report.svg import Drawing
from knockout.analysis.stats.curve import RunCurve

NAME = "spread"
LEAST = 4
"""Runs that a spread needs."""
POINTS = 40


def spread_ratios(runs: Sequence[RunCurve], *, baseline: str) -> pd.DataFrame:
    """Interquartile range over seeds of the loss (means over blocks of steps), over the baseline's at the same step.

    Columns: variant, x (the middle step of a block), iqr, baseline_iqr (nats), ratio, n, baseline_n (runs that reached
    the step). RunCurve with fewer than 4 runs of an arm, or at which all runs of one have the same loss, are left out.
    """
    rows = rows_per_block(runs, most=POINTS)
    frame = joined([blocks(run, run.loss, rows) for run in runs])
    grouped = frame.groupby(["variant", "x"], sort=False)["value"]
    wide = pd.DataFrame({"iqr": grouped.quantile(0.75) - grouped.quantile(0.25), "n": grouped.size()}).reset_index()
    wide = wide[(wide["n"] >= LEAST) & (wide["iqr"] > 0)]
    base = wide[wide["variant"] == baseline].drop(columns="variant")
    base = base.rename(columns={"iqr": "baseline_iqr", "n": "baseline_n"})
    made = wide[wide["variant"] != baseline].merge(base, on="x", how="inner")
    made["ratio"] = made["iqr"] / made["baseline_iqr"]
    order = {v: i for i, v in enumerate(dict.fromkeys(run.variant for run in runs))}
    made = made.sort_values(["variant", "x"], key=lambda c: c.map(order) if c.name == "variant" else c, kind="stable")
    return made[["variant", "x", "iqr", "baseline_iqr", "ratio", "n", "baseline_n"]].reset_index(drop=True)


def _frames(source: Source) -> Frames:
    runs = source.curves
    frame = spread_ratios(runs, baseline=source.comparison.baseline) if runs else pd.DataFrame()
    return {NAME: frame} if len(frame) else {}


def draw_spread(frame: pd.DataFrame, *, ax: Axes, colour: str) -> Axes:
    """One variant's ratio of spreads over steps, on a log axis around 1. `frame`: x, ratio."""
    ax.axhline(1.0, color="#444444", linewidth=0.9, zorder=0)
    ax.plot(
        frame["x"], frame["ratio"], color=colour, linewidth=1.5, marker="o" if len(frame) == 1 else "None", zorder=2
    )
    ax.fill_between(frame["x"], 1.0, frame["ratio"], color=colour, alpha=0.18, linewidth=0, zorder=1)
    return ax


def _svg(source: Source, frames: Frames) -> Drawing:
    frame = frames[NAME]
    palette = arm_colours(source.comparison.variants, source.comparison.baseline)
    low, high = log_ends(frame["ratio"], [0.5, 1.0, 2.0])
    look = Look(x_label="optimiser step", y_label="spread over seeds / the baseline's", low=low, high=high, scale="log")

    def draw_panel(arm: str, ax: Axes) -> None:
        draw_spread(frame[frame["variant"] == arm], ax=ax, colour=palette[arm])

    return panels(list(dict.fromkeys(frame["variant"])), draw_panel, name=NAME, look=look)


def _caption(source: Source, frames: Frames) -> str:
    runs, frame = source.curves, frames[NAME]
    block = steps_per_block(runs, rows_per_block(runs, most=POINTS))
    n = f"{frame['n'].max()}" if frame["n"].min() == frame["n"].max() else f"{frame['n'].min()} to {frame['n'].max()}"
    lines = [
        "Interquartile range over seeds of the training loss"
        + (f" (means over blocks of {block} steps)" if block > 1 else "")
        + ", divided by the baseline's at the same step, on a log axis. Above 1 the variant's seeds lie further apart.",
        f"n = {n} runs that reached the step. Such a range is itself uncertain, and nothing is tested here.",
    ]
    there = set(frame["variant"])
    lost = [v for v in source.comparison.variants if v not in there]
    lines += [f"Left out, with fewer than {LEAST} runs at a common step, or none that differ: {some(lost)}."] * bool(
        lost
    )
    return " ".join(lines)


PLOT = Plot(
    name=NAME, title=lambda _: "Spread over seeds, against the baseline's", frames=_frames, draw=_svg, caption=_caption
)
