"""The coordinator: the one process that hands out runs, collects how they ended, and keeps the folder's order."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from knockout.design import dropped_line, write_design
from knockout.floor_text import floor_lines
from knockout.job import Status
from knockout.ledger import Ledger, clear_abandoned, read_ledger, set_aside_files
from knockout.plurals import plural
from knockout.record import read_record, write_record
from knockout.source_changes import SourceChange, change_of_study, write_place
from knockout.study import Run, Study
from knockout.sweep.alike import MOST, Alike, FailedAlike
from knockout.sweep.allocate import Allocation, Asked
from knockout.sweep.answer import Answer, answer_of_outcome, answer_of_record
from knockout.sweep.execute import Broken, Executor, LocalExecutor
from knockout.sweep.interim import Interim, Interims
from knockout.sweep.machine import Machine, RefusedError, devices_of, machine_of
from knockout.sweep.owner import Progress, clear_locks, hold, now, read_hang, read_progress, run_held
from knockout.sweep.survey import Survey, check_only, prepare_data, study_floors, survey
from knockout.sweep.work import Task, environment, failure, hang_reason, torch_version, work

if TYPE_CHECKING:
    from knockout.analysis.stopping import Stop

POLL_SECONDS = 0.25
HANGUP = getattr(signal, "SIGHUP", None)
"""The signal of a terminal that was closed or a connection that was lost; Windows has none."""
SAME_REQUEST_SECONDS = 0.5
"""A scheduler may send its signal to the coordinator and again to all: signals so close together are one request."""
BLAME = 2
"""How often a run must die alone before it is recorded as killed."""


@dataclass(frozen=True, kw_only=True)
class Totals:
    """What a study has, computed from the ledger. `missing` counts what has no result, crashed and killed runs too."""

    planned: int
    finished: int
    diverged: int
    missing: int
    lost: int  # of the missing: those that left a crash, a kill, or ran out of memory or time

    def __str__(self) -> str:
        lost = f" (of these {self.lost} crashed, killed, out of memory or timed out)" if self.lost else ""
        return (
            f"{self.planned} planned: {self.finished} finished, {self.diverged} diverged, {self.missing} missing{lost}"
        )


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How one `run` command ended."""

    root: Path
    totals: Totals
    trained: int
    change: SourceChange
    """the sources of the trainer that the results were made with"""
    exhausted: tuple[Run, ...]
    """runs that came to no result so often that only `--retry` tries them again"""
    budget_spent: bool = False
    signal: int = 0
    alike: FailedAlike | None = None
    """where it ended because runs failed with the same error"""
    stop: "Stop | None" = None
    """with `seeds = "anytime"`: what is decided, once a block is complete"""


class Display(Protocol):
    """Shows a person how a sweep is doing."""

    def start(self, *, total: int, done: int, workers: int) -> None: ...
    def say(self, line: str) -> None: ...
    def ended(self, answer: Answer) -> None: ...
    def interim(self, interim: Interim) -> None: ...
    def running(self, progress: Mapping[Run, Progress | None]) -> None: ...
    def stop(self) -> None: ...


def run_study(
    study: Study,
    *,
    results: Path,
    workers: int | None,
    display: Display,
    take_over: bool = False,
    allow_mixed: bool = False,
    retry: bool = False,
    keep_going: bool = False,
    only: Sequence[str] = (),
    same_trainer: bool = False,
) -> Ended:
    """Train what the study is missing, and return when nothing is left to train or something ended it.

    `only`: variants (the baseline is one) to train and to count; all where it is empty. `keep_going`: go on where runs
    fail with the same error, one after the other. `same_trainer`: declares that what has changed in the trainer since
    there are results changes none of them.

    Raises `DataError`, `HeldError` or `RefusedError` for what a user can mend; nothing is then written.
    """
    root = results / study.name
    check_only(study, only)
    if study.run.device != "auto":  # a device that is not there is named before anything is written
        devices_of(study)
    data = prepare_data(study)
    floors = study_floors(study, data)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RefusedError(f"{root} cannot be written: {error.strerror}") from error
    with hold(root, take_over=take_over):
        files = set_aside_files(root)
        (root / "runs").mkdir(exist_ok=True)
        clear_abandoned(root)
        state = survey(study, root, data=data, only=only, retry=retry, damaged="set_aside")
        # Nothing is asked of a machine that has nothing to train: torch takes seconds.
        machine = machine_of(study, workers=workers) if state.todo else Machine(devices=("cpu",), workers=1)
        if state.todo and not allow_mixed:
            _refuse_mixed(state, machine.devices[0])
        if state.change.undeclared and not same_trainer:  # also where all is trained: exit code 0 would say all is well
            raise RefusedError(f"{'; '.join(state.change.lines)}. Nothing was trained: {state.change.way_on}")
        same = state.change.declared() if same_trainer else ()
        opening = opening_lines(study, root)
        had = sum(run.id in state.ledger.records for run in state.runs)
        write_design(
            root, study, data_id=data.id, data_summary=data.summary, floors=floors, results=had, same_trainer=same
        )
        write_place(root, study)
        for line in [
            *opening,
            *([dropped_line(state.dropped)] if state.dropped else []),
            *floor_lines(floors, study.plan.metric),
        ]:
            display.say(line)
        for line in files:
            display.say(f"set aside, and made again where it can be: {line}")
        for line in state.ledger.damaged:
            display.say(f"set aside, and to be trained again: {line}")
        executor = LocalExecutor(
            work, workers=machine.workers, threads=study.run.threads, folders=study.trainer.folders
        )
        sweep = _Sweep(survey=state, machine=machine, executor=executor, display=display, keep_going=keep_going)
        ended = sweep.run() if state.todo else 0
        after = read_ledger(root)
        chosen = state.chosen
        if state.blocks is not None:
            state.blocks.look()
            chosen = tuple(run for run in chosen if state.blocks.counts(run, after))
        return Ended(
            root=root,
            totals=totals(after, chosen),
            trained=sweep.trained,
            exhausted=tuple(run for run in after.missing(chosen) if after.exhausted(run)),
            budget_spent=sweep.budget_spent,
            signal=ended,
            alike=sweep.alike.described(after) if sweep.alike.stop and sweep.left else None,
            change=change_of_study(study, root, after, [run.id for run in state.runs]),
            stop=state.stop,
        )


def opening_lines(study: Study, root: Path) -> list[str]:
    """Where the results of a study lie, and which parts of its file are not used: said once nothing was refused."""
    there = "" if (root / "design.json").exists() else " (new)"
    return [f"results: {root.resolve()}{there}", *(f"note: {line}" for line in study.unused)]


def totals(ledger: Ledger, runs: Sequence[Run]) -> Totals:
    """What of the planned runs is recorded: computed, never assumed."""
    status = Counter(ledger.records[run.id].status for run in runs if run.id in ledger.records)
    missing = ledger.missing(runs)
    return Totals(
        planned=len(runs),
        finished=status["finished"],
        diverged=status["diverged"],
        missing=len(missing),
        lost=sum(run.id in ledger.attempts for run in missing),
    )


class _Sweep:
    """The state of one sweep: what is queued, in flight, being trained by orphans, and under suspicion."""

    def __init__(
        self,
        *,
        survey: Survey,
        machine: Machine,
        executor: Executor[Task, tuple[Answer, ...]],
        display: Display,
        keep_going: bool,
    ) -> None:
        self.survey, self.machine, self.executor, self.display = survey, machine, executor, display
        self.study, self.root, self.blocks = survey.study, survey.root, survey.blocks
        self.trained = 0
        self.budget_spent = False
        records = survey.ledger.records
        self.seconds = sum(  # of training, of all runs that have a result
            answer_of_record(run, records[run.id], curve=()).seconds for run in survey.runs if run.id in records
        )
        self.adopted = {run.id: run for run in survey.todo if run_held(self.root, run.id)}
        mine = [run for run in survey.todo if run.id not in self.adopted]
        self.allocation = Allocation(self.root, self.study.name, runs=survey.runs, ledger=survey.ledger, todo=mine)
        self.asked: dict[str, Asked] = {}  # run id -> its cell, of the runs in flight
        self.suspects: list[Asked] = []  # died beside others; run alone, to see whether it was their fault
        self.alone = ""  # the id of the suspect that runs, with nothing beside it
        self.deaths: Counter[str] = Counter()
        self.stopping = 0  # the signal that was caught
        self.stopped_at = 0.0
        self.alike = Alike(keep_going=keep_going)
        self.interims = Interims(self.study, survey.runs, records)

    @property
    def left(self) -> int:
        """How many runs are still to be handed out."""
        return len(self.allocation) + len(self.suspects)

    def run(self) -> int:
        """Train until nothing is left; return the signal that ended it, or 0."""
        total = len(self.survey.chosen)
        self.display.start(total=total, done=total - len(self.survey.todo), workers=self.machine.workers)
        if self.blocks is not None:
            self.display.say("at most so many: no new seed is begun once every contrast is decided")
        if self.adopted:
            self.display.say(
                f"taken over from a coordinator that died, and still training: {_names(self.adopted.values())}"
            )
        handlers = self._catch_signals()
        try:
            while self._fill() or self.asked or (self.adopted and not self.stopping):
                self._show_interim()
                watched = [a.run for a in self.asked.values()] + list(self.adopted.values())
                self.display.running({run: read_progress(self.root, run.id) for run in watched})
                self._collect(self.executor.wait(POLL_SECONDS))
                self._poll_adopted()
            self._show_interim()
        except KeyboardInterrupt:  # the second Ctrl-C: do not wait for the runs in flight
            pass
        finally:
            self.executor.close()
            clear_locks(self.root)
            clear_abandoned(self.root)
            self.display.stop()
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return self.stopping

    def _catch_signals(self) -> dict[int, Any]:
        if threading.current_thread() is not threading.main_thread():
            return {}

        def stop(number: int, _frame: FrameType | None) -> None:
            if self.stopping:
                again = time.monotonic() - self.stopped_at > SAME_REQUEST_SECONDS
                if number != HANGUP and again:  # a terminal that goes away says so more than once
                    raise KeyboardInterrupt
                return
            self.stopping, self.stopped_at = number, time.monotonic()
            flying = plural(len(self.asked), "run")
            self.display.say(f"stopping: {flying} in flight to be finished first; a second signal drops them")

        caught = [signal.SIGINT, signal.SIGTERM]
        if HANGUP and signal.getsignal(HANGUP) != signal.SIG_IGN:  # as under nohup
            caught.append(HANGUP)
        return {number: signal.signal(number, stop) for number in caught}

    def _fill(self) -> bool:
        """Hand out work while there are free workers; returns whether anything was handed out."""
        started = False
        while not self.stopping and not self.budget_spent and not self.alike.stop:
            hours = self.study.budget.hours
            if hours and self.seconds / self.machine.workers / 3600 >= hours:
                self.budget_spent = bool(self.suspects) or self._waiting()
                break
            if self.suspects or self.alone in self.asked:
                if self.asked:
                    break
                asked = self.suspects.pop(0)
                self.alone = asked.run.id
            elif self.executor.free > len(self.adopted) and self._waiting():
                asked = self.allocation.ask()
            else:
                break
            self.executor.submit(self._task(asked.run))
            self.asked[asked.run.id] = asked
            started = True
        return started

    def _waiting(self) -> bool:
        """Whether a run is left to hand out; it is the next one then."""
        if self.blocks is None:
            return len(self.allocation) > 0
        line = self.blocks.look()
        if line:
            self.display.say(line)
        return self.allocation.bring_forward(self.blocks.wanted)

    def _collect(self, ended: Sequence[tuple[Task, tuple[Answer, ...]] | Broken[Task]]) -> None:
        for item in ended:
            if isinstance(item, Broken):
                self._worker_died(item)
                continue
            _, answers = item
            for answer in answers:
                asked = self.asked.pop(answer.run.id)
                if answer.status == "held":  # an orphan holds it: wait for that one's record
                    self.adopted[answer.run.id] = answer.run
                    self.allocation.tell(asked, answer)
                else:
                    self._run_ended(asked, answer)

    def _run_ended(self, asked: Asked, answer: Answer) -> None:
        self.allocation.tell(asked, answer)
        self.seconds += answer.seconds
        self.trained += answer.status != "stopped"
        self.display.ended(answer)
        if self.alike.count(answer) and self.left:
            self.display.say(f"{MOST} runs in a row failed with the same error: no other run is begun")
        self._count(answer)

    def _show_interim(self) -> None:
        """Show the differences so far where a block was completed since."""
        interim = self.interims.next(stop=self.blocks.stop if self.blocks is not None else None)
        if interim is not None:
            self.display.interim(interim)

    def _count(self, answer: Answer) -> None:
        self.interims.ended(answer)
        line = self.blocks.ended(answer) if self.blocks else ""
        if line:
            self.display.say(line)

    def _worker_died(self, broken: Broken[Task]) -> None:
        task = broken.task
        (asked,) = (self.asked.pop(run.id) for run in task.runs)
        run = asked.run
        hang = read_hang(self.root, run.id)
        self._wait_for_lock(run)
        record = read_record(self.root, task.configs[run.id])
        if record is not None:  # it had written its record before it died
            self._run_ended(asked, answer_of_record(run, record))
            return
        if hang:
            self._write_failure(asked, task, "timed_out", hang_reason(task), log=hang)
            return
        alone = not self.asked
        then = "" if alone else "; it is run again with nothing beside it"
        self.display.say(f"a worker died ({broken.reason}) while this ran: {_names([run])}{then}")
        self.deaths[run.id] += alone
        if self.deaths[run.id] < BLAME:
            self.suspects.append(asked)
            return
        reason = f"its worker died {BLAME} times while it ran alone: {broken.reason}"
        self._write_failure(asked, task, "killed", reason, log=f"{reason}\n")

    def _write_failure(self, asked: Asked, task: Task, status: Status, reason: str, *, log: str) -> None:
        """Write what a worker could not, because it died."""
        outcome = failure(asked.run, status, reason)
        write_record(
            self.root,
            config=task.configs[asked.run.id],
            outcome=outcome,
            environment=environment(task),
            ended=now(),
            log=log,
        )
        self._run_ended(asked, answer_of_outcome(asked.run, outcome))

    def _wait_for_lock(self, run: Run) -> None:
        deadline = time.monotonic() + 10
        while run_held(self.root, run.id) and time.monotonic() < deadline:
            time.sleep(0.01)

    def _poll_adopted(self) -> None:
        for run in list(self.adopted.values()):
            if run_held(self.root, run.id):
                continue
            del self.adopted[run.id]
            record = read_record(self.root, self.survey.config(run))
            if record is None:
                self.allocation.put_back(run)
                continue
            answer = answer_of_record(run, record)
            self.allocation.drop(run)
            self.allocation.mirror(answer)
            self.seconds += answer.seconds
            self.display.ended(answer)
            self._count(answer)

    def _task(self, run: Run) -> Task:
        arm = self.study.arms[run.variant]
        used = Counter(task.device for task in self.executor.in_flight)
        return Task(
            root=self.root.resolve(),  # a trainer may change the folder that a worker is in
            runs=(run,),
            configs={run.id: self.survey.config(run)},
            trainer=self.study.trainer.path,
            source=self.study.trainer.source.sha256,
            factors=arm.factors,
            recipe=arm.recipe,
            data=self.survey.data.ref,
            device=min(self.machine.devices, key=lambda device: used[device]),
            threads=self.study.run.threads,
            workers=self.machine.workers,
            timeout_seconds=self.study.run.timeout_minutes * 60,
            test_examples=self.survey.data.test_examples,
        )


def _names(runs: Iterable[Run]) -> str:
    return ", ".join(f"{run.variant} seed {run.seed}" for run in runs)


def _refuse_mixed(survey: Survey, device: str) -> None:
    records = survey.ledger.records
    for run in survey.runs:
        if run.id not in records:
            continue
        here = {
            "device": device.partition(":")[0],
            "precision": str(getattr(survey.study.arms[run.variant].recipe, "precision", "")),
            "torch": torch_version(),
        }
        there = records[run.id].outcome["environment"]
        differs = [f"{k} {there.get(k)} there, {v} here" for k, v in here.items() if there.get(k) != v]
        if differs:
            raise RefusedError(
                f"records of this study were made elsewhere ({'; '.join(differs)}); "
                "--allow-mixed trains the rest all the same, and the report says so"
            )
