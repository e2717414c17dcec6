"""`knockout status`: which runs of a study are finished, running or missing, and when it ends."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from knockout.cli_json import print_document
from knockout.console import out, print_change, print_damaged, print_dead, print_running
from knockout.errors import UserError
from knockout.parameters import FINISHED, MISSING, Json, StudyFolder
from knockout.plurals import plural
from knockout.terminal import say

if TYPE_CHECKING:
    from knockout import schema
    from knockout.analysis.stopping import Stop
    from knockout.design import Design
    from knockout.ledger import Ledger
    from knockout.source_changes import SourceChange
    from knockout.study import Run
    from knockout.sweep.coordinate import Totals
    from knockout.sweep.owner import Owner, Progress


@dataclass(frozen=True, kw_only=True)
class _Now:
    """A study as it stands. `runs`: id -> those that count; `left`: seconds until it ends, where that is known."""

    folder: Path
    design: "Design"
    ledger: "Ledger"
    stop: "Stop | None"
    runs: "Mapping[str, Run]"
    counts: "Totals"
    owner: "Owner | None"
    running: "Mapping[str, Progress | None]"
    left: float | None
    change: "SourceChange"
    damage: tuple[str, ...]
    """files of the folder, its records aside"""


def status(folder: StudyFolder, as_json: Json = False) -> None:
    """Show which runs of a study are finished, running or missing, and when it ends."""
    now = _look(folder)
    if as_json:
        print_document(_document(now))
    else:
        _print(now)
    raise typer.Exit(MISSING if now.counts.missing else FINISHED)


def _look(folder: Path) -> _Now:
    from knockout.design import absence, read_design
    from knockout.ledger import damaged_files, read_ledger
    from knockout.source_changes import change_in_folder
    from knockout.sweep.coordinate import totals
    from knockout.sweep.owner import coordinator, read_progress, running_ids
    from knockout.sweep.remaining import seconds_left

    design = read_design(folder)
    if design is None:
        raise UserError(absence(folder))
    ledger = read_ledger(folder)
    stop = _stop(folder, design)
    needless = set(stop.needless) if stop else set()
    runs = {r.id: r for r in design.runs if r.seed not in needless or r.id in ledger.records}
    owner = coordinator(folder)
    running = {run_id: read_progress(folder, run_id) for run_id in running_ids(folder)}
    return _Now(
        folder=folder,
        design=design,
        ledger=ledger,
        stop=stop,
        runs=runs,
        counts=totals(ledger, list(runs.values())),
        owner=owner,
        running=running,
        left=seconds_left(list(runs.values()), ledger, running) if owner else None,
        change=change_in_folder(folder, design, ledger),
        damage=tuple(line for _, line in damaged_files(folder)),
    )


def _stop(folder: Path, design: "Design") -> "Stop | None":
    """Whether a study with `seeds = "anytime"` is decided; `None` for other studies."""
    if design.now.anytime is None:
        return None
    from knockout.analysis.results import load
    from knockout.analysis.stopping import look

    return look(load(folder))


def _print(now: _Now) -> None:
    from knockout.sweep.progress import Reasons
    from knockout.sweep.remaining import ends_text

    out.print(f"{now.design.study}: {now.counts}")
    print_dead(now.folder, now.counts.finished)
    print_change(now.change)
    if now.stop is not None:
        say(escape(str(now.stop)))
    owner = now.owner
    out.print(f"coordinator: {f'process {owner.pid} on {owner.host}' if owner else 'none running'}")
    if now.running and owner is None:
        out.print("workers are still training: a new `run` takes them over; without one they end in a few seconds")
    print_running(now.running, now.runs)
    if now.left is not None:
        at_most = now.design.now.anytime is not None
        ends = ends_text(now.left, now=datetime.now().astimezone(), at_most=at_most)
        say(f"ends: {ends} (workers at work: {len(now.running)}, runs left: {now.counts.missing})")
    missing = now.ledger.missing(list(now.runs.values()))
    for name in dict.fromkeys(r.variant for r in now.runs.values()):
        seeds = ", ".join(str(r.seed) for r in missing if r.variant == name)
        if seeds:
            say(f"missing: {name}: seeds {seeds}")
    print_damaged(now.ledger.damaged)
    for line in now.damage:
        say(f"damaged: {escape(line)}")
    reasons = Reasons()
    for run_id, attempts in now.ledger.attempts.items():
        if run_id in now.runs and run_id not in now.ledger.records:
            last = attempts[-1].outcome
            name = f"{now.runs[run_id].variant} seed {now.runs[run_id].seed}"
            why = reasons.shown(last["reason"])
            say(escape(f"{last['status']}, {plural(len(attempts), 'time')}: {name}: {why}"))


def _document(now: _Now) -> "schema.Status":
    from knockout import documents, schema

    missing = now.ledger.missing(list(now.runs.values()))
    dead: list[tuple[str, int]] = []
    if now.counts.finished:
        from knockout.analysis.results import dead_runs  # pandas: only where there is something to judge

        dead = dead_runs(now.folder)
    counts, design = now.counts, now.design
    return schema.Status(
        schema=schema.VERSION,
        command="status",
        study=design.study,
        folder=str(now.folder),
        complete=not counts.missing,
        counts=schema.Counts(
            planned=counts.planned,
            finished=counts.finished,
            diverged=counts.diverged,
            missing=counts.missing,
            lost=counts.lost,
        ),
        coordinator=None if now.owner is None else schema.Coordinator(pid=now.owner.pid, host=now.owner.host),
        running=[_running(run_id, now.runs.get(run_id), at) for run_id, at in now.running.items()],
        ends=None
        if now.left is None
        else schema.End(
            seconds=now.left,
            at=(datetime.now().astimezone() + timedelta(seconds=now.left)).isoformat(timespec="seconds"),
            at_most=design.now.anytime is not None,
        ),
        missing=[schema.RunName(run_id=run.id, variant=run.variant, seed=run.seed) for run in missing],
        lost=[_lost(run, now.ledger) for run in missing if run.id in now.ledger.attempts],
        dead=[schema.ArmSeed(variant=variant, seed=seed) for variant, seed in dead],
        decided=None if now.stop is None else str(now.stop),
        trainer=documents.trainer(now.change, path=design.trainer, version=design.version),
        damage=[*now.damage, *now.ledger.damaged],
    )


def _running(run_id: str, run: "Run | None", at: "Progress | None") -> "schema.RunningRun":
    from knockout import schema

    return schema.RunningRun(
        run_id=run_id,
        variant=None if run is None else run.variant,
        seed=None if run is None else run.seed,
        step=None if at is None else at.step,
        steps=None if at is None else at.steps,
        loss=None if at is None else at.loss,
    )


def _lost(run: "Run", ledger: "Ledger") -> "schema.LostRun":
    from knockout import schema

    attempts = ledger.attempts[run.id]
    last = attempts[-1].outcome
    return schema.LostRun(
        run_id=run.id,
        variant=run.variant,
        seed=run.seed,
        attempts=len(attempts),
        given_up=ledger.exhausted(run),
        status=str(last["status"]),
        reason=str(last["reason"]),
    )
