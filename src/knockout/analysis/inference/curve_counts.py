"""What can be counted of an arm's runs: failures, flat lines, runs that blew up, spikes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from statsmodels.stats.proportion import proportion_confint

from knockout.analysis.stats.curve import RunCurve, finite_part
from knockout.analysis.stats.instability import judged_steps
from knockout.analysis.stats.trace import made_with, traced

BLOW_UP = 1.2
"""A run whose smoothed loss ends above so many times its first probe loss blew up."""

PLATEAU = 0.98
"""A run whose lowest probe loss is above this share of the label entropy is a flat line."""


@dataclass(frozen=True, kw_only=True)
class ArmCounts:
    """Counts over the runs of one arm that came to a result. `None` where no run has the measure."""

    runs: int
    diverged: int
    dead: int
    rate_low: float | None
    """95 % Wilson interval of the share of failed runs (statsmodels `proportion_confint`); `None` without runs"""
    rate_high: float | None
    flat: int | None
    """runs whose lowest probe loss is above .98 of the label entropy"""
    blown_up: int | None
    """runs that end above 1.2 times their first probe loss"""
    spikes: float | None
    """per run: the mean number of steps that are loss spikes (5 robust sd)"""
    large_spikes: float | None
    """the same with 7 robust sd"""
    spiking: int | None
    """runs with a large spike"""


def arm_counts(arms: Mapping[str, Sequence[RunCurve | None]], values: pd.DataFrame) -> dict[str, ArmCounts]:
    """Arm -> its counts. `values`: as in `Instability`."""
    found = {}
    columns = (values[name].tolist() for name in ("variant", "seed", "metric", "value"))
    by_run = {(variant, seed, metric): float(value) for variant, seed, metric, value in zip(*columns, strict=True)}
    for name, runs in arms.items():
        own = [run for run in runs if run is not None]

        def of(metric: str, own: Sequence[RunCurve] = own) -> list[float | None]:
            column = [by_run[run.variant, run.seed, metric] for run in own]
            return [None if math.isnan(x) else x for x in column]

        found[name] = traced(
            ("instability", "counts", name),
            counted,
            [run.status == "diverged" for run in own],
            [run.dead for run in own],
            plateau=of("plateau"),
            blow_up=of("blow_up"),
            spikes=_steps(of("spikes"), own),
            large_spikes=_steps(of("large_spikes"), own),
        )
    return found


def _steps(shares: Sequence[float | None], runs: Sequence[RunCurve]) -> list[int | None]:
    """Numbers of steps, of shares of those that are judged."""
    lengths = [judged_steps(len(finite_part(run.loss)), run.steps) for run in runs]
    return [None if x is None else round(x * n) for x, n in zip(shares, lengths, strict=True)]


@made_with("statsmodels.stats.proportion.proportion_confint")
def counted(
    diverged: Sequence[bool],
    dead: Sequence[bool],
    plateau: Sequence[float | None],
    blow_up: Sequence[float | None],
    spikes: Sequence[int | None],
    large_spikes: Sequence[int | None],
) -> ArmCounts:
    """The counts of runs that are each given by their place in every list."""

    def above(column: Sequence[float | None], level: float) -> int | None:
        known = [x for x in column if x is not None]
        return sum(x > level for x in known) if known else None

    def mean(column: Sequence[int | None]) -> float | None:
        known = [x for x in column if x is not None]
        return sum(known) / len(known) if known else None

    runs, failed = len(diverged), sum(a or b for a, b in zip(diverged, dead, strict=True))
    low, high = proportion_confint(failed, runs, method="wilson") if runs else (None, None)
    return ArmCounts(
        runs=runs,
        diverged=sum(diverged),
        dead=sum(dead),
        rate_low=None if low is None else float(low),
        rate_high=None if high is None else float(high),
        flat=above(plateau, PLATEAU),
        blown_up=above(blow_up, BLOW_UP),
        spikes=mean(spikes),
        large_spikes=mean(large_spikes),
        spiking=above(large_spikes, 0),
    )
