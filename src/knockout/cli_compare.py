"""`knockout compare`: the judgement of runs that come from elsewhere."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from knockout.browser import show_page
from knockout.cli_json import print_document
from knockout.console import out, print_report_path, print_unpaired, print_verdicts
from knockout.errors import UserError
from knockout.parameters import Figures, Json, Open, Quiet, Unit
from knockout.terminal import hushed, say, working


def compare(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A CSV, TSV or Parquet file, one row per run.")],
    baseline: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="The variant that all others are compared with, or its COLUMN=VALUE pairs."),
    ] = None,
    metric: Annotated[str, typer.Option(help="The column of the metric.")] = "accuracy",
    margin: Annotated[float | None, typer.Option(help="The largest difference that does not matter.")] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(help="The column of the variants' names. Several columns: their combination is the variant."),
    ] = None,
    seed: Annotated[
        list[str] | None,
        typer.Option(help="The column of seeds. Several columns form a block, such as seed and data set."),
    ] = None,
    seed_pattern: Annotated[
        str, typer.Option(help=r"A regular expression for seeds in the variants' names, such as '_seed(\d+)$'.")
    ] = "",
    unpaired: Annotated[
        bool, typer.Option("--unpaired", help="Runs without seeds: Welch's t test, the weaker comparison.")
    ] = False,
    wide: Annotated[
        bool, typer.Option("--wide", help="The file has a column for each variant, or for each seed.")
    ] = False,
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
    figures: Figures = None,
    quiet: Quiet = False,
    open_page: Open = False,
    as_json: Json = False,
) -> None:
    """Judge runs that Knockout did not train: the same verdicts and the same report as for a study."""
    from knockout.analysis.external.asked import Asked
    from knockout.analysis.external.runs import RunColumns
    from knockout.analysis.external.suggest import report_or_suggest
    from knockout.analysis.report.documents import comparison_document
    from knockout.analysis.report.unpaired import UnpairedComparison

    mapped_words = [s for s in status or [] if "=" in s]
    status_columns = [s for s in status or [] if "=" not in s]
    if len(status_columns) > 1:
        raise UserError(f"--status names one column, got {', '.join(status_columns)}; WORD=STATUS maps a word")
    seeds_from = [*(["--seed"] if seed else []), *(["--seed-pattern"] if seed_pattern else [])]
    seeds_from += ["--unpaired"] if unpaired else []
    if len(seeds_from) > 1:
        raise UserError(f"{' and '.join(seeds_from)} exclude each other: name one of them")
    names = variant or ["variant"]
    asked = Asked(
        source=file,
        columns=RunColumns(
            variant=names[0],
            configuration=tuple(names) if len(names) > 1 else (),
            seed=tuple(seed or ["seed"]),
            seed_pattern=seed_pattern,
            paired=not unpaired,
            wide=wide,
            metric=metric,
            status=status_columns[0] if status_columns else "status",
            count=count,
        ),
        baseline=", ".join(baseline or []),
        statuses=dict(w.rsplit("=", 1) for w in mapped_words),
        margin=margin,
        unit=None if unit is None else unit.value,
        better=None if lower_is_better is None else "lower" if lower_is_better else "higher",
        plan=plan,
        target=to,
        formats=tuple(figures or ()),
    )
    with working(f"judging {file} and drawing its figures", quiet=quiet):
        written = report_or_suggest(asked)
    page = written.paths["report.html"]
    if as_json:
        print_document(comparison_document(written.comparison, source=file, paths=written.paths))
        show_page(page, wanted=open_page)
        return
    with hushed(quiet):
        if isinstance(written.comparison, UnpairedComparison):
            print_unpaired(written.comparison)
            out.print()
        else:
            print_verdicts(written.comparison, {}, {})
        judged = written.comparison.metric
        size = judged.size(written.comparison.plan.margin)
        out.print(f"{escape(judged.name)}: {judged.better} is better; margin {size}")
        for note in written.comparison.notes:
            say(escape(note))
        out.print()
    print_report_path(written.comparison, page, quiet=quiet)
    show_page(page, wanted=open_page)
