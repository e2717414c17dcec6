"""Multi-head self-attention. B texts, T tokens, D d_model, H heads, K the size of a head (d_k): D / H, or head_size."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from knockout.model.kernels import attention, linear
from knockout.model.positions import Rotation
from knockout.variants import Factors, Recipe

HELD = 4_000_000
"""Attention weights that a CPU holds at a time. An array above 32 MiB, glibc's largest M_MMAP_THRESHOLD, comes from the
system anew at every step, and a step of 16 texts of 256 tokens took 2.3 times as long (AMD EPYC)."""


class Linear(nn.Linear):
    """A linear map with a bias and an optional ReLU, computed by the fastest kernel for the device.

    `blocks` is the number of maps that are stacked in it: the initialisation takes each for itself.
    """

    def __init__(self, inputs: int, outputs: int, *, relu: bool = False, blocks: int = 1) -> None:
        super().__init__(inputs, outputs)
        self.relu = relu
        self.blocks = blocks

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias, relu=self.relu)


class HeadNorm(nn.RMSNorm):
    """The RMS norm of each head with a gain for each of its K numbers, which all heads share.

    As Dehghani et al. 2023, 2.1: a LayerNorm without centring and bias on queries and keys, before the product, which
    is scaled as without it. In float32 also under autocast.
    """

    def __init__(self, head_size: int) -> None:
        super().__init__(head_size, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:  # (..., K) -> (..., K)
        return F.rms_norm(x.to(self.weight.dtype), self.normalized_shape, self.weight, self.eps).to(x.dtype)


class Attention(nn.Module):
    """Multi-head self-attention (Vaswani et al. 2017, 3.2).

    Parameters have the same names and shapes for every number of heads, but for `head_size`, `qk_norm` and `t5`.

    `weights_dropout` acts on the attention weights. A text of padding alone has no attention under `minus_infinity`
    (NaN or 0, as the kernel has it), equal weights under `minus_1e9`, which float16 cannot hold and bfloat16 can, and
    0 under `after_softmax`. The data hold no such text: an empty one is an unknown token.
    """

    def __init__(self, factors: Factors, recipe: Recipe, weights_dropout: nn.Module | None = None) -> None:
        super().__init__()
        D, H = recipe.d_model, factors.num_heads
        K = factors.head_size or D // H  # factor: head_size (Bhojanapalli et al. 2020)
        self.num_heads = H  # factor: num_heads
        self.scale = K**-0.5 if factors.scale == "sqrt_dk" else 1.0  # factor: scale
        self.projections = factors.projections
        match factors.projections:  # factor: projections
            case "separate":
                self.qkv = Linear(D, 3 * H * K, blocks=3)
            case "tied_qk":  # Kitaev et al. 2020: the logits are symmetric
                self.qk, self.v = Linear(D, H * K), Linear(D, H * K)
            case "shared":
                self.shared = Linear(D, H * K)
        if factors.qk_norm:  # factor: qk_norm
            self.q_norm = HeadNorm(K)
            # Queries and keys that are one stay one.
            self.k_norm = HeadNorm(K) if factors.projections == "separate" else self.q_norm
        self.qk_norm = factors.qk_norm
        self.rotation = Rotation(K) if factors.position == "rope" else None  # factor: position
        self.mask_fill = factors.mask_fill
        self.weights_dropout = weights_dropout  # factor: attention_dropout (Devlin et al. 2019, A.2)
        self.out = Linear(H * K, D)

    def forward(self, x: Tensor, mask: Tensor | None, bias: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D); `mask` (B, T) is True at real tokens, `bias` (H, T, T) is added to the logits."""
        qkv = self.project(x)
        if bias is None and self.weights_dropout is None and (mask is None or self.mask_fill == "minus_infinity"):
            y = attention(qkv, mask, num_heads=self.num_heads, scale=self.scale)
        else:
            y = self.attend(qkv, mask, bias)
        out: Tensor = self.out(y)
        return out

    def project(self, x: Tensor) -> Tensor:
        """(B, T, D) -> queries, keys and values (B, T, 3 * H * K), normalised and rotated."""
        match self.projections:
            case "separate":
                qkv: Tensor = self.qkv(x)
            case "tied_qk":
                qk = self.qk(x)
                qkv = torch.cat((qk, qk, self.v(x)), -1)
            case "shared":
                qkv = self.shared(x).repeat(1, 1, 3)
        if not self.qk_norm and self.rotation is None:
            return qkv
        q, k, v = qkv.view(*x.shape[:2], 3, self.num_heads, -1).unbind(2)  # each (B, T, H, K)
        if self.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.rotation is not None:
            q, k = self.rotation(q), self.rotation(k)
        return torch.stack((q, k, v), 2).flatten(2)

    def attend(self, qkv: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
        """(B, T, 3 * H * K) -> (B, T, H * K), with what the fast kernels do not have.

        `after_softmax` takes the weights of padding away and leaves the others as they are: they sum to less than 1.
        """
        q, k, v = qkv.view(*qkv.shape[:2], 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)  # each (B, H, T, K)
        padding = None if mask is None else ~mask[:, None, None, :]
        if self.weights_dropout is None and (padding is None or self.mask_fill == "minus_infinity"):
            assert bias is not None, "without a bias it is the work of the fast kernels"
            bias = bias.to(q.dtype)[None]  # (1, H, T, T), as the fused kernels want it
            if padding is not None:
                bias = bias.masked_fill(padding, float("-inf"))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=self.scale)
            return y.transpose(1, 2).flatten(2)
        texts = len(q) if q.device.type != "cpu" else max(1, HELD // (q.shape[1] * q.shape[2] ** 2))
        if texts < len(q):
            masks = [None] * -(-len(q) // texts) if padding is None else torch.split(padding, texts)
            parts = zip(torch.split(q, texts), torch.split(k, texts), torch.split(v, texts), masks, strict=True)
            return torch.cat([self.weigh(*part, bias) for part in parts])
        return self.weigh(q, k, v, padding, bias)

    def weigh(self, q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None, bias: Tensor | None) -> Tensor:
        """Queries, keys and values (B, H, T, K) -> (B, T, H * K), by weights that are held in memory."""
        weights = self.normalised(self.logits(q, k, bias), padding)  # (B, H, T, T)
        if self.weights_dropout is not None:
            weights = self.weights_dropout(weights)
        mixed: Tensor = weights @ v  # (B, H, T, K)
        return mixed.transpose(1, 2).flatten(2)

    def logits(self, q: Tensor, k: Tensor, bias: Tensor | None) -> Tensor:
        """Queries and keys (B, H, T, K) -> (B, H, T, T), padding among them."""
        logits = q @ k.mT * self.scale
        return logits if bias is None else logits + bias.to(q.dtype)

    def normalised(self, logits: Tensor, padding: Tensor | None) -> Tensor:
        """Logits (B, H, T, T) -> weights, before dropout; `padding` (B, 1, 1, T) is True where a key is none."""
        if padding is not None and self.mask_fill != "after_softmax":  # factor: mask_fill
            logits = logits.masked_fill(padding, -1e9 if self.mask_fill == "minus_1e9" else float("-inf"))
        weights = logits.softmax(-1)
        if padding is not None and self.mask_fill == "after_softmax":
            weights = weights.masked_fill(padding, 0.0)
        return weights

    def seen(self, x: Tensor, mask: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        """The logits and the weights (both (B, H, T, T), before dropout) of `forward`, computed by no fused kernel."""
        q, k, _ = self.project(x).view(*x.shape[:2], 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        logits = self.logits(q, k, bias)
        return logits, self.normalised(logits, None if mask is None else ~mask[:, None, None, :])
