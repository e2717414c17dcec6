"""A trainer that needs no package and returns odd answers on demand. It has no validation split and no predictions."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from knockout.job import Curve, Job, Outcome

VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Factors:
    answer: str = "good"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    progress: bool = True
    mended: bool = False  # every answer is good
    break_all: str = ""  # the answer of every variant, the baseline among them


def _good(job: Job) -> list[Outcome]:
    return [_outcome(job)]


def _outcome(job: Job, **test: Any) -> Outcome:
    correct = 120 + (7 * job.seeds[0] + len(job.variant)) % 40
    return Outcome(
        run_id=job.run_ids[0],
        status="finished",
        metrics={"test": {"loss": 0.5, "correct": correct, "count": 200, **test}},
        curve=Curve(loss=[1.0, 0.5], learning_rate=[0.1, 0.1], grad_norm=[1.0, 1.0]),
    )


def _bare_accuracy(job: Job) -> list[Outcome]:
    outcome = _outcome(job)
    outcome.metrics["test"] = {"accuracy": 0.83}
    return [outcome]


def _other_count(job: Job) -> list[Outcome]:
    return [_outcome(job, count=199 if job.seeds[0] else 200)]


def _other_folder(job: Job) -> list[Outcome]:
    os.chdir("/")
    return [_outcome(job)]


def _half_character(_: Job) -> Any:
    print("a file name that is not UTF-8: \udcff")
    raise ValueError("bad \udcff")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def _unprintable(_: Job) -> Any:
    raise Unprintable


ANSWERS: dict[str, Callable[[Job], Any]] = {
    "good": _good,
    "nothing": lambda _: None,
    "bare_accuracy": _bare_accuracy,
    "nan": lambda job: [_outcome(job, loss=math.nan)],
    "infinite_count": lambda job: [_outcome(job, count=math.inf)],
    "other_count": _other_count,
    "other_folder": _other_folder,
    "half_character": _half_character,
    "unprintable": _unprintable,
    "text_as_loss": _good,
}
VARIANTS = {name: Factors(answer=name) for name in ANSWERS if name != "good"}


def train(job: Job) -> Any:
    answer = job.recipe.break_all or job.factors.answer
    if job.recipe.progress:
        for step in (1, 2):
            loss: Any = "0.5" if answer == "text_as_loss" and not job.recipe.mended else 1 / step
            job.progress(step, 2, loss)
    return ANSWERS["good" if job.recipe.mended else answer](job)
