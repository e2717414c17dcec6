import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from knockout.analysis import Comparison, FrameError, Plan, compare, compare_unpaired
from tests.analysis.frames import BASE, MOVED, Cell, sound, tidy

INF, NAN = math.inf, math.nan


def one(variant: list[Cell], base: list[Cell] | list[float] = BASE, **more: Any) -> Comparison:
    return sound(compare(tidy({"base": base[: len(variant)], "v": variant}, **more), baseline="base"))


def correct(shares: dict[str, float], *, seeds: int = 6, texts: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        [
            {"variant": v, "seed": s, "correct": rng.random(texts) < share}
            for v, share in shares.items()
            for s in range(seeds)
        ]
    )


def refused(frame: object, text: str, **arguments: Any) -> None:
    with pytest.raises(FrameError) as raised:
        compare(frame, **{"baseline": "base", **arguments})  # type: ignore[arg-type]  # what a user might hand over
    assert text in str(raised.value)


def test_a_difference() -> None:
    found = one([*MOVED])
    contrast = found["v"]
    by_scipy = stats.ttest_rel(MOVED, BASE)
    assert contrast.p == pytest.approx(by_scipy.pvalue, rel=1e-9)
    assert contrast.p_holm == contrast.p
    assert contrast.estimate is not None
    assert contrast.estimate.difference == pytest.approx(2.5)  # points
    interval = by_scipy.confidence_interval()
    assert contrast.estimate.low == pytest.approx(100 * interval.low)
    assert contrast.estimate.high == pytest.approx(100 * interval.high)
    assert contrast.verdict == "better"
    assert found.sentences()[0].startswith(
        "v is better than the baseline: +2.50 points [95 % confidence interval +1.50 to +3.50]"
    )


def test_what_a_comparison_gives_by_name() -> None:
    found = compare(tidy({"base": BASE, "b": MOVED, "a": BASE}), baseline="base")
    assert found.variants == ("b", "a")
    assert found.seeds == tuple(range(8))
    with pytest.raises(KeyError):
        found["c"]


NO_RESULT = "There is no accuracy in row 9 and no column status: counted as missing."
BAD_VALUES: dict[str, tuple[list[Cell], list[Cell], str, str]] = {
    "NaN without statuses": ([0.83, NAN, *MOVED[2:]], [*BASE], "inconclusive (incomplete: 7 of 8)", NO_RESULT),
    "infinite without statuses": (
        [0.83, INF, *MOVED[2:]],
        [*BASE],
        "inconclusive",
        "accuracy is infinite in row 9: counted as diverged, which is a failure.",
    ),
    "minus infinity": ([0.83, -INF, *MOVED[2:]], [*BASE], "inconclusive", "accuracy is infinite in row 9"),
    "one seed": ([0.83], [0.8], "undecidable by design", "no inference over seeds from fewer than 3"),
    "two seeds": ([0.83, 0.9], [0.8, 0.81], "undecidable by design", "2 seeds: no inference over seeds"),
    "two seeds, one difference": ([0.83, 0.83], [0.8, 0.8], "undecidable by design", "2 seeds"),
    "identical arms": ([*BASE], [*BASE], "equivalent", "see whether the change has any effect at all"),
    "identical arms, three seeds": ([*BASE[:3]], [*BASE[:3]], "inconclusive", "has any effect at all"),
    "constant difference": ([x + 0.02 for x in BASE], [*BASE], "better", "exact test of a constant difference"),
    "constant difference, five seeds": (
        [x + 0.02 for x in BASE[:5]],
        [*BASE[:5]],
        "inconclusive",
        "(exact test of a constant difference, p = .062",
    ),
    "constant arms": ([0.5] * 8, [0.4] * 8, "better", "exact test of a constant difference, p = .008"),
    "variant failed": (["diverged"] * 8, [*BASE], "worse", "8 of 8 of its runs failed, 0 of 8 of the baseline's"),
    "baseline failed": ([*MOVED], ["diverged"] * 8, "better", "In no pair did both runs finish without failing."),
    "both failed": (["diverged"] * 8, ["diverged"] * 8, "inconclusive", "8 of 8 of its runs failed, 8 of 8"),
    "all dead at three seeds": (["dead"] * 3, [*BASE[:3]], "undecidable by design", "smallest p of the worst-rank"),
    "all crashed": (["crashed"] * 4, [*BASE[:4]], "inconclusive (incomplete: 0 of 4)", "nothing is tested until all"),
    "nothing at all": (["missing"] * 4, ["killed"] * 4, "inconclusive (incomplete: 0 of 4)", "0 of 4 pairs"),
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_bad_values_have_a_stated_outcome(name: str) -> None:
    variant, base, label, text = BAD_VALUES[name]
    found = one(variant, base)
    assert found["v"].label == label
    assert text in str(found)


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_a_finished_run_without_a_finite_value_has_diverged(value: float) -> None:
    frame = tidy({"base": BASE, "v": [0.83, value, *MOVED[2:]]}).assign(status="finished")
    found = sound(compare(frame, baseline="base"))
    assert (found["v"].counts.failed_variant_only, found["v"].test) == (1, "worst_rank")
    assert found.notes == ("accuracy is no finite number in row 9: counted as diverged, which is a failure.",)


def test_no_seed_in_common() -> None:
    frame = tidy({"base": BASE, "v": MOVED})
    frame.loc[frame["variant"] == "v", "seed"] += 100
    found = sound(compare(frame, baseline="base"))
    assert found["v"].label == "inconclusive (incomplete: 0 of 16)"
    assert found["v"].estimate is None
    assert found.notes == ('"v" has no seed in common with the baseline: nothing of it can be paired.',)


@pytest.mark.parametrize(
    "name", ["NA", "None", "nan", "007", "<b>", "=1+1", "a,b", "</script>", "v\nw", " v", "ä", "v " * 99]
)
def test_any_text_is_a_name(name: str) -> None:
    found = sound(compare(tidy({"base": BASE, name: MOVED}), baseline="base"))
    assert found.variants == (name,)
    assert found.table(all=True)["variant"].tolist() == [name]
    assert found[name].p == one([*MOVED])["v"].p
    turned = sound(compare(tidy({name: BASE, "v": MOVED}), baseline=name))
    assert turned["v"].p == found[name].p


def plain() -> pd.DataFrame:
    return tidy({"base": BASE, "v": MOVED})


def with_cell(column: str, row: int, value: object) -> Callable[[], pd.DataFrame]:
    def make() -> pd.DataFrame:
        frame = plain()
        cells = frame[column].astype(object).tolist() if column in frame else ["finished"] * len(frame)
        cells[row] = value
        return frame.assign(**{column: pd.Series(cells, dtype=object)})

    return make


REFUSED: dict[str, tuple[Callable[[], object], dict[str, Any], str]] = {
    "no frame": (lambda: [1], {}, "a pandas DataFrame is needed, one row per run, got list"),
    "empty": (pd.DataFrame, {}, "the frame has no columns and no rows"),
    "no rows": (lambda: plain().iloc[:0], {}, "the frame has no rows: one row per run is needed"),
    "only the baseline": (lambda: tidy({"base": BASE}), {}, 'all runs are of the baseline "base"'),
    "no such baseline": (plain, {"baseline": "bas"}, 'no run of the baseline "bas"; variant has base, v; did you mean'),
    "baseline None": (plain, {"baseline": None}, "no run of the baseline"),
    "column missing": (
        lambda: plain().rename(columns={"accuracy": "acuracy"}),
        {},
        'no column "accuracy"; the frame has variant, seed, acuracy; did you mean "acuracy"?',
    ),
    "column of variants missing": (plain, {"variant": "varient"}, 'did you mean "variant"?'),
    "column of statuses named and missing": (plain, {"status": "state"}, 'no column "state"'),
    "column of counts named and missing": (plain, {"count": "texts"}, 'no column "texts"'),
    "two columns of one name": (
        lambda: pd.concat([plain(), plain()[["accuracy"]]], axis=1),
        {},
        "the frame has two columns of one name: accuracy",
    ),
    "a number for a column": (lambda: plain().rename(columns={"seed": 0}), {"seed": "0"}, "a column is called 0"),
    "strings": (
        lambda: plain().astype({"accuracy": str}),
        {},
        'row 0: accuracy is "0.8", which is text: a column of numbers is needed (pandas.to_numeric makes one',
    ),
    "one string": (with_cell("accuracy", 3, "n/a"), {}, 'row 3: accuracy is "n/a", which is text'),
    "booleans": (lambda: plain().assign(accuracy=True), {}, "row 0: accuracy is true, which is bool"),
    "complex": (lambda: plain().assign(accuracy=1j), {}, "which is complex"),
    "no name": (with_cell("variant", 9, None), {}, "row 9 has no variant; a variant that is called"),
    "NaN for a name": (with_cell("variant", 9, NAN), {}, "row 9 has no variant"),
    "NA for a name": (with_cell("variant", 9, pd.NA), {}, "row 9 has no variant"),
    "empty name": (with_cell("variant", 9, " "), {}, "row 9: variant is empty"),
    "a number for a name": (with_cell("variant", 9, 7), {}, "names are text: convert the column with astype(str)"),
    "mixed seeds": (with_cell("seed", 9, "1"), {}, 'seed holds numbers and texts; 7 and "7" would not pair'),
    "half a seed": (with_cell("seed", 9, 1.5), {}, "row 9: seed is 1.5; a seed is a whole number or a text"),
    "a boolean seed": (with_cell("seed", 9, True), {}, "row 9: seed is True"),
    "no seed": (with_cell("seed", 9, None), {}, "row 9: seed is None"),
    "duplicate": (with_cell("seed", 9, 0), {}, 'rows 8 and 9 are both variant "v" with seed 0: a run may stand once'),
    "duplicate as a float": (with_cell("seed", 9, 0.0), {}, "rows 8 and 9 are both"),
    "unknown status": (
        with_cell("status", 2, "finishd"),
        {},
        'missing is needed; did you mean "finished"?',
    ),
    "no status": (with_cell("status", 2, None), {}, "row 2: status is null"),
    "counts differ": (
        lambda: plain().assign(count=[400] * 8 + [300] * 8),
        {},
        "runs saw test sets of different size (300, 400): their values cannot be compared",
    ),
    "counts differ, raw metric": (
        lambda: plain().assign(loss=1.0, count=[400] * 8 + [300] * 8),
        {"metric": "loss", "margin": 0.1},
        "runs saw test sets of different size (300, 400)",
    ),
    "half a count": (lambda: plain().assign(count=400.5), {}, "row 0: count is 400.5"),
    "percent": (
        lambda: plain().assign(accuracy=80.0),
        {},
        'accuracy has 80, and a share lies between 0 and 1: say unit="percent" (--unit percent), or unit="raw"',
    ),
    "under 0": (lambda: plain().assign(accuracy=-0.5), {}, "a share lies between 0 and 1"),
    "beyond percent": (lambda: plain().assign(accuracy=101.0), {"unit": "percent"}, "a percent lies between 0 and 100"),
    "beyond floats": (
        lambda: plain().assign(loss=1e200),
        {"metric": "loss", "margin": 1.0},
        "row 0: loss is 1e+200, too large for its powers",
    ),
    "raw without a margin": (
        lambda: plain().assign(loss=1.0),
        {"metric": "loss"},
        "a margin is needed for loss: the largest difference that does not matter, in its own unit",
    ),
    "unknown unit": (plain, {"unit": "points"}, 'unit must be "share", "percent" or "raw", got \'points\''),
    "unknown direction": (plain, {"better": "more"}, 'better must be "higher" or "lower"'),
    "unknown e-process": (plain, {"anytime": "e"}, 'anytime must be "sign", "t" or None, got \'e\''),
    "unknown variant": (plain, {"variants": ["w"]}, 'no run of "w"; there are v'),
    "variants as a text": (plain, {"variants": "v"}, "variants must be a list"),
    "baseline among the variants": (plain, {"variants": ["base"]}, "variants must be a list of different names"),
    "no variants": (plain, {"variants": []}, "variants must be a list"),
    "secondary as a text": (plain, {"secondary": "loss"}, 'secondary must be a list of columns, got the text "loss"'),
    "factors as a text": (plain, {"factors": "lr"}, "factors must be a list of columns"),
    "secondary missing": (plain, {"secondary": ["loss"]}, 'no column "loss"'),
    "an unchecked plan": (plain, {"plan": Plan(alpha=7.0)}, "plan.alpha is 7.0; allowed: a number < 0.5"),
    "no level": (lambda: plain().assign(lr=NAN), {"factors": ["lr"]}, "row 0: lr is nan; a level is a text, a number"),
    "two levels": (
        lambda: plain().assign(lr=range(16)),
        {"factors": ["lr"]},
        'row 1: "base" has lr 1, and 0 in another row',
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_compared_is_refused_with_the_way_on(name: str) -> None:
    make, arguments, text = REFUSED[name]
    refused(make(), text, **arguments)


@pytest.mark.parametrize("margin", [0, -1, NAN, INF, "1", True])
def test_margins_out_of_range(margin: object) -> None:
    refused(plain(), f"margin must be a number above 0, got {margin!r}", margin=margin)
    refused(plain().assign(loss=1.0), "margin must be a number above 0", metric="loss", margin=margin)


@pytest.mark.parametrize("alpha", [0, 0.5, 1, -0.1, NAN, INF, "x", True])
def test_alphas_out_of_range(alpha: object) -> None:
    refused(plain(), f"alpha must lie between 0 and .5, got {alpha!r}", alpha=alpha)


def test_correctness_of_different_test_sets() -> None:
    frame = correct({"base": 0.8, "v": 0.7})
    arrays = frame["correct"].tolist()
    frame["correct"] = [*arrays[:7], arrays[7][:-1], *arrays[8:]]
    refused(frame, "rows 0 and 7 saw different test sets: 60 and 59 examples in correct")


@pytest.mark.parametrize("cell", ["[True, False]", [0, 2], [[1, 0]], [[1, 0], [1]], [], 0.8, [None, True]])
def test_what_is_no_correctness(cell: object) -> None:
    frame = correct({"base": 0.8, "v": 0.7})
    frame["correct"] = [*frame["correct"].tolist()[:7], cell, *frame["correct"].tolist()[8:]]
    refused(frame, "row 7: correct must be one array per run with a boolean for each test example")


def test_accuracy_that_contradicts_correctness() -> None:
    frame = correct({"base": 0.8, "v": 0.7})
    shares = np.array([a.mean() for a in frame["correct"]])
    sound(compare(frame.assign(accuracy=100 * shares), baseline="base", unit="percent"))
    shares[4] += 0.1
    refused(frame.assign(accuracy=shares), "row 4: accuracy is")
    refused(frame.assign(accuracy=100 * shares), "row 4: accuracy is", unit="percent")


def test_from_correctness_come_counts_and_the_second_source() -> None:
    frame = correct({"base": 0.8, "v": 0.7})
    found = sound(compare(frame, baseline="base"))
    rights = np.array([a.sum() for a in frame["correct"]])
    contrast = found["v"]
    assert [(p.variant, p.baseline) for p in contrast.pairs] == list(zip(rights[6:], rights[:6], strict=True))
    assert contrast.two_source is not None
    assert (contrast.two_source.seeds, contrast.two_source.examples) == (6, 60)
    assert contrast.two_source.mean == pytest.approx((rights[6:] - rights[:6]).mean() / 60)
    only = [int((a & ~b).sum()) for a, b in zip(frame["correct"][6:], frame["correct"][:6], strict=True)]
    assert [d.variant_only for d in contrast.mcnemar] == only
    same = compare(frame.assign(accuracy=rights / 60, count=60).drop(columns="correct"), baseline="base")
    assert same["v"].p == contrast.p
    assert same["v"].pairs == tuple(contrast.pairs)


def test_correctness_says_nothing_of_other_texts_for_another_metric() -> None:
    frame = correct({"base": 0.8, "v": 0.7}).assign(loss=np.random.default_rng(1).random(12))
    contrast = sound(compare(frame, baseline="base", metric="loss", margin=0.1))["v"]
    assert contrast.two_source is None
    assert contrast.mcnemar == ()


def test_a_run_without_correctness_is_missing() -> None:
    frame = correct({"base": 0.8, "v": 0.7})
    for nothing in (None, NAN, pd.NA):
        frame.at[7, "correct"] = nothing
        found = sound(compare(frame, baseline="base"))
        assert found["v"].label == "inconclusive (incomplete: 5 of 6)"


def test_units_and_counts_say_the_same() -> None:
    counts = {"base": [320, 331, 318, 322, 327, 315], "v": [330, 332, 325, 329, 327, 321]}
    shares = {v: [c / 400 for c in cells] for v, cells in counts.items()}
    exact = compare(tidy(shares, count=400), baseline="base")["v"]
    assert exact.metric.whole
    assert [p.variant for p in exact.pairs] == counts["v"]
    for found in (
        compare(tidy(shares), baseline="base")["v"],
        compare(tidy({v: [100 * x for x in c] for v, c in shares.items()}), baseline="base", unit="percent")["v"],
    ):
        assert found.p == pytest.approx(exact.p, rel=1e-9)
        assert found.verdict == exact.verdict
        assert found.estimate is not None
        assert exact.estimate is not None
        assert found.estimate.difference == pytest.approx(exact.estimate.difference)


def test_rounded_accuracies_are_no_counts_and_that_is_said() -> None:
    shares = {"base": [0.801, 0.812, 0.793], "v": [0.811, 0.822, 0.799]}
    found = sound(compare(tidy(shares, count=400), baseline="base"))
    assert not found.metric.whole
    assert "are no whole numbers (rounded?): ties are judged on the values as they stand." in found.notes[0]


@pytest.mark.parametrize(
    ("metric", "verdict"),
    [("loss", "worse"), ("eval/Loss", "worse"), ("test.log_loss", "worse"), ("wer", "worse"), ("score", "better")],
)
def test_which_way_is_better_is_read_off_the_name(metric: str, verdict: str) -> None:
    frame = tidy({"base": BASE, "v": MOVED}, metric=metric)
    assert sound(compare(frame, baseline="base", metric=metric, margin=0.001))["v"].verdict == verdict
    other = "lower" if verdict == "better" else "higher"
    turned = compare(frame, baseline="base", metric=metric, margin=0.001, better=other)  # type: ignore[arg-type]
    assert {turned["v"].verdict, verdict} == {"better", "worse"}


def test_variants_that_are_not_asked_for_bring_no_seeds() -> None:
    frame = pd.concat([plain(), tidy({"w": MOVED}).assign(seed=range(50, 58))], ignore_index=True)
    assert sound(compare(frame, baseline="base", variants=["v"]))["v"].label == "better"
    assert compare(frame, baseline="base")["v"].label == "inconclusive (incomplete: 8 of 16)"


def test_runs_that_did_not_finish_need_no_count() -> None:
    frame = tidy({"base": BASE[:4], "v": [0.83, "crashed", 0.8, 0.84]}, count=[400, 400, 400, 400, 400, 0, 400, 400])
    assert sound(compare(frame, baseline="base"))["v"].label == "inconclusive (incomplete: 3 of 4)"


@pytest.mark.parametrize("kind", [object, "Float64", "float32", "category"])
def test_columns_of_any_numeric_type(kind: Any) -> None:
    frame = plain()
    if kind is object:
        frame["accuracy"] = pd.Series([np.float32(x) for x in frame["accuracy"]], dtype=object)
        frame["seed"] = pd.Series([np.int64(x) for x in frame["seed"]], dtype=object)
    else:
        frame["accuracy"] = frame["accuracy"].astype(kind)
    assert compare(frame, baseline="base")["v"].p == pytest.approx(one([*MOVED])["v"].p, rel=1e-5)


def test_secondary_metrics_have_no_verdict_and_are_corrected_apart() -> None:
    rng = np.random.default_rng(0)
    frame = tidy({"base": BASE, "v": MOVED, "w": BASE}).assign(loss=rng.random(24), f1=rng.random(24))
    alone = compare(frame, baseline="base")
    found = sound(compare(frame, baseline="base", secondary=["loss", "f1"]))
    assert [c.p_holm for c in found.contrasts] == [c.p_holm for c in alone.contrasts]
    assert [(s.metric.name, s.variant) for s in found.secondary] == [(m, v) for m in ("loss", "f1") for v in ("v", "w")]
    raw = [s.p for s in found.secondary if s.p is not None]
    assert [s.p_bh for s in found.secondary] == pytest.approx(stats.false_discovery_control(raw))
    loss = found.secondary[0]
    values = frame["loss"].to_numpy()
    assert loss.p == pytest.approx(stats.ttest_rel(values[8:16], values[:8]).pvalue)


def test_a_finished_run_without_a_secondary_metric_leaves_its_seed_out() -> None:
    frame = plain().assign(loss=np.linspace(0.1, 0.9, 16) ** 2)
    frame.loc[[1, 11], "loss"] = NAN  # as many in both arms: seeds 1 and 3
    found = compare(frame, baseline="base", secondary=["loss"]).secondary[0]
    kept = [s for s in range(8) if s not in (1, 3)]
    d = frame["loss"].to_numpy()[[8 + s for s in kept]] - frame["loss"].to_numpy()[kept]
    assert found.estimate is not None
    assert found.estimate.n == 6
    assert found.estimate.difference == pytest.approx(d.mean())
    assert found.p is None
    assert found.p_bh == 1


def factorial() -> pd.DataFrame:
    arms = {"base": BASE, "a": MOVED, "b": BASE[::-1], "ab": [x + 0.01 for x in MOVED]}
    levels = {"base": ("small", False), "a": ("large", False), "b": ("small", True), "ab": ("large", True)}
    frame = tidy(arms)
    return frame.assign(width=[levels[v][0] for v in frame["variant"]], scaled=[levels[v][1] for v in frame["variant"]])


def test_a_factorial_has_main_effects_and_an_interaction() -> None:
    found = sound(compare(factorial(), baseline="base", factors=["width", "scaled"]))
    assert [e.name for e in found.crossings[0].effects] == ["width", "scaled", "width x scaled"]
    arms = factorial().set_index(["variant", "seed"])["accuracy"].unstack("variant")
    width = (arms["a"] + arms["ab"] - arms["base"] - arms["b"]) / 2
    both = arms["ab"] - arms["a"] - arms["b"] + arms["base"]
    for effect, values in ((found.crossings[0].effects[0], width), (found.crossings[0].effects[2], both)):
        by_scipy = stats.ttest_1samp(values, 0)
        assert effect.judgement.tested.p == pytest.approx(by_scipy.pvalue, rel=1e-6)
        assert effect.estimate is not None
        assert effect.estimate.difference == pytest.approx(100 * values.mean(), abs=1e-9)
        assert effect.estimate.low == pytest.approx(100 * by_scipy.confidence_interval().low)


def test_factors_that_do_not_cross_are_said() -> None:
    frame = factorial()
    found = sound(compare(frame[frame["variant"] != "ab"], baseline="base", factors=["width", "scaled"]))
    assert found.crossings == ()
    assert found.notes == (
        "width, scaled form no full factorial of two levels each: there are no main effects to report.",
    )


def test_a_failed_cell_leaves_a_factorial_untested() -> None:
    frame = factorial().assign(status="finished")
    frame.loc[9, "status"] = "diverged"
    found = sound(compare(frame, baseline="base", factors=["width", "scaled"]))
    for effect in found.crossings[0].effects:
        assert effect.finding == "inconclusive"
        assert effect.judgement.tested.p is None
        assert effect.judgement.reason == "a run failed at 1 of 8 seeds"
        assert effect.n == 7


def test_an_e_process_decides_where_seeds_were_added() -> None:
    found = compare(plain(), baseline="base", anytime="sign")
    assert found["v"].test == "e-process"
    assert found["v"].p == pytest.approx(1 / 50.27, rel=1e-3)  # 8 wins: 2^8 G(8.5) G(.5) / (pi G(9))
    assert found["v"].verdict == "better"
    assert found.sequential is not None
    assert found.sequential.decided_at == 7  # e = 26.8 at seven straight wins, over 20


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("val/accuracy_top1", "higher"),
        ("val-acc", "higher"),
        ("f1_macro", "higher"),
        ("val-loss", "lower"),
        ("train_loss_epoch", "lower"),
        ("loss (val)", "lower"),
        ("error rate", "lower"),
        ("bpc", "lower"),
        ("MAPE", "lower"),
        ("widgets", None),
        ("accuracy_loss", None),
    ],
)
def test_which_way_is_better_is_read_off_the_name_or_asked_for(name: str, better: str | None) -> None:
    frame = tidy({"base": BASE, "v": MOVED}, metric=name)
    if better is None:
        with pytest.raises(FrameError, match="--lower-is-better"):
            compare(frame, baseline="base", metric=name, margin=0.01)
        with pytest.raises(FrameError, match="--lower-is-better"):
            compare(tidy({"base": BASE, "v": MOVED}).assign(**{name: 1.0}), baseline="base", secondary=[name])
        asked = compare(frame, baseline="base", metric=name, margin=0.01, better="lower")
        assert asked["v"].verdict == "worse"
        return
    found = compare(frame, baseline="base", metric=name, margin=0.01)
    assert found["v"].verdict == ("better" if better == "higher" else "worse")
    assert f"({better} is better)" in str(found)


def test_no_seed_is_left_out_while_a_run_is_missing() -> None:
    whole = compare(tidy({"base": BASE, "v": MOVED, "w": BASE}), baseline="base")
    assert len(whole["v"].left_out) == len(BASE)
    parted = compare(tidy({"base": BASE, "v": MOVED, "w": ["crashed", *BASE[1:]]}), baseline="base")
    assert parted["v"].left_out == parted["w"].left_out == ()
    assert "One seed flips" not in str(parted)


def test_printed_it_tells_effects_and_secondary_metrics_too() -> None:
    frame = tidy({"base": BASE, "a": MOVED, "b": BASE, "ab": MOVED})
    frame = frame.assign(
        norm=[v in ("a", "ab") for v in frame["variant"]],
        warmup=[v in ("b", "ab") for v in frame["variant"]],
        loss=1 - frame["accuracy"],
    )
    text = str(compare(frame, baseline="base", factors=["norm", "warmup"], secondary=["loss"]))
    assert "norm x warmup: +0.00 points no spread" in text
    assert "a, loss (lower is better), exploratory: " in text
    until = compare(frame, baseline="base", factors=["norm", "warmup"], secondary=["loss"], anytime="sign")
    assert until.crossings == ()
    assert any("only the e-process allows for that" in note for note in until.notes)
    assert "confidence interval" not in until.sentences()[0]


def test_one_error_says_all_faults() -> None:
    """In the words of Python's arguments: what the command says at once must not come one by one here."""
    frame = plain().assign(loss="x", status="gone").rename(columns={"seed": "sede"})
    with pytest.raises(FrameError) as refused:
        compare(frame, baseline="bas", metric="loss", margin=-1, alpha=2, unit="points", variants=["w"])  # type: ignore[arg-type]
    told = refused.value.faults
    expected = (
        *("margin must be a number above 0", "alpha must lie between 0 and .5"),
        *('no column "seed"', 'no run of the baseline "bas"', 'no run of "w"'),
        *('row 0: loss is "x", which is text', 'unit must be "share", "percent" or "raw"'),
    )
    assert [start for start in expected if not any(fault.startswith(start) for fault in told)] == []
    assert str(refused.value).splitlines() == list(told)
    assert "(seed=... names it)" in str(refused.value)


def test_one_error_says_what_the_metric_and_the_columns_lack() -> None:
    frame = plain().assign(goodness=40.0, status="gone").drop(columns="seed")
    with pytest.raises(FrameError) as refused:
        compare_unpaired(frame, baseline="bas", metric="goodness", unit="raw", count="texts")
    starts = ('no column "texts"', 'no run of the baseline "bas"', "whether higher or lower", "a margin is needed")
    assert all(any(fault.startswith(start) for fault in refused.value.faults) for start in (*starts, "row 0: status"))
    assert len(refused.value.faults) == 5
