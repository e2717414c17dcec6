"""Pooling: from the states of all tokens to one vector per text. B texts, T tokens, D d_model."""

from typing import Literal

from torch import Tensor


def pool(x: Tensor, mask: Tensor, *, kind: Literal["mean", "max", "cls", "first"], masked: bool) -> Tensor:
    """(B, T, D) and the mask of real tokens (B, T) -> (B, D).

    `cls` and `first` both take the state at position 0: the added [CLS] token, or the first word. Unless `masked`,
    padding counts in the mean and the maximum, as in some tutorials.
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
        case "cls" | "first":
            return x[:, 0]
