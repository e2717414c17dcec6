import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from knockout.analysis.stats.e_process import (
    decide,
    e_holm_p,
    fewest_seeds,
    running_p,
    sign_process,
    t_process,
)

INF = math.inf
COUNTS = st.lists(st.integers(-50, 50), min_size=1, max_size=30)


def test_seven_straight_wins_give_26_8() -> None:
    """(2n - 1)!! / n!, exactly."""
    exact = [Fraction(math.prod(range(1, 2 * n, 2)), math.factorial(n)) for n in range(1, 13)]
    assert sign_process([3] * 12) == pytest.approx([float(x) for x in exact], rel=1e-12)
    assert sign_process([3] * 7)[-1] == pytest.approx(26.8125)


def test_the_sign_process_is_a_ratio_of_betas() -> None:
    """The integral of p^k (1 - p)^(n - k) over Beta(.5, .5), over 2^-n."""
    rng = np.random.default_rng(1)
    signs = rng.choice([-1, 1], 200, p=[0.4, 0.6])
    wins = np.cumsum(signs > 0)
    n = np.arange(1, 201)
    logs = n * np.log(2) + special.betaln(wins + 0.5, n - wins + 0.5) - special.betaln(0.5, 0.5)
    assert sign_process(list(signs)) == pytest.approx(np.exp(logs), rel=1e-9)


@pytest.mark.parametrize("n", range(1, 13))
def test_the_mean_of_the_sign_process_over_all_patterns_is_one(n: int) -> None:
    last = [sign_process(pattern)[-1] for pattern in itertools.product((-1, 1), repeat=n)]
    assert math.fsum(last) / 2**n == pytest.approx(1.0, rel=1e-12)


def test_zeros_are_skipped_and_a_failure_is_a_loss() -> None:
    with_ties = sign_process([2, 0, 5, 0, -1])
    alone = sign_process([2, 5, -1])
    assert with_ties == (alone[0], alone[0], alone[1], alone[1], alone[2])
    assert sign_process([-INF, INF, -INF]) == sign_process([-1, 1, -1])
    assert sign_process([0, 0]) == (1.0, 1.0)
    assert sign_process([]) == ()


@given(COUNTS)
def test_both_processes_are_two_sided_and_free_of_scale(differences: list[int]) -> None:
    for process in (sign_process, t_process):
        told = process(differences)
        assert process([-d for d in differences]) == pytest.approx(told, rel=1e-9)
        assert process([d * 2.0**-500 for d in differences]) == pytest.approx(told, rel=1e-9)
        assert process([d * 2.0**500 for d in differences]) == pytest.approx(told, rel=1e-9)
        assert all(math.isfinite(e) and e > 0 for e in told)


@given(COUNTS, st.floats(0.1, 10))
def test_the_t_process_is_the_ratio_of_two_densities_of_t(differences: list[int], g: float) -> None:
    """Gonen et al. 2005: of t / sqrt(1 + ng) with n - 1 degrees of freedom, over that of t."""
    told = t_process(differences, g=g)
    for n in range(1, len(differences) + 1):
        part = np.array(differences[:n], dtype=float)
        if part.min() == part.max():
            assert told[n - 1] == 1.0
            continue
        t, spread = part.mean() / part.std(ddof=1) * math.sqrt(n), math.sqrt(1 + n * g)
        ratio = stats.t.pdf(t / spread, n - 1) / spread / stats.t.pdf(t, n - 1)
        assert told[n - 1] == pytest.approx(ratio, rel=1e-7)


@pytest.mark.parametrize("n", [2, 3, 5, 10, 40])
def test_the_mean_of_the_t_process_under_the_null_is_one(n: int) -> None:
    """Over t with n - 1 degrees of freedom, with samples built to have that t."""
    base = np.arange(n) - (n - 1) / 2

    def e(t: float) -> float:
        return t_process(list(base + t * base.std(ddof=1) / math.sqrt(n)))[-1]

    # Over the probability, in halves, as the tails are heavy: e dF(t).
    total, _ = integrate.quad(lambda u: e(stats.t.isf(u, n - 1)), 0, 0.5, limit=400)
    assert 2 * total == pytest.approx(1.0, abs=2e-3)


def test_a_failure_freezes_the_t_process_for_good_and_equal_differences_only_as_long_as_they_are() -> None:
    whole = t_process([4, 6, 5, 7])
    for failure in (INF, -INF):
        assert t_process([4, 6, failure, 5, 9]) == (*whole[:2], *[whole[1]] * 3)
        assert t_process([failure, 4, 6]) == (1.0, 1.0, 1.0)
    constant = t_process([5, 5, 5, 6])
    assert constant[:3] == (1.0, 1.0, 1.0)
    assert constant[3] > 1
    assert t_process([0, 0, 0]) == (1.0, 1.0, 1.0)


def test_long_series_stay_finite() -> None:
    assert math.isfinite(sign_process([1] * 5000)[-1])
    assert math.isfinite(t_process([1e9, 1e9 + 1] * 2500)[-1])


def test_what_is_no_difference_is_refused() -> None:
    with pytest.raises(ValueError, match="difference 1 is NaN"):
        sign_process([1, math.nan])
    with pytest.raises(ValueError, match="difference 0 is NaN"):
        t_process([math.nan])
    with pytest.raises(ValueError, match="g is 0"):
        t_process([1, 2], g=0)


def test_running_p() -> None:
    assert running_p([0.5, 4.0, 2.0, 8.0]) == (1.0, 0.25, 0.25, 0.125)
    assert running_p([]) == ()


def rejected(e_values: Sequence[float], *, alpha: float = 0.05, family: int = 3) -> tuple[bool, ...]:
    """Which of the largest values of e-processes e-Holm rejects."""
    return tuple(p <= alpha for p in e_holm_p([1 / e for e in e_values], family))


def test_e_holm_counts_what_is_missing_and_what_is_not_given() -> None:
    """By hand: sorted p times 3, 2, 1, each at least the one before."""
    assert e_holm_p([0.04, 0.01, 0.03], 3) == pytest.approx((0.06, 0.03, 0.06))
    assert e_holm_p([0.01, None], 2) == pytest.approx((0.02, 1.0))
    assert e_holm_p([0.01, 0.04], 3) == pytest.approx((0.03, 0.08))
    assert e_holm_p([], 0) == ()
    assert rejected([60.0, 19.0, 40.0]) == (True, False, True)  # Holm needs 60, 40, 20
    assert rejected([60.0, 39.0, 39.0]) == (True, False, False)
    assert rejected([60.0, 40.0, 20.0]) == (True, True, True)
    assert rejected([60.0, 40.0, 20.0], family=4) == (False, False, False)
    with pytest.raises(ValueError, match="2 p values in a family of 1"):
        e_holm_p([0.1, 0.2], 1)
    with pytest.raises(ValueError, match="allowed: 0 to 1"):
        e_holm_p([1.5], 1)


def test_decide_tells_the_first_seed_at_which_every_contrast_is_rejected() -> None:
    """One contrast needs e = 40 first, the other then 20: 8 and 7 straight wins give 50.3 and 26.8."""
    told = decide({"a": [1] * 9, "b": [-1, -1, 0, *[-2] * 5, -INF]}, process="sign", alpha=0.05, family=2)
    assert told.contrasts["a"].rejected_at == 8
    assert told.contrasts["b"].rejected_at == 8  # its seventh loss
    assert told.decided_at == 8
    assert told.undecided == ()
    assert (told.contrasts["a"].direction, told.contrasts["b"].direction) == (1, -1)
    assert told.contrasts["a"].p_holm == pytest.approx(2 / 94.9609375)
    assert told.contrasts["b"].p_holm == pytest.approx(2 / 94.9609375)  # 1 / 50.3 is smaller, and not below the first
    larger = decide({"a": [1] * 9, "b": [-1] * 9}, process="sign", alpha=0.05, family=10)
    assert larger.decided_at is None
    assert larger.undecided == ("a", "b")


@given(
    st.lists(st.tuples(*[st.sampled_from([-INF, -2, -1, 0, 1, 2, INF])] * 3), max_size=25),
    st.sampled_from(["sign", "t"]),
)
def test_what_is_rejected_stays_rejected(rows: list[tuple[float, ...]], process: str) -> None:
    """Looking after every seed, with the whole procedure begun anew each time, finds the same seeds."""
    columns = {name: [row[i] for row in rows] for i, name in enumerate("abc")}
    follow = sign_process if process == "sign" else t_process
    first: dict[str, int] = {}
    for n in range(1, len(rows) + 1):
        largest = [max(1.0, *follow(columns[name][:n])) for name in columns]
        for name, is_rejected in zip(columns, rejected(largest, alpha=0.2, family=4), strict=True):
            assert is_rejected or name not in first
            if is_rejected:
                first.setdefault(name, n)
    told = decide(columns, process=process, alpha=0.2, family=4)  # type: ignore[arg-type]  # one of the two
    assert {name: c.rejected_at for name, c in told.contrasts.items()} == {name: first.get(name) for name in columns}
    assert told.decided_at == (max(first.values()) if len(first) == 3 else None)


def test_decide_takes_whole_blocks_of_a_whole_family() -> None:
    with pytest.raises(ValueError, match="the same for one variant or more"):
        decide({"a": [1, 2], "b": [1]}, process="sign", alpha=0.05, family=2)
    with pytest.raises(ValueError, match="2 p values in a family of 1"):
        decide({"a": [1], "b": [1]}, process="t", alpha=0.05, family=1)
    none = decide({"a": []}, process="t", alpha=0.05, family=1)
    assert (none.n, none.decided_at, none.contrasts["a"].e, none.contrasts["a"].p_holm) == (0, None, 1.0, 1.0)


@pytest.mark.parametrize("family", [1, 2, 5, 10, 20])
def test_the_fewest_seeds_are_straight_wins(family: int) -> None:
    n = fewest_seeds("sign", family=family, alpha=0.05)
    wins = {str(i): [1] * n for i in range(family)}
    assert decide(wins, process="sign", alpha=0.05, family=family).decided_at == n
    t = fewest_seeds("t", family=family, alpha=0.05)
    sure = {str(i): [10**6 + j % 2 for j in range(t)] for i in range(family)}
    assert decide(sure, process="t", alpha=0.05, family=family).decided_at == t


def _ever(process: object, draws: np.ndarray, *, bound: float) -> float:
    assert callable(process)
    return float(np.mean([max(process(list(row))) >= bound for row in draws]))


def test_looking_after_every_seed_keeps_the_rate_of_errors() -> None:
    """To 40 seeds, at 5 %; a paired t after each of the seeds 3 to 20 errs in .23 on the same kind of draws."""
    draws = np.random.default_rng(2024).normal(size=(6000, 40))
    assert 0.012 < _ever(t_process, draws, bound=20.0) < 0.030  # .016 to .026 and 2.6 standard errors
    assert _ever(sign_process, draws, bound=20.0) <= 0.05
    n = np.arange(1, 21)
    sums, squares = np.cumsum(draws[:, :20], axis=1), np.cumsum(draws[:, :20] ** 2, axis=1)
    mean = sums / n
    sd = np.sqrt(np.maximum(squares - n * mean**2, 0.0)[:, 2:] / (n[2:] - 1))
    p = np.asarray(2 * stats.t.sf(np.abs(mean[:, 2:] / sd * np.sqrt(n[2:])), n[2:] - 1))
    assert 0.21 < float(np.mean(p.min(axis=1) <= 0.05)) < 0.25
