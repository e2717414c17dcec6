"""The baseline's gap to its floors: scipy's interval, the sentence that holds it, and the trace."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from knockout.analysis.inference.floors import gap, gaps
from knockout.analysis.inference.pairs import Row, Seed
from knockout.analysis.report.audit_trail import account
from knockout.analysis.report.sections.page import study_answer
from knockout.analysis.report.study import judge_study
from knockout.analysis.results import Results, load
from knockout.analysis.stats.metric import counted, raw
from knockout.analysis.stats.trace import replay
from knockout.job import Floor
from tests.analysis.conftest import TEST, BuildStudy

COUNTS = [300, 304, 296, 302, 299, 310]
FLOORS = (
    Floor(name="a linear model", scores={"accuracy": 0.76, "log_loss": 0.5}, made="logistic regression"),
    Floor(name="the commonest class", scores={"accuracy": 0.5}, made="always the same answer"),
    Floor(name="another measure", scores={"macro_f1": 0.5}, made="x"),
)


def with_floors(root: Path, floors: tuple[Floor, ...] = FLOORS) -> Results:
    results = load(root)
    return replace(results, design=replace(results.design, floors=floors))


@pytest.mark.parametrize("floor", [60.0, 75.0, 75.9])
def test_the_gap_is_scipys_one_sample_t(floor: float) -> None:
    values = 100 * np.array(COUNTS) / TEST
    found = gap(COUNTS, floor, 100 / TEST)
    expected = stats.ttest_1samp(values, floor)
    ends = expected.confidence_interval(0.95)
    assert found.n == len(COUNTS)
    assert found.difference == pytest.approx(values.mean() - floor)
    assert (found.low, found.high) == pytest.approx((ends.low - floor, ends.high - floor))
    assert found.p == pytest.approx(expected.pvalue)


def test_a_shift_of_values_and_floor_changes_nothing() -> None:
    one, other = gap([0.1, 0.3, 0.2], 0.15, 1.0), gap([1.1, 1.3, 1.2], 1.15, 1.0)
    assert (one.difference, one.low, one.high, one.p) == pytest.approx(
        (other.difference, other.low, other.high, other.p)
    )


@pytest.mark.parametrize("values", [[0.5], [0.4, 0.6], [0.5, 0.5, 0.5]])
def test_no_interval_from_two_runs_or_without_spread(values: list[float]) -> None:
    found = gap(values, 0.25, 1.0)
    assert (found.difference, found.low, found.high, found.p) == (0.25, None, None, None)


def test_only_runs_that_did_not_fail_and_floors_of_the_metric_count() -> None:
    rows: dict[tuple[str, Seed], Row] = {
        ("base", seed): {"status": "finished", "failed": seed == 0, "value": v} for seed, v in enumerate([1, 5, 6, 7])
    }
    found = gaps(rows, FLOORS, baseline="base", metric=counted("accuracy", examples=10))
    assert list(found) == ["a linear model", "the commonest class"]
    assert found["a linear model"].n == 3
    assert found["a linear model"].mean == pytest.approx(60.0)
    nats = gaps(rows, FLOORS, baseline="base", metric=raw("log_loss", better="lower", margin=0.1, unit="nats"))
    assert nats["a linear model"].floor == 0.5
    assert gaps({}, FLOORS, baseline="base", metric=counted("accuracy", examples=10)) == {}


def test_the_sentence_has_the_interval_and_the_trace_has_its_numbers(build_study: BuildStudy) -> None:
    results = with_floors(build_study({"baseline": COUNTS, "heads_1": COUNTS[::-1]}))
    comparison = judge_study(results).comparison
    lines = study_answer(results, comparison, {})
    values = 100 * np.array(COUNTS) / TEST
    ends = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    signs = [f"{x:+.2f}".replace("-", "\N{MINUS SIGN}") for x in (values.mean() - 76, ends.low - 76, ends.high - 76)]
    text = f"76.0 % accuracy (a linear model; baseline {signs[0]} points [{signs[1]}, {signs[2]}])"
    assert any(text in line for line in lines), lines
    assert "95 % t interval over 6 seeds (null: its mean is the floor)" in lines[-1]
    assert "other seeds may reach it" in lines[0]  # the interval holds 0
    traced = json.loads(account(comparison))
    numbers = {(*n["of"], n["name"]): n for n in traced["numbers"]}
    own = numbers["floor", "a linear model", "difference"]
    assert own["value"] == pytest.approx(values.mean() - 76)
    again = replay(traced["calls"][own["call"]])
    assert again == comparison.floors["a linear model"]


def test_a_baseline_clearly_below_its_floor_is_said_without_doubt(build_study: BuildStudy) -> None:
    floors = (Floor(name="a linear model", scores={"accuracy": 0.9}, made="logistic regression"),)
    results = with_floors(build_study({"baseline": COUNTS, "heads_1": COUNTS}), floors)
    first = study_answer(results, judge_study(results).comparison, {})[0]
    assert "points below what a linear model reaches" in first
    assert "other seeds" not in first
