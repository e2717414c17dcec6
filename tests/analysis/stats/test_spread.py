"""The spread over seeds against numpy, on losses whose spread is known."""

import numpy as np
import pytest

from knockout.analysis.stats.spread import spread_over_seeds


def test_the_iqr_and_the_tail_are_those_of_each_step_averaged() -> None:
    losses = np.random.default_rng(0).normal(size=(30, 4))
    found = spread_over_seeds(losses, draws=200, seed=[0])
    assert found is not None
    low, middle, high = np.quantile(losses, (0.25, 0.5, 0.75), axis=0)
    assert found.iqr == pytest.approx(float((high - low).mean()))
    worst = np.sort(losses, axis=0)[-2:].mean(axis=0)  # 5 % of 30, rounded up
    assert found.tail == pytest.approx(float((worst - middle).mean()))
    assert found.iqr_low <= found.iqr <= found.iqr_high
    assert found.n == 30


def test_shifts_change_nothing_and_scales_scale() -> None:
    losses = np.random.default_rng(1).normal(size=(8, 10))
    one, shifted, scaled = (spread_over_seeds(x, draws=100, seed=[3]) for x in (losses, losses + 5, 2 * losses))
    assert one is not None
    assert shifted is not None
    assert scaled is not None
    assert shifted.iqr_high == pytest.approx(one.iqr_high)
    assert scaled.tail == pytest.approx(2 * one.tail)


def test_the_interval_of_many_seeds_covers_the_normal_quartiles() -> None:
    """The inter-quartile range of a normal is 1.349 sd."""
    found = spread_over_seeds(np.random.default_rng(2).normal(size=(400, 20)), draws=300, seed=[1])
    assert found is not None
    assert found.iqr_low < 1.349 < found.iqr_high


def test_runs_that_agree_have_no_spread_and_two_give_none() -> None:
    same = spread_over_seeds(np.ones((5, 3)), draws=100, seed=[0])
    assert same is not None
    assert (same.iqr, same.tail, same.iqr_high) == (0.0, 0.0, 0.0)
    assert spread_over_seeds(np.ones((2, 3)), draws=100, seed=[0]) is None
