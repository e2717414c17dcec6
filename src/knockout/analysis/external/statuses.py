"""What trackers and schedulers call the status of a run, in Knockout's words. No other word is taken for finished."""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Literal, get_args

from knockout.analysis.external.table import OPTIONS, Sheet, quoted_list, some
from knockout.job import Status
from knockout.strict import Fault, got_text

State = Status | Literal["missing"]
STATES: tuple[State, ...] = (*get_args(Status), "missing")

WORDS: Mapping[str, State] = {
    # Knockout's own
    "finished": "finished",
    "diverged": "diverged",
    "dead": "diverged",  # a run that learned nothing has failed, as one that diverged has
    "crashed": "crashed",
    "out of memory": "out_of_memory",
    "killed": "killed",
    "timed out": "timed_out",
    "missing": "missing",
    # W&B: Finished, Failed (exit code other than 0), Crashed (no heartbeat), Killed, Running, Pending
    # (https://docs.wandb.ai/models/runs/run-states), preempting and preempted (RunState in
    # wandb/sdk/launch/sweeps/scheduler.py). Failed says that the process ended with an error, not that the loss
    # diverged, so it is a missing cell. A preempted run that was resumed ends as another try, which is the one kept.
    # MLflow: RUNNING, SCHEDULED, FINISHED, FAILED, KILLED (mlflow/entities/run_status.py).
    "failed": "crashed",
    "running": "missing",
    "pending": "missing",
    "scheduled": "missing",
    "preempting": "missing",
    "preempted": "killed",
    # Optuna: RUNNING, COMPLETE, PRUNED, FAIL, WAITING (optuna/trial/_state.py). The value of a pruned trial is the last
    # intermediate one, so it is no result.
    "complete": "finished",
    "pruned": "missing",
    "fail": "crashed",
    "waiting": "missing",
    # SLURM: "JOB STATE CODES" of `man sacct`, which cuts long ones ("OUT_OF_ME+", "CANCELLED by 1000")
    "completed": "finished",
    "cancelled": "killed",
    "timeout": "timed_out",
    "out of me": "out_of_memory",
    "node fail": "crashed",
    "boot fail": "crashed",
    "deadline": "timed_out",
    "requeued": "missing",
    "suspended": "missing",
    "completing": "missing",
    "configuring": "missing",
    # what people and other schedulers write
    "nan": "diverged",
    "oom": "out_of_memory",
    "error": "crashed",
    "errored": "crashed",
    "canceled": "killed",
    "aborted": "killed",
    "interrupted": "killed",
    "queued": "missing",
    "in progress": "missing",
    "ok": "finished",
    "done": "finished",
    "success": "finished",
    "succeeded": "finished",
}
"""A word of a status column, without case and with blanks for _ and - -> Knockout's word."""

LIKELY = ("State", "state", "Status", "status")
"""What other tools call a column of statuses: State by W&B and sacct, state by Optuna, status by MLflow's search_runs
and `mlflow experiments csv`, Status by the CSV of its pages ("Start Time,Duration,Run ID,Name,Source Type,Source
Name,User,Status,...")."""


MISSPELT = 0.8
"""Likeness above which one word is taken for another, misspelt. Words of statuses are short, and end alike."""


def normalized(word: str) -> str:
    """A word of a status column as `WORDS` has it: "CANCELLED by 1000" is "cancelled"."""
    plain = " ".join(re.sub("[_-]", " ", word.casefold()).split())
    return re.sub(r" by \d+$|\+$", "", plain)


def meant(word: str) -> str:
    """The one of `STATES` that another word stands for, or a misspelt one is close to: "failed" is crashed."""
    return WORDS.get(normalized(word)) or close_word(word, STATES)


def close_word(word: str, known: Iterable[str]) -> str:
    """The known word of which this is probably a misspelling, empty where none is: "killed" is none of "failed"."""
    close = get_close_matches(word, list(known), n=1, cutoff=MISSPELT)
    return close[0] if close else ""


def unfinished(sheet: Sheet, column: str) -> list[tuple[int, str]]:
    """The rows, with their words, of which a column of statuses does not say that they finished.

    None where no word of the column is known: a State may be Ohio.
    """
    cells = sheet.cells[column]
    if not any(normalized(cell) in WORDS for cell in cells):
        return []
    return [
        (row, cell) for row, cell in zip(sheet.rows, cells, strict=True) if WORDS.get(normalized(cell)) != "finished"
    ]


def overlooked(sheet: Sheet) -> list[Fault]:
    """A column that says that runs did not finish, and was not named: the values that crashed runs logged last would
    be results."""
    for name in [name for name in LIKELY if name in sheet.cells]:
        if wrong := unfinished(sheet, name):
            places = sheet.places([row for row, _ in wrong])
            got = f'the column "{name}" says "{wrong[0][1]}" ({places}), and is not read'
            way = f'{OPTIONS["status"]} "{name}" to read it, {OPTIONS["status"]} "" to judge all runs by their values'
            return [sheet.fault("status", got, allowed=way)]
    return []


def states_of(
    sheet: Sheet, column: str, statuses: Mapping[str, str], *, asked: str
) -> tuple[Sequence[State | None], list[Fault], list[str]]:
    """Knockout's word for each row, `None` without a status column; faults; a note on mapped words that no row says."""
    option = OPTIONS["status"]
    faults = [
        sheet.fault("status", f'"{word}" is mapped to "{to}"', allowed=", ".join(STATES), nearest=meant(to))
        for word, to in statuses.items()
        if to not in STATES
    ]
    if not column:
        if statuses:
            got = f'words are mapped ({quoted_list(statuses)}), and there is no column "{asked}"'
            faults.append(sheet.fault("status", got, allowed=f"a column of statuses, named with {option}"))
        return [None] * len(sheet.rows), faults, []
    known = {**WORDS, **{normalized(word): state for word, to in statuses.items() for state in STATES if state == to}}
    cells = [normalized(cell) for cell in sheet.cells[column]]
    unknown: dict[str, list[int]] = {}
    for row, cell, plain in zip(sheet.rows, sheet.cells[column], cells, strict=True):
        if plain not in known and plain not in map(normalized, statuses):
            unknown.setdefault(cell, []).append(row)
    unknown_words = [
        sheet.fault(
            "status",
            f"{got_text(word)} is not known ({sheet.places(rows)})",
            allowed=f'{", ".join(WORDS)}; or {option} "{word}=missing" says what it is (one of {", ".join(STATES)})',
            nearest=close_word(normalized(word), WORDS),
        )
        for word, rows in unknown.items()
    ]
    unsaid = [word for word in statuses if normalized(word) not in cells]
    notes = [f"No row has the status {quoted_list(unsaid)}, which was mapped."] if unsaid else []
    return [known.get(cell) for cell in cells], [*faults, *some(unknown_words, "words that are not known")], notes
