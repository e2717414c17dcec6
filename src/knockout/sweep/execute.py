"""Executors: who works on the tasks of a sweep. This machine's is here; a cluster's would be one more `Executor`.

The local one is joblib's loky: worker processes that stay warm, with the threads of each pinned. Each worker is a pool
of its own, since a worker that dies breaks its pool: its neighbours' tasks go on. What a worker started ends with it.
"""

import concurrent.futures
import contextlib
import os
import re
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Generic, NoReturn, Protocol, TypeVar

import psutil
from joblib.externals.loky.backend import get_context
from joblib.externals.loky.process_executor import BrokenProcessPool, ProcessPoolExecutor

from knockout.sweep.owner import Coordinator

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}
"""Has glibc keep what is freed for the next step, where it would give it back to the system and fault it in again."""

WATCH_SECONDS = 0.5
"""How often an idle worker looks whether its coordinator lives."""

MARK = "KNOCKOUT_WORKER"
"""The environment variable that names a worker. What the worker starts inherits it, and is known by it."""

TaskT = TypeVar("TaskT")
AnswerT = TypeVar("AnswerT")


def worker_environment(threads: int) -> dict[str, str]:
    """The environment variables of a worker: so many threads in every library, and memory that is kept."""
    return {name: str(threads) for name in THREAD_VARIABLES} | KEEP_MEMORY | {"TOKENIZERS_PARALLELISM": "false"}


@dataclass(frozen=True, kw_only=True)
class Broken(Generic[TaskT]):
    """A worker died, and this task was lost with it."""

    task: TaskT
    reason: str


class Executor(Protocol[TaskT, AnswerT]):
    """Takes tasks, and gives their answers as they finish. One thread uses it."""

    @property
    def free(self) -> int:
        """How many more tasks may be submitted now."""
        ...

    @property
    def in_flight(self) -> Sequence[TaskT]:
        """The tasks that were submitted and whose end `wait` has not returned yet."""
        ...

    def submit(self, task: TaskT) -> None:
        """Start a task; `free` must not be 0."""
        ...

    def wait(self, seconds: float) -> list[tuple[TaskT, AnswerT] | Broken[TaskT]]:
        """What ended, as soon as something does, or an empty list after so many seconds.

        Raises what the work itself raised: that is an error in Knockout, not in a trainer.
        """
        ...

    def close(self) -> None:
        """End all workers at once; tasks in flight leave no record."""
        ...


@dataclass(frozen=True, kw_only=True)
class ParentProcess:
    """The coordinator as a worker of `LocalExecutor` sees it: its parent process."""

    pid: int

    def alive(self) -> bool:
        """Whether it lives: the orphans of a process get another parent at once."""
        return os.getppid() == self.pid


class _Worker(Generic[AnswerT]):
    """One worker process, in a pool of its own."""

    def __init__(self, coordinator: Coordinator, *, threads: int, folders: Sequence[str]) -> None:
        self._mark = uuid.uuid4().hex
        with _held_back():
            resource_tracker.ensure_running()  # first, since its start lets SIGTERM through again
            self._pool = ProcessPoolExecutor(
                max_workers=1,
                context=get_context("loky"),
                initializer=_start_worker,
                initargs=(coordinator, folders),
                env=worker_environment(threads) | {MARK: self._mark},
            )

    def submit(
        self, work: Callable[[TaskT, Coordinator], AnswerT], task: TaskT, coordinator: Coordinator
    ) -> "concurrent.futures.Future[AnswerT]":
        """Raises `BrokenProcessPool` where the process died since its last task."""
        with _held_back():
            future: concurrent.futures.Future[AnswerT] = self._pool.submit(_in_worker, work, task, coordinator)
        return future

    def bury(self) -> None:
        """End what the process left behind, if it has died: a child holds the pipe that tells the pool of its death."""
        if any(_dead(pid) for pid in list(self._pool._processes)):
            end_marked(self._mark)

    def close(self) -> None:
        """End the process and all that it started."""
        self.bury()
        self._pool.shutdown(wait=True, kill_workers=True)
        end_marked(self._mark)


class LocalExecutor(Generic[TaskT, AnswerT]):
    """Worker processes of this machine, which keep what they have loaded from one task to the next."""

    def __init__(
        self,
        work: Callable[[TaskT, Coordinator], AnswerT],
        *,
        workers: int,
        threads: int,
        folders: Sequence[Path] = (),
    ) -> None:
        """`work` is a function of a module, which a worker imports. `threads`: of each worker. `folders`: where it
        looks for modules besides Python's own places."""
        self._work = work
        self._workers = workers
        self._threads = threads
        self._folders = tuple(map(str, folders))
        self._coordinator = ParentProcess(pid=os.getpid())
        self._idle: list[_Worker[AnswerT]] = []
        self._tasks: dict[concurrent.futures.Future[AnswerT], tuple[TaskT, _Worker[AnswerT]]] = {}

    @property
    def free(self) -> int:
        return self._workers - len(self._tasks)

    @property
    def in_flight(self) -> Sequence[TaskT]:
        return tuple(task for task, _ in self._tasks.values())

    def submit(self, task: TaskT) -> None:
        assert self.free > 0
        while self._idle:
            worker = self._idle.pop()
            try:
                self._tasks[worker.submit(self._work, task, self._coordinator)] = (task, worker)
            except BrokenProcessPool:  # it died while it was idle: nothing is lost with it
                worker.close()
            else:
                return
        worker = _Worker(self._coordinator, threads=self._threads, folders=self._folders)
        self._tasks[worker.submit(self._work, task, self._coordinator)] = (task, worker)

    def wait(self, seconds: float) -> list[tuple[TaskT, AnswerT] | Broken[TaskT]]:
        if not self._tasks:
            time.sleep(seconds)
            return []
        done, _ = concurrent.futures.wait(self._tasks, timeout=seconds, return_when=concurrent.futures.FIRST_COMPLETED)
        ended: list[tuple[TaskT, AnswerT] | Broken[TaskT]] = []
        for future in done:
            task, worker = self._tasks.pop(future)
            try:
                answer = future.result()
            except BrokenProcessPool as error:
                worker.close()
                ended.append(Broken(task=task, reason=_exit_codes(error)))
            except BaseException:
                worker.close()
                raise
            else:
                self._idle.append(worker)
                ended.append((task, answer))
        if not done:
            for _, worker in self._tasks.values():
                worker.bury()
        return ended

    def close(self) -> None:
        workers = [*self._idle, *(worker for _, worker in self._tasks.values())]
        self._tasks.clear()
        self._idle.clear()
        for worker in workers:
            worker.close()


def _dead(pid: int) -> bool:
    """Whether a child of this process has ended, without taking its exit code from the pool."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return True


def end_marked(mark: str) -> None:
    """End all processes that a worker started, and the worker: those that carry its mark, wherever they went."""
    for _ in range(10):  # one that forks while it is looked for leaves a child for the next round
        marked = [process for process in psutil.process_iter() if _mark_of(process) == mark]
        if not marked:
            return
        for process in marked:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(marked, timeout=1.0)


def _mark_of(process: psutil.Process) -> str:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return ""
        return str(process.environ().get(MARK, ""))
    except (psutil.Error, OSError):  # of another user, or gone
        return ""


def _signals(*names: str) -> list[signal.Signals]:
    """The signals of these names that this system has."""
    return [number for number in signal.Signals if number.name in names]


@contextlib.contextmanager
def _held_back() -> Iterator[None]:
    """Hold back, here and in processes that are started meanwhile, the signals that ask a program to end.

    A scheduler sends them to all processes at once. The coordinator gets them a moment later; a worker takes SIGTERM
    once it can disregard it, and neither it nor what loky starts ever takes SIGHUP.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _signals("SIGTERM", "SIGHUP"))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_busy = threading.Event()
"""Set in a worker process while it works on a task."""


def _start_worker(coordinator: Coordinator, folders: Sequence[str]) -> None:
    """What a worker process does first: search the trainer's folders too, leave signals to the coordinator, and end
    once that has died.

    A task in progress decides for itself (`Supervision.over`); this thread ends a worker that only waits for work.
    """
    sys.path.extend(folder for folder in folders if folder not in sys.path)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A handler, since SIG_IGN would be inherited: what a trainer starts must end when the trainer terminates it.
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])

    def watch() -> None:
        while True:
            time.sleep(WATCH_SECONDS)
            if not coordinator.alive() and not _busy.is_set():
                _leave()

    threading.Thread(target=watch, daemon=True).start()


def _in_worker(work: Callable[[TaskT, Coordinator], AnswerT], task: TaskT, coordinator: Coordinator) -> AnswerT:
    _busy.set()
    try:
        answer = work(task, coordinator)
    finally:
        _busy.clear()
    if not coordinator.alive():  # nobody waits for this answer, and what it says is on disk
        _leave()
    return answer


def _leave() -> NoReturn:
    """End this worker and all that it started."""
    end_marked(os.environ[MARK])
    os._exit(0)


def _exit_codes(error: BrokenProcessPool) -> str:
    """How the workers ended, such as "SIGKILL(-9)"; loky wraps it in several lines of advice."""
    codes = re.search(r"exit codes of the workers are \{(.*?)\}", str(error))
    return codes[1] if codes else str(error).strip().splitlines()[0]
