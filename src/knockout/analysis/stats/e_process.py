"""E-processes: evidence that may be looked at after every seed.

An e-process starts at 1 and its mean at any time of stopping is at most 1 when the null hypothesis is true. So the
chance that it ever reaches 1 / alpha is at most alpha (Ville's inequality), however often one looks.

Differences are variant minus baseline in the order of the seeds; -inf: the variant failed, +inf: the baseline failed,
0: both failed. Whole counts make ties exact: as accuracies, .825 - .775 is not .375 - .325.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np

from knockout.analysis.stats.multiplicity import holm

Process = Literal["sign", "t"]

MAX_LOG = 700.0
"""e is capped at exp(700): it is printed, and a float ends at exp(709)."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The e-process of one contrast at the last seed."""

    e: float
    """at the last seed"""
    e_max: float
    """the largest so far, 1 or more: what is decided on"""
    p: float
    """1 / e_max, valid at any time of stopping"""
    p_holm: float
    """the same, adjusted over the family"""
    rejected_at: int | None
    """the number of seeds at which e-Holm first rejected; it stays rejected"""
    direction: Literal[-1, 0, 1]
    """of wins minus losses (sign), or of the mean of what the process has taken in (t), at the last seed"""


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """All contrasts of a family."""

    process: Process
    alpha: float
    family: int
    n: int
    """seeds"""
    decided_at: int | None
    """the first number of seeds at which every contrast was rejected"""
    contrasts: Mapping[str, Decision]

    @property
    def undecided(self) -> tuple[str, ...]:
        """The variants whose contrast is not rejected."""
        return tuple(name for name, c in self.contrasts.items() if c.rejected_at is None)


def sign_process(differences: Sequence[float]) -> tuple[float, ...]:
    """The sign e-process after each difference: `(n,)`.

    e = 2^n G(k + 1/2) G(n - k + 1/2) / (pi G(n + 1)) for k wins among n wins and losses, G the gamma function: the
    likelihood ratio of a Beta(1/2, 1/2) mixture over P(win) against P(win) = 1/2, so it is two-sided. Zeros are
    skipped; a failed variant is a loss, a failed baseline a win. Null hypothesis: among seeds without a tie, each is a
    win with chance 1/2, whatever came before. Source: Krichevsky & Trofimov 1981; Ramdas et al. 2023, "Game-theoretic
    statistics and safe anytime-valid inference". Seven wins in a row give 26.8. Raises `ValueError` for NaN.
    """
    wins = losses = 0
    e = []
    for d in _checked(differences):
        wins += d > 0
        losses += d < 0
        e.append(_exp(_log_sign(wins, losses)))
    return tuple(e)


def t_process(differences: Sequence[float], *, g: float = 1.0) -> tuple[float, ...]:
    """The t e-process after each difference: `(n,)`. Free of scale; two-sided.

    e_n = (1 + ng)^(-1/2) [(1 + t^2/(n-1)) / (1 + t^2/((n-1)(1+ng)))]^(n/2), with t of the first n differences and
    e_1 = 1: the Bayes factor of an effect mean/sd ~ N(0, g). Null hypothesis: independent normal differences with mean
    0 and any sd. Differences 1, 2, 3, 4 give 4.02.

    A failure freezes it for good at the value before, with no later difference taken in: a process that is stopped at a
    time which does not look ahead stays an e-process. While all differences so far are equal (sd = 0) it is 1: normal
    differences are never equal, so this costs nothing under the null, and no t is infinite. It moves once they differ.

    Source: Gonen, Johnson, Lu & Westfall 2005, The American Statistician 59(3); Wang & Ramdas 2025, "Anytime-valid
    t-tests and confidence sequences for Gaussian means with unknown variance". Raises `ValueError` for NaN, or g <= 0.
    """
    if not (g > 0 and math.isfinite(g)):
        raise ValueError(f"g is {g}; allowed: a finite number above 0, the variance of mean/sd under the alternative")
    taken = _before_failure(_checked(differences))
    # Squares neither overflow nor vanish; a power of 2 moves no last bit of e when a larger difference comes later.
    scale = 2.0 ** math.frexp(max(map(abs, taken), default=0.0))[1]
    mean = squares = 0.0
    e: list[float] = []
    for n, d in enumerate(taken, 1):
        step = d / scale - mean
        mean += step / n
        squares += step * (d / scale - mean)
        if squares <= 0.0:
            e.append(1.0)
            continue
        signal, spread = n * mean * mean, 1 + n * g
        ratio = math.log(squares + signal) - math.log(squares + signal / spread)
        e.append(_exp(n / 2 * ratio - math.log(spread) / 2))
    last = e[-1] if e else 1.0
    return (*e, *[last] * (len(differences) - len(e)))


def running_p(process: Sequence[float]) -> tuple[float, ...]:
    """A p value after each seed: 1 / the largest e so far, at most 1. Valid at any time of stopping (Ville 1939)."""
    return tuple(1.0 / largest for largest in list(accumulate(process, max, initial=1.0))[1:])


def e_holm_p(p_values: Sequence[float | None], k: int) -> tuple[float, ...]:
    """Holm's adjusted p over a family of k, in the order given; a missing p, and each not given, counts as 1.

    Of p = 1 / e it is the e-Holm procedure: under any dependence the chance of one false rejection is at most alpha
    (Vovk & Wang 2021, "E-values: calibration, combination and applications"). `e_holm_p([.01, .04], 3)` gives .03, .08.
    Raises `ValueError` where more than k are given, or one is no probability.
    """
    if len(p_values) > k:
        raise ValueError(f"{len(p_values)} p values in a family of {k}; a family holds at least what is given")
    if not all(p is None or 0.0 <= p <= 1.0 for p in p_values):
        raise ValueError(f"got p values {list(p_values)}; allowed: 0 to 1, and None where there is none")
    return holm(p_values, k)


def decide(
    differences_by_variant: Mapping[str, Sequence[float]], *, process: Process, alpha: float, family: int
) -> Decisions:
    """What may be said of each contrast, and since how many seeds, when one looks after every seed.

    The differences of all variants have the same length: complete blocks of seeds, in their order. `family` counts all
    contrasts of the study, and is at least the number of variants given. Raises `ValueError` for anything else.
    """
    lengths = {name: len(d) for name, d in differences_by_variant.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"got numbers of differences {lengths}; needed: the same for one variant or more")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}; allowed: above 0 and below 1")
    names, n = list(lengths), next(iter(lengths.values()))
    follow = {"sign": sign_process, "t": t_process}[process]
    e = {name: follow(d) for name, d in differences_by_variant.items()}
    p = {name: running_p(values) for name, values in e.items()}
    rejected: dict[str, int] = {}
    adjusted = e_holm_p([p[name][-1] if n else None for name in names], family)
    for i in range(n):
        now = [p[name][i] for name in names]
        if min(now) > alpha / family or len(rejected) == len(names):
            continue  # Holm rejects nothing, or has rejected all
        for name, q in zip(names, e_holm_p(now, family), strict=True):
            if q <= alpha:
                rejected.setdefault(name, i + 1)
    return Decisions(
        process=process,
        alpha=alpha,
        family=family,
        n=n,
        decided_at=max(rejected.values()) if len(rejected) == len(names) else None,
        contrasts={
            name: Decision(
                e=e[name][-1] if n else 1.0,
                e_max=max(1.0, *e[name]) if n else 1.0,
                p=p[name][-1] if n else 1.0,
                p_holm=adjusted[i],
                rejected_at=rejected.get(name),
                direction=_direction(differences_by_variant[name], process),
            )
            for i, name in enumerate(names)
        },
    )


def fewest_seeds(process: Process, *, family: int, alpha: float) -> int:
    """The least number of seeds at which the process can reject all of a family of contrasts at once.

    For `sign` this takes as many straight wins (or losses), for `t` differences whose sd is as good as 0. For alpha =
    .05 and a family of 1, 5, 10: `sign` 7, 10, 11; `t` 5, 6, 7.
    """
    goal = math.log(family / alpha)
    n = 2
    while (_log_sign(n, 0) if process == "sign" else (n - 1) / 2 * math.log1p(n)) < goal:
        n += 1
    return n


def _log_sign(wins: int, losses: int) -> float:
    n = wins + losses
    shares = math.lgamma(wins + 0.5) + math.lgamma(losses + 0.5)
    return n * math.log(2) + shares - math.log(math.pi) - math.lgamma(n + 1) if n else 0.0


def _exp(log_e: float) -> float:
    return math.exp(min(log_e, MAX_LOG))


def _checked(differences: Sequence[float]) -> list[float]:
    values = [float(d) for d in differences]
    if any(map(math.isnan, values)):
        raise ValueError(
            f"difference {values.index(next(filter(math.isnan, values)))} is NaN; a failure is -inf or inf"
        )
    return values


def _before_failure(values: Sequence[float]) -> list[float]:
    first = next((i for i, d in enumerate(values) if math.isinf(d)), len(values))
    return list(values[:first])


def _direction(differences: Sequence[float], process: Process) -> Literal[-1, 0, 1]:
    values = _checked(differences)
    signed = np.sign(values).sum() if process == "sign" else math.fsum(_before_failure(values))
    return 1 if signed > 0 else -1 if signed < 0 else 0
