"""The ledger: what runs leave on disk, and the one truth about which runs are done.

    <results>/<study>/
      design.json             the study as it is now, and as it was when the first run started
      study.toml, plan.toml   copies of the files as they were then
      runs/<variant>-s<seed>-<id>/      one record per finished or diverged run
      attempts/<variant>-s<seed>-<id>-<n>/   what crashed, was killed, ran out of memory or time
      set_aside/              records that did not verify; never deleted

A record is written into a temporary folder, its files and the folder are synced, and it is renamed into place: it is
there whole, or not there. Its manifest holds the sha256 of every file, and a record that does not verify is missing.
Runs are found by the id inside their record, never by the name of a folder.
"""

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from knockout.job import RECORDED, Outcome
from knockout.study import SCHEMA, Run, Study, design, digest
from knockout.variants import BASELINE, changes

MAX_RETRIES = 2
"""How often a later `run` tries a run again that left no result."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One verified record. `config` says what was run, `outcome` what it came to; the tables are read on demand."""

    run_id: str
    folder: Path
    config: Mapping[str, Any]
    outcome: Mapping[str, Any]

    @property
    def status(self) -> str:
        return str(self.outcome["status"])

    def table(self, name: Literal["curve", "epochs", "predictions"]) -> pa.Table:
        """`curve`: step, loss, learning_rate, grad_norm. `epochs`: epoch, step, loss, correct, count.
        `predictions`: example, label, predicted, log_probability. Raises `FileNotFoundError` where there is none."""
        return pq.read_table(self.folder / f"{name}.parquet")

    def log(self) -> str:
        return (self.folder / "log.txt").read_text(encoding="utf-8")


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
            record, why = _verified(folder, kind)
            if record is None:
                lines.append(f"{kind}/{folder.name}: {why}")
                if damaged == "set_aside":
                    _set_aside(root, folder)
            elif kind == "runs":
                records[record.run_id] = record
            else:
                attempts.setdefault(record.run_id, []).append(record)
    ordered = {k: tuple(sorted(v, key=lambda r: str(r.outcome["ended"]))) for k, v in attempts.items()}
    return Ledger(root=root, records=records, attempts=ordered, damaged=tuple(lines))


def read_record(root: Path, config: Mapping[str, Any]) -> Record | None:
    """The verified result of one run, looked for where `write_record` puts it."""
    record, _ = _verified(root / "runs" / _folder_name(config), "runs")
    return record if record is not None and record.run_id == config["run_id"] else None


def write_record(
    root: Path, *, config: Mapping[str, Any], outcome: Outcome, environment: Mapping[str, Any], ended: str, log: str
) -> Path:
    """Write the record of one run, whole or not at all, and return its folder.

    `ended` is the time in ISO 8601. Raises `OSError` when the disk refuses; nothing stands under its name then.
    """
    recorded = outcome.status in RECORDED
    name = _folder_name(config)
    parent = root / ("runs" if recorded else "attempts")
    parent.mkdir(parents=True, exist_ok=True)
    target = parent / name
    if not recorded:
        target = next(p for n in range(1, 10**6) if not (p := parent / f"{name}-{n}").exists())
    temporary = parent / f".{name}-{uuid.uuid4().hex[:8]}"
    try:
        temporary.mkdir()
        facts = {
            "status": outcome.status,
            "reason": outcome.reason,
            "metrics": outcome.metrics,
            "costs": outcome.costs,
            "environment": dict(environment),
            "ended": ended,
        }
        write_json(temporary / "config.json", config)
        write_json(temporary / "outcome.json", facts)
        (temporary / "log.txt").write_text(log, encoding="utf-8")
        if recorded:
            _write_tables(temporary, outcome)
        files = sorted(p for p in temporary.iterdir())
        write_json(temporary / "manifest.json", {p.name: _sha256(p) for p in files})
        for path in (*files, temporary / "manifest.json", temporary):
            _sync(path)
        if recorded and read_record(root, config) is not None:  # written by an orphan of this run: it is equal
            shutil.rmtree(temporary)
            return target
        if target.exists():  # and does not verify
            _set_aside(root, target)
        temporary.rename(target)
        try:
            _sync(parent)
        except BaseException:
            target.rename(temporary)  # who is told that writing failed must not find the record later
            raise
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return target


def write_json(path: Path, value: Any) -> None:
    """Strict JSON: no NaN tokens, keys sorted, UTF-8."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def replace_json(path: Path, value: Any) -> None:
    """Like `write_json`, but a reader sees the old file or the new one, never half of it."""
    temporary = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}")
    try:
        write_json(temporary, value)
        _sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)  # still there where the disk refused
    _sync(path.parent)


def run_config(study: Study, run: Run, *, data_id: str) -> dict[str, Any]:
    """What a record says about what was run."""
    return {
        "schema": SCHEMA,
        "run_id": run.id,
        "study": study.name,
        "variant": run.variant,
        "seed": run.seed,
        "trainer": study.trainer.path,
        "version": study.trainer.version,
        "factors": asdict(study.factors[run.variant]),
        "recipe": {} if study.recipe is None else asdict(study.recipe),
        "data": data_id,
        "threads": study.run.threads,
    }


def write_design(root: Path, study: Study, *, data_id: str, data_summary: Mapping[str, Any]) -> tuple[Run, ...]:
    """Lay down what the study is, before its first run, and say what has changed since; return its runs.

    The first call copies study and plan into the folder. Later calls keep what the first one wrote under `first`: what
    was added after results existed is exploratory.
    """
    root.mkdir(parents=True, exist_ok=True)
    runs = design(study, data_id=data_id)
    before = read_design(root)
    now = {
        "study_sha256": digest(study.text),
        "plan_sha256": digest(study.plan_text),
        "plan": asdict(study.plan),
        "variants": list(study.variants),
        "seeds": list(study.seeds),
        "claims": [claim.id for claim in study.claims],
    }
    papers = study.trainer.papers
    described = {
        name: {
            "factors": asdict(factors),
            "changes": {k: list(pair) for k, pair in changes(factors).items()},
            "papers": [papers[k] for k in changes(factors) if k in papers],
        }
        for name, factors in study.factors.items()
    }
    value = {
        "schema": SCHEMA,
        "study": study.name,
        "question": study.question,
        "trainer": study.trainer.path,
        "version": study.trainer.version,
        "baseline": BASELINE,
        "described": described,
        "recipe": {} if study.recipe is None else asdict(study.recipe),
        "run": asdict(study.run),
        "budget": asdict(study.budget),
        "overridden": list(study.overridden),
        "claims": [asdict(claim) for claim in study.claims],
        "data": {"id": data_id, **data_summary},
        "runs": [asdict(run) for run in runs],
        "now": now,
        "first": before["first"] if before else now,
    }
    if before is None:
        (root / "study.toml").write_text(study.text, encoding="utf-8")
        (root / "plan.toml").write_text(study.plan_text, encoding="utf-8")
    if value != before:
        replace_json(root / "design.json", value)
    return runs


def read_design(root: Path) -> dict[str, Any] | None:
    """What `write_design` laid down, or `None` where no run was ever started."""
    path = root / "design.json"
    if not path.is_file():
        return None
    value = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(value, dict)
    return value


def _folder_name(config: Mapping[str, Any]) -> str:
    return f"{config['variant']}-s{config['seed']}-{config['run_id'][:12]}"


def _verified(folder: Path, kind: str) -> tuple[Record | None, str]:
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        unnamed = {"config.json", "outcome.json", "log.txt"} - set(manifest)
        if unnamed:
            return None, f"its manifest does not name {', '.join(sorted(unnamed))}"
        wrong = [name for name, sha in manifest.items() if _sha256(folder / name) != sha]
        if wrong:
            return None, f"changed since it was written: {', '.join(sorted(wrong))}"
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        outcome = json.loads((folder / "outcome.json").read_text(encoding="utf-8"))
        record = Record(run_id=str(config["run_id"]), folder=folder, config=config, outcome=outcome)
        if (record.status in RECORDED) != (kind == "runs"):
            return None, f"status {record.status} does not belong under {kind}/"
        return record, ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return None, f"not readable ({type(error).__name__}: {error})"


def _set_aside(root: Path, folder: Path) -> None:
    (root / "set_aside").mkdir(exist_ok=True)
    folder.rename(root / "set_aside" / f"{folder.name}-{uuid.uuid4().hex[:8]}")


def _write_tables(folder: Path, outcome: Outcome) -> None:
    curve = outcome.curve
    columns: dict[str, pa.Array] = {
        "step": pa.array(range(1, len(curve.loss) + 1), pa.int32()),
        "loss": pa.array(curve.loss, pa.float32()),
        "learning_rate": pa.array(curve.learning_rate, pa.float64()),
        "grad_norm": pa.array(curve.grad_norm, pa.float32()),
    }
    pq.write_table(pa.table(columns), folder / "curve.parquet", compression="zstd")
    if outcome.epochs:
        rows = [asdict(epoch) for epoch in outcome.epochs]
        pq.write_table(pa.Table.from_pylist(rows), folder / "epochs.parquet", compression="zstd")
    if outcome.predictions is not None:
        told = outcome.predictions
        columns = {
            "example": pa.array(range(len(told.label)), pa.int32()),
            "label": pa.array(told.label, pa.int32()),
            "predicted": pa.array(told.predicted, pa.int32()),
            "log_probability": pa.array(told.log_probability, pa.float32()),
        }
        pq.write_table(pa.table(columns), folder / "predictions.parquet", compression="zstd")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # Windows opens no folders
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
