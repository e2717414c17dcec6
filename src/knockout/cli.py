"""The command line. Each command imports what it needs when it is called: `--help` and `list` do not load torch."""

import importlib.metadata
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from knockout.cli_compare import compare
from knockout.cli_profile import profile
from knockout.cli_run import run
from knockout.console import (
    design_notes,
    err,
    out,
    print_change,
    print_cost,
    print_damaged,
    print_dead,
    print_design,
    print_fields,
    print_floors,
    print_report_path,
    print_running,
    print_systems,
    print_variants,
    print_verdicts,
)
from knockout.console_data import as_options, print_facts
from knockout.errors import UserError, disk_error_text
from knockout.parameters import (
    FINISHED,
    INTERRUPTED,
    MISSING,
    OUTPUT_LOST,
    USER_FAULT,
    Overrides,
    Quiet,
    StudyFile,
    StudyFolder,
    Tokens,
)
from knockout.plurals import plural
from knockout.screen import stdout
from knockout.terminal import hushed, say, working, write_any_text

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
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line. What the user can mend is printed on standard error, with exit code 2."""
    stdout.lost = None
    code: int | str | None
    write_any_text()
    try:
        app()
        code = FINISHED
    except SystemExit as ended:
        code = ended.code
    except UserError as error:
        say(f"[red]knockout:[/red] {escape(str(error))}", console=err)
        code = USER_FAULT
    except OSError as error:  # a disk that is full, a folder that cannot be written
        say(f"[red]knockout:[/red] {escape(disk_error_text(error))}", console=err)
        code = USER_FAULT
    if stdout.lost is not None:
        if not isinstance(stdout.lost, BrokenPipeError):  # a reader that has seen enough, such as `head`
            say(f"[red]knockout:[/red] standard output was lost: {escape(str(stdout.lost))}", console=err)
        code = code or OUTPUT_LOST
    sys.exit(code)


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
    """List all registered variants: what each one changes, and the paper. Then every factor and hyperparameter."""
    from knockout.variants import PAPERS, SYSTEMS, VARIANTS, Factors, Recipe

    print_variants(VARIANTS, PAPERS)
    out.print()
    out.print("[bold]Systems[/bold]: whole models, for `baseline` and among `variants`")
    print_systems(SYSTEMS)
    out.print()
    out.print("[bold]Factors[/bold]: what \\[variant.NAME] may change, with the baseline's levels")
    print_fields("factor", Factors)
    out.print()
    out.print("[bold]Recipe[/bold]: \\[model] and \\[train], the same for all variants of a study")
    print_fields("key", Recipe)


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
    sizes: Annotated[
        tuple[int, int, int],
        typer.Option(min=0, metavar="TRAIN VALIDATION TEST", help="The most texts of each split; 0: all."),
    ] = (0, 0, 0),
) -> None:
    """Summarise a dataset: class counts, lengths, duplicates, train/test leakage, and rows that cleaning would drop."""
    from knockout.data.corpus import DataError
    from knockout.data.describe import describe
    from knockout.data.floors import text_floors
    from knockout.data.prepare import prepare
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
        sizes=sizes,
    )
    spec = absolute_source(spec, Path.cwd())
    try:
        tables = load_tables(spec)
        corpus = clean(tables, spec)
        facts = describe(tables, corpus, spec)
        prepared = prepare(spec, corpus=corpus)
    except DataError as error:
        raise DataError(as_options(str(error))) from error
    print_facts(source, facts)
    print_floors(text_floors(prepared.ref, tokens=spec.tokens), "accuracy")


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or an empty folder.")],
    trainer: Annotated[
        bool, typer.Option("--trainer", help="Also write a trainer of your own, which the study then names.")
    ] = False,
) -> None:
    """Write an example study and plan, every key commented."""
    from knockout.pages import page
    from knockout.starter import write_starter

    study, *others = write_starter(folder, trainer=trainer)
    say(f"written: {escape(', '.join(map(str, (study, *others[:-1]))))} and {escape(str(others[-1]))}")
    if trainer:
        say("explained in:", whole=str(page("docs/your-own-model.md")))
    say("next:", whole=f"knockout check {study}")


@app.command()
def check(
    study: StudyFile,
    results: Annotated[Path, typer.Option(help="The folder that holds the results of all studies.")] = Path("results"),
    measure: Annotated[bool, typer.Option(help="Estimate the cost by training a few steps of every variant.")] = True,
    overrides: Overrides = None,
) -> None:
    """Show what a study will run, which differences its seeds can detect, and the cost. Writes no results."""
    from knockout.analysis import stopping
    from knockout.analysis.inference.outlook import outlook, sentences
    from knockout.design import dropped_line
    from knockout.ledger import damaged_files
    from knockout.study import read_study
    from knockout.sweep.survey import study_floors, survey

    read = read_study(study, overrides or ())
    state = survey(read, results / read.name)
    floors = study_floors(read, state.data)
    print_design(read, state.data.summary)
    print_floors(floors, read.plan.metric)
    have = sum(run.id in state.ledger.records for run in state.runs)
    for _, line in damaged_files(state.root):
        say(f"damaged: {escape(line)}")
    if have:
        has = f"{have} of {plural(len(state.runs), 'run')} {'has' if have == 1 else 'have'} a result"
        say(f"{escape(str(state.root))}: {has}, {len(state.wanted)} would be trained")
        print_change(state.change)
    print_damaged(state.ledger.damaged)
    out.print()
    out.print("[bold]What it can show[/bold]")
    k, n = len(read.variants) + len(state.dropped), len(read.seeds)  # K, as the report counts it
    fixed = read.anytime is None
    lines = (
        sentences(outlook(n=n, k=k, plan=read.plan)) if fixed else stopping.sentences(k=k, plan=read.plan, max_seeds=n)
    )
    gone = [f"{dropped_line(state.dropped)}."] if state.dropped else []
    for line in [*lines, *gone, *design_notes(read)]:
        say(f"- {escape(line)}")
    if measure:
        out.print()
        print_cost(read, state.data.ref, state.data.summary)


app.command()(run)


@app.command()
def report(folder: StudyFolder, quiet: Quiet = False) -> None:
    """Judge what a study has so far: verdicts, report.html, report.md, figures and tables."""
    from knockout.analysis import history
    from knockout.analysis.report.write import write_report
    from knockout.design import dropped_line

    with working(f"judging {folder} and drawing its figures", quiet=quiet):
        written = write_report(folder)
    with hushed(quiet):
        late = history.exploratory(written.results)
        print_verdicts(written.comparison, written.results.design.described, late)
        if written.results.design.dropped:
            say(escape(dropped_line(written.results.design.dropped)))
        for line in written.answer:
            say(escape(line))
    with hushed(quiet and not written.results.change.undeclared):
        print_change(written.results.change)
    with hushed(quiet):
        out.print()
    print_damaged(written.results.damaged)
    print_report_path(written.comparison, written.paths["report.html"], quiet=quiet)


app.command()(compare)


app.command()(profile)


@app.command()
def pack(
    folder: StudyFolder,
    output: Annotated[Path | None, typer.Option(help="The file to write, instead of DIR/records.parquet.")] = None,
) -> None:
    """Pack all records of a study into one small file, which `run` and `report` read like the records."""
    from knockout.analysis.publish import pack_study
    from knockout.design import DesignError, read_design

    path = output or folder / "records.parquet"
    count, size, damaged = pack_study(folder, path)
    for line in damaged:
        say(f"damaged, not packed: {escape(line)}")
    try:
        design = read_design(folder)
    except DesignError as error:  # records are packed without it
        say(f"damaged: {escape(str(error))}")
        design = None
    planned = len(design.runs) if design else 0
    of = f" of {plural(planned, 'planned run')}" if planned else ""
    say(f"{escape(str(path))}: {plural(count, 'record')}{of}, {size / 1000:.0f} kB")


@app.command()
def publish(
    folder: StudyFolder,
    to: Annotated[Path, typer.Option(help="The folder for published reports.")] = Path("results/reference"),
) -> None:
    """Write the report of a complete study and copy it, with the packed records, to the published reports."""
    from knockout.analysis.publish import publish as publish_study

    with working(f"judging {folder} and drawing its figures", quiet=False):
        publish_study(folder, target=to / folder.resolve().name)
    say("published:", whole=str(to / folder.resolve().name))


@app.command()
def status(folder: StudyFolder) -> None:
    """Show which runs of a study are finished, running or missing, and when it ends."""
    from knockout.design import absence, read_design
    from knockout.ledger import damaged_files, read_ledger
    from knockout.source_changes import change_in_folder
    from knockout.sweep.coordinate import totals
    from knockout.sweep.owner import coordinator, read_progress, running_ids
    from knockout.sweep.progress import Reasons
    from knockout.sweep.remaining import ends_text, seconds_left

    design = read_design(folder)
    if design is None:
        raise UserError(absence(folder))
    ledger = read_ledger(folder)
    stop = _stop(folder, design)
    needless = set(stop.needless) if stop else set()
    runs = {r.id: r for r in design.runs if r.seed not in needless or r.id in ledger.records}
    counts = totals(ledger, list(runs.values()))
    owner = coordinator(folder)
    out.print(f"{design.study}: {counts}")
    print_dead(folder, counts.finished)
    print_change(change_in_folder(folder, design, ledger))
    if stop is not None:
        say(escape(str(stop)))
    out.print(f"coordinator: {f'process {owner.pid} on {owner.host}' if owner else 'none running'}")
    running = {run_id: read_progress(folder, run_id) for run_id in running_ids(folder)}
    if running and owner is None:
        out.print("workers are still training: a new `run` takes them over; without one they end in a few seconds")
    print_running(running, runs)
    left = seconds_left(list(runs.values()), ledger, running) if owner else None
    if left is not None:
        at_most = design.now.anytime is not None
        ends = ends_text(left, now=datetime.now().astimezone(), at_most=at_most)
        say(f"ends: {ends} (workers at work: {len(running)}, runs left: {counts.missing})")
    for name in dict.fromkeys(r.variant for r in runs.values()):
        seeds = ", ".join(str(r.seed) for r in ledger.missing(list(runs.values())) if r.variant == name)
        if seeds:
            say(f"missing: {name}: seeds {seeds}")
    print_damaged(ledger.damaged)
    for _, line in damaged_files(folder):
        say(f"damaged: {escape(line)}")
    reasons = Reasons()
    for run_id, attempts in ledger.attempts.items():
        if run_id in runs and run_id not in ledger.records:
            last = attempts[-1].outcome
            name = f"{runs[run_id].variant} seed {runs[run_id].seed}"
            why = reasons.shown(last["reason"])
            say(escape(f"{last['status']}, {plural(len(attempts), 'time')}: {name}: {why}"))
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
        from knockout.sweep.dashboard import NOTE_PAGE, serving

        with serving(folder, port=port) as server:
            say(f"http://127.0.0.1:{server.server_port}{NOTE_PAGE} shows {escape(str(folder))}; stop it with Ctrl-C")
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
