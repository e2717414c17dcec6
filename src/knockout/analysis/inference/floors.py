"""The baseline beside its floors: what simpler models reach on the same test examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from knockout.analysis.inference.pairs import Rows, alive
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.numeric import ROUNDING
from knockout.analysis.stats.trace import made_with, traced
from knockout.job import Floor


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The baseline's mean minus a floor, in the metric's unit. It decides no verdict, and is not corrected.

    The floor is one number: the interval is over the baseline's seeds alone, on this test set.
    """

    n: int
    """runs of the baseline that did not fail"""
    mean: float
    floor: float
    difference: float
    low: float | None
    """95 % t interval; none under three runs, nor where all have one value"""
    high: float | None
    p: float | None
    """two-sided, of the null hypothesis that the baseline's mean over seeds is the floor"""


@made_with("scipy.stats.ttest_1samp")
def gap(values: Sequence[float], floor: float, worth: float) -> Gap:
    """The gap of the baseline to one floor. `values`: of its runs, as the metric stores them, at least one.

    `floor`: in the metric's unit. `worth`: the metric's `scale`.
    """
    sizes = np.array(values, dtype=float) * worth
    mean = float(sizes.mean())
    low = high = p = None
    if len(sizes) > 2 and np.ptp(sizes) > ROUNDING * float(np.abs(sizes).max()):
        tested = stats.ttest_1samp(sizes - floor, 0.0)
        interval = tested.confidence_interval(0.95)
        low, high, p = float(interval.low), float(interval.high), float(tested.pvalue)
    return Gap(n=len(sizes), mean=mean, floor=floor, difference=mean - floor, low=low, high=high, p=p)


def gaps(rows: Rows, floors: Sequence[Floor], *, baseline: str, metric: Metric) -> dict[str, Gap]:
    """Name of each floor that has this metric -> the baseline's gap to it; empty where no run of it finished alive."""
    values, _, _ = alive([row for (arm, _), row in rows.items() if arm == baseline])
    unit = 100.0 if metric.unit == "points" else 1.0
    known: Mapping[str, float] = {f.name: unit * f.scores[metric.name] for f in floors if metric.name in f.scores}
    return {name: traced(("floor", name), gap, values, floor, metric.scale) for name, floor in known.items() if values}
