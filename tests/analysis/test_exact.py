import itertools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from knockout.analysis.exact import discordant, floor, rank_sum, seeds_for_floor, sign_flip, worst_rank

Reference = Callable[[str], dict[str, Any]]


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
