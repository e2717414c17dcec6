import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestIndPower

from knockout.analysis.stats.power import (
    detectable_effect,
    detectable_unpaired,
    needs,
    paired_to_unpaired,
    pairing_pays_above,
    sd_interval,
    seeds_for_difference,
    seeds_for_equivalence,
    span,
    t_power,
    tost_power,
    unpaired_needs,
)

Reference = Callable[[str], dict[str, Any]]


def test_power_agrees_with_r(reference: Reference) -> None:
    expected = reference("power_ttest_R")["expected"]
    found = [detectable_effect(n, 0.05, 0.8) for n in (3, 5, 8, 10, 15, 20, 30)]
    assert found == pytest.approx(expected["paired_mde_dz_n3_5_8_10_15_20_30"], rel=3e-5)
    seeds = [seeds_for_difference(d, 0.05, 0.8) for d in (0.2, 0.5, 0.8, 1.0, 1.5, 2.0)]
    assert seeds == [math.ceil(n) for n in expected["paired_n_dz02_05_08_1_15_2"]]


def test_power_far_out_is_one_and_never_nan() -> None:
    # scipy's noncentral t gives NaN in a tail here
    powers = [t_power(d, n=n, alpha=0.05 / 20) for n in (3, 10, 40) for d in (5.0, 8.0, 25.0, 1000.0)]
    assert all(0 < p <= 1 for p in powers)
    assert detectable_effect(3, 0.05 / 20, 0.99) == pytest.approx(24.79, abs=0.05)


def test_two_seeds_or_fewer_detect_nothing_finite_at_one() -> None:
    assert detectable_effect(1, 0.05, 0.8) == math.inf


def test_pairing_pays_above_the_correlations_of_the_specification() -> None:
    assert [round(pairing_pays_above(n, 0.05, 0.8), 2) for n in (3, 5, 10)] == [0.56, 0.28, 0.12]


@pytest.mark.parametrize(("n", "margin"), [(3, 2.0), (8, 0.9), (11, 1.0), (30, 0.5)])
def test_tost_power_is_what_simulation_gives(n: int, margin: float) -> None:
    draws = np.random.default_rng(1).normal(size=(40_000, n))
    half_width = stats.t.ppf(0.95, n - 1) * draws.std(axis=1, ddof=1) / math.sqrt(n)
    share = float(np.mean(np.abs(draws.mean(axis=1)) <= margin - half_width))
    assert tost_power(n, margin, 0.05) == pytest.approx(share, abs=4 * math.sqrt(0.25 / 40_000))


def test_eleven_seeds_show_equivalence_within_one_sd() -> None:
    assert seeds_for_equivalence(1.0, 0.05, 0.8) == 11
    assert tost_power(11, 1.0, 0.05) >= 0.8 > tost_power(10, 1.0, 0.05)
    assert tost_power(1, 1.0, 0.05) == tost_power(5, 0.0, 0.05) == 0.0


def test_seeds_have_bounds() -> None:
    assert seeds_for_difference(50.0, 0.05, 0.8) == 3
    assert seeds_for_equivalence(50.0, 0.05, 0.8) == 3
    assert seeds_for_difference(1e-6, 0.05, 0.8) is None
    assert seeds_for_equivalence(0.0, 0.05, 0.8) is None
    assert span(3, 3) == "3"
    assert span(11, None) == "11 to over 1,000,000"


def test_the_interval_of_an_sd_covers_it_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    for n in (3, 10):
        sds = rng.standard_normal((20_000, n)).std(axis=1, ddof=1)
        low, high = np.array([sd_interval(sd, n) for sd in sds]).T
        # 20,000 repetitions: the standard error of .95 is .0015
        assert np.mean((low <= 1.0) & (high >= 1.0)) == pytest.approx(0.95, abs=0.006)


def test_seeds_needed_carry_the_uncertainty_of_the_sd() -> None:
    n10 = needs(1.0, 1.0, 10, 4, 0.05, 0.8, 10)
    low, high = sd_interval(1.0, 10)
    assert n10.seeds_difference_low == seeds_for_difference(1.0 / low, 0.05 / 4, 0.8)
    assert n10.seeds_difference_high == seeds_for_difference(1.0 / high, 0.05 / 4, 0.8)
    bounds = (n10.seeds_equivalence_low, n10.seeds_equivalence_first, n10.seeds_equivalence_high)
    assert list(bounds) == sorted(bounds, key=lambda x: x or 0)
    n3 = needs(1.0, 1.0, 3, 1, 0.05, 0.8, 3)
    assert n3.seeds_difference_high is not None
    assert n10.seeds_difference_high is not None
    assert n3.seeds_difference_high > 5 * n10.seeds_difference_high  # .52 to 6.28 sd at n = 3, .69 to 1.83 at 10


@pytest.mark.parametrize("correlation", [-0.5, 0.0, 0.12, 0.8])
def test_what_pairing_costs_is_the_ratio_of_two_detectable_differences(correlation: float) -> None:
    n, sd = 10, 2.0
    of_differences = sd * math.sqrt(2.0 * (1.0 - correlation))
    paired = detectable_effect(n, 0.05, 0.8) * of_differences
    df = 2 * n - 2

    def power_unpaired(difference: float) -> float:
        shift, critical = difference / (sd * math.sqrt(2.0 / n)), float(stats.t.isf(0.025, df))
        return float(stats.nct.sf(critical, df, shift) + stats.nct.cdf(-critical, df, shift))

    ratio = paired_to_unpaired(of_differences, sd, sd, pairing_pays_above(n, 0.05, 0.8))
    assert power_unpaired(paired / ratio) == pytest.approx(0.8, abs=1e-6)


@pytest.mark.parametrize("n", [3, 5, 10, 20])
def test_unpaired_at_equal_sds_is_student_s(n: int) -> None:
    found = detectable_unpaired((1.0, 1.0), (n, n), 0.05, 0.8)
    assert found == pytest.approx(TTestIndPower().solve_power(None, n, 0.05, 0.8), abs=1e-5)
    assert detectable_unpaired((30.0, 30.0), (n, n), 0.05, 0.8) == pytest.approx(30 * found)


def test_unpaired_agrees_with_r(reference: Reference) -> None:
    power = reference("power_ttest_R")["expected"]["two_sample_power_n20_d1"]
    assert detectable_unpaired((1.0, 1.0), (20, 20), 0.05, power) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("sds", "sizes"), [((3.0, 1.0), (5, 20)), ((1.0, 3.0), (8, 4)), ((2.0, 0.0), (6, 3))])
def test_unpaired_at_unequal_sds_is_the_noncentral_t(sds: tuple[float, float], sizes: tuple[int, int]) -> None:
    (a, b), (n, m) = sds, sizes
    error = math.sqrt(a**2 / n + b**2 / m)
    df = error**4 / ((a**2 / n) ** 2 / (n - 1) + (b**2 / m) ** 2 / (m - 1))
    critical = stats.t.isf(0.025, df)
    found = detectable_unpaired(sds, sizes, 0.05, 0.8)
    power = stats.nct.sf(critical, df, found / error) + stats.nct.cdf(-critical, df, found / error)
    assert power == pytest.approx(0.8, abs=1e-6)
    assert found == pytest.approx(detectable_unpaired((b, a), (m, n), 0.05, 0.8))


def test_unpaired_needs_are_larger_as_the_first_of_many() -> None:
    found = unpaired_needs(1.0, 1.0, 5, 5, 4, 0.05, 0.8)
    assert found.detectable == detectable_unpaired((1.0, 1.0), (5, 5), 0.05, 0.8)
    assert found.detectable_first == detectable_unpaired((1.0, 1.0), (5, 5), 0.0125, 0.8) > found.detectable
