"""The command line. Each command imports what it needs when it is called: `--help` and `list` do not load torch."""

import enum
import importlib.metadata
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from knockout.console import (
    as_options,
    change_text,
    design_notes,
    err,
    fields_text,
    out,
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

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="A study file. `knockout init` writes an example.")]
StudyFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The results folder of a study, such as results/first_study.")
]


class Unit(enum.StrEnum):
    """The choices of `compare`'s unit, as typer wants them."""

    share = "share"
    percent = "percent"
    raw = "raw"


class Tokens(enum.StrEnum):
    """The values of `DataSpec.tokens`, as an enum for typer."""

    word = "word"
    char = "char"
    bpe = "bpe"


def main() -> None:
    """Run the command line. An error of the user is printed on standard error, with exit code 2."""
    try:
        app()
    except (UserError, PermissionError) as error:
        err.print(f"[red]knockout:[/red] {escape(str(error))}", soft_wrap=True)
        sys.exit(USER_FAULT)


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Ablation studies with paired seeds, corrected tests and verdicts that survive review."""
    assert not version  # the callback has ended the program


@app.command("list")
def list_variants() -> None:
    """List all registered variants: what each one changes, and the paper."""
    from knockout.variants import BASELINE, PAPERS, VARIANTS, changes

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("variant", "changes", "paper"):
        table.add_column(column, overflow="fold")
    for name, factors in VARIANTS.items():
        differs = changes(factors)
        text = (
            ", ".join(change_text(k, *pair) for k, pair in differs.items())
            if name != BASELINE
            else fields_text(factors)
        )
        table.add_row(name, escape(text), escape("; ".join(PAPERS[k] for k in differs)))
    out.print(table)


@app.command("data")
def describe_data(
    source: Annotated[
        str,
        typer.Argument(
            metavar="NAME_OR_PATH", help="A file, a folder, or the name of a dataset: as data.source in a study."
        ),
    ],
    tokens: Annotated[Tokens, typer.Option(help="How to split texts into tokens.")] = Tokens.word,
    max_length: Annotated[int, typer.Option(min=1, max=65536, help="Number of tokens at which texts are cut.")] = 64,
    text_column: Annotated[str, typer.Option(help="The column with the texts.")] = "text",
    label_column: Annotated[str, typer.Option(help="The column with the labels.")] = "label",
    group_column: Annotated[str, typer.Option(help="The column of groups to keep in one split, such as a film.")] = "",
    drop_unlabeled: Annotated[bool, typer.Option("--drop-unlabeled", help="Leave out rows without a label.")] = False,
) -> None:
    """Summarise a dataset: class counts, lengths, duplicates, train/test leakage, and rows that cleaning would drop."""
    from knockout.data.corpus import DataError
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
        drop_unlabeled=drop_unlabeled,
    )
    spec = absolute_source(spec, Path.cwd())
    try:
        tables = load_tables(spec)
        facts = describe(tables, clean(tables, spec), spec)
    except DataError as error:
        raise DataError(as_options(str(error))) from error
    print_facts(source, facts)


@app.command()
def init(folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or an empty folder.")]) -> None:
    """Write an example study and plan, every key commented."""
    from knockout.starter import write_starter

    study, plan = write_starter(folder)
    out.print(f"written: {study} and {plan}", soft_wrap=True)
    out.print(f"next: knockout check {study}", soft_wrap=True)


@app.command()
def check(
    study: StudyFile,
    results: Annotated[Path, typer.Option(help="The folder that holds the results of all studies.")] = Path("results"),
    measure: Annotated[bool, typer.Option(help="Estimate the cost by training a few steps of every variant.")] = True,
) -> None:
    """Show what a study will run, which differences its seeds can detect, and the cost. Writes no results."""
    from knockout.analysis import stopping
    from knockout.analysis.inference.outlook import outlook, sentences
    from knockout.study import read_study
    from knockout.sweep.survey import survey

    read = read_study(study)
    state = survey(read, results / read.name)
    print_design(read, state.data.summary)
    have = sum(run.id in state.ledger.records for run in state.runs)
    if have:
        known = f"{have} of {len(state.runs)} runs have a result, {len(state.wanted)} would be trained"
        out.print(f"{escape(str(state.root))}: {known}", soft_wrap=True)
    out.print()
    out.print("[bold]What it can show[/bold]")
    k, n = len(read.variants), len(read.seeds)
    fixed = read.anytime is None
    lines = (
        sentences(outlook(n=n, k=k, plan=read.plan)) if fixed else stopping.sentences(k=k, plan=read.plan, max_seeds=n)
    )
    for line in [*lines, *design_notes(read)]:
        out.print(f"- {escape(line)}")
    if measure:
        out.print()
        print_cost(read, state.data.ref, state.data.summary)


@app.command()
def run(
    study: StudyFile,
    results: Annotated[Path, typer.Option(help="The folder that holds the results of all studies.")] = Path("results"),
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of worker processes, instead of run.workers.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="VARIANT", help="Train this variant only. Can be repeated.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the runs that would be trained. Writes nothing.")
    ] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Also retry runs that have failed three times.")] = False,
    allow_mixed: Annotated[
        bool, typer.Option("--allow-mixed", help="Continue although records come from another device or torch version.")
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Take over a folder whose lock another machine left behind.")
    ] = False,
) -> None:
    """Train the missing runs of a study. Stop it at any time; the same command continues."""
    from knockout.study import read_study
    from knockout.sweep.coordinate import run_study
    from knockout.sweep.progress import LiveDisplay, PlainDisplay
    from knockout.sweep.survey import survey

    again = f"knockout run {study}" + (f" --results {results}" if results != Path("results") else "")
    read = read_study(study)
    there = "" if (results / read.name / "design.json").exists() else " (new)"
    out.print(f"results: {escape(str((results / read.name).resolve()))}{there}", soft_wrap=True)
    if dry_run:
        state = survey(read, results / read.name, only=only or (), retry=retry)
        for name in read.arms:
            seeds = ", ".join(str(r.seed) for r in state.wanted if r.variant == name)
            if seeds:
                out.print(f"{name}: seeds {seeds}")
        given_up = f"; given up after three tries: {len(state.exhausted)}" if state.exhausted else ""
        if state.stop is not None:
            out.print(escape(str(state.stop)), soft_wrap=True)
        train = len(state.wanted)
        most = "at most " if read.anytime and not only and train else ""
        out.print(f"{most}{train} of {len(state.chosen)} runs would be trained{given_up}; nothing was written")
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
    except OSError as error:  # such as a full disk: every record that was written is complete
        err.print(f"[red]knockout:[/red] {escape(str(error))}; fix this and continue with: {again}", soft_wrap=True)
        raise typer.Exit(MISSING) from error
    out.print(f"{ended.root}: {ended.totals}; {ended.trained} trained now", soft_wrap=True)
    print_dead(ended.root, ended.totals.finished)
    if ended.stop is not None:
        out.print(escape(str(ended.stop)), soft_wrap=True)
    if ended.signal:
        out.print(f"stopped; continue with: {again}", soft_wrap=True)
        raise typer.Exit(INTERRUPTED + ended.signal)
    if ended.exhausted:
        names = ", ".join(f"{r.variant} seed {r.seed}" for r in ended.exhausted[:5])
        more = f" and {len(ended.exhausted) - 5} more" if len(ended.exhausted) > 5 else ""
        out.print(f"given up after three tries: {names}{more}; {again} --retry retries them", soft_wrap=True)
    if ended.budget_spent:
        out.print(f"the budget is spent; raise budget.hours and continue with: {again}", soft_wrap=True)
        raise typer.Exit(BUDGET_SPENT)
    if ended.totals.missing:
        out.print(f"error logs: {ended.root / 'attempts'}; fix the errors and continue with: {again}", soft_wrap=True)
        raise typer.Exit(MISSING)


@app.command()
def report(folder: StudyFolder) -> None:
    """Judge what a study has so far: verdicts, report.html, report.md, figures and tables."""
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
def compare(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A CSV, TSV or Parquet file, one row per run.")],
    baseline: Annotated[str, typer.Option(metavar="NAME", help="The variant that all others are compared with.")],
    metric: Annotated[str, typer.Option(help="The column of the metric.")] = "accuracy",
    margin: Annotated[float | None, typer.Option(help="The largest difference that does not matter.")] = None,
    variant: Annotated[str, typer.Option(help="The column of the variants' names.")] = "variant",
    seed: Annotated[
        list[str] | None,
        typer.Option(help="The column of seeds. Several columns form a block, such as seed and data set."),
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option(help="The column of statuses. WORD=STATUS maps a word that Knockout does not know."),
    ] = None,
    count: Annotated[str, typer.Option(help="The column with the number of test examples.")] = "count",
    unit: Annotated[
        Unit | None,
        typer.Option(help="share (0 to 1), percent or raw. The default follows from the metric's name."),
    ] = None,
    lower_is_better: Annotated[
        bool | None,
        typer.Option("--lower-is-better/--higher-is-better", help="The default follows from the metric's name."),
    ] = None,
    plan: Annotated[Path | None, typer.Option(help="A plan, instead of the packaged one.")] = None,
    to: Annotated[Path | None, typer.Option(help="The report's folder, instead of FILE_report.")] = None,
) -> None:
    """Judge runs that Knockout did not train: the same verdicts and the same report as for a study."""
    from knockout.analysis.external.report import report_runs
    from knockout.analysis.external.runs import RunColumns

    mapped_words = [s for s in status or [] if "=" in s]
    status_columns = [s for s in status or [] if "=" not in s]
    if len(status_columns) > 1:
        raise UserError(f"--status names one column, got {', '.join(status_columns)}; WORD=STATUS maps a word")
    columns = RunColumns(
        variant=variant,
        seed=tuple(seed or ["seed"]),
        metric=metric,
        status=status_columns[0] if status_columns else "status",
        count=count,
    )
    written = report_runs(
        file,
        columns,
        statuses=dict(w.rsplit("=", 1) for w in mapped_words),
        baseline=baseline,
        margin=margin,
        unit=None if unit is None else unit.value,
        better=None if lower_is_better is None else "lower" if lower_is_better else "higher",
        plan=plan,
        target=to or file.with_name(f"{file.stem}_report"),
    )
    print_verdicts(written.comparison, {}, {})
    judged = written.comparison.metric
    out.print(f"{escape(judged.name)}: {judged.better} is better; margin {judged.size(written.comparison.plan.margin)}")
    for note in written.comparison.notes:
        out.print(escape(note), soft_wrap=True)
    out.print()
    out.print(f"report: {written.paths['report.html']}", soft_wrap=True)


@app.command()
def pack(
    folder: StudyFolder,
    output: Annotated[Path | None, typer.Option(help="The file to write, instead of DIR/records.parquet.")] = None,
) -> None:
    """Pack all records of a study into one small file, which `run` and `report` read like the records."""
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
    to: Annotated[Path, typer.Option(help="The folder for published reports.")] = Path("results/reference"),
) -> None:
    """Write the report of a complete study and copy it, with the packed records, to the published reports."""
    from knockout.analysis.publish import publish as publish_study

    publish_study(folder, target=to / folder.resolve().name)
    out.print(f"published: {to / folder.resolve().name}", soft_wrap=True)


@app.command()
def status(folder: StudyFolder) -> None:
    """Show which runs of a study are finished, running or missing."""
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
    counts = totals(ledger, list(runs.values()))
    owner = coordinator(folder)
    out.print(f"{design.study}: {counts}")
    print_dead(folder, counts.finished)
    if stop is not None:
        out.print(escape(str(stop)), soft_wrap=True)
    out.print(f"coordinator: {f'process {owner.pid} on {owner.host}' if owner else 'none running'}")
    running = running_ids(folder)
    if running and owner is None:
        out.print("workers are still training: a new `run` takes them over; without one they end in a few seconds")
    for run_id in running:
        at = read_progress(folder, run_id)
        where = "starting" if at is None else f"step {at.step}/{at.steps}, loss {at.loss:.3f}"
        name = (
            f"{runs[run_id].variant} seed {runs[run_id].seed}"
            if run_id in runs
            else f"{run_id[:12]} (not in this study)"
        )
        out.print(f"running: {name}: {where}")
    for name in dict.fromkeys(run.variant for run in runs.values()):
        seeds = ", ".join(str(run.seed) for run in ledger.missing(list(runs.values())) if run.variant == name)
        if seeds:
            out.print(f"missing: {name}: seeds {seeds}", soft_wrap=True)
    for line in ledger.damaged:
        out.print(f"damaged, counted as missing: {escape(line)}")
    for run_id, attempts in ledger.attempts.items():
        if run_id in runs and run_id not in ledger.records:
            last = attempts[-1].outcome
            name = f"{runs[run_id].variant} seed {runs[run_id].seed}"
            out.print(escape(f"{last['status']}, {len(attempts)} times: {name}: {last['reason']}"), soft_wrap=True)
    raise typer.Exit(MISSING if counts.missing else FINISHED)


@app.command()
def dashboard(
    folder: StudyFolder,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for any free port.")] = 8080,
) -> None:
    """Show a study in Optuna's dashboard, while it runs or afterwards. Read-only, reachable from this machine only."""
    import warnings

    warnings.simplefilter("ignore")  # optuna-dashboard warns about requests of its own pages
    try:
        from knockout.sweep.dashboard import serving

        with serving(folder, port=port) as server:
            out.print(
                f"http://127.0.0.1:{server.server_port}/ shows {escape(str(folder))}; stop it with Ctrl-C",
                soft_wrap=True,
            )
            server.serve_forever()
    except KeyboardInterrupt:
        out.print("stopped")
        raise typer.Exit(INTERRUPTED + 2) from None


def _stop(folder: Path, design: "Design") -> "Stop | None":
    """Whether a study with `seeds = "anytime"` is decided; `None` for other studies."""
    if design.now.anytime is None:
        return None
    from knockout.analysis.results import load
    from knockout.analysis.stopping import look

    return look(load(folder))
