"""Read the columns of a tidy frame of runs strictly: a cell of the wrong kind is an error that names its row."""

import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from knockout.analysis.external.statuses import meant
from knockout.analysis.inference.pairs import Seed
from knockout.errors import UserError
from knockout.strict import got_text, nearest

T = TypeVar("T")

STATUSES = ("finished", "diverged", "dead", "crashed", "out_of_memory", "killed", "timed_out", "missing")
"""What a status column may say. A run has failed when it diverged or is dead; the last five are missing cells."""

LARGEST = 1e75
"""Beyond it, the fourth powers of Welch's degrees of freedom overflow."""

APART = 10
"""Values from 0 to 1 beside others that are all so many times as large look like shares beside percentages."""


class FrameError(UserError, ValueError):
    """A frame cannot be compared as it is; the text names the rows or columns, and the way on. One line per fault."""

    def __init__(self, *faults: str) -> None:
        self.faults = faults
        super().__init__("\n".join(faults))


class Collected:
    """The faults of several checks, so that one error says all."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def of(self, read: Callable[[], T]) -> T | None:
        """What `read` returns; `None` where it raises a `FrameError`, whose faults are kept."""
        try:
            return read()
        except FrameError as error:
            self.faults += [fault for fault in error.faults if fault not in self.faults]
            return None

    def stop(self) -> None:
        """Raise `FrameError` with all faults so far, if there are any."""
        if self.faults:
            raise FrameError(*self.faults)


@dataclass(frozen=True, kw_only=True)
class FrameColumns:
    """Which column holds what."""

    variant: str
    seed: str
    """empty where nothing is paired"""
    status: str
    count: str
    correct: str
    metric: str

    def paired_by(self) -> list[str]:
        """The column that pairs runs; none where nothing is paired."""
        return [self.seed] if self.seed else []

    def renamed(self) -> list[tuple[str, str]]:
        """Optional columns that were given a name of their own, by argument: these must be there."""
        names = {"status": self.status, "count": self.count, "correct": self.correct}
        return [(usual, name) for usual, name in names.items() if name != usual]


def check_frame(frame: object, *, factors: Sequence[str], secondary: Sequence[str]) -> None:
    """Raises `FrameError` for what is no frame of named columns, and for texts in place of lists of columns."""
    if not isinstance(frame, pd.DataFrame):
        raise FrameError(f"a pandas DataFrame is needed, one row per run, got {type(frame).__name__}")
    faults = [
        f'{what} must be a list of columns, got the text "{given}": write ["{given}"]'
        for what, given in (("factors", factors), ("secondary", secondary))
        if isinstance(given, str)
    ]
    there = list(frame.columns)
    if not there:
        faults.append("the frame has no columns and no rows: one row per run is needed")
    elif not len(frame):
        faults.append("the frame has no rows: one row per run is needed")
    faults += [
        f"a column is called {name!r}; names of columns are text: rename(columns=str) makes them so"
        for name in [name for name in there if not isinstance(name, str)][:1]
    ]
    twice = sorted({name for name in there if isinstance(name, str) and there.count(name) > 1})
    if twice:
        faults.append(f"the frame has two columns of one name: {short_list(twice)}")
    if faults:
        raise FrameError(*faults)


def check_columns(
    frame: pd.DataFrame, columns: FrameColumns, *, factors: Sequence[str], secondary: Sequence[str]
) -> None:
    """Raises `FrameError` with all columns that are not there, and the argument that names each."""
    there = list(frame.columns)
    needed = [("variant", columns.variant), *(("seed", name) for name in columns.paired_by()), *columns.renamed()]
    if columns.correct not in there:
        needed.append(("metric", columns.metric))
    needed += [("factors", name) for name in factors] + [("secondary", name) for name in secondary]
    faults = []
    for argument, name in needed:
        if name not in there:
            hint = nearest(name, there)
            alone = "; compare_unpaired needs none, and is the weaker comparison" if name == columns.seed else ""
            faults.append(
                f'no column "{name}"; the frame has {short_list(there)}'
                + (f'; did you mean "{hint}"?' if hint else alone)
                + ("" if argument in ("factors", "secondary") else f" ({argument}=... names it)")
            )
    if faults:
        raise FrameError(*faults)


def names_of(frame: pd.DataFrame, column: str) -> list[str]:
    """Names as text. `None` and NaN are no names: as texts they would be."""
    names = []
    for i, name in enumerate(frame[column].tolist()):
        if not isinstance(name, str):
            if name is None or name is pd.NA or (isinstance(name, float) and math.isnan(name)):
                raise FrameError(
                    f'row {i} has no {column}; a variant that is called "NA" or "None" must be read as text'
                    " (pandas.read_csv with keep_default_na=False)"
                )
            raise FrameError(f"row {i}: {column} is {name!r}; names are text: convert the column with astype(str)")
        if not name.strip():
            raise FrameError(f"row {i}: {column} is empty")
        names.append(unicodedata.normalize("NFC", name))
    return names


def seeds_of(frame: pd.DataFrame, column: str) -> list[Seed]:
    seeds: list[Seed] = []
    for i, value in enumerate(map(_python_value, frame[column].tolist())):
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
            raise FrameError(f"row {i}: {column} is {value!r}; a seed is a whole number or a text")
        seeds.append(unicodedata.normalize("NFC", value) if isinstance(value, str) else value)
    if len({type(s) for s in seeds}) > 1:
        raise FrameError(f'{column} holds numbers and texts; 7 and "7" would not pair: make them all one')
    return seeds


def check_once(names: Sequence[str], seeds: Sequence[Seed], columns: FrameColumns) -> None:
    seen: dict[tuple[str, Seed], int] = {}
    for i, key in enumerate(zip(names, seeds, strict=True)):
        if key in seen:
            raise FrameError(
                f'rows {seen[key]} and {i} are both {columns.variant} "{key[0]}" with {columns.seed} {key[1]}: a run'
                " may stand once; if they differ in something else, such as the data set, make it part of the seed"
            )
        seen[key] = i


def correctness_of(frame: pd.DataFrame, columns: FrameColumns) -> "list[npt.NDArray[np.bool_] | None] | None":
    """Correctness per example of every run, where the column is there."""
    if columns.correct not in frame:
        return None
    arrays: list[npt.NDArray[np.bool_] | None] = []
    sizes: dict[int, int] = {}
    for i, cell in enumerate(frame[columns.correct].tolist()):
        if cell is None or cell is pd.NA or (isinstance(cell, float) and math.isnan(cell)):
            arrays.append(None)
            continue
        try:
            array = np.asarray(cell)
        except ValueError:  # lists of different length in one cell
            array = np.asarray(None)
        if array.ndim != 1 or not array.size or not (array.dtype == bool or np.isin(array, (0, 1)).all()):
            raise FrameError(
                f"row {i}: {columns.correct} must be one array per run with a boolean for each test example, got"
                f" {got_text(str(cell))}"
            )
        sizes.setdefault(array.size, i)
        arrays.append(array.astype(bool))
    if len(sizes) > 1:
        (a, i), (b, j) = list(sizes.items())[:2]
        raise FrameError(f"rows {i} and {j} saw different test sets: {a} and {b} examples in {columns.correct}")
    return arrays


def numbers_of(frame: pd.DataFrame, column: str) -> list[float]:
    """A column as floats, NaN where it is empty. Raises `FrameError` where it holds anything else than numbers."""
    values = []
    for i, value in enumerate(map(_python_value, frame[column].tolist())):
        if value is None or value is pd.NA:
            values.append(math.nan)
        elif isinstance(value, bool) or not isinstance(value, int | float):
            kind = "text" if isinstance(value, str) else type(value).__name__
            raise FrameError(
                f"row {i}: {column} is {got_text(value)}, which is {kind}: a column of numbers is needed"
                " (pandas.to_numeric makes one, and says where it cannot)"
            )
        else:
            values.append(float(value))
    return values


def mixed_units(values: Sequence[float]) -> tuple[float, float] | None:
    """The largest of the values that look like shares, and the smallest percentage beside them; `None` where all may
    be of one unit."""
    shares = [x for x in values if 0 < x <= 1]
    percents = [x for x in values if 1 < x <= 100]
    if not shares or not percents or min(percents) < APART * max(shares):
        return None
    return max(shares), min(percents)


def check_magnitude(values: Sequence[float], states: Sequence[str], column: str) -> None:
    for i, (value, state) in enumerate(zip(values, states, strict=True)):
        if state == "finished" and LARGEST < abs(value) < math.inf:
            raise FrameError(
                f"row {i}: {column} is {value:g}, too large for its powers: if the run diverged, say so in a"
                " column of statuses; else use another unit"
            )


def statuses_of(
    frame: pd.DataFrame, values: Sequence[float], columns: FrameColumns, notes: list[str], metric: str
) -> list[str]:
    """Each run's status: as the column says, or as its value says where there is none."""
    has_column = columns.status in frame
    given = frame[columns.status].tolist() if has_column else ["finished"] * len(values)
    states, diverged, absent = [], [], []
    for i, (word, value) in enumerate(zip(given, values, strict=True)):
        if not isinstance(word, str) or word not in STATUSES:
            hint = meant(word) if isinstance(word, str) else ""
            raise FrameError(
                f"row {i}: {columns.status} is {got_text(word)}; one of {', '.join(STATUSES)} is needed"
                + (f'; did you mean "{hint}"?' if hint else "")
            )
        if word == "finished" and math.isnan(value) and not has_column:
            word = "missing"
            absent.append(i)
        elif word == "finished" and not math.isfinite(value):
            word = "diverged"
            diverged.append(i)
        states.append(word)
    if diverged:
        what = "no finite number" if has_column else "infinite"
        notes.append(f"{metric} is {what} in {_rows(diverged)}: counted as diverged, which is a failure.")
    if absent:
        notes.append(
            f"There is no {metric} in {_rows(absent)} and no column {columns.status}: counted as missing. Whatever"
            f' diverged must say so in that column ("diverged"), to be counted as a failure.'
        )
    return states


def test_set_size(
    frame: pd.DataFrame,
    columns: FrameColumns,
    arrays: "list[npt.NDArray[np.bool_] | None] | None",
    states: Sequence[str],
) -> int | None:
    """The size of the test set of the runs that finished, where it is known. Raises `FrameError` where it differs."""
    sizes = {a.size for a in arrays or [] if a is not None}
    if columns.count in frame:
        for i, (size, state) in enumerate(zip(numbers_of(frame, columns.count), states, strict=True)):
            if math.isnan(size) or state != "finished":
                continue
            if not size.is_integer() or size < 1:
                raise FrameError(f"row {i}: {columns.count} is {size:g}; a number of test examples is needed")
            sizes.add(int(size))
    if len(sizes) > 1:
        raise FrameError(
            f"runs saw test sets of different size ({short_list(sorted(sizes))}): their values cannot be compared"
        )
    return sizes.pop() if sizes else None


def short_list(items: Sequence[object]) -> str:
    shown = [str(i) for i in items[:8]]
    return ", ".join(shown) + (f" and {len(items) - 8} more" if len(items) > 8 else "")


def _rows(rows: Sequence[int]) -> str:
    return f"row{'' if len(rows) == 1 else 's'} {short_list(rows)}"


def _python_value(value: object) -> object:
    """FrameColumns of Python objects may hold the numbers of numpy."""
    return value.item() if isinstance(value, np.generic) else value
