"""A trainer without torch, for tests of the sweep: fast, deterministic, and misbehaving in every way on demand.

It is also the example of a trainer of one's own: Factors, Recipe, VERSION, and a function of a job.
"""

import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from knockout.job import Curve, Epoch, Job, Outcome, Predictions

VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Factors:
    effect: float = 0.0
    conduct: Literal[
        "good", "raises", "exits", "vanishes", "is_killed", "kills_once", "runs_out", "diverges", "breaks_once"
    ] = "good"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    steps: int = 5
    step_seconds: float = 0.0
    marks: str = ""  # a folder for marks of what happened once


VARIANTS = {
    "up": Factors(effect=0.1),
    "down": Factors(effect=-0.1),
    **{
        c: Factors(conduct=c)
        for c in ("raises", "exits", "vanishes", "is_killed", "kills_once", "runs_out", "diverges", "breaks_once")
    },
}


class Unpicklable(Exception):
    def __init__(self) -> None:
        super().__init__("no pickle of this")
        self.handle = open(os.devnull)  # noqa: SIM115


def train(job: Job) -> list[Outcome]:
    return [_run(job, seed, run_id) for seed, run_id in zip(job.seeds, job.run_ids, strict=True)]


def _once(job: Job, seed: int) -> bool:
    mark = Path(job.recipe.marks) / f"{job.variant}-{seed}"
    if mark.exists():
        return False
    mark.touch()
    return True


def _run(job: Job, seed: int, run_id: str) -> Outcome:
    draw = random.Random(seed)
    print("what a trainer prints goes into its log")
    curve = Curve(loss=[], learning_rate=[], grad_norm=[])
    for step in range(1, job.recipe.steps + 1):
        time.sleep(job.recipe.step_seconds)
        curve.loss.append(1.0 / step)
        curve.learning_rate.append(0.1)
        curve.grad_norm.append(draw.random())
        job.progress(step, job.recipe.steps, 1.0 / step)
        if step == 2:
            match job.factors.conduct:
                case "raises":
                    raise Unpicklable
                case "breaks_once" if _once(job, seed):
                    raise RuntimeError("broken this once")
                case "exits":
                    sys.exit(0)
                case "vanishes":
                    os._exit(0)
                case "is_killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "kills_once" if _once(job, seed):
                    os.kill(os.getpid(), signal.SIGKILL)
                case "runs_out":
                    raise MemoryError("no more of it")
                case "diverges":
                    curve.loss[-1] = float("nan")
                    return Outcome(
                        run_id=run_id,
                        status="diverged",
                        reason="loss not finite at step 2 of 5",
                        metrics={},
                        curve=curve,
                    )
    labels = [i % 2 for i in range(200)]
    predicted = [y if draw.random() < 0.7 + job.factors.effect else 1 - y for y in labels]
    correct = sum(p == y for p, y in zip(predicted, labels, strict=True))
    told: dict[str, float | int] = {"loss": 0.5, "correct": correct, "count": 200}
    return Outcome(
        run_id=run_id,
        status="finished",
        metrics={"validation": told, "test": dict(told)},
        curve=curve,
        epochs=[Epoch(epoch=1, step=job.recipe.steps, loss=0.5, correct=correct, count=200)],
        predictions=Predictions(label=labels, predicted=predicted, log_probability=[-0.5] * 200),
        costs={
            "train_seconds": 0.01,
            "eval_seconds": 0.0,
            "tokens": 1,
            "steps": job.recipe.steps,
            "parameters": 1,
            "peak_bytes": 1,
        },
    )
