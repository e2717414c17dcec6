"""The rows of a pandas frame of steps, as those of a file are read."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from knockout.analysis.external.frame import FrameError
from knockout.analysis.external.step_points import QUANTITIES, Floats, Points, Quantity, StepColumns
from knockout.analysis.external.table import plain
from knockout.strict import nearest


def points_of_frame(frame: pd.DataFrame, columns: StepColumns) -> Points:
    """The rows of a frame with one row per run and step. Raises one `FrameError` with all faults."""
    wanted = [*columns.variant, *columns.seeds, columns.step, columns.loss]
    there = [name for name in frame.columns if isinstance(name, str)]
    if frame.empty:
        raise FrameError("the frame has no rows: one row per run and step is needed")
    faults = []
    for name in dict.fromkeys(wanted):
        if name not in there:
            hint = nearest(name, there)
            faults.append(f'no column "{name}"' + (f' (did you mean "{hint}"?)' if hint else ""))
        elif there.count(name) > 1:
            faults.append(f'{there.count(name)} columns are called "{name}"')
    if faults:
        raise FrameError(*faults)
    values: dict[Quantity, Floats] = {}
    logged: dict[Quantity, npt.NDArray[np.bool_]] = {}
    names = [*columns.variant, *columns.seeds, *([columns.status] if columns.status in there else [])]
    texts = pd.DataFrame({name: _texts(frame[name]) for name in dict.fromkeys(names)})
    for name in (*columns.variant, *columns.seeds):
        if (texts[name] == "").any():
            faults.append(f'"{name}" is empty in row {int(np.flatnonzero(texts[name] == "")[0])}')
    for quantity in QUANTITIES:
        column = columns.of(quantity)
        if column in there:
            numbers = _numbers(frame[column], column, faults)
            values[quantity] = numbers
            logged[quantity] = ~frame[column].isna().to_numpy(dtype=bool)
    step = _numbers(frame[columns.step], columns.step, faults)
    bad = np.flatnonzero(~(np.isfinite(step) & (step >= 0) & (step == np.floor(step))))
    if len(bad):
        faults.append(f"{columns.step} is {step[bad[0]]} in row {bad[0]}; a step is a whole number from 0")
    if faults:
        raise FrameError(*faults)
    keys = texts[[*columns.variant, *columns.seeds]].groupby([*columns.variant, *columns.seeds], sort=False).ngroup()
    logged["loss"] |= _at_the_end(keys, values["loss"], _beside(frame, columns, values["loss"]))
    return Points(
        file="the frame",
        place="row",
        names=texts,
        step=step,
        values=values,
        logged=logged,
        rows=np.arange(len(frame), dtype=np.int64),
        notes=(),
    )


def _texts(column: pd.Series) -> pd.Series:
    texts = ["" if missing else plain(str(x)) for x, missing in zip(column, column.isna(), strict=True)]
    return pd.Series(texts, dtype=object)


def _numbers(column: pd.Series, name: str, faults: list[str]) -> Floats:
    if pd.api.types.is_bool_dtype(column) or not pd.api.types.is_numeric_dtype(column):
        numbers = pd.to_numeric(column, errors="coerce") if column.dtype == object else None
        if numbers is None or (numbers.isna() & ~column.isna()).any():
            faults.append(f'"{name}" holds {column.dtype}, not numbers')
            return np.full(len(column), np.nan)
        column = numbers
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))


def _beside(frame: pd.DataFrame, columns: StepColumns, loss: Floats) -> "npt.NDArray[np.bool_]":
    """The rows that hold something which no row with a loss holds: validation, logged between."""
    own = {*columns.variant, *columns.seeds, columns.step, columns.loss, columns.status}
    has_loss = np.isfinite(loss)
    found = np.zeros(len(frame), dtype=np.bool_)
    for i, name in enumerate(frame.columns):
        if name not in own:
            filled = frame.iloc[:, i].notna().to_numpy(dtype=bool)
            if not (filled & has_loss).any():
                found |= filled
    return found


def _at_the_end(keys: pd.Series, loss: Floats, beside: "npt.NDArray[np.bool_]") -> "npt.NDArray[np.bool_]":
    """The rows at the end of a run, after its last finite loss, whose loss is NaN and that are no other rows."""
    last = (
        pd.Series(np.where(np.isfinite(loss), np.arange(len(loss)), -1))
        .groupby(keys.to_numpy())
        .transform("max")
        .to_numpy()
    )
    return np.isnan(loss) & ~beside & (np.arange(len(loss)) > last)
