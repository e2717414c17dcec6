"""Publishing: a report that one stands by, with the packed records that it was made from."""

import shutil
from pathlib import Path

from knockout.analysis.report.write import Report, write_report
from knockout.analysis.results import ResultsError
from knockout.analysis.stopping import look
from knockout.copies import KINDS, first_path, newest_path
from knockout.design import FILE
from knockout.ledger import damaged_files, read_ledger
from knockout.packed import pack
from knockout.profile_table import FILE as PROFILE
from knockout.record import set_aside


def pack_study(root: Path, path: Path) -> tuple[int, int, tuple[str, ...]]:
    """Pack all records of a study, results and attempts; return their number, the size of the file in bytes, and one
    line for each record that does not verify and so is not packed.

    What stands at `path` and holds such records is kept, in `set_aside/`. Raises `ResultsError` where there is nothing
    to pack, or the file cannot be written there.
    """
    ledger = read_ledger(root)
    records = [*ledger.records.values(), *(attempt for many in ledger.attempts.values() for attempt in many)]
    if not records:
        raise ResultsError(f"{root}: no records to pack")
    damaged = any(line.startswith(f"{path.name}: ") for line in ledger.damaged)
    if path.is_dir() or (damaged and path.exists() and path.parent.samefile(root)):
        set_aside(root, path)
    return len(records), pack(records, path), ledger.damaged


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
    damaged = damaged_files(root)
    if damaged:
        lines = "; ".join(line for _, line in damaged)
        raise ResultsError(f"{root}: {lines}; `knockout run` with the study file makes this good")
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(root / FILE, target / FILE)
    for kind in KINDS:
        for copy in (newest_path(root, kind), first_path(root, kind)):
            (target / copy.name).unlink(missing_ok=True)
            if copy.is_file():
                shutil.copyfile(copy, target / copy.name)
    (target / PROFILE).unlink(missing_ok=True)
    if (root / PROFILE).is_file():
        shutil.copyfile(root / PROFILE, target / PROFILE)
    for name, path in report.paths.items():
        (target / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(path, target / name)
    pack_study(root, target / "records.parquet")
    return report
