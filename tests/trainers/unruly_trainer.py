"""A trainer without torch that treats its process badly: it hangs, forks and dies, or closes its output."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from knockout.job import Curve, Job, Outcome

VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Factors:
    effect: float = 0.0
    conduct: Literal["good", "hangs", "spins", "leaves_children", "closes_output", "closes_descriptors"] = "good"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    marks: str = ""  # a folder for marks of what happened


VARIANTS = {
    name: Factors(conduct=name) for name in ("hangs", "spins", "leaves_children", "closes_output", "closes_descriptors")
}


def train(job: Job) -> list[Outcome]:
    marks = Path(job.recipe.marks)
    match job.factors.conduct:
        case "hangs":
            time.sleep(600)
        case "spins":  # and never lets another thread of Python run
            sys.setswitchinterval(600)
            while True:
                pass
        case "leaves_children":
            child = os.fork()
            if child == 0:
                time.sleep(600)
                os._exit(0)
            elsewhere = subprocess.Popen(["sleep", "600"], start_new_session=True)
            with (marks / "children").open("a") as file:
                file.write(f"{child}\n{elsewhere.pid}\n")
            os._exit(3)
        case "closes_output":
            sys.stdout.close()
            sys.stderr.close()
        case "closes_descriptors":
            os.close(1)
            os.close(2)
    print("said after all")
    curve = Curve(loss=[1.0], learning_rate=[0.1], grad_norm=[1.0])
    counts: dict[str, float | int] = {"loss": 0.5, "correct": 70, "count": 100}
    metrics = {"validation": counts, "test": dict(counts)}
    return [Outcome(run_id=run_id, status="finished", metrics=metrics, curve=curve) for run_id in job.run_ids]
