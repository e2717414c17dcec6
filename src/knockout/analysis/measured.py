"""What is read off a run's record: the columns of summary.csv, and its predictions, counted."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from knockout.analysis.inference.dead import Answers
from knockout.analysis.stats.scores import macro_f1
from knockout.packed import is_thinned
from knockout.record import Record, class_losses


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """The predictions of one run on the test split, counted."""

    count: int
    correct: int
    label_counts: tuple[int, ...]
    labels_sha256: str
    predicted_sha256: str
    macro_f1: float
    absent: tuple[int, ...]
    """classes that no test label has"""
    right: NDArray[np.bool_]
    answers: Answers


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A column of summary.csv that is read off a run's record."""

    name: str
    dtype: Literal["Int64", "Float64"]
    value: Callable[[Record, Predictions | None], float | int | None]
    always: bool = False
    """also of a run that diverged; the others are of finished runs only"""


def _split_columns(split: str, *, macro_f1: bool) -> list[Measured]:
    """Counts and scores on one split."""

    def of(name: str) -> Callable[[Record, Predictions | None], float | int | None]:
        return lambda record, _: record.outcome["metrics"].get(split, {}).get(name)

    def accuracy(record: Record, _: Predictions | None) -> float | None:
        counts = record.outcome["metrics"].get(split)
        return None if counts is None else float(counts["correct"] / counts["count"])

    return [
        Measured(name=f"{split}_correct", dtype="Int64", value=of("correct")),
        Measured(name=f"{split}_count", dtype="Int64", value=of("count")),
        Measured(name=f"{split}_accuracy", dtype="Float64", value=accuracy),
        *([Measured(name=f"{split}_macro_f1", dtype="Float64", value=_macro_f1)] if macro_f1 else []),
        Measured(name=f"{split}_loss", dtype="Float64", value=of("loss")),
    ]


def _macro_f1(_: Record, predictions: Predictions | None) -> float | None:
    return None if predictions is None else predictions.macro_f1


def _steps(record: Record, _: Predictions | None) -> int | None:
    steps: int | None = record.outcome["costs"].get("steps")
    if steps is not None or not record.has("curve"):
        return steps
    curve = record.table("curve")
    return None if is_thinned(curve) else int(curve.num_rows)


SCORES = (*_split_columns("test", macro_f1=True), *_split_columns("validation", macro_f1=False))

MEASURED: tuple[Measured, ...] = (
    *SCORES,
    Measured(name="final_loss", dtype="Float64", value=lambda record, _: record.final_loss()),
    Measured(name="steps", dtype="Int64", value=_steps, always=True),
    Measured(
        name="parameters", dtype="Int64", value=lambda record, _: record.outcome["costs"].get("parameters"), always=True
    ),
)
"""What summary.csv says of each run, in its order: a new column is one entry here."""


def predictions_of(record: Record, classes: int) -> Predictions | None:
    """What the test predictions of a record come to; `None` where it kept none."""
    answers = answers_of(record)
    if answers is None:
        return None
    label, predicted = answers.label, answers.predicted
    score = macro_f1(label, predicted, classes=max(classes, int(label.max(initial=0)) + 1))
    return Predictions(
        count=len(label),
        correct=int((label == predicted).sum()),
        label_counts=tuple(int(c) for c in np.bincount(label)),
        labels_sha256=hashlib.sha256(label.tobytes()).hexdigest(),
        predicted_sha256=hashlib.sha256(predicted.tobytes()).hexdigest(),
        macro_f1=score.value,
        absent=score.absent,
        right=label == predicted,
        answers=answers,
    )


def answers_of(record: Record) -> Answers | None:
    """The test labels and predictions of a record, with its losses by class; `None` where it kept none."""
    if not record.has("predictions"):
        return None
    table = record.table("predictions")
    label, predicted = (table[name].to_numpy().astype("<i4") for name in ("label", "predicted"))
    losses = class_losses(table) or record.outcome.get("losses")
    return Answers(label=label, predicted=predicted, losses=losses)


def stated_scores(record: Record) -> dict[str, Any]:
    """Counts and scores that the record states; those of its predictions are not computed."""
    return {column.name: column.value(record, None) for column in SCORES}
