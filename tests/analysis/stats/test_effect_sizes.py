import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from knockout.analysis.stats.effect_sizes import cliffs_delta, win_rate

RUNS = st.lists(st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 0.75, 2.0, math.inf]), min_size=1, max_size=12)


@given(RUNS, RUNS)
def test_cliffs_delta_is_the_count_over_all_pairs(variant: list[float], baseline: list[float]) -> None:
    pairs = [(v, b) for v in variant for b in baseline]
    dominance = (sum(v > b for v, b in pairs) - sum(v < b for v, b in pairs)) / len(pairs)
    assert cliffs_delta(variant, baseline) == dominance
    assert cliffs_delta(baseline, variant) == -dominance


@pytest.mark.parametrize("digits", [0, 1, 6])
def test_cliffs_delta_is_the_mann_whitney_u(digits: int) -> None:
    rng = np.random.default_rng(digits)
    v, b = np.round(rng.normal(0.5, 1, 300), digits), np.round(rng.normal(0, 1, 200), digits)
    u = stats.mannwhitneyu(v, b).statistic
    assert cliffs_delta(v.tolist(), b.tolist()) == pytest.approx(2 * u / (v.size * b.size) - 1, abs=1e-12)


def test_cliffs_delta_of_few_runs() -> None:
    assert cliffs_delta([1, 2, 3], [2, 3, 4]) == -5 / 9
    assert cliffs_delta([0.9], [0.8, 0.7]) == 1.0
    assert cliffs_delta([0.5, 0.5], [0.5]) == 0.0


def test_a_failed_run_loses_to_all_that_finished() -> None:
    assert cliffs_delta([-math.inf, 0.9], [0.8, 0.7]) == 0.0
    assert cliffs_delta([-math.inf], [-math.inf, 0.7]) == -0.5


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=20))
def test_win_rate_counts_ties_as_halves(differences: list[int]) -> None:
    signs = [(d > 0) - (d < 0) for d in differences]
    assert win_rate(differences) == pytest.approx((sum(signs) / len(signs) + 1) / 2)
    assert win_rate([-d for d in differences]) == pytest.approx(1 - win_rate(differences))


def test_win_rate_of_failed_runs() -> None:
    assert win_rate([1, 2, 0, -1]) == 0.625
    assert win_rate([-math.inf, math.inf, 0.0, 0.1]) == 0.625


def test_effects_refuse_nan_and_nothing() -> None:
    with pytest.raises(ValueError, match="the baseline's runs hold NaN at position 1: a failed run is -inf"):
        cliffs_delta([1.0], [1.0, math.nan])
    with pytest.raises(ValueError, match=r"the variant's runs must be a list of at least one number, got shape \(0,\)"):
        cliffs_delta([], [1.0])
    with pytest.raises(ValueError, match="the differences hold NaN at position 0"):
        win_rate([math.nan])
    with pytest.raises(ValueError, match="the differences must be a list of at least one number"):
        win_rate([])
