"""The final validation loss over learning rates, for arms that differ in nothing else."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from knockout.analysis.inference.learning_rates import RateGroup
from knockout.analysis.report.figures.plot import Frames, Plot, Source
from knockout.analysis.report.figures.small_multiples import DASHED, MINUS, Look, arm_colours, panels
from knockout.analysis.report.svg import BASELINE_COLOUR, Drawing
from knockout.analysis.run_curves import rate_groups

NAME = "learning_rates"
RATE = "learning_rate"


def final_losses(runs: pd.DataFrame, groups: Sequence[RateGroup]) -> pd.DataFrame:
    """The validation loss of every run after its last epoch: group, variant, learning_rate, seed, failed, value (nats).

    `runs` as in `Results`. A run that failed (diverged or dead) has no value; one without a result, or without a
    validation loss, no row.
    """
    rows = []
    for group in groups:
        for arm, rate in group.rates.items():
            own = runs[runs["variant"] == arm]
            for seed, failed in zip(own["seed"], own["failed"], strict=True):
                loss = math.nan if failed else group.losses.get((arm, seed), math.nan)
                if failed or math.isfinite(loss):
                    rows.append((group.name, arm, rate, seed, bool(failed), loss))
    frame = pd.DataFrame(rows, columns=["group", "variant", RATE, "seed", "failed", "value"])
    return frame.astype({RATE: float, "value": float, "failed": bool})


def rate_summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Per group and rate: median (nats) over the runs that did not fail, n of these, and failures."""
    grouped = frame.groupby(["group", RATE], sort=False)
    made = pd.DataFrame({"median": grouped["value"].median(), "n": grouped["value"].count()})
    made["failures"] = grouped["failed"].sum().astype(int)
    return made.reset_index()


def _frames(source: Source) -> Frames:
    if source.results is None:
        return {}
    groups = [group for group in rate_groups(source.results) if len(set(group.rates.values())) > 1]
    frame = final_losses(source.results.runs, groups)
    return {NAME: frame, f"{NAME}_summary": rate_summary(frame)} if frame["value"].notna().any() else {}


def draw_learning_rates(
    frame: pd.DataFrame,
    *,
    ax: Axes,
    summary: pd.DataFrame,
    reference: pd.DataFrame | None,
    colour: str,
    top: float,
) -> Axes:
    """One group: a dot per seed, the line of medians, failed runs as x at `top`. `reference`: medians of another."""
    if reference is not None:
        ax.plot(reference[RATE], reference["median"], color=BASELINE_COLOUR, linewidth=1.1, linestyle=DASHED, zorder=1)
    place = _apart(frame)
    alive = frame["value"].notna()
    ax.plot(frame[RATE][alive] * place[alive], frame["value"][alive].clip(upper=top), "o", color=colour, alpha=0.5,
            markersize=3.2, markeredgewidth=0, zorder=2)  # fmt: skip
    if not alive.all():  # an empty line that is not clipped would count in the layout
        failed = frame[RATE][~alive] * place[~alive]
        ax.plot(failed, np.full(len(failed), top), "x", color=colour, markersize=5, clip_on=False, zorder=4)
    known = summary.dropna(subset=["median"])
    ax.plot(known[RATE], known["median"].clip(upper=top), color=colour, linewidth=1.6, marker="D", markersize=4.5,
            zorder=3)  # fmt: skip
    ax.set_xscale("log")
    return ax


def _apart(frame: pd.DataFrame) -> pd.Series:
    """Factors near 1 by which the seeds at one rate stand side by side, over a quarter of the way to the next."""
    rates = np.sort(frame[RATE].unique())
    room = 1.0 if len(rates) < 2 else float((rates[1:] / rates[:-1]).min()) ** 0.12
    place = frame.groupby(RATE).cumcount()
    size = frame.groupby(RATE)["value"].transform("size")
    return pd.Series(room ** (2 * (place + 0.5) / size - 1), index=frame.index)


def rate_ends(frame: pd.DataFrame) -> tuple[float, float]:
    """Ends of the axis of losses: dots beyond four times the span of the lower half are drawn at the top."""
    values = frame["value"].dropna()
    low, middle, high = float(values.min()), float(values.median()), float(values.max())
    top = min(high, low + 8 * max(middle - low, 0.02))
    pad = 0.08 * (top - low or 1.0)
    return low - pad, top + pad


def _svg(source: Source, frames: Frames) -> Drawing:
    frame, summary = frames[NAME], frames[f"{NAME}_summary"]
    order = list(dict.fromkeys(frame["group"]))
    palette = arm_colours(source.comparison.variants, source.comparison.baseline)
    low, high = rate_ends(frame)
    first = order[0]
    look = Look(x_label="learning rate", y_label="final validation loss (nats per example)", low=low, high=high,
                steps=False)  # fmt: skip

    def draw_panel(group: str, ax: Axes) -> None:
        own = frame[frame["group"] == group]
        other = None if group == first else summary[summary["group"] == first]
        draw_learning_rates(
            own, ax=ax, summary=summary[summary["group"] == group], reference=other, colour=palette[group], top=high
        )
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("-", MINUS)))
        ax.xaxis.set_minor_locator(NullLocator())

    return panels(order, draw_panel, name=NAME, look=look)


def _caption(source: Source, frames: Frames) -> str:
    frame = frames[NAME]
    order = list(dict.fromkeys(frame["group"]))
    lines = [
        "Validation loss after the last epoch at each learning rate, for arms that differ in nothing but the rate.",
        "A panel is named by one of its arms. Diamonds: medians over the seeds that did not fail.",
        f"Dots: one per seed, n = {len(source.comparison.seeds)} where none is missing, set a little apart.",
    ]
    if len(order) > 1:
        lines.append(f"Grey and dashed: the medians of {order[0]}.")
    failures = int(frame["failed"].sum())
    if failures:
        lines.append(f"x at the top edge: a run that diverged or is dead ({failures} in all), whatever its loss.")
    beyond = int((frame["value"] > rate_ends(frame)[1]).sum())
    if beyond:
        lines.append(f"{beyond} dots lie beyond the axis and are drawn at its top.")
    alone = len(set(source.arms) - set(frame["variant"]))
    lines += [f"{alone} arms with no partner at another rate are not shown."] if alone > 1 else []
    return " ".join(lines)


PLOT = Plot(name=NAME, title=lambda _: "Learning rate and final loss", frames=_frames, draw=_svg, caption=_caption)
