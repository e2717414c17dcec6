"""Exports of Optuna's `study.trials_dataframe()`, as optuna 4 writes them."""

from pathlib import Path

import pytest

from knockout.analysis.external.runs import RunColumns, read_runs

HEAD = "number,value,datetime_start,datetime_complete,duration"
TIMES = "2026-12-03 05:41:35.910512,2026-12-03 05:41:35.910680,0 days 00:00:00.000168"


@pytest.fixture
def trials(tmp_path: Path) -> Path:
    rows = [
        (0.80, 0, "base", 0.80, "COMPLETE"),
        (0.81, 1, "base", 0.81, "COMPLETE"),
        (0.83, 0, "a", 0.83, "COMPLETE"),
        (0.41, 1, "a", "", "PRUNED"),
        ("", 2, "a", "", "FAIL"),
        ("", 2, "base", "", "RUNNING"),
    ]
    lines = [f"{i},{value},{TIMES},{s},{v},{acc},{state}" for i, (value, s, v, acc, state) in enumerate(rows)]
    path = tmp_path / "trials.csv"
    path.write_text(
        "\n".join([f"{HEAD},params_seed,params_variant,user_attrs_accuracy,state", *lines]), encoding="utf-8"
    )
    return path


@pytest.mark.parametrize("metric", ["value", "accuracy", "user_attrs_accuracy"])
def test_an_export_needs_no_more_than_the_metric(trials: Path, metric: str) -> None:
    found = read_runs(trials, RunColumns(metric=metric))
    assert found.frame["variant"].tolist() == ["base", "base", "a", "a", "a", "base"]
    assert found.frame["seed"].tolist() == ["0", "1", "0", "1", "2", "2"]
    assert found.frame["status"].tolist() == ["finished", "finished", "finished", "missing", "crashed", "missing"]
    assert found.frame["value"].dropna().tolist() == [0.80, 0.81, 0.83]  # .41 is the last value of a pruned trial


def test_parameters_together_name_the_variant_where_no_column_does(tmp_path: Path) -> None:
    path = tmp_path / "grid.csv"
    lines = [
        f"{2 * s + (h == 8)},{0.8 + s / 100},{TIMES},{h},{b},{s},COMPLETE"
        for s in range(3)
        for h, b in ((4, True), (8, True), (4, False))
    ]
    path.write_text("\n".join([f"{HEAD},params_heads,params_bias,user_attrs_seed,state", *lines]), encoding="utf-8")
    found = read_runs(path, RunColumns(metric="value"))
    assert found.columns.names == ("params_heads", "params_bias")
    assert found.columns.seeds == ("user_attrs_seed",)
    assert found.frame["variant"][0] == "params_heads=4, params_bias=True"


def test_columns_that_were_named_are_those_that_are_read(trials: Path) -> None:
    found = read_runs(trials, RunColumns(variant="params_seed", metric="value", seed=("number",), status="state"))
    assert found.columns.names == ("params_seed",)
    assert found.columns.seeds == ("number",)
