"""Pairs: a variant's runs beside the baseline's, seed by seed, and the estimates made of them.

Values are taken as a metric stores them and displayed in its unit: of accuracy whole counts of correct predictions,
displayed in points (hundredths).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import special, stats
from statsmodels.stats.proportion import proportion_confint

from knockout.analysis.stats.effect_sizes import cliffs_delta, win_rate
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.numeric import ROUNDING
from knockout.analysis.stats.trace import made_with
from knockout.job import RECORDED

State = Literal["complete", "variant failed", "baseline failed", "both failed", "missing"]
Seed = int | str
Row = Mapping[str, Any]
"""One run: status, failed, value, and predictions_sha256 where there is one."""

Rows = Mapping[tuple[str, Seed], Row]
"""(variant, seed) -> the run"""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One seed of a contrast. Values as the metric stores them, where the run finished; difference in its unit."""

    seed: Seed
    state: State
    variant: float | None
    baseline: float | None
    difference: float | None
    """of complete pairs only"""
    identical: bool
    """whether both runs predicted the same label for every test example"""


@dataclass(frozen=True, kw_only=True)
class PairCounts:
    """How the seeds of a contrast came out."""

    n_planned: int
    n_pairs: int
    """seeds for which both runs came to a result, failures included"""
    failed_variant_only: int
    failed_baseline_only: int
    failed_both: int


@dataclass(frozen=True, kw_only=True)
class Arm:
    """All runs of one variant that came to a result. Mean and sd of the metric over those that did not fail."""

    runs: int
    failures: int
    rate_low: float | None
    """95 % Wilson interval of the failure rate (statsmodels `proportion_confint`)"""
    rate_high: float | None
    mean: float | None
    sd: float | None
    """of a sample (n - 1)"""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The paired difference, variant minus baseline, over the n pairs in which neither run failed."""

    n: int
    difference: float
    """mean, in the metric's unit"""
    low: float | None
    """95 % t interval; none under three pairs, nor where all differences are one number"""
    high: float | None
    sd: float | None
    """of the differences"""
    d_z: float | None
    """difference / sd"""
    g_z: float | None
    """d_z times Hedges' factor J(n - 1) (Hedges 1981, equation 6e, exact)"""
    d_av: float | None
    """difference / mean of the two arms' sds (Lakens 2013, equation 10)"""
    win_rate: float
    """(seeds at which the variant is better + ties / 2) / n"""
    cliffs_delta: float
    """P(variant > baseline) - P(variant < baseline), over all pairs of runs, paired or not (Cliff 1993)"""
    correlation: float | None
    """Pearson's, between the arms"""
    t: float | None
    p_welch: float | None
    """of the arms as if they were not paired: a check, never chosen"""


def pair(seed: Seed, variant: Row | None, baseline: Row | None, metric: Metric) -> Pair:
    """The pair of two runs with one seed; `None` for a run without a record."""
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
    a, b = _value(ours), _value(theirs)
    if state == "complete" and (a is None or b is None):
        state = "missing"  # it came through, and nothing is known of this metric
    complete = state == "complete"
    hashes = [r.get("predictions_sha256") for r in (ours, theirs) if r is not None]
    return Pair(
        seed=seed,
        state=state,
        variant=a,
        baseline=b,
        difference=(a - b) * metric.scale if complete and a is not None and b is not None else None,
        identical=complete and len(hashes) == 2 and isinstance(hashes[0], str) and hashes[0] == hashes[1],
    )


def rows_of(runs: pd.DataFrame, column: str = "value") -> Rows:
    """(variant, seed) -> the run, with the values of `column` as those of the metric.

    A run that did not fail and has no value there is missing: it would be a pair with half its numbers.
    Raises `ValueError` for a run that stands twice.
    """
    twice = runs[runs.duplicated(["variant", "seed"])]
    if len(twice):
        raise ValueError(f"run twice: {twice['variant'].iloc[0]} with seed {twice['seed'].iloc[0]}")
    rows: dict[tuple[str, Seed], Row] = {}
    for record in runs.assign(value=runs[column]).to_dict("records"):
        row = {str(k): v for k, v in record.items()}
        if not row["failed"] and pd.isna(row["value"]):
            row["status"] = "missing"
        rows[str(row["variant"]), row["seed"]] = row
    return rows


def _result(run: Row | None) -> Row | None:
    return run if run is not None and run["status"] in RECORDED else None


def _value(run: Row | None) -> float | None:
    if run is None or pd.isna(run["value"]):
        return None
    value = run["value"]
    return int(value) if isinstance(value, int | np.integer) else float(value)


def count_pairs(states: Sequence[State]) -> PairCounts:
    """How many seeds came out in which state."""
    return PairCounts(
        n_planned=len(states),
        n_pairs=len(states) - states.count("missing"),
        failed_variant_only=states.count("variant failed"),
        failed_baseline_only=states.count("baseline failed"),
        failed_both=states.count("both failed"),
    )


def alive(runs: Sequence[Row]) -> tuple[list[float], int, int]:
    """Of one variant's runs: the values of those that did not fail, the number of results, the number of failures."""
    results = [r for r in map(_result, runs) if r is not None]
    values = [v for r in results if not r["failed"] and (v := _value(r)) is not None]
    return values, len(results), sum(bool(r["failed"]) for r in results)


@made_with("statsmodels.stats.proportion.proportion_confint")
def arm(values: Sequence[float], runs: int, failures: int, worth: float) -> Arm:
    """One variant's runs in sum. `values` of those that did not fail; `worth`: the metric's `scale`."""
    low, high = proportion_confint(failures, runs, method="wilson") if runs else (None, None)
    unit = scale_of(values)
    scaled = np.array(values, dtype=float) / unit
    return Arm(
        runs=runs,
        failures=failures,
        rate_low=None if low is None else float(low),
        rate_high=None if high is None else float(high),
        mean=float(scaled.mean()) * unit * worth if scaled.size else None,
        sd=float(scaled.std(ddof=1)) * unit * worth if scaled.size > 1 else None,
    )


def complete(pairs: Sequence[Pair]) -> tuple[list[float], list[float]]:
    """The values of variant and baseline over complete pairs."""
    whole = [(p.variant, p.baseline) for p in pairs if p.state == "complete"]
    return [a for a, _ in whole if a is not None], [b for _, b in whole if b is not None]


def differences(variant: Sequence[float], baseline: Sequence[float], rounding: float = ROUNDING) -> list[float]:
    """variant - baseline, pair by pair: exact for whole numbers, and without the noise of rounding for others.

    A difference below `rounding` of the largest value is 0, and differences that are equal but for that are one number.
    Of values that are less precise than a float64, differences of one size but for that have one size.
    """
    d = [a - b for a, b in zip(variant, baseline, strict=True)]
    if all(float(x).is_integer() for x in (*variant, *baseline)):
        return d
    noise = rounding * max(map(abs, (*variant, *baseline)), default=0.0)
    d = [0.0 if abs(x) <= noise else x for x in d]
    if d and max(d) - min(d) <= noise:
        return [d[0]] * len(d)
    return d if rounding <= ROUNDING else _levelled(d, noise)


def _levelled(differences: Sequence[float], noise: float) -> list[float]:
    """The differences, with the smallest of those sizes that are less than `noise` above it."""
    sizes: dict[float, float] = {}
    level = -math.inf
    for size in sorted(map(abs, differences)):
        level = size if size - level > noise else level
        sizes[size] = level
    return [math.copysign(sizes[abs(x)], x) for x in differences]


@made_with("scipy.stats.ttest_1samp")
def estimate(
    variant: Sequence[float],
    baseline: Sequence[float],
    worth: float,
    sign: int,
    level: float = 0.95,
    rounding: float = ROUNDING,
) -> Estimate | None:
    """The estimate over complete pairs, or `None` where there are none.

    `worth`: the metric's `scale`. `sign`: -1 where lower values are better. `rounding`: see `differences`.
    """
    a, b = np.array(variant, dtype=float), np.array(baseline, dtype=float)
    whole = differences(variant, baseline, rounding)
    n = len(whole)
    if not n:
        return None
    unit = scale_of(whole)
    d = np.array(whole) / unit
    sd = float(d.std(ddof=1)) if n > 1 else None
    varies = sd is not None and len(set(whole)) > 1
    sd = 0.0 if sd is not None and not varies else sd
    apart = scale_of([*variant, *baseline])
    sd_a, sd_b = (float((a / apart).std(ddof=1)), float((b / apart).std(ddof=1))) if n > 1 else (0.0, 0.0)
    level_a, level_b = _varies(variant, rounding), _varies(baseline, rounding)
    spread = (sd_a + sd_b) / 2 if level_a or level_b else 0.0
    mean = float(d.mean())
    low = high = t = welch = None
    if n > 2 and varies:
        result = stats.ttest_1samp(d, 0.0)
        interval = result.confidence_interval(level)
        low, high, t = float(interval.low), float(interval.high), float(result.statistic)
    if n > 2 and spread > 0:
        # From the moments: `ttest_ind` itself warns where one of the arms is constant.
        unpaired = stats.ttest_ind_from_stats(
            (a / apart).mean(),
            sd_a if level_a else 0.0,
            n,
            (b / apart).mean(),
            sd_b if level_b else 0.0,
            n,
            equal_var=False,
        )
        welch = float(unpaired.pvalue)
    d_z = mean / sd if n > 2 and varies and sd else None
    return Estimate(
        n=n,
        difference=mean * unit * worth,
        low=None if low is None else low * unit * worth,
        high=None if high is None else high * unit * worth,
        sd=None if sd is None else sd * unit * worth,
        d_z=d_z,
        g_z=None if d_z is None else d_z * _hedges(n - 1),
        d_av=mean * (unit / apart) / spread if n > 2 and spread > 0 else None,
        win_rate=win_rate([x * sign for x in whole]),
        cliffs_delta=cliffs_delta(variant, baseline),
        correlation=float(np.corrcoef(a / apart, b / apart)[0, 1]) if n > 2 and level_a and level_b else None,
        t=t,
        p_welch=welch,
    )


def scale_of(values: Sequence[float]) -> float:
    """1 for values of ordinary size, else a power of two by which to divide them, so that squares neither under- nor
    overflow: tests do not change when data are rescaled."""
    largest = max(map(abs, values), default=0.0)
    return 1.0 if not largest or 1e-60 < largest < 1e60 else math.ldexp(1.0, math.frexp(largest)[1])


def _varies(values: Sequence[float], rounding: float) -> bool:
    return bool(values) and max(values) - min(values) > rounding * max(map(abs, values))


def _hedges(df: int) -> float:
    """Hedges' factor J: .841 at 5 degrees of freedom."""
    return math.exp(special.gammaln(df / 2) - special.gammaln((df - 1) / 2)) / math.sqrt(df / 2) if df > 1 else 0.0
