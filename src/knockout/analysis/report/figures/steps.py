"""Quantities per step of every run, as means over blocks of steps: what the figures of whole runs are drawn from."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from knockout.analysis.stats.curve import Array, RunCurve

MOST = 30_000
"""The most points that the lines of one figure have together: an SVG stays under 1 MB."""
POINTS = 100
"""The most points of one line; a hundred fill a panel."""
BESIDE = 6
"""What median, quartiles and the baseline's take of a panel, in lines."""


def rows_per_block(runs: Iterable[RunCurve], *, most: int = POINTS) -> int:
    """The rows of a curve that one point is the mean of: as few as the points of a figure allow."""
    lengths = [len(run.step) for run in runs]
    arms = len({run.variant for run in runs})
    lines = len(lengths) + BESIDE * arms
    points = max(20, min(most, MOST // max(lines, 1)))
    return max(1, math.ceil(max(lengths, default=1) / points))


def steps_per_block(runs: Iterable[RunCurve], rows: int) -> int:
    """The optimiser steps in such a block."""
    return rows * max((run.every for run in runs), default=1)


def is_thinned(runs: Iterable[RunCurve]) -> bool:
    """Whether a row of some curve is more than one step."""
    return any(run.every > 1 for run in runs)


def blocks(run: RunCurve, values: Array, rows: int) -> pd.DataFrame:
    """The means of a run's values over blocks of rows: variant, seed, x (the middle step), value, status.

    A mean is over the finite values of its block, and a block without any is left out.
    """
    x, means = block_means(run.step, values, rows)
    frame = {"variant": run.variant, "seed": run.seed, "x": x, "value": means}
    return pd.DataFrame({**frame, "status": run.status})


def block_means(step: Array, values: Array, rows: int) -> tuple[Array, Array]:
    """Middle steps of blocks, and the means over the finite values of each; blocks without any are left out.

    A last, shorter block has the x of a whole one, so that runs of different lengths meet.
    """
    if not len(step):
        return step, values
    finite = np.isfinite(values)
    starts = np.arange(0, len(values), rows)
    n = np.add.reduceat(finite.astype(int), starts)
    total = np.add.reduceat(np.where(finite, values, 0.0), starts)
    kept = n > 0
    middle = step[starts] + _apart(step) * (rows - 1) / 2
    return middle[kept], total[kept] / n[kept]


def joined(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The frames of `blocks` as one; without any an empty one."""
    empty = pd.DataFrame({"variant": [], "seed": [], "x": [], "value": [], "status": []})
    parts = [part for part in parts if len(part)]
    return pd.concat(parts, ignore_index=True) if parts else empty


def _apart(steps: Array) -> float:
    return float(steps[1] - steps[0]) if len(steps) > 1 else 1.0
