"""Optuna's part: which run is trained next (Optuna knows it by a number, `cell`); and a mirror of how each run ended.

The Optuna study is an index for people and dashboards. It decides nothing: what is missing is read from the ledger, and
the study is rebuilt from it whenever the two disagree or the journal cannot be read.
"""

import contextlib
import json
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from knockout.job import RECORDED
from knockout.ledger import Ledger
from knockout.study import Run
from knockout.sweep.answer import Answer, answer_of_record
from knockout.sweep.optuna_mirror import (
    agrees,
    result_attributes,
    run_attributes,
    state_of,
    trial_of,
    values_of,
)

JOURNAL = "journal.log"
CELLS = "cells"


class CellSampler(optuna.samplers.BaseSampler):
    """Proposes the next cell that has no record: nothing is drawn, nothing repeats."""

    def __init__(self, queue: deque[int]) -> None:
        self.queue = queue

    def infer_relative_search_space(
        self,
        study: optuna.Study,  # noqa: ARG002  # Optuna's interface
        trial: FrozenTrial,  # noqa: ARG002
    ) -> dict[str, BaseDistribution]:
        return {}

    def sample_relative(
        self,
        study: optuna.Study,  # noqa: ARG002
        trial: FrozenTrial,  # noqa: ARG002
        search_space: dict[str, BaseDistribution],  # noqa: ARG002
    ) -> dict[str, Any]:
        return {}

    def sample_independent(
        self,
        study: optuna.Study,  # noqa: ARG002
        trial: FrozenTrial,  # noqa: ARG002
        param_name: str,
        param_distribution: BaseDistribution,  # noqa: ARG002
    ) -> int:
        assert param_name == "cell", param_name
        return self.queue.popleft()


class _Journal(JournalFileBackend):
    """Optuna's journal on a file, without its lock and its fsync, ten of each for every run.

    One process holds the folder, and what a power cut takes from the journal is added again from the ledger.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        lines = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        with self.path.open("ab") as file:
            file.write(lines.encode())


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A cell that was handed out."""

    trial: optuna.Trial
    run: Run


class Allocation:
    """Hands out the missing cells, each once, and mirrors what became of them."""

    def __init__(self, root: Path, name: str, *, runs: Sequence[Run], ledger: Ledger, todo: Sequence[Run]) -> None:
        """`todo` are the runs to hand out, in that order. Only the coordinator may call this: it holds the folder."""
        self.queue: deque[int] = deque()
        self.storage, self.study = _open(root, name, CellSampler(self.queue))
        if not _sound(self.study, ledger):  # a changed line, which Optuna reads all the same
            _put_aside(root / JOURNAL)
            self.storage, self.study = _open(root, name, CellSampler(self.queue))
        self.cells = _cells(self.study, runs)  # run id -> cell
        self.runs = {run.id: run for run in runs}
        self.ids = {cell: run_id for run_id, cell in self.cells.items()}
        self._reconcile(ledger)
        self.queue.extend(self.cells[run.id] for run in todo)

    def __len__(self) -> int:
        """How many cells are left to hand out."""
        return len(self.queue)

    def ask(self) -> Asked:
        """The next missing cell."""
        trial = self.study.ask({"cell": self._distribution()})
        run = self.runs[self.ids[trial.params["cell"]]]
        for key, value in run_attributes(run).items():
            trial.set_user_attr(key, value)
        return Asked(trial=trial, run=run)

    def bring_forward(self, wanted: Callable[[Run], bool]) -> bool:
        """Move the first wanted run to the front of the queue; False where no run in it is wanted."""
        first = next((cell for cell in self.queue if wanted(self.runs[self.ids[cell]])), None)
        if first is not None and first != self.queue[0]:
            self.queue.remove(first)
            self.queue.appendleft(first)
        return first is not None

    def put_back(self, run: Run) -> None:
        """Hand this run out again, before all others."""
        self.queue.appendleft(self.cells[run.id])

    def drop(self, run: Run) -> None:
        """Do not hand this run out: a record of it has appeared."""
        with contextlib.suppress(ValueError):
            self.queue.remove(self.cells[run.id])

    def tell(self, asked: Asked, answer: Answer) -> None:
        """Mirror how a run ended. One value per epoch; a run without a result is FAIL, with the reason."""
        trial = asked.trial
        for key, text in result_attributes(answer).items():
            trial.set_user_attr(key, text)
        for epoch, accuracy in answer.epochs:
            trial.report(accuracy, epoch)
        self.study.tell(trial, values_of(answer), state=state_of(answer))

    def mirror(self, answer: Answer) -> None:
        """Add a run that somebody else trained: a worker of a coordinator that died."""
        self.study.add_trial(
            trial_of(
                answer,
                params={"cell": self.cells[answer.run.id]},
                distributions={"cell": self._distribution()},
                attributes=run_attributes(answer.run),
            )
        )

    def _distribution(self) -> IntDistribution:
        return IntDistribution(0, max(1, len(self.cells) - 1))

    def _reconcile(self, ledger: Ledger) -> None:
        """Close the trials that a dead coordinator left open, and add the records that have no trial."""
        mirrored: set[str] = set()
        for trial in self.study.get_trials(deepcopy=False):
            if trial.state == TrialState.RUNNING:  # its coordinator died; a record may have been written all the same
                study_id = self.storage.get_study_id_from_name(self.study.study_name)
                trial_id = self.storage.get_trial_id_from_study_id_trial_number(study_id, trial.number)
                self.storage.set_trial_user_attr(trial_id, "status", "interrupted")
                self.study.tell(trial.number, state=TrialState.FAIL)
            elif trial.user_attrs.get("status") in RECORDED:
                mirrored.add(str(trial.user_attrs["run_id"]))
        for run_id, run in self.runs.items():
            if run_id in ledger.records and run_id not in mirrored:
                self.mirror(answer_of_record(run, ledger.records[run_id]))


def _open(root: Path, name: str, sampler: CellSampler) -> tuple[JournalStorage, optuna.Study]:
    """The study on its journal, whose tail is repaired first; a journal that cannot be read is put aside."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path = root / JOURNAL
    if path.is_dir():
        _put_aside(path)
    repair_tail(path)
    for attempt in ("first", "second"):
        try:
            storage = JournalStorage(_Journal(path))
            study = optuna.create_study(
                storage=storage,
                sampler=sampler,
                pruner=optuna.pruners.NopPruner(),
                study_name=name,
                direction="maximize",
                load_if_exists=True,
            )
            return storage, study
        except (ValueError, KeyError, TypeError, AssertionError):
            if attempt == "second":
                raise
            _put_aside(path)
    raise AssertionError("unreachable")


def repair_tail(path: Path) -> bytes:
    """Cut what a killed writer left half written at the journal's end, keep it beside, and return it."""
    if not path.is_file():
        return b""
    text = path.read_bytes()
    end = text.rfind(b"\n") + 1
    torn = text[end:]
    if torn:
        path.with_name(f"{path.name}.torn-{time.time_ns()}").write_bytes(torn)
        with path.open("r+b") as file:
            file.truncate(end)
    return torn


def _put_aside(path: Path) -> None:
    """Keep it, under a name that nothing reads."""
    if path.exists():
        path.rename(path.with_name(f"{path.name}.unreadable-{uuid.uuid4().hex[:8]}"))


def _sound(study: optuna.Study, ledger: Ledger) -> bool:
    """Whether every trial names the run that its cell stands for, and agrees with that run's record.

    Otherwise a line that is lost from a journal would give results to other cells, silently.
    """
    try:
        cells = json.loads(study.user_attrs.get(CELLS, "[]"))
    except (ValueError, TypeError):
        return False
    if not isinstance(cells, list):
        return False
    for trial in study.get_trials(deepcopy=False):
        cell, run_id = trial.params.get("cell"), trial.user_attrs.get("run_id")
        recorded = trial.user_attrs.get("status") in RECORDED and trial.state != TrialState.RUNNING
        if not recorded and (cell is None or run_id is None):
            continue  # its coordinator died between asking and saying which
        if not isinstance(cell, int) or not 0 <= cell < len(cells) or cells[cell] != run_id:
            return False
        record = ledger.records.get(run_id)
        if recorded and record is not None:
            # A record holds the seed that it was trained with, and not the one that a placebo pairs with.
            run = Run(id=record.run_id, variant=record.config["variant"], seed=record.config["seed"])
            if not agrees(trial, answer_of_record(run, record)):
                return False
    return True


def _cells(study: optuna.Study, runs: Sequence[Run]) -> Mapping[str, int]:
    """The list of cells, which only grows: a cell keeps its number when variants or seeds are added."""
    known: list[str] = json.loads(study.user_attrs.get(CELLS, "[]"))
    new = [run.id for run in runs if run.id not in set(known)]
    if new:
        known += new
        study.set_user_attr(CELLS, json.dumps(known))
    return {run_id: cell for cell, run_id in enumerate(known)}
