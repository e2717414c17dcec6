"""Full 2^k factorials among the variants of a study, and their main effects and interactions, seed by seed.

k: factors, each with level 0 (as in the baseline) and level 1 (as its variant changes it); n: seeds.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from knockout.analysis.stats.numeric import ROUNDING

Changes = Mapping[str, Mapping[str, Any]]
"""variant -> {factor: its changed level, as text or as a JSON value}; the baseline is not in it"""


@dataclass(frozen=True, kw_only=True)
class Factorial:
    """A full crossing: every combination of k variants has been declared as a variant."""

    factors: tuple[str, ...]
    """what each axis changes: a factor's name; of an axis that changes several, joined by "+" """
    axes: tuple[str, ...]
    """for each factor the variant that changes it alone, in the order of `changes`"""
    cells: Mapping[tuple[int, ...], str]
    """a level, 0 or 1, of each factor -> variant; all zeros is the baseline"""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A main effect (order 1) or an interaction (order 2 and more) of a factorial."""

    name: str
    """the factors, joined by " x " """
    order: int
    sums: tuple[int | float, ...]
    """for each seed the signed sum over all cells; integers where the values are"""
    divisor: int
    """sums / divisor is the effect of each seed, in the unit of the values"""


def find_factorials(changes: Changes, *, baseline: str) -> tuple[Factorial, ...]:
    """All maximal full crossings of two or more variants, in the order in which their axes come in `changes`.

    Axes are variants, and what a variant changes is one unit, whether that is one factor or several. Variants are
    crossed where no two of them change the same factor and for every subset of them there is a variant that changes
    just what the subset changes together. Maximal: its cells are not all among those of another crossing. With a, b, c
    and all their combinations there is one, of three axes; a with b and c together is part of it.
    Raises `ValueError` where a variant changes nothing, two change the same, or the baseline is among them.
    """
    parts, names = _indexed(changes, baseline)
    order = list(changes)
    crossings: list[tuple[str, ...]] = []

    def extend(axes: tuple[str, ...], unions: list[frozenset[Any]], start: int) -> None:
        if len(axes) > 1:
            crossings.append(axes)
        for i in range(start, len(order)):
            new = parts[order[i]]
            if any(_shared(parts[axis], new) for axis in axes):
                continue
            grown = [union | new for union in unions]
            if all(cell in names for cell in grown):
                extend((*axes, order[i]), [*unions, *grown], i + 1)

    extend((), [frozenset()], 0)
    whole = [crossed(axes, changes, baseline=baseline) for axes in crossings]
    cells = [frozenset(f.cells.values()) for f in whole]
    return tuple(f for f, mine in zip(whole, cells, strict=True) if not any(mine < other for other in cells))


def crossed(axes: Sequence[str], changes: Changes, *, baseline: str) -> Factorial:
    """The full crossing of the variants that are named, in their order.

    Raises `ValueError` where a name is unknown, two axes change the same factor, or a combination is no variant.
    """
    parts, names = _indexed(changes, baseline)
    unknown = [axis for axis in axes if axis not in parts]
    if unknown:
        raise ValueError(f"got {unknown[0]!r} as an axis; allowed are the variants: {', '.join(changes)}")
    for one, other in itertools.combinations(axes, 2):
        if both := _shared(parts[one], parts[other]):
            raise ValueError(
                f"{one!r} and {other!r} both change {both[0]} and cannot be crossed; leave one of them out"
            )
    cells = {}
    for levels in itertools.product((0, 1), repeat=len(axes)):
        chosen = [axis for axis, level in zip(axes, levels, strict=True) if level]
        union = frozenset[Any]().union(*(parts[axis] for axis in chosen))
        if union not in names:
            raise ValueError(f"no variant changes what {' and '.join(chosen)} change; declare one to cross them")
        cells[levels] = names[union]
    return Factorial(factors=tuple("+".join(changes[axis]) for axis in axes), axes=tuple(axes), cells=cells)


def effects(values: ArrayLike, factors: Sequence[str], *, rounding: float = ROUNDING) -> tuple[Effect, ...]:
    """One `Effect` for every non-empty subset of the factors: main effects first, then interactions by their order.

    `values`: (2,) * k + (n,), of counts of correct predictions or of real metrics; `values[1, 0, s]` is the cell with
    the first factor changed and the second not, with seed s. Seeds with a missing or failed cell are left out by the
    caller. Whole numbers, also in an array of floats, give sums that are exact integers; sums of real numbers below
    `rounding` of the largest value are 0, and sums of all seeds that differ by less are one number.

    Main effect: the mean, over the levels of the other factors, of (level 1 - level 0). Interaction of m factors: the
    m-fold difference (of two: the difference of differences, (y11 - y01) - (y10 - y00)), mean over the levels of the
    rest. A cell's sign in the sum is the product over the effect's factors of +1 at level 1 and -1 at level 0, and the
    divisor is 2^(k - m). It is the coefficient of a least-squares fit with levels coded -1/2 and +1/2.

    Textbooks divide all contrasts by 2^(k - 1) (Montgomery, Design and Analysis of Experiments, ch. 6; Wu & Hamada,
    Experiments, on full factorials at two levels), so that an interaction of two factors here is twice theirs, and one
    of m factors 2^(m - 1) times. This one is in points as it stands: A's effect changes by so much when B changes.

    The first replicate of Montgomery's problem 6.1, (1) = 22, a = 32, b = 35, ab = 55, c = 44, ac = 40, bc = 60,
    abc = 39, gives for A x C the sum -55 and the divisor 2: -27.5 (his AC: -13.75).
    Raises `ValueError` for another shape, for NaN and infinities, and for names that are not different.
    """
    array = np.asarray(values)
    k = len(factors)
    if k == 0 or len(set(factors)) < k:
        raise ValueError(f"got the factors {list(factors)}; one or more different names are needed")
    if array.ndim != k + 1 or array.shape[:k] != (2,) * k:
        shape = f"({'2, ' * k}number of seeds)"
        raise ValueError(f"got values of shape {array.shape} for {k} factors; {shape} is needed, a cell and seed each")
    if array.dtype.kind not in "iuf":
        raise ValueError(f"got values of type {array.dtype}; integers or floats are needed")
    if not np.isfinite(array).all():
        raise ValueError("a value is NaN or infinite; leave out the seeds of which a cell is missing or has failed")
    contrasts = _yates(array, k)
    largest = float(np.abs(array).max()) if array.size else 0.0
    results = []
    for order in range(1, k + 1):
        for subset in itertools.combinations(range(k), order):
            row = contrasts[tuple(int(i in subset) for i in range(k))]
            sums = tuple(row) if contrasts.dtype == object else _without_noise(row.tolist(), rounding * largest)
            name = " x ".join(factors[i] for i in subset)
            results.append(Effect(name=name, order=order, sums=sums, divisor=2 ** (k - order)))
    return tuple(results)


def _indexed(changes: Changes, baseline: str) -> tuple[dict[str, frozenset[Any]], dict[frozenset[Any], str]]:
    """variant -> its changes as a set, and back; the baseline is the empty set."""
    if baseline in changes:
        raise ValueError(f"got the baseline {baseline!r} among the changes; only variants belong there")
    parts = {name: frozenset((f, _level(value)) for f, value in own.items()) for name, own in changes.items()}
    names: dict[frozenset[Any], str] = {frozenset(): baseline}
    for name, part in parts.items():
        if not part:
            raise ValueError(f"{name!r} changes nothing; leave it out, it is no cell of a factorial")
        if part in names:
            raise ValueError(f"{name!r} and {names[part]!r} change the same; leave one of them out")
        names[part] = name
    return parts, names


def _level(value: object) -> tuple[str, object]:
    """A level that can be compared: 0 and 0.0 are one, but true is not 1, and not "true"."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number", value
    return "json", json.dumps(value, sort_keys=True)


def _shared(one: frozenset[Any], other: frozenset[Any]) -> list[str]:
    return sorted({factor for factor, _ in one} & {factor for factor, _ in other})


def _yates(array: NDArray[Any], k: int) -> NDArray[Any]:
    """Along each factor its sum (at 0) and difference (at 1): all contrasts at once (Yates 1937).

    Of dtype object, with Python's integers, where all values are whole: those neither round nor overflow.
    """
    whole = array.dtype.kind in "iu" or bool((array == np.floor(array)).all())
    sums = np.array([int(x) for x in array.ravel()], dtype=object).reshape(array.shape) if whole else array
    for axis in range(k):
        low, high = np.take(sums, 0, axis=axis), np.take(sums, 1, axis=axis)
        sums = np.stack([high + low, high - low], axis=axis)
    return sums


def _without_noise(sums: list[float], noise: float) -> tuple[float, ...]:
    sums = [0.0 if abs(x) <= noise else x for x in sums]
    return (sums[0],) * len(sums) if sums and max(sums) - min(sums) <= noise else tuple(sums)
