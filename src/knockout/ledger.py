"""The ledger: what runs leave on disk, and the one truth about which runs are done.

    <results>/<study>/
      design.json             the study as it is now, and as it was when the first run started (`knockout.design`)
      study.toml, plan.toml   copies of the files of the newest `run`; study.first.toml, plan.first.toml: of the first
      runs/<variant>-s<seed>-<id>/      one record per finished or diverged run
      attempts/<variant>-s<seed>-<id>-<n>/   what crashed, was killed, ran out of memory or time
      profile.csv             what each variant costs, measured alone (`knockout.profile_table`)
      records*.parquet        packed records (`knockout.packed`), as good as those in folders
      set_aside/              records and files that did not verify; never deleted

A record is written into a temporary folder, its files and the folder are synced, and it is renamed into place: it is
there whole, or not there. Its manifest holds the sha256 of every file, and a record that does not verify is missing.
Runs are found by the id inside their record, never by the name of a folder.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from knockout.copies import KINDS, damaged_copies
from knockout.design import DesignError, read_design
from knockout.files import clear_temporary
from knockout.job import RECORDED
from knockout.packed import unpack
from knockout.profile_table import FILE as PROFILE
from knockout.profile_table import profile_damage
from knockout.record import Record, set_aside, verified
from knockout.study import SCHEMA, Run, Study

MAX_RETRIES = 2
"""How often a later `run` tries a run again that left no result."""


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """All records of a study."""

    root: Path
    records: Mapping[str, Record]
    """run id -> the record of a finished or diverged run"""
    attempts: Mapping[str, tuple[Record, ...]]
    """run id -> what it left when it did not come to a result, oldest first"""
    damaged: tuple[str, ...]
    """one line for each record that does not verify"""

    def missing(self, runs: Sequence[Run]) -> list[Run]:
        """The runs without a result, in the given order."""
        return [run for run in runs if run.id not in self.records]

    def exhausted(self, run: Run) -> bool:
        """Whether a run has failed to come to a result so often that it is only tried again when that is forced."""
        return len(self.attempts.get(run.id, ())) > MAX_RETRIES


def read_ledger(root: Path, *, damaged: Literal["set_aside", "report"] = "report") -> Ledger:
    """Read and verify all records below a study's folder.

    Records that do not verify are named in `Ledger.damaged`, and moved to `set_aside/` where that is asked for:
    only the coordinator may, since it alone holds the folder.
    """
    lines: list[str] = []
    records: dict[str, Record] = {}
    attempts: dict[str, list[Record]] = {}
    for kind in ("runs", "attempts"):
        parent = root / kind
        folders = sorted(parent.iterdir()) if parent.is_dir() else []
        for folder in folders:
            if folder.name.startswith("."):  # being written, or left by a process that was killed while it wrote
                continue
            record, why = verified(folder, kind)
            if record is None:
                lines.append(f"{kind}/{folder.name}: {why}")
                if damaged == "set_aside":
                    set_aside(root, folder)
            elif kind == "runs":
                records[record.run_id] = record
            else:
                attempts.setdefault(record.run_id, []).append(record)
    for path in sorted(root.glob("records*.parquet")):
        packed, wrong = unpack(path)
        lines += wrong
        if damaged == "set_aside" and wrong and not packed:  # else its other rows stand
            set_aside(root, path)
        for record in packed:
            if record.status in RECORDED:
                records.setdefault(record.run_id, record)  # a record with a folder of its own says more
            elif record.outcome["ended"] not in {a.outcome["ended"] for a in attempts.get(record.run_id, ())}:
                attempts.setdefault(record.run_id, []).append(record)
    ordered = {k: tuple(sorted(v, key=lambda r: str(r.outcome["ended"]))) for k, v in attempts.items()}
    return Ledger(root=root, records=records, attempts=ordered, damaged=tuple(lines))


def read_packed(path: Path) -> Ledger:
    """The records of one packed file alone, whatever else lies beside it."""
    records: dict[str, Record] = {}
    attempts: dict[str, list[Record]] = {}
    packed, wrong = unpack(path)
    for record in packed:
        if record.status in RECORDED:
            records.setdefault(record.run_id, record)
        else:
            attempts.setdefault(record.run_id, []).append(record)
    ordered = {k: tuple(sorted(v, key=lambda r: str(r.outcome["ended"]))) for k, v in attempts.items()}
    return Ledger(root=path.parent, records=records, attempts=ordered, damaged=tuple(wrong))


FOLDERS = ("runs", "attempts", "running", "figures", "set_aside")
FILES = ("starts.log", "trainer.json", "coordinator.json", "coordinator.lock")


def damaged_files(root: Path) -> list[tuple[Path, str]]:
    """What of a study's folder, its records aside, is not what it should be: each with one line that says so.

    design.json, the copies of study file and plan, profile.csv, and files and folders that stand in each other's place.
    Raises `FaultsError` for the plan of a later version.
    """
    found = []
    try:
        design = read_design(root)
    except DesignError as error:
        design = None
        found.append((root / "design.json", str(error)))
    if design is not None:
        for kind in KINDS:
            now, first = (getattr(s, f"{kind}_sha256") for s in (design.now, design.first))
            found += damaged_copies(root, kind, now_sha256=now, first_sha256=first)
    if why := profile_damage(root):
        found.append((root / PROFILE, why))
    found += [(root / n, f"{n}: a file where a folder belongs") for n in FOLDERS if (root / n).is_file()]
    found += [(root / n, f"{n}: a folder where a file belongs") for n in FILES if (root / n).is_dir()]
    if (root / "running").is_dir():
        folders = sorted(p for p in (root / "running").iterdir() if p.is_dir())
        found += [(p, f"running/{p.name}: a folder where a file belongs") for p in folders]
    return found


def set_aside_files(root: Path) -> list[str]:
    """Move what `damaged_files` names to `set_aside/`, and return its lines. Only the coordinator may."""
    found = damaged_files(root)
    for path, _ in found:
        if path.exists():
            set_aside(root, path)
    starts = root / "starts.log"
    if starts.is_file() and not starts.read_bytes().endswith(b"\n"):  # a line that was cut off does not spoil the next
        with starts.open("ab") as file:
            file.write(b"\n")
    return [line for _, line in found]


def results_in(root: Path) -> Iterator[Record]:
    """The verified results that have a folder of their own, one after the other, by the folders' names."""
    parent = root / "runs"
    for folder in sorted(parent.glob("[!.]*")) if parent.is_dir() else []:
        record, _ = verified(folder, "runs")
        if record is not None:
            yield record


def clear_abandoned(root: Path) -> list[Path]:
    """Remove what processes that died were writing into a study's folder; return what is removed."""
    return clear_temporary(root / name for name in ("", "runs", "attempts", "figures"))


def run_config(study: Study, run: Run, *, data_id: str) -> dict[str, Any]:
    """What a record says about what was run."""
    arm = study.arms[run.variant]
    return {
        "schema": SCHEMA,
        "run_id": run.id,
        "study": study.name,
        "variant": run.variant,
        "seed": run.training_seed,
        "trainer": study.trainer.path,
        "version": study.trainer.version,
        "factors": asdict(arm.factors),
        "recipe": {} if arm.recipe is None else asdict(arm.recipe),
        "data": data_id,
        "threads": study.run.threads,
    }
