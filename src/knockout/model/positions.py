"""Positional encodings. T tokens, D d_model."""

import math
from typing import Literal

import torch
from torch import Tensor, nn


def sinusoids(length: int, d_model: int) -> Tensor:
    """The table (T, D) of Vaswani et al. 2017, 3.5: even columns sin(t / 10000^(i / D)), odd ones its cos."""
    time = torch.arange(length, dtype=torch.float64)[:, None]  # (T, 1)
    rate = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10_000.0) / d_model))  # (D / 2,)
    table = torch.empty(length, d_model, dtype=torch.float64)
    table[:, 0::2] = torch.sin(time * rate)
    table[:, 1::2] = torch.cos(time * rate)
    return table.float()


class Positions(nn.Module):
    """Adds positional encodings."""

    table: Tensor | None

    def __init__(self, kind: Literal["sinusoidal", "learned", "none"], *, length: int, d_model: int) -> None:
        super().__init__()
        match kind:  # factor: position
            case "sinusoidal":
                self.register_buffer("table", sinusoids(length, d_model), persistent=False)
            case "learned":  # Devlin et al. 2019: a table of parameters, initialised as the tokens are
                self.table = nn.Parameter(torch.empty(length, d_model))
            case "none":
                self.table = None

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        return x if self.table is None else x + self.table[: x.shape[1]]
