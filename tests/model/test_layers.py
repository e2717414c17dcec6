"""What a layer is made of: mixing, feed-forward network, norms, places of dropout, checkpointing."""

import dataclasses
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from knockout.model.dropout import Dropout
from knockout.model.encoder import Encoder, initialise
from knockout.model.fourier import Fourier
from knockout.model.layer import Layer, gated_size
from knockout.variants import VARIANTS, Factors

from .conftest import LENGTHS, MAX_LENGTH, RECIPE, Batch, build

BASELINE = VARIANTS["baseline"]


def first_layer(factors: Factors) -> Layer:
    layer = build(factors).layers[0]
    assert isinstance(layer, Layer)
    return layer


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# mixing


def test_fourier_is_the_double_sum_of_the_transform() -> None:
    """Lee-Thorp et al. 2022, equation 3, over tokens and features: the real part, term by term."""
    N, T, D = 7, 4, 6
    x = draw(1, T, D).double()
    expected = torch.zeros(T, D).double()
    for t in range(T):
        for d in range(D):
            for s in range(T):  # tokens T to N - 1 are 0
                for e in range(D):
                    expected[t, d] += x[0, s, e] * math.cos(2 * math.pi * (t * s / N + d * e / D))
    got = Fourier(N)(x, None)[0]
    torch.testing.assert_close(got * math.sqrt(N * D), expected)  # the unitary transform


def test_fourier_mixes_tokens_and_has_no_parameters() -> None:
    layer = first_layer(VARIANTS["fourier"])
    names = {n.split(".")[0] for n, _ in layer.named_parameters()}
    assert names == {"attention_norm", "ffn_in", "ffn_out", "ffn_norm"}
    x = draw(1, 5, RECIPE.d_model)
    changed = x.clone()
    changed[0, 3] = draw(RECIPE.d_model, seed=1)
    assert (layer(x, None) - layer(changed, None)).abs().amax(-1).min() > 1e-3  # every token sees the change


def test_fourier_leaves_padding_out_and_without_the_mask_does_not() -> None:
    mask = torch.tensor([[True, True, False]])
    x = draw(1, 3, 8)
    other = x.clone()
    other[0, 2] += 1
    module = Fourier(5)
    assert torch.equal(module(x, mask), module(other, mask))
    torch.testing.assert_close(module(x, mask)[:, :2], module(x[:, :2], None))
    assert (module(x, None) - module(other, None)).abs().max() > 1e-2


def test_fourier_takes_texts_beyond_its_length() -> None:
    x = draw(2, 9, 8)
    torch.testing.assert_close(Fourier(4)(x, None), torch.fft.fft2(x, norm="ortho").real)


def test_without_mixing_no_token_sees_another(batch: Batch) -> None:
    ids, mask = batch
    changed = ids.clone()
    changed[0, 4] = (changed[0, 4] + 7) % 40 + 2
    moved = {}
    for name in ("no_attention", "baseline", "fourier"):
        model = build(VARIANTS[name])
        difference = (model.states(ids, mask)[0] - model.states(changed, mask)[0]).abs().amax(-1)[0]
        moved[name] = (difference > 1e-5).nonzero().flatten().tolist()
    assert moved == {"no_attention": [4], "baseline": list(range(12)), "fourier": list(range(12))}
    layer = first_layer(VARIANTS["no_attention"])
    assert {n.split(".")[0] for n, _ in layer.named_parameters()} == {"ffn_in", "ffn_out", "ffn_norm"}


# feed-forward network


def test_without_the_ffn_a_layer_is_affine_in_one_token() -> None:
    """Attention over a text of one token returns its value: the network is what is not linear, beside the norms."""

    def bend(factors: Factors) -> float:
        layer = first_layer(dataclasses.replace(factors, norm="none"))
        a, b = draw(2, 1, 1, RECIPE.d_model) * 3
        bent = layer((a + b) / 2, None) - (layer(a, None) + layer(b, None)) / 2
        return float(bent.detach().abs().max())

    assert bend(VARIANTS["no_ffn"]) < 1e-5
    assert bend(BASELINE) > 1e-2
    names = {n.split(".")[0] for n, _ in first_layer(VARIANTS["no_ffn"]).named_parameters()}
    assert names == {"attention", "attention_norm"}


def test_swiglu_is_equation_6_of_shazeer() -> None:
    layer = first_layer(VARIANTS["swiglu"])
    assert layer.ffn_gate is not None
    x = draw(5, RECIPE.d_model)
    gate = x @ layer.ffn_gate.weight.T + layer.ffn_gate.bias
    swish = gate / (1 + (-gate).exp())
    expected = (swish * (x @ layer.ffn_in.weight.T + layer.ffn_in.bias)) @ layer.ffn_out.weight.T + layer.ffn_out.bias
    torch.testing.assert_close(layer.fed_forward(x), expected)


@pytest.mark.parametrize(("d_model", "d_ff"), [(64, 256), (32, 48), (256, 1024), (512, 2048), (2, 1), (7, 3)])
def test_swiglu_has_the_parameters_of_the_two_maps(d_model: int, d_ff: int) -> None:
    def count(hidden: int) -> int:
        return 2 * (d_model * hidden + hidden) + hidden * d_model + d_model

    two = d_model * d_ff + d_ff + d_ff * d_model + d_model
    size = gated_size(d_model, d_ff)
    assert all(abs(count(size) - two) <= abs(count(other) - two) for other in (size - 1, size + 1) if other)
    if d_model >= 64:
        assert size == pytest.approx(d_ff * 2 / 3, abs=2)


# norms


def test_rms_norm_divides_by_the_root_of_the_mean_square_and_does_not_centre() -> None:
    layer = first_layer(VARIANTS["rms_norm"])
    x = 3 + draw(4, RECIPE.d_model)
    rows = x.double()
    expected = rows / (rows.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    for module in (layer.attention_norm, layer.ffn_norm, build(VARIANTS["rms_norm"]).final_norm):
        assert [n for n, _ in module.named_parameters()] == ["weight"]
        torch.testing.assert_close(module(x).double(), expected, atol=1e-5, rtol=1e-5)
    layer_norm = first_layer(BASELINE).attention_norm
    torch.testing.assert_close(layer_norm(x).mean(-1), torch.zeros(4), atol=1e-5, rtol=0)


def test_without_norms_a_layer_is_the_plain_sum_of_its_parts(batch: Batch) -> None:
    model = build(VARIANTS["no_norm"])
    assert not any(isinstance(m, nn.LayerNorm | nn.RMSNorm) for m in model.modules())
    assert not any("norm" in n for n, _ in model.named_parameters())
    layer = first_layer(VARIANTS["no_norm"])
    x = draw(*batch[0].shape, RECIPE.d_model)
    middle = x + layer.attention(x, batch[1])
    torch.testing.assert_close(layer(x, batch[1]), middle + layer.fed_forward(middle))


def test_without_the_final_norm_the_states_are_those_of_the_last_layer(batch: Batch) -> None:
    bare, full = build(VARIANTS["no_final_norm"]), build(BASELINE)
    states = bare.states(*batch)[0]
    torch.testing.assert_close(full.final_norm(states), full.states(*batch)[0])
    assert set(dict(full.named_parameters())) - set(dict(bare.named_parameters())) == {
        "final_norm.weight",
        "final_norm.bias",
    }
    assert (states.std(-1) - 1).abs().max() > 0.05


# embedding


def test_the_scale_of_the_embedding_is_the_root_of_d_model(batch: Batch) -> None:
    """Without it, a table that is sqrt(d_model) as large gives the same model (Vaswani et al. 2017, 3.4)."""
    pooling: Any
    for pooling in ("mean", "cls"):
        scaled = build(Factors(pooling=pooling))
        bare = build(Factors(pooling=pooling, embedding_scale=False))
        assert (scaled(*batch) - bare(*batch)).abs().max() > 1e-3
        with torch.no_grad():
            bare.embedding.weight.mul_(math.sqrt(RECIPE.d_model))
            if bare.cls is not None:
                bare.cls.mul_(math.sqrt(RECIPE.d_model))
        torch.testing.assert_close(scaled(*batch), bare(*batch))


def test_the_embedding_of_padding_is_trained_only_where_it_is_named_so(batch: Batch) -> None:
    kind: Any
    for kind in ("zero", "trained"):
        factors = Factors(padding_embedding=kind, pooling_mask=False)
        model = build(factors).train()
        row = model.embedding.weight[0].detach().clone()
        gradient = torch.autograd.grad(model(*batch).sum(), model.embedding.weight)[0][0]
        assert bool(row.abs().sum() > 0) == bool(gradient.abs().sum() > 0) == (kind == "trained")


# places of dropout


def dropped_places(factors: Factors, batch: Batch) -> list[str]:
    """The modules whose output is 0 at some place where the input is not, in one training pass."""
    model = build(factors).train()
    seen = []

    def hook(name: str) -> Any:
        def look(_: nn.Module, args: tuple[Tensor, ...], y: Tensor) -> None:
            if ((y == 0) & (args[0] != 0)).any():
                seen.append(name)

        return look

    for name, module in model.named_modules():
        if isinstance(module, Dropout):
            module.register_forward_hook(hook(name))
    model(*batch)
    return seen


def test_each_place_of_dropout_is_where_it_is_said_to_be(batch: Batch) -> None:
    outputs = [f"layers.{i}.{place}_dropout" for i in range(2) for place in ("attention", "ffn")]
    base = dropped_places(BASELINE, batch)
    assert base == ["embedding_dropout", *outputs]
    assert dropped_places(VARIANTS["no_embedding_dropout"], batch) == outputs
    for name, added, before in (
        ("ffn_dropout", "hidden_dropout", "ffn_dropout"),
        ("double_ffn_dropout", "second_dropout", "ffn_dropout"),
    ):
        places = dropped_places(VARIANTS[name], batch)
        assert set(places) - set(base) == {f"layers.{i}.{added}" for i in range(2)}
        for i in range(2):
            assert places.index(f"layers.{i}.{added}") + 1 == places.index(f"layers.{i}.{before}")
    assert dropped_places(VARIANTS["pooled_dropout"], batch) == [*base, "pooled_dropout"]
    assert dropped_places(Factors(pooled_dropout=True, dropout=0.0), batch) == []


def test_the_hidden_dropout_acts_between_activation_and_second_map() -> None:
    layer = first_layer(dataclasses.replace(VARIANTS["ffn_dropout"], dropout=0.5)).train()
    x = draw(6, RECIPE.d_model)
    hidden = F.relu(F.linear(x, layer.ffn_in.weight, layer.ffn_in.bias))
    assert isinstance(layer.hidden_dropout, Dropout)
    assert layer.hidden_dropout.generator is not None
    state = layer.hidden_dropout.generator.get_state()
    expected = layer.ffn_out(layer.hidden_dropout(hidden))
    layer.hidden_dropout.generator.set_state(state)
    torch.testing.assert_close(layer.fed_forward(x), expected)


def test_two_masks_drop_more_than_one() -> None:
    """1 - (1 - p)^2 of the outputs of the network, before the sum."""
    for name, share in (("baseline", 0.5), ("double_ffn_dropout", 0.75)):
        layer = first_layer(dataclasses.replace(VARIANTS[name], dropout=0.5)).train()
        y = layer.ffn_dropout(layer.fed_forward(draw(400, RECIPE.d_model)))
        assert float((y == 0).double().mean()) == pytest.approx(share, abs=0.03)


# dropout at test


def test_dropout_at_test_draws_from_streams_of_its_own(batch: Batch) -> None:
    factors = VARIANTS["dropout_at_test"]
    model = build(factors)
    one, two = model(*batch), model(*batch)
    assert (one - two).abs().max() > 1e-3  # each pass has masks of its own
    again = build(factors)
    assert torch.equal(again(*batch), one)  # the same seed gives the same passes, in order
    assert torch.equal(again(*batch), two)
    assert not torch.equal(one, build(BASELINE)(*batch))
    assert torch.equal(build(BASELINE)(*batch), build(BASELINE)(*batch))
    # Training after an evaluation sees the masks that it sees without.
    assert torch.equal(again.train()(*batch), build(BASELINE).train()(*batch))


# checkpointing


@pytest.mark.parametrize(
    "other",
    [{}, {"attention_dropout": True, "ffn_dropout": True}, {"mixing": "fourier"}, {"position": "t5"}, {"norm": "post"}],
)
def test_checkpointing_keeps_every_bit_of_loss_and_gradients(other: dict[str, Any], batch: Batch) -> None:
    """Two steps: the streams of dropout go on after the recomputation as they would without it."""
    seen = {}
    for kept in (False, True):
        model = build(Factors(checkpointing=kept, dropout=0.3, **other)).train()
        passes = []
        for _ in range(2):
            loss = F.cross_entropy(model(*batch), torch.tensor([0, 1, 2, 0]))
            gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
            passes.append([loss.detach(), *(g for g in gradients if g is not None)])
        seen[kept] = passes
    for plain, computed_again in zip(seen[False], seen[True], strict=True):
        assert len(plain) == len(computed_again)
        assert all(torch.equal(a, b) for a, b in zip(plain, computed_again, strict=True))
    assert not torch.equal(seen[True][0][0], seen[True][1][0])


def test_checkpointing_computes_each_layer_again_and_keeps_less(batch: Batch) -> None:
    calls, saved = {}, {}
    for kept in (False, True):
        model = build(Factors(checkpointing=kept)).train()
        count = [0]
        model.layers[0].register_forward_pre_hook(lambda *_, count=count: count.__setitem__(0, count[0] + 1))
        size = [0]

        def pack(x: Tensor, size: list[int] = size) -> Tensor:
            size[0] += x.numel()
            return x

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            loss = model(*batch).sum()
        torch.autograd.backward(loss)
        calls[kept], saved[kept] = count[0], size[0]
        with torch.no_grad():
            model.eval()(*batch)
        assert count[0] == calls[kept] + 1  # none is computed twice where no gradient is needed
    assert calls == {False: 1, True: 2}
    assert saved[True] < saved[False] / 2


def test_a_system_of_all_parts_trains() -> None:
    factors = Factors(
        mixing="fourier", activation="swiglu", norm="none", pooling="attention", ffn_dropout=True, checkpointing=True,
        double_ffn_dropout=True, pooled_dropout=True, padding_embedding="trained", initialisation="normal_02",
    )  # fmt: skip
    model = Encoder(factors, RECIPE, vocabulary=50, classes=3, max_length=MAX_LENGTH)
    initialise(model, seed=0)
    mask = torch.arange(MAX_LENGTH) < torch.tensor(LENGTHS)[:, None]
    ids = torch.randint(2, 50, mask.shape, generator=torch.Generator().manual_seed(0)) * mask
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(60):
        loss = F.cross_entropy(model(ids, mask), torch.tensor([0, 1, 2, 0]))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 < losses[0]
