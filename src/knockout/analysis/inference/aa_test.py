"""A/A test: placebo arms are the baseline once more on other streams, judged like variants. They differ by chance."""

from collections.abc import Sequence
from dataclasses import dataclass

from statsmodels.stats.proportion import proportion_confint

from knockout.analysis.inference.contrasts import Contrast, contrasts
from knockout.analysis.inference.family import Family, family_of
from knockout.analysis.inference.pairs import Rows
from knockout.analysis.stats.trace import made_with, traced

RATE_FROM = 20
"""Arms from which a rate of false differences is reported: of fewer, the interval would be too wide for any use."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """How often placebo arms came out as different, with a 95 % Wilson interval."""

    found: int
    arms: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Placebos:
    """All placebo arms of a study."""

    contrasts: tuple[Contrast, ...]
    """each tested alone, at alpha: outside the family"""
    rate: Rate | None
    """from 20 judged arms"""

    @property
    def found(self) -> int:
        """Arms in which a difference was found, where there is none."""
        return _false_differences(self.contrasts)

    @property
    def judged(self) -> int:
        """Arms with a verdict: complete ones."""
        return _judged(self.contrasts)


def placebos(rows: Rows, arms: Sequence[str], family: Family) -> Placebos | None:
    """Each arm against the baseline of `family`, as if it were the only variant; None where there is no arm."""
    if not arms:
        return None
    made: list[Contrast] = []
    for arm in arms:
        alone = family_of(
            rows,
            metric=family.metric,
            plan=family.plan,
            baseline=family.baseline,
            variants=[arm],
            seeds=family.seeds,
            section="placebo",
        )
        made += contrasts(alone, rows)
    judged = _judged(made)
    rate = traced(("placebo", "rate"), wilson, _false_differences(made), judged) if judged >= RATE_FROM else None
    return Placebos(contrasts=tuple(made), rate=rate)


def _false_differences(contrasts: Sequence[Contrast]) -> int:
    return sum(c.verdict in ("better", "worse", "trivial") for c in contrasts)


def _judged(contrasts: Sequence[Contrast]) -> int:
    return sum(not c.incomplete and c.verdict != "undecidable by design" for c in contrasts)


@made_with("statsmodels.stats.proportion.proportion_confint")
def wilson(found: int, arms: int) -> Rate:
    """A rate with its 95 % Wilson interval."""
    low, high = proportion_confint(found, arms, method="wilson")
    return Rate(found=found, arms=arms, rate=found / arms, low=float(low), high=float(high))
