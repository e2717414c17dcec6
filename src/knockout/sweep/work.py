"""What a worker process does: one run, from its lock to its record."""

import contextlib
import importlib
import importlib.metadata
import io
import os
import platform
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from knockout.job import Curve, DataRef, Job, Outcome, Status, Stopped, TimedOut
from knockout.record import Record, read_record, write_record
from knockout.study import Run
from knockout.sweep.owner import Owner, Parent, Progress, append_line, hold_run, now, write_progress

PROGRESS_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run, with all that a worker needs to know of its study."""

    root: Path
    run: Run
    config: Mapping[str, Any]
    factors: Any
    recipe: Any
    data: DataRef | None
    device: str
    threads: int
    workers: int  # that share the machine
    timeout_seconds: float
    owner: Owner


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How a run ended, as far as the coordinator needs it; the rest is in the record."""

    run: Run
    status: Status | Literal["held", "stopped"]
    reason: str = ""
    value: float | None = None  # validation accuracy
    epochs: tuple[tuple[int, float], ...] = field(default=())  # (epoch, validation accuracy)
    seconds: float = 0.0


def start_worker(owner: Owner, root: Path) -> None:
    """What a worker process does first: leave Ctrl-C to the coordinator, and end when that has died.

    A run in progress decides for itself (`Parent.gone`); this thread ends a worker that only waits for work.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = Parent(root, owner)

    def watch() -> None:
        while True:
            time.sleep(0.5)
            if parent.orphan and not _busy.is_set():
                os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


_busy = threading.Event()


def work(task: Task) -> Answer:
    """Train one run and write its record; never raises for what the trainer does."""
    _busy.set()
    try:
        answer = _work(task)
    finally:
        _busy.clear()
    if os.getppid() != task.owner.pid:  # nobody waits for this answer, and the record is written
        os._exit(0)
    return answer


def _work(task: Task) -> Answer:
    with hold_run(task.root, task.run.id) as held:
        if not held:
            return Answer(run=task.run, status="held")
        done = read_record(task.root, task.config)
        if done is not None:  # a record wins over everything; an orphan may have written it a moment ago
            return answer_from(task.run, done)
        fields = [now(), task.run.id, task.run.variant, task.run.seed, socket.gethostname(), os.getpid()]
        append_line(task.root / "starts.log", fields)
        return _train(task)


def _train(task: Task) -> Answer:
    log = io.StringIO()
    started = time.monotonic()
    written = -PROGRESS_SECONDS
    parent = Parent(task.root, task.owner)

    def progress(step: int, steps: int, loss: float) -> None:
        nonlocal written
        if parent.gone():
            raise Stopped
        elapsed = time.monotonic() - started
        if task.timeout_seconds and elapsed > task.timeout_seconds:
            raise TimedOut(f"stopped after {elapsed:.0f} s at step {step} of {steps}")
        if elapsed - written >= PROGRESS_SECONDS:
            written = elapsed
            write_progress(task.root, task.run.id, Progress(step=step, steps=steps, loss=loss))

    job = Job(
        variant=task.run.variant,
        factors=task.factors,
        recipe=task.recipe,
        seeds=(task.run.training_seed,),
        run_ids=(task.run.id,),
        data=task.data,
        device=task.device,
        threads=task.threads,
        progress=progress,
        log=lambda line: print(f"{now()} {line}", file=log),
    )
    stream = "" if task.run.stream is None else f" (trained with {task.run.stream})"
    job.log(f"{task.run.variant} seed {task.run.seed}{stream} on {task.device}, {task.threads} thread(s)")
    module, function = str(task.config["trainer"]).split(":")
    try:
        # What a trainer prints belongs into its log, not between the lines of the display.
        with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            (outcome,) = getattr(importlib.import_module(module), function)(job)
    except Stopped:
        return Answer(run=task.run, status="stopped")
    except BaseException as error:  # sys.exit and KeyboardInterrupt inside a trainer are crashes of it too
        log.write(traceback.format_exc())
        outcome = failure(task.run, _status_of(error), _last_line(error))
    job.log(outcome.status + (f": {outcome.reason}" if outcome.reason else ""))
    write_record(
        task.root,
        config=task.config,
        outcome=outcome,
        environment=environment(task),
        ended=now(),
        log=log.getvalue(),
    )
    return _answer(task.run, outcome)


def failure(run: Run, status: Status, reason: str) -> Outcome:
    """The outcome of a run that came to no result."""
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
    }


def torch_version() -> str:
    """The installed torch, found without importing it."""
    return _version("torch")


@lru_cache
def _version(package: str) -> str:
    """Read once a process: it takes a millisecond."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def answer_from(run: Run, record: Record) -> Answer:
    """The answer that the worker of an existing record gave, or would have given."""
    epochs: tuple[tuple[int, float], ...] = ()
    with contextlib.suppress(FileNotFoundError):
        rows = record.table("epochs").to_pylist()
        epochs = tuple((row["epoch"], row["correct"] / row["count"]) for row in rows)
    costs = record.outcome["costs"]
    return Answer(
        run=run,
        status=record.outcome["status"],
        reason=record.outcome["reason"],
        value=_accuracy(record.outcome["metrics"]),
        epochs=epochs,
        seconds=costs.get("train_seconds", 0.0) + costs.get("eval_seconds", 0.0),
    )


def _answer(run: Run, outcome: Outcome) -> Answer:
    return Answer(
        run=run,
        status=outcome.status,
        reason=outcome.reason,
        value=_accuracy(outcome.metrics),
        epochs=tuple((e.epoch, e.correct / e.count) for e in outcome.epochs),
        seconds=outcome.costs.get("train_seconds", 0.0) + outcome.costs.get("eval_seconds", 0.0),
    )


def _accuracy(metrics: Mapping[str, Mapping[str, float | int]]) -> float | None:
    told = metrics.get("validation") or metrics.get("test")
    return told["correct"] / told["count"] if told else None


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
