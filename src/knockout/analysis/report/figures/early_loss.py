"""The first tenth of training, step by step on a log axis: where a missing warmup shows."""

from knockout.analysis.report.curves import EARLY_POINTS, early_loss, rows_apart
from knockout.analysis.report.figures.learning_curves import LOSS_LABEL, chance_of, chance_text, curves_of, with_summary
from knockout.analysis.report.figures.panels import Curves, Scale, close_scale, panels, panels_caption
from knockout.analysis.report.figures.plot import Frames, Plot, Source
from knockout.analysis.report.svg import Drawing


def _frames(source: Source) -> Frames:
    return {} if source.results is None else with_summary("early_loss", early_loss(source.results))


def _parts(source: Source, frames: Frames) -> tuple[Curves, Scale]:
    assert source.results is not None
    curves = curves_of(source, frames, "early_loss")
    label, chance = f"training {LOSS_LABEL}", chance_of(source.results)
    return curves, close_scale(curves, x_label="optimiser step (log scale)", y_label=label, chance=chance)


def _drawing(source: Source, frames: Frames) -> Drawing:
    curves, scale = _parts(source, frames)
    return panels(curves, source.comparison.variants, name="early_loss", scale=scale)


def _caption(source: Source, frames: Frames) -> str:
    assert source.results is not None
    curves, scale = _parts(source, frames)
    apart = rows_apart(source.results)
    lines = [
        "Training loss over the first tenth of the steps, on a log axis of steps, "
        + ("not smoothed." if apart <= 1 else f"as recorded in these packed records: means over {apart} steps.")
    ]
    if int(curves.runs.groupby(["variant", "seed"], sort=False).size().max()) >= 0.75 * EARLY_POINTS and apart <= 1:
        last = float(curves.runs["x"].max())
        if last > EARLY_POINTS:
            lines.append(f"Of {last:,.0f} steps at most {EARLY_POINTS} are kept, evenly on the log axis.")
    lines += [panels_caption(curves, scale, seeds=len(source.results.seeds)), chance_text(source.results)]
    return " ".join(filter(None, lines))


PLOT = Plot(
    name="early_loss",
    title=lambda _: "Learning curves: the first tenth of training",
    frames=_frames,
    draw=_drawing,
    caption=_caption,
)
