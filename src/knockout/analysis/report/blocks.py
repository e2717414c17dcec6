"""The parts of a report, free of any markup: a page of sections, a section of blocks. Two templates print them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import pandas as pd
from markupsafe import Markup

from knockout.analysis.report.theme import themed


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure, drawn, with its caption and the data it shows."""

    name: str
    title: str
    caption: str
    svg: str
    data: Mapping[str, pd.DataFrame]
    """file name without ending -> the data drawn"""
    further: Mapping[str, bytes] = field(default_factory=dict)
    """format, such as pdf -> the figure in it"""

    @property
    def svg_markup(self) -> Markup:
        """The SVG as HTML, in the page's colours: our own figure, in which matplotlib has escaped every label."""
        return Markup(themed(self.svg))


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of a table."""

    text: str
    notes: tuple[str, ...] = ()
    """small print under the text"""
    badge: str = ""
    """shown as a label of this colour class, such as "better"; plain text without one"""
    sort: float | None = None
    """the number that the column is sorted by; without one the cell stands last"""
    link: str = ""
    """id of the section that the text leads to"""


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
    caption: str = ""
    """what it shows, where the heading above does not say it"""
    sorted_by_reader: bool = False
    """whether a reader may sort it, and filter it by text and by verdict; its first row, the baseline's, stays"""

    @property
    def badges(self) -> tuple[str, ...]:
        """The kinds of labels in it, in the order in which they first stand."""
        return tuple(dict.fromkeys(c.badge for row in self.rows for c in row if c.badge))


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
    anchored: bool = False
    """whether each name is a term that `Section.terms` may lead to"""


@dataclass(frozen=True, kw_only=True)
class Warnings:
    """Paragraphs that no reader should miss."""

    kind: ClassVar[str] = "warnings"
    items: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A small figure without data of its own; HTML only."""

    kind: ClassVar[str] = "drawing"
    svg: str
    """made of numbers and escaped text only"""
    caption: str

    @property
    def svg_markup(self) -> Markup:
        return Markup(self.svg)


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Text to be copied as it is."""

    kind: ClassVar[str] = "listing"
    name: str
    """what is copied: a file name, or a heading"""
    text: str
    prose: bool = False
    """whether it is a paragraph, not code"""


@dataclass(frozen=True, kw_only=True)
class Downloads:
    """Files that the page carries; HTML only, since the others lie beside them."""

    kind: ClassVar[str] = "downloads"
    files: tuple[tuple[str, str, str], ...]
    """(file name, what it holds, text)"""


Block = Table | FigureBlock | Bullets | Definitions | Warnings | Drawing | Listing | Downloads

Part = Literal["answer", "limits", "figures", "variants", "details"]
"""Where on the page a section stands, from top to bottom."""


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
    part: Part = "details"
    folded: bool | None = None
    """whether HTML shows the heading only, until a reader opens it; None: those of variants and details are"""
    tells: str = ""
    """one line on what the section tells, shown beside its heading"""
    terms: tuple[str, ...] = ()
    """terms of the glossary that it uses"""
    verdict: Cell | None = None
    """the verdict that stands beside the heading of a variant's section"""

    @property
    def closed(self) -> bool:
        """Whether HTML shows it folded."""
        return self.part in ("variants", "details") if self.folded is None else self.folded


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the answer in plain words."""

    text: str
    verdict: Cell | None = None
    """the verdict that the line is about"""


@dataclass(frozen=True, kw_only=True)
class Page:
    """A whole report."""

    title: str
    question: str
    answer: tuple[str, ...]
    """what the study found, one sentence each, with intervals and marks"""
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]
    findings: tuple[Finding, ...] = ()
    """the answer in plain words, which stands first"""
    floor: tuple[str, ...] = ()
    """what simpler models reach"""

    def of(self, part: Part) -> tuple[Section, ...]:
        """The sections of one part, in their order."""
        return tuple(s for s in self.sections if s.part == part)


def table(
    columns: Iterable[str],
    rows: Iterable[Iterable[Cell | str]],
    *,
    dense: bool = False,
    caption: str = "",
    sorted_by_reader: bool = False,
) -> Table:
    """A table from column titles and rows of cells; "#" before a title sets that column to the right.

    Raises `ValueError` where a row has another number of cells than there are columns.
    """
    heads = tuple(Column(title=c.removeprefix("#"), number=c.startswith("#")) for c in columns)
    body = tuple(tuple(c if isinstance(c, Cell) else Cell(text=c) for c in row) for row in rows)
    for cells in body:
        if len(cells) != len(heads):
            raise ValueError(f"a row of {len(cells)} cells in a table of {len(heads)} columns: {cells[0].text}")
    return Table(columns=heads, rows=body, dense=dense, caption=caption, sorted_by_reader=sorted_by_reader)
