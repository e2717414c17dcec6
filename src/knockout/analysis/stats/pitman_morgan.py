"""Stability across seeds: does a variant's metric vary more from seed to seed than the baseline's?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from knockout.analysis.stats.numeric import ROUNDING, SMALLEST_P


@dataclass(frozen=True, kw_only=True)
class PitmanMorgan:
    """The spread of two arms over paired runs. What cannot be computed is `None`, and `reason` says why."""

    n: int
    sd_variant: float | None
    """of a sample (n - 1), in the unit of the values"""
    sd_baseline: float | None
    ratio: float | None
    """sd_variant / sd_baseline"""
    low: float | None
    """interval of the ratio"""
    high: float | None
    r: float | None
    """correlation of variant + baseline with variant - baseline; above 0 where the variant varies more"""
    t: float | None
    df: int | None
    """n - 2"""
    p: float | None
    """two-sided"""
    reason: str
    """empty where nothing is missing"""


def pitman_morgan(
    variant: Sequence[float], baseline: Sequence[float], *, level: float = 0.95, rounding: float = ROUNDING
) -> PitmanMorgan:
    """The Pitman-Morgan test of equal variances of paired values, and an interval of the ratio of sds.

    Null hypothesis: both arms have the same variance over seeds; then sums and differences are uncorrelated, and r has
    the distribution of Pearson's with n - 2 degrees of freedom. Exact where pairs are bivariate normal, whatever the
    correlation of the arms. It is not robust, and more seeds do not help: of independent arms with tails as t with 5
    degrees of freedom it rejects .08, .13, .16 and .20 at n = 5, 10, 20 and 50 (40,000 draws), of uniform ones .03,
    .01, .005 and .003. A p that underflows is the smallest float, never 0.

    The interval holds the ratios that the test does not reject: ratio * exp(+-asinh(t_q sqrt((1 - c^2) / (n - 2)))),
    with t_q the quantile of Student's t and c the correlation of the arms. That is the square root of Pitman's
    F (K -+ sqrt(K^2 - 1)), K = 1 + 2 (1 - c^2) t_q^2 / (n - 2).

    Nothing is tested under three pairs, where an arm does not vary, and where the arms are perfectly correlated.
    Sources: Pitman, Biometrika 31 (1939), 9-12; Morgan, Biometrika 31 (1939), 13-19. The example of R's PairedData,
    [10.8, 11, 10.4, 10.3, 11.3, 10.2, 11.1] and [10.8, 10.6, 11, 10.9, 10.9, 10.7, 1.8], gives p = .0002258.
    Raises `ValueError` for arms of different length, for NaN and infinities, and for a level that is not in (0, 1).
    """
    a, b = np.array(variant, dtype=float), np.array(baseline, dtype=float)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"got arms of shapes {a.shape} and {b.shape}; one value per seed and arm is needed")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("a value is NaN or infinite; leave out the seeds of which a run is missing or has failed")
    if not 0 < level < 1:
        raise ValueError(f"got the level {level}; one between 0 and 1 is needed, such as 0.95")
    n = len(a)
    sd_a, of_a, noise_a = _standardised(a, rounding)
    sd_b, of_b, noise_b = _standardised(b, rounding)
    if n < 3:
        return _untested(n, sd_a, sd_b, f"{n} pair{'s' * (n != 1)}: at least 3 are needed")
    if not sd_a or not sd_b:
        still = "neither arm varies" if sd_a == sd_b else f"the {'baseline' if sd_a else 'variant'} does not vary"
        return _untested(n, sd_a, sd_b, f"{still} over seeds")
    apart, together = of_a - of_b, of_a + of_b  # of unit length each, so that 1 - c^2 comes without cancellation
    if min(float(np.abs(x).max()) for x in (apart, together)) <= noise_a + noise_b:
        return _untested(n, sd_a, sd_b, "the arms are perfectly correlated over seeds")
    unexplained = float(apart @ apart) * float(together @ together) / 4
    ratio = sd_a / sd_b
    df = n - 2
    # The same number as from r, which is 1 - 1e-16 where one sd is far the larger: sinh(log(ratio)) instead.
    t = (ratio - 1 / ratio) / 2 * math.sqrt(df / unexplained)
    reach = math.exp(math.asinh(float(stats.t.ppf((1 + level) / 2, df)) * math.sqrt(unexplained / df)))
    return PitmanMorgan(
        n=n,
        sd_variant=sd_a,
        sd_baseline=sd_b,
        ratio=ratio,
        low=ratio / reach,
        high=ratio * reach,
        r=t / math.hypot(math.sqrt(df), t),
        t=t,
        df=df,
        p=max(min(1.0, 2 * float(stats.t.sf(abs(t), df))), SMALLEST_P),
        reason="",
    )


def _standardised(values: NDArray[np.float64], rounding: float) -> tuple[float | None, NDArray[np.float64], float]:
    """The sd, the centred values at unit length, and how large rounding may be in them; zeros where none varies."""
    if len(values) < 2:
        return None, np.zeros_like(values), 0.0
    moved = values - values[0]  # exact for counts: a shift of all changes nothing
    span = float(moved.max() - moved.min())
    noise = rounding * float(np.abs(values).max())
    if span <= noise:
        return 0.0, np.zeros_like(values), 0.0
    centred = moved / span - (moved / span).mean()
    length = math.sqrt(float(centred @ centred))
    return span * length / math.sqrt(len(values) - 1), centred / length, noise / span


def _untested(n: int, sd_variant: float | None, sd_baseline: float | None, reason: str) -> PitmanMorgan:
    return PitmanMorgan(
        n=n,
        sd_variant=sd_variant,
        sd_baseline=sd_baseline,
        ratio=sd_variant / sd_baseline if sd_variant and sd_baseline else None,
        low=None,
        high=None,
        r=None,
        t=None,
        df=None,
        p=None,
        reason=reason,
    )
