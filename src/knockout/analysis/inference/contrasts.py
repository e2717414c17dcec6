"""Contrasts: each variant against the baseline, paired by seed, judged as one family.

Intervals are 95 %, unadjusted, and decide nothing: verdicts are read off Holm-adjusted p values, by the rule in
`analysis/RULES.md`, section "The verdict".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from knockout.analysis.inference.family import Family
from knockout.analysis.inference.leave_one_out import LeftOut, leave_one_out
from knockout.analysis.inference.pairs import (
    Arm,
    Estimate,
    Pair,
    PairCounts,
    Rows,
    Seed,
    alive,
    arm,
    complete,
    count_pairs,
    differences,
    estimate,
)
from knockout.analysis.inference.sensitivity import Sensitivity, own_seed, sensitivity
from knockout.analysis.inference.verdict import Judgement, Test, Verdict, judge
from knockout.analysis.stats.crossed_anova import TwoSource, crossed_bootstrap, two_source_interval
from knockout.analysis.stats.exact import discordant, floor, seeds_for_floor
from knockout.analysis.stats.mcnemar import Discordant, per_seed
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.power import Needs, needs, pairing_pays_above
from knockout.analysis.stats.trace import traced

Correctness = Mapping[tuple[str, Seed], npt.NDArray[np.bool_]]
"""(variant, seed) -> for each test example whether it was predicted rightly, in one order for all"""

LEVELS = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)
"""Quantiles that are kept of a bootstrap."""


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """Everything that is known about one variant against the baseline. p values are two-sided unless said."""

    variant: str
    metric: Metric
    family: int
    """K: the contrasts that Holm corrects over"""
    alpha: float
    margin: float
    """in the metric's unit"""
    power: float
    pairs: tuple[Pair, ...]
    counts: PairCounts
    arm: Arm
    baseline: Arm
    p_failures: float
    """exact paired test on discordant failures"""
    estimate: Estimate | None
    judgement: Judgement
    sensitivity: Sensitivity
    floor: float
    """the smallest p of an exact test on n_planned pairs"""
    seeds_for_floor: int
    normal_theory_only: bool
    """the t test decides and no exact test could, at this n and K"""
    identical: bool
    """whether both runs of every pair predicted the same"""
    unchanged: bool
    """whether both runs of every pair have the same value: a sign that the variant changes nothing"""
    needs: Needs | None
    """what the study could find at the observed sd, and the seeds that it would take; None without an sd"""
    pairing_pays_above: float | None
    """the correlation above which pairing detects smaller effects than independent samples would"""
    two_source: TwoSource | None
    """over seeds and test examples at once, where the predictions of all complete pairs are there"""
    drawn: tuple[float, ...]
    """quantiles of a bootstrap over seeds and examples, at `LEVELS`, in points: for a picture, and no interval"""
    mcnemar: tuple[Discordant, ...]
    """per seed, given that seed, over test examples"""
    left_out: tuple[LeftOut, ...]

    @property
    def n_planned(self) -> int:
        return self.counts.n_planned

    @property
    def n_pairs(self) -> int:
        """Seeds for which both runs came to a result, failures included."""
        return self.counts.n_pairs

    @property
    def test(self) -> Test:
        """Which test made p."""
        return self.judgement.tested.test

    @property
    def p(self) -> float | None:
        return self.judgement.tested.p

    @property
    def p_holm(self) -> float:
        return self.judgement.p_holm

    @property
    def p_tost(self) -> float | None:
        """The larger of the two one-sided p at +-margin."""
        return self.judgement.tested.p_tost

    @property
    def p_tost_holm(self) -> float:
        return self.judgement.p_tost_holm

    @property
    def p_sign_flip(self) -> float | None:
        return None if self.sensitivity.sign_flip is None else self.sensitivity.sign_flip.p

    @property
    def p_sign_flip_holm(self) -> float:
        return self.sensitivity.sign_flip_holm

    @property
    def direction(self) -> int:
        """1 where the variant did better, -1 where worse, 0 where neither."""
        return self.judgement.tested.direction

    @property
    def verdict(self) -> Verdict:
        return self.judgement.verdict

    @property
    def reason(self) -> str:
        """Which line of the verdict rule applied, in words."""
        return self.judgement.reason

    @property
    def failures(self) -> int:
        """Failed runs of both arms, over the pairs that came to a result."""
        counts = self.counts
        return counts.failed_variant_only + counts.failed_baseline_only + 2 * counts.failed_both

    @property
    def incomplete(self) -> bool:
        """Whether a planned pair has no result."""
        return self.n_planned > 2 and self.n_pairs < self.n_planned

    @property
    def label(self) -> str:
        """The verdict as it is printed."""
        return f"{self.verdict} (incomplete: {self.n_pairs} of {self.n_planned})" if self.incomplete else self.verdict


def contrasts(
    family: Family,
    rows: Rows,
    correctness: Correctness | None = None,
    *,
    baselines: Mapping[str, str] | None = None,
) -> list[Contrast]:
    """One contrast per pair of arms in `family`, in its order, judged as one family.

    `rows`: the runs that the pairs were made of, from which come mean and sd of each arm. `baselines`: name of a
    contrast -> the arm that it is made with, where that is not one baseline for all.
    """
    against = dict.fromkeys(family.names, family.baseline) if baselines is None else baselines
    judged = judge(family)
    other_tests = sensitivity(family, judged)
    left_out = leave_one_out(family, judged)
    arms: dict[str, Arm] = {}
    for name in dict.fromkeys([*against.values(), *family.names]):
        values, results, failures = alive([rows[name, s] for s in family.seeds if (name, s) in rows])
        arms[name] = traced((family.section, name, "arm"), arm, values, results, failures, family.metric.scale)
    return [
        _contrast(
            name,
            family,
            arms=(arms[name], arms[against[name]]),
            judgement=judged[name],
            other_tests=other_tests[name],
            left_out=left_out[name],
            examples=_examples(family.pairs[name], name, against[name], correctness),
        )
        for name in family.names
    ]


def _contrast(
    variant: str,
    family: Family,
    *,
    arms: tuple[Arm, Arm],
    judgement: Judgement,
    other_tests: Sensitivity,
    left_out: tuple[LeftOut, ...],
    examples: "_Examples | None",
) -> Contrast:
    metric, plan, pairs, k = family.metric, family.plan, family.pairs[variant], family.size
    of, n = (family.section, variant), len(family.pairs[variant])
    a, b = complete(pairs)
    counts = traced(of, count_pairs, [p.state for p in pairs])
    estimated = traced(of, estimate, a, b, metric.scale, metric.sign, rounding=metric.rounding)
    smallest = traced((*of, "floor"), floor, n)
    least = traced((*of, "seeds_for_floor"), seeds_for_floor, k, plan.alpha)
    needed = None
    if estimated is not None and estimated.n > 2 and estimated.sd:
        needed = traced(of, needs, estimated.sd, plan.margin, n, k, plan.alpha, plan.power, estimated.n)
    recorded = [p for p in pairs if p.state != "missing"]
    whole = [p for p in recorded if p.state == "complete"]
    two: TwoSource | None = None
    drawn: tuple[float, ...] = ()
    mcnemar: tuple[Discordant, ...] = ()
    if examples is not None:
        seeds = [p.seed for p in whole]
        mcnemar = traced((*of, "mcnemar"), per_seed, examples.variant, examples.baseline, seeds=seeds)
    if examples is not None and len(whole) > 2:  # two seeds give estimates only
        matrix = examples.variant.astype(np.int8) - examples.baseline.astype(np.int8)
        two = traced((*of, "two_source"), two_source_interval, matrix)
        drawn = traced((*of, "drawn"), bootstrapped, matrix, plan.draws, own_seed(plan, f"{variant} drawn"))
    one_sided = (counts.failed_variant_only, counts.failed_baseline_only)
    p_failures = traced((*of, "p_failures"), discordant, *one_sided)
    pays = None
    if n > 2:
        pays = traced((*of, "pairing_pays_above"), pairing_pays_above, n, plan.alpha, plan.power)
    return Contrast(
        variant=variant,
        metric=metric,
        family=k,
        alpha=plan.alpha,
        margin=plan.margin,
        power=plan.power,
        pairs=pairs,
        counts=counts,
        arm=arms[0],
        baseline=arms[1],
        p_failures=p_failures,
        estimate=estimated,
        judgement=judgement,
        sensitivity=other_tests,
        floor=smallest,
        seeds_for_floor=least,
        normal_theory_only=judgement.tested.test == "t" and n < least,
        identical=bool(recorded) and all(p.identical for p in recorded),
        unchanged=bool(whole) and len(whole) == n and not any(differences(a, b, metric.rounding)),
        needs=needed,
        pairing_pays_above=pays,
        two_source=two,
        drawn=drawn,
        mcnemar=mcnemar,
        left_out=left_out,
    )


def bootstrapped(differences: npt.NDArray[np.int8], draws: int, seed: Sequence[int]) -> tuple[float, ...]:
    """Quantiles of a bootstrap over seeds and examples, in points, with the random numbers of `seed`."""
    drawn = crossed_bootstrap(differences, draws=draws, rng=np.random.default_rng(list(seed)))
    return tuple(float(x) for x in 100.0 * np.quantile(drawn, LEVELS))


@dataclass(frozen=True, kw_only=True)
class _Examples:
    """Correctness of both arms over complete pairs, shape (seeds, examples)."""

    variant: npt.NDArray[np.bool_]
    baseline: npt.NDArray[np.bool_]


def _examples(pairs: Sequence[Pair], variant: str, baseline: str, correctness: Correctness | None) -> _Examples | None:
    seeds = [p.seed for p in pairs if p.state == "complete"]
    if correctness is None or not seeds:
        return None
    if any((arm_, s) not in correctness for arm_ in (variant, baseline) for s in seeds):
        return None
    return _Examples(
        variant=np.stack([correctness[variant, s] for s in seeds]),
        baseline=np.stack([correctness[baseline, s] for s in seeds]),
    )
