"""A task of several runs of one variant: what a trainer on one GPU could train together."""

from dataclasses import replace
from pathlib import Path

import pytest

from knockout.ledger import read_ledger
from knockout.study import read_study
from knockout.sweep import owner
from knockout.sweep.survey import survey
from knockout.sweep.work import Task, work

from .conftest import WriteToy


class Alive:
    def alive(self) -> bool:
        return True


class Dead:
    def alive(self) -> bool:
        return False


def task_of(study_path: Path, variant: str, root: Path) -> Task:
    """All runs of a variant as one task."""
    study = read_study(study_path)
    planned = survey(study, root)
    runs = tuple(run for run in planned.runs if run.variant == variant)
    return Task(
        root=root,
        runs=runs,
        configs={run.id: planned.config(run) for run in runs},
        trainer=study.trainer.path,
        source=study.trainer.source.sha256,
        factors=study.arms[variant].factors,
        recipe=study.baseline.recipe,
        data=None,
        device="cpu",
        threads=1,
        workers=1,
        timeout_seconds=0.0,
    )


def started(root: Path) -> list[str]:
    return [line.split("\t")[1] for line in (root / "starts.log").read_text(encoding="utf-8").splitlines()]


def test_runs_trained_together_leave_the_records_of_runs_trained_alone(toy: WriteToy, tmp_path: Path) -> None:
    together = task_of(toy(seeds=3), "up", tmp_path / "together")
    answers = work(together, Alive())
    assert [a.run for a in answers] == list(together.runs)
    assert {a.status for a in answers} == {"finished"}
    alone = replace(together, root=tmp_path / "alone")
    for run in alone.runs:
        work(replace(alone, runs=(run,)), Alive())
    ours, theirs = read_ledger(together.root).records, read_ledger(alone.root).records
    assert set(ours) == set(theirs) == {run.id for run in together.runs}
    for run_id, record in ours.items():
        assert record.outcome["metrics"] == theirs[run_id].outcome["metrics"]
        assert record.table("curve").equals(theirs[run_id].table("curve"))
        assert record.table("predictions").equals(theirs[run_id].table("predictions"))


def test_what_is_recorded_already_is_not_trained_again(toy: WriteToy, tmp_path: Path) -> None:
    task = task_of(toy(seeds=3), "up", tmp_path / "results")
    work(replace(task, runs=task.runs[:1]), Alive())
    answers = work(task, Alive())
    assert [a.status for a in answers] == ["finished"] * 3
    assert sorted(started(task.root)) == sorted(run.id for run in task.runs)


def test_where_one_run_of_a_task_breaks_each_is_trained_alone(toy: WriteToy, tmp_path: Path) -> None:
    path = toy(variants=("breaks_once",), seeds=2)
    (tmp_path / "breaks_once-1").touch()  # seed 1 never breaks; seed 0 does, once, and takes the call of both with it
    task = task_of(path, "breaks_once", tmp_path / "results")
    assert [a.status for a in work(task, Alive())] == ["finished", "finished"]
    assert not read_ledger(task.root).attempts


def test_each_run_that_fails_has_an_attempt_of_its_own(toy: WriteToy, tmp_path: Path) -> None:
    task = task_of(toy(variants=("runs_out",), seeds=2), "runs_out", tmp_path / "results")
    answers = work(task, Alive())
    assert [a.status for a in answers] == ["out_of_memory", "out_of_memory"]
    assert {i: len(tries) for i, tries in read_ledger(task.root).attempts.items()} == {run.id: 1 for run in task.runs}


def test_without_a_coordinator_no_run_of_the_task_leaves_a_record(
    toy: WriteToy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "ADOPTION_SECONDS", -1.0)
    task = task_of(toy(seeds=2), "up", tmp_path / "results")
    assert [a.status for a in work(task, Dead())] == ["stopped", "stopped"]
    assert not read_ledger(task.root).records
