"""Measures of loss curves on curves made by hand, whose answers follow by arithmetic."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from knockout.analysis.stats.curve import finite_part
from knockout.analysis.stats.instability import (
    clipped_share,
    early_end,
    early_gradient,
    early_jitter,
    early_peak,
    excess,
    excursions,
    gradient_outliers,
    half_life,
    judged_steps,
    paired_jitter,
    robust_sd,
    smoothed,
    spike_heights,
    spike_share,
    step_changes,
    tail_mean,
)

Array = NDArray[np.float64]
LENGTHS = (200, 2_000, 20_000)


def noise(n: int, *, seed: int = 0, sd: float = 0.02) -> Array:
    """A falling curve with noise."""
    return np.asarray(
        0.3 + 0.4 * np.exp(-5 * np.arange(n) / n) + np.random.default_rng(seed).normal(0, sd, n), dtype=float
    )


def share(loss: Array, *, steps: int, deviations: float) -> float | None:
    return spike_share(spike_heights(loss, steps=steps), deviations)


def test_a_curve_is_cut_at_its_first_value_that_is_not_finite() -> None:
    assert finite_part(np.array([1.0, 2.0, math.nan, 4.0])).tolist() == [1.0, 2.0]
    assert finite_part(np.array([1.0, math.inf])).tolist() == [1.0]
    assert finite_part(np.array([1.0, 2.0])).tolist() == [1.0, 2.0]


def test_the_moving_average_halves_the_weight_of_a_step_in_its_half_life() -> None:
    """A unit impulse after a long silence decays by half in 10 steps (T <= 1,000), and in T / 100 above."""
    for steps, expected in ((400, 10), (1_000, 10), (5_000, 50)):
        assert half_life(steps) == expected
        impulse = np.zeros(steps)
        impulse[steps // 2] = 1.0
        smooth = smoothed(impulse, steps=steps)
        assert smooth is not None
        peak, later = smooth[steps // 2], smooth[steps // 2 + expected]
        assert later / peak == pytest.approx(0.5, rel=1e-6)
    first = smoothed(np.array([3.0, 1.0]), steps=200)
    assert first is not None
    assert first[0] == 3.0


def test_the_moving_average_is_the_weighted_mean_of_what_came_before() -> None:
    loss = noise(60)
    smooth = smoothed(loss, steps=200)
    assert smooth is not None
    for t in (1, 7, 59):
        weights = 0.5 ** (np.arange(t, -1, -1) / 10)
        assert smooth[t] == pytest.approx(float((weights * loss[: t + 1]).sum() / weights.sum()))


def test_points_too_far_apart_are_not_smoothed() -> None:
    assert smoothed(noise(40), steps=400, every=10) is None
    assert smoothed(noise(200), steps=400, every=2) is not None


def test_the_drawdown_of_a_sawtooth() -> None:
    """Falls by 1, rises by .5, falls by 1: the descent is 1.5 and the drawdown a third of it."""
    smooth = np.array([2.0, 1.0, 1.5, 0.5])
    found = excursions(smooth, least=0.05)
    assert found is not None
    assert found.drawdown == pytest.approx(0.5 / 1.5)
    assert found.tail == pytest.approx(0.5 / 1.5)  # one of four
    assert found.area == pytest.approx(0.5 / 4 / 1.5)


def test_a_curve_that_only_falls_has_no_excursion() -> None:
    found = excursions(np.linspace(1.0, 0.2, 300), least=0.05)
    assert found is not None
    assert (found.drawdown, found.tail, found.area) == (0.0, 0.0, 0.0)


def test_a_curve_that_never_descends_has_no_ratio() -> None:
    for flat in (np.full(300, 0.7), np.linspace(0.7, 0.68, 300), np.linspace(0.7, 2.0, 300)):
        found = excursions(flat, least=0.05 * math.log(2))
        assert found is not None
        assert math.isnan(found.drawdown)
        assert math.isnan(found.area)
    assert excursions(None, least=0.05) is None


def test_a_slow_rise_is_a_large_excursion() -> None:
    """Down by 1 in the first half, up by .8 in the second."""
    smooth = np.concatenate([np.linspace(2.0, 1.0, 500), np.linspace(1.0, 1.8, 500)])
    found = excursions(smooth, least=0.05)
    assert found is not None
    assert found.drawdown == pytest.approx(0.8)
    assert found.area == pytest.approx(0.2, abs=0.001)
    assert found.tail == pytest.approx(0.76, abs=0.001)  # the last tenth of the rise, from .72 to .8


@pytest.mark.parametrize("steps", LENGTHS)
def test_planted_spikes_are_counted_and_nothing_else(steps: int) -> None:
    loss = noise(steps)
    at = [steps // 10, steps // 2, 9 * steps // 10 - 1]
    loss[at] *= 5
    assert share(loss, steps=steps, deviations=7) == pytest.approx(3 / judged_steps(steps, steps))
    assert share(-loss + 10, steps=steps, deviations=7) == 0.0  # downwards does not count


def test_a_flat_line_has_no_spike_and_a_step_up_has_one() -> None:
    """At the first step of the upper level half of the window is below: the centre is between the levels."""
    flat = np.full(400, 0.7)
    assert share(flat, steps=400, deviations=5) == 0.0
    level = np.where(np.arange(400) < 200, 0.5, 0.9)
    assert share(level, steps=400, deviations=5) == pytest.approx(1 / 368)  # 16 at either end are not judged
    assert share(np.geomspace(0.5, 0.9, 400), steps=400, deviations=5) == 0.0  # a slow rise
    assert share(np.exp(-np.arange(400) / 10) + 0.1, steps=400, deviations=5) == 0.0  # a steep descent


def test_the_centre_and_the_sd_leave_their_own_step_out() -> None:
    """Against the definition, window by window."""
    values = np.random.default_rng(1).normal(size=150)
    values[[0, 40, 149]] = 9.0
    values[20:23] = values[20]
    loss = np.exp(values)
    half = 16
    centres, spreads = [], []
    for t in range(half, 150 - half):
        centres.append(np.median(np.delete(values[t - half : t + half + 1], half)))
    above = values[half:-half] - np.array(centres)
    for t in range(len(above)):
        left = min(max(t - half, 0), len(above) - 2 * half - 1)  # moved inwards at both ends
        spreads.append(1.4826 * np.median(np.delete(np.abs(above)[left : left + 2 * half + 1], t - left)))
    for deviations in (1.0, 2.0, 5.0):
        expected = float(np.mean(above > deviations * np.array(spreads)))
        assert share(loss, steps=200, deviations=deviations) == pytest.approx(expected)


def test_normal_noise_spikes_as_rarely_as_five_deviations_say() -> None:
    """Of 20,000 normal values under one in a thousand is above 5 robust sd of a window of 1,000."""
    loss = np.exp(np.random.default_rng(3).normal(0, 0.1, 20_000))
    found = share(loss, steps=20_000, deviations=5)
    assert found is not None
    assert found < 1e-3


@given(scale=st.floats(1e-3, 1e3), seed=st.integers(0, 50))
def test_scaling_the_loss_changes_no_number_without_a_unit(scale: float, seed: int) -> None:
    loss = noise(400, seed=seed)
    loss[200] *= 4
    ours, theirs = (
        (
            share(x, steps=400, deviations=5),
            early_peak(x),
            early_jitter(x, steps=400),
            gradient_outliers(x),
            early_gradient(x, steps=400),
        )
        for x in (loss, scale * loss)
    )
    assert ours == pytest.approx(theirs, rel=1e-6)
    one, other = step_changes(loss), step_changes(scale * loss)
    assert one is not None
    assert other is not None
    assert (other.tail, other.iqr) == pytest.approx((scale * one.tail, scale * one.iqr), rel=1e-6)
    drawn = [excursions(smoothed(x, steps=400), least=0.0) for x in (loss, scale * loss)]
    assert drawn[0] is not None
    assert drawn[1] is not None
    assert drawn[0].drawdown == pytest.approx(drawn[1].drawdown, rel=1e-6)


def test_excursions_of_one_shape_agree_over_lengths() -> None:
    """The half-life grows with the run, so the same shape drawn with more steps has the same drawdown."""
    found = []
    for steps in (2_000, 20_000):
        x = np.linspace(0, 1, steps)
        shape = 0.7 - 0.5 * x + 0.2 * np.exp(-((x - 0.6) ** 2) / 0.002)
        one = excursions(smoothed(shape, steps=steps), least=0.01)
        assert one is not None
        found.append((one.drawdown, one.tail, one.area))
    assert found[0] == pytest.approx(found[1], rel=0.02)


def test_a_steady_slope_has_no_short_term_risk() -> None:
    found = step_changes(np.linspace(2.0, 1.0, 201))
    assert found is not None
    assert (found.tail, found.iqr) == pytest.approx((0.0, 0.0), abs=1e-12)


def test_short_term_risk_of_known_changes() -> None:
    """100 changes, of which five are up by 1 and the rest 0: their mean is 1, and the quartiles do not see them."""
    change = np.zeros(100)
    change[::20] = 1.0
    found = step_changes(np.concatenate([[5.0], 5.0 + np.cumsum(change)]))
    assert found is not None
    assert found.tail == pytest.approx(1.0)
    assert found.iqr == 0.0
    ladder = step_changes(np.concatenate([[0.0], np.cumsum(np.arange(101.0))]))
    assert ladder is not None
    assert ladder.iqr == pytest.approx(50.0)
    assert ladder.tail == pytest.approx(np.mean([50, 49, 48, 47, 46, 45]))  # six of 101, less the median of 50


def test_tail_mean_and_robust_sd() -> None:
    assert tail_mean(np.arange(1.0, 101.0)) == pytest.approx(98.0)
    assert tail_mean(np.array([3.0, 7.0])) == 7.0
    assert robust_sd(np.random.default_rng(0).normal(0, 2.0, 20_000)) == pytest.approx(2.0, rel=0.03)


def test_early_peak() -> None:
    loss = np.full(400, 0.7)
    loss[4] = 1.4
    assert early_peak(loss) == pytest.approx(2.0)
    assert early_peak(np.linspace(0.7, 0.1, 400)) == 1.0
    late = np.full(400, 0.7)
    late[20] = 9.0  # the 21st step
    assert early_peak(late) == 1.0


def test_early_jitter_is_the_ratio_of_the_two_noises() -> None:
    assert (early_end(400), early_end(1_200), early_end(20_000)) == (100, 300, 300)
    rng = np.random.default_rng(5)
    loss = 1 + np.concatenate([rng.normal(0, 0.06, 300), rng.normal(0, 0.02, 19_700)])
    assert early_jitter(loss, steps=20_000) == pytest.approx(3.0, rel=0.25)
    assert paired_jitter(loss - 1, steps=20_000) == pytest.approx(3.0, rel=0.2)
    assert early_jitter(np.full(400, 0.7), steps=400) is None  # no change to divide by
    assert early_jitter(loss[:300], steps=400) is None  # ended before


def test_batch_noise_cancels_in_the_excess_over_the_same_batches() -> None:
    """Both runs share the noise; the difference is exactly what was added."""
    base = noise(400, sd=0.2)
    step = np.arange(1.0, 401.0)
    d = excess(base + 0.01, step, base, step)
    assert d == pytest.approx(np.full(400, 0.01))
    assert excess(base[:100] + 0.01, step[:100], base, step) == pytest.approx(np.full(100, 0.01))
    broken = base.copy()
    broken[50] = math.nan
    assert len(excess(broken, step, base, step)) == 50
    assert len(excess(base, step, base, step + 1000)) == 0


def test_gradient_outliers_and_clipping() -> None:
    norms = np.ones(1_000)
    norms[:20] = 7.0  # 2 %: the 99th percentile is among them
    assert gradient_outliers(norms) == pytest.approx(7.0)
    assert early_gradient(norms, steps=1_000) == pytest.approx(7.0)
    norms[999] = 50.0
    assert early_gradient(norms, steps=1_000) == pytest.approx(7.0)  # the last step is not early
    assert clipped_share(norms, 1.0) == pytest.approx(0.021)
    assert clipped_share(norms, None) is None
    assert gradient_outliers(None) is None
    assert gradient_outliers(np.zeros(1_000)) is None


def test_a_thinned_curve_gets_no_number_that_needs_every_step() -> None:
    loss = noise(200)
    assert spike_heights(loss, steps=400, every=2) is None
    assert step_changes(loss, every=2) is None
    assert early_peak(loss, every=2) is None
    assert early_jitter(loss, steps=400, every=2) is None
    assert gradient_outliers(loss, every=2) is None
    assert excursions(smoothed(loss, steps=400, every=2), least=0.01) is not None


def test_thinning_hardly_moves_what_it_may_keep() -> None:
    loss = noise(2_000, sd=0.01)
    blocks = loss.reshape(200, 10).mean(axis=1)
    whole = excursions(smoothed(loss, steps=2_000), least=0.01)
    thin = excursions(smoothed(blocks, steps=2_000, every=10), least=0.01)
    assert whole is not None
    assert thin is not None
    assert thin.area == pytest.approx(whole.area, rel=0.35, abs=0.005)


@pytest.mark.parametrize("steps", LENGTHS)
def test_every_measure_is_defined_from_200_to_20000_steps(steps: int) -> None:
    loss = noise(steps)
    found = [
        share(loss, steps=steps, deviations=5),
        early_peak(loss),
        early_jitter(loss, steps=steps),
        gradient_outliers(loss),
        early_gradient(loss, steps=steps),
    ]
    assert all(x is not None and math.isfinite(x) for x in found)
    assert step_changes(loss) is not None
    assert excursions(smoothed(loss, steps=steps), least=0.01) is not None


def test_a_nan_at_step_k_ends_the_curve_there() -> None:
    loss = noise(400)
    broken = loss.copy()
    broken[250:] = math.nan
    assert share(broken, steps=400, deviations=5) == share(loss[:250], steps=400, deviations=5)
    assert step_changes(broken) == step_changes(loss[:250])
    assert early_jitter(broken, steps=400) is None  # its second half is not there
    gone = np.full(400, math.nan)
    assert share(gone, steps=400, deviations=5) is None
    assert step_changes(gone) is None
    assert early_peak(gone) is None
    assert smoothed(gone, steps=400) is None
