"""What is measured of the built-in trainer: against torch's own counts, and against a clock whose times are known."""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from knockout import memory, train, train_profile
from knockout.data.batches import Split, load, training_batches
from knockout.data.prepare import prepare
from knockout.job import DataRef, DataSpec, Job
from knockout.model.encoder import Encoder
from knockout.train import Meter
from knockout.variants import Factors, Recipe

RECIPE = Recipe(d_model=16, num_layers=1, d_ff=32, epochs=2, batch_size=8)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataRef]:
    """300 texts of 1 to 12 words."""
    folder = tmp_path_factory.mktemp("data")
    rows = [
        {"text": " ".join(f"w{(i * j) % 29}" for j in range(1 + i % 12)) + f" n{i}", "label": i % 2} for i in range(300)
    ]
    (folder / "made.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KNOCKOUT_CACHE", str(folder / "cache"))
        yield prepare(DataSpec(source=str(folder / "made.jsonl"), max_length=10)).ref


def job(data: DataRef, recipe: Recipe = RECIPE, **factors: Any) -> Job:
    return Job(
        variant="baseline", factors=dataclasses.replace(Factors(), **factors), recipe=recipe, seeds=(3,),
        run_ids=("id",), data=data, device="cpu", threads=1, progress=lambda _step, _steps, _loss: None,
        log=lambda _line: None,
    )  # fmt: skip


@pytest.mark.parametrize("factors", [{}, {"position": "learned"}, {"pooling": "max"}])
def test_parameters_are_those_that_torch_counts(data: DataRef, factors: dict[str, Any]) -> None:
    given, texts = job(data, **factors), load(data.path, "cpu")
    model = Encoder(given.factors, RECIPE, vocabulary=texts.vocabulary, classes=2, max_length=texts.max_length)
    count = sum(p.numel() for p in model.parameters())
    assert train_profile.training(given)["parameters"] == count
    assert train_profile.evaluation(given)["parameters"] == count


@pytest.mark.parametrize("factors", [{}, {"word_dropout": 0.3}, {"order": "by_class"}, {"padding": "full"}])
def test_an_epoch_is_extrapolated_from_thirty_steps(
    data: DataRef, factors: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    calls: list[list[tuple[int, int]]] = []

    def trained(
        _job: Job,
        _f: Factors,
        _r: Recipe,
        _network: object,
        split: Split,
        batches: Sequence[NDArray[Any]],
        meter: Meter,
    ) -> None:
        nonlocal now
        calls.append([(len(batch), split.width(batch)) for batch in batches])
        now += 0.25 * len(batches)
        meter.tokens += sum(int(split.lengths[batch].sum()) for batch in batches)

    monkeypatch.setattr(train_profile, "train_epoch", trained)
    monkeypatch.setattr(train_profile, "clock", lambda: now)
    measured = train_profile.training(job(data, **factors))
    texts = load(data.path, "cpu").train
    steps = -(-texts.count // RECIPE.batch_size)
    assert (measured["timed_steps"], measured["steps_per_epoch"]) == (30, steps)
    assert measured["seconds_per_step"] == pytest.approx(0.25)
    assert measured["seconds_per_epoch"] == pytest.approx(0.25 * steps)
    assert measured["examples_per_second"] == pytest.approx(RECIPE.batch_size / 0.25, rel=0.05)  # one batch is smaller
    assert measured["tokens_per_second"] == pytest.approx(texts.lengths.mean() * RECIPE.batch_size / 0.25, rel=0.2)
    assert len(calls[0]) >= train_profile.WARM_STEPS
    shapes = [shape for call in calls for shape in call]
    warm = len(shapes) - 30
    assert warm >= len(set(shapes))  # each shape is met once before it is timed


def test_the_making_of_an_epochs_batches_counts(data: DataRef, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    made = training_batches

    def making(*arguments: Any, **keys: Any) -> Any:
        nonlocal now
        now += 7.0
        return made(*arguments, **keys)

    def trained(*arguments: Any) -> None:
        nonlocal now
        now += 0.5 * len(arguments[5])

    monkeypatch.setattr(train, "training_batches", making)
    monkeypatch.setattr(train_profile, "clock", lambda: now)
    monkeypatch.setattr(train_profile, "train_epoch", trained)
    measured = train_profile.training(job(data))
    assert measured["seconds_per_epoch"] == pytest.approx(7.0 + 0.5 * measured["steps_per_epoch"])


def test_steps_are_spread_over_all_epochs() -> None:
    spread = train_profile._spread([20, 40])
    assert sum(map(len, spread.values())) == 30
    assert (len(spread[1]), len(spread[2])) == (10, 20)
    assert train_profile._spread([2]) == {1: [0] * 15 + [1] * 15}  # a run of fewer steps repeats them


def test_latency_is_percentiles_over_the_stated_passes(data: DataRef, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    taken = {1: draw.exponential(0.01, 200), 64: draw.exponential(0.1, 50)}
    times = np.concatenate([*taken.values()])
    ticks = iter(np.stack([np.zeros_like(times), times], 1).ravel())
    seen: list[int] = []
    forward = Encoder.forward

    def counting(model: Encoder, ids: Any, mask: Any) -> Any:
        assert not model.training
        seen.append(len(ids))
        return forward(model, ids, mask)

    monkeypatch.setattr(train_profile, "clock", lambda: float(next(ticks)))
    monkeypatch.setattr(Encoder, "forward", counting)
    measured = train_profile.evaluation(job(data))
    assert next(ticks, None) is None
    for size, seconds in taken.items():
        assert measured[f"latency_{size}_passes"] == len(seconds)
        assert seen.count(size) > len(seconds)  # and those that were not timed
        for share in (50, 95):
            assert measured[f"latency_{size}_p{share}_ms"] == pytest.approx(1000 * np.percentile(seconds, share))


def test_memory_holds_at_least_what_the_model_needs(data: DataRef, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_profile, "PASSES", {1: 2, 64: 1})
    monkeypatch.setattr(train_profile, "TIMED_STEPS", 2)
    large = dataclasses.replace(RECIPE, d_model=128, d_ff=32768)  # 34 MB of weights in two matrices
    evaluated = train_profile.evaluation(job(data, large))
    weights = 4 * evaluated["parameters"]
    assert weights > 33e6
    assert evaluated["evaluation_above_idle_bytes"] > 0.9 * weights
    trained = train_profile.training(job(data, large))
    assert trained["train_above_idle_bytes"] > 0.9 * 4 * weights  # gradients and AdamW's two moments
    assert trained["train_peak_bytes"] == trained["train_idle_bytes"] + trained["train_above_idle_bytes"]


def test_the_peak_of_a_process_outlasts_what_made_it() -> None:
    before = memory.resident_bytes()
    memory.reset_peak()
    np.ones(10**8, dtype=np.uint8).sum()
    assert memory.peak_bytes() >= before + 0.9 * 10**8
