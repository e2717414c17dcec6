"""Values that were logged in single or half precision, read as the numbers that they stand for.

A logged .46 comes back as 0.46000000834465027 where it went through a float32. Differences of .01 come back as
.00999999046325684 or .01000002026557922, so ties and constant differences are lost.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pandas as pd

from knockout.analysis.stats.numeric import ROUNDING

LONGEST = 9
"""Digits that tell every float32 from its neighbours: a number with more was written by a program, from a float64."""

EXACT_DIGITS = {np.dtype(np.float32): 6, np.dtype(np.float16): 3}
"""Decimals of so many digits come back from the type unchanged (FLT_DIG of C; IEEE 754)."""

STEPS = 4
"""A difference of two differences carries the rounding of four values, half a step each at most."""

LARGEST_TEST_SET = 200_000
CHANCE = 1e-6
"""Values are taken as counts over a common number of examples where they would be so by chance less often than this."""

Float = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Precise:
    """A column of values, and how precise they are."""

    values: list[float]
    rounding: float
    """differences below this share of the largest value are rounding"""
    note: str
    """what was decided; empty where the values stand as they were given"""


def precise(given: Sequence[float], name: str, *, kind: np.dtype[np.floating] | None = None) -> Precise:
    """The values of a column as the numbers that they stand for.

    Single precision shows in the values themselves: they have more digits than a float32 has, and are one. `kind`: the
    type of the column, where it is known; half precision is told by it alone, as 0.4599609375 may be 471 / 1024.

    - Values that are short decimals in that precision are these decimals.
    - Values that are counts over one number of examples are these fractions: 0.8349906206130981 is 890 / 1066.
    - Others stay as precise as they are, and differences below that precision are rounding.
    """
    values = [float(x) for x in given]
    half = kind == np.dtype(np.float16)
    narrow = np.dtype(np.float16) if half else np.dtype(np.float32)
    logged = [math.isfinite(x) and (half or is_single(x)) for x in values]
    if not any(logged) or (not half and not any(_all_bits(x) for x, ok in zip(values, logged, strict=True) if ok)):
        return Precise(values=values, rounding=ROUNDING, note="")
    written = [shortest(x, narrow) if ok else x for x, ok in zip(values, logged, strict=True)]
    changed = next((i for i, ok in enumerate(logged) if ok and written[i] != values[i]), None)
    kept = [x for x in written if math.isfinite(x)]
    label = f"{name} was logged in {'half' if half else 'single'} precision"
    if changed is None:
        return Precise(values=values, rounding=ROUNDING, note="")
    example = f"{values[changed]!r} is read as {{}}"
    if all(digits_of(x) <= EXACT_DIGITS[narrow] or x.is_integer() for x in kept):
        return Precise(values=written, rounding=ROUNDING, note=f"{label}: {example.format(repr(written[changed]))}.")
    step = float(np.finfo(narrow).eps)
    for top in (1.0, 100.0):
        examples = denominator(values, top=top, step=step)
        if examples:
            counts = [round(x / top * examples) if math.isfinite(x) else x for x in values]
            fractions = [top * x / examples if math.isfinite(x) else x for x in counts]
            as_count = f"{'' if top == 1 else '100 x '}{counts[changed]:,} / {examples:,}"
            return Precise(values=fractions, rounding=ROUNDING, note=f"{label}: {example.format(as_count)}.")
    rounding = STEPS / 2 * step
    note = f"{label}: differences below {rounding:.1g} of the largest value are taken as rounding."
    return Precise(values=written, rounding=rounding, note=note)


def kind_of(column: "pd.Series[float]") -> np.dtype[np.floating] | None:
    """The floating type of a column, or of the numbers in a column of objects; `None` where it is no narrow one."""
    names: dict[str, np.dtype[np.floating]] = {
        "float32": np.dtype(np.float32),
        "float16": np.dtype(np.float16),
        "halffloat": np.dtype(np.float16),
    }
    by_name = names.get(str(column.dtype).lower().removesuffix("[pyarrow]"))
    if by_name is None and any(isinstance(x, np.float16) for x in column.array):
        return np.dtype(np.float16)
    return by_name


def is_single(value: float) -> bool:
    """Whether a number has more digits than a float32, and is one: exactly, or as far as it is written."""
    if value.is_integer() or digits_of(value) <= LONGEST or not 1e-37 < abs(value) < 1e38:
        return False
    near = float(np.float32(value))
    if near == value:
        return True
    places = -int(Decimal(repr(value)).as_tuple().exponent)
    short = digits_of(shortest(value, np.dtype(np.float32))) <= EXACT_DIGITS[np.dtype(np.float32)]
    return short and Decimal(f"{near:.{places}f}") == Decimal(repr(value))


def _all_bits(value: float) -> bool:
    """Whether a float32 uses its last bits: multiples of 1/1024 are float32s too, and may be counts over 1,024."""
    numerator, _ = value.as_integer_ratio()
    return numerator.bit_length() > 20


def shortest(value: float, kind: np.dtype[np.floating]) -> float:
    """The shortest decimal that is `value` in a narrower type."""
    return float(str(kind.type(value)))


def digits_of(value: float) -> int:
    """The significant digits of a number as it is written: 2 of .46, 17 of 0.46000000834465027."""
    return len(Decimal(repr(value)).normalize().as_tuple().digits) if math.isfinite(value) else 0


def denominator(values: Sequence[float], *, top: float, step: float) -> int | None:
    """The smallest number of examples of which all values are counts, as far as their precision goes.

    `top`: the value of a whole, 1 or 100. `step`: relative size of the last bit. `None` where there is none, or where
    values could be so by chance.
    """
    shares = sorted({x / top for x in values if math.isfinite(x)}, reverse=True)
    if not shares or shares[0] > 1 + step or shares[-1] < 0:
        return None
    sizes: Float = np.arange(2, LARGEST_TEST_SET + 1, dtype=np.float64)
    chance: Float = sizes.copy()  # the sizes that were tried before, each with the chance that all values fit
    for share in shares:
        if 0 < share < 1:
            near = sizes * share
            slack = near * step
            fits = np.abs(near - np.rint(near)) <= slack
            sizes, chance = sizes[fits], chance[fits] * np.minimum(1.0, 2 * slack[fits])
    if not sizes.size or chance[0] > CHANCE:
        return None
    return int(sizes[0])
