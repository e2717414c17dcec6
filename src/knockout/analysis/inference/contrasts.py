"""Contrasts: each variant against the baseline, paired by seed, judged as one family (steps 2 to 9 and 11 of the plan).

Intervals are 95 %, unadjusted, and decide nothing: verdicts are read off Holm-adjusted p values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from knockout.analysis.inference.leave_one_out import LeftOut, leave_one_out
from knockout.analysis.inference.pairs import (
    Arm,
    Estimate,
    Pair,
    PairCounts,
    Row,
    Seed,
    alive,
    arm,
    complete,
    count_pairs,
    differences,
    estimate,
    pair,
)
from knockout.analysis.inference.sensitivity import Companions, companions, own_seed
from knockout.analysis.inference.verdict import Judgement, Test, judge
from knockout.analysis.stats.crossed_anova import TwoSource, crossed_bootstrap, two_source
from knockout.analysis.stats.exact import discordant, floor, seeds_for_floor
from knockout.analysis.stats.mcnemar import Discordant, per_seed
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.power import Needs, Verdict, needs, pairing_pays_above
from knockout.analysis.stats.trace import Caller, Untraced
from knockout.study import Plan

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
    companions: Companions
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
        return None if self.companions.sign_flip is None else self.companions.sign_flip.p

    @property
    def p_sign_flip_holm(self) -> float:
        return self.companions.sign_flip_holm

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
        told = self.counts
        return told.failed_variant_only + told.failed_baseline_only + 2 * told.failed_both

    def __str__(self) -> str:
        from knockout.analysis.report.sentences import sentence

        return sentence(self)

    @property
    def incomplete(self) -> bool:
        """Whether a planned pair has no result."""
        return self.n_planned > 2 and self.n_pairs < self.n_planned

    @property
    def label(self) -> str:
        """The verdict as it is printed."""
        return f"{self.verdict} (incomplete: {self.n_pairs} of {self.n_planned})" if self.incomplete else self.verdict


def contrasts(
    runs: pd.DataFrame,
    *,
    metric: Metric,
    baseline: str,
    variants: Sequence[str],
    seeds: Sequence[Seed],
    plan: Plan,
    family: int | None = None,
    section: str = "contrast",
    correctness: Correctness | None = None,
    caller: Caller | None = None,
) -> list[Contrast]:
    """One contrast per variant, in the order given, judged as one family.

    `runs` needs the columns variant, seed, status, failed, value (of the metric), and may have predictions_sha256.
    `family` is K where it is larger than the number of variants, since a contrast that was dropped still counts.
    Raises `ValueError` for a duplicate.
    """
    caller = caller or Untraced()
    chosen = runs[runs["variant"].isin([baseline, *variants]) & runs["seed"].isin(list(seeds))]
    twice = chosen[chosen.duplicated(["variant", "seed"])]
    if len(twice):
        raise ValueError(f"run twice: {twice['variant'].iloc[0]} with seed {twice['seed'].iloc[0]}")
    rows: dict[tuple[str, Seed], Row] = {}
    for record in chosen.to_dict("records"):
        rows[str(record["variant"]), record["seed"]] = {str(name): value for name, value in record.items()}
    paired = [
        tuple(pair(seed, rows.get((v, seed)), rows.get((baseline, seed)), metric) for seed in seeds) for v in variants
    ]
    k = max(len(variants), family or 0)
    common = {"metric": metric, "plan": plan, "family": k, "caller": caller}
    judged = judge(paired, variants, section=section, **common)  # type: ignore[arg-type]  # by name, as they are above
    beside = companions(paired, variants, judged, section=section, **common)  # type: ignore[arg-type]
    strips = leave_one_out(paired, variants, judged, section=section, **common)  # type: ignore[arg-type]
    arms = {}
    for v in (baseline, *variants):
        values, results, failures = alive([rows[v, s] for s in seeds if (v, s) in rows])
        given = {"values": values, "runs": results, "failures": failures, "worth": metric.worth}
        arms[v] = caller.call((section, v, "arm"), arm, given)
    return [
        _contrast(
            v,
            paired[i],
            arms=(arms[v], arms[baseline]),
            judgement=judged[i],
            companion=beside[i],
            strip=strips[i],
            examples=_examples(paired[i], v, baseline, correctness),
            k=k,
            metric=metric,
            plan=plan,
            section=section,
            caller=caller,
        )
        for i, v in enumerate(variants)
    ]


def _contrast(
    variant: str,
    pairs: tuple[Pair, ...],
    *,
    arms: tuple[Arm, Arm],
    judgement: Judgement,
    companion: Companions,
    strip: tuple[LeftOut, ...],
    examples: "_Examples | None",
    k: int,
    metric: Metric,
    plan: Plan,
    section: str,
    caller: Caller,
) -> Contrast:
    of = (section, variant)
    a, b = complete(pairs)
    counts = caller.call(of, count_pairs, {"states": [p.state for p in pairs]})
    estimated = caller.call(
        of,
        estimate,
        {"variant": a, "baseline": b, "worth": metric.worth, "sign": metric.sign},
    )
    n = len(pairs)
    floors = caller.call((*of, "floor"), floor, {"n": n})
    need = caller.call((*of, "seeds_for_floor"), seeds_for_floor, {"k": k, "alpha": plan.alpha})
    sd = estimated.sd if estimated is not None and estimated.n > 2 else None
    design = {"n": n, "k": k, "alpha": plan.alpha, "power": plan.power}
    told = caller.call(of, needs, {"sd": sd, "margin": plan.margin, **design}) if sd and n > 2 else None
    recorded = [p for p in pairs if p.state != "missing"]
    whole = [p for p in recorded if p.state == "complete"]
    two = discordances = None
    drawn: tuple[float, ...] = ()
    if examples is not None:
        matrix = examples.variant.astype(np.int8) - examples.baseline.astype(np.int8)
        two = caller.call((*of, "two_source"), two_source, {"differences": matrix})
        drawn = caller.call(
            (*of, "drawn"),
            bootstrapped,
            {"differences": matrix, "draws": plan.draws, "seed": own_seed(plan, f"{variant} drawn")},
        )
        given = {"variant": examples.variant, "baseline": examples.baseline, "seeds": [p.seed for p in whole]}
        discordances = caller.call((*of, "mcnemar"), per_seed, given)
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
        p_failures=caller.call(
            (*of, "p_failures"),
            discordant,
            {
                "failed_variant_only": counts.failed_variant_only,
                "failed_baseline_only": counts.failed_baseline_only,
            },
        ),
        estimate=estimated,
        judgement=judgement,
        companions=companion,
        floor=floors,
        seeds_for_floor=need,
        normal_theory_only=judgement.tested.test == "t" and n < need,
        identical=bool(recorded) and all(p.identical for p in recorded),
        unchanged=bool(whole) and len(whole) == n and not any(differences(a, b)),
        needs=told,
        pairing_pays_above=caller.call(
            (*of, "pairing_pays_above"), pairing_pays_above, {"n": n, "alpha": plan.alpha, "power": plan.power}
        )
        if n > 2
        else None,
        two_source=two,
        drawn=drawn,
        mcnemar=discordances or (),
        left_out=strip,
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
