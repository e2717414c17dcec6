"""`knockout compare`: a file of runs becomes a report, and what is wrong with it is said before anything is."""

import csv
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from knockout.cli import app
from knockout.errors import UserError

SCORES = {"base": 0.80, "<b>bold</b>": 0.80, "NA": 0.83, "007": 0.77}
JITTER = (0.004, -0.003, 0.001, 0.002, -0.002, 0.0, 0.003, -0.001)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A table as Weights & Biases exports it: one run that crashed, two that ended without a number."""
    path = tmp_path / "wandb.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        write = csv.writer(file)
        write.writerow(["Name", "State", "seed", "val/accuracy", "val/loss", "Group"])
        for v, score in SCORES.items():
            for s, jitter in enumerate(JITTER):
                value = f"{score + jitter * (1 + len(v)) / 3:.4f}"
                state = "crashed" if (v, s) == ("<b>bold</b>", 3) else "finished"
                value = "NaN" if v == "007" and s in (2, 5) else value
                write.writerow([f"{v}-{s}", state, s, value, 1 - score + jitter, v])
    return path


def compare(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, ["compare", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


MAPPED = ("--baseline", "base", "--variant", "Group", "--metric", "val/accuracy", "--status", "State")


def test_a_table_of_another_tool_gets_verdicts_and_a_report(runs: Path) -> None:
    told = compare(runs, *MAPPED)
    assert re.search(r"<b>bold</b> 7/8 .* inconclusive \(incomplete: 7 of 8\)", told)
    assert re.search(r"NA 8/8 0 of 8 .* better", told)
    assert re.search(r"007 8/8 2 of 8 .* worse", told)
    assert "they count as diverged" in told
    folder = runs.with_name("wandb_report")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert "<b>bold" not in page
    assert {p.name for p in folder.iterdir()} >= {"report.md", "contrasts.csv", "analysis.json", "figures"}
    assert "costs.csv" not in page
    rows = csv.DictReader((folder / "contrasts.csv").read_text(encoding="utf-8").splitlines())
    names = [row["variant"] for row in rows]
    assert names == ["<b>bold</b>", "NA", "007"]


def test_a_metric_of_its_own_unit_needs_a_margin_and_knows_that_lower_is_better(runs: Path, tmp_path: Path) -> None:
    mapped = [*MAPPED[:4], "--metric", "val/loss", "--status", "State", "--to", str(tmp_path / "out")]
    with pytest.raises(UserError, match="a margin is needed for val/loss"):
        compare(runs, *mapped)
    assert not (tmp_path / "out").exists()
    told = compare(runs, *mapped, "--margin", "0.01")
    assert re.search(r"NA 8/8 .* better", told)
    plan = tmp_path / "plan.toml"
    plan.write_text("margin = 0.01\nalpha = 0.04\n", encoding="utf-8")
    assert "better" in compare(runs, *mapped, "--plan", plan)
    plan.write_text("alpha = 0.04\n", encoding="utf-8")
    with pytest.raises(UserError, match="a margin is needed"):
        compare(runs, *mapped, "--plan", plan)


def test_a_word_that_is_not_known_can_be_mapped(runs: Path) -> None:
    text = runs.read_text(encoding="utf-8").replace(",crashed,", ",stopped,")
    runs.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match="stopped"):
        compare(runs, *MAPPED)
    assert "incomplete: 7 of 8" in compare(runs, *MAPPED, "--status", "stopped=missing")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["no.csv", "--baseline", "base"], "no.csv"),
        (["x.csv", "--baseline", "b", "--status", "a", "--status", "b"], "--status names one column"),
    ],
)
def test_what_is_wrong_is_said(
    arguments: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=re.escape(text)):
        compare(*arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["compare"], "Missing argument 'FILE'"),
        (["report"], "Missing argument 'STUDY'"),
        (["report", "--from", "x.csv"], "No such option: --from"),
    ],
)
def test_arguments_that_are_missing_or_unknown(arguments: list[str], text: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert text in " ".join(done.output.replace("│", "").split())


def test_the_folder_of_a_study_is_not_written_over(runs: Path, tmp_path: Path) -> None:
    study = tmp_path / "study"
    study.mkdir()
    (study / "design.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match="folder of a study"):
        compare(runs, *MAPPED, "--to", study)
    assert [p.name for p in study.iterdir()] == ["design.json"]


def test_a_folder_with_other_files_is_left_alone(runs: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "report.md").write_text("my own notes", encoding="utf-8")
    with pytest.raises(UserError, match="holds files that are no report"):
        compare(runs, *MAPPED, "--to", mine)
    assert (mine / "report.md").read_text(encoding="utf-8") == "my own notes"
    compare(runs, *MAPPED)
    compare(runs, *MAPPED)  # over its own


@pytest.mark.parametrize("unit", [[], ["--unit", "percent"]])
def test_percent_signs_are_percent(tmp_path: Path, unit: list[str]) -> None:
    path = tmp_path / "excel.csv"
    rows = [f"{v};{s}.0;{80 + 3 * (v == 'v') + s % 3:.2f} %".replace(".", ",") for v in ("base", "v") for s in range(8)]
    path.write_text("variant;seed;accuracy\n" + "\n".join(rows).replace(",0;", ".0;") + "\n", encoding="utf-8")
    assert re.search(r"v 8/8 0 of 8 83\.\d+ ± \S+ \+3.00", compare(path, "--baseline", "base", *unit))
    page = path.with_name("excel_report") / "details.md"
    assert "8 (0, 1, 2, 3, 4, 5, 6, 7)" in page.read_text(encoding="utf-8")
    with pytest.raises(UserError, match="percent signs"):
        compare(path, "--baseline", "base", "--unit", "raw", "--margin", "1")


def test_what_was_named_late_and_what_is_missing_is_said(runs: Path) -> None:
    compare(runs, *MAPPED, "--margin", "0.4")
    page = runs.with_name("wandb_report") / "details.md"
    text = page.read_text(encoding="utf-8")
    assert "Whether they were fixed before results existed is not known" in text
    assert "the packaged plan, margin 0.4" in text
    assert "| \\<b\\>bold\\</b\\> | 3 | missing |" in text
    assert "| 007 | 2 | variant failed |" in text
