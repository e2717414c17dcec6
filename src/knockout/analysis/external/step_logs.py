"""The runs of step logs from elsewhere: one curve per run, with restarts resolved and intervals made alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from knockout.analysis.external.arms import in_order
from knockout.analysis.external.shapes import Roles, with_roles
from knockout.analysis.external.statuses import State, normalized, overlooked, states_of
from knockout.analysis.external.step_points import (
    QUANTITIES,
    Points,
    Quantity,
    StepColumns,
    points_of,
    read_logs,
)
from knockout.analysis.external.step_series import Repeated, Series, interval, is_regular, settled, thinned
from knockout.analysis.external.table import Sheet, count_with_noun, quoted_list
from knockout.analysis.inference.pairs import Seed
from knockout.strict import Fault, FaultsError

SHORTER = 0.98
"""A run that ends before this share of the longest one's steps is shorter."""


@dataclass(frozen=True, kw_only=True)
class LoggedRun:
    """What one run logged."""

    variant: str
    seed: Seed
    status: State
    dead: bool
    """whether its status says that it learned nothing"""
    series: Mapping[Quantity, Series]
    """steps that rise, with the values; those that were not logged are not there"""
    every: int
    """the distance of two logged losses in steps; 1: every step"""
    steps: int
    """how many steps it was to have"""


@dataclass(frozen=True, kw_only=True)
class StepLogs:
    """The runs of some files, in their order, and what was decided about them."""

    runs: tuple[LoggedRun, ...]
    notes: tuple[str, ...]
    quantities: tuple[Quantity, ...]
    """those that at least one run logged"""

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(run.variant for run in self.runs))


def read_step_logs(
    paths: Sequence[Path], columns: StepColumns, *, statuses: Mapping[str, str] | None = None
) -> StepLogs:
    """The runs of CSV, TSV and Parquet files, or of all such files in folders.

    A row is a run at a step. A blank loss was not logged at that step, such as where a tracker logs the validation
    between; NaN and infinite losses are a divergence, and kept.

    - A run's steps go back where it was restarted from a checkpoint: what it had logged from that step on before is
      replaced, as TensorBoard does. Steps that are in no order are sorted, if none stands twice.
    - Two whole runs of the same variant and seed are a fault, for nothing says which one counts.
    - Where runs logged at different intervals, all are thinned to the longest interval.
    - The status column decides how a run ended. Without one, a run whose last loss is no number has diverged, and all
      others have finished, also those that are shorter, which a note says.

    Raises `FaultsError` with all faults of the files' form, else of their columns and cells, else of the runs.
    """
    columns = columns.normalized()
    read, faults = [], []
    sheets = read_logs(paths, columns)
    somewhere = any(columns.loss in sheet.cells for sheet, _ in sheets)
    others = []
    for sheet, notes in sheets:
        if somewhere and not any(columns.of(quantity) in sheet.cells for quantity in QUANTITIES):
            others.append(sheet.file)  # another metric of the same runs
            continue
        if columns.status == StepColumns().status and columns.status not in sheet.header:
            faults += overlooked(sheet)
        points, wrong = points_of(sheet, columns, notes, needs_loss=not somewhere)
        faults += wrong
        read += [points] if points is not None else []
    if faults:
        raise FaultsError(faults)
    logs = logs_of(read, columns, statuses=statuses)
    left = f"{count_with_noun(len(others), 'file')} without a loss left out ({quoted_list(others, most=3)})."
    return replace(logs, notes=(left, *logs.notes)) if others else logs


def logs_of(read: Sequence[Points], columns: StepColumns, *, statuses: Mapping[str, str] | None = None) -> StepLogs:
    """The runs of rows that were read. Raises as `read_step_logs` does."""
    notes = list(dict.fromkeys(note for points in read for note in points.notes))
    names = pd.concat([points.names for points in read], ignore_index=True).fillna("")
    codes = names.groupby(list(names.columns), sort=False, dropna=False).ngroup().to_numpy()
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    rows = np.concatenate([points.rows for points in read])
    more = f" and {len(read) - 1} more" if len(read) > 1 else ""
    kinds = Sheet(
        file=read[0].file + more,
        place=read[0].place,
        separator="",
        header=tuple(map(str, names.columns)),
        rows=tuple(int(rows[i]) for i in first),
        cells={str(name): names[name].iloc[first].tolist() for name in names.columns},
        numeric=frozenset(),
        blank=(),
    )
    roles = Roles(variant=columns.variant, seed=columns.seeds, seed_pattern=columns.seed_pattern)
    kinds, variant, seed, said = with_roles(kinds, roles)
    status = columns.status if columns.status in kinds.cells else ""
    words, faults, unsaid = states_of(kinds, status, statuses or {}, asked=columns.status)
    if faults:
        raise FaultsError(faults)
    notes += [*said, *unsaid]
    seeds = [" / ".join(part) for part in zip(*(kinds.cells[name] for name in seed), strict=True)]
    keys = list(zip(kinds.cells[variant], seeds, strict=True))
    numbers = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    run_of = np.array([numbers[key] for key in keys])[inverse]
    word_of: dict[int, State | None] = {}
    dead: set[int] = set()
    last_first = np.argsort(np.array([np.flatnonzero(inverse == k)[-1] for k in range(len(first))]))
    for k in last_first:  # where a run has several words, the last one counts
        word_of[numbers[keys[k]]] = words[k]
        if status and normalized(kinds.cells[status][k]) == "dead":
            dead.add(numbers[keys[k]])
    series = _series(read, run_of, list(numbers), kinds, notes)
    wanted = _seeds([key[1] for key in numbers])
    runs = _ended(list(numbers), wanted, series, word_of, dead, notes, columns)
    quantities = tuple(q for q in QUANTITIES if any(q in run.series for run in runs))
    return StepLogs(runs=runs, notes=tuple(notes), quantities=quantities)


def _seeds(texts: Sequence[str]) -> list[Seed]:
    """Numbers where all are; 3.0 is 3."""
    bare = [t[:-2] if t.endswith(".0") else t for t in texts]
    if all(t.isascii() and t.isdigit() and str(int(t)) == t for t in bare):
        return [int(t) for t in bare]
    return list(bare)


def _series(
    read: Sequence[Points],
    run_of: "np.typing.NDArray[np.intp]",
    keys: Sequence[tuple[str, str]],
    sheet: Sheet,
    notes: list[str],
) -> list[dict[Quantity, Series]]:
    """What each run logged, with restarts resolved. Raises `FaultsError` for runs that stand twice."""
    step = np.concatenate([points.step for points in read])
    order = np.argsort(run_of, kind="stable")
    bounds = np.searchsorted(run_of[order], np.arange(len(keys) + 1))
    made: list[dict[Quantity, Series]] = [{} for _ in keys]
    faults: list[Fault] = []
    restarted: dict[str, int] = {}
    unsorted: list[str] = []
    repeats: dict[str, int] = {}
    for quantity in QUANTITIES:
        if not any(quantity in points.values for points in read):
            continue
        value = np.concatenate([p.values.get(quantity, np.full(len(p.step), np.nan)) for p in read])
        logged = np.concatenate([p.logged.get(quantity, np.zeros(len(p.step), dtype=np.bool_)) for p in read])
        for k, (variant, seed) in enumerate(keys):
            of = order[bounds[k] : bounds[k + 1]]
            of = of[logged[of]]
            if not len(of):
                continue
            name = f'"{variant}" with seed "{seed}"'
            try:
                made[k][quantity], kind, count = settled(step[of], value[of])
            except Repeated as error:
                if quantity == "loss":
                    way = "one run of each variant and seed; a column that tells them apart can be named with --variant"
                    faults.append(sheet.fault("", f"{name} {error}", allowed=way))
                continue
            if quantity != "loss":
                continue
            if kind == "restarted":
                restarted[name] = count
            elif kind == "sorted":
                unsorted.append(name)
            elif kind == "repeated":
                repeats[name] = count
    if faults:
        raise FaultsError(faults[:10])
    if restarted:
        some = next(iter(restarted))
        notes.append(
            f"The steps of {count_with_noun(len(restarted), 'run')} go back ({some}): a restart. What was logged from"
            f" that step on before is replaced, {count_with_noun(sum(restarted.values()), 'point')} in all."
        )
    if repeats:
        some = next(iter(repeats))
        notes.append(
            f"Steps repeat in {count_with_noun(len(repeats), 'run')} ({some}): the last loss of each step was kept,"
            f" {count_with_noun(sum(repeats.values()), 'point')} left out."
        )
    if unsorted:
        notes.append(f"The steps of {count_with_noun(len(unsorted), 'run')} were in no order, and were sorted.")
    return made


def _ended(
    keys: Sequence[tuple[str, str]],
    seeds: Sequence[Seed],
    series: Sequence[dict[Quantity, Series]],
    words: Mapping[int, State | None],
    dead: set[int],
    notes: list[str],
    columns: StepColumns,
) -> tuple[LoggedRun, ...]:
    """The runs with their statuses, lengths and intervals."""
    losses = [of.get("loss", Series.empty()) for of in series]
    apart = [interval(loss.step) for loss in losses]
    known = [n for n in apart if n]
    every = max(known, default=1)
    sampled = [k for k, loss in enumerate(losses) if not is_regular(loss.step)]
    if sampled:
        notes.append(
            f"The losses of {count_with_noun(len(sampled), 'run')} stand at irregular steps, as trackers sample them:"
            " metrics that need every step are missing. (TensorBoard keeps 1,000 points of a run, and all with"
            " --samples_per_plugin scalars=0.)"
        )
    if len(set(known)) > 1:
        low = min(known)
        alike = not sampled and all(every % n == 0 for n in known)
        how = f"all were thinned to every {every} steps" if alike else "they were left so, for none divides the others"
        notes.append(f"Runs logged their loss at different intervals, every {low} to every {every} steps: {how}.")
        if alike:
            origin = next(loss.step[0] for loss, n in zip(losses, apart, strict=True) if n == every)
            losses = [
                thinned(loss, every, origin) if 0 < n < every else loss for loss, n in zip(losses, apart, strict=True)
            ]
            apart = [every] * len(apart)
    elif every > 1 and not sampled:
        notes.append(
            f"Losses were logged every {every} steps: metrics that need every step, such as spikes, are missing."
        )
    gaps = _gaps(losses, apart)
    if gaps:
        runs, missing = len(gaps), sum(gaps)
        notes.append(
            f"{count_with_noun(missing, 'step')} in {count_with_noun(runs, 'run')} have no loss: gaps are kept."
        )
    last = [loss.step[-1] if len(loss.step) else 0.0 for loss in losses]
    longest = max(last, default=0.0)
    made, short, endless, blank = [], [], [], []
    for k, ((variant, _), loss) in enumerate(zip(keys, losses, strict=True)):
        word = words.get(k)
        finite = len(loss.value) > 0 and bool(np.isfinite(loss.value[-1]))
        if word in (None, "finished"):
            status: State = "missing" if not len(loss.value) else "finished" if finite else "diverged"
            if status == "diverged":
                endless.append(k)
            if status == "missing":
                blank.append(k)
            if word is None and status == "finished" and last[k] < SHORTER * longest:
                short.append(k)
        else:
            status = word
        ended = status == "finished"
        whole = last[k] if ended else longest
        from_zero = len(loss.step) > 0 and loss.step[0] == 0 and (apart[k] or every) == 1
        aligned = {q: (loss if q == "loss" else one) for q, one in series[k].items()}
        made.append(
            LoggedRun(
                variant=variant,
                seed=seeds[k],
                status=status,
                dead=k in dead,
                series=aligned,
                every=max(1, apart[k] or every),
                steps=int(whole) + from_zero,
            )
        )
    named = [f'"{v}" with seed "{s}"' for v, s in keys]
    if endless:
        notes.append(
            f"{count_with_noun(len(endless), 'run')} end{'s' if len(endless) == 1 else ''} in a loss that is no number"
            f" ({named[endless[0]]}): a divergence."
        )
    if blank:
        notes.append(f"{count_with_noun(len(blank), 'run')} logged no loss ({named[blank[0]]}): missing.")
    if short:
        notes.append(
            f"{count_with_noun(len(short), 'run')} end{'s' if len(short) == 1 else ''} before the others"
            f" ({named[short[0]]}: step {last[short[0]]:,.0f} of {longest:,.0f}), and no column of statuses says why:"
            " read as finished. If they failed or were killed, a column"
            f' "{columns.status or "status"}" says so (--status).'
        )
    return tuple(made)


def _gaps(losses: Sequence[Series], apart: Sequence[int]) -> list[int]:
    """For each run that has any: how many steps of its interval are missing between its first and its last."""
    gaps = []
    for loss, every in zip(losses, apart, strict=True):
        if every and len(loss.step) > 1:
            wanted = (loss.step[-1] - loss.step[0]) / every + 1
            missing = round(wanted) - len(loss.step)
            gaps += [missing] if missing > 0 and float(wanted).is_integer() else []
    return gaps


def ordered_seeds(logs: StepLogs) -> list[Seed]:
    """Every seed of the runs once, in order."""
    return in_order([run.seed for run in logs.runs])


def described(logs: StepLogs) -> str:
    """The runs in a few words: "12 runs of 3 variants with 4 seeds"."""
    runs, variants = count_with_noun(len(logs.runs), "run"), count_with_noun(len(logs.variants), "variant")
    return f"{runs} of {variants} with {count_with_noun(len(ordered_seeds(logs)), 'seed')}"
