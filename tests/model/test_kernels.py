"""The kernels of the CPU against torch's own in float64: values and gradients."""

import functools

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from knockout.model import kernels


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (64, 256), (256, 64)])
@pytest.mark.parametrize("rows", [(1,), (7,), (4, 9)])
def test_linear_equals_torchs(shape: tuple[int, int], rows: tuple[int, ...]) -> None:
    inputs, outputs = shape
    values = (draw(*rows, inputs, seed=1), draw(outputs, inputs, seed=2), draw(outputs, seed=3))
    upstream = draw(*rows, outputs, seed=4)
    compare(kernels.linear, F.linear, values, upstream=upstream)
    compare(
        functools.partial(kernels.linear, relu=True),
        lambda x, weight, bias: F.relu(F.linear(x, weight, bias)),
        values,
        upstream=upstream,
    )


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(("heads", "size"), [(1, 64), (8, 8), (16, 4), (2, 16), (3, 5)])
@pytest.mark.parametrize("tokens", [1, 2, 15, 16, 17, 48, 49, 96, 97])
def test_attention_equals_torchs(tokens: int, heads: int, size: int, masked: bool) -> None:
    """On both sides of every length at which another way is taken."""
    texts = 5
    lengths = torch.tensor([tokens, 1, (tokens + 1) // 2, tokens, max(1, tokens - 1)])
    mask = torch.arange(tokens) < lengths[:, None] if masked else None

    def ours(qkv: Tensor) -> Tensor:
        return kernels.attention(qkv, mask, num_heads=heads, scale=0.3)

    def theirs(qkv: Tensor) -> Tensor:
        q, k, v = qkv.view(texts, tokens, 3, heads, size).permute(2, 0, 3, 1, 4)
        keys = None if mask is None else mask[:, None, None, :]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=keys, scale=0.3)
        return out.transpose(1, 2).reshape(texts, tokens, heads * size)

    compare(
        ours,
        theirs,
        (draw(texts, tokens, 3 * heads * size, seed=5),),
        upstream=draw(texts, tokens, heads * size, seed=6),
    )


def test_huge_logits_do_not_overflow() -> None:
    qkv = 100 * draw(2, 6, 3 * 16, seed=7)
    assert kernels.attention(qkv, None, num_heads=2, scale=1.0).isfinite().all()


def test_other_precisions_go_to_torchs_own_kernels() -> None:
    values = (draw(3, 8, seed=1), draw(4, 8, seed=2), draw(4, seed=3))
    with torch.autocast("cpu", torch.bfloat16):
        assert kernels.linear(*values).dtype == torch.bfloat16
        assert (
            kernels.attention(draw(2, 5, 24, seed=4).bfloat16(), None, num_heads=2, scale=1.0).dtype == torch.bfloat16
        )
    double = tuple(v.double() for v in values)
    assert torch.equal(kernels.linear(*double), F.linear(*double))


def compare(ours: object, theirs: object, values: tuple[Tensor, ...], *, upstream: Tensor) -> None:
    assert callable(ours)
    assert callable(theirs)
    single = tuple(v.clone().requires_grad_() for v in values)
    double = tuple(v.double().requires_grad_() for v in values)
    got, expected = ours(*single), theirs(*double)
    torch.testing.assert_close(got.double(), expected, atol=2e-5, rtol=1e-4)
    gradients = torch.autograd.grad(got, single, upstream)
    for g, e in zip(gradients, torch.autograd.grad(expected, double, upstream.double()), strict=True):
        torch.testing.assert_close(g.double(), e, atol=2e-5, rtol=1e-4)
