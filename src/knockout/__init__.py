"""Knockout: ablation studies with paired seeds, corrected tests and verdicts that survive review.

from knockout import Study, run, report, compare, curves
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path  # loaded where it is used: what the command loads first is little

    from knockout.analysis import compare, compare_unpaired, curves
    from knockout.analysis.report.write import Report
    from knockout.study import Study
    from knockout.sweep.coordinate import Ended

__all__ = ["Study", "compare", "compare_unpaired", "curves", "report", "run"]


def run(
    study: "Study",
    *,
    results: "str | Path" = "results",
    workers: int | None = None,
    quiet: bool = False,
    keep_going: bool = False,
    same_trainer: bool = False,
) -> "Ended":
    """Train what the study is missing below `results`, and say what it then has. As `knockout run`.

    `keep_going`: go on where runs fail with the same error, one after the other. `same_trainer`: what has changed in
    the trainer since there are results changes none of them.

    One line on standard output for each run that ends, and at most three tables of the differences so far, unless
    `quiet`. Raises what a user can mend:
    `knockout.data.sources.DataError`, `knockout.sweep.owner.HeldError`, `knockout.sweep.coordinate.RefusedError`.
    """
    from pathlib import Path
    from typing import TextIO, cast

    from rich.console import Console

    from knockout.console_interim import interim_drawer
    from knockout.screen import stdout
    from knockout.sweep.coordinate import run_study
    from knockout.sweep.progress import PlainDisplay

    console = Console(file=cast("TextIO", stdout), highlight=False, quiet=quiet)
    display = PlainDisplay(console, interim_drawer(study))
    return run_study(
        study,
        results=Path(results),
        workers=workers,
        display=display,
        keep_going=keep_going,
        same_trainer=same_trainer,
    )


def report(folder: "str | Path", *, formats: "Sequence[str]" = ("svg",)) -> "Report":
    """Judge what a study has so far and write its report into the folder. As `knockout report`.

    `formats`: of the figures, "pdf" and "png" beside "svg". Raises `knockout.errors.UserError` for another one, and
    `knockout.analysis.results.ResultsError` where nothing has finished, or records contradict each other.
    """
    from pathlib import Path

    from knockout.analysis.report.write import write_report

    return write_report(Path(folder), formats=formats)


def __getattr__(name: str) -> Any:
    if name == "Study":  # read with pydantic, which `import knockout` alone does not load
        from knockout.study import Study

        return Study
    if name in ("compare", "compare_unpaired", "curves"):  # with pandas and scipy
        from knockout import analysis

        return getattr(analysis, name)
    raise AttributeError(f"module 'knockout' has no attribute {name!r}")
