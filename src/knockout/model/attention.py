"""Multi-head self-attention. B texts, T tokens, D d_model, H heads, K = D / H the size of a head (d_k)."""

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """Vaswani et al. 2017, 3.2. Parameters have the same names and shapes for every number of heads."""

    def __init__(self, d_model: int, *, num_heads: int, scale: Literal["sqrt_dk", "none"]) -> None:
        super().__init__()
        self.num_heads = num_heads  # factor: num_heads
        self.scale = None if scale == "sqrt_dk" else 1.0  # factor: scale. None is 1 / sqrt(d_k)
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(B, T, D) -> (B, T, D); `mask` (B, 1, 1, T) is True where a key may be looked at."""
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)  # each (B, H, T, K)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=self.scale)
        out: Tensor = self.out(y.transpose(1, 2).reshape(B, T, D))
        return out
