"""Two CPU kernels that are faster than torch's own and compute the same, forwards and backwards.

On other devices, and wherever they would not be faster, torch's own kernels run. Times in the docstrings: one thread of
an AMD Zen 5, float32, torch 2.13; `make bench` measures the effect. N rows, I inputs, O outputs; B texts, T tokens,
H heads, K size of a head.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

NARROW = 16
"""Size of a head below which products with few columns are computed transposed."""

SHORT, SHORT_NARROW, HELD = 48, 96, 5_000_000
"""`attention` keeps its weights in memory up to SHORT tokens (SHORT_NARROW with narrow heads) and HELD numbers, which
fit a cache. Beyond, flash attention, which never stores them, is faster."""

VECTOR = 16
"""Numbers in a vector register (AVX-512)."""

_ONEDNN: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]


def linear(x: Tensor, weight: Tensor, bias: Tensor, *, relu: bool = False) -> Tensor:
    """(..., I), (O, I), (O,) -> (..., O): x @ weight.T + bias, or the larger of that and 0.

    In float32 on a CPU by oneDNN, as Inductor does it, where torch's eager mode calls MKL: that runs AVX2 kernels on
    processors that are not Intel's, at less than half the speed (104 and 222 GFLOP/s at N = 1,600, I = 128, O = 384).
    """
    if _ONEDNN and _plain(x):
        out: Tensor = _Linear.apply(x, weight, bias, relu)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return out
    y = F.linear(x, weight, bias)
    return F.relu(y) if relu else y


def attention(qkv: Tensor, mask: Tensor | None, *, num_heads: int, scale: float) -> Tensor:
    """Self-attention of queries, keys and values (B, T, 3 * H * K) -> (B, T, H * K).

    softmax(scale * q @ k.T) @ v over the keys where `mask` (B, T) is True. For short texts the weights are kept in
    memory: flash attention takes 1.5 to 2.5 times as long where each of its blocks is one small matrix.
    """
    B, T, width = qkv.shape
    longest = SHORT_NARROW if width // (3 * num_heads) < NARROW else SHORT
    if longest >= T and B * num_heads * T * T <= HELD and _plain(qkv):
        out: Tensor = _ShortAttention.apply(qkv, mask, num_heads, scale)  # type: ignore[no-untyped-call]
        return out
    q, k, v = qkv.view(B, T, 3, num_heads, -1).permute(2, 0, 3, 1, 4)  # each (B, H, T, K)
    keys = None if mask is None else mask[:, None, None, :]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keys, scale=scale).transpose(1, 2).reshape(B, T, -1)


def _plain(x: Tensor) -> bool:
    """Whether x is float32 on the CPU, without autocast."""
    return x.device.type == "cpu" and x.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")


def _product(a: Tensor, b: Tensor) -> Tensor:
    """(N, I), (O, I) -> (N, O): a @ b.T by oneDNN."""
    out: Tensor = torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], "")
    return out


def _weight_gradient(dy: Tensor, x: Tensor) -> Tensor:
    """(N, O), (N, I) -> (O, I): dy.T @ x. A first factor that is transposed gets copied: it is the smaller one here."""
    return _product(dy.T, x.T) if dy.shape[1] <= x.shape[1] else _product(x.T, dy.T).T


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, relu: bool) -> Tensor:
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "relu" if relu else "none", [], "")
        ctx.save_for_backward(x, weight, out if relu else None)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, weight, positive = ctx.saved_tensors
        dy = grads[0] if positive is None else torch.ops.aten.threshold_backward(grads[0], positive, 0)
        dy, x_rows = dy.flatten(0, -2), x.flatten(0, -2)  # (N, O), (N, I)
        return _product(dy, weight.T).view_as(x), _weight_gradient(dy, x_rows), dy.sum(0), None


def _times(a: Tensor, b: Tensor) -> Tensor:
    """a @ b in batches, for b with K columns; few of them as (b.T @ a.T).T, which takes half the time at K = 8."""
    return torch.bmm(b.mT, a.mT).mT if b.shape[-1] < NARROW else torch.bmm(a, b)


class _ShortAttention(torch.autograd.Function):
    """Keys are padded to S, 16 tokens or more: torch's softmax takes 12 times as long over 15 numbers as over 16."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, mask: Tensor | None, num_heads: int, scale: float) -> Tensor:
        B, T, _ = qkv.shape
        H, S = num_heads, max(T, VECTOR)
        parts = F.pad(qkv.view(B, T, 3, H, -1).permute(2, 0, 3, 1, 4), (0, 0, 0, S - T))  # each (B, H, S, K)
        q, k, v = parts.reshape(3, B * H, S, -1)
        q = q[:, :T] * scale
        keys = F.pad(qkv.new_ones(B, T, dtype=torch.bool) if mask is None else mask, (0, S - T))  # (B, S)
        bias = qkv.new_zeros(B, S).masked_fill_(~keys, -math.inf)[:, None].expand(B, H, S).reshape(B * H, 1, S)
        weights = torch.baddbmm(bias, q, k.mT).softmax(-1)  # (B * H, T, S)
        ctx.save_for_backward(q, k, v, weights)
        ctx.scale, ctx.shape = scale, (B, H, T)
        return _times(weights, v).view(B, H, T, -1).transpose(1, 2).reshape(B, T, -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        q, k, v, weights = ctx.saved_tensors
        B, H, T = ctx.shape
        dy = grads[0].view(B, T, H, -1).transpose(1, 2).reshape(B * H, T, -1)  # (B * H, T, K)
        dweights = torch.bmm(dy, v.mT)  # (B * H, T, S)
        dlogits = torch._softmax_backward_data(dweights, weights, -1, dweights.dtype)
        dqkv = grads[0].new_empty(B, T, 3, H, q.shape[-1])
        parts = _times(dlogits, k).mul_(ctx.scale), _times(dlogits.mT, q)[:, :T], _times(weights.mT, dy)[:, :T]
        for i, part in enumerate(parts):
            dqkv[:, :, i] = part.reshape(B, H, T, -1).transpose(1, 2)
        return dqkv.view(B, T, -1), None, None, None
