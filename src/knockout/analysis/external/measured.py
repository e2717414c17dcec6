"""The metric of a frame of runs: its values, their unit, which way is better, and counts of correct predictions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from knockout.analysis.external.frame import (
    FrameColumns,
    FrameError,
    check_magnitude,
    mixed_units,
    numbers_of,
    test_set_size,
)
from knockout.analysis.external.precision import kind_of, precise
from knockout.analysis.stats.metric import (
    Better,
    Metric,
    better_by_name,
    counted,
    is_share,
    raw,
    share,
    words_of,
)

Unit = Literal["share", "percent", "raw"]

WHOLE = 1e-6
"""A share times the number of test examples is a count where it is this close to a whole number, in shares."""

SAME_SHARE = 5e-4
"""An accuracy may differ by this much from the mean of its correctness per example: by rounding to three digits."""

TOP: Mapping[Unit, float] = {"share": 1.0, "percent": 100.0}
"""The largest value of a unit that is bounded; the smallest is 0."""

Correctness = list[npt.NDArray[np.bool_] | None]
"""For each run, whether each test example was predicted correctly; `None` where that is not known."""


def values_of(frame: pd.DataFrame, metric: str, arrays: Correctness | None) -> list[float]:
    """The metric as floats, NaN where there is none."""
    if metric not in frame:
        assert arrays is not None
        if metric != "accuracy":
            raise FrameError(f'no column "{metric}"; from correctness per example alone only "accuracy" follows')
        return [math.nan if a is None else float(a.mean()) for a in arrays]
    return numbers_of(frame, metric)


def is_accuracy(name: str) -> bool:
    return bool(words_of(name) & {"accuracy", "acc"})


def direction_of(name: str, better: Better | None) -> Better:
    """Which way is better: as the caller says, else as the metric's name says."""
    way = better or better_by_name(name)
    if way is None:
        raise FrameError(
            f'whether higher or lower values of {name} are better is not known: say better="higher" or better="lower"'
            " (--higher-is-better, --lower-is-better)"
        )
    if way not in ("higher", "lower"):
        raise FrameError(f'better must be "higher" or "lower", got {way!r}')
    return way


def unit_of(name: str, unit: Unit | None) -> Unit:
    """The unit of the values: as the caller says, else as the metric's name says."""
    if unit is None:
        return "share" if is_share(name) else "raw"
    if unit not in ("share", "percent", "raw"):
        raise FrameError(f'unit must be "share", "percent" or "raw", got {unit!r}')
    return unit


def measured_as(
    frame: pd.DataFrame,
    values: list[float],
    states: Sequence[str],
    columns: FrameColumns,
    *,
    arrays: Correctness | None,
    unit: Unit,
    way: Better,
    notes: list[str],
) -> tuple[Metric, list[float]]:
    """The metric, and the values as it stores them: raw values, shares, or counts of correct predictions."""
    name = columns.metric
    examples = test_set_size(frame, columns, arrays, states)
    check_magnitude(values, states, name)
    if unit == "raw":
        return raw(name, better=way, margin=1.0), values  # its digits follow the margin, later
    shares = _shares(values, states, name, unit)
    if examples is None or way == "lower" or not is_accuracy(name):
        return share(name, better=way), shares
    if arrays is not None:
        _check_accuracy(shares, states, arrays, columns, top=TOP[unit])
    counts = _correct_counts(arrays, states) or _rounded_counts(shares, states, name, examples, notes)
    return (share(name), shares) if counts is None else (counted(name, examples=examples), counts)


def _shares(values: Sequence[float], states: Sequence[str], name: str, unit: Unit) -> list[float]:
    """Values as shares from 0 to 1. Raises `FrameError` for a finished run whose value lies outside the unit."""
    top = TOP[unit]
    mixed = mixed_units([v for v, s in zip(values, states, strict=True) if s == "finished"])
    if mixed:
        way = 'write all in one; if they are, unit="raw" and a margin (--unit raw --margin) takes them as they are'
        raise FrameError(f"{name} has {mixed[0]:g} and {mixed[1]:g}, a share and a percentage by their size: {way}")
    outside = [v for v, s in zip(values, states, strict=True) if s == "finished" and not 0 <= v <= top]
    if outside:
        way = 'unit="raw" and a margin (--unit raw --margin)'
        way = f'unit="percent" (--unit percent), or {way}' if unit == "share" else way
        raise FrameError(f"{name} has {outside[0]:g}, and a {unit} lies between 0 and {top:g}: say {way}")
    return [v / top for v in values]


def _check_accuracy(
    shares: Sequence[float], states: Sequence[str], arrays: Correctness, columns: FrameColumns, *, top: float
) -> None:
    """Raises `FrameError` where accuracy is not the mean of correctness per example. `top`: 1 as it was given."""
    for i, (x, state, array) in enumerate(zip(shares, states, arrays, strict=True)):
        if array is not None and state == "finished" and abs(x - array.mean()) > SAME_SHARE:
            raise FrameError(
                f"row {i}: {columns.metric} is {top * x:g}, and {columns.correct} says {top * array.mean():g}"
            )


def _correct_counts(arrays: Correctness | None, states: Sequence[str]) -> list[float] | None:
    """Correct predictions per run, from correctness per example; `None` where a finished run has none, or another has.

    NaN for runs that did not finish.
    """
    if arrays is None or any((a is None) == (s == "finished") for a, s in zip(arrays, states, strict=True)):
        return None
    return [math.nan if a is None else int(a.sum()) for a in arrays]


def _rounded_counts(
    shares: Sequence[float], states: Sequence[str], name: str, examples: int, notes: list[str]
) -> list[float] | None:
    """Correct predictions per run, from shares; `None`, with a note, where some are no whole numbers.

    NaN for runs without a finite value.
    """
    near = [s * examples for s in shares]
    apart = [abs(x - round(x)) > WHOLE * examples for x, s in zip(near, states, strict=True) if s == "finished"]
    if any(apart):
        notes.append(
            f"{sum(apart)} values of {name} times {examples:,} test examples are no whole numbers (rounded?): ties are"
            " judged on the values as they stand."
        )
        return None
    return [round(x) if math.isfinite(x) else math.nan for x in near]


def secondary_of(
    frame: pd.DataFrame, name: str, states: Sequence[str], better: Better | None
) -> tuple[Metric, list[float | None]]:
    read = precise(numbers_of(frame, name), name, kind=kind_of(frame[name]))
    values = read.values
    check_magnitude(values, states, name)
    way = direction_of(name, better)
    finite = [v for v, s in zip(values, states, strict=True) if s == "finished" and math.isfinite(v)]
    in_points = is_share(name) and all(0 <= v <= 1 for v in finite)
    metric = share(name, better=way) if in_points else raw(name, better=way, margin=0.01)
    metric = replace(metric, rounding=read.rounding)
    return metric, [v if s == "finished" and math.isfinite(v) else None for v, s in zip(values, states, strict=True)]


def check_margin(name: str, margin: float | None) -> None:
    if margin is None:  # that of a plan is in points
        raise FrameError(
            f"a margin is needed for {name}: the largest difference that does not matter, in its own unit"
            f' (margin=..., --margin), or unit="share" or "percent" (--unit) where it is one'
        )
