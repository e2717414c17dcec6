"""The paired test with failures against brute force, and against scipy where nothing failed."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from knockout.analysis.stats.paired_test import paired_test, paired_tests

VALUES = st.one_of(st.floats(0.01, 100.0).map(lambda x: float(f"{x:.3g}")), st.just(math.inf))


def brute_force(variant: list[float], baseline: list[float], *, ratio: bool) -> float:
    """Two-sided p of the signed-rank sum over all 2^n patterns of signs; failures rank beyond every value."""
    d = []
    for a, b in zip(variant, baseline, strict=True):
        if math.isinf(a) or math.isinf(b):
            d.append(0.0 if a == b else 1e9 if math.isinf(a) else -1e9)
        else:
            d.append(round(math.log(a / b) if ratio else a - b, 9))
    used = [x for x in d if x != 0]
    if not used:
        return 1.0
    ranks = stats.rankdata(np.abs(used))
    observed = abs(float((np.sign(used) * ranks).sum()))
    sums = [abs(float((np.array(signs) * ranks).sum())) for signs in itertools.product((-1, 1), repeat=len(used))]
    return float(np.mean([s >= observed - 1e-9 for s in sums]))


@given(st.lists(st.tuples(VALUES, VALUES), min_size=3, max_size=8), st.booleans())
def test_p_is_that_of_all_patterns_of_signs(pairs: list[tuple[float, float]], ratio: bool) -> None:
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    found = paired_test(ours, theirs, ratio=ratio, exact=True)
    assert found.p == pytest.approx(brute_force(ours, theirs, ratio=ratio))
    assert found.ranked == sum(math.isinf(a) or math.isinf(b) for a, b in pairs)


@given(st.lists(st.tuples(VALUES, VALUES), min_size=3, max_size=8))
def test_swapping_the_arms_turns_the_answer_round(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    one, other = (paired_test(a, b, ratio=True, exact=True) for a, b in ((ours, theirs), (theirs, ours)))
    assert one.p == other.p
    assert one.direction == -other.direction
    if one.estimate is not None:
        assert other.estimate == pytest.approx(1 / one.estimate)


def test_the_ratio_is_the_geometric_mean_and_its_interval_that_of_the_logarithms() -> None:
    ours, theirs = [2.0, 3.0, 5.0, 8.0], [1.0, 1.0, 2.0, 3.0]
    found = paired_test(ours, theirs, ratio=True, exact=False)
    logs = np.log(ours) - np.log(theirs)
    own = stats.ttest_1samp(logs, 0.0)
    assert found.p == pytest.approx(own.pvalue)
    assert found.estimate == pytest.approx(stats.gmean(np.array(ours) / np.array(theirs)))
    interval = own.confidence_interval()
    assert (found.low, found.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert (found.n, found.ranked, found.exact, found.direction) == (4, 0, False, 1)


def test_differences_are_tested_as_they_are() -> None:
    ours, theirs = [0.0, 0.1, 0.2], [0.0, 0.0, 0.0]
    found = paired_test(ours, theirs, ratio=False, exact=False)
    assert found.p == pytest.approx(stats.ttest_rel(ours, theirs).pvalue)
    assert found.estimate == pytest.approx(0.1)


def test_a_failure_makes_the_test_exact() -> None:
    found = paired_test([1.0, math.inf, 2.0, 3.0, 4.0], [1.5, 1.0, 1.0, 1.0, 1.0], ratio=True, exact=False)
    assert found.exact
    assert found.p == pytest.approx(brute_force([1.0, math.inf, 2.0, 3.0, 4.0], [1.5, 1, 1, 1, 1], ratio=True))
    assert found.ranked == 1
    assert found.estimate == pytest.approx((1 / 1.5 * 2 * 3 * 4) ** 0.25)


def test_the_worse_side_may_be_the_lower_one() -> None:
    found = paired_test([-math.inf] * 6, [0.5] * 6, ratio=True, exact=True)
    assert (found.direction, found.p) == (-1, 2**-5)
    assert found.estimate is None
    both = paired_test([-math.inf] * 6, [-math.inf] * 6, ratio=True, exact=True)
    assert (both.direction, both.p) == (0, 1.0)


def test_nothing_is_tested_below_three_pairs_and_while_one_is_missing() -> None:
    assert paired_test([1.0, 2.0], [2.0, 3.0], ratio=True, exact=True).p is None
    missing = paired_test([1.0, None, 3.0, 4.0], [1.0, 2.0, 3.0, 5.0], ratio=True, exact=True)
    assert (missing.p, missing.n) == (None, 3)
    none = paired_test([None, None, None], [1.0, 2.0, 3.0], ratio=True, exact=True)
    assert (none.p, none.n, none.estimate, none.direction) == (None, 0, None, 0)


def test_differences_that_do_not_vary_are_not_infinitely_sure() -> None:
    """t would be infinite and p 0: the smallest exact p stands in (analysis/RULES.md, step 6)."""
    assert paired_test([2.0, 4.0, 6.0], [1.0, 2.0, 3.0], ratio=True, exact=False).p == pytest.approx(0.25)
    assert paired_test([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], ratio=True, exact=False).p == 1.0


def test_what_has_no_ratio_and_no_rank_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        paired_test([0.0, 1.0, 1.0], [1.0, 1.0, 1.0], ratio=True, exact=True)
    with pytest.raises(ValueError, match="NaN"):
        paired_test([math.nan, 1.0, 1.0], [1.0, 1.0, 1.0], ratio=False, exact=True)


def test_many_variants_share_one_baseline() -> None:
    base = [1.0, 2.0, 3.0]
    many = paired_tests([[2.0, 3.0, 4.0], [1.0, 1.0, 1.0]], base, ratio=True, exact=True)
    assert many == [paired_test(own, base, ratio=True, exact=True) for own in ([2.0, 3.0, 4.0], [1.0, 1.0, 1.0])]
