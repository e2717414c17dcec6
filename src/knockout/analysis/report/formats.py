"""One table in the formats of notebooks and papers: HTML, Markdown, LaTeX with booktabs. All text is escaped."""

from typing import Protocol

from markupsafe import escape

from knockout.analysis.report.blocks import Cell, Table
from knockout.analysis.report.latex import OTHERS, PACKAGES, tabular
from knockout.analysis.report.render import markdown, plain


class Tabled(Protocol):
    """What has one table that says the most important."""

    def verdict_table(self) -> Table:
        """The table."""

    def caption(self) -> str:
        """What the table shows, in one sentence."""


class Shown:
    """A result that a notebook shows as a table, and that writes the table for a paper."""

    def _repr_html_(self: Tabled) -> str:
        return html_table(self.verdict_table(), self.caption())

    def to_markdown(self: Tabled) -> str:
        """The verdict table in Markdown, under its caption."""
        return f"{markdown(self.caption())}\n\n{markdown_table(self.verdict_table())}"

    def to_latex(self: Tabled) -> str:
        r"""The verdict table in LaTeX: a `tabular` that needs booktabs, its caption as a comment."""
        return latex_table(self.verdict_table(), self.caption())


def html_table(table: Table, caption: str) -> str:
    """The table as one HTML element without any style of its own, which a notebook shows in its style."""
    head = "".join(f"<th>{escape(c.title)}</th>" for c in table.columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(_text(c))}</td>' for c in row)}</tr>" for row in table.rows)
    return (
        f"<table><caption>{escape(plain(caption))}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def markdown_table(table: Table) -> str:
    """The table in Markdown."""
    rows = [[c.title for c in table.columns], *([_text(c) for c in row] for row in table.rows)]
    lines = [f"| {' | '.join(map(markdown, row))} |" for row in rows]
    rule = "|".join("---:" if c.number else "---" for c in table.columns)
    return "\n".join([lines[0], f"|{rule}|", *lines[1:]]) + "\n"


def latex_table(table: Table, caption: str) -> str:
    r"""The table as a `tabular` with the rules of booktabs. The caption is a comment, for `\caption`."""
    made = tabular(table)
    others = OTHERS if r"\othercharacter" in made else ""
    return f"% {plain(caption)}\n% needs {PACKAGES}\n{others}{made}"


def _text(cell: Cell) -> str:
    return plain("; ".join(part for part in (cell.text, *cell.notes) if part))
