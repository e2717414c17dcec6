"""How unstable a loss curve is: one number per run, each a pure function of arrays.

Notation: L_t is the training loss of the batch of step t = 1..T (nats), S its exponential moving average, m the running
minimum of S, P_j the loss on a fixed probe at even steps, P_0 that of the initial weights, g the gradient norm before
clipping. `None`: the curve does not allow the number (a column was not logged, the curve is too short or thinned).
NaN: the curve never descended enough for a ratio to mean anything; the run ranks as failed. Curves are cut at their
first value that is not finite. analysis/RULES.md, "Instability of loss curves", has the definitions with their sources.
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import ndimage

from knockout.analysis.stats.curve import Array, finite_part

NORMAL_MAD = 1.4826
"""The sd of a normal distribution over its median absolute deviation (Rousseeuw & Croux 1993)."""

LEAST_DESCENT = 0.05
"""A denominator below this share of the label entropy is none."""

TAIL = 0.05
"""The share of largest values that a tail mean is over."""

EARLY_STEPS = 300
PEAK_STEPS = 20
ROUNDING = 1e-6
"""Of logarithms of losses, which are stored as float32: the least robust sd."""


@dataclass(frozen=True, kw_only=True)
class Excursions:
    """How far the smoothed loss went back up, as shares of the descent S_1 - m_T."""

    drawdown: float
    """max of S - m; 0 for a curve that never rises"""
    tail: float
    """mean of the largest 5 % of S - m"""
    area: float
    """mean of S - m"""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """The step changes L_t - L_(t-1), less their median (nats)."""

    tail: float
    """mean of the largest 5 %: the conditional value at risk"""
    iqr: float


def half_life(steps: int) -> float:
    """The half-life of the moving average, in steps: max(10, T / 100)."""
    return max(10.0, steps / 100)


def early_end(steps: int) -> int:
    """The last step of the early part: 300, or T / 4 where that is less."""
    return min(EARLY_STEPS, steps // 4)


def smoothed(loss: Array, *, steps: int, every: int = 1) -> Array | None:
    """S: the exponential moving average with half-life max(10, T / 100) steps, each weight over the sum of the weights
    so far (as in Kingma & Ba 2015), so that S_1 = L_1. Nats.

    `None` where points are further apart than half of the half-life: a moving average of such points smooths nothing.
    """
    values = finite_part(loss)
    own = half_life(steps) / every
    if own < 2 or len(values) < 2:
        return None
    return np.asarray(pd.Series(values).ewm(halflife=own).mean().to_numpy(), dtype=float)


def tail_mean(values: Array, share: float = TAIL) -> float:
    """The mean of the largest 5 % of values, at least one (the conditional value at risk)."""
    n = max(1, math.ceil(share * len(values)))
    return float(np.partition(values, -n)[-n:].mean())


def robust_sd(values: Array) -> float:
    """1.4826 times the median absolute deviation from the median."""
    return NORMAL_MAD * float(np.median(np.abs(values - np.median(values))))


def excursions(smooth: Array | None, *, least: float) -> Excursions | None:
    """Drawdown of S (Chan et al. 2020), its tail, and the area; in descents, no unit.

    `least`: the descent under which all three are NaN, in nats (.05 of the label entropy).
    """
    if smooth is None:
        return None
    lowest = np.minimum.accumulate(smooth)
    above, descent = smooth - lowest, float(smooth[0] - lowest[-1])
    if not descent > 0 or descent < least:
        return Excursions(drawdown=math.nan, tail=math.nan, area=math.nan)
    return Excursions(
        drawdown=float(above.max()) / descent, tail=tail_mean(above) / descent, area=float(above.mean()) / descent
    )


def spike_share(heights: Array | None, deviations: float) -> float | None:
    """The share of steps that are higher than so many robust sd, of `spike_heights`. 0 to 1."""
    return None if heights is None else float(np.mean(heights > deviations))


def spike_heights(values: Array, *, steps: int, every: int = 1) -> Array | None:
    """By how many robust sd log L is above a rolling centre, for each step that is judged.

    The centre is the median of a window of clip(T / 20, 32, 1000) steps around the step, without the step itself; the
    sd is 1.4826 times the median of the sizes of the deviations from the centre in the same window, again without the
    step itself (a Hampel filter, Hampel 1974, on logarithms). Steps at both ends whose window is not whole are not
    judged: in a window to one side the first descent would count as a spike. Scaling all losses changes nothing.
    `None` for a thinned curve, one shorter than twice its window, or a loss that is not above 0.
    """
    values = finite_part(values)
    half = half_window(steps)
    if every > 1 or judged_steps(len(values), steps) < 2 * half + 1 or not (values > 0).all():
        return None
    logs = np.log(values)
    above = (logs - _middle_of_others(logs, half))[half:-half]
    spread = NORMAL_MAD * _middle_of_others(np.abs(above), half)
    return np.asarray(above / np.maximum(spread, ROUNDING), dtype=float)


def half_window(steps: int) -> int:
    """Half of the window of `spike_heights`, in steps."""
    return int(np.clip(steps / 20, 32, 1000)) // 2


def judged_steps(n: int, steps: int) -> int:
    """How many of n finite steps `spike_heights` judges."""
    return max(0, n - 2 * half_window(steps))


def _middle_of_others(values: Array, half: int) -> Array:
    """At each place the median of the window of 2 half + 1 values around it, without the value itself."""
    whole = np.arange(len(values)).clip(half, len(values) - half - 1)  # a window that would reach over an end is moved
    size = 2 * half + 1
    below, centre, above = (ndimage.rank_filter(values, rank=r, size=size)[whole] for r in (half - 1, half, half + 1))
    low = np.where(values < centre, centre, below)  # without the value, the median lies between these two
    high = np.where(values > centre, centre, above)
    return np.asarray((low + high) / 2, dtype=float)


def step_changes(loss: Array, *, every: int = 1) -> Changes | None:
    """Short-term risk and spread of the step changes (Chan et al. 2020), less their median: a steady slope counts as
    none. Nats. `None` for a thinned curve and for one of fewer than 20 steps."""
    values = finite_part(loss)
    if every > 1 or len(values) < 20:
        return None
    change = np.diff(values)
    change = change - np.median(change)
    low, high = np.quantile(change, (0.25, 0.75))
    return Changes(tail=tail_mean(change), iqr=float(high - low))


def early_peak(loss: Array, *, every: int = 1) -> float | None:
    """The largest loss of the first 20 steps over that of the first: 1 where it never rises above it. `None` for a
    thinned curve, one of fewer than 20 steps, and a first loss that is not above 0."""
    values = finite_part(loss[:PEAK_STEPS])
    if every > 1 or len(values) < PEAK_STEPS or values[0] <= 0:
        return None
    return float(values.max() / values[0])


def early_jitter(loss: Array, *, steps: int, every: int = 1) -> float | None:
    """The robust sd of the step changes up to step 300 (or T / 4) over that in the second half of the run. No unit.

    `None` for a thinned curve, one that ends before its second half is there, and a second half without any change.
    """
    return _early_over_late(finite_part(loss), steps=steps, every=every, changes=True)


def paired_jitter(excess: Array, *, steps: int, every: int = 1) -> float | None:
    """The sd of the paired excess loss up to step 300 (or T / 4) over that in the second half. `None` as above."""
    return _early_over_late(finite_part(excess), steps=steps, every=every, changes=False)


def _early_over_late(values: Array, *, steps: int, every: int, changes: bool) -> float | None:
    end = early_end(steps)
    if every > 1 or len(values) < steps or end < 20:
        return None
    early, late = values[:end], values[steps // 2 :]
    if changes:
        sizes = robust_sd(np.diff(early)), robust_sd(np.diff(late))
    else:
        sizes = float(early.std(ddof=1)), float(late.std(ddof=1))
    return sizes[0] / sizes[1] if sizes[1] > 0 else None


def excess(loss: Array, step: Array, other: Array, other_step: Array) -> Array:
    """D_t: the loss less another run's at the same step, over the steps that both have. Nats.

    On the same batches the noise of the batch cancels (common random numbers; Glasserman & Yao 1992).
    """
    common, ours, theirs = np.intersect1d(step, other_step, return_indices=True)
    return finite_part(loss[ours] - other[theirs]) if len(common) else np.empty(0)


def gradient_outliers(grad_norm: Array | None, *, every: int = 1) -> float | None:
    """The 99th percentile of the gradient norm over its median. No unit. `None` where it was not logged at every step,
    for fewer than 100 steps, and a median of 0."""
    values = _whole(grad_norm, every, 100)
    middle = 0.0 if values is None else float(np.median(values))
    return None if values is None or middle <= 0 else float(np.quantile(values, 0.99)) / middle


def early_gradient(grad_norm: Array | None, *, steps: int, every: int = 1) -> float | None:
    """The largest gradient norm up to step 300 (or T / 4) over the median of the run. `None` as above."""
    values = _whole(grad_norm, every, 100)
    middle = 0.0 if values is None else float(np.median(values))
    return None if values is None or middle <= 0 else float(values[: early_end(steps)].max()) / middle


def clipped_share(grad_norm: Array | None, clip_norm: float | None, *, every: int = 1) -> float | None:
    """The share of steps whose gradient norm is above the norm at which it is clipped (Pascanu et al. 2013). 0 to 1.
    `None` where nothing is clipped, and where the norm was not logged at every step."""
    values = _whole(grad_norm, every, 1)
    return None if values is None or not clip_norm else float(np.mean(values > clip_norm))


def _whole(grad_norm: Array | None, every: int, least: int) -> Array | None:
    values = None if grad_norm is None or every > 1 else finite_part(grad_norm)
    return None if values is None or len(values) < least else values
