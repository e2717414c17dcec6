"""The norm of the gradient, step by step, with the norm that clipping cuts it to."""

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
    log_ends,
    panels,
    some,
)
from knockout.analysis.report.figures.steps import (
    blocks,
    is_thinned,
    joined,
    rows_per_block,
    steps_per_block,
)
from knockout.analysis.report.svg import Drawing
from knockout.analysis.stats.curve import RunCurve

NAME = "gradient_norm"


def _runs(source: Source) -> list[RunCurve]:
    return [run for run in source.curves if run.grad_norm is not None]


def gradient_norms(runs: Sequence[RunCurve]) -> pd.DataFrame:
    """Gradient norm of every run as means over blocks of steps: variant, seed, x, value, status."""
    rows = rows_per_block(runs)
    frame = joined([blocks(run, run.grad_norm, rows) for run in runs if run.grad_norm is not None])
    return frame[frame["value"] > 0].reset_index(drop=True)  # a log axis has no 0


def clipped_shares(runs: Sequence[RunCurve]) -> pd.DataFrame:
    """For each arm: variant, clip_norm (empty: no clipping), share (0 to 1) of the steps of all its runs above it.

    Not finite norms count as above it. Of thinned curves it is the share of their points.
    """
    rows = []
    for arm in dict.fromkeys(run.variant for run in runs):
        own = [run for run in runs if run.variant == arm and run.grad_norm is not None]
        clips = {run.clip_norm for run in own}
        clip = clips.pop() if len(clips) == 1 else None
        norms = np.concatenate([run.grad_norm for run in own if run.grad_norm is not None])
        share = None if clip is None else float(np.mean(~(norms <= clip)))
        rows.append({"variant": arm, "clip_norm": clip, "share": share})
    return pd.DataFrame(rows, columns=["variant", "clip_norm", "share"]).astype({"clip_norm": float, "share": float})


def _frames(source: Source) -> Frames:
    runs = _runs(source)
    frame = gradient_norms(runs)
    if frame.empty:
        return {}
    return {NAME: frame, f"{NAME}_summary": summary(frame), f"{NAME}_clipped": clipped_shares(runs)}


def draw_gradient_norm(
    runs: pd.DataFrame,
    *,
    ax: Axes,
    variant: str,
    baseline: str,
    summaries: pd.DataFrame,
    colour: str,
    ends: tuple[float, float],
) -> Axes:
    """One arm's gradient norms; of a variant, over the baseline's median. `summaries`: that of all arms."""
    draw_runs(runs[runs["variant"] == variant], ax=ax, colour=colour, low=ends[0], high=ends[1])
    if variant != baseline:
        base = arm_colours((), baseline)[baseline]
        draw_median(summaries[summaries["variant"] == baseline], ax=ax, colour=base, dashed=True)
    return draw_median(summaries[summaries["variant"] == variant], ax=ax, colour=colour)


def _ends(frames: Frames) -> tuple[float, float]:
    return log_ends(frames[NAME]["value"], frames[f"{NAME}_clipped"]["clip_norm"].dropna().tolist())


def _svg(source: Source, frames: Frames) -> Drawing:
    baseline, variants = source.comparison.baseline, source.comparison.variants
    palette = arm_colours(variants, baseline)
    runs, summaries, clipped = frames[NAME], frames[f"{NAME}_summary"], frames[f"{NAME}_clipped"]
    ends = _ends(frames)
    there = set(runs["variant"])
    known = clipped.dropna().set_index("variant")
    notes = dict.fromkeys(clipped["variant"], "no clipping") if len(known) else {}
    notes |= {
        str(v): f"clipped at {row['clip_norm']:g}: {100 * row['share']:.0f} % of steps" for v, row in known.iterrows()
    }
    look = Look(
        x_label="optimiser step",
        y_label="gradient norm before clipping",
        low=ends[0],
        high=ends[1],
        scale="log",
        levels={str(v): float(c) for v, c in known["clip_norm"].items()},
        notes=notes,
    )

    def draw_panel(arm: str, ax: Axes) -> None:
        draw_gradient_norm(
            runs, ax=ax, variant=arm, baseline=baseline, summaries=summaries, colour=palette[arm], ends=ends
        )

    arms = [arm for arm in (baseline, *variants) if arm in there]
    return panels(arms, draw_panel, name=NAME, look=look)


def _caption(source: Source, frames: Frames) -> str:
    runs = _runs(source)
    block = steps_per_block(runs, rows_per_block(runs))
    lines = [
        "Norm of the gradient of all parameters before clipping"
        + (f", as means over blocks of {block} steps, on a log axis." if block > 1 else ", on a log axis."),
        SEEDS_CAPTION.format(n=len(source.comparison.seeds)),
        BASELINE_CAPTION,
    ]
    if frames[f"{NAME}_clipped"]["clip_norm"].notna().any():
        of = "points of the thinned curves" if is_thinned(runs) else "steps"
        lines.append(
            f"Dotted: the arm's `clip_norm`, to which a larger norm is cut; under each name the share of {of}, over"
            " all its runs, that lie above it."
        )
    there = set(frames[NAME]["variant"])
    lost = [v for v in source.comparison.variants if v not in there]
    lines += [f"Without recorded norms: {some(lost)}."] if lost else []
    if (frames[NAME]["status"] == "diverged").any():
        lines.append("A run that diverged ends in x.")
    return " ".join(line for line in (*lines, beyond_text(beyond(frames[NAME], *_ends(frames)))) if line)


PLOT = Plot(name=NAME, title=lambda _: "Gradient norms", frames=_frames, draw=_svg, caption=_caption)
