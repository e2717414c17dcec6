"""Mixing of tokens without parameters. B texts, T tokens, D d_model."""

import torch
from torch import Tensor, nn


class Fourier(nn.Module):
    """The real part of the 2-D discrete Fourier transform over tokens and features (Lee-Thorp et al. 2022, 3.2).

    A text counts as `length` tokens (or T, if that is more) of which the rest are 0, so that its states do not depend
    on the width of its batch. The transform is unitary: its output has the size of its input. That of the paper is
    larger by sqrt(length * D), which a norm after the sum takes out again (Post-LN), but which would drown the
    feed-forward network in Pre-LN.
    """

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(B, T, D) -> (B, T, D). Where `mask` (B, T) is False, the states count as 0."""
        _, T, D = x.shape
        if mask is not None:
            x = x * mask[..., None]
        x = x.double() if x.dtype == torch.float64 else x.float()  # there is no transform in bfloat16
        spectrum: Tensor = torch.fft.fft2(x, s=(max(self.length, T), D), norm="ortho")
        return spectrum.real[:, :T]
