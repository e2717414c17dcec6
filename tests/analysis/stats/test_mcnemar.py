import dataclasses
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from statsmodels.stats.contingency_tables import mcnemar

from knockout.analysis.stats.mcnemar import Discordant, exact_p, mid_p, per_seed
from knockout.analysis.stats.numeric import SMALLEST_BINOMIAL_P

Reference = Callable[[str], dict[str, Any]]


def enumerated(b: int, c: int) -> tuple[float, float]:
    """The exact p and the mid-p, from every way in which b + c disagreements can fall."""
    n = b + c
    away = [abs(2 * sum(wins) - n) for wins in itertools.product((0, 1), repeat=n)]
    further, equal = sum(a > abs(b - c) for a in away), sum(a == abs(b - c) for a in away)
    return (further + equal) / 2**n, (further + equal / 2) / 2**n


def exact_fractions(b: int, c: int) -> tuple[Fraction, Fraction]:
    """The same for large counts, in whole numbers."""
    low, n = min(b, c), b + c
    tail, term = 0, 1
    for k in range(low):
        tail += term
        term = term * (n - k) // (k + 1)
    return Fraction(2 * (tail + term), 2**n), Fraction(2 * tail + term, 2**n)


@pytest.mark.parametrize(("b", "c"), [(b, n - b) for n in range(1, 13) for b in range(n + 1)])
def test_both_are_the_enumeration(b: int, c: int) -> None:
    exact, mid = enumerated(b, c)
    assert exact_p(b, c) == pytest.approx(exact, rel=1e-12)
    assert mid_p(b, c) == pytest.approx(mid, rel=1e-12)


def test_they_agree_with_r_and_with_the_paper(reference: Reference) -> None:
    entry = reference("mcnemar_86_150")
    assert mid_p(86, 150) == pytest.approx(entry["expected"]["p_midp_own"], rel=1e-8)
    assert exact_p(86, 150) == pytest.approx(entry["expected"]["p_exact"], rel=1e-8)
    assert mid_p(1, 7) == pytest.approx(10 / 256, rel=1e-12)  # Bentur et al. in the supplement of Fagerland 2013
    nothing = reference("mcnemar_no_discordant")["expected"]["p"]
    assert mid_p(0, 0) == exact_p(0, 0) == nothing == 1.0


@given(st.integers(0, 400), st.integers(0, 400))
def test_exact_is_that_of_statsmodels(b: int, c: int) -> None:
    assert exact_p(b, c) == pytest.approx(max(SMALLEST_BINOMIAL_P, float(mcnemar([[0, b], [c, 0]]).pvalue)), rel=1e-9)


@given(st.integers(0, 3000), st.integers(0, 3000))
def test_order_and_size(b: int, c: int) -> None:
    assert mid_p(b, c) == mid_p(c, b)
    assert exact_p(b, c) == pytest.approx(exact_p(c, b), rel=1e-12)
    assert 0.0 < mid_p(b, c) <= exact_p(b, c) <= 1.0


@given(st.integers(0, 300), st.integers(0, 300))
def test_a_clearer_split_never_raises_mid_p(b: int, c: int) -> None:
    low, high = sorted((b, c))
    if low > 0:
        assert mid_p(low - 1, high + 1) < mid_p(low, high) or mid_p(low, high) == SMALLEST_BINOMIAL_P


@pytest.mark.parametrize(("b", "c"), [(12_000, 13_000), (300, 900), (3, 700), (5000, 5000), (0, 830), (12_499, 12_500)])
def test_large_counts_are_right(b: int, c: int) -> None:
    exact, mid = exact_fractions(b, c)
    assert exact_p(b, c) == pytest.approx(float(min(Fraction(1), exact)), rel=1e-9)
    expected = 1 - float(exact - mid) / 2 if b == c else float(mid)
    assert mid_p(b, c) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("b", "c"), [(832, 0), (38, 1037), (40, 1500), (0, 10**6), (100, 25_000), (2, 1083)])
def test_p_is_never_zero_and_never_too_small(b: int, c: int) -> None:
    exact, mid = exact_fractions(b, c) if b + c < 10**5 else (Fraction(0), Fraction(0))
    for p, true in ((exact_p(b, c), exact), (mid_p(b, c), mid)):
        assert p == SMALLEST_BINOMIAL_P == 1e-250
        assert true <= Fraction(p)


@pytest.mark.parametrize("bad", [-1, 2.0, 1.5, True, math.nan, "3", None])
def test_what_is_no_count_is_refused(bad: Any) -> None:
    for test in (mid_p, exact_p):
        with pytest.raises(ValueError, match="b must be a count of examples, a whole number of at least 0; got "):
            test(bad, 3)
        with pytest.raises(ValueError, match="c must be a count of examples"):
            test(3, bad)


def test_counts_of_numpy_do_not_overflow() -> None:
    small: Any = np.int8(100)
    assert mid_p(small, small) == pytest.approx(mid_p(100, 100))
    assert mid_p(100, np.int8(120)) == pytest.approx(mid_p(100, 120))  # type: ignore[arg-type]


BOTH = st.tuples(st.integers(1, 5), st.integers(1, 20)).flatmap(
    lambda shape: st.tuples(hnp.arrays(np.bool_, shape), hnp.arrays(np.bool_, shape))
)


@settings(max_examples=60, deadline=None)
@given(BOTH)
def test_per_seed_counts_each_example(both: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]) -> None:
    variant, baseline = both
    seeds = [f"seed {s}" for s in range(len(variant))]
    found = per_seed(variant, baseline, seeds=seeds)
    swapped = per_seed(baseline, variant, seeds=seeds)
    for s, (told, back) in enumerate(zip(found, swapped, strict=True)):
        pairs = list(zip(variant[s].tolist(), baseline[s].tolist(), strict=True))
        b, c = pairs.count((True, False)), pairs.count((False, True))
        assert (told.seed, told.variant_only, told.baseline_only) == (seeds[s], b, c)
        assert told.difference == pytest.approx(float(variant[s].mean() - baseline[s].mean()), abs=1e-15)
        assert (told.p_mid, told.p_exact) == (mid_p(b, c), exact_p(b, c))
        assert (back.variant_only, back.baseline_only, back.difference) == (c, b, -told.difference)
        assert back.p_mid == told.p_mid
        assert {type(v) for v in dataclasses.asdict(told).values()} == {str, int, float}


def test_per_seed_by_hand() -> None:
    variant = np.array([[1, 1, 1, 0], [1, 0, 1, 0]], dtype=bool)
    baseline = np.array([[1, 0, 0, 0], [1, 0, 1, 0]], dtype=bool)
    assert per_seed(variant, baseline, seeds=(7, 3)) == (
        Discordant(seed=7, variant_only=2, baseline_only=0, p_mid=0.25, p_exact=0.5, difference=0.5),
        Discordant(seed=3, variant_only=0, baseline_only=0, p_mid=1.0, p_exact=1.0, difference=0.0),
    )


def test_per_seed_refuses_what_does_not_fit() -> None:
    right = np.ones((2, 3), dtype=bool)
    with pytest.raises(ValueError, match=r"variant must be booleans \(was the prediction right\?\), got int64"):
        per_seed(right.astype(np.int64), right, seeds=(0, 1))
    with pytest.raises(ValueError, match=r"baseline must have the shape \(seeds, examples\).* got the shape \(3,\)"):
        per_seed(right, right[0], seeds=(0, 1))
    with pytest.raises(ValueError, match=r"variant must have the shape .* got the shape \(2, 0\)"):
        per_seed(right[:, :0], right[:, :0], seeds=(0, 1))
    with pytest.raises(
        ValueError, match=r"variant has the shape \(2, 3\), baseline \(1, 3\): the same seeds and examples"
    ):
        per_seed(right, right[:1], seeds=(0, 1))
    for seeds in ((0,), (0, 1, 2), (4, 4)):
        with pytest.raises(ValueError, match="seeds must name each of the 2 rows once, got "):
            per_seed(right, right, seeds=seeds)
