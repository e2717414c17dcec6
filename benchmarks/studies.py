"""The costs of a study besides its training: the coordinator, the ledger, Optuna, evaluation, start-up."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.figure import Figure
from knockout.data.batches import load
from knockout.data.prepare import prepare
from knockout.job import DataSpec, Job
from knockout.sweep.execute import worker_environment
from knockout.train import train
from knockout.variants import VARIANTS, Recipe

REPOSITORY = Path(__file__).parents[1]
IDLE = 'question = "idle?"\ntrainer = "toy_trainer:train"\nvariants = ["up"]\nseeds = N\n'


def overhead_per_run(folder: Path) -> list[Figure]:
    """Milliseconds of coordinator, ledger and Optuna for a run that trains nothing: the slope from 20 to 220 runs."""
    seconds = {}
    for seeds in (10, 110):  # of two variants
        study = folder / f"idle_{seeds}.toml"
        study.write_text(IDLE.replace("N", str(seeds)), encoding="utf-8")
        times = [timed("run", str(study), "--results", str(folder / f"idle{i}"), "--workers", "1") for i in range(2)]
        seconds[seeds] = min(times)
    value = 1000 * (seconds[110] - seconds[10]) / 200
    parts = {f"{2 * seeds} runs": value for seeds, value in seconds.items()}
    return [Figure(what="overhead of one run", value=value, unit="ms", bar=15.0, least=False, parts=parts)]


def whole_study(folder: Path) -> list[Figure]:
    """The time of `ablations/quick.toml` with 3 of its 10 seeds, over its runs' training divided by the workers."""
    plan = REPOSITORY / "analysis" / "plan.toml"
    text = (REPOSITORY / "ablations" / "quick.toml").read_text(encoding="utf-8")
    study = folder / "whole.toml"
    fewer = text.replace("../analysis/plan.toml", str(plan)).replace("seeds = 10", "seeds = 3")
    study.write_text(fewer, encoding="utf-8")
    timed("check", str(study))  # prepares the data, which happens once and not for each study
    wall = timed("run", str(study), "--results", str(folder), "--workers", "2")
    outcomes = (folder / "whole" / "runs").glob("*/outcome.json")
    costs = [json.loads(path.read_text(encoding="utf-8"))["costs"] for path in outcomes]
    training, evaluation = (sum(c[f"{what}_seconds"] for c in costs) for what in ("train", "eval"))
    return [
        Figure(
            what="quick with 3 seeds / (training of its runs / 2 workers)",
            value=wall / (training / 2),
            unit="x",
            bar=1.15,
            least=False,
            parts={"whole study": wall, "training, all runs": training, "evaluation, all runs": evaluation},
        )
    ]


def evaluation(_folder: Path) -> list[Figure]:
    """Examples a second in evaluation over those in training, in one process with the environment of a worker."""
    figures = []
    for d_model in (64, 128):
        command = [sys.executable, "-m", "benchmarks.studies", str(d_model)]
        environment = os.environ | worker_environment(1)
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        rates = json.loads(done.stdout)
        what = f"evaluation over training, examples a second, rotten_tomatoes d{d_model} L2"
        value = rates["evaluation"] / rates["training"]
        parts = {f"{name}, examples/s": rate for name, rate in rates.items()}
        figures.append(Figure(what=what, value=value, unit="x", bar=3.0, parts=parts))
    return figures


def _rates(d_model: int) -> dict[str, float]:
    """Examples a second of the best of three runs."""
    ref = prepare(DataSpec(source="rotten_tomatoes")).ref
    data = load(ref.path, "cpu")
    job = Job(
        variant="baseline",
        factors=VARIANTS["baseline"],
        recipe=Recipe(d_model=d_model, d_ff=4 * d_model, epochs=1),
        seeds=(0,),
        run_ids=("bench",),
        data=ref,
        device="cpu",
        threads=1,
        progress=lambda _step, _steps, _loss: None,
        log=lambda _line: None,
    )
    costs = [train(job)[0].costs for _ in range(3)]
    return {
        "training": data.train.count / min(c["train_seconds"] for c in costs),
        "evaluation": (data.validation.count + data.test.count) / min(c["eval_seconds"] for c in costs),
    }


def start_up(_folder: Path) -> list[Figure]:
    """Which modules of torch the light verbs import, and the time of `knockout list` over that of its libraries."""
    count = 0
    for verb in ("--help", "list"):
        code = f"import sys; sys.argv = ['knockout', {verb!r}]\nfrom knockout.cli import main\n"
        code += "try:\n main()\nexcept SystemExit:\n pass\n"
        code += "print(sum(m == 'torch' or m.startswith('torch.') for m in sys.modules), file=sys.stderr)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        count += int(done.stderr.splitlines()[-1])
    listed = min(timed("list") for _ in range(5))
    times = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import typer, rich.table, rich.console"], check=True)
        times.append(time.perf_counter() - started)
    return [
        Figure(what="torch modules that --help and list import", value=count, unit="", bar=0.0, least=False, parts={}),
        Figure(
            what="knockout list over importing typer and rich",
            value=listed / min(times),
            unit="x",
            parts={"list": listed, "typer and rich": min(times)},
        ),
    ]


def timed(*arguments: str) -> float:
    """Seconds of one `knockout` command."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "tests" / "trainers")}
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "knockout", *arguments], check=True, env=environment, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - started


if __name__ == "__main__":
    print(json.dumps(_rates(int(sys.argv[1]))))
