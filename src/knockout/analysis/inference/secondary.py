"""Secondary metrics: the same contrasts on other metrics, exploratory, with the false discovery rate controlled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from knockout.analysis.inference.pairs import Estimate, Row, Seed, complete, estimate, pair
from knockout.analysis.inference.verdict import Test, planned_test
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.multiplicity import benjamini_hochberg
from knockout.analysis.stats.trace import Caller


@dataclass(frozen=True, kw_only=True)
class Secondary:
    """One variant on one secondary metric. No verdict: what is seen here is for another study to test."""

    metric: Metric
    variant: str
    estimate: Estimate | None
    test: Test
    p: float | None
    p_bh: float
    """over all variants and secondary metrics; a missing p counts as 1"""


def secondary(
    runs: pd.DataFrame,
    metrics: Mapping[str, Metric],
    *,
    baseline: str,
    variants: Sequence[str],
    seeds: Sequence[Seed],
    caller: Caller,
) -> tuple[Secondary, ...]:
    """Every variant on every secondary metric. `metrics`: the column of `runs` that holds it -> metric."""
    if not metrics:
        return ()  # no correction of nothing in the account
    found = []
    for column, metric in metrics.items():
        rows = rows_of(runs, column)
        for variant in variants:
            pairs = [pair(s, rows.get((variant, s)), rows.get((baseline, s)), metric) for s in seeds]
            of = ("secondary", metric.name, variant)
            tested = planned_test(pairs, of, metric=metric, margin=None, caller=caller)
            a, b = complete(pairs)
            given = {"variant": a, "baseline": b, "worth": metric.worth, "sign": metric.sign}
            found.append((metric, variant, caller.call(of, estimate, given), tested))
    names = [f"{metric.name} {variant}" for metric, variant, _, _ in found]
    raw = [tested.p for *_, tested in found]
    adjusted = caller.call(("secondary", "p_bh"), benjamini_hochberg, {"p": raw}, items=names)
    return tuple(
        Secondary(metric=metric, variant=variant, estimate=estimated, test=tested.test, p=tested.p, p_bh=p_bh)
        for (metric, variant, estimated, tested), p_bh in zip(found, adjusted, strict=True)
    )


def rows_of(runs: pd.DataFrame, column: str) -> dict[tuple[str, Seed], Row]:
    """(variant, seed) -> the run, with the values of `column` as those of the metric.

    A run that did not fail and has no value there is missing: it would be a pair with half its numbers.
    """
    rows: dict[tuple[str, Seed], Row] = {}
    for record in runs.assign(value=runs[column]).to_dict("records"):
        row = {str(k): v for k, v in record.items()}
        if not row["failed"] and pd.isna(row["value"]):
            row["status"] = "missing"
        rows[str(row["variant"]), row["seed"]] = row
    return rows
