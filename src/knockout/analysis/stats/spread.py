"""How far the runs of one arm are apart: the spread of their losses over seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from knockout.analysis.stats.instability import TAIL

LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Of n runs; nats. Intervals are percentile bootstrap intervals over seeds, which cover less than 95 % below 20."""

    n: int
    iqr: float
    """the inter-quartile range over seeds, mean over the fixed steps"""
    iqr_low: float
    iqr_high: float
    tail: float
    """the mean of the worst 5 % of seeds (at least one) less the median, mean over the fixed steps"""
    tail_low: float
    tail_high: float


def spread_over_seeds(losses: npt.ArrayLike, *, draws: int, seed: Sequence[int]) -> Spread | None:
    """Dispersion across runs (Chan et al. 2020) of losses of shape (seeds, fixed steps). `None` below 3 seeds."""
    values = np.asarray(losses, dtype=float)
    n = len(values)
    if n < 3:
        return None
    iqr, tail = _spread(values[None])
    rows = np.random.default_rng(list(seed)).integers(0, n, size=(draws, n))
    drawn = [
        _spread(values[part]) for part in np.array_split(rows, max(1, rows.size * values.shape[1] // 2_000_000 + 1))
    ]
    bounds = [
        np.quantile(np.concatenate([d[i] for d in drawn]), ((1 - LEVEL) / 2, (1 + LEVEL) / 2)).tolist() for i in (0, 1)
    ]
    return Spread(
        n=n,
        iqr=float(iqr[0]),
        iqr_low=bounds[0][0],
        iqr_high=bounds[0][1],
        tail=float(tail[0]),
        tail_low=bounds[1][0],
        tail_high=bounds[1][1],
    )


def _spread(values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Of shape (draws, seeds, steps): inter-quartile range and tail, each of shape (draws,)."""
    worst = math.ceil(TAIL * values.shape[1])
    whole = np.sort(values, axis=1)
    low, middle, high = np.quantile(whole, (0.25, 0.5, 0.75), axis=1)
    return (high - low).mean(axis=1), (whole[:, -worst:].mean(axis=1) - middle).mean(axis=1)
