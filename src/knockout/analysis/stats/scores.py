"""Scores of one run from its predictions: each computed once over all rows, so no batch size can change it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Labels = Sequence[int] | npt.NDArray[np.integer[Any]]
"""(N,) class of each example, from 0."""


@dataclass(frozen=True, kw_only=True)
class MacroF1:
    """The macro F1 of one run."""

    value: float
    """from 0 to 1"""
    absent: tuple[int, ...]
    """classes that no label has, which the mean leaves out; a reason for a warning"""


def macro_f1(label: Labels, predicted: Labels, *, classes: int) -> MacroF1:
    """The mean, over the classes that some label has, of F1 = 2 TP / (2 TP + FP + FN); `classes` is how many there are.

    A class that no label has is left out of the mean and named in `absent`. Its F1 would be 0 / 0 for a perfect run,
    and taken as 0 it makes a perfect run .5 (torchmetrics#300). To predict such a class, or a number that is no
    class, is a miss of the true class (a false negative), and adds nothing else to the mean. This is scikit-learn's
    `f1_score(label, predicted, labels=np.unique(label), average="macro")`. Without `labels`, scikit-learn also
    averages over absent classes that were predicted, with F1 0: one stray prediction then changes the divisor, for
    that run alone.

    `[0, 0, 1], [0, 1, 1]` with 2 classes: both F1 are 2/3, and so is the value. Raises `ValueError` for what is not
    integers, for lengths that differ, for no examples, for fewer than one class and for a label outside 0 to
    `classes` - 1.
    """
    y, z = _paired(label, predicted)
    if classes < 1:
        raise ValueError(f"classes is how many classes there are, at least 1; got {classes}")
    if y.min() < 0 or y.max() >= classes:
        outside = int(y.min()) if y.min() < 0 else int(y.max())
        raise ValueError(f"label has the class {outside}; with classes = {classes} they go from 0 to {classes - 1}")
    labels = np.bincount(y, minlength=classes)
    hits = np.bincount(y[y == z], minlength=classes)
    predictions = np.bincount(z[(z >= 0) & (z < classes)], minlength=classes)
    present = np.flatnonzero(labels)
    # Labels are TP + FN, predictions are TP + FP.
    f1 = 2.0 * hits[present] / (labels[present] + predictions[present])
    return MacroF1(value=math.fsum(f1) / len(present), absent=tuple(np.flatnonzero(labels == 0).tolist()))


def _paired(label: Labels, predicted: Labels) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    y, z = _integers(label, "label"), _integers(predicted, "predicted")
    if len(y) != len(z):
        raise ValueError(f"label has {len(y)} examples, predicted {len(z)}: one prediction for each label is needed")
    return y, z


def _integers(values: Labels, name: str) -> npt.NDArray[np.int64]:
    classes = np.asarray(values)
    if classes.ndim != 1 or classes.size == 0:
        raise ValueError(f"{name} must be a list of at least one class, got the shape {classes.shape}")
    if classes.dtype.kind not in "iu":
        raise ValueError(f"{name} must be integers (classes from 0), got {classes.dtype}")
    return classes.astype(np.int64)
