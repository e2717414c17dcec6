"""Companions: the same contrasts under other tests, stated beside the planned one; they choose nothing (step 4)."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from knockout.analysis.inference.pairs import Pair, complete, differences
from knockout.analysis.inference.verdict import Judgement, ranked_differences
from knockout.analysis.stats.exact import SignFlip, Wilcoxon, max_t, sign_flip_real, wilcoxon
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.multiplicity import holm
from knockout.analysis.stats.pitman_morgan import PitmanMorgan, pitman_morgan
from knockout.analysis.stats.trace import Caller
from knockout.study import Plan

MAX_T_FROM = 6
"""Seeds from which max-T can reach .05: its smallest p is 2^(1-n) for any number of variants."""


@dataclass(frozen=True, kw_only=True)
class Companions:
    """Other tests of one contrast. None where there is nothing to test; the Holm-adjusted p then counts as 1."""

    sign_flip: SignFlip | None
    """exact over signs of the differences; of ranks where a run failed, as the planned test is"""
    sign_flip_holm: float
    wilcoxon: Wilcoxon | None
    wilcoxon_holm: float
    max_t: float | None
    """adjusted over the family by joint flips of the seeds' signs; from 6 seeds, of contrasts without failures"""
    stability: PitmanMorgan | None
    """whether variant and baseline spread alike over seeds"""
    disagree: tuple[str, ...]
    """which of sign-flip, Wilcoxon and max-T say otherwise about p <= alpha where the t test made p"""


def companions(
    paired: Sequence[Sequence[Pair]],
    names: Sequence[str],
    judged: Sequence[Judgement],
    *,
    metric: Metric,
    plan: Plan,
    family: int,
    section: str,
    caller: Caller,
) -> list[Companions]:
    """The companions of every contrast, in the order given."""
    flips: list[SignFlip | None] = []
    ranks: list[Wilcoxon | None] = []
    spreads: list[PitmanMorgan | None] = []
    for pairs, name in zip(paired, names, strict=True):
        of = (section, name)
        tested = len(pairs) > 2 and all(p.state != "missing" for p in pairs)
        whole = tested and all(p.state == "complete" for p in pairs)
        a, b = complete(pairs)
        d = differences(a, b)
        flips.append(
            caller.call(
                (*of, "sign_flip"), flipped, {"differences": d, "draws": plan.draws, "seed": own_seed(plan, name)}
            )
            if whole
            else None
        )
        ranked = ranked_differences(pairs, metric) if tested else []
        ranks.append(caller.call((*of, "wilcoxon"), wilcoxon, {"differences": ranked}) if whole else None)
        spreads.append(
            caller.call((*of, "stability"), pitman_morgan, {"variant": a, "baseline": b}) if len(a) > 2 else None
        )
    flip_p, rank_p = [None if f is None else f.p for f in flips], [None if w is None else w.p for w in ranks]
    flip_holm = caller.call((section, "sign_flip_holm"), holm, {"p": flip_p, "k": family}, items=names)
    rank_holm = caller.call((section, "wilcoxon_holm"), holm, {"p": rank_p, "k": family}, items=names)
    joint = _max_t(paired, names, plan=plan, section=section, caller=caller)
    found = []
    for i, (pairs, name) in enumerate(zip(paired, names, strict=True)):
        p_joint = joint.get(name)
        against = {"sign-flip": flip_holm[i], "Wilcoxon": rank_holm[i], "max-T": p_joint}
        by_t = judged[i].tested.test == "t"
        says = judged[i].p_holm <= plan.alpha
        found.append(
            Companions(
                sign_flip=flips[i],
                sign_flip_holm=flip_holm[i],
                wilcoxon=ranks[i],
                wilcoxon_holm=rank_holm[i],
                max_t=p_joint,
                stability=spreads[i],
                disagree=tuple(
                    k for k, p in against.items() if by_t and len(pairs) and p is not None and (p <= plan.alpha) != says
                ),
            )
        )
    return found


def flipped(differences: Sequence[float], draws: int, seed: Sequence[int]) -> SignFlip:
    """The sign-flip test with the random signs of `seed`, where it needs any."""
    return sign_flip_real(differences, draws=draws, rng=np.random.default_rng(list(seed)))


def jointly_flipped(differences: Sequence[Sequence[float]], draws: int, seed: Sequence[int]) -> tuple[float, ...]:
    """p of the max-T test, one per column of (seeds, variants), with the random signs of `seed` where it needs any."""
    return max_t(np.array(differences, dtype=float), draws=draws, rng=np.random.default_rng(list(seed))).p


def _max_t(
    paired: Sequence[Sequence[Pair]], names: Sequence[str], *, plan: Plan, section: str, caller: Caller
) -> dict[str, float]:
    """Each p by name, over the contrasts in which every pair is complete."""
    whole = {
        name: differences(*complete(pairs))
        for pairs, name in zip(paired, names, strict=True)
        if len(pairs) >= MAX_T_FROM and all(p.state == "complete" for p in pairs)
    }
    if not whole:
        return {}
    columns = [list(row) for row in zip(*whole.values(), strict=True)]
    given = {"differences": columns, "draws": plan.draws, "seed": own_seed(plan, "max_t")}
    return dict(zip(whole, caller.call((section, "max_t"), jointly_flipped, given, items=list(whole)), strict=True))


def own_seed(plan: Plan, name: str) -> list[int]:
    """Of the random draws for one contrast: its own, so that adding a variant changes no other's."""
    return [plan.random_seed, zlib.crc32(name.encode())]
