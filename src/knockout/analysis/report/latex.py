r"""Tables in LaTeX with the rules of booktabs: any name compiles, with pdfLaTeX, XeLaTeX and LuaLaTeX alike."""

from collections.abc import Sequence

from knockout.analysis.report.blocks import Cell, Table
from knockout.analysis.report.render import plain

ESCAPED = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": "$<$",
    ">": "$>$",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"{\textquotesingle}",
    "`": r"\textasciigrave{}",
    "[": "{[}",  # after the end of a row it would begin an argument
    "]": "{]}",
    "*": "{*}",
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "–": "--",
    "→": r"$\to$",
    "…": r"\dots{}",
    "“": "``",
    "”": "''",
}
"""Characters that mean something to LaTeX, and those of our own text that it needs in another form."""

OF_PDFLATEX = range(0xC0, 0x180)
"""Letters with accents, which pdfLaTeX sets by itself."""

OTHERS = (
    "\\providecommand{\\othercharacter}[2]{%  code point, character: pdfLaTeX has no fonts for it\n"
    "  \\ifdefined\\XeTeXversion #2\\else\\ifdefined\\directlua #2\\else\\texttt{U+#1}\\fi\\fi}\n"
)
"""The command that `latex_text` uses for every other character."""

PACKAGES = r"\usepackage[T1]{fontenc} \usepackage{booktabs,textcomp}"
"""What a document that holds the tables loads."""


def latex_text(value: object) -> str:
    """Any text as LaTeX that prints it. `OTHERS` must stand before it where it has characters of other scripts."""
    return "".join(map(_character, plain(value)))


def _character(c: str) -> str:
    if c in ESCAPED:
        return ESCAPED[c]
    if c.isascii() or ord(c) in OF_PDFLATEX:
        return c
    return f"\\othercharacter{{{ord(c):04X}}}{{{c}}}"


def tabular(table: Table) -> str:
    """The table as a `tabular`, with a comment on the packages that it needs."""
    head = [c.title for c in table.columns]
    lines = [_row(head), r"\midrule", *(_row([_text(c) for c in row]) for row in table.rows)]
    form = "".join("r" if c.number else "l" for c in table.columns)
    return "\n".join([f"\\begin{{tabular}}{{{form}}}", r"\toprule", *lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def latex_file(tables: Sequence[tuple[str, str, Table]]) -> str:
    r"""A file for `\input`: one `table` for each (label, caption, table)."""
    parts = [f"% needs {PACKAGES}\n", OTHERS]
    for label, caption, table in tables:
        parts.append(
            "\n\\begin{table}[htbp]\n\\centering\\scriptsize\\setlength{\\tabcolsep}{3pt}\n"
            f"\\caption{{{latex_text(caption)}}}\n\\label{{tab:{label}}}\n{tabular(table)}\\end{{table}}\n"
        )
    return "".join(parts)


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(latex_text, cells)) + r" \\"


def _text(cell: Cell) -> str:
    return plain("; ".join(part for part in (cell.text, *cell.notes) if part))
