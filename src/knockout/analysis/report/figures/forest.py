"""The forest plot: differences from the baseline, sorted, with the margin; colour and mark say the verdict."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from knockout.analysis.report import tables
from knockout.analysis.report.figures.differences import is_wide, margin_axis, row_names, row_places, rows_height
from knockout.analysis.report.figures.plot import Frames, Plot, Source
from knockout.analysis.report.sentences import shown, title
from knockout.analysis.report.svg import Drawing, label_text, plain_axes, seed_looks, wrapped
from knockout.analysis.report.theme import INK, PAPER

VERDICT_LENGTH = 38


@dataclass(frozen=True, kw_only=True)
class Mark:
    """How a verdict looks: each has a shape of its own, so that no reader needs the colour."""

    colour: str
    shape: str
    says: str


MARKS: Mapping[str, Mark] = {
    "better": Mark(colour="#00875A", shape="^", says="triangle up: better"),
    "worse": Mark(colour="#D55E00", shape="v", says="triangle down: worse"),
    "trivial": Mark(colour="#785AE1", shape="s", says="square: negligible"),
    "equivalent": Mark(colour="#1E82C4", shape="D", says="diamond: equivalent"),
    "inconclusive": Mark(colour="#767676", shape="o", says="circle: inconclusive"),
}
OTHER = Mark(colour="#8A7400", shape="p", says="pentagon: undecidable")


def mark(verdict: str) -> Mark:
    """The look of a verdict, which starts with one of the words of the rule."""
    return next((look for word, look in MARKS.items() if verdict.startswith(word)), OTHER)


def _forest_title(source: Source) -> str:
    baseline = source.comparison.baseline
    return f"Differences from {'the baseline' if baseline == 'baseline' else baseline}"


def _forest_frames(source: Source) -> Frames:
    contrasts = source.comparison.contrasts
    frame = tables.forest_table(contrasts).sort_values("difference", ascending=False, kind="stable", ignore_index=True)
    return {"forest": frame, "forest_seeds": tables.forest_seed_table(contrasts)}


def _forest_drawing(source: Source, frames: Frames) -> Drawing:
    metric = source.comparison.metric
    unit = f" ({metric.unit})" if metric.unit else ""
    arrow = "" if metric.better == "higher" else "; lower is better"
    label = f"difference in {title(metric)}{unit}, variant minus baseline{arrow}"
    return forest(frames["forest"], frames["forest_seeds"], margin=source.comparison.plan.margin, label=label)


def _forest_caption(source: Source, frames: Frames) -> str:
    metric, margin = source.comparison.metric, source.comparison.plan.margin
    frame = frames["forest"]
    used = dict.fromkeys(mark(str(verdict)).says for verdict in frame["verdict"])
    lines = [
        f"Difference in {title(metric)}, variant minus baseline, paired by seed; n = {len(source.comparison.seeds)}",
        "unless the table gives another number. Sorted by the mean difference.",
        f"Large mark: mean; its colour and shape give the verdict ({', '.join(used)}).",
        "Line: 95 % confidence interval (t) over seeds, not",
        (
            "adjusted for the number of variants; verdicts do not use it. Small marks under it: one per seed, the same"
            " shape for the same seed in all rows, in the order of the seeds from top to bottom. Band and dashed lines:"
            f" the margin of ±{metric.size(margin)}."
        ),
    ]
    if frame["failures"].sum():
        lines.append("Hollow mark: runs failed, and the mean is over the pairs in which neither did;")
        lines.append("x at the left edge: pairs with a failed run.")
    if is_compressed(frame, frames["forest_seeds"], margin=margin):
        lines.append(f"The axis is linear to ±{metric.size(4 * margin)} and logarithmic beyond.")
    return " ".join(lines)


def draw_forest(frame: pd.DataFrame, seeds: pd.DataFrame, *, ax: Axes, margin: float, label: str) -> Axes:
    """Differences from the baseline: mean, 95 % confidence interval, each seed's difference, the margin as a band.

    `frame`: variant, difference, low, high, failures, verdict; one row each, drawn from the top. `seeds`: variant,
    seed, difference, state; where there is no difference a failed run is marked at the edge.
    """
    failed = seeds["state"].isin(["variant failed", "baseline failed", "both failed"])
    margin_axis(ax, _ends(frame, seeds), margin=margin, room=bool(failed.any()))
    looks = seed_looks(list(seeds["seed"]))
    places = row_places([str(v) for v in frame["variant"]])
    for y, row in zip(places, frame.to_dict("records"), strict=True):
        look = mark(str(row["verdict"]))
        own = seeds[seeds["variant"] == row["variant"]]
        dots = own.dropna(subset=["difference"])
        under = y + 0.2 + 0.22 * np.linspace(0, 1, len(dots)) if len(dots) > 1 else np.full(len(dots), y + 0.26)
        for seed, x, place in zip(dots["seed"], dots["difference"], under, strict=True):
            ax.plot([x], [place], looks[seed].marker, color=look.colour, alpha=0.75, markersize=3.8, markeredgewidth=0,
                    zorder=2)  # fmt: skip
        if failed[own.index].any():
            ax.plot([0.012], [y + 0.24], "x", color=look.colour, markersize=6, transform=ax.get_yaxis_transform(),
                    zorder=3)  # fmt: skip
        if pd.notna(row["low"]):
            ax.plot([row["low"], row["high"]], [y, y], color=look.colour, linewidth=1.8, solid_capstyle="butt",
                    zorder=3)  # fmt: skip
        if pd.notna(row["difference"]):
            face = PAPER if row["failures"] else look.colour
            ax.plot([row["difference"]], [y], look.shape, color=look.colour, markerfacecolor=face, markersize=6.5,
                    zorder=4)  # fmt: skip
        verdict = shown(str(row["verdict"])) + (f"; {row['failures']} failed" if row["failures"] else "")
        ax.text(1.015, y, wrapped(verdict, VERDICT_LENGTH), transform=ax.get_yaxis_transform(), va="center", fontsize=9,
                color=INK)  # fmt: skip
    row_names(ax, list(frame["variant"]))
    ax.set_xlabel(label_text(label, 90))
    plain_axes(ax)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


def forest(frame: pd.DataFrame, seeds: pd.DataFrame, *, margin: float, label: str) -> Drawing:
    """The forest plot. `label`: what the axis is called."""

    def draw(canvas: Canvas) -> None:
        draw_forest(frame, seeds, ax=canvas.subplots(), margin=margin, label=label)

    height = 1.15 + rows_height([str(v) for v in frame["variant"]])
    return Drawing(draw, name="forest", width=9.2, height=height)


def is_compressed(frame: pd.DataFrame, seeds: pd.DataFrame, *, margin: float) -> bool:
    """Whether `draw_forest` draws these on an axis that is logarithmic beyond four margins."""
    return is_wide(_ends(frame, seeds), margin)


def _ends(frame: pd.DataFrame, seeds: pd.DataFrame) -> list[float]:
    both = pd.concat([frame[c] for c in ("difference", "low", "high")] + [seeds["difference"]])
    return [float(x) for x in both if math.isfinite(x)]


PLOT = Plot(name="forest", title=_forest_title, frames=_forest_frames, draw=_forest_drawing, caption=_forest_caption)
