"""Step logs as numbers: what each row says of which run, from files or from a frame."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from knockout import tabular
from knockout.analysis.external.numbers import read_values
from knockout.analysis.external.step_forms import Form, of_one_file, turned, with_name
from knockout.analysis.external.table import (
    OPTIONS,
    Sheet,
    count_with_noun,
    plain,
    quoted_list,
    read_sheet,
    similar,
)
from knockout.strict import Fault, FaultsError, got_text, shown

Floats = npt.NDArray[np.float64]

Quantity = Literal["loss", "grad_norm", "learning_rate", "probe_loss", "probe_accuracy"]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)

ENDINGS = (".csv", ".tsv", ".parquet", ".pq")
"""Of the files that are read in a folder."""


@dataclass(frozen=True, kw_only=True)
class StepColumns:
    """What the columns are called. Those of the gradient norm, learning rate, probe and status need not be there."""

    variant: tuple[str, ...] = ("variant",)
    """several columns: their combination names the variant"""
    seed: tuple[str, ...] = ("seed",)
    seed_pattern: str = ""
    """a regular expression whose group is the seed in the variant's name, in place of `seed`"""
    step: str = "step"
    loss: str = "loss"
    grad_norm: str = "grad_norm"
    learning_rate: str = "learning_rate"
    probe_loss: str = "probe_loss"
    probe_accuracy: str = "probe_accuracy"
    status: str = "status"
    wide: bool = False
    """the file has a column of steps, then one column per run"""

    def normalized(self) -> "StepColumns":
        """The same names as a file's are read: without blanks around them, and in NFC."""
        return replace(
            self,
            variant=tuple(map(plain, self.variant)),
            seed=tuple(map(plain, self.seed)),
            step=plain(self.step),
            status=plain(self.status),
            loss=plain(self.loss),
            grad_norm=plain(self.grad_norm),
            learning_rate=plain(self.learning_rate),
            probe_loss=plain(self.probe_loss),
            probe_accuracy=plain(self.probe_accuracy),
        )

    def of(self, quantity: Quantity) -> str:
        """The column of a quantity; empty: none."""
        return str(getattr(self, quantity))

    @property
    def seeds(self) -> tuple[str, ...]:
        """The columns that name the seed, where columns do."""
        return () if self.seed_pattern else self.seed

    @property
    def form(self) -> Form:
        return Form(variant=self.variant[0], step=self.step, loss=self.loss)


@dataclass(frozen=True, kw_only=True)
class Points:
    """The rows of one file, in its order."""

    file: str
    place: Literal["line", "row"]
    names: pd.DataFrame
    """the columns of variant, seed and status, as text"""
    step: Floats
    values: Mapping[Quantity, Floats]
    """NaN or infinite where the file says so, and NaN where nothing was logged"""
    logged: Mapping[Quantity, npt.NDArray[np.bool_]]
    rows: npt.NDArray[np.int64]
    """the line on which each row begins"""
    notes: tuple[str, ...]


def log_files(paths: Sequence[Path]) -> list[tuple[Path, str]]:
    """The files to read, each with the name of a run that it may be; of a folder all CSV, TSV and Parquet files in it.

    A folder that Knockout wrote (with an analysis.json) is passed over. Raises `FaultsError` for a folder without any.
    """
    files: list[tuple[Path, str]] = []
    faults = []
    for path in paths:
        if not path.is_dir():
            files.append((path, path.stem))
            continue
        found = [
            p
            for p in sorted(path.rglob("*"))
            if p.suffix.lower() in ENDINGS
            and p.is_file()
            and not any(part.startswith(".") for part in p.relative_to(path).parts)
            and not any((parent / "analysis.json").exists() for parent in (p.parent, p.parent.parent))
        ]
        if not found:
            faults.append(Fault(file=shown(path), got="a folder without a CSV, TSV or Parquet file of steps"))
        stems = [p.stem for p in found]
        once = len(set(stems)) == len(stems)
        files += [(p, p.stem if once else p.relative_to(path).with_suffix("").as_posix()) for p in found]
    if faults:
        raise FaultsError(faults)
    return list(dict(files).items())


def read_logs(paths: Sequence[Path], columns: StepColumns) -> list[tuple[Sheet, tuple[str, ...]]]:
    """The files as sheets with one row per run and step, with the notes on each. Raises `FaultsError` of all files."""
    read: list[tuple[Path, str, Sheet]] = []
    faults: list[Fault] = []
    wanted = [*columns.variant, *columns.seeds, columns.step, columns.loss, "Step", "_step"]
    for path, name in log_files(paths):
        try:
            sheet = _sheet(path, wanted)
            if not sheet.separator:  # of Parquet only the columns that are named are read
                sheet = _sheet(path, sheet.header)
            read.append((path, name, sheet))
        except FaultsError as error:
            faults += error.faults
    if faults:
        raise FaultsError(faults)
    made: list[tuple[Sheet, tuple[str, ...]]] = []
    for path, name, sheet in read:
        try:
            long, notes = turned(sheet, path, columns.form, name=name, wide=columns.wide)
        except FaultsError as error:
            faults += error.faults
            continue
        if sheet.blank:
            lines = f"{count_with_noun(len(sheet.blank), 'line')} of separators only left out"
            notes.append(f"{sheet.file}: {lines} ({sheet.places(sheet.blank)}).")
        made.append((long, tuple(notes)))
    if faults:
        raise FaultsError(faults)
    if of_one_file([sheet for sheet, _ in made], columns.variant):
        note = f"Each of {len(made)} files is a run, which is called as its file."
        made = [
            (with_name(sheet, columns.variant[0], name), (*notes, note))
            for (sheet, notes), (_, name, _) in zip(made, read, strict=True)
        ]
    return made


def _sheet(path: Path, wanted: Sequence[str]) -> Sheet:
    return read_sheet(path, wanted, limits=tabular.STEPS, a_row="one row per run and step")


def points_of(
    sheet: Sheet, columns: StepColumns, notes: Sequence[str], *, needs_loss: bool
) -> tuple[Points | None, list[Fault]]:
    """The numbers of a sheet with one row per run and step; `None` with the faults of its columns or cells."""
    faults = _column_faults(sheet, columns, needs_loss)
    if faults:
        return None, faults
    step, faults = _steps(sheet, columns.step)
    values: dict[Quantity, Floats] = {}
    logged: dict[Quantity, npt.NDArray[np.bool_]] = {}
    said = list(notes)
    for quantity in QUANTITIES:
        column = columns.of(quantity)
        if column not in sheet.cells:
            continue
        read = read_values(sheet, column, role=quantity.replace("_", "-"))
        faults += read.faults
        said += read.notes
        values[quantity] = np.array([np.nan if x is None else x for x in read.cells], dtype=np.float64)
        logged[quantity] = np.array([x is not None for x in read.cells], dtype=np.bool_)
    named = [*columns.variant, *columns.seeds, *([columns.status] if columns.status in sheet.cells else [])]
    faults += [fault for name in (*columns.variant, *columns.seeds) for fault in _empty(sheet, name)]
    if faults:
        return None, faults
    return Points(
        file=sheet.file,
        place=sheet.place,
        names=pd.DataFrame({name: pd.Series(sheet.cells[name], dtype=object) for name in dict.fromkeys(named)}),
        step=step,
        values=values,
        logged=logged,
        rows=np.array(sheet.rows, dtype=np.int64),
        notes=tuple(said),
    ), []


def _column_faults(sheet: Sheet, columns: StepColumns, needs_loss: bool) -> list[Fault]:
    roles = [("variant", name) for name in columns.variant]
    roles += [*(("seed", name) for name in columns.seeds), ("step", columns.step)]
    roles += [("loss", columns.loss)] if needs_loss or columns.loss in sheet.cells else []
    names = [name for _, name in roles]
    faults = []
    for i, (role, name) in enumerate(roles):
        if name in names[:i]:
            got = f'column "{name}" is already named for {roles[names.index(name)][0]}'
            faults.append(sheet.fault(role, got, allowed="another column"))
        elif sheet.header.count(name) > 1:
            got = f'{sheet.header.count(name)} columns are called "{name}"'
            faults.append(sheet.fault(role, got, allowed="one; give the others another name in the file"))
        elif name not in sheet.cells:
            way = f"{quoted_list(sheet.header)}; name the right one with {OPTIONS[role]}"
            likely = '" or "'.join(similar(name, sheet.header))
            faults.append(sheet.fault(role, f'no column "{name}"', allowed=way, nearest=likely))
    return faults


def _empty(sheet: Sheet, name: str) -> list[Fault]:
    rows = [row for row, cell in zip(sheet.rows, sheet.cells[name], strict=True) if not cell]
    if not rows:
        return []
    return [sheet.fault("", f'"{name}" is empty ({sheet.places(rows)})', allowed="a name in each row")]


def _steps(sheet: Sheet, column: str) -> tuple[Floats, list[Fault]]:
    """The steps, whole numbers from 0; and the faults."""
    read = read_values(sheet, column, role="step")
    if read.faults:
        return np.empty(0), list(read.faults)
    step = np.array([np.nan if x is None else x for x in read.cells], dtype=np.float64)
    bad = np.flatnonzero(~(np.isfinite(step) & (step >= 0) & (step == np.floor(step))))
    if not len(bad):
        return step, []
    places = sheet.places([sheet.rows[i] for i in bad])
    got = f"{column} is {got_text(sheet.cells[column][bad[0]])} ({places})"
    return step, [sheet.fault("step", got, allowed="whole numbers from 0; another column is named with --step")]
