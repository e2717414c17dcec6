"""Effect sizes that need no normality: dominance between two arms, and the paired win rate.

Standardised mean differences (d_z, Hedges' g, d_av) are in `inference.pairs`, the rank-biserial
correlation is in `exact`.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def cliffs_delta(variant: Sequence[float], baseline: Sequence[float]) -> float:
    """P(v > b) - P(v < b) over all pairs of a run of each arm, in [-1, 1]; a tie counts on neither side.

    Unpaired: the arms may differ in length, and seeds are not matched. -inf stands for a failed run, which then loses
    to every run that finished and ties with a failed one; metrics are compared as they are, without a tolerance.
    Cliff 1993; Romano et al. 2006 call |delta| under .147 negligible, under .33 small, under .474 medium, else large.
    `cliffs_delta([1, 2, 3], [2, 3, 4])` is -5/9. Raises `ValueError` for NaN or an arm without runs.
    """
    v, b = _numbers(variant, "the variant's runs"), np.sort(_numbers(baseline, "the baseline's runs"))
    wins = int(np.searchsorted(b, v, side="left").sum())
    losses = v.size * b.size - int(np.searchsorted(b, v, side="right").sum())
    return (wins - losses) / (v.size * b.size)


def win_rate(differences: Sequence[float]) -> float:
    """(wins + ties / 2) / n of paired differences, variant minus baseline, in [0, 1]; zeros are the ties.

    A failed variant may stand as -inf, a failed baseline as +inf, both failed as 0. `[1, 2, 0, -1]` gives .625.
    Raises `ValueError` for NaN or no differences.
    """
    d = _numbers(differences, "the differences")
    return float(np.mean((d > 0) + (d == 0) / 2))


def _numbers(values: Sequence[float], what: str) -> npt.NDArray[np.float64]:
    numbers = np.asarray(values, dtype=float)
    if numbers.ndim != 1 or not numbers.size:
        raise ValueError(f"{what} must be a list of at least one number, got shape {numbers.shape}")
    if np.isnan(numbers).any():
        raise ValueError(
            f"{what} hold NaN at position {int(np.flatnonzero(np.isnan(numbers))[0])}: a failed run is -inf"
        )
    return numbers
