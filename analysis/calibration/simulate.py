"""Simulated studies, judged by the product's own code. No test and no verdict is written a second time here.

Each simulation takes `rng` and a number of repetitions, and returns one value per repetition: 1 if the event happened,
0 if not, or the share of the contrasts for which it did. n seeds, K variants.

A run's value is its number of correct predictions among 2,000 test examples: 1,500, plus a normal effect of the seed
that all arms share, plus the run's own noise. Differences have an sd of 10 examples (.5 points). Arms have an sd of 10
too where both are noisy, so that they correlate at .5. The margin is one sd of differences, so that every verdict is
within reach, `trivial` from n = 20.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Literal

import numpy as np
import numpy.typing as npt

from knockout.analysis.inference.family import Family
from knockout.analysis.inference.pairs import Pair, State, estimate
from knockout.analysis.inference.verdict import Judgement, judge, paired_t, ranked_differences
from knockout.analysis.stats.crossed_anova import two_source
from knockout.analysis.stats.e_process import Process, decide, sign_process, t_process
from knockout.analysis.stats.exact import worst_rank
from knockout.analysis.stats.mcnemar import mid_p
from knockout.analysis.stats.metric import counted
from knockout.study import Plan

Array = npt.NDArray[np.float64]
Simulation = Callable[[np.random.Generator, int], Array]
Law = Literal[
    "normal",
    "skewed arms",
    "skewed differences",
    "very skewed differences",
    "one variant with 5 times the sd",
    "every run fails at .2",
    "one variant fails at .2",
]

TEXTS = 2000
TYPICAL = 1500
SPREAD = 10.0
"""texts: the sd of paired differences"""
OWN = SPREAD / math.sqrt(2)
FAILS = 0.2
METRIC = counted("accuracy", examples=TEXTS)
PLAN = replace(Plan(), margin=SPREAD * METRIC.scale)
MOVED = ("better", "worse", "trivial")
ALIKE = ("equivalent", "trivial")


def repeat(simulate: Simulation, seeds: np.random.SeedSequence, repetitions: int) -> list[float]:
    """What a process of its own is asked for."""
    return [float(x) for x in simulate(np.random.default_rng(seeds), repetitions)]


def lognormal(rng: np.random.Generator, size: int | tuple[int, ...]) -> Array:
    """Of mean 0, sd 1 and skewness 6.2: exp of a standard normal, moved and scaled."""
    drawn = np.exp(rng.normal(size=size))
    return np.asarray((drawn - math.exp(0.5)) / math.sqrt((math.e - 1) * math.e), dtype=float)


def noise(rng: np.random.Generator, law: Law, n: int, k: int) -> tuple[Array, Array]:
    """What runs add to the effect of their seed, in texts, of mean 0: the baseline's (n,), the variants' (k, n)."""
    if law == "skewed arms":
        return OWN * (rng.exponential(size=n) - 1), OWN * (rng.exponential(size=(k, n)) - 1)
    if (
        law == "skewed differences"
    ):  # the baseline adds nothing: of two arms that are skewed alike it takes the skew away
        return np.zeros(n), SPREAD * (rng.exponential(size=(k, n)) - 1)
    if law == "very skewed differences":
        return np.zeros(n), SPREAD * lognormal(rng, (k, n))
    variants = OWN * rng.normal(size=(k, n))
    if law == "one variant with 5 times the sd":
        variants[0] *= 5
    return OWN * rng.normal(size=n), variants


def study(
    rng: np.random.Generator, law: Law, *, n: int, k: int, effects: Sequence[float] = (), correlation: float = 0.5
) -> list[list[Pair]]:
    """The pairs of one study's contrasts. `effects`: texts that the first variants gain.

    `correlation` between arms that are normal; the sd of differences is the same whatever it is.
    """
    own_baseline, own = noise(rng, law, n, k)
    seeds = TYPICAL + rng.normal(0, OWN * math.sqrt(correlation / (1 - correlation)), n)
    gain = np.array([*effects, *[0.0] * (k - len(effects))])
    baseline = np.minimum(np.rint(seeds + own_baseline), TEXTS).astype(int).tolist()
    variants = np.minimum(np.rint(seeds + own + gain[:, None]), TEXTS).astype(int).tolist()
    dead = np.zeros((k + 1, n), dtype=bool)
    if law == "every run fails at .2":
        dead = rng.random((k + 1, n)) < FAILS
    elif law == "one variant fails at .2":
        dead[0] = rng.random(n) < FAILS
    return [[_pair(s, variants[v][s], baseline[s], dead[v, s], dead[k, s]) for s in range(n)] for v in range(k)]


def _pair(seed: int, variant: int, baseline: int, dead: bool, dead_baseline: bool) -> Pair:
    states: dict[tuple[bool, bool], State] = {
        (False, False): "complete",
        (True, False): "variant failed",
        (False, True): "baseline failed",
        (True, True): "both failed",
    }
    state = states[bool(dead), bool(dead_baseline)]
    return Pair(
        seed=seed,
        state=state,
        variant=None if dead else variant,
        baseline=None if dead_baseline else baseline,
        difference=(variant - baseline) * METRIC.scale if state == "complete" else None,
        identical=False,
    )


def verdicts(paired: Sequence[Sequence[Pair]]) -> list[Judgement]:
    """What the plan says of a study, all of whose contrasts are one family."""
    family = Family(
        metric=METRIC,
        plan=PLAN,
        baseline="baseline",
        seeds=tuple(p.seed for p in paired[0]),
        size=len(paired),
        pairs={f"v{i}": tuple(pairs) for i, pairs in enumerate(paired)},
    )
    return list(judge(family).values())


def family_error(rng: np.random.Generator, repetitions: int, *, law: Law, n: int, k: int) -> Array:
    """Whether any variant is called better, worse or trivial where none differs.

    A variant that alone fails does differ: its own verdict is left out, and the others are counted.
    """
    first = 1 if law == "one variant fails at .2" else 0
    return each(repetitions, lambda: any(j.verdict in MOVED for j in verdicts(study(rng, law, n=n, k=k))[first:]))


def unadjusted_error(rng: np.random.Generator, repetitions: int, *, n: int, k: int) -> Array:
    """Whether any of the 95 % intervals leaves out 0: what a reader gets who takes verdicts from them."""
    return each(repetitions, lambda: any(not _holds(pairs) for pairs in study(rng, "normal", n=n, k=k)))


def touched(rng: np.random.Generator, repetitions: int, *, n: int, k: int) -> Array:
    """Whether failures of one variant change a raw p, or the test, of any other contrast."""

    def once() -> bool:
        failing = study(rng, "one variant fails at .2", n=n, k=k)
        whole = [[_whole(rng, p) for p in failing[0]], *failing[1:]]
        others = zip(verdicts(failing)[1:], verdicts(whole)[1:], strict=True)
        return any(a.tested != b.tested for a, b in others)

    return each(repetitions, once)


def _whole(rng: np.random.Generator, p: Pair) -> Pair:
    assert p.baseline is not None
    value = p.variant if p.variant is not None else p.baseline + round(SPREAD * rng.normal())
    return replace(p, state="complete", variant=value, difference=(value - p.baseline) * METRIC.scale)


def coverage(rng: np.random.Generator, repetitions: int, *, law: Law, n: int) -> Array:
    """Whether the 95 % t interval of the mean difference holds the truth. Real values."""

    def once() -> bool:
        own_baseline, own = noise(rng, law, n, 1)
        seeds = TYPICAL + SPREAD * rng.normal(size=n)
        told = estimate((seeds + own[0]).tolist(), (seeds + own_baseline).tolist(), METRIC.scale, 1)
        assert told is not None
        assert told.low is not None
        assert told.high is not None
        return told.low <= 0 <= told.high

    return each(repetitions, once)


def power(
    rng: np.random.Generator,
    repetitions: int,
    *,
    n: int,
    k: int,
    true: int,
    effect: float,
    correlation: float,
) -> Array:
    """The share of the first `true` variants, each better by `effect` sds of differences, that are called better."""
    gains = [effect * SPREAD] * true

    def once() -> float:
        judged = verdicts(study(rng, "normal", n=n, k=k, effects=gains, correlation=correlation))
        return sum(j.verdict == "better" for j in judged[:true]) / true

    return each(repetitions, once)


def called_alike(rng: np.random.Generator, repetitions: int, *, n: int, k: int, effect: float) -> Array:
    """Whether any variant is called equivalent or trivial where each is better by `effect` margins."""
    gains = [effect * SPREAD] * k
    return each(
        repetitions, lambda: any(j.verdict in ALIKE for j in verdicts(study(rng, "normal", n=n, k=k, effects=gains)))
    )


def naive_peeking(rng: np.random.Generator, repetitions: int, *, first: int, last: int) -> Array:
    """Whether the paired t test has p <= .05 at any look, after every seed from `first` to `last`."""

    def once() -> bool:
        d = rng.normal(size=last).tolist()
        return any(paired_t(d[:n]) <= PLAN.alpha for n in range(first, last + 1))

    return each(repetitions, once)


def peeking(rng: np.random.Generator, repetitions: int, *, process: Process, last: int, law: Law = "normal") -> Array:
    """Whether the e-process ever reaches 1 / alpha to `last` seeds."""
    follow = {"sign": sign_process, "t": t_process}[process]

    def once() -> bool:
        own_baseline, own = noise(rng, law, last, 1)
        return max(accumulate(follow((own[0] - own_baseline).tolist()), max)) >= 1 / PLAN.alpha

    return each(repetitions, once)


def peeking_family(rng: np.random.Generator, repetitions: int, *, process: Process, last: int, k: int) -> Array:
    """Whether e-Holm rejects any of k true nulls at any look to `last` seeds."""

    def once() -> bool:
        own_baseline, own = noise(rng, "normal", last, k)
        differences = {f"v{i}": (own[i] - own_baseline).tolist() for i in range(k)}
        told = decide(differences, process=process, alpha=PLAN.alpha, family=k)
        return len(told.undecided) < k

    return each(repetitions, once)


def correctness(
    rng: np.random.Generator, *, seeds: int, texts: int, seed_sd: float, text_sd: float, discordant: float
) -> npt.NDArray[np.int8]:
    """D (seeds, texts) in {-1, 0, 1} with mean 0 over all seeds and texts.

    Given an effect a of the seed (uniform) and b of the text (either of two values), D is 1 or -1 with the chances
    (discordant +- (a + b)) / 2, so that its mean is a + b.
    """
    a = seed_sd * math.sqrt(3) * rng.uniform(-1, 1, seeds)
    b = text_sd * rng.choice([-1.0, 1.0], texts)
    assert seed_sd * math.sqrt(3) + text_sd <= discordant
    drawn = rng.random((seeds, texts))
    win = (discordant + a[:, None] + b) / 2
    return (drawn < win).astype(np.int8) - (drawn >= 1 - discordant + win).astype(np.int8)


def two_source_coverage(
    rng: np.random.Generator, repetitions: int, *, seeds: int, texts: int, seed_sd: float, text_sd: float
) -> Array:
    """Whether the interval over seeds and texts holds the mean over all of both. Not estimable counts as a miss."""

    def once() -> bool:
        d = correctness(rng, seeds=seeds, texts=texts, seed_sd=seed_sd, text_sd=text_sd, discordant=0.2)
        told = two_source(d)
        return told.low is not None and told.high is not None and told.low <= 0 <= told.high

    return each(repetitions, once)


def seeds_only_coverage(
    rng: np.random.Generator, repetitions: int, *, seeds: int, texts: int, seed_sd: float, text_sd: float
) -> Array:
    """Whether the t interval over seeds holds the mean over all seeds and texts, of which it counts the seeds only."""

    def once() -> bool:
        d = correctness(rng, seeds=seeds, texts=texts, seed_sd=seed_sd, text_sd=text_sd, discordant=0.2)
        right = d.sum(axis=1, dtype=int).tolist()
        return _covers([TYPICAL + x for x in right], [TYPICAL] * seeds)

    return each(repetitions, once)


def mcnemar_coverage(rng: np.random.Generator, repetitions: int, *, texts: int, seed_sd: float) -> Array:
    """Whether McNemar's test of one seed keeps p > .05, where the variant is neither better nor worse over seeds.

    Texts differ by nothing, a tenth of them is discordant; the effect of the seed is normal.
    """

    def once() -> bool:
        won = float(np.clip((0.1 + seed_sd * rng.normal()) / 2, 0.0, 0.1))
        wins, losses, _ = rng.multinomial(texts, [won, 0.1 - won, 0.9]).tolist()
        return mid_p(wins, losses) > PLAN.alpha

    return each(repetitions, once)


def worst_rank_size(rng: np.random.Generator, repetitions: int, *, n: int) -> Array:
    """Whether the worst-rank test has p <= .05 where runs of both arms fail at .2."""

    def once() -> bool:
        (pairs,) = study(rng, "every run fails at .2", n=n, k=1)
        return worst_rank(ranked_differences(pairs, METRIC)) <= PLAN.alpha

    return each(repetitions, once)


def _holds(pairs: Sequence[Pair]) -> bool:
    return _covers([p.variant or 0 for p in pairs], [p.baseline or 0 for p in pairs])


def _covers(variant: Sequence[float], baseline: Sequence[float]) -> bool:
    told = estimate(variant, baseline, METRIC.scale, METRIC.sign)
    assert told is not None
    if told.low is None or told.high is None:  # all differences are one number
        return told.difference == 0
    return told.low <= 0 <= told.high


def each(repetitions: int, once: Callable[[], float]) -> Array:
    """The values of so many repetitions."""
    return np.array([once() for _ in range(repetitions)], dtype=float)
