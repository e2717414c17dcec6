"""Chance level: the accuracy of always predicting the commonest label, and what lies above it by more than noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Chance:
    """Accuracies from 0 to 1."""

    majority_share: float
    bound: float
    """a run whose accuracy is at most this is dead"""


def chance_level(label_counts: Sequence[int], *, count: int, standard_errors: float) -> Chance:
    """The majority share of the labels, and that share plus `standard_errors` standard errors over `count` examples.

    The standard error is that of a proportion, sqrt(p (1 - p) / n). `chance_level([50, 50], count=100,
    standard_errors=2)` gives .5 and .6. Raises `ValueError` without labels or examples.
    """
    if count < 1 or sum(label_counts) < 1:
        raise ValueError(f"a chance level needs labels and examples, got {list(label_counts)} and {count}")
    share = max(label_counts) / sum(label_counts)
    return Chance(majority_share=share, bound=share + standard_errors * math.sqrt(share * (1 - share) / count))
