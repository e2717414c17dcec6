"""Sensitivity to the learning rate: one number per seed from the final losses over a grid of rates."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

POINT = 0.01
"""Rates whose accuracy is within this of the best count as good."""


@dataclass(frozen=True, kw_only=True)
class RateCurve:
    """One group of runs that differ in the learning rate alone, at one seed."""

    sensitivity: float
    """mean over rates of min(l, l_0) - l*, nats, with the l* of all groups at this seed"""
    own_sensitivity: float
    """the same with the group's own lowest loss: 0 for a group that never learns"""
    decades: float
    """powers of ten between the ends of the longest stretch of neighbouring good rates; 0 for one rate, and for none"""
    largest_stable: float | None
    """the largest rate at which the run did not fail"""


def rate_curves(
    rates: Sequence[float],
    losses: Sequence[Sequence[float]],
    failed: Sequence[Sequence[bool]],
    accuracies: Sequence[Sequence[float | None]],
    initial: Sequence[float],
    best_loss: Sequence[float],
    best_accuracy: Sequence[float | None],
) -> list[RateCurve]:
    """One `RateCurve` for each seed (Wortsman et al. 2023), rates in rising order.

    `losses`, `failed`, `accuracies`: seed by seed, rate by rate; final, of the validation split; a loss that is not
    finite counts as `initial`, the loss of the untrained network (nats). `best_loss` and `best_accuracy`: of any group
    at that seed.
    """
    return [
        RateCurve(
            sensitivity=_above(own, start, best),
            own_sensitivity=_above(own, start, min((x for x in own if math.isfinite(x)), default=start)),
            decades=_decades(rates, [_good(a, f, top) for a, f in zip(right, lost, strict=True)]),
            largest_stable=max((r for r, f in zip(rates, lost, strict=True) if not f), default=None),
        )
        for own, lost, right, start, best, top in zip(
            losses, failed, accuracies, initial, best_loss, best_accuracy, strict=True
        )
    ]


def _above(losses: Sequence[float], initial: float, best: float) -> float:
    capped = [min(x, initial) if math.isfinite(x) else initial for x in losses]
    return float(np.mean(capped)) - min(best, initial)


def _good(accuracy: float | None, failed: bool, best: float | None) -> bool:
    return not failed and accuracy is not None and best is not None and accuracy >= best - POINT - 1e-12


def _decades(rates: Sequence[float], good: Sequence[bool]) -> float:
    widest, start = 0.0, None
    for rate, within in zip(rates, good, strict=True):
        start = (rate if start is None else start) if within else None
        widest = max(widest, math.log10(rate / start)) if start is not None else widest
    return widest
