"""Batches: flat arrays of token ids, cut into padded batches.

Which texts a batch holds depends on (lengths, labels, seed, epoch) and on the fields of factors and recipe that are
marked `batches` only, so all other variants of a seed train on the same batches in the same order. The lengths are
those of the prepared data, so a run that cuts its texts has the same batches, too.

Dimensions: N texts, B batch, T tokens of the longest text in the batch.
"""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from knockout.schedules import Phase
from knockout.streams import generator, stream

Order = Literal["by_length", "shuffled", "by_class"]

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
    pad_to: int = 0  # the number of tokens of every batch; 0 is as many as its longest text has

    @property
    def count(self) -> int:
        return len(self.lengths)

    def width(self, index: NDArray[np.int64]) -> int:
        """The number of tokens that the texts at `index` are padded to: the longest, slightly more for long texts.

        With `pad_to` it is that number.
        """
        if self.pad_to:  # factor: padding
            return self.pad_to
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

    def cut(self, tokens: int) -> "Split":
        """The same texts, each cut after `tokens` tokens."""
        lengths = np.minimum(self.lengths, tokens)
        if np.array_equal(lengths, self.lengths):
            return self
        offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        starts = np.repeat(np.cumsum(self.lengths) - self.lengths - offsets[:-1], lengths)  # (sum of lengths,)
        kept = torch.from_numpy(starts + np.arange(offsets[-1])).to(self.ids.device)
        return dataclasses.replace(
            self, ids=self.ids[kept], offsets=torch.from_numpy(offsets).to(self.offsets.device), lengths=lengths
        )

    def without_words(self, share: float, *, seed: int, epoch: int) -> "Split":
        """The same texts, in which this share of the tokens is the unknown token (Iyyer et al. 2015, 3.1).

        Each token is drawn independently, anew in every epoch, by (seed, epoch, place in the split): batches and
        padding do not change which. No text gets shorter; a short one may become unknown tokens only.
        """
        from knockout.data.vocabulary import UNK  # takes a while to import, and few runs need it

        draw = generator(seed, f"word_dropout/epoch.{epoch}")
        dropped = torch.rand(len(self.ids), generator=draw) < share
        return dataclasses.replace(self, ids=self.ids.masked_fill(dropped.to(self.ids.device), UNK))


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


@lru_cache(maxsize=2)
def words(path: Path) -> list[str]:
    """The tokens of prepared data by their ids, as texts; empty for data without them, which an older version made."""
    with np.load(path, allow_pickle=False) as file:
        read: list[str] = json.loads(file["words"].tobytes()) if "words" in file else []
    return read


def training_batches(
    lengths: NDArray[np.int64],
    *,
    seed: int,
    epoch: int,
    batch_size: int = 0,
    phases: Sequence[Phase] = (),
    order: Order = "by_length",
    labels: NDArray[np.int64] | None = None,
) -> list[NDArray[np.int64]]:
    """The indices of every batch of one epoch, in order. No text occurs twice; the last batch may be smaller.

    Either all batches have `batch_size` texts, or those of each phase have its size. Texts for which the phases have
    no room (`drop_last`) are the last ones of the order below: random ones, or with `by_class` always the same.

    `by_length`: a random order, in chunks that are sorted by length and cut; the batches of a phase are shuffled.
    `shuffled`: the same random order, cut. `by_class`: sorted by `labels`, else in the order of the data; every epoch
    and seed the same. `lengths` are those of the prepared data, also for a run that cuts its texts.
    """
    phases = phases or [Phase(batch_size, len(lengths))]
    rng = np.random.default_rng(stream(seed, f"order/epoch.{epoch}"))
    if order == "by_class":  # factor: order
        assert labels is not None, "by_class needs labels"
        texts = np.argsort(labels, kind="stable")
    else:
        texts = rng.permutation(len(lengths))
    batches: list[NDArray[np.int64]] = []
    start = 0
    for phase in phases:
        part = texts[start : start + phase.texts]
        start += phase.texts
        if order == "by_length":
            batches += _by_length(part, lengths, phase.batch_size, rng)
        else:
            batches += _cut(part, phase.batch_size)
    return batches


def _by_length(
    texts: NDArray[np.int64], lengths: NDArray[np.int64], batch_size: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Batches of texts of similar length, in a random order."""
    batches: list[NDArray[np.int64]] = []
    for chunk in _cut(texts, batch_size * CHUNK_BATCHES):
        batches += _cut(chunk[np.argsort(lengths[chunk], kind="stable")], batch_size)
    return [batches[i] for i in rng.permutation(len(batches))]


def _cut(texts: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    return [texts[i : i + size] for i in range(0, len(texts), size)]


def evaluation_batches(lengths: NDArray[np.int64], *, tokens: int, pad_to: int = 0) -> Iterator[NDArray[np.int64]]:
    """Fixed batches, longest texts first, each of at most `tokens` padded tokens (one longer text is a batch alone).

    Texts are padded to the longest of the batch, or to `pad_to`.
    """
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        size = max(1, tokens // (pad_to or int(lengths[order[start]])))
        yield order[start : start + size]
        start += size
