"""Positional encodings: added to the embeddings, or a bias of the attention logits, or a rotation of queries and keys.

B texts, T tokens, D d_model, H heads, K size of a head. An added [CLS] is token 0 and moves the words on by one.

Texts may be longer than the table that a model is built with. Sinusoids, rotations and `alibi` are computed for any
length; `t5` has one bucket for all far distances; of `learned` positions those beyond the last row use the last row.
"""

import math

import torch
from torch import Tensor, nn

from knockout.variants import Factors

BUCKETS, FARTHEST = 32, 128
"""Of `t5` (Raffel et al. 2020, 2.1): buckets, half of them each way, and the distance from which all share one."""


def sinusoids(length: int, d_model: int) -> Tensor:
    """The table (T, D) of Vaswani et al. 2017, 3.5: even columns sin(t / 10000^(i / D)), odd ones its cos."""
    time = torch.arange(length, dtype=torch.float64)[:, None]  # (T, 1)
    rate = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10_000.0) / d_model))  # (D / 2,)
    table = torch.empty(length, d_model, dtype=torch.float64)
    table[:, 0::2] = torch.sin(time * rate)
    table[:, 1::2] = torch.cos(time * rate)
    return table.float()


class Sinusoids(nn.Module):
    """The first rows of the sinusoids, as many as are asked for: the table grows where it is too short."""

    table: Tensor

    def __init__(self, length: int, d_model: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(length, d_model), persistent=False)

    def forward(self, rows: int) -> Tensor:  # (rows, D)
        have = len(self.table)
        if rows > have:
            more = sinusoids(rows, self.table.shape[1])[have:]
            self.table = torch.cat((self.table, more.to(self.table.device)))
        return self.table[:rows]


class Rotation(nn.Module):
    """Rotary positions: pair i of a query or key at position t is turned by t / 10000^(2i / K) (Su et al. 2021, 3.2.2).

    The product of a query and a key then depends on the distance of their positions only.
    """

    def __init__(self, head_size: int) -> None:
        super().__init__()
        self.sinusoids = Sinusoids(0, head_size)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, H, K) -> (B, T, H, K)
        angles = self.sinusoids(x.shape[1])[:, None]  # (T, 1, K)
        sin, cos = angles[..., 0::2], angles[..., 1::2]
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2).to(x.dtype)


def alibi_slopes(num_heads: int) -> list[float]:
    """One slope for each head: 2^(-8(h + 1) / H), h = 0 to H - 1, for a power of two (Press et al. 2022, 3).

    For another H, those of the power of two below it, then every second one of the power of two above it (their code).
    """
    below = 2 ** (num_heads.bit_length() - 1)
    slopes = [2 ** (-8 * (h + 1) / below) for h in range(below)]
    return slopes + [2 ** (-8 * (h + 1) / (2 * below)) for h in range(0, 2 * (num_heads - below), 2)]


def t5_buckets(distance: Tensor) -> Tensor:
    """The bucket, 0 to 31, of each distance (key position minus query position), of the same shape.

    Distances 0 to 7 have a bucket each, and the others one of eight that widen with the logarithm; the last of them has
    all from 91. Keys after the query have the second 16 buckets (Raffel et al. 2020, 2.1, and their code).
    """
    half, exact = BUCKETS // 2, BUCKETS // 4
    far = distance.abs()
    log = torch.log(far.clamp(min=1).float() / exact) / math.log(FARTHEST / exact)
    wide = (exact + (log * (half - exact)).long()).clamp(max=half - 1)
    return torch.where(far < exact, far, wide) + half * (distance > 0)


class Positions(nn.Module):
    """The positional encoding that is added to the embeddings, or the bias that all layers add to their logits.

    `rope` has neither: it is part of each `Attention`.
    """

    table: Tensor | None
    slopes: Tensor
    bucket: Tensor

    def __init__(self, factors: Factors, *, length: int, d_model: int) -> None:
        super().__init__()
        self.kind = factors.position
        self.table = None
        match factors.position:  # factor: position
            case "sinusoidal" | "sinusoidal_by_row":
                self.sinusoids = Sinusoids(length, d_model)
            case "learned":  # Devlin et al. 2019: a table of parameters, initialised as the tokens are
                self.table = nn.Parameter(torch.empty(length, d_model))
            case "alibi":
                self.register_buffer("slopes", torch.tensor(alibi_slopes(factors.num_heads)), persistent=False)
            case "t5":  # one table for all layers
                self.buckets = nn.Parameter(torch.empty(BUCKETS, factors.num_heads))
                near = t5_buckets(
                    torch.arange(-FARTHEST, FARTHEST + 1)
                )  # on the CPU: the logarithm of a GPU may round 2.0 down
                self.register_buffer("bucket", near, persistent=False)
            case "none" | "rope":
                pass

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        B, T, _ = x.shape
        match self.kind:
            case "sinusoidal":
                table: Tensor = self.sinusoids(T)
                return x + table
            case "sinusoidal_by_row":  # a fault of a tutorial: the index of the text in the batch is its position
                table = self.sinusoids(B)
                return x + table[:, None]
            case "learned":
                assert self.table is not None
                last = len(self.table) - 1
                return x + (
                    self.table[:T] if last >= T - 1 else self.table[torch.arange(T, device=x.device).clamp(max=last)]
                )
            case "none" | "rope" | "alibi" | "t5":
                return x

    def bias(self, tokens: int) -> Tensor | None:
        """The bias (H, T, T) of the attention logits of each query (second) and key (last), or `None`.

        `alibi` is the symmetric form for encoders: minus the slope of the head times the distance |i - j|.
        """
        match self.kind:
            case "alibi":
                return -self.slopes[:, None, None] * _distances(tokens, self.slopes.device).abs()
            case "t5":
                distance = _distances(tokens, self.bucket.device).clamp(-FARTHEST, FARTHEST)
                return self.buckets[self.bucket[distance + FARTHEST]].permute(2, 0, 1)
            case _:
                return None


def _distances(tokens: int, device: torch.device) -> Tensor:
    """(T, T): the position of the key (last) minus that of the query (first)."""
    place = torch.arange(tokens, device=device)
    return place - place[:, None]
