"""Figures: frames in, axes out. What is drawn is computed elsewhere; colour is never the only carrier."""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from knockout.strict import printable

BASELINE_COLOUR = "#5A5A5A"
PALETTE = (
    # Okabe & Ito 2008 without black and yellow (too pale for lines), then darker and lighter tones of the same hues.
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D00", "#004B76",
    "#8F3E00", "#00543D", "#8A3F6E", "#5D4A9C", "#2B7FA8", "#A63A3A", "#6B8E23", "#3D3D8F",
)  # fmt: skip
LABEL_LENGTH = 34
LINEAR = 20
"""Differences beyond so many margins make the forest plot's axis logarithmic beyond four."""


def colours(variants: Sequence[str]) -> dict[str, str]:
    """One colour per variant, the same in all figures."""
    return {v: PALETTE[i % len(PALETTE)] for i, v in enumerate(variants)}


def draw_forest(frame: pd.DataFrame, seeds: pd.DataFrame, *, ax: Axes, margin: float, label: str) -> Axes:
    """Differences from the baseline: mean, 95 % t interval, each seed's difference, the margin as a band.

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
        told = str(row["verdict"]) + (f"; {row['failures']} failed" if row["failures"] else "")
        ax.text(1.015, y, _label(told, 60), transform=ax.get_yaxis_transform(), va="center", fontsize=9)
    ax.set_yticks(range(len(frame)), [_label(v) for v in frame["variant"]])
    ax.set_ylim(len(frame) - 0.4, -0.6)
    ax.set_xlabel(_label(label, 90))
    _plain(ax)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


def draw_texts(frame: pd.DataFrame, *, ax: Axes, margin: float) -> Axes:
    """Differences in points over seeds alone (dark line) and over seeds and texts (light line), on bootstrap bands.

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
    ax.set_yticks(range(len(frame)), [_label(v) for v in frame["variant"]])
    ax.set_ylim(len(frame) - 0.4, -0.6)
    ax.set_xlabel("difference in accuracy (points), variant minus baseline")
    _plain(ax)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


def texts(frame: pd.DataFrame, *, margin: float) -> str:
    """The picture of both variances as SVG."""

    def draw(figure: Figure) -> None:
        draw_texts(frame, ax=figure.subplots(), margin=margin)

    return _svg(draw, name="texts", width=9.2, height=0.95 + 0.46 * len(frame))


def is_compressed(frame: pd.DataFrame, seeds: pd.DataFrame, *, margin: float) -> bool:
    """Whether `draw_forest` draws these on an axis that is logarithmic beyond four margins."""
    ends = pd.concat([frame[c] for c in ("difference", "low", "high")] + [seeds["difference"]]).dropna()
    return bool(len(ends)) and float(ends.abs().max()) > LINEAR * margin


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
    ax.set_title(_label(variant), fontsize=9.5, loc="left", color="#222222")
    _plain(ax)
    return ax


def forest(frame: pd.DataFrame, seeds: pd.DataFrame, *, margin: float, label: str) -> str:
    """The forest plot as SVG. `label`: what the axis is called."""

    def draw(figure: Figure) -> None:
        draw_forest(frame, seeds, ax=figure.subplots(), margin=margin, label=label)

    return _svg(draw, name="forest", width=9.2, height=0.95 + 0.46 * len(frame))


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

    def draw(figure: Figure) -> None:
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
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
        figure.supylabel(y_label, fontsize=9.5)
        figure.supxlabel(x_label, fontsize=9.5)

    return _svg(draw, name=name, width=9.2, height=0.5 + 1.9 * rows)


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


def _plain(ax: Axes) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.tick_params(labelsize=8.5)
    ax.grid(visible=True, axis="x", color="#EEEEEE", linewidth=0.6, zorder=0)
    ax.set_axisbelow(True)


def _label(text: object, length: int = LABEL_LENGTH) -> str:
    """Any text as one that an SVG can hold: no control characters, and short enough (the CSV has it whole)."""
    whole = printable(str(text))
    return whole if len(whole) <= length else whole[: length - 1] + "…"


@contextmanager
def _settings(name: str) -> Iterator[None]:
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(
            {
                "svg.hashsalt": f"knockout {name}",  # ids in the file would be random without
                "svg.fonttype": "none",  # text stays text: it can be searched, read aloud and copied
                "text.parse_math": False,  # a label with $ is a label
                "axes.unicode_minus": True,
                "font.family": "DejaVu Sans",  # comes with matplotlib, so that every machine lays out alike
                "font.size": 9.5,
            }
        )
        yield


def _svg(draw: Callable[[Figure], None], *, name: str, width: float, height: float) -> str:
    """The same bytes for the same frames: no date, no random ids. Sizes in inches."""
    with _settings(name):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        out = io.StringIO()
        figure.savefig(
            out, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight", pad_inches=0.05
        )
    text = out.getvalue()
    text = re.sub(r" *<metadata>.*?</metadata>\n", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, Arial, sans-serif")
    # Several figures stand in one HTML file, where ids must not meet.
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
