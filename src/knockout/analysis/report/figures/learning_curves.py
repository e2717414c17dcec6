"""Learning curves: training and validation loss, and validation accuracy, one panel per arm."""

import math

import pandas as pd

from knockout.analysis.report.curves import (
    divergences,
    loss_curves,
    steps_per_point,
    summary,
    validation_curves,
    validation_losses,
)
from knockout.analysis.report.figures.panels import EMPTY, Curves, Scale, loss_scale, panels, panels_caption
from knockout.analysis.report.figures.plot import Frames, Plot, Source
from knockout.analysis.report.svg import Drawing
from knockout.analysis.results import Results

LOSS_LABEL = "loss (nats per example)"


def chance_of(results: Results) -> float | None:
    """The loss (nats) of a model that gives all classes the same probability."""
    classes = len(results.design.data.classes)
    return math.log(classes) if classes > 1 else None


def chance_text(results: Results) -> str:
    """What the dotted level is, in words."""
    classes, chance = len(results.design.data.classes), chance_of(results)
    if chance is None:
        return ""
    return (
        f"Dotted: ln {classes} = {chance:.3f}, the loss of a model that gives all {classes} classes the same"
        " probability."
    )


def curves_of(source: Source, frames: Frames, name: str, *, beside: str = "", ended: str = "") -> Curves:
    """What the panels of a figure show, from its frames."""
    assert source.results is not None
    return Curves(
        runs=arms_of(source, frames[name]),
        summary=arms_of(source, frames[f"{name}_summary"]),
        baseline=source.comparison.baseline,
        seeds=source.results.seeds,
        beside=frames.get(beside, EMPTY),
        ended=frames.get(ended, EMPTY),
    )


def with_summary(name: str, frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The frames of curves: every run, and the summary over seeds; none where nothing is recorded."""
    return {name: frame, f"{name}_summary": summary(frame)} if len(frame) else {}


def arms_of(source: Source, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the baseline and the variants that are compared: not those of placebos."""
    return frame[frame["variant"].isin([source.comparison.baseline, *source.comparison.variants])]


def _loss_frames(source: Source) -> Frames:
    if source.results is None:
        return {}
    found = with_summary("loss_curves", loss_curves(source.results))
    if found:
        found |= with_summary("loss_curves_validation", validation_losses(source.results))
        ended = divergences(source.results)
        found |= {"loss_curves_diverged": ended} if len(ended) else {}
    return found


def _loss(source: Source, frames: Frames) -> tuple[Curves, Scale]:
    assert source.results is not None
    curves = curves_of(
        source, frames, "loss_curves", beside="loss_curves_validation_summary", ended="loss_curves_diverged"
    )
    scale = loss_scale(curves, x_label="optimiser step", y_label=LOSS_LABEL, chance=chance_of(source.results))
    return curves, scale


def _loss_drawing(source: Source, frames: Frames) -> Drawing:
    curves, scale = _loss(source, frames)
    return panels(curves, source.comparison.variants, name="loss_curves", scale=scale)


def _loss_caption(source: Source, frames: Frames) -> str:
    assert source.results is not None
    curves, scale = _loss(source, frames)
    block = steps_per_point(source.results)
    smoothed = f"as means over blocks of {block} steps, with no other smoothing" if block > 1 else "not smoothed"
    lines = [f"Training loss per step, {smoothed}.", panels_caption(curves, scale, seeds=len(source.results.seeds))]
    if len(curves.beside):
        lines.append(
            "Open circles on a dotted line: the median validation loss after each epoch, with its interquartile range."
        )
    return " ".join(filter(None, [*lines, chance_text(source.results)]))


def _validation_frames(source: Source) -> Frames:
    return {} if source.results is None else with_summary("validation_curves", validation_curves(source.results))


def _validation(source: Source, frames: Frames) -> tuple[Curves, Scale]:
    curves = curves_of(source, frames, "validation_curves")
    low, high = float(curves.runs["value"].min()), float(curves.runs["value"].max())
    pad = 0.04 * (high - low or 1.0)
    scale = Scale(x_label="epoch", y_label="validation accuracy (%)", low=low - pad, high=high + pad)
    return curves, scale


def _validation_drawing(source: Source, frames: Frames) -> Drawing:
    curves, scale = _validation(source, frames)
    return panels(curves, source.comparison.variants, name="validation_curves", scale=scale)


def _validation_caption(source: Source, frames: Frames) -> str:
    assert source.results is not None
    curves, scale = _validation(source, frames)
    shown = panels_caption(curves, scale, seeds=len(source.results.seeds))
    return f"Accuracy on the validation split after each epoch, not smoothed. {shown}"


LOSS = Plot(
    name="loss_curves",
    title=lambda _: "Learning curves: training loss",
    frames=_loss_frames,
    draw=_loss_drawing,
    caption=_loss_caption,
)
VALIDATION = Plot(
    name="validation_curves",
    title=lambda _: "Learning curves: validation accuracy",
    frames=_validation_frames,
    draw=_validation_drawing,
    caption=_validation_caption,
)
