"""From a study's folder to tidy frames: one row per planned run, checked before anything is computed.

analysis/RULES.md, step 1.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from knockout.analysis.inference.dead import why_dead
from knockout.analysis.inference.pairs import Seed
from knockout.analysis.measured import MEASURED, Predictions, answers_of, predictions_of, stated_scores
from knockout.analysis.stats.e_process import Process
from knockout.analysis.stats.metric import Metric, counted, raw, share
from knockout.design import Design, absence, read_design
from knockout.errors import UserError
from knockout.job import RECORDED
from knockout.ledger import Ledger, read_ledger
from knockout.packed import is_thinned, thin
from knockout.plan import Plan
from knockout.record import Record, TableName
from knockout.source_changes import SourceChange, change_in_folder


class ResultsError(UserError, ValueError):
    """What is on disk cannot be analysed as it is; the text names the folders."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """A study's results as they stand."""

    root: Path
    design: Design
    plan: Plan
    runs: pd.DataFrame
    """One row per planned run, in the design's order, those of placebos among them. run_id, variant, seed, stream (what
    it was trained with: the seed, and of a placebo another), status (with `missing`), dead, failed;
    test_correct, test_count, test_accuracy (0 to 1), test_loss (nats), the same for validation; test_macro_f1 (0 to 1,
    over the classes of the test labels); final_loss (nats, mean over the last 5 % of steps), steps, parameters,
    predictions_sha256, reason, folder; value: what the plan's metric is read from."""
    costs: pd.DataFrame
    """One row per planned run: everything of its record that a rerun need not repeat, and its attempts."""
    curves: Mapping[str, pd.DataFrame]
    """run id -> step, loss (nats), learning_rate, grad_norm"""
    epochs: Mapping[str, pd.DataFrame]
    """run id -> epoch, step, loss (nats), correct, count of the validation split"""
    probes: Mapping[str, pd.DataFrame]
    """run id -> step, loss (nats), correct, count of the probe; of runs that recorded one, read when it is asked for"""
    layers: Mapping[str, pd.DataFrame]
    """run id -> step, quantity, layer, value (`knockout.job.Layers`), as `probes`"""
    attention: Mapping[str, pd.DataFrame]
    """run id -> text, example, split, layer, head, query, key, weight (0 to 1), as `probes`"""
    attention_tokens: Mapping[str, pd.DataFrame]
    """run id -> text, position, token of the texts in `attention`"""
    metric: Metric
    """the plan's"""
    correctness: Mapping[tuple[str, Seed], NDArray[np.bool_]]
    """(variant, seed) -> for each test example whether it was predicted rightly, of runs that kept predictions"""
    labels_sha256: str | None
    """of the labels of the test examples, in their order; `None` where no run kept predictions"""
    damaged: tuple[str, ...]
    change: SourceChange
    """the sources of the trainer that the results were made with"""
    others: int
    """records in the folder that are not of this design"""
    notes: tuple[str, ...]
    """what could not be checked or computed, in words"""
    unchecked: int
    """finished runs of which it is not known whether they are dead"""

    @property
    def baseline(self) -> str:
        return self.design.baseline

    @property
    def variants(self) -> list[str]:
        """Without the baseline, in the study's order."""
        return list(self.design.now.variants)

    @property
    def placebos(self) -> list[str]:
        """The arms that are the baseline on other streams: in `runs`, and no variants."""
        return list(self.design.now.placebos)

    @property
    def seeds(self) -> list[int]:
        """All that are planned; with `anytime` not all of them need be run."""
        return list(self.design.now.seeds)

    @property
    def anytime(self) -> Process | None:
        """The e-process that ends a study with `seeds = "anytime"`; `None` where all seeds are run."""
        anytime = self.design.now.anytime
        return anytime.process if anytime else None

    @property
    def changes(self) -> dict[str, dict[str, object]]:
        """variant -> factor -> its level, where it differs from the baseline's."""
        described = self.design.described
        return {
            v: {factor: level for factor, (_, level) in described[v].changes.items()} if v in described else {}
            for v in self.variants
        }

    @property
    def secondary(self) -> dict[str, Metric]:
        """The plan's secondary metrics that its runs have, as column of `runs` -> metric."""
        names = [n for n in self.plan.secondary if n != self.plan.metric]
        columns = {n: COLUMNS[n] for n in names}
        return {c: _metric(n, self.plan, self.runs) for n, c in columns.items() if self.runs[c].notna().any()}

    @property
    def complete_seeds(self) -> list[int]:
        """In order from the first seed, those of which the baseline and every variant came to a result.

        The seeds that count with `anytime`: what lies beyond a gap does not, since when a run ends, or whether it ends,
        may depend on what it comes to. Placebos are not asked.
        """
        arms = self.runs[self.runs["variant"].isin([self.baseline, *self.variants])]
        wanting = set(arms[~arms["status"].isin(RECORDED)]["seed"])
        return list(takewhile(lambda seed: seed not in wanting, self.seeds))


class Tables(Mapping[str, pd.DataFrame]):
    """One table of each record that has it, as run id -> frame. A table is read each time that it is asked for."""

    def __init__(self, records: Mapping[str, Record], name: TableName) -> None:
        self._name: TableName = name
        self._records = {run_id: record for run_id, record in records.items() if record.has(name)}

    def __getitem__(self, run_id: str) -> pd.DataFrame:
        frame: pd.DataFrame = self._records[run_id].table(self._name).to_pandas()
        return frame

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)


MOVE = "move the wrong one out of runs/, and run the study again"

COLUMNS = {"accuracy": "test_correct", "macro_f1": "test_macro_f1", "log_loss": "test_loss"}
"""The column of `Results.runs` that a metric is read from."""


def _metric(name: str, plan: Plan, runs: pd.DataFrame) -> Metric:
    if name == "accuracy":
        sizes = runs["test_count"].dropna()
        return counted(name, examples=int(sizes.iloc[0]) if len(sizes) else 1)
    if name == "macro_f1":
        return share(name)
    return raw(name, better="lower", margin=plan.margin if plan.metric == name else 0.01, unit="nats")


def load(root: Path, *, design: Design | None = None, ledger: Ledger | None = None) -> Results:
    """Read and check a study's folder; `design`: the study as it would be laid down there, instead of what was;
    `ledger`: its records, instead of all that are there.

    Raises `ResultsError` when there is no design, when a run is recorded twice, or when records contradict each other
    or themselves: test sets that differ, counts that are not those of the predictions.
    """
    design = read_design(root) if design is None else design
    if design is None:
        raise ResultsError(absence(root))
    ledger = read_ledger(root) if ledger is None else ledger
    _check_once(root, ledger, design)
    records = {run.id: ledger.records[run.id] for run in design.runs if run.id in ledger.records}
    _check_seeds(records, design)
    predictions = {i: predictions_of(record, len(design.data.classes)) for i, record in records.items()}
    _check_test_sets(records, predictions, design)
    rows, unchecked = _rows(root, ledger, predictions, design)
    runs = _frame(rows)
    plan = design.now.plan
    runs["value"] = runs[COLUMNS[plan.metric]]
    _check_values(root, runs, plan)
    planned = [(run.id, run.variant, run.seed) for run in design.runs]
    return Results(
        root=root,
        design=design,
        plan=plan,
        runs=runs,
        metric=_metric(plan.metric, plan, runs),
        correctness={(variant, seed): p.right for i, variant, seed in planned if (p := predictions.get(i)) is not None},
        costs=pd.DataFrame([_costs(*run, ledger) for run in planned], dtype=object),  # counts stay whole beside gaps
        curves=_curves(records),
        epochs={i: r.table("epochs").to_pandas() for i, r in records.items() if r.has("epochs")},
        probes=Tables(records, "probe"),
        layers=Tables(records, "layers"),
        attention=Tables(records, "attention"),
        attention_tokens=Tables(records, "attention_tokens"),
        labels_sha256=next((p.labels_sha256 for p in predictions.values() if p is not None), None),
        damaged=ledger.damaged,
        change=change_in_folder(root, design, ledger),
        others=len(set(ledger.records) - set(records)),
        notes=_notes(records, predictions, design, unchecked=unchecked),
        unchecked=unchecked,
    )


def dead_runs(root: Path) -> list[tuple[str, int]]:
    """Variant and seed of every finished run that is dead: for a line while a study goes on.

    Raises `ValueError` where the design is not readable. What `load` checks besides is not checked here.
    """
    design = read_design(root)
    if design is None:
        return []
    plan, labels = design.now.plan, design.data.label_counts
    records = read_ledger(root).records
    planned = [run for run in design.runs if run.id in records and records[run.id].status == "finished"]
    rows = [(run, {"status": "finished"} | stated_scores(records[run.id])) for run in planned]
    return [(run.variant, run.seed) for run, row in rows if why_dead(row, answers_of(records[run.id]), labels, plan)]


def _curves(records: Mapping[str, Record]) -> dict[str, pd.DataFrame]:
    """Curves on one grid: where one is thinned, as an earlier version packed them, all are."""
    tables = {i: record.table("curve") for i, record in records.items() if record.has("curve")}
    thinned = {i for i, table in tables.items() if is_thinned(table)}
    return {i: (thin(table) if thinned and i not in thinned else table).to_pandas() for i, table in tables.items()}


def _check_seeds(records: Mapping[str, Record], design: Design) -> None:
    """Every run was trained with the seed that was planned."""
    for run in design.runs:
        if run.id in records and records[run.id].config["seed"] != run.training_seed:
            got = f"recorded with seed {records[run.id].config['seed']}, planned with {run.training_seed}"
            raise ResultsError(f"{records[run.id].path}: {got}")


def _rows(
    root: Path, ledger: Ledger, predictions: Mapping[str, Predictions | None], design: Design
) -> tuple[list[dict[str, Any]], int]:
    """One row per planned run, and the number of finished runs of which it is not known whether they are dead."""
    labels = design.data.label_counts
    known = next((p for p in predictions.values() if p is not None), None)
    if "test" not in labels and known is not None:
        labels["test"] = known.label_counts
    rows, unchecked = [], 0
    for run in design.runs:
        record, attempts = ledger.records.get(run.id), ledger.attempts.get(run.id, ())
        row: dict[str, Any] = {
            "run_id": run.id, "variant": run.variant, "seed": run.seed, "stream": run.training_seed
        }  # fmt: skip
        row |= _attempted(attempts) if record is None else _result(record, predictions[run.id])
        seen = predictions.get(run.id)
        dead = why_dead(row, None if seen is None else seen.answers, labels, design.now.plan)
        unchecked += dead is None
        row |= {"dead": bool(dead), "failed": bool(dead) or row["status"] == "diverged"}
        row["reason"] = dead or row["reason"]
        row["folder"] = _folder(root, record, attempts)
        rows.append(row)
    return rows, unchecked


def _check_values(root: Path, runs: pd.DataFrame, plan: Plan) -> None:
    """Every finished run has a value of the plan's metric."""
    lacking = (runs["status"] == "finished") & runs["value"].isna()
    if lacking.any():
        where = root / str(runs.loc[lacking, "folder"].iloc[0])
        raise ResultsError(f"{where}: finished, and has no {plan.metric} of the test split, which the plan judges by")


def _notes(
    records: Mapping[str, Record],
    predictions: Mapping[str, Predictions | None],
    design: Design,
    *,
    unchecked: int,
) -> tuple[str, ...]:
    """What could not be checked, in words."""
    notes = []
    if unchecked:
        notes.append(f"{unchecked} finished runs could not be checked for being dead: the label counts are not known.")
    if any(predictions[i] is None for i, record in records.items() if record.status == "finished"):
        notes.append("Some finished runs kept no predictions: their counts could not be checked against them.")
    absent = next((p.absent for p in predictions.values() if p is not None and p.absent), ())
    if absent:
        which = ", ".join(design.data.classes[c] for c in absent)
        notes.append(f"No test example has the class {which}: macro-F1 is the mean over the classes that are there.")
    return tuple(notes)


def _check_once(root: Path, ledger: Ledger, design: Design) -> None:
    """No run stands twice: neither in the design, nor as two folders of `runs/`."""
    for keys in ([run.id for run in design.runs], [(run.variant, run.seed) for run in design.runs]):
        twice = [key for key, n in Counter[object](keys).items() if n > 1]
        if twice:
            raise ResultsError(f"{root / 'design.json'}: a run is planned twice: {twice[0]}")
    whole = [p for p in sorted((root / "runs").glob("[!.]*")) if not _is_damaged(p, ledger)]
    if len(whole) == sum(not record.packed for record in ledger.records.values()):
        return
    ids: dict[str, list[str]] = {}
    for folder in whole:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        ids.setdefault(str(config["run_id"]), []).append(folder.name)
    names = next((names for names in ids.values() if len(names) > 1), None)
    if names is not None:  # else a worker has written a record since the ledger was read
        raise ResultsError(f"{root / 'runs'}: one run is recorded twice: {', '.join(names)}; move one away")


def _is_damaged(folder: Path, ledger: Ledger) -> bool:
    return any(line.startswith(f"runs/{folder.name}: ") for line in ledger.damaged)


def _check_test_sets(
    records: Mapping[str, Record], predictions: Mapping[str, Predictions | None], design: Design
) -> None:
    """Every finished run has counts that hold, those of its predictions, on the same test set as every other."""
    finished = [(i, r) for i, r in records.items() if r.status == "finished"]
    counts: dict[int, Path] = {}
    vectors: dict[str, Path] = {}
    for run_id, record in finished:
        metrics = record.outcome["metrics"]
        if "test" not in metrics:
            raise ResultsError(f"{record.path}: finished, and has no metrics of the test split; {MOVE}")
        for split, values in metrics.items():
            correct, count = values.get("correct"), values.get("count")
            whole = all(isinstance(x, int) and not isinstance(x, bool) for x in (correct, count))
            if not whole or not 0 <= correct <= count or count == 0:
                got = f"{split}: correct = {correct}, count = {count}"
                raise ResultsError(f"{record.path}: {got}; two integers with 0 <= correct <= count are needed; {MOVE}")
        test, seen = metrics["test"], predictions[run_id]
        counts.setdefault(test["count"], record.path)
        if seen is None:
            continue
        if (seen.correct, seen.count) != (test["correct"], test["count"]):
            raise ResultsError(
                f"{record.path}: {test['correct']} of {test['count']} correct on the test split, and its predictions"
                f" say {seen.correct} of {seen.count}; {MOVE}"
            )
        vectors.setdefault(seen.labels_sha256, record.path)
    for what, differing in (("sizes of test set", list(counts.items())), ("test labels", list(vectors.items()))):
        if len(differing) > 1:
            folders = f"{differing[0][1]} and {differing[1][1]}"
            raise ResultsError(f"runs of one study saw different {what}: {folders}; they cannot be compared; {MOVE}")
    planned = design.data.splits.get("test")
    if planned is not None and counts and planned.count not in counts:
        count, folder = next(iter(counts.items()))
        raise ResultsError(f"{folder}: a test set of {count} texts, where the study's data have {planned.count}")


def _result(record: Record, predictions: Predictions | None) -> dict[str, Any]:
    row: dict[str, Any] = {"status": record.status, "reason": _reason(record)}
    if predictions is not None and record.status == "finished":
        row["predictions_sha256"] = predictions.predicted_sha256
    finished = record.status == "finished"
    return row | {c.name: c.value(record, predictions) for c in MEASURED if finished or c.always}


def _attempted(attempts: Sequence[Record]) -> dict[str, Any]:
    if not attempts:
        return {"status": "missing", "reason": ""}
    return {"status": attempts[-1].status, "reason": _reason(attempts[-1])}


def _reason(record: Record) -> str:
    """Why a run ended as it did, on one line, without the example that a trainer's author is shown."""
    lines = str(record.outcome.get("reason", "")).splitlines()
    return " ".join(word for line in lines if not line.startswith("  example: ") for word in line.split())


def _folder(root: Path, record: Record | None, attempts: Sequence[Record]) -> str:
    last = record or (attempts[-1] if attempts else None)
    return "" if last is None else last.path.relative_to(root).as_posix()


def _frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(list(rows))
    for column in MEASURED:
        frame[column.name] = pd.array([row.get(column.name) for row in rows], dtype=column.dtype)
    if "predictions_sha256" not in frame:
        frame["predictions_sha256"] = None
    return frame


def _costs(run_id: str, variant: str, seed: int, ledger: Ledger) -> dict[str, Any]:
    attempts = ledger.attempts.get(run_id, ())
    record = ledger.records.get(run_id) or (attempts[-1] if attempts else None)
    row: dict[str, Any] = {"run_id": run_id, "variant": variant, "seed": seed, "attempts": len(attempts)}
    if record is None:
        return {**row, "status": "missing"}
    row |= {"status": record.status, "ended": record.outcome.get("ended"), "threads": record.config.get("threads")}
    row |= {k: v for k, v in record.outcome["costs"].items() if k not in row}
    row |= {k: v for k, v in record.outcome["environment"].items() if k not in row}
    return row
