"""A heat map of instability: every variant against the baseline on every measure, with what is shown in the cell."""

import math

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, Colormap
from matplotlib.figure import Figure as Canvas

from knockout.analysis.inference.instability import Instability
from knockout.analysis.report.figures.plot import Frames, Plot, Source
from knockout.analysis.report.sections.instability import title_of
from knockout.analysis.report.svg import Drawing, columns_of, label_text, line_count, wrapped

NAME = "instability"
NAME_LENGTH = 44
REACH = 3.0
"""The colour is the darkest from a ratio of 2^3, or 2^-3, on."""
MARKS = {"higher": "▲", "lower": "▼", "not shown": "·", "not testable": ""}
DIFFERENCE = " (difference)"
MISSING = "#E6E6E6"
NAMED = 6
"""So many measures that were not logged are named in the caption."""


def heat_table(found: Instability) -> pd.DataFrame:
    """What the heat map shows: variant, metric, scale (ratio or difference), ratio, difference, p_bh, label, colour.

    `colour`: from -3 to 3, and empty without an estimate. Of a ratio its binary logarithm; of a difference that is
    shown 3 times its share of the largest such one of the measure, and of another 0: noise has no scale of its own.
    """
    frame = found.cell_frame()[["variant", "metric", "scale", "ratio", "difference", "p_bh", "label"]]
    frame = frame.astype({"ratio": float, "difference": float, "p_bh": float})
    shown = frame["label"].isin(["higher", "lower"])
    sizes = frame["difference"].abs().where(shown).groupby(frame["metric"]).transform("max")
    colour = np.where(
        frame["scale"] == "ratio",
        [_log(ratio) for ratio in frame["ratio"]],
        np.where(shown, REACH * frame["difference"] / sizes, 0.0 * frame["difference"]),
    )
    return frame.assign(colour=np.clip(np.array(colour, dtype=float), -REACH, REACH))


def _log(ratio: float) -> float:
    return math.log2(ratio) if ratio > 0 else math.nan


def _frames(source: Source) -> Frames:
    if source.instability is None:
        return {}
    frame = heat_table(source.instability)
    return {NAME: frame} if len(frame) else {}


def colour_map() -> tuple[Colormap, BoundaryNorm]:
    """Thirteen colours from purple over white to orange (ColorBrewer's PuOr: safe for colour-blind readers)."""
    edges = np.linspace(-REACH, REACH, 14)
    return mpl.colormaps["PuOr_r"].resampled(13), BoundaryNorm(edges.tolist(), 13)


def draw_instability(frame: pd.DataFrame, *, ax: Axes) -> Axes:
    """Variants down, measures across; the colour of a cell is its estimate, its mark the verdict.

    `frame`: variant, metric, scale, colour, label. A cell without an estimate is grey; one that is not there is empty.
    """
    colours, norm = colour_map()
    variants, metrics = (list(dict.fromkeys(frame[name])) for name in ("variant", "metric"))
    scales = frame.drop_duplicates("metric").set_index("metric")["scale"]
    for row in frame.to_dict("records"):
        x, y = metrics.index(row["metric"]), variants.index(row["variant"])
        known = not math.isnan(row["colour"])
        face = colours(norm(row["colour"])) if known else MISSING
        ax.fill_between([x - 0.48, x + 0.48], y - 0.46, y + 0.46, color=face, linewidth=0)
        tone = "#FDFDFD" if known and abs(row["colour"]) > 0.6 * REACH else "#1F1F1F"  # on the cell, in both themes
        ax.text(x, y, MARKS[row["label"]], ha="center", va="center", fontsize=8, color=tone)
    ax.set_yticks(range(len(variants)), [wrapped(v, NAME_LENGTH) for v in variants], fontsize=8.5)
    names = [title_of(m) + ("" if scales[m] == "ratio" else DIFFERENCE) for m in metrics]
    ax.set_xticks(range(len(metrics)), [label_text(n, 60) for n in names], fontsize=8.5, rotation=55, ha="left",
                  rotation_mode="anchor")  # fmt: skip
    ax.xaxis.tick_top()
    ax.set_xlim(-0.5, len(metrics) - 0.5)
    ax.set_ylim(len(variants) - 0.5, -0.5)
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return ax


def _svg(_: Source, frames: Frames) -> Drawing:
    frame = frames[NAME]
    variants, metrics = frame["variant"].nunique(), frame["metric"].nunique()
    names = [wrapped(v, NAME_LENGTH) for v in frame["variant"].unique()]
    widest = max(columns_of(line) for name in names for line in name.split("\n"))
    row = 0.06 + 0.14 * max(map(line_count, names))
    longest = max(len(title_of(m)) for m in frame["metric"].unique()) + len(DIFFERENCE)

    def draw(canvas: Canvas) -> None:
        ax = canvas.subplots()
        draw_instability(frame, ax=ax)
        colours, norm = colour_map()
        bar = canvas.colorbar(ScalarMappable(norm=norm, cmap=colours), ax=ax, orientation="horizontal",
                              shrink=min(1.0, 12 / metrics),
                              aspect=28, pad=0.02, ticks=[-3, -2, -1, 0, 1, 2, 3])  # fmt: skip
        bar.ax.set_xticklabels(["⅛", "¼", "½", "1", "2", "4", "8"], fontsize=8.5)
        bar.minorticks_off()
        bar.set_label("ratio to the baseline", fontsize=8.5)
        bar.outline.set_visible(False)

    return Drawing(
        draw,
        name=NAME,
        width=0.4 + 0.08 * widest + 0.27 * max(metrics, 12) + 0.045 * longest,
        height=1.2 + 0.064 * longest + row * variants,
    )


def _caption(source: Source, frames: Frames) -> str:
    found, frame = source.instability, frames[NAME]
    assert found is not None
    lines = [
        f"Each variant against the baseline on each measure of instability, paired by seed, n = {len(found.seeds)}.",
        f"▲ higher, ▼ lower: shown after Benjamini and Hochberg over all cells (alpha = {found.alpha:g}).",
        "·: not shown. No mark: not testable.",
        "Colour: the ratio to the baseline, orange above 1 and purple below, the darkest from 8 and 1/8 on.",
    ]
    if (frame["scale"] == "difference").any():
        lines.append(
            "Of a measure marked (difference) only what is shown has a colour, by its share of the column's largest."
        )
    if frame["colour"].isna().any():
        lines.append("Grey: no estimate, as runs failed or have no value.")
    if found.missing:
        few = len(found.missing) <= NAMED
        lines.append(
            f"Not logged, so not shown: {'; '.join(title_of(m) for m in found.missing)}."
            if few
            else f"{len(found.missing)} measures were not logged, and are not shown."
        )
    lines.append("Exploratory: no verdict rests on it.")
    return " ".join(lines)


PLOT = Plot(name=NAME, title=lambda _: "Instability of training", frames=_frames, draw=_svg, caption=_caption)
