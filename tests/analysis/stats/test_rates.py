"""Sensitivity to the learning rate on losses worked out by hand."""

import math

import pytest

from knockout.analysis.stats.rates import RateCurve, rate_curves

RATES = [1e-4, 1e-3, 1e-2, 1e-1]


def one(
    losses: list[float],
    *,
    failed: list[bool] | None = None,
    accuracies: list[float | None] | None = None,
    best_loss: float = 0.3,
    best_accuracy: float | None = 0.8,
) -> RateCurve:
    return rate_curves(
        RATES,
        [losses],
        [failed or [False] * 4],
        [accuracies or [0.8] * 4],
        [0.7],
        [best_loss],
        [best_accuracy],
    )[0]


def test_sensitivity_is_the_mean_above_the_best_capped_at_the_start() -> None:
    found = one([0.5, 0.3, 0.6, 5.0])
    assert found.sensitivity == pytest.approx((0.2 + 0.0 + 0.3 + 0.4) / 4)
    assert one([0.5, 0.3, 0.6, math.inf]).sensitivity == pytest.approx(found.sensitivity)
    assert one([0.3] * 4).sensitivity == pytest.approx(0.0)


def test_a_group_that_never_learns_looks_stable_only_beside_itself() -> None:
    dead = one([0.7] * 4)
    assert dead.own_sensitivity == pytest.approx(0.0)
    assert dead.sensitivity == pytest.approx(0.4)


def test_the_width_is_that_of_the_longest_stretch_of_good_rates() -> None:
    assert one([0.5] * 4).decades == pytest.approx(3.0)
    assert one([0.5] * 4, accuracies=[0.8, 0.795, 0.5, 0.8]).decades == pytest.approx(1.0)
    assert one([0.5] * 4, accuracies=[0.5, 0.8, 0.5, 0.5]).decades == 0.0
    assert one([0.5] * 4, accuracies=[0.79, 0.8, 0.78, 0.5]).decades == pytest.approx(1.0)  # exactly one point is good
    assert one([0.5] * 4, accuracies=[None] * 4, best_accuracy=None).decades == 0.0
    assert one([0.5] * 4, failed=[False, True, False, False]).decades == pytest.approx(1.0)


def test_the_largest_stable_rate_is_the_largest_that_did_not_fail() -> None:
    assert one([0.5] * 4).largest_stable == 1e-1
    assert one([0.5] * 4, failed=[False, False, True, True]).largest_stable == 1e-3
    assert one([0.5] * 4, failed=[True] * 4).largest_stable is None
