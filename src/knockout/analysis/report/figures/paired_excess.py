"""Each run's training loss minus that of the baseline's run with the same seed, on the same batches."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from knockout.analysis.inference.pairs import Seed
from knockout.analysis.report.curves import summary
from knockout.analysis.report.figures.plot import Frames, Plot, Source
from knockout.analysis.report.figures.small_multiples import (
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
from knockout.analysis.report.figures.steps import (
    block_means,
    joined,
    rows_per_block,
    steps_per_block,
)
from knockout.analysis.report.svg import Drawing
from knockout.analysis.stats.curve import RunCurve

NAME = "paired_excess"


def paired_excess(runs: Sequence[RunCurve], *, baseline: str) -> pd.DataFrame:
    """Loss minus the baseline's of the same seed and step (nats), as means over blocks of the steps that both have.

    Columns: variant, seed, x (the middle step of a block), value, status (of the variant's run). A step at which either
    loss is not finite is left out; a seed without the baseline's run is, too, and a run
    of another number of planned steps, whose batches cannot be the same.
    """
    base: Mapping[Seed, RunCurve] = {run.seed: run for run in runs if run.variant == baseline}
    rows = rows_per_block(runs)
    parts = []
    for run in runs:
        other = base.get(run.seed)
        if run.variant == baseline or other is None or run.steps != other.steps:
            continue
        step, ours, theirs = np.intersect1d(run.step, other.step, return_indices=True)
        x, excess = block_means(step, run.loss[ours] - other.loss[theirs], rows)
        parts.append(pd.DataFrame({"variant": run.variant, "seed": run.seed, "x": x, "value": excess,
                                   "status": run.status}))  # fmt: skip
    return joined(parts)


def _runs(source: Source) -> list[RunCurve]:
    return [run for run in source.curves if run.variant not in source.other_batches]


def _frames(source: Source) -> Frames:
    frame = paired_excess(_runs(source), baseline=source.comparison.baseline)
    return {NAME: frame, f"{NAME}_summary": summary(frame)} if len(frame) else {}


def draw_paired_excess(
    runs: pd.DataFrame, *, ax: Axes, summary: pd.DataFrame, colour: str, ends: tuple[float, float]
) -> Axes:
    """One variant's excess loss per seed, under median and quartiles, around zero."""
    ax.axhline(0.0, color="#444444", linewidth=0.9, zorder=0)
    draw_runs(runs, ax=ax, colour=colour, low=ends[0], high=ends[1])
    return draw_median(summary, ax=ax, colour=colour)


def excess_ends(frames: Frames) -> tuple[float, float]:
    """Ends of the axis: all medians and quartiles but the outermost hundredth, and most single seeds."""
    middle, values = frames[f"{NAME}_summary"], frames[NAME]["value"]
    low = min(float(middle["lower"].quantile(0.01)), float(values.quantile(0.005)), 0.0)
    high = max(float(middle["upper"].quantile(0.99)), float(values.quantile(0.995)), 0.0)
    pad = 0.15 * (high - low or 1.0)
    return low - pad, high + pad


def linear_part(frames: Frames) -> float | None:
    """To where the axis is linear, if it is logarithmic beyond; None where it is linear throughout.

    It is compressed where one variant would make flat lines of others: its quartiles, without the outermost hundredth,
    reach over 8 times as far as those of a quarter of the variants.
    """
    middle = frames[f"{NAME}_summary"]
    size = middle[["lower", "upper"]].abs().max(axis=1).groupby(middle["variant"]).quantile(0.99)
    least, most = float(size.quantile(0.25)), float(size.max())
    if len(size) < 2 or not least > 0 or most < 8 * least:
        return None
    return float(f"{least:.0e}")


def _svg(source: Source, frames: Frames) -> Drawing:
    runs, summaries, ends = frames[NAME], frames[f"{NAME}_summary"], excess_ends(frames)
    palette = arm_colours(source.comparison.variants, source.comparison.baseline)
    linear = linear_part(frames)
    look = Look(
        x_label="optimiser step",
        y_label="loss minus the baseline's (nats per example)",
        low=ends[0],
        high=ends[1],
        scale="linear" if linear is None else "symlog",
        linear=linear or 1.0,
    )

    def draw_panel(arm: str, ax: Axes) -> None:
        own = summaries[summaries["variant"] == arm]
        draw_paired_excess(runs[runs["variant"] == arm], ax=ax, summary=own, colour=palette[arm], ends=ends)

    there = set(runs["variant"])
    return panels([v for v in source.comparison.variants if v in there], draw_panel, name=NAME, look=look)


def _caption(source: Source, frames: Frames) -> str:
    runs = _runs(source)
    block = steps_per_block(runs, rows_per_block(runs))
    other = source.other_batches
    there = set(frames[NAME]["variant"])
    lines = [
        "Training loss minus the loss of the baseline's run with the same seed at the same step"
        + (f", as means over blocks of {block} steps." if block > 1 else "."),
        "Both saw the same batch, so that the noise of batches cancels. Above 0 the variant's loss is larger.",
        SEEDS_CAPTION.format(n=len(source.comparison.seeds)),
    ]
    if (linear := linear_part(frames)) is not None:
        lines.append(f"The axis is linear to ±{linear:g} and logarithmic beyond.")
    if other:
        named = ", ".join(f"{v} ({', '.join(fields)})" for v, fields in other.items())
        lines.append(f"Left out, as their batches hold other examples than the baseline's: {named}.")
    lost = [v for v in source.comparison.variants if v not in there and v not in other]
    lines += [f"Without curves of both runs of a seed, of the same number of steps: {some(lost)}."] if lost else []
    if (frames[NAME]["status"] == "diverged").any():
        lines.append("A run that diverged ends in x.")
    return " ".join(line for line in (*lines, beyond_text(beyond(frames[NAME], *excess_ends(frames)))) if line)


PLOT = Plot(
    name=NAME,
    title=lambda _: "Training loss minus the baseline's, seed by seed",
    frames=_frames,
    draw=_svg,
    caption=_caption,
)
