"""A file of runs as cells of text: CSV as spreadsheets and trackers write it, or Parquet."""

import io
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from knockout import tabular
from knockout.strict import Fault, FaultsError, nearest, shown
from knockout.tabular import SEPARATORS, TableError

MAX_FAULTS = 10
"""Faults of one kind that are listed; the others are counted."""

OPTIONS = {
    "variant": "--variant", "seed": "--seed", "metric": "--metric", "status": "--status", "count": "--count",
    "step": "--step", "loss": "--loss",
}  # fmt: skip
"""How the command line lets a column be named, for messages."""

JSON = "is JSON: write one row per run as CSV or Parquet (pandas.read_json, then to_csv or to_parquet)"
OTHER_ENDINGS = {
    ".json": JSON, ".jsonl": JSON, ".ndjson": JSON, ".pkl": tabular.PICKLE, ".pickle": tabular.PICKLE,
}  # fmt: skip
JSON_START = re.compile(r"\s*(?:\{\s*[\"}]|\[\s*[\[{\]])")


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """The cells of a file, stripped of the blanks around them. What is missing in Parquet is the empty text."""

    file: str
    place: Literal["line", "row"]
    """what `rows` counts: the lines of a text file, of which the header is 1, or the rows of a Parquet file from 1"""
    separator: str
    """comma, semicolon or tab; empty for Parquet"""
    header: tuple[str, ...]
    rows: tuple[int, ...]
    """the line on which each row begins"""
    cells: Mapping[str, Sequence[str]]
    """column -> one text per row; of Parquet the wanted columns only, of a name that stands twice nothing"""
    numeric: frozenset[str]
    """the columns that Parquet types as numbers"""
    blank: tuple[int, ...]
    """lines that held separators only; they are no rows"""

    def fault(self, key: str, got: str, *, allowed: str = "", nearest: str = "") -> Fault:
        return Fault(file=self.file, key=key, got=got, allowed=allowed, nearest=nearest)

    def places(self, rows: Sequence[int]) -> str:
        """Some of `self.rows` in words, the first ones where there are many: "lines 4, 9"."""
        more = f" and {len(rows) - 6} more" if len(rows) > 6 else ""
        return f"{self.place}{'' if len(rows) == 1 else 's'} {', '.join(map(str, rows[:6]))}{more}"


def read_sheet(
    path: Path, wanted: Sequence[str], *, limits: tabular.Limits | None = None, a_row: str = "one row per run"
) -> Sheet:
    """The cells of a CSV, TSV or Parquet file.

    `wanted`: names of columns. They decide between separators, and of Parquet only they are read. A CSV file is UTF-8,
    or UTF-16 with its byte order mark. Compressed files are not read. `limits`: how large the file may
    be, by default as for runs; `a_row`: what its rows stand for, for messages.

    Raises `FaultsError` for a file that is not there or is something else, and for rows that are longer or shorter
    than the header.
    """
    file = shown(path)
    try:
        if not path.is_file():
            raise TableError(_why_absent(path))
        return _read_sheet(path, file, wanted, limits or tabular.RUNS, a_row)
    except TableError as error:
        raise FaultsError([_as_fault(file, error)]) from error
    except OSError as error:  # a name that is too long, a file that may not be read
        raise FaultsError([Fault(file=file, got=f"not readable: {error.strerror}")]) from error


def _read_sheet(path: Path, file: str, wanted: Sequence[str], limits: tabular.Limits, a_row: str) -> Sheet:
    size = path.stat().st_size
    limits.check_file(size)
    if not size:
        raise TableError(f"is empty: a header and {a_row} are needed")
    start = tabular.read_start(path)
    tabular.refuse_other_formats(start)
    ending = path.suffix.lower()
    if ending in OTHER_ENDINGS:
        raise TableError(OTHER_ENDINGS[ending])
    if start.startswith(tabular.PARQUET) or ending in (".parquet", ".pq"):
        return _parquet(path, file, wanted, limits, a_row)
    text = tabular.decode(path.read_bytes())
    if JSON_START.match(text):
        raise TableError(JSON)
    return _csv(file, text, wanted, limits, a_row)


def plain(text: str) -> str:
    """A cell or name without the blanks around it, and with one form of letters with accents (Unicode's NFC)."""
    text = text.strip()
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def some(faults: Sequence[Fault], what: str) -> list[Fault]:
    """The first faults of one kind, and how many more there are."""
    more = len(faults) - MAX_FAULTS
    return [*faults[:MAX_FAULTS], *([Fault(file=faults[0].file, got=f"{more} more {what}")] if more > 0 else [])]


def similar(name: str, there: Sequence[str]) -> list[str]:
    """Up to three names that may be meant: accuracy is in val/accuracy and in metrics.accuracy."""
    there = [other for other in there if other]
    parts = [other for other in there if name.casefold() in other.casefold()]
    return list(dict.fromkeys([*get_close_matches(name, there, n=3), *parts]))[:3]


def count_with_noun(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def quoted_list(names: Iterable[str], *, most: int = 30) -> str:
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f'"{name}"' for name in names[:most]) + more


def _as_fault(file: str, error: TableError) -> Fault:
    place = "" if error.line is None else f"line {error.line}"
    return Fault(file=file, key=place, got=error.got, allowed=error.allowed)


def _why_absent(path: Path) -> str:
    if path.is_dir():
        return "is a folder: name a CSV or Parquet file in it"
    if path.exists():
        return "is no regular file: name a CSV or Parquet file"
    folder = path.parent
    others = (
        [p.name for p in folder.iterdir() if p.suffix.lower() in (".csv", ".tsv", ".parquet")]
        if folder.is_dir()
        else []
    )
    hint = nearest(path.name, sorted(others))
    return "no such file" + (f' (did you mean "{hint}"?)' if hint else "")


# --- Text ---------------------------------------------------------------------------------------------------------


def _csv(file: str, text: str, wanted: Sequence[str], limits: tabular.Limits, a_row: str) -> Sheet:
    said, end = tabular.said_separator(text)
    text = text[end:]  # the end of that line stays, so that lines keep their numbers
    separator = said or tabular.separator_of(text, wanted)
    header: tuple[str, ...] = ()
    lines: list[int] = []
    rows: list[list[str]] = []
    blank: list[int] = []
    faults: list[Fault] = []
    try:
        for row in tabular.csv_rows(io.StringIO(text, newline=""), separator, limits, strict=True):
            cells = [plain(cell) for cell in row.cells]
            if not header:
                header = tuple(cells)
            elif not any(cells):
                blank.append(row.line)
            elif len(cells) != len(header):
                faults.append(_as_fault(file, tabular.uneven_row(row, header, separator)))
            else:
                lines.append(row.line)
                rows.append(cells)
    except TableError as error:
        raise FaultsError([*some(faults, "rows"), _as_fault(file, error)]) from error
    if faults:
        raise FaultsError(some(faults, "rows that do not fit the header"))
    if not header or not rows:
        raise TableError(f"holds a header and no rows: {a_row} is needed" if header else "holds blank lines only")
    limits.check_rows(len(rows))
    return Sheet(
        file=file,
        place="line",
        separator=SEPARATORS[separator],
        header=header,
        rows=tuple(lines),
        cells={name: [r[i] for r in rows] for i, name in enumerate(header) if header.count(name) == 1},
        numeric=frozenset(),
        blank=tuple(blank),
    )


# --- Parquet ------------------------------------------------------------------------------------------------------


def _parquet(path: Path, file: str, wanted: Sequence[str], limits: tabular.Limits, a_row: str) -> Sheet:
    """Extension types need pyarrow >= 14.0.1, which this project has: older ones unpickled what a file's schema held
    (CVE-2023-47248)."""
    try:
        schema = pq.read_schema(path)
        names = [str(name) for name in schema.names]
        chosen = [name for name in names if plain(name) in wanted and names.count(name) == 1]
        rows = tabular.measure_parquet(path, chosen, limits).rows
        if not rows:
            raise TableError(f"holds a header and no rows: {a_row} is needed")
        # a text that repeats is kept once: a small file cannot become a large one
        texts = [name for name in chosen if tabular.is_text(schema.field(name).type)]
        with pq.ParquetFile(path, read_dictionary=texts) as opened:
            table = opened.read(columns=chosen)
        cells = {plain(name): _cells(table.column(name)) for name in chosen}
    except TableError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TableError(f"no Parquet file that can be read: {why}") from error
    return Sheet(
        file=file,
        place="row",
        separator="",
        header=tuple(plain(name) for name in names),
        rows=tuple(range(1, rows + 1)),
        cells=cells,
        numeric=frozenset(plain(f.name) for f in schema if _is_number(f.type)),
        blank=(),
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _cells(column: pa.ChunkedArray) -> list[str]:
    texts: list[str] = []
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            values = [_cell(v) for v in chunk.dictionary.to_pylist()]
            texts += ["" if i is None else values[i] for i in chunk.indices.to_pylist()]
        else:
            texts += [_cell(v) for v in chunk.to_pylist()]
    return texts


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):  # some writers do not say that their bytes are text
        return plain(value.decode("utf-8"))
    if isinstance(value, float):
        return repr(value)  # the shortest text that reads back as the same number
    return plain(str(value))
