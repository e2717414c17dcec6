"""How large data may be: `knockout.tabular.TEXTS`, with errors that name the file, the split or the source."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from knockout.data.corpus import DataError
from knockout.tabular import TEXTS, TableError

__all__ = ["MAX_CLASSES", "TEXTS", "check_bytes", "check_files", "check_length", "check_rows", "errors_name"]

MAX_CLASSES = 1000
"""More different labels are numbers or texts of another kind."""


@contextmanager
def errors_name(where: str) -> Iterator[None]:
    """Turn a `TableError` into a `DataError` that begins with where it was."""
    try:
        yield
    except TableError as error:
        raise DataError(f"{where}: {error}") from error


def check_files(files: Sequence[Path]) -> None:
    """Raises `DataError` where a file is larger than any that is read."""
    for file in files:
        with errors_name(str(file)):
            TEXTS.check_file(file.stat().st_size)


def check_rows(where: str, rows: int) -> None:
    """Raises `DataError` where a table, or all of a source, has too many rows."""
    with errors_name(where):
        TEXTS.check_rows(rows)


def check_bytes(where: str, size: int, what: str) -> None:
    """Raises `DataError` where columns take too much memory once they are expanded."""
    with errors_name(where):
        TEXTS.check_bytes(size, what)


def check_length(where: str, characters: int) -> None:
    """Raises `DataError` where one text is too long."""
    if characters > TEXTS.cell_characters:  # asked of every row: the context costs more than the comparison
        with errors_name(where):
            TEXTS.check_cell(characters)
