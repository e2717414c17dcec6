"""The command line. Each verb imports what it needs when it is called: `--help` and `list` load no torch."""

import enum
import importlib.metadata
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from knockout.console import (
    change_text,
    design_notes,
    err,
    out,
    plain,
    print_cost,
    print_dead,
    print_design,
    print_facts,
    print_verdicts,
)
from knockout.errors import UserError

if TYPE_CHECKING:
    from knockout.analysis.stopping import Stop
    from knockout.design import Design
    from knockout.job import DataRef
    from knockout.study import Study


def _version(asked: bool) -> None:
    if asked:
        out.print(importlib.metadata.version("knockout"))
        raise typer.Exit


app = typer.Typer(
    name="knockout",
    help="Ablation studies with paired seeds, corrected tests and verdicts that survive review.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

FINISHED, MISSING, USER_FAULT, BUDGET_SPENT, INTERRUPTED = 0, 1, 2, 3, 128

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="A study file; `knockout init` writes a first one.")]
StudyFolder = Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder, such as results/first_study.")]


class Unit(enum.StrEnum):
    """The choices of `compare`'s unit, as typer wants them."""

    share = "share"
    percent = "percent"
    raw = "raw"


class Tokens(enum.StrEnum):
    """The choices of `DataSpec.tokens`, as typer wants them."""

    word = "word"
    char = "char"
    bpe = "bpe"


def main() -> None:
    """Run the command line: a user's fault is one account on standard error and exit code 2."""
    try:
        app()
    except (UserError, PermissionError) as error:
        err.print(f"[red]knockout:[/red] {escape(str(error))}", soft_wrap=True)
        sys.exit(USER_FAULT)


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Ablation studies with paired seeds, corrected tests and verdicts that survive review."""
    assert not version  # the callback has ended the program


@app.command("list")
def list_variants() -> None:
    """Print every registered variant, what it changes, and the paper."""
    from knockout.variants import BASELINE, PAPERS, VARIANTS, changes

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("variant", "changes", "paper"):
        table.add_column(column, overflow="fold")
    for name, factors in VARIANTS.items():
        differs = changes(factors)
        told = ", ".join(change_text(k, *pair) for k, pair in differs.items()) if name != BASELINE else plain(factors)
        table.add_row(name, escape(told), escape("; ".join(PAPERS[k] for k in differs)))
    out.print(table)


@app.command("data")
def describe_data(
    source: Annotated[str, typer.Argument(metavar="NAME_OR_PATH", help="As data.source of a study.")],
    tokens: Annotated[Tokens, typer.Option(help="How texts become tokens.")] = Tokens.word,
    max_length: Annotated[int, typer.Option(min=1, max=65536, help="Tokens; what is longer is cut.")] = 64,
    text_column: Annotated[str, typer.Option(help="The column of texts.")] = "text",
    label_column: Annotated[str, typer.Option(help="The column of labels.")] = "label",
    group_column: Annotated[str, typer.Option(help="The column of what belongs together, such as a film.")] = "",
) -> None:
    """Say what is in a data set: classes, lengths, repeats, leaks, and what the rules of the house would drop."""
    from knockout.data.describe import describe
    from knockout.data.rules import clean
    from knockout.data.sources import absolute_source, load_tables
    from knockout.job import DataSpec

    spec = DataSpec(
        source=source,
        tokens=tokens.value,
        max_length=max_length,
        text_column=text_column,
        label_column=label_column,
        group_column=group_column,
    )
    spec = absolute_source(spec, Path.cwd())
    tables = load_tables(spec)
    print_facts(source, describe(tables, clean(tables, spec), spec))


@app.command()
def init(folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")]) -> None:
    """Write a starter study and its plan, with a word on every key."""
    from knockout.starter import write_starter

    study, plan = write_starter(folder)
    out.print(f"written: {study} and {plan}", soft_wrap=True)
    out.print(f"next: knockout check {study}", soft_wrap=True)


@app.command()
def check(
    study: StudyFile,
    measure: Annotated[bool, typer.Option(help="Train a few steps of every variant to estimate the cost.")] = True,
) -> None:
    """Say what a study runs, what its seeds can show and what it will cost, before it runs. Writes no results."""
    from knockout.analysis import stopping
    from knockout.analysis.stats.power import outlook, sentences
    from knockout.study import read_study

    read = read_study(study)
    ref, summary = _prepared(read)
    print_design(read, summary)
    out.print()
    out.print("[bold]What it can show[/bold]")
    k, n = len(read.variants), len(read.seeds)
    fixed = read.anytime is None
    told = (
        sentences(outlook(n=n, k=k, plan=read.plan)) if fixed else stopping.sentences(k=k, plan=read.plan, max_seeds=n)
    )
    for line in told:
        out.print(f"- {escape(line)}")
    for line in design_notes(read):
        out.print(f"- {escape(line)}")
    if measure:
        out.print()
        print_cost(read, ref, summary)


@app.command()
def run(
    study: StudyFile,
    results: Annotated[Path, typer.Option(help="Where studies' folders are.")] = Path("results"),
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes, instead of the study's own.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="VARIANT", help="Train this variant only; may be given several times.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be trained, and write nothing.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Also try again what has failed three times.")] = False,
    allow_mixed: Annotated[
        bool, typer.Option("--allow-mixed", help="Go on although records come from another device or torch.")
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Take a folder that another machine holds and has left.")
    ] = False,
) -> None:
    """Train what the study is missing. Stop it any way you like; the same command goes on."""
    from knockout.study import read_study
    from knockout.sweep.coordinate import run_study, what_is_missing
    from knockout.sweep.progress import LiveDisplay, PlainDisplay

    again = f"knockout run {study}" + (f" --results {results}" if results != Path("results") else "")
    read = read_study(study)
    there = "" if (results / read.name / "design.json").exists() else " (new)"
    out.print(f"results: {escape(str((results / read.name).resolve()))}{there}", soft_wrap=True)
    if dry_run:
        todo = what_is_missing(read, results=results, only=only or (), retry=retry)
        for name in read.arms:
            seeds = ", ".join(str(r.seed) for r in todo.train if r.variant == name)
            if seeds:
                out.print(f"{name}: seeds {seeds}")
        given_up = f"; given up after three tries: {len(todo.exhausted)}" if todo.exhausted else ""
        if todo.stop is not None:
            out.print(escape(str(todo.stop)), soft_wrap=True)
        most = "at most " if read.anytime and not only and todo.train else ""
        out.print(f"{most}{len(todo.train)} of {len(todo.chosen)} runs would be trained{given_up}; nothing was written")
        return
    try:
        ended = run_study(
            read,
            results=results,
            workers=workers,
            display=LiveDisplay(out) if out.is_terminal else PlainDisplay(out),
            take_over=take_over,
            allow_mixed=allow_mixed,
            retry=retry,
            only=only or (),
        )
    except OSError as error:  # a full disk, a share that went away: every record that was written is whole
        err.print(f"[red]knockout:[/red] {escape(str(error))}; once mended, go on with: {again}", soft_wrap=True)
        raise typer.Exit(MISSING) from error
    out.print(f"{ended.root}: {ended.totals}; {ended.trained} trained now", soft_wrap=True)
    print_dead(ended.root, ended.totals.finished)
    if ended.stop is not None:
        out.print(escape(str(ended.stop)), soft_wrap=True)
    if ended.signal:
        out.print(f"stopped; go on with: {again}", soft_wrap=True)
        raise typer.Exit(INTERRUPTED + ended.signal)
    if ended.exhausted:
        names = ", ".join(f"{r.variant} seed {r.seed}" for r in ended.exhausted[:5])
        more = f" and {len(ended.exhausted) - 5} more" if len(ended.exhausted) > 5 else ""
        out.print(f"given up after three tries: {names}{more}; {again} --retry tries them again", soft_wrap=True)
    if ended.budget_spent:
        out.print(f"the budget is spent; raise budget.hours and go on with: {again}", soft_wrap=True)
        raise typer.Exit(BUDGET_SPENT)
    if ended.totals.missing:
        out.print(f"what went wrong: {ended.root / 'attempts'}; once mended: {again}", soft_wrap=True)
        raise typer.Exit(MISSING)


@app.command()
def report(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="A study's folder, such as results/first_study.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Runs from elsewhere: CSV, TSV or Parquet, one row per run."),
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="With --from: the variant that all are compared with.")] = None,
    margin: Annotated[
        float | None,
        typer.Option(help="With --from: the largest difference that does not matter."),
    ] = None,
    metric: Annotated[str, typer.Option(help="With --from: the column of the metric.")] = "accuracy",
    variant: Annotated[str, typer.Option(help="With --from: the column of the variants' names.")] = "variant",
    seed: Annotated[
        list[str] | None,
        typer.Option(help="With --from: the column of seeds; several make a block, such as seed and data set."),
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option(help="With --from: the column of statuses, or WORD=STATUS for a word that is not known."),
    ] = None,
    count: Annotated[str, typer.Option(help="With --from: the column with the number of test examples.")] = "count",
    unit: Annotated[
        Unit | None, typer.Option(help="With --from: share (0 to 1), percent, or raw; told from the metric's name.")
    ] = None,
    lower_is_better: Annotated[
        bool | None, typer.Option("--lower-is-better/--higher-is-better", help="With --from; told from the name.")
    ] = None,
    plan: Annotated[Path | None, typer.Option(help="With --from: a plan, instead of the packaged one.")] = None,
    to: Annotated[Path | None, typer.Option(help="With --from: the report's folder, instead of FILE_report.")] = None,
) -> None:
    """Judge what a study has so far, or runs from elsewhere: verdicts, report.html, report.md, figures and tables."""
    if (folder is None) == (source is None):
        raise UserError("report takes a study's folder, or --from FILE with --baseline NAME")
    if folder is not None:
        _report_study(folder)
        return
    assert source is not None
    from knockout.analysis.external.report import report_runs
    from knockout.analysis.external.runs import Columns

    words = [s for s in status or [] if "=" in s]
    named = [s for s in status or [] if "=" not in s]
    if baseline is None:
        raise UserError("--from needs --baseline NAME: the variant that all others are compared with")
    if len(named) > 1:
        raise UserError(f"--status names one column, got {', '.join(named)}; WORD=STATUS maps a word")
    columns = Columns(
        variant=variant,
        seed=tuple(seed or ["seed"]),
        metric=metric,
        status=named[0] if named else "status",
        count=count,
    )
    written = report_runs(
        source,
        columns,
        statuses=dict(w.rsplit("=", 1) for w in words),
        baseline=baseline,
        margin=margin,
        unit=None if unit is None else unit.value,
        better=None if lower_is_better is None else "lower" if lower_is_better else "higher",
        plan=plan,
        target=to or source.with_name(f"{source.stem}_report"),
    )
    print_verdicts(written.comparison, {}, {})
    metric_of = written.comparison.metric
    out.print(
        f"{escape(metric_of.name)}: {metric_of.better} is better; margin"
        f" {metric_of.size(written.comparison.plan.margin)}"
    )
    for note in written.comparison.notes:
        out.print(escape(note), soft_wrap=True)
    out.print()
    out.print(f"report: {written.paths['report.html']}", soft_wrap=True)


def _report_study(folder: Path) -> None:
    from knockout.analysis import history
    from knockout.analysis.report.write import write_report

    written = write_report(folder)
    late = history.exploratory(written.results)
    print_verdicts(written.comparison, written.results.design.described, late)
    for line in written.answer:
        out.print(escape(line))
    out.print()
    out.print(f"report: {written.paths['report.html']}", soft_wrap=True)


@app.command()
def pack(
    folder: StudyFolder,
    output: Annotated[Path | None, typer.Option(help="The file, instead of DIR/records.parquet.")] = None,
) -> None:
    """Put all records of a study into one small file, which `run` and `report` accept as records."""
    from knockout.analysis.publish import pack_study
    from knockout.design import read_design

    path = output or folder / "records.parquet"
    count, size = pack_study(folder, path)
    design = read_design(folder)
    planned = len(design.runs) if design else 0
    of = f" of {planned} planned runs" if planned else ""
    out.print(f"{path}: {count} records{of}, {size / 1000:.0f} kB", soft_wrap=True)


@app.command()
def publish(
    folder: StudyFolder,
    to: Annotated[Path, typer.Option(help="Where published reports are.")] = Path("results/reference"),
) -> None:
    """Report on a complete study and copy the report, with packed records, to where it is kept."""
    from knockout.analysis.publish import publish as publish_study

    publish_study(folder, target=to / folder.resolve().name)
    out.print(f"published: {to / folder.resolve().name}", soft_wrap=True)


@app.command()
def status(folder: StudyFolder) -> None:
    """Say what a study has, what is running now, and what is missing."""
    from knockout.design import read_design
    from knockout.ledger import read_ledger
    from knockout.sweep.coordinate import totals
    from knockout.sweep.owner import coordinator, read_progress, running_ids

    design = read_design(folder)
    if design is None:
        err.print(f"[red]knockout:[/red] {escape(str(folder))}: no study was started here", soft_wrap=True)
        raise typer.Exit(USER_FAULT)
    ledger = read_ledger(folder)
    stop = _stop(folder, design)
    needless = set(stop.needless) if stop else set()
    runs = {r.id: r for r in design.runs if r.seed not in needless or r.id in ledger.records}
    found = totals(ledger, list(runs.values()))
    owner = coordinator(folder)
    out.print(f"{design.study}: {found}")
    print_dead(folder, found.finished)
    if stop is not None:
        out.print(escape(str(stop)), soft_wrap=True)
    out.print(f"coordinator: {f'process {owner.pid} on {owner.host}' if owner else 'none at work'}")
    running = running_ids(folder)
    if running and owner is None:
        out.print("its workers still train; a new `run` takes them over, and without one they end in some seconds")
    for run_id in running:
        told = read_progress(folder, run_id)
        where = "starting" if told is None else f"step {told.step}/{told.steps}, loss {told.loss:.3f}"
        name = (
            f"{runs[run_id].variant} seed {runs[run_id].seed}"
            if run_id in runs
            else f"{run_id[:12]} (not of this study)"
        )
        out.print(f"running: {name}: {where}")
    for name in dict.fromkeys(run.variant for run in runs.values()):
        seeds = ", ".join(str(run.seed) for run in ledger.missing(list(runs.values())) if run.variant == name)
        if seeds:
            out.print(f"missing: {name}: seeds {seeds}", soft_wrap=True)
    for line in ledger.damaged:
        out.print(f"damaged, and missing: {escape(line)}")
    for run_id, attempts in ledger.attempts.items():
        if run_id in runs and run_id not in ledger.records:
            last = attempts[-1].outcome
            name = f"{runs[run_id].variant} seed {runs[run_id].seed}"
            out.print(escape(f"{last['status']}, {len(attempts)} times: {name}: {last['reason']}"), soft_wrap=True)
    raise typer.Exit(MISSING if found.missing else FINISHED)


@app.command()
def dashboard(
    folder: StudyFolder,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 for any free port.")] = 8080,
) -> None:
    """Show a study in Optuna's dashboard while it runs or afterwards: to look at only, from this machine only."""
    import warnings

    warnings.simplefilter("ignore")  # optuna-dashboard warns of what a page asks of it; nobody here can mend that
    try:
        from knockout.sweep.dashboard import serving

        with serving(folder, port=port) as server:
            out.print(
                f"http://127.0.0.1:{server.server_port}/ shows {escape(str(folder))}; Ctrl-C ends it", soft_wrap=True
            )
            server.serve_forever()
    except KeyboardInterrupt:
        out.print("stopped")
        raise typer.Exit(INTERRUPTED + 2) from None


def _stop(folder: Path, design: "Design") -> "Stop | None":
    """What is decided in a study with `seeds = "anytime"`."""
    if design.now.anytime is None:
        return None
    from knockout.analysis.results import load
    from knockout.analysis.stopping import look

    return look(load(folder))


def _prepared(study: "Study") -> "tuple[DataRef | None, Mapping[str, Any]]":
    from knockout.data.prepare import prepare
    from knockout.data.sources import absolute_source

    if study.data is None:
        return None, {}
    prepared = prepare(absolute_source(study.data, study.path.parent))
    return prepared.ref, prepared.summary
