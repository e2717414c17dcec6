"""What a worker does with a task: train its runs, each from its lock to its record. The same for every executor."""

import contextlib
import importlib
import importlib.metadata
import io
import os
import platform
import socket
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from knockout.job import Curve, DataRef, Job, Outcome, Status, Stopped, TimedOut
from knockout.record import read_record, write_record
from knockout.study import Run
from knockout.sweep.answer import Answer, answer_of_outcome, answer_of_record
from knockout.sweep.owner import Coordinator, Progress, Supervision, append_line, hold_run, now, write_progress
from knockout.trainer_source import trainer_source

PROGRESS_SECONDS = 0.5


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
    log = io.StringIO()
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
            for run in runs:
                write_progress(task.root, run.id, Progress(step=step, steps=steps, loss=loss))

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
        with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            outcomes = list(getattr(importlib.import_module(module), function)(job))
        if len(outcomes) != len(runs):
            raise ValueError(f"the trainer returned {len(outcomes)} outcomes for {len(runs)} runs")
    except Stopped:
        return [Answer(run=run, status="stopped") for run in runs]
    except BaseException as error:  # sys.exit and KeyboardInterrupt inside a trainer are crashes of it too
        if len(runs) > 1:  # whose fault it was shows when each runs alone
            return [answer for run in runs for answer in _train(task, [run], coordinator)]
        log.write(traceback.format_exc())
        outcomes = [failure(runs[0], _status_of(error), _last_line(error))]
    answers = []
    for run, outcome in zip(runs, outcomes, strict=True):
        job.log(outcome.status + (f": {outcome.reason}" if outcome.reason else ""))
        write_record(
            task.root,
            config=task.configs[run.id],
            outcome=outcome,
            environment=environment(task),
            ended=now(),
            log=log.getvalue(),
        )
        answers.append(answer_of_outcome(run, outcome))
    return answers


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
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "device": task.device.partition(":")[0],
        "device_name": _device_name(task.device),
        "threads": task.threads,
        "workers": task.workers,
        "precision": str(getattr(task.recipe, "precision", "")),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": torch_version(),
        "knockout": _version("knockout"),
        **({"trainer_source": task.source} if task.source else {}),
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
    text = str(error)
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
