"""Cells of text as numbers: how a metric and the size of a test set are written in files."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from knockout.analysis.external.table import OPTIONS, Sheet, count_with_noun, quoted_list, similar, some
from knockout.strict import Fault, got_text

# float() also takes 1_000 and the digits of other scripts
NUMBER = re.compile(r"[+-]?(?:\d+(?P<point>\.)?\d*|(?P<first>\.)\d+)(?P<power>[eE][+-]?\d+)?", re.ASCII)
USUAL = re.compile(r"[-+.eE\d\n]*", re.ASCII)
"""The characters of which float() takes nothing but such numbers."""
COMMA = re.compile(r"[+-]?\d*,\d+(?P<power>[eE][+-]?\d+)?", re.ASCII)
NO_NUMBER = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
COUNT = re.compile(r"(\d{1,15})(?:\.0*)?", re.ASCII)  # pandas writes whole numbers beside gaps as 400.0


@dataclass(frozen=True, kw_only=True)
class Values:
    """The cells of a metric as numbers."""

    cells: Sequence[float | None]
    """None where blank; NaN or infinite where the cell says so"""
    faults: Sequence[Fault]
    notes: Sequence[str]
    """how decimal commas and percentages were read"""


@dataclass(frozen=True, kw_only=True)
class _Cell:
    """One cell as a number, and how it is spelt."""

    value: float | None
    valid: bool = True
    point: bool = False
    comma: bool = False
    percent: bool = False
    bare: bool = False
    """a number without a percent sign"""


def read_values(sheet: Sheet, column: str, role: str = "metric") -> Values:
    """The numbers of a column.

    All cells must use one decimal sign, and a percent sign at every number or at none; anything else is a fault.
    `role`: what the column is, which decides how faults name it.
    """
    texts = sheet.cells[column]
    if USUAL.fullmatch("\n".join(texts)):  # millions of steps are read in a tenth of the time
        try:
            return Values(cells=[float(text) if text else None for text in texts], faults=[], notes=[])
        except ValueError:  # such as "1-2", which is said below
            pass
    cells = [_read_cell(text) for text in texts]
    bad = [i for i, cell in enumerate(cells) if not cell.valid]
    values = [cell.value for cell in cells]
    if bad and len(bad) == sum(bool(text) for text in texts):
        return Values(cells=values, faults=[_no_numbers(sheet, column, bad, role)], notes=[])
    no_number = [
        sheet.fault(
            f"{sheet.place} {sheet.rows[i]}",
            f"{column} is {got_text(texts[i])}, which is no number",
            allowed="a number; nan or inf for a run that diverged, blank for one without a result",
        )
        for i in bad
    ]
    faults = some(no_number, f"rows in which {column} is no number")
    notes = []
    for fault, note in (
        _decimal_commas(sheet, column, cells, role),
        _percent_signs(sheet, column, cells, role),
    ):
        faults += [fault] if fault else []
        notes += [note] if note else []
    return Values(cells=values, faults=faults, notes=notes)


def _read_cell(text: str) -> _Cell:
    if not text or NO_NUMBER.fullmatch(text):
        return _Cell(value=float(text) if text else None)
    percent = text.endswith("%")
    number = text[:-1].rstrip() if percent else text
    with_point, with_comma = NUMBER.fullmatch(number), COMMA.fullmatch(number)
    match = with_point or with_comma
    if match is None or (percent and match["power"]):
        return _Cell(value=None, valid=False)
    # 91.2e-2 is the float that is nearest to .912, which 91.2 / 100 need not be
    return _Cell(
        value=float(number.replace(",", ".") + ("e-2" if percent else "")),
        point=with_point is not None and bool(with_point["point"] or with_point["first"]),
        comma=with_comma is not None,
        percent=percent,
        bare=not percent,
    )


def _decimal_commas(sheet: Sheet, column: str, cells: Sequence[_Cell], role: str) -> tuple[Fault | None, str]:
    """The fault of decimal commas that could mean something else, or the note that they were read."""
    comma = next((i for i, cell in enumerate(cells) if cell.comma), None)
    if comma is None:
        return None, ""
    got = f"{column} has a comma in {_shown(sheet, column, comma)}"
    if sheet.separator not in ("semicolon", "tab"):
        way = (
            "a point; decimal commas are read where semicolons or tabs separate the columns, commas of thousands never"
        )
        return sheet.fault(role, got, allowed=way), ""
    point = next((i for i, cell in enumerate(cells) if cell.point), None)
    if point is not None:
        got += f" and a point in {_shown(sheet, column, point)}"
        return sheet.fault(role, got, allowed="one of them for decimals, and nothing between thousands"), ""
    return None, f'Commas in {column} are decimal commas: "{sheet.cells[column][comma]}" is {cells[comma].value:g}.'


def _percent_signs(sheet: Sheet, column: str, cells: Sequence[_Cell], role: str) -> tuple[Fault | None, str]:
    """The fault of percent signs at some values only, or the note that percentages were read as shares."""
    percent = next((i for i, cell in enumerate(cells) if cell.percent), None)
    if percent is None:
        return None, ""
    bare = next((i for i, cell in enumerate(cells) if cell.bare), None)
    if bare is not None:
        got = f"{column} is {_shown(sheet, column, percent)} and {_shown(sheet, column, bare)}"
        return sheet.fault(role, got, allowed="a percent sign at every value, or at none"), ""
    example = f'"{sheet.cells[column][percent]}" is {cells[percent].value:g}.'
    return None, f"{column} is in percent and was read as shares: {example}"


def _shown(sheet: Sheet, column: str, i: int) -> str:
    """A cell as it is spelt, with its place."""
    return f'"{sheet.cells[column][i]}" ({sheet.place} {sheet.rows[i]})'


def read_counts(sheet: Sheet, column: str) -> tuple[list[int | None], list[Fault]]:
    """A column of counts: whole numbers from 1, `None` where a cell is blank or NaN; and the faults."""
    counts: list[int | None] = []
    faults = []
    for row, cell in zip(sheet.rows, sheet.cells[column], strict=True):
        match = COUNT.fullmatch(cell)
        counts.append(int(match[1]) if match else None)
        if cell and cell.lower() != "nan" and not counts[-1]:
            got = f'count ("{column}") is {got_text(cell)}, which is no number of test examples'
            way = f'a whole number from 1, blank where it is not known; {OPTIONS["count"]} "" leaves the column out'
            faults.append(sheet.fault(f"{sheet.place} {row}", got, allowed=way))
    return counts, some(faults, "rows whose count is no number of test examples")


def _no_numbers(sheet: Sheet, column: str, bad: Sequence[int], role: str) -> Fault:
    """The fault of a column of nothing but text, with those that may be meant."""
    cells = sheet.cells[column]
    if all(cells[i].lower() in ("true", "false") for i in bad):
        got = f"{column} holds true and false ({sheet.place} {sheet.rows[bad[0]]}), which are no values of a metric"
    else:
        first = f"{sheet.place} {sheet.rows[bad[0]]}: {got_text(cells[bad[0]])}"
        got = f"{column} is not a number in any of {count_with_noun(len(sheet.rows), 'row')} ({first})"
    numeric = [name for name in dict.fromkeys(sheet.header) if name in sheet.numeric or _is_numeric(sheet, name)]
    near = dict.fromkeys([*similar(column, numeric), *numeric])
    way = f"columns of numbers are {quoted_list(near, most=5)}; name one with {OPTIONS.get(role, '--' + role)}"
    return sheet.fault(role, got, allowed=way if numeric else "a column of numbers, and there is none")


def _is_numeric(sheet: Sheet, name: str) -> bool:
    cells = sheet.cells.get(name, ())
    return any(cells) and all(not c or NUMBER.fullmatch(c) or NO_NUMBER.fullmatch(c) for c in cells)
