"""What each variant of a study costs when it is measured alone: `knockout profile`.

Each measurement has a worker process of its own, one after the other. All variants are measured in several rounds, in a
rotated order, since other programs share most machines: a slow minute then touches one round of some variants, and a
ratio to the baseline is taken within a round.
"""

import contextlib
import importlib
import platform
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from knockout import memory
from knockout.errors import UserError
from knockout.job import DataRef, Job, Stopped
from knockout.profile_table import NUMBERS, RANGED, ProfileRow, write_profile
from knockout.screen import open_closed
from knockout.study import Study, run_id
from knockout.sweep.execute import Broken, Executor, LocalExecutor
from knockout.sweep.machine import devices_of
from knockout.sweep.owner import Coordinator, hold, now
from knockout.sweep.survey import check_only, prepare_data
from knockout.sweep.work import Log, machine_of_worker, progress_of
from knockout.trainers import DEFAULT_TRAINER
from knockout.variants import BASELINE

ROUNDS = 3
MEASURING = "knockout.train_profile"
"""The module that measures the built-in trainer: named, not imported, like a trainer."""

OWN_WARM_STEPS, OWN_TIMED_STEPS = 5, 30
"""Of a trainer of one's own: the steps before the clock starts, and those that are timed."""

PATIENCE_SECONDS = 600.0
"""For one measurement of one variant."""

Part = Literal["training", "evaluation"]
Measured = Mapping[str, float]

clock = time.perf_counter


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One measurement of one variant."""

    part: Part
    trainer: str
    variant: str
    factors: Any
    recipe: Any
    seed: int
    data: DataRef | None
    device: str
    threads: int


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one measurement gave. `trouble` says in words why it gave nothing."""

    measured: Measured
    machine: Mapping[str, str]
    trouble: str = ""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What was measured, the baseline first. `path`: where it was written; `None` where only some variants were."""

    rows: tuple[ProfileRow, ...]
    own_trainer: bool
    path: Path | None


def profile_study(
    study: Study, *, root: Path, only: Sequence[str] = (), rounds: int = ROUNDS, say: Callable[[str], None]
) -> Profile:
    """Measure the baseline and every variant, or those of `only` beside the baseline, and write profile.csv.

    The study's folder is held meanwhile, so that no run of it shares the machine. `say` gets a line for each round.
    A table of some variants is returned and not written. Raises `FaultsError` for a variant that the study does not
    run, `HeldError` where the study is being run, `DataError`, and `RefusedError` without the device.
    """
    check_only(study, only)
    named = [name for name in study.compared if name == BASELINE or not only or name in only]
    data, device = prepare_data(study), devices_of(study)[0]
    own = study.trainer.path != DEFAULT_TRAINER
    parts: tuple[Part, ...] = ("training",) if own else ("training", "evaluation")
    root.mkdir(parents=True, exist_ok=True)
    answers: dict[tuple[str, Part], list[Answer]] = {}
    with hold(root, take_over=False):
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}: {len(named)} variants, one after the other")
            for name in rotated(named, number, rounds):
                for part in parts:
                    seen = answers.setdefault((name, part), [])
                    if seen and seen[-1].trouble:
                        continue
                    arm = study.compared[name]
                    sample = Sample(
                        part=part, trainer=study.trainer.path, variant=name, factors=arm.factors, recipe=arm.recipe,
                        seed=study.seeds[0], data=data.ref, device=device, threads=study.run.threads,
                    )  # fmt: skip
                    seen.append(_answer(study, sample))
        rows = profile_rows(
            {(name, part): [a for a in given if not a.trouble] for (name, part), given in answers.items()},
            ids={name: run_id(study, variant=name, seed=study.seeds[0], data_id=data.id) for name in named},
            troubles={
                name: "; ".join(a.trouble for part in parts for a in answers[name, part] if a.trouble) for name in named
            },
            threads=study.run.threads,
        )
        if not any(row.numbers.keys() & set(RANGED) for row in rows):
            raise UserError(f"nothing could be measured: {rows[0].texts['trouble']}")
        whole = len(named) == len(study.compared)
        return Profile(rows=rows, own_trainer=own, path=write_profile(root, rows) if whole else None)


def rotated(names: Sequence[str], number: int, rounds: int) -> list[str]:
    """The order of a round, counted from 0: each starts a share of the list further on."""
    start = number * len(names) // rounds
    return [*names[start:], *names[:start]]


def profile_rows(
    answers: Mapping[tuple[str, Part], Sequence[Answer]],
    *,
    ids: Mapping[str, str],
    troubles: Mapping[str, str],
    threads: int,
) -> tuple[ProfileRow, ...]:
    """One row for each variant: medians over the rounds, their range, and the ratios to the baseline round by round.

    `answers`: (variant, part) -> one for each round that was measured. Where a variant or the baseline was not measured
    in every round, the ratios are over the rounds that both have.
    """
    measured: dict[str, dict[str, list[float]]] = {name: {} for name in ids}
    machines: dict[str, Mapping[str, str]] = {name: {} for name in ids}
    for (name, _), given in answers.items():
        for answer in given:
            machines[name] = answer.machine
            for column, value in answer.measured.items():
                measured[name].setdefault(column, []).append(value)
    base = measured[BASELINE]
    rows = []
    for name, columns in measured.items():
        numbers: dict[str, float] = {"threads": threads}
        if columns:
            numbers["rounds"] = max(len(values) for column, values in columns.items() if column in RANGED)
        for column, values in columns.items():
            numbers[column] = statistics.median(values)
            if column in RANGED:
                numbers |= {f"{column}_low": min(values), f"{column}_high": max(values)}
                ratios = [a / b for a, b in zip(values, base.get(column, ()), strict=False) if b > 0]
                if ratios:
                    numbers[f"{column}_ratio"] = statistics.median(ratios)
                    numbers |= {f"{column}_ratio_low": min(ratios), f"{column}_ratio_high": max(ratios)}
        texts = {"trouble": troubles[name], "measured": now(), **machines[name]}
        numbers = {k: numbers[k] for k in NUMBERS if k in numbers}
        rows.append(ProfileRow(variant=name, run_id=ids[name], numbers=numbers, texts=texts))
    return tuple(rows)


def _answer(study: Study, sample: Sample) -> Answer:
    """One measurement, in a process of its own that ends with it."""
    executor: Executor[Sample, Answer] = LocalExecutor(
        measure, workers=1, threads=sample.threads, folders=study.trainer.folders
    )
    try:
        executor.submit(sample)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            for ended in executor.wait(1.0):
                if isinstance(ended, Broken):
                    return Answer(measured={}, machine={}, trouble=f"{sample.part}: its worker died ({ended.reason})")
                return ended[1]
    finally:
        executor.close()
    return Answer(
        measured={}, machine={}, trouble=f"{sample.part}: given up after {PATIENCE_SECONDS:.0f} s without enough steps"
    )


def measure(sample: Sample, coordinator: Coordinator) -> Answer:
    """What a worker does: measure one part of one variant."""
    own = sample.trainer != DEFAULT_TRAINER
    on_cpu = sample.device == "cpu"
    machine = machine_of_worker(sample.device) | ({"device_name": _processor()} if on_cpu else {})
    machine["memory_of"] = "" if own and not on_cpu else "allocator" if "cuda" in sample.device else "process"

    def progress(_step: int, _steps: int, _loss: float) -> None:
        if not coordinator.alive():
            raise Stopped

    job = Job(
        variant=sample.variant, factors=sample.factors, recipe=sample.recipe, seeds=(sample.seed,),
        run_ids=("profile",), data=sample.data, device=sample.device, threads=sample.threads, progress=progress,
        log=lambda _line: None,
    )  # fmt: skip
    try:
        with contextlib.redirect_stdout(Log()), contextlib.redirect_stderr(Log()):
            if own:
                measured = own_training(sample.trainer, job)
            else:
                measured = getattr(importlib.import_module(MEASURING), sample.part)(job)
    except BaseException as error:  # how a run of this variant would end
        line = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        return Answer(measured={}, machine=machine, trouble=f"{sample.part}: {line}")
    finally:
        open_closed()
    if not measured:
        why = "its trainer calls job.progress at fewer than three steps, so no step can be timed"
        return Answer(measured={}, machine=machine, trouble=f"{sample.part}: {why}")
    return Answer(measured=measured, machine=machine)


def _processor() -> str:
    """The name of the processor, or its architecture where the system does not say."""
    with contextlib.suppress(OSError):
        said = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
        if said:
            return " ".join(said[1].split())
    return platform.processor() or platform.machine()


def own_training(trainer: str, job: Job) -> dict[str, float]:
    """What the calls of `job.progress` tell of a trainer of one's own; empty where there are too few.

    Seconds of a step, and on the CPU the memory; with a field `epochs` in its recipe also seconds of an epoch.
    """
    module, function = trainer.split(":")
    train = getattr(importlib.import_module(module), function)
    marks: list[tuple[int, float]] = []
    total = 0

    def progress(step: int, steps: int, loss: float) -> None:
        nonlocal total
        job.progress(step, steps, loss)
        said = progress_of(step, steps, loss)
        total = said.steps
        marks.append((said.step, clock()))
        if said.step - marks[0][0] >= OWN_WARM_STEPS + OWN_TIMED_STEPS:
            raise Stopped

    idle = memory.resident_bytes()
    memory.reset_peak()
    with contextlib.suppress(Stopped):
        train(replace(job, progress=progress))
    peak = memory.peak_bytes()
    if len(marks) < 3:
        return {}
    last = marks[-1]
    warm = min(OWN_WARM_STEPS, (last[0] - marks[0][0]) // 2)  # of a run of few steps, half of them
    first = next((m for m in reversed(marks[:-1]) if m[0] - marks[0][0] <= warm), marks[0])
    steps = last[0] - first[0]
    if steps <= 0:
        return {}
    measured: dict[str, float] = {"timed_steps": steps, "seconds_per_step": (last[1] - first[1]) / steps}
    epochs = getattr(job.recipe, "epochs", 0)
    if isinstance(epochs, int) and epochs > 0:
        measured["steps_per_epoch"] = total / epochs
        measured["seconds_per_epoch"] = measured["seconds_per_step"] * total / epochs
    if job.device == "cpu":
        measured |= {"train_idle_bytes": idle, "train_peak_bytes": peak}
        measured["train_above_idle_bytes"] = max(0, peak - idle)
    return measured
