"""Secondary metrics: the same contrasts on other metrics, exploratory, with the false discovery rate controlled."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from knockout.analysis.inference.family import Family, family_of
from knockout.analysis.inference.pairs import Arm, Estimate, alive, arm, complete, estimate, rows_of
from knockout.analysis.inference.verdict import Test, Tested, planned_test
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.multiplicity import benjamini_hochberg
from knockout.analysis.stats.trace import traced, traced_each


@dataclass(frozen=True, kw_only=True)
class Secondary:
    """One variant on one secondary metric. No verdict: what is seen here is for another study to test."""

    metric: Metric
    variant: str
    arm: Arm
    """the variant's runs on this metric"""
    baseline: Arm
    estimate: Estimate | None
    test: Test
    p: float | None
    p_bh: float
    """over all variants and secondary metrics; a missing p counts as 1"""


def secondary(runs: pd.DataFrame, metrics: Mapping[str, Metric], family: Family) -> tuple[Secondary, ...]:
    """Every contrast of `family` on every secondary metric. `metrics`: the column of `runs` that holds it -> metric."""
    if not metrics:
        return ()  # no correction of nothing in the trace
    tests: list[tuple[Metric, str, Estimate | None, Tested]] = []
    arms: dict[tuple[str, str], Arm] = {}
    for column, metric in metrics.items():
        rows = rows_of(runs, column)
        own = family_of(
            rows,
            metric=metric,
            plan=family.plan,
            baseline=family.baseline,
            variants=family.names,
            seeds=family.seeds,
            section="secondary",
        )
        for name in (family.baseline, *family.names):
            values, results, failures = alive([rows[name, s] for s in family.seeds if (name, s) in rows])
            arms[metric.name, name] = traced(
                (own.section, metric.name, name, "arm"), arm, values, results, failures, metric.scale
            )
        for variant, pairs in own.pairs.items():
            of = (own.section, metric.name, variant)
            tested = planned_test(pairs, of, metric=metric, margin=None)
            estimated = traced(of, estimate, *complete(pairs), metric.scale, metric.sign, rounding=metric.rounding)
            tests.append((metric, variant, estimated, tested))
    names = [f"{metric.name} {variant}" for metric, variant, _, _ in tests]
    adjusted = traced_each(("secondary", "p_bh"), names, benjamini_hochberg, [tested.p for *_, tested in tests])
    return tuple(
        Secondary(
            metric=metric,
            variant=variant,
            arm=arms[metric.name, variant],
            baseline=arms[metric.name, family.baseline],
            estimate=estimated,
            test=tested.test,
            p=tested.p,
            p_bh=p_bh,
        )
        for (metric, variant, estimated, tested), p_bh in zip(tests, adjusted, strict=True)
    )
