"""Why step logs cannot be judged as asked: all that is missing or unclear at once, and a command to copy.

Guesses are made from the names of columns and from their cells. They are proposed only: nothing is measured by a guess.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from knockout.analysis.external.frame import FrameError
from knockout.analysis.external.guesses import (
    SEEDS,
    TRACKERS,
    baseline_like,
    configuration_columns,
    seed_columns,
    seed_pattern_of,
    variant_columns,
    word_of,
)
from knockout.analysis.external.shapes import has_numbers, matching
from knockout.analysis.external.statuses import LIKELY, WORDS, normalized, unfinished
from knockout.analysis.external.step_asked import CurvesAsked
from knockout.analysis.external.step_forms import CLOCKS, STEPS
from knockout.analysis.external.step_logs import read_step_logs
from knockout.analysis.external.step_points import StepColumns, read_logs
from knockout.analysis.external.step_report import WrittenCurves, report_curves
from knockout.analysis.external.suggest import COLUMNS_SHOWN
from knockout.analysis.external.table import Sheet, count_with_noun, plain, quoted_list
from knockout.analysis.stats.metric import HIGHER, LOWER, SHARES, words_of
from knockout.errors import UserError
from knockout.strict import FaultsError, printable, shown

RUNS = ("run", "run_id", "run_name", "Run", "Name", "name", "run_uuid", "dir_name", "display_name")
"""What columns of runs' names are called."""

Need = tuple[str, str, CurvesAsked]
"""An option, what is there, and the request with a guess for it."""


class CurvesRefused(FaultsError):
    """Step logs cannot be judged as asked. Holds all that is missing, and the command that would probably do."""

    def __init__(self, error: UserError, needs: Sequence[Need], rest: str, header: Sequence[str]) -> None:
        super().__init__(error.faults if isinstance(error, FaultsError) else [])
        asked = needs[-1][2]
        self.options = tuple(option for option, _, _ in needs)
        self.command = asked.command()
        more = f" and {len(asked.sources) - 1} more" if len(asked.sources) > 1 else ""
        does = "This command would probably do; check each choice first:"
        if rest:
            does = f"After that remains: {rest}\nThe command so far:"
        columns = [f"  columns: {printable(quoted_list(header, most=COLUMNS_SHOWN))}"]
        count = count_with_noun(len(needs), "thing")
        self.text = "\n".join(
            [
                f"{shown(asked.sources[0])}{more} cannot be judged as asked: {count} missing or unclear.",
                *(f"  {printable(f'{option}: {got}')}" for option, got, _ in needs),
                *(columns if set(self.options) - {"--baseline"} else []),
                does,
                "",
                f"  {self.command}",
            ]
        )

    def __str__(self) -> str:
        return self.text


def curves_or_suggest(asked: CurvesAsked) -> WrittenCurves:
    """Measure step logs and write the report.

    Raises `CurvesRefused` with all that is missing, and a command to copy, where a guess can be made of it; else the
    errors of `report_curves`.
    """
    asked = replace(asked, columns=asked.columns.normalized(), baseline=plain(asked.baseline))
    try:
        if not asked.baseline:
            raise FrameError("no baseline is named: --baseline NAME is the variant that all others are compared with")
        return report_curves(asked)
    except (FaultsError, FrameError) as error:
        raise _explained(asked, error) from error


def _explained(asked: CurvesAsked, error: FaultsError | FrameError) -> UserError:
    """The error with all else that is missing; itself where nothing can be guessed."""
    needs: list[Need] = []
    try:
        sheets = [sheet for sheet, _ in read_logs(asked.sources, asked.columns)]
        if not asked.columns.wide and (need := _wide(sheets[0], asked)):
            needs.append(need)
            sheets = [sheet for sheet, _ in read_logs(asked.sources, need[2].columns)]
    except FaultsError as unreadable:
        return unreadable
    header = list(dict.fromkeys(name for sheet in sheets for name in sheet.header))
    merged = _merged(sheets, header)
    for step in (_step, _loss, _beside, _variant, _seed, _status, _words):
        for need in step(merged, needs[-1][2] if needs else asked):
            needs.append(need)
    guessed = needs[-1][2] if needs else asked
    rest = ""
    try:
        names = read_step_logs(guessed.sources, guessed.columns, statuses=guessed.statuses).variants
    except FaultsError as left:
        rest = str(left)
        if not guessed.baseline:
            got = "not named: the variant that all others are compared with"
            needs.append(("--baseline", got, guessed))
    else:
        needs += _baseline(names, guessed)
    if not [need for need in needs if need[0] not in ("--grad-norm", "--learning-rate")]:
        return error
    return CurvesRefused(error, needs, rest, header)


def _merged(sheets: Sequence[Sheet], header: Sequence[str]) -> Sheet:
    """All rows in one sheet, blank where a file has no such column."""
    cells = {
        name: [cell for sheet in sheets for cell in sheet.cells.get(name, [""] * len(sheet.rows))] for name in header
    }
    rows = tuple(row for sheet in sheets for row in sheet.rows)
    numeric = frozenset[str]().union(*(sheet.numeric for sheet in sheets))
    return replace(sheets[0], header=tuple(header), cells=cells, rows=rows, numeric=numeric, blank=())


def _of_runs(sheet: Sheet, columns: StepColumns) -> Sheet:
    """One row for each run, as far as that can be said: the columns that do not change from step to step."""
    rows = len(sheet.rows)
    kept = []
    for name in sheet.cells:
        levels = len(set(sheet.cells[name]))
        measured = words_of(name) & (SHARES | HIGHER | LOWER) and name not in columns.variant
        if name in (columns.step, columns.loss, *CLOCKS, *STEPS) or measured or word_of(name) in ("epoch", "index", ""):
            continue
        named = name in (*columns.variant, *columns.seeds, *RUNS, *LIKELY) or word_of(name) in SEEDS
        if named or (levels * 4 <= rows and not (has_numbers(sheet, name) and levels > 40)):
            kept.append(name)
    if not kept:
        return sheet
    first = {key: i for i, key in reversed(list(enumerate(zip(*(sheet.cells[n] for n in kept), strict=True))))}
    at = sorted(first.values())
    cells = {name: [sheet.cells[name][i] for i in at] for name in kept}
    return replace(sheet, header=tuple(kept), cells=cells, rows=tuple(sheet.rows[i] for i in at))


def _with(asked: CurvesAsked, columns: StepColumns) -> CurvesAsked:
    return replace(asked, columns=columns)


def _wide(sheet: Sheet, asked: CurvesAsked) -> Need | None:
    columns = asked.columns
    step = next((name for name in (columns.step, *STEPS) if name in sheet.cells), "")
    named = {*columns.variant, columns.loss} & set(sheet.cells)
    if not step or named or any("loss" in words_of(name) for name in sheet.cells):
        return None
    others = [name for name in sheet.cells if name and name != step and name not in CLOCKS]
    runs = [name for name in others if has_numbers(sheet, name)]
    if len(runs) < 2 or len(runs) < len(others) or any(word_of(name) in SEEDS for name in sheet.cells):
        return None
    got = f"the sheet seems to have a column for each run ({quoted_list(runs, most=4)}), and none of the loss"
    return "--wide", got, _with(asked, replace(asked.columns, wide=True))


def _step(sheet: Sheet, asked: CurvesAsked) -> Iterator[Need]:
    if asked.columns.step in sheet.cells:
        return
    called = [name for name in STEPS if name in sheet.cells]
    called += [
        n for n in sheet.cells if n not in called and word_of(n).endswith(("step", "steps", "iter", "iteration"))
    ]
    if called:
        more = f"; or {quoted_list(called[1:], most=4)}" if called[1:] else ""
        got = f'no column "{asked.columns.step}"; probably "{called[0]}"{more}'
        yield "--step", got, _with(asked, replace(asked.columns, step=called[0]))


def _loss(sheet: Sheet, asked: CurvesAsked) -> Iterator[Need]:
    if asked.columns.loss in sheet.cells:
        return
    called = [n for n in sheet.cells if words_of(n) & {"loss", "nll", "ce", "perplexity"} and has_numbers(sheet, n)]
    called = [n for n in called if "perplexity" not in words_of(n)]

    def rank(name: str) -> tuple[int, int]:
        words = words_of(name)
        return (
            2 if words & {"val", "valid", "validation", "eval", "test", "dev"} else 0 if "train" in words else 1
        ), len(name)

    called.sort(key=rank)
    if called:
        more = f"; or {quoted_list(called[1:], most=4)}" if called[1:] else ""
        got = f'no column "{asked.columns.loss}"; probably "{called[0]}"{more}; the training loss of each step is meant'
        yield "--loss", got, _with(asked, replace(asked.columns, loss=called[0]))


def _beside(sheet: Sheet, asked: CurvesAsked) -> Iterator[Need]:
    """Columns that need not be there, under another name."""
    norm = _called(sheet, asked.columns.grad_norm, ({"grad", "norm"}, {"gradient", "norm"}))
    if norm:
        asked = _with(asked, replace(asked.columns, grad_norm=norm))
        yield "--grad-norm", f'"{norm}" is probably the gradient norm (this option can be left out)', asked
    rate = _called(sheet, asked.columns.learning_rate, ({"learning", "rate"}, {"lr"}))
    if rate:
        asked = _with(asked, replace(asked.columns, learning_rate=rate))
        yield "--learning-rate", f'"{rate}" is probably the learning rate (this option can be left out)', asked


def _called(sheet: Sheet, usual: str, words: Sequence[set[str]]) -> str:
    """The first column of numbers whose name has these words; empty where there is none, or the usual column."""
    there = [] if usual in sheet.cells else [name for name in sheet.cells if has_numbers(sheet, name)]
    return next((name for name in there if any(wanted <= words_of(name) for wanted in words)), "")


def _variant(sheet: Sheet, asked: CurvesAsked) -> Iterator[Need]:
    columns = asked.columns
    missing = [name for name in columns.variant if name not in sheet.cells]
    if not missing:
        return
    runs = _of_runs(sheet, columns)
    said = f"no column {quoted_list(missing)}"
    single = variant_columns(runs, columns.variant[0], asked.baseline)
    single += [name for name in RUNS if name in runs.cells and name not in single and len(set(runs.cells[name])) > 1]
    several = [name for name in configuration_columns(runs, asked.baseline) if word_of(name) not in TRACKERS]
    several = [name for name in several if name not in single]
    if single:
        others = [*single[1:], *several]
        more = f"; or {quoted_list(others, most=4)}" if others else ""
        values = quoted_list(dict.fromkeys(runs.cells[single[0]]), most=4)
        got = f'{said}; probably "{single[0]}" ({values}){more}'
        yield "--variant", got, _with(asked, replace(asked.columns, variant=(single[0],)))
    elif several:
        got = f"{said}; probably the combination of {quoted_list(several)}: name those that you varied"
        yield "--variant", got, _with(asked, replace(asked.columns, variant=tuple(several)))


def _seed(sheet: Sheet, asked: CurvesAsked) -> Iterator[Need]:
    columns = asked.columns
    missing = [name for name in columns.seeds if name not in sheet.cells]
    if not missing:
        return
    said = f"no column {quoted_list(missing)}"
    found = seed_columns(_of_runs(sheet, columns), taken=columns.variant)
    if found:
        more = f"; or {quoted_list(found[1:], most=4)}" if found[1:] else ""
        yield "--seed", f'{said}; probably "{found[0]}"{more}', _with(asked, replace(asked.columns, seed=(found[0],)))
        return
    name = columns.variant[0] if len(columns.variant) == 1 else ""
    names = list(dict.fromkeys(sheet.cells.get(name, ())))
    pattern = seed_pattern_of(names)
    if pattern:
        got = f'{said}; the names hold seeds ("{names[0]}"), which a pattern reads'
        yield "--seed-pattern", got, _with(asked, replace(asked.columns, seed_pattern=pattern))


def _status(sheet: Sheet, asked: CurvesAsked) -> Iterator[Need]:
    columns = asked.columns
    if not columns.status or columns.status in sheet.cells:
        return
    for name in LIKELY:
        wrong = [cell for _, cell in unfinished(sheet, name) if cell] if name in sheet.cells else []
        if wrong:
            got = f'the column "{name}" says "{wrong[0]}", and is not read; --status "" judges runs by their losses'
            yield "--status", got, _with(asked, replace(asked.columns, status=name))
            return


def _words(sheet: Sheet, asked: CurvesAsked) -> Iterator[Need]:
    known = {normalized(word) for word in (*WORDS, *asked.statuses)}
    cells = dict.fromkeys(sheet.cells.get(asked.columns.status, ()))
    unknown = {normalized(cell): cell for cell in cells if normalized(cell) not in known}
    if unknown:
        words = list(unknown.values())
        got = (
            f"{quoted_list(words)} {'is' if len(words) == 1 else 'are'} not known: missing (no result), crashed,"
            " diverged (a failure) or finished?"
        )
        statuses = {**asked.statuses, **dict.fromkeys(words, "missing")}
        yield "--status WORD=STATUS", got, replace(asked, statuses=statuses)


def _baseline(names: Sequence[str], asked: CurvesAsked) -> Iterator[Need]:
    several = asked.columns.variant if len(asked.columns.variant) > 1 else ()
    fitting = matching(asked.baseline, names, several)
    if asked.baseline in names or len(fitting) == 1:
        return
    said = f'no run of "{asked.baseline}"' if asked.baseline else "not named"
    guess, why = baseline_like(asked.baseline, fitting or names, several)
    got = f'{said}; the variants are {quoted_list(names, most=8)}; perhaps "{guess}", {why}'
    yield "--baseline", got, replace(asked, baseline=guess)
