"""Welch, equivalence, rank-sum and permutation tests of two independent samples, against values made elsewhere."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from knockout.analysis.stats.independent import (
    permuted_means,
    rank_direction,
    rank_sum_floor,
    rank_sum_test,
    welch,
    welch_tost,
)

SLEEP = ([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0], [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])
"""Student's sleep data, in R `sleep`. R's help of t.test prints: t = -1.8608, df = 17.776, p-value = 0.07939, and
the 95 percent confidence interval -3.3654832 0.2054832."""


def test_welch_is_what_r_prints_for_its_own_example() -> None:
    found = welch(*SLEEP)
    assert found.t == pytest.approx(-1.8608, abs=5e-5)
    assert found.df == pytest.approx(17.776, abs=5e-4)
    assert found.p == pytest.approx(0.07939, abs=5e-6)
    assert [found.low, found.high] == pytest.approx([-3.3654832, 0.2054832], abs=5e-8)


def test_welch_by_hand() -> None:
    """Means 2.5 and 5, variances 5/3 and 20/3: se^2 = 25/12, df = (25/12)^2 / ((5/12)^2/3 + (5/3)^2/3) = 4.4118."""
    found = welch([1, 2, 3, 4], [2, 4, 6, 8])
    assert found.t == pytest.approx(-2.5 / math.sqrt(25 / 12))
    assert found.df == pytest.approx((25 / 12) ** 2 * 3 / ((5 / 12) ** 2 + (5 / 3) ** 2))
    half = stats.t.ppf(0.975, found.df) * math.sqrt(25 / 12)
    assert [found.low, found.high] == pytest.approx([-2.5 - half, -2.5 + half])


def test_an_arm_without_spread_leaves_the_other_s_degrees_of_freedom() -> None:
    found = welch([0.1, 0.1, 0.1], [0.2, 0.3, 0.4, 0.5])
    assert found.df == pytest.approx(3)
    assert found.p == pytest.approx(stats.ttest_1samp([0.2, 0.3, 0.4, 0.5], 0.1).pvalue)


def test_without_any_spread_there_is_no_t() -> None:
    with pytest.raises(ValueError, match="neither sample has any spread"):
        welch([0.1, 0.1], [0.2, 0.2, 0.2])
    with pytest.raises(ValueError, match="two runs or more"):
        welch([0.1], [0.2, 0.3])
    with pytest.raises(ValueError, match="finite"):
        welch([0.1, math.inf], [0.2, 0.3])


samples = st.lists(st.integers(0, 40).map(lambda i: i / 1000 + 0.8), min_size=2, max_size=6)


@settings(max_examples=60, deadline=None)
@given(samples, samples, st.floats(0.001, 0.05))
def test_welch_and_its_equivalence_agree_with_scipy(a: list[float], b: list[float], margin: float) -> None:
    if len(set(a)) < 2 or len(set(b)) < 2:  # scipy warns of an arm without spread
        return
    found = stats.ttest_ind(a, b, equal_var=False)
    assert welch(a, b).p == pytest.approx(found.pvalue, rel=1e-6)
    low = stats.ttest_ind(np.array(a) + margin, b, equal_var=False, alternative="greater").pvalue
    high = stats.ttest_ind(np.array(a) - margin, b, equal_var=False, alternative="less").pvalue
    assert welch_tost(a, b, margin) == pytest.approx(max(low, high), rel=1e-6)
    swapped, scaled = welch(b, a), welch([x * 1e-200 for x in a], [x * 1e-200 for x in b])
    assert swapped.p == pytest.approx(welch(a, b).p)
    assert swapped.low == pytest.approx(-welch(a, b).high, rel=1e-6, abs=1e-12)
    assert scaled.p == pytest.approx(welch(a, b).p, rel=1e-6)


def splits(values: list[float], m: int, observed: float, statistic: str) -> float:
    """The share of all splits whose statistic is as far from its mean as the observed one: by brute force."""
    scores = np.array(values) if statistic == "mean" else stats.rankdata(values)
    centre = m * scores.mean()
    sums = [scores[list(chosen)].sum() for chosen in combinations(range(len(values)), m)]
    return float(np.mean([abs(s - centre) >= abs(observed - centre) - 1e-9 for s in sums]))


@settings(max_examples=60, deadline=None)
@given(samples, samples)
def test_both_permutation_tests_against_all_splits(a: list[float], b: list[float]) -> None:
    whole = [*a, *b]
    ranks = stats.rankdata(whole)
    by_rank, by_mean = rank_sum_test(a, b), permuted_means(a, b, 100, [0])
    assert by_rank.p == pytest.approx(splits(whole, len(a), ranks[: len(a)].sum(), "rank"))
    assert by_mean.p == pytest.approx(splits(whole, len(a), sum(a), "mean"))
    assert (by_rank.method, by_mean.method) == ("exact", "exact")


def test_rank_sum_is_scipy_s_exact_one_where_nothing_ties() -> None:
    rng = np.random.default_rng(5)
    for n, m in ((3, 3), (4, 7), (12, 9), (30, 25)):
        a, b = rng.normal(0.4, 1, n).tolist(), rng.normal(0, 1, m).tolist()
        assert rank_sum_test(a, b).p == pytest.approx(stats.mannwhitneyu(a, b, method="exact").pvalue)


def test_failed_runs_are_the_worst_ranks() -> None:
    """Three failed of four against none: ranks 2, 2, 2 and 4.5 or higher."""
    a, b = [-math.inf, -math.inf, -math.inf, 0.9], [0.5, 0.6, 0.7, 0.8]
    worst = [0.0, 0.0, 0.0, 0.9]
    assert rank_sum_test(a, b).p == pytest.approx(splits([*worst, *b], 4, 2 + 2 + 2 + 8, "rank"))
    assert rank_direction(a, b) == -1
    assert rank_direction(b, a) == 1
    assert rank_sum_test([-math.inf] * 3, [-math.inf] * 3).p == 1.0
    assert rank_direction([-math.inf] * 3, [-math.inf] * 3) == 0


def test_the_smallest_p() -> None:
    assert rank_sum_floor(3, 3) == rank_sum_test([1, 2, 3], [4, 5, 6]).p == pytest.approx(0.1)
    assert rank_sum_floor(1, 1) == 1.0
    assert rank_sum_floor(5000, 5000) > 0
    assert rank_sum_floor(4, 6) == pytest.approx(rank_sum_test([1, 2, 3, 4], [5, 6, 7, 8, 9, 10]).p)


def test_ties_that_rounding_hides() -> None:
    """.1 + .2 is not .3 as a float; both are the same value."""
    assert rank_sum_test([0.1 + 0.2, 0.4], [0.3, 0.5]).p == rank_sum_test([3, 4], [3, 5]).p
    assert permuted_means([0.801, 0.811], [0.791, 0.821], 100, [0]).p == 1.0


def test_many_runs_are_sampled_and_approximated() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(0.5, 1, 40).tolist(), rng.normal(0, 1, 40).tolist()
    sampled = permuted_means(a, b, 4000, [1])
    assert sampled.method == "sampled"
    assert sampled.p == pytest.approx(stats.ttest_ind(a, b).pvalue, abs=0.02)
    assert permuted_means(a, b, 4000, [1]) == sampled
    many, others = rng.normal(0.1, 1, 400).tolist(), rng.normal(0, 1, 400).tolist()
    found = rank_sum_test(many, others)
    assert found.method == "normal approximation"
    assert found.p == pytest.approx(stats.mannwhitneyu(many, others, method="asymptotic").pvalue)


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="numbers"):
        rank_sum_test([math.nan, 1], [2, 3])
    with pytest.raises(ValueError, match="finite"):
        permuted_means([math.inf, 1], [2, 3], 10, [0])
