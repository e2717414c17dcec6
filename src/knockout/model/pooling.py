"""Pooling: from the states of all tokens to one vector per text. B texts, T tokens, D the size of a state."""

from typing import Literal

import torch
from torch import Tensor, nn

from knockout.model.attention import Linear


def pool(x: Tensor, mask: Tensor, *, kind: Literal["mean", "max", "cls", "first", "last"], masked: bool) -> Tensor:
    """(B, T, D) and the mask of real tokens (B, T) -> (B, D).

    `cls` and `first` both take the state at position 0: the added [CLS] token, or the first word. `last` takes that of
    the last real token. Unless `masked`, padding counts in the mean and the maximum, and `last` is position T - 1, as
    in some tutorials.
    """
    match kind:  # factor: pooling; factor: pooling_mask
        case "mean" if masked:
            weight = mask.to(x.dtype)
            return (x * weight[..., None]).sum(1) / weight.sum(1, keepdim=True)
        case "mean":
            return x.mean(1)
        case "max" if masked:
            return x.masked_fill(~mask[..., None], float("-inf")).amax(1)
        case "max":
            return x.amax(1)
        case "last" if masked:
            last = (mask * torch.arange(mask.shape[1], device=mask.device)).amax(1)
            return x[torch.arange(len(x), device=x.device), last]
        case "last":
            return x[:, -1]
        case "cls" | "first":
            return x[:, 0]


class AttentionPooling(nn.Module):
    """The mean of the states, weighted by additive attention (Bahdanau, Cho & Bengio 2015; Lin et al. 2017, 2.1).

    The weights are the softmax over the tokens of w . tanh(W x + b), with W of D x D. w has no bias: softmax would not
    see it.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.hidden = Linear(size, size)
        self.score = nn.Linear(size, 1, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(B, T, D) -> (B, D). Where `mask` (B, T) is False, a token has no weight."""
        scores: Tensor = self.score(torch.tanh(self.hidden(x)))[..., 0]
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(1)[..., None]  # (B, T, 1)
        return (weights * x).sum(1)
