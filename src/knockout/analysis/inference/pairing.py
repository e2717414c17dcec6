"""Whether pairing by seed lets a study detect smaller differences than independent samples would."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from knockout.analysis.inference.contrasts import Contrast
from knockout.analysis.stats.power import paired_to_unpaired


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """Whether pairing by seed helped."""

    known: int
    """variants of which it is known"""
    low: int
    """of these, the ones whose correlation with the baseline over seeds is at most `bound`"""
    bound: float
    """the correlation above which pairing pays"""
    cost: float | None
    """% by which the minimum detectable difference is larger than with independent samples: the median over the
    variants; `None` where no arm has any spread"""


def pairing_numbers(contrasts: Sequence[Contrast]) -> Pairing | None:
    """Over all contrasts; `None` where no correlation between arms is known."""
    rows = [(c, e.correlation, c.pairing_pays_above) for c in contrasts if (e := c.estimate) is not None]
    known = [(c, r, bound) for c, r, bound in rows if r is not None and bound is not None]
    if not known:
        return None
    ratios = [
        paired_to_unpaired(c.estimate.sd, c.arm.sd, c.baseline.sd, limit)
        for c, _, limit in known
        if c.estimate is not None and c.estimate.sd and c.arm.sd and c.baseline.sd
    ]
    return Pairing(
        known=len(known),
        low=sum(r <= bound for _, r, bound in known),
        bound=known[0][2],
        cost=100 * (statistics.median(ratios) - 1) if ratios else None,
    )
