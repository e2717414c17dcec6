"""Files of tables: their format, encoding and separator, how large they may be, and the rows of CSV.

Two readers build on it: `knockout.data.files` for labelled texts and `knockout.analysis.external.table` for runs.
Nothing here unpacks an archive or loads a pickle. A file is measured before it is expanded.
"""

import codecs
import csv
import io
import re
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knockout.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa


class TableError(UserError, ValueError):
    """A file is no table that is read.

    `got` is what is wrong, `allowed` what to do about it, `line` where, if known. None of them has the file's name:
    each reader adds it and raises an error of its own.
    """

    def __init__(self, got: str, *, allowed: str = "", line: int | None = None) -> None:
        self.got, self.allowed, self.line = got, allowed, line
        place = "" if line is None else f"line {line}: "
        super().__init__(place + "; ".join(part for part in (got, allowed) if part))


# --- Limits -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How large a table may be. Each check raises `TableError`."""

    file_bytes: int
    """of one file, whatever its format"""
    rows: int
    expanded_bytes: int
    """of the columns that are read, in memory"""
    cell_characters: int
    """of one cell. A longer one is a file without line ends, or a quotation mark that nobody closed."""
    line_bytes: int = 64 * 2**20
    """of one line of JSON, and of one cell of CSV while it is parsed"""
    json_list_bytes: int = 512 * 2**20
    """of a JSON file that is one list: it can only be read as a whole, at some ten times its size"""
    expansion: int = 1000
    """how many times its size a Parquet file may expand, from `expansion_from_bytes` on. Real texts shrink 2.4- to
    2.9-fold (five sets measured); a thousandfold is one value, repeated."""
    expansion_from_bytes: int = 64 * 2**20

    def check_file(self, size: int) -> None:
        if size > self.file_bytes:
            raise TableError(f"{size:,} bytes, where a file may have {self.file_bytes:,}")

    def check_rows(self, rows: int) -> None:
        if rows > self.rows:
            raise TableError(f"{rows:,} rows, where at most {self.rows:,} are read; take a part of them")

    def check_bytes(self, size: int, what: str) -> None:
        if size > self.expanded_bytes:
            raise TableError(
                f"{what} take {size:,} bytes once expanded, where at most {self.expanded_bytes:,} are read; take a part"
                " of the rows"
            )

    def check_expansion(self, size: int, file_bytes: int) -> None:
        """Refuse a decompression bomb: a small file that expands to far more than real tables do."""
        if size > self.expansion_from_bytes and size > self.expansion * file_bytes:
            raise TableError(
                f"{file_bytes:,} bytes that expand to {size:,}, {size // file_bytes:,} times as many; texts do not"
                f" repeat so much, and more than {self.expansion:,} times is not read"
            )

    def check_cell(self, characters: int) -> None:
        if characters > self.cell_characters:
            raise TableError(
                f"a text of {characters:,} characters, where one may have {self.cell_characters:,}; cut it, or look for"
                " a quotation mark that is not closed"
            )


TEXTS = Limits(file_bytes=4 * 2**30, rows=5_000_000, expanded_bytes=2 * 2**30, cell_characters=1_000_000)
"""For labelled texts. Sized for IMDB (50,000 texts), AG News (127,600) and Amazon polarity (4 million texts, 1.7 GB),
of which the last was not tried. The rows and expanded bytes are those of all splits together. Measured: 333,000 texts
of 133 MB held 524 MB once encoded, and 963 MB at the peak, while one large row group of a Parquet file was read."""

RUNS = Limits(file_bytes=100_000_000, rows=1_000_000, expanded_bytes=100_000_000, cell_characters=1_000_000)
"""For runs, one a row, whose cells are all held as Python texts."""

STEPS = Limits(file_bytes=500_000_000, rows=4_000_000, expanded_bytes=500_000_000, cell_characters=1_000_000)
"""For logs of steps, whose cells are held as Python texts too. Sized for 40 variants with 30 seeds of 2,000 steps."""


def named_columns(columns: Iterable[str]) -> str:
    """Columns as messages name them."""
    return "columns " + ", ".join(map(repr, columns))


# --- What a file is -----------------------------------------------------------------------------------------------

START_BYTES = 512
"""How much of a file `refuse_other_formats` needs to see."""

PARQUET = b"PAR1"
PICKLE = "is a pickle, which is never read, for it may run code: write CSV or Parquet"

OTHER_FORMATS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"PK\x03\x04", "is a zip archive or a workbook: unpack it, or save the sheet as CSV (UTF-8)"),
    (0, b"\xd0\xcf\x11\xe0", "is an old Excel workbook: save the sheet as CSV (UTF-8)"),
    (0, b"\x1f\x8b", "is compressed with gzip: unpack it first (gunzip)"),
    (0, b"BZh", "is compressed with bzip2: unpack it first (bunzip2)"),
    (0, b"\xfd7zXZ\x00", "is compressed with xz: unpack it first (unxz)"),
    (0, b"\x28\xb5\x2f\xfd", "is compressed with zstd: unpack it first (unzstd)"),
    (0, b"\x04\x22\x4d\x18", "is compressed with lz4: unpack it first (unlz4)"),
    (0, b"7z\xbc\xaf\x27\x1c", "is a 7z archive: unpack it first"),
    (0, b"Rar!\x1a\x07", "is a rar archive: unpack it first"),
    (257, b"ustar", "is a tar archive: unpack it first"),
    *((0, b"\x80" + bytes([protocol]), PICKLE) for protocol in range(2, 6)),
)
"""Offset, bytes there, and what to say. `datasets` would unpack the archives, to any size, under whatever name."""


def read_start(path: Path) -> bytes:
    """The first bytes of a file. Raises `OSError`."""
    with path.open("rb") as opened:
        return opened.read(START_BYTES)


def refuse_other_formats(start: bytes) -> None:
    """Raise `TableError` where a file begins like an archive, a compressed file, a workbook or a pickle."""
    for offset, magic, got in OTHER_FORMATS:
        if start[offset:].startswith(magic):
            raise TableError(got)


# --- CSV ----------------------------------------------------------------------------------------------------------

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab"}

UTF16 = "utf-16"
BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: UTF16, codecs.BOM_UTF16_BE: UTF16}
"""Excel writes UTF-8 with a mark as "CSV UTF-8", and UTF-16 with tabs as "Unicode text"."""


def encoding_of(start: bytes) -> str:
    """The encoding of a text file, by its first bytes: UTF-8, or what its byte order mark says.

    Raises `TableError` for UTF-32 and for what is no text.
    """
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):  # the first begins like UTF-16
        raise TableError('is UTF-32: save it as "CSV UTF-8"')
    encoding = next((name for mark, name in BYTE_ORDER_MARKS.items() if start.startswith(mark)), "utf-8")
    if encoding != UTF16 and b"\0" in start:
        raise TableError("is a binary file: CSV (UTF-8) or Parquet is needed")
    return encoding


def wrong_encoding(encoding: str, place: str) -> TableError:
    """The error of bytes that are no text in the file's encoding."""
    if encoding == UTF16:
        return TableError(f'no UTF-16 {place}: save it as "CSV UTF-8"')
    convert = "iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW"
    return TableError(f'no UTF-8 {place}: save it as "CSV UTF-8", or convert it ({convert}, if it is Latin-1)')


def decode(raw: bytes) -> str:
    """A whole file as text. Raises `TableError` where it is none."""
    encoding = encoding_of(raw)
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise wrong_encoding(encoding, f"at byte {error.start} (line {line})") from error
    if "\0" in text:
        raise TableError("is a binary file: CSV (UTF-8) or Parquet is needed")
    return text


SEPARATOR_LINE = re.compile(r'"?sep=([^"\r\n])"?[,;\t ]*(?=[\r\n])', re.IGNORECASE)
"""The first line of a file that tells Excel what separates its columns."""


def said_separator(text: str) -> tuple[str, int]:
    """The separator that a first line `sep=;` says, and where that line ends; empty and 0 where there is none.

    Its line end is left, so that lines keep their numbers. Raises `TableError` for a separator that is not read.
    """
    said = SEPARATOR_LINE.match(text)
    if said is None:
        return "", 0
    if said[1] not in SEPARATORS:
        got = f'says that "{said[1]}" separates the columns'
        raise TableError(got, allowed="a comma, a semicolon or a tab", line=1)
    return said[1], said.end()


def separator_of(text: str, wanted: Sequence[str]) -> str:
    """The separator under which the header has most of the wanted columns; where it has none, most columns.

    `text` is a CSV file or its beginning. Raises `TableError` where two separators are equally likely.

    `csv.Sniffer` looks at the cells: of one that holds ;'x'; it takes the semicolon.
    """
    scores: dict[str, tuple[int, int]] = {}
    for separator in SEPARATORS:
        try:
            reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
            names = [name.strip() for name in next((row for row in reader if row), [])]
        except csv.Error:
            continue
        scores[separator] = (sum(name in names for name in wanted), len(names))
    if not scores:
        return ","
    best = max(scores.values())
    likely = [s for s, (wanted_there, columns) in scores.items() if wanted_there == best[0] and columns > 1]
    if best[0] and len(likely) > 1:
        places = " and ".join(f"a {SEPARATORS[s]}" for s in likely)
        raise TableError(
            f"the header line splits at {places}, and the columns that are asked for do not tell which is meant"
        )
    return next(s for s, score in scores.items() if score == best)


@dataclass(frozen=True, kw_only=True)
class CsvForm:
    """How a CSV file is written."""

    encoding: str
    separator: str
    skipped: int = 0
    """lines before the header: 1 where the first one says what separates the columns (`sep=;`)"""


def csv_form(path: Path, wanted: Sequence[str]) -> CsvForm:
    """Encoding and separator of a CSV file, by its beginning. Raises `TableError` and `OSError`."""
    start = read_start(path)
    refuse_other_formats(start)
    encoding = encoding_of(start)
    try:
        with path.open(encoding=encoding, newline="") as opened:
            text = opened.read(2**20)
    except UnicodeError as error:
        raise wrong_encoding(encoding, "in its first lines") from error
    said, end = said_separator(text)
    return CsvForm(encoding=encoding, separator=said or separator_of(text, wanted), skipped=1 if end else 0)


@dataclass(frozen=True)
class CsvRow:
    """One row of a CSV file, and the lines on which it begins and ends."""

    line: int
    last_line: int
    cells: list[str]


def csv_rows(lines: Iterable[str], separator: str, limits: Limits, *, strict: bool) -> Generator[CsvRow]:
    """The rows of a CSV file, header included, without lines that hold nothing.

    `strict`: what stands behind a closing quotation mark is an error and not a part of the cell, and so is a quotation
    mark that is left open. Raises `TableError`.
    """
    previous = csv.field_size_limit(limits.line_bytes)
    try:
        reader = csv.reader(lines, delimiter=separator, strict=strict)
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader, None)
            except csv.Error as error:
                got = f"no CSV ({error}); a quotation mark in a cell is written twice, and the cell between two more"
                raise TableError(got, line=line) from error
            if cells is None:
                return
            if cells:
                yield CsvRow(line, reader.line_num, cells)
    finally:
        csv.field_size_limit(previous)


def uneven_row(row: CsvRow, header: Sequence[str], separator: str) -> TableError:
    """The error of a row that is longer or shorter than the header."""
    to = f" (it ends in line {row.last_line})" if row.last_line > row.line else ""
    return TableError(
        f"has {len(row.cells)} cells, the header {len(header)}{to}",
        allowed=f"as many as the header has; a text with a {SEPARATORS[separator]} needs quotation marks",
        line=row.line,
    )


# --- Parquet ------------------------------------------------------------------------------------------------------

BATCH_ROWS = 65_536
"""Rows of a Parquet file that are looked at together while it is measured."""


@dataclass(frozen=True, kw_only=True)
class ParquetSize:
    """The size of some columns of a Parquet file once every value stands by itself."""

    rows: int
    expanded_bytes: int


def measure_parquet(path: Path, columns: Sequence[str], limits: Limits) -> ParquetSize:
    """Measure columns of a Parquet file, which must be there, without expanding them.

    A few hundred bytes can hold gigabytes (one long text in a dictionary, repeated), and a file's own sum counts the
    dictionary once. So texts are read as dictionaries, which stay small, and their lengths are added up.

    Raises `TableError` for what is too large or nested, and whatever pyarrow raises for a broken file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    schema = metadata.schema.to_arrow_schema()
    limits.check_rows(metadata.num_rows)
    for name in columns:
        if pa.types.is_nested(schema.field(name).type):
            raise TableError(f"column {name!r} holds {schema.field(name).type}, not one value a row")
    stored = 0
    for group in range(metadata.num_row_groups):
        of_group = metadata.row_group(group)
        chunks = [of_group.column(i) for i in range(of_group.num_columns)]
        stored += sum(c.total_uncompressed_size for c in chunks if c.path_in_schema in columns)
    limits.check_bytes(stored, named_columns(columns))
    size = stored + _text_bytes(path, [n for n in columns if is_text(schema.field(n).type)], limits)
    limits.check_expansion(size, path.stat().st_size)
    limits.check_bytes(size, named_columns(columns))
    return ParquetSize(rows=metadata.num_rows, expanded_bytes=size)


def is_text(kind: "pa.DataType") -> bool:
    """Whether a column, dictionary-coded or not, holds text, or bytes that some writers do not mark as text."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(check(kind) for check in checks)


def release_memory() -> None:
    """Let arrow return what it no longer uses to the system."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


def _text_bytes(path: Path, texts: Sequence[str], limits: Limits) -> int:
    """Bytes of columns of text once every value stands by itself."""
    import pyarrow.parquet as pq

    size = 0
    if not texts:
        return size
    with pq.ParquetFile(path, read_dictionary=list(texts), pre_buffer=False, buffer_size=2**20) as opened:
        for group in range(opened.num_row_groups):
            batches = opened.iter_batches(
                batch_size=BATCH_ROWS, row_groups=[group], columns=list(texts), use_threads=False
            )
            for batch in batches:
                for name, column in zip(batch.schema.names, batch.columns, strict=True):
                    size += _dictionary_bytes(column, name, limits)
                    limits.check_bytes(size, named_columns(texts))
            del batches
            release_memory()  # arrow keeps some five times the row group in its dictionaries
    return size


def _dictionary_bytes(column: Any, name: str, limits: Limits) -> int:
    """Bytes of a dictionary-coded column once every value stands by itself."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.binary_length(column.dictionary).to_numpy(zero_copy_only=False)
    if not len(lengths):
        return 0
    if int(np.nanmax(lengths)) > limits.cell_characters:  # in bytes: up to four a character
        is_bytes = pa.types.is_binary(column.dictionary.type) or pa.types.is_large_binary(column.dictionary.type)
        try:
            limits.check_cell(pc.max((pc.binary_length if is_bytes else pc.utf8_length)(column.dictionary)).as_py())
        except TableError as error:
            raise TableError(f"column {name!r}: {error}") from error
    return int(lengths[column.indices.drop_null().to_numpy()].sum())
