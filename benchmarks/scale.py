"""`python -m benchmarks.scale`: how the time of a step grows with one quantity at a time; the figures of docs/scale.md.

Synthetic texts of exactly T tokens and a vocabulary of V, so that one quantity varies and all others stay fixed. The
exponent is the slope of log(seconds of a step) on log(quantity) between neighbouring values.
"""

import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from scipy.optimize import nnls

from knockout.job import DataRef, Job, Stopped
from knockout.sweep.execute import worker_environment
from knockout.train import train
from knockout.variants import VARIANTS, Recipe

REPOSITORY = Path(__file__).parents[1]
BASE: dict[str, Any] = {
    "d_model": 64,
    "num_layers": 2,
    "tokens": 32,
    "batch_size": 64,
    "vocabulary": 8000,
    "precision": "float32",
}
SWEEPS: dict[str, list[int]] = {
    "d_model": [32, 64, 128, 256, 512],
    "num_layers": [1, 2, 4, 8],
    "tokens": [8, 16, 32, 64, 128, 256, 512],
    "batch_size": [8, 16, 32, 64, 128, 256],
    "vocabulary": [2000, 8000, 32000, 128000],
}
SECONDS = 2.0


def measure(settings: dict[str, Any]) -> dict[str, float]:
    """Seconds of a step (the median after five), and bytes of the process, in this process."""
    torch.set_num_threads(1)
    T, V, B = settings["tokens"], settings["vocabulary"], settings["batch_size"]
    draw = np.random.default_rng(0)
    marks: list[float] = []

    def progress(_step: int, _steps: int, _loss: float) -> None:
        marks.append(time.perf_counter())
        if len(marks) > 8 and marks[-1] - marks[0] > SECONDS:
            raise Stopped

    with tempfile.TemporaryDirectory() as folder:
        arrays: dict[str, Any] = {"shape": np.array([V, 2, T])}
        for split, count in (("train", max(1024, 4 * B)), ("validation", 8), ("test", 8)):
            arrays[f"{split}_ids"] = draw.integers(2, V, count * T).astype(np.int32)
            arrays[f"{split}_offsets"] = np.arange(0, (count + 1) * T, T)
            arrays[f"{split}_labels"] = draw.integers(0, 2, count)
        path = Path(folder) / "made.npz"
        np.savez(path, allow_pickle=False, **arrays)
        recipe = Recipe(
            d_model=settings["d_model"], num_layers=settings["num_layers"], d_ff=4 * settings["d_model"], epochs=1000,
            batch_size=B, precision=settings["precision"],
        )  # fmt: skip
        job = Job(
            variant="baseline", factors=VARIANTS["baseline"], recipe=recipe, seeds=(0,), run_ids=("scale",),
            data=DataRef(id="made", path=path), device="cpu", threads=1, progress=progress, log=lambda _line: None,
        )  # fmt: skip
        with contextlib.suppress(Stopped):
            train(job)
    steps = np.diff(marks)[4:]
    return {"seconds": float(np.median(steps)), "bytes": float(psutil.Process().memory_info().rss)}


TERMS = ("1", "L", "LBT D^2", "LBT D", "LBT T", "VD")


def fit(told: dict[str, list[dict[str, float]]]) -> tuple[dict[str, float], float]:
    """Seconds of a step as a sum of `TERMS`, by non-negative least squares of relative errors; the largest error."""
    rows, seconds = [], []
    for name, points in told.items():
        for point in points:
            s = {**BASE, name: point[name]}
            L, B, T, D, V = (float(s[k]) for k in ("num_layers", "batch_size", "tokens", "d_model", "vocabulary"))
            rows.append([1.0, L, L * B * T * D * D, L * B * T * D, L * B * T * T, V * D])
            seconds.append(point["seconds"])
    relative = np.array(rows) / np.array(seconds)[:, None]
    found, _ = nnls(relative, np.ones(len(rows)))
    return dict(zip(TERMS, map(float, found), strict=True)), float(np.abs(relative @ found - 1).max())


def main() -> None:
    """Measure every point in a process of its own, print the table, and fit the formula."""
    told: dict[str, list[dict[str, float]]] = {}
    for name, values in SWEEPS.items():
        rows: list[dict[str, float]] = []
        for value in values:
            settings = json.dumps({**BASE, name: value})
            command = [sys.executable, "-m", "benchmarks.scale", settings]
            environment = os.environ | worker_environment(1)
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            row = {name: value, **json.loads(done.stdout)}
            if rows:
                row["exponent"] = math.log(row["seconds"] / rows[-1]["seconds"]) / math.log(value / rows[-1][name])
            rows.append(row)
            print(name, {k: f"{v:.4g}" for k, v in row.items()}, flush=True)
        told[name] = rows
    constants, worst = fit(told)
    print(constants, f"largest relative error {worst:.2f}")
    target = REPOSITORY / "results" / "benchmarks" / "scale.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    whole = {"base": BASE, "sweeps": told, "seconds of a step": constants, "largest relative error": worst}
    target.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(json.loads(sys.argv[1]))))
    else:
        main()
