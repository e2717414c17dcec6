"""Packed records: all of a study in one file of a few MB, which `run` and `report` accept as records.

That is how a study moves from a rented machine to a laptop, how the halves of two machines are merged, and what is
committed with a report. Kept are configurations, outcomes, whole curves, validation per epoch, predictions, and what
was measured during training (probe, layers, attention). Left out are the logs of results, and the log probabilities of
single predictions, of which the sums and sums of squares by class are kept. So a report from a packed file has the
bytes of one from the records.

132 runs of 500 steps, 2 layers, 8 heads and 3,199 test texts take 1.3 MB: curves 0.47, attention 0.71, layers 0.08,
the probe 0.02, all else 0.08.

Files of an earlier version hold curves as means over blocks of steps (`step` is then the middle of a block), and
nothing of what was measured. They are read as they are; packed again, their curves stay thinned.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from knockout.files import replace_file
from knockout.job import QUANTITIES, RECORDED
from knockout.record import THOUSAND, Record, TableName, attention_table, class_losses, tokens_table, unusable

CURVE_POINTS = 200
MAX_BYTES = 2_000_000_000
"""Of all columns together, unpacked: read off the file's metadata before anything is read."""

THINNED = pa.schema(
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
"""Of files of the earlier version, which kept thinned curves."""

KINDS: Mapping[TableName, Mapping[str, str]] = {
    "curve": {"step": "<f8", "loss": "<f4", "learning_rate": "<f8", "grad_norm": "<f4"},
    "probe": {"step": "<i4", "loss": "<f4", "correct": "<i4", "count": "<i4"},
    "layers": {"step": "<i4", "quantity": "<i1", "layer": "<i2", "value": "<f4"},
}
"""table -> column -> its numbers in a row of a packed file: numpy's name of their type. Their bytes are grouped by
place, all first bytes before all second ones, which compresses better. `step` of a whole curve is left out."""

SCHEMA = pa.schema(
    [
        ("run_id", pa.string()),
        ("config", pa.string()),  # JSON
        ("outcome", pa.string()),  # JSON
        ("log", pa.string()),  # of attempts
        ("final_loss", pa.float64()),
        *((f"{table}_{column}", pa.binary()) for table, columns in KINDS.items() for column in columns),
        ("attention_texts", pa.string()),  # JSON: example, split, tokens, and layers and heads, of each text
        ("attention_weights", pa.binary()),  # of all texts: thousandths, 16-bit integers, little-endian
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
    tables: Mapping[TableName, Callable[[], pa.Table]]
    loss: float | None
    text: str
    packed: Literal[True] = True

    def has(self, name: TableName) -> bool:
        return name in self.tables

    def table(self, name: TableName) -> pa.Table:
        if name not in self.tables:
            raise FileNotFoundError(f"{self.path}: run {self.run_id} has no {name}")
        return self.tables[name]()

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
        schema = next((known for known in (SCHEMA, THINNED) if file.schema_arrow.equals(known)), None)
        if schema is None:
            return [], [f"{path.name}: no packed records, or of another version of knockout"]
        rows = file.read().to_pylist()
    except (OSError, ValueError, pa.ArrowException) as error:  # ValueError: a changed byte in a column's name
        return [], [f"{path.name}: not readable ({type(error).__name__}: {str(error).splitlines()[0]})"]
    records, damaged = [], []
    for row in rows:
        why = "changed since it was packed"
        if _digest(row, schema) == row["sha256"]:
            try:
                record = _record(row, path, whole=schema is SCHEMA)
            except (ValueError, TypeError, RecursionError, pa.ArrowException) as error:
                why = f"not readable ({type(error).__name__}: {error})"
            else:
                why = unusable(record.config, record.outcome)
                records += [] if why else [record]
        if why:
            damaged.append(f"{path.name}: run {str(row['run_id'])[:12]}: {why}")
    return records, damaged


def thin(table: pa.Table) -> pa.Table:
    """A curve as means over blocks of steps, of which there are at most 200; `step` is the middle of its block.

    So were the curves of the earlier version packed: beside one of these, others are thinned to meet it.
    """
    n = table.num_rows
    block = max(1, math.ceil(n / CURVE_POINTS))
    if block == 1:
        return table
    starts = np.arange(0, n, block)
    sizes = np.diff([*starts, n])
    columns: dict[str, pa.Array] = {}
    for name in table.column_names:
        means = np.add.reduceat(table[name].to_numpy().astype(float), starts) / sizes
        columns[name] = pa.array(means, table.schema.field(name).type if name != "step" else pa.float64())
    # A last, shorter block keeps the distance of the others: runs must meet at the same step.
    columns["step"] = pa.array(table["step"].to_numpy()[starts] + (block - 1) / 2, pa.float64())
    return pa.table(columns)


def is_thinned(curve: pa.Table) -> bool:
    """Whether the rows of a curve are means over blocks of steps."""
    step = curve["step"].to_numpy()
    return len(step) > 0 and not np.array_equal(step, np.arange(1, len(step) + 1))


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
        curve = record.table("curve")
        row |= _numbers("curve", curve if is_thinned(curve) else curve.drop_columns("step"))
    if record.has("probe"):
        row |= _numbers("probe", record.table("probe"))
    if record.has("layers"):
        layers = record.table("layers")
        codes = pa.array([QUANTITIES.index(name) for name in layers["quantity"].to_pylist()], pa.int8())
        row |= _numbers("layers", layers.set_column(1, "quantity", codes))
    if record.has("attention"):
        row |= _attention(record)
    if record.has("epochs"):
        row["epochs"] = _json(record.table("epochs").to_pylist())
    if record.has("predictions"):
        predictions = record.table("predictions")
        row |= {name: predictions[name].to_numpy().astype("<i2").tobytes() for name in ("label", "predicted")}
        losses = class_losses(predictions)
        if losses is not None and np.isfinite(losses["squares"]).all():
            row["outcome"] = _json({**record.outcome, "losses": losses})
    row["sha256"] = _digest(row, SCHEMA)
    return row


def _record(row: dict[str, Any], path: Path, *, whole: bool) -> Record:
    tables: dict[TableName, pa.Table] = {}
    lazy: dict[TableName, Callable[[], pa.Table]] = {}
    if whole:
        tables |= {name: _table(name, row) for name in KINDS if row[f"{name}_{[*KINDS[name]][-1]}"] is not None}
        if row["attention_texts"] is not None:
            lazy |= _attention_tables(row)
    elif row["loss"] is not None:
        names = ("step", "loss", "learning_rate", "grad_norm")
        curve = pa.table({name: pa.array(row[name], THINNED.field(name).type.value_type) for name in names})
        tables["curve"] = curve if is_thinned(curve) else _with_steps(curve.drop_columns("step"))
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
        storage=Row(
            path=path,
            run_id=row["run_id"],
            tables={name: partial(_same, table) for name, table in tables.items()} | lazy,
            loss=row["final_loss"],
            text=row["log"],
        ),
    )


def _same(table: pa.Table) -> pa.Table:
    return table


def _with_steps(curve: pa.Table) -> pa.Table:
    """A whole curve with its column `step`: 1, 2, ..."""
    return curve.add_column(0, "step", pa.array(np.arange(1, curve.num_rows + 1, dtype=np.int32)))


def _numbers(name: TableName, table: pa.Table) -> dict[str, bytes]:
    """The columns of a row that hold a table of numbers."""
    kinds = KINDS[name]
    return {
        f"{name}_{column}": _grouped(table[column].to_numpy().astype(kinds[column])) for column in table.column_names
    }


def _grouped(values: NDArray[Any]) -> bytes:
    """The bytes of an array, all first bytes of its numbers before all second ones."""
    return values.view(np.uint8).reshape(len(values), values.itemsize).T.tobytes()


def _ungrouped(packed: bytes, kind: str) -> NDArray[Any]:
    size = np.dtype(kind).itemsize
    return np.ascontiguousarray(np.frombuffer(packed, np.uint8).reshape(size, -1).T).view(kind)[:, 0]


def _table(name: TableName, row: Mapping[str, Any]) -> pa.Table:
    """The table that `_numbers` has put into a row. Raises `ValueError` where its columns do not fit together."""
    kinds = {column: kind for column, kind in KINDS[name].items() if row[f"{name}_{column}"] is not None}
    table = pa.table({column: pa.array(_ungrouped(row[f"{name}_{column}"], kind)) for column, kind in kinds.items()})
    if name == "curve" and "step" not in kinds:
        return _with_steps(table)
    if name == "layers":
        names = pa.array(QUANTITIES)
        return table.set_column(1, "quantity", names.take(table["quantity"].combine_chunks()))
    return table


def _attention(record: Record) -> dict[str, Any]:
    """The columns of a row that hold attention weights: with its shape, each weight needs no more than its value."""
    table, tokens = record.table("attention"), record.table("attention_tokens").to_pandas()
    texts = []
    for text, rows in table.to_pandas().groupby("text", sort=True):
        first, last = rows.iloc[0], rows.iloc[-1]
        texts.append(
            {
                "example": int(first["example"]),
                "split": str(first["split"]),
                "tokens": tokens.loc[tokens["text"] == text, "token"].tolist(),
                "layers": int(last["layer"]) + 1,
                "heads": int(last["head"]) + 1,
            }
        )
    thousandths = np.rint(table["weight"].to_numpy().astype(float) * THOUSAND).astype("<u2")
    return {"attention_texts": _json(texts), "attention_weights": _grouped(thousandths)}


def _attention_tables(row: Mapping[str, Any]) -> dict[TableName, Callable[[], pa.Table]]:
    """Makers of the long tables of attention, which are large: a report needs those of a few runs.

    Raises `ValueError` where there are not as many weights as the texts have.
    """
    texts = json.loads(row["attention_texts"])
    shapes = [(text["layers"], text["heads"], len(text["tokens"]), len(text["tokens"])) for text in texts]
    sizes = [math.prod(shape) for shape in shapes]
    weights = _ungrouped(row["attention_weights"], "<u2")
    if len(weights) != sum(sizes):
        raise ValueError(f"{len(weights)} attention weights, and its texts have {sum(sizes)}")
    parts = np.split(weights, np.cumsum(sizes)[:-1])
    blocks = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
    return {
        "attention": lambda: attention_table([(text["example"], text["split"]) for text in texts], blocks),
        "attention_tokens": lambda: tokens_table([text["tokens"] for text in texts]),
    }


def _digest(row: Mapping[str, Any], schema: pa.Schema) -> str:
    """sha256 of everything in a row but itself; floats by their bits, so that NaN and infinities count too."""
    sha = hashlib.sha256()
    for name in schema.names[:-1]:
        value = row[name]
        if isinstance(value, list):
            kind = "<f4" if schema.field(name).type.value_type == pa.float32() else "<f8"
            value = np.asarray(value, dtype=kind).tobytes()
        elif isinstance(value, float):
            value = np.float64(value).tobytes()
        sha.update(f"{name}:{'-' if value is None else len(value)}:".encode())
        sha.update(value if isinstance(value, bytes) else str(value or "").encode())
    return sha.hexdigest()


def _json(value: Sequence[Any] | dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
