"""The files of a report: one HTML page, the same in Markdown, CSV files and figures. Same records, same bytes."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from knockout.analysis import history
from knockout.analysis.inference.claims import Judged
from knockout.analysis.inference.comparison import Comparison as AnyComparison
from knockout.analysis.inference.contrasts import Contrast
from knockout.analysis.inference.unpaired import UnpairedComparison
from knockout.analysis.report import tables
from knockout.analysis.report.audit_trail import account, account_of
from knockout.analysis.report.blocks import Figure, Page
from knockout.analysis.report.figure_formats import asked_formats
from knockout.analysis.report.printed import Comparison
from knockout.analysis.report.render import html_page, markdown_details, markdown_page
from knockout.analysis.report.sections import instability
from knockout.analysis.report.sections.methods import tables_tex
from knockout.analysis.report.sections.page import comparison_page, study_page
from knockout.analysis.report.study import JudgedStudy, judge_study
from knockout.analysis.results import Results, ResultsError, load
from knockout.files import replace_bytes
from knockout.record import set_aside

OPTIONAL: Mapping[str, Callable[[Comparison], pd.DataFrame]] = {
    "seeds.csv": lambda c: tables.left_out_table(c.contrasts),
    "examples.csv": lambda c: tables.mcnemar_table(c.contrasts),
    "secondary.csv": lambda c: tables.secondary_table(c.secondary),
    "effects.csv": lambda c: tables.effect_table(c.crossings),
}
"""Tables that only some reports have: file name -> the table, empty where there is none."""

OF_STUDIES: Mapping[str, Callable[[Results, JudgedStudy], pd.DataFrame]] = {
    "losses.csv": lambda results, _: pd.DataFrame(tables.loss_rows(results)),
    "lengths.csv": lambda results, j: tables.length_table(tables.length_rows(results, j.comparison.seeds)),
    "instability.csv": lambda _, j: instability.run_table(j.instability),
    "instability_contrasts.csv": lambda _, j: instability.contrast_table(j.instability),
}
"""Those that only the report of a study can have."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was written, and what it was written from."""

    results: Results
    comparison: Comparison
    claims: tuple[Judged, ...]
    answer: tuple[str, ...]
    paths: Mapping[str, Path]
    """name below the study's folder, such as "report.html" -> path"""

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        return self.comparison.contrasts


def write_report(root: Path, *, formats: Sequence[str] = ("svg",)) -> Report:
    """Analyse a study's folder and write the report into it, each file whole or not at all.

    `formats`: of the figures, "pdf" and "png" beside "svg", which is always written; figures of an earlier report in a
    format that is not named are removed. Raises `UserError` for a format that is none of these, and `ResultsError`
    where records contradict each other, or no run has finished.
    """
    from knockout.analysis.report.figures import draw_all, outdated  # matplotlib: only where something is drawn

    drawn_as = asked_formats(formats)
    results = load(root)
    if not (results.runs["status"] == "finished").any():
        raise ResultsError(
            f"{root}: none of {len(results.runs)} planned runs has finished, so there is nothing to report"
        )
    late = history.exploratory(results)
    judged = judge_study(results)
    figures = draw_all(judged.comparison, results, judged.instability, formats=drawn_as)
    summary = tables.csv_text(tables.summary_table(results))
    carried = (*_carried(judged.comparison, late), ("summary.csv", "every run, one row each", summary))
    page = study_page(
        results,
        judged.comparison,
        judged.claims,
        figures=figures,
        late=late,
        instability=judged.instability,
        files=carried,
    )
    files = {
        "summary.csv": summary,
        "costs.csv": tables.csv_text(results.costs),
        **{name: tables.csv_text(frame) for name, made in OF_STUDIES.items() if len(frame := made(results, judged))},
        **_files(judged.comparison, page, figures, late=late),
    }
    _write(root, files, outdated=outdated(files))
    return Report(
        results=results,
        comparison=judged.comparison,
        claims=judged.claims,
        answer=page.answer,
        paths={name: root / name for name in files},
    )


def write_comparison(
    comparison: Comparison,
    target: Path,
    *,
    title: str,
    question: str,
    provenance: Sequence[tuple[str, str]],
    formats: Sequence[str] = ("svg",),
) -> dict[str, Path]:
    """Write the report of runs that come from elsewhere into a folder, each file whole or not at all.

    `provenance`: (name, value) of where the runs come from; `formats` as in `write_report`. Returns the paths, by name
    below the folder.

    Raises `UserError` for a format that is not known, and `ResultsError` where the folder is a study's own, or no run
    has finished.
    """
    from knockout.analysis.report.figures import draw_all, outdated

    drawn_as = asked_formats(formats)
    _check_target(target, comparison)
    recorded = [p for c in comparison.contrasts for p in c.pairs if p.state != "missing"]
    if not recorded and comparison.contrasts[0].baseline.runs == 0:
        raise ResultsError("none of the runs has finished, so there is nothing to report")
    figures = draw_all(comparison, formats=drawn_as)
    page = comparison_page(
        comparison,
        title=title,
        question=question,
        provenance=provenance,
        figures=figures,
        files=_carried(comparison, {}),
    )
    files = _files(comparison, page, figures, late={})
    target.mkdir(parents=True, exist_ok=True)
    _write(target, files, outdated=outdated(files))
    return {name: target / name for name in files}


def write_files(
    comparison: UnpairedComparison,
    target: Path,
    *,
    runs: int,
    page: Page,
    table: pd.DataFrame,
    verdicts: Sequence[Mapping[str, str]],
) -> dict[str, Path]:
    """Write the report of an unpaired comparison into a folder. `runs`: those with a result, of all arms.

    Returns the paths and raises as `write_comparison` does.
    """
    _check_target(target, comparison)
    if not runs:
        raise ResultsError("none of the runs has finished, so there is nothing to report")
    files = {
        "contrasts.csv": tables.csv_text(table),
        "analysis.json": account_of(comparison, verdicts, {"comparison": "unpaired"}),
        "report.md": markdown_page(page),
        "details.md": markdown_details(page),
        "report.html": html_page(page),
    }
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("figures/*"):  # of an earlier report on pairs
        if old.suffix in (".svg", ".csv", ".pdf", ".png"):
            old.unlink()
    _write(target, files)
    return {name: target / name for name in files}


def write_alone(
    comparison: AnyComparison, target: Path, files: Mapping[str, str], figures: Sequence[Figure]
) -> dict[str, Path]:
    """Write the report of curves alone into a folder: `files` (name -> text), and the figures with their data.

    Returns the paths, by name below the folder. Raises `ResultsError` where the folder holds something else.
    """
    _check_target(target, comparison)
    whole: dict[str, str | bytes] = {**files, **_figure_files(figures)}
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("figures/*"):  # of an earlier report, which had more
        if old.suffix in (".svg", ".csv") and f"figures/{old.name}" not in whole:
            old.unlink()
    _write(target, whole)
    return {name: target / name for name in whole}


def _check_target(target: Path, comparison: AnyComparison | UnpairedComparison) -> None:
    if (target / "design.json").exists():
        raise ResultsError(f"{target} is the folder of a study: name another with --to")
    if target.is_dir() and any(target.iterdir()) and not (target / "analysis.json").exists():
        raise ResultsError(f"{target} holds files that are no report: name another folder with --to, or empty it")
    before = _question(target / "analysis.json")
    asked = (comparison.metric.name, comparison.baseline)
    if before and before != asked:
        other = f"{target.name}_{re.sub(r'[^A-Za-z0-9]+', '_', asked[0]).strip('_')}"
        raise ResultsError(
            f"{target} holds the report on {before[0]} against {before[1]}, which would be lost: name another folder"
            f" for {asked[0]} against {asked[1]}, such as --to {target.with_name(other)}"
        )


def _question(path: Path) -> tuple[str, str] | None:
    """Metric and baseline of the report that is there; `None` where there is none that can be read."""
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
        return str(there["metric"]["name"]), str(there["baseline"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _carried(comparison: Comparison, late: Mapping[str, str]) -> tuple[tuple[str, str, str], ...]:
    """The files that the page itself holds, as (name, what it holds, text)."""
    contrasts = tables.csv_text(tables.contrast_table(comparison.contrasts, late))
    return (("contrasts.csv", "every number of every contrast", contrasts),)


def _files(
    comparison: Comparison, page: Page, figures: Sequence[Figure], *, late: Mapping[str, str]
) -> dict[str, str | bytes]:
    """The files that every report has: name -> text, or bytes."""
    files: dict[str, str | bytes] = {
        "contrasts.csv": tables.csv_text(tables.contrast_table(comparison.contrasts, late)),
        "tables.tex": tables_tex(comparison),
        "analysis.json": account(comparison),
        "report.md": markdown_page(page),
        "details.md": markdown_details(page),
        "report.html": html_page(page),
    }
    optional = {name: made(comparison) for name, made in OPTIONAL.items()}
    files |= {name: tables.csv_text(frame) for name, frame in optional.items() if len(frame)}
    return {**files, **_figure_files(figures)}


def _figure_files(figures: Sequence[Figure]) -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {}
    for figure in figures:
        files[f"figures/{figure.name}.svg"] = figure.svg
        files |= {f"figures/{figure.name}.{form}": image for form, image in figure.further.items()}
        files |= {f"figures/{name}.csv": tables.csv_text(frame) for name, frame in figure.data.items()}
    return files


def _write(root: Path, files: Mapping[str, str | bytes], *, outdated: Sequence[str] = ()) -> None:
    """Write the files; `outdated`: those of an earlier report to be removed."""
    if (root / "figures").is_file():
        set_aside(root, root / "figures")
    if any(name.startswith("figures/") for name in files):
        (root / "figures").mkdir(exist_ok=True)
    for name in (*files, *OPTIONAL, *OF_STUDIES):
        if (root / name).is_dir():  # what stands where a file of the report belongs is kept
            set_aside(root, root / name)
    for name in (*OPTIONAL, *OF_STUDIES):
        if name not in files:  # of an earlier report, which had it
            (root / name).unlink(missing_ok=True)
    for name in outdated:
        if (root / name).is_file():
            (root / name).unlink()
    for name, content in files.items():
        replace_bytes(root / name, content.encode() if isinstance(content, str) else content)
