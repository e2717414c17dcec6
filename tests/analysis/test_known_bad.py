"""What other tools got wrong, one test per row of tests/reference/known_bad_inputs.csv that is about statistics."""

import csv
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import knockout.analysis
from knockout.analysis import compare
from knockout.analysis.inference.pairs import Estimate
from knockout.analysis.report.audit_trail import account
from knockout.analysis.stats.exact import wilcoxon
from knockout.analysis.stats.mcnemar import exact_p, mid_p
from knockout.analysis.stats.multiplicity import benjamini_hochberg, holm
from knockout.analysis.stats.scores import macro_f1
from tests.analysis.frames import BASE, MOVED, sound, strict_json, tidy

KNOWN_BAD = Path(__file__).parents[1] / "reference" / "known_bad_inputs.csv"


def estimate_of(frame: pd.DataFrame, variant: str = "v") -> Estimate:
    found = sound(compare(frame, baseline="base"))[variant].estimate
    assert found is not None
    return found


def test_every_row_about_statistics_is_here() -> None:
    with KNOWN_BAD.open(encoding="utf-8") as file:
        rows = [r["id"] for r in csv.DictReader(file) if r["area"] in ("stats", "report")]
    own = Path(__file__).read_text(encoding="utf-8").lower()
    assert [row for row in rows if f"def test_{row.lower()}_" not in own] == []


def test_b048_balanced_ties_are_no_difference() -> None:
    d = [1] * 15 + [0] * 40 + [-1] * 15
    assert wilcoxon(d).p == 1
    counts = [200 + x for x in d]
    frame = tidy({"base": [0.5] * 70, "v": [c / 400 for c in counts]}, count=400)
    contrast = sound(compare(frame, baseline="base"))["v"]
    assert contrast.sensitivity.wilcoxon is not None
    assert contrast.sensitivity.wilcoxon.p == 1
    assert contrast.p == 1


def test_b049_tied_ranks_are_exact_and_said() -> None:
    found = wilcoxon([1, 1, 2, 3, 4])
    assert (found.p, found.ties) == (0.0625, True)


def test_b051_no_p_is_printed_as_0() -> None:
    assert wilcoxon(range(1, 61)).p == 2.0**-59
    base = [0.5 + s / 1000 for s in range(60)]
    frame = tidy({"base": base, "v": [x + 0.1 + 1e-6 * (s % 3) for s, x in enumerate(base)]})
    found = sound(compare(frame, baseline="base"))
    assert found["v"].p is not None
    assert 0 < found["v"].p < 1e-100
    assert "p < .001 after Holm" in str(found)


@pytest.mark.parametrize("n", [3, 8])
def test_b052_identical_arms(n: int) -> None:
    found = sound(compare(tidy({"base": BASE[:n], "v": BASE[:n]}), baseline="base"))
    contrast = found["v"]
    assert contrast.p == 1
    assert contrast.verdict in ("equivalent", "inconclusive")
    assert contrast.unchanged
    assert "Every pair has the same accuracy: see whether the change has any effect at all." in str(found)


def test_b054_rounding_noise_is_no_difference() -> None:
    noisy = [0.1 + 0.2] * 4 + [0.3] * 4  # .30000000000000004 and .3
    contrast = sound(compare(tidy({"base": [0.3] * 8, "v": noisy}), baseline="base"))["v"]
    assert contrast.p == 1
    assert [x.difference for x in contrast.left_out] == [0.0] * 8
    shifted = sound(compare(tidy({"base": noisy, "v": [x + 0.02 for x in noisy[::-1]]}), baseline="base"))["v"]
    assert shifted.p == 2.0**-7  # a constant difference: the exact p
    many = sound(compare(tidy({"base": [0.1] * 20, "v": [sum([0.01] * 10)] * 20}), baseline="base"))["v"]
    assert (many.p, many.verdict) == (1, "equivalent")


@pytest.mark.parametrize("scale", [2.0**-600, 2.0**-30, 2.0**200])
def test_b055_the_scale_changes_nothing(scale: float) -> None:
    base, variant = [0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 2.0, 1.5, 0.5, 2.5]

    def at(unit: float) -> knockout.analysis.Contrast:
        frame = tidy({"base": [b * unit for b in base], "v": [v * unit for v in variant]}, metric="score")
        return sound(compare(frame, baseline="base", metric="score", margin=0.25 * unit))["v"]

    one, other = at(1.0), at(scale)
    assert one.p == pytest.approx(stats.ttest_1samp(variant, 0).pvalue)
    for name in ("p", "p_holm", "p_tost", "p_tost_holm", "p_sign_flip", "verdict", "label", "direction"):
        assert getattr(other, name) == getattr(one, name), name
    assert one.estimate is not None
    assert other.estimate is not None
    for name in ("t", "d_z", "g_z", "win_rate", "cliffs_delta"):
        assert getattr(other.estimate, name) == pytest.approx(getattr(one.estimate, name), rel=1e-12), name
    for name in ("difference", "low", "high", "sd"):
        assert getattr(other.estimate, name) == pytest.approx(getattr(one.estimate, name) * scale, rel=1e-12), name


def test_b055_two_values_at_every_scale() -> None:
    for unit in (1.0, 2.0**-600):
        contrast = compare(
            tidy({"base": [0.0, 0.0], "v": [unit, 2 * unit]}, metric="score"),
            baseline="base",
            metric="score",
            margin=unit,
        )["v"]
        assert contrast.p is None  # two seeds: nothing is tested, whatever t = 3 would say
        assert contrast.estimate is not None
        assert contrast.estimate.sd == pytest.approx(unit / math.sqrt(2))
        assert contrast.estimate.d_z is None  # one degree of freedom says nothing of a standardised size


@pytest.mark.parametrize("word", ["bca", "bootstrap", "percentile"])
def test_b057_no_bootstrap_interval_is_offered(word: str) -> None:
    assert not [name for name in knockout.analysis.__all__ if word in name.lower()]
    frame = tidy({"base": [0.5] * 35, "v": [0.5] * 35})
    found = sound(compare(frame, baseline="base"))
    assert not [c for c in found.table(all=True) if word in str(c)]
    assert word not in account(found).lower()


def test_b058_an_interval_holds_its_estimate() -> None:
    found = estimate_of(tidy({"base": [0.0] * 100, "v": [x / 100 for x in range(100)]}))
    assert found.low is not None
    assert found.high is not None
    assert found.low < 49.5 < found.high
    assert found.difference == pytest.approx(49.5)


def test_b060_adjusted_p_and_rejection_agree() -> None:
    assert holm([], 0) == ()
    assert benjamini_hochberg([]) == ()
    assert holm([0.05], 1) == (0.05,)
    assert holm([2.0**-6] * 3, 3) == (3 * 2.0**-6,) * 3
    assert holm([0.001, 0.002], 2) == (0.002, 0.002)
    exact = compare(tidy({"base": [0.0] * 5, "v": [0.5] * 5}), baseline="base", alpha=0.0625)["v"]
    assert (exact.p_holm, exact.verdict) == (0.0625, "better")  # p <= alpha, at alpha


def test_b061_the_order_of_rows_pairs_nothing() -> None:
    frame = tidy({"base": BASE, "v": MOVED, "w": BASE[::-1]})
    sorted_rows = sound(compare(frame, baseline="base"))
    for seed in range(3):
        mixed = frame.sample(frac=1, random_state=seed)
        found = sound(compare(mixed, baseline="base", variants=["v", "w"]))
        assert found.sentences() == sorted_rows.sentences()
        pd.testing.assert_frame_equal(found.table(all=True), sorted_rows.table(all=True))


def test_b063_each_name_has_its_own_p() -> None:
    arms = {"IPAH": MOVED, "Norm": BASE[::-1], "APAH": [x - 0.001 * s for s, x in enumerate(BASE)]}
    alone = {v: compare(tidy({"base": BASE, v: x}), baseline="base")[v].p for v, x in arms.items()}
    for order in (["APAH", "IPAH", "Norm"], ["Norm", "APAH", "IPAH"]):
        found = compare(tidy({"base": BASE, **arms}), baseline="base", variants=order)
        table = found.table(all=True)
        assert table["variant"].tolist() == order
        assert table["p"].tolist() == [alone[v] for v in order]
        for name, sentence in zip(order, found.sentences(), strict=True):
            assert sentence.startswith(f"{name} is ")


@pytest.mark.parametrize("word", ["conover", "friedman", "nemenyi", "dunn"])
def test_b064_no_omnibus_and_no_pairwise_rank_test_is_offered(word: str) -> None:
    assert not [name for name in knockout.analysis.__all__ if word in name.lower()]
    found = sound(compare(tidy({"base": BASE, "v": MOVED, "w": BASE[::-1]}), baseline="base"))
    assert word not in account(found).lower()


def test_b066_a_missing_row_is_a_missing_value() -> None:
    frame = tidy({"base": BASE, "v": MOVED})
    explicit = frame.assign(accuracy=frame["accuracy"].where(frame.index != 10))
    implicit = frame.drop(index=10)
    told = frame.assign(status=["missing" if i == 10 else "finished" for i in frame.index])
    found = [sound(compare(f, baseline="base")) for f in (explicit, implicit, told)]
    for other in found[1:]:
        pd.testing.assert_frame_equal(other.table(all=True), found[0].table(all=True))
        assert other.sentences() == found[0].sentences()
    assert "7 of 8 pairs have both results" in found[0].sentences()[0]


def test_b067_a_family_of_one() -> None:
    contrast = compare(tidy({"base": BASE, "v": MOVED}), baseline="base")["v"]
    assert contrast.p_holm == contrast.p
    assert contrast.p_tost_holm == contrast.p_tost


def test_b069_pairs_do_not_slip() -> None:
    frame = tidy({"base": [0.8, 0.81, math.nan, 0.9], "v": [0.9, math.nan, 0.92, 0.95]})
    found = sound(compare(frame, baseline="base"))
    assert [p.state for p in found["v"].pairs] == ["complete", "missing", "missing", "complete"]
    estimate = found["v"].estimate
    assert estimate is not None
    assert estimate.n == 2
    assert estimate.difference == pytest.approx(7.5)
    failed = estimate_of(frame.assign(status="finished"))
    assert failed.n == 2
    assert failed.difference == pytest.approx(7.5)


def test_b069_nor_in_a_secondary_metric() -> None:
    frame = tidy({"base": [0.8, 0.8, 0.8, 0.8], "v": [0.9, 0.9, 0.9, 0.9]})
    frame["f1"] = [0.8, 0.81, math.nan, 0.9, 0.9, math.nan, 0.92, 0.95]
    found = compare(frame, baseline="base", secondary=["f1"]).secondary[0]
    assert found.estimate is not None
    assert found.estimate.n == 2
    assert found.estimate.difference == pytest.approx(7.5)


def test_b070_a_switch_without_effect() -> None:
    rights = [np.arange(40) < 30 + s for s in range(3)]
    frame = pd.DataFrame([{"variant": v, "seed": s, "correct": rights[s]} for v in ("base", "v") for s in range(3)])
    found = sound(compare(frame, baseline="base"))
    assert found["v"].identical
    assert "Both runs of every pair are right on the same test examples: the change may have no effect." in str(found)


def test_b072_the_sd_is_that_of_a_sample() -> None:
    frame = tidy({"base": [0.0] * 4, "v": [1.0, 3.0, 3.0, 7.0]}, metric="score")
    contrast = sound(compare(frame, baseline="base", metric="score", margin=1.0))["v"]
    assert contrast.arm.sd == pytest.approx(2.516611478)
    assert contrast.estimate is not None
    assert contrast.estimate.sd == pytest.approx(2.516611478)


def test_b073_seeds_are_rows_and_examples_columns() -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        [{"variant": v, "seed": s, "correct": rng.random(200) < 0.7} for v in ("base", "v") for s in range(5)]
    )
    two = sound(compare(frame, baseline="base"))["v"].two_source
    assert two is not None
    assert (two.seeds, two.examples) == (5, 200)


@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("metric", ["score", "loss"])
def test_b075_the_better_one_is_named_in_both_orders(first: str, metric: str) -> None:
    arms = {"a": BASE, "b": MOVED}  # b has the larger values
    rows = {first: arms[first], **arms}
    frame = tidy(rows, metric=metric)
    larger = "better" if metric == "score" else "worse"
    smaller = "worse" if metric == "score" else "better"
    for base, other, word, sign in (("a", "b", larger, "+"), ("b", "a", smaller, "−")):
        found = sound(compare(frame, baseline=base, metric=metric, margin=0.001))
        assert found.sentences()[0].startswith(f"{other} is {word} than the baseline: {sign}")
        assert found[other].direction == (1 if word == "better" else -1)


@pytest.mark.parametrize("metric", ["score", "loss"])
def test_b076_effects_are_against_the_declared_baseline(metric: str) -> None:
    frame = tidy({"best": [x + 0.1 for x in MOVED], "base": MOVED, "worst": BASE}, metric=metric)
    found = sound(compare(frame, baseline="base", metric=metric, margin=0.001))
    signs = {c.variant: math.copysign(1, c.estimate.difference) for c in found.contrasts if c.estimate is not None}
    assert signs == {"best": 1.0, "worst": -1.0}  # variant minus baseline, whichever way is better
    told = {c.variant: c.verdict for c in found.contrasts}
    assert told == ({"best": "better", "worst": "worse"} if metric == "score" else {"best": "worse", "worst": "better"})


def test_b078_practically_equal_is_never_told_as_relevant() -> None:
    found = sound(compare(tidy({"base": BASE, "v": MOVED}), baseline="base", margin=100.0))
    assert found["v"].verdict == "trivial"
    assert "which is shown to be less than the margin of 100 points" in str(found)
    equal = sound(compare(tidy({"base": BASE, "v": BASE[::-1]}), baseline="base", margin=100.0))
    assert equal.sentences()[0].startswith("v is equivalent to the baseline within ±100 points")


def test_b079_one_rank_biserial_for_all() -> None:
    found = sound(compare(tidy({"base": BASE, "v": MOVED, "w": [x - 0.01 for x in MOVED]}), baseline="base"))
    for name, told in zip(found.variants, found.table(all=True)["rank_biserial"], strict=True):
        beside = found[name].sensitivity.wilcoxon
        assert beside is not None
        assert told == beside.rank_biserial
        assert -1 <= told <= 1
    assert wilcoxon([1, -1, 2, -2, 0]).rank_biserial == 0
    assert wilcoxon([1, 2, 3]).rank_biserial == 1


@pytest.mark.parametrize("n", [3, 4, 5])
def test_b081_that_no_exact_test_could_decide_is_said(n: int) -> None:
    found = sound(
        compare(tidy({"base": BASE[:n], "v": [x + 0.1 + 0.01 * s for s, x in enumerate(BASE[:n])]}), baseline="base")
    )
    assert found["v"].floor == float(Fraction(1, 2 ** (n - 1)))
    assert found["v"].sensitivity.sign_flip is not None
    assert found["v"].sensitivity.sign_flip.p == found["v"].floor
    assert (
        f"Normal theory only: at {n} seeds and 1 contrast no exact test could confirm this (that needs 6 seeds)."
        in str(found)
    )
    failed = sound(compare(tidy({"base": BASE[:n], "v": ["diverged"] * n}), baseline="base"))
    assert f"the smallest p of the worst-rank test at {n} seeds ({found['v'].floor:.3g}) is over 0.05" in str(failed)


def test_b111_an_absent_class_is_left_out_and_told() -> None:
    found = macro_f1([0, 0], [0, 0], classes=2)
    assert (found.value, found.absent) == (1.0, (1,))


def test_b112_scores_are_over_all_rows() -> None:
    label, predicted = [0, 1, 0, 1, 0, 1, 0, 1, 1], [0, 1, 0, 1, 0, 1, 0, 1, 0]
    whole = macro_f1(label, predicted, classes=2).value
    assert whole == pytest.approx((2 * 4 / 9 + 2 * 4 / 9) / 2)


def test_b127_a_name_ends_no_script() -> None:
    name = "</script><script>alert(1)</script>"
    text = account(sound(compare(tidy({"base": BASE, name: MOVED}), baseline="base")))
    assert "<" not in text
    assert "\\u003c/script>" in text
    assert strict_json(text)["verdicts"][0]["variant"] == name


def test_no_p_of_mcnemar_is_0() -> None:
    assert mid_p(2000, 0) > 0
    assert exact_p(2000, 0) > 0
