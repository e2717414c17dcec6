"""Files that are no list of runs yet: wide sheets, charts of W&B, several columns that name a variant, seeds in names.

Each is turned into a sheet with one row per run and one column for each role, and a note says how.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from knockout.analysis.external.numbers import read_values
from knockout.analysis.external.table import OPTIONS, Sheet, count_with_noun, quoted_list, some
from knockout.strict import Fault, FaultsError

CHART_AXES = ("Step", "_step", "Relative Time (Process)", "Relative Time (Wall)", "Wall Time", "epoch")
"""The first column of a chart that W&B exports."""

LINE = re.compile(r"(?P<run>.+) - (?P<metric>.+?)(?P<end>__MIN|__MAX)?", re.DOTALL)
"""A further column of it: "brisk-sun-1 - val/acc", or "Group: base - val/acc" where the chart averages over groups."""

GROUPED = re.compile(r"(?:Group|Job Type|Tags|Name|State|[\w.]+): (?P<name>.+)", re.DOTALL)

ANY_NUMBER = "the number of the run"
"""The column of seeds where nothing is paired."""


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Which columns name the variant and the seed of a run."""

    variant: tuple[str, ...]
    """several columns: their combination, "use_residual=False, num_heads=8", names the variant"""
    seed: tuple[str, ...]
    seed_pattern: str = ""
    """a regular expression whose group is the seed in the variant's name; the rest of the name is the variant"""
    paired: bool = True


def is_chart(sheet: Sheet) -> bool:
    """Whether the file is a chart that W&B exported: a column of steps, then three columns for each line."""
    lines = [name for name in sheet.header[1:] if LINE.fullmatch(name)]
    return bool(lines) and sheet.header[0] in CHART_AXES and len(lines) == len(sheet.header) - 1


def from_chart(sheet: Sheet, variant: str) -> tuple[Sheet, list[str]]:
    """The runs of a chart, one row each with the last value of each metric, and a note.

    Raises `FaultsError` for a chart whose lines are means over several runs: the runs are not in the file.
    """
    lines: dict[str, dict[str, str]] = {}
    averaged = []
    for name in sheet.header[1:]:
        match = LINE.fullmatch(name)
        if match is None or match["end"] or name not in sheet.cells:
            continue
        at = next((i for i in reversed(range(len(sheet.rows))) if sheet.cells[name][i]), None)
        ends = [sheet.cells.get(f"{name}{end}") for end in ("__MIN", "__MAX")]
        if at is not None and any(own is not None and own[at] not in ("", sheet.cells[name][at]) for own in ends):
            averaged.append(name)
        grouped = GROUPED.fullmatch(match["run"])
        run = grouped["name"] if grouped else match["run"]
        lines.setdefault(run, {})[match["metric"]] = "" if at is None else sheet.cells[name][at]
    if averaged:
        got = f'is a chart whose lines are means over several runs (as "{averaged[0]}", whose __MIN and __MAX differ)'
        way = (
            "the runs themselves: in W&B's table of runs, show the columns of variant, seed and metric, then export it"
            " as CSV; or export the chart without grouping"
        )
        raise FaultsError([sheet.fault("", got, allowed=way)])
    metrics = list(dict.fromkeys(metric for of in lines.values() for metric in of))
    cells = {variant: list(lines), **{m: [of.get(m, "") for of in lines.values()] for m in metrics if m != variant}}
    last = sheet.rows[-1]
    turned = replace(sheet, header=tuple(cells), rows=(last,) * len(lines), cells=cells, numeric=frozenset(), blank=())
    note = (
        f"The file is a chart that W&B exported: the last value of each of {count_with_noun(len(lines), 'run')} was"
        f" read ({sheet.header[0]} up to {sheet.cells[sheet.header[0]][-1]})."
    )
    return turned, [note]


def from_wide(
    sheet: Sheet, *, variant: str, seed: Sequence[str], metric: str, status: str, paired: bool
) -> tuple[Sheet, list[str]]:
    """One row per run, of a sheet with a column per variant and a row per seed, or a column per seed.

    The latter where there is a column `variant`. Columns without any number, and without a name (an index), are left
    out, which a note says. Where nothing is paired, no column of seeds is needed.
    A cell such as "diverged" or "OOM" is the run's status. Raises `FaultsError` where no columns of numbers are left.
    """
    by_seed = variant in sheet.cells
    kept = [variant] if by_seed else [name for name in seed if name in sheet.cells]
    others = [name for name in sheet.header if name and name in sheet.cells and name not in kept]
    measured = [name for name in others if has_numbers(sheet, name)]
    ignored = [name for name in others if name not in measured and any(sheet.cells[name])]
    if len(measured) < 2 or (paired and not kept):
        missing = "" if kept or not paired else f'no column "{seed[0] if seed else "seed"}", and '
        got = f"{missing}{count_with_noun(len(measured), 'column')} of numbers: no wide sheet"
        way = f"a column of seeds ({OPTIONS['seed']}) and a column of numbers for each variant"
        raise FaultsError([sheet.fault("", got, allowed=way)])
    at = [(i, name) for i in range(len(sheet.rows)) for name in measured]
    texts = [sheet.cells[name][i] for i, name in at]
    words = [text if text and not _is_number(text) else "" for text in texts]
    cells: dict[str, Sequence[str]] = {name: [sheet.cells[name][i] for i, _ in at] for name in kept}
    cells[seed[0] if by_seed else variant] = [name for _, name in at]
    cells[metric] = ["" if word else text for text, word in zip(texts, words, strict=True)]
    if any(words) and status:
        cells[status] = [word or ("finished" if text else "missing") for text, word in zip(texts, words, strict=True)]
    turned = replace(
        sheet,
        header=tuple(cells),
        rows=tuple(sheet.rows[i] for i, _ in at),
        cells=cells,
        numeric=sheet.numeric & frozenset(kept),
    )
    what = "seed" if by_seed else "variant"
    notes = [f"The sheet is wide, with a column for each {what} ({quoted_list(measured)}): its numbers are {metric}."]
    return turned, [*notes, *([f"Columns without a number were left out: {quoted_list(ignored)}."] if ignored else [])]


def has_numbers(sheet: Sheet, name: str) -> bool:
    """Whether at least half of a column's cells that are not blank are numbers."""
    filled = [cell for cell in sheet.cells[name] if cell]
    return bool(filled) and 2 * sum(map(_is_number, filled)) >= len(filled)


def _is_number(text: str) -> bool:
    one = Sheet(
        file="",
        place="row",
        separator="tab",
        header=("x",),
        rows=(1,),
        cells={"x": (text,)},
        numeric=frozenset(),
        blank=(),
    )
    return not read_values(one, "x").faults


def with_roles(sheet: Sheet, roles: Roles) -> tuple[Sheet, str, tuple[str, ...], list[str]]:
    """The sheet with one column that names the variant and those that name the seed, their names, and notes.

    All columns that are named must be there. Raises `FaultsError` for names without a seed, or a pattern that is none.
    """
    notes: list[str] = []
    variant, seed = roles.variant[0], roles.seed
    if len(roles.variant) > 1:
        variant = ", ".join(roles.variant)
        rows = zip(*(sheet.cells[name] for name in roles.variant), strict=True)
        sheet = _with(sheet, {variant: [combination(dict(zip(roles.variant, row, strict=True))) for row in rows]})
        names = len(dict.fromkeys(sheet.cells[variant]))
        notes.append(f"{quoted_list(roles.variant)} together name the variant: {names} combinations.")
    if roles.seed_pattern:
        names_without, seeds = _split(sheet, variant, roles.seed_pattern)
        seed = (f"the seed in {variant}",)
        whole, variant = variant, f"{variant} without its seed"
        sheet = _with(sheet, {variant: names_without, seed[0]: seeds})
        first = sheet.cells[whole][0]
        notes.append(f'Seeds are read from {whole}: "{first}" is "{names_without[0]}" with seed "{seeds[0]}".')
    elif not roles.paired:
        seed = (ANY_NUMBER,)
        sheet = _with(sheet, {ANY_NUMBER: [str(i) for i in range(1, len(sheet.rows) + 1)]})
    return sheet, variant, seed, notes


def combination(values: Mapping[str, str]) -> str:
    """The name of a variant that several columns describe: "use_residual=False, num_heads=8"."""
    return ", ".join(f"{name}={value or '(blank)'}" for name, value in values.items())


def matching(asked: str, names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The combinations that "num_heads=8, use_residual=False" may mean: all that have these values, in any order.

    Upper and lower case are one, and numbers are compared as numbers. None where it is no list of columns and values.
    """
    pairs = dict(part.split("=", 1) for part in re.split(r",\s*", asked) if "=" in part)
    wanted = {name.strip(): _plain(value) for name, value in pairs.items()}
    if not wanted or not set(wanted) <= set(columns):
        return []
    chosen = []
    for name in dict.fromkeys(names):
        values = _values_of(name, columns)
        if all(_plain(values.get(column, "")) == value for column, value in wanted.items()):
            chosen.append(name)
    return chosen


def _values_of(name: str, columns: Sequence[str]) -> dict[str, str]:
    """The values in the name of a combination."""
    pattern = ", ".join(f"{re.escape(column)}=(.*)" for column in columns)
    match = re.fullmatch(pattern, name, re.DOTALL)
    return dict(zip(columns, match.groups(), strict=True)) if match else {}


def _plain(value: str) -> str:
    value = value.strip().casefold()
    try:
        number = float(value)
    except ValueError:
        return value
    return repr(number) if math.isfinite(number) else value


def _split(sheet: Sheet, column: str, pattern: str) -> tuple[list[str], list[str]]:
    """Variants and seeds of names such as "base_seed3"."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        got = f'"{pattern}" is no regular expression: {error}'
        raise FaultsError([Fault(file="--seed-pattern", got=got, allowed=r"such as '_seed(\d+)$'")]) from error
    if not compiled.groups:
        got = f'"{pattern}" has no group: the part in brackets is the seed'
        raise FaultsError([Fault(file="--seed-pattern", got=got, allowed=r"such as '_seed(\d+)$'")])
    group = "seed" if "seed" in compiled.groupindex else 1
    variants, seeds, faults = [], [], []
    for row, cell in zip(sheet.rows, sheet.cells[column], strict=True):
        match = compiled.search(cell)
        found = match[group] if match else None
        if match is None or not found:
            faults.append(
                sheet.fault(f"{sheet.place} {row}", f'"{cell}" holds no seed', allowed=f"names with {pattern}")
            )
            continue
        named = match["variant"] if "variant" in compiled.groupindex else cell[: match.start()] + cell[match.end() :]
        variants.append((named or "").strip())
        seeds.append(found)
        if not variants[-1]:
            got = f'"{cell}" is a seed only: no name of a variant is left'
            faults.append(sheet.fault(f"{sheet.place} {row}", got, allowed=f"another pattern than {pattern}"))
    if faults:
        raise FaultsError(some(faults, "names without a seed"))
    return variants, seeds


def _with(sheet: Sheet, cells: Mapping[str, Sequence[str]]) -> Sheet:
    """The sheet with further columns. Raises `FaultsError` where it has one of that name."""
    for name in cells:
        if name in sheet.header:
            allowed = "another name for that column in the file"
            raise FaultsError([sheet.fault("variant", f'there is a column "{name}" already', allowed=allowed)])
    return replace(sheet, header=(*sheet.header, *cells), cells={**sheet.cells, **cells})
