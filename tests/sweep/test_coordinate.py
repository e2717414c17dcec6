"""Each cell once, nothing lost, whatever dies."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from .conftest import ENVIRONMENT, WriteToy, command, ledger_of, numbers, printed, root_of, run, start, starts


def wait_until(condition: object, seconds: float = 30.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def records(study: Path) -> int:
    folder = root_of(study) / "runs"
    return sum(not p.name.startswith(".") for p in folder.iterdir()) if folder.is_dir() else 0


def workers_of(process: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    """Its children that train: loky's workers, not its resource tracker."""
    try:
        children = psutil.Process(process.pid).children()
        return [c for c in children if "popen_loky_posix" in " ".join(c.cmdline())]
    except psutil.Error:
        return []


def test_every_cell_starts_once_with_four_workers(toy: WriteToy) -> None:
    study = toy(seeds=67)  # 201 cells
    done = run(study, "--workers", "4")
    assert done.returncode == 0, done.stderr
    cells = {(v, s) for v in ("baseline", "up", "down") for s in range(67)}
    assert starts(study) == dict.fromkeys(cells, 1)
    assert set(numbers(study)) == cells
    assert "201 planned: 201 finished, 0 diverged, 0 missing; 201 trained now" in done.stdout


def test_blocks_of_seeds_are_complete_before_the_next(toy: WriteToy) -> None:
    study = toy(seeds=4)
    run(study, "--workers", "1")
    lines = (root_of(study) / "starts.log").read_text(encoding="utf-8").splitlines()
    assert [(f[2], f[3]) for f in map(str.split, lines)] == [
        (v, str(s)) for s in range(4) for v in ("baseline", "up", "down")
    ]


def test_again_trains_nothing_a_deleted_record_alone_and_an_added_variant_alone(toy: WriteToy) -> None:
    study = toy(variants=("up",), seeds=3)
    assert run(study).returncode == 0
    before = numbers(study)
    again = run(study)
    assert again.returncode == 0
    assert "0 trained now" in again.stdout
    assert sum(starts(study).values()) == 6

    victim = next(p for p in (root_of(study) / "runs").iterdir() if p.name.startswith("up-s1-"))
    shutil.rmtree(victim)
    assert "1 trained now" in run(study).stdout
    assert starts(study)["up", 1] == 2
    assert numbers(study) == before

    toy(variants=("up", "down"), seeds=4)
    assert "6 trained now" in run(study).stdout  # three of the new variant, and all three of the new seed
    assert {k: v for k, v in numbers(study).items() if k in before} == before
    added = {cell: n for cell, n in starts(study).items() if cell not in before}
    assert added == dict.fromkeys([("down", 0), ("down", 1), ("down", 2), ("down", 3), ("baseline", 3), ("up", 3)], 1)


@pytest.mark.long
def test_the_number_of_workers_changes_no_number(toy: WriteToy) -> None:
    one = toy(seeds=4)
    run(one, "--workers", "1")
    first = numbers(one)
    shutil.rmtree(root_of(one))
    run(one, "--workers", "4")
    assert numbers(one) == first


@pytest.mark.long
def test_a_damaged_record_is_set_aside_and_trained_again(toy: WriteToy) -> None:
    study = toy(seeds=2)
    run(study)
    before = numbers(study)
    victim = next((root_of(study) / "runs").glob("up-s0-*"))
    curve = victim / "curve.parquet"
    curve.write_bytes(curve.read_bytes()[:-1] + b"x")
    done = run(study)
    assert done.returncode == 0
    assert "set aside, and to be trained again: runs/up-s0-" in done.stdout
    assert "1 trained now" in done.stdout
    assert numbers(study) == before
    (kept,) = (root_of(study) / "set_aside").iterdir()
    assert (kept / "curve.parquet").read_bytes().endswith(b"x")


@pytest.mark.long
@pytest.mark.parametrize(
    ("conduct", "status", "reason"),
    [
        ("raises", "crashed", "no pickle of this"),
        ("exits", "crashed", "SystemExit"),
        ("runs_out", "out_of_memory", "no more of it"),
        ("vanishes", "killed", "died 2 times while it ran alone"),
        ("is_killed", "killed", "died 2 times while it ran alone"),
    ],
)
def test_a_crash_costs_only_its_own_run(toy: WriteToy, conduct: str, status: str, reason: str) -> None:
    study = toy(variants=("up", conduct), seeds=2)
    done = run(study)
    assert done.returncode == 1, done.stderr  # cells are missing
    found = ledger_of(study)
    assert set(numbers(study)) == {(v, s) for v in ("baseline", "up") for s in (0, 1)}
    attempts = [a for many in found.attempts.values() for a in many]
    assert [(a.config["variant"], a.status) for a in attempts] == [(conduct, status)] * 2
    assert all(reason in a.outcome["reason"] for a in attempts)
    assert "2 missing (of these 2 crashed, killed, out of memory or timed out)" in done.stdout
    if status == "crashed":
        assert "Traceback" in attempts[0].log()
        assert "what a trainer prints goes into its log" in attempts[0].log()
    assert reason in done.stdout  # the last line of the traceback, at once


@pytest.mark.long
def test_a_failure_is_tried_again_twice_and_then_only_on_demand(toy: WriteToy) -> None:
    study = toy(variants=("raises",), seeds=1)
    for tries in (1, 2, 3):
        done = run(study)
        assert starts(study)["raises", 0] == tries
    assert "given up after three tries: raises seed 0" in done.stdout
    assert "0 trained now" in run(study).stdout
    assert starts(study)["raises", 0] == 3
    assert run(study, "--retry").returncode == 1
    assert starts(study)["raises", 0] == 4


@pytest.mark.long
def test_a_failure_that_passes_leaves_a_complete_study(toy: WriteToy) -> None:
    study = toy(variants=("breaks_once",), seeds=2)
    assert run(study).returncode == 1
    done = run(study)
    assert done.returncode == 0
    assert "2 trained now" in done.stdout
    assert len(numbers(study)) == 4


def test_divergence_is_a_result_and_not_tried_again(toy: WriteToy) -> None:
    study = toy(variants=("diverges",), seeds=2)
    done = run(study)
    assert done.returncode == 0
    assert "2 finished, 2 diverged, 0 missing" in done.stdout
    assert "0 trained now" in run(study).stdout


@pytest.mark.long
def test_a_worker_killed_once_is_not_blamed_for_its_neighbour(toy: WriteToy) -> None:
    study = toy(variants=("up", "kills_once"), seeds=3, step_seconds=0.02)
    done = run(study, "--workers", "3")
    assert done.returncode == 0, done.stdout
    assert "a worker died" in done.stdout
    assert len(numbers(study)) == 9
    assert not ledger_of(study).attempts


@pytest.mark.long
def test_sigkill_of_a_worker_from_outside(toy: WriteToy) -> None:
    study = toy(seeds=4, step_seconds=0.1)
    process = start(study)
    wait_until(lambda: records(study) >= 1)
    os.kill(workers_of(process)[0].pid, signal.SIGKILL)
    process.wait(timeout=60)
    assert process.returncode == 0, printed(study)
    assert len(numbers(study)) == 12
    assert max(starts(study).values()) <= 2


def test_sigkill_of_the_coordinator_and_a_restart_within_a_second(toy: WriteToy) -> None:
    """Its workers' runs are taken over: every cell stands once in the log of starts."""
    study = toy(seeds=4, step_seconds=0.15)
    calm = toy(seeds=4, step_seconds=0.15)
    process = start(study)
    wait_until(lambda: records(study) >= 3)
    finished = set(numbers(study))
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = run(study)
    assert done.returncode == 0, done.stdout
    cells = {(v, s) for v in ("baseline", "up", "down") for s in range(4)}
    assert starts(study) == dict.fromkeys(cells, 1)
    assert finished <= set(numbers(study)) == cells
    broken = numbers(study)
    shutil.rmtree(root_of(calm))
    assert run(calm).returncode == 0
    assert numbers(calm) == broken


@pytest.mark.long
def test_orphans_end_without_a_record_when_nobody_comes(toy: WriteToy) -> None:
    study = toy(seeds=1, step_seconds=0.5, steps=60)  # 30 s a run
    process = start(study)
    wait_until(lambda: len(starts(study)) == 2)
    orphans = workers_of(process)
    assert len(orphans) == 2
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(orphans, timeout=25)
    assert not alive
    assert records(study) == 0
    assert not list((root_of(study) / "attempts").glob("*"))


@pytest.mark.long
def test_kills_at_random_until_done(toy: WriteToy) -> None:
    study = toy(seeds=6, step_seconds=0.05)
    draw = random.Random(0)
    for _ in range(6):
        process = start(study)
        time.sleep(draw.uniform(1.0, 3.0))
        group = [process.pid] if draw.random() < 0.5 else [w.pid for w in workers_of(process)[:1]]
        before = set(numbers(study))
        for pid in group:
            os.kill(pid, signal.SIGKILL)
        process.wait(timeout=60)
        assert before <= set(numbers(study))
    assert run(study).returncode == 0
    assert len(numbers(study)) == 18
    assert not ledger_of(study).damaged


def test_the_command_started_four_times_at_once(toy: WriteToy) -> None:
    study = toy(seeds=5, step_seconds=0.05)
    processes = [start(study, output=f"output{i}.txt") for i in range(4)]
    codes = [process.wait(timeout=60) for process in processes]
    assert 0 in codes
    assert set(codes) <= {0, 2}
    for i, code in enumerate(codes):
        assert (code == 2) == ("is held by" in printed(study, f"output{i}.txt"))
    assert set(starts(study).values()) == {1}
    assert len(numbers(study)) == 15


@pytest.mark.long
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupts_finish_what_is_in_flight(toy: WriteToy, number: signal.Signals, code: int) -> None:
    study = toy(seeds=8, step_seconds=0.1)
    process = start(study)
    wait_until(lambda: records(study) >= 2)
    os.killpg(process.pid, number) if number == signal.SIGINT else os.kill(process.pid, number)
    process.wait(timeout=30)
    assert process.returncode == code, printed(study)
    assert "continue with: knockout run" in printed(study)
    assert set(starts(study)) == set(numbers(study))  # nothing was begun and dropped
    assert run(study).returncode == 0
    assert set(starts(study).values()) == {1}


def test_a_second_interrupt_does_not_wait(toy: WriteToy) -> None:
    study = toy(seeds=1, step_seconds=1.0, steps=30)
    process = start(study)
    wait_until(lambda: len(starts(study)) == 2)
    for _ in range(2):
        os.kill(process.pid, signal.SIGINT)
        time.sleep(0.6)
    process.wait(timeout=10)
    assert process.returncode == 130, printed(study)
    assert records(study) == 0


def test_a_spent_budget_ends_with_3_and_whole_blocks(toy: WriteToy) -> None:
    study = toy(seeds=50, extra="[budget]\nhours = 1e-5")  # 36 ms; a run says that it took 10 ms
    done = run(study, "--workers", "1")
    assert done.returncode == 3
    assert "the budget is spent" in done.stdout
    assert 3 <= len(numbers(study)) <= 6


def test_a_run_that_takes_too_long_is_timed_out(toy: WriteToy) -> None:
    study = toy(variants=("up",), seeds=1, step_seconds=0.5, steps=100, extra="[run]\ntimeout_minutes = 0.02")
    done = run(study)
    assert done.returncode == 1
    assert {a[0].status for a in ledger_of(study).attempts.values()} == {"timed_out"}


@pytest.mark.long
def test_records_of_another_torch_are_not_mixed_silently(toy: WriteToy) -> None:
    study = toy(variants=("up",), seeds=2)
    run(study)
    for folder in (root_of(study) / "runs").glob("up-*"):
        shutil.rmtree(folder)
    (record,) = (root_of(study) / "runs").glob("baseline-s0-*")
    outcome = json.loads((record / "outcome.json").read_text(encoding="utf-8"))
    outcome["environment"]["torch"] = "1.0"
    _rewrite(record, outcome)
    refused = run(study)
    assert refused.returncode == 2
    assert "torch 1.0 there" in refused.stderr
    assert len(numbers(study)) == 2
    assert run(study, "--allow-mixed").returncode == 0


def _rewrite(record: Path, outcome: object) -> None:
    import hashlib

    (record / "outcome.json").write_text(json.dumps(outcome), encoding="utf-8")
    manifest = json.loads((record / "manifest.json").read_text(encoding="utf-8"))
    manifest["outcome.json"] = hashlib.sha256((record / "outcome.json").read_bytes()).hexdigest()
    (record / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def test_status_says_what_is_running_and_what_is_missing(toy: WriteToy) -> None:
    study = toy(seeds=1, step_seconds=0.5, steps=20)
    process = start(study)
    wait_until(lambda: len(starts(study)) == 2)
    time.sleep(1.2)
    status = [*command(study)[:3], "status", str(root_of(study))]
    during = subprocess.run(status, env=ENVIRONMENT, capture_output=True, text=True)
    assert during.returncode == 1
    assert f"coordinator: process {process.pid} on" in during.stdout
    assert during.stdout.count("running: ") == 2
    assert "/20, loss " in during.stdout
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    after = subprocess.run(status, env=ENVIRONMENT, capture_output=True, text=True)
    assert "coordinator: none running" in after.stdout
