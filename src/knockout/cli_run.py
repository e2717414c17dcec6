"""`knockout run`: the missing runs of a study."""

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from knockout.console import print_change, print_dead, print_wanted
from knockout.console_interim import interim_drawer
from knockout.errors import disk_error_text
from knockout.parameters import BUDGET_SPENT, INTERRUPTED, MISSING, Overrides, Quiet, StudyFile
from knockout.plurals import plural
from knockout.screen import stdout
from knockout.terminal import err, hushed, out, say


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
    overrides: Overrides = None,
    retry: Annotated[bool, typer.Option("--retry", help="Also retry runs that have failed three times.")] = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Go on where runs fail with the same error, one after the other.")
    ] = False,
    allow_mixed: Annotated[
        bool, typer.Option("--allow-mixed", help="Continue although records come from another device or torch version.")
    ] = False,
    same_trainer: Annotated[
        bool,
        typer.Option("--same-trainer", help="Declare that the trainer's edits since its first runs change no number."),
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Take over a folder whose lock another machine left behind.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Train the missing runs of a study. Stop it at any time; the same command continues."""
    from knockout.ledger import damaged_files
    from knockout.study import read_study
    from knockout.sweep.coordinate import opening_lines, run_study
    from knockout.sweep.progress import LiveDisplay, PlainDisplay, QuietDisplay
    from knockout.sweep.survey import survey

    again = f"knockout run {study}" + (f" --results {results}" if results != Path("results") else "")
    again += "".join(f" --set {shlex.quote(given)}" for given in overrides or ())
    read = read_study(study, overrides or ())
    root = results / read.name
    if dry_run:
        state = survey(read, root, only=only or (), retry=retry)
        with hushed(quiet):
            for line in opening_lines(read, root):
                say(escape(line))
            for _, damage in damaged_files(root):
                say(f"damaged: {escape(damage)}")
            print_wanted(state)
        train = len(state.wanted)
        most = "at most " if read.anytime and not only and train else ""
        given_up = f"; given up after three tries: {len(state.exhausted)}" if state.exhausted else ""
        planned = plural(len(state.chosen), "run")
        say(f"{most}{train} of {planned} would be trained{given_up}; nothing was written")
        return
    draw = interim_drawer(read)
    try:
        ended = run_study(
            read,
            results=results,
            workers=workers,
            display=QuietDisplay(err) if quiet else (LiveDisplay if out.is_terminal else PlainDisplay)(out, draw),
            take_over=take_over,
            allow_mixed=allow_mixed,
            retry=retry,
            keep_going=keep_going,
            only=only or (),
            same_trainer=same_trainer,
        )
    except OSError as error:  # such as a full disk: every record that was written is complete
        fault = escape(disk_error_text(error))
        say(f"[red]knockout:[/red] {fault}; then continue with:", whole=again, console=err)
        raise typer.Exit(MISSING) from error
    if stdout.lost is not None:
        say(f"trained without a screen: {escape(str(ended.root))}: {ended.totals}", console=err)
    say(f"{escape(str(ended.root))}: {ended.totals}; {ended.trained} trained now")
    with hushed(quiet):
        print_dead(ended.root, ended.totals.finished)
        print_change(ended.change)
        if ended.stop is not None:
            say(escape(str(ended.stop)))
    if ended.signal:
        say("stopped; continue with:", whole=again)
        raise typer.Exit(INTERRUPTED + ended.signal)
    if ended.exhausted:
        names = ", ".join(f"{r.variant} seed {r.seed}" for r in ended.exhausted[:5])
        more = f" and {len(ended.exhausted) - 5} more" if len(ended.exhausted) > 5 else ""
        say(f"given up after three tries: {escape(names)}{more}; to retry them:", whole=f"{again} --retry")
    if ended.alike is not None:
        say(f"\n{escape(ended.alike.error)}")
        log = f" (log: {ended.alike.log})" if ended.alike.log else ""
        say(
            f"stopped: {ended.alike.count} runs, one after the other, failed with this error{escape(log)};"
            " --keep-going tries the others all the same; or fix it and continue with:",
            whole=again,
        )
        raise typer.Exit(MISSING)
    if ended.budget_spent:
        say("the budget is spent; raise budget.hours and continue with:", whole=again)
        raise typer.Exit(BUDGET_SPENT)
    if ended.totals.missing:
        say(f"error logs: {escape(str(ended.root / 'attempts'))}; fix the errors and continue with:", whole=again)
        raise typer.Exit(MISSING)
