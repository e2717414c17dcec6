"""`compare`: Knockout's statistics for a pandas frame of runs that any program trained."""

import hashlib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
    Collected,
    FrameColumns,
    check_columns,
    check_frame,
    check_once,
    correctness_of,
    names_of,
    seeds_of,
    short_list,
    statuses_of,
)
from knockout.analysis.external.measured import (
    Correctness,
    Unit,
    check_margin,
    direction_of,
    is_accuracy,
    measured_as,
    secondary_of,
    unit_of,
    values_of,
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
    digits_for,
    seen_by_name,
)
from knockout.analysis.stats.numeric import ROUNDING
from knockout.study import Plan


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

    Raises one `FrameError` with all faults of what cannot be compared: a column that is missing or holds text, a run
    that stands twice, test sets that differ, a value outside the unit, a baseline that is not there.
    """
    return compare_by(
        frame,
        FrameColumns(variant=variant, seed=seed, status=status, count=count, correct=correct, metric=metric),
        Choices(baseline=baseline, margin=margin, better=better, unit=unit, variants=variants, alpha=alpha, plan=plan),
        factors=factors,
        secondary=secondary,
        anytime=anytime,
        notes=notes,
    )


def compare_by(
    frame: pd.DataFrame,
    columns: FrameColumns,
    choices: "Choices",
    *,
    factors: Sequence[str] = (),
    secondary: Sequence[str] | Mapping[str, Better] = (),
    anytime: Literal["sign", "t"] | None = None,
    notes: Sequence[str] = (),
) -> Comparison:
    """`compare`, with the names of columns and the choices as one object each."""
    choices = choices.normalized()
    others: dict[str, tuple[Metric, list[float | None]]] = {}

    def read_secondary(states: Sequence[str]) -> None:
        faults = Collected()
        for name in [name for name in secondary if name in frame]:
            way = secondary[name] if isinstance(secondary, Mapping) else None
            found = faults.of(partial(secondary_of, frame, name, states, way))
            if found is not None:
                others[f"secondary {name}"] = found
        faults.stop()

    read = _read(frame, columns, choices, factors=factors, secondary=secondary, anytime=anytime, further=read_secondary)
    baseline = choices.baseline
    runs = read.runs()
    for name, (_, column) in others.items():
        runs[name] = pd.Series(column, dtype=object)
    note_partners(runs, baseline, read.variants, read.notes)
    comparison = compare_runs(
        runs,
        metric=read.metric,
        baseline=baseline,
        variants=read.variants,
        seeds=read.planned(baseline),
        plan=read.plan,
        others={name: metric for name, (metric, _) in others.items()},
        changes=changes_of(frame, read.names, factors, baseline, read.variants),
        anytime=anytime,
        correctness=read.correctness() if is_accuracy(columns.metric) else None,
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
    return compare_unpaired_by(
        frame,
        FrameColumns(variant=variant, seed="", status=status, count=count, correct=correct, metric=metric),
        Choices(baseline=baseline, margin=margin, better=better, unit=unit, variants=variants, alpha=alpha, plan=plan),
        notes=notes,
    )


def compare_unpaired_by(
    frame: pd.DataFrame, columns: FrameColumns, choices: "Choices", *, notes: Sequence[str] = ()
) -> UnpairedComparison:
    """`compare_unpaired`, with the names of columns and the choices as one object each."""
    choices, columns = choices.normalized(), replace(columns, seed="")
    read = _read(frame, columns, choices)
    return printed_unpaired(
        compare_unpaired_runs(
            read.runs(),
            metric=read.metric,
            baseline=choices.baseline,
            variants=read.variants,
            plan=read.plan,
            notes=[*notes, *read.notes],
        )
    )


@dataclass(frozen=True, kw_only=True)
class Choices:
    """How a frame is judged: what `compare` and `compare_unpaired` have in common."""

    baseline: str
    margin: float | None = None
    better: Better | None = None
    unit: Unit | None = None
    variants: Sequence[str] | None = None
    alpha: float | None = None
    plan: Plan | None = None

    def normalized(self) -> "Choices":
        """With one form of letters with accents (Unicode's NFC), as the frame's names are read."""
        variants = self.variants
        if variants is not None and not isinstance(variants, str):
            variants = [_nfc(name) for name in variants]
        return replace(self, baseline=_nfc(self.baseline), variants=variants)


def _nfc(name: str) -> str:
    return unicodedata.normalize("NFC", name) if isinstance(name, str) else name


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
    choices: Choices,
    *,
    factors: Sequence[str] = (),
    secondary: Sequence[str] | Mapping[str, Better] = (),
    anytime: Literal["sign", "t"] | None = None,
    further: Callable[[Sequence[str]], None] = lambda _: None,
) -> _Read:
    """The frame's runs, its metric and the plan. `further` reads what else depends on the statuses.

    Raises one `FrameError` with all faults of the arguments, of the columns, and the first one in each column's cells;
    where there are none, with those of the runs together.
    """
    faults = Collected()
    listed = secondary if isinstance(secondary, str) else list(secondary)
    faults.of(lambda: check_arguments(choices.plan, margin=choices.margin, alpha=choices.alpha, anytime=anytime))
    before = len(faults.faults)
    faults.of(lambda: check_frame(frame, factors=factors, secondary=listed))
    if len(faults.faults) > before:
        faults.stop()
    faults.of(lambda: check_columns(frame, columns, factors=factors, secondary=listed))
    names = faults.of(lambda: names_of(frame, columns.variant)) if columns.variant in frame else None
    chosen = None
    if names is not None:
        chosen = faults.of(lambda: variants_of(names, choices.baseline, choices.variants, column=columns.variant))
    seeds: list[Seed] | None = list(range(len(frame)))
    if columns.seed:
        seeds = faults.of(lambda: seeds_of(frame, columns.seed)) if columns.seed in frame else None
    if columns.seed and names is not None and seeds is not None:
        faults.of(lambda: check_once(names, seeds, columns))
    made: list[str] = []
    arrays = faults.of(lambda: correctness_of(frame, columns))
    values = None
    if columns.metric in frame or arrays is not None:
        values = faults.of(lambda: values_of(frame, columns.metric, arrays))
        way = faults.of(lambda: direction_of(columns.metric, choices.better))
        unit = faults.of(lambda: unit_of(columns.metric, choices.unit))
        if unit == "raw":
            faults.of(lambda: check_margin(columns.metric, choices.margin))
    rounding, states = ROUNDING, None
    if values is not None:
        if columns.metric in frame:
            read = precise(values, columns.metric, kind=kind_of(frame[columns.metric]))
            values, rounding = read.values, read.rounding
            made += [read.note] if read.note else []
        states = faults.of(partial(statuses_of, frame, values, columns, made, columns.metric))
    if states is not None:
        faults.of(lambda: further(states))
    measured = None
    if states is not None and values is not None and way is not None and unit is not None:
        measured = faults.of(
            partial(measured_as, frame, values, states, columns, arrays=arrays, unit=unit, way=way, notes=made)
        )
    faults.stop()
    assert names is not None
    assert chosen is not None
    assert seeds is not None
    assert states is not None
    assert measured is not None
    metric, values = measured
    judged_by = _plan(choices)
    metric = replace(metric, rounding=ROUNDING if metric.whole else rounding)
    if metric.unit != "points":
        metric = replace(metric, digits=digits_for(judged_by.margin))
    if seen_data := seen_by_name(columns.metric):
        made.append(seen_data)
    return _Read(
        names=names,
        seeds=seeds,
        states=states,
        values=values,
        arrays=arrays,
        metric=metric,
        plan=judged_by,
        variants=chosen,
        notes=made,
    )


def _plan(choices: Choices) -> Plan:
    judged_by = replace(choices.plan or Plan(), secondary=())
    if choices.margin is not None:
        judged_by = replace(judged_by, margin=float(choices.margin))
    return judged_by if choices.alpha is None else replace(judged_by, alpha=float(choices.alpha))
