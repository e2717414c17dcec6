"""The loss on the probe: fixed training examples, without dropout, so that no noise of batches is in it."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from knockout.analysis.report.curves import summary
from knockout.analysis.report.figures.plot import Frames, Plot, Source
from knockout.analysis.report.figures.small_multiples import (
    BASELINE_CAPTION,
    SEEDS_CAPTION,
    Look,
    arm_colours,
    beyond,
    beyond_text,
    draw_median,
    draw_runs,
    panels,
    some,
)
from knockout.analysis.report.figures.steps import BESIDE, MOST, joined
from knockout.analysis.report.svg import Drawing
from knockout.analysis.stats.curve import RunCurve

NAME = "probe"


def probe_losses(runs: Sequence[RunCurve]) -> pd.DataFrame:
    """Loss on the probe of every run (nats per example): variant, seed, x (optimiser step), value, status.

    Losses that are not finite are left out. With so many runs that a figure would have too many points, it is every
    second probe, every third, and so on, and the last one.
    """
    lines = len(runs) + BESIDE * len({run.variant for run in runs})
    parts = []
    for run in runs:
        if run.probe_step is None or run.probe_loss is None:
            continue
        every = max(1, math.ceil(lines * len(run.probe_step) / MOST))
        place = np.arange(len(run.probe_step))
        kept = ((place % every == 0) | (place == len(place) - 1)) & np.isfinite(run.probe_loss)
        part = {"variant": run.variant, "seed": run.seed, "x": run.probe_step[kept], "value": run.probe_loss[kept]}
        parts.append(pd.DataFrame({**part, "status": run.status}))
    return joined(parts)


def _frames(source: Source) -> Frames:
    frame = probe_losses(source.curves)
    return {NAME: frame, f"{NAME}_summary": summary(frame)} if len(frame) else {}


def draw_probe(
    runs: pd.DataFrame,
    *,
    ax: Axes,
    variant: str,
    baseline: str,
    summaries: pd.DataFrame,
    colour: str,
    ends: tuple[float, float],
) -> Axes:
    """One arm's loss on the probe; of a variant, over the baseline's median. `summaries`: that of all arms."""
    draw_runs(runs[runs["variant"] == variant], ax=ax, colour=colour, low=ends[0], high=ends[1])
    if variant != baseline:
        base = arm_colours((), baseline)[baseline]
        draw_median(summaries[summaries["variant"] == baseline], ax=ax, colour=base, dashed=True)
    return draw_median(summaries[summaries["variant"] == variant], ax=ax, colour=colour)


def _level(source: Source) -> float | None:
    """The loss of a model that gives all classes the same probability."""
    classes = 0 if source.results is None else len(source.results.design.data.classes)
    return math.log(classes) if classes > 1 else None


def probe_ends(frame: pd.DataFrame, summaries: pd.DataFrame, level: float | None) -> tuple[float, float]:
    """Ends of the axis: from 0 to what all but the highest hundredth of upper quartiles reach, and the level."""
    usual = 1.3 * float(summaries["upper"].quantile(0.99))
    return 0.0, min(1.04 * max(float(frame["value"].max()), level or 0.0), max(usual, 1.25 * (level or 0.0)))


def _svg(source: Source, frames: Frames) -> Drawing:
    baseline, variants = source.comparison.baseline, source.comparison.variants
    runs, summaries, level = frames[NAME], frames[f"{NAME}_summary"], _level(source)
    palette, ends = arm_colours(variants, baseline), probe_ends(runs, summaries, level)
    look = Look(
        x_label="optimiser step", y_label="loss on the probe (nats per example)", low=ends[0], high=ends[1], level=level
    )

    def draw_panel(arm: str, ax: Axes) -> None:
        draw_probe(runs, ax=ax, variant=arm, baseline=baseline, summaries=summaries, colour=palette[arm], ends=ends)

    there = set(runs["variant"])
    return panels([a for a in (baseline, *variants) if a in there], draw_panel, name=NAME, look=look)


def _caption(source: Source, frames: Frames) -> str:
    frame, level = frames[NAME], _level(source)
    lines = [
        "Loss on the probe: fixed training examples, the same for all runs, from before the first step on.",
        "Dropout is off, and no noise of batches is in it.",
        SEEDS_CAPTION.format(n=len(source.comparison.seeds)),
        BASELINE_CAPTION,
    ]
    if level is not None and source.results is not None:
        classes = len(source.results.design.data.classes)
        lines.append(
            f"Thin grey line: ln {classes} = {level:.3f}, the loss of a model that gives all {classes} classes the same"
            " probability."
        )
    there = set(frame["variant"])
    lost = [v for v in source.arms if v not in there]
    lines += [f"Without a recorded probe: {some(lost)}."] if lost else []
    if (frame["status"] == "diverged").any():
        lines.append("A run that diverged ends in x.")
    past = beyond(frame, *probe_ends(frame, frames[f"{NAME}_summary"], level))
    return " ".join(line for line in (*lines, beyond_text(past)) if line)


PLOT = Plot(name=NAME, title=lambda _: "Loss on fixed training examples", frames=_frames, draw=_svg, caption=_caption)
