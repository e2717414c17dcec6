"""What the built-in trainer measures besides its results, and that no result depends on it."""

import dataclasses
import itertools
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from knockout import probing
from knockout import train as trainer
from knockout.data.batches import load, words
from knockout.data.prepare import prepare
from knockout.job import EMBEDDING, HEAD, QUANTITIES, DataRef, DataSpec, Job, Layers, Outcome, Probe
from knockout.model.dropout import Dropout
from knockout.model.encoder import Encoder, initialise
from knockout.probing import (
    Measuring,
    attention_quantities,
    layer_steps,
    probe_steps,
    probe_texts,
    rank_residual,
    shown_texts,
    still,
    watched,
)
from knockout.schedules import rate_and_beta1
from knockout.variants import VARIANTS, Factors, Recipe

RECIPE = Recipe(d_model=16, num_layers=2, d_ff=32, epochs=2, batch_size=32)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataRef]:
    folder = tmp_path_factory.mktemp("data")
    draw = random.Random(0)
    rows = []
    for i in range(400):
        texts = [f"w{draw.randrange(40)}" for _ in range(draw.randrange(3, 25))]
        texts[draw.randrange(len(texts))] = ("bad", "good")[i % 2]
        rows.append({"text": f"{' '.join(texts)} n{i}", "label": i % 2})
    (folder / "made.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KNOCKOUT_CACHE", str(folder / "cache"))
        yield prepare(DataSpec(source=str(folder / "made.jsonl"), max_length=20)).ref


def run(data: DataRef, factors: Factors | None = None, recipe: Recipe = RECIPE, seed: int = 0) -> Outcome:
    (outcome,) = trainer.train(
        Job(
            variant="any",
            factors=factors or Factors(),
            recipe=recipe,
            seeds=(seed,),
            run_ids=("id",),
            data=data,
            device="cpu",
            threads=1,
            progress=lambda _step, _steps, _loss: None,
            log=lambda _line: None,
        )
    )
    return outcome


def measured(outcome: Outcome) -> tuple[Probe, Layers]:
    assert outcome.probe is not None
    assert outcome.layers is not None
    return outcome.probe, outcome.layers


def values(layers: Layers, quantity: str) -> dict[tuple[int, int], float]:
    """(step, layer) -> value"""
    rows = zip(layers.step, layers.quantity, layers.layer, layers.value, strict=True)
    return {(step, layer): value for step, name, layer, value in rows if name == quantity}


# --- no result depends on it --------------------------------------------------------------------------------------

STREAMS = ("baseline", "dropout_at_test", "attention_dropout", "checkpointing", "weight_averaging", "rope", "t5_bias")


@pytest.mark.parametrize("name", [*STREAMS, "bilstm", "best"])
def test_losses_and_predictions_are_the_same_bits_with_and_without_measuring(
    name: str, data: DataRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    factors = Factors(encoder="bilstm") if name == "bilstm" else VARIANTS.get(name, Factors())
    recipe = dataclasses.replace(RECIPE, weights="best_validation" if name == "best" else "last")
    with_it = run(data, factors, recipe)
    probe, layers = measured(with_it)
    assert len(probe.step) >= 2
    assert layers.step
    for method in ("before_update", "after_step", "attend"):
        monkeypatch.setattr(Measuring, method, lambda *_: None)
    without = run(data, factors, recipe)
    for field in ("status", "metrics", "curve", "epochs", "predictions"):
        assert getattr(with_it, field) == getattr(without, field), field


@pytest.mark.long
def test_no_variant_has_other_results_for_being_measured(data: DataRef, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = dataclasses.replace(RECIPE, epochs=1)
    with_it = {name: run(data, factors, recipe) for name, factors in VARIANTS.items()}
    for method in ("before_update", "after_step", "attend"):
        monkeypatch.setattr(Measuring, method, lambda *_: None)
    for name, factors in VARIANTS.items():
        without = run(data, factors, recipe)
        assert (with_it[name].curve, with_it[name].predictions) == (without.curve, without.predictions), name


def test_no_random_number_is_drawn_and_the_model_is_as_it_was() -> None:
    factors = Factors(dropout_at_test=True, attention_dropout=True)
    model = Encoder(factors, RECIPE, vocabulary=20, classes=2, max_length=6)
    initialise(model, seed=0)
    model.train()
    dropouts = [module for module in model.modules() if isinstance(module, Dropout)]

    def states() -> list[bytes]:
        streams = itertools.chain.from_iterable((d.generator, d.at_test) for d in dropouts)
        return [s.get_state().numpy().tobytes() for s in (*streams, torch.default_generator) if s is not None]

    before, ids = states(), torch.randint(1, 20, (3, 6), generator=torch.Generator().manual_seed(0))
    with still(model):
        assert torch.equal(model(ids, ids > 0), model(ids, ids > 0))
        assert not model.training
    watched(model, ids, ids > 0)
    assert states() == before
    assert all(module.training for module in model.modules())
    assert all(d.at_test is not None for d in dropouts)


# --- the probe ----------------------------------------------------------------------------------------------------


def test_the_probe_is_the_evaluation_of_the_same_training_texts_from_the_initial_to_the_last_weights(
    data: DataRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[trainer.Network] = []
    build = trainer.build

    def spy(*args: Any) -> trainer.Network:
        built.append(build(*args))
        return built[-1]

    monkeypatch.setattr(trainer, "build", spy)
    factors = Factors(label_smoothing=0.2, word_dropout=0.5, weight_averaging=0.9)
    probe, _ = measured(run(data, factors))
    texts = load(data.path, "cpu")
    initial = trainer.build(factors, RECIPE, 0, trainer.as_read(factors, RECIPE, texts), torch.device("cpu"))
    chosen = probe_texts(texts.train.count)
    assert len(set(chosen)) == probe.count == 128
    labels = texts.train.labels.numpy()[chosen]
    for network, place in ((initial, 0), (built[0], -1)):  # the current weights, not their average
        with still(network.model):
            rows = [texts.train.batch(torch.tensor([i]), int(texts.train.lengths[i]))[:2] for i in chosen]
            logits = torch.cat([network.model(*row) for row in rows]).double()
        log_p = logits.log_softmax(-1).numpy()[np.arange(128), labels]
        assert probe.loss[place] == pytest.approx(-log_p.mean(), rel=1e-5)
        assert probe.correct[place] == (logits.argmax(-1).numpy() == labels).sum()
    assert probe.step[0] == 0


def test_seeds_and_variants_share_the_texts_and_steps_of_the_probe(data: DataRef) -> None:
    usual, _ = measured(run(data))
    for factors, seed in ((Factors(), 1), (Factors(position="none"), 0), (Factors(dropout=0.0), 2)):
        probe, layers = measured(run(data, factors, seed=seed))
        assert (probe.step, probe.count) == (usual.step, usual.count)
        assert set(layers.quantity) == set(QUANTITIES)


@pytest.mark.parametrize("steps", [1, 2, 3, 99, 100, 101, 261, 2000, 20_000])
def test_steps_are_even_end_with_the_last_and_cost_no_more_than_their_share(steps: int) -> None:
    trained = steps * 64
    at = probe_steps(steps, trained, 128)
    assert (at[0], at[-1]) == (0, steps)
    apart = np.diff(at)
    assert apart.min() >= 1
    assert apart.max() - apart.min() <= 1
    assert len(at) == 2 or (len(at) - 1) * 128 <= 0.1 * trained
    assert len(at) <= 201
    logs = layer_steps(steps)
    assert min(logs) == 1
    assert max(logs) == steps
    assert {1, 2, 4, 64, 100, 128} & set(range(1, steps + 1)) <= logs
    assert len(logs) <= math.log2(steps) + 3


# --- gradients ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "factors",
    [Factors(), Factors(encoder="bilstm"), Factors(encoder="bag"), Factors(position="t5", pooling="attention")],
    ids=["transformer", "bilstm", "bag", "t5"],
)
def test_the_squares_of_all_groups_add_up_to_the_gradient_norm_of_the_step(factors: Factors, data: DataRef) -> None:
    outcome = run(data, factors)
    _, layers = measured(outcome)
    gradients = values(layers, "gradient")
    depth = {"transformer": 2, "bilstm": 2, "bag": 0}[factors.encoder]
    assert {layer for _, layer in gradients} == {EMBEDDING, HEAD, *range(depth)}
    steps = {step for step, _ in gradients}
    assert steps == layer_steps(len(outcome.curve.loss))
    for step in steps:
        total = math.sqrt(sum(v * v for (s, _), v in gradients.items() if s == step))
        assert total == pytest.approx(outcome.curve.grad_norm[step - 1], rel=1e-5)
    of_ffn = values(layers, "ffn_output_gradient")
    assert {layer for _, layer in of_ffn} == (set(range(2)) if factors.encoder == "transformer" else set())
    assert all(0 < value <= gradients[key] for key, value in of_ffn.items())


# --- attention ----------------------------------------------------------------------------------------------------

ATTENTION = {
    **{f"position {kind}": {"position": kind} for kind in ("sinusoidal", "learned", "none", "rope", "alibi", "t5")},
    **{f"mask {fill}": {"mask_fill": fill} for fill in ("minus_infinity", "minus_1e9", "after_softmax")},
    **{f"projections {kind}": {"projections": kind} for kind in ("separate", "tied_qk", "shared")},
    "by row": {"position": "sinusoidal_by_row"},
    "no scale": {"scale": "none"},
    "qk_norm": {"qk_norm": True},
    "qk_norm, tied, rope": {"qk_norm": True, "projections": "tied_qk", "position": "rope"},
    "one head": {"num_heads": 1},
    "large heads": {"num_heads": 2, "head_size": 32},
    "dropout on weights": {"attention_dropout": True},
    "no mask": {"attention_mask": False},
    "no mask, alibi": {"attention_mask": False, "position": "alibi"},
    "[CLS]": {"pooling": "cls", "position": "t5"},
    "after softmax, alibi": {"mask_fill": "after_softmax", "position": "alibi", "attention_dropout": True},
    "post": {"norm": "post", "residual": False},
}


@pytest.mark.parametrize("length", [7, 70])  # weights in memory, and flash attention
@pytest.mark.parametrize("changes", ATTENTION.values(), ids=ATTENTION)
def test_softmax_of_the_logits_is_what_each_layer_attends_with(changes: dict[str, Any], length: int) -> None:
    factors = Factors(**{"initialisation": "torch", **changes})
    model = Encoder(factors, RECIPE, vocabulary=30, classes=2, max_length=length)
    initialise(model, seed=3)
    model.eval()
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=draw))  # so that weights are not all alike
    mask = torch.arange(length) < torch.tensor([length, 4, 1])[:, None]
    ids = torch.randint(1, 30, mask.shape, generator=draw) * mask
    calls: list[tuple[torch.nn.Module, tuple[Any, ...], torch.Tensor]] = []
    hooks = [
        layer.attention.register_forward_hook(lambda *told: calls.append(told))  # type: ignore[union-attr]
        for layer in model.layers
    ]
    with torch.no_grad():
        model(ids, mask)
    for hook in hooks:
        hook.remove()
    layers = watched(model, ids, mask)
    assert len(layers) == len(calls) == 2
    for layer, (module, inputs, output) in zip(layers, calls, strict=True):
        assert layer.logits is not None
        assert layer.weights is not None
        x, keys, _ = inputs
        value = module.project(x).detach().unflatten(-1, (3, module.num_heads, -1))[:, :, 2]  # type: ignore[operator]
        mixed = torch.einsum("bhqk,bkhd->bqhd", layer.weights, value).flatten(2)
        torch.testing.assert_close(module.out(mixed).detach(), output, atol=2e-5, rtol=1e-4)  # type: ignore[operator]
        hidden = torch.zeros_like(mask[:1, :1]) if keys is None else ~keys[:, None, None]
        if factors.mask_fill == "after_softmax":
            expected = layer.logits.double().softmax(-1).masked_fill(hidden, 0.0)
        else:
            expected = layer.logits.double().masked_fill(hidden, -math.inf).softmax(-1)
        torch.testing.assert_close(layer.weights.double(), expected, atol=1e-6, rtol=1e-4)
        assert (layer.keys is None) == (not factors.attention_mask)


def test_attention_quantities_are_those_of_a_count_by_hand() -> None:
    draw = torch.Generator().manual_seed(0)
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2, [True] + [False] * 4])
    logits = 3 * torch.randn(3, 2, 5, 5, generator=draw)
    logits[1, :, :, 3:] = 99.0  # padding, which must not count
    logits[0, 0, 0, 1] = -20.0
    logits[0, 1, 2, 3] = 15.0
    weights = logits.masked_fill(~real[:, None, None], -math.inf).softmax(-1)
    entropies, peaks = [], []
    for text, head in itertools.product((0, 1), (0, 1)):  # the third text has one token, and no choice
        n = int(real[text].sum())
        for row in weights[text, head, :n, :n].double().tolist():
            entropies.append(-sum(w * math.log(w) for w in row if w) / math.log(n))
            peaks.append(max(row) > 0.9)
    expected = (20.0, np.mean(entropies), np.mean(peaks))
    assert attention_quantities(logits, weights, real, real).tolist() == pytest.approx(expected, rel=1e-5)
    wide = torch.nn.functional.pad(weights, (0, 2, 0, 2)), torch.nn.functional.pad(logits, (0, 2, 0, 2), value=77.0)
    more = torch.nn.functional.pad(real, (0, 2))
    assert attention_quantities(wide[1], wide[0], more, more).tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("kind", "entropy", "peak"), [("even", 1.0, 0.0), ("one", 0.0, 1.0), ("left", 1.0, 0.0)])
def test_even_weights_have_all_the_entropy_and_one_key_none(kind: str, entropy: float, peak: float) -> None:
    real = torch.tensor([[True, True, True, True, False]])
    weights = torch.zeros(1, 2, 5, 5)
    weights[..., :4] = {"even": torch.full((4,), 0.25), "one": torch.eye(4)[2], "left": torch.full((4,), 0.2)}[kind]
    _, got_entropy, got_peak = attention_quantities(torch.zeros(1, 2, 5, 5), weights, real, real).tolist()
    assert (got_entropy, got_peak) == (pytest.approx(entropy), peak)


def test_rank_residual_is_zero_for_equal_tokens_and_that_of_numpy_else() -> None:
    real = torch.tensor([[True] * 4, [True] * 2 + [False] * 2])
    x = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    shares = []
    for text, n in ((0, 4), (1, 2)):
        own = x[text, :n].double().numpy()
        shares.append(np.linalg.norm(own - own.mean(0)) / np.linalg.norm(own))
    assert float(rank_residual(x, real)) == pytest.approx(np.mean(shares), rel=1e-5)
    assert float(rank_residual(7 * x, real)) == pytest.approx(np.mean(shares), rel=1e-5)  # no scale
    assert float(rank_residual(x[:, :1].expand(-1, 4, -1), real)) == pytest.approx(0.0, abs=1e-6)


def test_without_the_divisor_logits_are_larger_by_its_size_at_the_first_step(data: DataRef) -> None:
    one_head = Factors(num_heads=1)
    scaled, plain = (
        values(measured(run(data, f))[1], "attention_logit")[1, 0]
        for f in (one_head, dataclasses.replace(one_head, scale="none"))
    )
    assert plain == pytest.approx(4 * scaled, rel=1e-5)  # sqrt(16)


def test_systems_have_what_exists_there(data: DataRef) -> None:
    gradient, ffn, residual = "gradient", "ffn_output_gradient", "rank_residual"
    for factors, quantities in (
        (Factors(encoder="bilstm"), {gradient}),
        (Factors(encoder="bag"), {gradient}),
        (Factors(mixing="fourier"), {gradient, ffn, residual}),
        (Factors(mixing="none"), {gradient, ffn, residual}),
        (Factors(feed_forward=False), set(QUANTITIES) - {ffn}),
    ):
        outcome = run(data, factors)
        assert set(measured(outcome)[1].quantity) == quantities
        assert (outcome.attention is None) == ("attention_logit" not in quantities)


# --- attention maps -----------------------------------------------------------------------------------------------


def test_shown_are_the_first_short_texts_of_the_two_commonest_classes() -> None:
    labels = np.array([2, 0, 0, 1, 1, 1, 2, 2, 2, 2])
    lengths = np.array([30, 20, 5, 7, 17, 16, 4, 8, 9, 9])
    assert shown_texts(lengths, labels) == [7, 5]
    assert shown_texts(np.full(10, 30), labels) == [0, 3]  # none of 8 to 16: the shortest, and of equal ones the first
    assert shown_texts(np.where(lengths == 16, 3, 99), labels) == [5]  # texts that are too long are left out
    assert shown_texts(lengths[1:3], labels[1:3]) == [1]  # one class: the shorter of 20 and 5 tokens


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_the_maps_are_of_the_same_texts_with_their_words(pooling: Any, data: DataRef) -> None:
    texts = load(data.path, "cpu").test
    chosen = shown_texts(texts.lengths, texts.labels.numpy())
    recipe = dataclasses.replace(RECIPE, max_length=9)
    for factors, sizes in ((Factors(pooling=pooling), RECIPE), (Factors(pooling=pooling, padding="full"), recipe)):
        outcome = run(data, factors, sizes)
        assert outcome.attention is not None
        assert [text.example for text in outcome.attention.texts] == chosen
        for text in outcome.attention.texts:
            ids = texts.ids[texts.offsets[text.example] : texts.offsets[text.example + 1]].tolist()
            expected = [words(data.path)[i] for i in ids][: sizes.max_length or None]
            assert text.tokens == ["[CLS]"] * (pooling == "cls") + expected
            assert all(word[0] in "wbgn[" for word in text.tokens)
            weights = np.array(text.weights)
            assert weights.shape == (2, 8, len(text.tokens), len(text.tokens))
            np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=1e-5)


@pytest.mark.parametrize("tokens", ["word", "char", "bpe"])
def test_prepared_data_hold_their_tokens_as_texts(tokens: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KNOCKOUT_CACHE", str(tmp_path / "cache"))
    rows = [{"text": f"Ein schöner Film {'影片' * (i % 3)} <b> n{i}", "label": i % 2} for i in range(60)]
    (tmp_path / "made.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    ref = prepare(DataSpec(source=str(tmp_path / "made.jsonl"), tokens=tokens, vocabulary_size=400)).ref
    known, train = words(ref.path), load(ref.path, "cpu").train
    assert len(known) == load(ref.path, "cpu").vocabulary
    assert known[:2] == ["[PAD]", "[UNK]"]
    text = "".join(known[i] for i in train.ids[: train.offsets[1]].tolist())
    start = {"word": "einschönerfilm", "char": "EinschönerFilm", "bpe": " Ein schöner Film"}[tokens]
    assert text.startswith(start)


def test_data_without_tokens_have_their_numbers_shown(data: DataRef, tmp_path: Path) -> None:
    with np.load(data.path) as file:
        np.savez(tmp_path / "older.npz", **{name: file[name] for name in file.files if name != "words"})
    outcome = run(DataRef(id=data.id, path=tmp_path / "older.npz"))
    assert outcome.attention is not None
    assert all(token.isdecimal() for text in outcome.attention.texts for token in text.tokens)


# --- runs that diverge --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sync_every", [1, 50])  # as on a CPU, and as on a GPU
def test_a_run_that_diverges_keeps_what_it_has_until_then(
    sync_every: int, data: DataRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = trainer.Meter

    def spy(*, steps: int, sync_every: int, every: int = sync_every) -> trainer.Meter:
        return meter(steps=steps, sync_every=every * sync_every)

    monkeypatch.setattr(trainer, "Meter", spy)
    monkeypatch.setattr(probing, "SHARE", 10.0)  # a probe after every step
    usual, _ = measured(run(data))
    bad = 5
    monkeypatch.setattr(
        trainer, "rate_and_beta1", lambda f, step, **k: (1e30, 0.9) if step == bad else rate_and_beta1(f, step, **k)
    )
    outcome = run(data, Factors(norm="post"))
    last = len(outcome.curve.loss)
    probe, layers = measured(outcome)
    assert outcome.status == "diverged"
    assert probe.step == list(range(last))
    assert len(usual.step) == len(usual.loss) > last
    assert set(layers.step) == {1, 2, 4}
    assert outcome.attention is None
