import itertools
import math
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from knockout.analysis.stats.exact import (
    discordant,
    floor,
    max_t,
    rank_sum,
    seeds_for_floor,
    sign_flip,
    sign_flip_real,
    wilcoxon,
    worst_rank,
)

Reference = Callable[[str], dict[str, Any]]
COUNTS = st.tuples(st.integers(0, 40), st.integers(0, 40))
"""Correct predictions of variant and baseline among 40: few values, so that ties are common."""


def enumerated(differences: list[int]) -> float:
    """The definition: the share of all 2^n sign patterns whose sum is at least as far from zero."""
    observed = abs(sum(differences))
    sums = [abs(sum(s * d for s, d in zip(signs, differences, strict=True))) for signs in _signs(len(differences))]
    return sum(total >= observed for total in sums) / len(sums)


def _signs(n: int) -> list[tuple[int, ...]]:
    return list(itertools.product((-1, 1), repeat=n))


@given(st.lists(st.integers(-6, 6), max_size=8))
def test_sign_flip_is_the_enumeration_with_ties_and_zeros(differences: list[int]) -> None:
    assert sign_flip(differences) == pytest.approx(enumerated(differences), abs=1e-12)


@settings(max_examples=20)
@given(st.lists(st.integers(-2000, 2000), min_size=1, max_size=8), st.integers(1, 9))
def test_sign_flip_ignores_sign_scale_and_order(differences: list[int], scale: int) -> None:
    p = sign_flip(differences)
    assert sign_flip([-d for d in differences]) == pytest.approx(p, abs=1e-12)
    assert sign_flip([scale * d for d in reversed(differences)]) == pytest.approx(p, abs=1e-12)


def test_sign_flip_agrees_with_r(reference: Reference) -> None:
    plants = reference("scipy_doc_wilcoxon_plants")
    assert sign_flip(plants["inputs"]["d"]) == pytest.approx(plants["expected"]["p_signflip_mean"], rel=1e-10)


def test_sign_flip_is_fast_at_a_hundred_seeds() -> None:
    differences = [int(d) for d in np.random.default_rng(0).integers(-1900, 2000, 100)]
    began = time.perf_counter()
    p = sign_flip(differences)
    assert time.perf_counter() - began < 0.5
    z = abs(sum(differences)) / math.sqrt(sum(d * d for d in differences))
    assert p == pytest.approx(2 * stats.norm.sf(z), rel=0.05)


def test_sign_flip_refuses_what_is_not_a_count() -> None:
    with pytest.raises(ValueError, match="integers"):
        sign_flip([1, 2.5])  # type: ignore[list-item]


@pytest.mark.parametrize(("differences", "p"), [([], 1.0), ([0, 0, 0], 1.0), ([5] * 3, 0.25), ([-7] * 10, 2.0**-9)])
def test_sign_flip_without_spread(differences: list[int], p: float) -> None:
    assert sign_flip(differences) == p


@given(st.lists(st.sampled_from([-math.inf, -2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, math.inf]), max_size=8))
def test_worst_rank_is_the_enumeration_of_signed_mean_ranks(differences: list[float]) -> None:
    kept = [d for d in differences if d != 0]
    ranks = [int(2 * r) for r in stats.rankdata(np.abs(kept))] if kept else []
    signed = [r if d > 0 else -r for r, d in zip(ranks, kept, strict=True)]
    assert worst_rank(differences) == pytest.approx(enumerated(signed), abs=1e-12)
    assert rank_sum(differences) == sum(signed)


@given(st.lists(st.integers(1, 10**6), min_size=3, max_size=12, unique=True), st.randoms(use_true_random=False))
def test_worst_rank_without_failures_and_ties_is_wilcoxon(sizes: list[int], random: Any) -> None:
    differences = [float(random.choice((-1, 1)) * s) for s in sizes]
    assert worst_rank(differences) == pytest.approx(stats.wilcoxon(differences, method="exact").pvalue, abs=1e-12)


def test_worst_rank_agrees_with_the_reference(reference: Reference) -> None:
    entry = reference("worst_rank_diverged")
    assert worst_rank([float(d) for d in entry["inputs"]["d"]]) == entry["expected"]["p"] == 0.4375
    demsar = reference("demsar2006_table2_wilcoxon")
    tied = [float(d) for d in demsar["inputs"]["diff_x1000"]]
    assert worst_rank(tied) == pytest.approx(demsar["expected"]["p_exact_dropzero"], rel=1e-9)


def test_worst_rank_and_wilcoxon_tie_what_is_equal_but_for_rounding() -> None:
    pairs = [(825, 775), (375, 325), (910, 860), (800, 830), (530, 500), (700, 740)]
    counts = [float(v - b) for v, b in pairs]
    metrics = [v / 1000 - b / 1000 for v, b in pairs]
    assert len({abs(d) for d in metrics}) > len({abs(d) for d in counts})  # floats broke the ties
    assert worst_rank(metrics) == worst_rank(counts)
    assert wilcoxon(metrics) == wilcoxon(counts)
    assert worst_rank([*metrics, -math.inf, -math.inf]) == worst_rank([*counts, -99.0, -99.0])


def test_ranks_tie_one_prediction_among_a_million() -> None:
    rng = np.random.default_rng(0)
    base, gain = rng.integers(800_000, 900_000, 200), rng.integers(1, 4, 200)
    metrics = ((base + gain) / 1e6 - base / 1e6) * rng.choice([-1.0, 1.0], 200)
    assert len(set(np.abs(metrics))) == 6  # two floats for each of three gains
    assert rank_sum(metrics.tolist()) == rank_sum((np.sign(metrics) * gain).tolist())


def test_worst_rank_refuses_nan() -> None:
    with pytest.raises(ValueError, match="NaN"):
        worst_rank([1.0, math.nan])


@pytest.mark.parametrize(("variant", "baseline", "p"), [(3, 0, 0.25), (6, 0, 0.03125), (0, 6, 0.03125), (0, 0, 1.0)])
def test_discordant_failures(variant: int, baseline: int, p: float) -> None:
    assert discordant(variant, baseline) == pytest.approx(p, abs=1e-15)


def test_discordant_agrees_with_r(reference: Reference) -> None:
    entry = reference("mcnemar_86_150")
    assert discordant(86, 150) == pytest.approx(entry["expected"]["p_exact"], rel=1e-8)


def test_floors(reference: Reference) -> None:
    expected = reference("min_attainable_p")
    assert [floor(n) for n in expected["inputs"]["n"]] == expected["expected"]["wilcoxon_or_signflip_two_sided"]
    for k, n in expected["expected"]["smallest_n_for_holm_alpha05"].items():
        assert seeds_for_floor(int(k), 0.05) == n


def _rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def _flip(differences: Sequence[float], *, draws: int = 99, seed: int = 0) -> float:
    return sign_flip_real(differences, draws=draws, rng=_rng(seed)).p


def _max_t(columns: Sequence[Sequence[float]], *, draws: int = 99, seed: int = 0) -> tuple[float, ...]:
    return max_t(np.array(columns, dtype=float).T, draws=draws, rng=_rng(seed)).p


@given(st.lists(COUNTS, max_size=8))
def test_sign_flip_real_is_the_enumeration_of_the_counts_behind_the_metrics(pairs: list[tuple[int, int]]) -> None:
    metrics = [v / 40 - b / 40 for v, b in pairs]
    assert _flip(metrics) == enumerated([v - b for v, b in pairs])


def test_sign_flip_real_keeps_ties_that_floats_break() -> None:
    metrics = [
        0.825 - 0.775,
        -(0.375 - 0.325),
        0.91 - 0.86,
        -(0.8 - 0.75),
    ]  # 5, -5, 5, -5 points: every sum ties with 0
    assert len({abs(d) for d in metrics}) > 1
    assert sum(metrics) != 0
    assert _flip(metrics) == 1.0
    assert _flip([*metrics[:2], metrics[2], 0.05]) == enumerated([5, -5, 5, 5]) == 0.625


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=9))
def test_sign_flip_real_agrees_with_the_integers_that_the_floats_are(differences: list[float]) -> None:
    exact = [Fraction(d) for d in differences]
    unit = math.lcm(*(d.denominator for d in exact))
    whole = [int(d * unit) for d in exact]
    tolerance = sum(map(abs, whole)) * 1e-9
    sums = {abs(sum(s * d for s, d in zip(signs, whole, strict=True))) for signs in _signs(len(whole))}
    close = any(0 < abs(total - abs(sum(whole))) <= 2 * tolerance for total in sums)
    if close:  # what the tolerance calls a tie can only make p larger
        assert _flip(differences) >= enumerated(whole)
    else:
        assert _flip(differences) == enumerated(whole)


@pytest.mark.parametrize("n", [3, 6, 10])
def test_sign_flip_real_agrees_with_scipy(n: int) -> None:
    differences = _rng(n).normal(0.4, 1, n)
    theirs = stats.permutation_test((differences,), np.sum, permutation_type="samples", n_resamples=2**n)
    assert _flip(differences.tolist()) == pytest.approx(theirs.pvalue, abs=1e-12)


def test_sign_flip_real_agrees_with_r_at_any_unit(reference: Reference) -> None:
    plants = reference("scipy_doc_wilcoxon_plants")
    expected = pytest.approx(plants["expected"]["p_signflip_mean"], rel=1e-10)
    assert _flip(plants["inputs"]["d"]) == expected
    assert _flip([d / 1000 for d in plants["inputs"]["d"]]) == expected
    toy, order = _toy(reference)
    for column, name in zip(toy, order, strict=True):
        assert (
            _flip([d / 1e4 for d in column])
            == reference("ablation_toy_6seeds_4variants")["expected"][f"{name}_signflip_mean"]
        )


@given(
    st.lists(st.floats(-1, 1, width=32), max_size=8),
    st.randoms(use_true_random=False),
    st.sampled_from([-600, -1, 3, 600]),
    st.integers(0, 20),
)
def test_sign_flip_real_ignores_order_sign_scale_and_zeros(
    differences: list[float], random: Any, power: int, zeros: int
) -> None:
    p = sign_flip_real(differences, draws=99, rng=_rng())
    scaled = [d * 2.0**power for d in differences]
    assert sign_flip_real(scaled, draws=99, rng=_rng()) == p
    assert sign_flip_real([-d for d in differences], draws=99, rng=_rng()) == p
    assert sign_flip_real([*differences, *[0.0] * zeros], draws=99, rng=_rng()) == p
    assert _flip(random.sample(differences, len(differences))) == p.p
    assert (p.p * 2 ** max(0, len(differences) - 1)).is_integer()


def test_sign_flip_real_says_how_it_was_done() -> None:
    noise = _rng(1).normal(0.2, 1, 17)
    assert sign_flip_real(noise[:16].tolist(), draws=9, rng=_rng()).method == "exact by enumeration"
    assert sign_flip_real([*noise[:16], *[0.0] * 50], draws=9, rng=_rng()).method == "exact by enumeration"
    sampled = sign_flip_real(noise.tolist(), draws=9, rng=_rng())
    assert (sampled.method, sampled.draws) == ("sampled", 9)
    whole = sign_flip_real([0.25, 0.5, -0.75, 1.0] * 10, draws=9, rng=_rng())
    assert (whole.method, whole.draws) == ("exact by dynamic programme", None)
    assert whole.p == sign_flip([1, 2, -3, 4] * 10)


@pytest.mark.parametrize("scale", [2.0**-600, 1.0, 2.0**600])
def test_sampled_p_does_not_depend_on_the_scale(scale: float) -> None:
    noise = _rng(1).normal(0.2, 1, 40)
    assert _flip((noise * scale).tolist()) == _flip(noise.tolist())
    both = np.stack([noise, noise[::-1]], axis=1)
    assert max_t(both * scale, draws=99, rng=_rng()) == max_t(both, draws=99, rng=_rng())


def test_sampled_p_is_close_to_the_exact_one() -> None:
    counts = [int(d) for d in np.rint(_rng(2).normal(30, 100, 24))]
    metrics = [d / 1000 for d in counts]
    exact, draws = sign_flip(counts), 20_000
    sampled = sign_flip_real(metrics, draws=draws, rng=_rng())
    assert sampled.method == "sampled"
    assert sampled.p == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / draws))
    assert _flip(metrics, draws=draws, seed=0) == sampled.p
    assert _flip(metrics, draws=draws, seed=1) != sampled.p
    assert _flip([abs(d) + 0.1 for d in metrics], draws=99) == 0.01  # b = 0


def test_many_draws_come_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knockout.analysis.stats.exact._CHUNK", 100)
    noise = _rng(2).normal(0.0, 1, 24).tolist()
    assert (_flip(noise, draws=1001) * 1002).is_integer()
    assert _flip([0.1] * 20 + [1e-12] * 4, draws=1001) == pytest.approx(1 / 1002)
    assert _max_t([noise, [0.1] * 24], draws=1001)[1] == pytest.approx(1 / 1002)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_sign_flips_refuse_what_is_not_finite(bad: float) -> None:
    with pytest.raises(ValueError, match=f"must be finite, got {bad}.*worst_rank"):
        _flip([1.0, bad])
    with pytest.raises(ValueError, match="must be finite"):
        _max_t([[1.0, bad]])


def test_sign_flips_refuse_other_shapes_and_no_draws() -> None:
    with pytest.raises(ValueError, match=r"one list of n numbers, got shape \(1, 2\)"):
        _flip([[1.0, 2.0]])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"\(n seeds, K variants\), got shape \(3,\)"):
        max_t([1.0, 2.0, 3.0], draws=9, rng=_rng())
    with pytest.raises(ValueError, match="draws must be 1 or more, got 0"):
        _flip([1.0], draws=0)
    with pytest.raises(ValueError, match="draws must be 1 or more, got 0"):
        _max_t([[1.0]], draws=0)


def _toy(reference: Reference) -> tuple[list[list[int]], list[str]]:
    inputs = reference("ablation_toy_6seeds_4variants")["inputs"]
    accuracy = inputs["accuracy_x10000"]
    columns = [
        [v - b for v, b in zip(accuracy[name], accuracy[inputs["baseline"]], strict=True)] for name in inputs["order"]
    ]
    return columns, list(inputs["order"])


def _enumerated_max_t(columns: list[list[int]]) -> list[float]:
    """The definition, in fractions: sum^2 / sum of d^2 orders as |t| does, with t = inf the largest."""

    def largest(signs: tuple[int, ...]) -> Fraction:
        return max(_ratio([s * d for s, d in zip(signs, column, strict=True)]) for column in columns)

    def _ratio(column: list[int]) -> Fraction:
        squares = sum(d * d for d in column)
        return Fraction(sum(column) ** 2, squares) if squares else Fraction(0)

    reached = [largest(signs) for signs in _signs(len(columns[0]))]
    return [sum(r >= _ratio(column) for r in reached) / len(reached) for column in columns]


def test_max_t_agrees_with_r(reference: Reference) -> None:
    columns, _ = _toy(reference)
    expected = tuple(reference("ablation_toy_6seeds_4variants")["expected"]["maxT_signflip"])
    assert _max_t(columns) == expected  # single-step: step-down would give .25 and .875 for preLN and relu
    assert _max_t([[d / 1e4 for d in column] for column in columns]) == expected


@settings(max_examples=60)
@given(st.integers(1, 6), st.integers(1, 3), st.data())
def test_max_t_is_the_enumeration_with_ties_constants_and_zeros(n: int, k: int, data: st.DataObject) -> None:
    columns = data.draw(st.lists(st.lists(st.integers(-3, 3), min_size=n, max_size=n), min_size=k, max_size=k))
    expected = _enumerated_max_t(columns)
    assert _max_t(columns) == tuple(expected)
    assert _max_t([[d / 7 * 0.1 for d in column] for column in columns]) == tuple(expected)


@settings(max_examples=50)
@given(st.lists(COUNTS, min_size=1, max_size=12))
def test_max_t_of_one_variant_is_the_sign_flip(pairs: list[tuple[int, int]]) -> None:
    metrics = [v / 40 - b / 40 for v, b in pairs]
    assert _max_t([metrics]) == (_flip(metrics),)


def test_max_t_of_one_variant_is_the_sign_flip_where_sampled() -> None:
    noise = _rng(3).normal(0.3, 1, 30).tolist()
    result = max_t(np.array([noise]).T, draws=999, rng=_rng())
    assert (result.method, result.draws) == ("sampled", 999)
    assert result.p == (_flip(noise, draws=999),)


@settings(max_examples=40)
@given(st.integers(1, 8), st.integers(1, 4), st.integers(0, 99), st.randoms(use_true_random=False))
def test_max_t_ignores_sign_scale_and_order(n: int, k: int, seed: int, random: Any) -> None:
    d = _rng(seed).normal(0.5, 1, (n, k))
    p = max_t(d, draws=9, rng=_rng())
    scales = 2.0 ** _rng(seed).integers(-600, 600, k)
    assert max_t(d * scales, draws=9, rng=_rng()) == p
    assert max_t(-d, draws=9, rng=_rng()) == p
    assert max_t(np.vstack([d, np.zeros((9, k))]), draws=9, rng=_rng()) == p
    columns, rows = random.sample(range(k), k), random.sample(range(n), n)
    assert max_t(d[rows][:, columns], draws=9, rng=_rng()).p == tuple(p.p[c] for c in columns)
    for column, adjusted in zip(d.T, p.p, strict=True):
        assert adjusted >= _flip(column.tolist())
        assert (adjusted * 2 ** (n - 1)).is_integer()


def test_max_t_without_spread_or_without_anything() -> None:
    # A constant column has t = inf on two patterns only, and then nothing is larger.
    assert _max_t([[5, 5, 5, 5], [0, 0, 0, 0], [1, -1, 2, 7]])[:2] == (0.125, 1.0)
    assert _max_t([[0.1] * 6, [0.3] * 6]) == (2.0**-5, 2.0**-5)
    assert _max_t([[0, 0], [0, 0]]) == (1.0, 1.0)
    assert _max_t([[1, 2, 3], [1, -1, 0]]) == (0.25, 1.0)
    assert max_t(np.zeros((3, 0)), draws=9, rng=_rng()).p == ()
    assert max_t(np.zeros((0, 2)), draws=9, rng=_rng()).p == (1.0, 1.0)


def test_max_t_holds_the_family_wise_error() -> None:
    """Under the null with one variant of five times the sd, which breaks a pooled Dunnett: no more than alpha."""
    rng, hits, studies = _rng(4), 0, 1000
    for _ in range(studies):
        d = rng.normal(size=(8, 4)) * [1, 1, 1, 5] + rng.normal(size=(8, 1))
        hits += min(max_t(d, draws=9, rng=rng).p) <= 0.05
    assert stats.binomtest(hits, studies, 6 / 128).pvalue > 1e-3  # 6/128 is the largest attainable p under .05


def test_wilcoxon_agrees_with_r(reference: Reference) -> None:
    demsar = reference("demsar2006_table2_wilcoxon")
    ours = wilcoxon([d / 1000 for d in demsar["inputs"]["diff_x1000"]])
    expected = demsar["expected"]
    assert (ours.statistic, ours.w_minus) == (expected["Rplus_dropzero"], expected["Rminus_dropzero"])
    assert ours.p == pytest.approx(expected["p_exact_dropzero"], rel=1e-9)
    assert (ours.n_used, ours.zeros, ours.ties) == (12, 2, True)
    assert ours.rank_biserial == pytest.approx((71.5 - 6.5) / 78)
    plants = reference("scipy_doc_wilcoxon_plants")
    ours = wilcoxon(plants["inputs"]["d"])
    assert min(ours.statistic, ours.w_minus) == plants["expected"]["W"]
    assert ours.p == pytest.approx(plants["expected"]["p_two"], rel=1e-10)
    assert not ours.ties
    toy, order = _toy(reference)
    for column, name in zip(toy, order, strict=True):
        expected_p = reference("ablation_toy_6seeds_4variants")["expected"][f"{name}_wilcoxon_exact"]
        assert wilcoxon([d / 1e4 for d in column]).p == expected_p
    diverged = reference("worst_rank_diverged")
    assert wilcoxon([float(d) for d in diverged["inputs"]["d"]]).p == diverged["expected"]["p"]
    attainable = reference("min_attainable_p")
    floors = attainable["expected"]["wilcoxon_or_signflip_two_sided"]
    for n, p in zip(attainable["inputs"]["n"], floors, strict=True):
        assert wilcoxon([0.1 * (i + 1) for i in range(n)]).p == p


@given(st.lists(st.integers(-6, 6), max_size=8))
def test_wilcoxon_is_the_enumeration_with_ties(differences: list[int]) -> None:
    ours = wilcoxon([d / 10 for d in differences])
    kept = [d for d in differences if d]
    ranks = stats.rankdata(np.abs(kept)) if kept else np.zeros(0)
    signed = [int(2 * r) * (1 if d > 0 else -1) for r, d in zip(ranks, kept, strict=True)]
    assert ours.p == pytest.approx(enumerated(signed), abs=1e-12)
    assert (ours.statistic - ours.w_minus) * 2 == sum(signed)
    assert ours.statistic + ours.w_minus == len(kept) * (len(kept) + 1) / 2
    assert (ours.n_used, ours.zeros) == (len(kept), len(differences) - len(kept))
    assert ours.ties == (len(set(map(abs, kept))) < len(kept))


@given(
    st.lists(st.floats(-1, 1, width=32), max_size=12),
    st.randoms(use_true_random=False),
    st.sampled_from([-600, -1, 3, 600]),
)
def test_wilcoxon_ignores_order_and_scale_and_follows_the_sign(
    differences: list[float], random: Any, power: int
) -> None:
    ours = wilcoxon(differences)
    assert wilcoxon([d * 2.0**power for d in random.sample(differences, len(differences))]) == ours
    turned = wilcoxon([-d for d in differences])
    assert (turned.p, turned.statistic, turned.rank_biserial) == (ours.p, ours.w_minus, -ours.rank_biserial)
    assert -1 <= ours.rank_biserial <= 1
    assert (ours.p * 2.0 ** max(0, ours.n_used - 1)).is_integer()


@pytest.mark.parametrize("n", [1, 5, 13])
def test_wilcoxon_agrees_with_scipy_where_scipy_is_exact(n: int) -> None:
    differences = _rng(n).normal(0.4, 1, n)
    theirs = stats.wilcoxon(differences, method="exact")
    ours = wilcoxon(differences.tolist())
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-12)
    assert min(ours.statistic, ours.w_minus) == theirs.statistic


def test_wilcoxon_where_others_break() -> None:
    balanced = wilcoxon([1] * 15 + [0] * 40 + [-1] * 15)  # B048
    assert (balanced.p, balanced.rank_biserial, balanced.zeros) == (1.0, 0.0, 40)
    tied = wilcoxon([1, 1, 2, 3, 4])  # B049
    assert (tied.p, tied.rank_biserial, tied.ties) == (0.0625, 1.0, True)
    assert wilcoxon([float(i) for i in range(1, 61)]).p == 2.0**-59  # B051
    nothing = wilcoxon([0.0, 0.0])
    assert (nothing.p, nothing.rank_biserial, nothing.n_used, nothing.ties) == (1.0, 0.0, 0, False)


@pytest.mark.parametrize("losses", [0, 5, 50, 180, 480])
def test_small_p_keep_their_precision_at_a_thousand_pairs(losses: int) -> None:
    n = 1000
    tail = Fraction(2 * sum(math.comb(n, i) for i in range(losses + 1)), 2**n)
    assert sign_flip([1] * (n - losses) + [-1] * losses) == pytest.approx(float(tail), rel=1e-13, abs=0)


def test_p_is_never_zero() -> None:
    assert sign_flip([1] * 3000) == math.ulp(0.0)
    assert sign_flip_real([0.5] * 3000, draws=9, rng=_rng()).p == math.ulp(0.0)
