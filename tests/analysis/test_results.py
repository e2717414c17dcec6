import dataclasses
import math
import shutil
from pathlib import Path

import pandas as pd
import pytest

from knockout.analysis.results import ResultsError, dead_runs, load
from knockout.design import DesignError, write_design
from knockout.files import replace_json
from knockout.job import Attention, AttentionText, Layers, Outcome, Predictions, Probe
from knockout.ledger import read_ledger
from knockout.packed import pack
from knockout.study import Study, read_study
from tests.analysis.conftest import DATA_ID, LABELS, TEST, BuildStudy, data_summary, outcome, predictions, write_run
from tests.designs import raw_design

CORRECT: dict[str, list[int | str]] = {
    "baseline": [300, 304, 298],
    "no_position": [290, "dead", "diverged"],
    "heads_1": [301, "crashed", "missing"],
}


def test_one_row_per_planned_run_in_the_order_of_the_design(build_study: BuildStudy) -> None:
    root = build_study(CORRECT)
    results = load(root)
    runs = results.runs
    assert list(runs["run_id"]) == [run.id for run in results.design.runs]
    by = {(str(r["variant"]), int(r["seed"])): r for r in runs.to_dict("records")}
    assert [row["status"] for row in by.values()] == [
        "finished", "finished", "finished",
        "finished", "finished", "crashed",
        "finished", "diverged", "missing",
    ]  # fmt: skip
    assert [key for key, row in by.items() if row["dead"]] == [("no_position", 1)]
    assert [key for key, row in by.items() if row["failed"]] == [("no_position", 1), ("no_position", 2)]
    first = by["baseline", 0]
    assert (first["test_correct"], first["test_count"], first["test_accuracy"]) == (300, TEST, 0.75)
    assert first["validation_accuracy"] == 0.8
    assert first["parameters"] == 650_000
    curve = results.curves[str(first["run_id"])]
    assert first["final_loss"] == pytest.approx(float(curve["loss"].iloc[-2:].mean()))  # 5 % of 40 steps
    assert str(runs["test_correct"].dtype) == "Int64"
    assert pd.isna(by["no_position", 2]["test_correct"])
    assert by["heads_1", 1]["reason"] == "RuntimeError: boom | <b>"
    assert by["no_position", 1]["reason"] == "test accuracy 50.00% is no better than the constant answer's 50.00%"
    assert list(results.costs["attempts"]) == [0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert results.others == 0
    assert results.damaged == ()
    assert results.notes == ()


def test_what_runs_measured_is_there_by_run_and_of_those_that_measured_it(build_study: BuildStudy) -> None:
    root = build_study({"baseline": ["missing", 300], "heads_1": [300, "diverged"]})
    study = read_study(root.parent / "synthetic.toml")
    run = write_design(root, study, data_id=DATA_ID, data_summary=data_summary())[0]
    answer = dataclasses.replace(
        outcome(run, 300),
        probe=Probe(step=[0, 20], loss=[0.75, 0.5], correct=[128, 200], count=256),
        layers=Layers(step=[1], quantity=["gradient"], layer=[-1], value=[0.5]),
        attention=Attention(texts=[AttentionText(example=3, split="test", tokens=["a"], weights=[[[[1.0]]]])]),
    )
    write_run(root, study, run, 300, answer=answer)
    results = load(root)
    for tables in (results.probes, results.layers, results.attention, results.attention_tokens):
        assert list(tables) == [run.id]
        assert "nobody" not in tables
    assert results.probes[run.id].to_dict("list") == {
        "step": [0, 20], "loss": [0.75, 0.5], "correct": [128, 200], "count": [256, 256]
    }  # fmt: skip
    assert results.layers[run.id].to_dict("list") == {
        "step": [1], "quantity": ["gradient"], "layer": [-1], "value": [0.5]
    }  # fmt: skip
    (row,) = results.attention[run.id].to_dict("records")
    assert row == {
        "text": 0, "example": 3, "split": "test", "layer": 0, "head": 0, "query": 0, "key": 0, "weight": 1.0
    }  # fmt: skip
    assert results.attention_tokens[run.id].to_dict("records") == [{"text": 0, "position": 0, "token": "a"}]


def test_without_predictions_dead_is_the_majority_share_and_two_standard_errors(build_study: BuildStudy) -> None:
    """50 % of 200 texts: the bound is .5 + 2 * sqrt(.25 / 200) = .5707, so 114 right is dead and 115 is not."""
    root = build_study({"baseline": ["missing"] * 2, "heads_1": [300] * 2})
    study = read_study(root.parent / "synthetic.toml")
    runs = write_design(root, study, data_id=DATA_ID, data_summary=data_summary())
    for run, right in zip([r for r in runs if r.variant == "baseline"], (114, 115), strict=True):
        whole = outcome(run, 300)
        metrics = {**whole.metrics, "validation": {"loss": 0.5, "correct": right, "count": 200}}
        write_run(root, study, run, 300, answer=dataclasses.replace(whole, metrics=metrics, predictions=None))
    frame = load(root).runs
    assert list(frame[frame["variant"] == "baseline"]["dead"]) == [True, False]


def test_with_predictions_the_test_examples_tell_who_is_dead(build_study: BuildStudy) -> None:
    """Balanced answers to 400 balanced texts: 216 right have p = .067, 222 have p = .018 (Fisher, one-sided)."""
    root = build_study({"baseline": [300] * 4, "heads_1": ["missing"] * 4})
    study = read_study(root.parent / "synthetic.toml")
    runs = write_design(root, study, data_id=DATA_ID, data_summary={})  # a trainer without text data
    coins = {right: [right // 2, right - right // 2] for right in (200, 216, 222, 230)}
    for run, (right, hits) in zip([r for r in runs if r.variant == "heads_1"], coins.items(), strict=True):
        predicted = [label if i % 200 < hits[label] else 1 - label for i, label in enumerate(LABELS)]
        whole = outcome(run, right)
        assert whole.predictions is not None
        answer = dataclasses.replace(
            whole,
            metrics={"test": whole.metrics["test"]},
            predictions=dataclasses.replace(whole.predictions, predicted=predicted),
        )
        write_run(root, study, run, right, answer=answer)
    results = load(root)
    own = results.runs[results.runs["variant"] == "heads_1"]
    assert list(own["dead"]) == [True, True, False, False]
    assert own["validation_accuracy"].isna().all()
    assert not results.notes
    assert dead_runs(root) == [("heads_1", 0), ("heads_1", 1)]


RARE = [0] * 380 + [1] * 20
"""5 % of the texts are of the second class."""


@pytest.mark.parametrize("metric", ["macro_f1", "log_loss"])
def test_dead_follows_the_plans_metric_where_classes_are_uneven(
    build_study: BuildStudy, metric: str, tmp_path: Path
) -> None:
    """A run that has 9 of 20 rare texts right and 4 false alarms, and one that always answers the common class.

    The first one's validation accuracy is below the majority share and two standard errors. Packed, with the log
    probabilities of single texts left out, both are judged the same.
    """
    plan = f'[plan]\nmetric = "{metric}"\nmargin = 0.5'
    root = build_study({"baseline": ["missing"] * 2, "heads_1": ["missing"] * 2}, claims=plan)
    study = read_study(root.parent / "synthetic.toml")
    summary = data_summary()
    summary["splits"]["validation"]["labels"], summary["splits"]["test"]["labels"] = [190, 10], [380, 20]
    runs = write_design(root, study, data_id=DATA_ID, data_summary=summary)
    learned = [0] * 376 + [1] * 4 + [1] * 9 + [0] * 11
    for run in runs:
        knows = run.variant == "baseline"
        predicted = learned if knows else [0] * 400
        right = sum(p == y for p, y in zip(predicted, RARE, strict=True))
        sure = [0.96 if knows and p == y else 0.5 if knows else 0.95 if y == 0 else 0.05
                for p, y in zip(predicted, RARE, strict=True)]  # fmt: skip
        logs = [math.log(x) for x in sure]
        whole = outcome(run, right)
        metrics: dict[str, dict[str, float | int]] = {
            "validation": {"loss": 0.2, "correct": 192, "count": 200},
            "test": {"loss": -sum(logs) / 400, "correct": right, "count": 400},
        }
        predictions = Predictions(label=RARE, predicted=predicted, log_probability=logs)
        write_run(root, study, run, 0, answer=dataclasses.replace(whole, metrics=metrics, predictions=predictions))
    frame = load(root).runs
    assert list(frame["dead"]) == [run.variant == "heads_1" for run in runs]
    pack(read_ledger(root).records.values(), tmp_path / "records.parquet")
    shutil.rmtree(root / "runs")
    shutil.move(tmp_path / "records.parquet", root / "records.parquet")
    assert list(load(root).runs["dead"]) == list(frame["dead"])


def _tamper(root: Path, variant: str, answer: Outcome, *, remove: bool = True) -> Study:
    """Replace the record of seed 0 of a variant, with a manifest that fits."""
    study = read_study(root.parent / "synthetic.toml")
    runs = write_design(root, study, data_id=DATA_ID, data_summary=data_summary())
    run = next(r for r in runs if r.variant == variant and r.seed == 0)
    if remove:
        shutil.rmtree(next((root / "runs").glob(f"{variant}-s0-*")))
    write_run(root, study, run, 0, answer=dataclasses.replace(answer, run_id=run.id))
    return study


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"metrics": {"test": {"correct": 299, "count": TEST}}}, "its predictions say 300 of 400"),
        ({"metrics": {"test": {"correct": 3, "count": 4}}, "predictions": None}, "different sizes of test set"),
    ],
)
def test_records_that_contradict_themselves_are_refused(
    build_study: BuildStudy, change: dict[str, object], said: str
) -> None:
    root = build_study({"baseline": [300, 301], "heads_1": [300, 302]})
    study = read_study(root.parent / "synthetic.toml")
    run = write_design(root, study, data_id=DATA_ID, data_summary=data_summary())[0]
    _tamper(root, "heads_1", dataclasses.replace(outcome(run, 300), **change))  # type: ignore[arg-type]
    with pytest.raises(ResultsError, match=said) as caught:
        load(root)
    assert "heads_1-s0" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"metrics": {"test": {"accuracy": 0.83}}}, "its test split has no two integers with 0 <= correct <= count"),
        ({"metrics": {"test": {"correct": TEST + 1, "count": TEST}}}, "0 <= correct <= count"),
        ({"metrics": {"test": {"correct": 0.75, "count": TEST}}}, "no two integers"),
        ({"metrics": {"validation": {"correct": 1, "count": 2}}}, "no metrics of the test split"),
        ({"metrics": {"test": [1, 2]}}, "its metrics of the test split are no table"),
        ({"metrics": {"test": {"correct": 3, "count": 4, "f1": "high"}}}, "a metric of its test split is no number"),
        ({"metrics": []}, "are not all tables"),
        ({"costs": {"train_seconds": "long"}}, "a cost is no number"),
    ],
)
def test_a_record_that_no_reader_can_use_counts_as_missing(
    build_study: BuildStudy, change: dict[str, object], said: str
) -> None:
    root = build_study({"baseline": [300, 301], "heads_1": [300, 302]})
    study = read_study(root.parent / "synthetic.toml")
    run = write_design(root, study, data_id=DATA_ID, data_summary=data_summary())[0]
    _tamper(root, "heads_1", dataclasses.replace(outcome(run, 300), **change))  # type: ignore[arg-type]
    results = load(root)
    (line,) = results.damaged
    assert line.startswith("runs/heads_1-s0-")
    assert said in line
    assert (results.runs["status"] == "missing").sum() == 1


def test_other_labels_are_another_test_set(build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300, 301], "heads_1": [300, 302]})
    study = read_study(root.parent / "synthetic.toml")
    run = write_design(root, study, data_id=DATA_ID, data_summary=data_summary())[0]
    told = predictions(300)
    turned = dataclasses.replace(told, label=told.label[::-1], predicted=told.predicted[::-1])
    _tamper(root, "heads_1", dataclasses.replace(outcome(run, 300), predictions=turned))
    with pytest.raises(ResultsError, match=r"different test labels: .*baseline.*heads_1"):
        load(root)


def test_the_test_set_is_the_one_that_was_planned(build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300], "heads_1": [300]})
    design = raw_design(root)
    design["data"]["splits"]["test"]["count"] = 401
    replace_json(root / "design.json", design)
    with pytest.raises(ResultsError, match="a test set of 400 texts, where the study's data have 401"):
        load(root)


def test_a_run_that_is_recorded_twice_is_refused(build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300], "heads_1": [300]})
    record = next((root / "runs").glob("heads_1-*"))
    shutil.copytree(record, root / "runs" / "a_copy")
    with pytest.raises(ResultsError, match="recorded twice: a_copy, heads_1"):
        load(root)


def test_what_is_damaged_or_of_another_design_is_counted(build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300, 301], "heads_1": [300, 302]})
    record = next((root / "runs").glob("heads_1-s0-*"))
    (record / "outcome.json").write_text("{", encoding="utf-8")
    other = build_study({"baseline": [300], "no_position": [301]}, name="other")
    shutil.copytree(next((other / "runs").glob("no_position-*")), root / "runs" / "no_position-s0-x")
    results = load(root)
    assert len(results.damaged) == 1
    assert results.others == 1
    runs = results.runs
    assert list(runs[runs["variant"] == "heads_1"]["status"]) == ["missing", "finished"]


def test_no_design_is_told(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="no study was ever started"):
        load(tmp_path)
    (tmp_path / "design.json").write_text("{", encoding="utf-8")
    with pytest.raises(DesignError, match=r"design\.json: not readable"):
        load(tmp_path)


def test_placebos_are_rows_of_the_runs_and_no_variants(build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300, 304], "heads_1": [301, 299], "placebo_1": [302, "dead"]})
    results = load(root)
    assert (results.variants, results.placebos, results.anytime) == (["heads_1"], ["placebo_1"], None)
    own = results.runs[results.runs["variant"] == "placebo_1"]
    assert list(own["seed"]) == [0, 1]
    assert list(own["test_correct"]) == [302, 200]
    assert list(own["failed"]) == [False, True]
    assert not set(own["stream"]) & {0, 1}
    others = results.runs[results.runs["variant"] != "placebo_1"]
    assert list(others["stream"]) == list(others["seed"])
    assert all(str(stream) in folder for stream, folder in zip(own["stream"], own["folder"], strict=True))


def test_a_placebo_that_was_trained_with_another_seed_is_refused(build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300], "heads_1": [301], "placebo_1": [302]})
    design = raw_design(root)
    (row,) = (r for r in design["runs"] if r["variant"] == "placebo_1")
    row["stream"] += 1
    replace_json(root / "design.json", design)
    with pytest.raises(ResultsError, match=f"placebo_1-.*planned with {row['stream']}"):
        load(root)


def test_a_design_from_before_there_were_placebos(build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300], "heads_1": [301]})
    design = raw_design(root)
    for told in (design["now"], design["first"]):
        del told["placebos"], told["anytime"], told["plan"]["anytime"]
    replace_json(root / "design.json", design)
    results = load(root)
    assert (results.placebos, results.anytime, results.complete_seeds) == ([], None, [0])


def test_the_seeds_that_count_are_the_complete_ones_in_order_from_the_first(build_study: BuildStudy) -> None:
    correct = {
        "baseline": [300, 304, 298, 300],
        "heads_1": [301, "diverged", "crashed", 300],
        "placebo_1": ["missing", 300],
    }
    results = load(build_study(correct, anytime=40))
    assert results.anytime == "sign"
    assert results.seeds == list(range(40))
    assert results.complete_seeds == [0, 1]


def test_records_that_are_written_while_a_folder_is_read_do_not_disturb(
    build_study: BuildStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = build_study({"baseline": [300, 301], "heads_1": [300, "missing"]})
    before = read_ledger(root)
    study = read_study(root.parent / "synthetic.toml")
    write_run(root, study, write_design(root, study, data_id=DATA_ID, data_summary=data_summary())[-1], 299)
    monkeypatch.setattr("knockout.analysis.results.read_ledger", lambda _root: before)
    assert list(load(root).runs["status"]) == ["finished", "finished", "finished", "missing"]
