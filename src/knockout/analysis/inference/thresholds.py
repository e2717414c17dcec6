"""Time to a threshold of accuracy on the probe: how fast each arm learns, with runs that never get there."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from knockout.analysis.stats.curve import RunCurve
from knockout.analysis.stats.internals import time_to_threshold
from knockout.analysis.stats.multiplicity import benjamini_hochberg
from knockout.analysis.stats.survival import SurvivalContrast, survival_contrast
from knockout.analysis.stats.trace import traced, traced_each


@dataclass(frozen=True, kw_only=True)
class ArmTimes:
    """One arm's times against the baseline's."""

    variant: str
    n: int
    """runs with a probe"""
    reached: int
    """of these, runs that got to the threshold"""
    contrast: SurvivalContrast | None
    """in steps; `None` for the baseline itself, and where an arm has no run with a probe"""
    p_bh: float | None
    """of the log-rank test, Benjamini-Hochberg over the variants"""


@dataclass(frozen=True, kw_only=True)
class Reaching:
    """Time to the threshold, of all arms."""

    threshold: float
    """accuracy on the probe, 0 to 1: halfway between `majority` and the baseline's median at the end"""
    majority: float
    """the share of the commonest training label"""
    steps: Mapping[str, list[float | None]]
    """arm -> seed by seed the step, T where the run never got there, `None` without a probe"""
    arms: tuple[ArmTimes, ...]
    """the baseline first"""


def reaching(
    arms: Mapping[str, Sequence[RunCurve | None]],
    *,
    baseline: str,
    majority: float | None,
) -> Reaching | None:
    """Time to the threshold, which the variants do not influence; `None` where the baseline has no probe, ends no
    better than the majority share, or this share is not known.

    A run that diverged or never got there was watched until T.
    """
    ends = [
        float(run.probe_accuracy[-1])
        for run in arms[baseline]
        if run is not None and not run.failed and run.probe_accuracy is not None and len(run.probe_accuracy)
    ]
    if majority is None or not ends or not float(np.median(ends)) > majority:
        return None
    threshold = traced(("instability", "time_to_threshold", "threshold"), halfway, majority, ends)
    times = {name: [_time(run, threshold) for run in runs] for name, runs in arms.items()}
    horizon = min(float(run.steps) for runs in arms.values() for run in runs if run is not None)
    found: list[tuple[str, int, int, SurvivalContrast | None]] = []
    for name, own in times.items():
        known, base = [t for t in own if t is not None], [t for t in times[baseline] if t is not None]
        contrast = None
        if name != baseline and known and base:
            of = ("instability", "time_to_threshold", name)
            contrast = traced(
                of,
                survival_contrast,
                [t for t, _ in known],
                [reached for _, reached in known],
                [t for t, _ in base],
                [reached for _, reached in base],
                horizon,
            )
        found.append((name, len(known), sum(reached for _, reached in known), contrast))
    others = [c for name, *_, c in found if name != baseline]
    names = [name for name in arms if name != baseline]
    p = [None if c is None else c.p_log_rank for c in others]
    adjusted = traced_each(("instability", "p_log_rank_bh"), names, benjamini_hochberg, p) if names else ()
    p_bh = dict(zip(names, adjusted, strict=True))
    return Reaching(
        threshold=threshold,
        majority=majority,
        steps={name: [None if t is None else t[0] for t in own] for name, own in times.items()},
        arms=tuple(
            ArmTimes(variant=name, n=n, reached=reached, contrast=contrast, p_bh=p_bh.get(name))
            for name, n, reached, contrast in found
        ),
    )


def halfway(majority: float, ends: Sequence[float]) -> float:
    """Halfway between the majority share and the median of the baseline's accuracies at the end. 0 to 1."""
    return (majority + float(np.median(ends))) / 2


def _time(run: RunCurve | None, threshold: float) -> tuple[float, bool] | None:
    """The step, or T, and whether the run got there."""
    found = None if run is None else time_to_threshold(run.probe_step, run.probe_accuracy, threshold=threshold)
    if run is None or found is None:
        return None
    return (float(run.steps), False) if math.isinf(found) else (max(found, 1.0), True)
