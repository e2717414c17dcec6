"""Figures: one list, each with its data, its drawing and its caption. Colour is never the only carrier."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from knockout.analysis.inference.comparison import Comparison
from knockout.analysis.report import tables
from knockout.analysis.report.blocks import Figure
from knockout.analysis.report.curves import loss_curves, steps_per_point, summary, validation_curves
from knockout.analysis.report.sentences import shown, title
from knockout.analysis.report.svg import BASELINE_COLOUR, colours, label_text, plain_axes, svg_text
from knockout.analysis.results import Results

LINEAR = 20
"""Differences beyond so many margins make the forest plot's axis logarithmic beyond four."""

Frames = Mapping[str, pd.DataFrame]
"""file name without ending -> the data drawn; the first is named as the figure"""


@dataclass(frozen=True, kw_only=True)
class Source:
    """What figures are drawn from; a comparison of runs from elsewhere has no `results`."""

    comparison: Comparison
    results: Results | None


@dataclass(frozen=True, kw_only=True)
class Plot:
    """One figure of every report: its data, its drawing as SVG, its caption. Left out where there are no data."""

    name: str
    title: Callable[[Source], str]
    frames: Callable[[Source], Frames]
    draw: Callable[[Source, Frames], str]
    caption: Callable[[Source, Frames], str]


def draw_all(comparison: Comparison, results: Results | None = None) -> list[Figure]:
    """Every figure that has data, as SVG with its data and caption."""
    source = Source(comparison=comparison, results=results)
    drawn = []
    for plot in PLOTS:
        frames = plot.frames(source)
        if not frames:
            continue
        drawn.append(
            Figure(
                name=plot.name,
                title=plot.title(source),
                caption=plot.caption(source, frames),
                svg=plot.draw(source, frames),
                data=frames,
            )
        )
    return drawn


# Forest plot: differences from the baseline


def _forest_title(source: Source) -> str:
    baseline = source.comparison.baseline
    return f"Differences from {'the baseline' if baseline == 'baseline' else baseline}"


def _forest_frames(source: Source) -> Frames:
    contrasts = source.comparison.contrasts
    return {"forest": tables.forest_table(contrasts), "forest_seeds": tables.forest_seed_table(contrasts)}


def _forest_svg(source: Source, frames: Frames) -> str:
    metric = source.comparison.metric
    unit = f" ({metric.unit})" if metric.unit else ""
    arrow = "" if metric.better == "higher" else "; lower is better"
    label = f"difference in {title(metric)}{unit}, variant minus baseline{arrow}"
    return forest(frames["forest"], frames["forest_seeds"], margin=source.comparison.plan.margin, label=label)


def _forest_caption(source: Source, frames: Frames) -> str:
    metric, margin = source.comparison.metric, source.comparison.plan.margin
    lines = [
        f"Difference in {title(metric)}, variant minus baseline, paired by seed; n = {len(source.comparison.seeds)}",
        "unless the table gives another number. Diamond: mean. Line: 95 % confidence interval (t) over seeds, not",
        (
            "adjusted for the number of variants; verdicts do not use it. Dots: one per seed. Band: the margin of"
            f" ±{metric.size(margin)}."
        ),
    ]
    if frames["forest"]["failures"].sum():
        lines.append("Hollow diamond: runs failed, and the mean is over the pairs in which neither did;")
        lines.append("x at the left edge: pairs with a failed run.")
    if is_compressed(frames["forest"], frames["forest_seeds"], margin=margin):
        lines.append(f"The axis is linear to ±{metric.size(4 * margin)} and logarithmic beyond.")
    return " ".join(lines)


def draw_forest(frame: pd.DataFrame, seeds: pd.DataFrame, *, ax: Axes, margin: float, label: str) -> Axes:
    """Differences from the baseline: mean, 95 % confidence interval, each seed's difference, the margin as a band.

    `frame`: variant, difference, low, high, failures, verdict; one row each, drawn from the top. `seeds`: variant,
    difference, state; where there is no difference a failed run is marked at the edge.
    """
    palette = colours(list(frame["variant"]))
    ends = pd.concat([frame[c] for c in ("difference", "low", "high")] + [seeds["difference"]]).dropna().to_numpy(float)
    failed = seeds["state"].isin(["variant failed", "baseline failed", "both failed"])
    low, high = min([-2 * margin, *ends]), max([2 * margin, *ends])
    _scale(ax, low, high, margin=margin, room=bool(failed.any()))
    ax.axvspan(-margin, margin, color="#E8EDF2", zorder=0)
    ax.axvline(0.0, color="#444444", linewidth=0.9, zorder=1)
    for y, row in enumerate(frame.to_dict("records")):
        colour = palette[row["variant"]]
        own = seeds[seeds["variant"] == row["variant"]]
        dots = own["difference"].dropna()
        spread = np.linspace(-0.16, 0.16, len(dots)) if len(dots) > 1 else np.zeros(len(dots))
        ax.plot(dots, y + 0.22 + spread / 3, "o", color=colour, alpha=0.55, markersize=3.4, markeredgewidth=0, zorder=2)
        if failed[own.index].any():
            ax.plot([0.012], [y + 0.22], "x", color=colour, markersize=6, transform=ax.get_yaxis_transform(), zorder=3)
        if pd.notna(row["low"]):
            ax.plot([row["low"], row["high"]], [y, y], color=colour, linewidth=1.8, solid_capstyle="butt", zorder=3)
        if pd.notna(row["difference"]):
            face = "white" if row["failures"] else colour
            ax.plot([row["difference"]], [y], "D", color=colour, markerfacecolor=face, markersize=5.5, zorder=4)
        verdict = shown(str(row["verdict"])) + (f"; {row['failures']} failed" if row["failures"] else "")
        ax.text(1.015, y, label_text(verdict, 60), transform=ax.get_yaxis_transform(), va="center", fontsize=9)
    ax.set_yticks(range(len(frame)), [label_text(v) for v in frame["variant"]])
    ax.set_ylim(len(frame) - 0.4, -0.6)
    ax.set_xlabel(label_text(label, 90))
    plain_axes(ax)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


def forest(frame: pd.DataFrame, seeds: pd.DataFrame, *, margin: float, label: str) -> str:
    """The forest plot as SVG. `label`: what the axis is called."""

    def draw(canvas: Canvas) -> None:
        draw_forest(frame, seeds, ax=canvas.subplots(), margin=margin, label=label)

    return svg_text(draw, name="forest", width=9.2, height=0.95 + 0.46 * len(frame))


def is_compressed(frame: pd.DataFrame, seeds: pd.DataFrame, *, margin: float) -> bool:
    """Whether `draw_forest` draws these on an axis that is logarithmic beyond four margins."""
    ends = pd.concat([frame[c] for c in ("difference", "low", "high")] + [seeds["difference"]]).dropna()
    return bool(len(ends)) and float(ends.abs().max()) > LINEAR * margin


def _scale(ax: Axes, low: float, high: float, *, margin: float, room: bool) -> None:
    """The axis of differences; `room`: for the marks of failed runs at its left end."""
    if max(-low, high) <= LINEAR * margin:
        pad = 0.04 * (high - low)
        ax.set_xlim(low - (3 if room else 1) * pad, high + pad)
        ax.xaxis.set_major_locator(MaxNLocator(9))
        return
    linear = 4 * margin
    ax.set_xscale("symlog", linthresh=linear, linscale=1.2)
    left = low * (2.2 if room else 1.15) if low < -linear else low - linear * (0.6 if room else 0.1)
    right = high * 1.15 if high > linear else high + linear * 0.1
    ax.set_xlim(left, right)
    steps = [s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0) if s > linear]
    both = sorted({0.0, *(sign * s for s in (2 * margin, linear, *steps) for sign in (-1, 1))})
    ticks = [t for t in both if left <= t <= right]
    ax.set_xticks(ticks, [f"{t:g}".replace("-", "−") for t in ticks])
    ax.set_xticks([], minor=True)


# Over seeds, and over seeds and test examples


def _examples_frames(source: Source) -> Frames:
    frame = tables.examples_table(source.comparison.contrasts)
    return {} if frame.empty else {"examples": frame}


def _examples_svg(source: Source, frames: Frames) -> str:
    margin = source.comparison.plan.margin if source.comparison.metric.unit == "points" else 0.0
    frame = frames["examples"]

    def draw(canvas: Canvas) -> None:
        draw_examples(frame, ax=canvas.subplots(), margin=margin)

    return svg_text(draw, name="examples", width=9.2, height=0.95 + 0.46 * len(frame))


def _examples_caption(source: Source, _: Frames) -> str:
    examples = next(c.two_source.examples for c in source.comparison.contrasts if c.two_source is not None)
    return (
        "Difference in accuracy over the pairs in which neither run failed. Upper, thick line: 95 % confidence"
        " interval (t) over seeds, on this test set. Lower, thin line: 95 % confidence interval over seeds and"
        f" {examples:,} test examples (crossed random effects), for other test examples like these. Shades: the middle"
        f" 50, 80 and 95 % of {source.comparison.plan.draws:,} bootstrap draws over seeds and examples. All for"
        " illustration; verdicts do not use it."
    )


def draw_examples(frame: pd.DataFrame, *, ax: Axes, margin: float) -> Axes:
    """Differences in points over seeds (thick line) and over seeds and test examples (thin), on bootstrap bands.

    `frame`: variant, difference, seeds_low, seeds_high, both_low, both_high, and the quantiles q025 to q975 of the
    bootstrap; one row each, drawn from the top.
    """
    palette = colours(list(frame["variant"]))
    ax.axvspan(-margin, margin, color="#E8EDF2", zorder=0)
    ax.axvline(0.0, color="#444444", linewidth=0.9, zorder=1)
    for y, row in enumerate(frame.to_dict("records")):
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
    ax.set_yticks(range(len(frame)), [label_text(v) for v in frame["variant"]])
    ax.set_ylim(len(frame) - 0.4, -0.6)
    ax.set_xlabel("difference in accuracy (points), variant minus baseline")
    plain_axes(ax)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


# Learning curves


def _loss_frames(source: Source) -> Frames:
    return {} if source.results is None else _curve_frames("loss_curves", loss_curves(source.results))


def _validation_frames(source: Source) -> Frames:
    if source.results is None:
        return {}
    return _curve_frames("validation_curves", validation_curves(source.results))


def _curve_frames(name: str, frame: pd.DataFrame) -> Frames:
    return {name: frame, f"{name}_summary": summary(frame)} if len(frame) else {}


def _classes(source: Source) -> int:
    assert source.results is not None
    return len(source.results.design.data.classes)


def _loss_svg(source: Source, frames: Frames) -> str:
    classes = _classes(source)
    return panels(
        frames["loss_curves"],
        name="loss_curves",
        summaries=frames["loss_curves_summary"],
        variants=source.comparison.variants,
        baseline=source.comparison.baseline,
        x_label="optimiser step",
        y_label="training loss (nats per example)",
        reference=math.log(classes) if classes > 1 else None,
        floor_at_zero=True,
    )


def _loss_caption(source: Source, _: Frames) -> str:
    assert source.results is not None
    block, classes = steps_per_point(source.results), _classes(source)
    smoothed = f"as means over blocks of {block} steps, with no other smoothing" if block > 1 else "not smoothed"
    lines = [f"Training loss per step, {smoothed}.", _curve_caption(source.results)]
    if classes > 1:
        lines.append(
            f"Dotted: ln {classes} = {math.log(classes):.3f}, the loss of a model that gives all {classes} classes the"
            " same probability."
        )
    if (source.results.runs["status"] == "diverged").any():
        lines.append("A run that diverged ends in x; the axis is cut where only single runs go.")
    return " ".join(lines)


def _validation_svg(source: Source, frames: Frames) -> str:
    return panels(
        frames["validation_curves"],
        name="validation_curves",
        summaries=frames["validation_curves_summary"],
        variants=source.comparison.variants,
        baseline=source.comparison.baseline,
        x_label="epoch",
        y_label="validation accuracy (%)",
        reference=None,
        floor_at_zero=False,
    )


def _validation_caption(source: Source, _: Frames) -> str:
    assert source.results is not None
    return f"Accuracy on the validation split after each epoch. {_curve_caption(source.results)}"


def _curve_caption(results: Results) -> str:
    return (
        f"Thin lines: one per seed, n = {len(results.seeds)} where none is missing. Thick line: the median over the"
        " runs that reached that step; band: their interquartile range, not a confidence interval. Grey and dashed: the"
        " baseline."
    )


def draw_curves(
    curves: pd.DataFrame,
    summaries: pd.DataFrame,
    *,
    ax: Axes,
    variant: str,
    baseline: str,
    colour: str,
    ceiling: float | None,
) -> Axes:
    """One variant's runs, faint, under their median and quartiles; the baseline's in grey. Diverged runs end in x."""
    dashed = (0, (4, 1.5))
    point = "o" if curves["x"].nunique() == 1 else "None"  # a line through one point would not be seen
    for name, tone, depth, line in ((variant, colour, 2, "-"), (baseline, BASELINE_COLOUR, 4, dashed)):
        middle = summaries[summaries["variant"] == name]
        ax.fill_between(
            middle["x"], middle["lower"], middle["upper"], color=tone, alpha=0.22, linewidth=0, zorder=depth
        )
        width = 1.6 if name == variant else 1.1
        ax.plot(
            middle["x"], middle["median"], color=tone, linewidth=width, linestyle=line, marker=point, zorder=depth + 1
        )
    own = curves[curves["variant"] == variant]
    for _, run in own.groupby("seed"):
        ax.plot(run["x"], run["value"], color=colour, linewidth=0.5, alpha=0.35, marker=point, markersize=3, zorder=1)
        if run["status"].iloc[0] == "diverged":
            last = float(run["value"].iloc[-1])
            end = last if ceiling is None else min(last, ceiling)
            ax.plot([run["x"].iloc[-1]], [end], "x", color=colour, markersize=6, zorder=6, clip_on=False)
    ax.set_title(label_text(variant), fontsize=9.5, loc="left", color="#222222")
    plain_axes(ax)
    return ax


def panels(
    curves: pd.DataFrame,
    *,
    name: str,
    summaries: pd.DataFrame,
    variants: Sequence[str],
    baseline: str,
    x_label: str,
    y_label: str,
    reference: float | None,
    floor_at_zero: bool,
) -> str:
    """Small multiples of `draw_curves`, one panel per variant, as SVG. `reference` is a dotted level."""
    palette = colours(variants)
    columns = min(3, len(variants))
    rows = -(-len(variants) // columns)
    low, high = float(curves["value"].min()), float(curves["value"].max())
    if floor_at_zero:  # a loss: one spike before a divergence must not flatten all other curves
        usual = float(summaries["upper"].quantile(0.99)) * 1.5
        low, high = 0.0, min(high, max(usual, 1.25 * (reference or 0.0)))
    pad = 0.04 * (high - low or 1.0)

    def draw(canvas: Canvas) -> None:
        grid = canvas.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for i, ax in enumerate(grid.flat):
            if i >= len(variants):
                ax.set_visible(False)
                continue
            variant = variants[i]
            if reference is not None:
                ax.axhline(reference, color="#888888", linewidth=0.8, linestyle=":", zorder=0)
            draw_curves(
                curves, summaries, ax=ax, variant=variant, baseline=baseline, colour=palette[variant], ceiling=high
            )
            ax.set_ylim(low if floor_at_zero else low - pad, high + pad)
            ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
            if curves["x"].nunique() == 1:
                ax.set_xlim(curves["x"].iloc[0] - 1, curves["x"].iloc[0] + 1)
            ax.tick_params(labelbottom=i + columns >= len(variants))
        canvas.supylabel(y_label, fontsize=9.5)
        canvas.supxlabel(x_label, fontsize=9.5)

    return svg_text(draw, name=name, width=9.2, height=0.5 + 1.9 * rows)


PLOTS = (
    Plot(name="forest", title=_forest_title, frames=_forest_frames, draw=_forest_svg, caption=_forest_caption),
    Plot(
        name="examples",
        title=lambda _: "Over seeds, and over other test examples like these",
        frames=_examples_frames,
        draw=_examples_svg,
        caption=_examples_caption,
    ),
    Plot(
        name="loss_curves",
        title=lambda _: "Learning curves: training loss",
        frames=_loss_frames,
        draw=_loss_svg,
        caption=_loss_caption,
    ),
    Plot(
        name="validation_curves",
        title=lambda _: "Learning curves: validation accuracy",
        frames=_validation_frames,
        draw=_validation_svg,
        caption=_validation_caption,
    ),
)
"""Every figure, in the order of a report."""
