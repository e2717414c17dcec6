"""One layer of the encoder. B texts, T tokens, D d_model."""

from collections.abc import Callable
from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

from knockout.model.attention import Attention, Linear
from knockout.model.dropout import Dropout
from knockout.model.fourier import Fourier
from knockout.variants import Factors, Recipe


def norm(factors: Factors, size: int) -> nn.Module:
    """Layer normalisation (Ba et al. 2016), RMS normalisation (Zhang & Sennrich 2019), or nothing."""
    if factors.norm == "none":  # factor: norm
        return nn.Identity()
    if factors.norm_kind == "rms":  # factor: norm_kind. The epsilon is that of layer normalisation.
        return nn.RMSNorm(size, eps=1e-5)
    return nn.LayerNorm(size)


def gated_size(d_model: int, d_ff: int) -> int:
    """The hidden size of three maps with biases that have as many parameters as two of size `d_ff`: about 2/3 of it.

    Shazeer 2020, 3.1, where maps without biases give 2/3 exactly.
    """
    return max(1, round(d_ff * (2 * d_model + 1) / (3 * d_model + 2)))


class Layer(nn.Module):
    """One encoder layer: tokens are mixed, by self-attention as a rule, then a position-wise feed-forward network."""

    def __init__(self, factors: Factors, recipe: Recipe, *, length: int) -> None:
        super().__init__()
        D = recipe.d_model
        self.mixing = factors.mixing
        self.feed_forward = factors.feed_forward
        self.pre_norm = factors.norm == "pre"
        self.residual = factors.residual
        if self.mixing == "attention":
            weights_dropout = (
                Dropout(factors.dropout) if factors.attention_dropout else None
            )  # factor: attention_dropout
            self.attention = Attention(factors, recipe, weights_dropout)
        if self.mixing == "fourier":
            self.fourier = Fourier(length)
        if self.mixing != "none":
            self.attention_norm = norm(factors, D)
            self.attention_dropout = Dropout(factors.dropout)
        if self.feed_forward:
            gated = factors.activation == "swiglu"
            size = gated_size(D, recipe.d_ff) if gated else recipe.d_ff
            self.ffn_in = Linear(D, size, relu=factors.activation == "relu")  # factor: activation
            self.ffn_gate = Linear(D, size) if gated else None
            self.gelu = nn.GELU() if factors.activation == "gelu" else nn.Identity()
            self.ffn_out = Linear(size, D)
            self.ffn_norm = norm(factors, D)
            self.ffn_dropout = Dropout(factors.dropout)
            self.hidden_dropout = Dropout(factors.dropout) if factors.ffn_dropout else nn.Identity()
            self.second_dropout = Dropout(factors.dropout) if factors.double_ffn_dropout else nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None, bias: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D); `mask` (B, T) is True at real tokens, `bias` (H, T, T) is that of positions."""
        if self.mixing != "none":  # factor: mixing
            x = self.sublayer(x, self.attention_norm, lambda h: self.attention_dropout(self.mixed(h, mask, bias)))
        if self.feed_forward:  # factor: feed_forward
            x = self.sublayer(x, self.ffn_norm, lambda h: self.ffn_dropout(self.fed_forward(h)))
        return x

    def mixed(self, h: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
        y: Tensor = self.attention(h, mask, bias) if self.mixing == "attention" else self.fourier(h, mask)
        return y

    def fed_forward(self, h: Tensor) -> Tensor:
        """Two maps around an activation, or those of Shazeer 2020, equation 6: out(silu(gate(h)) * in(h))."""
        y = self.gelu(self.ffn_in(h))
        if self.ffn_gate is not None:  # factor: activation
            y = F.silu(self.ffn_gate(h)) * y
        y = self.ffn_out(self.hidden_dropout(y))  # factor: ffn_dropout
        return cast("Tensor", self.second_dropout(y))  # factor: double_ffn_dropout

    def sublayer(self, x: Tensor, norm: nn.Module, f: Callable[[Tensor], Tensor]) -> Tensor:
        """x + f(norm(x)), or norm(x + f(x))."""
        y = f(norm(x) if self.pre_norm else x)  # factor: norm (Xiong et al. 2020, figure 1)
        if self.residual:  # factor: residual (He et al. 2016; Dong et al. 2021)
            y = x + y
        return y if self.pre_norm else cast("Tensor", norm(y))
