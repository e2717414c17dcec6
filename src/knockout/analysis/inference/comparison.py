"""A comparison: all results for a baseline and its variants on one metric, with the trace of every number.

`compare_runs` is what a study's report and `knockout.analysis.external.compare` have in common.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from knockout.analysis.inference.aa_test import Placebos, placebos
from knockout.analysis.inference.contrasts import Contrast, Correctness, contrasts
from knockout.analysis.inference.family import family_of
from knockout.analysis.inference.floors import Gap, gaps
from knockout.analysis.inference.interactions import Crossing, crossings
from knockout.analysis.inference.pairs import Seed, rows_of
from knockout.analysis.inference.secondary import Secondary, secondary
from knockout.analysis.inference.sequential import Sequential, sequential
from knockout.analysis.stats.e_process import Process
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.trace import Trace, recording
from knockout.job import Floor
from knockout.study import Plan

ANYTIME_NOTE = (
    "Seeds were added until all was decided, and only the e-process allows for that. Intervals, the tests beside it,"
    " placebo arms and secondary metrics are those of a fixed number of seeds, and promise too much; effects of"
    " factorials are not reported."
)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All results for a baseline and its variants on one metric."""

    metric: Metric
    baseline: str
    seeds: tuple[Seed, ...]
    plan: Plan
    contrasts: tuple[Contrast, ...]
    """one per variant, in the order given: the family"""
    secondary: tuple[Secondary, ...]
    """other metrics: exploratory, corrected for the false discovery rate"""
    crossings: tuple[Crossing, ...]
    """full factorials with their main effects and interactions, each a family of its own"""
    placebos: Placebos | None
    """arms that are the baseline on other streams, judged one by one outside the family"""
    sequential: Sequential | None
    """where seeds were added until all was decided: the e-process that decided"""
    notes: tuple[str, ...]
    """what was changed or left out of the input, in words"""
    trace: Trace
    floors: Mapping[str, Gap] = field(default_factory=dict)
    """what a simpler model is called -> the baseline's gap to it; empty where none is known"""

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(c.variant for c in self.contrasts)

    def __getitem__(self, variant: str) -> Contrast:
        """The contrast of a variant. Raises `KeyError` for a name that was not compared."""
        for contrast in self.contrasts:
            if contrast.variant == variant:
                return contrast
        raise KeyError(variant)


def compare_runs(
    runs: pd.DataFrame,
    *,
    metric: Metric,
    baseline: str,
    variants: Sequence[str],
    seeds: Sequence[Seed],
    plan: Plan,
    size: int = 0,
    others: Mapping[str, Metric] | None = None,
    changes: Mapping[str, Mapping[str, object]] | None = None,
    crossed: Sequence[Sequence[str]] = (),
    placebo_arms: Sequence[str] = (),
    anytime: Process | None = None,
    correctness: Correctness | None = None,
    floors: Sequence[Floor] = (),
    notes: Sequence[str] = (),
) -> Comparison:
    """All results for `variants` against `baseline`.

    `runs`: variant, seed, status, failed, value (of `metric`); one column for each secondary metric in `others`
    (column -> metric). `changes`: variant -> what it changes, for the factorials among them; `crossed`: those that were
    planned, by their axes. `size`: K where it is larger than the number of variants. `anytime`: the e-process where
    seeds were added until all was decided. `floors`: what simpler models reach on the same test examples.
    """
    with recording(Trace()) as trace:
        rows = rows_of(runs)
        family = family_of(rows, metric=metric, plan=plan, baseline=baseline, variants=variants, seeds=seeds, size=size)
        judged = contrasts(family, rows, correctness)
        decided = None
        if anytime is not None:
            decided = sequential(family, anytime)
            judged = [_by_e_process(c, decided) for c in judged]
        other_metrics = secondary(runs, others or {}, family)
        factorials = crossings(rows, changes or {}, family, asked=crossed) if decided is None else ()
        aa_test = placebos(rows, placebo_arms, family)
        of_floors = gaps(rows, floors, baseline=baseline, metric=metric)
    return Comparison(
        metric=metric,
        baseline=baseline,
        seeds=tuple(seeds),
        plan=plan,
        contrasts=tuple(judged),
        secondary=other_metrics,
        crossings=factorials,
        placebos=aa_test,
        sequential=decided,
        notes=(*notes, *([ANYTIME_NOTE] if decided is not None else [])),
        trace=trace,
        floors=of_floors,
    )


def _by_e_process(contrast: Contrast, decided: Sequential) -> Contrast:
    """The contrast with the verdict of the e-process, without what belongs to a t test that decides."""
    return replace(
        contrast,
        judgement=decided.judgements[contrast.variant],
        sensitivity=replace(contrast.sensitivity, disagree=()),
        normal_theory_only=False,
        left_out=(),
    )
