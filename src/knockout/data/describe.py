"""A summary of a dataset, for the choice of `max_length`, tokens and splits. Nothing is printed here.

Counts of empty rows, duplicates, contradicting labels and leakage are of the rows before cleaning; texts that become
the same tokens are one text. Class shares and
lengths are of the cleaned splits, on which a study would train and test.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from knockout.data import vocabulary
from knockout.data.batches import training_batches
from knockout.data.corpus import SPLITS, Corpus, Row, Tables
from knockout.data.rules import read_rows, twins_of
from knockout.job import DataSpec

QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
WHOLE_SHARE = 0.95
"""The share of texts that the advised `max_length` keeps whole."""

BATCH_SIZE = 64
"""Texts per batch in the count of padding: the default of a recipe."""


@dataclass(frozen=True, kw_only=True)
class GivenFacts:
    """The rows of one split, before cleaning."""

    rows: int
    empty: int
    repeats: int  # rows beyond the first of each (text, label) that occurs several times
    contradicting: int  # rows whose text occurs in the same split with another label


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Lengths in tokens, before cutting. A quantile is the smallest observed length with this share at or below it."""

    mean: float
    quantiles: Mapping[float, int]
    cut: int  # texts longer than max_length
    cut_tokens: float  # share of all tokens that max_length cuts


@dataclass(frozen=True, kw_only=True)
class SplitFacts:
    """One split after cleaning."""

    count: int
    classes: Mapping[str, int]
    majority: str
    majority_share: float  # what always guessing the commonest class gives
    lengths: Lengths
    tokens: int
    unknown: float  # share of tokens that the training vocabulary lacks


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The summary of a dataset."""

    given: Mapping[str, GivenFacts]
    leaks: Mapping[tuple[str, str], int]
    """(split, later split) -> rows of the later one whose text, as the model sees it, occurs in the first, before
    cleaning."""
    splits: Mapping[str, SplitFacts]
    dropped: Mapping[str, int]
    notes: Sequence[str]
    vocabulary: int
    tokens: str
    max_length: int
    advised_length: int  # keeps WHOLE_SHARE of the training texts whole
    advised_cut_tokens: float  # share of training tokens that it cuts
    padding_batched: float  # padded positions for each real token of training, in batches by length, at max_length
    padding_full: float  # the same where every text is padded to max_length


def describe(tables: Tables, corpus: Corpus, spec: DataSpec) -> Facts:
    """Summarise a corpus and the rows that it was cleaned from."""
    _, given = read_rows(tables, spec)
    rows = {split: given[split].rows for split in ("unsplit", *SPLITS) if split in given}
    twin = twins_of(given, spec)
    rows = {split: [(twin.get(text, text), label) for text, label in of_split] for split, of_split in rows.items()}
    tokenizer = vocabulary.learn(
        corpus.splits["train"].text,
        tokens=spec.tokens,
        vocabulary_size=spec.vocabulary_size,
        min_frequency=spec.min_frequency,
    )
    encoded = {s: vocabulary.encode_flat(tokenizer, corpus.splits[s].text, max_length=None) for s in SPLITS}
    lengths = {split: np.diff(offsets) for split, (_, offsets) in encoded.items()}
    advised = quantile(lengths["train"], WHOLE_SHARE)
    return Facts(
        given={split: _given(of_split) for split, of_split in rows.items()},
        leaks={(a, b): _leaks(rows[a], rows[b]) for a, b in combinations([s for s in SPLITS if s in rows], 2)},
        splits={s: _split(corpus, s, encoded[s][0], lengths[s], spec.max_length) for s in SPLITS},
        dropped=corpus.dropped,
        notes=corpus.notes,
        vocabulary=tokenizer.get_vocab_size(),
        tokens=spec.tokens,
        max_length=spec.max_length,
        advised_length=advised,
        advised_cut_tokens=share_cut(lengths["train"], advised),
        padding_batched=padding_in_batches(lengths["train"], spec.max_length),
        padding_full=spec.max_length / float(np.minimum(lengths["train"], spec.max_length).mean()) - 1,
    )


def quantile(lengths: NDArray[np.int64], share: float) -> int:
    """The smallest observed length with at least this share of the texts at or below it."""
    return int(np.quantile(lengths, share, method="inverted_cdf"))


def share_cut(lengths: NDArray[np.int64], max_length: int) -> float:
    """The share of all tokens that `max_length` cuts."""
    return 1 - float(np.minimum(lengths, max_length).sum() / lengths.sum())


def padding_in_batches(lengths: NDArray[np.int64], max_length: int) -> float:
    """Padded positions per real token, in the batches of the first epoch."""
    cut = np.minimum(lengths, max_length)
    batches = training_batches(cut, batch_size=BATCH_SIZE, seed=0, epoch=1)
    return sum(len(batch) * int(cut[batch].max()) for batch in batches) / int(cut.sum()) - 1


def _given(rows: Sequence[Row]) -> GivenFacts:
    labels: dict[str, set[int]] = {}
    for text, label in rows:
        labels.setdefault(text, set()).add(label)
    return GivenFacts(
        rows=len(rows),
        empty=sum(not text for text, _ in rows),
        repeats=len(rows) - len(set(rows)),
        contradicting=sum(len(labels[text]) > 1 for text, _ in rows),
    )


def _leaks(first: Sequence[Row], later: Sequence[Row]) -> int:
    seen = {text for text, _ in first if text}
    return sum(text in seen for text, _ in later)


def _split(
    corpus: Corpus, split: str, ids: NDArray[np.int32], lengths: NDArray[np.int64], max_length: int
) -> SplitFacts:
    counts = Counter(corpus.splits[split].label)
    classes = {name: counts[i] for i, name in enumerate(corpus.classes)}
    majority = max(classes, key=lambda name: classes[name])
    return SplitFacts(
        count=len(lengths),
        classes=classes,
        majority=majority,
        majority_share=classes[majority] / len(lengths),
        lengths=Lengths(
            mean=float(lengths.mean()),
            quantiles={q: quantile(lengths, q) for q in QUANTILES},
            cut=int((lengths > max_length).sum()),
            cut_tokens=share_cut(lengths, max_length),
        ),
        tokens=len(ids),
        unknown=float((ids == vocabulary.UNK).mean()),
    )
