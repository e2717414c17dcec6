"""`knockout diff`: what moved between two studies, or in one before and after a change."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from knockout.cli_json import print_document
from knockout.console import out
from knockout.parameters import Json, Quiet, folder_of
from knockout.strict import printable
from knockout.terminal import NAMES, Column, fitted, hushed, say, working

if TYPE_CHECKING:
    from knockout.analysis.diff.paired import Diff

MOST_DIFFERENCES = 20
"""Lines on what differs between the designs; all of them are in the report and with `--json`."""

HELP = "A study's results folder, its name, or a file of packed records beside its design.json."


def diff(
    before: Annotated[Path, typer.Argument(metavar="A", callback=folder_of, help=HELP)],
    after: Annotated[Path, typer.Argument(metavar="B", callback=folder_of, help="The study that is compared with A.")],
    to: Annotated[Path | None, typer.Option(help="Write the result as CSV and Markdown into this folder.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare study B with study A, arm by arm and paired by seed: what moved, and what differs between them."""
    from knockout.analysis.diff.document import diff_document
    from knockout.analysis.diff.paired import diff_studies
    from knockout.analysis.diff.texts import answer, write_diff

    with working(f"comparing {after} with {before}", quiet=quiet):
        found = diff_studies(before, after)
        paths = {} if to is None else write_diff(found, to)
    if as_json:
        print_document(diff_document(found, paths))
        return
    with hushed(quiet):
        _print(found)
    for line in answer(found)[: 1 if quiet else None]:
        say(escape(line))
    if paths:
        say("report:", whole=str(paths["diff.md"]))


def _print(found: "Diff") -> None:
    """The two studies, what differs between them, and the table of arms."""
    from knockout.analysis.diff.texts import diff_rows
    from knockout.analysis.report import sentences

    for name, path, side in zip("AB", found.paths, (found.before, found.after), strict=True):
        say(f"[bold]{name}[/bold]: {escape(str(path))} ({escape(side.design.study)})")
    for difference in found.differences[:MOST_DIFFERENCES]:
        say(f"- {escape(printable(str(difference)))}")
    more = len(found.differences) - MOST_DIFFERENCES
    if more > 0:
        say(f"- and {more} more: --json and --to list them")
    if not found.differences:
        say("- nothing differs between the two designs")
    out.print()
    level = sentences.header(found.comparison.metric)
    columns = (
        Column(name="arm", folds=True, least=NAMES),
        Column(name="pairs", right=True, drop=3),
        Column(name=f"A, {level}", right=True, drop=4),
        Column(name=f"B, {level}", right=True, drop=5),
        Column(name="B minus A [95 % CI]", right=True),
        Column(name="p (Holm)", right=True),
        Column(name="verdict", folds=True, below=True, verdict=True),
        Column(name="bit-identical", right=True, drop=2),
    )
    out.print(fitted(columns, [list(map(printable, row)) for row in diff_rows(found)], console=out))
    out.print()
    for note in found.comparison.notes:
        say(escape(note))
