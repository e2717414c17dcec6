"""What `knockout data` says, against counts by hand."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knockout.data.corpus import SPLITS, Tables
from knockout.data.describe import BATCH_SIZE, QUANTILES, Facts, describe, padding_in_batches, quantile, share_cut
from knockout.data.rules import clean, normalise
from knockout.job import DataSpec

Row = tuple[Any, Any]

lengths = st.lists(st.integers(1, 60), min_size=1, max_size=200)


def facts(spec: DataSpec, names: list[str] | None = None, **splits: Sequence[Row]) -> Facts:
    rows = {split: ([t for t, _ in pairs], [y for _, y in pairs]) for split, pairs in splits.items()}
    tables = Tables(rows=rows, names=names, notes=["a note"])
    return describe(tables, clean(tables, spec), spec)


def spec(**changed: Any) -> DataSpec:
    return DataSpec(source="x", min_frequency=1, **changed)


def sentences(count: int, word: str) -> list[Row]:
    return [(" ".join([word, f"n{i}", *["more"] * (i % 7)]), i % 3) for i in range(count)]


@given(values=lengths, share=st.floats(0.01, 1))
def test_a_quantile_is_the_least_length_that_the_share_does_not_pass(values: list[int], share: float) -> None:
    found = quantile(np.array(values), share)
    least = min(v for v in values if sum(w <= v for w in values) >= share * len(values) - 1e-9)
    assert found == least


@given(values=lengths, cut=st.integers(1, 70))
def test_the_share_of_tokens_that_is_cut(values: list[int], cut: int) -> None:
    lost = sum(max(0, v - cut) for v in values)
    assert share_cut(np.array(values), cut) == pytest.approx(lost / sum(values), abs=1e-12)


@given(values=lengths)
def test_padding_is_none_for_equal_lengths_and_never_more_than_without_batches(values: list[int]) -> None:
    assert padding_in_batches(np.full(len(values), 7), 5) == pytest.approx(0, abs=1e-12)
    full = max(values) * len(values) / sum(values) - 1
    assert -1e-12 <= padding_in_batches(np.array(values), 1000) <= full + 1e-12
    if len(values) <= BATCH_SIZE:
        assert padding_in_batches(np.array(values), 1000) == pytest.approx(full)


def test_rows_as_they_came_are_counted_before_cleaning() -> None:
    train = [*sentences(300, "t"), ("same ", 0), ("same", 0), (" same", 0), ("both", 0), ("both", 1), ("both", 1)]
    validation = [*sentences(100, "v"), train[0], ("", 2)]
    test = [*sentences(200, "u"), train[1], train[1], validation[0], ("same", 2), (None, 1)]
    told = facts(spec(), train=train, validation=validation, test=test)
    assert {s: (g.rows, g.empty, g.repeats, g.contradicting) for s, g in told.given.items()} == {
        "train": (306, 0, 3, 3),
        "validation": (102, 1, 0, 0),
        "test": (205, 1, 1, 0),
    }
    assert told.leaks == {("train", "validation"): 1, ("train", "test"): 3, ("validation", "test"): 1}
    assert told.splits["test"].count == 205  # a given test split keeps every row
    assert told.dropped["in train and in validation or test"] == 3
    assert told.notes[0] == "a note"


@pytest.mark.parametrize("tokens", ["word", "char"])
@pytest.mark.parametrize("max_length", [2, 4, 100])
def test_classes_lengths_and_unknown_tokens_against_counts_by_hand(tokens: Any, max_length: int) -> None:
    parts = {"train": sentences(300, "t"), "validation": sentences(100, "v x"), "test": sentences(200, "u")}
    told = facts(spec(tokens=tokens, max_length=max_length), names=["a", "b", "c", "never"], **parts)

    def split(text: str) -> list[str]:
        return text.split() if tokens == "word" else [c for c in text if not c.isspace()]

    known = {token for text, _ in parts["train"] for token in split(text)}
    assert told.vocabulary == len(known) + 2
    for name in SPLITS:
        found, rows = told.splits[name], parts[name]
        counts = Counter(label for _, label in rows)
        assert dict(found.classes) == {"a": counts[0], "b": counts[1], "c": counts[2], "never": 0}
        assert found.majority_share == max(counts.values()) / len(rows)
        assert found.classes[found.majority] == max(counts.values())
        of_tokens = [split(text) for text, _ in rows]
        sizes = sorted(map(len, of_tokens))
        every = [token for row in of_tokens for token in row]
        assert found.count == len(rows)
        assert found.tokens == len(every)
        assert found.unknown == sum(t not in known for t in every) / len(every)
        assert found.lengths.mean == pytest.approx(len(every) / len(rows))
        assert found.lengths.cut == sum(n > max_length for n in sizes)
        assert found.lengths.cut_tokens == pytest.approx(sum(max(0, n - max_length) for n in sizes) / len(every))
        assert [*found.lengths.quantiles.values()] == [sizes[math.ceil(q * len(sizes) - 1e-9) - 1] for q in QUANTILES]
    sizes = [len(split(text)) for text, _ in parts["train"]]
    assert sum(n <= told.advised_length for n in sizes) >= 0.95 * 300 > sum(n < told.advised_length for n in sizes)
    assert told.padding_full == pytest.approx(max_length * 300 / sum(min(n, max_length) for n in sizes) - 1)
    assert 0 <= told.padding_batched <= max(max(sizes), max_length) * 300


def test_nothing_is_unknown_to_byte_pairs() -> None:
    told = facts(spec(tokens="bpe", vocabulary_size=300), train=sentences(300, "t"), test=sentences(90, "很é😀"))
    assert [told.splits[s].unknown for s in SPLITS] == [0, 0, 0]


def test_unsplit_data_have_no_leaks_to_tell_of() -> None:
    rows = [*sentences(300, "t"), ("t n0 ", 0), ("<br />", 0)]
    told = facts(spec(), unsplit=rows)
    assert told.leaks == {}
    assert told.given["unsplit"].repeats == 1 == told.dropped["repeats in the data"]
    assert told.given["unsplit"].empty == 1 == told.dropped["empty in unsplit"]
    assert sum(s.count for s in told.splits.values()) == len({normalise(t) for t, _ in rows}) - 1
