from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knockout.analysis.stats.scores import MacroF1, macro_f1

PAIRS = st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 6)), min_size=1, max_size=30)


def from_confusion(label: list[int], predicted: list[int], classes: int) -> tuple[float, tuple[int, ...]]:
    """F1 from precision and recall of a confusion matrix, counted cell by cell; scikit-learn's over the labels seen."""
    names = sorted({*range(classes), *predicted})
    cell = {(i, j): 0 for i in names for j in names}
    for pair in zip(label, predicted, strict=True):
        cell[pair] += 1
    scores = []
    for i in sorted(set(label)):
        recall = cell[i, i] / sum(cell[i, j] for j in names)
        column = sum(cell[j, i] for j in names)
        precision = cell[i, i] / column if column else 0.0
        scores.append(2 * precision * recall / (precision + recall) if precision + recall else 0.0)
    return sum(scores) / len(scores), tuple(i for i in range(classes) if i not in label)


@given(PAIRS, st.integers(5, 8))
def test_macro_f1_is_that_of_the_confusion_matrix(pairs: list[tuple[int, int]], classes: int) -> None:
    label, predicted = [p[0] for p in pairs], [p[1] for p in pairs]
    value, absent = from_confusion(label, predicted, classes)
    for dtype in (None, np.int8, np.int32):
        given_label: Any = label if dtype is None else np.array(label, dtype=dtype)
        found = macro_f1(given_label, predicted, classes=classes)
        assert found.value == pytest.approx(value, rel=1e-12)
        assert found.absent == absent
        assert type(found.value) is float
        assert {type(i) for i in found.absent} <= {int}


@given(PAIRS, st.randoms(use_true_random=False))
def test_neither_order_nor_names_of_classes_matter(pairs: list[tuple[int, int]], random: Any) -> None:
    label, predicted = [p[0] for p in pairs], [p[1] for p in pairs]
    found = macro_f1(label, predicted, classes=5)
    random.shuffle(pairs)
    shuffled = [p[0] for p in pairs], [p[1] for p in pairs]
    assert macro_f1(*shuffled, classes=5) == found
    renamed = [4 - y for y in label], [4 - z for z in predicted]
    assert macro_f1(*renamed, classes=5).value == pytest.approx(found.value, rel=1e-12)


def test_macro_f1_by_hand() -> None:
    assert macro_f1([0, 0, 1], [0, 1, 1], classes=2).value == pytest.approx(2 / 3)
    # Class 0: TP 2, FP 1, FN 0; class 1: TP 1, FP 0, FN 1; class 2: TP 1, FP 0, FN 0.
    assert macro_f1([0, 0, 1, 1, 2], [0, 0, 0, 1, 2], classes=3).value == pytest.approx((4 / 5 + 2 / 3 + 1) / 3)


def test_a_class_without_labels_does_not_halve_a_perfect_run() -> None:
    """B111: torchmetrics gives .5."""
    assert macro_f1([0, 0], [0, 0], classes=2) == MacroF1(value=1.0, absent=(1,))
    assert macro_f1([3, 1], [3, 1], classes=5) == MacroF1(value=1.0, absent=(0, 2, 4))


@pytest.mark.parametrize("stray", [2, 7, -1, 10**12])
def test_predicting_a_class_without_labels_is_a_miss_of_the_true_class(stray: int) -> None:
    # Class 0: TP 1, FN 1; class 1: TP 2. Nothing is averaged in for the stray class.
    found = macro_f1([0, 0, 1, 1], [0, stray, 1, 1], classes=3)
    assert found.value == pytest.approx((2 / 3 + 1) / 2)
    assert found.absent == (2,)


def test_scores_are_over_all_rows_and_not_a_mean_over_batches() -> None:
    """B112: 9 rows in batches of 4 gave .667 for an accuracy of 8/9."""
    label, predicted = [0, 1, 0, 1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1, 0, 1, 1]
    batches = [macro_f1(label[i : i + 4], predicted[i : i + 4], classes=2).value for i in (0, 4, 8)]
    assert sum(batches) / 3 == pytest.approx(2 / 3)
    assert macro_f1(label, predicted, classes=2).value == pytest.approx((8 / 9 + 8 / 9) / 2)


@pytest.mark.parametrize(
    ("label", "predicted", "message"),
    [
        ([], [], r"label must be a list of at least one class, got the shape \(0,\)"),
        ([0], [], r"predicted must be a list of at least one class, got the shape \(0,\)"),
        ([0, 1], [0], "label has 2 examples, predicted 1: one prediction for each label is needed"),
        ([0.0, 1.0], [0, 1], r"label must be integers \(classes from 0\), got float64"),
        ([0, 1], [0.5, 1], r"predicted must be integers \(classes from 0\), got float64"),
        ([True, False], [0, 1], "label must be integers .* got bool"),
        (["a"], ["a"], "label must be integers .* got <U1"),
        ([[0, 1]], [[0, 1]], r"label must be a list of at least one class, got the shape \(1, 2\)"),
    ],
)
def test_what_is_not_classes_in_pairs_is_refused(label: Any, predicted: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        macro_f1(label, predicted, classes=2)


def test_labels_outside_the_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="label has the class 2; with classes = 2 they go from 0 to 1"):
        macro_f1([0, 2], [0, 1], classes=2)
    with pytest.raises(ValueError, match="label has the class -1; with classes = 2 they go from 0 to 1"):
        macro_f1([0, -1], [0, 1], classes=2)
    with pytest.raises(ValueError, match="classes is how many classes there are, at least 1; got 0"):
        macro_f1([0], [0], classes=0)
