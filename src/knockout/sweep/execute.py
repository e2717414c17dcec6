"""Running tasks in worker processes of this machine: joblib's loky, warm workers, threads pinned for each.

A worker that is killed breaks the whole pool, and its neighbours' runs in flight are lost with it. `Pool.wait` says
which runs were in flight; whose fault it was is for the coordinator to find out, by running them one at a time.
"""

import concurrent.futures
import re
from dataclasses import dataclass
from pathlib import Path

from joblib.externals.loky.backend import get_context
from joblib.externals.loky.process_executor import BrokenProcessPool, ProcessPoolExecutor

from knockout.sweep.owner import Owner
from knockout.sweep.work import Answer, Task, start_worker, work

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}
"""Has glibc keep what is freed for the next step, where it would give it back to the system and fault it in again."""


def worker_environment(threads: int) -> dict[str, str]:
    """The environment variables of a worker: so many threads in every library, and memory that is kept."""
    return {name: str(threads) for name in THREAD_VARIABLES} | KEEP_MEMORY | {"TOKENIZERS_PARALLELISM": "false"}


@dataclass(frozen=True, kw_only=True)
class Broken:
    """The pool broke while these tasks were in flight."""

    tasks: tuple[Task, ...]
    reason: str


class Pool:
    """Worker processes that keep what they have loaded from one run to the next."""

    def __init__(self, *, workers: int, threads: int, owner: Owner, root: Path) -> None:
        self.workers = workers
        self.threads = threads
        self.owner = owner
        self.root = root
        self.executor: ProcessPoolExecutor | None = None
        self.flying: dict[concurrent.futures.Future[Answer], Task] = {}

    def submit(self, task: Task) -> bool:
        """Start a task; there must be a free worker. False where the pool is broken, which `wait` is about to say."""
        assert len(self.flying) < self.workers
        if self.executor is None:
            self.executor = ProcessPoolExecutor(
                max_workers=self.workers,
                context=get_context("loky"),
                initializer=start_worker,
                initargs=(self.owner, self.root),
                env=worker_environment(self.threads),
            )
        try:
            self.flying[self.executor.submit(work, task)] = task
        except BrokenProcessPool:
            if self.flying:
                return False
            self.close()  # an idle worker died: nothing is lost with it
            return self.submit(task)
        return True

    def wait(self, seconds: float) -> list[tuple[Task, Answer] | Broken]:
        """What ended within so many seconds. An error of ours inside a worker is raised here."""
        done, _ = concurrent.futures.wait(self.flying, timeout=seconds, return_when=concurrent.futures.FIRST_COMPLETED)
        ended: list[tuple[Task, Answer] | Broken] = []
        broken: list[Task] = []
        reason = ""
        for future in done:
            try:
                answer = future.result()
            except BrokenProcessPool as error:
                broken.append(self.flying.pop(future))
                reason = _exit_codes(error)
            else:
                ended.append((self.flying.pop(future), answer))
        if broken:
            # One broken future means that the pool is gone: the rest in flight fails too, a moment later.
            for future, task in self.flying.items():
                try:
                    ended.append((task, future.result(timeout=30)))
                except BrokenProcessPool:
                    broken.append(task)
            self.flying.clear()
            self.close()
            ended.append(Broken(tasks=tuple(broken), reason=reason))
        return ended

    def close(self) -> None:
        """End all workers at once; runs in flight leave no record."""
        if self.executor is not None:
            self.executor.shutdown(wait=True, kill_workers=True)
            self.executor = None


def _exit_codes(error: BrokenProcessPool) -> str:
    """How the workers ended, such as "SIGKILL(-9)"; loky wraps it in several lines of advice."""
    found = re.search(r"exit codes of the workers are \{(.*?)\}", str(error))
    return found[1] if found else str(error).strip().splitlines()[0]
