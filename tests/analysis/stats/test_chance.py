"""The chance level that dead runs are judged by."""

import math

import pytest
from statsmodels.stats.proportion import std_prop

from knockout.analysis.stats.chance import chance_level


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
