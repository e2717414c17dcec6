"""Files of step logs as trackers write them, each turned into a sheet with one row per run and step.

The forms and where they come from:

- a line plot of Weights & Biases: "Step", then "RUN - METRIC", "RUN - METRIC__MIN", "RUN - METRIC__MAX" for each line;
- a scalar of TensorBoard: "Wall time,Step,Value", one file per run and tag, called run-RUN-tag-TAG.csv;
- a list of metrics: one row per run, metric and step, as MLflow's metric histories (run_id, key, value, step,
  timestamp) and TensorBoard's scalars as a data frame (run, tag, step, value);
- a wide sheet: a column of steps, then one column per run;
- anything else: one row per run and step already, such as the history of a W&B run ("_step").
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from knockout.analysis.external.shapes import CHART_AXES, GROUPED, LINE, has_numbers
from knockout.analysis.external.table import Sheet, count_with_noun, quoted_list
from knockout.strict import FaultsError

TENSORBOARD = frozenset({"Wall time", "Step", "Value"})
"""The header of a scalar that TensorBoard's page lets download."""

TENSORBOARD_NAME = re.compile(r"run-(?P<run>.+?)-tag-(?P<tag>.+)", re.DOTALL)
"""How its page names the file."""

KEYS = ("key", "tag", "Tag", "metric", "Metric")
VALUES = ("value", "Value")
"""A list of metrics has a column of names and one of values."""

CLOCKS = frozenset(
    {"Wall time", "wall_time", "_timestamp", "_runtime", "timestamp", "Relative Time (Process)"}
    | {"Relative Time (Wall)", "Wall Time", "Relative"}
)
"""Columns of clocks: another value in each row, and nothing of the run."""

STEPS = ("step", "_step", "Step", "global_step", "trainer/global_step", "train/global_step", "iteration", "iter")
"""What columns of steps are called. The first one is the default."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """What a turned sheet calls its columns, where the form says it."""

    variant: str
    """of runs' names, where only those are in the file"""
    step: str
    loss: str
    """of the values of a scalar without a name"""


def turned(sheet: Sheet, path: Path, form: Form, *, name: str, wide: bool) -> tuple[Sheet, list[str]]:
    """The sheet with one row per run and step, and notes on how it was read. `name`: the run's, if it is the file's.

    Raises `FaultsError` for a chart whose lines are means over several runs, or whose axis is a clock.
    """
    if set(sheet.header) >= TENSORBOARD:
        return _scalar(sheet, path, form, name)
    if is_line_plot(sheet):
        return _line_plot(sheet, form)
    if keys := list_of_metrics(sheet):
        return _list(sheet, form, *keys)
    if wide:
        return _wide(sheet, form)
    return sheet, []


def is_line_plot(sheet: Sheet) -> bool:
    """Whether the file is a line plot that W&B exported, whatever its axis is."""
    lines = [name for name in sheet.header[1:] if LINE.fullmatch(name)]
    ranges = any(f"{name}__MIN" in sheet.header for name in lines)
    return bool(lines) and len(lines) == len(sheet.header) - 1 and (ranges or sheet.header[0] in CHART_AXES)


def list_of_metrics(sheet: Sheet) -> tuple[str, str] | None:
    """The column of the metrics' names and that of their values, if the file has a row per run, metric and step."""
    keys = [name for name in KEYS if name in sheet.cells]
    values = [name for name in VALUES if name in sheet.cells]
    return (keys[0], values[0]) if keys and values else None


def of_one_file(sheets: Sequence[Sheet], variant: Sequence[str]) -> bool:
    """Whether each of several files seems to be one run, named by its file: no column names the runs."""
    return len(sheets) > 1 and not any(
        name in sheet.cells
        for sheet in sheets
        for name in (*variant, "run", "run_id", "run_name", "Run", "Name", "name")
    )


def with_name(sheet: Sheet, variant: str, name: str) -> Sheet:
    """The sheet with the run's name in a further column."""
    return _made(sheet, {variant: [name] * len(sheet.rows), **sheet.cells}, sheet.rows)


def _made(sheet: Sheet, cells: Mapping[str, Sequence[str]], rows: Sequence[int]) -> Sheet:
    return replace(sheet, header=tuple(cells), rows=tuple(rows), cells=cells, blank=())


def _scalar(sheet: Sheet, path: Path, form: Form, name: str) -> tuple[Sheet, list[str]]:
    match = TENSORBOARD_NAME.fullmatch(path.stem)
    run, tag = (match["run"], match["tag"]) if match else (name, form.loss)
    cells = {
        form.variant: [run] * len(sheet.rows),
        form.step: sheet.cells["Step"],
        tag: sheet.cells["Value"],
    }
    return _made(sheet, cells, sheet.rows), ["Scalars of TensorBoard: the name of a run is that of its file."]


def _line_plot(sheet: Sheet, form: Form) -> tuple[Sheet, list[str]]:
    axis = sheet.header[0]
    if "time" in axis.lower():
        got = f'is a line plot over "{axis}", not over steps'
        raise FaultsError([sheet.fault("step", got, allowed="the plot with Step on its x axis, exported once more")])
    lines: dict[str, dict[str, str]] = {}
    averaged: list[str] = []
    for name in sheet.header[1:]:
        match = LINE.fullmatch(name)
        if match is None or match["end"] or name not in sheet.cells or match["metric"] in ("_step", *CLOCKS):
            continue
        grouped = GROUPED.fullmatch(match["run"])
        ends = [sheet.cells[f"{name}{end}"] for end in ("__MIN", "__MAX") if f"{name}{end}" in sheet.cells]
        if any(own not in ("", cell) for end in ends for own, cell in zip(end, sheet.cells[name], strict=True)):
            if grouped:
                got = f'is a plot whose lines are means over several runs (as "{name}", whose __MIN and __MAX differ)'
                raise FaultsError([sheet.fault("", got, allowed="the plot without grouping, exported once more")])
            averaged.append(name)
        lines.setdefault(grouped["name"] if grouped else match["run"], {})[match["metric"]] = name
    metrics = list(dict.fromkeys(metric for of in lines.values() for metric in of))
    at = [
        (run, i)
        for run, of in lines.items()
        for i in range(len(sheet.rows))
        if any(sheet.cells[name][i] for name in of.values())
    ]
    cells: dict[str, Sequence[str]] = {
        form.variant: [run for run, _ in at],
        form.step: [sheet.cells[axis][i] for _, i in at],
    }
    for metric in metrics:
        cells[metric] = [sheet.cells[lines[run][metric]][i] if metric in lines[run] else "" for run, i in at]
    notes = [f"A line plot of Weights & Biases: {count_with_noun(len(lines), 'run')} over {axis}."]
    if averaged:
        notes.append(
            f'The points of {count_with_noun(len(averaged), "line")} are means over several steps (as "{averaged[0]}",'
            " whose __MIN and __MAX differ), which hides spikes: W&B's history of a run"
            " (api.run(...).scan_history()) has every step."
        )
    return _made(sheet, cells, [sheet.rows[i] for _, i in at]), notes


def _list(sheet: Sheet, form: Form, key: str, value: str) -> tuple[Sheet, list[str]]:
    """One row per run and step, with a column for each metric. What else the list has stays."""
    kept = [name for name in sheet.cells if name not in (key, value, *CLOCKS)]
    metrics = [name for name in dict.fromkeys(sheet.cells[key]) if name and name not in kept]
    rows: list[int] = []
    of: list[dict[str, str]] = []
    before: dict[tuple[str, ...], dict[str, str]] = {}
    owners = list(zip(*(sheet.cells[name] for name in kept), strict=True)) or [()] * len(sheet.rows)
    for i, (own, metric) in enumerate(zip(owners, sheet.cells[key], strict=True)):
        there = before.get(own)
        if there is None or metric in there:  # a metric that repeats at a step is a row of its own: a restart
            there = before[own] = {}
            rows.append(i)
            of.append(there)
        there[metric] = sheet.cells[value][i]
    cells: dict[str, Sequence[str]] = {name: [sheet.cells[name][i] for i in rows] for name in kept}
    cells |= {metric: [there.get(metric, "") for there in of] for metric in metrics}
    for usual, others in ((form.step, STEPS), (form.variant, ("run", "run_id", "Run", "run_uuid", "dir_name"))):
        found = next((name for name in others if name in cells), "")
        if usual not in cells and found:
            cells = {(usual if name == found else name): column for name, column in cells.items()}
    notes = [f"A list of metrics: {quoted_list(metrics, most=6)} became columns, with one row per run and step."]
    return _made(sheet, cells, [sheet.rows[i] for i in rows]), notes


def _wide(sheet: Sheet, form: Form) -> tuple[Sheet, list[str]]:
    step = form.step if form.step in sheet.cells else next((name for name in STEPS if name in sheet.cells), "")
    if not step:
        got = f'no column "{form.step}": a wide sheet has a column of steps, then one for each run'
        raise FaultsError([sheet.fault("step", got, allowed=f"{quoted_list(sheet.header)}; name it with --step")])
    names = [name for name in sheet.header if name and name in sheet.cells and name not in (step, *CLOCKS)]
    runs = [name for name in names if has_numbers(sheet, name)]
    ignored = [name for name in names if name not in runs and any(sheet.cells[name])]
    if not runs:
        raise FaultsError([sheet.fault("", "no column of numbers beside the steps: no wide sheet")])
    at = [(run, i) for run in runs for i in range(len(sheet.rows)) if sheet.cells[run][i]]
    cells = {
        form.variant: [run for run, _ in at],
        form.step: [sheet.cells[step][i] for _, i in at],
        form.loss: [sheet.cells[run][i] for run, i in at],
    }
    notes = [
        f"The sheet is wide, with a column for each of {count_with_noun(len(runs), 'run')}: its numbers are losses."
    ]
    notes += [f"Columns without a number were left out: {quoted_list(ignored)}."] if ignored else []
    return _made(sheet, cells, [sheet.rows[i] for _, i in at]), notes
