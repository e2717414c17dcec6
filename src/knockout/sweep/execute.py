"""Executors: who works on the tasks of a sweep. This machine's is here; a cluster's would be one more `Executor`.

The local one is joblib's loky: worker processes that stay warm, with the threads of each pinned. A worker that is
killed breaks the whole pool, and its neighbours' runs in flight are lost with it. `wait` says which tasks were in
flight; whose fault it was is for the coordinator to find out, by running them one at a time.
"""

import concurrent.futures
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from joblib.externals.loky.backend import get_context
from joblib.externals.loky.process_executor import BrokenProcessPool, ProcessPoolExecutor

from knockout.sweep.owner import Coordinator

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}
"""Has glibc keep what is freed for the next step, where it would give it back to the system and fault it in again."""

WATCH_SECONDS = 0.5
"""How often an idle worker looks whether its coordinator lives."""

TaskT = TypeVar("TaskT")
AnswerT = TypeVar("AnswerT")


def worker_environment(threads: int) -> dict[str, str]:
    """The environment variables of a worker: so many threads in every library, and memory that is kept."""
    return {name: str(threads) for name in THREAD_VARIABLES} | KEEP_MEMORY | {"TOKENIZERS_PARALLELISM": "false"}


@dataclass(frozen=True, kw_only=True)
class Broken(Generic[TaskT]):
    """A worker died, and these tasks were lost with it."""

    tasks: tuple[TaskT, ...]
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

    def submit(self, task: TaskT) -> bool:
        """Start a task; `free` must not be 0. False where a worker has died, which `wait` is about to return."""
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
        self._pool: ProcessPoolExecutor | None = None
        self._futures: dict[concurrent.futures.Future[AnswerT], TaskT] = {}

    @property
    def free(self) -> int:
        return self._workers - len(self._futures)

    @property
    def in_flight(self) -> Sequence[TaskT]:
        return tuple(self._futures.values())

    def submit(self, task: TaskT) -> bool:
        assert self.free > 0
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                max_workers=self._workers,
                context=get_context("loky"),
                initializer=_start_worker,
                initargs=(self._coordinator, self._folders),
                env=worker_environment(self._threads),
            )
        try:
            self._futures[self._pool.submit(_in_worker, self._work, task, self._coordinator)] = task
        except BrokenProcessPool:
            if self._futures:
                return False
            self.close()  # an idle worker died: nothing is lost with it
            return self.submit(task)
        return True

    def wait(self, seconds: float) -> list[tuple[TaskT, AnswerT] | Broken[TaskT]]:
        if not self._futures:
            time.sleep(seconds)
            return []
        done, _ = concurrent.futures.wait(
            self._futures, timeout=seconds, return_when=concurrent.futures.FIRST_COMPLETED
        )
        ended: list[tuple[TaskT, AnswerT] | Broken[TaskT]] = []
        broken: list[TaskT] = []
        reason = ""
        for future in done:
            try:
                answer = future.result()
            except BrokenProcessPool as error:
                broken.append(self._futures.pop(future))
                reason = _exit_codes(error)
            else:
                ended.append((self._futures.pop(future), answer))
        if broken:
            # One broken future means that the pool is gone: the rest in flight fails too, a moment later.
            for future, task in self._futures.items():
                try:
                    ended.append((task, future.result(timeout=30)))
                except BrokenProcessPool:
                    broken.append(task)
            self.close()
            ended.append(Broken(tasks=tuple(broken), reason=reason))
        return ended

    def close(self) -> None:
        self._futures.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True, kill_workers=True)
            self._pool = None


_busy = threading.Event()
"""Set in a worker process while it works on a task."""


def _start_worker(coordinator: Coordinator, folders: Sequence[str]) -> None:
    """What a worker process does first: search the trainer's folders too, leave Ctrl-C to the coordinator, and end once
    that has died.

    A task in progress decides for itself (`Supervision.over`); this thread ends a worker that only waits for work.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path.extend(folder for folder in folders if folder not in sys.path)

    def watch() -> None:
        while True:
            time.sleep(WATCH_SECONDS)
            if not coordinator.alive() and not _busy.is_set():
                os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _in_worker(work: Callable[[TaskT, Coordinator], AnswerT], task: TaskT, coordinator: Coordinator) -> AnswerT:
    _busy.set()
    try:
        answer = work(task, coordinator)
    finally:
        _busy.clear()
    if not coordinator.alive():  # nobody waits for this answer, and what it says is on disk
        os._exit(0)
    return answer


def _exit_codes(error: BrokenProcessPool) -> str:
    """How the workers ended, such as "SIGKILL(-9)"; loky wraps it in several lines of advice."""
    codes = re.search(r"exit codes of the workers are \{(.*?)\}", str(error))
    return codes[1] if codes else str(error).strip().splitlines()[0]
