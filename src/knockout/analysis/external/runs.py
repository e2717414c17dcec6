"""Runs of other programs as one tidy frame: an export of Weights & Biases or MLflow, a spreadsheet, a Parquet file."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from knockout.analysis.external.numbers import read_counts, read_values
from knockout.analysis.external.parents import PARENT_IDS, RUN_IDS, without_parents
from knockout.analysis.external.shapes import Roles, from_chart, from_wide, has_numbers, is_chart, with_roles
from knockout.analysis.external.statuses import LIKELY, State, overlooked, states_of
from knockout.analysis.external.table import (
    OPTIONS,
    Sheet,
    count_with_noun,
    plain,
    quoted_list,
    read_sheet,
    similar,
    some,
)
from knockout.analysis.external.trials import is_trials, named, varied
from knockout.job import RECORDED
from knockout.strict import Fault, FaultsError


@dataclass(frozen=True, kw_only=True)
class RunColumns:
    """What the columns are called in the file. `status` and `count` may be empty: no such column is read then."""

    variant: str = "variant"
    seed: tuple[str, ...] = ("seed",)
    metric: str = "accuracy"
    status: str = "status"
    count: str = "count"
    configuration: tuple[str, ...] = ()
    """columns whose values together name the variant ("heads=8, bias=False"), in place of `variant`"""
    seed_pattern: str = ""
    """a regular expression whose group is the seed in the variant's name, in place of `seed`"""
    paired: bool = True
    """False: no seeds are read, and the runs of a variant are numbered"""
    wide: bool = False
    """the sheet has a column per variant and a row per seed, or a column per seed: its numbers are `metric`"""

    def normalized(self) -> "RunColumns":
        """The same names as a file's are read: without blanks around them, and in NFC."""
        return replace(
            self,
            variant=plain(self.variant),
            seed=self.seed if isinstance(self.seed, str) else tuple(map(plain, self.seed)),
            metric=plain(self.metric),
            status=plain(self.status),
            count=plain(self.count),
            configuration=tuple(map(plain, self.configuration)),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that name the variant."""
        return self.configuration or (self.variant,)

    @property
    def seeds(self) -> tuple[str, ...]:
        """The columns that name the seed, where columns do."""
        return self.seed if self.paired and not self.seed_pattern else ()


@dataclass(frozen=True, kw_only=True)
class Imported:
    """The runs of a file, and what was decided about them."""

    frame: pd.DataFrame
    """One row per run, in the file's order, and one run per variant and seed. variant (str), seed (str), value
    (float64; finite where a run finished, else NaN), status (one of `STATES`), count (Int64: test examples; <NA> where
    where unknown), row (the line on which it begins, of which the header is 1; of Parquet the row, from 1)."""
    notes: tuple[str, ...]
    """what was decided, in words and with the lines"""
    blank: Fault | None
    """the fault of a metric that no run has, where runs finished"""
    columns: RunColumns
    """those that were read: of an export of Optuna the columns of parameters and attributes that were meant"""


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One row, read."""

    row: int
    key: tuple[str, str]
    """variant, seed"""
    word: State | None
    """of the status column, where there is one"""
    value: float | None
    """of the metric's cell"""
    count: int | None

    @property
    def state(self) -> State:
        if self.word not in ("finished", None):
            return self.word
        if self.value is None or (self.word is None and math.isnan(self.value)):
            return "missing"
        return "finished" if math.isfinite(self.value) else "diverged"

    @property
    def ended(self) -> bool:
        """Whether it must not give way to another try: also a finished run without a value, whose NaN may have been
        written as a blank, and a NaN without a status."""
        return self.state in RECORDED or self.word == "finished" or (self.word is None and self.value is not None)


def read_runs(path: Path, columns: RunColumns, *, statuses: Mapping[str, str] | None = None) -> Imported:
    """The runs of a CSV, TSV or Parquet file, one row each.

    Every cell is text first: variants and seeds called NA, None, 007 or =1+1 keep these names, and case. Blanks around
    a cell are stripped. Several seed columns are joined with " / ": seed and data set together can be what pairs.

    Text files: UTF-8, or UTF-16 with its mark; separated by comma, semicolon or tab, as the header shows. A decimal
    comma is read in files with semicolons or tabs, if no other value of the metric has a point. Percentages (91.2%,
    91.2 %) become shares (.912), if all values have the sign. Compressed files, workbooks, JSON and pickles are
    refused.

    A run's status is the word of its status column (`WORDS`; `statuses` maps further words, or these to others), and

    - finished with a value that is NaN or infinite: it has diverged, which is a failure;
    - finished without a value: missing;
    - without a status column: blank and NaN are missing, infinite values are diverged runs, numbers finished ones.

    The value of a run that did not finish is left out: trackers export what was logged last. Tries of a variant and
    seed that came to no result are left out beside one that did; two that did are a fault. The notes list all this.

    Raises `FaultsError` with all faults of the file's form, else of its columns, else of the cells, else of runs that
    stand twice.
    """
    columns = columns.normalized()
    wanted = _wanted(columns)
    sheet, shaped = _rows_of_runs(path, columns, wanted)
    if is_trials(sheet.header):
        sheet = read_sheet(path, sheet.header)
        columns = columns_of_trials(sheet, columns)
        wanted = _wanted(columns)
    faults = _column_faults(sheet, wanted)
    if faults:
        raise FaultsError(faults)
    roles = Roles(
        variant=tuple(name.strip() for name in columns.names),
        seed=tuple(name.strip() for name in columns.seeds),
        seed_pattern=columns.seed_pattern,
        paired=columns.paired,
    )
    sheet, parents = without_parents(sheet, [*roles.variant, *roles.seed, columns.metric])
    sheet, variant, seed, named = with_roles(sheet, roles)
    unread = [name for name in columns.seed if not columns.paired and name in sheet.header]
    if unread:
        named.append(f"{quoted_list(unread)} was not read: an unpaired comparison was asked for. Paired is stronger.")
    status, count = (_optional(sheet, name) for name in (columns.status, columns.count))
    names, faults = _names(sheet, "variant", variant)
    seeds, more = _seeds(sheet, seed)
    values = read_values(sheet, columns.metric.strip())
    faults += [*more, *values.faults]
    words, more, unsaid = states_of(sheet, status, statuses or {}, asked=columns.status)
    counts, fewer = read_counts(sheet, count) if count else ([None] * len(sheet.rows), [])
    faults += [*more, *fewer]
    nothing = None
    if all(value is None for value in values.cells) and {None, "finished"} & set(words):
        numbers = [name for name in sheet.cells if has_numbers(sheet, name)]
        way = f"columns of numbers are {quoted_list(numbers, most=5)}; name one with {OPTIONS['metric']}"
        got = f'"{columns.metric}" is blank in all {count_with_noun(len(sheet.rows), "row")}'
        nothing = sheet.fault("metric", got, allowed=way if numbers else "a column of numbers, and there is none")
    if faults:
        raise FaultsError(faults)
    read = [
        _Run(row=row, key=(variant, seed), word=word, value=value, count=size)
        for row, variant, seed, word, value, size in zip(
            sheet.rows, names, seeds, words, values.cells, counts, strict=True
        )
    ]
    runs, tries = _once(sheet, read)
    blank = [f"{count_with_noun(len(sheet.blank), 'line')} of separators only left out ({sheet.places(sheet.blank)})."]
    notes = [*shaped, *parents, *named, *values.notes, *(blank if sheet.blank else []), *unsaid, *tries]
    notes += _decisions(sheet, runs, columns.metric.strip())
    return Imported(frame=_frame(runs), notes=tuple(notes), columns=columns, blank=nothing)


def _rows_of_runs(path: Path, columns: RunColumns, wanted: Sequence[tuple[str, str]]) -> tuple[Sheet, list[str]]:
    """The file as one row per run; wide sheets and charts of W&B are turned, which the notes say."""
    sheet = read_sheet(path, [*(name for _, name in wanted), *LIKELY, *RUN_IDS, *PARENT_IDS])
    if columns.wide:
        sheet = read_sheet(path, sheet.header)  # of Parquet only the columns that are named were read
        variant = columns.variant.strip()
        return from_wide(
            sheet,
            variant=variant,
            seed=columns.seed,
            metric=columns.metric.strip(),
            status=columns.status.strip(),
            paired=columns.paired,
        )
    if is_chart(sheet):
        return from_chart(read_sheet(path, sheet.header), columns.variant.strip())
    return sheet, []


def columns_of_trials(sheet: Sheet, columns: RunColumns) -> RunColumns:
    """The columns of an export of Optuna that are meant where its own names were not given.

    "seed" is params_seed or user_attrs_seed, and so on. Without a column of variants the other parameters name them.
    """
    header, usual = sheet.header, RunColumns()
    seed = tuple(named(header, name) for name in columns.seed)
    status = "state" if columns.status == usual.status and usual.status not in header else columns.status
    found = replace(
        columns,
        variant=named(header, columns.variant),
        seed=seed,
        status=status,
        count=named(header, columns.count),
        metric=named(header, columns.metric),
    )
    if columns.configuration or found.variant in header or columns.variant != usual.variant:
        return replace(found, configuration=tuple(named(header, name) for name in columns.configuration))
    parameters = varied(header, seed, lambda name: len(set(sheet.cells[name])), len(sheet.rows))
    if len(parameters) == 1:
        return replace(found, variant=parameters[0])
    return replace(found, configuration=parameters)


def _frame(runs: Sequence[_Run]) -> pd.DataFrame:
    values = [r.value if r.state == "finished" else None for r in runs]
    return pd.DataFrame(
        {
            "variant": pd.Series([r.key[0] for r in runs], dtype="str"),
            "seed": pd.Series([r.key[1] for r in runs], dtype="str"),
            "value": pd.Series(values, dtype="float64"),
            "status": pd.Series([r.state for r in runs], dtype="str"),
            "count": pd.Series([r.count for r in runs], dtype="Int64"),
            "row": pd.Series([r.row for r in runs], dtype="int64"),
        }
    )


# --- Columns ------------------------------------------------------------------------------------------------------


def _wanted(columns: RunColumns) -> list[tuple[str, str]]:
    """Role and name of every column that is asked for."""
    if isinstance(columns.seed, str) or not columns.seed:
        raise FaultsError([Fault(file="seed", got=f"got {columns.seed!r}", allowed="a tuple of names of columns")])
    roles = [("variant", name) for name in columns.names]
    roles += [*(("seed", name) for name in columns.seeds), ("metric", columns.metric)]
    roles += [(role, name) for role, name in (("status", columns.status), ("count", columns.count)) if name.strip()]
    roles = [(role, name.strip()) for role, name in roles]
    names = [name for _, name in roles]
    twice = [
        Fault(
            file=role,
            got=f'column "{name}" is already named for {roles[names.index(name)][0]}',
            allowed="another column",
        )
        for i, (role, name) in enumerate(roles)
        if name in names[:i]
    ]
    if twice:
        raise FaultsError(twice)
    return roles


def _optional(sheet: Sheet, name: str) -> str:
    """The name of a column that need not be there, empty where it is not. (pandas writes its index without a name.)"""
    return name.strip() if name.strip() in sheet.cells else ""


def _column_faults(sheet: Sheet, wanted: Sequence[tuple[str, str]]) -> list[Fault]:
    faults = []
    defaults = [("status", RunColumns().status), ("count", RunColumns().count)]
    for role, name in wanted:
        places = [str(i) for i, other in enumerate(sheet.header, start=1) if other == name]
        if len(places) > 1:
            got = f'{len(places)} columns are called "{name}" (columns {", ".join(places)})'
            faults.append(sheet.fault(role, got, allowed="one; give the others another name in the file"))
        if not places and (role, name) not in defaults:
            way = f"{quoted_list(sheet.header)}; name the right one with {OPTIONS[role]}"
            if len(sheet.header) == 1:
                way += " (the header is read as one column: a comma, a semicolon or a tab separates columns)"
            likely = '" or "'.join(similar(name, sheet.header))
            faults.append(sheet.fault(role, f'no column "{name}"', allowed=way, nearest=likely))
    if defaults[0] in wanted and defaults[0][1] not in sheet.header:
        faults += overlooked(sheet)
    return faults


# --- Cells --------------------------------------------------------------------------------------------------------


def _names(sheet: Sheet, role: str, column: str) -> tuple[list[str], list[Fault]]:
    cells = list(sheet.cells[column])
    faults = [
        sheet.fault(
            f"{sheet.place} {row}",
            f'{role} ("{column}") is empty',
            allowed="any text; rows that are no runs do not belong in the file",
        )
        for row, cell in zip(sheet.rows, cells, strict=True)
        if not cell
    ]
    return cells, some(faults, f"rows without {role}")


def _seeds(sheet: Sheet, columns: Sequence[str]) -> tuple[list[str], list[Fault]]:
    read = [_names(sheet, "seed", name) for name in columns]
    faults = [fault for _, of_column in read for fault in of_column]
    parts = list(zip(*(cells for cells, _ in read), strict=True))
    joined = [" / ".join(part) for part in parts]
    first: dict[str, int] = {}
    for i, text in enumerate(joined):
        before = first.setdefault(text, i)
        if parts[before] != parts[i]:
            got = (
                f'the seeds of {sheet.places([sheet.rows[before], sheet.rows[i]])} differ, and joined both are "{text}"'
            )
            return joined, [*faults, sheet.fault("seed", got, allowed='names that do not hold "/"')]
    return joined, faults


# --- Decisions ----------------------------------------------------------------------------------------------------


def _once(sheet: Sheet, runs: Sequence[_Run]) -> tuple[list[_Run], list[str]]:
    """One run per variant and seed, and notes on the tries that are left out."""
    cells: dict[tuple[str, str], list[_Run]] = {}
    for run in runs:
        cells.setdefault(run.key, []).append(run)
    faults, notes = [], []
    beside: list[_Run] = []
    without: list[_Run] = []
    for (variant, seed), tries in cells.items():
        ended = [run for run in tries if run.ended]
        if len(ended) > 1:
            got = f'{sheet.places([run.row for run in ended])} are all "{variant}" with seed "{seed}", and all ended'
            way = f"one of them; another column that tells them apart can be part of the seed ({OPTIONS['seed']})"
            faults.append(sheet.fault("", got, allowed=way))
        elif ended:
            beside += [run for run in tries if run is not ended[0]]
        else:
            without += tries[:-1]
    if faults:
        raise FaultsError(some(faults, "variants with seeds that stand more than once"))
    for lost, why in (
        (beside, "that came to no result were left out, beside the one that ended"),
        (without, "were left out: none came to a result, and the last one in the file stands for them"),
    ):
        if lost:
            of = dict.fromkeys(f'"{run.key[0]}" with seed "{run.key[1]}"' for run in lost)
            which = next(iter(of)) if len(of) == 1 else f"{len(of)} runs"
            tried = f"{len(lost)} other {'try' if len(lost) == 1 else 'tries'} of {which} {why}"
            notes.append(f"{tried} ({sheet.places(sorted(run.row for run in lost))}).")
    out = {(run.row, run.key) for run in (*beside, *without)}  # a line of a wide sheet holds several runs
    return [run for run in runs if (run.row, run.key) not in out], notes


def _decisions(sheet: Sheet, runs: Sequence[_Run], metric: str) -> list[str]:
    """What was decided that a row does not say itself."""
    no_number = [r.row for r in runs if r.word == "finished" and r.state == "diverged"]
    infinite = [r.row for r in runs if r.word is None and r.state == "diverged"]
    # pandas, and so MLflow's search_runs().to_csv(), writes NaN as an empty cell; W&B writes NaN (wandb/wandb#2202)
    blank = [r.row for r in runs if r.word == "finished" and r.state == "missing"]
    no_status = [r.row for r in runs if r.word is None and r.state == "missing"]
    unused = [r.row for r in runs if r.state != "finished" and r.value is not None and math.isfinite(r.value)]
    notes = []
    for rows, one, many in (
        (
            no_number,
            "run finished with a value that is not a number: it counts as diverged",
            "runs finished with a value that is not a number: they count as diverged",
        ),
        (
            infinite,
            f"run has an infinite {metric}: it counts as diverged",
            f"runs have an infinite {metric}: they count as diverged",
        ),
        (
            blank,
            f"run finished without {metric}: it counts as missing",
            f"runs finished without {metric}: they count as missing",
        ),
        (
            no_status,
            f"run has no {metric}, and no column tells its status: it counts as missing",
            f"runs have no {metric}, and no column tells their status: they count as missing",
        ),
        (
            unused,
            f"run that did not finish has a value of {metric}, which is not used",
            f"runs that did not finish have a value of {metric}, which is not used",
        ),
    ):
        if rows:
            notes.append(f"{len(rows):,} {one if len(rows) == 1 else many} ({sheet.places(rows)}).")
    if blank or no_status:
        notes.append(
            "pandas and MLflow write NaN as a blank, so a run that diverged cannot be told from one without a result:"
            ' with the status "diverged" it counts as a failure.'
        )
    return notes
