"""`python -m benchmarks`: run every benchmark once and write `results/benchmarks/<machine>.{json,md}`.

Figures are ratios of times that were taken in the same minute of the same process or machine; absolute times of a
shared machine mean little, and stand beside the ratios only to tell what they are made of.
"""

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure: `value` is what the bar speaks of, `parts` what it was computed from (seconds, unless said)."""

    what: str
    value: float
    unit: str
    parts: dict[str, float]


def overhead_per_run(folder: Path) -> Figure:
    """Milliseconds of coordinator, ledger and Optuna for a run that trains nothing: the slope from 20 to 220 runs."""
    seconds = {}
    for seeds in (10, 110):  # of two variants
        study = folder / f"idle_{seeds}.toml"
        study.write_text(
            f'question = "idle?"\ntrainer = "toy_trainer:train"\nvariants = ["up"]\nseeds = {seeds}\n', encoding="utf-8"
        )
        seconds[seeds] = _timed("run", str(study), "--results", str(folder / "results"), "--workers", "1")
    return Figure(
        what="overhead of one run, one worker",
        value=1000 * (seconds[110] - seconds[10]) / 200,
        unit="ms",
        parts={f"{2 * seeds} runs": value for seeds, value in seconds.items()},
    )


def whole_study(folder: Path) -> Figure:
    """A whole study's time over the sum of its runs' own training and evaluation, divided by the workers."""
    study = folder / "whole.toml"
    text = (REPOSITORY / "ablations" / "smoke.toml").read_text(encoding="utf-8")
    plan = REPOSITORY / "analysis" / "plan.toml"
    study.write_text(
        text.replace("../analysis/plan.toml", str(plan)).replace("epochs = 2", "epochs = 6"), encoding="utf-8"
    )
    _timed("check", str(study))  # prepares the data, which happens once and not for each study
    wall = _timed("run", str(study), "--results", str(folder / "results"), "--workers", "2")
    outcomes = (folder / "results" / "whole" / "runs").glob("*/outcome.json")
    costs = [json.loads(path.read_text(encoding="utf-8"))["costs"] for path in outcomes]
    runs = sum(c["train_seconds"] + c["eval_seconds"] for c in costs)
    return Figure(
        what="a study of 12 short runs / (its runs / 2 workers)",
        value=wall / (runs / 2),
        unit="ratio",
        parts={"whole study": wall, "sum of runs": runs},
    )


def evaluation(folder: Path) -> Figure:
    """Examples a second in evaluation over examples a second in training, in one process."""
    from knockout.data.batches import load
    from knockout.data.prepare import prepare
    from knockout.job import DataSpec, Job
    from knockout.train import train
    from knockout.variants import VARIANTS, Recipe

    assert folder.is_dir()
    ref = prepare(DataSpec(source="rotten_tomatoes")).ref
    job = Job(
        variant="baseline",
        factors=VARIANTS["baseline"],
        recipe=Recipe(epochs=2),
        seeds=(0,),
        run_ids=("bench",),
        data=ref,
        device="cpu",
        threads=1,
        progress=lambda _step, _steps, _loss: None,
        log=lambda _line: None,
    )
    train(job)
    (outcome,) = train(job)
    data = load(ref.path, "cpu")
    trained = 2 * data.train.count / outcome.costs["train_seconds"]
    evaluated = (2 * data.validation.count + data.test.count) / outcome.costs["eval_seconds"]
    return Figure(
        what="evaluation / training, examples a second, d64 L2",
        value=evaluated / trained,
        unit="ratio",
        parts={"training, examples/s": trained, "evaluation, examples/s": evaluated},
    )


def start_up(folder: Path) -> Figure:
    """The time of `knockout list` over that of a Python that imports typer and rich alone."""
    assert folder.is_dir()
    listed = min(_timed("list") for _ in range(5))
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import typer, rich.table, rich.console"], check=True)
    bare = time.perf_counter() - started
    return Figure(what="knockout list / importing typer and rich", value=listed / bare, unit="ratio",
                  parts={"list": listed, "bare": bare})  # fmt: skip


def _timed(*arguments: str) -> float:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "tests" / "trainers")}
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "knockout", *arguments], check=True, env=environment, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - started


def main() -> None:
    """Run all and write the figures."""
    with tempfile.TemporaryDirectory() as folder:
        figures = [benchmark(Path(folder)) for benchmark in (overhead_per_run, whole_study, evaluation, start_up)]
    machine = re.sub(r"[^a-z0-9]+", "-", f"{platform.system()}-{platform.machine()}-{os.cpu_count()}-cores".lower())
    target = REPOSITORY / "results" / "benchmarks"
    target.mkdir(parents=True, exist_ok=True)
    rows = [f"| {f.what} | {f.value:.3g} {f.unit} | {_parts(f)} |" for f in figures]
    table = "\n".join(("| what | figure | made of |", "|---|---|---|", *rows))
    (target / f"{machine}.md").write_text(f"# Benchmarks on {machine}\n\n{table}\n", encoding="utf-8")
    told = json.dumps([asdict(f) for f in figures], indent=1)
    (target / f"{machine}.json").write_text(told + "\n", encoding="utf-8")
    print(table)


def _parts(figure: Figure) -> str:
    return ", ".join(f"{name}: {value:.4g}" for name, value in figure.parts.items())


if __name__ == "__main__":
    main()
