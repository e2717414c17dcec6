"""`knockout compare`: read a file of runs, compare them, and write the report."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from knockout.analysis.external.compare import Choices, compare_by, compare_unpaired_by
from knockout.analysis.external.frame import FrameColumns, FrameError, short_list
from knockout.analysis.external.measured import Unit
from knockout.analysis.external.runs import RunColumns, read_runs
from knockout.analysis.external.shapes import matching
from knockout.analysis.external.table import plain
from knockout.analysis.report.figure_formats import asked_formats
from knockout.analysis.report.printed import Comparison
from knockout.analysis.report.unpaired import UnpairedComparison
from knockout.analysis.report.write import write_comparison
from knockout.analysis.stats.metric import Better
from knockout.strict import FaultsError
from knockout.study import Plan, read_plan


@dataclass(frozen=True, kw_only=True)
class Written:
    """The comparison, and where its report stands."""

    comparison: Comparison | UnpairedComparison
    paths: Mapping[str, Path]


def report_runs(
    source: Path,
    columns: RunColumns,
    *,
    statuses: Mapping[str, str],
    baseline: str,
    target: Path,
    margin: float | None = None,
    unit: Unit | None = None,
    better: Better | None = None,
    plan: Path | None = None,
    formats: Sequence[str] = ("svg",),
) -> Written:
    """Read a file of runs, compare all variants with the baseline, and write the report into `target`.

    `formats`: of the figures, as in `write_report`, and `knockout.errors.UserError` for one that is not known.
    Raises `knockout.strict.FaultsError` for a file that cannot be read so, and
    `knockout.analysis.FrameError` for runs that cannot be compared.
    """
    asked_formats(formats)
    imported = read_runs(source, columns, statuses=statuses)
    columns = imported.columns
    if imported.blank is not None:
        raise FaultsError([imported.blank])
    named = margin
    judged_by: Plan | None = None
    if plan is not None:
        judged_by, keys = read_plan(plan)
        margin = judged_by.margin if margin is None and "margin" in keys else margin
    if any("in percent" in note for note in imported.notes):
        if unit == "raw":
            raise FrameError(f"{columns.metric} has percent signs, so it is no raw number: leave --unit raw out")
        unit = "share"  # what "91.2 %" was read as
    frame = imported.frame.assign(
        seed=[re.sub(r"^(\d+)\.0+$", r"\1", seed) for seed in imported.frame["seed"]]
    )  # 3.0 is 3
    frame = frame.rename(columns={"value": columns.metric})
    if frame["count"].isna().all():
        frame = frame.drop(columns="count")
    baseline = _baseline(plain(baseline), frame, columns)
    raw = source.read_bytes()
    read_as = [("variant", columns.names), ("seed", columns.seeds), ("metric", (columns.metric,))]
    described = [
        ("File", f"{source.name}, sha256 {hashlib.sha256(raw).hexdigest()}, {len(imported.frame):,} runs"),
        ("Columns", ", ".join(f"{role}: {' and '.join(names)}" for role, names in read_as if names)),
        *([("Seeds", f"in the names, by the pattern {columns.seed_pattern}")] if columns.seed_pattern else []),
        (
            "Plan",
            ("the packaged plan" if plan is None else plan.name)
            + ("" if named is None else f", margin {named:g} given"),
        ),
        ("Knockout that reports", version("knockout")),
    ]
    title = f"Comparison of {source.name}"
    question = f"Which variants differ from {baseline} in {columns.metric}?"
    choices = Choices(baseline=baseline, margin=margin, unit=unit, better=better, plan=judged_by)
    of_frame = FrameColumns(
        variant="variant", seed="seed", status="status", count="count", correct="correct", metric=columns.metric
    )
    if not columns.paired:
        unpaired = compare_unpaired_by(frame, of_frame, choices, notes=imported.notes)
        paths = unpaired.write(
            target, title=f"Unpaired comparison of {source.name}", question=question, provenance=described
        )
        return Written(comparison=unpaired, paths=paths)
    comparison = compare_by(frame, of_frame, choices, notes=imported.notes)
    paths = write_comparison(comparison, target, title=title, question=question, provenance=described, formats=formats)
    return Written(comparison=comparison, paths=paths)


def _baseline(baseline: str, frame: pd.DataFrame, columns: RunColumns) -> str:
    """The baseline's name; of combinations it may be given as columns and values, in any order."""
    names = list(dict.fromkeys(frame["variant"]))
    fitting = [] if baseline in names else matching(baseline, names, columns.configuration)
    if len(fitting) > 1:
        raise FrameError(f"{short_list(fitting)} all have {baseline}: name one of them as the baseline")
    return fitting[0] if fitting else baseline
