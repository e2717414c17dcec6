"""Why a file of runs cannot be compared as asked: all that is missing or unclear at once, and a command to copy.

Guesses are made from the names of columns and from their cells. They are proposed only: nothing is compared by a guess.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from knockout.analysis.external.asked import Asked
from knockout.analysis.external.frame import FrameError, mixed_units, short_list
from knockout.analysis.external.guesses import (
    DATA,
    baseline_like,
    configuration_columns,
    metric_columns,
    row_labels,
    seed_columns,
    seed_pattern_of,
    telling_apart,
    variant_columns,
    wide_columns,
    word_of,
)
from knockout.analysis.external.report import Written, report_runs
from knockout.analysis.external.runs import RunColumns, columns_of_trials, read_runs
from knockout.analysis.external.shapes import from_chart, is_chart, matching
from knockout.analysis.external.statuses import LIKELY, WORDS, normalized, unfinished
from knockout.analysis.external.table import Sheet, count_with_noun, plain, quoted_list, read_sheet, similar
from knockout.analysis.external.trials import is_trials
from knockout.analysis.stats.metric import better_by_name, is_share
from knockout.errors import UserError
from knockout.strict import FaultsError, printable, shown

COLUMNS_SHOWN = 40

OF_COLUMNS = ("--variant", "--seed", "--seed-pattern", "--unpaired", "--metric", "--status", "--wide")
"""Options whose refusal shows what columns there are."""


@dataclass(frozen=True, kw_only=True)
class Need:
    """One thing that is missing or unclear."""

    option: str
    got: str
    """what is there, and the other choices"""
    asked: Asked
    """the request with a guess for it"""

    def __str__(self) -> str:
        return printable(f"{self.option}: {self.got}")


class Refused(FaultsError):
    """A file of runs cannot be compared as asked. Holds all that is missing, and the command that would probably do."""

    def __init__(self, error: UserError, needs: Sequence[Need], rest: str, asked: Asked, header: Sequence[str]) -> None:
        super().__init__(error.faults if isinstance(error, FaultsError) else [])
        self.needs = tuple(needs)
        self.command = asked.command()
        file = shown(asked.source)
        columns = f"columns: {printable(quoted_list(header, most=COLUMNS_SHOWN))}"
        does = "This command would probably do; check each choice first:"
        if rest:
            does = f"After that remains: {rest}\nThe command so far:"
        named = any(need.option in OF_COLUMNS for need in needs)
        lines = [f"{file} cannot be compared as asked: {count_with_noun(len(needs), 'thing')} missing or unclear."]
        self.text = "\n".join(
            [
                *lines,
                *(f"  {need}" for need in needs),
                *([f"  {columns}"] if named else []),
                does,
                "",
                f"  {self.command}",
            ]
        )

    def __str__(self) -> str:
        return self.text


def report_or_suggest(asked: Asked) -> Written:
    """Compare a file of runs and write the report.

    Raises `Refused` with all that is missing, and a command to copy, where a guess can be made of it; else the errors
    of `report_runs`.
    """
    asked = replace(asked, columns=asked.columns.normalized(), baseline=plain(asked.baseline))
    try:
        if not asked.baseline:
            raise FrameError("no baseline is named: --baseline NAME is the variant that all others are compared with")
        return report_runs(
            asked.source,
            asked.columns,
            statuses=asked.statuses,
            baseline=asked.baseline,
            target=asked.folder,
            margin=asked.margin,
            unit=asked.unit,
            better=asked.better,
            plan=asked.plan,
            formats=asked.formats,
        )
    except (FaultsError, FrameError) as error:
        raise _explained(asked, error) from error


def _explained(asked: Asked, error: FaultsError | FrameError) -> UserError:
    """The error with all else that is missing; itself where nothing can be guessed."""
    try:
        sheet = read_sheet(asked.source, ())
        sheet = read_sheet(asked.source, sheet.header)  # of Parquet only the columns that are named are read
        header = sheet.header
        if is_chart(sheet):
            sheet, _ = from_chart(sheet, asked.columns.variant)
        if is_trials(header):
            asked = replace(asked, columns=columns_of_trials(sheet, asked.columns))
    except FaultsError as unreadable:
        return unreadable
    needs: list[Need] = []
    for step in (_wide, _variant, _seed, _repeated, _metric, _status, _words):
        for need in step(sheet, needs[-1].asked if needs else asked):
            needs.append(need)
    guessed = needs[-1].asked if needs else asked
    rest = ""
    try:
        frame = read_runs(guessed.source, guessed.columns, statuses=guessed.statuses).frame
    except FaultsError as left:
        rest = str(left)
        if not guessed.baseline:
            got = "not named: the variant that all others are compared with"
            needs.append(Need(option="--baseline", got=got, asked=guessed))
    else:
        for check in (_baseline, _value_needs):
            needs += check(frame, needs[-1].asked if needs else asked)
    if not needs:
        return error
    return Refused(error, needs, rest, needs[-1].asked, header)


def _with(asked: Asked, columns: RunColumns) -> Asked:
    return replace(asked, columns=columns)


def _wide(sheet: Sheet, asked: Asked) -> Iterator[Need]:
    columns = asked.columns
    if columns.configuration or (columns.metric in sheet.cells and not columns.wide):
        return
    variant, found = wide_columns(sheet, columns.seed, asked.baseline)
    if not found:
        return
    if not columns.wide:
        what = "seed" if variant else "variant"
        got = (
            f"the sheet seems to have a column for each {what} ({quoted_list(found, most=5)}), and none of the metric;"
            f" --metric says what its numbers are ({columns.metric}?)"
        )
        asked = _with(asked, replace(asked.columns, wide=True))
        yield Need(option="--wide", got=got, asked=asked)
    if variant and variant != columns.variant:
        got = f'no column "{columns.variant}"; probably "{variant}" ({_values_shown(sheet, variant)})'
        yield Need(option="--variant", got=got, asked=_with(asked, replace(asked.columns, variant=variant)))


def _variant(sheet: Sheet, asked: Asked) -> Iterator[Need]:
    columns = asked.columns
    missing = [name for name in columns.names if name.strip() not in sheet.cells]
    if columns.wide or (not missing and not _another_each_run(sheet, columns)):
        return
    told = f"no column {quoted_list(missing)}" if missing else f'"{columns.variant}" is another for each run'
    listed = _split_lists(sheet, columns.names) if missing else []
    if listed:
        chosen = replace(columns, variant=listed[0], configuration=tuple(listed))
        yield Need(option="--variant", got=f"{told}; {REPEAT}", asked=_with(asked, chosen))
        return
    if columns.configuration:
        named = [name if name in sheet.cells else next(iter(similar(name, sheet.header)), "") for name in columns.names]
        if all(named):
            got = f"{told}; did you mean {quoted_list(named)}?"
            yield Need(
                option="--variant", got=got, asked=_with(asked, replace(asked.columns, configuration=tuple(named)))
            )
        return
    single = variant_columns(sheet, columns.variant, asked.baseline)
    several = configuration_columns(sheet, asked.baseline)
    if single:
        others = single[1:] + [name for name in several if name not in single]
        more = f"; or {quoted_list(others, most=4)}" if others else ""
        got = f'{told}; probably "{single[0]}" ({_values_shown(sheet, single[0])}){more}'
        yield Need(option="--variant", got=got, asked=_with(asked, replace(asked.columns, variant=single[0])))
    elif several:
        got = f"{told}; probably the combination of {quoted_list(several)}: name those that you varied"
        one = len(several) == 1
        chosen = replace(columns, variant=several[0], configuration=() if one else tuple(several))
        yield Need(option="--variant", got=got, asked=_with(asked, chosen))


REPEAT = "repeat the option for each of several columns"


def _split_lists(sheet: Sheet, names: Sequence[str]) -> list[str]:
    """The columns that names with commas list; empty where one of them is not there."""
    parts = [part.strip() for name in names for part in ([name] if name in sheet.cells else name.split(","))]
    return parts if all(part in sheet.cells for part in parts) else []


def _another_each_run(sheet: Sheet, columns: RunColumns) -> bool:
    """Whether the column of variants is a name of runs: no value stands twice, and none holds a seed."""
    cells = sheet.cells[columns.names[0].strip()]
    alone = not columns.configuration and not columns.seed_pattern and len(set(cells)) == len(cells)
    return alone and not seed_pattern_of(cells)


def _seed(sheet: Sheet, asked: Asked) -> Iterator[Need]:
    columns = asked.columns
    missing = [name for name in columns.seeds if name.strip() not in sheet.cells]
    if not missing or (columns.wide and columns.variant in sheet.cells):  # the columns are the seeds
        return
    told = f"no column {quoted_list(missing)}"
    listed = _split_lists(sheet, columns.seeds)
    if listed:
        yield Need(
            option="--seed", got=f"{told}; {REPEAT}", asked=_with(asked, replace(asked.columns, seed=tuple(listed)))
        )
        return
    found = seed_columns(sheet, taken=[*columns.names, columns.metric])
    if found:
        more = f"; or {quoted_list(found[1:], most=4)}" if found[1:] else ""
        got = f'{told}; probably "{found[0]}" ({_values_shown(sheet, found[0])}){more}'
        yield Need(option="--seed", got=got, asked=_with(asked, replace(asked.columns, seed=(found[0],))))
        return
    if columns.wide and (labels := row_labels(sheet)):
        got = f'{told}; each row seems to be of one seed, numbered by "{labels[0]}"'
        yield Need(option="--seed", got=got, asked=_with(asked, replace(asked.columns, seed=(labels[0],))))
        return
    name = columns.names[0] if len(columns.names) == 1 and not columns.wide else ""
    pattern = seed_pattern_of(sheet.cells.get(name, ()))
    if pattern:
        got = f'{told}; the names hold seeds ("{sheet.cells[name][0]}"), which a pattern reads'
        yield Need(option="--seed-pattern", got=got, asked=_with(asked, replace(asked.columns, seed_pattern=pattern)))
        return
    got = (
        f"{told}, and none looks like one; without seeds only an unpaired comparison is possible (Welch's t test), the"
        " weaker one: use it if the seeds are lost"
    )
    yield Need(option="--unpaired", got=got, asked=_with(asked, replace(asked.columns, paired=False)))


def _repeated(sheet: Sheet, asked: Asked) -> Iterator[Need]:
    """Runs that stand twice, because another column also tells them apart."""
    columns = asked.columns
    keys = [name.strip() for name in (*columns.names, *columns.seeds)]
    if columns.wide or not columns.seeds or any(name not in sheet.cells for name in keys):
        return
    status = next((name for name in (columns.status.strip(), *LIKELY) if name in sheet.cells), "")
    ended = [WORDS.get(normalized(word)) in ("finished", None) for word in sheet.cells.get(status, ())]
    found = [name for name in telling_apart(sheet, keys, ended or [True] * len(sheet.rows)) if name != columns.metric]
    if not found:
        return
    told = f"several runs have the same {quoted_list(keys)}; {quoted_list(found)} tells them apart"
    if all(word_of(name) in DATA for name in found):
        yield Need(
            option="--seed",
            got=f"{told}, and is probably part of the block that is paired",
            asked=_with(asked, replace(asked.columns, seed=(*columns.seed, *found))),
        )
    else:
        yield Need(
            option="--variant",
            got=f"{told}, and is probably part of the variant",
            asked=_with(asked, replace(asked.columns, configuration=(*columns.names, *found))),
        )


def _metric(sheet: Sheet, asked: Asked) -> Iterator[Need]:
    columns = asked.columns
    if columns.wide or columns.metric.strip() in sheet.cells:
        return
    found = metric_columns(sheet, columns.metric, taken=[*columns.names, *columns.seeds])
    if not found:
        return
    more = f"; other columns of numbers: {quoted_list(found[1:], most=5)}" if found[1:] else ""
    got = f'no column "{columns.metric}"; probably "{found[0]}"{more}'
    yield Need(option="--metric", got=got, asked=_with(asked, replace(asked.columns, metric=found[0])))


def _status(sheet: Sheet, asked: Asked) -> Iterator[Need]:
    columns = asked.columns
    if not columns.status.strip() or columns.status.strip() in sheet.cells or columns.wide:
        return
    for name in LIKELY:
        wrong = [cell for _, cell in unfinished(sheet, name)] if name in sheet.cells else []
        if wrong:
            got = f'the column "{name}" says "{wrong[0]}", and is not read; --status "" judges all runs by their values'
            yield Need(option="--status", got=got, asked=_with(asked, replace(asked.columns, status=name)))
            return


def _words(sheet: Sheet, asked: Asked) -> Iterator[Need]:
    known = {normalized(word) for word in (*WORDS, *asked.statuses)}
    cells = dict.fromkeys(sheet.cells.get(asked.columns.status.strip(), ()))
    unknown = {normalized(cell): cell for cell in cells if normalized(cell) not in known}
    if unknown and not asked.columns.wide:
        words = list(unknown.values())
        got = (
            f"{quoted_list(words)} {'is' if len(words) == 1 else 'are'} not known: missing (no result), crashed,"
            " diverged (a failure) or finished?"
        )
        yield Need(
            option="--status WORD=STATUS",
            got=got,
            asked=replace(asked, statuses={**asked.statuses, **dict.fromkeys(words, "missing")}),
        )


def _baseline(frame: pd.DataFrame, asked: Asked) -> Iterator[Need]:
    names = list(dict.fromkeys(frame["variant"]))
    fitting = matching(asked.baseline, names, asked.columns.configuration)
    if asked.baseline in names or len(fitting) == 1:
        return
    told = f'no run of "{asked.baseline}"' if asked.baseline else "not named"
    told = f"{short_list(fitting)} all have {asked.baseline}" if fitting else told
    guess, why = baseline_like(asked.baseline, fitting or names, asked.columns.configuration)
    got = f'{told}; the variants are {quoted_list(names, most=8)}; perhaps "{guess}", {why}'
    yield Need(option="--baseline", got=got, asked=replace(asked, baseline=guess))


def _value_needs(frame: pd.DataFrame, asked: Asked) -> Iterator[Need]:
    """What a metric's name and values leave open: which way is better, the unit, the margin."""
    metric = asked.columns.metric.strip()
    values = [float(x) for x in frame["value"].dropna()]
    if asked.better is None and better_by_name(metric) is None:
        got = f'whether higher or lower values of "{metric}" are better is not known; the other is --lower-is-better'
        asked = replace(asked, better="higher")
        yield Need(option="--higher-is-better", got=got, asked=asked)
    unit = asked.unit or ("share" if is_share(metric) else "raw")
    outside = [x for x in values if not 0 <= x <= 1]
    if asked.unit is None and unit == "share" and outside and not mixed_units(values):
        unit = "percent" if all(0 <= x <= 100 for x in values) else "raw"
        got = f'"{metric}" has {outside[0]:g}, and a share lies between 0 and 1; probably {unit}'
        asked = replace(asked, unit=unit)
        yield Need(option="--unit", got=got, asked=asked)
    if unit == "raw" and asked.margin is None and asked.plan is None and values:
        size = pd.Series(values).abs().median()
        margin = float(f"{size / 100:.1g}") if size and math.isfinite(size) else 0.01
        got = (
            f"a margin is needed for {metric}: the largest difference that does not matter is yours to say ({margin:g}"
            " is 1 % of the median value); or --unit share or percent, where it is one"
        )
        yield Need(option="--margin", got=got, asked=replace(asked, margin=margin))


def _values_shown(sheet: Sheet, name: str) -> str:
    return quoted_list(dict.fromkeys(sheet.cells[name]), most=4)
