"""Two sources of variance: a mean difference over seeds and over test examples, both taken as random samples.

S seeds (rows), N examples (columns). D[s, i] = correct(variant) - correct(baseline) of seed s on example i: -1, 0 or 1.

A t interval over seeds alone answers for this test set. The crossed analysis of variance without replication answers
for other examples too. statsmodels' MixedLM would give z-based p, which are too small at few seeds, so mean squares are
used.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from knockout.analysis.stats.numeric import ROUNDING, SMALLEST_P

Advice = Literal["more seeds would help", "a larger test set would help", "both would help", ""]

CUT = 0.2
"""Shares of seeds and of examples that differ by less than this give "both would help".

Doubling the seeds leaves (1 + share_example) / 2 of Var(mean), doubling the examples (1 + share_seed) / 2. With
shares .2 apart these differ by a tenth of Var(mean), and the widths of the intervals by a factor of sqrt(.6 / .5) at
most: 1.095.
"""
_NEAR = 1e-9
_Three = tuple[float, float, float]
_BLOCK = 8192  # examples multiplied at once: sums of so many products of -1, 0, 1 are exact in float32


@dataclass(frozen=True, kw_only=True)
class TwoSource:
    """The mean difference with both its variances, in the unit of the differences (shares of 1 for correctness)."""

    seeds: int
    examples: int
    mean: float
    ms_seed: float | None
    """mean square between seeds, S - 1 degrees of freedom; all three are None under 2 seeds or 2 examples"""
    ms_example: float | None
    """mean square between examples, N - 1 degrees of freedom"""
    ms_residual: float | None
    """of what neither seed nor example explains, (S - 1)(N - 1) degrees of freedom"""
    estimable: bool
    """where not, se, df, t, p, low and high are None, and the interval over seeds stands alone"""
    reason: str
    """why it is not estimable, in words; "" where it is"""
    se: float | None
    df: float | None
    """Satterthwaite's, at least 1"""
    t: float | None
    p: float | None
    """two-sided, over 0"""
    low: float | None
    high: float | None
    share_seed: float | None
    """of Var(mean), as are the next two; they sum to 1. None where nothing varies, and with one seed or one example"""
    share_example: float | None
    share_residual: float | None
    advice: Advice
    """what would narrow the interval more; "" where it is not estimable"""
    from_seeds: bool = False
    """whether p, low and high are those over seeds alone, since chance made the crossed interval narrower"""


@dataclass(frozen=True, kw_only=True)
class _Squares:
    """The mean, and sums of squared deviations."""

    mean: float
    seed: float
    example: float
    residual: float


def two_source(differences: npt.ArrayLike, *, level: float = 0.95) -> TwoSource:
    """The mean of D with an interval and a p that count seeds and examples as two crossed samples.

    `differences`: (seeds, examples), rows are seeds; integers (int8 is enough) or finite floats. A bare array does
    not say which axis is which. Transposed, the shares and the advice change places and all else stays: print `seeds`
    and `examples`. Null hypothesis of p: the mean difference is 0 over all seeds and all test examples like these.

    Var(mean) = (MS_seed + MS_example - MS_residual) / (S N), the unbiased estimator under D = mean + seed + example +
    residual with independent parts (Searle, Casella & McCulloch 1992, Variance Components, ch. 4). Degrees of freedom
    (Satterthwaite 1946): V^2 / sum of (MS_j^2 / df_j), where V is the sum in brackets. Not estimable where V <= 0 or df
    is under 1, with one seed or one example, and where nothing varies. Shares: sigma2_seed / S, sigma2_example / N and
    sigma2_residual / (S N), components under 0 counted as 0, over their sum. At few seeds the share of seeds, and the
    advice with it, is a guess: with 3 seeds it rests on 2 degrees of freedom.

    Coverage of the nominal 95 % interval (sim, 8,000 repetitions of D in {-1, 0, 1}, the interval over seeds standing
    in where this is not estimable): .94 to .96 from 4 seeds on, .92 to .96 with 3, .90 with 2.

    4 seeds x 12 examples of `two_source_anova_4seeds_12examples` (R): mean .1667, se .1066, df 7.36, [-.083, .416].
    Integers are summed as integers, without a copy of the matrix: what is zero is exactly zero.

    Raises `ValueError` for another number of dimensions, an empty array, NaN, infinities, booleans and a level outside
    (0, 1).
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be between 0 and 1, such as 0.95; got {level}")
    d = _checked(differences)
    seeds, examples = d.shape
    squares = _squares(d)
    ms = _mean_squares(squares, seeds, examples)
    total = ms[0] + ms[1] - ms[2] if ms else 0.0
    df = _degrees(ms, total, seeds, examples) if ms and total > 0.0 else 0.0
    reason = _reason(squares.mean, ms, total, df, seeds=seeds)
    shares = _shares(ms) if ms and any(ms) else (None, None, None)
    untested = TwoSource(
        seeds=seeds,
        examples=examples,
        mean=squares.mean,
        ms_seed=ms[0] if ms else None,
        ms_example=ms[1] if ms else None,
        ms_residual=ms[2] if ms else None,
        estimable=False,
        reason=reason,
        se=None,
        df=None,
        t=None,
        p=None,
        low=None,
        high=None,
        share_seed=shares[0],
        share_example=shares[1],
        share_residual=shares[2],
        advice="",
    )
    if reason:
        return untested
    se = math.sqrt(total / (seeds * examples))
    t = squares.mean / se
    half = float(stats.t.isf((1.0 - level) / 2.0, df)) * se
    return replace(
        untested,
        estimable=True,
        se=se,
        df=df,
        t=t,
        p=min(1.0, max(SMALLEST_P, 2.0 * float(stats.t.sf(abs(t), df)))),
        low=squares.mean - half,
        high=squares.mean + half,
        advice=_advice(shares[0] or 0.0, shares[1] or 0.0),
    )


def two_source_interval(differences: npt.ArrayLike, *, level: float = 0.95) -> TwoSource:
    """`two_source`, with an interval that is never narrower than the t interval over seeds, and a p never smaller.

    Other test examples cannot make the mean more certain: a crossed interval that is narrower is so by chance, since
    the estimated variance of examples came out below 0 or Satterthwaite's df above S - 1. Then that over seeds stands.
    """
    two = two_source(differences, level=level)
    if two.low is None or two.high is None or two.p is None or not two.ms_seed:
        return two
    se = math.sqrt(two.ms_seed / (two.seeds * two.examples))
    half = float(stats.t.isf((1.0 - level) / 2.0, two.seeds - 1)) * se
    p = 2.0 * float(stats.t.sf(abs(two.mean) / se, two.seeds - 1))
    narrower = half > (two.high - two.low) / 2
    return replace(
        two,
        p=max(two.p, p),
        low=two.mean - half if narrower else two.low,
        high=two.mean + half if narrower else two.high,
        from_seeds=narrower,
    )


def crossed_bootstrap(differences: npt.ArrayLike, *, draws: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """`(draws,)` means of D under resampled seeds and resampled examples: for pictures only, not for intervals.

    Under 20 seeds its quantiles are not to be called a 95 % interval: over seeds they are too narrow by (S - 1) / S in
    variance, and the residual is counted about three times (Owen 2007, The pigeonhole bootstrap). `two_source` has the
    interval.

    Exact in seeds: W = multinomial(S, 1/S) / S are the weights of resampled seeds. Given W, the mean over resampled
    examples has mean W.r and variance W C W' / N, with r the row means and C the S x S covariance over examples. A
    normal stands for its shape. C divides by N, not N - 1: examples are drawn from these N, and that is the covariance
    of these N.

    `differences`: (seeds, examples) as in `two_source`. With rows (1, 0), (0, 0), (1, 1) the draws have mean 1/2 and
    variance 17/216: 1/18 over seeds, 5/216 over examples. Raises `ValueError` for what `two_source` refuses and for
    fewer than one draw.
    """
    if draws < 1:
        raise ValueError(f"draws must be at least 1, such as 10000; got {draws}")
    d = _checked(differences)
    seeds, examples = d.shape
    means, covariance = _over_examples(d)
    weights = rng.multinomial(seeds, np.full(seeds, 1.0 / seeds), size=draws) / seeds
    variance = np.einsum("ds,ds->d", weights @ covariance, weights)
    spread = np.sqrt(np.maximum(variance, 0.0) / examples)  # rounding can leave -1e-20
    theta: npt.NDArray[np.float64] = weights @ means + spread * rng.standard_normal(draws)
    return theta


def _checked(differences: npt.ArrayLike) -> npt.NDArray[Any]:
    d = np.asarray(differences)
    if d.ndim != 2 or d.size == 0:
        raise ValueError(
            f"differences must have the shape (seeds, examples), both at least 1; got the shape {d.shape}:"
            " one row per seed, one column per test example"
        )
    if d.dtype.kind not in "iuf":
        raise ValueError(
            f"differences must be integers or floats, got {d.dtype}: correct(variant) - correct(baseline), such as"
            " variant.astype('int8') - baseline.astype('int8')"
        )
    if d.dtype.kind == "f":
        # Row by row: a mask of the whole matrix would be a copy of it.
        bad = next((s for s, row in enumerate(d) if not np.isfinite(row).all()), None)
        if bad is not None:
            i = int(np.flatnonzero(~np.isfinite(d[bad]))[0])
            raise ValueError(
                f"differences[{bad}, {i}] (seed, example) is {d[bad, i]}; all must be finite: leave out seeds at which"
                " a run of either arm has no predictions"
            )
    peak = _peak(d)
    if peak and not 1e-100 < peak < 1e100:
        raise ValueError(f"the largest difference is {peak:g} in size: its square is beyond floats; use another unit")
    return d


def _peak(d: npt.NDArray[Any]) -> float | int:
    low: float | int = d.min().item()  # a Python number: -(-128) is no int8
    high: float | int = d.max().item()
    return max(abs(low), abs(high))


def _squares(d: npt.NDArray[Any]) -> _Squares:
    seeds, examples = d.shape
    peak = _peak(d)
    if d.dtype.kind == "f" or seeds * examples * max(seeds, examples) * int(peak) ** 2 >= 2**62:
        return _real_squares(d, float(peak))
    rows, columns = d.sum(axis=1, dtype=np.int64), d.sum(axis=0, dtype=np.int64)
    # einsum converts piece by piece, where d * d would overflow int8.
    squares = int(np.einsum("ij,ij->", d, d, dtype=np.int64, casting="unsafe"))
    n, total = seeds * examples, int(rows.sum())
    seed = seeds * int(np.dot(rows, rows)) - total**2
    example = examples * int(np.dot(columns, columns)) - total**2
    residual = n * squares - total**2 - seed - example
    return _Squares(mean=total / n, seed=seed / n, example=example / n, residual=residual / n)


def _real_squares(d: npt.NDArray[Any], peak: float) -> _Squares:
    """From deviations, a row at a time: sums of squares minus squares of sums would cancel."""
    seeds, examples = d.shape
    origin = float(d[0, 0])
    rows, columns = np.zeros(seeds), np.zeros(examples)
    for s, row in enumerate(d):
        centred = row.astype(np.float64) - origin
        rows[s] = centred.mean()
        columns += centred / seeds
    middle = float(rows.mean())
    residual = 0.0
    for s, row in enumerate(d):
        left = row.astype(np.float64) - origin - rows[s] - (columns - middle)
        residual += float(left @ left)
    nothing = seeds * examples * (ROUNDING * peak) ** 2
    sums = (examples * float(((rows - middle) ** 2).sum()), seeds * float(((columns - middle) ** 2).sum()), residual)
    seed, example, residual = (x if x > nothing else 0.0 for x in sums)
    return _Squares(mean=origin + middle, seed=seed, example=example, residual=residual)


def _mean_squares(squares: _Squares, seeds: int, examples: int) -> _Three | None:
    """Of seeds, examples and residual; None where one of them has no degree of freedom."""
    if seeds < 2 or examples < 2:
        return None
    residual = squares.residual / ((seeds - 1) * (examples - 1))
    return squares.seed / (seeds - 1), squares.example / (examples - 1), residual


def _degrees(ms: _Three, total: float, seeds: int, examples: int) -> float:
    own = (seeds - 1, examples - 1, (seeds - 1) * (examples - 1))
    # In units of the total: the square of a tiny one underflows.
    df = 1.0 / math.fsum((m / total) ** 2 / n for m, n in zip(ms, own, strict=True))
    return 1.0 if abs(df - 1.0) < _NEAR else df  # exactly 1 where one cell of 3 x 4 differs: rounding must not decide


def _reason(mean: float, ms: _Three | None, total: float, df: float, *, seeds: int) -> str:
    """Why there is no standard error; "" where there is one."""
    if ms is None:
        return f"one {'seed' if seeds < 2 else 'example'}: at least 2 seeds and 2 examples are needed"
    if not any(ms):
        return f"every difference is {mean:g}: nothing varies"
    if total <= 0.0:
        sums = f"({ms[0]:.3g} + {ms[1]:.3g} against {ms[2]:.3g})"
        return f"the mean squares of seeds and of examples sum to no more than the residual's {sums}"
    if df < 1.0:
        return f"the variance rests on {df:.2g} degrees of freedom, fewer than 1"
    return ""


def _shares(ms: _Three) -> _Three:
    """Of Var(mean), for mean squares of which at least one is over 0."""
    parts = (max(0.0, ms[0] - ms[2]), max(0.0, ms[1] - ms[2]), ms[2])  # the components of Var(mean), each times S N
    whole = math.fsum(parts)
    return parts[0] / whole, parts[1] / whole, parts[2] / whole


def _advice(share_seed: float, share_example: float) -> Advice:
    if abs(share_seed - share_example) < CUT - _NEAR:
        return "both would help"
    return "more seeds would help" if share_seed > share_example else "a larger test set would help"


def _over_examples(d: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Row means (S,), and the covariance of rows over examples (S, S), divided by N."""
    seeds, examples = d.shape
    means: npt.NDArray[np.float64] = d.mean(axis=1, dtype=np.float64)
    products = np.zeros((seeds, seeds))
    exact = d.dtype.kind != "f" and _peak(d) ** 2 * _BLOCK <= 2**24
    for start in range(0, examples, _BLOCK):
        block = d[:, start : start + _BLOCK]
        if exact:
            counts = block.astype(np.float32)
            products += counts @ counts.T
        else:
            centred = block.astype(np.float64) - means[:, None]
            products += centred @ centred.T
    covariance = products / examples
    return means, covariance - np.outer(means, means) if exact else covariance
