"""Seeds until all is decided, and placebo arms, from the command line."""

import shutil
import subprocess
from pathlib import Path

import pytest

from knockout.analysis.results import load
from knockout.design import Design, read_design
from knockout.sweep.snapshot import Epochs, mirror, number_tries, read_state
from tests.command_line import knockout

from .conftest import WriteToy, ledger_of, numbers, root_of, run, starts

ANYTIME = '"anytime"\nmax_seeds = 30'


def verb(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return knockout(*arguments, cwd=Path.cwd())


def designed(study: Path) -> Design:
    design = read_design(root_of(study))
    assert design is not None
    return design


def test_no_new_seed_is_begun_once_every_contrast_is_decided(toy: WriteToy) -> None:
    """The toy's effects of 10 points lose no seed of eight; two contrasts need eight straight."""
    study = toy(seeds=ANYTIME)
    done = run(study, "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert set(starts(study)) == {(v, s) for v in ("baseline", "up", "down") for s in range(8)}
    assert "24 planned: 24 finished, 0 diverged, 0 missing; 24 trained now" in done.stdout
    line = "decided after 8 seeds: up better, down worse; seeds 8 to 29 were not needed"
    assert line in done.stdout
    status = verb("status", str(root_of(study)))
    assert status.returncode == 0
    assert line in status.stdout
    assert "missing: " not in status.stdout
    again = run(study)
    assert again.returncode == 0
    assert "0 trained now" in again.stdout
    assert "0 of 24 runs would be trained" in run(study, "--dry-run").stdout


@pytest.mark.long
def test_with_several_workers_what_is_in_flight_is_finished(toy: WriteToy) -> None:
    study = toy(seeds=ANYTIME, step_seconds=0.02)
    done = run(study, "--workers", "4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "decided after 8 seeds" in done.stdout
    seen = set(numbers(study))
    assert seen == set(starts(study))
    assert {(v, s) for v in ("baseline", "up", "down") for s in range(8)} <= seen
    assert len(seen) <= 24 + 12  # of 90 planned; a worker that starts late lets the others begin some runs more
    assert "0 trained now" in run(study).stdout


@pytest.mark.long
def test_without_a_decision_every_seed_is_run(toy: WriteToy) -> None:
    study = toy(seeds='"anytime"\nmax_seeds = 5')
    done = run(study)
    assert done.returncode == 0
    assert len(numbers(study)) == 15
    assert "after 5 seeds in order not decided: up, down" in done.stdout
    toy(seeds=ANYTIME)  # more seeds go on where it ended
    done = run(study, "--workers", "1")
    assert "9 trained now" in done.stdout
    assert "decided after 8 seeds" in done.stdout


@pytest.mark.long
def test_nothing_is_decided_past_a_gap(toy: WriteToy) -> None:
    study = toy(variants=("up", "breaks_once"), seeds='"anytime"\nmax_seeds = 4')
    done = run(study, "--workers", "1")
    assert done.returncode == 1
    assert "no seed after 0 is begun" in done.stdout
    assert set(starts(study)) == {(v, 0) for v in ("baseline", "up", "breaks_once")}
    for seed in (1, 2, 3):  # each breaks once, and passes when it is tried again
        assert f"no seed after {seed} is begun" in run(study, "--workers", "1").stdout
    assert run(study).returncode == 0
    assert len(numbers(study)) == 12


def test_divergence_is_a_loss_and_decides(toy: WriteToy) -> None:
    study = toy(variants=("diverges",), seeds=ANYTIME)
    done = run(study, "--workers", "1")
    assert done.returncode == 0
    assert "decided after 7 seeds: diverges worse" in done.stdout
    assert len(numbers(study)) == 14


@pytest.mark.long
def test_only_some_variants_decide_nothing(toy: WriteToy) -> None:
    study = toy(seeds='"anytime"\nmax_seeds = 9')
    assert "18 trained now" in run(study, "--only", "up", "--only", "baseline").stdout
    done = run(study, "--workers", "1")
    assert "8 trained now" in done.stdout  # of the other variant, until all is decided
    assert "decided after 8 seeds" in done.stdout
    assert done.returncode == 0


def test_check_says_what_it_takes(toy: WriteToy) -> None:
    told = " ".join(verb("check", str(toy(seeds=ANYTIME, extra="placebo = 2"))).stdout.split())
    assert "and 2 placebo arms x at most 30 seeds = at most 150 runs" in told
    assert "The fewest seeds at which it can decide all 2 contrasts are 8" in told


@pytest.mark.long
def test_placebos_are_trained_last_of_each_seed_and_paired_with_it(toy: WriteToy) -> None:
    study = toy(variants=("up",), seeds=3, extra="placebo = 2")
    done = run(study, "--workers", "1")
    assert done.returncode == 0, done.stderr
    lines = (root_of(study) / "starts.log").read_text(encoding="utf-8").splitlines()
    arms = ("baseline", "up", "placebo_1", "placebo_2")
    assert [(f[2], int(f[3])) for f in map(str.split, lines)] == [(v, s) for s in range(3) for v in arms]
    streams = {(r.variant, r.seed): r.stream for r in designed(study).runs}
    recorded = {(str(r.config["variant"]), int(r.config["seed"])) for r in ledger_of(study).records.values()}
    assert recorded == {(v, s if stream is None else stream) for (v, s), stream in streams.items()}
    assert "12 planned: 12 finished" in verb("status", str(root_of(study))).stdout
    assert "0 trained now" in run(study).stdout
    assert len(lines) == len((root_of(study) / "starts.log").read_text(encoding="utf-8").splitlines())
    assert not list(root_of(study).glob("journal.log.unreadable-*"))  # the mirror holds what the records say

    state = read_state(root_of(study), designed(study))
    trials = mirror(number_tries([], state), state, runs=state.runs, epochs=Epochs())
    assert [(t.params["variant"], t.params["seed"]) for t in trials] == [(v, s) for s in range(3) for v in arms]
    assert {t.state.name for t in trials} == {"COMPLETE"}

    victim = next((root_of(study) / "runs").glob("placebo_2-*"))
    shutil.rmtree(victim)
    missing = verb("status", str(root_of(study)))
    assert missing.returncode == 1
    assert "missing: placebo_2: seeds " in missing.stdout
    assert "1 trained now" in run(study, "--only", "placebo_2").stdout


def test_a_placebo_is_what_the_baseline_is_on_that_stream(toy: WriteToy) -> None:
    study = toy(variants=("up",), seeds=1, extra="placebo = 1")
    run(study)
    (stream,) = (r.stream for r in designed(study).runs if r.stream is not None)
    toy(variants=("up",), seeds=f"[{stream}]")
    done = run(study, "--dry-run")
    assert "baseline" not in done.stdout  # the same run: its record is there
    assert "1 of 2 runs would be trained" in done.stdout


@pytest.mark.long
def test_placebos_change_nothing_of_the_report_for_the_variants(toy: WriteToy) -> None:
    study = toy(seeds=4)
    run(study)
    assert verb("report", str(root_of(study))).returncode == 0
    before = (root_of(study) / "contrasts.csv").read_bytes()
    toy(seeds=4, extra="placebo = 3")
    assert "12 trained now" in run(study).stdout
    told = verb("report", str(root_of(study)))
    assert told.returncode == 0, told.stderr
    assert "exploratory" not in told.stdout
    assert (root_of(study) / "contrasts.csv").read_bytes() == before
    assert load(root_of(study)).placebos == ["placebo_1", "placebo_2", "placebo_3"]
    packed = root_of(study).parent / "packed"
    assert verb("publish", str(root_of(study)), "--to", str(packed)).returncode == 0
    assert "24 planned: 24 finished" in verb("status", str(packed / "toy")).stdout
