"""`compare`: Knockout's statistics for a pandas frame of runs that any program trained."""

import hashlib
import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from knockout.analysis.external.arms import (
    changes_of,
    check_arguments,
    in_order,
    note_partners,
    run_rows,
    variants_of,
)
from knockout.analysis.external.frame import (
    FrameColumns,
    FrameError,
    check_columns,
    check_magnitude,
    check_once,
    correctness_of,
    mixed_units,
    names_of,
    numbers_of,
    seeds_of,
    short_list,
    statuses_of,
    test_set_size,
)
from knockout.analysis.external.precision import kind_of, precise
from knockout.analysis.inference.comparison import compare_runs
from knockout.analysis.inference.pairs import Seed
from knockout.analysis.inference.unpaired import compare_unpaired_runs
from knockout.analysis.report.printed import Comparison, printed
from knockout.analysis.report.unpaired import UnpairedComparison, printed_unpaired
from knockout.analysis.stats.metric import (
    Better,
    Metric,
    better_by_name,
    counted,
    digits_for,
    is_share,
    raw,
    seen_by_name,
    share,
    words_of,
)
from knockout.analysis.stats.numeric import ROUNDING
from knockout.study import Plan

Unit = Literal["share", "percent", "raw"]

WHOLE = 1e-6
"""A share times the number of test examples is a count where it is this close to a whole number, in shares."""

SAME_SHARE = 5e-4
"""An accuracy may differ by this much from the mean of its correctness per example: by rounding to three digits."""

TOP: Mapping[Unit, float] = {"share": 1.0, "percent": 100.0}
"""The largest value of a unit that is bounded; the smallest is 0."""

Correctness = list[npt.NDArray[np.bool_] | None]
"""For each run, whether each test example was predicted correctly; `None` where that is not known."""


def compare(
    frame: pd.DataFrame,
    *,
    baseline: str,
    metric: str = "accuracy",
    margin: float | None = None,
    better: Better | None = None,
    unit: Unit | None = None,
    variants: Sequence[str] | None = None,
    factors: Sequence[str] = (),
    secondary: Sequence[str] | Mapping[str, Better] = (),
    anytime: Literal["sign", "t"] | None = None,
    alpha: float | None = None,
    plan: Plan | None = None,
    variant: str = "variant",
    seed: str = "seed",
    status: str = "status",
    count: str = "count",
    correct: str = "correct",
    notes: Sequence[str] = (),
) -> Comparison:
    """Compare every variant with the baseline, paired by seed.

    Returns a `Comparison`: verdicts, estimates with confidence intervals, sensitivity analyses, and the audit trail of
    each number.

    `frame` has one row per run with the columns `variant`, `seed` and `metric`; the last arguments name the columns.
    Names may be any text. It may have

    - `status`: "finished", "diverged", "dead" (these two have failed: they rank below all others), or "crashed",
      "out_of_memory", "killed", "timed_out", "missing" (no result: the contrast is incomplete). A finished run whose
      value is NaN or infinite has diverged. Without the column NaN is a missing result, an infinite value a failure;
    - `count`: the number of test examples. With it accuracy becomes a whole number of correct predictions, so that
      ties are exact;
    - `correct`: for each run an array of booleans, one per test example in one order. From it come accuracy where there
      is no such column, the second source of variance (the choice of test examples), and McNemar's test per seed.

    `margin`: the largest difference that does not matter, in points where the metric is a share ("share": from 0 to 1,
    "percent"), else in the metric's own unit ("raw"), where it is required. `better`: whether higher or lower values
    are better. `factors`: columns whose combinations of two levels form a full factorial. `secondary`: columns with
    other metrics, which are exploratory; as a mapping, each with "higher" or "lower". `anytime`: the e-process that
    decides, where runs were added until all was decided. `plan`: all other choices; `alpha` and `margin` override it.
    `notes`: what was decided about the runs before, for the report.

    Raises `FrameError` for what cannot be compared: a column that is missing or holds text, a run that stands twice,
    test sets that differ, a value outside the unit, a baseline that is not there.
    """
    baseline = unicodedata.normalize("NFC", baseline) if isinstance(baseline, str) else baseline
    columns = FrameColumns(variant=variant, seed=seed, status=status, count=count, correct=correct, metric=metric)
    check_columns(
        frame, columns, factors=factors, secondary=secondary if isinstance(secondary, str) else list(secondary)
    )
    check_arguments(plan, margin=margin, alpha=alpha, anytime=anytime)
    read = _read(frame, columns, baseline, variants, unit=unit, better=better, margin=margin, alpha=alpha, plan=plan)
    runs = read.runs()
    others = {}
    for name in secondary:
        way = secondary[name] if isinstance(secondary, Mapping) else None
        others[f"secondary {name}"], column = _secondary(frame, name, read.states, way)
        runs[f"secondary {name}"] = pd.Series(column, dtype=object)
    note_partners(runs, baseline, read.variants, read.notes)
    comparison = compare_runs(
        runs,
        metric=read.metric,
        baseline=baseline,
        variants=read.variants,
        seeds=read.planned(baseline),
        plan=read.plan,
        others=others,
        changes=changes_of(frame, read.names, factors, baseline, read.variants),
        anytime=anytime,
        correctness=read.correctness() if _is_accuracy(metric) else None,
        notes=[*notes, *read.notes],
    )
    if factors and not comparison.crossings:
        why = f"{short_list(factors)} form no full factorial of two levels each: there are no main effects to report."
        comparison = replace(comparison, notes=(*comparison.notes, why))
    return printed(comparison)


def compare_unpaired(
    frame: pd.DataFrame,
    *,
    baseline: str,
    metric: str = "accuracy",
    margin: float | None = None,
    better: Better | None = None,
    unit: Unit | None = None,
    variants: Sequence[str] | None = None,
    alpha: float | None = None,
    plan: Plan | None = None,
    variant: str = "variant",
    status: str = "status",
    count: str = "count",
    correct: str = "correct",
    notes: Sequence[str] = (),
) -> UnpairedComparison:
    """Compare every variant with the baseline without pairs, for runs of which no seed is known.

    The weaker comparison: Welch's t test in place of the paired one, and rank sums where runs failed. What runs of one
    seed have in common is noise in it. Use `compare` wherever a column says which runs share a seed.

    Returns an `UnpairedComparison`. Arguments, columns and errors are those of `compare`.
    """
    baseline = unicodedata.normalize("NFC", baseline) if isinstance(baseline, str) else baseline
    columns = FrameColumns(variant=variant, seed="", status=status, count=count, correct=correct, metric=metric)
    check_columns(frame, columns, factors=(), secondary=())
    check_arguments(plan, margin=margin, alpha=alpha)
    read = _read(frame, columns, baseline, variants, unit=unit, better=better, margin=margin, alpha=alpha, plan=plan)
    return printed_unpaired(
        compare_unpaired_runs(
            read.runs(),
            metric=read.metric,
            baseline=baseline,
            variants=read.variants,
            plan=read.plan,
            notes=[*notes, *read.notes],
        )
    )


@dataclass(frozen=True, kw_only=True)
class _Read:
    """A frame, read: one entry per run in each list, and how it is judged."""

    names: list[str]
    seeds: list[Seed]
    """numbers of the rows where nothing is paired"""
    states: list[str]
    values: list[float]
    """as the metric stores them"""
    arrays: Correctness | None
    metric: Metric
    plan: Plan
    variants: list[str]
    notes: list[str]
    """on what was decided here"""

    def runs(self) -> pd.DataFrame:
        runs = run_rows(self.names, self.seeds, self.states, self.values)
        if self.arrays is not None:
            hashes = [None if a is None else hashlib.sha256(a.tobytes()).hexdigest() for a in self.arrays]
            runs["predictions_sha256"] = hashes
        return runs

    def planned(self, baseline: str) -> list[Seed]:
        """The seeds of the baseline and of the variants that are compared."""
        wanted = {baseline, *self.variants}
        return in_order([s for n, s in zip(self.names, self.seeds, strict=True) if n in wanted])

    def correctness(self) -> dict[tuple[str, Seed], npt.NDArray[np.bool_]] | None:
        """Correctness per example by variant and seed, where it is known."""
        of = zip(self.names, self.seeds, self.arrays or (), strict=self.arrays is not None)
        return {(n, s): a for n, s, a in of if a is not None} or None


def _read(
    frame: pd.DataFrame,
    columns: FrameColumns,
    baseline: str,
    variants: Sequence[str] | None,
    *,
    unit: Unit | None,
    better: Better | None,
    margin: float | None,
    alpha: float | None,
    plan: Plan | None,
) -> _Read:
    """The frame's runs, its metric and the plan. `columns` were checked to be there."""
    names = names_of(frame, columns.variant)
    if variants is not None and not isinstance(variants, str):
        variants = [unicodedata.normalize("NFC", name) if isinstance(name, str) else name for name in variants]
    seeds: list[Seed] = list(range(len(frame)))
    if columns.seed:
        seeds = seeds_of(frame, columns.seed)
        check_once(names, seeds, columns)
    chosen = variants_of(names, baseline, variants, column=columns.variant)
    made: list[str] = []
    arrays = correctness_of(frame, columns)
    values = _values(frame, columns.metric, arrays)
    rounding = ROUNDING
    if columns.metric in frame:
        read = precise(values, columns.metric, kind=kind_of(frame[columns.metric]))
        values, rounding = read.values, read.rounding
        made += [read.note] if read.note else []
    states = statuses_of(frame, values, columns, made, columns.metric)
    measured, values = _measured(
        frame, values, states, columns, arrays=arrays, unit=unit, better=better, margin=margin or 0.0, notes=made
    )
    judged_by = _plan(plan, measured, margin=margin, alpha=alpha)
    measured = replace(measured, rounding=ROUNDING if measured.whole else rounding)
    if measured.unit != "points":
        measured = replace(measured, digits=digits_for(judged_by.margin))
    if seen_data := seen_by_name(columns.metric):
        made.append(seen_data)
    return _Read(
        names=names,
        seeds=seeds,
        states=states,
        values=values,
        arrays=arrays,
        metric=measured,
        plan=judged_by,
        variants=chosen,
        notes=made,
    )


def _values(frame: pd.DataFrame, metric: str, arrays: Correctness | None) -> list[float]:
    """The metric as floats, NaN where there is none."""
    if metric not in frame:
        assert arrays is not None
        if metric != "accuracy":
            raise FrameError(f'no column "{metric}"; from correctness per example alone only "accuracy" follows')
        return [math.nan if a is None else float(a.mean()) for a in arrays]
    return numbers_of(frame, metric)


def _is_accuracy(name: str) -> bool:
    return bool(words_of(name) & {"accuracy", "acc"})


def _direction(name: str, better: Better | None) -> Better:
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


def _unit(name: str, unit: Unit | None) -> Unit:
    """The unit of the values: as the caller says, else as the metric's name says."""
    if unit is None:
        return "share" if is_share(name) else "raw"
    if unit not in ("share", "percent", "raw"):
        raise FrameError(f'unit must be "share", "percent" or "raw", got {unit!r}')
    return unit


def _measured(
    frame: pd.DataFrame,
    values: list[float],
    states: Sequence[str],
    columns: FrameColumns,
    *,
    arrays: Correctness | None,
    unit: Unit | None,
    better: Better | None,
    margin: float,
    notes: list[str],
) -> tuple[Metric, list[float]]:
    """The metric, and the values as it stores them: raw values, shares, or counts of correct predictions."""
    name = columns.metric
    examples = test_set_size(frame, columns, arrays, states)
    way = _direction(name, better)
    unit = _unit(name, unit)
    check_magnitude(values, states, name)
    if unit == "raw":
        return raw(name, better=way, margin=margin or 1.0), values
    shares = _shares(values, states, name, unit)
    if examples is None or way == "lower" or not _is_accuracy(name):
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


def _secondary(
    frame: pd.DataFrame, name: str, states: Sequence[str], better: Better | None
) -> tuple[Metric, list[float | None]]:
    read = precise(numbers_of(frame, name), name, kind=kind_of(frame[name]))
    values = read.values
    check_magnitude(values, states, name)
    way = _direction(name, better)
    finite = [v for v, s in zip(values, states, strict=True) if s == "finished" and math.isfinite(v)]
    in_points = is_share(name) and all(0 <= v <= 1 for v in finite)
    metric = share(name, better=way) if in_points else raw(name, better=way, margin=0.01)
    metric = replace(metric, rounding=read.rounding)
    return metric, [v if s == "finished" and math.isfinite(v) else None for v, s in zip(values, states, strict=True)]


def _plan(plan: Plan | None, metric: Metric, *, margin: float | None, alpha: float | None) -> Plan:
    if margin is None and metric.unit != "points":  # that of a plan is in points
        raise FrameError(
            f"a margin is needed for {metric.name}: the largest difference that does not matter, in its own unit"
            f' (margin=..., --margin), or unit="share" or "percent" (--unit) where it is one'
        )
    judged_by = replace(plan or Plan(), secondary=())
    if margin is not None:
        judged_by = replace(judged_by, margin=float(margin))
    return judged_by if alpha is None else replace(judged_by, alpha=float(alpha))
