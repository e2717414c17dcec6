"""`knockout profile`: what each variant of a study costs, measured alone."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from knockout.parameters import Overrides, Quiet, StudyFile
from knockout.terminal import NAMES, Column, fitted, hushed, out, say


def profile(
    study: StudyFile,
    results: Annotated[Path, typer.Option(help="The folder that holds the results of all studies.")] = Path("results"),
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VARIANT", help="Measure this variant and the baseline, and write nothing. Can be repeated."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="How often each variant is measured.")] = 3,
    overrides: Overrides = None,
    quiet: Quiet = False,
) -> None:
    """Measure every variant alone: parameters, seconds per epoch, latency, memory. The report then shows the table."""
    from knockout.analysis.report.sections import side_by_side
    from knockout.study import read_study
    from knockout.sweep.profile import profile_study

    read = read_study(study, overrides or ())
    with hushed(quiet):
        measured = profile_study(
            read, root=results / read.name, only=only or (), rounds=rounds, say=lambda line: say(escape(line))
        )
        rows = measured.rows
        out.print()
        for block in (side_by_side.ratios(rows), side_by_side.values(rows)):
            if len(block.columns) > 1:
                columns = [
                    Column(name=head.title, right=head.number, folds=i == 0, least=NAMES, drop=i if i > 2 else 0)
                    for i, head in enumerate(block.columns)
                ]
                out.print(fitted(columns, [[cell.text for cell in row] for row in block.rows], console=out))
                out.print()
        for line in (
            side_by_side.conditions(rows),
            side_by_side.reading(rows),
            *side_by_side.counted(rows),
            *side_by_side.troubles(rows),
        ):
            say(escape(line))
    if measured.path is None:
        say("not written: profile.csv holds the table of all variants; without --only it is written")
    else:
        say("written:", whole=str(measured.path))
