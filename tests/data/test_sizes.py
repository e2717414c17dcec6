"""Smaller splits: nested, balanced over the classes, the same texts for every order of the file."""

import random
from collections import Counter
from fractions import Fraction
from math import floor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knockout.analysis.history import setting_changes
from knockout.data.corpus import SPLITS, DataError, Row
from knockout.data.prepare import content_id
from knockout.data.rules import clean
from knockout.data.sizes import reduce
from knockout.design import Setting, planned_design
from knockout.strict import FaultsError
from knockout.study import read_study
from knockout.variants import BASELINE
from tests.data.test_sources import many, rows_of, spec, tables

counts_of_classes = st.lists(st.integers(1, 30), min_size=2, max_size=4)


def rows_with(counts: list[int], seed: int = 0) -> list[Row]:
    """So many rows of each class, mixed."""
    rows = [(f"text {label} {i}", label) for label, count in enumerate(counts) for i in range(count)]
    random.Random(seed).shuffle(rows)
    return rows


def kept(rows: list[Row], size: int) -> list[Row]:
    return reduce(rows, size, twin={}, classes=[str(i) for i in range(9)], split="train")[0]


def sizes_that_hold_all(counts: list[int]) -> st.SearchStrategy[int]:
    # By Webster a class has its first text as soon as the size is the number of all over its own, and one per class.
    return st.integers(min(sum(counts), sum(counts) // min(counts) + len(counts)), sum(counts))


def largest_remainders(counts: list[int], size: int) -> list[int]:
    shares = [Fraction(size * count, sum(counts)) for count in counts]
    seats = [floor(share) for share in shares]
    order = sorted(range(len(counts)), key=lambda i: (seats[i] - shares[i], i))
    for i in order[: size - sum(seats)]:
        seats[i] += 1
    return seats


@given(st.data())
def test_a_smaller_size_is_a_part_of_a_larger_one_and_keeps_the_order(data: st.DataObject) -> None:
    rows = rows_with(counts := data.draw(counts_of_classes))
    small, large = sorted(data.draw(sizes_that_hold_all(counts)) for _ in range(2))
    few, more = kept(rows, small), kept(rows, large)
    assert len(few) == small
    assert set(few) <= set(more)
    assert few == [row for row in rows if row in set(few)]


@given(st.data(), st.randoms(use_true_random=False))
def test_the_order_of_the_file_does_not_matter(data: st.DataObject, order: random.Random) -> None:
    rows = rows_with(counts := data.draw(counts_of_classes))
    size = data.draw(sizes_that_hold_all(counts))
    other = order.sample(rows, len(rows))
    assert set(kept(other, size)) == set(kept(rows, size))


@given(st.data())
def test_two_classes_have_the_counts_of_the_largest_remainders(data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(1, 60), min_size=2, max_size=2))
    size = data.draw(sizes_that_hold_all(counts))
    found = Counter(label for _, label in kept(rows_with(counts), size))
    assert [found[0], found[1]] == largest_remainders(counts, size)


@given(st.data())
def test_each_class_has_its_share_to_within_one_text(data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(1, 30), min_size=3, max_size=3))  # Webster stays in quota up to three
    size = data.draw(sizes_that_hold_all(counts))
    found = Counter(label for _, label in kept(rows_with(counts), size))
    assert all(abs(found[i] - Fraction(size * count, sum(counts))) < 1 for i, count in enumerate(counts))


def test_largest_remainders_would_not_be_nested() -> None:
    counts = [6, 6, 2]
    assert largest_remainders(counts, 10) == [4, 4, 2]
    assert largest_remainders(counts, 11) == [5, 5, 1]


def test_which_texts_are_kept_is_fixed() -> None:
    rows = [(f"text {i}", i % 2) for i in range(20)]
    assert [text for text, _ in kept(rows, 4)] == ["text 0", "text 2", "text 13", "text 15"]


def test_too_few_rows_are_all_kept_and_a_class_that_would_vanish_is_named() -> None:
    rows = rows_with([10, 1])
    all_rows, note = reduce(rows, 12, twin={}, classes=["many", "rare"], split="test")
    assert all_rows == rows
    assert note == "data.sizes asks for 12 texts of test: it has 11, and all are kept"
    with pytest.raises(DataError) as caught:
        reduce(rows, 2, twin={}, classes=["many", "rare"], split="test")
    assert str(caught.value) == (
        "data.sizes: 2 of the 11 texts of test hold none of class rare; ask for at least 6, or 0 for all"
    )
    assert ("text 1 0", 1) in kept(rows, 6)


def test_cleaning_comes_first_and_the_id_follows_from_the_rows() -> None:
    rows = many(200)
    found = tables(train=[*rows, *rows[:50]], test=[*rows[:40], *many(60, "test")])
    whole = clean(found, spec())
    small = clean(found, spec(sizes=(50, 10, 20)))
    assert [len(rows_of(small, split)) for split in SPLITS] == [50, 10, 20]
    for split in SPLITS:
        assert set(rows_of(small, split)) <= set(rows_of(whole, split))
    assert small.dropped == whole.dropped
    assert sum("texts of train are kept" in note for note in small.notes) == 1
    enough = clean(found, spec(sizes=(1000, 0, 0)))
    assert content_id(enough, spec(sizes=(1000, 0, 0))) == content_id(whole, spec())
    assert content_id(small, spec(sizes=(50, 10, 20))) != content_id(whole, spec())


def test_texts_that_become_the_same_tokens_share_a_hash() -> None:
    rows = many(100, "Word")
    lower = [(text.lower(), label) for text, label in rows]
    twin = {text: text.lower() for text, _ in rows}
    one, _ = reduce(rows, 30, twin=twin, classes=["a", "b"], split="test")
    other, _ = reduce(lower, 30, twin={}, classes=["a", "b"], split="test")
    assert [text.lower() for text, _ in one] == [text for text, _ in other]


@pytest.mark.parametrize("value", ["[-1, 0, 0]", "[1, 2]", "[0.5, 0, 0]", "100"])
def test_a_size_is_three_whole_numbers(value: str, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        f'question = "q"\nvariants = ["heads_1"]\nseeds = 3\n[data]\nsource = "rotten_tomatoes"\nsizes = {value}\n'
    )
    with pytest.raises(FaultsError, match=r"data\.sizes"):
        read_study(path)


@pytest.mark.parametrize(("line", "described"), [("", None), ("sizes = [100, 0, 0]", [100, 0, 0])])
def test_a_design_holds_the_key_only_where_it_leaves_texts_out(line: str, described: object, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(f'question = "q"\nvariants = ["heads_1"]\nseeds = 3\n[data]\nsource = "rotten_tomatoes"\n{line}\n')
    design = planned_design(tmp_path / "results", read_study(path), data_id="an id", data_summary={})
    assert design.now.setting is not None
    assert design.now.setting.data.get("sizes") == described


@pytest.mark.parametrize(
    ("first", "now", "line"),
    [
        ({}, {"sizes": [100, 0, 0]}, "the data's sizes changed from [0, 0, 0] to [100, 0, 0] after the first run"),
        ({"sizes": [100, 0, 0]}, {}, "the data's sizes changed from [100, 0, 0] to [0, 0, 0] after the first run"),
    ],
)
def test_a_change_of_the_sizes_after_the_first_run_is_named(
    first: dict[str, object], now: dict[str, object], line: str
) -> None:
    one, other = (
        Setting(trainer="t", version=1, recipe={}, factors={BASELINE: {}}, data={"id": name, **data})
        for name, data in (("a", first), ("b", now))
    )
    assert setting_changes(one, other) == [line]
