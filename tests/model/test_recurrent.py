"""The LSTM and the bag of embeddings. Their formulas are in test_systems.py."""

import dataclasses
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from knockout.model.dropout import Dropout
from knockout.variants import SYSTEMS, Factors, faults

from .conftest import CLASSES, LENGTHS, RECIPE, Batch, build, permute_tokens

BILSTM = Factors(encoder="bilstm", position="none")
BAG = Factors(encoder="bag", position="none")


@pytest.mark.parametrize("pooling", ["mean", "max", "first", "last", "cls", "attention"])
@pytest.mark.parametrize("factors", [BILSTM, BAG])
def test_padding_changes_nothing_and_every_parameter_learns(factors: Factors, pooling: Any, batch: Batch) -> None:
    ids, mask = batch
    model = build(dataclasses.replace(factors, pooling=pooling))
    with torch.no_grad():
        single = [model(ids[i : i + 1, :n], mask[i : i + 1, :n]) for i, n in enumerate(LENGTHS)]
        torch.testing.assert_close(model(ids, mask), torch.cat(single), atol=1e-5, rtol=1e-5)
    out = model.train()(ids, mask)
    assert out.shape == (len(LENGTHS), CLASSES)
    torch.autograd.backward(F.cross_entropy(out, torch.tensor([0, 1, 2, 0])))
    blind: set[str] = set()
    if (factors, pooling) == (BAG, "cls"):  # a bag never looks past [CLS]: of its embeddings it learns nothing
        blind = {"embedding.weight"}
    elif factors == BILSTM and pooling in ("first", "cls"):  # the first step of a direction has no state before it
        blind = {"recurrent.lstm.weight_hh_l1"}
    elif factors == BILSTM and pooling == "last":
        blind = {"recurrent.lstm.weight_hh_l1_reverse"}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.abs().sum() > 0) == (name not in blind), name


def test_the_lstm_reads_both_ways_and_the_bag_not_at_all(batch: Batch) -> None:
    ids, mask = batch
    changed = ids.clone()
    changed[0, 6] = (changed[0, 6] + 5) % 40 + 2
    moved = {}
    for name, factors in (("bilstm", BILSTM), ("bag", BAG)):
        model = build(factors)
        difference = (model.states(ids, mask)[0] - model.states(changed, mask)[0]).abs()[0]
        H = difference.shape[-1] // 2
        moved[name] = [
            (part.amax(-1) > 0).nonzero().flatten().tolist() for part in (difference[:, :H], difference[:, H:])
        ]
    # Two layers: the second reads both directions of the first.
    assert moved == {"bilstm": [list(range(12)), list(range(12))], "bag": [[6], [6]]}
    one = dataclasses.replace(RECIPE, num_layers=1)
    model = build(BILSTM, recipe=one)
    difference = (model.states(ids, mask)[0] - model.states(changed, mask)[0]).abs()[0]
    forward, backward = difference[:, : RECIPE.d_ff].amax(-1), difference[:, RECIPE.d_ff :].amax(-1)
    assert (forward > 0).nonzero().flatten().tolist() == list(range(6, 12))
    assert (backward > 0).nonzero().flatten().tolist() == list(range(7))


def test_only_the_bag_is_blind_to_order(batch: Batch) -> None:
    turned = permute_tokens(batch)
    bag, bilstm = build(BAG), build(BILSTM)
    torch.testing.assert_close(bag(*batch), bag(turned, batch[1]))
    assert (bilstm(*batch) - bilstm(turned, batch[1])).abs().max() > 1e-4


def test_the_lstm_has_one_dropout_after_its_last_layer(batch: Batch) -> None:
    model = build(dataclasses.replace(BILSTM, dropout=0.5, embedding_dropout=False)).train()
    assert [n for n, m in model.named_modules() if isinstance(m, Dropout)] == ["recurrent.dropout"]
    assert model.recurrent is not None
    assert model.recurrent.lstm.dropout == 0.0
    states, mask = model.states(*batch)
    assert float((states[mask] == 0).double().mean()) == pytest.approx(0.5, abs=0.05)
    assert states.shape[-1] == 2 * RECIPE.d_ff


def test_positions_are_added_where_they_are_asked_for(batch: Batch) -> None:
    turned = permute_tokens(batch)
    placed = build(Factors(encoder="bag", position="sinusoidal", pooling="max"))
    assert (placed(*batch) - placed(turned, batch[1])).abs().max() > 1e-3


def test_the_lstm_trains_in_bfloat16(batch: Batch) -> None:
    factors = SYSTEMS["bilstm_attention"].factors
    plain = build(factors)
    half = build(factors, recipe=dataclasses.replace(RECIPE, precision="bfloat16"))
    out: Tensor = half(*batch)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, plain(*batch), atol=0.05, rtol=0.05)
    torch.autograd.backward(F.cross_entropy(half.train()(*batch), torch.tensor([0, 1, 2, 0])))
    assert all(p.grad is not None and p.grad.isfinite().all() for p in half.parameters())


def test_the_number_of_heads_divides_d_model_only_where_there_is_attention() -> None:
    odd = dataclasses.replace(RECIPE, d_model=30)
    assert "num_heads" in faults(Factors(), odd)
    for factors in (BILSTM, BAG, Factors(mixing="none"), Factors(mixing="fourier")):
        assert faults(factors, odd) == {}
        build(factors, recipe=odd)
