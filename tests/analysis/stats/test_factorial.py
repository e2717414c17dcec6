"""Factorials among variants, and their effects: by hand, against Montgomery, least squares, and brute force."""

import itertools
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from knockout.analysis.stats.factorial import Effect, Factorial, crossed, effects, find_factorials

POST: dict[str, Any] = {"norm": "post"}
NO_WARMUP: dict[str, Any] = {"warmup": 0.0}
NO_SCALE: dict[str, Any] = {"scale": "none"}
LETTERS = "ABCDE"


def found(changes: Mapping[str, Mapping[str, Any]]) -> tuple[Factorial, ...]:
    return find_factorials(changes, baseline="baseline")


def lattice(k: int) -> dict[str, dict[str, Any]]:
    """Every combination of k factors but the baseline, shuffled."""
    names = ["".join(c) for size in range(1, k + 1) for c in itertools.combinations(LETTERS[:k], size)]
    np.random.default_rng(k).shuffle(names)
    return {name: dict.fromkeys(name, 1) for name in names}


# --- which factorials there are -----------------------------------------------------------------------------------


def test_two_by_two() -> None:
    changes = {"a": POST, "other": {"heads": 1}, "both": {**NO_WARMUP, **POST}, "b": NO_WARMUP}
    (told,) = found(changes)
    assert told.factors == ("norm", "warmup")
    assert told.axes == ("a", "b")
    assert dict(told.cells) == {(0, 0): "baseline", (1, 0): "a", (0, 1): "b", (1, 1): "both"}


def test_axes_come_in_the_order_of_the_changes() -> None:
    (told,) = found({"both": {**POST, **NO_WARMUP}, "b": NO_WARMUP, "a": POST})
    assert (told.factors, told.axes) == (("warmup", "norm"), ("b", "a"))
    assert (told.cells[1, 0], told.cells[0, 1]) == ("b", "a")


def test_an_axis_that_changes_two_factors_is_one() -> None:
    (told,) = found({"a": {**POST, **NO_WARMUP}, "b": NO_SCALE, "ab": {**NO_SCALE, **POST, **NO_WARMUP}})
    assert told.factors == ("norm+warmup", "scale")
    assert told.cells[1, 1] == "ab"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"a": POST},
        {"a": POST, "b": NO_WARMUP},  # the cell is missing
        {"a": POST, "ab": {**POST, **NO_WARMUP}},  # an axis is missing, and both change the norm
        {"a": POST, "b": NO_WARMUP, "ab": {"norm": "post", "warmup": 0.2}},  # another level
        {"a": {"n": True}, "b": {"m": 2}, "ab": {"n": 1, "m": 2}},  # true is not 1
        {"a": {"n": True}, "b": {"m": 2}, "ab": {"n": "true", "m": 2}},
        {"a": {"n": 1}, "b": {"n": 2}, "c": {"n": 1, "m": 2}},
    ],
)
def test_what_is_no_factorial(changes: Mapping[str, Mapping[str, Any]]) -> None:
    assert found(changes) == ()


def test_levels_are_compared_as_values() -> None:
    (told,) = found({"a": {"n": 0}, "b": {"m": [1, {"x": 2, "y": 3}]}, "ab": {"m": [1, {"y": 3, "x": 2}], "n": 0.0}})
    assert told.cells[1, 1] == "ab"


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_a_whole_lattice_is_one_factorial_of_all_factors(k: int) -> None:
    changes = lattice(k)
    (told,) = found(changes)
    assert told.axes == tuple(name for name in changes if len(name) == 1)
    assert len(told.cells) == 2**k
    for levels, name in told.cells.items():
        chosen = {f for f, level in zip(told.factors, levels, strict=True) if level}
        assert set("" if name == "baseline" else name) == chosen


def test_two_levels_of_one_factor_give_two_factorials() -> None:
    changes = {"a1": {"a": 1}, "a2": {"a": 2}, "b": {"b": 1}, "a2b": {"a": 2, "b": 1}, "a1b": {"a": 1, "b": 1}}
    assert [f.axes for f in found(changes)] == [("a1", "b"), ("a2", "b")]


def brute_force(changes: Mapping[str, Mapping[str, Any]]) -> set[frozenset[str]]:
    """Axes of all maximal full crossings, from the definition: every subset of the variants is tried."""
    index = {frozenset(own): name for name, own in changes.items()}
    full: dict[frozenset[str], set[str]] = {}
    for axes in (frozenset(c) for size in range(2, len(changes) + 1) for c in itertools.combinations(changes, size)):
        if sum(len(changes[a]) for a in axes) > len(set().union(*(changes[a] for a in axes))):
            continue
        subsets = [c for size in range(1, len(axes) + 1) for c in itertools.combinations(axes, size)]
        unions = [frozenset[str]().union(*(changes[a] for a in subset)) for subset in subsets]
        if all(union in index for union in unions):
            full[axes] = {index[union] for union in unions}
    return {axes for axes, cells in full.items() if not any(cells < other for other in full.values())}


@settings(max_examples=60)
@given(st.sets(st.sampled_from(sorted(lattice(4))), max_size=10), st.randoms(use_true_random=False))
def test_all_maximal_crossings_are_found(names: set[str], random: Any) -> None:
    order = sorted(names)
    random.shuffle(order)
    changes = {name: lattice(4)[name] for name in order}
    told = found(changes)
    assert {frozenset(f.axes) for f in told} == brute_force(changes)
    assert len({f.axes for f in told}) == len(told)
    places = [[order.index(axis) for axis in f.axes] for f in told]
    assert places == sorted(places)
    assert all(place == sorted(place) for place in places)


def test_a_named_crossing_has_the_order_of_its_names() -> None:
    told = crossed(["B", "A"], lattice(3), baseline="none")
    assert (told.factors, told.axes) == (("B", "A"), ("B", "A"))
    assert dict(told.cells) == {(0, 0): "none", (1, 0): "B", (0, 1): "A", (1, 1): lattice_name("AB")}


def lattice_name(letters: str) -> str:
    return next(name for name in lattice(3) if set(name) == set(letters))


@pytest.mark.parametrize(
    ("axes", "text"),
    [
        (["a", "c"], "'c' as an axis; allowed are the variants: a, b, a2"),
        (["a", "a2"], "'a' and 'a2' both change norm"),
        (["a", "b"], "no variant changes what a and b change; declare one"),
    ],
)
def test_what_cannot_be_crossed_is_told(axes: list[str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        crossed(axes, {"a": POST, "b": NO_WARMUP, "a2": {"norm": "none"}}, baseline="baseline")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"a": POST, "placebo": {}}, "'placebo' changes nothing; leave it out"),
        ({"a": POST, "b": POST}, "'b' and 'a' change the same"),
        ({"baseline": POST}, "the baseline 'baseline' among the changes"),
    ],
)
def test_changes_that_are_none(changes: Mapping[str, Mapping[str, Any]], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        found(changes)


# --- effects ------------------------------------------------------------------------------------------------------


def by_name(told: tuple[Effect, ...]) -> dict[str, Effect]:
    return {e.name: e for e in told}


def definition(values: NDArray[Any], subset: tuple[int, ...]) -> NDArray[Any]:
    """Differences along the factors of the effect, then the mean over the others."""
    k = values.ndim - 1
    for axis in subset:
        values = np.diff(values, axis=axis)
    values = values.mean(axis=tuple(i for i in range(k) if i not in subset), keepdims=True)
    return values.reshape(-1)


def test_two_by_two_by_hand() -> None:
    values = np.array([[[100, 90], [110, 90]], [[120, 80], [90, 81]]])  # [norm, warmup, seed]
    assert effects(values, ("norm", "warmup")) == (
        Effect(name="norm", order=1, sums=((120 + 90) - (100 + 110), (80 + 81) - (90 + 90)), divisor=2),
        Effect(name="warmup", order=1, sums=((110 + 90) - (100 + 120), (90 + 81) - (90 + 80)), divisor=2),
        Effect(name="norm x warmup", order=2, sums=((90 - 110) - (120 - 100), (81 - 90) - (80 - 90)), divisor=1),
    )


def test_one_factor_is_the_paired_difference() -> None:
    assert effects(np.array([[3, 5], [10, 1]]), ["a"]) == (Effect(name="a", order=1, sums=(7, -4), divisor=1),)


MONTGOMERY = {  # Design and Analysis of Experiments, problem 6.1: life of a tool in hours, three replicates
    "": (22, 31, 25), "A": (32, 43, 29), "B": (35, 34, 50), "AB": (55, 47, 46),
    "C": (44, 45, 38), "AC": (40, 37, 36), "BC": (60, 50, 54), "ABC": (39, 41, 47),
}  # fmt: skip


def tool_life() -> NDArray[np.int64]:
    values = np.zeros((2, 2, 2, 3), dtype=np.int64)
    for name, row in MONTGOMERY.items():
        values[tuple(int(letter in name) for letter in "ABC")] = row
    return values


def test_montgomery() -> None:
    """His effects are twice the coefficients that he prints; ours of m factors 2^(m - 1) times his."""
    told = by_name(effects(tool_life(), "ABC"))
    for name, printed in {"A": 0.16667, "B": 5.66667, "C": 3.41667, "A x C": -4.41667}.items():
        effect = told[name]
        mine = sum(effect.sums) / 3 / effect.divisor
        assert mine / 2 ** (effect.order - 1) == pytest.approx(2 * printed, abs=2e-5)
    assert (told["A x C"].sums[0], told["A x C"].divisor) == (-55, 2)


def test_the_effects_share_out_the_sum_of_squares() -> None:
    """Contrast^2 / (n 2^k) is an effect's sum of squares (Montgomery, ch. 6): 1612.67 in all, as printed for 6.1."""
    values = tool_life()
    told = [sum(e.sums) ** 2 / (3 * 8) for e in effects(values, "ABC")]
    cells = values.mean(axis=-1)
    assert sum(told) == pytest.approx(3 * ((cells - cells.mean()) ** 2).sum(), rel=1e-12)
    assert sum(told) == pytest.approx(1612.67, abs=0.005)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_effects_are_coefficients_of_a_least_squares_fit(k: int) -> None:
    """Levels coded -1/2 and 1/2, and the products of the codes for interactions, every seed an observation."""
    values = np.random.default_rng(k).normal(size=(*(2,) * k, 7))
    cells = np.array(list(itertools.product((0, 1), repeat=k)))
    codes = np.repeat(cells - 0.5, 7, axis=0)
    told = effects(values, LETTERS[:k])
    columns = [codes[:, [LETTERS.index(f) for f in e.name.split(" x ")]].prod(axis=1) for e in told]
    fitted = sm.OLS(values.reshape(-1), sm.add_constant(np.column_stack(columns))).fit()
    means = [sum(e.sums) / 7 / e.divisor for e in told]
    assert means == pytest.approx(list(fitted.params[1:]), abs=1e-12)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_highest_interaction_is_that_of_a_fit_with_dummies(k: int) -> None:
    values = np.random.default_rng(k).normal(size=(*(2,) * k, 5))
    cells = np.repeat(np.array(list(itertools.product((0, 1), repeat=k)), dtype=float), 5, axis=0)
    subsets = [c for size in range(k + 1) for c in itertools.combinations(range(k), size)]
    fitted = sm.OLS(values.reshape(-1), np.column_stack([cells[:, list(s)].prod(axis=1) for s in subsets])).fit()
    last = effects(values, LETTERS[:k])[-1]
    assert (last.order, last.divisor) == (k, 1)
    assert sum(last.sums) / 5 == pytest.approx(fitted.params[-1], abs=1e-12)


counts = st.integers(0, 20_000)


@st.composite
def designs(draw: st.DrawFn) -> NDArray[np.int64]:
    k, n = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    size = 2**k * n
    return np.array(draw(st.lists(counts, min_size=size, max_size=size))).reshape(*(2,) * k, n)


@settings(max_examples=50)
@given(designs(), st.randoms(use_true_random=False))
def test_properties(values: NDArray[np.int64], random: Any) -> None:
    k, n = values.ndim - 1, values.shape[-1]
    factors = LETTERS[:k]
    told = effects(values, factors)
    subsets = [c for size in range(1, k + 1) for c in itertools.combinations(range(k), size)]
    assert [e.name for e in told] == [" x ".join(factors[i] for i in s) for s in subsets]
    assert [e.order for e in told] == [len(s) for s in subsets]
    for effect, subset in zip(told, subsets, strict=True):
        assert all(type(s) is int for s in effect.sums)
        assert np.array(effect.sums) / effect.divisor == pytest.approx(definition(values, subset), abs=1e-6)
    assert effects(values.astype(float), factors) == told
    order = list(range(n))
    random.shuffle(order)
    assert [e.sums for e in effects(values[..., order], factors)] == [tuple(e.sums[i] for i in order) for e in told]
    axis = random.randrange(k)
    for effect, flipped in zip(told, effects(np.flip(values, axis=axis), factors), strict=True):
        sign = -1 if factors[axis] in effect.name.split(" x ") else 1
        assert flipped.sums == tuple(sign * s for s in effect.sums)
    swapped = by_name(
        effects(np.swapaxes(values, 0, k - 1), factors[k - 1] + factors[1 : k - 1] + factors[:1] * (k > 1))
    )
    assert {frozenset(name.split(" x ")): e.sums for name, e in swapped.items()} == {
        frozenset(e.name.split(" x ")): e.sums for e in told
    }


@given(st.lists(counts, min_size=4, max_size=4), st.lists(st.integers(-5000, 5000), min_size=4, max_size=4))
def test_what_adds_up_has_no_interaction(seeds: list[int], sizes: list[int]) -> None:
    values = np.array(seeds) + sum(
        np.array([0, size]).reshape([2 if i == axis else 1 for i in range(5)]) for axis, size in enumerate(sizes)
    )
    for effect in effects(values, "ABCD"):
        expected = sizes["ABCD".index(effect.name)] * effect.divisor if effect.order == 1 else 0
        assert effect.sums == (expected,) * 4
    for effect in effects(values / 20_011, "ABCD"):  # real values: their rounding is no interaction either
        assert effect.order == 1 or effect.sums == (0.0,) * 4


def test_rounding_does_not_make_equal_effects_differ() -> None:
    low = np.random.default_rng(3).uniform(0.3, 0.9, 8)
    (effect,) = effects(np.stack([low, low + 0.1]), ["a"])
    assert len(set(low + 0.1 - low)) > 1
    assert len(set(effect.sums)) == 1
    assert effect.sums[0] == pytest.approx(0.1, rel=1e-12)


def test_integers_stay_exact_where_floats_and_64_bits_do_not() -> None:
    values = np.array([[[0], [2**62]], [[2**62 + 1], [-(2**62)]]])
    told = by_name(effects(values, "AB"))
    assert told["A"].sums == (1 - 2**62,)
    assert told["A x B"].sums == (-(2**62) - 2**62 - (2**62 + 1),)


def test_results_are_plain_numbers() -> None:
    for values in (np.ones((2, 2, 3), dtype=np.float32), np.full((2, 2, 3), 0.3), np.ones((2, 2, 3), dtype=np.uint8)):
        json.dumps([e.sums for e in effects(values, "AB")])
    assert effects(np.ones((2, 2, 0)), "AB")[0].sums == ()


@pytest.mark.parametrize(
    ("values", "factors", "text"),
    [
        (np.array([[1.0], [math.nan]]), ["a"], "leave out the seeds"),
        (np.array([[1.0], [-math.inf]]), ["a"], "leave out the seeds"),
        (np.ones((2, 3)), ["a", "b"], r"shape \(2, 3\) for 2 factors; \(2, 2, number of seeds\)"),
        (np.ones((2, 3, 5)), ["a", "b"], r"shape \(2, 3, 5\)"),
        (np.ones((2, 2, 5)), ["a", "a"], "different names"),
        (np.ones(5), [], "one or more different names"),
        (np.ones((2, 5), dtype=bool), ["a"], "type bool"),
        (np.array([["1"], ["2"]]), ["a"], "integers or floats"),
    ],
)
def test_what_is_refused(values: NDArray[Any], factors: list[str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        effects(values, factors)
