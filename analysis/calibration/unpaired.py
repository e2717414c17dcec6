"""Simulated runs without seeds, judged by the product's unpaired comparison.

A run's value is its number of correct predictions among 2,000 test examples: 1,500 plus normal noise, drawn for each
run alone. The baseline's sd is 10 examples, which is the margin too, and a sixth of that where equivalence is tested:
at 10, so few runs could not show it. The arms of a study share one baseline.
"""

from dataclasses import dataclass

import numpy as np

from analysis.calibration.simulate import ALIKE, METRIC, MOVED, PLAN, SPREAD, TEXTS, TYPICAL, Array, each
from knockout.analysis.inference.unpaired import Arms, judge_unpaired, unpaired_estimate
from knockout.analysis.stats.power import detectable_unpaired


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The design of unpaired arms."""

    variant: int
    """runs of each variant"""
    baseline: int
    ratio: float = 1.0
    """sd of a variant over that of the baseline"""
    sd: float = SPREAD
    """of the baseline, in examples"""

    def detectable(self) -> float:
        """The minimum detectable difference at the true sds, in examples."""
        return detectable_unpaired(
            (self.ratio * self.sd, self.sd), (self.variant, self.baseline), PLAN.alpha, PLAN.power
        )


def arms(rng: np.random.Generator, sizes: Sizes, *, k: int, gain: float = 0.0) -> dict[str, Arms]:
    """The arms of one study, whose K variants are all better by `gain` examples."""

    def drawn(n: int, mean: float, sd: float) -> list[float]:
        return [float(x) for x in np.minimum(np.rint(mean + sd * rng.normal(size=n)), TEXTS)]

    baseline = drawn(sizes.baseline, TYPICAL, sizes.sd)
    runs = (sizes.variant, sizes.baseline)
    return {
        f"v{i}": Arms(
            variant=drawn(sizes.variant, TYPICAL + gain, sizes.ratio * sizes.sd),
            baseline=baseline,
            planned=runs,
            results=runs,
            failed=(0, 0),
        )
        for i in range(k)
    }


def unpaired_error(rng: np.random.Generator, repetitions: int, *, sizes: Sizes, k: int) -> Array:
    """Whether any variant is called better, worse or trivial where none differs."""
    return each(repetitions, lambda: any(v in MOVED for v in _verdicts(rng, sizes, k=k)))


def unpaired_alike(rng: np.random.Generator, repetitions: int, *, sizes: Sizes, k: int, effect: float) -> Array:
    """Whether any variant is called equivalent or trivial where each is better by `effect` margins."""
    return each(repetitions, lambda: any(v in ALIKE for v in _verdicts(rng, sizes, k=k, gain=effect * SPREAD)))


def unpaired_power(rng: np.random.Generator, repetitions: int, *, sizes: Sizes) -> Array:
    """Whether p <= alpha where one variant is better by the minimum detectable difference at the true sds."""
    gain = sizes.detectable()

    def once() -> bool:
        p = judge_unpaired(arms(rng, sizes, k=1, gain=gain), METRIC, PLAN)["v0"].tested.p
        return p is not None and p <= PLAN.alpha

    return each(repetitions, once)


def unpaired_coverage(rng: np.random.Generator, repetitions: int, *, sizes: Sizes) -> Array:
    """Whether the 95 % Welch interval of the difference of means holds the truth."""

    def once() -> bool:
        (own,) = arms(rng, sizes, k=1).values()
        told = unpaired_estimate(own.variant, own.baseline, METRIC.scale)
        assert told is not None
        if told.low is None or told.high is None:  # no arm has any spread
            return told.difference == 0
        return told.low <= 0 <= told.high

    return each(repetitions, once)


def _verdicts(rng: np.random.Generator, sizes: Sizes, *, k: int, gain: float = 0.0) -> list[str]:
    return [j.verdict for j in judge_unpaired(arms(rng, sizes, k=k, gain=gain), METRIC, PLAN).values()]
