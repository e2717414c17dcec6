"""One record: what a run leaves on disk, whole or not at all, and verified whenever it is read."""

import hashlib
import json
import math
import shutil
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from knockout.files import json_text, sync, temporary_beside
from knockout.job import RECORDED, Outcome, Status

TableName = Literal["curve", "epochs", "predictions", "probe", "layers", "attention", "attention_tokens"]

THOUSAND = 1000
"""Attention weights are kept to three decimals: they are drawn, and packed ones take a quarter of the room."""

FINAL_SHARE = 0.05
"""The last part of the steps that `final_loss` is the mean of."""


_syncing = ThreadPoolExecutor(8, thread_name_prefix="sync")
"""Files of a record are synced together, which takes a disk a third of the time of one after the other."""


class Storage(Protocol):
    """Where the tables and the log of a record are kept."""

    @property
    def path(self) -> Path:
        """The record's own folder, or the file that holds it with others: what a message names."""

    @property
    def packed(self) -> bool:
        """Whether it has no folder of its own."""

    def has(self, name: TableName) -> bool: ...

    def table(self, name: TableName) -> pa.Table: ...

    def final_loss(self) -> float | None: ...

    def log(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A record in a folder of its own, one file for each table."""

    path: Path
    packed: Literal[False] = False

    def has(self, name: TableName) -> bool:
        return (self.path / f"{name}.parquet").is_file()

    def table(self, name: TableName) -> pa.Table:
        return pq.read_table(self.path / f"{name}.parquet")

    def final_loss(self) -> float | None:
        loss = self.table("curve")["loss"].to_numpy()
        last = max(1, math.ceil(FINAL_SHARE * len(loss)))
        return float(np.mean(loss[-last:], dtype=float)) if len(loss) else None

    def log(self) -> str:
        return (self.path / "log.txt").read_text(encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class Record:
    """One verified record. `config` says what was run, `outcome` how it ended; the tables are read on demand."""

    run_id: str
    config: Mapping[str, Any]
    outcome: Mapping[str, Any]
    storage: Storage

    @property
    def status(self) -> str:
        return str(self.outcome["status"])

    @property
    def path(self) -> Path:
        """Its folder, or the packed file that holds it."""
        return self.storage.path

    @property
    def packed(self) -> bool:
        """Whether it is one of many in a packed file."""
        return self.storage.packed

    def has(self, name: TableName) -> bool:
        """Whether the run left this table."""
        return self.storage.has(name)

    def table(self, name: TableName) -> pa.Table:
        """`curve`: step, loss, learning_rate, grad_norm. `epochs`: epoch, step, loss, correct, count.
        `predictions`: example, label, predicted, and log_probability unless it is packed.
        `probe`: step, loss, correct, count. `layers`: step, quantity, layer, value.
        `attention`: text, example, split, layer, head, query, key, weight. `attention_tokens`: text, position, token.
        What they hold is in `knockout.job`, their units in results/README.md.

        Raises `FileNotFoundError` if the run left no such table.
        """
        return self.storage.table(name)

    def final_loss(self) -> float | None:
        """Training loss (nats), the mean over the last 5 % of the steps; `None` for a run without any."""
        return self.storage.final_loss()

    def log(self) -> str:
        return self.storage.log()


def read_record(root: Path, config: Mapping[str, Any]) -> Record | None:
    """The verified result of one run, looked for where `write_record` puts it."""
    record, _ = verified(root / "runs" / _folder_name(config), "runs")
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
    temporary = temporary_beside(parent / name)
    try:
        temporary.mkdir()
        facts = {
            "status": outcome.status,
            "reason": _writable(outcome.reason),
            "metrics": outcome.metrics,
            "costs": outcome.costs,
            "environment": dict(environment),
            "ended": ended,
        }
        (temporary / "config.json").write_text(json_text(config), encoding="utf-8")
        (temporary / "outcome.json").write_text(json_text(facts), encoding="utf-8")
        (temporary / "log.txt").write_text(_writable(log), encoding="utf-8")
        if recorded:
            _write_tables(temporary, outcome)
        files = sorted(p for p in temporary.iterdir())
        (temporary / "manifest.json").write_text(json_text({p.name: _sha256(p) for p in files}), encoding="utf-8")
        list(_syncing.map(sync, (*files, temporary / "manifest.json")))
        sync(temporary)
        if recorded and read_record(root, config) is not None:  # written by an orphan of this run: it is equal
            shutil.rmtree(temporary)
            return target
        if target.exists():  # and does not verify
            set_aside(root, target)
        temporary.rename(target)
        try:
            sync(parent)
        except BaseException:
            target.rename(temporary)  # who gets the error must not find the record later
            raise
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return target


def _folder_name(config: Mapping[str, Any]) -> str:
    return f"{config['variant']}-s{config['seed']}-{config['run_id'][:12]}"


def verified(folder: Path, kind: str) -> tuple[Record | None, str]:
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
        why = unusable(config, outcome)
        if why:
            return None, why
        record = Record(run_id=str(config["run_id"]), config=config, outcome=outcome, storage=Folder(path=folder))
        if (record.status in RECORDED) != (kind == "runs"):
            return None, f"status {record.status} does not belong under {kind}/"
        return record, ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return None, f"not readable ({type(error).__name__}: {error})"


def unusable(config: object, outcome: object) -> str:
    """Why no reader could work with what a record says, although it is what was written; empty where one can.

    Records that an earlier version wrote of whatever a trainer returned are such.
    """
    if not isinstance(config, Mapping) or not isinstance(outcome, Mapping):
        return "its config and outcome are no tables"
    texts = {**{k: config.get(k) for k in ("run_id", "variant")}, **{k: outcome.get(k) for k in ("status", "reason")}}
    wrong = [name for name, text in texts.items() if not isinstance(text, str)]
    if wrong:
        return f"its {wrong[0]} is no text"
    if outcome["status"] not in get_args(Status):
        return f"unknown status {outcome['status']}"
    if type(config.get("seed")) is not int:
        return "its seed is no whole number"
    metrics, costs = outcome.get("metrics"), outcome.get("costs")
    if not (isinstance(metrics, Mapping) and isinstance(costs, Mapping)) or not isinstance(
        outcome.get("environment"), Mapping
    ):
        return "its metrics, costs and environment are not all tables"
    if any(type(value) not in (int, float) for value in costs.values()):
        return "a cost is no number"
    for split, values in metrics.items():
        if not isinstance(values, Mapping):
            return f"its metrics of the {split} split are no table"
        correct, count = values.get("correct"), values.get("count")
        if type(correct) is not int or type(count) is not int or not 0 <= correct <= count:
            return f"its {split} split has no two integers with 0 <= correct <= count"
        if any(type(value) not in (int, float) for value in values.values()):
            return f"a metric of its {split} split is no number"
    if outcome["status"] == "finished" and "test" not in metrics:
        return "finished, and has no metrics of the test split"
    try:
        datetime.fromisoformat(outcome["ended"])
    except (KeyError, TypeError, ValueError):
        return "when it ended is no time"
    return ""


def class_losses(predictions: pa.Table) -> dict[str, list[float]] | None:
    """ "sum" and "squares" of the losses (nats) of single predictions, over the examples of each class.

    `None` for predictions without log probabilities, as those of packed records are.
    """
    if "log_probability" not in predictions.column_names or not predictions.num_rows:
        return None
    label = predictions["label"].to_numpy()
    loss = -predictions["log_probability"].to_numpy().astype(float)
    sums = {"sum": loss, "squares": loss * loss}
    return {name: np.bincount(label, weights=values).tolist() for name, values in sums.items()}


def set_aside(root: Path, folder: Path) -> None:
    """Move a file or a folder of a study, never deleted, to `set_aside/` under a name that is free."""
    if (root / "set_aside").is_file():
        (root / "set_aside").rename(root / f"set_aside-{uuid.uuid4().hex[:8]}")
        if folder == root / "set_aside":
            return
    (root / "set_aside").mkdir(exist_ok=True)
    folder.rename(root / "set_aside" / f"{folder.name}-{uuid.uuid4().hex[:8]}")


def _writable(text: str) -> str:
    """A text in UTF-8: half characters, as in names of files that are not UTF-8, are written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


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
        predictions = outcome.predictions
        columns = {
            "example": pa.array(range(len(predictions.label)), pa.int32()),
            "label": pa.array(predictions.label, pa.int32()),
            "predicted": pa.array(predictions.predicted, pa.int32()),
            "log_probability": pa.array(predictions.log_probability, pa.float32()),
        }
        pq.write_table(pa.table(columns), folder / "predictions.parquet", compression="zstd")
    for name, table in measured_tables(outcome).items():
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")


def measured_tables(outcome: Outcome) -> dict[TableName, pa.Table]:
    """The tables of what a trainer measured beside its results: probe, layers, attention; those that there are."""
    tables: dict[TableName, pa.Table] = {}
    if outcome.probe is not None:
        probe = outcome.probe
        columns = {
            "step": pa.array(probe.step, pa.int32()),
            "loss": pa.array(probe.loss, pa.float32()),
            "correct": pa.array(probe.correct, pa.int32()),
            "count": pa.array([probe.count] * len(probe.step), pa.int32()),
        }
        tables["probe"] = pa.table(columns)
    if outcome.layers is not None:
        layers = outcome.layers
        columns = {
            "step": pa.array(layers.step, pa.int32()),
            "quantity": pa.array(layers.quantity, pa.string()),
            "layer": pa.array(layers.layer, pa.int16()),
            "value": pa.array(layers.value, pa.float32()),
        }
        tables["layers"] = pa.table(columns)
    if outcome.attention is not None:
        texts = outcome.attention.texts
        thousandths = [np.rint(np.asarray(text.weights) * THOUSAND).astype("<u2") for text in texts]
        tables["attention"] = attention_table([(t.example, t.split) for t in texts], thousandths)
        tables["attention_tokens"] = tokens_table([[_writable(token) for token in text.tokens] for text in texts])
    return tables


def attention_table(texts: Sequence[tuple[int, str]], thousandths: Sequence[NDArray[np.uint16]]) -> pa.Table:
    """The long table of attention weights of texts, each an example of a split; weights: layers x heads x T x T."""
    parts = []
    for number, ((example, split), weights) in enumerate(zip(texts, thousandths, strict=True)):
        layer, head, query, key = np.indices(weights.shape).reshape(4, -1)
        columns = {
            "text": pa.array(np.full(weights.size, number), pa.int8()),
            "example": pa.array(np.full(weights.size, example), pa.int32()),
            "split": pa.DictionaryArray.from_arrays(np.zeros(weights.size, np.int32), [split]).cast(pa.string()),
            "layer": pa.array(layer, pa.int8()),
            "head": pa.array(head, pa.int8()),
            "query": pa.array(query, pa.int16()),
            "key": pa.array(key, pa.int16()),
            "weight": pa.array((weights.ravel() / THOUSAND).astype(np.float32)),
        }
        parts.append(pa.table(columns))
    return pa.concat_tables(parts).combine_chunks()


def tokens_table(texts: Sequence[Sequence[str]]) -> pa.Table:
    """The table of the tokens of the texts of `attention_table`."""
    columns = {
        "text": pa.array([number for number, tokens in enumerate(texts) for _ in tokens], pa.int8()),
        "position": pa.array([place for tokens in texts for place in range(len(tokens))], pa.int16()),
        "token": pa.array([token for tokens in texts for token in tokens], pa.string()),
    }
    return pa.table(columns)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
