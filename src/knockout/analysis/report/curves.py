"""Learning curves: the points drawn of each run, and their median and quartiles over seeds."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from knockout.analysis.results import Results

POINTS = 100
"""The most points of a run's training loss."""
EARLY_POINTS = 200
"""The most points of a run's first steps."""


def loss_curves(results: Results) -> pd.DataFrame:
    """Training loss (nats) of every run as means over blocks of steps.

    Columns: variant, seed, x (the middle step of the block), value, status. Blocks are the only smoothing: the longest
    run gets at most 100 points. A block's mean is over its finite steps, and a block without any is left out.
    """
    return _long(results, results.curves, "loss", _rows_per_block(results))


def steps_per_point(results: Results) -> int:
    """The number of optimiser steps in a block of `loss_curves`."""
    return _rows_per_block(results) * rows_apart(results)


def _rows_per_block(results: Results) -> int:
    longest = max((len(c) for c in results.curves.values()), default=0)
    return max(1, math.ceil(longest / POINTS))


def early_loss(results: Results) -> pd.DataFrame:
    """Training loss (nats) of every run over the first tenth of the longest run's steps, as recorded: not smoothed.

    Columns as in `loss_curves`; x is the step. Of more than 200 rows per run those at 200 steps are kept that lie
    evenly on a log axis. Values that are not finite are left out.
    """
    last = max((float(c["step"].iloc[-1]) for c in results.curves.values() if len(c)), default=0.0)
    tables = {}
    for run_id, curve in results.curves.items():
        first = curve[curve["step"] <= max(last / 10, 1.0)]
        tables[run_id] = first.iloc[log_rows(len(first), EARLY_POINTS)]
    return _long(results, tables, "loss", 1)


def log_rows(count: int, most: int) -> NDArray[np.int64]:
    """Row numbers 0 to `count` - 1, or at most `most` that lie evenly on a log axis; the ends among them."""
    if count <= most:
        return np.arange(count)
    return np.unique(np.round(np.geomspace(1, count, most)).astype(np.int64)) - 1


def even_rows(count: int, most: int) -> NDArray[np.int64]:
    """Row numbers 0 to `count` - 1, or `most` of them that lie evenly; first and last among them."""
    return np.arange(count) if count <= most else np.unique(np.linspace(0, count - 1, most).round().astype(np.int64))


def divergences(results: Results) -> pd.DataFrame:
    """The last recorded step of every run that diverged. Columns: variant, seed, x."""
    rows = [
        {"variant": run.variant, "seed": run.seed, "x": float(curve["step"].iloc[-1])}
        for run in results.runs[["run_id", "variant", "seed", "status"]].itertuples(index=False)
        if run.status == "diverged" and (curve := results.curves.get(str(run.run_id))) is not None and len(curve)
    ]
    return pd.DataFrame(rows, columns=["variant", "seed", "x"])


def validation_losses(results: Results) -> pd.DataFrame:
    """Validation loss (nats) of every run after each epoch. Columns as in `loss_curves`; x is the optimiser step."""
    return _long(results, results.epochs, "loss", 1)


def rows_apart(results: Results) -> int:
    """The optimiser steps of one row of a recorded curve: more than 1 where curves were thinned."""
    return round(max((_apart(c["step"].to_numpy(dtype=float)) for c in results.curves.values()), default=1.0))


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
    names: list[tuple[object, object, object, int]] = []
    xs: list[NDArray[np.float64]] = []
    means: list[NDArray[np.float64]] = []
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
        xs.append(middle[kept])
        means.append(total[kept] / n[kept])
        names.append((run.variant, run.seed, run.status, int(kept.sum())))
    if not names:
        return pd.DataFrame({"variant": [], "seed": [], "x": [], "value": [], "status": []})
    of_run = pd.DataFrame(names, columns=["variant", "seed", "status", "n"])
    rows = of_run.loc[of_run.index.repeat(of_run["n"])].reset_index(drop=True)
    rows = rows.assign(x=np.concatenate(xs), value=np.concatenate(means))
    return rows[["variant", "seed", "x", "value", "status"]]


def _apart(steps: NDArray[np.float64]) -> float:
    """The distance of the rows of a curve in steps: more than 1 where it was thinned."""
    return float(steps[1] - steps[0]) if len(steps) > 1 else 1.0
