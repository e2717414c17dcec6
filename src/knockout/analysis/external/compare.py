"""`compare`: Knockout's statistics for a pandas frame of runs that any program trained."""

import hashlib
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from knockout.analysis.external.frame import (
    FrameColumns,
    FrameError,
    check_columns,
    check_magnitude,
    check_once,
    correctness_of,
    names_of,
    numbers_of,
    seeds_of,
    short_list,
    statuses_of,
    test_set_size,
)
from knockout.analysis.inference.comparison import compare_runs
from knockout.analysis.inference.pairs import Seed
from knockout.analysis.report.printed import Comparison, printed
from knockout.analysis.stats.metric import (
    Better,
    Metric,
    better_by_name,
    counted,
    digits_for,
    is_share,
    raw,
    share,
    words_of,
)
from knockout.strict import build, nearest
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
    columns = FrameColumns(variant=variant, seed=seed, status=status, count=count, correct=correct, metric=metric)
    check_columns(
        frame, columns, factors=factors, secondary=secondary if isinstance(secondary, str) else list(secondary)
    )
    _check_arguments(plan, margin=margin, alpha=alpha, anytime=anytime)
    names = names_of(frame, variant)
    seeds = seeds_of(frame, seed)
    check_once(names, seeds, columns)
    if baseline not in set(names):
        hint = nearest(baseline, sorted(set(names)))
        raise FrameError(
            f'no run of the baseline "{baseline}"; {variant} has {short_list(sorted(set(names)))}'
            + (f'; did you mean "{hint}"?' if hint else "")
        )
    chosen = _variants(names, baseline, variants)
    made: list[str] = []  # notes on what was decided here
    arrays = correctness_of(frame, columns)
    values = _values(frame, metric, arrays)
    states = statuses_of(frame, values, columns, made, metric)
    measured, values = _measured(
        frame, values, states, columns, arrays=arrays, unit=unit, better=better, margin=margin or 0.0, notes=made
    )
    judged_by = _plan(plan, measured, margin=margin, alpha=alpha)
    if measured.unit != "points":
        measured = replace(measured, digits=digits_for(judged_by.margin))
    runs = _runs(names, seeds, states, values)
    others = {}
    for name in secondary:
        way = secondary[name] if isinstance(secondary, Mapping) else None
        others[f"secondary {name}"], column = _secondary(frame, name, states, way)
        runs[f"secondary {name}"] = pd.Series(column, dtype=object)
    if arrays is not None:
        runs["predictions_sha256"] = [None if a is None else hashlib.sha256(a.tobytes()).hexdigest() for a in arrays]
    correctness = {}
    if arrays is not None and _is_accuracy(metric):  # of another metric, correctness is not the second source
        correctness = {(n, s): a for n, s, a in zip(names, seeds, arrays, strict=True) if a is not None}
    planned = _order([s for n, s in zip(names, seeds, strict=True) if n == baseline or n in chosen])
    _note_partners(runs, baseline, chosen, made)
    comparison = compare_runs(
        runs,
        metric=measured,
        baseline=baseline,
        variants=chosen,
        seeds=planned,
        plan=judged_by,
        others=others,
        changes=_changes(frame, names, factors, baseline, chosen),
        anytime=anytime,
        correctness=correctness or None,
        notes=[*notes, *made],
    )
    if factors and not comparison.crossings:
        why = f"{short_list(factors)} form no full factorial of two levels each: there are no main effects to report."
        comparison = replace(comparison, notes=(*comparison.notes, why))
    return printed(comparison)


def _runs(names: Sequence[str], seeds: Sequence[Seed], states: Sequence[str], values: Sequence[float]) -> pd.DataFrame:
    """One row per run: variant, seed, status, failed, and value, `None` where the run did not finish."""
    return pd.DataFrame(
        {
            "variant": names,
            "seed": pd.Series(seeds, dtype=object),
            "status": ["diverged" if s == "dead" else s for s in states],
            "failed": [s in ("diverged", "dead") for s in states],
            "value": pd.Series(
                [v if s == "finished" else None for v, s in zip(values, states, strict=True)], dtype=object
            ),
        }
    )


def _variants(names: Sequence[str], baseline: str, wanted: Sequence[str] | None) -> list[str]:
    there = [n for n in dict.fromkeys(names) if n != baseline]
    if wanted is None:
        if not there:
            raise FrameError(f'all runs are of the baseline "{baseline}": there is nothing to compare with it')
        return there
    if isinstance(wanted, str) or not wanted or len(set(wanted)) < len(wanted) or baseline in wanted:
        raise FrameError(f"variants must be a list of different names without the baseline, got {wanted!r}")
    for name in wanted:
        if name not in there:
            hint = nearest(name, there)
            raise FrameError(
                f'no run of "{name}"' + (f'; did you mean "{hint}"?' if hint else f"; there are {short_list(there)}")
            )
    return list(wanted)


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
    values = numbers_of(frame, name)
    check_magnitude(values, states, name)
    way = _direction(name, better)
    finite = [v for v, s in zip(values, states, strict=True) if s == "finished" and math.isfinite(v)]
    in_points = is_share(name) and all(0 <= v <= 1 for v in finite)
    metric = share(name, better=way) if in_points else raw(name, better=way, margin=0.01)
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


def _check_arguments(plan: Plan | None, *, margin: float | None, alpha: float | None, anytime: str | None) -> None:
    if margin is not None and not (_is_number(margin) and 0 < margin < math.inf):
        raise FrameError(f"margin must be a number above 0, got {margin!r}")
    if alpha is not None and not (_is_number(alpha) and 0 < alpha < 0.5):
        raise FrameError(f"alpha must lie between 0 and .5, got {alpha!r}")
    if anytime not in (None, "sign", "t"):
        raise FrameError(f'anytime must be "sign", "t" or None, got {anytime!r}')
    if plan is not None:
        _, faults = build(Plan, asdict(plan), "", "plan")  # a Plan that was made in Python has not been checked
        if faults:
            raise FrameError(f"{faults[0].key} is {faults[0].got.removeprefix('got ')}; allowed: {faults[0].allowed}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _changes(
    frame: pd.DataFrame, names: Sequence[str], factors: Sequence[str], baseline: str, variants: Sequence[str]
) -> Mapping[str, Mapping[str, Any]]:
    """variant -> factor -> level where it differs from the baseline's. Raises where a variant has two levels of one."""
    if not factors:
        return {}
    levels: dict[str, dict[str, Hashable]] = {}
    for factor in factors:
        for i, (name, level) in enumerate(zip(names, frame[factor].tolist(), strict=True)):
            if not isinstance(level, str | bool | int | float) or level != level:
                raise FrameError(f"row {i}: {factor} is {level!r}; a level is a text, a number, True or False")
            before = levels.setdefault(name, {}).setdefault(factor, level)
            if before != level:
                raise FrameError(f'row {i}: "{name}" has {factor} {level!r}, and {before!r} in another row')
    base = levels[baseline]
    changed = {v: {f: x for f, x in levels[v].items() if x != base[f]} for v in variants}
    seen: dict[tuple[Hashable, ...], str] = {tuple(base.values()): baseline}
    for v in variants:
        key = tuple(levels[v].values())
        if key in seen:
            raise FrameError(
                f'"{v}" has the same {short_list(factors)} as "{seen[key]}": a cell of a factorial has one name'
            )
        seen[key] = v
    return changed


def _note_partners(runs: pd.DataFrame, baseline: str, variants: Sequence[str], notes: list[str]) -> None:
    there = {v: set(own["seed"]) for v, own in runs.groupby("variant", sort=False)}
    for name in variants:
        if not there[name] & there[baseline]:
            notes.append(f'"{name}" has no seed in common with the baseline: nothing of it can be paired.')


def _order(seeds: Sequence[Seed]) -> list[Seed]:
    """Every seed once: numbers by size, texts as numbers where all are, else as they come."""
    once = list(dict.fromkeys(seeds))
    if all(isinstance(s, int) for s in once) or all(str(s).isdigit() for s in once):
        return sorted(once, key=lambda s: (int(s), str(s)))
    return once
