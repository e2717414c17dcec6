"""Packed records: all of a study in one file, some hundred kB, which `run` and `report` accept as records.

That is how a study moves from a rented machine to a laptop, how the halves of two machines are merged, and what is
committed with a report. Kept are configurations, outcomes, validation per epoch, predictions, and curves as means over
blocks of steps, at most 200 of them; left out are the logs of results, and the log probabilities of single predictions,
of which the sums and sums of squares by class are kept.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from knockout.files import replace_file
from knockout.job import RECORDED
from knockout.record import Record, TableName, class_losses, unusable

CURVE_POINTS = 200
MAX_BYTES = 2_000_000_000
"""Of all columns together, unpacked: read off the file's metadata before anything is read."""

SCHEMA = pa.schema(
    [
        ("run_id", pa.string()),
        ("config", pa.string()),  # JSON
        ("outcome", pa.string()),  # JSON
        ("log", pa.string()),  # of attempts
        ("final_loss", pa.float64()),
        ("step", pa.list_(pa.float64())),
        ("loss", pa.list_(pa.float32())),
        ("learning_rate", pa.list_(pa.float64())),
        ("grad_norm", pa.list_(pa.float32())),
        ("epochs", pa.string()),  # JSON
        ("label", pa.binary()),  # 16-bit integers, little-endian; equal for all runs, so stored once
        ("predicted", pa.binary()),
        ("sha256", pa.string()),  # of the row
    ]
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A record in one row of a packed file, as it was read."""

    path: Path
    run_id: str
    tables: Mapping[str, pa.Table]
    loss: float | None
    text: str
    packed: Literal[True] = True

    def has(self, name: TableName) -> bool:
        return name in self.tables

    def table(self, name: TableName) -> pa.Table:
        if name not in self.tables:
            raise FileNotFoundError(f"{self.path}: run {self.run_id} has no {name}")
        return self.tables[name]

    def final_loss(self) -> float | None:
        return self.loss

    def log(self) -> str:
        return self.text


def pack(records: Iterable[Record], path: Path) -> int:
    """Write the records into one Parquet file, whole or not at all, and return its size in bytes."""
    rows = [_row(record) for record in sorted(records, key=lambda r: (r.run_id, str(r.outcome["ended"])))]
    columns = {name: [row[name] for row in rows] for name in SCHEMA.names}
    table = pa.table(columns, schema=SCHEMA)
    replace_file(path, lambda file: pq.write_table(table, file, compression="zstd", compression_level=15))
    return path.stat().st_size


def unpack(path: Path) -> tuple[list[Record], list[str]]:
    """The records of a packed file, results and attempts, and one line for each that does not verify."""
    try:
        file = pq.ParquetFile(path)
        size = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
        if size > MAX_BYTES:
            return [], [f"{path.name}: {size} bytes unpacked, more than {MAX_BYTES}"]
        if not file.schema_arrow.equals(SCHEMA):
            return [], [f"{path.name}: no packed records, or of another version of knockout"]
        rows = file.read().to_pylist()
    except (OSError, ValueError, pa.ArrowException) as error:  # ValueError: a changed byte in a column's name
        return [], [f"{path.name}: not readable ({type(error).__name__}: {str(error).splitlines()[0]})"]
    records, damaged = [], []
    for row in rows:
        why = "changed since it was packed"
        if _digest(row) == row["sha256"]:
            try:
                record = _record(row, path)
            except (ValueError, TypeError, RecursionError, pa.ArrowException) as error:
                why = f"not readable ({type(error).__name__}: {error})"
            else:
                why = unusable(record.config, record.outcome)
                records += [] if why else [record]
        if why:
            damaged.append(f"{path.name}: run {str(row['run_id'])[:12]}: {why}")
    return records, damaged


def thin(table: pa.Table) -> pa.Table:
    """A curve as means over blocks of steps, of which there are at most 200; `step` is the middle of its block."""
    n = table.num_rows
    block = max(1, math.ceil(n / CURVE_POINTS))
    if block == 1:
        return table.set_column(0, "step", table["step"].cast(pa.float64()))
    starts = np.arange(0, n, block)
    sizes = np.diff([*starts, n])
    columns: dict[str, pa.Array] = {}
    for name in table.column_names:
        means = np.add.reduceat(table[name].to_numpy().astype(float), starts) / sizes
        columns[name] = pa.array(means, table.schema.field(name).type if name != "step" else pa.float64())
    # A last, shorter block keeps the distance of the others: runs must meet at the same step.
    columns["step"] = pa.array(table["step"].to_numpy()[starts] + (block - 1) / 2, pa.float64())
    return pa.table(columns)


def _row(record: Record) -> dict[str, Any]:
    result = record.status in RECORDED
    row: dict[str, Any] = dict.fromkeys(SCHEMA.names)
    row |= {
        "run_id": record.run_id,
        "config": _json(dict(record.config)),
        "outcome": _json(dict(record.outcome)),
        "log": "" if result else record.log(),
    }
    if result and record.has("curve"):
        row["final_loss"] = record.final_loss()
        row |= thin(record.table("curve")).to_pydict()
    if record.has("epochs"):
        row["epochs"] = _json(record.table("epochs").to_pylist())
    if record.has("predictions"):
        predictions = record.table("predictions")
        row |= {name: predictions[name].to_numpy().astype("<i2").tobytes() for name in ("label", "predicted")}
        losses = class_losses(predictions)
        if losses is not None and np.isfinite(losses["squares"]).all():
            row["outcome"] = _json({**record.outcome, "losses": losses})
    row["sha256"] = _digest(row)
    return row


def _record(row: dict[str, Any], path: Path) -> Record:
    tables: dict[str, pa.Table] = {}
    if row["loss"] is not None:
        names = ("step", "loss", "learning_rate", "grad_norm")
        tables["curve"] = pa.table({name: pa.array(row[name], SCHEMA.field(name).type.value_type) for name in names})
    if row["epochs"] is not None:
        tables["epochs"] = pa.Table.from_pylist(json.loads(row["epochs"]))
    if row["label"] is not None:
        columns = {name: np.frombuffer(row[name], "<i2").astype(np.int32) for name in ("label", "predicted")}
        example = np.arange(len(columns["label"]), dtype=np.int32)
        tables["predictions"] = pa.table({"example": example, **columns})
    return Record(
        run_id=row["run_id"],
        config=json.loads(row["config"]),
        outcome=json.loads(row["outcome"]),
        storage=Row(path=path, run_id=row["run_id"], tables=tables, loss=row["final_loss"], text=row["log"]),
    )


def _digest(row: dict[str, Any]) -> str:
    """sha256 of everything in a row but itself; floats by their bits, so that NaN and infinities count too."""
    sha = hashlib.sha256()
    for name in SCHEMA.names[:-1]:
        value = row[name]
        if isinstance(value, list):
            kind = "<f4" if SCHEMA.field(name).type.value_type == pa.float32() else "<f8"
            value = np.asarray(value, dtype=kind).tobytes()
        elif isinstance(value, float):
            value = np.float64(value).tobytes()
        sha.update(f"{name}:{'-' if value is None else len(value)}:".encode())
        sha.update(value if isinstance(value, bytes) else str(value or "").encode())
    return sha.hexdigest()


def _json(value: Sequence[Any] | dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
