"""Restricted means and the log-rank test, against arithmetic and scipy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from knockout.analysis.stats.survival import restricted_mean, survival_contrast

TIMES = st.lists(st.tuples(st.integers(1, 30).map(float), st.booleans()), min_size=3, max_size=15)


@given(st.lists(st.integers(1, 20).map(float), min_size=2, max_size=12))
def test_without_censoring_before_the_horizon_it_is_the_mean_of_the_capped_times(times: list[float]) -> None:
    horizon = 15.0
    reached = [t < horizon for t in times]
    capped = [min(t, horizon) for t in times]
    assert restricted_mean(capped, reached, horizon) == pytest.approx(float(np.mean(capped)))


def test_the_area_under_a_curve_with_censoring_worked_out_by_hand() -> None:
    """Event at 2 (of 4), censored at 3, event at 5 (of 2): 1 to 2, .75 to 5, .375 to 10."""
    area = 2 * 1 + 3 * 0.75 + 5 * 0.375
    assert restricted_mean([2.0, 3.0, 5.0, 10.0], [True, False, True, False], 10.0) == pytest.approx(area)
    assert restricted_mean([10.0, 10.0], [False, False], 10.0) == 10.0


@given(TIMES, TIMES)
def test_the_log_rank_test_is_scipys(ours: list[tuple[float, bool]], theirs: list[tuple[float, bool]]) -> None:
    one: stats.CensoredData = stats.CensoredData(
        uncensored=[t for t, reached in ours if reached], right=[t for t, reached in ours if not reached]
    )
    other: stats.CensoredData = stats.CensoredData(
        uncensored=[t for t, reached in theirs if reached], right=[t for t, reached in theirs if not reached]
    )
    found = survival_contrast(
        [t for t, _ in ours], [r for _, r in ours], [t for t, _ in theirs], [r for _, r in theirs], 30.0
    )
    if not any(r for _, r in (*ours, *theirs)):
        assert found.p_log_rank is None
        return
    with np.errstate(all="ignore"):
        expected = float(stats.logrank(one, other).pvalue)
    if math.isnan(expected):
        assert found.p_log_rank in (None, 1.0)
    else:
        assert found.p_log_rank == pytest.approx(expected, rel=1e-6)


def test_all_at_one_time_is_no_difference() -> None:
    found = survival_contrast([5.0] * 4, [True] * 4, [5.0] * 4, [True] * 4, 10.0)
    assert (found.p_log_rank, found.variant_mean, found.baseline_mean) == (1.0, 5.0, 5.0)
    with pytest.raises(ValueError, match="without runs"):
        survival_contrast([], [], [5.0], [True], 10.0)
