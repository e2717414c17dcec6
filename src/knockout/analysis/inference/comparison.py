"""A comparison: everything that is said of a baseline and its variants on one metric, with the trace of every number.

`compare_runs` is what a study's report and `knockout.analysis.external.compare` have in common.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from knockout.analysis.inference.aa_test import Placebos, placebos
from knockout.analysis.inference.contrasts import Contrast, Correctness, contrasts
from knockout.analysis.inference.interactions import Crossing, crossings
from knockout.analysis.inference.pairs import Seed
from knockout.analysis.inference.secondary import Secondary, secondary
from knockout.analysis.inference.sequential import Sequential, sequential
from knockout.analysis.stats.e_process import Process
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.trace import Trace
from knockout.study import Plan


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What `compare` returns. Printed, it is one sentence per contrast."""

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
    """what was made of the input, in words"""
    trace: Trace

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(c.variant for c in self.contrasts)

    def sentences(self) -> list[str]:
        """One sentence in words for each contrast, with its verdict, its numbers and what limits it."""
        from knockout.analysis.report.sentences import sentence

        return [sentence(c) for c in self.contrasts]

    def table(self) -> pd.DataFrame:
        """Every number of every contrast, one row per variant: what `contrasts.csv` holds."""
        from knockout.analysis.report.tables import contrast_table

        return contrast_table(self.contrasts, {})

    def __getitem__(self, variant: str) -> Contrast:
        """The contrast of a variant. Raises `KeyError` for a name that was not compared."""
        for contrast in self.contrasts:
            if contrast.variant == variant:
                return contrast
        raise KeyError(variant)

    def __str__(self) -> str:
        from knockout.analysis.report.sentences import effect_sentence, secondary_sentence, title

        head = (
            f"{title(self.metric)} ({self.metric.better} is better) against {self.baseline}, {len(self.seeds)} seeds,"
            f" margin {self.metric.size(self.plan.margin)}"
        )
        effects = [effect_sentence(e, self.metric) for crossing in self.crossings for e in crossing.effects]
        others = [secondary_sentence(s) for s in self.secondary]
        return "\n".join([head, *self.sentences(), *effects, *others, *self.notes])


def compare_runs(
    runs: pd.DataFrame,
    *,
    metric: Metric,
    baseline: str,
    variants: Sequence[str],
    seeds: Sequence[Seed],
    plan: Plan,
    family: int | None = None,
    others: Mapping[str, Metric] | None = None,
    changes: Mapping[str, Mapping[str, object]] | None = None,
    crossed: Sequence[Sequence[str]] = (),
    placebo_arms: Sequence[str] = (),
    anytime: Process | None = None,
    correctness: Correctness | None = None,
    notes: Sequence[str] = (),
) -> Comparison:
    """Everything about `variants` against `baseline`.

    `runs`: variant, seed, status, failed, value (of `metric`); one column for each secondary metric in `others`
    (column -> metric). `changes`: variant -> what it changes, for the factorials among them; `crossed`: those that were
    planned, by their axes. `family`: K where it is larger than the number of variants. `anytime`: the e-process where
    seeds were added until all was decided.
    """
    trace = Trace()
    found = contrasts(
        runs,
        metric=metric,
        baseline=baseline,
        variants=variants,
        seeds=seeds,
        plan=plan,
        family=family,
        correctness=correctness,
        caller=trace,
    )
    decided = None
    if anytime is not None:
        decided = sequential(found, process=anytime, plan=plan, metric=metric, caller=trace)
        found = [
            dataclasses.replace(
                c,
                judgement=j,
                companions=dataclasses.replace(c.companions, disagree=()),  # with a t test, which decides nothing here
                normal_theory_only=False,
                left_out=(),
            )
            for c, j in zip(found, decided.judgements, strict=True)
        ]
    told = list(notes)
    if decided is not None:
        told.append(
            "Seeds were added until all was decided, and only the e-process allows for that. Intervals, the tests"
            " beside it, placebo arms and secondary metrics are those of a fixed number of seeds, and promise too much;"
            " effects of factorials are not told."
        )
    return Comparison(
        metric=metric,
        baseline=baseline,
        seeds=tuple(seeds),
        plan=plan,
        contrasts=tuple(found),
        secondary=secondary(runs, others or {}, baseline=baseline, variants=variants, seeds=seeds, caller=trace),
        crossings=()
        if decided is not None
        else crossings(
            runs, changes or {}, asked=crossed, metric=metric, baseline=baseline, seeds=seeds, plan=plan, caller=trace
        ),
        placebos=placebos(runs, placebo_arms, metric=metric, baseline=baseline, seeds=seeds, plan=plan, caller=trace),
        sequential=decided,
        notes=tuple(told),
        trace=trace,
    )
