"""How a run ended, as the coordinator and the mirrors in Optuna need it: of a trainer's outcome, or of a record."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from knockout.job import Outcome, Status
from knockout.record import Record
from knockout.study import Run

LearningCurve = tuple[tuple[int, float], ...]
"""(epoch, validation accuracy from 0 to 1; NaN where nothing was counted), in the order of the epochs"""


@dataclass(frozen=True, kw_only=True)
class Objective:
    """The one number that the screen and Optuna show of a run. It is no verdict."""

    value: float
    """accuracy, 0 to 1"""
    split: str

    @property
    def name(self) -> str:
        """What the value is, such as "validation accuracy"."""
        return f"{self.split} accuracy"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How a run ended, as far as the coordinator needs it; the rest is in the record."""

    run: Run
    status: Status | Literal["held", "stopped"]
    """`held`: another process trains this run. `stopped`: it ended early and left no record."""
    reason: str = ""
    objective: Objective | None = None
    """what the screen and Optuna show of it"""
    epochs: LearningCurve = ()
    seconds: float = 0.0
    """of training, evaluation and measuring"""
    test: Mapping[str, float | int] = field(default_factory=dict)
    """the test split's correct, count, and whatever else was measured; empty where there is none"""


def objective(metrics: Mapping[str, Mapping[str, Any]]) -> Objective | None:
    """Accuracy on the validation split, or on the test split of a run without a validation split.

    `metrics`: split -> metric -> value. `None` where there is neither, or nothing was counted.
    """
    split = next((name for name in ("validation", "test") if metrics.get(name)), "")
    value = accuracy(metrics[split]) if split else math.nan
    return Objective(value=value, split=split) if math.isfinite(value) else None


def objective_name(runs: Iterable[Mapping[str, Mapping[str, Any]]]) -> str:
    """What the objective of these runs is, from the metrics of each; "accuracy" where it is not the same of all."""
    names = {found.name for metrics in runs if (found := objective(metrics)) is not None}
    return names.pop() if len(names) == 1 else "accuracy" if names else "validation accuracy"


def test_metrics(metrics: Mapping[str, Mapping[str, float | int]]) -> Mapping[str, float | int]:
    """Those of the test split; empty where there are none. `metrics`: split -> metric -> value."""
    return metrics.get("test", {})


def accuracy(counts: Mapping[str, Any]) -> float:
    """`correct` over `count`, 0 to 1; NaN where nothing was counted."""
    return float(counts["correct"] / counts["count"]) if counts["count"] else math.nan


def learning_curve(record: Record) -> LearningCurve:
    """The validation accuracy after each epoch of a record; empty for a trainer that recorded none."""
    if not record.has("epochs"):
        return ()
    return tuple((int(row["epoch"]), accuracy(row)) for row in record.table("epochs").to_pylist())


def seconds_of(costs: Mapping[str, float | int]) -> float:
    """The seconds that a run took by its costs, 0 where they do not say."""
    return sum((costs.get(name, 0.0) for name in ("train_seconds", "eval_seconds", "measure_seconds")), 0.0)


def answer_of_record(run: Run, record: Record, *, curve: LearningCurve | None = None) -> Answer:
    """The answer that the worker of an existing record gave, or would have given. `curve`: where it was read before."""
    costs = record.outcome["costs"]
    return Answer(
        run=run,
        status=record.outcome["status"],
        reason=record.outcome["reason"],
        objective=objective(record.outcome["metrics"]),
        epochs=learning_curve(record) if curve is None else curve,
        seconds=seconds_of(costs),
        test=test_metrics(record.outcome["metrics"]),
    )


def answer_of_outcome(run: Run, outcome: Outcome) -> Answer:
    """The answer for what a trainer returned."""
    return Answer(
        run=run,
        status=outcome.status,
        reason=outcome.reason,
        objective=objective(outcome.metrics),
        epochs=tuple((e.epoch, accuracy({"correct": e.correct, "count": e.count})) for e in outcome.epochs),
        seconds=seconds_of(outcome.costs),
        test=test_metrics(outcome.metrics),
    )
