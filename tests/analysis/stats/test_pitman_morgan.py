"""The Pitman-Morgan test: against scipy, a printed example, its own inversion, and its size under the null."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from knockout.analysis.stats.numeric import SMALLEST_P
from knockout.analysis.stats.pitman_morgan import PitmanMorgan, pitman_morgan


def arms(n: int, seed: int, *, ratio: float = 1.0, correlation: float = 0.5) -> tuple[list[float], list[float]]:
    b, noise = np.random.default_rng(seed).normal(size=(2, n))
    v = ratio * (correlation * b + math.sqrt(1 - correlation**2) * noise)
    return v.tolist(), b.tolist()


def test_the_example_of_the_r_package_paireddata() -> None:
    am, pm = [10.8, 11.0, 10.4, 10.3, 11.3, 10.2, 11.1], [10.8, 10.6, 11, 10.9, 10.9, 10.7, 1.8]
    told = pitman_morgan(am, pm)
    assert told.p == pytest.approx(0.0002258, abs=5e-8)
    assert (told.n, told.df, told.reason) == (7, 5, "")


@pytest.mark.parametrize("n", [3, 4, 10, 50])
@pytest.mark.parametrize(("ratio", "correlation"), [(1.0, 0.0), (1.0, 0.9), (3.0, 0.5), (0.2, -0.7)])
def test_it_is_pearsons_test_of_sums_and_differences(n: int, ratio: float, correlation: float) -> None:
    v, b = map(np.array, arms(n, n, ratio=ratio, correlation=correlation))
    told = pitman_morgan(v.tolist(), b.tolist())
    r, p = stats.pearsonr(v + b, v - b)
    assert told.r == pytest.approx(r, abs=1e-10)
    assert told.p == pytest.approx(p, rel=1e-7)
    assert told.t == pytest.approx(r * math.sqrt((n - 2) / (1 - r * r)), rel=1e-7)
    assert told.sd_variant == pytest.approx(v.std(ddof=1), rel=1e-12)
    assert told.sd_baseline == pytest.approx(b.std(ddof=1), rel=1e-12)
    assert told.ratio == pytest.approx(v.std(ddof=1) / b.std(ddof=1), rel=1e-12)


@pytest.mark.parametrize("n", [3, 5, 20])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_the_interval_holds_the_ratios_that_are_not_rejected(n: int, level: float) -> None:
    v, b = arms(n, n, ratio=1.7)
    told = pitman_morgan(v, b, level=level)
    for bound in (told.low, told.high):
        assert bound is not None
        at = pitman_morgan([x / bound for x in v], b)
        assert at.p == pytest.approx(1 - level, rel=1e-9)
        r, _ = stats.pearsonr(np.array(v) / bound + b, np.array(v) / bound - b)
        t = r * math.sqrt((n - 2) / (1 - r * r))
        assert 2 * stats.t.sf(abs(t), n - 2) == pytest.approx(1 - level, rel=1e-6)


def test_the_interval_is_pitmans() -> None:
    """F (K -+ sqrt(K^2 - 1)) with K = 1 + 2 (1 - c^2) t^2 / (n - 2), of the ratio of variances."""
    v, b = arms(12, 4, ratio=1.4)
    told = pitman_morgan(v, b)
    f, c = np.var(v, ddof=1) / np.var(b, ddof=1), np.corrcoef(v, b)[0, 1]
    k = 1 + 2 * (1 - c**2) * stats.t.ppf(0.975, 10) ** 2 / 10
    assert told.low == pytest.approx(math.sqrt(f * (k - math.sqrt(k * k - 1))), rel=1e-12)
    assert told.high == pytest.approx(math.sqrt(f * (k + math.sqrt(k * k - 1))), rel=1e-12)


counts = st.lists(st.integers(0, 2000), min_size=12, max_size=12)


def known(told: PitmanMorgan, but: tuple[str, ...] = ()) -> dict[str, float]:
    return {k: v for k, v in dataclasses.asdict(told).items() if k not in (*but, "reason") and v is not None}


@settings(max_examples=80)
@given(counts, st.integers(1, 6), st.integers(-5000, 5000), st.sampled_from([0.01, 0.5, 3.0, 1e6]))
def test_shift_scale_and_swap(values: list[int], n: int, shift: int, scale: float) -> None:
    v, b = values[:n], values[6 : 6 + n]
    told = pitman_morgan(v, b)
    assert pitman_morgan([x + shift for x in v], [x + shift for x in b]) == told
    scaled = pitman_morgan([x * scale for x in v], [x * scale for x in b])
    assert scaled.reason == told.reason
    sds = ("sd_variant", "sd_baseline")
    assert known(scaled, sds) == pytest.approx(known(told, sds), rel=1e-7, abs=1e-9)
    for sd in sds:
        if (mine := getattr(told, sd)) is not None:
            assert getattr(scaled, sd) == pytest.approx(mine * scale, rel=1e-9)
    swapped = pitman_morgan(b, v)
    assert (swapped.p is None) == (told.p is None)
    assert (swapped.sd_variant, swapped.sd_baseline) == (told.sd_baseline, told.sd_variant)
    if told.ratio is not None and swapped.ratio is not None:
        assert swapped.ratio == pytest.approx(1 / told.ratio, rel=1e-12)
    if told.p is not None and told.low and told.high and told.t is not None and swapped.t is not None:
        assert swapped.p == pytest.approx(told.p, rel=1e-9)
        assert swapped.t == pytest.approx(-told.t, rel=1e-9, abs=1e-9)
        assert swapped.low == pytest.approx(1 / told.high, rel=1e-9)
        assert swapped.high == pytest.approx(1 / told.low, rel=1e-9)


@given(counts, st.integers(0, 6))
def test_no_p_is_zero_or_nan_and_what_is_missing_has_a_reason(values: list[int], n: int) -> None:
    told = pitman_morgan(values[:n], values[6 : 6 + n])
    assert all(math.isfinite(x) for x in known(told).values())
    assert (told.p is None) == bool(told.reason)
    assert {told.r is None, told.t is None, told.df is None, told.low is None, told.high is None} == {told.p is None}
    if told.p is not None:
        assert 0 < told.p <= 1
        assert type(told.p) is type(told.low) is float


@pytest.mark.parametrize(
    ("variant", "baseline", "reason", "ratio"),
    [
        ([], [], "0 pairs: at least 3 are needed", None),
        ([3], [4], "1 pair: at least 3 are needed", None),
        ([3, 4], [4, 6], "2 pairs: at least 3 are needed", 0.5),
        ([3, 3, 3], [4, 6, 5], "the variant does not vary over seeds", None),
        ([3, 9, 3], [4, 4, 4], "the baseline does not vary over seeds", None),
        ([0.1 + 0.2, 0.3, 0.3], [0.4, 0.6, 0.5], "the variant does not vary over seeds", None),
        ([3, 3, 3], [4, 4, 4], "neither arm varies over seeds", None),
        ([1, 2, 5], [2, 3, 6], "the arms are perfectly correlated over seeds", 1.0),
        ([1, 2, 5], [1, 2, 5], "the arms are perfectly correlated over seeds", 1.0),
        ([2, 4, 10], [-1, -2, -5], "the arms are perfectly correlated over seeds", 2.0),
        ([0.1, 0.2, 0.7, 0.4], [0.31, 0.61, 2.11, 1.21], "the arms are perfectly correlated over seeds", 1 / 3),
    ],
)
def test_where_nothing_can_be_tested(
    variant: list[float], baseline: list[float], reason: str, ratio: float | None
) -> None:
    told = pitman_morgan(variant, baseline)
    assert told.reason == reason
    assert (told.low, told.high, told.r, told.t, told.df, told.p) == (None,) * 6
    assert told.ratio == (None if ratio is None else pytest.approx(ratio, rel=1e-9))


def test_a_p_below_all_floats_is_not_zero() -> None:
    v, b = arms(400, 1, ratio=1e6)
    told = pitman_morgan(v, b)
    assert told.p == SMALLEST_P
    assert told.t is not None
    assert math.isfinite(told.t)
    assert 0.999999 < (told.r or 0) <= 1


@pytest.mark.parametrize("n", [3, 10])
def test_its_size_and_the_coverage_of_its_interval(n: int) -> None:
    """2,000 studies with arms of one variance: .05 are rejected, within three Monte-Carlo standard errors."""
    rng = np.random.default_rng(n)
    b, noise = rng.normal(size=(2, 2000, n))
    v = 0.6 * b + 0.8 * noise
    told = [pitman_morgan(x, y) for x, y in zip(v.tolist(), b.tolist(), strict=True)]
    rejected = sum((t.p or 1) <= 0.05 for t in told) / 2000
    assert rejected == pytest.approx(0.05, abs=3 * math.sqrt(0.05 * 0.95 / 2000))
    assert rejected == sum(not (t.low or 0) < 1 < (t.high or 0) for t in told) / 2000


@pytest.mark.parametrize(
    ("variant", "baseline", "level", "text"),
    [
        ([1.0, 2.0], [1.0], 0.95, r"shapes \(2,\) and \(1,\)"),
        ([1.0, math.nan, 2.0], [1.0, 2.0, 3.0], 0.95, "leave out the seeds"),
        ([1.0, 3.0, 2.0], [1.0, -math.inf, 3.0], 0.95, "leave out the seeds"),
        ([1.0, 3.0, 2.0], [1.0, 2.0, 3.0], 95, "the level 95"),
    ],
)
def test_what_is_refused(variant: list[float], baseline: list[float], level: float, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        pitman_morgan(variant, baseline, level=level)
