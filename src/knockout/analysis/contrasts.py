"""Contrasts: each variant against the baseline, paired by seed, judged as one family (steps 2 to 7 of the plan).

Intervals are 95 %, unadjusted, and decide nothing: verdicts are read off Holm-adjusted p values.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_paired

from knockout.analysis.exact import discordant, floor, rank_sum, seeds_for_floor, sign_flip, worst_rank
from knockout.analysis.pairing import Arm, Estimate, Pair, Row, arm, counts, estimate, pair
from knockout.analysis.power import (
    Verdict,
    detectable_effect,
    in_points,
    pairing_pays_above,
    seeds_for_difference,
    seeds_for_equivalence,
)
from knockout.study import Plan

Test = Literal["t", "worst_rank", "exact (constant difference)", "none"]


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """Everything that is known about one variant against the baseline. p values are two-sided unless said."""

    variant: str
    n_planned: int
    n_pairs: int
    """seeds for which both runs came to a result, failures included"""
    family: int
    """K: the contrasts that Holm corrects over"""
    alpha: float
    margin: float
    power: float
    pairs: tuple[Pair, ...]
    arm: Arm
    baseline: Arm
    failed_variant_only: int
    failed_baseline_only: int
    p_failures: float
    """exact paired test on discordant failures"""
    estimate: Estimate | None
    test: Test
    """which one made p"""
    p: float | None
    p_holm: float
    """a missing p counts as 1"""
    p_tost: float | None
    """the larger of the two one-sided p at +-margin"""
    p_tost_holm: float
    p_sign_flip: float | None
    p_sign_flip_holm: float
    sign_flip_disagrees: bool
    """about whether p <= alpha after Holm, where the t test made p"""
    floor: float
    """the smallest p of an exact test on n_planned pairs"""
    seeds_for_floor: int
    normal_theory_only: bool
    """the t test decides and no exact test could, at this n and K"""
    identical: bool
    detectable: float | None
    """points: the smallest difference found with the plan's power, at the observed sd, tested alone (alpha)"""
    detectable_first: float | None
    """the same as the first of K under Holm (alpha / K)"""
    seeds_difference: int | None
    """seeds to find a difference of one margin with the plan's power, at the observed sd, tested alone"""
    seeds_difference_first: int | None
    seeds_equivalence: int | None
    """seeds to show equivalence with the plan's power if the truth is 0, at the observed sd, tested alone"""
    seeds_equivalence_first: int | None
    pairing_pays_above: float | None
    """the correlation above which pairing detects smaller effects than independent samples would"""
    direction: int
    """1, 0 or -1: the sign of the difference, or of the rank sum where a run failed"""
    verdict: Verdict
    reason: str
    """which line of the verdict rule applied, in words"""

    @property
    def failures(self) -> int:
        """Failed runs of both arms, over the pairs that came to a result."""
        return sum({"variant failed": 1, "baseline failed": 1, "both failed": 2}.get(p.state, 0) for p in self.pairs)

    @property
    def label(self) -> str:
        """The verdict as it is printed."""
        missing = self.n_planned > 2 and self.n_pairs < self.n_planned
        return f"{self.verdict} (incomplete: {self.n_pairs} of {self.n_planned})" if missing else self.verdict


@dataclass(frozen=True, kw_only=True)
class _Tests:
    test: Test = "none"
    p: float | None = None
    p_tost: float | None = None
    p_sign_flip: float | None = None
    direction: int = 0


def contrasts(
    runs: pd.DataFrame,
    *,
    baseline: str,
    variants: Sequence[str],
    seeds: Sequence[int],
    plan: Plan,
    family: int | None = None,
) -> list[Contrast]:
    """One contrast per variant, in the order given, judged as one family.

    `runs` needs the columns variant, seed, status, failed, test_correct, test_count, and may have predictions_sha256.
    `family` is K where it is larger than the number of variants, since a contrast that was dropped still counts.
    Raises `ValueError` for a duplicate, or for test sets of different size.
    """
    chosen = runs[runs["variant"].isin([baseline, *variants]) & runs["seed"].isin(list(seeds))]
    twice = chosen[chosen.duplicated(["variant", "seed"])]
    if len(twice):
        raise ValueError(f"run twice: {twice['variant'].iloc[0]} with seed {twice['seed'].iloc[0]}")
    sizes = sorted({int(n) for n in chosen["test_count"].dropna()})
    if len(sizes) > 1:
        raise ValueError(f"the runs saw test sets of different size: {sizes}")
    points = 100.0 / sizes[0] if sizes else math.nan
    rows: dict[tuple[str, int], Row] = {}
    for record in chosen.to_dict("records"):
        rows[str(record["variant"]), int(record["seed"])] = {str(name): value for name, value in record.items()}
    paired = {
        v: tuple(pair(seed, rows.get((v, seed)), rows.get((baseline, seed)), points) for seed in seeds)
        for v in variants
    }
    tests = [_tests(paired[v], points, plan) for v in variants]
    k = max(len(variants), family or 0)
    adjusted = _holm([t.p for t in tests], k)
    tost = _holm([t.p_tost for t in tests], k)
    flipped = _holm([t.p_sign_flip for t in tests], k)
    arms = {v: arm([rows[v, s] for s in seeds if (v, s) in rows], points) for v in (baseline, *variants)}
    found = []
    for i, variant in enumerate(variants):
        if tests[i].test == "worst_rank":  # could the smallest p of that test have been enough?
            at_floor = [floor(len(seeds)) if j == i else t.p for j, t in enumerate(tests)]
            floor_decides = _holm(at_floor, k)[i] <= plan.alpha
        else:
            floor_decides = True
        contrast = _contrast(
            variant=variant,
            pairs=paired[variant],
            arms=(arms[variant], arms[baseline]),
            estimated=estimate(paired[variant], points),
            tests=tests[i],
            holm=(adjusted[i], tost[i], flipped[i]),
            floor_decides=floor_decides,
            k=k,
            plan=plan,
        )
        found.append(contrast)
    return found


def _tests(pairs: Sequence[Pair], points: float, plan: Plan) -> _Tests:
    """The primary test and its companions. None at all for two seeds or fewer, or while a pair is missing."""
    if len(pairs) <= 2 or any(p.state == "missing" for p in pairs):
        return _Tests()
    if any(p.state != "complete" for p in pairs):
        ranked = [_ranked(p) for p in pairs]
        return _Tests(test="worst_rank", p=worst_rank(ranked), direction=int(np.sign(rank_sum(ranked))))
    a, b = counts(pairs)
    d = [int(x) for x in a - b]
    n, direction = len(d), int(np.sign(sum(d)))
    margin = plan.margin / points
    if len(set(d)) == 1:
        # No spread: t would be inf and p = 0. Every sign pattern is as likely as another, so the floor is the p.
        p, p_tost = (floor(n) if d[0] else 1.0), (0.5**n if abs(d[0]) < margin else 1.0)
        return _Tests(
            test="exact (constant difference)", p=p, p_tost=p_tost, p_sign_flip=sign_flip(d), direction=direction
        )
    return _Tests(
        test="t",
        p=float(stats.ttest_rel(a, b).pvalue),
        p_tost=float(ttost_paired(a, b, -margin, margin)[0]),
        p_sign_flip=sign_flip(d),
        direction=direction,
    )


def _ranked(pair: Pair) -> float:
    if pair.state == "complete":
        assert pair.variant is not None
        assert pair.baseline is not None
        return float(pair.variant - pair.baseline)
    return {"variant failed": -math.inf, "baseline failed": math.inf}.get(pair.state, 0.0)


def _holm(p: Sequence[float | None], k: int) -> list[float]:
    """Holm's adjusted p in the order given, over a family of k: what is missing counts as 1."""
    whole = [1.0 if x is None else x for x in p] + [1.0] * (k - len(p))
    return [float(x) for x in multipletests(whole, method="holm")[1][: len(p)]] if p else []


def _contrast(
    *,
    variant: str,
    pairs: tuple[Pair, ...],
    arms: tuple[Arm, Arm],
    estimated: Estimate | None,
    tests: _Tests,
    holm: tuple[float, float, float],
    floor_decides: bool,
    k: int,
    plan: Plan,
) -> Contrast:
    n = len(pairs)
    states = [p.state for p in pairs]
    p_holm, p_tost_holm, p_flip_holm = holm
    need = seeds_for_floor(k, plan.alpha)
    by_t = tests.test == "t"
    sd = estimated.sd if estimated is not None and estimated.n > 2 else None
    size = None if not sd else plan.margin / sd
    first = plan.alpha / k
    decided = n > 2
    verdict, reason = _verdict(
        n=n, states=states, tests=tests, p=p_holm, p_tost=p_tost_holm, floor_decides=floor_decides, plan=plan
    )
    recorded = [p for p in pairs if p.state != "missing"]
    return Contrast(
        variant=variant,
        n_planned=n,
        n_pairs=len(recorded),
        family=k,
        alpha=plan.alpha,
        margin=plan.margin,
        power=plan.power,
        pairs=pairs,
        arm=arms[0],
        baseline=arms[1],
        failed_variant_only=states.count("variant failed"),
        failed_baseline_only=states.count("baseline failed"),
        p_failures=discordant(states.count("variant failed"), states.count("baseline failed")),
        estimate=estimated,
        test=tests.test,
        p=tests.p,
        p_holm=p_holm,
        p_tost=tests.p_tost,
        p_tost_holm=p_tost_holm,
        p_sign_flip=tests.p_sign_flip,
        p_sign_flip_holm=p_flip_holm,
        sign_flip_disagrees=by_t and (p_holm <= plan.alpha) != (p_flip_holm <= plan.alpha),
        floor=floor(n),
        seeds_for_floor=need,
        normal_theory_only=by_t and n < need,
        identical=bool(recorded) and all(p.identical for p in recorded),
        detectable=None if sd is None else detectable_effect(n, plan.alpha, plan.power) * sd,
        detectable_first=None if sd is None else detectable_effect(n, first, plan.power) * sd,
        seeds_difference=None if size is None else seeds_for_difference(size, plan.alpha, plan.power),
        seeds_difference_first=None if size is None else seeds_for_difference(size, first, plan.power),
        seeds_equivalence=None if size is None else seeds_for_equivalence(size, plan.alpha, plan.power),
        seeds_equivalence_first=None if size is None else seeds_for_equivalence(size, first, plan.power),
        pairing_pays_above=pairing_pays_above(n, plan.alpha, plan.power) if decided else None,
        direction=tests.direction,
        verdict=verdict,
        reason=reason,
    )


def _verdict(
    *,
    n: int,
    states: Sequence[str],
    tests: _Tests,
    p: float,
    p_tost: float,
    floor_decides: bool,
    plan: Plan,
) -> tuple[Verdict, str]:
    """The first line of step 7 that applies, and that line in words. Both p are Holm-adjusted."""
    alpha, margin = plan.alpha, plan.margin
    moved: Verdict = "better" if tests.direction > 0 else "worse"
    if n <= 2:
        return "undecidable by design", f"{n} seed{'s' if n > 1 else ''}: no inference over seeds from fewer than 3"
    if "missing" in states:
        return "inconclusive", f"{states.count('missing')} of {n} pairs have no result yet: nothing is tested before"
    if tests.test == "worst_rank":
        if p <= alpha and tests.direction:
            return moved, f"runs failed: worst-rank test, p <= {alpha:g}"
        if not floor_decides:
            return "undecidable by design", (
                f"runs failed, and the smallest p of the worst-rank test at {n} seeds ({floor(n):.3g}) is over"
                f" {alpha:g} after Holm"
            )
        return "inconclusive", f"runs failed: worst-rank test, p > {alpha:g}; never trivial or equivalent"
    if p <= alpha and p_tost <= alpha:
        return (
            "trivial",
            f"a difference (p <= {alpha:g}), shown to be under {in_points(margin)} (TOST p <= {alpha:g})",
        )
    if p <= alpha:
        return moved, f"a difference (p <= {alpha:g})"
    if p_tost <= alpha:
        return "equivalent", f"no difference shown, and none as large as {in_points(margin)} (TOST p <= {alpha:g})"
    return "inconclusive", f"neither a difference (p > {alpha:g}) nor equivalence (TOST p > {alpha:g}) is shown"
