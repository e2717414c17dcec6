"""Instability of whole studies: curves that are made so that the answer is known."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from statsmodels.stats.multitest import multipletests

from knockout.analysis.inference.curve_metrics import METRICS
from knockout.analysis.inference.instability import Instability, instability_of
from knockout.analysis.inference.instability_cells import exact_decides
from knockout.analysis.inference.learning_rates import RateGroup
from knockout.analysis.stats.curve import RunCurve
from knockout.analysis.stats.trace import Trace, recording, replay
from knockout.claims import Measure
from knockout.plan import Plan

H = math.log(2)
T = 400
PROBES = np.linspace(0, T, 41)


def batches(seed: int) -> NDArray[np.float64]:
    """The noise of the batches, which runs of one seed share."""
    return np.asarray(np.random.default_rng(seed).normal(0, 0.02, T), dtype=float)


def run(variant: str, seed: int, *, jitter: float = 0.0, flat: bool = False) -> RunCurve:
    """A run that falls from ln 2 to .3; `jitter` more noise of its own; `flat` learns nothing."""
    own = np.random.default_rng([seed, len(variant)]).normal(0, jitter, T) if jitter else np.zeros(T)
    falling = np.full(T, H) if flat else 0.3 + (H - 0.3) * np.exp(-np.arange(T) / 80)
    probe = np.full(41, H) if flat else 0.3 + (H - 0.3) * np.exp(-PROBES / 80)
    wiggle = np.random.default_rng([seed, 7]).normal(0, 0.002, 41)
    wiggle[0] = 0.0
    return RunCurve(
        variant=variant,
        seed=seed,
        status="finished",
        dead=flat,
        step=np.arange(1.0, T + 1),
        loss=falling + batches(seed) + own,
        grad_norm=np.exp(np.random.default_rng([seed, 9]).normal(0, 0.3, T)),
        steps=T,
        probe_step=PROBES,
        probe_loss=probe + wiggle * (0 if flat else 1 + 20 * jitter),
        probe_accuracy=np.full(41, 0.5) if flat else 0.5 + 0.4 * (1 - np.exp(-PROBES / 80)),
        clip_norm=1.0,
    )


def study(
    arms: Mapping[str, Sequence[RunCurve]],
    *,
    seeds: Sequence[int] = (),
    majority: float | None = 0.5,
    other_batches: Sequence[str] = (),
    rate_groups: Sequence[RateGroup] = (),
) -> Instability:
    return instability_of(
        [c for runs in arms.values() for c in runs],
        baseline="baseline",
        plan=Plan(),
        seeds=seeds or None,
        entropy=H,
        majority=majority,
        other_batches=other_batches,
        rate_groups=rate_groups,
    )


def arm(name: str, n: int, *, jitter: float = 0.0, flat: bool = False) -> list[RunCurve]:
    return [run(name, s, jitter=jitter, flat=flat) for s in range(n)]


def label(found: Instability, variant: str, metric: str) -> str:
    cell = found.cell(variant, metric)
    assert cell is not None
    return cell.label


@pytest.fixture(scope="module")
def twelve() -> Instability:
    return study({"baseline": arm("baseline", 12), "noisy": arm("noisy", 12, jitter=0.05), "same": arm("same", 12)})


def test_more_noise_is_shown_where_it_is_and_nowhere_else(twelve: Instability) -> None:
    for metric in ("short_term_risk", "short_term_iqr", "excursion_area", "total_variation"):
        assert label(twelve, "noisy", metric) == "higher"
    assert label(twelve, "noisy", "gradient_outliers") == "not shown"
    assert label(twelve, "noisy", "failures") == "not shown"
    assert all(c.label in ("not shown", "not testable") for c in twelve.cells if c.variant == "same")
    risk = twelve.cell("noisy", "short_term_iqr")
    assert risk is not None
    assert risk.ratio is not None
    assert risk.ratio == pytest.approx(math.hypot(0.05, 0.02) / 0.02, rel=0.15)  # noises add in squares
    assert (risk.test, risk.n, risk.n_planned, risk.ranked) == ("signed rank", 12, 12, 0)
    assert risk.p == pytest.approx(2**-11)


def test_one_value_for_each_run_and_measure(twelve: Instability) -> None:
    assert len(twelve.values) == 36 * len(METRICS)
    assert not twelve.values.duplicated(["variant", "seed", "metric"]).any()
    assert {c.metric for c in twelve.cells} >= {"drawdown", "total_variation", "early_peak", "failures"}
    wide = twelve.wide()
    assert len(wide) == 36
    assert list(wide.columns[:2]) == ["variant", "seed"]


def test_the_correction_is_benjamini_and_hochbergs_over_all_cells(twelve: Instability) -> None:
    p = [1.0 if c.p is None else c.p for c in twelve.cells]
    expected = multipletests(p, method="fdr_bh")[1]
    assert [c.p_bh for c in twelve.cells] == pytest.approx(list(expected))
    assert len(twelve.cells) > 40


def test_what_no_run_logged_is_missing_and_is_no_cell(twelve: Instability) -> None:
    assert {"attention_logit", "depth_ratio_init", "rank_residual_end"} <= set(twelve.missing)
    assert not {c.metric for c in twelve.cells} & set(twelve.missing)
    assert "layers" in twelve.missing["attention_logit"]
    bare = study(
        {
            name: [
                dataclasses.replace(c, probe_step=None, probe_loss=None, probe_accuracy=None, grad_norm=None)
                for c in arm(name, 10)
            ]
            for name in ("baseline", "other")
        }
    )
    assert {"total_variation", "plateau", "gradient_outliers", "clipped"} <= set(bare.missing)
    assert {"spikes", "drawdown", "early_peak"}.isdisjoint(bare.missing)
    assert bare.reaching is None


def test_thinned_curves_keep_what_stays_right() -> None:
    thin = {
        name: [
            dataclasses.replace(
                c,
                step=c.step.reshape(200, 2).mean(axis=1),
                loss=c.loss.reshape(200, 2).mean(axis=1),
                grad_norm=None,
                every=2,
            )
            for c in arm(name, 10)
        ]
        for name in ("baseline", "other")
    }
    found = study(thin)
    assert {"spikes", "early_peak", "early_jitter", "short_term_risk"} <= set(found.missing)
    assert {"drawdown", "excursion_area", "total_variation"}.isdisjoint(found.missing)


def test_a_flat_line_is_smooth_and_still_the_worst() -> None:
    """A dead arm has no noise at all in its changes; every measure that a flat line would win ranks it last."""
    found = study({"baseline": arm("baseline", 12), "flat": arm("flat", 12, flat=True)})
    for metric in ("drawdown", "total_variation", "short_term_risk", "spikes", "plateau", "mean_probe_loss"):
        assert label(found, "flat", metric) == "higher", metric
    assert label(found, "flat", "failures") == "higher"
    variation, level = found.cell("flat", "total_variation"), found.cell("flat", "plateau")
    assert variation is not None
    assert level is not None
    assert (variation.ranked, variation.ratio) == (12, None)
    assert level.ranked == 0  # measured like any other run
    assert level.ratio is not None
    assert found.counts["flat"].flat == 12
    assert found.counts["baseline"].flat == 0


def test_a_run_that_diverged_counts_as_the_worst_and_leaves_the_others_alone() -> None:
    def broken(c: RunCurve) -> RunCurve:
        loss = c.loss.copy()
        loss[60:] = math.nan
        return dataclasses.replace(c, loss=loss[:61], step=c.step[:61], status="diverged", grad_norm=None)

    others = {"baseline": arm("baseline", 10), "same": arm("same", 10, jitter=0.001)}
    without = study(others)
    found = study({**others, "broken": [broken(c) for c in arm("broken", 10)]})
    assert label(found, "broken", "failures") == "higher"
    assert label(found, "broken", "short_term_iqr") == "higher"
    assert label(found, "broken", "mean_probe_loss") == "higher"
    for metric in ("drawdown", "total_variation"):
        one, other = without.cell("same", metric), found.cell("same", metric)
        assert one is not None
        assert other is not None
        assert (one.p, one.ratio) == (other.p, other.ratio)
    assert found.counts["broken"].diverged == 10


def test_a_missing_run_leaves_its_contrast_untested_and_says_so() -> None:
    found = study({"baseline": arm("baseline", 10), "other": arm("other", 9)}, seeds=range(10))
    cell = found.cell("other", "drawdown")
    assert cell is not None
    assert (cell.label, cell.p, cell.n, cell.n_planned) == ("not testable", None, 9, 10)
    assert "9 of 10" in cell.reason
    two = study({"baseline": arm("baseline", 2), "other": arm("other", 2)})
    assert {c.label for c in two.cells} == {"not testable"}
    assert all("below 3" in c.reason for c in two.cells)


def test_few_seeds_are_tested_by_t_and_say_that_it_is_normal_theory() -> None:
    assert [exact_decides(n, 0.05) for n in (5, 8, 9, 12)] == [False, False, True, True]
    found = study({"baseline": arm("baseline", 5), "noisy": arm("noisy", 5, jitter=0.05)})
    cell = found.cell("noisy", "short_term_iqr")
    assert cell is not None
    assert (cell.label, cell.test) == ("higher", "t")
    assert "normal theory" in cell.reason
    failed = study({"baseline": arm("baseline", 5), "flat": arm("flat", 5, flat=True)})
    cell = failed.cell("flat", "total_variation")
    assert cell is not None
    assert (cell.label, cell.test, cell.p) == ("not testable", "signed rank", 2**-4)
    assert "0.0625" in cell.reason


def test_the_excess_loss_is_only_of_runs_on_the_same_batches() -> None:
    arms = {"baseline": arm("baseline", 10), "higher": arm("higher", 10), "other": arm("other", 10)}
    arms["higher"] = [dataclasses.replace(c, loss=c.loss + 0.001) for c in arms["higher"]]
    found = study(arms, other_batches=["other"])
    cell = found.cell("higher", "excess_early")
    assert cell is not None
    assert cell.label == "higher"
    assert cell.difference == pytest.approx(0.001)
    assert cell.p == pytest.approx(2**-9)
    longer = [dataclasses.replace(c, steps=T + 1) for c in arm("other", 10)]  # as with smaller batches
    unlike = study({**arms, "other": longer}).cell("other", "excess_early")
    assert unlike is not None
    assert unlike.label == "not testable"
    other = found.cell("other", "excess_early")
    assert other is not None
    assert other.label == "not testable"
    assert "same batches" in other.reason


def test_time_to_threshold_is_set_by_the_baseline_alone() -> None:
    slow = [dataclasses.replace(c, probe_accuracy=0.5 + 0.4 * (1 - np.exp(-PROBES / 240))) for c in arm("slow", 10)]
    arms = {"baseline": arm("baseline", 10), "slow": slow, "flat": arm("flat", 10, flat=True)}
    found = study(arms).reaching
    assert found is not None
    end = 0.5 + 0.4 * (1 - math.exp(-5))
    assert found.threshold == pytest.approx((0.5 + end) / 2)
    by_name = {a.variant: a for a in found.arms}
    assert (by_name["slow"].reached, by_name["flat"].reached) == (10, 0)
    assert by_name["flat"].contrast is not None
    assert by_name["slow"].contrast is not None
    assert by_name["flat"].contrast.variant_mean == T
    exact = next(p for p in PROBES if 0.4 * (1 - math.exp(-p / 240)) >= found.threshold - 0.5)
    assert by_name["slow"].contrast.variant_mean == pytest.approx(exact)
    assert by_name["flat"].p_bh is not None
    assert by_name["flat"].p_bh < 0.001
    without = study({"baseline": arms["baseline"], "slow": slow}).reaching
    assert without is not None
    assert without.threshold == found.threshold
    assert study(arms, majority=None).reaching is None
    assert study(arms, majority=0.95).reaching is None


def test_learning_rates_make_groups_that_are_compared_like_variants() -> None:
    names = {"baseline": 1e-3, "low": 1e-4, "post": 1e-3, "post_low": 1e-4}
    arms = {name: arm(name, 14) for name in names}
    losses: dict[tuple[str, int | str], float] = {(n, s): 0.4 + 0.001 * s for n in names for s in range(14)}
    losses |= {("post", s): math.inf for s in range(14)}
    groups = [
        RateGroup(name="baseline", rates={"low": 1e-4, "baseline": 1e-3}, losses=losses, accuracies={}),
        RateGroup(name="post", rates={"post_low": 1e-4, "post": 1e-3}, losses=losses, accuracies={}),
    ]
    found = study(arms, rate_groups=groups)
    assert found.rates is not None
    base, post = found.rates.groups
    assert (base.name, post.name) == ("baseline", "post")
    assert base.sensitivity == pytest.approx((0.0,) * 14)
    assert post.sensitivity == pytest.approx(tuple((H - 0.4 - 0.001 * s) / 2 for s in range(14)))
    cell = found.cell("post", "learning_rate_sensitivity")
    assert cell is not None
    assert cell.label == "higher"
    assert cell.p == pytest.approx(2**-13)
    assert study(arms).rates is None


def test_numbers_can_be_made_again_from_the_trace() -> None:
    with recording(Trace()) as trace:
        found = study({"baseline": arm("baseline", 9), "noisy": arm("noisy", 9, jitter=0.05)})
    tests = [c for c in trace.calls if c.function.endswith("paired_tests")]
    assert len(tests) == len({c.metric for c in found.cells} - {"failures"})
    for call in tests:
        replay({"function": call.function, "arguments": call.arguments})
    numbers = {(*n.of, n.name): n.value for n in trace.numbers}
    cell = found.cell("noisy", "drawdown")
    assert cell is not None
    assert numbers["instability", "drawdown noisy", "p"] == cell.p
    assert numbers["instability", "drawdown noisy", "p_bh"] == cell.p_bh


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        study({"baseline": [run("baseline", 0), run("baseline", 0)]})
    with pytest.raises(ValueError, match="baseline"):
        study({"other": [run("other", 0)]})


def test_an_odd_curve_breaks_nothing() -> None:
    """Empty, one step, all NaN, zeros: as they come from logs of others."""
    odd = [
        np.empty(0),
        np.array([0.7]),
        np.full(T, math.nan),
        np.zeros(T),
        np.full(T, 1e300),
        -np.ones(T),
    ]
    runs = [
        RunCurve(
            variant=v,
            seed=i,
            status="finished",
            dead=False,
            step=np.arange(1.0, len(x) + 1),
            loss=x,
            steps=max(len(x), 1),
        )
        for v in ("baseline", "other")
        for i, x in enumerate(odd)
    ]
    found = instability_of(runs, baseline="baseline", plan=Plan())
    assert isinstance(found.values, pd.DataFrame)
    assert all(c.p is None or 0 < c.p <= 1 for c in found.cells)
    assert not found.labels_known


def test_a_claim_may_be_on_every_measure_that_is_tested() -> None:
    assert set(get_args(Measure)) == {name for name, metric in METRICS.items() if metric.tested}


def test_every_measure_is_defined_in_the_rules_and_has_its_row_of_units() -> None:
    root = Path(__file__).parents[3]
    rules = (root / "analysis" / "RULES.md").read_text(encoding="utf-8")
    columns = (root / "results" / "README.md").read_text(encoding="utf-8")
    for name in METRICS:
        stem, _, when = name.rpartition("_")
        assert f"`{name}`" in rules or (f"`{stem}_init`" in rules and f"`_{when}`" in rules), name
        assert f"`{name}`" in columns, name
