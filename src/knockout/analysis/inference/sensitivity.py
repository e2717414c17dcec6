"""Sensitivity analysis: the same contrasts under other tests, stated beside the planned one. They decide nothing."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from knockout.analysis.inference.family import Family
from knockout.analysis.inference.pairs import complete, differences
from knockout.analysis.inference.verdict import Judgement, ranked_differences
from knockout.analysis.stats.exact import SignFlip, Wilcoxon, max_t, sign_flip_real, wilcoxon
from knockout.analysis.stats.multiplicity import holm
from knockout.analysis.stats.pitman_morgan import PitmanMorgan, pitman_morgan
from knockout.analysis.stats.trace import traced, traced_each
from knockout.study import Plan

MAX_T_FROM = 6
"""Seeds from which max-T can reach .05: its smallest p is 2^(1-n) for any number of variants."""


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """Other tests of one contrast. None where there is nothing to test; the Holm-adjusted p then counts as 1."""

    sign_flip: SignFlip | None
    """exact over signs of the differences; of contrasts without failures"""
    sign_flip_holm: float
    wilcoxon: Wilcoxon | None
    wilcoxon_holm: float
    max_t: float | None
    """adjusted over the family by joint flips of the seeds' signs; from 6 seeds, of contrasts without failures"""
    stability: PitmanMorgan | None
    """whether variant and baseline spread alike over seeds"""
    disagree: tuple[str, ...]
    """which of sign-flip, Wilcoxon and max-T lie on the other side of alpha, where the t test made p"""


def sensitivity(family: Family, judged: Mapping[str, Judgement]) -> dict[str, Sensitivity]:
    """The other tests of every contrast. `judged`: the verdicts, with which they are compared."""
    plan, names, rounding = family.plan, family.names, family.metric.rounding
    flips: dict[str, SignFlip | None] = {}
    ranks: dict[str, Wilcoxon | None] = {}
    spreads: dict[str, PitmanMorgan | None] = {}
    for name, pairs in family.pairs.items():
        of = (family.section, name)
        whole = len(pairs) > 2 and all(p.state == "complete" for p in pairs)
        a, b = complete(pairs)
        flips[name] = ranks[name] = spreads[name] = None
        if whole:
            seed = own_seed(plan, name)
            flips[name] = traced((*of, "sign_flip"), flipped, differences(a, b, rounding), plan.draws, seed)
            ranks[name] = traced((*of, "wilcoxon"), wilcoxon, ranked_differences(pairs, family.metric))
        if len(a) > 2:
            spreads[name] = traced((*of, "stability"), pitman_morgan, a, b, rounding=rounding)
    flip_p, rank_p = (
        [None if f is None else f.p for f in flips.values()],
        [None if w is None else w.p for w in ranks.values()],
    )
    flip_holm = traced_each((family.section, "sign_flip_holm"), names, holm, flip_p, family.size)
    rank_holm = traced_each((family.section, "wilcoxon_holm"), names, holm, rank_p, family.size)
    joint = _max_t(family)
    results: dict[str, Sensitivity] = {}
    for name, p_flip, p_rank in zip(names, flip_holm, rank_holm, strict=True):
        others = {"sign-flip": p_flip, "Wilcoxon": p_rank, "max-T": joint.get(name)}
        by_t = judged[name].tested.test == "t"
        differs = judged[name].p_holm <= plan.alpha
        results[name] = Sensitivity(
            sign_flip=flips[name],
            sign_flip_holm=p_flip,
            wilcoxon=ranks[name],
            wilcoxon_holm=p_rank,
            max_t=joint.get(name),
            stability=spreads[name],
            disagree=tuple(
                test for test, p in others.items() if by_t and p is not None and (p <= plan.alpha) != differs
            ),
        )
    return results


def flipped(differences: Sequence[float], draws: int, seed: Sequence[int]) -> SignFlip:
    """The sign-flip test with the random signs of `seed`, where it needs any."""
    return sign_flip_real(differences, draws=draws, rng=np.random.default_rng(list(seed)))


def jointly_flipped(differences: Sequence[Sequence[float]], draws: int, seed: Sequence[int]) -> tuple[float, ...]:
    """p of the max-T test, one per column of (seeds, variants), with the random signs of `seed` where it needs any."""
    return max_t(np.array(differences, dtype=float), draws=draws, rng=np.random.default_rng(list(seed))).p


def _max_t(family: Family) -> dict[str, float]:
    """p by name, over the contrasts in which every pair is complete."""
    whole = {
        name: differences(*complete(pairs), family.metric.rounding)
        for name, pairs in family.pairs.items()
        if len(pairs) >= MAX_T_FROM and all(p.state == "complete" for p in pairs)
    }
    if not whole:
        return {}
    columns = [list(row) for row in zip(*whole.values(), strict=True)]
    names, seed = list(whole), own_seed(family.plan, "max_t")
    p = traced_each((family.section, "max_t"), names, jointly_flipped, columns, family.plan.draws, seed)
    return dict(zip(names, p, strict=True))


def own_seed(plan: Plan, name: str) -> list[int]:
    """The seed of the random draws for one contrast: its own, so that adding a variant changes no other's."""
    return [plan.random_seed, zlib.crc32(name.encode())]
