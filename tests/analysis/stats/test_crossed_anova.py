import dataclasses
import itertools
import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats
from statsmodels.stats.anova import anova_lm

from knockout.analysis.stats.crossed_anova import CUT, TwoSource, crossed_bootstrap, two_source, two_source_interval
from knockout.analysis.stats.numeric import SMALLEST_P

Reference = Callable[[str], dict[str, Any]]
Integers = npt.NDArray[np.int8]

MATRICES = hnp.arrays(np.int8, st.tuples(st.integers(1, 6), st.integers(1, 9)), elements=st.integers(-1, 1))
NUMBERS = ("ms_seed", "ms_example", "ms_residual", "se", "df", "t", "p", "low", "high")
INFERENCE = ("se", "df", "t", "p", "low", "high")
SHARES = ("share_seed", "share_example", "share_residual")


def close(found: float | None, expected: float | None, *, rel: float = 1e-9, abs: float = 1e-12) -> bool:
    if found is None or expected is None:
        return found is expected
    return found == pytest.approx(expected, rel=rel, abs=abs)


def latent(shape: tuple[int, int], *, seed: float, example: float, rng: np.random.Generator) -> tuple[Integers, float]:
    """D in {-1, 0, 1} by thresholds at -1 and 1 of a crossed normal with residual sd 1, and its true mean."""
    s, n = shape
    u = 0.1 + seed * rng.standard_normal((s, 1)) + example * rng.standard_normal((1, n)) + rng.standard_normal((s, n))
    sd = math.sqrt(seed**2 + example**2 + 1)
    return (u > 1).astype(np.int8) - (u < -1).astype(np.int8), float(
        stats.norm.sf(0.9 / sd) - stats.norm.cdf(-1.1 / sd)
    )


def test_two_source_agrees_with_r(reference: Reference) -> None:
    entry = reference("two_source_anova_4seeds_12examples")
    expected = entry["expected"]
    for matrix in (
        entry["inputs"]["D"],
        np.array(entry["inputs"]["D"], dtype=np.int8),
        np.array(entry["inputs"]["D"]) * 1.0,
    ):
        found = two_source(matrix)
        assert (found.seeds, found.examples, found.estimable, found.reason) == (4, 12, True, "")
        assert found.mean == pytest.approx(expected["mean"], rel=1e-8)
        assert found.ms_seed == pytest.approx(expected["ms_seed"], rel=1e-8)
        assert found.ms_example == pytest.approx(expected["ms_example"], rel=1e-8)
        assert found.ms_residual == pytest.approx(expected["ms_resid"], rel=1e-8)
        assert found.se == pytest.approx(expected["se"], rel=1e-8)
        assert found.df == pytest.approx(expected["df"], rel=1e-8)
        assert [found.low, found.high] == pytest.approx(expected["ci95"], rel=1e-8)
        # By hand: sigma2_seed is under 0 and so 0, the rest is (.6515 - .1616) : .1616.
        assert [found.share_seed, found.share_example] == pytest.approx([0.0, 0.48989899 / 0.65151515], rel=1e-6)
        assert found.advice == "a larger test set would help"


@pytest.mark.parametrize("seed", range(6))
def test_mean_squares_are_those_of_statsmodels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(2, 6)), int(rng.integers(3, 9)))
    for matrix in (rng.integers(-1, 2, shape).astype(np.int8), rng.normal(3.0, 1.0, shape)):
        s, i = np.indices(shape)
        frame = pd.DataFrame({"y": matrix.ravel().astype(float), "s": s.ravel(), "i": i.ravel()})
        table = anova_lm(smf.ols("y ~ C(s) + C(i)", frame).fit())
        expected = table["sum_sq"] / table["df"]
        found = two_source(matrix)
        assert found.ms_seed == pytest.approx(expected["C(s)"], rel=1e-9)
        assert found.ms_example == pytest.approx(expected["C(i)"], rel=1e-9)
        assert found.ms_residual == pytest.approx(expected["Residual"], rel=1e-9)
        assert found.mean == pytest.approx(float(matrix.mean()), rel=1e-12)
        # The interval and the p say the same of any value.
        if found.low is not None and found.p is not None:
            at_bound = two_source(matrix.astype(float) - found.low)
            assert at_bound.p == pytest.approx(0.05, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(MATRICES, st.randoms(use_true_random=False))
def test_order_of_seeds_and_examples_does_not_matter(matrix: Integers, random: Any) -> None:
    rows, columns = list(range(matrix.shape[0])), list(range(matrix.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    assert two_source(matrix[rows][:, columns]) == two_source(matrix)


@settings(max_examples=60, deadline=None)
@given(MATRICES)
def test_swapping_the_arms_flips_signs_only(matrix: Integers) -> None:
    there, back = two_source(matrix), two_source(-matrix)
    low, high, t = (None if x is None else -x for x in (there.high, there.low, there.t))
    flipped = dataclasses.replace(there, mean=-there.mean, low=low, high=high, t=t, reason=back.reason)
    assert back == flipped
    assert bool(back.reason) == bool(there.reason)


@settings(max_examples=60, deadline=None)
@given(MATRICES)
def test_the_other_way_round_only_the_shares_change_places(matrix: Integers) -> None:
    found, turned = two_source(matrix), two_source(matrix.T)
    assert (turned.seeds, turned.examples, turned.estimable) == (found.examples, found.seeds, found.estimable)
    assert all(close(getattr(turned, name), getattr(found, name)) for name in INFERENCE)
    assert close(turned.share_seed, found.share_example)
    assert close(turned.share_example, found.share_seed)


@settings(max_examples=100, deadline=None)
@given(MATRICES, st.sampled_from([-3, 7, 100, 10**6]))
def test_scale_and_dtype_do_not_matter(matrix: Integers, scale: int) -> None:
    found = two_source(matrix)
    for larger in (
        matrix.astype(np.int64) * scale,
        matrix.astype(np.float64) * scale,
        np.asfortranarray(matrix) * 1.0 * scale,
    ):
        scaled = two_source(larger)
        assert scaled.estimable == found.estimable
        assert close(scaled.mean, found.mean * scale, abs=1e-12 * abs(scale))
        assert close(scaled.se, None if found.se is None else found.se * abs(scale))
        assert close(scaled.t, None if found.t is None else found.t * np.sign(scale), abs=1e-9)
        assert all(close(getattr(scaled, name), getattr(found, name)) for name in ("df", "p", *SHARES))
        assert scaled.advice == found.advice


@settings(max_examples=100, deadline=None)
@given(MATRICES)
def test_results_are_plain_and_finite(matrix: Integers) -> None:
    for given_matrix in (matrix, matrix / 3.0):
        found = two_source(given_matrix)
        for name, value in dataclasses.asdict(found).items():
            assert type(value) in (int, float, bool, str, type(None)), name
            assert not isinstance(value, float) or math.isfinite(value), name
        assert found.estimable == (found.reason == "")
        assert all((getattr(found, name) is None) == (not found.estimable) for name in INFERENCE)
        shares = [getattr(found, name) for name in SHARES]
        if None not in shares:
            assert sum(shares) == pytest.approx(1.0)
            assert min(shares) >= 0.0
        if found.p is not None and found.df is not None:
            assert 0.0 < found.p <= 1.0
            assert found.df >= 1.0
        assert (found.advice == "") == (not found.estimable)


NOTHING = "nothing varies"
FEW = "at least 2 seeds and 2 examples are needed"


@pytest.mark.parametrize(
    ("matrix", "reason"),
    [
        (np.zeros((4, 5), dtype=np.int8), f"every difference is 0: {NOTHING}"),
        (np.ones((4, 5), dtype=np.int8), f"every difference is 1: {NOTHING}"),
        (np.full((4, 5), 0.1), f"every difference is 0.1: {NOTHING}"),
        (np.array([[0.825 - 0.775, 0.375 - 0.325], [0.05, 0.05]]), f"every difference is 0.05: {NOTHING}"),
        (np.array([[1, 0, -1]]), f"one seed: {FEW}"),
        (np.array([[1], [0], [-1]]), f"one example: {FEW}"),
        (np.array([[1]]), f"one seed: {FEW}"),
    ],
)
def test_without_spread_or_with_one_row_nothing_is_estimable(matrix: npt.NDArray[Any], reason: str) -> None:
    found = two_source(matrix)
    assert (found.estimable, found.reason, found.advice) == (False, reason, "")
    assert [getattr(found, name) for name in (*INFERENCE, *SHARES)] == [None] * 9
    assert found.mean == pytest.approx(float(matrix.mean()), abs=1e-15)
    few = 1 in matrix.shape
    assert [found.ms_seed, found.ms_example, found.ms_residual] == ([None] * 3 if few else [0.0] * 3)


def test_where_the_residual_outweighs_both_the_reason_says_so() -> None:
    found = two_source(np.eye(3, dtype=np.int8))  # all row and column sums are equal
    assert found.reason == (
        "the mean squares of seeds and of examples sum to no more than the residual's (0 + 0 against 0.5)"
    )
    assert [found.share_seed, found.share_example, found.share_residual] == [0.0, 0.0, 1.0]
    assert found.ms_residual == 0.5


def test_fewer_than_one_degree_of_freedom_is_not_estimable() -> None:
    matrices = (np.random.default_rng(i).integers(-1, 2, (2, 4)) for i in range(200))
    found = next(f for f in map(two_source, matrices) if "degrees of freedom" in f.reason)
    assert found.se is None
    s, i, e = found.ms_seed, found.ms_example, found.ms_residual
    assert s is not None
    assert i is not None
    assert e is not None
    df = (s + i - e) ** 2 / (s**2 / 1 + i**2 / 3 + e**2 / 3)
    assert s + i - e > 0
    assert df < 1
    assert found.reason == f"the variance rests on {df:.2g} degrees of freedom, fewer than 1"


def test_rounding_does_not_decide_at_the_bounds() -> None:
    matrix = np.ones((3, 4), dtype=np.int8)
    matrix[0, 0] = 0  # all mean squares are 1/12: df = 1 / (1/2 + 1/3 + 1/6)
    for same in (matrix, matrix * 1.0, matrix / 3.0, matrix.T, matrix * 0.7 + 5.0):
        assert two_source(same).df == 1.0


def test_seeds_alone_give_the_t_interval_over_seeds() -> None:
    """Where no example differs from another, the crossed interval is the paired t over the seeds."""
    effects = np.array([0.1, 0.25, -0.05, 0.3])
    found = two_source(np.repeat(effects[:, None], 50, axis=1))
    t = stats.ttest_1samp(effects, 0.0)
    interval = t.confidence_interval(0.95)
    assert [found.t, found.df, found.p] == pytest.approx([t.statistic, 3.0, t.pvalue], rel=1e-9)
    assert [found.low, found.high] == pytest.approx([interval.low, interval.high], rel=1e-9)
    assert (found.share_seed, found.advice) == (1.0, "more seeds would help")


def test_level_widens_the_interval() -> None:
    matrix = latent((5, 60), seed=0.3, example=0.5, rng=np.random.default_rng(0))[0]
    found = [two_source(matrix, level=level) for level in (0.5, 0.9, 0.95, 0.99)]
    widths = [f.high - f.low for f in found if f.high is not None and f.low is not None]
    df, se = found[0].df, found[0].se
    assert df is not None
    assert se is not None
    assert widths == pytest.approx([2 * se * stats.t.ppf(q, df) for q in (0.75, 0.95, 0.975, 0.995)], rel=1e-9)
    for level in (0.0, 1.0, 95, math.nan):
        with pytest.raises(ValueError, match=r"level must be between 0 and 1, such as 0\.95; got "):
            two_source(matrix, level=level)


def test_shares_are_those_of_a_known_truth() -> None:
    rng = np.random.default_rng(5)
    s, n, sd = 300, 500, (0.5, 1.0, 2.0)
    matrix = sd[0] * rng.standard_normal((s, 1)) + sd[1] * rng.standard_normal(n) + sd[2] * rng.standard_normal((s, n))
    found = two_source(matrix)
    parts = np.array([sd[0] ** 2 / s, sd[1] ** 2 / n, sd[2] ** 2 / (s * n)])
    assert [getattr(found, name) for name in SHARES] == pytest.approx((parts / parts.sum()).tolist(), abs=0.05)
    assert found.se == pytest.approx(math.sqrt(parts.sum()), rel=0.1)


@settings(max_examples=100, deadline=None)
@given(MATRICES)
def test_advice_is_what_doubling_would_do(matrix: Integers) -> None:
    found = two_source(matrix)
    if not found.estimable:
        assert found.advice == ""
        return
    s, n = matrix.shape
    e = found.ms_residual or 0.0
    seed, example = max(0.0, (found.ms_seed or 0.0) - e) / n, max(0.0, (found.ms_example or 0.0) - e) / s

    def variance(seeds: int, examples: int) -> float:
        return float(seed / seeds + example / examples + e / (seeds * examples))

    gain = (variance(s, 2 * n) - variance(2 * s, n)) / variance(
        s, n
    )  # of doubling the seeds over doubling the examples
    if abs(gain) < CUT / 2 - 1e-8:
        assert found.advice == "both would help"
    elif abs(gain) > CUT / 2 + 1e-8:
        assert found.advice == ("more seeds would help" if gain > 0 else "a larger test set would help")


def test_more_seeds_than_examples_is_accepted() -> None:
    found = two_source(np.random.default_rng(0).integers(-1, 2, (40, 7)))
    assert (found.seeds, found.examples) == (40, 7)


@pytest.mark.parametrize("shape", [(5,), (), (2, 3, 4), (0, 5), (5, 0)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    for function in (two_source, lambda d: crossed_bootstrap(d, draws=1, rng=np.random.default_rng(0))):
        with pytest.raises(
            ValueError, match=r"the shape \(seeds, examples\), both at least 1; got the shape \("
        ) as told:
            function(np.zeros(shape, dtype=np.int8))
        assert f"got the shape {shape}: one row per seed, one column per test example" in str(told.value)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused_with_its_place(bad: float) -> None:
    matrix = np.zeros((3, 4))
    matrix[1, 2] = bad
    with pytest.raises(ValueError, match=rf"differences\[1, 2\] \(seed, example\) is {bad}; all must be finite"):
        two_source(matrix)


def test_what_is_not_a_number_or_beyond_floats_is_refused() -> None:
    for matrix in (np.ones((2, 2), dtype=bool), np.array([["1", "0"]]), np.array([[None, 1]])):
        with pytest.raises(ValueError, match="differences must be integers or floats, got "):
            two_source(matrix)
    for size in (1e200, 1e-200):
        with pytest.raises(ValueError, match="is beyond floats; use another unit"):
            two_source(np.array([[size, 0.0], [0.0, 0.0]]))


def test_counts_that_would_overflow_are_right() -> None:
    matrix = np.array([[127, -128, 3], [100, -100, 5]], dtype=np.int8)
    expected = two_source(matrix.astype(np.float64))
    assert all(close(getattr(two_source(matrix), name), getattr(expected, name)) for name in (*NUMBERS, *SHARES))
    large = matrix.astype(np.int64) * 2**55  # the sum of squares is beyond int64
    assert close(two_source(large).p, expected.p)
    assert close(two_source(np.array([[0, 2**63], [2**62, 5]], dtype=np.uint64)).mean, (2**63 + 2**62 + 5) / 4)


def test_p_is_never_zero() -> None:
    found = two_source(1.0 + 1e-3 * np.random.default_rng(0).standard_normal((300, 300)))
    assert found.t is not None
    assert found.t > 1e4
    assert found.p == SMALLEST_P


def test_int8_needs_no_copy_of_the_matrix() -> None:
    matrix = latent((30, 25_000), seed=0.1, example=0.5, rng=np.random.default_rng(0))[0]
    two_source(matrix)
    tracemalloc.start()
    try:
        two_source(matrix)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < matrix.nbytes


@pytest.mark.parametrize(
    ("shape", "seed", "example"),
    [((5, 200), 0.1, 0.6), ((20, 200), 0.02, 0.6), ((10, 100), 0.3, 0.1), ((4, 150), 0.5, 0.0)],
)
def test_the_interval_covers(shape: tuple[int, int], seed: float, example: float) -> None:
    rng, repetitions = np.random.default_rng(7), 1500
    covered = 0
    for _ in range(repetitions):
        matrix, truth = latent(shape, seed=seed, example=example, rng=rng)
        found = two_source(matrix)
        if found.low is not None and found.high is not None:
            covered += found.low <= truth <= found.high
        else:
            means = matrix.mean(axis=1)  # the interval over seeds stands alone
            half = stats.t.ppf(0.975, shape[0] - 1) * means.std(ddof=1) / math.sqrt(shape[0])
            covered += bool(abs(means.mean() - truth) <= half)
    error = 2.5 * math.sqrt(0.05 * 0.95 / repetitions)
    assert 0.93 - error < covered / repetitions < 0.96 + error


def test_seeds_alone_do_not_cover_other_texts() -> None:
    """What two sources are for: with hardly any seed variance, the t over 20 seeds answers for this test set only."""
    rng = np.random.default_rng(8)
    covered = 0
    for _ in range(500):
        matrix, truth = latent((20, 200), seed=0.02, example=0.6, rng=rng)
        means = matrix.mean(axis=1)
        covered += bool(abs(means.mean() - truth) <= stats.t.ppf(0.975, 19) * means.std(ddof=1) / math.sqrt(20))
    assert covered / 500 < 0.8


def exact_moments(matrix: npt.NDArray[Any]) -> tuple[float, float]:
    """Mean and variance of the crossed bootstrap, over all S^S resamples of seeds."""
    s, n = matrix.shape
    means = matrix.mean(axis=1)
    c = np.cov(matrix, ddof=0).reshape(s, s)
    weights = np.array([np.bincount(rows, minlength=s) / s for rows in itertools.product(range(s), repeat=s)])
    centre = weights @ means
    within = np.einsum("ds,st,dt->d", weights, c, weights) / n
    return float(centre.mean()), float(centre.var() + within.mean())


def test_bootstrap_has_the_moments_of_all_resamples() -> None:
    example = np.array([[1, 0], [0, 0], [1, 1]])
    assert exact_moments(example) == pytest.approx((1 / 2, 17 / 216))
    random = np.random.default_rng(1).integers(-1, 2, (4, 9)).astype(np.int8)
    for matrix in (example, random, random.astype(np.int64) * 1000, random / 7):
        mean, variance = exact_moments(matrix)
        drawn = crossed_bootstrap(matrix, draws=40_000, rng=np.random.default_rng(2))
        assert drawn.shape == (40_000,)
        assert drawn.mean() == pytest.approx(mean, abs=4 * math.sqrt(variance / 40_000))
        assert drawn.var() == pytest.approx(variance, rel=0.04)


def test_bootstrap_is_the_brute_force_of_seeds_then_examples() -> None:
    matrix = latent((5, 40), seed=0.5, example=0.5, rng=np.random.default_rng(3))[0]
    rng, draws = np.random.default_rng(4), 10_000
    brute = np.array([matrix[rng.integers(0, 5, 5)][:, rng.integers(0, 40, 40)].mean() for _ in range(draws)])
    fast = crossed_bootstrap(matrix, draws=draws, rng=rng)
    sd = float(brute.std())
    assert fast.mean() == pytest.approx(brute.mean(), abs=4 * sd * math.sqrt(2 / draws))
    assert fast.std() == pytest.approx(sd, rel=4 * math.sqrt(1 / draws))  # the sd of an sd is sd / sqrt(2 draws)
    quantiles = (0.05, 0.25, 0.5, 0.75, 0.95)
    assert np.quantile(fast, quantiles) == pytest.approx(np.quantile(brute, quantiles), abs=0.1 * sd)


def test_bootstrap_counts_the_residual_three_times() -> None:
    """Why it is for pictures: with residual only, its variance is about 3 times the true one (Owen 2007)."""
    matrix = np.random.default_rng(5).standard_normal((60, 400))
    drawn = crossed_bootstrap(matrix, draws=20_000, rng=np.random.default_rng(6))
    assert drawn.var() * matrix.size == pytest.approx(3.0, rel=0.4)
    found = two_source(matrix)
    assert found.ms_residual == pytest.approx(1.0, rel=0.05)


def test_bootstrap_is_the_same_from_counts_and_from_reals_over_several_blocks() -> None:
    matrix = latent((6, 20_000), seed=0.1, example=0.5, rng=np.random.default_rng(9))[0]
    from_counts = crossed_bootstrap(matrix, draws=500, rng=np.random.default_rng(1))
    from_reals = crossed_bootstrap(matrix.astype(float), draws=500, rng=np.random.default_rng(1))
    assert from_counts == pytest.approx(from_reals, rel=1e-9, abs=1e-12)


def test_bootstrap_repeats_with_its_generator_and_differs_with_another() -> None:
    matrix = np.random.default_rng(0).integers(-1, 2, (4, 30))
    first, again, other = (crossed_bootstrap(matrix, draws=100, rng=np.random.default_rng(s)) for s in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_bootstrap_of_one_seed_one_example_or_no_spread() -> None:
    rng = np.random.default_rng(0)
    assert np.all(crossed_bootstrap(np.full((3, 5), 0.1), draws=50, rng=rng) == pytest.approx(0.1))
    one_seed = crossed_bootstrap(np.array([[1, 0, 0, 1]]), draws=20_000, rng=rng)
    assert one_seed.var() == pytest.approx(0.25 / 4, rel=0.05)
    one_example = crossed_bootstrap(np.array([[1], [0]]), draws=1000, rng=rng)
    assert set(one_example.tolist()) == {0.0, 0.5, 1.0}
    with pytest.raises(ValueError, match="draws must be at least 1, such as 10000; got 0"):
        crossed_bootstrap(np.ones((2, 2)), draws=0, rng=rng)


def test_results_cannot_be_changed() -> None:
    found = two_source(np.eye(3))
    assert isinstance(found, TwoSource)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.mean = 1.0  # type: ignore[misc]


@given(hnp.arrays(np.int8, (5, 30), elements=st.integers(-1, 1)))
def test_the_interval_of_a_report_is_never_narrower_than_that_over_seeds(matrix: npt.NDArray[np.int8]) -> None:
    crossed, shown = two_source(matrix), two_source_interval(matrix)
    if not shown.estimable:
        assert shown == crossed
        return
    over_seeds = stats.ttest_1samp(matrix.mean(axis=1), 0.0) if np.ptp(matrix.mean(axis=1)) else None
    assert shown.low is not None
    assert crossed.low is not None
    assert shown.p is not None
    assert crossed.p is not None
    if over_seeds is None:
        assert shown == crossed
        return
    low = over_seeds.confidence_interval(0.95).low
    assert shown.low == pytest.approx(min(low, crossed.low), abs=1e-12)
    assert shown.p == pytest.approx(max(over_seeds.pvalue, crossed.p), abs=1e-12)
    assert (shown.se, shown.df, shown.share_seed) == (crossed.se, crossed.df, crossed.share_seed)
