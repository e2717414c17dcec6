"""Pooling by the last token and by attention; the other kinds are in test_behaviour.py."""

from typing import Any

import pytest
import torch
from torch import Tensor

from knockout.model.pooling import AttentionPooling, pool
from knockout.variants import VARIANTS, Factors

from .conftest import LENGTHS, Batch, build


def states(mask: Tensor, size: int = 6) -> Tensor:
    return torch.randn(*mask.shape, size, generator=torch.Generator().manual_seed(3))


def test_last_takes_the_last_real_token_and_over_padding_the_last_position(batch: Batch) -> None:
    x = states(batch[1])
    assert torch.equal(
        pool(x, batch[1], kind="last", masked=True), torch.stack([x[i, n - 1] for i, n in enumerate(LENGTHS)])
    )
    assert torch.equal(pool(x, batch[1], kind="last", masked=False), x[:, -1])


def test_attention_pooling_is_the_weighted_mean_of_lin_et_al(batch: Batch) -> None:
    """Equations 5 and 6 of Lin et al. 2017 with one row of annotation, text by text and token by token."""
    x = states(batch[1]).double()
    module = AttentionPooling(6).double()
    W, b, w = module.hidden.weight, module.hidden.bias, module.score.weight[0]
    rows = {True: [], False: []}  # type: dict[bool, list[Tensor]]
    for masked, collected in rows.items():
        for i, n in enumerate(LENGTHS):
            tokens = x[i, :n] if masked else x[i]
            raw = torch.stack([torch.exp(w @ torch.tanh(W @ h + b)) for h in tokens])
            collected.append(sum((share * h for share, h in zip(raw / raw.sum(), tokens, strict=True)), torch.zeros(6)))
    torch.testing.assert_close(module(x, batch[1]), torch.stack(rows[True]))
    torch.testing.assert_close(module(x, None), torch.stack(rows[False]))


def test_attention_pooling_can_be_the_mean_or_one_token(batch: Batch) -> None:
    """With w = 0 all tokens weigh alike; with a large w one token has all the weight."""
    x = states(batch[1])
    module = AttentionPooling(6)
    with torch.no_grad():
        module.score.weight.zero_()
        torch.testing.assert_close(module(x, batch[1]), pool(x, batch[1], kind="mean", masked=True))
        module.hidden.weight.copy_(torch.eye(6))
        module.hidden.bias.zero_()
        module.score.weight[0, 0] = 1e4
        best = x[..., 0].masked_fill(~batch[1], float("-inf")).argmax(1)
        torch.testing.assert_close(module(x, batch[1]), x[torch.arange(len(x)), best])


@pytest.mark.parametrize("name", ["pool_last", "pool_attention"])
def test_the_encoder_pools_with_it(name: str, batch: Batch) -> None:
    model = build(VARIANTS[name])
    extra = {n for n, _ in model.named_parameters()} - {n for n, _ in build(VARIANTS["baseline"]).named_parameters()}
    with torch.no_grad():
        x, mask = model.states(*batch)
        if name == "pool_last":
            assert extra == set()
            expected = torch.stack([x[i, n - 1] for i, n in enumerate(LENGTHS)])
        else:
            assert extra == {
                "attention_pooling.hidden.weight", "attention_pooling.hidden.bias", "attention_pooling.score.weight"
            }  # fmt: skip
            assert model.attention_pooling is not None
            expected = model.attention_pooling(x, mask)
        torch.testing.assert_close(model(*batch), model.classifier(expected))


@pytest.mark.parametrize("kind", ["last", "attention"])
def test_without_the_mask_padding_is_pooled(kind: Any, batch: Batch) -> None:
    ids, mask = batch
    model = build(Factors(pooling=kind, pooling_mask=False))
    alone, padded = model(ids[1:2, :5], mask[1:2, :5]), model(ids[1:2], mask[1:2])
    assert (alone - padded).abs().max() > 1e-3
    full = build(Factors(pooling=kind))
    torch.testing.assert_close(model(ids[:1], mask[:1]), full(ids[:1], mask[:1]))  # a text without padding
