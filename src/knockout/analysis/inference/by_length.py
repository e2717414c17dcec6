"""Accuracy by the length of the test text: each arm in classes of length, and its difference from the baseline.

Descriptive: nothing is tested, and no verdict uses it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from knockout.analysis.inference.contrasts import Correctness
from knockout.analysis.inference.pairs import Estimate, Seed, estimate

BOUNDS = (32, 96, 224)
"""Tokens: the last length of each class but the last."""
LEAST_SHARE = 0.01
"""The share of the test texts that makes a class count when it is decided whether `BOUNDS` separate them."""


@dataclass(frozen=True, kw_only=True)
class LengthClass:
    """Test texts of about the same length."""

    shortest: int
    """tokens, inclusive, as is `longest`"""
    longest: int | None
    """`None`: no bound"""
    texts: int


@dataclass(frozen=True, kw_only=True)
class LengthRow:
    """One arm on the test texts of one length class."""

    variant: str
    of: LengthClass
    runs: int
    """those that did not fail and kept their predictions"""
    accuracy: float
    """%, the mean over these runs"""
    estimate: Estimate | None
    """the paired difference from the baseline in points; `None` of the baseline itself, and without a pair"""


def length_bounds(lengths: NDArray[np.int64]) -> tuple[int, ...]:
    """The last length of each class but the last, in tokens.

    `BOUNDS` where at least two of their classes have `LEAST_SHARE` of the texts each, else the quartiles of lengths.
    """
    counts = np.bincount(np.searchsorted(BOUNDS, lengths), minlength=len(BOUNDS) + 1)
    if (counts >= LEAST_SHARE * len(lengths)).sum() >= 2:
        return BOUNDS
    quartiles = np.quantile(lengths, (0.25, 0.5, 0.75), method="inverted_cdf")
    return tuple(sorted({int(q) for q in quartiles if q < lengths.max()}))


def length_classes(lengths: NDArray[np.int64]) -> list[tuple[LengthClass, NDArray[np.bool_]]]:
    """The classes that hold texts, shortest first, each with which texts it holds. None where it would be only one."""
    bounds = length_bounds(lengths)
    place = np.searchsorted(bounds, lengths)  # a length that is a bound belongs below it
    ends = [-1, *bounds, None]
    classes = []
    for i, (before, longest) in enumerate(pairwise(ends)):
        member = place == i
        if before is not None and member.any():
            classes.append((LengthClass(shortest=before + 1, longest=longest, texts=int(member.sum())), member))
    return classes if len(classes) > 1 else []


def accuracy_by_length(
    lengths: Sequence[int], correctness: Correctness, alive: Mapping[str, Sequence[Seed]], *, baseline: str
) -> list[LengthRow]:
    """One row per arm and length class, arm by arm in the order of `alive`.

    `alive`: arm -> the seeds at which its run did not fail, the baseline among them. `lengths` are those of the test
    texts in the order of the predictions. Empty where the texts do not differ in length, or no run kept predictions.
    """
    ours = {arm: [seed for seed in seeds if (arm, seed) in correctness] for arm, seeds in alive.items()}
    if any(len(correctness[arm, seed]) != len(lengths) for arm, seeds in ours.items() for seed in seeds):
        return []  # predictions of a trainer of one's own, of other texts than the data's
    rows = []
    for arm, seeds in ours.items():
        shared = [seed for seed in seeds if seed in ours.get(baseline, ())]
        for of, member in length_classes(np.asarray(lengths, dtype=np.int64)) if seeds else ():
            counts = {seed: int(correctness[arm, seed][member].sum()) for seed in seeds}
            theirs = [int(correctness[baseline, seed][member].sum()) for seed in shared]
            rows.append(
                LengthRow(
                    variant=arm,
                    of=of,
                    runs=len(seeds),
                    accuracy=100 * sum(counts.values()) / (len(seeds) * of.texts),
                    estimate=None
                    if arm == baseline
                    else estimate([counts[seed] for seed in shared], theirs, 100 / of.texts, 1),
                )
            )
    return rows
