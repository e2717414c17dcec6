import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from knockout.analysis.stats.power import (
    detectable_effect,
    pairing_pays_above,
    seeds_for_difference,
    seeds_for_equivalence,
    span,
    t_power,
    tost_power,
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
