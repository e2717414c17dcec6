"""The chance to show a true difference with the seeds that were run, and with twice as many."""

import statistics

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from knockout.analysis.inference.comparison import Comparison
from knockout.analysis.report.figures.plot import Frames, Plot, Source
from knockout.analysis.report.figures.small_multiples import DASHED
from knockout.analysis.report.sentences import title
from knockout.analysis.report.svg import PALETTE, Drawing, label_text, plain_axes
from knockout.analysis.stats.power import detectable_effect, t_power

NAME = "power"
POINTS = 41


def observed_sds(comparison: Comparison) -> list[float]:
    """The sds of the paired differences, in the metric's unit, of the contrasts that have one."""
    estimates = [c.estimate for c in comparison.contrasts if c.estimate is not None]
    return sorted(e.sd for e in estimates if e.n > 2 and e.sd)


def power_curves(comparison: Comparison) -> pd.DataFrame:
    """Power of the paired t test over true differences, as the first of K under Holm (at alpha / K).

    Columns: seeds (those planned, and twice as many), difference (in the metric's unit), power (0 to 1) at the median
    sd of the contrasts, least and most (at their largest and smallest sd). Empty where no contrast has an sd, or seeds
    were added until all was decided.
    """
    sds, n = observed_sds(comparison), len(comparison.seeds)
    if not sds or n < 3 or comparison.sequential is not None:
        return pd.DataFrame()
    plan, k = comparison.plan, max(c.family for c in comparison.contrasts)
    alpha, middle = plan.alpha / k, statistics.median(sds)
    reach = max(2.0 * plan.margin, 1.5 * middle * detectable_effect(n, alpha, plan.power))
    rows = []
    for seeds in (n, 2 * n):
        for difference in np.linspace(0.0, reach, POINTS):
            at = {name: t_power(float(difference) / sd, n=seeds, alpha=alpha)
                  for name, sd in (("power", middle), ("least", sds[-1]), ("most", sds[0]))}  # fmt: skip
            rows.append({"seeds": seeds, "difference": float(difference), **at})
    return pd.DataFrame(rows)


def _frames(source: Source) -> Frames:
    frame = power_curves(source.comparison)
    return {} if frame.empty else {NAME: frame}


def draw_power(frame: pd.DataFrame, *, ax: Axes, margin: float, wanted: float) -> Axes:
    """Power over the true difference, one line and band per number of seeds; the margin and the plan's power."""
    ax.axvline(margin, color="#444444", linewidth=0.9, linestyle=(0, (1.5, 1.5)))
    ax.axhline(wanted, color="#888888", linewidth=0.8)
    for i, (seeds, own) in enumerate(frame.groupby("seeds")):
        colour, line = PALETTE[i], "-" if i == 0 else DASHED
        ax.fill_between(own["difference"], own["least"], own["most"], color=colour, alpha=0.14, linewidth=0)
        ax.plot(own["difference"], own["power"], color=colour, linestyle=line, linewidth=1.7, label=f"{seeds} seeds")
    ax.set_ylim(0.0, 1.02)
    ax.set_xlim(0.0, float(frame["difference"].max()))
    ax.text(margin, 1.04, "margin", ha="center", va="bottom", fontsize=8.5, transform=ax.get_xaxis_transform())
    ax.text(1.01, wanted, f"{wanted:.0%}".replace("%", " %"), va="center", fontsize=8.5,
            transform=ax.get_yaxis_transform())  # fmt: skip
    ax.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1.0], ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"])
    ax.legend(fontsize=9, frameon=False, loc="lower right", handlelength=2.6)
    plain_axes(ax)
    return ax


def _svg(source: Source, frames: Frames) -> Drawing:
    plan, metric = source.comparison.plan, source.comparison.metric
    unit = f" ({metric.unit})" if metric.unit else ""

    def draw(canvas: Canvas) -> None:
        ax = draw_power(frames[NAME], ax=canvas.subplots(), margin=plan.margin, wanted=plan.power)
        ax.set_xlabel(label_text(f"true difference in {title(metric)}{unit}", 90))
        ax.set_ylabel("chance to show it")

    return Drawing(draw, name=NAME, width=6.4, height=3.6)


def _caption(source: Source, _: Frames) -> str:
    comparison = source.comparison
    sds, plan, metric = observed_sds(comparison), comparison.plan, comparison.metric
    n, k = len(comparison.seeds), max(c.family for c in comparison.contrasts)
    alpha = plan.alpha / k
    middle = statistics.median(sds)
    unit = f" {metric.unit}" if metric.unit else ""
    least = [middle * detectable_effect(seeds, alpha, plan.power) for seeds in (n, 2 * n)]
    return (
        f"The chance that the paired t test shows a true difference, as the first of {k} under Holm (at alpha ="
        f" {plan.alpha:g} / {k}), with {n} seeds, as planned, and with {2 * n}."
        f" Lines: at the median sd of the paired differences,"
        f" {middle:.2g}{unit}, of {len(sds)} contrasts; bands: at the smallest ({sds[0]:.2g}) and the largest"
        f" ({sds[-1]:.2g}). At the median sd a difference of {least[0]:.2g}{unit} is shown with {100 * plan.power:g} %"
        f" power, and {least[1]:.2g}{unit} with twice the seeds. The sds are estimates themselves; the differences that"
        " were observed play no part."
    )


PLOT = Plot(name=NAME, title=lambda _: "What these seeds can show", frames=_frames, draw=_svg, caption=_caption)
