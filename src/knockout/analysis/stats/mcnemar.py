"""McNemar's test over test examples: one run of a variant against the run of the baseline with the same seed.

It takes the two trained models as they are and says nothing of other seeds: for unstable runs, the nominal 95 %
interval of one seed covers the mean over seeds about half the time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from knockout.analysis.stats.exact import discordant
from knockout.analysis.stats.numeric import SMALLEST_BINOMIAL_P


@dataclass(frozen=True, kw_only=True)
class Discordant:
    """The examples on which two runs of one seed disagree."""

    seed: int | str
    variant_only: int
    """examples that only the variant gets right"""
    baseline_only: int
    """examples that only the baseline gets right"""
    p_mid: float
    p_exact: float
    difference: float
    """accuracy of the variant minus that of the baseline, as a share of all examples"""


def mid_p(b: int, c: int) -> float:
    """Two-sided mid-p McNemar of b examples that only one arm gets right against c that only the other does.

    Null hypothesis: an example on which the arms disagree is as likely to favour either, B ~ binomial(b + c, 1/2). What
    is further from even counts in full and what is as far counts half: P(B < min) + P(B <= min) where b and c differ,
    and 1 - P(B = b) / 2 where they do not (Fagerland, Lydersen & Laake 2013, BMC Medical Research Methodology 13:91,
    and their supplement). Less conservative than the exact p, and no longer sure to keep its level.

    1 against 7 gives 10/256, 86 against 150 gives 2.8934e-05. None at all gives 1, where the formula would say 1/2: no
    disagreement is no evidence. Never 0: a p beneath 1e-250 (831 against 0) is given as 1e-250.

    Raises `ValueError` for what is not a whole number of at least 0.
    """
    low, high = sorted((_count(b, "b"), _count(c, "c")))
    n = low + high
    if n == 0:
        return 1.0
    if low == high:
        return 1.0 - float(stats.binom.pmf(low, n, 0.5)) / 2.0
    # Two sums of positive terms: the exact p minus the chance of b would cancel.
    return max(SMALLEST_BINOMIAL_P, float(stats.binom.cdf(low - 1, n, 0.5) + stats.binom.cdf(low, n, 0.5)))


def exact_p(b: int, c: int) -> float:
    """Two-sided exact McNemar, the binomial test of b against c: `mid_p`'s null, never above its level.

    86 against 150 gives 3.7159e-05. Never beneath 1e-250. Raises `ValueError` for what is not a whole number of at
    least 0.
    """
    return max(SMALLEST_BINOMIAL_P, discordant(_count(b, "b"), _count(c, "c")))


def per_seed(
    variant: npt.NDArray[np.bool_], baseline: npt.NDArray[np.bool_], *, seeds: Sequence[int | str]
) -> tuple[Discordant, ...]:
    """Both tests at each seed, in the order of `seeds`. `variant`, `baseline`: (seeds, examples), whether it was right.

    The p are not adjusted, and are not to be counted as replications: the seeds share their examples.

    Raises `ValueError` for arrays that are not boolean, shapes that differ or are empty, and seeds that do not name
    each row once.
    """
    a, b = np.asarray(variant), np.asarray(baseline)
    for name, right in (("variant", a), ("baseline", b)):
        if right.dtype != np.bool_:
            raise ValueError(
                f"{name} must be booleans (was the prediction right?), got {right.dtype}: predicted == label"
            )
        if right.ndim != 2 or right.size == 0:
            raise ValueError(
                f"{name} must have the shape (seeds, examples), both at least 1; got the shape {right.shape}"
            )
    if a.shape != b.shape:
        raise ValueError(f"variant has the shape {a.shape}, baseline {b.shape}: the same seeds and examples are needed")
    if len(seeds) != len(a) or len(set(seeds)) != len(seeds):
        raise ValueError(f"seeds must name each of the {len(a)} rows once, got {list(seeds)}")
    examples = a.shape[1]
    results = []
    for seed, x, y in zip(seeds, a, b, strict=True):
        only, other = int(np.count_nonzero(x & ~y)), int(np.count_nonzero(y & ~x))
        results.append(
            Discordant(
                seed=seed,
                variant_only=only,
                baseline_only=other,
                p_mid=mid_p(only, other),
                p_exact=exact_p(only, other),
                difference=(only - other) / examples,
            )
        )
    return tuple(results)


def _count(value: int, name: str) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < 0:
        raise ValueError(f"{name} must be a count of examples, a whole number of at least 0; got {value!r}")
    return int(value)
