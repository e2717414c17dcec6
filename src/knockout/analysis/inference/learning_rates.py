"""Sensitivity to the learning rate, of arms that were trained at several rates and differ in nothing else."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from knockout.analysis.stats.curve import RunCurve
from knockout.analysis.stats.rates import RateCurve, rate_curves
from knockout.analysis.stats.trace import traced


@dataclass(frozen=True, kw_only=True)
class RateGroup:
    """Arms that differ from each other in the learning rate alone."""

    name: str
    """the arm with the baseline's rate, else the first"""
    rates: Mapping[str, float]
    """arm -> its learning rate, in rising order"""
    losses: Mapping[tuple[str, int | str], float]
    """(arm, seed) -> final loss on the validation split, nats; not finite, or left out, where the run diverged"""
    accuracies: Mapping[tuple[str, int | str], float]
    """the same of the accuracy, 0 to 1"""


@dataclass(frozen=True, kw_only=True)
class GroupSensitivity:
    """One group."""

    name: str
    rates: tuple[float, ...]
    curves: tuple[RateCurve | None, ...]
    """one for each seed; `None` where a run of the group has no result"""

    @property
    def sensitivity(self) -> tuple[float | None, ...]:
        """Seed by seed, nats, with 9 significant digits."""
        return tuple(None if c is None else float(f"{c.sensitivity:.9g}") for c in self.curves)


@dataclass(frozen=True, kw_only=True)
class RateSensitivity:
    """All groups."""

    seeds: tuple[int | str, ...]
    groups: tuple[GroupSensitivity, ...]


def rate_sensitivity(
    groups: Sequence[RateGroup],
    arms: Mapping[str, Sequence[RunCurve | None]],
    *,
    baseline: str,
    seeds: Sequence[int | str],
) -> RateSensitivity | None:
    """Every group at every seed; `None` without a group of two rates or more. Arm -> its runs, in the order of `seeds`.

    l_0 is the first probe loss (the first batch's where there is no probe), the median over the group's runs at a seed.
    """
    groups = [g for g in groups if len(g.rates) > 1]
    if not groups:
        return None
    best_loss = [_best([g.losses.get((arm, s)) for g in groups for arm in g.rates], least=True) for s in seeds]
    best_accuracy = [_best([g.accuracies.get((arm, s)) for g in groups for arm in g.rates], least=False) for s in seeds]
    found = []
    for group in groups:
        names = list(group.rates)
        whole = [i for i in range(len(seeds)) if all(_ended(arms[n][i], group) for n in names)]
        initial = {i: _initial([arms[n][i] for n in names]) for i in whole}
        whole = [i for i in whole if initial[i] is not None]
        curves: list[RateCurve | None] = [None] * len(seeds)
        made = traced(
            ("instability", "learning_rate_sensitivity", group.name),
            rate_curves,
            list(group.rates.values()),
            [[_rounded(group.losses.get((n, seeds[i]), math.inf)) for n in names] for i in whole],
            [[_failed(arms[n][i]) for n in names] for i in whole],
            [[group.accuracies.get((n, seeds[i])) for n in names] for i in whole],
            [x for i in whole if (x := initial[i]) is not None],
            [_rounded(x) for i in whole if (x := initial[i] if best_loss[i] is None else best_loss[i]) is not None],
            [best_accuracy[i] for i in whole],
        )
        for i, curve in zip(whole, made, strict=True):
            curves[i] = curve
        found.append(GroupSensitivity(name=group.name, rates=tuple(group.rates.values()), curves=tuple(curves)))
    found.sort(key=lambda g: g.name != baseline)  # stable: the baseline's first
    return RateSensitivity(seeds=tuple(seeds), groups=tuple(found))


def _ended(run: RunCurve | None, group: RateGroup) -> bool:
    """Whether a run has a final loss, or diverged."""
    return run is not None and (run.status == "diverged" or (run.variant, run.seed) in group.losses)


def _best(values: Sequence[float | None], *, least: bool) -> float | None:
    known = [x for x in values if x is not None and math.isfinite(x)]
    return None if not known else min(known) if least else max(known)


def _initial(runs: Sequence[RunCurve | None]) -> float | None:
    """l_0, the median over the runs."""
    first = []
    for run in runs:
        if run is not None:
            source = run.loss if run.probe_loss is None or not len(run.probe_loss) else run.probe_loss
            first += [float(source[0])] if len(source) and math.isfinite(source[0]) else []
    return _rounded(float(np.median(first))) if first else None


def _failed(run: RunCurve | None) -> bool:
    return run is None or run.failed


def _rounded(x: float) -> float:
    return float(f"{x:.9g}") if math.isfinite(x) else math.inf
