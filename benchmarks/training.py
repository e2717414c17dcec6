"""Training against the tutorials' loop, Hugging Face's Trainer, a plain loop, and the matrix products alone.

Knockout and its limit run in one process with the environment of its workers. The other loops run in another process,
with their usual environment: the threads are the same, but only our workers make glibc keep freed memory. Within a
process the loops take turns. The best run of each counts, because the first runs prepare kernels and memory.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from benchmarks.figure import Figure
from benchmarks.peers import BATCH, DROPOUT, Sizes, hugging_face, plain, tutorial
from knockout.data.batches import Data, load, training_batches
from knockout.data.prepare import prepare
from knockout.data.sources import read_corpus
from knockout.job import DataRef, DataSpec, Job
from knockout.model import kernels
from knockout.sweep.execute import THREAD_VARIABLES, worker_environment
from knockout.train import train
from knockout.variants import VARIANTS, Recipe

IMDB = Path(__file__).parents[2] / "shared" / "data" / "imdb"
HEADS = VARIANTS["baseline"].num_heads


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model, the first so many training texts of a data set, and what it has to reach."""

    name: str
    source: str
    texts: int
    max_length: int
    d_model: int
    layers: int
    over_tutorial: float
    of_limit: float
    repeats: int  # of every contestant
    precision: str = "float32"


CASES = (
    Case(
        name="rotten_tomatoes d64 L2", source="rotten_tomatoes", texts=3200, max_length=256, d_model=64, layers=2,
        over_tutorial=4.0, of_limit=0.5, repeats=4,
    ),
    Case(
        name="rotten_tomatoes d128 L2", source="rotten_tomatoes", texts=3200, max_length=256, d_model=128, layers=2,
        over_tutorial=4.0, of_limit=0.65, repeats=4,
    ),
    Case(
        name="imdb d256 L3", source=str(IMDB), texts=256, max_length=256, d_model=256, layers=3,
        over_tutorial=3.0, of_limit=0.65, repeats=2,
    ),
)  # fmt: skip
OVER_PEERS = 1.5


def training(_folder: Path) -> list[Figure]:
    """All ratios of all cases. A case whose data are not here is left out, and says so."""
    figures: list[Figure] = []
    for number, case in enumerate(CASES):
        if case.source == str(IMDB) and not IMDB.is_dir():
            print(f"{case.name}: left out, no {IMDB}")
            continue
        told = _in_process(number, "ours") | _in_process(number, "peers")
        figures += _ratios(case, {name: min(values) for name, values in told.items()})
    return figures


def _in_process(number: int, group: str) -> dict[str, list[float]]:
    variables = worker_environment(1) if group == "ours" else dict.fromkeys(THREAD_VARIABLES, "1")
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.training", str(number), group]
    done = subprocess.run(command, env=os.environ | variables, stdout=subprocess.PIPE, text=True, check=True)
    told: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return told


def race(case: Case, group: str) -> dict[str, list[float]]:
    """Seconds of an epoch of every contestant of the group, in turn; and how much there is to do."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        texts, labels, ref = _slice(case, Path(folder))
        data = load(ref.path, "cpu")
        sizes = Sizes(
            D=case.d_model,
            heads=HEADS,
            layers=case.layers,
            d_ff=4 * case.d_model,
            longest=min(case.max_length, int(data.train.lengths.max())),
            vocabulary=data.vocabulary,
        )
        contestants: dict[str, Callable[[], float]] = {
            "plain loop": lambda: plain(data, sizes),
            "Hugging Face Trainer": lambda: hugging_face(data, sizes),
            "tutorials": lambda: tutorial(texts, labels, sizes),
        }
        if group == "ours":
            contestants = {"knockout": lambda: _ours(case, ref), "limit": lambda: _limit(data, sizes)}
            if case.d_model >= 256:
                contestants["bfloat16"] = lambda: _ours(replace(case, precision="bfloat16"), ref)
        seconds: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(case.repeats):
            for name, run in contestants.items():
                seconds[name].append(run())
        return seconds | {"operations": [_operations(data, sizes)]}


def _ratios(case: Case, best: dict[str, float]) -> list[Figure]:
    ours = best["knockout"]

    def over(name: str, bar: float) -> Figure:
        what = f"training, {case.name}: speed over {'the tutorials' if name == 'tutorials' else name}"
        rates = {f"{n}, examples/s": case.texts / best[n] for n in ("knockout", name)}
        return Figure(what=what, value=best[name] / ours, unit="x", bar=bar, parts=rates)

    share = Figure(
        what=f"training, {case.name}: share of the limit",
        value=best["limit"] / ours,
        unit="",
        bar=case.of_limit,
        parts={
            "knockout": ours,
            "its matrix products alone": best["limit"],
            "GFLOP/s of these": best["operations"] / best["limit"] / 1e9,
        },
    )
    figures = [
        over("tutorials", case.over_tutorial),
        over("Hugging Face Trainer", OVER_PEERS),
        over("plain loop", OVER_PEERS),
        share,
    ]
    if "bfloat16" in best:
        parts = {"float32": ours, "bfloat16": best["bfloat16"]}
        what = f"training, {case.name}: bfloat16 over float32"
        figures.append(Figure(what=what, value=ours / best["bfloat16"], unit="x", parts=parts))
    return figures


def _slice(case: Case, folder: Path) -> tuple[list[str], list[int], DataRef]:
    """So many training texts, evenly from the whole split, as a data set of their own, with a few to evaluate on."""
    corpus = read_corpus(DataSpec(source=case.source, max_length=case.max_length))
    chosen = {}
    for split, count in (("train", case.texts), ("validation", 64), ("test", 64)):
        texts = corpus.splits[split]
        step = len(texts.text) / min(count, len(texts.text))
        places = [int(i * step) for i in range(min(count, len(texts.text)))]
        chosen[split] = [(texts.text[i], texts.label[i]) for i in places]
        lines = [json.dumps({"text": text, "label": label}) for text, label in chosen[split]]
        (folder / f"{split}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    os.environ["KNOCKOUT_CACHE"] = str(folder / "cache")
    ref = prepare(DataSpec(source=str(folder), max_length=case.max_length)).ref
    return [text for text, _ in chosen["train"]], [label for _, label in chosen["train"]], ref


def _ours(case: Case, ref: DataRef) -> float:
    recipe = Recipe(
        d_model=case.d_model, num_layers=case.layers, d_ff=4 * case.d_model, epochs=1, batch_size=BATCH,
        precision="bfloat16" if case.precision == "bfloat16" else "float32",
    )  # fmt: skip
    factors = VARIANTS["baseline"]
    assert factors.dropout == DROPOUT
    job = Job(
        variant="baseline",
        factors=factors,
        recipe=recipe,
        seeds=(0,),
        run_ids=("bench",),
        data=ref,
        device="cpu",
        threads=1,
        progress=lambda _step, _steps, _loss: None,
        log=lambda _line: None,
    )
    (outcome,) = train(job)
    return float(outcome.costs["train_seconds"])


def _batches(data: Data) -> list[tuple[int, int]]:
    """(B, T) of every batch of one epoch."""
    batches = training_batches(data.train.lengths, batch_size=BATCH, seed=0, epoch=1)
    return [(len(batch), data.train.width(batch)) for batch in batches]


def _operations(data: Data, sizes: Sizes) -> float:
    linear = 4 * sizes.D * sizes.D + 2 * sizes.D * sizes.d_ff
    return float(sum(6 * sizes.layers * B * T * (linear + 2 * T * sizes.D) for B, T in _batches(data)))


def _limit(data: Data, sizes: Sizes) -> float:
    """Seconds of the matrix products of one epoch, on tensors that are there already, by the calls that train makes.

    For each linear map the product forwards, that for its input's gradient and that for its weights'; for attention two
    forwards and four backwards. Nothing else: no softmax, no norm, no optimiser, no embedding.
    """
    D, H, seconds = sizes.D, sizes.heads, 0.0
    maps = ((D, 3 * D), (D, D), (D, sizes.d_ff), (sizes.d_ff, D))
    for B, T in _batches(data):
        n, layers = B * T, range(sizes.layers)
        linear = [[(torch.randn(n, i), torch.randn(o, i), torch.randn(n, o)) for i, o in maps] for _ in layers]
        heads = [[torch.randn(B * H, T, D // H) for _ in range(3)] for _ in layers]
        weights = [torch.randn(B * H, T, T) for _ in layers]
        started = time.perf_counter()
        for layer in layers:  # forwards
            q, k, v = heads[layer]
            for x, w, _ in linear[layer]:
                kernels._product(x, w)
            torch.bmm(q, k.mT)
            kernels._times(weights[layer], v)
        for layer in reversed(layers):  # backwards
            q, k, dy = heads[layer]
            for x, w, g in linear[layer]:
                kernels._product(g, w.T)
                kernels._weight_gradient(g, x)
            torch.bmm(dy, k.mT)
            kernels._times(weights[layer], k)
            kernels._times(weights[layer].mT, q)
            kernels._times(weights[layer].mT, dy)
        seconds += time.perf_counter() - started
    return seconds


if __name__ == "__main__":
    print(json.dumps(race(CASES[int(sys.argv[1])], sys.argv[2])))
