"""Where parameters start, against what torch's own modules and the papers draw."""

import math
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from knockout.model.encoder import Encoder, initialise
from knockout.variants import Factors, Recipe

Kind = Literal["glorot", "torch", "torch_attention", "normal_02"]
D, FF = 96, 160


def parameters(kind: Kind, **factors: Any) -> dict[str, Tensor]:
    chosen = Factors(initialisation=kind, pooling="attention", **factors)
    recipe = Recipe(d_model=D, num_layers=1, d_ff=FF)
    model = Encoder(chosen, recipe, vocabulary=3000, classes=7, max_length=64)
    initialise(model, seed=0)
    return {name: p.detach() for name, p in model.named_parameters()}


def same_distribution(got: Tensor, theirs: Tensor) -> None:
    """The two-sample Kolmogorov-Smirnov distance, below its bound at a level of 1e-6, and ranges that agree."""
    a, b = got.flatten().sort().values, theirs.flatten().sort().values
    both = torch.cat((a, b)).sort().values
    distance = (
        torch.searchsorted(a, both, right=True) / len(a) - torch.searchsorted(b, both, right=True) / len(b)
    ).abs()
    bound = math.sqrt(-math.log(1e-6 / 2) / 2 * (1 / len(a) + 1 / len(b)))
    assert float(distance.max()) <= bound


LINEAR = {
    "layers.0.attention.qkv": (D, 3 * D),
    "layers.0.attention.out": (D, D),
    "layers.0.ffn_in": (D, FF),
    "layers.0.ffn_out": (FF, D),
    "attention_pooling.hidden": (D, D),
    "classifier": (D, 7),
}


def test_torch_draws_what_torchs_modules_draw() -> None:
    torch.manual_seed(1)
    ours = parameters("torch", position="learned")
    for name, (inputs, outputs) in LINEAR.items():
        theirs = [nn.Linear(inputs, outputs) for _ in range(20)]
        for own in ("weight", "bias"):
            value = ours[f"{name}.{own}"]
            assert value.abs().max() <= inputs**-0.5
            same_distribution(value, torch.cat([getattr(t, own).detach().flatten() for t in theirs]))
        assert ours[f"{name}.weight"].std().item() == pytest.approx((3 * inputs) ** -0.5, rel=0.1)
    same_distribution(ours["attention_pooling.score.weight"], nn.Linear(D, 1000, bias=False).weight.detach())
    for name in ("embedding.weight", "positions.table"):
        same_distribution(ours[name][1:], nn.Embedding(3000, D).weight.detach())
    assert (ours["embedding.weight"][0] == 0).all()
    assert (ours["final_norm.weight"] == 1).all()
    assert (ours["final_norm.bias"] == 0).all()


def test_torch_draws_what_torchs_lstm_draws() -> None:
    torch.manual_seed(2)
    ours, theirs = parameters("torch", encoder="bilstm"), nn.LSTM(D, FF, bidirectional=True)
    names = [n for n, _ in theirs.named_parameters()]
    assert {n.removeprefix("recurrent.lstm.") for n in ours if "lstm" in n} == set(names)
    for name in names:
        same_distribution(ours[f"recurrent.lstm.{name}"], getattr(theirs, name).detach())
        assert ours[f"recurrent.lstm.{name}"].abs().max() <= FF**-0.5


def test_torch_attention_draws_what_multihead_attention_draws() -> None:
    torch.manual_seed(3)
    ours, base = parameters("torch_attention"), parameters("torch")
    theirs = nn.MultiheadAttention(D, 8)
    qkv = ours["layers.0.attention.qkv.weight"]
    same_distribution(qkv, theirs.in_proj_weight.detach())
    assert qkv.abs().max().item() == pytest.approx(math.sqrt(6 / (4 * D)), rel=0.01)
    same_distribution(ours["layers.0.attention.out.weight"], theirs.out_proj.weight.detach())
    for name in ("qkv", "out"):
        assert (ours[f"layers.0.attention.{name}.bias"] == 0).all()
    assert (theirs.in_proj_bias == 0).all()
    assert (theirs.out_proj.bias == 0).all()
    changed = {n for n in ours if not torch.equal(ours[n], base[n])}
    assert changed == {f"layers.0.attention.{n}" for n in ("qkv.weight", "qkv.bias", "out.bias")}


def test_normal_02_is_that_of_bert() -> None:
    cases: list[dict[str, Any]] = [{"position": "learned"}, {"encoder": "bilstm"}]
    for factors in cases:
        for name, value in parameters("normal_02", **factors).items():
            if "norm" in name:
                assert (value == float(name.endswith("weight"))).all()
            elif "bias" in name:
                assert (value == 0).all(), name
            else:
                rows = value[1:] if name == "embedding.weight" else value
                assert rows.std().item() == pytest.approx(0.02, rel=0.25 if rows.numel() < 2000 else 0.05), name
                assert abs(rows.mean().item()) < 6 * 0.02 / math.sqrt(rows.numel())


def test_glorot_takes_each_stacked_map_for_itself() -> None:
    ours = parameters("glorot", position="learned")
    for name, (inputs, outputs) in LINEAR.items():
        fan = inputs + (outputs // 3 if name.endswith("qkv") else outputs)
        assert ours[f"{name}.weight"].abs().max().item() == pytest.approx(math.sqrt(6 / fan), rel=0.02)
        assert (ours[f"{name}.bias"] == 0).all()
    lstm = parameters("glorot", encoder="bilstm")
    for name, inputs in (("weight_ih_l0", D), ("weight_hh_l0_reverse", FF)):
        value = lstm[f"recurrent.lstm.{name}"]
        assert value.abs().max().item() == pytest.approx(math.sqrt(6 / (inputs + FF)), rel=0.01)
    assert ours["positions.table"].std().item() == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("kind", ["glorot", "torch", "torch_attention", "normal_02"])
def test_a_trained_padding_row_is_drawn_as_the_others_are(kind: Kind) -> None:
    fixed, trained = parameters(kind), parameters(kind, padding_embedding="trained")
    table = trained["embedding.weight"]
    assert torch.equal(table[1:], fixed["embedding.weight"][1:])
    assert table[0].std().item() == pytest.approx(table[1:].std().item(), rel=0.3)


@pytest.mark.parametrize("projections", ["tied_qk", "shared"])
@pytest.mark.parametrize("kind", ["glorot", "torch", "torch_attention", "normal_02"])
def test_every_map_of_attention_has_a_rule(kind: Kind, projections: str) -> None:
    for name, value in parameters(kind, projections=projections).items():
        if ".attention." in name and name.endswith("weight"):
            bound = {"torch": D**-0.5, "normal_02": 0.12}.get(kind, math.sqrt(6 / (2 * D)))
            bound = D**-0.5 if kind == "torch_attention" and ".out." in name else bound
            assert bound * 0.6 < value.abs().max().item() <= bound, name
