"""A trainer of one's own, from the page about it to its report; and what happens once it is edited."""

import csv
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from knockout.ledger import read_ledger
from knockout.record import read_record
from knockout.starter import write_starter
from knockout.study import read_study
from knockout.sweep.survey import survey
from knockout.sweep.work import Task, work
from knockout.trainer_source import import_path
from tests.command_line import knockout

PAGE = Path(__file__).parents[2] / "docs" / "your-own-model.md"


def block(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The trainer and the study of the page, with few seeds; nothing else tells Python where the trainer is."""
    (tmp_path / "my_trainer.py").write_text(block("python"), encoding="utf-8")
    study = block("toml").replace("seeds = 10", "seeds = 3").replace("steps = 300", "steps = 150")
    (tmp_path / "mine.toml").write_text(study + "[run]\nworkers = 1\n", encoding="utf-8")
    return tmp_path


def run(folder: Path, *options: str) -> tuple[int, str]:
    """Exit code and both outputs of `knockout run`, in another folder than the study's."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    done = knockout("run", str(folder / "mine.toml"), "--results", str(folder / "results"), *options, cwd=elsewhere)
    return done.returncode, done.stdout + done.stderr


def shown(folder: Path, command: str) -> str:
    done = knockout(command, str(folder / "results" / "mine"), cwd=folder)
    return done.stdout + done.stderr


def edit(folder: Path, before: str, after: str) -> None:
    path = folder / "my_trainer.py"
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after), encoding="utf-8")


def sources(folder: Path) -> list[str]:
    records = read_ledger(folder / "results" / "mine").records.values()
    return [str(r.outcome["environment"]["trainer_source"]) for r in records]


def test_the_starter_writes_the_trainer_of_the_page_and_its_study_says_no_less(tmp_path: Path) -> None:
    study, _, trainer = write_starter(tmp_path, trainer=True)
    assert trainer.read_text(encoding="utf-8") == block("python")
    whole, told = tomllib.loads(study.read_text(encoding="utf-8")), tomllib.loads(block("toml"))
    assert {key: whole[key] for key in told} | {"train": told["train"]} == told
    assert whole["train"] == {"steps": 300, "learning_rate": 0.05}
    assert read_study(study).baseline.recipe.steps == 300


@pytest.mark.long
def test_check_looks_at_the_answer_of_a_trainer_whose_runs_are_short(folder: Path) -> None:
    def checked() -> str:
        return knockout("check", "mine.toml", cwd=folder).stdout

    assert "the trainer's answer was checked, on one whole run of every variant" in checked()
    edit(folder, '"correct": right, ', "")
    assert "baseline did not train: the trainer's answer cannot be used" in checked()
    study = (folder / "mine.toml").read_text(encoding="utf-8").replace("steps = 150", "steps = 100_000_000")
    (folder / "mine.toml").write_text(study, encoding="utf-8")
    text = checked()
    assert "the trainer's answer was not checked: a run takes about" in text
    assert "did not train" not in text


@pytest.mark.long
def test_a_dropped_variant_is_named_and_counted_before_the_report_does(folder: Path) -> None:
    run(folder)
    path = folder / "mine.toml"
    path.write_text(re.sub(r"(?m)^variants = .*", 'variants = ["no_squares"]', path.read_text()), encoding="utf-8")
    line = "dropped since the first run, and still counted by Holm: no_momentum"
    assert line in run(folder)[1]
    assert line in run(folder, "--dry-run")[1]
    assert line in shown(folder, "report")
    text = knockout("check", "mine.toml", "--no-measure", cwd=folder).stdout
    assert line in text
    assert "3 seeds, 2 contrasts" in text
    table = (folder / "results/mine/contrasts.csv").read_text(encoding="utf-8")
    (row,) = csv.DictReader(table.splitlines())
    assert (row["variant"], row["family"]) == ("no_squares", "2")


@pytest.mark.long
def test_the_trainer_of_the_page_runs_from_anywhere_and_an_edit_is_named_until_it_is_declared(folder: Path) -> None:
    code, text = run(folder)
    assert (code, "9 planned: 9 finished" in text) == (0, True), text
    assert "trainer:" not in text
    assert len(set(sources(folder))) == 1
    assert "trainer:" not in shown(folder, "status")
    assert "no_squares" in shown(folder, "report")
    report = folder / "results" / "mine" / "details.md"
    clean = report.read_text(encoding="utf-8")
    assert f"sha256 {sources(folder)[0]} (9 runs)" in clean

    edit(folder, "def log_loss", "# a comment\ndef log_loss")
    assert "changed" not in run(folder, "--dry-run")[1]

    edit(folder, "learning_rate: float = 0.05", "learning_rate: float = 0.06")
    code, text = run(folder)
    assert (code, "Nothing was trained" in text, "\nresults: " in f"\n{text}") == (2, True, False), (
        text
    )  # a complete study too
    told = "the trainer has changed since these results"
    assert told in text
    assert "raise VERSION (now 1)" in text
    for name in ("status", "report"):
        assert told in shown(folder, name), name
    assert told.capitalize() in report.read_text(encoding="utf-8").split("##")[0]  # its head
    assert told in run(folder, "--dry-run")[1]
    done = knockout("check", "mine.toml", "--no-measure", cwd=folder)
    assert told in done.stdout, done.stderr

    missing = next(p for p in (folder / "results" / "mine" / "runs").iterdir() if p.name.startswith("no_momentum-s2"))
    missing.rename(folder / "away")
    before = set((folder / "results" / "mine").rglob("*"))
    code, text = run(folder)
    assert code == 2
    assert "Nothing was trained" in text
    assert "--same-trainer" in text
    assert set((folder / "results" / "mine").rglob("*")) == before

    code, text = run(folder, "--same-trainer")
    assert (code, "1 trained now" in text) == (0, True), text
    assert sorted(sources(folder).count(s) for s in set(sources(folder))) == [1, 8]
    declared = "--same-trainer declared that this changes no number"
    for name in ("status", "report"):
        assert declared in shown(folder, name), name
    assert declared in report.read_text(encoding="utf-8").split("##")[0]
    assert json.loads((folder / "results" / "mine" / "design.json").read_text())["same_trainer"]
    assert run(folder)[0] == 0  # for good

    edit(folder, "VERSION = 1", "VERSION = 2")
    code, text = run(folder)
    assert (code, "9 trained now" in text, "changed" in text) == (0, True, False), text


def test_a_worker_that_reads_another_source_than_the_coordinator_leaves_no_result(folder: Path) -> None:
    class Alive:
        def alive(self) -> bool:
            return True

    study = read_study(folder / "mine.toml")
    state = survey(study, folder / "root")
    task = Task(
        root=folder / "root", runs=state.runs[:1], configs={r.id: state.config(r) for r in state.runs},
        trainer=study.trainer.path, source="0" * 64, factors=study.baseline.factors, recipe=study.baseline.recipe,
        data=None, device="cpu", threads=1, workers=1, timeout_seconds=0.0,
    )  # fmt: skip
    with import_path(study.trainer.folders):
        (answer,) = work(task, Alive())
        assert answer.status == "crashed"
        assert read_record(task.root, task.configs[task.runs[0].id]) is None
        (again,) = work(replace(task, source=study.trainer.source.sha256), Alive())
    assert again.status == "finished"


def test_records_without_a_source_and_a_damaged_note_of_its_place_say_nothing(folder: Path) -> None:
    run(folder)
    root = folder / "results" / "mine"
    for content in ("", "[1", '["a"]', '{"trainer": "my_trainer:train", "folders": 3}'):
        (root / "trainer.json").write_text(content, encoding="utf-8")
        assert "trainer:" not in shown(folder, "status")
    (root / "trainer.json").unlink()
    assert "trainer:" not in shown(folder, "report")
    run(folder)
    assert (root / "trainer.json").is_file()


def test_a_module_of_the_study_shadows_none_of_pythons_in_a_worker(folder: Path) -> None:
    (folder / "random.py").write_text("raise RuntimeError('not this one')\n", encoding="utf-8")
    code, text = run(folder, "--only", "no_squares")
    assert (code, "3 finished" in text) == (0, True), text
