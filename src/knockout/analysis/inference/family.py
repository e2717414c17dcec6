"""A family: the contrasts of one metric that Holm corrects together, with everything that their judgement needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from knockout.analysis.inference.pairs import Pair, Rows, Seed, pair
from knockout.analysis.stats.metric import Metric
from knockout.study import Plan


@dataclass(frozen=True, kw_only=True)
class Family:
    """Contrasts that are judged together."""

    metric: Metric
    plan: Plan
    baseline: str
    seeds: tuple[Seed, ...]
    """all planned seeds"""
    size: int
    """K: the contrasts that Holm corrects over; more than `pairs` holds where a variant was dropped"""
    pairs: Mapping[str, tuple[Pair, ...]]
    """name of the contrast -> one pair for each of `seeds`"""
    section: str = "contrast"
    """where the numbers stand in `analysis.json`"""

    @property
    def names(self) -> tuple[str, ...]:
        """The contrasts, in the order given."""
        return tuple(self.pairs)

    def without(self, seed: Seed) -> "Family":
        """The same contrasts without one seed."""
        return replace(
            self,
            seeds=tuple(s for s in self.seeds if s != seed),
            pairs={name: tuple(p for p in own if p.seed != seed) for name, own in self.pairs.items()},
            section=f"{self.section} without seed {seed}",
        )


def family_of(
    rows: Rows,
    *,
    metric: Metric,
    plan: Plan,
    baseline: str,
    variants: Sequence[str],
    seeds: Sequence[Seed],
    size: int = 0,
    section: str = "contrast",
) -> Family:
    """Each variant paired with the baseline, seed by seed. `size`: K, where it is more than the number of variants."""
    return Family(
        metric=metric,
        plan=plan,
        baseline=baseline,
        seeds=tuple(seeds),
        size=max(len(variants), size),
        pairs={v: tuple(pair(s, rows.get((v, s)), rows.get((baseline, s)), metric) for s in seeds) for v in variants},
        section=section,
    )
