"""A file of runs as cells of text: CSV as spreadsheets and trackers write it, or Parquet."""

import codecs
import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from knockout.strict import Fault, FaultsError, nearest, shown

MAX_BYTES = 100_000_000
MAX_ROWS = 1_000_000
MOST = 10
"""Faults of one kind that are told; the others are count_with_noun."""

OPTIONS = {"variant": "--variant", "seed": "--seed", "metric": "--metric", "status": "--status", "count": "--count"}
"""How the command line lets a column be named, for messages."""

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab"}
BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
"""Excel writes UTF-8 with a mark as "CSV UTF-8", and UTF-16 with tabs as "Unicode text"."""

OTHERS = {
    b"PK\x03\x04": "is a workbook or an archive: save the sheet as CSV (UTF-8), or as Parquet",
    b"\xd0\xcf\x11\xe0": "is an old Excel workbook: save the sheet as CSV (UTF-8)",
    b"\x1f\x8b": "is compressed: unpack it first (gunzip)",
    b"BZh": "is compressed: unpack it first (bunzip2)",
    b"\xfd7zXZ": "is compressed: unpack it first (unxz)",
    b"\x28\xb5\x2f\xfd": "is compressed: unpack it first (unzstd)",
}
ENDINGS = {
    ".json": "is JSON: write one row per run as CSV or Parquet (pandas.read_json, then to_csv or to_parquet)",
    ".pkl": "is a pickle, which is never read, for it may run code: write CSV or Parquet",
}
ENDINGS |= {".jsonl": ENDINGS[".json"], ".ndjson": ENDINGS[".json"], ".pickle": ENDINGS[".pkl"]}
JSON = re.compile(r"\s*(?:\{\s*[\"}]|\[\s*[\[{\]])")


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


def read_sheet(path: Path, wanted: Sequence[str]) -> Sheet:
    """The cells of a CSV, TSV or Parquet file.

    `wanted`: names of columns. They decide between separators, and of Parquet only they are read. A CSV file is UTF-8,
    or UTF-16 with its byte order mark. Compressed files are not read.

    Raises `FaultsError` for a file that is not there or is something else, and for rows that are longer or shorter
    than the header.
    """
    file = shown(path)
    try:
        if not path.is_file():
            raise _error(file, _absent(path))
        if path.stat().st_size > MAX_BYTES:
            raise _error(file, f"has {path.stat().st_size:,} bytes; at most {MAX_BYTES:,} are read")
        raw = path.read_bytes()
    except OSError as error:  # a name that is too long, a file that may not be read
        raise _error(file, f"not readable: {error.strerror}") from error
    if not raw:
        raise _error(file, "is empty: a header and one row per run are needed")
    other = next((told for start, told in OTHERS.items() if raw.startswith(start)), ENDINGS.get(path.suffix.lower()))
    if other:
        raise _error(file, other)
    if raw.startswith(b"PAR1") or path.suffix.lower() in (".parquet", ".pq"):
        return _parquet(file, raw, wanted)
    return _csv(file, _text(file, raw), wanted)


def some(faults: Sequence[Fault], what: str) -> list[Fault]:
    """The first faults of one kind, and how many more there are."""
    more = len(faults) - MOST
    return [*faults[:MOST], *([Fault(file=faults[0].file, got=f"{more} more {what}")] if more > 0 else [])]


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


def _error(file: str, got: str) -> FaultsError:
    return FaultsError([Fault(file=file, got=got)])


def _absent(path: Path) -> str:
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


def _text(file: str, raw: bytes) -> str:
    if raw.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):  # the first begins like UTF-16
        raise _error(file, 'is UTF-32: save it as "CSV UTF-8"')
    encoding = next((name for bom, name in BOMS.items() if raw.startswith(bom)), "utf-8")
    if encoding != "utf-16" and b"\0" in raw:
        raise _error(file, "is a binary file: CSV (UTF-8) or Parquet is needed")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        spelt = "UTF-16" if encoding == "utf-16" else "UTF-8"
        raise _error(file, f'no {spelt} at byte {error.start} (line {line}): save it as "CSV UTF-8"') from error
    if "\0" in text:
        raise _error(file, "is a binary file: CSV (UTF-8) or Parquet is needed")
    if JSON.match(text):
        raise _error(file, ENDINGS[".json"])
    return text


def _csv(file: str, text: str, wanted: Sequence[str]) -> Sheet:
    separator = _separator(file, text, wanted)
    header: tuple[str, ...] = ()
    numbers: list[int] = []
    rows: list[list[str]] = []
    blank: list[int] = []
    faults: list[Fault] = []
    # strict: what stands behind a closing quotation mark is a fault, not a part of the cell; so is a mark left open
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            got = f"no CSV ({error}); a quotation mark in a cell is written twice, and the cell between two more"
            raise FaultsError([*some(faults, "rows"), Fault(file=file, key=f"line {line}", got=got)]) from error
        if row is None:
            break
        cells = [cell.strip() for cell in row]
        if not row or (header and not any(cells)):
            blank += [line] if row else []  # a line without anything is nothing to tell of
        elif not header:
            header = tuple(cells)
        elif len(cells) != len(header):
            got = f"has {len(cells)} cells, the header {len(header)}"
            way = f"as many as the header has; a text with a {SEPARATORS[separator]} needs quotation marks"
            faults.append(Fault(file=file, key=f"line {line}", got=got, allowed=way))
        else:
            numbers.append(line)
            rows.append(cells)
    if faults:
        raise FaultsError(some(faults, "rows that do not fit the header"))
    if not header or not rows:
        raise _error(
            file, "holds a header and no rows: one row per run is needed" if header else "holds blank lines only"
        )
    return Sheet(
        file=file,
        place="line",
        separator=SEPARATORS[separator],
        header=header,
        rows=tuple(numbers),
        cells={name: [r[i] for r in rows] for i, name in enumerate(header) if header.count(name) == 1},
        numeric=frozenset(),
        blank=tuple(blank),
    )


def _separator(file: str, text: str, wanted: Sequence[str]) -> str:
    """The separator under which the header has most of the wanted columns; where it has none, most columns.

    csv.Sniffer looks at the cells: of one that holds ;'x'; it takes the semicolon.
    """
    found: dict[str, tuple[int, int]] = {}
    for separator in SEPARATORS:
        try:
            reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
            names = [n.strip() for n in next((row for row in reader if row), [])]
        except csv.Error:
            continue
        found[separator] = (sum(name in names for name in wanted), len(names))
    if not found:
        return ","
    best = max(found.values())
    known = [s for s, (there, count) in found.items() if there == best[0] and count > 1]
    if best[0] and len(known) > 1:
        names_of = " and ".join(f"a {SEPARATORS[s]}" for s in known)
        raise _error(
            file, f"the header line splits at {names_of}, and the columns that are asked for do not tell which is meant"
        )
    return next(s for s, counts in found.items() if counts == best)


# --- Parquet ------------------------------------------------------------------------------------------------------


def _parquet(file: str, raw: bytes, wanted: Sequence[str]) -> Sheet:
    """Extension types need pyarrow >= 14.0.1, which this project has: older ones unpickled what a file's schema held
    (CVE-2023-47248)."""
    try:
        opened = pq.ParquetFile(pa.BufferReader(raw))
        schema = opened.schema_arrow
        if not 0 < opened.metadata.num_rows <= MAX_ROWS:
            raise _error(file, f"has {opened.metadata.num_rows:,} rows; 1 to {MAX_ROWS:,} are read")
        names = [str(name) for name in schema.names]
        chosen = [name for name in names if name.strip() in wanted and names.count(name) == 1]
        nested = [name for name in chosen if pa.types.is_nested(schema.field(name).type)]
        if nested:
            raise _error(
                file, f'column "{nested[0]}" holds {schema.field(nested[0]).type}: one text or number per run is needed'
            )
        # a text that repeats is kept once: a small file cannot become a large one
        texts = [name for name in chosen if _is_text(schema.field(name).type)]
        table = pq.ParquetFile(pa.BufferReader(raw), read_dictionary=texts).read(columns=chosen)
        cells = {name.strip(): _cells(table.column(name)) for name in chosen}
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, FaultsError):
            raise
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise _error(file, f"no Parquet file that can be read: {told}") from error
    size = sum(len(cell) for column in cells.values() for cell in column)
    if size > MAX_BYTES:
        raise _error(file, f"holds {size:,} characters in {quoted_list(cells)}; at most {MAX_BYTES:,} are read")
    return Sheet(
        file=file,
        place="row",
        separator="",
        header=tuple(name.strip() for name in names),
        rows=tuple(range(1, opened.metadata.num_rows + 1)),
        cells=cells,
        numeric=frozenset(f.name.strip() for f in schema if _is_number(f.type)),
        blank=(),
    )


def _is_text(kind: pa.DataType) -> bool:
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(check(kind) for check in checks)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _cells(column: pa.ChunkedArray) -> list[str]:
    found: list[str] = []
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            values = [_cell(v) for v in chunk.dictionary.to_pylist()]
            found += ["" if i is None else values[i] for i in chunk.indices.to_pylist()]
        else:
            found += [_cell(v) for v in chunk.to_pylist()]
    return found


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):  # some writers do not say that their bytes are text
        return value.decode("utf-8").strip()
    if isinstance(value, float):
        return repr(value)  # the shortest text that reads back as the same number
    return str(value).strip()
