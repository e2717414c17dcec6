"""One small control from its file to the table of claims."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from knockout.analysis.controls import answer, controls_page, controls_table, main
from tests.command_line import knockout

STUDY = """
question = "Does a come before b?"
variants = ["no_position"]
seeds = 6
[data]
source = "synthetic/order"
max_length = 12
[model]
d_model = 16
num_layers = 1
d_ff = 16
[train]
epochs = 2
batch_size = 64
learning_rate = 1e-2
[run]
workers = 1
device = "cpu"
[[claims]]
id = "known"
text = "without | positions | every run stays at chance"
variant = "no_position"
says = "worse"
metric = "failures"
"""
WRONG = """
[[claims]]
id = "wrong"
variant = "no_position"
says = "equal"
"""


@pytest.mark.long
@pytest.mark.usefixtures("cache")
def test_a_control_shows_what_is_there_and_a_wrong_claim_fails_it(
    write_study: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(STUDY, "known")
    assert knockout("run", str(study), "--results", "results", "--quiet", cwd=tmp_path).returncode == 0
    root = tmp_path / "results" / "known"
    into = tmp_path / "out"
    assert main([str(root), "--into", str(into)]) == 0
    assert "1 of 1 claims are supported." in capsys.readouterr().out
    with (into / "controls.csv").open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["study"], row["failed"], row["result"]) == ("known", "6 of 6", "supported")
    summary = knockout("report", str(root), "--quiet", cwd=tmp_path)
    assert summary.returncode == 0
    with (root / "summary.csv").open(encoding="utf-8", newline="") as file:
        runs = list(csv.DictReader(file))
    # The two texts of a group hold the same tokens: without positions exactly one of them is right.
    assert {r["test_correct"] for r in runs if r["variant"] == "no_position"} == {"500"}
    page = (into / "controls.md").read_text(encoding="utf-8")
    assert "without \\| positions" in page

    write_study(STUDY + WRONG, "known")  # nothing is trained anew: only the claims are others
    assert knockout("run", str(study), "--results", "results", "--quiet", cwd=tmp_path).returncode == 0
    assert main([str(root), "--into", str(into)]) == 1
    assert main([str(root), "--into", str(into), "--finding", "wrong"]) == 0
    table = controls_table([root])
    assert list(table["result"]) == ["supported", "inconclusive"]
    assert answer(table) == "1 of 2 claims are supported: wrong is inconclusive."
    assert controls_page(table) == (into / "controls.md").read_text(encoding="utf-8")


def test_a_folder_without_a_study_is_named_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "none"), "--into", str(tmp_path / "out")]) == 2
    assert str(tmp_path / "none") in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
