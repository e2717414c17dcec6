"""`knockout curves`: read step logs, measure their instability, and write the report."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from knockout.analysis.external.step_asked import CurvesAsked
from knockout.analysis.external.step_curves import curves_of
from knockout.analysis.external.step_logs import described, read_step_logs
from knockout.analysis.external.step_points import QUANTITIES, log_files
from knockout.analysis.external.table import count_with_noun
from knockout.analysis.report.curves_alone import Curves
from knockout.plan import Plan
from knockout.study import read_plan

LISTED = 4
"""Files that the report names one by one."""


@dataclass(frozen=True, kw_only=True)
class WrittenCurves:
    """What was measured, and where the report stands."""

    curves: Curves
    paths: Mapping[str, Path]


def report_curves(asked: CurvesAsked) -> WrittenCurves:
    """Read the files, compare all variants with the baseline, and write the report.

    Raises `knockout.strict.FaultsError` for files that cannot be read so, `knockout.analysis.FrameError` for runs that
    cannot be compared, and `ResultsError` for a folder that holds something else.
    """
    logs = read_step_logs(asked.sources, asked.columns, statuses=asked.statuses)
    plan = Plan() if asked.plan is None else read_plan(asked.plan)[0]
    curves = curves_of(
        logs,
        asked.columns,
        baseline=asked.baseline,
        plan=plan,
        clip_norm=asked.clip_norm,
        same_batches=asked.same_batches,
    )
    files = [path for path, _ in log_files(asked.sources)]
    whole = hashlib.sha256()
    for path in files:
        whole.update(path.read_bytes())
    names = ", ".join(path.name for path in files[:LISTED])
    names += f" and {len(files) - LISTED} more" if len(files) > LISTED else ""
    columns = asked.columns
    roles = [("variant", " and ".join(columns.variant)), ("seed", " and ".join(columns.seeds)), ("step", columns.step)]
    roles += [(q.replace("_", " "), columns.of(q)) for q in QUANTITIES if q in logs.quantities]
    provenance = [
        (
            "File" if len(files) == 1 else count_with_noun(len(files), "file"),
            f"{names}, sha256 {'' if len(files) == 1 else 'of all '}{whole.hexdigest()}, {described(logs)}",
        ),
        ("Columns", ", ".join(f"{role}: {name}" for role, name in roles if name)),
        *([("Seeds", f"in the names, by the pattern {columns.seed_pattern}")] if columns.seed_pattern else []),
        ("Plan", "the packaged plan" if asked.plan is None else asked.plan.name),
        ("Knockout that reports", version("knockout")),
    ]
    first = asked.sources[0]
    name = first.resolve().name if first.is_dir() else first.name
    more = f" and {len(asked.sources) - 1} more" if len(asked.sources) > 1 else ""
    paths = curves.write(asked.folder, title=f"Instability of the loss curves of {name}{more}", provenance=provenance)
    return WrittenCurves(curves=curves, paths=paths)
