"""What exports hold that is easily taken for something else: mixed units, blank columns, forms of letters, parents."""

import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from knockout.analysis import FrameError, compare
from knockout.analysis.external.report import Written, report_runs
from knockout.analysis.external.runs import RunColumns, read_runs
from knockout.errors import UserError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.csv"


def rows(base: Sequence[object], other: Sequence[object], header: str = "variant,seed,accuracy") -> str:
    lines = [f"{name},{s},{x}" for name, values in (("base", base), ("v", other)) for s, x in enumerate(values)]
    return "\n".join([header, *lines]) + "\n"


def report(path: Path, metric: str = "accuracy", to: str = "out", margin: float | None = None) -> Written:
    columns = RunColumns(metric=metric)
    return report_runs(path, columns, statuses={}, baseline="base", target=path.parent / to, margin=margin)


@pytest.mark.parametrize("unit", ["share", "percent", None])
def test_shares_beside_percentages_are_asked_about(unit: str | None) -> None:
    frame = pd.DataFrame(
        [("base", s, 0.801 + s / 1000) for s in range(5)] + [("v", s, 82.1 + s / 10) for s in range(5)],
        columns=["variant", "seed", "accuracy"],
    )
    with pytest.raises(FrameError, match=r"accuracy has 0\.805 and 82\.1, a share and a percentage"):
        compare(frame, baseline="base", unit=unit)  # type: ignore[arg-type]  # a text
    compare(frame, baseline="base", unit="raw", margin=1)


def test_small_percentages_are_percentages() -> None:
    frame = pd.DataFrame(
        [(v, s, 0.7 + s / 10 + shift) for v, shift in (("base", 0.0), ("v", 1.5)) for s in range(8)],
        columns=["variant", "seed", "accuracy"],
    )
    assert compare(frame, baseline="base", unit="percent")["v"].verdict == "better"


def test_a_metric_that_is_blank_throughout_is_named(path: Path) -> None:
    lines = [f"{v},{s},,{0.8 + s / 100}" for v in ("base", "v") for s in range(3)]
    path.write_text("\n".join(["variant,seed,accuracy,test_acc", *lines]), encoding="utf-8")
    with pytest.raises(UserError, match=r'"accuracy" is blank in all 6 rows\n.*"test_acc"'):
        report(path)


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "SEP=;", "sep=;;"])
def test_the_line_that_tells_excel_the_separator_is_no_header(first: str, path: Path) -> None:
    path.write_bytes(f"{first}\r\nvariant;seed;accuracy\r\nbase;1;0,80\r\nv;1;0,90\r\n".encode("utf-8-sig"))
    found = read_runs(path, RunColumns())
    assert found.frame["value"].tolist() == [0.80, 0.90]
    assert found.frame["row"].tolist() == [3, 4]


def test_a_separator_that_is_not_read_is_the_fault_of_line_1(path: Path) -> None:
    path.write_text("sep=|\nvariant|seed|accuracy\nbase|1|.8\n", encoding="utf-8")
    with pytest.raises(UserError, match=r'line 1: says that "[|]" separates the columns') as refused:
        read_runs(path, RunColumns())
    assert "line 2" not in str(refused.value)


def test_both_forms_of_a_letter_are_one_name(path: Path) -> None:
    composed, apart = (unicodedata.normalize(form, "précis") for form in ("NFC", "NFD"))
    assert composed != apart
    lines = [f"{name},{s},{0.8 + s / 100}" for s in range(4) for name in ((composed, apart)[s % 2], "v")]
    path.write_text("\n".join([f"variant,seed,{apart}", *lines]), encoding="utf-8")
    for name in (composed, apart):
        columns = RunColumns(metric=name)
        written = report_runs(
            path, columns, statuses={}, baseline=name, target=path.parent / "out", margin=1, better="higher"
        )
        assert written.comparison.contrasts[0].baseline.runs == 4
    frame = pd.read_csv(path).rename(columns={apart: "accuracy"})
    assert compare(frame, baseline=apart).variants == ("v",)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_parents_of_nested_runs_are_left_out(ending: str, tmp_path: Path) -> None:
    made = [("p1", "", "", "", ""), ("c1", "p1", "base", "1", ".8"), ("c2", "p1", "v", "1", ".9")]
    header = ["run_id", "tags.mlflow.parentRunId", "params.variant", "params.seed", "metrics.accuracy"]
    path = tmp_path / f"mlflow.{ending}"
    if ending == "csv":
        path.write_text("\n".join(",".join(row) for row in [header, *made]), encoding="utf-8")
    else:
        pd.DataFrame(made, columns=pd.Index(header)).to_parquet(path)
    columns = RunColumns(variant="params.variant", seed=("params.seed",), metric="metrics.accuracy")
    found = read_runs(path, columns)
    assert found.frame["variant"].tolist() == ["base", "v"]
    assert any(note.startswith("1 parent of nested runs left out") for note in found.notes)


@pytest.mark.parametrize(("metric", "said"), [("val/acc", True), ("eval_accuracy", True), ("test/acc", False)])
def test_a_verdict_on_validation_data_is_said_to_be_one(metric: str, said: bool) -> None:
    frame = pd.DataFrame(
        [(v, s, 0.8 + s / 100) for v in ("base", "v") for s in range(4)], columns=["variant", "seed", metric]
    )
    notes = compare(frame, baseline="base", metric=metric).notes
    assert any("a verdict on it is on data that chose" in note for note in notes) is said


def test_the_report_on_another_metric_is_not_written_over(path: Path) -> None:
    lines = [f"{v},{s},{0.8 + s / 100},{1 - s / 100}" for v in ("base", "v") for s in range(4)]
    path.write_text("\n".join(["variant,seed,accuracy,loss", *lines]), encoding="utf-8")
    report(path)
    report(path)  # over its own
    before = (path.parent / "out" / "analysis.json").read_bytes()
    with pytest.raises(UserError, match=r"holds the report on accuracy against base.*--to .*out_loss"):
        report(path, "loss", margin=0.1)
    assert (path.parent / "out" / "analysis.json").read_bytes() == before
    written = report(path, "loss", to="out_loss", margin=0.1)
    assert json.loads(written.paths["analysis.json"].read_text(encoding="utf-8"))["metric"]["name"] == "loss"


def test_no_report_says_that_a_test_was_planned(path: Path) -> None:
    """Of runs from elsewhere that is not known. One run lies far off, so that the rank tests disagree with t."""
    path.write_text(rows([0.80] * 8, [0.81, 0.812, 0.813, 0.809, 0.811, 0.814, 0.808, 0.99]), encoding="utf-8")
    written = report(path)
    assert "The verdict is that of the paired t test" in written.paths["details.md"].read_text(encoding="utf-8")
    assert "planned t test" not in written.paths["details.md"].read_text(encoding="utf-8")
