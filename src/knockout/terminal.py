"""The terminal: its width, its colours, its encoding, and tables that fit it from 60 columns on."""

import codecs
import contextlib
import io
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO, cast

from rich.cells import cell_len
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from knockout.lines import print_lines
from knockout.screen import stderr, stdout

PIPE_WIDTH = 120
"""Columns of what is no terminal, unless the variable COLUMNS says otherwise."""
LONG = 2.0
"""Seconds after which a pipe is shown what takes so long."""
NARROWEST = 60
GAP = 2
"""Blanks between two columns."""
INDENT = 2
"""Blanks before a text that stands under another."""
FOLDED = 10
NAMES = 24
"""Columns that a name gets at least."""

REPLACEMENTS = {"−": "-", "–": "-", "→": "->", "≤": "<=", "≥": ">=", "±": "+/-", "…": "...", "×": "x", "\u200b": ""}
"""What stands for a character that the output's encoding lacks."""

STYLES = {
    "better": "green", "worse": "red", "equivalent": "cyan", "negligible": "cyan", "inconclusive": "yellow",
    "undecidable": "dim",
}  # fmt: skip
"""first word of a verdict -> colour; rich leaves colours out where NO_COLOR is set, and in pipes"""


def _width() -> int | None:
    return None if stdout.isatty() or os.environ.get("COLUMNS") else PIPE_WIDTH


out = Console(file=cast("TextIO", stdout), highlight=False, emoji=False, width=_width())
err = Console(file=cast("TextIO", stderr), highlight=False, emoji=False)


def say(markup: str, *, whole: str = "", console: Console = out) -> None:
    """Print a text in rich's markup, wrapped to a terminal's width. `whole`: plain text at its end, never broken."""
    text = Text.from_markup(markup, emoji=False)
    print_lines(console, text.append(f" {whole}") if whole else text, whole=whole)


@contextlib.contextmanager
def hushed(quiet: bool) -> Iterator[None]:
    """Where `quiet`, print nothing on standard output meanwhile. Errors go elsewhere."""
    before, out.quiet = out.quiet, quiet or out.quiet
    try:
        yield
    finally:
        out.quiet = before


@contextlib.contextmanager
def working(what: str, *, quiet: bool, after: float = LONG) -> Iterator[None]:
    """Say on standard error what takes its time: a spinner on a terminal; elsewhere a line, once it took `after` s.

    Says nothing if `quiet`, and nothing in a pipe where it ends sooner, such as with an error.
    """
    with contextlib.ExitStack() as stack:
        if not quiet and err.is_terminal:
            stack.enter_context(err.status(Text(f"{what} ...")))
        elif not quiet:
            timer = threading.Timer(after, lambda: print_lines(err, Text(f"{what} ...")))
            timer.daemon = True
            timer.start()
            stack.callback(timer.cancel)
        yield


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    bad = error.object[error.start : error.end]
    return "".join(REPLACEMENTS.get(c, "?") for c in bad), error.end


def write_any_text() -> None:
    """Make standard output and error take every text, whatever their encoding: Windows' pipes have 256 characters."""
    codecs.register_error("knockout", _replaced)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="knockout")


def encodable(text: str, encoding: str) -> str:
    """The text as it will be printed, so that columns are measured on what is seen."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(c if _encodes(c, encoding) else REPLACEMENTS.get(c, "?") for c in text)
    return text


def _encodes(character: str, encoding: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table."""

    name: str
    right: bool = False
    folds: bool = False
    """whether its texts may be broken over several lines"""
    least: int = FOLDED
    """columns that a text which may be broken gets at least, unless all its texts are shorter"""
    drop: int = 0
    """where the table is too wide, the column with the highest number is left out first; one with 0 stays"""
    below: bool = False
    """where the table is still too wide, its texts stand under those of the first column"""
    verdict: bool = False
    """whether its texts are verdicts, and coloured"""


def fitted(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, console: Console) -> Table:
    """The rows as a table that is as wide as the console at most. The texts are plain: markup is printed as it is.

    What does not fit is left out column by column (`drop`), then put below the first column (`below`), then folded.
    """
    encoding, width = console.encoding, console.width
    texts = [[encodable(cell, encoding) for cell in row] for row in rows]
    natural = [max(cell_len(column.name), *(cell_len(row[i]) for row in texts), 0) for i, column in enumerate(columns)]
    least = list(natural)
    for i, column in enumerate(columns):
        if column.folds:  # words stay whole, but for names, which have none
            words = [] if i == 0 else [cell_len(word) for row in texts for word in row[i].split()]
            least[i] = min(natural[i], max([column.least, *words]))
    kept = list(range(len(columns)))

    def too_wide() -> bool:
        return sum(least[i] for i in kept) + GAP * (len(kept) - 1) > width

    while too_wide() and any(columns[i].drop for i in kept):
        kept.remove(max(kept, key=lambda i: columns[i].drop))
    under = [i for i in kept if columns[i].below] if too_wide() else []
    kept = [i for i in kept if i not in under]
    natural[kept[0]] = max([natural[kept[0]], *(INDENT + cell_len(row[i]) for row in texts for i in under)])
    widths = _shrunk({i: natural[i] for i in kept}, {i: least[i] for i in kept}, width - GAP * (len(kept) - 1))

    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for i in kept:
        column = columns[i]
        table.add_column(
            Text(column.name), justify="right" if column.right else "left", no_wrap=not column.folds,
            overflow="fold", width=widths[i],
        )  # fmt: skip
    for row in texts:
        cells = [_cell(row[i], columns[i]) for i in kept]
        more = [
            Padding(_cell(row[i], columns[i]), (0, 0, 0, INDENT)) for i in under if row[i] not in ("", row[kept[0]])
        ]
        table.add_row(Group(cells[0], *more) if more else cells[0], *cells[1:])
    return table


def _shrunk(natural: Mapping[int, int], least: Mapping[int, int], room: int) -> dict[int, int]:
    """The widths of columns that fit the room together: the widest gives way first, down to its least, then further.

    Rich's own widths may come to more than the room where columns have a least width, and cut the last one.
    """
    widths = dict(natural)
    for floor in (least, dict.fromkeys(least, 1)):
        while sum(widths.values()) > room and (wide := [i for i in widths if widths[i] > floor[i]]):
            widths[max(wide, key=lambda i: widths[i])] -= 1
    return widths


def _cell(text: str, column: Column) -> Text:
    if not column.verdict:
        return Text(text)
    word = text.split(maxsplit=1)[0].rstrip(",") if text else ""
    cell = Text(text)
    if word in STYLES:
        cell.stylize(STYLES[word], 0, len(text.partition(",")[0]))
    return cell
