"""Instability of the runs of a study: every measure of every run, and each variant against the baseline on each.

The rules are in analysis/RULES.md, "Instability of loss curves". Nothing here changes a verdict.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from knockout.analysis.inference.curve_counts import ArmCounts, arm_counts
from knockout.analysis.inference.curve_metrics import METRICS, CurveMetric, Setting, measure, prepare
from knockout.analysis.inference.instability_cells import (
    RATES,
    TIME,
    Cell,
    Draft,
    compared,
    corrected,
    exact_decides,
    failure_cells,
)
from knockout.analysis.inference.learning_rates import RateGroup, RateSensitivity, rate_sensitivity
from knockout.analysis.inference.seed_spread import SeedSpread, seed_spread
from knockout.analysis.inference.thresholds import Reaching, reaching
from knockout.analysis.stats.curve import RunCurve
from knockout.plan import Plan

Seed = int | str


@dataclass(frozen=True, kw_only=True)
class Instability:
    """All that is known about how unstable runs are."""

    baseline: str
    variants: tuple[str, ...]
    """without the baseline"""
    seeds: tuple[Seed, ...]
    alpha: float
    values: pd.DataFrame
    """One row per run and measure: variant, seed, metric, value (NaN where missing), ranked (whether the run counts as
    the worst on it, because it failed or never descended)"""
    cells: tuple[Cell, ...]
    """by measure, then by variant; exploratory, Benjamini-Hochberg over all that count"""
    missing: Mapping[str, str]
    """measure -> why no run has it, in words"""
    entropy: float
    """H: of the training labels, nats; where these are not known, the baseline's median first loss"""
    labels_known: bool
    counts: Mapping[str, ArmCounts]
    """arm -> failures, flat lines, runs that blew up, spikes; the baseline among them"""
    reaching: Reaching | None
    """time to the threshold; `None` without a probe"""
    spread: tuple[SeedSpread, ...]
    """spread of the loss over seeds, one per arm"""
    rates: RateSensitivity | None
    """sensitivity to the learning rate, where variants differ in it alone"""

    def cell(self, variant: str, metric: str) -> Cell | None:
        return next((c for c in self.cells if (c.variant, c.metric) == (variant, metric)), None)

    def cell_frame(self) -> pd.DataFrame:
        """The cells as a table: the fields of `Cell`, with ratio and difference instead of estimate."""
        rows = [{**asdict(c), "ratio": c.ratio, "difference": c.difference} for c in self.cells]
        head = ["variant", "metric", "scale", "ratio", "difference", "low", "high", "n", "n_planned", "ranked"]
        return pd.DataFrame(rows, columns=[*head, "test", "p", "p_bh", "label", "reason"])

    def wide(self) -> pd.DataFrame:
        """One row per run: variant, seed, and a column for each measure that any run has."""
        table = self.values.pivot(index=["variant", "seed"], columns="metric", values="value")
        runs = list(dict.fromkeys(zip(self.values["variant"], self.values["seed"], strict=True)))
        names = [m for m in self.values["metric"].unique() if m not in self.missing]
        return table.reindex(
            index=pd.MultiIndex.from_tuples(runs, names=["variant", "seed"]), columns=names
        ).reset_index()

    def paired(self, variant: str, metric: str) -> tuple[list[float | None], list[float | None]]:
        """The values of a variant and of the baseline, seed by seed: infinite where a run ranks as the worst, `None`
        where there is none. Raises `KeyError` for a measure that is not tested."""
        ours, theirs = _paired(_table(self.values, metric), [variant], self.baseline, self.seeds, METRICS[metric])
        return ours[0], theirs


def instability_of(
    curves: Sequence[RunCurve],
    *,
    baseline: str,
    plan: Plan,
    variants: Sequence[str] | None = None,
    seeds: Sequence[Seed] | None = None,
    entropy: float | None = None,
    majority: float | None = None,
    other_batches: Collection[str] = (),
    rate_groups: Sequence[RateGroup] = (),
) -> Instability:
    """Every measure of every run, and every variant against the baseline on each.

    `curves`: the runs that came to a result, at most one for each variant and seed. `variants` and `seeds`: what was
    planned, without the baseline; by default what there is. `entropy`: of the training labels, nats. `majority`: the
    share of the commonest training label. `other_batches`: variants whose batches hold other examples than the
    baseline's. `rate_groups`: variants that differ in the learning rate alone. Raises `ValueError` for a run that
    stands twice, and where the baseline has no curve.
    """
    runs = {(c.variant, c.seed): c for c in curves}
    if len(runs) < len(curves):
        raise ValueError("a run stands twice")
    if not any(c.variant == baseline for c in curves):
        raise ValueError(f"no curve of the baseline, {baseline}")
    names = tuple(dict.fromkeys(c.variant for c in curves if c.variant != baseline) if variants is None else variants)
    planned = tuple(dict.fromkeys(c.seed for c in curves) if seeds is None else seeds)
    setting = Setting(
        entropy=_first_loss([c for c in curves if c.variant == baseline]) if entropy is None else entropy,
        labels_known=entropy is not None,
    )
    values = _values(runs, (baseline, *names), planned, baseline, setting, other_batches)
    missing = {m: f"not logged: {METRICS[m].needs}" for m in METRICS if _absent(values, m, baseline)}
    arms = {v: [runs.get((v, s)) for s in planned] for v in (baseline, *names)}
    reached = reaching(arms, baseline=baseline, majority=majority)
    rates = rate_sensitivity(rate_groups, arms, baseline=baseline, seeds=planned)
    drafts = [
        *failure_cells(arms, baseline),
        *(
            draft
            for metric in METRICS.values()
            if metric.tested and metric.name not in missing
            for draft in _drafts(metric, values, baseline, names, planned, plan)
        ),
    ]
    if reached is not None:
        exact = exact_decides(len(planned), plan.alpha)
        of = [reached.steps[v] for v in names]
        drafts += compared(TIME, names, of, reached.steps[baseline], ratio=True, exact=exact)
    if rates is not None:
        others = [g for g in rates.groups if g.name != baseline]
        base = next((g for g in rates.groups if g.name == baseline), None)
        if base is not None and others:
            exact = exact_decides(len(planned), plan.alpha)
            given = [list(g.sensitivity) for g in others]
            positive = all(x is None or x > 0 for own in (*given, list(base.sensitivity)) for x in own)
            drafts += compared(
                RATES, [g.name for g in others], given, list(base.sensitivity), ratio=positive, exact=exact
            )
    return Instability(
        baseline=baseline,
        variants=names,
        seeds=planned,
        alpha=plan.alpha,
        values=values,
        cells=corrected(drafts, plan.alpha),
        missing=missing,
        entropy=setting.entropy,
        labels_known=setting.labels_known,
        counts=arm_counts(arms, values),
        reaching=reached,
        spread=seed_spread(arms, plan=plan),
        rates=rates,
    )


def _first_loss(curves: Sequence[RunCurve]) -> float:
    """The median of the first losses."""
    first = [float(c.loss[0]) for c in curves if len(c.loss) and math.isfinite(c.loss[0])]
    return float(np.median(first)) if first else math.nan


def _values(
    runs: Mapping[tuple[str, Seed], RunCurve],
    names: Sequence[str],
    seeds: Sequence[Seed],
    baseline: str,
    setting: Setting,
    other_batches: Collection[str],
) -> pd.DataFrame:
    """The long table of `Instability.values`."""
    rows: list[tuple[str, Seed, str, float, bool]] = []
    for name in names:
        for seed in seeds:
            run = runs.get((name, seed))
            if run is None:
                continue
            base = None if name in other_batches or name == baseline else runs.get((baseline, seed))
            if base is not None and base.steps != run.steps:
                base = None  # so many batches of the same examples cannot be the same batches
            found = measure(prepare(run, base, setting))
            state = "diverged" if run.status == "diverged" else "dead" if run.dead else ""
            for metric in METRICS.values():
                value = found.get(metric.name)
                flat = value is not None and math.isnan(value)
                missing_of_failed = value is None and state != "" and state in (*metric.worst, "diverged")
                ranked = flat or state in metric.worst or missing_of_failed
                rows.append((name, seed, metric.name, math.nan if value is None else value, ranked))
    table = pd.DataFrame(rows, columns=["variant", "seed", "metric", "value", "ranked"])
    return table.astype({"value": float, "ranked": bool})


def _absent(values: pd.DataFrame, metric: str, baseline: str) -> bool:
    """Whether no run has the measure (of measures against the baseline's run: no variant's)."""
    rows = values[values["metric"] == metric]
    if METRICS[metric].against_zero:
        rows = rows[rows["variant"] != baseline]
    return not rows["value"].notna().any()


def _paired(
    table: Mapping[tuple[str, Seed], tuple[float, bool]],
    names: Sequence[str],
    baseline: str,
    seeds: Sequence[Seed],
    metric: CurveMetric,
) -> tuple[list[list[float | None]], list[float | None]]:
    """The values of each of `names`, and the baseline's, seed by seed. `table`: run -> value, whether it ranks as the
    worst. Of a measure of excess over the baseline's run, the baseline's is 0; where that run failed, so is another's
    that has none."""
    worst = metric.sign * math.inf

    def one(name: str, seed: Seed) -> float | None:
        value, ranked = table.get((name, seed), (math.nan, False))
        return worst if ranked else None if math.isnan(value) else value

    if not metric.against_zero:
        return [[one(name, s) for s in seeds] for name in names], [one(baseline, s) for s in seeds]
    base = {s: worst if table[baseline, s][1] else 0.0 for s in seeds if (baseline, s) in table}
    ours = [
        [0.0 if (x := one(name, s)) is None and base.get(s) == worst and (name, s) in table else x for s in seeds]
        for name in names
    ]
    return ours, [base.get(s) for s in seeds]


def _table(values: pd.DataFrame, metric: str) -> dict[tuple[str, Seed], tuple[float, bool]]:
    """Run -> its value of one measure, and whether it ranks as the worst."""
    rows = values[values["metric"] == metric]
    columns = (rows[name].tolist() for name in ("variant", "seed", "value", "ranked"))
    return {(variant, seed): (value, ranked) for variant, seed, value, ranked in zip(*columns, strict=True)}


def _drafts(
    metric: CurveMetric,
    values: pd.DataFrame,
    baseline: str,
    names: Sequence[str],
    seeds: Sequence[Seed],
    plan: Plan,
) -> list[Draft]:
    ours, theirs = _paired(_table(values, metric.name), names, baseline, seeds, metric)
    given = [x for column in (*ours, theirs) for x in column if x is not None and math.isfinite(x)]
    ratio = metric.ratio and min(given, default=1.0) > 0
    exact = exact_decides(len(seeds), plan.alpha)
    return compared(metric.name, names, ours, theirs, ratio=ratio, exact=exact, why=metric.needs)
