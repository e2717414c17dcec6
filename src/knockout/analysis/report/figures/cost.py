"""The plan's metric against what training costs, one point per arm."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from scipy import stats

from knockout.analysis.inference.pairs import Arm
from knockout.analysis.report import tables
from knockout.analysis.report.figures.plot import Frames, Plot, Source
from knockout.analysis.report.figures.small_multiples import arm_colours, some
from knockout.analysis.report.sentences import header, title
from knockout.analysis.report.svg import Drawing, columns_of, label_text, line_count, plain_axes, wrapped
from knockout.analysis.results import Results

NAME = "cost"
COSTS = {"train_seconds": "training time of a run (seconds)", "parameters": "parameters"}
"""What may be the cost, the first that all arms have -> how its axis is called"""


def arm_interval(arm: Arm) -> tuple[float, float] | None:
    """The 95 % t interval of an arm's mean over its runs that did not fail; None under three of them, or no spread."""
    n = arm.runs - arm.failures
    if n < 3 or arm.mean is None or not arm.sd:
        return None
    half = float(stats.t.ppf(0.975, n - 1)) * arm.sd / math.sqrt(n)
    return arm.mean - half, arm.mean + half


def cost_table(source: Source, results: Results) -> pd.DataFrame:
    """What is drawn: variant, cost (name), cost_median, cost_low, cost_high (quartiles), mean, low, high, n.

    Arms without a mean or without a cost are left out; all arms have the same cost.
    """
    contrasts = source.comparison.contrasts
    arms = {source.comparison.baseline: contrasts[0].baseline, **{c.variant: c.arm for c in contrasts}}
    medians = {row["variant"]: row for row in tables.cost_rows(results)}
    known = [name for name in COSTS if all(medians[v][name] is not None for v, a in arms.items() if a.mean is not None)]
    if not known:
        return pd.DataFrame()
    name, finished = known[0], results.costs[results.costs["status"] == "finished"]
    rows = []
    for variant, arm in arms.items():
        if arm.mean is None:
            continue
        values = pd.to_numeric(finished.loc[finished["variant"] == variant, name]).dropna().to_numpy(dtype=float)
        low, high = (float(q) for q in np.quantile(values, [0.25, 0.75]))
        interval = arm_interval(arm) or (None, None)
        row = {"variant": variant, "cost": name, "cost_median": medians[variant][name], "cost_low": low}
        row |= {"cost_high": high, "mean": arm.mean, "low": interval[0], "high": interval[1]}
        rows.append({**row, "n": arm.runs - arm.failures})
    return pd.DataFrame(rows).astype({"low": float, "high": float}) if len(rows) > 1 else pd.DataFrame()


def _frames(source: Source) -> Frames:
    if source.results is None or not source.comparison.contrasts:
        return {}
    frame = cost_table(source, source.results)
    return {} if frame.empty else {NAME: frame}


def label_places(wanted: Sequence[float], heights: Sequence[float], *, low: float, high: float) -> list[float]:
    """Centres of labels as near to those wanted as their heights allow, in the same order, between low and high.

    Where there is no room for all of them, all heights are scaled down by one factor.
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    tall = np.array([heights[i] for i in order])
    tall *= min(1.0, (high - low) / tall.sum())
    centres = np.cumsum(tall) - tall / 2  # of the labels stacked upon each other from 0 on
    # Isotonic regression of wanted - centre: labels that would overlap share the mean of what they want.
    groups: list[list[float]] = []
    for i, centre in zip(order, centres, strict=True):
        groups.append([wanted[i] - float(centre), 1.0])
        while len(groups) > 1 and groups[-2][0] > groups[-1][0]:
            (a, m), (b, o) = groups[-2], groups[-1]
            groups[-2:] = [[(a * m + b * o) / (m + o), m + o]]
    level = [value for value, size in groups for _ in range(int(size))]
    most = high - float(tall.sum())
    placed = [min(max(v, low), most) + float(centre) for v, centre in zip(level, centres, strict=True)]
    return [placed[order.index(i)] for i in range(len(wanted))]


def draw_cost(frame: pd.DataFrame, *, ax: Axes, palette: dict[str, str], baseline: str, line: float) -> Axes:
    """One point per arm with its intervals, and its name at the right, joined to it by a thin line.

    `line`: the height of a line of a name, as a share of the axis's height.
    """
    wide = float(frame["cost_median"].max()) / max(float(frame["cost_median"].min()), 1e-12) > 4
    if wide:
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_minor_formatter(NullFormatter())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}"))
    for row in frame.to_dict("records"):
        colour = palette[row["variant"]]
        if pd.notna(row["low"]):
            ax.plot([row["cost_median"]] * 2, [row["low"], row["high"]], color=colour, linewidth=1.4, zorder=3)
        ax.plot([row["cost_low"], row["cost_high"]], [row["mean"]] * 2, color=colour, linewidth=1.0, zorder=3)
        mark = "s" if row["variant"] == baseline else "o"
        ax.plot([row["cost_median"]], [row["mean"]], mark, color=colour, markersize=5.5, zorder=4)
    ends = pd.concat([frame[c] for c in ("mean", "low", "high")]).dropna()
    span = float(ends.max() - ends.min()) or 1.0
    low, high = float(ends.min()) - 0.05 * span, float(ends.max()) + 0.05 * span
    ax.set_ylim(low, high)
    shares = [(m - low) / (high - low) for m in frame["mean"]]
    names = [wrapped(name) for name in frame["variant"]]
    places = label_places(shares, [line * (line_count(name) + 0.3) for name in names], low=0.0, high=1.0)
    across = ax.get_yaxis_transform()
    for row, name, place in zip(frame.to_dict("records"), names, places, strict=True):
        colour = palette[row["variant"]]
        ax.annotate(
            "", xy=(row["cost_median"], row["mean"]), xycoords="data", xytext=(1.012, low + place * (high - low)),
            textcoords=across, arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "alpha": 0.6},
            annotation_clip=False,
        )  # fmt: skip
        ax.text(1.018, low + place * (high - low), name, color=colour, fontsize=8.5,
                va="center", transform=across)  # fmt: skip
    plain_axes(ax)
    return ax


def _svg(source: Source, frames: Frames) -> Drawing:
    frame, metric = frames[NAME], source.comparison.metric
    palette = arm_colours(source.comparison.variants, source.comparison.baseline)
    names = [wrapped(name) for name in frame["variant"]]
    height = max(4.0, 0.6 + sum(0.14 * (line_count(name) + 0.3) for name in names))
    widest = max(columns_of(line) for name in names for line in name.split("\n"))

    def draw(canvas: Canvas) -> None:
        ax = canvas.subplots()
        draw_cost(frame, ax=ax, palette=palette, baseline=source.comparison.baseline, line=0.14 / (height - 0.6))
        ax.set_xlabel(COSTS[str(frame["cost"].iloc[0])])
        ax.set_ylabel(label_text(header(metric), 60))

    return Drawing(draw, name=NAME, width=max(7.0, 5.2 + 0.08 * widest), height=height)


def _caption(source: Source, frames: Frames) -> str:
    frame, metric = frames[NAME], source.comparison.metric
    better = "" if metric.better == "higher" else " (lower is better)"
    n = f"{frame['n'].max()}" if frame["n"].min() == frame["n"].max() else f"{frame['n'].min()} to {frame['n'].max()}"
    lines = [
        f"Mean {title(metric)}{better} over the runs that did not fail, n = {n}. Line: its 95 % interval (t).",
        "It is of each arm alone; the paired difference is usually far more precise. Square: the baseline.",
    ]
    if frame["cost"].iloc[0] == "train_seconds":
        lines.append(
            "Across: the median training time and its interquartile range, measured on the machine of these runs,"
            " possibly while other runs shared it; `knockout profile` measures each arm alone."
        )
    else:
        lines.append("Across: the number of parameters; training times were not recorded for all arms.")
    there = set(frame["variant"])
    lost = [v for v in source.comparison.variants if v not in there]
    lines += [f"Without a run that did not fail: {some(lost)}."] if lost else []
    return " ".join(lines)


PLOT = Plot(
    name=NAME,
    title=lambda source: f"{header(source.comparison.metric).partition(',')[0]} against cost",
    frames=_frames,
    draw=_svg,
    caption=_caption,
)
