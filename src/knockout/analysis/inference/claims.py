"""Claims: what a study stated before it ran. On the plan's metric they are read off the verdicts, on measures of
stability off a test of ratios, on failures off the exact paired test.

The rules are in `analysis/RULES.md`, sections "Rule D0" and "Rule D1".
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from knockout.analysis.inference.contrasts import Contrast
from knockout.analysis.inference.curve_metrics import METRICS
from knockout.analysis.inference.instability import Instability
from knockout.analysis.inference.pairs import Pair, Seed, pair, rows_of
from knockout.analysis.stats.effect_sizes import cliffs_delta
from knockout.analysis.stats.exact import wilcoxon
from knockout.analysis.stats.metric import Better, Metric, raw
from knockout.analysis.stats.paired_test import paired_test
from knockout.analysis.stats.trace import traced

Ruling = Literal["supported", "refuted", "inconclusive"]

LARGE = 0.47
"""The least |Cliff's delta| that counts for rule D1: "large" in Romano et al. 2006."""

FAILURES = "failures"

RATIOS: Mapping[str, tuple[str, Better]] = {
    "log_loss": ("test_loss", "lower"),
    "final_loss": ("final_loss", "lower"),
}
"""Metrics above 0 that rule D1 judges, where they are not the plan's own -> (column of the runs, what is better)."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One claim with its ruling."""

    id: str
    variant: str
    says: Literal["better", "worse", "equal"]
    metric: str
    text: str
    ruling: Ruling
    reason: str


@dataclass(frozen=True, kw_only=True)
class RatioTest:
    """Rule D1 on one contrast. Logarithms of variant over baseline, a failed run ranked as the worst."""

    n: int
    p: float
    """exact signed-rank, two-sided"""
    cliffs_delta: float
    """above 0 where the variant does better"""
    ratio: float | None
    """geometric mean over the pairs in which neither run failed"""


def judge(
    claims: Sequence[Mapping[str, Any]],
    contrasts: Sequence[Contrast],
    *,
    runs: pd.DataFrame | None = None,
    baseline: str = "baseline",
    instability: Instability | None = None,
) -> list[Judged]:
    """Every claim with its ruling, in the order of the study. Raises `KeyError` for a variant without a contrast.

    `runs` (as in `Results`) is needed where a claim is on another metric than the contrasts, and `instability` where it
    is on a measure of instability.
    """
    by_variant = {c.variant: c for c in contrasts}
    rulings = []
    for claim in claims:
        contrast = by_variant[claim["variant"]]
        if claim["metric"] == FAILURES:
            ruling, reason = _rule_failures(claim["says"], contrast)
        elif claim["metric"] in METRICS:
            ruling, reason = _rule_measure(claim, instability, alpha=contrast.alpha)
        elif claim["metric"] == contrast.metric.name:
            ruling, reason = _rule(claim["says"], contrast)
        else:
            assert runs is not None
            of = ("claim", str(claim["id"]))
            seeds = [p.seed for p in contrast.pairs]
            ruling, reason = _rule_ratio(claim, runs, seeds=seeds, baseline=baseline, alpha=contrast.alpha, of=of)
        rulings.append(
            Judged(
                id=claim["id"],
                variant=claim["variant"],
                says=claim["says"],
                metric=claim["metric"],
                text=claim["text"],
                ruling=ruling,
                reason=reason,
            )
        )
    return rulings


def _rule(says: str, contrast: Contrast) -> tuple[Ruling, str]:
    """Rule D0. A direction counts only with |difference| >= margin; a verdict without an estimate has no size."""
    verdict = contrast.verdict
    size = None if contrast.estimate is None else abs(contrast.estimate.difference)
    large = size is not None and size >= contrast.margin
    reach = "at least" if large else "under"
    margin = contrast.metric.size(contrast.margin)
    sized = f"{verdict}, by {reach} the margin of {margin}" if size is not None else f"{verdict}"
    if says == "equal":
        if verdict in ("equivalent", "trivial"):
            return "supported", f"the verdict is {verdict}"
        if verdict in ("better", "worse"):
            return ("refuted" if large else "inconclusive"), f"the verdict is {sized}"
        return "inconclusive", f"the verdict is {contrast.label}"
    if verdict == says:
        return ("supported" if large else "inconclusive"), f"the verdict is {sized}"
    if verdict in ("better", "worse", "trivial", "equivalent"):
        return "refuted", f"the verdict is {verdict}"
    return "inconclusive", f"the verdict is {contrast.label}"


def _rule_failures(says: str, contrast: Contrast) -> tuple[Ruling, str]:
    """More failed runs are worse. "equal" can be refuted, and never shown: no margin of a rate is planned."""
    counts = contrast.counts
    ours, theirs = counts.failed_variant_only, counts.failed_baseline_only
    words = (
        f"{ours} failures of the variant alone, {theirs} of the baseline alone, exact paired p ="
        f" {contrast.p_failures:.3g}"
    )
    if contrast.incomplete:
        return "inconclusive", f"{contrast.n_pairs} of {contrast.n_planned} pairs are there; {words}"
    if contrast.p_failures > contrast.alpha:
        return "inconclusive", words
    seen = "worse" if ours > theirs else "better"
    return ("supported" if says == seen else "refuted"), words


def _rule_ratio(
    claim: Mapping[str, Any],
    runs: pd.DataFrame,
    *,
    seeds: Sequence[Seed],
    baseline: str,
    alpha: float,
    of: Sequence[str],
) -> tuple[Ruling, str]:
    """Rule D1: the exact signed-rank test on log ratios, and |Cliff's delta| of at least .47. Tested alone."""
    column, better = RATIOS[claim["metric"]]
    metric = raw(claim["metric"], better=better, margin=0.01)
    rows = rows_of(runs, column)
    pairs = [pair(s, rows.get((claim["variant"], s)), rows.get((baseline, s)), metric) for s in seeds]
    if len(pairs) <= 2:
        return "inconclusive", f"{len(pairs)} seeds: nothing is tested below 3"
    if any(p.state == "missing" for p in pairs):
        return "inconclusive", f"{sum(p.state == 'missing' for p in pairs)} of {len(pairs)} pairs are missing"
    ours, theirs = _oriented(pairs, metric)
    test = traced(of, ratio_test, ours, theirs, metric.sign)
    size = f"geometric mean of the ratio {test.ratio:.3g}, " if test.ratio is not None else ""
    words = f"{size}exact signed-rank p = {test.p:.3g}, Cliff's delta {test.cliffs_delta:+.2f}"
    if test.p > alpha or abs(test.cliffs_delta) < LARGE:
        return "inconclusive", words
    seen = "better" if test.cliffs_delta > 0 else "worse"
    return ("supported" if claim["says"] == seen else "refuted"), words


def _rule_measure(claim: Mapping[str, Any], instability: Instability | None, *, alpha: float) -> tuple[Ruling, str]:
    """Rule D1 on a measure of instability: "worse" is higher, or lower of those of which low values are the worse."""
    metric = METRICS[claim["metric"]]
    if instability is None or metric.name in instability.missing:
        lacks = "no curve was kept" if instability is None else instability.missing[metric.name]
        return "inconclusive", f"{metric.title}: {lacks}"
    ours, theirs = instability.paired(claim["variant"], metric.name)
    values = [x for x in (*ours, *theirs) if x is not None and math.isfinite(x)]
    ratio = metric.ratio and min(values, default=1.0) > 0
    test = traced(("claim", str(claim["id"])), paired_test, ours, theirs, ratio=ratio, exact=True)
    if len(ours) <= 2:
        return "inconclusive", f"{len(ours)} seeds: nothing is tested below 3"
    if test.p is None:
        return "inconclusive", f"{test.n} of {len(ours)} pairs have a value of {metric.title}"
    delta = cliffs_delta(
        [-metric.sign * x for x in ours if x is not None], [-metric.sign * x for x in theirs if x is not None]
    )
    name = "geometric mean of the ratio" if ratio else "mean difference"
    size = "" if test.estimate is None else f"{name} {test.estimate:.3g}, "
    words = f"{metric.title}: {size}exact signed-rank p = {test.p:.3g}, Cliff's delta {delta:+.2f}"
    if test.p > alpha or abs(delta) < LARGE:
        return "inconclusive", words
    seen = "better" if delta > 0 else "worse"
    return ("supported" if claim["says"] == seen else "refuted"), words


def _oriented(pairs: Sequence[Pair], metric: Metric) -> tuple[list[float], list[float]]:
    """Both arms' values, a failed run as the worst that there can be."""
    worst = -metric.sign * math.inf
    ours = [worst if p.state in ("variant failed", "both failed") else float(p.variant or 0.0) for p in pairs]
    theirs = [worst if p.state in ("baseline failed", "both failed") else float(p.baseline or 0.0) for p in pairs]
    return ours, theirs


def ratio_test(variant: Sequence[float], baseline: Sequence[float], sign: int) -> RatioTest:
    """Rule D1 on paired values above 0, where an infinite value is a failed run; `sign` -1 where lower is better.

    Null: the logarithm of the ratio is symmetric about 0. Raises `ValueError` for a value that is not above 0.
    """
    if any(not x > 0 for x in (*variant, *baseline) if math.isfinite(x)):
        raise ValueError("a ratio needs values above 0")
    logs = []
    for a, b in zip(variant, baseline, strict=True):
        failed = (not math.isfinite(a), not math.isfinite(b))
        logs.append({(True, False): -math.inf, (False, True): math.inf, (True, True): 0.0}.get(failed, 0.0))
        if failed == (False, False):
            logs[-1] = sign * math.log(a / b)
    alive = [x for x, a, b in zip(logs, variant, baseline, strict=True) if math.isfinite(a) and math.isfinite(b)]
    return RatioTest(
        n=len(logs),
        p=wilcoxon(logs).p,
        cliffs_delta=cliffs_delta([sign * x for x in variant], [sign * x for x in baseline]),
        ratio=math.exp(sign * math.fsum(alive) / len(alive)) if alive else None,
    )
