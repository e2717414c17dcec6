import dataclasses
import math
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from knockout.analysis.inference.contrasts import Contrast, contrasts
from knockout.analysis.inference.family import family_of
from knockout.analysis.inference.pairs import rows_of
from knockout.analysis.stats.metric import counted
from knockout.analysis.stats.multiplicity import benjamini_hochberg, holm
from knockout.study import Plan

Reference = Callable[[str], dict[str, Any]]
Cell = int | str
"""A count of correct predictions, a status, or "dead"."""

TOY = "ablation_toy_6seeds_4variants"


def frame(correct: Mapping[str, Sequence[Cell]], *, count: int = 10_000) -> pd.DataFrame:
    rows = []
    for variant, cells in correct.items():
        for seed, cell in enumerate(cells):
            finished = isinstance(cell, int) or cell == "dead"
            rows.append(
                {
                    "variant": variant,
                    "seed": seed,
                    "status": "finished" if finished else cell,
                    "failed": cell in ("dead", "diverged"),
                    "value": (cell if isinstance(cell, int) else count // 2) if finished else None,
                }
            )
    return pd.DataFrame(rows).astype({"value": "Int64"})


def judged(correct: Mapping[str, Sequence[Cell]], *, count: int = 10_000, plan: Plan | None = None) -> list[Contrast]:
    n = len(next(iter(correct.values())))
    variants = [v for v in correct if v != "base"]
    return contrasts_of(frame(correct, count=count), variants, n=n, count=count, plan=plan)


def contrasts_of(
    runs: pd.DataFrame, variants: Sequence[str], *, n: int, count: int = 10_000, plan: Plan | None = None, size: int = 0
) -> list[Contrast]:
    rows = rows_of(runs)
    family = family_of(
        rows,
        metric=counted("accuracy", examples=count),
        plan=plan or Plan(),
        baseline="base",
        variants=variants,
        seeds=range(n),
        size=size,
    )
    return contrasts(family, rows)


def one(variant: Sequence[Cell], base: Sequence[Cell], *, count: int = 10_000, plan: Plan | None = None) -> Contrast:
    return judged({"base": base, "v": variant}, count=count, plan=plan)[0]


def test_the_toy_agrees_with_r(reference: Reference) -> None:
    entry = reference(TOY)
    given_, expected = entry["inputs"], entry["expected"]
    found = judged(given_["accuracy_x10000"])
    assert [c.variant for c in found] == given_["order"]

    def close(name: str) -> Any:
        return pytest.approx(expected[name], rel=entry["tolerance"]["rtol"])

    for c in found:
        assert c.estimate is not None
        assert c.estimate.t == close(f"{c.variant}_t")
        assert c.p == close(f"{c.variant}_p")
        assert c.p_sign_flip == close(f"{c.variant}_signflip_mean")
        assert c.sensitivity.wilcoxon is not None
        assert c.sensitivity.wilcoxon.p == close(f"{c.variant}_wilcoxon_exact")
    assert [c.sensitivity.max_t for c in found] == close("maxT_signflip")
    assert benjamini_hochberg([c.p for c in found]) == close("bh")
    estimates = [c.estimate for c in found if c.estimate is not None]
    assert [e.d_z for e in estimates] == close("dz")
    assert [e.g_z for e in estimates] == close("gz")
    assert [e.correlation for e in estimates] == close("pair_corr")
    assert [e.p_welch for e in estimates] == close("unpaired_welch_p")
    assert [c.p_holm for c in found] == close("holm")
    assert [c.p_tost for c in found] == close("tost_pm_0.005_max_p")
    assert [c.verdict for c in found] == ["worse", "equivalent", "equivalent", "inconclusive"]
    assert found[0].sensitivity.disagree == (
        "sign-flip",
        "Wilcoxon",
    )  # .03125 * 4 is over alpha: six seeds are too few for an exact test
    assert found[0].normal_theory_only


def test_intervals_have_the_reference_width(reference: Reference) -> None:
    entry = reference("t_halfwidth_factor")
    for n, factor in zip(entry["inputs"]["n"], entry["expected"]["ci95"], strict=True):
        estimate = one([5000 + i * i for i in range(n)], [5000] * n).estimate
        assert estimate is not None
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.sd is not None
        assert (estimate.high - estimate.low) / 2 == pytest.approx(factor * estimate.sd, rel=1e-9)
        assert (estimate.high + estimate.low) / 2 == pytest.approx(estimate.difference)


def test_corrections_keep_the_input_order_and_the_family(reference: Reference) -> None:
    entry = reference("correction_order_unsorted4")
    p, expected = entry["inputs"]["p"], entry["expected"]
    assert list(holm(p, 4)) == pytest.approx(expected["holm"]) == list(multipletests(p, method="holm")[1])
    assert list(benjamini_hochberg(p)) == pytest.approx(expected["bh"])
    found = judged(
        {"base": [8000] * 5, "a": [8003, 8001, 8002, 8005, 7999], "b": [8100, 8101, 8109, 8101, 8102], "c": [8000] * 5}
    )
    raw = [1.0 if c.p is None else c.p for c in found]
    smallest = min(range(3), key=lambda i: raw[i])
    assert smallest == 1
    assert found[1].p_holm == pytest.approx(3 * raw[1])


def test_a_missing_p_counts_as_one_and_keeps_the_family(reference: Reference) -> None:
    expected = reference("correction_with_missing")["expected"]
    for found, name in (
        (holm([0.01, None, 0.04], 3), "holm_family_of_3"),
        (benjamini_hochberg([0.01, None, 0.04]), "bh_family_of_3"),
    ):
        assert (found[0], found[2]) == pytest.approx((expected[name][0], expected[name][2]))
        assert found[1] == 1.0
    whole: dict[str, list[Cell]] = {
        "base": [8000, 8010, 7990, 8005],
        "a": [8050, 8061, 8043, 8049],
        "b": [8000, 8001, "crashed", 8002],
    }
    a, b = judged(whole)
    assert b.p is None
    assert b.p_holm == 1.0
    assert a.p is not None
    assert a.p_holm == pytest.approx(2 * a.p)
    alone = contrasts_of(frame(whole), ["a"], n=4, size=3)[0]
    assert alone.family == 3
    assert alone.p_holm == pytest.approx(3 * a.p)


BASE = [8000, 8020, 7990, 8010, 8005, 7995, 8015, 8000]


@pytest.mark.parametrize(
    ("variant", "base", "verdict", "test"),
    [
        ([8500], [8000], "undecidable by design", "none"),
        ([8500, 8510], [8000, 8005], "undecidable by design", "none"),
        (["diverged", "diverged"], [8000, 8005], "undecidable by design", "none"),
        ([9000, "crashed", 9010, 9005], [8000, 8001, 8002, 8003], "inconclusive (incomplete: 3 of 4)", "none"),
        ([9000, 9005, 9010, 9005], [8000, "missing", 8002, "killed"], "inconclusive (incomplete: 2 of 4)", "none"),
        (["diverged", "diverged", "dead", *(b - 90 for b in BASE[3:])], BASE, "worse", "worst_rank"),
        ([b + 3 for b in BASE], ["diverged", "dead", *BASE[2:]], "better", "worst_rank"),
        (["diverged", *(b + 3 for b in BASE[1:])], BASE, "inconclusive", "worst_rank"),
        (["diverged", 7900, 7900, 7900], [8000] * 4, "undecidable by design", "worst_rank"),
        ([b + 3 + i % 2 for i, b in enumerate(BASE)], BASE, "trivial", "t"),
        ([b + 90 + i for i, b in enumerate(BASE)], BASE, "better", "t"),
        ([b - 90 - i for i, b in enumerate(BASE)], BASE, "worse", "t"),
        ([b + (7 if i % 2 else -7) for i, b in enumerate(BASE)], BASE, "equivalent", "t"),
        ([b + (300 if i % 2 else -300) for i, b in enumerate(BASE)], BASE, "inconclusive", "t"),
        (list(BASE), BASE, "equivalent", "exact (constant difference)"),
        ([b + 3 for b in BASE], BASE, "trivial", "exact (constant difference)"),
        ([b - 300 for b in BASE], BASE, "worse", "exact (constant difference)"),
        ([8300] * 3, [8000] * 3, "inconclusive", "exact (constant difference)"),
    ],
)
def test_every_line_of_the_verdict_rule(variant: list[Cell], base: list[Cell], verdict: str, test: str) -> None:
    contrast = one(variant, base)
    assert (contrast.label, contrast.test) == (verdict, test)
    assert contrast.reason


def test_no_spread_gives_exact_p_and_never_infinite_t(reference: Reference) -> None:
    assert "p=1" in reference("degenerate_identical_runs")["expected"]["recommended"]
    same = one([8000] * 5, [8000] * 5)
    assert (same.p, same.p_tost, same.p_sign_flip) == (1.0, 2.0**-5, 1.0)
    assert same.estimate is not None
    assert (same.estimate.t, same.estimate.d_z, same.estimate.difference) == (None, None, 0.0)
    assert (same.estimate.low, same.estimate.high) == (None, None)  # an interval of no width is none
    assert "p=.25" in reference("degenerate_constant_difference")["expected"]["recommended"]
    constant = one([8010] * 3, [8000] * 3)
    assert (constant.p, constant.p_sign_flip, constant.p_tost) == (0.25, 0.25, 0.125)
    assert one([8050] * 8, [8000] * 8).p_tost == 1.0  # just the margin is not under it
    assert one([8049] * 8, [8000] * 8).p_tost == 2.0**-8


def test_a_failure_is_never_trivial_or_equivalent_and_is_counted_once() -> None:
    contrast = one(["dead", *BASE[1:]], BASE)
    assert contrast.verdict == "inconclusive"
    assert contrast.p_tost is None
    assert contrast.p_tost_holm == 1.0
    assert (contrast.arm.failures, contrast.failures, contrast.counts.failed_variant_only) == (1, 1, 1)
    assert contrast.estimate is not None
    assert contrast.estimate.n == 7  # given that neither run failed
    assert contrast.n_pairs == 8
    low, high = contrast.arm.rate_low, contrast.arm.rate_high
    z = stats.norm.ppf(0.975)
    centre, half = (1 / 8 + z * z / 16) / (1 + z * z / 8), z * math.sqrt(7 / 64 / 8 + z * z / 256) / (1 + z * z / 8)
    assert (low, high) == pytest.approx((centre - half, centre + half))  # Wilson 1927


def test_both_failed_is_no_difference() -> None:
    contrast = one(["diverged", *BASE[1:]], ["diverged", *BASE[1:]])
    assert contrast.p == 1.0
    assert contrast.p_failures == 1.0
    assert contrast.failures == 2


def test_the_failure_of_one_variant_leaves_the_others_alone() -> None:
    a = [b + 90 + i for i, b in enumerate(BASE)]
    with_failure = judged({"base": BASE, "a": a, "b": ["diverged", *BASE[1:]]})[0]
    without = judged({"base": BASE, "a": a, "b": BASE})[0]
    assert with_failure.estimate == without.estimate
    assert with_failure.p == without.p
    assert with_failure.family == without.family == 2


def test_the_floor_of_a_worst_rank_contrast_depends_on_the_smaller_p() -> None:
    """(K - number of smaller p) * 2^(1-n) > alpha: six seeds decide alone, and as the last of the family."""
    six = BASE[:6]
    failing: list[Cell] = ["diverged", *(b + 5 for b in six[1:])]
    clear, unclear = [b + 90 + i for i, b in enumerate(six)], [b + (300 if i % 2 else -300) for i, b in enumerate(six)]
    assert one(failing, six).verdict == "inconclusive"
    assert judged({"base": six, "v": failing, "other": clear})[0].verdict == "inconclusive"
    assert judged({"base": six, "v": failing, "other": unclear})[0].verdict == "undecidable by design"


def test_normal_theory_only_ends_at_the_exact_floor() -> None:
    assert one([8090, 8091, 8093], [8000] * 3).normal_theory_only
    assert one([b + 90 + i for i, b in enumerate(BASE[:6])], BASE[:6]).normal_theory_only is False
    two = judged({"base": BASE[:6], "a": [b + 9 + i for i, b in enumerate(BASE[:6])], "b": BASE[:6]})
    assert [c.normal_theory_only for c in two] == [True, False]  # the exact test of a constant difference needs no t


def test_detectable_effect_and_seeds_come_from_the_sd_and_never_from_the_difference() -> None:
    near = one([b + (60 if i % 2 else -60) for i, b in enumerate(BASE)], BASE)
    far = one([b + 500 + (60 if i % 2 else -60) for i, b in enumerate(BASE)], BASE)
    assert near.needs is not None
    assert far.needs is not None
    assert dataclasses.astuple(near.needs) == pytest.approx(dataclasses.astuple(far.needs))
    assert near.estimate is not None
    assert near.estimate.sd is not None
    assert near.needs.detectable == pytest.approx(1.15604 * near.estimate.sd, rel=1e-4)


def test_identical_needs_equal_predictions_in_every_pair() -> None:
    runs = frame({"base": BASE, "v": BASE})
    runs["predictions_sha256"] = "same"
    found = contrasts_of(runs, ["v"], n=8)[0]
    assert found.identical
    assert found.verdict == "equivalent"
    runs.loc[0, "predictions_sha256"] = "other"
    assert not contrasts_of(runs, ["v"], n=8)[0].identical
    assert not one(list(BASE), BASE).identical  # unknown is not identical


def test_bad_frames_are_refused() -> None:
    runs = frame({"base": [1, 2, 3], "v": [1, 2, 3]})
    with pytest.raises(ValueError, match="run twice: base with seed 0"):
        rows_of(pd.concat([runs, runs.head(1)]))


def test_any_text_is_a_name() -> None:
    names = ["NA", "None", "007", "<b>", "nan", ""]
    found = judged({"base": BASE, **dict.fromkeys(names, BASE)})
    assert [c.variant for c in found] == names


cells = st.one_of(st.integers(7960, 8040), st.just("diverged"), st.just("dead"))
arms = st.integers(3, 9).flatmap(
    lambda n: st.tuples(st.lists(cells, min_size=n, max_size=n), st.lists(cells, min_size=n, max_size=n))
)
FEW = settings(max_examples=30, deadline=None)


def nearly(a: object, b: object) -> bool:
    return a == (pytest.approx(b, rel=1e-7, abs=1e-12) if isinstance(b, float) else b)


@FEW
@given(arms)
def test_swapping_the_arms_turns_the_sign_and_nothing_else(both: tuple[list[Cell], list[Cell]]) -> None:
    forth, back = one(both[0], both[1]), one(both[1], both[0])
    for name in ("p", "p_holm", "p_tost", "p_sign_flip", "p_failures"):
        assert nearly(getattr(forth, name), getattr(back, name))
    assert forth.direction == -back.direction
    turned = {"better": "worse", "worse": "better"}
    assert turned.get(forth.verdict, forth.verdict) == back.verdict
    if forth.estimate is not None and back.estimate is not None:
        assert forth.estimate.difference == pytest.approx(-back.estimate.difference)
        assert forth.estimate.win_rate == pytest.approx(1 - back.estimate.win_rate)


@FEW
@given(arms, st.integers(-900, 900), st.integers(2, 7))
def test_shifting_and_scaling_keep_every_p(both: tuple[list[Cell], list[Cell]], shift: int, scale: int) -> None:
    def moved(arm: list[Cell]) -> list[Cell]:
        return [(c + shift) * scale if isinstance(c, int) else c for c in arm]

    plain, other = one(*both), one(moved(both[0]), moved(both[1]), count=10_000 * scale)
    for name in ("p", "p_tost", "p_sign_flip", "test", "verdict", "direction"):
        assert nearly(getattr(plain, name), getattr(other, name))


@FEW
@given(arms, st.lists(st.integers(7000, 9000), min_size=9, max_size=9))
def test_another_variant_changes_only_what_is_corrected(both: tuple[list[Cell], list[Cell]], other: list[int]) -> None:
    n = len(both[0])
    alone = one(*both)
    beside = judged({"base": both[1], "v": both[0], "other": other[:n]})[0]
    for name in ("estimate", "p", "p_tost", "p_sign_flip", "test", "floor", "arm", "p_failures", "direction"):
        assert getattr(alone, name) == getattr(beside, name)
    assert beside.p_holm >= alone.p_holm


@FEW
@given(arms, st.randoms(use_true_random=False))
def test_the_order_of_rows_is_nothing(both: tuple[list[Cell], list[Cell]], random: Any) -> None:
    runs = frame({"base": both[1], "v": both[0]})
    order = list(range(len(runs)))
    random.shuffle(order)
    shuffled = runs.iloc[order].reset_index(drop=True)
    n = len(both[0])
    first, second = (contrasts_of(r, ["v"], n=n) for r in (runs, shuffled))
    assert [dataclasses.asdict(c) for c in first] == [dataclasses.asdict(c) for c in second]


def test_importing_contrasts_stays_light() -> None:
    code = (
        "import sys, knockout.analysis.inference.contrasts, knockout.analysis.report.write;"
        " print([m for m in {} if m in sys.modules])"
    )
    heavy = ["matplotlib", "torch", "optuna", "datasets"]
    told = subprocess.run([sys.executable, "-c", code.format(heavy)], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
