"""What a study shows of its differences while it runs: estimates of complete blocks, marked as not decided."""

import io
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO, cast

import pytest
from rich.console import Console

from knockout.console_interim import interim_drawer
from knockout.ledger import read_ledger
from knockout.screen import stdout
from knockout.study import Run, Study, design, read_study
from knockout.sweep.answer import Answer
from knockout.sweep.interim import Interim, Interims
from knockout.sweep.progress import LiveDisplay, PlainDisplay, QuietDisplay

from .conftest import WriteToy, root_of, run

TRAINERS = Path(__file__).parents[1] / "trainers"
VERDICTS = re.compile(
    r"better|worse|equivalent|negligible|inconclusive|undecidable|Holm|\bp\b|p [<=]|\[", re.IGNORECASE
)
COUNTS: Mapping[str, Sequence[int]] = {  # correct of 200, by seed
    "baseline": [140, 142, 150, 130],
    "up": [150, 148, 152, 140],
    "down": [120, 118, 130, 110],
}


@pytest.fixture
def study(toy: WriteToy, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.syspath_prepend(str(TRAINERS))
    return read_study(toy(seeds=4))


def answer(study: Study, variant: str, seed: int, *, test: Mapping[str, float] | None = None) -> Answer:
    cell = next(r for r in design(study, data_id="") if (r.variant, r.seed) == (variant, seed))
    return Answer(run=cell, status="finished", test=test or {"correct": COUNTS[variant][seed], "count": 200})


def take(interims: Interims, study: Study, *seeds: int) -> None:
    for seed in seeds:
        for variant in COUNTS:
            interims.ended(answer(study, variant, seed))


def state(study: Study, *seeds: int) -> Interim:
    interims = Interims(study, (), {})
    take(interims, study, *seeds)
    now = interims.next()
    assert now is not None
    return now


def drawn(study: Study, interim: Interim, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(interim_drawer(study)(interim, console))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_means_and_paired_differences_of_the_complete_blocks(study: Study) -> None:
    now = state(study, 0, 2, 1)
    assert (now.blocks, now.planned, now.measure) == (3, 4, "accuracy, %")
    assert [row.variant for row in now.rows] == ["baseline", "down", "up"]  # what harms most first, as in the report
    base, down, up = now.rows
    assert base.mean == pytest.approx((70 + 71 + 75) / 3)
    assert base.difference is None
    assert down.difference == pytest.approx((-10 - 12 - 10) / 3)
    assert up.difference == pytest.approx((5 + 3 + 1) / 3)
    assert up.difference_sd == pytest.approx(2.0)
    assert down.sd == pytest.approx(statistics.stdev([60, 59, 65]))


def test_nothing_before_two_blocks_and_only_where_one_was_completed(study: Study) -> None:
    interims = Interims(study, (), {})
    take(interims, study, 0)
    assert interims.next() is None
    interims.ended(answer(study, "baseline", 1))
    interims.ended(answer(study, "up", 1))
    assert interims.next() is None
    interims.ended(answer(study, "down", 1))
    assert interims.next() is not None
    assert interims.next() is None
    interims.ended(answer(study, "up", 3))
    assert interims.next() is None


def test_a_run_that_diverged_completes_its_block_and_is_in_no_mean(study: Study) -> None:
    interims = Interims(study, (), {})
    take(interims, study, 0, 1)
    for variant in ("baseline", "down"):
        interims.ended(answer(study, variant, 2))
    cell = answer(study, "up", 2).run
    interims.ended(Answer(run=cell, status="crashed", reason="no result"))
    assert interims.complete() == [0, 1]
    interims.ended(Answer(run=cell, status="diverged"))
    now = interims.next()
    assert now is not None
    up = next(row for row in now.rows if row.variant == "up")
    assert (now.blocks, up.diverged, up.pairs) == (3, 1, 2)
    assert up.difference == pytest.approx((5 + 3) / 2)
    assert "+4.00 (1.41; n = 2)" in drawn(study, now)


def test_log_loss_is_sorted_by_harm_and_has_the_margins_digits(toy: WriteToy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TRAINERS))
    study = read_study(toy(seeds=4, extra='plan = { metric = "log_loss", margin = 0.01 }'))
    interims = Interims(study, (), {})
    losses = {"baseline": (0.50, 0.52), "up": (0.40, 0.41), "down": (0.70, 0.74)}
    for variant, values in losses.items():
        for seed, loss in enumerate(values):
            interims.ended(answer(study, variant, seed, test={"loss": loss, "correct": 1, "count": 2}))
    now = interims.next()
    assert now is not None
    assert [row.variant for row in now.rows] == ["baseline", "down", "up"]
    assert now.rows[1].difference == pytest.approx(0.21)
    text = drawn(study, now)
    assert "log-loss, nats" in text
    assert "+0.2100" in text


@pytest.mark.long
def test_blocks_of_earlier_sessions_count(toy: WriteToy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TRAINERS))
    path = toy(seeds=2)
    assert run(path).returncode == 0
    records = read_ledger(root_of(path)).records
    toy(seeds=4)
    study = read_study(path)
    now = Interims(study, design(study, data_id=""), records).next()
    assert now is not None
    assert (now.blocks, now.planned) == (2, 4)
    up = next(row for row in now.rows if row.variant == "up")
    counts = {
        (r.config["variant"], r.config["seed"]): r.outcome["metrics"]["test"]["correct"] for r in records.values()
    }
    of = [(counts["up", seed] - counts["baseline", seed]) / 2 for seed in (0, 1)]
    assert up.difference == pytest.approx(statistics.mean(of))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_is_shown_is_marked_as_not_decided_and_holds_no_verdict(study: Study, width: int) -> None:
    text = drawn(study, state(study, 0, 1, 2), width)
    words = " ".join(text.split())
    assert words.startswith("not decided: 3 of 4 seeds; the planned test is made once, at the end")
    assert not VERDICTS.search(text)
    assert max(map(len, text.splitlines())) <= width
    assert "−10.67 (1.15)" in text
    assert "now, by `knockout report`" in " ".join(drawn(study, state(study, 0, 1, 2, 3), width).split())


@pytest.mark.long
def test_a_pipe_gets_three_tables_at_most_and_a_quiet_one_none(toy: WriteToy) -> None:
    study = toy(seeds=12)
    done = run(study, "--workers", "1")
    assert done.returncode == 0
    assert re.findall(r"not decided: (\d+) of 12 seeds", done.stdout) == ["3", "6", "9"]
    tables = [line for line in done.stdout.splitlines() if not line.startswith(("[", "results")) and "dead" not in line]
    assert not [line for line in tables if VERDICTS.search(line)]
    for folder in (root_of(study) / "runs").glob("*-s0-*"):
        folder.rename(study.parent / folder.name)
    assert "not decided" not in run(study, "--quiet").stdout


@pytest.mark.long
def test_no_table_of_a_study_with_one_block_before_the_last(toy: WriteToy) -> None:
    assert "not decided" not in run(toy(seeds=2), "--workers", "1").stdout


@pytest.mark.long
def test_an_e_process_may_decide_early_and_its_state_is_shown(toy: WriteToy) -> None:
    done = run(toy(seeds='"anytime"\nmax_seeds = 12'), "--workers", "1")
    assert "after 3 seeds in order not decided: up, down; at most 12 seeds" in done.stdout
    # three wins of three: 2^3 G(3.5) G(.5) / (pi G(4)) = 2.5
    assert done.stdout.count("not decided (e = 2.5)") == 2


def test_a_terminal_shows_the_newest_table_above_the_bar(study: Study) -> None:
    console = Console(file=io.StringIO(), width=80, height=30, force_terminal=True, color_system=None)
    display = LiveDisplay(console, interim_drawer(study))
    display.start(total=12, done=0, workers=1)
    assert isinstance(console.file, io.StringIO)
    assert "not decided" not in console.file.getvalue()
    display.interim(state(study, 0, 1))
    display.running({Run(id="a" * 64, variant="up", seed=2): None})
    display.interim(state(study, 0, 1, 2))
    console.file.truncate(0)
    display.stop()
    text = console.file.getvalue()
    assert "not decided: 3 of 4 seeds" in text
    assert "2 of 4" not in text
    assert text.index("−10.67") < text.index("0/12")
    assert not VERDICTS.search(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text))


@pytest.mark.parametrize(("height", "shown"), [(8, "2 more lines"), (7, "")])
def test_a_low_terminal_keeps_its_bar(study: Study, height: int, shown: str) -> None:
    console = Console(file=io.StringIO(), width=120, height=height, force_terminal=True, color_system=None)
    display = LiveDisplay(console, interim_drawer(study))
    display.start(total=12, done=0, workers=1)
    display.interim(state(study, 0, 1))
    assert isinstance(console.file, io.StringIO)
    console.file.truncate(0)
    display.stop()
    text = console.file.getvalue()
    assert "0/12" in text
    assert ("not decided" in text) == bool(shown)
    assert shown in text


def test_the_live_display_writes_to_the_standard_output_that_there_is(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    """A console that writes to `sys.stdout`, as the command line's does, must not be given its own lines again."""
    console = Console(file=cast("TextIO", stdout), width=80, height=30, force_terminal=True)
    display = LiveDisplay(console, interim_drawer(study))
    display.start(total=12, done=0, workers=1)
    display.say("a line")
    display.stop()
    assert capsys.readouterr().out.count("a line") == 1


def test_a_quiet_display_shows_no_differences(study: Study) -> None:
    console = Console(file=io.StringIO(), width=80)
    QuietDisplay(console).interim(state(study, 0, 1))
    PlainDisplay(console, interim_drawer(study)).interim(state(study, 0, 1, 2, 3))  # all are there: no interim state
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == ""
