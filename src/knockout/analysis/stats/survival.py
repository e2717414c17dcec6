"""Time until something happens, with runs in which it never did: restricted means and the log-rank test."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from statsmodels.duration.survfunc import SurvfuncRight, survdiff

from knockout.analysis.stats.numeric import SMALLEST_P
from knockout.analysis.stats.trace import made_with


@dataclass(frozen=True, kw_only=True)
class SurvivalContrast:
    """Two arms' times."""

    variant_mean: float
    """restricted to the horizon, in the unit of the times"""
    baseline_mean: float
    p_log_rank: float | None
    """two-sided, by its chi-squared distribution, so approximate; `None` where no run got there, 1 where
    all did at one time"""


@made_with("statsmodels.duration.survfunc.survdiff")
def survival_contrast(
    variant: Sequence[float],
    variant_reached: Sequence[bool],
    baseline: Sequence[float],
    baseline_reached: Sequence[bool],
    horizon: float,
) -> SurvivalContrast:
    """Restricted mean times (Royston & Parmar 2013) and the log-rank test (Mantel 1966), not paired.

    `reached`: whether it happened at that time; else the run was watched until then. Null of the test: one survival
    function. Raises `ValueError` for an arm without runs.
    """
    if not len(variant) or not len(baseline):
        raise ValueError("an arm without runs")
    reached = np.array([*variant_reached, *baseline_reached])
    p = None
    if reached.any():
        arm = np.array([1] * len(variant) + [0] * len(baseline))
        times = np.array([*variant, *baseline], dtype=float)
        try:
            with np.errstate(all="ignore"):
                p = float(survdiff(times, reached.astype(int), arm)[1])
        except np.linalg.LinAlgError:  # without any variance, as where all runs get there at one time
            p = 1.0
    return SurvivalContrast(
        variant_mean=restricted_mean(variant, variant_reached, horizon),
        baseline_mean=restricted_mean(baseline, baseline_reached, horizon),
        p_log_rank=None if p is None or math.isnan(p) else max(SMALLEST_P, p),
    )


def restricted_mean(times: Sequence[float], reached: Sequence[bool], horizon: float) -> float:
    """The area under the Kaplan-Meier curve up to `horizon`: the mean time, counting no more than the horizon."""
    if not any(reached):
        return float(horizon)
    found = SurvfuncRight(np.array(times, dtype=float), np.array(reached, dtype=int))
    inside = found.surv_times < horizon
    edges = np.concatenate(([0.0], found.surv_times[inside], [horizon]))
    return float((np.diff(edges) * np.concatenate(([1.0], found.surv_prob[inside]))).sum())
