"""What a trainer returns, as plain numbers, lists and texts, and what is wrong with it."""

import numbers
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

from knockout.strict import got_text

LARGEST_WHOLE = 2**53
"""Beyond it, not every whole number is a float."""
CLASSES = 2**15
"""Packed predictions have 16 bits."""
ROUNDING = 1e-3
"""By how much a log probability or a share in half precision may exceed its limits."""


class Reading:
    """One answer as it is read part by part, and its faults."""

    def __init__(self) -> None:
        self.faults: list[tuple[str, str]] = []
        """part of the answer, and what is wrong with it"""

    def fault(self, where: str, got: str, expected: str) -> None:
        self.faults.append((where.partition("[")[0].partition(".")[0], f"{where}: got {got}; expected {expected}"))

    def counts(self, where: str, key: str, correct: object, count: object) -> tuple[int, int]:
        before = len(self.faults)
        c = self.whole(where + key.format("correct"), correct)
        n = self.whole(where + key.format("count"), count, least=1)
        if len(self.faults) == before and c > n:
            self.fault(where, f"correct = {c}, count = {n}", "correct of at most count")
        return c, n

    def whole(self, where: str, value: object, *, least: int = 0) -> int:
        number = plain_number(value)
        if number is None or not least <= number <= LARGEST_WHOLE or number != int(number):
            self.fault(where, shown(value), f"a whole number of at least {least}")
            return least
        return int(number)

    def number(self, where: str, value: object) -> float | int:
        number = plain_number(value)
        if number is None:
            self.fault(where, shown(value), "a number")
            return 0
        return number

    def numbers(self, where: str, given: object) -> list[float]:
        return [float(value) for value in self.listed(where, given, plain_number, "numbers")]

    def classes(self, where: str, given: object, *, least: int) -> list[int]:
        return self.wholes(where, given, least=least, most=CLASSES - 1)

    def wholes(self, where: str, given: object, *, least: int, most: int) -> list[int]:
        def number(value: object) -> int | None:
            plain = plain_number(value)
            return int(plain) if plain is not None and least <= plain <= most and plain == int(plain) else None

        return [int(v) for v in self.listed(where, given, number, f"whole numbers from {least} to {most}")]

    def texts(self, where: str, given: object) -> list[str]:
        """Texts as plain ones: numpy has a type of its own."""
        items = sequence_of(given)
        if items is None:
            self.fault(where, shown(given), "a list of texts")
            return []
        wrong = next((i for i, item in enumerate(items) if not isinstance(item, str)), None)
        if wrong is not None:
            self.fault(f"{where}[{wrong}]", shown(items[wrong]), "texts")
            return []
        return [str(item) for item in items]

    def ascending(self, where: str, values: Sequence[int]) -> None:
        for i, (before, value) in enumerate(pairwise(values), 1):
            if value <= before:
                self.fault(f"{where}[{i}]", f"{value} after {before}", "steps in order, each once")
                return

    def nested(self, where: str, given: object, what: str, depth: int = 4) -> list[Any]:
        """Lists in lists, `depth` deep, of numbers from 0 to 1; empty where they are not."""
        items = sequence_of(given)
        if items is None:
            self.fault(where, shown(given), what)
            return []
        if depth == 1:
            values = self.listed(where, items, plain_number, what)
            wrong = next((value for value in values if not -ROUNDING <= value <= 1 + ROUNDING), None)  # NaN too
            if wrong is not None:
                self.fault(where, str(wrong), what)
                return []
            return [min(1.0, max(0.0, value)) for value in values]
        lists: list[Any] = []
        for i, item in enumerate(items):
            before = len(self.faults)
            lists.append(self.nested(f"{where}[{i}]", item, what, depth - 1))
            if len(self.faults) > before:  # one is enough
                return []
        return lists

    def listed(
        self, where: str, given: object, read: Callable[[object], float | int | None], what: str
    ) -> list[float | int]:
        items = sequence_of(given)
        if items is None:
            self.fault(where, shown(given), f"a list of {what}")
            return []
        values: list[float | int] = []
        for i, item in enumerate(items):
            value = read(item)
            if value is None:
                self.fault(f"{where}[{i}]", shown(item), what)
                return []
            values.append(value)
        return values

    def equal_lengths(self, where: str, **lists: Sequence[object]) -> None:
        if not self.faults and len({len(values) for values in lists.values()}) > 1:
            got = ", ".join(f"{len(values)} of {name}" for name, values in lists.items())
            self.fault(where, got, "lists of one length")


def plain_number(value: object) -> float | int | None:
    """A number of Python, numpy or torch as a plain one; `None` for everything else, a truth value among it."""
    if type(value) is float or type(value) is int:
        return value if type(value) is float or abs(value) < 2**1000 else None
    item = getattr(value, "item", None)
    try:
        if callable(item):
            value = item()
        if isinstance(value, bool):
            return None
        if isinstance(value, numbers.Integral) or (
            not isinstance(value, numbers.Number) and hasattr(value, "__index__")
        ):
            return plain_number(operator.index(value))
        if isinstance(value, numbers.Real | Decimal):
            return float(value)
    except Exception:  # a tensor of many numbers, and whatever else an object of a user's may do
        return None
    return None


def sequence_of(value: object) -> list[Any] | None:
    """The items of a list, an array, a tensor or another ordered collection; `None` for everything else."""
    if isinstance(value, list):
        return value
    tolist = getattr(value, "tolist", None)
    if callable(tolist):
        items = tolist()
        return items if isinstance(items, list) else None
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | set | frozenset):
        return list(value)
    return None


def shown(value: object) -> str:
    """A value for a message: its kind where that says more than its text."""
    if value is None:
        return "None"
    if isinstance(value, float | int | str | list | tuple | dict):
        return got_text(value)
    number = plain_number(value)
    kind = type(value).__name__
    return f"{'an' if kind[:1] in 'AEIOaeio' else 'a'} {kind}" + ("" if number is None else f" of {number}")
