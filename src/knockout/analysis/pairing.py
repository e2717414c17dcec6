"""Pairs: a variant's runs beside the baseline's, seed by seed, and the estimates made of them (steps 2 and 3).

Everything is computed from integer counts of correct predictions, so that ties hold (.825 - .775 is not .375 - .325 in
floating point), and told in points: hundredths of accuracy.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special, stats
from statsmodels.stats.proportion import proportion_confint

from knockout.job import RECORDED

State = Literal["complete", "variant failed", "baseline failed", "both failed", "missing"]
Counts = npt.NDArray[np.float64]
Row = Mapping[str, Any]
"""One run: status, failed, test_correct, and predictions_sha256 where there is one."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One seed of a contrast. Counts of correct predictions, where the run finished; difference in points."""

    seed: int
    state: State
    variant: int | None
    baseline: int | None
    difference: float | None
    """of complete pairs only"""
    identical: bool
    """whether both runs predicted the same label for every text"""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """All runs of one variant that came to a result. Accuracy in points, over those that did not fail."""

    runs: int
    failures: int
    rate_low: float | None
    """95 % Wilson interval of the failure rate (statsmodels `proportion_confint`)"""
    rate_high: float | None
    accuracy: float | None
    accuracy_sd: float | None


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The paired difference, variant minus baseline, over the n pairs in which neither run failed."""

    n: int
    difference: float
    """mean, points"""
    low: float | None
    """95 % t interval (`scipy.stats.ttest_rel`); none under three pairs"""
    high: float | None
    sd: float | None
    """of the differences, points"""
    d_z: float | None
    """difference / sd"""
    g_z: float | None
    """d_z times Hedges' factor J(n - 1) (Hedges 1981, equation 6e, exact)"""
    d_av: float | None
    """difference / mean of the two arms' sds (Lakens 2013, equation 10)"""
    win_rate: float
    """(wins + ties / 2) / n"""
    correlation: float | None
    """Pearson's, between the arms"""
    t: float | None
    p_welch: float | None
    """of the arms as if they were not paired: a check, never chosen"""


def pair(seed: int, variant: Row | None, baseline: Row | None, points: float) -> Pair:
    """What two runs with one seed say; `None` for a run of which nothing is there."""
    ours, theirs = _result(variant), _result(baseline)
    if ours is None or theirs is None:
        state: State = "missing"
    else:
        failed = (bool(ours["failed"]), bool(theirs["failed"]))
        state = {
            (False, False): "complete",
            (True, False): "variant failed",
            (False, True): "baseline failed",
            (True, True): "both failed",
        }[failed]  # type: ignore[assignment]  # a dict's values lose their literal types
    a, b = _correct(ours), _correct(theirs)
    complete = state == "complete" and a is not None and b is not None
    hashes = [r.get("predictions_sha256") for r in (ours, theirs) if r is not None]
    return Pair(
        seed=seed,
        state=state,
        variant=a,
        baseline=b,
        difference=(a - b) * points if complete and a is not None and b is not None else None,
        identical=complete and len(hashes) == 2 and isinstance(hashes[0], str) and hashes[0] == hashes[1],
    )


def _result(run: Row | None) -> Row | None:
    return run if run is not None and run["status"] in RECORDED else None


def _correct(run: Row | None) -> int | None:
    return None if run is None or pd.isna(run["test_correct"]) else int(run["test_correct"])


def arm(runs: Sequence[Row], points: float) -> Arm:
    """One variant's runs in sum; `points` is what one correct prediction is worth."""
    results = [r for r in map(_result, runs) if r is not None]
    failures = sum(bool(r["failed"]) for r in results)
    alive = np.array([_correct(r) for r in results if not r["failed"]], dtype=float) * points
    low, high = proportion_confint(failures, len(results), method="wilson") if results else (None, None)
    return Arm(
        runs=len(results),
        failures=failures,
        rate_low=None if low is None else float(low),
        rate_high=None if high is None else float(high),
        accuracy=float(alive.mean()) if alive.size else None,
        accuracy_sd=float(alive.std(ddof=1)) if alive.size > 1 else None,
    )


def counts(pairs: Sequence[Pair]) -> tuple[Counts, Counts]:
    """Counts of correct predictions of variant and baseline over complete pairs, as floats that hold integers."""
    whole = [(p.variant, p.baseline) for p in pairs if p.state == "complete"]
    table = np.array(whole, dtype=float).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def estimate(pairs: Sequence[Pair], points: float) -> Estimate | None:
    """The estimate over complete pairs, or `None` where there are none."""
    a, b = counts(pairs)
    n, d = a.size, a - b
    if not n:
        return None
    sd = float(d.std(ddof=1)) if n > 1 else None
    varies = sd is not None and sd > 0
    sd_a, sd_b = (float(a.std(ddof=1)), float(b.std(ddof=1))) if n > 1 else (0.0, 0.0)
    spread = (sd_a + sd_b) / 2
    low = high = t = welch = None
    if n > 2 and sd is not None:
        low = high = float(d.mean())
        if varies:
            result = stats.ttest_rel(a, b)
            interval = result.confidence_interval(0.95)
            low, high, t = float(interval.low), float(interval.high), float(result.statistic)
        if spread > 0:
            # From the moments: `ttest_ind` itself warns where one of the arms is constant.
            told = stats.ttest_ind_from_stats(a.mean(), sd_a, n, b.mean(), sd_b, n, equal_var=False)
            welch = float(told.pvalue)
    d_z = float(d.mean()) / sd if varies and sd is not None else None
    return Estimate(
        n=n,
        difference=float(d.mean()) * points,
        low=None if low is None else low * points,
        high=None if high is None else high * points,
        sd=None if sd is None else sd * points,
        d_z=d_z,
        g_z=None if d_z is None or n < 3 else d_z * _hedges(n - 1),  # the factor is 0 at one degree of freedom
        d_av=float(d.mean()) / spread if spread > 0 else None,
        win_rate=float(np.mean((d > 0) + (d == 0) / 2)),
        correlation=float(np.corrcoef(a, b)[0, 1]) if n > 2 and a.std() > 0 and b.std() > 0 else None,
        t=t,
        p_welch=welch,
    )


def _hedges(df: int) -> float:
    """Hedges' factor J: .841 at 5 degrees of freedom."""
    return math.exp(special.gammaln(df / 2) - special.gammaln((df - 1) / 2)) / math.sqrt(df / 2) if df > 1 else 0.0
