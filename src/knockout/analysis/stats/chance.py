"""Chance level: what a run reaches that does not look at its texts, and whether a run's answers lie above it.

Two answers need no text: a constant one (the commonest class, or the class frequencies), and any answers in random
order. A run has to beat both. For accuracy no answers in random order beat the constant one in the long run, for
macro-F1 they do: with two classes of equal size a coin has .5, and the constant answer .33.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from knockout.analysis.stats.numeric import ROUNDING

Classes = npt.NDArray[np.integer[Any]]
"""(N,) class of each example, from 0."""

CHUNK = 1_000_000
"""Answers that are put in random order together."""


@dataclass(frozen=True, kw_only=True)
class Chance:
    """Accuracies from 0 to 1."""

    majority_share: float
    bound: float
    """a run of which only counts are known is dead if its accuracy is at most this"""


def chance_level(label_counts: Sequence[int], *, count: int, standard_errors: float) -> Chance:
    """The majority share of the labels, and that share plus `standard_errors` standard errors over `count` examples.

    The standard error is that of a proportion, sqrt(p (1 - p) / n). `chance_level([50, 50], count=100,
    standard_errors=2)` gives .5 and .6. Raises `ValueError` without labels or examples.
    """
    if count < 1 or sum(label_counts) < 1:
        raise ValueError(f"a chance level needs labels and examples, got {list(label_counts)} and {count}")
    share = max(label_counts) / sum(label_counts)
    return Chance(majority_share=share, bound=share + standard_errors * math.sqrt(share * (1 - share) / count))


def constant_score(label_counts: Sequence[int], metric: Literal["accuracy", "macro_f1", "log_loss"]) -> float:
    """What the constant answer has: accuracy or macro-F1 of the commonest class, or the log-loss (nats) of the class
    frequencies, which no other constant distribution betters.

    `[95, 5]` gives .95, .4872 and .1985. Raises `ValueError` without labels.
    """
    counts = np.asarray(label_counts, dtype=float)
    counts = counts[counts > 0]
    if not counts.size:
        raise ValueError("a constant answer needs labels")
    n, most = float(counts.sum()), float(counts.max())
    if metric == "accuracy":
        return most / n
    if metric == "macro_f1":
        return 2 * most / (most + n) / len(counts)
    return float(-(counts * np.log(counts / n)).sum() / n)


@dataclass(frozen=True, kw_only=True)
class Against:
    """A run against the constant answer, on the same examples."""

    value: float
    """the run's metric: a share from 0 to 1, or nats"""
    constant: float
    """the constant answer's"""
    ahead: bool
    """whether the run's is the better one"""
    by_chance: bool
    """whether the run may still have it by chance, at the tail of so many standard errors"""

    @property
    def dead(self) -> bool:
        return self.by_chance or not self.ahead


def tail_of(standard_errors: float) -> float:
    """The chance beyond so many standard errors on one side: .0228 for 2."""
    return float(stats.norm.sf(standard_errors))


def classes_against_constant(
    label: Classes,
    predicted: Classes,
    metric: Literal["accuracy", "macro_f1"],
    *,
    standard_errors: float,
    draws: int,
    random_seed: int,
) -> Against:
    """Whether a run's predictions have a better metric than the commonest class, and better than by chance.

    By chance: an exact permutation test. Null hypothesis: the run's answers do not depend on the texts, so that any
    order of them is as likely; one-sided, at the tail of `standard_errors`. Both metrics are sums of weights over the
    hits once it is known how often each class is answered, so their mean and variance over all orders are known
    (Hoeffding 1951, Annals of Mathematical Statistics 22:558). Where Cantelli's inequality already keeps p below the
    level, no order is drawn; else at most `draws` random ones, and fewer where the answer cannot change any more
    (Besag & Clifford 1991, Biometrika 78:301). A tail beneath 1 / (`draws` + 1) is taken as that.

    A class that no label has is left out of macro-F1, as in `scores.macro_f1`. Raises `ValueError` for arrays that
    differ in length or hold nothing, and for a negative label.
    """
    n = len(label)
    if n == 0 or len(predicted) != n or int(label.min()) < 0:
        raise ValueError(f"label and predicted are one class for each example, got {n} and {len(predicted)}")
    k = int(label.max()) + 1
    labels = np.bincount(label, minlength=k).astype(float)
    known = (predicted >= 0) & (predicted < k)
    answers = np.bincount(predicted[known], minlength=k).astype(float)
    weight = np.full(k, 1.0 / n)
    if metric == "macro_f1":
        weight = np.where(labels > 0, 2.0 / (labels + answers).clip(1.0), 0.0) / np.count_nonzero(labels)
    gain = weight[label]
    value = float(gain[label == predicted].sum())
    constant = constant_score(labels.astype(int).tolist(), metric)
    ahead = value > constant + ROUNDING
    by_chance = ahead and _by_chance(
        label, predicted, gain, value, labels, answers, weight,
        level=max(tail_of(standard_errors), 1 / (draws + 1)), draws=draws, random_seed=random_seed,
    )  # fmt: skip
    return Against(value=value, constant=constant, ahead=ahead, by_chance=by_chance)


def _by_chance(
    label: Classes,
    predicted: Classes,
    gain: npt.NDArray[np.float64],
    value: float,
    labels: npt.NDArray[np.float64],
    answers: npt.NDArray[np.float64],
    weight: npt.NDArray[np.float64],
    *,
    level: float,
    draws: int,
    random_seed: int,
) -> bool:
    """Whether the p of the permutation test is above the level."""
    mean, variance = over_all_orders(labels, answers, weight)
    above = value - mean
    if above > 0 and variance <= level * (variance + above * above):  # Cantelli
        return False
    rng = np.random.default_rng(random_seed)
    rows = max(1, min(500, CHUNK // len(label)))
    as_good, drawn = 1, 0
    while drawn < draws:
        size = min(rows, draws - drawn)
        orders = rng.permuted(np.broadcast_to(predicted, (size, len(label))), axis=1)
        as_good += int(np.count_nonzero((orders == label) @ gain >= value - ROUNDING))
        drawn += size
        if as_good > level * (draws + 1):
            return True
    return False


def over_all_orders(
    labels: npt.NDArray[np.float64], answers: npt.NDArray[np.float64], weight: npt.NDArray[np.float64]
) -> tuple[float, float]:
    """Mean and variance, over all orders of the answers, of the sum of `weight[class]` over the hits.

    `labels`, `answers`: how often each class is the label, and the answer; other answers than these hit nothing.
    """
    n = float(labels.sum())
    both = weight * labels * answers
    mean = float(both.sum()) / n
    if n == 1:
        return mean, 0.0
    squares = float((weight * both).sum() - (weight * both * (labels + answers)).sum() / n) + mean * mean
    return mean, max(squares, 0.0) / (n - 1)


def losses_against_constant(
    label_counts: Sequence[int], sums: Sequence[float], squares: Sequence[float], *, standard_errors: float
) -> Against:
    """Whether a run's log-loss is below that of the class frequencies: a one-sided paired t test over the examples.

    `sums`, `squares`: of the losses (nats) and of their squares, over the examples of each class: all that the test
    needs, since the constant answer's loss is the same within a class. Null hypothesis: the differences have a mean of
    at most 0; at the tail of `standard_errors`. Raises `ValueError` for lists that differ in length, and without
    labels.
    """
    if not len(label_counts) == len(sums) == len(squares):
        raise ValueError("one sum and one sum of squares for each class is needed")
    counts, total, square = (np.asarray(values, dtype=float) for values in (label_counts, sums, squares))
    constant = constant_score(label_counts, "log_loss")
    n = float(counts.sum())
    value = float(total.sum()) / n
    if not (math.isfinite(value) and math.isfinite(float(square.sum()))):
        return Against(value=value, constant=constant, ahead=False, by_chance=False)
    loss = -np.log(np.where(counts > 0, counts, n) / n)  # of the constant answer, by class
    mean = constant - value
    spread = float((counts * loss**2 - 2 * loss * total + square).sum()) - n * mean * mean
    ahead = mean > ROUNDING
    if not ahead or n == 1:
        return Against(value=value, constant=constant, ahead=ahead, by_chance=ahead)
    error = math.sqrt(max(spread, 0.0) / (n - 1) / n)
    by_chance = mean <= float(stats.t.isf(tail_of(standard_errors), n - 1)) * error
    return Against(value=value, constant=constant, ahead=ahead, by_chance=by_chance)
