"""The verdict: the planned test of each contrast, Holm over the family, and the first line of the rule that applies.

The rule is in `analysis/RULES.md`, section "The verdict", lines 1 to 7. Only an e-process (`sequential`) replaces it.
`analysis/calibration` simulates the functions here, and they run again with each seed left out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats
from statsmodels.stats.weightstats import ttost_paired

from knockout.analysis.inference.family import Family
from knockout.analysis.inference.pairs import Pair, complete, differences, scale_of
from knockout.analysis.stats.exact import floor, rank_sum, worst_rank
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.multiplicity import holm
from knockout.analysis.stats.numeric import SMALLEST_P
from knockout.analysis.stats.trace import made_with, traced, traced_each
from knockout.study import Plan

Verdict = Literal["better", "worse", "trivial", "equivalent", "inconclusive", "undecidable by design"]
Test = Literal["t", "worst_rank", "exact (constant difference)", "e-process", "none"]


@dataclass(frozen=True, kw_only=True)
class Tested:
    """The planned test of one contrast, before any correction. p values are two-sided; None where nothing is tested."""

    test: Test = "none"
    p: float | None = None
    p_tost: float | None = None
    """the larger of the two one-sided p at +-margin"""
    direction: int = 0
    """1 where the variant did better, -1 where worse: of the mean difference, or of the rank sum where a run failed"""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The verdict on one contrast."""

    tested: Tested
    p_holm: float
    """a missing p counts as 1"""
    p_tost_holm: float
    verdict: Verdict
    reason: str
    """which line of the verdict rule applied, in words"""


def judge(family: Family) -> dict[str, Judgement]:
    """Name of each contrast -> its verdict, all judged as one family."""
    names, plan = family.names, family.plan
    tests = {
        name: planned_test(pairs, (family.section, name), metric=family.metric, margin=plan.margin)
        for name, pairs in family.pairs.items()
    }
    raw, equal = [t.p for t in tests.values()], [t.p_tost for t in tests.values()]
    adjusted = traced_each((family.section, "p_holm"), names, holm, raw, family.size)
    tost = traced_each((family.section, "p_tost_holm"), names, holm, equal, family.size)
    verdicts: dict[str, Judgement] = {}
    for i, (name, tested) in enumerate(tests.items()):
        pairs = family.pairs[name]
        reaches = True
        if tested.test == "worst_rank":  # could the smallest p of that test have been enough?
            at_floor = [*raw[:i], floor(len(pairs)), *raw[i + 1 :]]
            reaches = holm(at_floor, family.size)[i] <= plan.alpha
        verdict, reason = _verdict(
            [p.state for p in pairs], tested, adjusted[i], tost[i], reaches=reaches, metric=family.metric, plan=plan
        )
        verdicts[name] = Judgement(
            tested=tested, p_holm=adjusted[i], p_tost_holm=tost[i], verdict=verdict, reason=reason
        )
    return verdicts


def planned_test(pairs: Sequence[Pair], of: Sequence[str], *, metric: Metric, margin: float | None) -> Tested:
    """The planned test. None at all for two seeds or fewer, or while a pair is missing.

    `of`: where its numbers stand in the trace. `margin` in the metric's unit; equivalence is not tested without one.
    """
    if len(pairs) <= 2 or any(p.state == "missing" for p in pairs):
        return Tested()
    if any(p.state != "complete" for p in pairs):
        ranked = ranked_differences(pairs, metric)
        p = traced((*of, "p"), worst_rank, ranked)
        return Tested(test="worst_rank", p=p, direction=traced((*of, "direction"), ranked_direction, ranked))
    d = differences(*complete(pairs), metric.rounding)
    direction = traced((*of, "direction"), mean_direction, d, metric.sign)
    bound = None if margin is None else margin / metric.scale
    p_tost = None
    if len(set(d)) == 1:
        p = traced((*of, "p"), constant_p, d[0], len(d))
        if bound is not None:
            p_tost = traced((*of, "p_tost"), constant_tost, d[0], len(d), bound)
        return Tested(test="exact (constant difference)", p=p, p_tost=p_tost, direction=direction)
    p = traced((*of, "p"), paired_t, d)
    if bound is not None:
        p_tost = traced((*of, "p_tost"), tost_paired, d, bound)
    return Tested(test="t", p=p, p_tost=p_tost, direction=direction)


def ranked_differences(pairs: Sequence[Pair], metric: Metric) -> list[float]:
    """Differences for worst ranks, higher is better: a failed variant -inf, a failed baseline +inf, both failed 0."""
    whole = iter(differences(*complete(pairs), metric.rounding))
    failed = {"variant failed": -math.inf, "baseline failed": math.inf}
    return [metric.sign * next(whole) if p.state == "complete" else failed.get(p.state, 0.0) for p in pairs]


def ranked_direction(differences: Sequence[float]) -> int:
    """1 where the variant did better by the sum of signed ranks, -1 where worse, 0 where neither."""
    return int(np.sign(rank_sum(differences)))


def mean_direction(differences: Sequence[float], sign: int) -> int:
    """1 where the variant did better by the mean difference, -1 where worse; `sign`: -1 where lower is better."""
    return sign * int(np.sign(math.fsum(differences)))


@made_with("scipy.stats.ttest_1samp")
def paired_t(differences: Sequence[float]) -> float:
    """Two-sided p of the paired t test, under the null that the mean difference is 0. Differences must vary."""
    d = np.array(differences, dtype=float)
    return max(SMALLEST_P, float(stats.ttest_1samp(d / scale_of(differences), 0.0).pvalue))


@made_with("statsmodels.stats.weightstats.ttost_paired")
def tost_paired(differences: Sequence[float], margin: float) -> float:
    """p of two one-sided paired t tests, under the null that the mean difference is at or beyond +-margin."""
    unit = scale_of(differences)
    d = np.array(differences, dtype=float) / unit
    return max(SMALLEST_P, float(ttost_paired(d, np.zeros_like(d), -margin / unit, margin / unit)[0]))


def constant_p(difference: float, n: int) -> float:
    """Exact two-sided p where all n differences are one number, for which t would be inf and p = 0.

    Every pattern of signs is as likely as another, so the smallest p there is, 2^(1-n), is the p; 1 for no difference.
    """
    return floor(n) if difference else 1.0


def constant_tost(difference: float, n: int, margin: float) -> float:
    """Exact p of equivalence where all n differences are one number: 2^-n where it is under the margin, else 1."""
    return 0.5**n if abs(difference) < margin else 1.0


def _verdict(
    states: Sequence[str],
    tested: Tested,
    p: float,
    p_tost: float,
    *,
    reaches: bool,
    metric: Metric,
    plan: Plan,
) -> tuple[Verdict, str]:
    """The first line of the rule that applies, and that line in words. Both p are Holm-adjusted."""
    n, alpha, margin = len(states), plan.alpha, metric.size(plan.margin)
    direction: Verdict = "better" if tested.direction > 0 else "worse"
    if n <= 2:
        return "undecidable by design", f"{n} seed{'s' if n > 1 else ''}: no inference over seeds from fewer than 3"
    if "missing" in states:
        return "inconclusive", f"{states.count('missing')} of {n} pairs have no result yet: nothing is tested before"
    if tested.test == "worst_rank":
        if p <= alpha and tested.direction:
            return direction, f"runs failed: worst-rank test, p <= {alpha:g}"
        if not reaches:
            return "undecidable by design", (
                f"runs failed, and the smallest p of the worst-rank test at {n} seeds ({floor(n):.3g}) is over"
                f" {alpha:g} after Holm"
            )
        return "inconclusive", f"runs failed: worst-rank test, p > {alpha:g}; never trivial or equivalent"
    return by_both_tests(p, p_tost, alpha=alpha, margin=margin, direction=direction)


def by_both_tests(
    p: float, p_tost: float, *, alpha: float, margin: str, direction: Verdict, design: str = ""
) -> tuple[Verdict, str]:
    """The verdict of the test of a difference and of the equivalence test, both after Holm, and why.

    `margin` with its unit; `direction`: the verdict of a shown difference; `design`: what is said of how it was tested.
    """
    if p <= alpha and p_tost <= alpha:
        return "trivial", f"a difference (p <= {alpha:g}), shown to be under {margin} (TOST p <= {alpha:g}){design}"
    if p <= alpha:
        return direction, f"a difference (p <= {alpha:g}){design}"
    if p_tost <= alpha:
        return "equivalent", f"no difference shown, and none as large as {margin} (TOST p <= {alpha:g}){design}"
    shown = f"neither a difference (p > {alpha:g}) nor equivalence (TOST p > {alpha:g}) is shown{design}"
    return "inconclusive", shown
