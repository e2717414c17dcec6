"""Batches: each text once, the same ones for every variant, and padding that a loop in Python agrees with."""

import dataclasses
import math
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from knockout.data.batches import CHUNK_BATCHES, Order, Split, evaluation_batches, load, training_batches
from knockout.data.prepare import prepare
from knockout.job import DataSpec
from knockout.schedules import phases
from knockout.streams import generator, stream

lengths_of_texts = st.lists(st.integers(1, 40), max_size=400).map(lambda v: np.array(v, dtype=np.int64))


def split_of(rows: list[list[int]], labels: list[int] | None = None) -> Split:
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return Split(
        ids=torch.tensor([i for row in rows for i in row], dtype=torch.int32),
        offsets=torch.from_numpy(offsets),
        labels=torch.tensor(labels or [0] * len(rows), dtype=torch.int64),
        lengths=np.diff(offsets),
    )


def same(one: list[NDArray[np.int64]], other: list[NDArray[np.int64]]) -> bool:
    return [b.tolist() for b in one] == [b.tolist() for b in other]


@given(lengths=lengths_of_texts, batch_size=st.integers(1, 50), seed=st.integers(0, 2**53 - 1), epoch=st.integers(1, 9))
def test_each_text_once_in_as_many_batches_as_the_trainer_counts(
    lengths: NDArray[np.int64], batch_size: int, seed: int, epoch: int
) -> None:
    batches = training_batches(lengths, batch_size=batch_size, seed=seed, epoch=epoch)
    assert sorted(i for batch in batches for i in batch.tolist()) == list(range(len(lengths)))
    assert len(batches) == math.ceil(len(lengths) / batch_size)
    assert sorted(map(len, batches)) == sorted(
        [batch_size] * (len(lengths) // batch_size) + [r for r in [len(lengths) % batch_size] if r]
    )


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7])
@pytest.mark.parametrize("off", [-1, 0, 1])
@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_chunks_never_make_more_batches(batch_size: int, off: int, chunks: int) -> None:
    count = chunks * CHUNK_BATCHES * batch_size + off
    batches = training_batches(np.ones(count, dtype=np.int64), batch_size=batch_size, seed=0, epoch=1)
    assert len(batches) == -(-count // batch_size)
    assert sum(len(batch) < batch_size for batch in batches) <= 1


def test_batches_are_a_function_of_seed_and_epoch_alone() -> None:
    lengths = np.random.default_rng(0).integers(1, 64, 1000)

    def made(seed: int, epoch: int) -> list[NDArray[np.int64]]:
        return training_batches(lengths, batch_size=16, seed=seed, epoch=epoch)

    first = {(seed, epoch): made(seed, epoch) for seed in (0, 1) for epoch in (1, 2, 3)}
    np.random.seed(7)  # noqa: NPY002  # the global generators are stirred, and must not matter
    torch.manual_seed(7)
    for key, batches in reversed(first.items()):
        assert same(batches, made(*key))
    pairs = [(a, b) for a in first for b in first if a < b]
    assert not any(same(first[a], first[b]) for a, b in pairs)
    assert not any(
        {tuple(sorted(x.tolist())) for x in first[a]} & {tuple(sorted(x.tolist())) for x in first[b]} for a, b in pairs
    )


def test_batches_hold_texts_of_similar_length_in_a_random_order() -> None:
    lengths = np.random.default_rng(1).integers(1, 65, 3200)
    batches = training_batches(lengths, batch_size=16, seed=0, epoch=1)
    padded = sum(len(batch) * int(lengths[batch].max()) for batch in batches)
    unsorted = sum(16 * int(lengths[i : i + 16].max()) for i in range(0, 3200, 16))
    assert padded < 1.1 * int(lengths.sum()) < unsorted
    longest = np.array([lengths[batch].max() for batch in batches])
    assert abs(float(np.corrcoef(longest[:-1], longest[1:])[0, 1])) < 0.3  # 200 batches: the sd of chance is 0.07


@given(lengths=lengths_of_texts, tokens=st.integers(1, 300))
def test_evaluation_batches_cover_each_text_once_within_the_budget(lengths: NDArray[np.int64], tokens: int) -> None:
    batches = list(evaluation_batches(lengths, tokens=tokens))
    assert sorted(i for batch in batches for i in batch.tolist()) == list(range(len(lengths)))
    assert all(len(batch) == 1 or len(batch) * int(lengths[batch].max()) <= tokens for batch in batches)
    tops = [int(lengths[batch].max()) for batch in batches]
    assert tops == sorted(tops, reverse=True)
    assert same(batches, list(evaluation_batches(lengths, tokens=tokens)))


@given(
    rows=st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=9), min_size=1, max_size=12),
    picks=st.lists(st.integers(0, 10**6), min_size=1, max_size=8),
    more=st.integers(0, 3),
)
def test_a_batch_against_padding_by_hand(rows: list[list[int]], picks: list[int], more: int) -> None:
    labels = [i % 3 for i in range(len(rows))]
    split = split_of(rows, labels)
    index = [pick % len(rows) for pick in picks]
    longest = max(len(rows[i]) for i in index) + more
    ids, mask, told = split.batch(torch.tensor(index), longest)
    assert ids.tolist() == [rows[i] + [0] * (longest - len(rows[i])) for i in index]
    assert mask.tolist() == [[column < len(rows[i]) for column in range(longest)] for i in index]
    assert told.tolist() == [labels[i] for i in index]
    assert (ids.dtype, mask.dtype) == (torch.int64, torch.bool)
    assert split.count == len(rows)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**53 - 1))
def test_streams_of_other_purposes_and_seeds_are_others(seed: int) -> None:
    purposes = ("order/epoch.1", "order/epoch.2", "dropout", "init/encoder.0.weight", "init/encoder.1.weight")
    drawn = {p: tuple(np.random.default_rng(stream(seed, p)).integers(0, 2**63, 4).tolist()) for p in purposes}
    assert len(set(drawn.values())) == len(purposes)
    again = {
        p: tuple(np.random.default_rng(stream(seed, p)).integers(0, 2**63, 4).tolist()) for p in reversed(purposes)
    }
    assert again == drawn
    other = np.random.default_rng(stream((seed + 1) % 2**53, "dropout")).integers(0, 2**63, 4)
    assert tuple(other.tolist()) != drawn["dropout"]


def test_a_stream_is_keyed_as_documented() -> None:
    expected = np.random.SeedSequence([3, zlib.crc32(b"init/head.weight")])
    np.testing.assert_array_equal(stream(3, "init/head.weight").generate_state(8), expected.generate_state(8))


def test_generators_repeat_whatever_else_was_drawn() -> None:
    first = torch.rand(5, generator=generator(0, "dropout"))
    torch.rand(100, generator=generator(0, "other"))
    torch.manual_seed(5)
    assert torch.equal(first, torch.rand(5, generator=generator(0, "dropout")))
    assert not torch.equal(first, torch.rand(5, generator=generator(1, "dropout")))
    assert not torch.equal(first, torch.rand(5, generator=generator(0, "other")))


@pytest.mark.usefixtures("cache")
def test_what_was_prepared_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "".join(f"a b{i} {'c ' * (i % 5)},{i % 2}\n" for i in range(200)))
    prepared = prepare(DataSpec(source=str(path), max_length=4, min_frequency=1))
    data = load(prepared.ref.path, "cpu")
    assert (data.vocabulary, data.classes, data.max_length) == (prepared.summary["vocabulary"], 2, 4)
    for name in ("train", "validation", "test"):
        split: Split = getattr(data, name)
        assert split.count == prepared.summary["splits"][name]["count"] == len(split.labels)
        assert split.lengths.max() <= 4
        assert int(split.lengths.sum()) == len(split.ids)
        assert int(split.ids.max()) < data.vocabulary
        assert int(split.ids.min()) > 0  # no text holds padding


@given(lengths=st.lists(st.integers(1, 300), min_size=1, max_size=30), last=st.integers(0, 29))
def test_width_holds_every_text_and_no_more_than_the_longest_of_all(lengths: list[int], last: int) -> None:
    split = split_of([[1] * n for n in lengths])
    batch = np.arange(min(last, len(lengths) - 1) + 1)
    longest, width = max(lengths[: len(batch)]), split.width(batch)
    assert longest <= width <= max(lengths)
    assert width == longest if longest <= 64 else width < longest + 8
    assert width <= 64 or width % 8 == 0 or width == max(lengths)
    ids, mask, _ = split.batch(torch.from_numpy(batch), width)
    assert mask.sum(1).tolist() == lengths[: len(batch)]
    assert torch.equal(ids.bool(), mask)


@pytest.mark.parametrize("order", ["by_length", "shuffled", "by_class"])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("batch_size", "initial"), [(16, 0), (64, 8)])
def test_no_order_repeats_a_text_and_every_batch_has_the_size_of_its_phase(
    order: Order, drop_last: bool, batch_size: int, initial: int
) -> None:
    draw = np.random.default_rng(3)
    lengths, labels = draw.integers(1, 40, 1003), draw.integers(0, 3, 1003)
    for epoch in (1, 2):
        cut = phases(1003, epoch=epoch, epochs=2, batch_size=batch_size, initial=initial, drop_last=drop_last)
        batches = training_batches(lengths, seed=0, epoch=epoch, phases=cut, order=order, labels=labels)
        indices = [i for batch in batches for i in batch.tolist()]
        assert len(indices) == len(set(indices)) == sum(phase.texts for phase in cut)
        assert len(indices) == 1003 or drop_last
        expected = [phase.batch_size for phase in cut for _ in range(phase.steps)]
        assert len(batches) == len(expected)
        short = [len(batch) for batch, size in zip(batches, expected, strict=True) if len(batch) != size]
        assert short == ([] if drop_last else [cut[-1].texts % cut[-1].batch_size])


def test_shuffled_batches_are_the_permutation_cut_and_not_sorted_by_length() -> None:
    lengths = np.random.default_rng(1).integers(1, 65, 400)
    batches = training_batches(lengths, batch_size=16, seed=5, epoch=2, order="shuffled")
    expected = np.random.default_rng(stream(5, "order/epoch.2")).permutation(400)
    assert np.concatenate(batches).tolist() == expected.tolist()
    assert not same(batches, training_batches(lengths, batch_size=16, seed=5, epoch=3, order="shuffled"))
    by_length = training_batches(lengths, batch_size=16, seed=5, epoch=2)
    spread = [float(np.mean([lengths[batch].std() for batch in made])) for made in (batches, by_length)]
    assert spread[1] < spread[0] / 3


def test_by_class_is_one_class_after_the_other_every_epoch_the_same() -> None:
    labels = np.array([2, 0, 1, 0, 2, 1, 0])
    made = [
        training_batches(np.ones(7, dtype=np.int64), batch_size=3, seed=s, epoch=e, order="by_class", labels=labels)
        for s, e in ((0, 1), (0, 2), (1, 1))
    ]
    assert [batch.tolist() for batch in made[0]] == [[1, 3, 6], [2, 5, 0], [4]]
    assert same(made[0], made[1])
    assert same(made[0], made[2])


def test_drop_last_leaves_out_random_texts_not_the_longest() -> None:
    lengths = np.arange(1, 101)  # one chunk: a batch of what is left after sorting has the longest texts
    left_out = []
    for epoch in range(1, 41):
        cut = phases(100, epoch=epoch, epochs=40, batch_size=16, drop_last=True)
        batches = training_batches(lengths, seed=0, epoch=epoch, phases=cut)
        left_out += sorted(set(range(100)) - {i for batch in batches for i in batch.tolist()})
    assert len(left_out) == 40 * 4
    assert abs(float(np.mean(left_out)) - 49.5) < 4 * 29 / math.sqrt(160)


@given(
    rows=st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=9), min_size=1, max_size=12),
    tokens=st.integers(1, 10),
)
def test_cut_texts_are_their_first_tokens(rows: list[list[int]], tokens: int) -> None:
    split = split_of(rows).cut(tokens)
    expected = split_of([row[:tokens] for row in rows])
    for name in ("ids", "offsets", "labels"):
        one, other = getattr(split, name), getattr(expected, name)
        assert one.dtype == other.dtype
        assert torch.equal(one, other), name
    assert split.lengths.tolist() == expected.lengths.tolist()


def test_word_dropout_makes_a_share_of_the_tokens_unknown_and_changes_nothing_else() -> None:
    draw = np.random.default_rng(0)
    split = split_of([draw.integers(2, 99, n).tolist() for n in draw.integers(1, 60, 400)])
    before, count = split.ids.clone(), len(split.ids)
    made = {(s, e): split.without_words(0.1, seed=s, epoch=e) for s in (0, 1) for e in (1, 2)}
    for dropped in made.values():
        unknown = dropped.ids == 1  # data/vocabulary.py: [PAD] is 0, [UNK] is 1
        assert abs(int(unknown.sum()) - 0.1 * count) < 5 * math.sqrt(count * 0.1 * 0.9)
        assert torch.equal(dropped.ids[~unknown], before[~unknown])
        assert dropped.ids.dtype == before.dtype
        assert torch.equal(dropped.offsets, split.offsets)
    assert torch.equal(split.ids, before)
    assert torch.equal(made[0, 1].ids, split.without_words(0.1, seed=0, epoch=1).ids)
    assert len({dropped.ids.numpy().tobytes() for dropped in made.values()}) == 4
    first, second = made[0, 1].ids == 1, made[0, 2].ids == 1
    assert abs(int((first & second).sum()) - 0.01 * count) < 5 * math.sqrt(count * 0.01)  # epochs are independent


@given(lengths=lengths_of_texts, tokens=st.integers(1, 300))
def test_full_padding_counts_for_the_budget_of_evaluation(lengths: NDArray[np.int64], tokens: int) -> None:
    batches = list(evaluation_batches(lengths, tokens=tokens, pad_to=40))
    assert sorted(i for batch in batches for i in batch.tolist()) == list(range(len(lengths)))
    assert all(len(batch) <= max(1, tokens // 40) for batch in batches)
    split = dataclasses.replace(split_of([[1] * int(n) for n in lengths]), pad_to=40)
    assert {split.width(batch) for batch in batches} <= {40}
