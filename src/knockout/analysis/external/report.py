"""`knockout compare`: read a file of runs, compare them, and write the report."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from knockout.analysis.external.compare import Unit, compare
from knockout.analysis.external.frame import FrameError
from knockout.analysis.external.runs import RunColumns, read_runs
from knockout.analysis.report.printed import Comparison
from knockout.analysis.report.write import write_comparison
from knockout.analysis.stats.metric import Better
from knockout.study import Plan, read_plan


@dataclass(frozen=True, kw_only=True)
class Written:
    """The comparison, and where its report stands."""

    comparison: Comparison
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
) -> Written:
    """Read a file of runs, compare all variants with the baseline, and write the report into `target`.

    Raises `knockout.strict.FaultsError` for a file that cannot be read so, and
    `knockout.analysis.FrameError` for runs that cannot be compared.
    """
    imported = read_runs(source, columns, statuses=statuses)
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
    comparison = compare(
        frame,
        baseline=baseline,
        metric=columns.metric,
        margin=margin,
        unit=unit,
        better=better,
        plan=judged_by,
        notes=imported.notes,
    )
    raw = source.read_bytes()
    described = [
        ("File", f"{source.name}, sha256 {hashlib.sha256(raw).hexdigest()}, {len(imported.frame):,} runs"),
        ("Columns", f"variant: {columns.variant}, seed: {' and '.join(columns.seed)}, metric: {columns.metric}"),
        (
            "Plan",
            ("the packaged plan" if plan is None else plan.name)
            + ("" if named is None else f", margin {named:g} given"),
        ),
        ("Knockout that reports", version("knockout")),
    ]
    paths = write_comparison(
        comparison,
        target,
        title=f"Comparison of {source.name}",
        question=f"Which variants differ from {baseline} in {columns.metric}?",
        provenance=described,
    )
    return Written(comparison=comparison, paths=paths)
