"""`knockout check`: what a study will run, what it can show, and what it costs."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape

from knockout.cli_json import print_document
from knockout.console import (
    design_notes,
    out,
    print_change,
    print_cost,
    print_damaged,
    print_design,
    print_floors,
)
from knockout.parameters import Json, Overrides, StudyFile
from knockout.plurals import plural
from knockout.terminal import say, working

if TYPE_CHECKING:
    from knockout import schema
    from knockout.analysis.inference import outlook
    from knockout.job import Floor
    from knockout.study import Run, Study
    from knockout.sweep.estimate import Estimate
    from knockout.sweep.machine import Machine
    from knockout.sweep.survey import Survey


def check(
    study: StudyFile,
    results: Annotated[Path, typer.Option(help="The folder that holds the results of all studies.")] = Path("results"),
    measure: Annotated[bool, typer.Option(help="Estimate the cost by training a few steps of every variant.")] = True,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Show what a study will run, which differences its seeds can detect, and the cost. Writes no results."""
    from knockout.ledger import damaged_files
    from knockout.study import read_study
    from knockout.sweep.estimate import estimate
    from knockout.sweep.machine import machine_of
    from knockout.sweep.survey import study_floors, survey

    read = read_study(study, overrides or ())
    state = survey(read, results / read.name)
    floors = study_floors(read, state.data)
    shown = _outlook(state)
    files = [line for _, line in damaged_files(state.root)]
    if not as_json:
        _print(state, floors, shown, files)
    cost, machine = None, None
    if measure:
        machine = machine_of(read)
        with working(f"training a few steps of every variant of {study}", quiet=not as_json):
            cost = estimate(read, data=state.data.ref, summary=state.data.summary, device=machine.devices[0])
    if as_json:
        print_document(_document(state, floors, shown, files, cost, machine))
    elif cost is not None and machine is not None:
        out.print()
        print_cost(read, cost, machine)


@dataclass(frozen=True, kw_only=True)
class _Outlook:
    """What the seeds can show. `view`: its numbers; `None` where seeds are added until all is decided."""

    contrasts: int
    view: "outlook.Outlook | None"
    sentences: list[str]


def _outlook(state: "Survey") -> _Outlook:
    from knockout.analysis import stopping
    from knockout.analysis.inference import outlook

    read, n = state.study, len(state.study.seeds)
    k = len(read.variants) + len(state.dropped)  # K, as the report counts it
    if read.anytime is not None:
        return _Outlook(contrasts=k, view=None, sentences=stopping.sentences(k=k, plan=read.plan, max_seeds=n))
    view = outlook.outlook(n=n, k=k, plan=read.plan)
    return _Outlook(contrasts=k, view=view, sentences=outlook.sentences(view))


def _notes(state: "Survey") -> list[str]:
    from knockout.design import dropped_line

    return [*([f"{dropped_line(state.dropped)}."] if state.dropped else []), *design_notes(state.study)]


def _print(state: "Survey", floors: "tuple[Floor, ...]", shown: _Outlook, files: list[str]) -> None:
    """Everything but the cost, which takes a while to measure."""
    print_design(state.study, state.data.summary)
    print_floors(floors, state.study.plan.metric)
    have = sum(run.id in state.ledger.records for run in state.runs)
    for line in files:
        say(f"damaged: {escape(line)}")
    if have:
        has = f"{have} of {plural(len(state.runs), 'run')} {'has' if have == 1 else 'have'} a result"
        say(f"{escape(str(state.root))}: {has}, {len(state.wanted)} would be trained")
        print_change(state.change)
    print_damaged(state.ledger.damaged)
    out.print()
    out.print("[bold]What it can show[/bold]")
    for line in [*shown.sentences, *_notes(state)]:
        say(f"- {escape(line)}")


def _document(
    state: "Survey",
    floors: "tuple[Floor, ...]",
    shown: _Outlook,
    files: list[str],
    cost: "Estimate | None",
    machine: "Machine | None",
) -> "schema.Check":
    from knockout import documents, schema
    from knockout.analysis.stats.metric import unit_of

    read, summary, view = state.study, state.data.summary, shown.view
    metric = read.plan.metric
    return schema.Check(
        schema=schema.VERSION,
        command="check",
        study=read.name,
        question=read.question,
        folder=str(state.root),
        trainer=documents.trainer(state.change, path=read.trainer.path, version=read.trainer.version),
        metric=schema.Metric(name=metric, unit=unit_of(metric), better="lower" if metric == "log_loss" else "higher"),
        plan=documents.plan(read.plan),
        anytime=read.anytime,
        seeds=list(read.seeds),
        arms=_arms(read),
        dropped_variants=list(state.dropped),
        runs=_planned(state),
        data=None
        if not summary
        else schema.DataFacts(
            id=state.data.id,
            source=str(summary["source"]),
            tokens=str(summary["tokens"]),
            classes=[str(name) for name in summary["classes"]],
            splits={name: int(split["count"]) for name, split in summary["splits"].items()},
            dropped={reason: int(n) for reason, n in summary["dropped"].items()},
            notes=[str(note) for note in summary["notes"]],
        ),
        floors=documents.floors(floors),
        outlook=schema.Outlook(
            seeds=len(read.seeds),
            contrasts=shown.contrasts,
            at_most=read.anytime is not None,
            exact_floor=None if view is None else view.exact_floor,
            seeds_for_exact_floor=None if view is None else view.seeds_for_exact_floor,
            alone=None if view is None else _level(view.alone),
            first=None if view is None else _level(view.first),
            undecidable=[] if view is None else list(view.undecidable),
            sentences=shown.sentences,
        ),
        notes=_notes(state),
        cost=None if cost is None or machine is None else _cost(read, cost, machine),
        damage=[*files, *state.ledger.damaged],
    )


def _arms(read: "Study") -> "list[schema.Arm]":
    from knockout import documents, schema
    from knockout.variants import BASELINE, changes

    base = read.baseline
    own = documents.changes(changes(base.factors))
    arms = [schema.Arm(name=BASELINE, role="baseline", system=base.system, changes=own)]
    arms += [
        schema.Arm(name=name, role="variant", system=arm.system, changes=documents.changes(dict(arm.differences(base))))
        for name, arm in read.compared.items()
        if name != BASELINE
    ]
    return [*arms, *(schema.Arm(name=name, role="placebo", system="", changes=[]) for name in read.placebos)]


def _planned(state: "Survey") -> "list[schema.PlannedRun]":
    from knockout import schema

    wanted, given_up = {run.id for run in state.wanted}, {run.id for run in state.exhausted}

    def state_of(run: "Run") -> Literal["result", "missing", "given up", "not needed"]:
        if run.id in state.ledger.records:
            return "result"
        return "missing" if run.id in wanted else "given up" if run.id in given_up else "not needed"

    return [
        schema.PlannedRun(run_id=run.id, variant=run.variant, seed=run.seed, state=state_of(run)) for run in state.runs
    ]


def _level(level: "outlook.Level") -> "schema.Level":
    from knockout import schema

    return schema.Level(
        alpha=level.alpha,
        detectable=level.detectable,
        chance_equivalent=level.chance_equivalent,
        chance_margin=level.chance_margin,
        chance_two_margins=level.chance_two_margins,
        seeds_difference=level.seeds_difference,
        seeds_equivalence=level.seeds_equivalence,
        verdicts=list(level.verdicts),
        verdicts_after_failure=list(level.verdicts_after_failure),
    )


def _cost(read: "Study", cost: "Estimate", machine: "Machine") -> "schema.Cost":
    from knockout import schema

    return schema.Cost(
        seconds=cost.start_seconds + cost.seconds / machine.workers,
        at_most=read.anytime is not None,
        workers=machine.workers,
        device=machine.devices[0],
        memory_bytes=cost.peak_bytes * machine.workers,
        disk_bytes=round(cost.disk_bytes),
        evaluation_counted=cost.evaluation_counted,
        whole=cost.whole,
        paces=[
            schema.Pace(
                variant=name,
                steps=pace.steps,
                seconds_per_step=pace.seconds_per_step,
                run_seconds=pace.run_seconds,
                answered=pace.answered,
                trouble=pace.trouble,
                note=pace.note,
            )
            for name, pace in cost.paces.items()
        ],
    )
