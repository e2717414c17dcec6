"""The spread of each arm's loss over seeds, at fixed shares of the run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from knockout.analysis.inference.sensitivity import own_seed
from knockout.analysis.stats.curve import RunCurve
from knockout.analysis.stats.instability import smoothed
from knockout.analysis.stats.spread import Spread, spread_over_seeds
from knockout.analysis.stats.trace import traced
from knockout.plan import Plan

SHARES = tuple(i / 10 for i in range(1, 11))
"""The fixed steps, as shares of the run."""

DRAWS = 1000


@dataclass(frozen=True, kw_only=True)
class SeedSpread:
    """One arm."""

    variant: str
    diverged: int
    """runs that diverged, and are left out"""
    spread: Spread | None
    """of the smoothed training loss, nats; `None` below three whole runs"""


def seed_spread(arms: Mapping[str, Sequence[RunCurve | None]], *, plan: Plan) -> tuple[SeedSpread, ...]:
    """One number per arm with its interval; no test, since there are no pairs. Arm -> its runs."""
    found = []
    for name, runs in arms.items():
        rows = [row for run in runs if run is not None and (row := _at_shares(run)) is not None]
        spread = None
        if len(rows) > 2:
            of = ("instability", "spread", name)
            draws = min(DRAWS, plan.draws)
            spread = traced(of, spread_over_seeds, np.array(rows), draws=draws, seed=own_seed(plan, f"{name} spread"))
        diverged = sum(run is not None and run.status == "diverged" for run in runs)
        found.append(SeedSpread(variant=name, diverged=diverged, spread=spread))
    return tuple(found)


def _at_shares(run: RunCurve) -> list[float] | None:
    """The smoothed loss at the fixed steps; `None` for a run that did not get to its end."""
    smooth = smoothed(run.loss, steps=run.steps, every=run.every)
    whole = run.steps // run.every
    if run.status == "diverged" or smooth is None or len(smooth) < whole or whole < len(SHARES):
        return None
    return [float(f"{smooth[round(share * whole) - 1]:.7g}") for share in SHARES]
