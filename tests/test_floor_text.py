"""Floors in words, and those that a trainer of one's own states."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from knockout.design import read_design, save_design, write_design
from knockout.floor_text import below_floor, floor_lines
from knockout.job import Floor
from knockout.strict import FaultsError
from knockout.study import read_study
from knockout.sweep.survey import prepare_data, study_floors
from knockout.trainers import wrong_floors
from tests.command_line import knockout

MAJORITY = Floor(
    name="the commonest class", scores={"accuracy": 0.5, "macro_f1": 1 / 3, "log_loss": 0.6931}, made="counted"
)
LINEAR = Floor(
    name="a linear model on word uni- and bigrams", scores={"accuracy": 0.759, "log_loss": 0.5}, made="fitted"
)
STATED = Floor(name="last year's model", scores={"accuracy": 0.9})


def test_below_the_best_floor_is_said_with_the_difference() -> None:
    assert below_floor([MAJORITY, LINEAR], "accuracy", 70.3) == (
        "The baseline's mean accuracy, 70.3 %, is 5.6 points below what a linear model on word uni- and bigrams reaches"
        " with the same training texts (75.9 %)."
    )
    assert below_floor([MAJORITY, LINEAR], "log_loss", 0.6) == (
        "The baseline's mean log-loss, 0.6000 nats, is 0.1000 nats above what a linear model on word uni- and bigrams"
        " reaches with the same training texts (0.5000 nats, and lower is better)."
    )
    assert "is 10.0 points below what last year's model reaches (90.0 %)" in below_floor([STATED], "accuracy", 80.0)
    assert "is less than 0.1 points below" in below_floor([LINEAR], "accuracy", 75.89)


def test_nothing_is_said_of_a_baseline_that_reaches_its_floors_or_has_no_mean() -> None:
    assert below_floor([MAJORITY, LINEAR], "accuracy", 75.9) == ""
    assert below_floor([MAJORITY, LINEAR], "log_loss", 0.49) == ""
    assert below_floor([MAJORITY, LINEAR], "accuracy", None) == ""
    assert below_floor([STATED], "macro_f1", 1.0) == ""
    assert below_floor([], "accuracy", 1.0) == ""


def test_the_floors_in_sentences_the_best_first() -> None:
    assert floor_lines([MAJORITY, LINEAR, STATED], "accuracy") == [
        (
            "Without a deep model, the same training texts give 75.9 % accuracy (a linear model on word uni- and"
            " bigrams) and 50.0 % (the commonest class)."
        ),
        "Floors that the trainer states: 90.0 % accuracy (last year's model).",
    ]
    assert floor_lines([STATED], "macro_f1") == []


WriteStudy = Callable[..., Path]


def own(folder: Path, write_study: WriteStudy, floors: str) -> Path:
    """A study of a trainer with this `FLOORS`."""
    source = (Path(__file__).parent / "trainers" / "toy_trainer.py").read_text(encoding="utf-8")
    (folder / "floored.py").write_text(source + f"\n\n{floors}\n", encoding="utf-8")
    return write_study(
        'question = "Why?"\ntrainer = "floored:train"\nvariants = ["up"]\nseeds = 2\n[run]\nworkers = 1\n', "own"
    )


@pytest.mark.parametrize(
    ("floors", "said"),
    [
        ({"x": {"accuracy": 75.9}}, "accuracy is a share from 0 to 1; got 75.9"),
        ({"x": {"acuracy": 0.5}}, 'unknown metric "acuracy" (did you mean "accuracy"?)'),
        ({"x": {"log_loss": float("nan")}}, "log_loss is in nats, at least 0; got NaN"),
        ({"x": {"macro_f1": True}}, "macro_f1 is a share from 0 to 1; got true"),
        ({"x": {"accuracy": "0.5"}}, 'accuracy is a share from 0 to 1; got "0.5"'),
        ({"x": {}}, 'FLOORS["x"] is no mapping of metrics to values: {}'),
        ({"x": 0.5}, 'FLOORS["x"] is no mapping of metrics to values: 0.5'),
        ({" ": {"accuracy": 0.5}}, 'a name is a line of text, got " "'),
        ({3: {"accuracy": 0.5}}, "a name is a line of text, got 3"),
        ([0.5], "FLOORS is no mapping of names to scores: [0.5]"),
        (None, "FLOORS is no mapping of names to scores: null"),
    ],
)
def test_a_wrong_floor_of_a_trainer_is_named(floors: object, said: str) -> None:
    (wrong,) = wrong_floors(floors)
    assert said in wrong


def test_a_wrong_floor_stops_the_reading_of_a_study(tmp_path: Path, write_study: WriteStudy) -> None:
    with pytest.raises(FaultsError, match="accuracy is a share from 0 to 1; got 75"):
        read_study(own(tmp_path, write_study, 'FLOORS = {"x": {"accuracy": 75}}'))


def test_a_function_of_the_data_gives_floors_and_its_errors_are_named(tmp_path: Path, write_study: WriteStudy) -> None:
    path = own(tmp_path, write_study, 'def FLOORS(data):\n    return {"blind": {"accuracy": 1 if data is None else 0}}')
    study = read_study(path)
    (floor,) = study_floors(study, prepare_data(study))
    assert floor == Floor(name="blind", scores={"accuracy": 1.0})
    for body, said in (("1 / 0", "FLOORS failed: ZeroDivisionError"), ("data", "FLOORS is no mapping")):
        broken = dataclasses.replace(study.trainer, floors=eval(f"lambda data: {body}"))
        with pytest.raises(FaultsError, match=said):
            study_floors(dataclasses.replace(study, trainer=broken), prepare_data(study))


def test_a_trainer_without_data_and_without_floors_has_none(tmp_path: Path, write_study: WriteStudy) -> None:
    study = read_study(own(tmp_path, write_study, ""))
    assert study_floors(study, prepare_data(study)) == ()


def test_the_design_keeps_floors_and_a_file_without_them_stays_as_it_is(
    tmp_path: Path, write_study: WriteStudy
) -> None:
    study = read_study(own(tmp_path, write_study, ""))
    root = tmp_path / "root"
    write_design(root, study, data_id="", data_summary={})
    without = (root / "design.json").read_bytes()
    assert b"floors" not in without
    design = read_design(root)
    assert design is not None
    assert design.floors == ()
    save_design(root, design)
    assert (root / "design.json").read_bytes() == without
    write_design(root, study, data_id="", data_summary={}, floors=(MAJORITY, STATED))
    again = read_design(root)
    assert again is not None
    assert again.floors == (MAJORITY, STATED)
    with_them = (root / "design.json").read_bytes()
    save_design(root, again)
    assert (root / "design.json").read_bytes() == with_them
    assert [floor["name"] for floor in json.loads(with_them)["floors"]] == [MAJORITY.name, STATED.name]


@pytest.mark.long
def test_floors_are_on_the_screen_and_at_the_head_of_the_report(tmp_path: Path, write_study: WriteStudy) -> None:
    own(tmp_path, write_study, 'FLOORS = {"a perfect model": {"accuracy": 1.0}}')
    line = "Floors that the trainer states: 100.0 % accuracy (a perfect model)."
    assert line in knockout("check", "own.toml", "--no-measure", cwd=tmp_path).stdout
    assert line in knockout("run", "own.toml", cwd=tmp_path).stdout
    done = knockout("report", "results/own", cwd=tmp_path)
    beside = f"{line[:-2]}; baseline \N{MINUS SIGN}29.25 points)."  # 70.75 % of two seeds: no interval
    assert beside in " ".join(done.stdout.split()), done.stderr
    head = (tmp_path / "results" / "own" / "report.md").read_text(encoding="utf-8").split("##")[0]
    assert head.split("\n- ")[1].startswith("The baseline's mean accuracy, ")
    assert "below what a perfect model reaches (100.0 %)" in head
    assert beside in head


def test_the_summary_of_a_data_set_ends_with_its_floors(tmp_path: Path, cache: Path) -> None:
    lines = [f"word{i % 17} text{i} {'good' if i % 2 else 'bad'} film{i % 5},{i % 2}" for i in range(200)]
    (tmp_path / "reviews.csv").write_text("\n".join(["text,label", *lines]) + "\n", encoding="utf-8")
    done = knockout("data", "reviews.csv", cwd=tmp_path)
    assert "training texts give 100.0 % accuracy (a linear model on word uni- and bigrams)" in done.stdout, done.stderr
    assert "chosen by the log-loss on the validation texts" in done.stdout
    assert len(list((cache / "floors").iterdir())) == 1
