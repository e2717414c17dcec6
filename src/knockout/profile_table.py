"""profile.csv of a study's folder: what its variants cost when each is measured alone (`knockout profile`).

One row per variant, the baseline first. The last column, the same in every row, is a checksum of all others: a file
that was cut or edited does not verify, and is not read.
"""

import csv
import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from knockout.files import replace_text

FILE = "profile.csv"
CHECKSUM = "table_sha256"

RANGED = (
    "seconds_per_step", "seconds_per_epoch", "latency_1_p50_ms", "latency_1_p95_ms", "latency_64_p50_ms",
    "latency_64_p95_ms", "train_above_idle_bytes", "evaluation_above_idle_bytes",
)  # fmt: skip
"""Measured once a round: the median over rounds, and with these endings their range and the ratios to the baseline."""
ENDINGS = ("", "_low", "_high", "_ratio", "_ratio_low", "_ratio_high")

NUMBERS = (
    "parameters", "rounds", "timed_steps", "steps_per_epoch", "examples_per_second", "tokens_per_second",
    *(f"{name}{ending}" for name in RANGED for ending in ENDINGS),
    "latency_1_passes", "latency_64_passes",
    "train_idle_bytes", "train_peak_bytes", "evaluation_idle_bytes", "evaluation_peak_bytes", "threads",
)  # fmt: skip
TEXTS = ("trouble", "memory_of", "device", "device_name", "host", "platform", "torch", "measured")
"""Texts, after the numbers. `trouble`: why numbers are missing; `memory_of`: "process", or a GPU's "allocator"."""
COLUMNS = ("variant", "run_id", *NUMBERS, *TEXTS, CHECKSUM)


class ProfileError(ValueError):
    """profile.csv is not what was written; the text says so in one line."""


@dataclass(frozen=True, kw_only=True)
class ProfileRow:
    """What one variant costs. `numbers` holds only what was measured, by the names of the columns."""

    variant: str
    run_id: str
    """of the run with the study's first seed: what was measured, and on which data"""
    numbers: Mapping[str, float]
    texts: Mapping[str, str]


def write_profile(root: Path, rows: Sequence[ProfileRow]) -> Path:
    """Write the rows as profile.csv, whole, and return its path."""
    cells = [
        [
            row.variant,
            row.run_id,
            *("" if (x := row.numbers.get(name)) is None else repr(x) for name in NUMBERS),
            *(" ".join(row.texts.get(name, "").split()) for name in TEXTS),
        ]
        for row in rows
    ]
    replace_text(root / FILE, _csv([COLUMNS, *([*row, _checksum(cells)] for row in cells)]))
    return root / FILE


def read_profile(root: Path) -> tuple[ProfileRow, ...]:
    """The rows of profile.csv; empty where there is none.

    Raises `ProfileError` where it cannot be read, or is not what `write_profile` wrote.
    """
    path = root / FILE
    if path.is_dir():
        raise ProfileError(f"{FILE}: not readable (a folder)")
    if not path.is_file():
        return ()
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = list(csv.reader(file, strict=True)) or [[]]
    except (UnicodeError, csv.Error) as error:
        raise ProfileError(f"{FILE}: not readable ({type(error).__name__})") from error
    cells = [row[:-1] for row in rows]
    if tuple(header) != COLUMNS or not rows or any(row[-1:] != [_checksum(cells)] for row in rows):
        raise ProfileError(f"{FILE}: changed since it was written, or cut off")
    return tuple(_row(dict(zip(COLUMNS, row, strict=True))) for row in rows)


def profile_damage(root: Path) -> str:
    """Why profile.csv cannot be used, in one line; empty where it can, and where there is none."""
    try:
        read_profile(root)
    except ProfileError as error:
        return str(error)
    return ""


def _row(cells: Mapping[str, str]) -> ProfileRow:
    return ProfileRow(
        variant=cells["variant"],
        run_id=cells["run_id"],
        numbers={name: float(cells[name]) for name in NUMBERS if cells[name]},
        texts={name: cells[name] for name in TEXTS},
    )


def _csv(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _checksum(cells: Sequence[Sequence[str]]) -> str:
    return hashlib.sha256(_csv([COLUMNS[:-1], *cells]).encode()).hexdigest()
