"""Multi-head self-attention. B texts, T tokens, D d_model, H heads, K = D / H the size of a head (d_k)."""

from typing import Literal

from torch import Tensor, nn

from knockout.model.kernels import attention, linear


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


class Attention(nn.Module):
    """Multi-head self-attention (Vaswani et al. 2017, 3.2).

    Parameters have the same names and shapes for every number of heads.
    """

    def __init__(self, d_model: int, *, num_heads: int, scale: Literal["sqrt_dk", "none"]) -> None:
        super().__init__()
        self.num_heads = num_heads  # factor: num_heads
        self.scale = (d_model // num_heads) ** -0.5 if scale == "sqrt_dk" else 1.0  # factor: scale
        self.qkv = Linear(d_model, 3 * d_model, blocks=3)
        self.out = Linear(d_model, d_model)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(B, T, D) -> (B, T, D); `mask` (B, T) is True where a key may be attended to."""
        y = attention(self.qkv(x), mask, num_heads=self.num_heads, scale=self.scale)
        out: Tensor = self.out(y)
        return out
