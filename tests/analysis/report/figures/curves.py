"""Curves made by hand, and what figures of a study are drawn from."""

import numpy as np
from matplotlib.lines import Line2D

from knockout.analysis.report.figures.plot import Source
from knockout.analysis.report.study import judge_study
from knockout.analysis.results import Results
from knockout.analysis.run_curves import run_curves
from knockout.analysis.stats.curve import Array, RunCurve


def curve_of(loss: Array, *, variant: str = "a", seed: int = 0, first: int = 1, every: int = 1) -> RunCurve:
    """A run that finished, with this loss at steps `first`, `first` + `every`, ..."""
    return RunCurve(
        variant=variant,
        seed=seed,
        status="finished",
        dead=False,
        step=np.arange(len(loss), dtype=np.float64) * every + first,
        loss=loss,
        steps=len(loss) * every,
        every=every,
    )


def xs(line: Line2D) -> list[float]:
    """The places across of a line's points."""
    return [float(x) for x in np.asarray(line.get_xdata(), dtype=float)]


def ys(line: Line2D) -> list[float]:
    """The heights of a line's points."""
    return [float(y) for y in np.asarray(line.get_ydata(), dtype=float)]


def source_of(results: Results) -> Source:
    """A study as its report draws it."""
    judged = judge_study(results)
    return Source(
        comparison=judged.comparison,
        results=results,
        curves=tuple(run_curves(results)),
        instability=judged.instability,
    )
