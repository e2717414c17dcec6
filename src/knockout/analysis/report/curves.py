"""Learning curves: the points drawn of each run, and their median and quartiles over seeds."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from knockout.analysis.results import Results

POINTS = 100
"""The most points that are drawn of a run's training loss."""


def loss_curves(results: Results) -> pd.DataFrame:
    """Training loss (nats) of every run as means over blocks of steps.

    Columns: variant, seed, x (the middle step of the block), value, status. Blocks are the only smoothing: the longest
    run gets at most 100 points. A block's mean is over its finite steps, and a block without any is left out.
    """
    return _long(results, results.curves, "loss", _rows_per_block(results))


def steps_per_point(results: Results) -> int:
    """The number of optimiser steps in a block of `loss_curves`."""
    apart = max((_apart(c["step"].to_numpy(dtype=float)) for c in results.curves.values()), default=1.0)
    return _rows_per_block(results) * round(apart)


def _rows_per_block(results: Results) -> int:
    longest = max((len(c) for c in results.curves.values()), default=0)
    return max(1, math.ceil(longest / POINTS))


def validation_curves(results: Results) -> pd.DataFrame:
    """Validation accuracy (points) of every run after each epoch. Columns as in `loss_curves`; x is the epoch."""
    tables = {
        i: pd.DataFrame({"step": e["epoch"], "value": 100 * e["correct"] / e["count"]})
        for i, e in results.epochs.items()
    }
    return _long(results, tables, "value", 1)


def summary(curves: pd.DataFrame) -> pd.DataFrame:
    """Per variant and x: median, lower and upper quartile of the value over the seeds that got there, and their n."""
    grouped = curves.groupby(["variant", "x"], sort=False)["value"]
    table = pd.DataFrame(
        {
            "median": grouped.median(),
            "lower": grouped.quantile(0.25),
            "upper": grouped.quantile(0.75),
            "n": grouped.size(),
        }
    )
    return table.reset_index().sort_values(["variant", "x"], kind="stable", ignore_index=True)


def _long(results: Results, tables: Mapping[str, pd.DataFrame], column: str, block: int) -> pd.DataFrame:
    parts = []
    for run in results.runs[["run_id", "variant", "seed", "status"]].itertuples(index=False):
        table = tables.get(str(run.run_id))
        if table is None or table.empty:
            continue
        steps = table["step"].to_numpy(dtype=float)
        values = table[column].to_numpy(dtype=float)
        whole = np.isfinite(values)
        starts = np.arange(0, len(values), block)
        n = np.add.reduceat(whole.astype(int), starts)
        total = np.add.reduceat(np.where(whole, values, 0.0), starts)
        middle = (
            steps[starts] + _apart(steps) * (block - 1) / 2
        )  # also of a last, shorter block: runs must meet at the same x
        kept = n > 0
        part = {"variant": run.variant, "seed": run.seed, "x": middle[kept], "value": total[kept] / n[kept]}
        parts.append(pd.DataFrame({**part, "status": run.status}))
    empty = pd.DataFrame({"variant": [], "seed": [], "x": [], "value": [], "status": []})
    return pd.concat(parts, ignore_index=True) if parts else empty


def _apart(steps: NDArray[np.float64]) -> float:
    """The distance of the rows of a curve in steps: more than 1 where it was thinned."""
    return float(steps[1] - steps[0]) if len(steps) > 1 else 1.0
