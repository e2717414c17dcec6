"""The records of this package: rows as they were read, and cleaned texts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from knockout.errors import UserError

SPLITS = ("train", "validation", "test")

Row = tuple[str, int]
"""A normalised text, and the index of its class."""


class DataError(UserError, ValueError):
    """An error in the data of a user."""


@dataclass(frozen=True, kw_only=True)
class Texts:
    """One split. Labels are indices into the classes."""

    text: list[str]
    label: list[int]


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """All three splits, cleaned. `dropped` counts the rows that cleaning removed; `notes` name what was ignored."""

    classes: list[str]
    splits: Mapping[str, Texts]
    dropped: Mapping[str, int]
    notes: list[str]


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Rows as they were read, under `train`, `validation` and `test`, or under `unsplit` alone."""

    rows: Mapping[str, tuple[list[Any], list[Any]]]  # split -> (texts, labels)
    names: list[str] | None  # of the classes, where labels are indices into them
    notes: list[str]
    groups: Mapping[str, list[Any]] = field(default_factory=dict)  # split -> the group of each row, with a group column
