"""The trainer: what variants share, what a rerun repeats, what a record says."""

import concurrent.futures
import dataclasses
import json
import math
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
import torch

from knockout import train as trainer
from knockout.data.batches import Data, Split, load
from knockout.data.prepare import prepare
from knockout.errors import UserError
from knockout.job import DataRef, DataSpec, Job, Outcome, Predictions, Stopped
from knockout.model.dropout import Dropout
from knockout.model.encoder import Encoder, initialise
from knockout.probing import Measuring
from knockout.train import Meter
from knockout.variants import VARIANTS, VERSION, Factors, Recipe, changes, faults

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


def unmeasured(patch: pytest.MonkeyPatch) -> None:
    """Let a run measure nothing besides its results."""
    for name in ("before_update", "after_step", "attend"):
        patch.setattr(Measuring, name, lambda *_args: None)


@dataclasses.dataclass
class Seen:
    """What a model of this test was built with, and the batches that it was given."""

    built: list[int] = dataclasses.field(default_factory=list)  # max_length
    training: list[tuple[torch.Tensor, torch.Tensor]] = dataclasses.field(default_factory=list)  # ids, mask
    evaluation: list[tuple[torch.Tensor, torch.Tensor]] = dataclasses.field(default_factory=list)

    def texts(self) -> list[list[list[int]]]:
        """The texts of the training batches, without padding."""
        return [[row[real].tolist() for row, real in zip(ids, mask, strict=True)] for ids, mask in self.training]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Put a bag of embeddings in the place of the encoder, for runs whose batches matter only."""
    kept = Seen()

    class Bag(torch.nn.Module):
        def __init__(
            self, factors: Factors, _recipe: Recipe, *, vocabulary: int, classes: int, max_length: int
        ) -> None:
            super().__init__()
            self.factors = factors
            self.embedding = torch.nn.Embedding(vocabulary, classes, padding_idx=0)
            kept.built.append(max_length)

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            (kept.training if self.training else kept.evaluation).append((ids, mask))
            states: torch.Tensor = self.embedding(ids)
            return states.sum(1)

    monkeypatch.setattr(trainer, "Encoder", Bag)
    unmeasured(monkeypatch)
    return kept


def run(data: DataRef, factors: Factors | None = None, recipe: Recipe = RECIPE, seed: int = 0) -> Outcome:
    """The outcome of one run with these factors."""
    (outcome,) = trainer.train(
        dataclasses.replace(job(data, seeds=(seed,), recipe=recipe), factors=factors or Factors())
    )
    return outcome


def test_batches_and_steps_are_the_same_for_all_variants_that_do_not_name_them(data: DataRef, seen: Seen) -> None:
    steps = RECIPE.epochs * math.ceil(load(data.path, "cpu").train.count / RECIPE.batch_size)
    marked = {f.name for f in dataclasses.fields(Factors) if f.metadata.get("batches")}
    assert marked == {"order", "drop_last"}
    reference: list[list[list[int]]] = []
    for variant, factors in VARIANTS.items():
        seen.training.clear()
        (outcome,) = trainer.train(job(data, variant))
        texts = seen.texts()
        reference = reference or texts
        changed = set(changes(factors))
        if changed & marked:
            assert texts != reference, variant
        elif "word_dropout" in changed:
            assert [list(map(len, batch)) for batch in texts] == [list(map(len, batch)) for batch in reference]
        else:
            assert texts == reference, variant
        if "drop_last" not in changed:
            assert len(texts) == steps == len(outcome.curve.loss) == outcome.costs["steps"], variant
    seen.training.clear()
    run(data, seed=1)
    assert seen.texts() != reference  # a seed moves the order


def test_cutting_texts_changes_no_batch(data: DataRef, seen: Seen) -> None:
    run(data)
    reference = seen.texts()
    for recipe in (dataclasses.replace(RECIPE, max_length=7), dataclasses.replace(RECIPE, train_length=7)):
        seen.training.clear()
        seen.evaluation.clear()
        run(data, recipe=recipe)
        assert seen.texts() == [[text[:7] for text in batch] for batch in reference]
        assert max(ids.shape[1] for ids, _ in seen.evaluation) == (7 if recipe.max_length else 20)
    assert seen.built == [20, 7, 7]  # the length of a table of positions is that of training


def test_max_length_is_preparing_the_data_with_that_length(data: DataRef, monkeypatch: pytest.MonkeyPatch) -> None:
    """The vocabulary is learned from whole texts, so it is the same; shuffled batches do not depend on lengths."""
    monkeypatch.setenv("KNOCKOUT_CACHE", str(data.path.parent.parent))
    short = prepare(DataSpec(source=str(data.path.parent.parent.parent / "made.jsonl"), max_length=7)).ref
    assert load(short.path, "cpu").vocabulary == load(data.path, "cpu").vocabulary
    factors = Factors(order="shuffled")
    cut = run(data, factors, dataclasses.replace(RECIPE, max_length=7))
    assert numbers(cut) == numbers(run(short, factors))
    assert cut.predictions != run(data, factors).predictions


@pytest.mark.parametrize(
    ("recipe", "text"),
    [
        (Recipe(max_length=21), "max_length = 21: texts have at most 20 tokens; raise max_length in [data]"),
        (Recipe(train_length=21), "train_length = 21: texts have at most 20 tokens; raise max_length in [data]"),
    ],
)
def test_a_length_above_that_of_the_data_is_an_error(data: DataRef, recipe: Recipe, text: str) -> None:
    with pytest.raises(UserError, match=f"^{re.escape(text)}$"):
        run(data, recipe=recipe)


def test_full_padding_pads_every_batch_to_max_length(data: DataRef, seen: Seen) -> None:
    full = Factors(padding="full")
    run(data, full)
    assert {ids.shape[1] for ids, _ in seen.training + seen.evaluation} == {20}
    seen.training.clear()
    seen.evaluation.clear()
    run(data, full, dataclasses.replace(RECIPE, max_length=12, train_length=9))
    assert {ids.shape[1] for ids, _ in seen.training} == {9}
    assert {ids.shape[1] for ids, _ in seen.evaluation} == {12}


def test_full_padding_changes_no_logit_where_padding_is_masked(data: DataRef) -> None:
    prepared, recipe = load(data.path, "cpu"), RECIPE
    model = Encoder(Factors(), recipe, vocabulary=prepared.vocabulary, classes=2, max_length=20)
    initialise(model, seed=0)
    losses = []
    for padding in ("batch", "full"):
        split = trainer.as_read(Factors(padding=padding), recipe, prepared).test
        losses.append(torch.tensor(trainer.evaluate(model, split)[1].log_probability))
    torch.testing.assert_close(*losses)


def test_growing_batches_in_a_run(data: DataRef, seen: Seen) -> None:
    recipe = dataclasses.replace(RECIPE, epochs=3, batch_size=32, initial_batch_size=8)
    told: list[tuple[int, int]] = []
    (outcome,) = trainer.train(
        dataclasses.replace(job(data, recipe=recipe), progress=lambda step, steps, _loss: told.append((step, steps)))
    )
    count = load(data.path, "cpu").train.count
    batches = seen.texts()
    sizes = [len(batch) for batch in batches]
    assert told == [(s, len(sizes)) for s in range(1, len(sizes) + 1)]
    ends = [epoch.step for epoch in outcome.epochs]
    assert ends[-1] == len(sizes) == outcome.costs["steps"]
    everything = sorted(text for batch in batches[: ends[0]] for text in batch)
    for start, end in zip([0, *ends], ends, strict=False):
        assert sum(sizes[start:end]) == count
        assert sorted(text for batch in batches[start:end] for text in batch) == everything
    for size in (8, 16, 32):
        assert abs(sum(s for s in sizes if s == size) - count) <= 2 * size
    assert outcome.curve.learning_rate[-1] < outcome.curve.learning_rate[len(sizes) // 2]


def test_drop_last_drops_the_partial_batch_of_each_epoch(data: DataRef, seen: Seen) -> None:
    count = load(data.path, "cpu").train.count
    assert count % RECIPE.batch_size
    outcome = run(data, Factors(drop_last=True))
    assert outcome.costs["steps"] == RECIPE.epochs * (count // RECIPE.batch_size)
    assert {len(batch) for batch in seen.texts()} == {RECIPE.batch_size}
    assert [epoch.step for epoch in outcome.epochs] == [count // RECIPE.batch_size, 2 * (count // RECIPE.batch_size)]
    with pytest.raises(UserError, match=f"drop_last: {count} training texts are fewer than one batch of 512"):
        run(data, Factors(drop_last=True), dataclasses.replace(RECIPE, batch_size=512))


def test_word_dropout_acts_in_training_and_never_in_evaluation(data: DataRef, seen: Seen) -> None:
    run(data)
    usual = Seen(training=list(seen.training), evaluation=list(seen.evaluation))
    seen.training.clear()
    seen.evaluation.clear()
    outcome = run(data, Factors(word_dropout=0.3))
    assert all(torch.equal(a, b) for (a, _), (b, _) in zip(usual.evaluation, seen.evaluation, strict=True))
    pairs = [(a[mask], b[mask]) for (a, mask), (b, _) in zip(usual.training, seen.training, strict=True)]
    before, after = (torch.cat(ids) for ids in zip(*pairs, strict=True))
    known = before != 1
    dropped, count = int((after[known] == 1).sum()), int(known.sum())
    assert abs(dropped - 0.3 * count) < 5 * math.sqrt(count * 0.3 * 0.7)
    assert torch.equal(after[after != 1], before[after != 1])
    seen.training.clear()
    assert numbers(run(data, Factors(word_dropout=0.3))) == numbers(outcome)


def test_label_smoothing_is_its_closed_form_in_training_and_absent_in_evaluation(
    data: DataRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Szegedy et al. 2016, 7: the target is (1 - a) of the label and a / C of every class."""
    logits: list[torch.Tensor] = []
    labels: list[torch.Tensor] = []
    forward, batch = Encoder.forward, Split.batch

    def spy(self: Encoder, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        logits.append(forward(self, ids, mask))
        return logits[-1]

    def spy_batch(self: Split, index: torch.Tensor, width: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        made = batch(self, index, width)
        labels.append(made[2])
        return made

    still = dataclasses.replace(RECIPE, epochs=1, learning_rate=1e-12)  # the weights stay as they start
    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "forward", spy)
        patch.setattr(Split, "batch", spy_batch)
        unmeasured(patch)
        smoothed = run(data, Factors(label_smoothing=0.2), still)
    labels = labels[-len(logits) :]  # those before are of the probe, which is read and not evaluated
    p = logits[0].detach().double().softmax(-1)
    of_label = p[torch.arange(len(p)), labels[0]].log()
    expected = -(0.8 * of_label + 0.2 * p.log().mean(-1)).mean()
    assert smoothed.curve.loss[0] == pytest.approx(float(expected), rel=1e-6)
    usual = run(data, Factors(), still)
    assert smoothed.curve.loss[0] != pytest.approx(usual.curve.loss[0], rel=1e-4)
    for split in ("validation", "test"):
        assert smoothed.metrics[split] == pytest.approx(usual.metrics[split], rel=1e-6)


@pytest.mark.parametrize("weights", ["last", "best_validation"])
def test_averaged_weights_are_those_of_a_loop_and_are_what_is_evaluated(
    weights: Literal["last", "best_validation"], data: DataRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    decay = 0.9
    vectors: list[torch.nn.Parameter] = []
    after_step: list[torch.Tensor] = []
    evaluated: list[torch.Tensor] = []
    as_one_vector, evaluate = trainer._as_one_vector, trainer.evaluate

    def spy_vector(model: Encoder) -> tuple[list[torch.nn.Parameter], torch.nn.Parameter]:
        parameters, vector = as_one_vector(model)
        vectors.append(vector)
        return parameters, vector

    def spy_evaluate(model: Encoder, split: Split) -> tuple[float, Predictions]:
        evaluated.append(torch.cat([p.detach().flatten() for p in model.parameters()]).double())
        return evaluate(model, split)

    recipe = dataclasses.replace(RECIPE, epochs=3, learning_rate=1e-2, weights=weights)
    usual = run(data, recipe=recipe)
    monkeypatch.setattr(trainer, "_as_one_vector", spy_vector)
    monkeypatch.setattr(trainer, "evaluate", spy_evaluate)
    (outcome,) = trainer.train(
        dataclasses.replace(
            job(data, recipe=recipe),
            factors=Factors(weight_averaging=decay),
            progress=lambda *_told: after_step.append(vectors[0].detach().double().clone()),
        )
    )
    assert outcome.curve == usual.curve  # training does not notice
    assert outcome.predictions != usual.predictions
    best = max(outcome.epochs, key=lambda epoch: epoch.correct)  # the first of several
    chosen = best if weights == "best_validation" else outcome.epochs[-1]
    for epoch, weights_then in zip([*outcome.epochs, chosen], evaluated, strict=True):
        share = [decay ** (epoch.step - s) for s in range(1, epoch.step + 1)]
        expected = sum(w * v for w, v in zip(share, after_step, strict=False)) / sum(share)
        torch.testing.assert_close(weights_then, expected, atol=1e-6, rtol=1e-5)
    assert outcome.metrics["validation"]["correct"] == chosen.correct


def test_a_run_with_onecycle_has_torchs_rates_and_betas(data: DataRef, monkeypatch: pytest.MonkeyPatch) -> None:
    optimizers: list[torch.optim.AdamW] = []
    betas: list[tuple[float, float]] = []
    build = trainer.build

    def spy(factors: Factors, recipe: Recipe, seed: int, data: Data, device: torch.device) -> trainer.Network:
        network = build(factors, recipe, seed, data, device)
        optimizers.append(network.optimizer)
        return network

    monkeypatch.setattr(trainer, "build", spy)
    (outcome,) = trainer.train(
        dataclasses.replace(
            job(data),
            factors=Factors(schedule="onecycle"),
            progress=lambda *_told: betas.append(optimizers[0].param_groups[0]["betas"]),
        )
    )
    reference = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        reference, max_lr=RECIPE.learning_rate, total_steps=int(outcome.costs["steps"]), pct_start=0.1
    )
    for rate, pair in zip(outcome.curve.learning_rate, betas, strict=True):
        assert (rate, pair) == (reference.param_groups[0]["lr"], reference.param_groups[0]["betas"])
        reference.step()
        scheduler.step()


def test_all_of_training_at_once_repeats_bit_for_bit(data: DataRef) -> None:
    factors = Factors(
        schedule="onecycle", label_smoothing=0.1, word_dropout=0.2, weight_averaging=0.9, order="shuffled",
        drop_last=True, padding="full",
    )  # fmt: skip
    recipe = dataclasses.replace(RECIPE, initial_batch_size=8, max_length=15)
    first = run(data, factors, recipe)
    assert first.status == "finished"
    assert numbers(run(data, factors, recipe)) == numbers(first)
    assert run(data, factors, recipe, seed=1).curve != first.curve


def test_faults_name_what_training_cannot_combine() -> None:
    def of(
        *, batch_size: int = 64, initial_batch_size: int = 0, max_length: int = 0, train_length: int = 0
    ) -> dict[str, str]:
        recipe = Recipe(
            batch_size=batch_size,
            initial_batch_size=initial_batch_size,
            max_length=max_length,
            train_length=train_length,
        )
        return faults(Factors(), recipe)

    assert of(initial_batch_size=16, batch_size=64) == of(initial_batch_size=64, batch_size=64) == {}
    for initial, batch_size in ((128, 64), (24, 64), (5, 60)):
        assert list(of(initial_batch_size=initial, batch_size=batch_size)) == ["initial_batch_size"]
    assert of(initial_batch_size=7, batch_size=60)["initial_batch_size"] == (
        "does not double to batch_size = 60; allowed: 0, 15, 30, 60"
    )
    assert of(initial_batch_size=15, batch_size=60) == {}
    assert list(of(max_length=10, train_length=11)) == ["train_length"]
    assert of(max_length=10, train_length=10) == of(train_length=11) == {}


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
        patch.setattr(trainer, "rate_and_beta1", lambda *_a, **_k: (1e30, 0.9))
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
    monkeypatch.setattr(trainer, "rate_and_beta1", lambda *_a, **_k: (1e30, 0.9))
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


@pytest.mark.long
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
        (outcome,) = trainer.train(job(prepared.ref, variant, recipe=dataclasses.replace(RECIPE, epochs=1)))
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
