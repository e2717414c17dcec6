"""What a worker does with a task: train its runs, each from its lock to its record. The same for every executor."""

import contextlib
import faulthandler
import importlib
import importlib.metadata
import io
import math
import os
import platform
import socket
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from knockout.job import Curve, DataRef, Job, Outcome, Status, Stopped, TimedOut
from knockout.record import read_record, write_record
from knockout.screen import open_closed
from knockout.study import Run
from knockout.sweep.answer import Answer, answer_of_outcome, answer_of_record
from knockout.sweep.examples import expected_examples, why_others
from knockout.sweep.outcomes import AnswerError, crashed, outcomes_of
from knockout.sweep.owner import (
    Coordinator,
    Progress,
    Supervision,
    append_line,
    hang_file,
    hold_run,
    now,
    write_progress,
)
from knockout.sweep.plain import plain_number, shown
from knockout.trainer_source import trainer_source

PROGRESS_SECONDS = 0.5

HANG_SHARE, HANG_SECONDS = 0.1, 2.0
"""How far over its time limit a run may be before its worker is ended, where the trainer does not call `progress`."""


class Log(io.StringIO):
    """What a trainer prints. It stays open, also for a trainer that closes its standard output."""

    def close(self) -> None:
        """Do nothing: what was printed is read after the run."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """Runs of one variant that are trained together, with all that a worker needs to know of their study."""

    root: Path
    runs: tuple[Run, ...]
    """one, unless the trainer trains several seeds at once"""
    configs: Mapping[str, Mapping[str, Any]]
    """run id -> what its record says was run"""
    trainer: str
    source: str  # of the trainer, as the coordinator read it; empty where it has none
    factors: Any
    recipe: Any
    data: DataRef | None
    device: str
    threads: int
    workers: int  # that share the machine
    timeout_seconds: float  # of one run; 0 for none
    test_examples: int | None = None
    """in the test split of the study's data; `None` for a study without data"""


def work(task: Task, coordinator: Coordinator) -> tuple[Answer, ...]:
    """Train the runs of a task and write their records; one answer for each run, in the order of the task.

    Never raises for what the trainer does.
    """
    answers: dict[str, Answer] = {}
    with contextlib.ExitStack() as locks:
        mine: list[Run] = []
        for run in task.runs:
            if not locks.enter_context(hold_run(task.root, run.id)):
                answers[run.id] = Answer(run=run, status="held")
                continue
            # A record wins over everything; an orphan may have written it a moment ago.
            done = read_record(task.root, task.configs[run.id])
            if done is None:
                mine.append(run)
            else:
                answers[run.id] = answer_of_record(run, done)
        for run in mine:
            fields = [now(), run.id, run.variant, run.seed, socket.gethostname(), os.getpid()]
            append_line(task.root / "starts.log", fields)
        if mine:
            answers |= {answer.run.id: answer for answer in _train(task, mine, coordinator)}
    return tuple(answers[run.id] for run in task.runs)


def _train(task: Task, runs: Sequence[Run], coordinator: Coordinator) -> list[Answer]:
    """Train these runs in one call of the trainer. Where that fails for several runs, train each alone."""
    log = Log()
    started = time.monotonic()
    written = -PROGRESS_SECONDS
    supervision = Supervision(task.root, coordinator)

    def progress(step: int, steps: int, loss: float) -> None:
        nonlocal written
        if supervision.over():
            raise Stopped
        elapsed = time.monotonic() - started
        if task.timeout_seconds and elapsed > task.timeout_seconds * len(runs):
            raise TimedOut(f"stopped after {elapsed:.0f} s at step {step} of {steps}")
        if elapsed - written >= PROGRESS_SECONDS:
            written = elapsed
            at = progress_of(step, steps, loss)
            for run in runs:
                write_progress(task.root, run.id, at)

    job = Job(
        variant=runs[0].variant,
        factors=task.factors,
        recipe=task.recipe,
        seeds=tuple(run.training_seed for run in runs),
        run_ids=tuple(run.id for run in runs),
        data=task.data,
        device=task.device,
        threads=task.threads,
        progress=progress,
        log=lambda line: print(f"{now()} {line}", file=log),
    )
    for run in runs:
        stream = "" if run.stream is None else f" (trained with {run.stream})"
        job.log(f"{run.variant} seed {run.seed}{stream} on {task.device}, {task.threads} thread(s)")
    module, function = task.trainer.split(":")
    outcomes: list[Outcome]
    try:
        if _source(task.trainer) != task.source:
            raise RuntimeError("the trainer's source changed while the study ran; start `knockout run` again")
        # What a trainer prints belongs into its log, not between the lines of the display.
        with ended_if_it_hangs(task, runs), contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            answer = getattr(importlib.import_module(module), function)(job)
            outcomes = outcomes_of(answer, job.run_ids)
    except Stopped:
        return [Answer(run=run, status="stopped") for run in runs]
    except BaseException as error:  # sys.exit and KeyboardInterrupt inside a trainer are crashes of it too
        if len(runs) > 1:  # whose fault it was shows when each runs alone
            return [answer for run in runs for answer in _train(task, [run], coordinator)]
        if isinstance(error, AnswerError):  # whose text says all; it is no fault of a line of code
            outcomes = [crashed(runs[0].id, str(error))]
        else:
            log.write(traceback.format_exc())
            outcomes = [failure(runs[0], _status_of(error), _last_line(error))]
    finally:
        open_closed()
    answers = []
    for run, outcome in zip(runs, outcomes, strict=True):
        with expected_examples(task.root, task.configs[run.id], count=task.test_examples) as examples:
            others = why_others(outcome, examples)
            ended = crashed(run.id, others) if others else outcome
            job.log(ended.status + (f": {ended.reason}" if ended.reason else ""))
            write_record(
                task.root,
                config=task.configs[run.id],
                outcome=ended,
                environment=environment(task),
                ended=now(),
                log=log.getvalue(),
            )
        answers.append(answer_of_outcome(run, ended))
    return answers


def progress_of(step: object, steps: object, loss: object) -> Progress:
    """What a trainer says with `job.progress`, in plain numbers. Raises `TypeError` where it is no numbers."""
    at, of, now_loss = (plain_number(value) for value in (step, steps, loss))
    if at is None or of is None or now_loss is None or not (math.isfinite(at) and math.isfinite(of)):
        got = ", ".join(map(shown, (step, steps, loss)))
        raise TypeError(f"job.progress({got}): expected job.progress(step, steps, loss), such as (1, 100, 0.69)")
    return Progress(step=max(0, int(at)), steps=max(1, int(at), int(of)), loss=float(now_loss))


def _hard_limit(task: Task, runs: Sequence[Run]) -> float:
    limit = task.timeout_seconds * len(runs)
    return limit * (1 + HANG_SHARE) + HANG_SECONDS


@contextlib.contextmanager
def ended_if_it_hangs(task: Task, runs: Sequence[Run]) -> Iterator[None]:
    """End this process where the trainer outlives its time limit without a call of `progress`.

    A thread of the interpreter's own does it, which needs no lock that a trainer may hold. What every thread was doing
    is left in `hang_file`, by which the coordinator knows why the worker died.
    """
    if not task.timeout_seconds:
        yield
        return
    with hang_file(task.root, runs[0].id).open("w", encoding="utf-8") as file:
        faulthandler.dump_traceback_later(_hard_limit(task, runs), exit=True, file=file)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


def hang_reason(task: Task) -> str:
    """Why a run of this task timed out whose worker had to be ended."""
    seconds = _hard_limit(task, task.runs)
    return f"ended after {seconds:.0f} s: the trainer hung, or ran on without a call of job.progress (see the log)"


@cache
def _source(trainer: str) -> str:
    """The hash of a trainer's source, taken once in a process: when it is imported."""
    return trainer_source(trainer).sha256


def failure(run: Run, status: Status, reason: str) -> Outcome:
    """The outcome of a run without a result."""
    empty = Curve(loss=[], learning_rate=[], grad_norm=[])
    return Outcome(run_id=run.id, status=status, reason=reason, metrics={}, curve=empty)


def environment(task: Task) -> dict[str, str | int]:
    """Where and with what a run was trained. Recorded, and no part of its id."""
    return {
        **machine_of_worker(task.device),
        "pid": os.getpid(),
        "threads": task.threads,
        "workers": task.workers,
        "precision": str(getattr(task.recipe, "precision", "")),
        "python": platform.python_version(),
        "knockout": _version("knockout"),
        **({"trainer_source": task.source} if task.source else {}),
    }


def machine_of_worker(device: str) -> dict[str, str]:
    """The machine that this process runs on, and its torch."""
    return {
        "host": socket.gethostname(),
        "device": device.partition(":")[0],
        "device_name": _device_name(device),
        "platform": platform.platform(),
        "torch": torch_version(),
    }


def torch_version() -> str:
    """The version of the installed torch, read without importing it; empty where there is none."""
    return _version("torch")


@lru_cache
def _version(package: str) -> str:
    """Read once a process: it takes a millisecond."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _status_of(error: BaseException) -> Status:
    if isinstance(error, TimedOut):
        return "timed_out"
    text = "".join(traceback.format_exception_only(error))  # also of an error whose own text cannot be made
    if isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text:
        return "out_of_memory"
    return "crashed"


def _last_line(error: BaseException) -> str:
    return traceback.format_exception_only(error)[-1].strip()[:500]


def _device_name(device: str) -> str:
    if device.startswith("cuda"):
        torch = sys.modules.get("torch")
        return str(torch.cuda.get_device_name(device)) if torch else device
    return platform.processor() or platform.machine()
