"""The unpaired comparison: each variant's runs against the baseline's, where nothing says which runs share a seed.

It is the weaker comparison: what two runs of one seed have in common (the order of the batches, the start) is noise
here, and a baseline run is part of every contrast. The plan is the same otherwise: Welch's t test in place of the
paired one, its two one-sided tests for equivalence, Holm over the variants, failed runs ranked below all others by a
rank-sum test, and no test while a run has no result.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from knockout.analysis.inference.pairs import Arm, Rows, alive, arm, rows_of
from knockout.analysis.inference.sensitivity import own_seed
from knockout.analysis.inference.verdict import Verdict, by_both_tests
from knockout.analysis.stats.effect_sizes import cliffs_delta
from knockout.analysis.stats.independent import (
    Permuted,
    permuted_means,
    rank_direction,
    rank_sum_floor,
    rank_sum_test,
    welch,
    welch_tost,
)
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.multiplicity import holm
from knockout.analysis.stats.numeric import ROUNDING
from knockout.analysis.stats.power import UnpairedNeeds, unpaired_needs
from knockout.analysis.stats.trace import Trace, recording, traced, traced_each
from knockout.study import Plan

Test = Literal["Welch t", "worst-rank rank sum", "exact (no spread)", "none"]

FEWEST = 3
"""Runs of each arm from which anything is tested, as pairs in a paired comparison."""


@dataclass(frozen=True, kw_only=True)
class UnpairedEstimate:
    """The difference of two means, variant minus baseline, over the runs that did not fail. In the metric's unit."""

    difference: float
    low: float | None
    """95 % Welch interval; none under three runs in an arm, nor where neither arm has any spread"""
    high: float | None
    df: float | None
    """Welch and Satterthwaite's degrees of freedom"""
    t: float | None
    d_av: float | None
    """difference / mean of the two arms' sds (Lakens 2013, equation 10)"""
    cliffs_delta: float
    """P(variant > baseline) - P(variant < baseline), over all pairs of runs (Cliff 1993)"""


@dataclass(frozen=True, kw_only=True)
class UnpairedContrast:
    """One variant against the baseline, without pairs. p values are two-sided unless said; None: not tested."""

    variant: str
    metric: Metric
    family: int
    """K: the contrasts that Holm corrects over"""
    alpha: float
    margin: float
    power: float
    """of `needs`"""
    planned: tuple[int, int]
    """runs of the variant and of the baseline, with and without a result"""
    arm: Arm
    baseline: Arm
    estimate: UnpairedEstimate | None
    needs: UnpairedNeeds | None
    """the minimum detectable difference; none where runs failed, and where the sds are not known or both 0"""
    test: Test
    p: float | None
    p_holm: float
    """a missing p counts as 1"""
    p_tost: float | None
    """the larger of the two one-sided Welch p at +-margin"""
    p_tost_holm: float
    rank_sum: Permuted | None
    """beside Welch's test, which decides; of contrasts without failures"""
    rank_sum_holm: float
    permuted: Permuted | None
    """of the difference of means, likewise"""
    permuted_holm: float
    direction: int
    """1 where the variant did better, -1 where worse"""
    verdict: Verdict
    reason: str
    """which line of the verdict rule applied, in words"""

    @property
    def missing(self) -> int:
        """Runs of either arm without a result."""
        return sum(self.planned) - self.arm.runs - self.baseline.runs

    @property
    def failures(self) -> int:
        return self.arm.failures + self.baseline.failures

    @property
    def disagree(self) -> tuple[str, ...]:
        """Which of the tests beside Welch's lie on the other side of alpha."""
        others = {"rank-sum": (self.rank_sum, self.rank_sum_holm), "permutation": (self.permuted, self.permuted_holm)}
        differs = self.p_holm <= self.alpha
        return tuple(
            name
            for name, (found, p) in others.items()
            if self.test == "Welch t" and found is not None and (p <= self.alpha) != differs
        )


@dataclass(frozen=True, kw_only=True)
class UnpairedComparison:
    """All unpaired contrasts with one baseline on one metric."""

    metric: Metric
    baseline: str
    plan: Plan
    contrasts: tuple[UnpairedContrast, ...]
    notes: tuple[str, ...]
    trace: Trace

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(c.variant for c in self.contrasts)


@dataclass(frozen=True, kw_only=True)
class Arms:
    """The results of a variant and of the baseline, as the metric stores them; planned: with those without a result."""

    variant: Sequence[float]
    baseline: Sequence[float]
    planned: tuple[int, int]
    results: tuple[int, int]
    failed: tuple[int, int]

    def ranked(self, sign: int) -> tuple[list[float], list[float]]:
        """The values, higher is better; a failed run is -inf."""
        of = zip((self.variant, self.baseline), self.failed, strict=True)
        a, b = ([*(sign * x for x in values), *[-math.inf] * failed] for values, failed in of)
        return a, b


@dataclass(frozen=True, kw_only=True)
class _Tested:
    test: Test = "none"
    p: float | None = None
    p_tost: float | None = None
    direction: int = 0


@dataclass(frozen=True, kw_only=True)
class UnpairedJudgement:
    """The planned test of one contrast, and its verdict. Nothing else decides."""

    tested: _Tested
    p_holm: float
    p_tost_holm: float
    verdict: Verdict
    reason: str


def compare_unpaired_runs(
    runs: pd.DataFrame,
    *,
    metric: Metric,
    baseline: str,
    variants: Sequence[str],
    plan: Plan,
    notes: Sequence[str] = (),
) -> UnpairedComparison:
    """All contrasts of `variants` with `baseline`, unpaired.

    `runs`: variant, seed (any label that is unique in a variant), status, failed, value (of `metric`).
    """
    with recording(Trace()) as trace:
        rows = rows_of(runs)
        arms = {name: _arms(rows, name, baseline) for name in variants}
        contrasts = _contrasts(arms, metric, plan)
    return UnpairedComparison(
        metric=metric, baseline=baseline, plan=plan, contrasts=tuple(contrasts), notes=tuple(notes), trace=trace
    )


def _arms(rows: Rows, variant: str, baseline: str) -> Arms:
    of = {name: [row for (owner, _), row in rows.items() if owner == name] for name in (variant, baseline)}
    (a, runs_a, failed_a), (b, runs_b, failed_b) = alive(of[variant]), alive(of[baseline])
    return Arms(
        variant=level(a),
        baseline=level(b),
        planned=(len(of[variant]), len(of[baseline])),
        results=(runs_a, runs_b),
        failed=(failed_a, failed_b),
    )


def level(values: Sequence[float]) -> list[float]:
    """The values; one number throughout where they differ by rounding only, since a t test would see a spread."""
    values = list(values)
    if values and max(values) - min(values) <= ROUNDING * max(map(abs, values)):
        return [values[0]] * len(values)
    return values


def judge_unpaired(arms: Mapping[str, Arms], metric: Metric, plan: Plan) -> dict[str, UnpairedJudgement]:
    """The verdict on each variant, all of which are one family."""
    names, k = list(arms), len(arms)
    tests = {name: _planned_test(own, ("unpaired", name), metric, plan.margin) for name, own in arms.items()}
    raw = [t.p for t in tests.values()]
    p_holm = _adjusted("p_holm", names, raw)
    p_tost = _adjusted("p_tost_holm", names, [t.p_tost for t in tests.values()])
    judged = {}
    for i, (name, own) in enumerate(arms.items()):
        tested = tests[name]
        reaches = True
        if tested.test == "worst-rank rank sum":  # could the smallest p of that test have been enough?
            at_floor = [*raw[:i], rank_sum_floor(*own.results), *raw[i + 1 :]]
            reaches = holm(at_floor, k)[i] <= plan.alpha
        verdict, reason = _verdict(own, tested, p_holm[i], p_tost[i], reaches=reaches, metric=metric, plan=plan)
        judged[name] = UnpairedJudgement(
            tested=tested, p_holm=p_holm[i], p_tost_holm=p_tost[i], verdict=verdict, reason=reason
        )
    return judged


def _adjusted(what: str, names: Sequence[str], p: Sequence[float | None]) -> tuple[float, ...]:
    return traced_each(("unpaired", what), names, holm, list(p), len(names))


def _contrasts(arms: Mapping[str, Arms], metric: Metric, plan: Plan) -> list[UnpairedContrast]:
    names, k = list(arms), len(arms)
    judged = judge_unpaired(arms, metric, plan)
    beside = {name: _beside(own, ("unpaired", name), name, metric, plan) for name, own in arms.items()}
    p_rank = _adjusted("rank_sum_holm", names, [None if r is None else r.p for r, _ in beside.values()])
    p_means = _adjusted("permuted_holm", names, [None if m is None else m.p for _, m in beside.values()])
    contrasts = []
    for i, (name, own) in enumerate(arms.items()):
        rank_sum, permuted = beside[name]
        of, found = ("unpaired", name), judged[name]
        contrasts.append(
            UnpairedContrast(
                variant=name,
                metric=metric,
                family=k,
                alpha=plan.alpha,
                margin=plan.margin,
                power=plan.power,
                planned=own.planned,
                arm=traced((*of, "arm"), arm, own.variant, own.results[0], own.failed[0], metric.scale),
                baseline=traced((*of, "baseline"), arm, own.baseline, own.results[1], own.failed[1], metric.scale),
                estimate=traced((*of, "estimate"), unpaired_estimate, own.variant, own.baseline, metric.scale),
                needs=_needs(own, of, metric, plan, k),
                test=found.tested.test,
                p=found.tested.p,
                p_holm=found.p_holm,
                p_tost=found.tested.p_tost,
                p_tost_holm=found.p_tost_holm,
                rank_sum=rank_sum,
                rank_sum_holm=p_rank[i],
                permuted=permuted,
                permuted_holm=p_means[i],
                direction=found.tested.direction,
                verdict=found.verdict,
                reason=found.reason,
            )
        )
    return contrasts


def _needs(arms: Arms, of: Sequence[str], metric: Metric, plan: Plan, k: int) -> UnpairedNeeds | None:
    """What the planned runs could detect; `None` where runs failed, and where the sds do not say."""
    a, b = arms.variant, arms.baseline
    if any(arms.failed) or min(len(a), len(b)) < FEWEST or (len(set(a)) == 1 and len(set(b)) == 1):
        return None
    sd, sd_baseline = (float(np.std(x, ddof=1)) * metric.scale for x in (a, b))
    n, n_baseline = arms.planned
    return traced((*of, "needs"), unpaired_needs, sd, sd_baseline, n, n_baseline, k, plan.alpha, plan.power)


def unpaired_estimate(variant: Sequence[float], baseline: Sequence[float], scale: float) -> UnpairedEstimate | None:
    """The estimate over the runs that did not fail; `None` where an arm has none. `scale`: the metric's."""
    if not variant or not baseline:
        return None
    a, b = np.array(variant, dtype=float), np.array(baseline, dtype=float)
    both = min(len(a), len(b)) >= FEWEST
    spread = float(np.std(a, ddof=1) + np.std(b, ddof=1)) / 2 if both else 0.0
    difference = float(a.mean() - b.mean())
    difference = 0.0 if abs(difference) <= ROUNDING * max(map(abs, (*variant, *baseline))) else difference
    found = welch(variant, baseline) if both and (len(set(variant)) > 1 or len(set(baseline)) > 1) else None
    return UnpairedEstimate(
        difference=difference * scale,
        low=None if found is None else found.low * scale,
        high=None if found is None else found.high * scale,
        df=None if found is None else found.df,
        t=None if found is None else found.t,
        d_av=difference / spread if found is not None and spread else None,
        cliffs_delta=cliffs_delta(variant, baseline),
    )


def _planned_test(arms: Arms, of: Sequence[str], metric: Metric, margin: float) -> _Tested:
    """The planned test. None for two runs or fewer in an arm, or while a run has no result."""
    if min(arms.planned) < FEWEST or arms.planned != arms.results:
        return _Tested()
    a, b = arms.variant, arms.baseline
    if any(arms.failed):
        ranked = arms.ranked(metric.sign)
        p = traced((*of, "p"), rank_sum_test, *ranked).p
        return _Tested(test="worst-rank rank sum", p=p, direction=traced((*of, "direction"), rank_direction, *ranked))
    bound = margin / metric.scale
    difference = float(np.mean(a)) - float(np.mean(b))
    direction = metric.sign * int(np.sign(difference))
    if len(set(a)) == 1 and len(set(b)) == 1:  # t would be infinite, and p 0
        same = level([a[0], b[0]])
        p = rank_sum_floor(len(a), len(b)) if same[0] != same[1] else 1.0
        p_tost = rank_sum_floor(len(a), len(b)) / 2 if abs(same[0] - same[1]) < bound else 1.0
        return _Tested(test="exact (no spread)", p=p, p_tost=p_tost, direction=direction if same[0] != same[1] else 0)
    found = traced((*of, "p"), welch, a, b)
    p_tost = traced((*of, "p_tost"), welch_tost, a, b, bound)
    return _Tested(test="Welch t", p=found.p, p_tost=p_tost, direction=direction)


def _beside(
    arms: Arms, of: Sequence[str], name: str, metric: Metric, plan: Plan
) -> tuple[Permuted | None, Permuted | None]:
    """The rank-sum test, and the permutation test of the means: where nothing failed and nothing is missing."""
    if min(arms.planned) < FEWEST or arms.planned != arms.results or any(arms.failed):
        return None, None
    a, b = arms.variant, arms.baseline
    ranks = traced((*of, "rank_sum"), rank_sum_test, *arms.ranked(metric.sign))
    return ranks, traced((*of, "permuted"), permuted_means, a, b, plan.draws, own_seed(plan, name))


def _verdict(
    arms: Arms, tested: _Tested, p: float, p_tost: float, *, reaches: bool, metric: Metric, plan: Plan
) -> tuple[Verdict, str]:
    """The first line of the rule that applies, and that line in words. Both p are Holm-adjusted."""
    alpha, margin = plan.alpha, metric.size(plan.margin)
    direction: Verdict = "better" if tested.direction > 0 else "worse"
    if min(arms.planned) < FEWEST:
        fewest = min(arms.planned)
        return "undecidable by design", (
            f"{fewest} run{'' if fewest == 1 else 's'} in an arm: no inference from fewer than {FEWEST}"
        )
    if arms.planned != arms.results:
        lost, of = sum(arms.planned) - sum(arms.results), sum(arms.planned)
        return "inconclusive", f"{lost} of {of} runs have no result yet: nothing is tested before"
    if tested.test == "worst-rank rank sum":
        if p <= alpha and tested.direction:
            return direction, f"runs failed: worst-rank rank-sum test, unpaired, p <= {alpha:g}"
        if not reaches:
            least = rank_sum_floor(*arms.results)
            return "undecidable by design", (
                f"runs failed, and the smallest p of the rank-sum test at {arms.results[0]} against {arms.results[1]}"
                f" runs ({least:.3g}) is over {alpha:g} after Holm"
            )
        return "inconclusive", f"runs failed: worst-rank rank-sum test, p > {alpha:g}; never trivial or equivalent"
    return by_both_tests(p, p_tost, alpha=alpha, margin=margin, direction=direction, design=", unpaired")
