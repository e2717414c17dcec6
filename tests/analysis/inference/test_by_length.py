"""Accuracy by length: which classes there are, and every number against a count by hand."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from knockout.analysis.inference.by_length import accuracy_by_length, length_bounds, length_classes
from knockout.analysis.inference.pairs import Seed

Right = dict[tuple[str, Seed], NDArray[np.bool_]]

SEEDS = (0, 1, 2, 3, 4)


def bounds(lengths: Sequence[int]) -> tuple[int, ...]:
    return length_bounds(np.array(lengths))


def test_the_bounds_are_fixed_where_they_separate_the_texts() -> None:
    assert bounds([32] * 99 + [33]) == (32, 96, 224)
    assert bounds([32] * 100 + [33] + [40, 97] * 5) == (32, 96, 224)


def test_else_they_are_the_quartiles() -> None:
    assert bounds([32] * 100 + [33]) == (32,)
    assert bounds(range(1, 21)) == (5, 10, 15)
    assert bounds([5] * 10 + [6] * 10) == (5,)
    assert bounds([7] * 10) == ()


@given(st.lists(st.integers(0, 400), min_size=1, max_size=80))
def test_each_text_is_in_one_class_and_no_class_is_empty(lengths: list[int]) -> None:
    classes = length_classes(np.array(lengths))
    if len(set(lengths)) == 1:
        assert classes == []
    for of, member in classes:
        within = [of.shortest <= n and (of.longest is None or n <= of.longest) for n in lengths]
        assert member.tolist() == within
        assert of.texts == sum(within) > 0
    assert not classes or np.array([member for _, member in classes]).sum(axis=0).tolist() == [1] * len(lengths)


def test_every_number_against_a_count_by_hand() -> None:
    rng = np.random.default_rng(1)
    lengths = [int(n) for n in rng.integers(1, 300, 200)]
    right: Right = {(arm, seed): rng.random(200) < 0.7 for arm in ("baseline", "ours") for seed in SEEDS}
    alive = {"baseline": [0, 1, 2, 3], "ours": [1, 2, 3, 4]}
    rows = accuracy_by_length(lengths, right, alive, baseline="baseline")
    ranges = [(0, 32), (33, 96), (97, 224), (225, 10**6)]
    assert [(r.variant, r.of.shortest, r.of.longest or 10**6) for r in rows] == [
        (arm, *r) for arm in alive for r in ranges
    ]
    for row in rows:
        inside = [i for i, n in enumerate(lengths) if row.of.shortest <= n <= (row.of.longest or 10**6)]
        assert row.of.texts == len(inside)

        def accuracy(arm: str, seed: int, inside: list[int] = inside) -> float:
            return 100 * sum(bool(right[arm, seed][i]) for i in inside) / len(inside)

        assert row.runs == 4
        assert row.accuracy == pytest.approx(sum(accuracy(row.variant, s) for s in alive[row.variant]) / 4)
        if row.variant == "baseline":
            assert row.estimate is None
            continue
        d = [accuracy("ours", s) - accuracy("baseline", s) for s in (1, 2, 3)]
        mean = sum(d) / 3
        half = float(stats.t.ppf(0.975, 2)) * math.sqrt(sum((x - mean) ** 2 for x in d) / 2 / 3)
        assert row.estimate is not None
        assert row.estimate.n == 3
        assert row.estimate.difference == pytest.approx(mean)
        assert [row.estimate.low, row.estimate.high] == pytest.approx([mean - half, mean + half])


def test_an_arm_without_predictions_or_pairs_has_what_there_is() -> None:
    lengths = [10] * 5 + [50] * 5
    right: Right = {("ours", 0): np.array([True] * 5 + [False] * 5)}
    rows = accuracy_by_length(lengths, right, {"baseline": [0], "ours": [0]}, baseline="baseline")
    assert [(r.variant, r.accuracy, r.estimate) for r in rows] == [("ours", 100.0, None), ("ours", 0.0, None)]


def test_predictions_of_other_texts_are_left_out() -> None:
    right: Right = {("baseline", 0): np.array([True] * 3)}
    assert accuracy_by_length([1, 50], right, {"baseline": [0]}, baseline="baseline") == []
