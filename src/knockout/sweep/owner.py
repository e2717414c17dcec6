"""Locks of a study's folder: one coordinator at a time, and one worker at a time for each run.

Both hold locks of the operating system, which are free a moment after their holder dies, however it dies. A coordinator
also says who it is, with a heartbeat, for file systems on which such a lock is not seen from another machine.
"""

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import filelock
import psutil

from knockout.errors import UserError
from knockout.files import replace_json
from knockout.record import set_aside

HEARTBEAT_SECONDS = 30.0
STALE_SECONDS = 300.0
ADOPTION_SECONDS = 15.0
"""How long a worker whose coordinator died goes on training, waiting for a new coordinator to take it over."""


class HeldError(UserError):
    """The study's folder belongs to a coordinator that lives."""


@dataclass(frozen=True, kw_only=True)
class Owner:
    """A coordinator: its process, distinguished from a later one of the same number by its start time."""

    host: str
    pid: int
    started: float  # seconds since the epoch

    def alive(self) -> bool:
        """Whether it lives, where that can be seen: on the same host."""
        try:
            return bool(abs(psutil.Process(self.pid).create_time() - self.started) < 1.0)
        except psutil.Error:
            return False


def this_process() -> Owner:
    """The owner that this process is."""
    return Owner(host=socket.gethostname(), pid=os.getpid(), started=psutil.Process().create_time())


def now() -> str:
    """The time in ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@contextlib.contextmanager
def hold(root: Path, *, take_over: bool) -> Iterator[Owner]:
    """Hold a study's folder as its coordinator.

    Raises `HeldError` where another holds it: on this host while it lives, on another while its heartbeat is younger
    than five minutes and `take_over` is not asked for.
    """
    lock = filelock.FileLock(root / "coordinator.lock")
    path = root / "coordinator.json"
    for file in (root / "coordinator.lock", path):
        if file.is_dir():  # and so nobody holds it
            set_aside(root, file)
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        owner, _ = _read_owner(path)
        who = f"process {owner.pid} on {owner.host}" if owner else "another process"
        raise HeldError(f"{root} is held by {who}, which is running this study; wait for it or stop it") from None
    try:
        owner, age = _read_owner(path)
        me = this_process()
        if owner is not None and owner.host != me.host and age < STALE_SECONDS and not take_over:
            raise HeldError(
                f"{root} is held by process {owner.pid} on {owner.host}, which was alive {age:.0f} s ago; "
                "if it is not, --take-over"
            )
        replace_json(path, asdict(me))
        stop = threading.Event()
        beat = threading.Thread(target=_beat, args=(path, stop), daemon=True)
        beat.start()
        try:
            yield me
        finally:
            stop.set()
            beat.join()
            path.unlink(missing_ok=True)
    finally:
        lock.release()


def _beat(path: Path, stop: threading.Event) -> None:
    while not stop.wait(HEARTBEAT_SECONDS):
        with contextlib.suppress(OSError):
            os.utime(path)


def _read_owner(path: Path) -> tuple[Owner | None, float]:
    """The coordinator that is named, and the seconds since its last heartbeat."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return Owner(**value), max(0.0, time.time() - path.stat().st_mtime)
    except (OSError, ValueError, TypeError):
        return None, 0.0


def coordinator(root: Path) -> Owner | None:
    """The coordinator of a folder, if one is at work: alive on this host, or with a recent heartbeat on another."""
    owner, age = _read_owner(root / "coordinator.json")
    if owner is None:
        return None
    here = owner.host == socket.gethostname()
    return owner if (owner.alive() if here else age < STALE_SECONDS) else None


class Coordinator(Protocol):
    """A worker's view of the coordinator that it works for. An executor hands it to the worker with each task."""

    def alive(self) -> bool:
        """Whether it lives, as far as can be seen from the worker's process."""
        ...


class Supervision:
    """Whether a worker should go on training: while its coordinator lives, or a new one takes its place in time."""

    def __init__(self, root: Path, coordinator: Coordinator) -> None:
        self.root = root
        self.coordinator = coordinator
        self.orphaned_at: float | None = None

    def over(self) -> bool:
        """Whether the coordinator died and no new one has taken the folder within `ADOPTION_SECONDS`."""
        if self.coordinator.alive():
            return False
        now = time.monotonic()
        if self.orphaned_at is None:
            self.orphaned_at = now
        successor = coordinator(self.root)
        return successor is None and now - self.orphaned_at > ADOPTION_SECONDS


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run is."""

    step: int
    steps: int
    loss: float


def _run_files(root: Path, run_id: str) -> tuple[Path, Path]:
    return root / "running" / f"{run_id}.lock", root / "running" / f"{run_id}.progress"


def hang_file(root: Path, run_id: str) -> Path:
    """Where a worker that is ended because its trainer hangs leaves what each thread was doing."""
    return root / "running" / f"{run_id}.hang"


def read_hang(root: Path, run_id: str) -> str:
    """What a worker was doing when it was ended because its trainer hung; "" where it was not."""
    try:
        return hang_file(root, run_id).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


@contextlib.contextmanager
def hold_run(root: Path, run_id: str) -> Iterator[bool]:
    """Hold a run while it trains; gives False where another process holds it."""
    path, progress = _run_files(root, run_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(path, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        yield False
        return
    hang_file(root, run_id).unlink(missing_ok=True)  # of a worker that was ended while nobody looked
    try:
        yield True
    finally:
        progress.unlink(missing_ok=True)
        hang_file(root, run_id).unlink(missing_ok=True)
        lock.release()


def run_held(root: Path, run_id: str) -> bool:
    """Whether a worker, of this coordinator or of one that died, is training this run now."""
    path, _ = _run_files(root, run_id)
    if not path.is_file():
        return False
    lock = filelock.FileLock(path)
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        return True
    lock.release()
    return False


def clear_locks(root: Path) -> None:
    """Remove the files of locks that nobody holds. Only for the coordinator, when none of its workers is left."""
    folder = root / "running"
    held = set(running_ids(root))
    for path in folder.glob("*") if folder.is_dir() else ():
        if path.stem not in held and path.is_file():
            path.unlink(missing_ok=True)


def running_ids(root: Path) -> list[str]:
    """The ids of all runs that are being trained now."""
    folder = root / "running"
    locked = sorted(p.stem for p in folder.glob("*.lock")) if folder.is_dir() else []
    return [run_id for run_id in locked if run_held(root, run_id)]


def write_progress(root: Path, run_id: str, progress: Progress) -> None:
    """Say how far a run is, for whoever watches."""
    _, path = _run_files(root, run_id)
    path.write_text(f"{progress.step} {progress.steps} {progress.loss!r}", encoding="ascii")


def read_progress(root: Path, run_id: str) -> Progress | None:
    """How far a run is, or `None` where it has not said so yet."""
    _, path = _run_files(root, run_id)
    try:
        step, steps, loss = path.read_text(encoding="ascii").split()
        return Progress(step=int(step), steps=int(steps), loss=float(loss))
    except (OSError, ValueError):  # not there yet, or half written
        return None


def append_line(path: Path, fields: list[Any]) -> None:
    """Append one line of tab-separated fields in one write, so that lines of several processes do not mix."""
    line = "\t".join(map(str, fields)) + "\n"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)
