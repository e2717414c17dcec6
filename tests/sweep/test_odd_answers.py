"""A trainer of one's own that answers oddly: what a user sees, from the first run until it is mended."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from knockout.record import _sha256
from tests.command_line import knockout

from .conftest import TRAINERS, ledger_of, root_of, run

WriteOdd = Callable[..., Path]


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteOdd:
    """Write a study of the odd trainer and return its file; its baseline is good."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (TRAINERS, os.environ.get("PYTHONPATH")))))

    def write(*variants: str, seeds: int = 2, **recipe: str) -> Path:
        path = tmp_path / "odd.toml"
        names = ", ".join(f'"{v}"' for v in variants)
        lines = "\n".join(f"{key} = {value}" for key, value in recipe.items())
        path.write_text(
            f'question = "odd?"\ntrainer = "odd_trainer:train"\nvariants = [{names}]\nseeds = {seeds}\n'
            f"[run]\nworkers = 2\n[train]\n{lines}\n",
            encoding="utf-8",
        )
        return path

    return write


def statuses(study: Path) -> dict[str, set[str]]:
    """variant -> how its runs ended"""
    ledger = ledger_of(study)
    found: dict[str, set[str]] = {}
    for record in [*ledger.records.values(), *(a[-1] for a in ledger.attempts.values())]:
        found.setdefault(str(record.config["variant"]), set()).add(record.status)
    return found


@pytest.mark.long
def test_odd_answers_cost_their_own_runs_alone_and_are_mended_by_a_rerun(odd: WriteOdd) -> None:
    study = odd(
        "nothing", "bare_accuracy", "nan", "infinite_count", "other_folder", "half_character", "unprintable",
        "text_as_loss",
    )  # fmt: skip
    done = knockout("run", study.name, cwd=study.parent)
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    crash = ("nothing", "bare_accuracy", "infinite_count", "half_character", "unprintable", "text_as_loss")
    lost = {variant: {"crashed"} for variant in crash}
    good = {"baseline": {"finished"}, "other_folder": {"finished"}, "nan": {"diverged"}}
    assert statuses(study) == {**lost, **good}
    assert 'metrics["test"]: got {"accuracy": 0.83}; expected correct and count too' in done.stdout
    assert 'job.progress(1, 2, "0.5"): expected job.progress(step, steps, loss)' in done.stdout
    assert "test accuracy" in done.stdout
    assert "validation accuracy" not in done.stdout
    for command in ("status", "report"):
        seen = knockout(command, str(root_of(study)), cwd=study.parent)
        assert "Traceback" not in seen.stdout + seen.stderr
        assert seen.returncode == (1 if command == "status" else 0), seen.stderr
    odd("nothing", "bare_accuracy", "infinite_count", mended="true")
    assert run(study).returncode == 0


@pytest.mark.long
def test_a_run_with_other_test_examples_than_those_before_it_is_a_crash(odd: WriteOdd) -> None:
    study = odd("other_count", seeds=3)
    done = run(study, "--workers", "2")
    assert statuses(study) == {"baseline": {"finished"}, "other_count": {"finished", "crashed"}}
    # as in the first record there is then, which two workers leave to chance
    assert re.search(r'metrics\["test"\]\["count"\]: got 199; expected 200, as in runs/\w+-s\d-', done.stdout)
    report = knockout("report", str(root_of(study)), cwd=study.parent)
    assert report.returncode == 0, report.stderr


def test_runs_that_fail_alike_end_the_sweep_and_show_the_trace_once(odd: WriteOdd) -> None:
    study = odd("nothing", "nan", seeds=3, break_all='"half_character"')
    done = run(study, "--workers", "1")
    assert done.returncode == 1
    assert sum(map(len, ledger_of(study).attempts.values())) == 3
    assert done.stdout.count("Traceback") == 1
    assert "ValueError: bad \\udcff" in done.stdout
    assert "stopped: 3 runs, one after the other, failed with this error" in done.stdout
    assert "--keep-going tries the others all the same" in done.stdout
    again = run(study, "--workers", "2", "--keep-going")
    assert len(ledger_of(study).attempts) == 9
    assert "stopped" not in again.stdout


def test_a_mended_trainer_continues_where_equal_failures_ended_a_sweep(odd: WriteOdd) -> None:
    study = odd("nothing", seeds=3, break_all='"bare_accuracy"')
    first = run(study, "--workers", "1")
    assert "stopped: 3 runs" in first.stdout
    assert first.stdout.count("example: metrics=") == 2  # of the first run, and at the end
    odd("nothing", seeds=3, mended="true")
    assert run(study).returncode == 0


def test_failures_of_one_variant_among_results_do_not_end_the_sweep(odd: WriteOdd) -> None:
    study = odd("nothing", seeds=5)
    run(study, "--workers", "1")
    assert sum(map(len, ledger_of(study).attempts.values())) == 5


def test_check_times_a_whole_run_of_a_trainer_that_never_calls_progress(odd: WriteOdd) -> None:
    done = knockout("check", str(odd("other_count", progress="false")), cwd=Path.cwd())
    assert done.returncode == 0, done.stderr
    assert "did not train" not in done.stdout
    assert "it never calls job.progress: one run was trained to its end" in done.stdout
    assert "measured on one whole run" in done.stdout
    assert "it reports no validation split: what is shown of a run is its test accuracy" in done.stdout


def test_check_says_what_is_wrong_with_an_answer(odd: WriteOdd) -> None:
    done = knockout("check", str(odd("bare_accuracy")), cwd=Path.cwd())
    assert "bare_accuracy did not train: the trainer's answer cannot be used" in done.stdout
    assert 'metrics["test"]: got {"accuracy": 0.83}; expected correct and count too' in done.stdout


def test_a_record_that_no_reader_can_use_is_named_by_every_command_and_trained_again(odd: WriteOdd) -> None:
    study = odd("nan", seeds=2)
    run(study)
    record = next((root_of(study) / "runs").glob("baseline-s0-*"))
    outcome = json.loads((record / "outcome.json").read_text(encoding="utf-8"))
    outcome["metrics"] = {"test": {"accuracy": 0.83}}
    (record / "outcome.json").write_text(json.dumps(outcome), encoding="utf-8")
    manifest = json.loads((record / "manifest.json").read_text(encoding="utf-8"))
    manifest["outcome.json"] = _sha256(record / "outcome.json")
    (record / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    says = f"damaged, counted as missing: runs/{record.name}: its test split has no two integers"
    root, results = str(root_of(study)), ("--results", str(study.parent / "results"))
    for command in (
        ("status", root), ("report", root), ("pack", root, "--output", str(study.parent / "packed")),
        ("check", str(study), "--no-measure", *results), ("run", str(study), "--dry-run", *results),
    ):  # fmt: skip
        expected = says.replace("counted as missing", "not packed") if command[0] == "pack" else says
        assert expected in knockout(*command, cwd=study.parent).stdout, command
    done = run(study)
    assert f"set aside, and to be trained again: runs/{record.name}" in done.stdout
    assert done.returncode == 0
    (kept,) = (root_of(study) / "set_aside").iterdir()
    assert json.loads((kept / "outcome.json").read_text(encoding="utf-8")) == outcome
