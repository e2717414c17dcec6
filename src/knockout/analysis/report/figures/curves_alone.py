"""The figures of curves without a study: losses, first steps, and those of every report that need no more."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from knockout.analysis.inference.comparison import Comparison
from knockout.analysis.inference.instability import Instability
from knockout.analysis.report.blocks import Figure
from knockout.analysis.report.curves import summary
from knockout.analysis.report.figures import gradient_norm, paired_excess, probe, spread
from knockout.analysis.report.figures import instability as heat_map
from knockout.analysis.report.figures.plot import Frames, Plot, Source, drawn
from knockout.analysis.report.figures.small_multiples import (
    BASELINE_CAPTION,
    SEEDS_CAPTION,
    Look,
    arm_colours,
    beyond,
    beyond_text,
    draw_median,
    draw_runs,
    log_ends,
    panels,
)
from knockout.analysis.report.figures.steps import blocks, joined, rows_per_block, steps_per_block
from knockout.analysis.report.svg import Drawing
from knockout.analysis.stats.curve import RunCurve

EARLY = 0.1
"""The share of the steps that stands in the figure of the first ones."""


def _loss_frames(source: Source) -> Frames:
    rows = rows_per_block(source.curves)
    return _frames("loss_curves", joined([blocks(run, run.loss, rows) for run in source.curves]))


def _early(runs: Sequence[RunCurve]) -> int:
    """The last of the first steps."""
    return max(1, round(EARLY * max((run.steps for run in runs), default=0)))


def _early_frames(source: Source) -> Frames:
    """The losses of the first tenth of the steps, as they were logged."""
    last = _early(source.curves)
    parts = []
    for run in source.curves:
        kept = (run.step <= last) & np.isfinite(run.loss) & (run.loss > 0)  # a log axis has no 0
        own = {"variant": run.variant, "seed": run.seed, "x": run.step[kept], "value": run.loss[kept]}
        ended_here = run.status == "diverged" and bool(len(run.step)) and run.step[-1] <= last
        parts.append(pd.DataFrame({**own, "status": "diverged" if ended_here else "finished"}))
    frame = joined(parts)
    return _frames("early_loss", frame) if frame["x"].nunique() > 2 else {}


def _frames(name: str, frame: pd.DataFrame) -> Frames:
    return {name: frame, f"{name}_summary": summary(frame)} if len(frame) else {}


def _ends(name: str, frames: Frames) -> tuple[float, float]:
    values, middle = frames[name]["value"], frames[f"{name}_summary"]
    if name == "early_loss":
        return log_ends(values)
    usual = 1.5 * float(middle["upper"].quantile(0.99))  # one spike must not flatten all other curves
    low = min(0.0, float(values.min()))
    return low, min(float(values.max()), usual) + 0.04 * abs(usual)


def draw_loss(
    runs: pd.DataFrame, summaries: pd.DataFrame, *, ax: Axes, arm: str, source: Source, ends: tuple[float, float]
) -> Axes:
    """One arm's losses per seed under their median and quartiles; of a variant, over the baseline's median."""
    baseline = source.comparison.baseline
    palette = arm_colours(source.comparison.variants, baseline)
    draw_runs(runs[runs["variant"] == arm], ax=ax, colour=palette[arm], low=ends[0], high=ends[1])
    if arm != baseline:
        base = summaries[summaries["variant"] == baseline]
        draw_median(base, ax=ax, colour=palette[baseline], dashed=True)
    return draw_median(summaries[summaries["variant"] == arm], ax=ax, colour=palette[arm])


def _svg(name: str, source: Source, frames: Frames) -> Drawing:
    runs, summaries, ends = frames[name], frames[f"{name}_summary"], _ends(name, frames)
    look = Look(
        x_label="optimiser step",
        y_label="training loss",
        low=ends[0],
        high=ends[1],
        scale="log" if name == "early_loss" else "linear",
    )
    there = set(runs["variant"])

    def draw_panel(arm: str, ax: Axes) -> None:
        draw_loss(runs, summaries, ax=ax, arm=arm, source=source, ends=ends)

    return panels([arm for arm in source.arms if arm in there], draw_panel, name=name, look=look)


def _caption(name: str, source: Source, frames: Frames) -> str:
    rows = rows_per_block(source.curves)
    block = steps_per_block(source.curves, rows)
    smoothed = f"as means over blocks of {block} steps" if rows > 1 else "as logged"
    if name == "early_loss":
        smoothed = f"up to step {_early(source.curves):,}, as logged, on a log axis"
    lines = [
        f"Training loss, {smoothed}.",
        SEEDS_CAPTION.format(n=len(source.comparison.seeds)),
        BASELINE_CAPTION,
        "A run that diverged ends in x." if (frames[name]["status"] == "diverged").any() else "",
        beyond_text(beyond(frames[name], *_ends(name, frames))),
    ]
    return " ".join(line for line in lines if line)


LOSS = Plot(
    name="loss_curves",
    title=lambda _: "Training loss",
    frames=_loss_frames,
    draw=lambda source, frames: _svg("loss_curves", source, frames),
    caption=lambda source, frames: _caption("loss_curves", source, frames),
)
EARLY_LOSS = Plot(
    name="early_loss",
    title=lambda _: "Training loss, the first steps",
    frames=_early_frames,
    draw=lambda source, frames: _svg("early_loss", source, frames),
    caption=lambda source, frames: _caption("early_loss", source, frames),
)


def draw_curves_alone(
    comparison: Comparison, curves: Sequence[RunCurve], instability: Instability, *, same_batches: bool
) -> list[Figure]:
    """The figures that have data. `same_batches`: whether the runs of a seed saw the same batches; else none is of
    their differences."""
    source = Source(
        comparison=comparison, results=None, curves=tuple(c for c in curves if len(c.loss)), instability=instability
    )
    paired = (paired_excess.PLOT,) if same_batches else ()
    plots = (heat_map.PLOT, LOSS, EARLY_LOSS, *paired, spread.PLOT, probe.PLOT, gradient_norm.PLOT)
    return [figure for plot in plots if (figure := drawn(plot, source)) is not None]
