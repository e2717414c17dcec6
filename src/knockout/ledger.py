"""The ledger: what runs leave on disk, and the one truth about which runs are done.

    <results>/<study>/
      design.json             the study as it is now, and as it was when the first run started (`knockout.design`)
      study.toml, plan.toml   copies of the files as they were then
      runs/<variant>-s<seed>-<id>/      one record per finished or diverged run
      attempts/<variant>-s<seed>-<id>-<n>/   what crashed, was killed, ran out of memory or time
      records*.parquet        packed records (`knockout.packed`), as good as those in folders
      set_aside/              records that did not verify; never deleted

A record is written into a temporary folder, its files and the folder are synced, and it is renamed into place: it is
there whole, or not there. Its manifest holds the sha256 of every file, and a record that does not verify is missing.
Runs are found by the id inside their record, never by the name of a folder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from knockout.files import clear_temporary
from knockout.job import RECORDED
from knockout.packed import unpack
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
        for record in packed:
            if record.status in RECORDED:
                records.setdefault(record.run_id, record)  # a record with a folder of its own says more
            elif record.outcome["ended"] not in {a.outcome["ended"] for a in attempts.get(record.run_id, ())}:
                attempts.setdefault(record.run_id, []).append(record)
    ordered = {k: tuple(sorted(v, key=lambda r: str(r.outcome["ended"]))) for k, v in attempts.items()}
    return Ledger(root=root, records=records, attempts=ordered, damaged=tuple(lines))


def clear_abandoned(root: Path) -> list[Path]:
    """Remove what processes that died were writing into a study's folder; return what is removed."""
    return clear_temporary(root / name for name in ("", "runs", "attempts", "figures"))


def run_config(study: Study, run: Run, *, data_id: str) -> dict[str, Any]:
    """What a record says about what was run."""
    return {
        "schema": SCHEMA,
        "run_id": run.id,
        "study": study.name,
        "variant": run.variant,
        "seed": run.training_seed,
        "trainer": study.trainer.path,
        "version": study.trainer.version,
        "factors": asdict(study.arms[run.variant]),
        "recipe": {} if study.recipe is None else asdict(study.recipe),
        "data": data_id,
        "threads": study.run.threads,
    }
