"""`curves`: the instability of loss curves that any program logged, from files or from a pandas frame."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from knockout.analysis.external.arms import check_arguments, variants_of
from knockout.analysis.external.frame import FrameError
from knockout.analysis.external.shapes import matching
from knockout.analysis.external.step_frames import points_of_frame
from knockout.analysis.external.step_logs import LoggedRun, StepLogs, logs_of, ordered_seeds, read_step_logs
from knockout.analysis.external.step_points import Floats, Quantity, StepColumns
from knockout.analysis.external.table import plain
from knockout.analysis.report.curves_alone import Curves, judge_curves
from knockout.analysis.stats.curve import RunCurve
from knockout.plan import Plan

TRAINING: tuple[Quantity, ...] = ("grad_norm", "learning_rate")


def curves(
    frame: "pd.DataFrame | str | Path",
    *,
    baseline: str,
    variants: Sequence[str] | None = None,
    variant: str | Sequence[str] = "variant",
    seed: str | Sequence[str] = "seed",
    seed_pattern: str = "",
    step: str = "step",
    loss: str = "loss",
    grad_norm: str = "grad_norm",
    learning_rate: str = "learning_rate",
    probe_loss: str = "probe_loss",
    probe_accuracy: str = "probe_accuracy",
    status: str = "status",
    wide: bool = False,
    statuses: Mapping[str, str] | None = None,
    clip_norm: float | None = None,
    same_batches: bool = True,
    alpha: float | None = None,
    plan: Plan | None = None,
) -> Curves:
    """Measure how unstable loss curves are, and compare every variant with the baseline, paired by seed.

    Returns `Curves`: one number per run and measure (`runs`), every variant against the baseline (`contrasts`), and
    `write(folder)` for the report. As `knockout curves`.

    `frame`: a frame with one row per run and step, or a file or folder of step logs. Losses are in nats. The columns
    of gradient norm, learning rate, probe and status need not be there; measures that need them are then missing, and
    `instability.missing` says which. A probe is a fixed set of examples, evaluated now and then; `probe_accuracy` is a
    share. In a frame NaN before a number was not logged, and NaN at a run's end is a divergence. `clip_norm`: the norm
    at which gradients were clipped. `same_batches`: whether the runs of a seed saw the same batches; else no loss is
    subtracted from another. `plan` and `alpha`: the level of the tests.

    Raises `knockout.strict.FaultsError` and `knockout.analysis.FrameError` with what cannot be read or compared.
    """
    columns = StepColumns(
        variant=(variant,) if isinstance(variant, str) else tuple(variant),
        seed=(seed,) if isinstance(seed, str) else tuple(seed),
        seed_pattern=seed_pattern,
        step=step,
        loss=loss,
        grad_norm=grad_norm,
        learning_rate=learning_rate,
        probe_loss=probe_loss,
        probe_accuracy=probe_accuracy,
        status=status,
        wide=wide,
    )
    if isinstance(frame, pd.DataFrame):
        columns = columns.normalized()
        logs = logs_of([points_of_frame(frame, columns)], columns, statuses=statuses)
    else:
        logs = read_step_logs([Path(frame)], columns, statuses=statuses)
    check_arguments(plan, margin=None, alpha=alpha)
    judged_by = plan or Plan()
    return curves_of(
        logs,
        columns,
        baseline=baseline,
        variants=variants,
        clip_norm=clip_norm,
        same_batches=same_batches,
        plan=judged_by if alpha is None else replace(judged_by, alpha=float(alpha)),
    )


def curves_of(
    logs: StepLogs,
    columns: StepColumns,
    *,
    baseline: str,
    plan: Plan,
    variants: Sequence[str] | None = None,
    clip_norm: float | None = None,
    same_batches: bool = True,
) -> Curves:
    """The instability of runs that were read. Raises `FrameError` where they cannot be compared."""
    if clip_norm is not None and not (np.isfinite(clip_norm) and clip_norm > 0):
        raise FrameError(f"the norm at which gradients are clipped must be a number above 0, got {clip_norm!r}")
    base = baseline_of(plain(baseline), logs.variants, columns)
    names = variants_of([run.variant for run in logs.runs], base, variants, column=" and ".join(columns.variant))
    runs = [run for run in logs.runs if run.variant in {base, *names}]
    if not any(run.variant == base and run.status in ("finished", "diverged") for run in runs):
        raise FrameError(f'no run of the baseline "{base}" has finished or diverged: there is nothing to compare with')
    notes = list(logs.notes)
    seeds = ordered_seeds(replace(logs, runs=tuple(runs)))
    for name in names:
        own = {run.seed for run in runs if run.variant == name}
        if not own & {run.seed for run in runs if run.variant == base}:
            notes.append(f'"{name}" has no seed in common with the baseline: nothing of it can be paired.')
    return judge_curves(
        [run_curve(run, clip_norm) for run in runs],
        baseline=base,
        variants=names,
        seeds=seeds,
        plan=plan,
        same_batches=same_batches,
        notes=notes,
    )


def baseline_of(baseline: str, names: Sequence[str], columns: StepColumns) -> str:
    """The baseline's name; of combinations it may be given as columns and values, in any order."""
    several = columns.variant if len(columns.variant) > 1 else ()
    fitting = [] if baseline in names else matching(baseline, names, several)
    if len(fitting) > 1:
        shown = ", ".join(f'"{name}"' for name in fitting[:5])
        raise FrameError(f"{shown} all have {baseline}: name one of them as the baseline")
    return fitting[0] if fitting else baseline


def run_curve(run: LoggedRun, clip_norm: float | None = None) -> RunCurve:
    """The curve of a run. Steps that count from 0 are made to count from 1, as batches do; those of a probe stay."""
    loss = run.series.get("loss")
    step = np.empty(0) if loss is None else loss.step
    beside: dict[str, Floats | None] = {}
    for quantity in TRAINING:
        own = run.series.get(quantity)
        beside[quantity] = None if own is None or not len(step) else _at(step, own.step, own.value)
    probe_loss, probe_accuracy = run.series.get("probe_loss"), run.series.get("probe_accuracy")
    first = probe_loss or probe_accuracy
    at = None if first is None else first.step
    from_zero = run.every == 1 and len(step) > 0 and step[0] == 0
    return RunCurve(
        variant=run.variant,
        seed=run.seed,
        status=run.status,
        dead=run.dead,
        step=step + 1 if from_zero else step,
        loss=np.empty(0) if loss is None else loss.value,
        grad_norm=beside["grad_norm"],
        learning_rate=beside["learning_rate"],
        steps=run.steps,
        every=run.every,
        probe_step=at,
        probe_loss=None if probe_loss is None else probe_loss.value,
        probe_accuracy=None
        if probe_accuracy is None or at is None
        else _at(at, probe_accuracy.step, probe_accuracy.value),
        clip_norm=clip_norm,
    )


def _at(steps: Floats, there: Floats, values: Floats) -> Floats:
    """The values at some steps, NaN at those where there is none."""
    found = np.searchsorted(there, steps)
    found[found == len(there)] = 0
    return np.where(there[found] == steps, values[found], np.nan) if len(there) else np.full(len(steps), np.nan)
