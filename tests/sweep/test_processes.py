"""Trainers that treat their process badly, signals to all processes at once, and screens that are gone."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from knockout.files import clear_temporary, replace_text, temporary_beside
from tests.command_line import knockout

from .conftest import ENVIRONMENT, WriteToy, command, ledger_of, numbers, printed, root_of, run, start, starts
from .test_coordinate import records, wait_until, workers_of


@pytest.fixture
def unruly(toy: WriteToy) -> WriteToy:
    """Write a study of the unruly trainer."""

    def write(*, variants: tuple[str, ...], seeds: int, extra: str = "") -> Path:
        path = toy(variants=variants, seeds=seeds, extra=extra)
        path.write_text(path.read_text(encoding="utf-8").replace("toy_trainer:", "unruly_trainer:"), encoding="utf-8")
        return path

    return write


@pytest.mark.long
@pytest.mark.parametrize("conduct", ["hangs", "spins"])
def test_a_trainer_that_hangs_is_ended_by_the_time_limit_and_costs_no_other_run(unruly: WriteToy, conduct: str) -> None:
    study = unruly(variants=(conduct,), seeds=3, extra="[run]\ntimeout_minutes = 0.02\nworkers = 2")
    done = run(study)
    assert done.returncode == 1, done.stderr
    assert set(numbers(study)) == {("baseline", seed) for seed in range(3)}
    assert starts(study) == {(v, s): 1 for v in ("baseline", conduct) for s in range(3)}
    attempts = [a for many in ledger_of(study).attempts.values() for a in many]
    assert [(a.config["variant"], a.status) for a in attempts] == [(conduct, "timed_out")] * 3
    assert "without a call of job.progress" in done.stdout
    assert all('unruly_trainer.py", line' in a.log() for a in attempts)  # where it hung
    assert not list((root_of(study) / "running").iterdir())


@pytest.mark.long
def test_what_a_dead_worker_started_is_ended_with_it(unruly: WriteToy, tmp_path: Path) -> None:
    study = unruly(variants=("leaves_children",), seeds=1)
    done = run(study)
    assert done.returncode == 1, done.stderr
    assert set(numbers(study)) == {("baseline", 0)}
    assert "killed: its worker died 2 times while it ran alone" in done.stdout
    children = [int(line) for line in (tmp_path / "children").read_text(encoding="utf-8").split()]
    assert len(children) >= 4
    assert not [pid for pid in children if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]


@pytest.mark.parametrize("conduct", ["closes_output", "closes_descriptors"])
def test_a_trainer_may_close_its_output(unruly: WriteToy, conduct: str) -> None:
    study = unruly(variants=(conduct,), seeds=2)
    done = run(study)
    assert done.returncode == 0, done.stderr
    assert len(numbers(study)) == 4


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("often", [1, 2])
def test_a_signal_to_all_processes_loses_no_run(toy: WriteToy, number: signal.Signals, often: int) -> None:
    """As a scheduler ends a job, or a terminal that is closed; `timeout` sends its signal twice."""
    study = toy(seeds=6, step_seconds=0.2)
    process = start(study)
    wait_until(lambda: records(study) >= 2)
    everyone = [process.pid, *(child.pid for child in psutil.Process(process.pid).children(recursive=True))]
    for _ in range(often):
        for pid in everyone:
            os.kill(pid, number)
    process.wait(timeout=30)
    assert process.returncode == 128 + number, printed(study)
    assert "continue with: knockout run" in printed(study)
    assert "Traceback" not in printed(study)
    assert "died" not in printed(study)
    assert set(starts(study)) == set(numbers(study))  # all that was begun was finished
    assert run(study).returncode == 0
    assert set(starts(study).values()) == {1}


@pytest.mark.long
def test_a_signal_to_workers_that_start_loses_no_run(toy: WriteToy) -> None:
    study = toy(seeds=6, step_seconds=0.05)
    process = start(study)
    wait_until(lambda: bool(workers_of(process)))
    for worker in workers_of(process):
        worker.terminate()
    assert process.wait(timeout=60) == 0, printed(study)
    assert not re.search("died|Traceback", printed(study)), printed(study)
    assert set(starts(study).values()) == {1}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.long
def test_a_study_goes_on_without_a_screen(toy: WriteToy) -> None:
    study = toy(seeds=2)
    with open("/dev/full", "w") as full:
        done = subprocess.run(command(study), env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 4, done.stderr
    assert len(numbers(study)) == 6
    assert "6 planned: 6 finished" in done.stderr
    assert "standard output was lost: [Errno 28]" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_a_study_goes_on_when_its_reader_ends(toy: WriteToy) -> None:
    study = toy(seeds=2)
    process = subprocess.Popen(command(study), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, told = process.communicate(timeout=60)
    assert process.returncode == 4, told
    assert len(numbers(study)) == 6
    assert b"6 planned: 6 finished" in told
    assert b"Traceback" not in told


@pytest.mark.long
def test_a_study_goes_on_with_its_output_closed(toy: WriteToy) -> None:
    study = toy(seeds=1)
    closed = subprocess.run(["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *command(study)], env=ENVIRONMENT)
    assert closed.returncode == 0
    assert len(numbers(study)) == 3


def test_interrupted_while_it_loads_it_says_nothing(tmp_path: Path) -> None:
    """The command is interrupted by a module that it imports, which is the same moment on every machine."""
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n", encoding="utf-8")
    paths = os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]])
    ended = subprocess.run(
        [sys.executable, "-m", "knockout", "list"],
        env={**ENVIRONMENT, "PYTHONPATH": paths}, capture_output=True, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    )  # fmt: skip
    assert ended.returncode == -signal.SIGINT
    assert ended.stdout == ended.stderr == ""


def test_a_disk_that_refuses_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    told = knockout("init", "mine", cwd=tmp_path)
    assert told.returncode == 2
    assert told.stderr.splitlines() == [
        "knockout: mine/first_study.toml: No space left on device; make room on the disk, or name a folder on another"
    ]
    assert not list((tmp_path / "mine").iterdir())
    monkeypatch.undo()
    assert knockout("init", "mine", cwd=tmp_path).returncode == 0


def test_what_dead_processes_were_writing_is_cleared_and_nothing_else(toy: WriteToy, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    program = (
        "import sys; from pathlib import Path; from knockout.files import temporary_beside\n"
        f"temporary_beside(Path({str(folder)!r}) / 'up-s0-0123456789ab').mkdir()\n"
        f"temporary_beside(Path({str(folder)!r}) / 'report.html').touch()\n"
    )
    subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT, check=True)
    dead = set(folder.iterdir())
    assert len(dead) == 2
    mine = temporary_beside(folder / "report.html")
    mine.touch()
    young, old = folder / ".down-s0-0123456789ab-01234567", folder / ".down-s1-0123456789ab-01234567"
    for path in (young, old):  # as they were named once, without a process
        path.mkdir()
    os.utime(old, (time.time() - 2 * 86400,) * 2)
    others = folder / ".gitignore"
    replace_text(others, "x")
    assert set(clear_temporary([folder, tmp_path / "none"])) == dead | {old}
    assert set(folder.iterdir()) == {mine, young, others}

    study = toy(seeds=1)
    run(study)
    left = root_of(study) / "runs" / next(iter(dead)).name
    left.mkdir()
    assert run(study).returncode == 0
    assert not left.exists()
