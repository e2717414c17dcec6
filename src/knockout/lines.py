"""Lines of text on a terminal: wrapped between words, with what is meant for copying left whole."""

import os
import re

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

UNITS = (r"`[^`\n]+`", r'"[^"\n]{1,60}"', r"\S")
"""What is never broken: a command or a name in quotation marks, a word."""
COPIED = ("knockout ", "example: ")
"""How a line begins that is a command or an example of code: it stays whole."""
BULLET = "- "


def print_lines(console: Console, text: Text, *, whole: str = "") -> None:
    """Print a text, wrapped to a terminal's width; a pipe gets its lines whole, unless the variable COLUMNS is set.

    `whole`: a part of the text that is never broken, such as a command to copy.
    """
    fits = console.is_terminal or bool(os.environ.get("COLUMNS"))
    console.print(wrapped(text, console.width, whole=whole) if fits else text, soft_wrap=True)


def wrapped(text: Text, width: int, *, whole: str = "") -> Text:
    """The text in lines of at most `width` columns, unless a single word, name or command is longer.

    A line goes on below its own first letter. One that is a command or an example of code stays whole.
    """
    unit = re.compile(f"(?:{'|'.join([*([re.escape(whole)] if whole else []), *UNITS])})+")
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        plain = line.plain
        indent = len(plain) - len(plain.lstrip(" "))
        if cell_len(plain) <= width or plain.startswith(COPIED, indent):
            lines.append(line)
            continue
        hang = Text(" " * (indent + len(BULLET) * plain.startswith(BULLET, indent)))
        begin = end = 0
        room = width
        for found in unit.finditer(plain):
            if end > begin and cell_len(plain[begin : found.end()]) > room:
                lines.append(line[begin:end] if begin == 0 else hang + line[begin:end])
                begin, room = found.start(), width - len(hang)
            end = found.end()
        lines.append(line[begin:end] if begin == 0 else hang + line[begin:end])
    return Text("\n").join(lines)
