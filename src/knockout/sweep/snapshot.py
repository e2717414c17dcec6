"""Trials for the dashboard: how every try of every run ended, as the ledger says.

An open page fetches only what comes after its first unfinished trial, and believes the rest for ever. So trials are
numbered by try: the first try of every planned run in the design's order, then whatever comes, always at the end. A
trial that has failed or finished keeps its number and what it says; a run that is tried again is a new trial.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from knockout.design import Design
from knockout.ledger import Ledger, read_ledger
from knockout.record import Record
from knockout.strict import printable
from knockout.study import Run
from knockout.sweep.answer import accuracy, answer_of_record, learning_curve, seconds_of
from knockout.sweep.optuna_mirror import trial_of
from knockout.sweep.owner import Progress, read_progress, run_held

MAX_POINTS = 100
"""Points of a curve that are shown; more of them make the pages slow."""
DIGITS = 5
"""Decimals of an accuracy or a loss: the pages print every digit that they are given."""

Try = tuple[str, int]
"""A run's id, and which of its tries: 0 for the first."""


@dataclass(frozen=True, kw_only=True)
class State:
    """What is known of a study at one moment."""

    runs: Mapping[str, Run]
    """run id -> run, of this design; in its order"""
    ledger: Ledger
    running: Mapping[str, Progress | None]
    """run id -> how far it is, of the runs without a record that are being trained"""
    starts: Mapping[str, Sequence[datetime]]
    """run id -> when its training was started, every time"""


def read_state(root: Path, design: Design) -> State:
    """Read a study's folder. Raises `OSError` where it cannot be read."""
    runs = {run.id: run for run in design.runs}
    ledger = read_ledger(root)
    # Looking whether a lock is free takes it for an instant: only where there is no record, so no worker is disturbed.
    held = [run.id for run in ledger.missing(list(runs.values())) if _held(root, run.id)]
    return State(
        runs=runs, ledger=ledger, running={i: read_progress(root, i) for i in held}, starts=_starts(root / "starts.log")
    )


def number_tries(known: Sequence[Try], state: State) -> list[Try]:
    """The tries in the order of their trial numbers: those that were `known`, then those that are new.

    Each planned run has one, and one more for every attempt of it that left no result, once it is tried again.
    """
    tries, seen = list(known), set(known)
    for run_id in state.runs:
        attempts = len(state.ledger.attempts.get(run_id, ()))
        again = run_id in state.ledger.records or run_id in state.running
        new = [(run_id, n) for n in range(max(1, attempts + again)) if (run_id, n) not in seen]
        tries += new
        seen.update(new)
    return tries


def mirror(tries: Sequence[Try], state: State, *, runs: Mapping[str, Run], epochs: "Epochs") -> list[FrozenTrial]:
    """One trial for each try, in that order. `runs` names every run of the tries, those of former designs too."""
    last = dict(tries)  # run id -> its last try
    seeds = [runs[i].seed for i, _ in tries]
    space: dict[str, BaseDistribution] = {
        "variant": CategoricalDistribution(list(dict.fromkeys(as_text(runs[i].variant) for i, _ in tries))),
        "seed": IntDistribution(min(seeds), max(seeds)),
    }
    return [
        _trial(number, runs[run_id], n, state, is_last=n == last[run_id], space=space, epochs=epochs)
        for number, (run_id, n) in enumerate(tries)
    ]


class Epochs:
    """The validation accuracy after each epoch of a record, read once: records do not change."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, str], dict[int, float]] = {}

    def __call__(self, record: Record) -> dict[int, float]:
        """epoch -> validation accuracy (0 to 1; NaN where nothing was counted), thinned to `MAX_POINTS`."""
        # A folder may hold many records (a packed file), and a run may have several (one for each try).
        key = (record.run_id, str(record.outcome["ended"]))
        if key not in self._read:
            curve = [(epoch, round(share, DIGITS)) for epoch, share in learning_curve(record)]
            self._read[key] = dict(thinned(curve, MAX_POINTS))
        return self._read[key]


def thinned(points: Sequence[tuple[int, float]], most: int) -> list[tuple[int, float]]:
    """At most `most` (2 or more) of the points, evenly spread, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    return [points[round(i * (len(points) - 1) / (most - 1))] for i in range(most)]


def as_text(value: object) -> str:
    """A name or a reason in a form that every view shows unchanged.

    Plotly takes tags in a label for markup, but not with a space of no width in them; a spreadsheet takes what the
    dashboard's CSV begins with = + - @ for a formula, but not behind a '.
    """
    text = printable(" ".join(str(value).split())).replace("<", "<\u200b")
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _trial(
    number: int,
    run: Run,
    n: int,
    state: State,
    *,
    is_last: bool,
    space: Mapping[str, BaseDistribution],
    epochs: Epochs,
) -> FrozenTrial:
    """The n-th try of a run. The state FAIL is every status but finished; the attribute `status` says which."""
    attempts = state.ledger.attempts.get(run.id, ())
    record = attempts[n] if n < len(attempts) else state.ledger.records.get(run.id) if is_last else None
    ended = None if record is None else _local(str(record.outcome["ended"]))
    before = [start for start in state.starts.get(run.id, ()) if start <= (ended or datetime.max)]
    began = max(before, default=_began(record, ended))
    params = {"variant": as_text(run.variant), "seed": run.seed}
    if record is not None:
        answer = answer_of_record(run, record, curve=tuple(epochs(record).items()))
        seen = answer.objective
        rounded = None if seen is None else replace(seen, value=round(seen.value, DIGITS))
        return trial_of(
            replace(answer, objective=rounded, reason=as_text(answer.reason)),
            number=number,
            params=params,
            distributions=space,
            attributes={**_facts(record), "run_id": run.id},
            started=began,
            ended=ended,
        )
    says: dict[str, Any]
    if not is_last:
        kind, says = TrialState.FAIL, {"status": "removed", "reason": "its record is not in the folder any more"}
    elif run.id not in state.runs:
        kind, says = TrialState.FAIL, {"status": "removed", "reason": "the study does not plan it any more"}
    elif run.id in state.running:
        kind, says = TrialState.RUNNING, {"status": "running", **_progress(state.running[run.id])}
    else:
        kind, says = TrialState.WAITING, {"status": "missing"}
    return FrozenTrial(
        number=number,
        trial_id=number,
        state=kind,
        value=None,
        datetime_start=None if kind == TrialState.WAITING else began,
        datetime_complete=began if kind.is_finished() else None,
        params=params,
        distributions=dict(space),
        user_attrs={**says, "run_id": run.id},
        system_attrs={},
        intermediate_values={},
    )


def _began(record: Record | None, ended: datetime | None) -> datetime:
    """When a run began whose start is not in the log, such as a packed one: its end without its measured seconds."""
    if record is None or ended is None:
        return ended or datetime.now()
    costs = record.outcome["costs"]
    return ended - timedelta(seconds=seconds_of(costs))


def _facts(record: Record) -> dict[str, Any]:
    """Metrics (accuracy 0 to 1, loss in nats) and seconds, as summary.csv and costs.csv name them."""
    facts: dict[str, Any] = {}
    for split in ("validation", "test"):
        if split in record.outcome["metrics"]:
            metrics = record.outcome["metrics"][split]
            facts[f"{split}_accuracy"] = round(accuracy(metrics), DIGITS)
            if "loss" in metrics:
                facts[f"{split}_loss"] = round(float(metrics["loss"]), DIGITS)
    if "train_seconds" in record.outcome["costs"]:
        facts["train_seconds"] = round(float(record.outcome["costs"]["train_seconds"]), 1)
    return facts


def _progress(progress: Progress | None) -> dict[str, Any]:
    if progress is None:
        return {}
    return {"step": progress.step, "steps": progress.steps, "loss": round(progress.loss, DIGITS)}


def _held(root: Path, run_id: str) -> bool:
    try:
        return run_held(root, run_id)
    except OSError:  # a folder that only its owner may write: whoever looks on cannot tell
        return False


def _starts(path: Path) -> dict[str, list[datetime]]:
    """run id -> when its training was started, from the log that the workers keep."""
    starts: dict[str, list[datetime]] = {}
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            fields = line.split("\t")
            with contextlib.suppress(ValueError, OverflowError, OSError):  # a damaged line says nothing
                if len(fields) > 1:
                    starts.setdefault(fields[1], []).append(_local(fields[0]))
    return starts


def _local(text: str) -> datetime:
    """A time in ISO 8601 as Optuna keeps times: local, without a zone."""
    return datetime.fromisoformat(text).astimezone().replace(tzinfo=None)
