"""Properties of `compare` that no data may break, and brute force for small n."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from knockout.analysis import Comparison, Contrast, compare
from knockout.analysis.inference.family import Family
from knockout.analysis.inference.pairs import Pair
from knockout.analysis.inference.verdict import Judgement, constant_p, constant_tost, judge
from knockout.analysis.stats.metric import raw
from knockout.analysis.stats.multiplicity import benjamini_hochberg, holm
from knockout.study import Plan
from tests.analysis.frames import sound

TEXTS = 400
FAILED = ("diverged", "dead")

cells = st.one_of(st.integers(0, TEXTS), st.integers(290, 330), st.sampled_from(["diverged", "dead", "crashed"]))
counts_only = st.integers(0, TEXTS)
few = settings(max_examples=12, deadline=None)


@st.composite
def studies(draw: st.DrawFn, cell: st.SearchStrategy[Any] = cells, least: int = 1, most: int = 3) -> pd.DataFrame:
    """A baseline and its variants, counts of right predictions or a status."""
    variants, seeds = draw(st.integers(least, most)), draw(st.integers(3, 9))
    rows = []
    for v in ["base", *"abc"[:variants]]:
        for s in range(seeds):
            told = draw(cell)
            state = told if isinstance(told, str) else "finished"
            value = None if isinstance(told, str) else told / TEXTS
            rows.append({"variant": v, "seed": s, "status": state, "accuracy": value, "count": TEXTS})
    return pd.DataFrame(rows).astype({"accuracy": float})


def judged(frame: pd.DataFrame, baseline: str = "base", **more: Any) -> Comparison:
    return sound(compare(frame, baseline=baseline, variants=sorted(set(frame["variant"]) - {baseline}), **more))


def near(a: float | None, b: float | None, *, tolerance: float = 1e-9) -> bool:
    return a is b if a is None or b is None else math.isclose(a, b, rel_tol=tolerance, abs_tol=1e-9)


def raw_of(contrast: Contrast) -> dict[str, Any]:
    """Of one contrast what is its own, whatever stands beside it."""
    beside = contrast.sensitivity
    return {
        "p": contrast.p,
        "p_tost": contrast.p_tost,
        "test": contrast.test,
        "direction": contrast.direction,
        "estimate": contrast.estimate,
        "arm": contrast.arm,
        "counts": contrast.counts,
        "sign_flip": beside.sign_flip,
        "wilcoxon": beside.wilcoxon,
        "stability": beside.stability,
        "pairs": contrast.pairs,
    }


@few
@given(studies(), st.randoms(use_true_random=False))
def test_rows_in_another_order_change_nothing(frame: pd.DataFrame, random: Any) -> None:
    order = list(range(len(frame)))
    random.shuffle(order)
    one, other = judged(frame), judged(frame.iloc[order])
    assert other.sentences() == one.sentences()
    pd.testing.assert_frame_equal(other.table(all=True), one.table(all=True))
    assert other.trace.numbers == one.trace.numbers


@few
@given(studies(most=1))
def test_variant_and_baseline_change_places(frame: pd.DataFrame) -> None:
    one, other = judged(frame)["a"], judged(frame, baseline="a")["base"]
    assert near(other.p, one.p)
    assert near(other.p_tost, one.p_tost)
    assert other.direction == -one.direction
    assert {"better": "worse", "worse": "better"}.get(one.verdict, one.verdict) == other.verdict
    assert other.p_failures == one.p_failures
    assert (other.arm, other.baseline) == (one.baseline, one.arm)
    flips = (one.sensitivity.sign_flip, other.sensitivity.sign_flip)
    assert near(*(None if f is None else f.p for f in flips))
    if one.estimate is None:
        assert other.estimate is None
        return
    assert other.estimate is not None
    for name in ("difference", "d_z", "g_z", "d_av", "t", "cliffs_delta"):
        value = getattr(one.estimate, name)
        assert near(getattr(other.estimate, name), None if value is None else -value), name
    for mine, theirs in (("low", "high"), ("high", "low")):
        value = getattr(one.estimate, mine)
        assert near(getattr(other.estimate, theirs), None if value is None else -value)
    for name in ("sd", "correlation", "p_welch", "n"):
        assert near(getattr(other.estimate, name), getattr(one.estimate, name)), name
    assert near(other.estimate.win_rate, 1 - one.estimate.win_rate)


@few
@given(studies(st.integers(100, 300)), st.integers(-100, 100))
def test_a_constant_added_to_all_arms_changes_no_difference(frame: pd.DataFrame, shift: int) -> None:
    moved = frame.assign(accuracy=(frame["accuracy"] * TEXTS + shift) / TEXTS)
    for one, other in zip(judged(frame).contrasts, judged(moved).contrasts, strict=True):
        assert (one.p, one.p_holm, one.p_tost, one.verdict) == (other.p, other.p_holm, other.p_tost, other.verdict)
        assert one.estimate is not None
        assert other.estimate is not None
        assert one.estimate.difference == other.estimate.difference
        assert (one.estimate.low, one.estimate.sd) == (other.estimate.low, other.estimate.sd)
        assert one.sensitivity.sign_flip == other.sensitivity.sign_flip


@few
@given(studies(st.one_of(counts_only, st.sampled_from(FAILED))), st.integers(-60, 60))
def test_the_scale_of_a_raw_metric_does_not_matter(frame: pd.DataFrame, exponent: int) -> None:
    unit = 2.0**exponent
    one = judged(frame.assign(score=frame["accuracy"]), metric="score", margin=0.02)
    other = judged(frame.assign(score=frame["accuracy"] * unit), metric="score", margin=0.02 * unit)
    for a, b in zip(one.contrasts, other.contrasts, strict=True):
        for name in ("p", "p_holm", "p_tost", "p_tost_holm", "p_sign_flip", "verdict", "label", "test"):
            assert getattr(b, name) == getattr(a, name), name
        for name in ("sign_flip", "sign_flip_holm", "wilcoxon", "wilcoxon_holm", "max_t", "disagree"):
            assert getattr(b.sensitivity, name) == getattr(a.sensitivity, name), name
        if a.estimate is not None and b.estimate is not None:
            for name in ("difference", "low", "high", "sd"):
                value = getattr(a.estimate, name)
                assert getattr(b.estimate, name) == (None if value is None else value * unit), name
            assert (b.estimate.t, b.estimate.d_z) == (a.estimate.t, a.estimate.d_z)


@few
@given(studies(least=2))
def test_a_variant_beside_changes_only_what_is_of_the_family(frame: pd.DataFrame) -> None:
    last = sorted(set(frame["variant"]) - {"base"})[-1]
    fewer, more = judged(frame[frame["variant"] != last]), judged(frame)
    for one in fewer.contrasts:
        other = more[one.variant]
        assert raw_of(other) == raw_of(one)
        for name in ("p_holm", "p_tost_holm", "p_sign_flip_holm"):
            assert getattr(other, name) >= getattr(one, name), name
        assert other.sensitivity.wilcoxon_holm >= one.sensitivity.wilcoxon_holm
        alone, joint = one.sensitivity.max_t, other.sensitivity.max_t
        assert (alone is None) == (joint is None)
        if alone is not None and joint is not None:
            assert joint >= alone


@few
@given(studies())
def test_other_names_change_only_names(frame: pd.DataFrame) -> None:
    names = {"base": "z 0", "a": "<1>", "b": "None", "c": "=2"}
    order = sorted(set(frame["variant"]) - {"base"})
    one = compare(frame, baseline="base", variants=order)
    renamed = frame.assign(variant=[names[v] for v in frame["variant"]])
    other = sound(compare(renamed, baseline="z 0", variants=[names[v] for v in order]))
    pd.testing.assert_frame_equal(
        other.table(all=True).drop(columns="variant"), one.table(all=True).drop(columns="variant")
    )
    assert other.variants == tuple(names[v] for v in one.variants)
    for v, a, b in zip(order, one.sentences(), other.sentences(), strict=True):
        assert b == names[v] + a.removeprefix(v)


@few
@given(studies(st.one_of(counts_only, st.sampled_from(FAILED))), st.sampled_from([0.0, 0.123, 1e9, math.inf, -1.0]))
def test_the_value_of_a_failed_run_is_never_used(frame: pd.DataFrame, value: float) -> None:
    assume(frame["status"].isin(FAILED).any())
    kept = frame.assign(accuracy=frame["accuracy"].mask(frame["status"].isin(FAILED), value))
    one, other = judged(frame), judged(kept)
    assert other.contrasts == one.contrasts
    assert other.sentences() == one.sentences()
    assert other.trace.calls == one.trace.calls


@few
@given(studies())
def test_numbers_agree_with_scipy_where_it_is_right(frame: pd.DataFrame) -> None:
    wide = frame.pivot(index="seed", columns="variant", values="accuracy")
    for contrast in judged(frame).contrasts:
        if contrast.test != "t":
            continue
        a, b = np.rint(wide[contrast.variant] * TEXTS), np.rint(wide["base"] * TEXTS)
        assert near(contrast.p, float(stats.ttest_rel(a, b).pvalue))


def pairs_of(differences: Sequence[float]) -> list[Pair]:
    """Pairs with a baseline of 0; -inf a failed variant, inf a failed baseline, None both."""
    told = []
    for seed, d in enumerate(differences):
        state = "variant failed" if d == -math.inf else "baseline failed" if d == math.inf else "complete"
        whole = state == "complete"
        told.append(
            Pair(
                seed=seed,
                state=state,  # type: ignore[arg-type]  # one of the states
                variant=d if whole else None,
                baseline=0.0 if whole else None,
                difference=d if whole else None,
                identical=False,
            )
        )
    return told


def p_by_signs(scores: Sequence[float]) -> float:
    """Two-sided p of the sum of scores, over all patterns of signs."""
    observed = abs(sum(scores))
    sums = [
        abs(sum(s * x for s, x in zip(signs, scores, strict=True)))
        for signs in itertools.product((-1, 1), repeat=len(scores))
    ]
    return sum(x >= observed for x in sums) / len(sums)


score = raw("score", better="higher", margin=0.5)


def verdict_of(pairs: Sequence[Pair]) -> Judgement:
    """The verdict on a family of one."""
    seeds = tuple(p.seed for p in pairs)
    family = Family(metric=score, plan=Plan(), baseline="b", seeds=seeds, size=1, pairs={"v": tuple(pairs)})
    return judge(family)["v"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.integers(-4, 4).map(float), st.sampled_from([-math.inf, math.inf])), min_size=3, max_size=8)
)
def test_worst_ranks_are_those_of_all_sign_patterns(differences: list[float]) -> None:
    assume(any(math.isinf(d) for d in differences))
    found = verdict_of(pairs_of(differences))
    kept = [d for d in differences if d]
    ranks = stats.rankdata([abs(d) for d in kept])
    signed = [2 * math.copysign(r, d) for r, d in zip(ranks, kept, strict=True)]
    assert found.tested.test == "worst_rank"
    assert found.tested.p == p_by_signs(signed)
    assert found.tested.direction == (sum(signed) > 0) - (sum(signed) < 0)
    floor = 2.0 ** (1 - len(differences))
    if found.verdict == "undecidable by design":
        assert floor > 0.05
    else:
        assert (found.verdict in ("better", "worse")) == (found.p_holm <= 0.05)


@pytest.mark.parametrize("n", range(3, 9))
@pytest.mark.parametrize("difference", [0.0, 0.25, -0.25, 0.75])
def test_constant_differences_are_those_of_all_sign_patterns(n: int, difference: float) -> None:
    found = verdict_of(pairs_of([difference] * n)).tested
    assert found.test == "exact (constant difference)"
    assert found.p == constant_p(difference, n) == p_by_signs([difference] * n)
    # Of two one-sided tests the larger p: that of the patterns of signs whose sum is as far inside the nearer bound.
    inside = 0.5 - abs(difference)
    patterns = list(itertools.product((-1, 1), repeat=n))
    p_tost = (
        sum(sum(s * inside for s in signs) >= n * inside for signs in patterns) / len(patterns) if inside > 0 else 1
    )
    assert found.p_tost == constant_tost(difference, n, 0.5) == p_tost


@few
@given(st.lists(st.integers(-400, 400), min_size=3, max_size=8))
def test_sign_flips_are_those_of_all_sign_patterns(differences: list[int]) -> None:
    frame = pd.DataFrame(
        [
            {"variant": v, "seed": s, "accuracy": (400 + (d if v == "v" else 0)) / 800, "count": 800}
            for v in ("base", "v")
            for s, d in enumerate(differences)
        ]
    )
    flip = judged(frame)["v"].sensitivity.sign_flip
    assert flip is not None
    assert flip.p == p_by_signs(differences)


def holm_rejects(p: Sequence[float], k: int, alpha: Fraction) -> list[bool]:
    """Holm's procedure as he wrote it: from the smallest p on, reject while p <= alpha / (number not yet rejected)."""
    rejected = [False] * len(p)
    for step, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        if Fraction(p[i]) > alpha / (k - step):
            break
        rejected[i] = True
    return rejected


grid = st.sampled_from([Fraction(j, 1024) for j in (*range(1, 70), 128, 256, 512, 1024)])


@settings(max_examples=300, deadline=None)
@given(st.lists(grid, min_size=1, max_size=10), st.integers(0, 4), st.sampled_from([Fraction(1, 16), Fraction(1, 32)]))
def test_holm_is_his_procedure_with_ties_at_alpha(p: list[Fraction], more: int, alpha: Fraction) -> None:
    k = len(p) + more
    adjusted = holm([float(x) for x in p], k)  # exact: small multiples of 2^-10
    assert [x <= alpha for x in adjusted] == holm_rejects([float(x) for x in p], k, alpha)
    assert all(a >= x for a, x in zip(adjusted, p, strict=True))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(1e-9, 1)), min_size=1, max_size=8), st.integers(0, 3))
def test_a_missing_p_counts_as_1(p: list[float | None], more: int) -> None:
    whole = [1.0 if x is None else x for x in p]
    assert holm(p, len(p) + more) == holm(whole + [1.0] * more, len(p) + more)[: len(p)]
    assert benjamini_hochberg(p) == benjamini_hochberg(whole)
    assert all(a == 1 for a, x in zip(holm(p, len(p) + more), p, strict=True) if x is None)


def test_examples_of_a_frame_are_plain_python() -> None:
    frame = pd.DataFrame(
        [
            {"variant": v, "seed": s, "accuracy": 0.5 + s / 50 + (v == "v") * s / 90}
            for v in ("base", "v")
            for s in range(6)
        ]
    )

    def kinds(value: Any) -> set[type]:
        if isinstance(value, dict):
            return set().union(*(kinds(v) for v in value.values()))
        if isinstance(value, list | tuple):
            return set().union(*(kinds(v) for v in value))
        return {type(value)}

    assert kinds(asdict(judged(frame)["v"])) <= {int, float, bool, str, type(None)}
