"""Placebo arms: the baseline once more on other streams, judged like a variant. What they get is what chance gives."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from statsmodels.stats.proportion import proportion_confint

from knockout.analysis.inference.contrasts import Contrast, contrasts
from knockout.analysis.inference.pairs import Seed
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.trace import Caller, made_with
from knockout.study import Plan

RATE_FROM = 20
"""Arms from which a rate of differences found is told: of fewer, the interval would be wider than any use."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """How often placebo arms were found to differ, with a 95 % Wilson interval."""

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
        return sum(c.verdict in ("better", "worse", "trivial") for c in self.contrasts)

    @property
    def judged(self) -> int:
        """Arms that came to be judged: complete ones."""
        return sum(not c.incomplete and c.verdict != "undecidable by design" for c in self.contrasts)


def placebos(
    runs: pd.DataFrame,
    arms: Sequence[str],
    *,
    metric: Metric,
    baseline: str,
    seeds: Sequence[Seed],
    plan: Plan,
    caller: Caller,
) -> Placebos | None:
    """Each arm against the baseline, as if it were the only variant; None where there is no arm."""
    if not arms:
        return None
    found = tuple(
        contrasts(
            runs,
            metric=metric,
            baseline=baseline,
            variants=[arm],
            seeds=seeds,
            plan=plan,
            section="placebo",
            caller=caller,
        )[0]
        for arm in arms
    )
    told = Placebos(contrasts=found, rate=None)
    if told.judged < RATE_FROM:
        return told
    return Placebos(
        contrasts=found,
        rate=caller.call(("placebo", "rate"), wilson, {"found": told.found, "arms": told.judged}),
    )


@made_with("statsmodels.stats.proportion.proportion_confint")
def wilson(found: int, arms: int) -> Rate:
    """A rate with its 95 % Wilson interval."""
    low, high = proportion_confint(found, arms, method="wilson")
    return Rate(found=found, arms=arms, rate=found / arms, low=float(low), high=float(high))
