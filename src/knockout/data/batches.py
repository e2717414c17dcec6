"""Batches: flat arrays of token ids, cut into padded batches of texts of similar length.

Batches depend on (lengths, seed, epoch) only, so all variants of a seed train on the same batches in the same order.

Dimensions: N texts, B batch, T tokens of the longest text in the batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from knockout.streams import stream

CHUNK_BATCHES = 50
"""Number of batches in a shuffled chunk. Within it texts are sorted by length: little padding, and a random order."""

LONG, GRAIN = 64, 8
"""Above LONG tokens, batches are padded to a multiple of GRAIN. A CPU prepares kernels for every new size, which costs
milliseconds and megabytes each."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """All texts of one split, on one device."""

    ids: Tensor  # (sum of lengths,) int32
    offsets: Tensor  # (N + 1,) int64
    labels: Tensor  # (N,) int64
    lengths: NDArray[np.int64]  # (N,)

    @property
    def count(self) -> int:
        return len(self.lengths)

    def width(self, index: NDArray[np.int64]) -> int:
        """The number of tokens that the texts at `index` are padded to: the longest, slightly more for long texts."""
        longest = int(self.lengths[index].max())
        return longest if longest <= LONG else min(-(-longest // GRAIN) * GRAIN, int(self.lengths.max()))

    def batch(self, index: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
        """Ids (B, T) padded with 0, the mask of real tokens (B, T), labels (B,) of the texts at `index`."""
        start = self.offsets[index]  # (B,)
        length = self.offsets[index + 1] - start
        column = torch.arange(width, device=self.ids.device)
        mask = column < length[:, None]  # (B, T)
        where = (start[:, None] + column).where(mask, 0)
        return self.ids[where].long() * mask, mask, self.labels[index]


@dataclass(frozen=True, kw_only=True)
class Data:
    """Prepared data, as a trainer uses them."""

    vocabulary: int
    classes: int
    max_length: int
    train: Split
    validation: Split
    test: Split


@lru_cache(maxsize=2)
def load(path: Path, device: str) -> Data:
    """Read the file that `knockout.data.prepare` wrote. Cached: once per worker."""
    with np.load(path, allow_pickle=False) as file:
        vocabulary, classes, max_length = (int(v) for v in file["shape"])

        def split(name: str) -> Split:
            offsets = file[f"{name}_offsets"]
            return Split(
                ids=torch.from_numpy(file[f"{name}_ids"]).to(device),
                offsets=torch.from_numpy(offsets).to(device),
                labels=torch.from_numpy(file[f"{name}_labels"]).to(device),
                lengths=np.diff(offsets),
            )

        return Data(
            vocabulary=vocabulary,
            classes=classes,
            max_length=max_length,
            train=split("train"),
            validation=split("validation"),
            test=split("test"),
        )


def training_batches(lengths: NDArray[np.int64], *, batch_size: int, seed: int, epoch: int) -> list[NDArray[np.int64]]:
    """The indices of every batch of one epoch, in order. Each text occurs once; the last batch may be smaller."""
    rng = np.random.default_rng(stream(seed, f"order/epoch.{epoch}"))
    order = rng.permutation(len(lengths))
    chunk = batch_size * CHUNK_BATCHES
    batches: list[NDArray[np.int64]] = []
    for start in range(0, len(order), chunk):
        part = order[start : start + chunk]
        part = part[np.argsort(lengths[part], kind="stable")]
        batches += [part[i : i + batch_size] for i in range(0, len(part), batch_size)]
    return [batches[i] for i in rng.permutation(len(batches))]


def evaluation_batches(lengths: NDArray[np.int64], *, tokens: int) -> Iterator[NDArray[np.int64]]:
    """Fixed batches, longest texts first, each of at most `tokens` padded tokens (one longer text is a batch alone)."""
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        size = max(1, tokens // int(lengths[order[start]]))
        yield order[start : start + size]
        start += size
