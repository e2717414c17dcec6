"""Each variant does what its name says: a test that fails if the switch did nothing, or something else."""

import dataclasses
import math
from typing import Literal

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from knockout.model.dropout import Dropout
from knockout.model.encoder import Encoder
from knockout.model.layer import Layer
from knockout.model.pooling import pool
from knockout.schedules import learning_rate
from knockout.variants import VARIANTS, Factors, Recipe

from .conftest import CLASSES, LENGTHS, MAX_LENGTH, RECIPE, Batch, build

BASELINE = VARIANTS["baseline"]


def logits(factors: Factors, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        out: torch.Tensor = build(factors)(ids, mask)
    return out


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_gives_finite_logits_and_gradients_to_every_parameter(name: str, batch: Batch) -> None:
    model = build(VARIANTS[name]).train()
    out = model(*batch)
    assert out.shape == (len(LENGTHS), CLASSES)
    F.cross_entropy(out, torch.tensor([0, 1, 2, 0])).backward()  # type: ignore[no-untyped-call]
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name
        # The key bias shifts all scores of a query alike, which softmax does not see: only there a gradient may be 0.
        assert parameter.grad.abs().sum() > 0, parameter_name


PADDING_OR_BATCH_MATTERS = {
    "no_attention_mask": "it is what the factor is about",
    "pool_over_padding": "it is what the factor is about",
    "mask_after_softmax": "padding takes its share of the weights before it is left out",
    "position_by_row": "the position of a token is the row of its text in the batch",
    "dropout_at_test": "it draws masks",
}


@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in PADDING_OR_BATCH_MATTERS])
def test_padding_changes_nothing(name: str, batch: Batch) -> None:
    ids, mask = batch
    single = [logits(VARIANTS[name], ids[i : i + 1, :n], mask[i : i + 1, :n]) for i, n in enumerate(LENGTHS)]
    torch.testing.assert_close(torch.cat(single), logits(VARIANTS[name], ids, mask), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", VARIANTS)
def test_training_and_evaluation_see_the_same_model(name: str, batch: Batch) -> None:
    """Without dropout nothing differs: no path of its own for evaluation, and padding is left out in both."""
    model = build(dataclasses.replace(VARIANTS[name], dropout=0.0))
    trained = model.train()(*batch)
    torch.testing.assert_close(model.eval()(*batch), trained, atol=1e-5, rtol=0)
    with torch.no_grad():
        torch.testing.assert_close(model(*batch), trained.detach(), atol=1e-5, rtol=0)


# residual


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_only_residuals_carry_the_input_past_silent_sublayers(norm: Literal["pre", "post"], batch: Batch) -> None:
    factors = {r: dataclasses.replace(BASELINE, norm=norm, residual=r) for r in (True, False)}
    spread = {}
    for residual, value in factors.items():
        model = build(value)
        with torch.no_grad():
            for layer in model.layers:
                assert isinstance(layer, Layer)
                for linear in (layer.attention.out, layer.ffn_out):
                    linear.weight.zero_()
            states, _ = model.states(*batch)
        spread[residual] = float(states.std(dim=(0, 1)).mean())
    assert spread[True] > 0.5
    assert spread[False] == 0.0


# pooling


def test_pooling_against_a_loop_over_texts(batch: Batch) -> None:
    mask = batch[1]
    x = torch.randn(*mask.shape, 6, generator=torch.Generator().manual_seed(3))
    real = [x[i, :n] for i, n in enumerate(LENGTHS)]
    expected = {
        ("mean", True): [r.mean(0) for r in real],
        ("mean", False): list(x.mean(1)),
        ("max", True): [r.max(0).values for r in real],
        ("max", False): [row.max(0).values for row in x],
        ("first", True): [r[0] for r in real],
        ("cls", True): [r[0] for r in real],
    }
    for (kind, masked), rows in expected.items():
        torch.testing.assert_close(pool(x, mask, kind=kind, masked=masked), torch.stack(rows))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["pool_max", "pool_cls", "pool_first"])
def test_pooling_leaves_every_norm_where_it_is(name: str) -> None:
    norms = {n for n, m in build(BASELINE).named_modules() if isinstance(m, nn.LayerNorm)}
    assert {n for n, m in build(VARIANTS[name]).named_modules() if isinstance(m, nn.LayerNorm)} == norms
    assert "final_norm" in norms


def test_mean_and_max_and_first_read_what_they_say(batch: Batch) -> None:
    for name, kind in (("baseline", "mean"), ("pool_max", "max"), ("pool_first", "first"), ("pool_cls", "cls")):
        model = build(VARIANTS[name])
        with torch.no_grad():
            states, mask = model.states(*batch)
            by_hand = {
                "mean": torch.stack([s[m].mean(0) for s, m in zip(states, mask, strict=True)]),
                "max": torch.stack([s[m].amax(0) for s, m in zip(states, mask, strict=True)]),
                "first": states[:, 0],
                "cls": states[:, 0],
            }
            right = model.classifier(by_hand[kind])
            torch.testing.assert_close(model(*batch), right, atol=1e-5, rtol=1e-5)
            assert (right - model.classifier(by_hand["max" if kind == "mean" else "mean"])).abs().max() > 1e-3


def test_cls_is_a_token_of_its_own_before_the_first_word(batch: Batch) -> None:
    model = build(VARIANTS["pool_cls"])
    extra = set(dict(model.named_parameters())) - set(dict(build(BASELINE).named_parameters()))
    assert extra == {"cls"}
    with torch.no_grad():
        states, mask = model.states(*batch)
        assert states.shape[1] == batch[0].shape[1] + 1
        assert mask.sum(1).tolist() == [n + 1 for n in LENGTHS]
        before = model(*batch)
        assert model.cls is not None
        model.cls.add_(torch.randn(model.cls.shape, generator=torch.Generator().manual_seed(5)))
        assert (model(*batch) - before).abs().amax(1).min() > 1e-4
    full = torch.full((1, MAX_LENGTH), 3)
    assert logits(VARIANTS["pool_cls"], full, full > 0).isfinite().all()  # the longest text still has a position


# norm


@pytest.mark.parametrize("name", ["baseline", "post_norm"])
def test_layers_equal_those_of_torch(name: str, batch: Batch) -> None:
    """Pre-LN and Post-LN (Xiong et al. 2020, figure 1) against `torch.nn.TransformerEncoderLayer`."""
    model = build(VARIANTS[name])
    x = torch.randn(*batch[0].shape, RECIPE.d_model, generator=torch.Generator().manual_seed(2))
    for layer in model.layers:
        assert isinstance(layer, Layer)
        theirs = nn.TransformerEncoderLayer(
            RECIPE.d_model, 8, RECIPE.d_ff, dropout=0.0, batch_first=True, norm_first=name == "baseline"
        ).train()
        with torch.no_grad():
            theirs.self_attn.in_proj_weight.copy_(layer.attention.qkv.weight)
            theirs.self_attn.in_proj_bias.copy_(layer.attention.qkv.bias)
            theirs.self_attn.out_proj.load_state_dict(layer.attention.out.state_dict())
            theirs.linear1.load_state_dict(layer.ffn_in.state_dict())
            theirs.linear2.load_state_dict(layer.ffn_out.state_dict())
            theirs.norm1.load_state_dict(layer.attention_norm.state_dict())
            theirs.norm2.load_state_dict(layer.ffn_norm.state_dict())
            expected = theirs(x, src_key_padding_mask=~batch[1])
            got = layer(x, batch[1])
        torch.testing.assert_close(got[batch[1]], expected[batch[1]], atol=1e-5, rtol=1e-4)


def test_post_norm_ends_normalised_and_pre_norm_has_a_norm_for_that() -> None:
    assert isinstance(build(BASELINE).final_norm, nn.LayerNorm)
    assert isinstance(build(VARIANTS["post_norm"]).final_norm, nn.Identity)


# warmup


def test_no_warmup_keeps_the_decay() -> None:
    steps, peak = 200, 1e-3
    with_warmup = [learning_rate(s, steps=steps, warmup=BASELINE.warmup, peak=peak) for s in range(1, steps + 1)]
    without = [
        learning_rate(s, steps=steps, warmup=VARIANTS["no_warmup"].warmup, peak=peak) for s in range(1, steps + 1)
    ]
    assert with_warmup[:20] == pytest.approx([peak * s / 20 for s in range(1, 21)])
    assert without[0] == peak
    for rates, start in ((with_warmup, 20), (without, 0)):  # the same half cosine over what follows the warmup
        span = steps - start
        assert rates[start:] == pytest.approx([peak * (1 + math.cos(math.pi * i / span)) / 2 for i in range(span)])
        assert rates[-1] > 0


def test_warmup_is_rounded_up_and_its_first_step_moves() -> None:
    assert learning_rate(1, steps=15, warmup=0.1, peak=1.0) == 0.5  # ceil(1.5) = 2 steps
    assert learning_rate(1, steps=5, warmup=0.1, peak=1.0) == 1.0


# interactions


def test_interactions_are_both_of_their_parts(batch: Batch) -> None:
    both = VARIANTS["no_residual_no_scale"]
    model = build(both)
    layer = model.layers[0]
    assert isinstance(layer, Layer)
    assert not layer.residual
    assert layer.attention.scale == 1.0
    for single in ("no_residual", "no_scale"):
        assert (logits(both, *batch) - logits(VARIANTS[single], *batch)).abs().max() > 1e-4
    factors = VARIANTS["post_norm_no_warmup"]
    assert learning_rate(1, steps=200, warmup=factors.warmup, peak=1.0) == 1.0
    torch.testing.assert_close(logits(factors, *batch), logits(VARIANTS["post_norm"], *batch))
    assert isinstance(build(factors).final_norm, nn.Identity)


# the other factors


def test_activation_is_the_one_that_is_named() -> None:
    for name, function in (("relu", F.relu), ("gelu", F.gelu)):
        layer = build(Factors(activation=name)).layers[0]  # type: ignore[arg-type]
        assert isinstance(layer, Layer)
        rows = torch.randn(5, RECIPE.d_model, generator=torch.Generator().manual_seed(4))
        expected = function(F.linear(rows, layer.ffn_in.weight, layer.ffn_in.bias))
        torch.testing.assert_close(layer.gelu(layer.ffn_in(rows)), expected)


@pytest.mark.parametrize("off", [Factors(attention_mask=False), Factors(pooling_mask=False)])
def test_without_a_mask_padding_takes_part(off: Factors, batch: Batch) -> None:
    ids, mask = batch
    alone = logits(off, ids[1:2, :5], mask[1:2, :5])
    padded = logits(off, ids[1:2], mask[1:2])
    assert (alone - padded).abs().max() > 1e-3
    full = slice(0, 1)  # a text without padding sees no difference
    torch.testing.assert_close(logits(off, ids[full], mask[full]), logits(BASELINE, ids[full], mask[full]))


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5])
def test_dropout_drops_its_share_and_keeps_the_mean(rate: float) -> None:
    layer = Dropout(rate).train()
    layer.start(torch.Generator().manual_seed(0))
    x = torch.ones(1000, 203)
    y = layer(x)
    dropped = (y == 0).double().mean().item()
    assert dropped == pytest.approx(rate, abs=5 * math.sqrt(rate * (1 - rate) / x.numel()) + 1e-5)
    assert y.double().mean().item() == pytest.approx(1.0, abs=0.01)
    assert y[y != 0].unique().tolist() == pytest.approx([1 / (1 - rate)], rel=1e-4)
    if rate:
        again = layer(x)
        assert not torch.equal(again, y)
        columns, rows = (y == 0).double().mean(0), (y == 0).double().mean(1)  # no pattern along either side
        assert columns.std().item() == pytest.approx(math.sqrt(rate * (1 - rate) / 1000), rel=0.25)
        assert rows.std().item() == pytest.approx(math.sqrt(rate * (1 - rate) / 203), rel=0.25)
    assert torch.equal(layer.eval()(x), x)


# what variants share


def test_shared_parameters_start_equal_in_all_variants_of_one_initialisation() -> None:
    baseline = {(name, p.shape) for name, p in build(BASELINE).named_parameters()}
    reference: dict[tuple[str, str, torch.Size], torch.Tensor] = {}
    for variant, factors in VARIANTS.items():
        parameters = dict(build(factors, seed=11).named_parameters())
        for name, parameter in parameters.items():
            first = reference.setdefault((factors.initialisation, name, parameter.shape), parameter.detach())
            row = 1 if name == "embedding.weight" else 0  # that of padding is 0, or drawn where it is trained
            assert torch.equal(first[row:], parameter[row:]), (variant, name)
        shared = baseline & {(name, p.shape) for name, p in parameters.items()}
        assert len(shared) >= len(baseline) // 2, variant  # the names did not change
    extra = {name for _, name, _ in reference} - {name for name, _ in baseline}
    assert {"cls", "positions.table", "positions.buckets"} <= extra


def test_seeds_move_every_drawn_parameter() -> None:
    one, two = (dict(build(VARIANTS["pool_cls"], seed=s).named_parameters()) for s in (1, 2))
    for name, parameter in one.items():
        constant = "norm" in name or name.endswith("bias")
        assert torch.equal(parameter, two[name]) == constant, name


def test_shared_places_draw_the_same_dropout_masks(batch: Batch) -> None:
    def masks(factors: Factors) -> dict[str, torch.Tensor]:
        model = build(factors, seed=4).train()
        seen: dict[str, torch.Tensor] = {}
        for name, module in model.named_modules():
            if isinstance(module, Dropout):
                module.register_forward_hook(
                    lambda m, args, y, name=name: seen.__setitem__(name, (y == 0) & (args[0] != 0))  # noqa: ARG005
                )
        model(*batch)
        return seen

    reference = masks(BASELINE)
    assert len(reference) == 1 + 2 * RECIPE.num_layers
    for name in ("no_position", "no_residual", "heads_1", "post_norm"):
        for place, mask in masks(VARIANTS[name]).items():
            real = batch[1][..., None] & torch.ones_like(mask)
            assert torch.equal(mask & real, reference[place] & real), (name, place)


def test_initialisation_has_the_stated_sizes() -> None:
    model = Encoder(BASELINE, Recipe(d_model=256, num_layers=1, d_ff=512), vocabulary=2000, classes=2, max_length=8)
    from knockout.model.encoder import initialise

    initialise(model, seed=0)
    parameters = dict(model.named_parameters())
    assert parameters["embedding.weight"][1:].std().item() == pytest.approx(256**-0.5, rel=0.02)
    assert parameters["embedding.weight"][0].abs().sum() == 0
    glorot = {"layers.0.attention.qkv.weight": 512, "layers.0.attention.out.weight": 512, "layers.0.ffn_in.weight": 768}
    for name, fans in glorot.items():
        assert parameters[name].abs().max().item() == pytest.approx(math.sqrt(6 / fans), rel=0.01)
