"""The trainer: what variants share, what a rerun repeats, what a record says."""

import concurrent.futures
import dataclasses
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
import torch

from knockout import train as trainer
from knockout.data.batches import Split, load
from knockout.data.prepare import prepare
from knockout.job import DataRef, DataSpec, Job, Outcome, Predictions, Stopped
from knockout.model.dropout import Dropout
from knockout.model.encoder import Encoder, initialise
from knockout.train import Meter
from knockout.variants import VARIANTS, VERSION, Factors, Recipe

GOLDEN = Path(__file__).with_name("golden.json")
RECIPE = Recipe(d_model=16, num_layers=2, d_ff=32, epochs=2, batch_size=32)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataRef]:
    """400 made sentences in which a word tells the label most of the time."""
    folder = tmp_path_factory.mktemp("data")
    draw = random.Random(0)
    rows = []
    for i in range(400):
        label = i % 2
        words = [f"w{draw.randrange(40)}" for _ in range(draw.randrange(3, 25))]
        words[draw.randrange(len(words))] = ("bad", "good")[label if draw.random() < 0.9 else 1 - label]
        rows.append({"text": f"{' '.join(words)} n{i}", "label": label})
    (folder / "made.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KNOCKOUT_CACHE", str(folder / "cache"))
        yield prepare(DataSpec(source=str(folder / "made.jsonl"), max_length=20)).ref


def job(data: DataRef, variant: str = "baseline", seeds: tuple[int, ...] = (0,), recipe: Recipe = RECIPE) -> Job:
    return Job(
        variant=variant,
        factors=VARIANTS[variant],
        recipe=recipe,
        seeds=seeds,
        run_ids=tuple(f"id{s}" for s in seeds),
        data=data,
        device="cpu",
        threads=1,
        progress=lambda _step, _steps, _loss: None,
        log=lambda _line: None,
    )


def numbers(outcome: Outcome) -> tuple[object, ...]:
    """All that has to be equal in a rerun; costs are not."""
    return outcome.status, outcome.metrics, outcome.curve, outcome.epochs, outcome.predictions


def test_a_run_repeats_bit_for_bit_alone_together_and_later(data: DataRef) -> None:
    first = numbers(trainer.train(job(data))[0])
    assert numbers(trainer.train(job(data))[0]) == first
    together = trainer.train(job(data, seeds=(1, 0)))
    assert numbers(together[1]) == first
    assert numbers(together[0])[1:] != first[1:]
    torch.manual_seed(99)  # no global generator is read
    torch.rand(100)
    assert numbers(trainer.train(job(data))[0]) == first


def test_a_run_repeats_in_another_process(data: DataRef) -> None:
    import multiprocessing

    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        other = pool.submit(_train_in_process, data.id, str(data.path)).result()
    assert other == numbers(trainer.train(job(data))[0])


def _train_in_process(data_id: str, path: str) -> tuple[object, ...]:
    return numbers(trainer.train(job(DataRef(id=data_id, path=Path(path))))[0])


def test_batches_and_steps_are_the_same_for_all_variants(data: DataRef, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, ...]] = []
    forward = Encoder.forward

    def spy(self: Encoder, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self.training:
            seen.append((*ids.shape, *ids.flatten().tolist()))
        return forward(self, ids, mask)

    monkeypatch.setattr(Encoder, "forward", spy)
    reference: list[tuple[int, ...]] = []
    steps = RECIPE.epochs * math.ceil(load(data.path, "cpu").train.count / RECIPE.batch_size)
    for variant in VARIANTS:
        seen.clear()
        (outcome,) = trainer.train(job(data, variant))
        reference = reference or list(seen)
        assert seen == reference, variant
        assert len(seen) == steps == len(outcome.curve.loss) == outcome.costs["steps"], variant
    trainer.train(job(data, seeds=(1,)))
    assert seen != reference  # a seed moves the order


def test_evaluation_does_not_touch_the_course_of_training(data: DataRef, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = trainer.train(job(data))[0].curve
    evaluate = trainer.evaluate

    def often(model: Encoder, split: object) -> object:
        for _ in range(3):
            evaluate(model, split)  # type: ignore[arg-type]
        return evaluate(model, split)  # type: ignore[arg-type]

    monkeypatch.setattr(trainer, "evaluate", often)
    assert trainer.train(job(data))[0].curve == expected


def test_the_record_agrees_with_itself_and_with_a_count_by_hand(data: DataRef) -> None:
    (outcome,) = trainer.train(job(data))
    test = load(data.path, "cpu").test
    predictions = outcome.predictions
    assert predictions is not None
    assert predictions.label == test.labels.tolist()
    assert outcome.metrics["test"]["correct"] == sum(
        p == y for p, y in zip(predictions.predicted, predictions.label, strict=True)
    )
    assert outcome.metrics["test"]["count"] == len(predictions.label) == test.count
    assert outcome.metrics["test"]["loss"] == pytest.approx(-sum(predictions.log_probability) / test.count)
    chance = [math.exp(v) for v in predictions.log_probability]
    assert all((c > 0.5) == (p == y) for c, p, y in zip(chance, predictions.predicted, predictions.label, strict=True))
    assert [e.epoch for e in outcome.epochs] == [1, 2]
    assert outcome.epochs[-1].correct == outcome.metrics["validation"]["correct"]
    assert outcome.curve.learning_rate[0] == pytest.approx(
        RECIPE.learning_rate / math.ceil(0.1 * outcome.costs["steps"])
    )
    assert outcome.costs["tokens"] == RECIPE.epochs * int(load(data.path, "cpu").train.lengths.sum())


def test_it_learns_what_is_there_to_learn(data: DataRef) -> None:
    recipe = dataclasses.replace(RECIPE, epochs=12, learning_rate=3e-3)
    (outcome,) = trainer.train(job(data, recipe=recipe))
    test = outcome.metrics["test"]
    assert test["correct"] / test["count"] > 0.75  # a word tells 90 %, a coin 50 %
    assert sum(outcome.curve.loss[-10:]) < 0.7 * sum(outcome.curve.loss[:10])


def test_bfloat16_learns_the_same_and_is_another_run(data: DataRef) -> None:
    full = trainer.train(job(data))[0]
    half = trainer.train(job(data, recipe=dataclasses.replace(RECIPE, precision="bfloat16")))[0]
    assert full.curve.loss != half.curve.loss
    assert full.curve.loss == pytest.approx(half.curve.loss, abs=0.05)  # bfloat16 has 8 bits: 0.4 % a number
    assert half.predictions is not None
    assert all(math.isfinite(v) for v in half.predictions.log_probability)


def test_a_step_is_one_step_of_adamw(data: DataRef) -> None:
    """The first update against the formula of Loshchilov & Hutter 2019, algorithm 2, on clipped gradients."""
    parameter_before: dict[str, torch.Tensor] = {}
    captured: dict[str, torch.Tensor] = {}
    model_of: list[Encoder] = []
    vector_of: list[torch.nn.Parameter] = []

    class StopAfterFirst(Exception):
        pass

    def progress(step: int, _steps: int, _loss: float) -> None:
        if step == 1:
            assert vector_of[0].grad is not None
            sizes = [parameter.numel() for parameter in model_of[0].parameters()]
            gradients = torch.split(vector_of[0].grad, sizes)
            for (name, parameter), gradient in zip(model_of[0].named_parameters(), gradients, strict=True):
                captured[name] = parameter.detach().clone()
                captured[f"grad {name}"] = gradient.view_as(parameter).clone()
            raise StopAfterFirst

    original, as_one_vector = initialise, trainer._as_one_vector

    def spy_vector(model: Encoder) -> tuple[list[torch.nn.Parameter], torch.nn.Parameter]:
        parameters, vector = as_one_vector(model)
        vector_of.append(vector)
        return parameters, vector

    def spy(model: Encoder, *, seed: int) -> None:
        original(model, seed=seed)
        model_of.append(model)
        parameter_before.update({n: p.detach().clone() for n, p in model.named_parameters()})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "initialise", spy)
        patch.setattr(trainer, "_as_one_vector", spy_vector)
        with pytest.raises(StopAfterFirst):
            trainer.train(dataclasses.replace(job(data), progress=progress))
    steps = RECIPE.epochs * math.ceil(load(data.path, "cpu").train.count / RECIPE.batch_size)
    rate = RECIPE.learning_rate / math.ceil(0.1 * steps)
    total = math.sqrt(sum(float((captured[f"grad {n}"] ** 2).sum()) for n in parameter_before))
    assert total <= 1.0 + 1e-4  # clip_norm
    for name, before in parameter_before.items():
        g = captured[f"grad {name}"]
        expected = before * (1 - rate * RECIPE.weight_decay) - rate * g / (g.abs() + 1e-8)
        torch.testing.assert_close(captured[name], expected, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("clip", [0.0, 0.05])
def test_clipping_acts_on_the_step_and_not_on_what_is_recorded(data: DataRef, clip: float) -> None:
    (usual,) = trainer.train(job(data))
    changed = dataclasses.replace(job(data), factors=Factors(clip_norm=clip))
    (outcome,) = trainer.train(changed)
    assert outcome.curve.grad_norm[0] == usual.curve.grad_norm[0] > 0.05
    acts = clip > 0 or max(usual.curve.grad_norm) > 1.0  # against the usual 1.0
    assert (outcome.curve.loss != usual.curve.loss) == acts


def test_divergence_is_a_result_that_stops_there(data: DataRef) -> None:
    recipe = dataclasses.replace(RECIPE, learning_rate=10.0, epochs=40)
    runaway = dataclasses.replace(job(data, recipe=recipe), factors=Factors(norm="post", warmup=0.0, clip_norm=0.0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "learning_rate", lambda *_a, **_k: 1e30)
        (outcome,) = trainer.train(runaway)
    assert outcome.status == "diverged"
    last = len(outcome.curve.loss)
    assert not (math.isfinite(outcome.curve.loss[-1]) and math.isfinite(outcome.curve.grad_norm[-1]))
    assert all(map(math.isfinite, outcome.curve.loss[:-1] + outcome.curve.grad_norm[:-1]))
    assert len(outcome.curve.grad_norm) == len(outcome.curve.learning_rate) == last == outcome.costs["steps"]
    assert f"not finite at step {last}" in outcome.reason
    assert outcome.metrics == {}
    assert outcome.predictions is None


def test_divergence_between_two_reads_from_a_gpu_names_its_step_and_leaves_a_whole_curve(
    data: DataRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seldom(*, steps: int, sync_every: int) -> Meter:
        return Meter(steps=steps, sync_every=50 * sync_every)

    monkeypatch.setattr(trainer, "Meter", seldom)
    steps = RECIPE.epochs * math.ceil(load(data.path, "cpu").train.count / RECIPE.batch_size)
    validation_losses(monkeypatch, [math.nan])
    (outcome,) = trainer.train(job(data))
    assert outcome.reason == "validation loss not finite after epoch 1 of 2"
    assert len(outcome.curve.loss) == len(outcome.curve.learning_rate) == steps / 2
    monkeypatch.setattr(trainer, "learning_rate", lambda *_a, **_k: 1e30)
    (outcome,) = trainer.train(dataclasses.replace(job(data), factors=Factors(norm="post", clip_norm=0.0)))
    assert outcome.reason == f"loss not finite at step {len(outcome.curve.loss)} of {steps}"
    assert len(outcome.curve.loss) == len(outcome.curve.learning_rate) == len(outcome.curve.grad_norm) < steps / 2


def validation_losses(monkeypatch: pytest.MonkeyPatch, losses: list[float]) -> None:
    """Let the validation split have these losses (nats per text) after one epoch and the next."""
    evaluate, left = trainer.evaluate, list(losses)

    def told(model: Encoder, split: Split) -> tuple[float, Predictions]:
        loss_sum, predictions = evaluate(model, split)
        return (left.pop(0) * split.count if left else loss_sum), predictions

    monkeypatch.setattr(trainer, "evaluate", told)


@pytest.mark.parametrize("weights", ["last", "best_validation"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_validation_loss_that_is_not_finite_is_divergence_and_no_best_epoch(
    bad: float, weights: Literal["last", "best_validation"], data: DataRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    validation_losses(monkeypatch, [0.5, bad, 0.6])
    (outcome,) = trainer.train(job(data, recipe=dataclasses.replace(RECIPE, epochs=3, weights=weights)))
    assert (outcome.status, outcome.reason) == ("diverged", "validation loss not finite after epoch 2 of 3")
    assert [e.loss for e in outcome.epochs] == [0.5]  # the record holds finite numbers only
    assert outcome.metrics == {}
    assert outcome.predictions is None
    assert len(outcome.curve.loss) == 2 * math.ceil(load(data.path, "cpu").train.count / RECIPE.batch_size)


@pytest.mark.parametrize("texts", [1, 7, 64])
def test_the_size_of_evaluation_batches_changes_no_metric(
    texts: int, data: DataRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss is a sum over texts divided by their number, not a mean of the means of batches."""
    (usual,) = trainer.train(job(data))
    longest = int(load(data.path, "cpu").test.lengths.max())
    monkeypatch.setattr(trainer, "EVALUATION_TOKENS", {"cpu": texts * longest})
    (other,) = trainer.train(job(data))
    for split in ("validation", "test"):
        assert other.metrics[split]["loss"] == pytest.approx(usual.metrics[split]["loss"], abs=1e-6)
        assert other.metrics[split]["correct"] == usual.metrics[split]["correct"]
        assert other.metrics[split]["count"] == usual.metrics[split]["count"]
    assert other.curve == usual.curve


def test_dropout_differs_from_step_to_step_and_repeats_in_a_rerun(
    data: DataRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[int, bytes]] = []
    forward = Dropout.forward

    def spy(self: Dropout, x: torch.Tensor) -> torch.Tensor:
        y = forward(self, x)
        if self.training:
            drawn.append((id(self), (y[:16, :3] == 0).numpy().tobytes()))
        return y

    monkeypatch.setattr(Dropout, "forward", spy)
    trainer.train(job(data))
    first = [mask for _, mask in drawn]
    steps = RECIPE.epochs * math.ceil(load(data.path, "cpu").train.count / RECIPE.batch_size)
    assert len(first) == len(set(first)) == steps * (1 + 2 * RECIPE.num_layers)  # over both epochs and all places
    drawn.clear()
    trainer.train(job(data))
    assert [mask for _, mask in drawn] == first


def test_three_seeds_of_one_job_are_the_three_alone(data: DataRef) -> None:
    together = [numbers(o) for o in trainer.train(job(data, seeds=(0, 1, 2)))]
    assert together == [numbers(trainer.train(job(data, seeds=(s,)))[0]) for s in (0, 1, 2)]
    assert len({str(told) for told in together}) == 3


def test_an_empty_text_is_scored_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A given test split is never changed: its empty text is one unknown token, which no mask hides."""
    monkeypatch.setenv("KNOCKOUT_CACHE", str(tmp_path / "cache"))
    for split, count in (("train", 200), ("validation", 60), ("test", 120)):
        rows = [{"text": f"{split} w{i % 9} n{i}", "label": i % 2} for i in range(count)]
        if split == "test":
            rows[7]["text"] = "<br />"
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    prepared = prepare(DataSpec(source=str(tmp_path), max_length=20))
    assert "1 empty texts of the given test split are kept as one unknown token each" in prepared.summary["notes"]
    for variant in VARIANTS:
        (outcome,) = trainer.train(job(prepared.ref, variant))
        assert outcome.status == "finished"
        assert outcome.predictions is not None
        assert len(outcome.predictions.log_probability) == 120
        assert all(map(math.isfinite, outcome.predictions.log_probability))


def test_best_validation_weights_are_those_of_the_best_epoch(data: DataRef) -> None:
    recipe = dataclasses.replace(RECIPE, epochs=6, learning_rate=2e-2, weights="best_validation")
    (outcome,) = trainer.train(job(data, recipe=recipe))
    correct = [e.correct for e in outcome.epochs]
    best = correct.index(max(correct))
    assert outcome.metrics["validation"]["correct"] == max(correct)
    (last,) = trainer.train(job(data, recipe=dataclasses.replace(recipe, weights="last")))
    assert last.curve == outcome.curve  # which weights are read does not change how they come about
    assert last.metrics["validation"]["correct"] == correct[-1]
    if best != len(correct) - 1:
        assert last.predictions != outcome.predictions


def test_progress_can_stop_a_run_at_any_step(data: DataRef) -> None:
    def progress(step: int, _steps: int, _loss: float) -> None:
        if step == 5:
            raise Stopped

    with pytest.raises(Stopped):
        trainer.train(dataclasses.replace(job(data), progress=progress))


def test_golden_losses_hold_until_version_is_raised() -> None:
    """20 steps of three variants on fixed random ids: whoever changes the numbers raises `variants.VERSION` and runs
    `python -m tests.test_train`, which writes the new ones."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert golden["version"] == VERSION, "VERSION was raised: write the golden losses anew (see the docstring)"
    for name, losses in golden["losses"].items():
        assert _golden(name) == pytest.approx(losses, rel=1e-5), name


def _golden(name: str) -> list[float]:
    model = Encoder(VARIANTS[name], Recipe(d_model=32), vocabulary=100, classes=2, max_length=16)
    initialise(model, seed=1)
    draw = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    losses = []
    for _ in range(20):
        lengths = torch.randint(1, 17, (16,), generator=draw)
        mask = torch.arange(16) < lengths[:, None]
        ids = torch.randint(1, 100, (16, 16), generator=draw) * mask
        loss = torch.nn.functional.cross_entropy(model(ids, mask), (ids.sum(1) % 2))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    names = ("baseline", "pool_cls", "no_residual_no_scale")
    told = {"version": VERSION, "losses": {name: _golden(name) for name in names}}
    GOLDEN.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
