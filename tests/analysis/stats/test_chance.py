"""The chance level that dead runs are judged by."""

import itertools
import math
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.proportion import std_prop

from knockout.analysis.stats.chance import (
    Against,
    chance_level,
    classes_against_constant,
    constant_score,
    losses_against_constant,
    over_all_orders,
)
from knockout.analysis.stats.scores import macro_f1


def test_two_balanced_classes_by_hand() -> None:
    level = chance_level([50, 50], count=100, standard_errors=2)
    assert level.majority_share == 0.5
    assert level.bound == pytest.approx(0.6)


def test_the_standard_error_is_that_of_statsmodels() -> None:
    level = chance_level([70, 20, 10], count=847, standard_errors=3)
    assert level.bound == pytest.approx(0.7 + 3 * std_prop(0.7, 847), rel=1e-12)


def test_one_class_leaves_nothing_to_learn() -> None:
    assert chance_level([9, 0], count=9, standard_errors=2).bound == 1.0


def test_more_examples_bring_the_bound_nearer() -> None:
    bounds = [chance_level([5, 5], count=n, standard_errors=2).bound for n in (10, 100, 1000)]
    assert bounds == sorted(bounds, reverse=True)
    assert math.isclose(bounds[0] - 0.5, 10 * (bounds[2] - 0.5))


@pytest.mark.parametrize(("labels", "count"), [([], 10), ([0, 0], 10), ([1, 1], 0)])
def test_nothing_to_count_is_an_error(labels: list[int], count: int) -> None:
    with pytest.raises(ValueError, match="needs labels and examples"):
        chance_level(labels, count=count, standard_errors=2)


# --- against the constant answer ----------------------------------------------------------------------------------

Array = NDArray[np.int64]
DRAWS = 10_000


def two_classes(*, hits: int, rare: int, answered: int, n: int) -> tuple[Array, Array]:
    """Labels of which `rare` are 1, and answers of which `answered` are 1, `hits` of them rightly."""
    label = np.array([1] * rare + [0] * (n - rare))
    predicted = np.array(
        [1] * hits + [0] * (rare - hits) + [1] * (answered - hits) + [0] * (n - rare - answered + hits)
    )
    return label, predicted


def judged(label: Array, predicted: Array, metric: Literal["accuracy", "macro_f1"], errors: float = 2.0) -> Against:
    return classes_against_constant(label, predicted, metric, standard_errors=errors, draws=DRAWS, random_seed=0)


@pytest.mark.parametrize("counts", [[95, 5], [50, 50], [1, 0, 3, 4]])
def test_the_constant_answers_scores(counts: list[int]) -> None:
    label = np.repeat(np.arange(len(counts)), counts)
    most = np.full(len(label), int(np.argmax(counts)))
    assert constant_score(counts, "accuracy") == pytest.approx(float(np.mean(label == most)))
    assert constant_score(counts, "macro_f1") == pytest.approx(macro_f1(label, most, classes=len(counts)).value)
    assert constant_score(counts, "log_loss") == pytest.approx(float(stats.entropy(counts)))


def test_five_percent_rare_texts_that_a_run_learned() -> None:
    """12 of 20 rare texts are right, with 4 false alarms: macro-F1 .83 against .49, accuracy 97 % against 95 %."""
    label, predicted = two_classes(hits=12, rare=20, answered=16, n=400)
    bound = chance_level([380, 20], count=400, standard_errors=2).bound
    assert float(np.mean(label == predicted)) == 0.97 < bound  # by the counts alone the run was dead
    for metric in ("macro_f1", "accuracy"):
        against = judged(label, predicted, metric)
        assert not against.dead
    against = judged(label, predicted, "macro_f1")
    assert against.value == pytest.approx(macro_f1(label, predicted, classes=2).value)
    assert against.constant == pytest.approx(0.4872, abs=1e-4)


def test_a_constant_answer_and_one_below_it_are_dead() -> None:
    label, constant = two_classes(hits=0, rare=20, answered=0, n=400)
    assert judged(label, constant, "macro_f1").dead
    assert judged(label, constant, "accuracy").dead
    many = two_classes(hits=15, rare=20, answered=60, n=400)  # finds the rare texts, at the price of 45 false alarms
    assert judged(*many, "accuracy").dead  # 87.5 % where always guessing has 95 %
    assert not judged(*many, "macro_f1").dead


def test_a_coin_beats_the_constant_answers_macro_f1_and_is_dead() -> None:
    label, predicted = two_classes(hits=100, rare=200, answered=200, n=400)
    against = judged(label, predicted, "macro_f1")
    assert against.value == pytest.approx(0.5)
    assert against.constant == pytest.approx(1 / 3)
    assert against.ahead
    assert against.by_chance
    assert against.dead


@pytest.mark.parametrize(("rare", "answered", "n"), [(20, 10, 400), (200, 200, 400), (30, 1, 100), (5, 5, 20)])
def test_two_classes_against_the_hypergeometric_distribution(rare: int, answered: int, n: int) -> None:
    """The permutation test of a 2 x 2 table is Fisher's, one-sided; hits at which p is near the level are left out."""
    for hits in range(max(0, rare + answered - n), min(rare, answered) + 1):
        p = float(stats.hypergeom.sf(hits - 1, n, rare, answered))
        if abs(p - 0.02275) < 0.005:
            continue
        against = judged(*two_classes(hits=hits, rare=rare, answered=answered, n=n), "macro_f1")
        assert against.dead == (p > 0.02275 or not against.ahead), (hits, p)


def test_mean_and_variance_over_all_orders_by_enumeration() -> None:
    label, predicted = np.array([0, 0, 0, 1, 1, 2, 2]), np.array([0, 1, 1, 2, 2, 0, 5])  # 5 is no class
    weight = np.array([0.5, 0.25, 0.125])
    sums = [
        float(weight[label][label == np.array(order)].sum()) for order in itertools.permutations(predicted.tolist())
    ]
    labels = np.bincount(label, minlength=3).astype(float)
    answers = np.bincount(predicted[predicted < 3], minlength=3).astype(float)
    mean, variance = over_all_orders(labels, answers, weight)
    assert mean == pytest.approx(np.mean(sums))
    assert variance == pytest.approx(np.var(sums))


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1"])
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.95, 0.05), (0.4, 0.3, 0.2, 0.1)])
def test_answers_that_ignore_the_text_are_seldom_alive(
    metric: Literal["accuracy", "macro_f1"], shares: tuple[float, ...]
) -> None:
    rng = np.random.default_rng(1)
    classes = len(shares)
    label = np.repeat(np.arange(classes), [round(200 * share) for share in shares])
    blind = [rng.choice(classes, size=200, p=rng.permutation(shares)) for _ in range(400)]
    alive = sum(not judged(label, answers, metric).dead for answers in blind)
    assert alive <= stats.binom.isf(1e-4, 400, 0.02275)


def test_a_tail_beyond_what_the_draws_can_show() -> None:
    label, predicted = two_classes(hits=40, rare=50, answered=50, n=100)
    assert not judged(label, predicted, "accuracy", errors=50.0).dead


def losses_of(label: Array, loss: NDArray[np.float64]) -> dict[str, Any]:
    return {
        "label_counts": np.bincount(label).tolist(),
        "sums": np.bincount(label, weights=loss).tolist(),
        "squares": np.bincount(label, weights=loss**2).tolist(),
    }


@pytest.mark.parametrize("shift", [-0.1, 0.02, 0.05, 0.2])
def test_log_loss_is_the_paired_t_test_over_examples(shift: float) -> None:
    rng = np.random.default_rng(3)
    label = np.array([0] * 95 + [1] * 5)
    constant = -np.log(np.array([0.95, 0.05]))[label]
    loss = np.abs(constant - shift + rng.normal(0, 0.15, 100))
    against = losses_against_constant(**losses_of(label, loss), standard_errors=2)
    p = float(stats.ttest_rel(constant, loss, alternative="greater").pvalue)
    assert against.dead == (p >= 0.02275)
    assert against.value == pytest.approx(float(loss.mean()))
    assert against.constant == pytest.approx(float(constant.mean()))


def test_log_loss_that_is_not_finite_or_the_constant_answers_is_dead() -> None:
    label = np.array([0, 0, 1, 1])
    constant = np.full(4, math.log(2))
    assert losses_against_constant(**losses_of(label, constant), standard_errors=2).dead
    assert losses_against_constant(**losses_of(label, np.array([0, 0, 0, math.inf])), standard_errors=2).dead
    assert not losses_against_constant(**losses_of(label, constant / 2), standard_errors=2).dead
