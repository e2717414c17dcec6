"""The coordinator: the one process that asks for cells, has them trained, and tells what became of them."""

import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from knockout.data.prepare import prepare
from knockout.data.sources import absolute_source
from knockout.design import write_design
from knockout.errors import UserError
from knockout.job import DataRef
from knockout.ledger import Ledger, read_ledger, run_config
from knockout.record import read_record, write_record
from knockout.strict import Fault, StudyError, nearest
from knockout.study import Run, Study, design
from knockout.sweep.allocate import Allocation, Asked
from knockout.sweep.blocks import Blocks, blocks_of
from knockout.sweep.execute import Broken, Pool
from knockout.sweep.owner import Owner, Progress, clear_locks, hold, now, read_progress, run_held
from knockout.sweep.work import Answer, Task, answer_from, environment, failure, torch_version

if TYPE_CHECKING:
    from knockout.analysis.stopping import Stop

POLL_SECONDS = 0.25
BLAME = 2
"""How often a run must die alone before it is recorded as killed."""


class RefusedError(UserError):
    """Cannot run here: no such device, a folder that cannot be written, or records from elsewhere."""


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
    exhausted: tuple[Run, ...]
    """runs that came to no result so often that only `--retry` tries them again"""
    budget_spent: bool = False
    signal: int = 0
    stop: "Stop | None" = None
    """with `seeds = "anytime"`: what is decided, once a block is complete"""


class Display(Protocol):
    """Shows a person how a sweep is doing."""

    def start(self, *, total: int, done: int, workers: int) -> None: ...
    def say(self, line: str) -> None: ...
    def ended(self, answer: Answer) -> None: ...
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
    only: Sequence[str] = (),
) -> Ended:
    """Train what the study is missing, and return when nothing is left to train or something ended it.

    `only`: variants (the baseline is one) to train and to count; all where it is empty.
    Raises `DataError`, `HeldError` or `RefusedError` for what a user can mend; nothing is then written.
    """
    root = results / study.name
    _refuse_unknown(study, only)
    if study.run.device != "auto":  # a device that is not there is told before anything is written
        devices_of(study)
    ref: DataRef | None = None
    summary: Mapping[str, Any] = {}
    if study.data is not None:
        prepared = prepare(absolute_source(study.data, study.path.parent))
        ref, summary = prepared.ref, prepared.summary
    try:
        root.mkdir(parents=True, exist_ok=True)
        (root / "runs").mkdir(exist_ok=True)
    except OSError as error:
        raise RefusedError(f"{root} cannot be written: {error.strerror}") from error
    with hold(root, take_over=take_over) as owner:
        data_id = ref.id if ref else ""
        runs = design(study, data_id=data_id)
        ledger = read_ledger(root, damaged="set_aside")
        chosen = [run for run in runs if not only or run.variant in only]
        todo = [run for run in ledger.missing(chosen) if retry or not ledger.exhausted(run)]
        blocks = blocks_of(study, root, runs, ledger, todo, only=only, data_id=data_id, summary=summary)
        if blocks is not None and blocks.decided:
            chosen = [run for run in chosen if blocks.counts(run, ledger)]
            todo = [run for run in todo if blocks.wanted(run)]
        devices = devices_of(study) if todo else ["cpu"]
        if todo and not allow_mixed:
            _refuse_mixed(study, ledger, runs, devices[0])
        write_design(root, study, data_id=data_id, data_summary=summary)
        for line in ledger.damaged:
            display.say(f"set aside, and to be trained again: {line}")
        count = workers or workers_of(study, devices)
        sweep = _Sweep(study, root, ref, owner, runs, ledger, todo, devices, count, display, len(chosen), blocks)
        ended = sweep.run() if todo else 0
        after = read_ledger(root)
        if blocks is not None:
            blocks.look()
            chosen = [run for run in chosen if blocks.counts(run, after)]
        return Ended(
            root=root,
            totals=totals(after, chosen),
            trained=sweep.trained,
            exhausted=tuple(run for run in after.missing(chosen) if after.exhausted(run)),
            budget_spent=sweep.budget_spent,
            signal=ended,
            stop=blocks.stop if blocks else None,
        )


@dataclass(frozen=True, kw_only=True)
class Todo:
    """What a `run` would do: the runs of the study that are asked for, and those of them that it would train."""

    chosen: tuple[Run, ...]
    train: tuple[Run, ...]
    """at most, where the study stops as soon as it is decided"""
    exhausted: tuple[Run, ...]
    stop: "Stop | None" = None


def what_is_missing(study: Study, *, results: Path, only: Sequence[str] = (), retry: bool = False) -> Todo:
    """What `run_study` would train, found without writing anything."""
    _refuse_unknown(study, only)
    root, data_id = results / study.name, ""
    summary: Mapping[str, Any] = {}
    if study.data is not None:
        prepared = prepare(absolute_source(study.data, study.path.parent))
        data_id, summary = prepared.ref.id, prepared.summary
    runs, ledger = design(study, data_id=data_id), read_ledger(root)
    chosen = [run for run in runs if not only or run.variant in only]
    train = [run for run in ledger.missing(chosen) if retry or not ledger.exhausted(run)]
    blocks = blocks_of(study, root, runs, ledger, train, only=only, data_id=data_id, summary=summary)
    if blocks is not None:
        chosen = [run for run in chosen if blocks.counts(run, ledger)]
        train = [run for run in train if blocks.wanted(run)]
    exhausted = tuple(run for run in ledger.missing(chosen) if not retry and ledger.exhausted(run))
    return Todo(chosen=tuple(chosen), train=tuple(train), exhausted=exhausted, stop=blocks.stop if blocks else None)


def _refuse_unknown(study: Study, only: Sequence[str]) -> None:
    for name in only:
        if name not in study.arms:
            allowed = ", ".join(study.arms)
            hint = nearest(name, study.arms)
            got = f'--only: "{name}" is not run by this study'
            raise StudyError([Fault(file=study.path.name, got=got, allowed=allowed, nearest=hint)])


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
        study: Study,
        root: Path,
        data: DataRef | None,
        owner: Owner,
        runs: Sequence[Run],
        ledger: Ledger,
        todo: Sequence[Run],
        devices: list[str],
        workers: int,
        display: Display,
        shown: int,
        blocks: Blocks | None,
    ) -> None:
        self.study, self.root, self.data, self.owner = study, root, data, owner
        self.runs, self.devices, self.workers, self.display = runs, devices, workers, display
        self.trained = 0
        self.budget_spent = False
        self.seconds = sum(answer_from(r, ledger.records[r.id]).seconds for r in runs if r.id in ledger.records)
        self.adopted = {run.id: run for run in todo if run_held(root, run.id)}
        mine = [run for run in todo if run.id not in self.adopted]
        self.allocation = Allocation(root, study.name, runs=runs, ledger=ledger, todo=mine)
        self.pool = Pool(workers=workers, threads=study.run.threads, owner=owner, root=root)
        self.asked: dict[str, Asked] = {}
        self.suspects: list[Asked] = []  # were in flight when a pool broke; run alone, to see whose fault it was
        self.alone = ""  # the id of the suspect that runs, with nothing beside it
        self.deaths: Counter[str] = Counter()
        self.total = len(todo)
        self.shown = shown  # runs that the display counts
        self.blocks = blocks
        self.stopping = 0  # the signal that was caught

    def run(self) -> int:
        """Train until nothing is left; return the signal that ended it, or 0."""
        self.display.start(total=self.shown, done=self.shown - self.total, workers=self.workers)
        if self.blocks is not None:
            self.display.say("these are the most: no new seed is begun once every contrast is decided")
        if self.adopted:
            names = ", ".join(f"{run.variant} seed {run.seed}" for run in self.adopted.values())
            self.display.say(f"taken over from a coordinator that died, and still training: {names}")
        handlers = self._catch_signals()
        try:
            while self._fill() or self.asked or (self.adopted and not self.stopping):
                watched = [a.run for a in self.asked.values()] + list(self.adopted.values())
                self.display.running({run: read_progress(self.root, run.id) for run in watched})
                self._collect(self.pool.wait(POLL_SECONDS) if self.pool.flying else self._idle())
                self._poll_adopted()
        except KeyboardInterrupt:  # the second Ctrl-C: do not wait for the runs in flight
            pass
        finally:
            self.pool.close()
            clear_locks(self.root)
            self.display.stop()
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return self.stopping

    def _catch_signals(self) -> dict[int, Any]:
        if threading.current_thread() is not threading.main_thread():
            return {}

        def stop(number: int, _frame: FrameType | None) -> None:
            if self.stopping:
                raise KeyboardInterrupt
            self.stopping = number
            flying = len(self.asked)
            self.display.say(f"stopping: {flying} runs in flight are finished first; once more drops them")

        return {n: signal.signal(n, stop) for n in (signal.SIGINT, signal.SIGTERM)}

    def _fill(self) -> bool:
        """Hand out work while there are free workers; say whether anything was handed out."""
        started = False
        while not self.stopping and not self.budget_spent:
            hours = self.study.budget.hours
            if hours and self.seconds / self.workers / 3600 >= hours:
                self.budget_spent = bool(self.suspects) or self._waiting()
                break
            if self.suspects or self.alone in self.asked:
                if self.asked:
                    break
                asked = self.suspects.pop(0)
                self.alone = asked.run.id
            elif len(self.asked) + len(self.adopted) < self.workers and self._waiting():
                asked = self.allocation.ask()
            else:
                break
            if not self.pool.submit(self._task(asked.run)):
                self.suspects.append(asked)  # asked, and not begun
                break
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

    def _idle(self) -> list[tuple[Task, Answer] | Broken]:
        time.sleep(POLL_SECONDS)
        return []

    def _collect(self, ended: Sequence[tuple[Task, Answer] | Broken]) -> None:
        for item in ended:
            if isinstance(item, Broken):
                self._broken(item)
                continue
            task, answer = item
            asked = self.asked.pop(task.run.id)
            if answer.status == "held":  # an orphan holds it: wait for that one's record
                self.adopted[task.run.id] = task.run
                self.allocation.tell(asked, answer)
                continue
            self._told(asked, answer)

    def _told(self, asked: Asked, answer: Answer) -> None:
        self.allocation.tell(asked, answer)
        self.seconds += answer.seconds
        self.trained += answer.status != "stopped"
        self.display.ended(answer)
        self._count(answer)

    def _count(self, answer: Answer) -> None:
        line = self.blocks.told(answer) if self.blocks else ""
        if line:
            self.display.say(line)

    def _broken(self, broken: Broken) -> None:
        alone = len(broken.tasks) == 1
        names = ", ".join(f"{t.run.variant} seed {t.run.seed}" for t in broken.tasks)
        then = "" if alone else "; run again one at a time"
        self.display.say(f"a worker died ({broken.reason}) while these ran: {names}{then}")
        for task in broken.tasks:
            asked = self.asked.pop(task.run.id)
            self._wait_for_lock(task.run)
            record = read_record(self.root, task.config)
            if record is not None:  # it had written its record before it died
                self._told(asked, answer_from(task.run, record))
                continue
            self.deaths[task.run.id] += alone
            if self.deaths[task.run.id] < BLAME:
                self.suspects.append(asked)
                continue
            outcome = failure(task.run, "killed", f"its worker died {BLAME} times while it ran alone: {broken.reason}")
            write_record(
                self.root,
                config=task.config,
                outcome=outcome,
                environment=environment(task),
                ended=now(),
                log=f"{outcome.reason}\n",
            )
            self._told(asked, Answer(run=task.run, status="killed", reason=outcome.reason))

    def _wait_for_lock(self, run: Run) -> None:
        deadline = time.monotonic() + 10
        while run_held(self.root, run.id) and time.monotonic() < deadline:
            time.sleep(0.01)

    def _poll_adopted(self) -> None:
        for run in list(self.adopted.values()):
            if run_held(self.root, run.id):
                continue
            del self.adopted[run.id]
            record = read_record(self.root, run_config(self.study, run, data_id=self._data_id()))
            if record is None:
                self.allocation.put_back(run)
                continue
            answer = answer_from(run, record)
            self.allocation.drop(run)
            self.allocation.mirror(answer)
            self.seconds += answer.seconds
            self.display.ended(answer)
            self._count(answer)

    def _task(self, run: Run) -> Task:
        used = Counter(task.device for task in self.pool.flying.values())
        return Task(
            root=self.root,
            run=run,
            config=run_config(self.study, run, data_id=self._data_id()),
            factors=self.study.arms[run.variant],
            recipe=self.study.recipe,
            data=self.data,
            device=min(self.devices, key=lambda d: used[d]),
            threads=self.study.run.threads,
            workers=self.workers,
            timeout_seconds=self.study.run.timeout_minutes * 60,
            owner=self.owner,
        )

    def _data_id(self) -> str:
        return self.data.id if self.data else ""


def devices_of(study: Study) -> list[str]:
    """The devices to spread runs over. Torch is asked only where the study leaves a choice."""
    if study.run.device == "cpu" or (study.run.device == "auto" and not torch_version()):
        return ["cpu"]
    import torch  # seconds; a study on the CPU never gets here

    if study.run.device in ("auto", "cuda") and torch.cuda.is_available():
        return [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if study.run.device in ("auto", "mps") and torch.backends.mps.is_available():
        return ["mps"]
    if study.run.device != "auto":
        raise RefusedError(
            f'run.device = "{study.run.device}", but torch {torch.__version__} sees none here; allowed: "cpu"'
        )
    return ["cpu"]


def workers_of(study: Study, devices: list[str]) -> int:
    """Worker processes: what the study says, or one for each GPU, or one for each core over the threads of each."""
    if study.run.workers:
        return study.run.workers
    if devices != ["cpu"]:
        return len(devices)
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, cores // study.run.threads)


def _refuse_mixed(study: Study, ledger: Ledger, runs: Sequence[Run], device: str) -> None:
    here = {
        "device": device.partition(":")[0],
        "precision": str(getattr(study.recipe, "precision", "")),
        "torch": torch_version(),
    }
    for run in runs:
        if run.id not in ledger.records:
            continue
        there = ledger.records[run.id].outcome["environment"]
        differs = [f"{k} {there.get(k)} there, {v} here" for k, v in here.items() if there.get(k) != v]
        if differs:
            raise RefusedError(
                f"records of this study were made elsewhere ({'; '.join(differs)}); "
                "--allow-mixed trains the rest all the same, and the report says so"
            )
