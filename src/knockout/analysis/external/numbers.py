"""Cells of text as numbers: how a metric and the size of a test set are written in files."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from knockout.analysis.external.table import OPTIONS, Sheet, count_with_noun, quoted_list, similar, some
from knockout.strict import Fault, got_text

# float() also takes 1_000 and the digits of other scripts
NUMBER = re.compile(r"[+-]?(?:\d+(?P<point>\.)?\d*|(?P<first>\.)\d+)(?P<power>[eE][+-]?\d+)?", re.ASCII)
COMMA = re.compile(r"[+-]?\d*,\d+(?P<power>[eE][+-]?\d+)?", re.ASCII)
NO_NUMBER = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
COUNT = re.compile(r"(\d{1,15})(?:\.0*)?", re.ASCII)  # pandas writes whole numbers beside gaps as 400.0


@dataclass(frozen=True, kw_only=True)
class Values:
    """What the cells of a metric say."""

    cells: Sequence[float | None]
    """None where blank; NaN or infinite where the cell says so"""
    faults: Sequence[Fault]
    notes: Sequence[str]
    """how decimal commas and percentages were read"""


def read_values(sheet: Sheet, column: str) -> Values:
    """The numbers of a column. One decimal sign and one use of the percent sign for all of it, or it is a fault."""
    cells = sheet.cells[column]
    found: list[float | None] = []
    bad: list[int] = []
    spelt: dict[str, list[int]] = {"point": [], "comma": [], "percent": [], "plain": []}
    for i, cell in enumerate(cells):
        if not cell or NO_NUMBER.fullmatch(cell):
            found.append(float(cell) if cell else None)
            continue
        percent = cell.endswith("%")
        bare = cell[:-1].rstrip() if percent else cell
        number, comma = NUMBER.fullmatch(bare), COMMA.fullmatch(bare)
        match = number or comma
        if match is None or (percent and match["power"]):
            bad.append(i)
            found.append(None)
            continue
        # 91.2e-2 is the float that is nearest to .912, which 91.2 / 100 need not be
        found.append(float(bare.replace(",", ".") + ("e-2" if percent else "")))
        spelt["percent" if percent else "plain"].append(i)
        if comma:
            spelt["comma"].append(i)
        elif number and (number["point"] or number["first"]):
            spelt["point"].append(i)
    if bad and len(bad) == sum(bool(cell) for cell in cells):
        return Values(cells=found, faults=[_no_numbers(sheet, column, bad)], notes=[])
    no_number = [
        sheet.fault(
            f"{sheet.place} {sheet.rows[i]}",
            f"{column} is {got_text(cells[i])}, which is no number",
            allowed="a number; nan or inf for a run that diverged, blank for one without a result",
        )
        for i in bad
    ]
    faults = some(no_number, f"rows in which {column} is no number")

    def shown(kind: str) -> str:
        i = spelt[kind][0]
        return f'"{cells[i]}" ({sheet.place} {sheet.rows[i]})'

    def note(kind: str, how: str) -> str:
        i = spelt[kind][0]
        return f'{how}: "{cells[i]}" is {found[i]:g}.'

    notes = []
    if spelt["comma"] and sheet.separator not in ("semicolon", "tab"):
        way = (
            "a point; decimal commas are read where semicolons or tabs separate the columns, commas of thousands never"
        )
        faults.append(sheet.fault("metric", f"{column} has a comma in {shown('comma')}", allowed=way))
    elif spelt["comma"] and spelt["point"]:
        got = f"{column} has a comma in {shown('comma')} and a point in {shown('point')}"
        faults.append(sheet.fault("metric", got, allowed="one of them for decimals, and nothing between thousands"))
    elif spelt["comma"]:
        notes.append(note("comma", f"Commas in {column} are decimal commas"))
    if spelt["percent"] and spelt["plain"]:
        got = f"{column} is {shown('percent')} and {shown('plain')}"
        faults.append(sheet.fault("metric", got, allowed="a percent sign at every value, or at none"))
    elif spelt["percent"]:
        notes.append(note("percent", f"{column} is in percent and was read as shares"))
    return Values(cells=found, faults=faults, notes=notes)


def read_counts(sheet: Sheet, column: str) -> tuple[list[int | None], list[Fault]]:
    """Whole numbers from 1, `None` where a cell is blank or NaN."""
    found: list[int | None] = []
    faults = []
    for row, cell in zip(sheet.rows, sheet.cells[column], strict=True):
        match = COUNT.fullmatch(cell)
        found.append(int(match[1]) if match else None)
        if cell and cell.lower() != "nan" and not found[-1]:
            got = f'count ("{column}") is {got_text(cell)}, which is no number of test examples'
            way = f'a whole number from 1, blank where it is not known; {OPTIONS["count"]} "" leaves the column out'
            faults.append(sheet.fault(f"{sheet.place} {row}", got, allowed=way))
    return found, some(faults, "rows whose count is no number of test examples")


def _no_numbers(sheet: Sheet, column: str, bad: Sequence[int]) -> Fault:
    """The fault of a column of nothing but text, with those that may be meant."""
    cells = sheet.cells[column]
    if all(cells[i].lower() in ("true", "false") for i in bad):
        got = f"{column} holds true and false ({sheet.place} {sheet.rows[bad[0]]}), which are no values of a metric"
    else:
        first = f"{sheet.place} {sheet.rows[bad[0]]}: {got_text(cells[bad[0]])}"
        got = f"{column} is not a number in any of {count_with_noun(len(sheet.rows), 'row')} ({first})"
    numeric = [name for name in dict.fromkeys(sheet.header) if name in sheet.numeric or _is_numeric(sheet, name)]
    near = dict.fromkeys([*similar(column, numeric), *numeric])
    way = f"columns of numbers are {quoted_list(near, most=5)}; name one with {OPTIONS['metric']}"
    return sheet.fault("metric", got, allowed=way if numeric else "a column of numbers, and there is none")


def _is_numeric(sheet: Sheet, name: str) -> bool:
    cells = sheet.cells.get(name, ())
    return any(cells) and all(not c or NUMBER.fullmatch(c) or NO_NUMBER.fullmatch(c) for c in cells)
