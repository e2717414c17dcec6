"""What measuring adds to the time of a run: probe, layers and attention weights (`knockout.probing`).

Runs with and without take turns in one process with the environment of a worker, in pairs whose order is turned every
time. Counted is the processor time of a whole run, evaluation included; the figure is the median ratio of the pairs.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.figure import Figure
from benchmarks.studies import REPOSITORY
from knockout.data.prepare import prepare
from knockout.job import DataRef, Job
from knockout.probing import Measuring
from knockout.study import read_study
from knockout.sweep.execute import worker_environment
from knockout.train import train
from knockout.variants import Factors, Recipe

PAIRS = 7
BAR = 1.10


def measuring(_folder: Path) -> list[Figure]:
    """The ratio on the recipe of `quick`, and on a Post-LN of six layers with small batches."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.measuring"]
    variables = os.environ | worker_environment(1)
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True)
    told: dict[str, list[tuple[float, float]]] = json.loads(done.stdout.splitlines()[-1])
    figures = []
    for name, pairs in told.items():
        ratio = statistics.median(with_it / without for with_it, without in pairs)
        parts = {"with": statistics.median(a for a, _ in pairs), "without": statistics.median(b for _, b in pairs)}
        what = f"measuring, {name}: time of a run over that without"
        figures.append(Figure(what=what, value=ratio, unit="x", bar=BAR, least=False, parts=parts))
    return figures


def race() -> dict[str, list[tuple[float, float]]]:
    """Seconds of processor time of a run with and without measuring, pair by pair, of each recipe."""
    torch.set_num_threads(1)
    study = read_study(REPOSITORY / "ablations" / "quick.toml")
    assert study.data is not None
    ref = prepare(study.data).ref
    factors, recipe = study.baseline.factors, study.baseline.recipe
    assert isinstance(factors, Factors)
    assert isinstance(recipe, Recipe)
    cases = {
        "quick": (factors, recipe),
        "post-norm L6, batches of 32": (
            replace(factors, norm="post"),
            replace(recipe, num_layers=6, batch_size=32, epochs=1),
        ),
    }
    told = {}
    for name, (levels, sizes) in cases.items():
        seconds(levels, sizes, ref, measured=True)  # prepares kernels and memory
        told[name] = [_pair(levels, sizes, ref, turned=bool(i % 2)) for i in range(PAIRS)]
    return told


def _pair(factors: Factors, recipe: Recipe, ref: DataRef, *, turned: bool) -> tuple[float, float]:
    found = {measured: seconds(factors, recipe, ref, measured=measured) for measured in (turned, not turned)}
    return found[True], found[False]


def seconds(factors: Factors, recipe: Recipe, ref: DataRef, *, measured: bool) -> float:
    """Processor time of one run."""
    job = Job(
        variant="baseline", factors=factors, recipe=recipe, seeds=(0,), run_ids=("bench",), data=ref, device="cpu",
        threads=1, progress=lambda _step, _steps, _loss: None, log=lambda _line: None,
    )  # fmt: skip
    with contextlib.nullcontext() if measured else _unmeasured():
        started = time.process_time()
        train(job)
        return time.process_time() - started


@contextlib.contextmanager
def _unmeasured() -> Iterator[None]:
    """Within the block the trainer measures nothing."""
    names = ("before_update", "after_step", "attend")
    methods = {name: getattr(Measuring, name) for name in names}
    try:
        for name in names:
            setattr(Measuring, name, lambda *_: None)
        yield
    finally:
        for name, method in methods.items():
            setattr(Measuring, name, method)


if __name__ == "__main__":
    print(json.dumps(race()))
