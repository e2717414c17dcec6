"""What a person sees of a study that runs: when it ends, and only the failures where that is asked for."""

import io
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from knockout.design import read_design
from knockout.ledger import Ledger, read_ledger
from knockout.study import Run
from knockout.sweep.answer import Answer
from knockout.sweep.owner import Progress, hold, hold_run, write_progress
from knockout.sweep.progress import QuietDisplay, Watch
from knockout.sweep.remaining import ends_text, seconds_left
from tests.analysis.conftest import BuildStudy, build_study
from tests.command_line import knockout

__all__ = ["build_study"]


def study(build: BuildStudy, *, a: list[int | str], b: list[int | str]) -> tuple[Path, list[Run], Ledger]:
    root = build({"baseline": a, "heads_1": b})
    design = read_design(root)
    assert design is not None
    return root, list(design.runs), read_ledger(root)


def test_the_runs_left_are_shared_by_the_workers_at_work(build_study: BuildStudy) -> None:
    _, runs, ledger = study(build_study, a=[300, 301, "missing", "missing"], b=[300, 304, "missing", "missing"])
    # The fixture's runs: 11 and 12 s of the baseline, 16 and 17 s of heads_1; two of each are missing.
    missing = [run.id for run in ledger.missing(runs)]
    assert seconds_left(runs, ledger, {}) is None
    assert seconds_left(runs, ledger, {missing[0]: None}) == pytest.approx(2 * 11.5 + 2 * 16.5)
    half = Progress(step=5, steps=10, loss=0.1)
    assert seconds_left(runs, ledger, {missing[0]: half, missing[1]: half}) == pytest.approx(
        (1.5 * 11.5 + 1.5 * 16.5) / 2
    )
    # The last run cannot be shared.
    known = [run for run in runs if run.id in ledger.records or run.id == missing[0]]
    assert seconds_left(known, ledger, {missing[0]: half, "f" * 64: None}) == pytest.approx(11.5 / 2)


def test_without_a_run_that_ended_nothing_is_said(build_study: BuildStudy) -> None:
    _, runs, ledger = study(build_study, a=["missing"] * 3, b=["missing"] * 3)
    assert seconds_left(runs, ledger, {runs[0].id: None}) is None


def test_the_time_in_words() -> None:
    now = datetime(2026, 3, 1, 23, 30)
    assert ends_text(600, now=now, at_most=False) == "in about 10 min, at 23:40"
    assert ends_text(3600, now=now, at_most=True) == "at the latest in about 60 min, at 2026-03-02 00:30"
    assert now + timedelta(seconds=3600) == datetime(2026, 3, 2, 0, 30)


def test_no_time_is_said_before_a_run_has_ended_nor_one_with_the_start_of_workers_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = 100.0
    monkeypatch.setattr("knockout.sweep.progress.time.monotonic", lambda: clock)
    answer = Answer(run=Run(id="a" * 64, variant="up", seed=3), status="finished")
    watch = Watch()
    watch.start(total=30, done=0, workers=2)
    watch.share_running = 1.8  # of two runs that go on
    clock += 5
    assert watch.time_left() == "time left: not known yet"
    watch.share_running = 0.0
    for seconds, left in ((5.0, "not known yet"), (0.0, "not known yet"), (0.5, "about 7 s left"), (0.0, "7 s left")):
        clock += seconds  # 10 s until two workers have started and trained; then two runs in half a second
        watch.count(answer)
        if watch.ended_here == 3:
            assert watch.time_left() == "about 7 s left"  # 27 runs at two in .5 s
        elif watch.ended_here < 3:
            assert left in watch.time_left()
    assert watch.time_left() == "about 4 s left"  # 26 runs at three in .5 s

    slow = Watch()
    slow.start(total=4, done=1, workers=1)
    clock += 3600
    slow.count(answer)
    assert slow.time_left() == "about 2.0 h left"


def test_a_quiet_display_shows_failures_alone() -> None:
    console = Console(file=io.StringIO(), width=100)
    display = QuietDisplay(console)
    display.start(total=3, done=0, workers=1)
    display.say("set aside, and to be trained again: x")
    run = Run(id="a" * 64, variant="up", seed=3)
    display.ended(Answer(run=run, status="finished"))
    display.ended(Answer(run=run, status="crashed", reason="RuntimeError: no memory"))
    display.stop()
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "up seed 3: crashed: RuntimeError: no memory\n"


def test_status_says_what_runs_and_when_it_ends(build_study: BuildStudy) -> None:
    root, runs, ledger = study(build_study, a=[300, 301, "missing"], b=[300, 304, "missing"])
    first = ledger.missing(runs)[0]
    with hold(root, take_over=False), hold_run(root, first.id):
        write_progress(root, first.id, Progress(step=40, steps=100, loss=0.5))
        told = knockout("status", str(root), cwd=root.parent)
    assert f"running: {first.variant} seed {first.seed}: step 40/100, loss 0.500" in told.stdout
    assert "ends: in about" in told.stdout
    assert "(workers at work: 1, runs left: 2)" in told.stdout
    assert "ends:" not in knockout("status", str(root), cwd=root.parent).stdout
