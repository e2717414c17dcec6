"""How large data may be: generous for real sets, and small enough that no file exhausts a laptop's memory.

What a file says of itself is read first, and what cannot fit is refused before it is expanded. Sized for IMDB
(50,000 texts), AG News (127,600) and Amazon polarity (4 million texts, 1.7 GB), of which the last was not tried.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from knockout.data.corpus import DataError

MAX_FILE_BYTES = 4 * 2**30
"""Of one file, whatever its format: twice what may be read of it, for columns that are not."""

MAX_ROWS = 5_000_000
"""Of all splits. Amazon polarity, the largest usual set, has 4 million."""

MAX_TOTAL_BYTES = 2 * 2**30
"""Of the columns that are read, expanded, over all splits. Measured: 333,000 texts of 133 MB held 524 MB
once encoded, and 963 MB at the peak, while one large row group of a Parquet file was read."""

MAX_EXPANSION, EXPANSION_FROM_BYTES = 1000, 64 * 2**20
"""Of a Parquet file, once it takes so many bytes. Real texts shrink 2.4- to 2.9-fold (five sets measured); a
thousandfold is one value, repeated."""

MAX_CHARACTERS = 1_000_000
"""Of one text: a long novel. More is a file without line ends, or a quotation mark that nobody closed."""

MAX_LINE_BYTES = 64 * 2**20
"""Of one line of JSON: a text of `MAX_CHARACTERS`, escaped, with room for other columns."""

MAX_JSON_LIST_BYTES = 512 * 2**20
"""Of a JSON file that is one list, which can only be read as a whole, at some ten times its size."""

MAX_CLASSES = 1000
"""More different labels are numbers or texts of another kind."""


def check_files(files: Sequence[Path]) -> None:
    """Raises `DataError` where a file is larger than any that is read."""
    for file in files:
        size = file.stat().st_size
        if size > MAX_FILE_BYTES:
            raise DataError(f"{file}: {size:,} bytes, where a file may have {MAX_FILE_BYTES:,}")


def check_rows(where: str, rows: int) -> None:
    """Raises `DataError` where a table, or all of a source, has too many rows."""
    if rows > MAX_ROWS:
        raise DataError(f"{where}: {rows:,} rows, where at most {MAX_ROWS:,} are read; take a part of them")


def check_bytes(where: str, size: int, what: str) -> None:
    """Raises `DataError` where columns take too much memory once they are expanded."""
    if size > MAX_TOTAL_BYTES:
        raise DataError(
            f"{where}: {what} take {size:,} bytes once expanded, where at most {MAX_TOTAL_BYTES:,} are read; "
            "take a part of the rows"
        )


def check_expansion(where: str, size: int, file_bytes: int) -> None:
    """Raises `DataError` where a small file unpacks to far more than texts do: a decompression bomb."""
    if size > EXPANSION_FROM_BYTES and size > MAX_EXPANSION * file_bytes:
        raise DataError(
            f"{where}: {file_bytes:,} bytes that expand to {size:,}, {size // file_bytes:,} times as many; "
            f"texts do not repeat so much, and more than {MAX_EXPANSION:,} times is not read"
        )


def check_length(where: str, characters: int) -> None:
    """Raises `DataError` where one text is too long."""
    if characters > MAX_CHARACTERS:
        raise DataError(
            f"{where}: a text of {characters:,} characters, where one may have {MAX_CHARACTERS:,}; cut it, or look for "
            "a quotation mark that is not closed"
        )


def named(columns: Iterable[str]) -> str:
    """Columns as errors name them."""
    return "columns " + ", ".join(map(repr, columns))
