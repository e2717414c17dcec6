"""What a study will cost: a few steps of every variant, measured in a worker of its own."""

import contextlib
import importlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import psutil

from knockout.arms import Arm
from knockout.job import RECORDED, DataRef, Job, Outcome, Stopped
from knockout.study import Study
from knockout.sweep.answer import objective
from knockout.sweep.execute import Broken, Executor, LocalExecutor
from knockout.sweep.outcomes import AnswerError, outcomes_of
from knockout.sweep.owner import Coordinator
from knockout.sweep.work import Log, progress_of
from knockout.trainers import DEFAULT_TRAINER

WARM_STEPS = 2
MOST_STEPS = 25
TOTAL_SECONDS = 8.0
"""Over all variants, without the start of the worker."""

ANSWER_SECONDS = 20.0
"""For runs of a trainer of one's own that are trained to their end, one of each variant, so that its answer is seen."""

PATIENCE_SECONDS = 90.0
"""For the steps of one variant, with what a worker loads before its first. Then there is no figure."""

GIVEN_UP = f"it was given up after {PATIENCE_SECONDS:.0f} s without enough steps; does it call job.progress?"

WHOLE = "it never calls job.progress: one run was trained to its end, and the time of all others is taken from it"

EVALUATION_SHARE = 1 / 3
"""The time of a text in evaluation over that of one in training: the forward pass alone."""

FILES, BLOCK_BYTES, BYTES_PER_STEP, BYTES_PER_PREDICTION = 7, 4096, 26, 9.4
"""Of a record on disk; measured on the 110 records of ablations/quick.toml."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """One variant's steps. `trouble` says why there is no figure."""

    steps: int = 0
    seconds_per_step: float = 0.0
    seconds_before: float = 0.0
    """from the start of the run to the end of its first step; all of it for a trainer that never calls `progress`"""
    trouble: str = ""
    note: str = ""
    """what to know of the figure"""
    objective: str = ""
    """what the screen would show of a run, where one was trained to its end"""
    answered: bool = False
    """whether one was trained to its end, and what the trainer returned was checked"""

    @property
    def run_seconds(self) -> float:
        """Of one whole run, as far as it was measured."""
        return self.seconds_before + self.steps * self.seconds_per_step


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What all runs of a study would cost on this machine."""

    paces: Mapping[str, Pace]
    start_seconds: float
    """until the first worker has done its first steps: what it loads"""
    seconds: float
    """of all runs together, before they are divided among workers"""
    evaluation_counted: bool
    whole: bool
    """measured on one run from its start to its end, and not on steps of every variant"""
    peak_bytes: int
    """of one worker"""
    disk_bytes: float


def estimate(study: Study, *, data: DataRef | None, summary: Mapping[str, Any], device: str) -> Estimate:
    """Train a few steps of every variant, keep nothing, and extrapolate.

    A trainer that never calls `progress` cannot be stopped after a few steps: one run is trained to its end, and all
    others are taken to be like it. Short runs of a trainer of one's own are trained to their end, to check its answer.
    """
    share = TOTAL_SECONDS / len(study.compared)
    executor = LocalExecutor(_measure, workers=1, threads=study.run.threads, folders=study.trainer.folders)
    paces: dict[str, Pace] = {}
    peak = 0
    began = time.perf_counter()
    start = 0.0
    first = next(iter(study.compared))
    samples = {
        name: _Sample(
            trainer=study.trainer.path,
            variant=name,
            factors=arm.factors,
            recipe=arm.recipe,
            seed=study.seeds[0],
            data=data,
            device=device,
            threads=study.run.threads,
            seconds=share,
        )
        for name, arm in study.compared.items()
    }
    try:
        for name in (first, *study.compared):  # the first call of a worker loads what later ones find there
            measured = _result(executor, samples[name])
            if isinstance(measured, str):
                paces[name] = Pace(trouble=measured)
                break
            paces[name], used = measured
            peak = max(peak, used)
            if not start:
                start = time.perf_counter() - began
            if paces[name].note == WHOLE:
                paces = dict.fromkeys(study.compared, paces[name])
                break
        if study.trainer.path != DEFAULT_TRAINER and not any(pace.trouble for pace in paces.values()):
            paces |= _answers(executor, samples, paces)
    finally:
        executor.close()
    whole = paces[first].note == WHOLE  # that run was evaluated, too
    extra = {name: 0.0 if whole else _evaluation(study.compared[name], summary) for name in paces}
    times = {name: 1 + len(study.placebos) * (name == first) for name in paces}  # a placebo is the baseline once more
    training = sum(times[n] * p.steps * p.seconds_per_step * (1 + extra[n]) for n, p in paces.items())
    before = sum(times[n] * p.seconds_before for n, p in paces.items())
    seconds = len(study.seeds) * (training + before)
    steps = max(p.steps for p in paces.values())
    test = summary.get("splits", {}).get("test", {}).get("count", 0)
    record = FILES * BLOCK_BYTES + BYTES_PER_STEP * steps + BYTES_PER_PREDICTION * test
    return Estimate(
        paces=paces,
        start_seconds=start,
        seconds=seconds,
        whole=whole,
        evaluation_counted=whole or extra[first] > 0,
        peak_bytes=peak,
        disk_bytes=record * len(study.seeds) * len(study.arms),
    )


def _answers(
    executor: "Executor[_Sample, tuple[Pace, int]]", samples: "Mapping[str, _Sample]", paces: Mapping[str, Pace]
) -> dict[str, Pace]:
    """The paces of the variants of which a run was trained to its end, as long as `ANSWER_SECONDS` last."""
    seen: dict[str, Pace] = {}
    left = ANSWER_SECONDS
    for name, pace in paces.items():
        if pace.answered:
            continue
        left -= pace.run_seconds
        measured = _result(executor, replace(samples[name], seconds=math.inf)) if left > 0 else GIVEN_UP
        if measured == GIVEN_UP:
            break
        ended = Pace(trouble=measured) if isinstance(measured, str) else measured[0]
        seen[name] = replace(pace, trouble=ended.trouble, objective=ended.objective, answered=ended.answered)
        if ended.trouble:
            break
    return seen


def _evaluation(arm: Arm, summary: Mapping[str, Any]) -> float:
    """Time of evaluation over that of training, from the numbers of texts; 0 where they are not known."""
    counts = {name: split["count"] for name, split in summary.get("splits", {}).items()}
    epochs = getattr(arm.recipe, "epochs", 0)
    if not counts or not epochs:
        return 0.0
    read = epochs * counts["validation"] + counts["test"]
    return float(EVALUATION_SHARE * read / (epochs * counts["train"]))


@dataclass(frozen=True, kw_only=True)
class _Sample:
    """A run that is trained for a few steps, and at most so many seconds after the first; to its end if infinite."""

    trainer: str
    variant: str
    factors: Any
    recipe: Any
    seed: int
    data: DataRef | None
    device: str
    threads: int
    seconds: float


def _result(executor: Executor[_Sample, tuple[Pace, int]], sample: _Sample) -> tuple[Pace, int] | str:
    """The pace, and the bytes of memory of the worker; in words why there are none, where it died or takes too long."""
    executor.submit(sample)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        for ended in executor.wait(1.0):
            return "its worker died" if isinstance(ended, Broken) else ended[1]
    return GIVEN_UP


def _measure(sample: _Sample, coordinator: Coordinator) -> tuple[Pace, int]:
    entered = time.perf_counter()
    marks: list[float] = []
    total = 0

    def progress(step: int, steps: int, loss: float) -> None:
        nonlocal total
        if not marks:  # as in a run: what is no number ends it
            total = progress_of(step, steps, loss).steps
        marks.append(time.perf_counter())
        enough = sample.seconds < math.inf and (len(marks) > MOST_STEPS or marks[-1] - marks[0] > sample.seconds)
        if (enough and len(marks) > WARM_STEPS) or not coordinator.alive():
            raise Stopped

    job = Job(
        variant=sample.variant, factors=sample.factors, recipe=sample.recipe, seeds=(sample.seed,),
        run_ids=("estimate",), data=sample.data, device=sample.device, threads=sample.threads, progress=progress,
        log=lambda _line: None,
    )  # fmt: skip
    module, function = sample.trainer.split(":")
    outcome: Outcome | None = None
    try:
        with contextlib.redirect_stdout(Log()), contextlib.redirect_stderr(Log()):
            answer = getattr(importlib.import_module(module), function)(job)
            (outcome,) = outcomes_of(answer, job.run_ids)
    except Stopped:
        pass
    except BaseException as error:  # how a run of this variant would end
        text = str(error) if isinstance(error, AnswerError) else f"{type(error).__name__}: {error}"[:200]
        return Pace(steps=total, trouble=text), 0
    if outcome is not None and outcome.status not in RECORDED:
        return Pace(steps=total, trouble=outcome.reason or outcome.status), 0
    used = int(psutil.Process().memory_info().rss)
    shown = objective(outcome.metrics) if outcome is not None else None
    name = shown.name if shown is not None else ""
    if not marks:
        return Pace(
            steps=1, seconds_before=time.perf_counter() - entered, note=WHOLE, objective=name, answered=True
        ), used
    answered = outcome is not None
    if len(marks) < 2:
        before = time.perf_counter() - entered
        return Pace(steps=total, seconds_before=before, objective=name, answered=answered), used
    first = min(WARM_STEPS, len(marks) - 2)
    pace = (marks[-1] - marks[first]) / (len(marks) - 1 - first)
    return Pace(
        steps=total,
        seconds_per_step=pace,
        seconds_before=marks[0] - entered,
        objective=name,
        answered=answered,
    ), used
