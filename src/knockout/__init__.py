"""Knockout: ablation studies with paired seeds, corrected tests and verdicts that survive review.

from knockout import Study, run, report
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path  # loaded where it is used: what the command loads first is little

    from knockout.analysis.report.write import Report
    from knockout.study import Study
    from knockout.sweep.coordinate import Ended

__all__ = ["Study", "report", "run"]


def run(
    study: "Study", *, results: "str | Path" = "results", workers: int | None = None, quiet: bool = False
) -> "Ended":
    """Train what the study is missing below `results`, and say what it then has. As `knockout run`.

    One line on standard output for each run that ends, unless `quiet`. Raises what a user can mend:
    `knockout.data.sources.DataError`, `knockout.sweep.owner.HeldError`, `knockout.sweep.coordinate.RefusedError`.
    """
    from pathlib import Path
    from typing import TextIO, cast

    from rich.console import Console

    from knockout.screen import stdout
    from knockout.sweep.coordinate import run_study
    from knockout.sweep.progress import PlainDisplay

    display = PlainDisplay(Console(file=cast("TextIO", stdout), highlight=False, quiet=quiet))
    return run_study(study, results=Path(results), workers=workers, display=display)


def report(folder: "str | Path") -> "Report":
    """Judge what a study has so far and write its report into the folder. As `knockout report`.

    Raises `knockout.analysis.results.ResultsError` where nothing has finished, or records contradict each other.
    """
    from pathlib import Path

    from knockout.analysis.report.write import write_report

    return write_report(Path(folder))


def __getattr__(name: str) -> Any:
    if name == "Study":  # read with pydantic, which `import knockout` alone does not load
        from knockout.study import Study

        return Study
    raise AttributeError(f"module 'knockout' has no attribute {name!r}")
