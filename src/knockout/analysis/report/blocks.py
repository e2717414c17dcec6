"""The parts of a report, free of any markup: a page of sections, a section of blocks. Two templates print them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
from markupsafe import Markup


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure, drawn, with its caption and the data it shows."""

    name: str
    title: str
    caption: str
    svg: str
    data: Mapping[str, pd.DataFrame]
    """file name without ending -> the data drawn"""

    @property
    def svg_markup(self) -> Markup:
        """The SVG as HTML: our own figure, in which matplotlib has escaped every label."""
        return Markup(self.svg)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of a table."""

    text: str
    notes: tuple[str, ...] = ()
    """small print under the text"""
    badge: str = ""
    """shown as a label of this colour class, such as "better"; plain text without one"""


@dataclass(frozen=True, kw_only=True)
class Column:
    """The head of a column."""

    title: str
    number: bool = False
    """whether it is set to the right"""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table; the first cell of each row names it."""

    kind: ClassVar[str] = "table"
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    dense: bool = False
    """whether it has so many columns that HTML needs a smaller type"""


@dataclass(frozen=True, kw_only=True)
class FigureBlock:
    kind: ClassVar[str] = "figure"
    figure: Figure


@dataclass(frozen=True, kw_only=True)
class Bullets:
    kind: ClassVar[str] = "bullets"
    items: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Definitions:
    """Names with what they stand for."""

    kind: ClassVar[str] = "definitions"
    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Warnings:
    """Paragraphs that no reader should miss."""

    kind: ClassVar[str] = "warnings"
    items: tuple[str, ...]


Block = Table | FigureBlock | Bullets | Definitions | Warnings


@dataclass(frozen=True, kw_only=True)
class Section:
    """One section: heading, paragraphs, blocks, small print."""

    id: str
    """its anchor, unique in a page"""
    title: str
    lead: tuple[str, ...] = ()
    """paragraphs before the blocks"""
    blocks: tuple[Block, ...] = ()
    notes: tuple[str, ...] = ()
    """paragraphs in small print after the blocks"""


@dataclass(frozen=True, kw_only=True)
class Page:
    """A whole report."""

    title: str
    question: str
    answer: tuple[str, ...]
    """what the study found, one sentence each"""
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]


def table(columns: Iterable[str], rows: Iterable[Iterable[Cell | str]], *, dense: bool = False) -> Table:
    """A table from column titles and rows of cells; "#" before a title sets that column to the right.

    Raises `ValueError` where a row has another number of cells than there are columns.
    """
    heads = tuple(Column(title=c.removeprefix("#"), number=c.startswith("#")) for c in columns)
    body = tuple(tuple(c if isinstance(c, Cell) else Cell(text=c) for c in row) for row in rows)
    for cells in body:
        if len(cells) != len(heads):
            raise ValueError(f"a row of {len(cells)} cells in a table of {len(heads)} columns: {cells[0].text}")
    return Table(columns=heads, rows=body, dense=dense)
