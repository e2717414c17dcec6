"""The command line. Each command imports what it needs when it is called: `--help` and `list` do not load torch."""

import importlib.metadata
import sys
from operator import methodcaller
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from knockout.cli_check import check
from knockout.cli_compare import compare
from knockout.cli_curves import curves
from knockout.cli_diff import diff
from knockout.cli_json import asked_for_json, print_failure
from knockout.cli_profile import profile
from knockout.cli_report import report
from knockout.cli_run import run
from knockout.cli_status import status
from knockout.console import err, out, print_fields, print_floors, print_systems, print_variants
from knockout.console_data import as_options, print_facts
from knockout.errors import UserError, disk_error_text
from knockout.parameters import FINISHED, INTERRUPTED, OUTPUT_LOST, USER_FAULT, StudyFolder, Tokens
from knockout.plurals import plural
from knockout.screen import stdout
from knockout.terminal import say, working, write_any_text

REFUSED: type[Exception] = next(
    cls for cls in typer.BadParameter.__mro__ if issubclass(cls, Exception) and cls.__name__ == "ClickException"
)
"""What a command line that cannot be understood raises. Where typer has it from differs between its versions."""


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
    """Run the command line. What the user can mend is printed on standard error, with exit code 2.

    Where `--json` was asked for, it also stands on standard output, as an object like any other.
    """
    stdout.lost = None
    code: int | str | None
    write_any_text()
    as_json = asked_for_json(sys.argv[1:])
    try:
        code = (app(standalone_mode=False) or FINISHED) if as_json else app() or FINISHED
    except SystemExit as ended:
        code = ended.code
    except UserError as error:
        code = _refuse(str(error), as_json=as_json)
    except OSError as error:  # a disk that is full, a folder that cannot be written
        code = _refuse(disk_error_text(error), as_json=as_json)
    except REFUSED as error:
        code = _refuse(str(methodcaller("format_message")(error)), as_json=as_json)
    if stdout.lost is not None:
        if not isinstance(stdout.lost, BrokenPipeError):  # a reader that has seen enough, such as `head`
            say(f"[red]knockout:[/red] standard output was lost: {escape(str(stdout.lost))}", console=err)
        code = code or OUTPUT_LOST
    sys.exit(code)


def _refuse(message: str, *, as_json: bool) -> int:
    """Say what the user can mend, and return the exit code."""
    say(f"[red]knockout:[/red] {escape(message)}", console=err)
    if as_json:
        print_failure(message, sys.argv[1:])
    return USER_FAULT


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


app.command()(check)


app.command()(run)


app.command()(report)


app.command()(compare)


app.command()(curves)


app.command()(diff)


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


app.command()(status)


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
