"""Exports in other shapes than one row per run: configuration columns, seeds in names, wide sheets, charts of W&B."""

from pathlib import Path
from typing import Any

import pytest

from knockout.analysis.external.runs import Imported, RunColumns, read_runs
from knockout.analysis.external.shapes import matching
from knockout.strict import FaultsError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.csv"


def read(path: Path, text: str, **columns: Any) -> Imported:
    path.write_text(text, encoding="utf-8")
    return read_runs(path, RunColumns(**columns))


def rows(found: Imported) -> list[tuple[Any, ...]]:
    return list(found.frame[["variant", "seed", "value", "status"]].itertuples(index=False, name=None))


def refused(path: Path, text: str, **columns: Any) -> str:
    with pytest.raises(FaultsError) as caught:
        read(path, text, **columns)
    return str(caught.value)


CONFIGURATIONS = """use_residual,num_heads,seed,accuracy
True,8,1,.80
True,8,2,.81
False,8,1,.70
False,8,2,.71
True,,1,.75
"""


def test_configuration_columns_together_name_the_variant(path: Path) -> None:
    found = read(path, CONFIGURATIONS, configuration=("use_residual", "num_heads"))
    assert list(dict.fromkeys(found.frame["variant"])) == [
        "use_residual=True, num_heads=8",
        "use_residual=False, num_heads=8",
        "use_residual=True, num_heads=(blank)",
    ]
    assert found.frame["value"].tolist() == [0.80, 0.81, 0.70, 0.71, 0.75]
    assert 'use_residual", "num_heads" together name the variant: 3 combinations' in found.notes[0]
    assert 'no column "heads"' in refused(path, CONFIGURATIONS, configuration=("use_residual", "heads"))


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("use_residual=True, num_heads=8", ["use_residual=True, num_heads=8"]),
        ("num_heads=8.0,use_residual=true", ["use_residual=True, num_heads=8"]),
        ("use_residual=False", ["use_residual=False, num_heads=8"]),
        ("num_heads=8", ["use_residual=True, num_heads=8", "use_residual=False, num_heads=8"]),
        ("depth=3", []),
        ("base", []),
    ],
)
def test_a_baseline_is_named_by_columns_and_values(asked: str, meant: list[str]) -> None:
    names = ["use_residual=True, num_heads=8", "use_residual=False, num_heads=8", "use_residual=True, num_heads=4"]
    assert matching(asked, names, ["use_residual", "num_heads"]) == meant


def test_seeds_in_names(path: Path) -> None:
    text = "variant,accuracy\nbase_seed1,.80\nbase_seed2,.81\nno_x_seed1,.70\nno_x_seed2,.71\n"
    expected = [("base", "1", 0.80), ("base", "2", 0.81), ("no_x", "1", 0.70), ("no_x", "2", 0.71)]
    for pattern in (r"_seed(\d+)$", r"(?P<variant>.+)_seed(?P<seed>\d+)", r"_seed(?P<seed>\d+)"):
        found = read(path, text, seed_pattern=pattern)
        assert [row[:3] for row in rows(found)] == expected
    assert 'Seeds are read from variant: "base_seed1" is "base" with seed "1".' in found.notes


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        (r"_seed(\d+", "is no regular expression"),
        (r"_seed\d+", "has no group: the part in brackets is the seed"),
        (r"_s(\d+)$", 'line 2: "base_seed1" holds no seed'),
        (r"(.+)", 'line 2: "base_seed1" is a seed only'),
    ],
)
def test_a_pattern_that_fits_nothing_is_refused(path: Path, pattern: str, fault: str) -> None:
    assert fault in refused(path, "variant,accuracy\nbase_seed1,.80\n", seed_pattern=pattern)


def test_runs_without_seeds_are_numbered(path: Path) -> None:
    text = "variant,accuracy\nbase,.80\nbase,.81\nx,.70\n"
    assert 'no column "seed"' in refused(path, text)
    assert [row[:2] for row in rows(read(path, text, paired=False))] == [("base", "1"), ("base", "2"), ("x", "3")]


def test_a_wide_sheet_with_a_column_for_each_variant(path: Path) -> None:
    text = "seed,base,no_x,remark\n1,.80,.70,slow\n2,.81,diverged,\n3,.82,,\n"
    assert rows(read(path, text, wide=True)) == [
        ("base", "1", 0.80, "finished"),
        ("no_x", "1", 0.70, "finished"),
        ("base", "2", 0.81, "finished"),
        ("no_x", "2", pytest.approx(float("nan"), nan_ok=True), "diverged"),
        ("base", "3", 0.82, "finished"),
        ("no_x", "3", pytest.approx(float("nan"), nan_ok=True), "missing"),
    ]
    notes = read(path, text, wide=True, metric="score").notes
    assert 'a column for each variant ("base", "no_x"): its numbers are score' in notes[0]
    assert 'left out: "remark"' in notes[1]


def test_a_wide_sheet_with_a_column_for_each_seed(path: Path) -> None:
    found = read(path, "variant;1;2;3\nbase;0,80;0,81;0,82\nno_x;0,70;0,71;0,72\n", wide=True)
    assert [row[:3] for row in rows(found)] == [
        ("base", "1", 0.80),
        ("base", "2", 0.81),
        ("base", "3", 0.82),
        ("no_x", "1", 0.70),
        ("no_x", "2", 0.71),
        ("no_x", "3", 0.72),
    ]


def test_a_sheet_that_is_not_wide_is_refused(path: Path) -> None:
    assert "no wide sheet" in refused(path, "a,b\nx,y\n", wide=True)
    assert "no wide sheet" in refused(path, "base,no_x\n.8,.7\n", wide=True)


CHART = """"Step","base_seed1 - val/acc","base_seed1 - val/acc__MIN","base_seed1 - val/acc__MAX","x_seed1 - val/acc",\
"x_seed1 - val/acc__MIN","x_seed1 - val/acc__MAX"
"1","0.5","0.5","0.5","0.4","0.4","0.4"
"2","0.8","0.8","0.8","0.7","0.7","0.7"
"3","","","","0.75","0.75","0.75"
"""


def test_the_runs_of_a_chart_are_read_with_their_last_values(path: Path) -> None:
    found = read(path, CHART, metric="val/acc", seed_pattern=r"_seed(\d+)$")
    assert [row[:3] for row in rows(found)] == [("base", "1", 0.8), ("x", "1", 0.75)]
    assert "is a chart that W&B exported: the last value of each of 2 runs was read (Step up to 3)" in found.notes[0]
    assert 'no column "accuracy"' in refused(path, CHART, paired=False)


def test_a_chart_of_groups_holds_no_runs_and_says_what_to_export(path: Path) -> None:
    text = CHART.replace("base_seed1", "Group: base").replace("x_seed1", "Group: x").replace('"0.75"\n', '"0.79"\n')
    told = refused(path, text, metric="val/acc")
    assert "means over several runs" in told
    assert "table of runs" in told
    alone = CHART.replace("base_seed1", "Group: base").replace("x_seed1", "Group: x")
    assert read(path, alone, metric="val/acc", paired=False).frame["variant"].tolist() == ["base", "x"]
