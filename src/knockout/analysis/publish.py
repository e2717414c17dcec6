"""Publishing: a report that one stands by, with the packed records that it was made from."""

import shutil
from pathlib import Path

from knockout.analysis.report.write import Report, write_report
from knockout.analysis.results import ResultsError
from knockout.analysis.stopping import look
from knockout.ledger import read_ledger
from knockout.packed import pack


def pack_study(root: Path, path: Path) -> tuple[int, int]:
    """Pack all records of a study, results and attempts; return their number and the size of the file in bytes.

    Raises `ResultsError` where there is none.
    """
    ledger = read_ledger(root)
    records = [*ledger.records.values(), *(attempt for many in ledger.attempts.values() for attempt in many)]
    if not records:
        raise ResultsError(f"{root}: no records to pack")
    return len(records), pack(records, path)


def publish(root: Path, *, target: Path) -> Report:
    """Report on a complete study, and copy the report, its tables and figures, the design and the packed records.

    Raises `ResultsError` where a run is missing: what is published is whole.
    """
    report = write_report(root)
    stop = look(report.results)
    needed = report.results.runs[~report.results.runs["seed"].isin(stop.needless if stop else ())]
    missing = int((~needed["status"].isin(["finished", "diverged"])).sum())
    if missing:
        raise ResultsError(f"{root}: {missing} of {len(needed)} runs are missing; a whole study is published")
    target.mkdir(parents=True, exist_ok=True)
    for name in ("study.toml", "plan.toml", "design.json"):
        shutil.copyfile(root / name, target / name)
    for name, path in report.paths.items():
        (target / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(path, target / name)
    pack_study(root, target / "records.parquet")
    return report
