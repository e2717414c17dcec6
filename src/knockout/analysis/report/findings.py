"""The answer in plain words: one line for each kind of verdict, and how sure they are."""

from collections.abc import Container, Mapping, Sequence

from knockout.analysis.inference.contrasts import Contrast
from knockout.analysis.inference.floors import Gap
from knockout.analysis.report.answer import distances
from knockout.analysis.report.blocks import Cell, Finding
from knockout.analysis.report.sentences import difference, flags, listed, number, seeds_needed, title, verdict_text
from knockout.analysis.stats.metric import Metric
from knockout.floor_text import below_floor
from knockout.job import Floor
from knockout.plurals import plural

SAME = ("identical predictions", "same values")
"""Marks of a variant that may change nothing at all."""

NAMED = 8
"""Variants that a line names; the table has the others."""


def findings(
    contrasts: Sequence[Contrast],
    *,
    done: int,
    planned: int,
    late: Container[str] = (),
    fixed_seeds: bool = True,
    floors: Sequence[Floor] = (),
    gaps: Mapping[str, Gap] | None = None,
) -> tuple[Finding, ...]:
    """What was found, for a reader with one minute. `done` of `planned` runs came to a result.

    `late`: the variants whose contrast is exploratory. `fixed_seeds`: whether all seeds were planned beforehand.
    `floors`: what simpler models reach; where the baseline does not, the first line says so.
    `gaps`: name of a floor -> the baseline's distance to it.
    """
    first = contrasts[0]
    below = below_floor(floors, first.metric.name, first.baseline.mean, distances(gaps or {}))
    by: dict[str, list[Contrast]] = {}
    for c in contrasts:
        key = verdict_text(c) if c.verdict == "undecidable by design" else c.verdict
        by.setdefault(key, []).append(c)
    lines = [
        *([Finding(text=below)] if below else []),
        *_troubles(first, done, planned),
        *(line(by[key], len(contrasts)) for key, line in LINES.items() if key in by),
        *(_undecidable(cases, len(contrasts), text) for text, cases in by.items() if text.startswith("undecidable")),
    ]
    return (*lines, *_certainty(contrasts, late, fixed_seeds))


def _troubles(first: Contrast, done: int, planned: int) -> list[Finding]:
    arm = first.baseline
    lines = []
    if done < planned:
        lines.append(f"The study is not complete: {done:,} of {plural(planned, 'run')} came to a result.")
    if arm.failures:
        more = " Fix the recipe before judging the variants." if arm.failures == arm.runs else ""
        lines.append(f"{arm.failures} of the baseline's {plural(arm.runs, 'run')} failed.{more}")
    return [Finding(text=text) for text in lines]


def _badge(text: str) -> Cell:
    return Cell(text=text, badge=text.split()[0])


def _worse(cases: Sequence[Contrast], total: int) -> Finding:
    return _moved(cases, total, "worse")


def _better(cases: Sequence[Contrast], total: int) -> Finding:
    return _moved(cases, total, "better")


def _moved(cases: Sequence[Contrast], total: int, which: str) -> Finding:
    metric = cases[0].metric
    does = "does" if len(cases) == 1 else "do"
    text = f"{_of(cases, total)} {does} {which} than the baseline in {title(metric)}: {_named(cases)}."
    return Finding(text=text, verdict=_badge(which))


def _negligible(cases: Sequence[Contrast], total: int) -> Finding:
    c, differs = cases[0], "differs" if len(cases) == 1 else "differ"
    text = (
        f"{_of(cases, total)} {differs} from the baseline, but by less than {c.metric.size(c.margin)}: {_named(cases)}."
    )
    return Finding(text=text, verdict=_badge("negligible"))


def _equivalent(cases: Sequence[Contrast], total: int) -> Finding:
    c, makes = cases[0], "makes" if len(cases) == 1 else "make"
    text = f"{_of(cases, total)} {makes} no difference as large as {c.metric.size(c.margin)}: {_names(cases)}."
    return Finding(text=text, verdict=_badge("equivalent"))


def _open(cases: Sequence[Contrast], total: int) -> Finding:
    is_ = "is" if len(cases) == 1 else "are"
    first = cases[0]
    parted = any(c.n_pairs < c.n_planned for c in cases)
    why = (
        "runs are missing"
        if parted
        else f"neither a difference nor its absence within {first.metric.size(first.margin)} is shown"
    )
    text = f"{_of(cases, total)} {is_} still open, because {why}: {_named(cases)}.{'' if parted else _settling(cases)}"
    return Finding(text=text, verdict=_badge("inconclusive"))


def _settling(cases: Sequence[Contrast]) -> str:
    """How many seeds would decide all of them, where that can be computed."""
    needs = [c.needs for c in cases]
    known = [
        (first, low, high)
        for n in needs
        if n is not None
        for first, low, high in (
            (n.seeds_difference_first, n.seeds_difference_low, n.seeds_difference_high),
            (n.seeds_equivalence_first, n.seeds_equivalence_low, n.seeds_equivalence_high),
        )
        if first is not None
    ]
    if len(known) < 2 * len(cases):
        return ""
    return f" About {seeds_needed(*max(known, key=lambda x: x[0]))} seeds would decide."


def _undecidable(cases: Sequence[Contrast], total: int, text: str) -> Finding:
    cause = "too many runs failed" if text == "undecidable (runs failed)" else "there are too few seeds"
    return Finding(
        text=f"{_of(cases, total)} cannot be decided, because {cause}: {_named(cases)}.", verdict=_badge("undecidable")
    )


LINES = {
    "worse": _worse,
    "better": _better,
    "trivial": _negligible,
    "equivalent": _equivalent,
    "inconclusive": _open,
}
"""verdict -> its line, in the order of the page"""


def _certainty(contrasts: Sequence[Contrast], late: Container[str], fixed_seeds: bool) -> list[Finding]:
    """How sure the verdicts are: seeds, the error rate, what one seed changes, what was chosen late."""
    first = contrasts[0]
    if first.n_planned < 3:
        return []
    base, metric = first.baseline, first.metric
    mean = "" if base.mean is None else f", the baseline at {_level(base.mean, metric)} {title(metric)}"
    seeds = f"{'' if fixed_seeds else 'up to '}{plural(first.n_planned, 'seed')} per variant"
    said = [f"How sure: {seeds}{mean}."]
    if any(c.verdict in ("better", "worse", "trivial") for c in contrasts):
        said.append(
            f"A study like this shows a difference where there is none with a chance of at most {100 * first.alpha:g} %"
            " over all variants together, if the test's assumptions hold."
        )
    fragile = [c for c in contrasts if any(x.flips for x in c.left_out)]
    if any(c.left_out for c in contrasts):
        verb = "changes" if len(fragile) == 1 else "change"
        said.append(
            f"{len(fragile)} of {plural(len(contrasts), 'verdict')} {verb} if one seed is left out"
            f" ({listed(_cut([c.variant for c in fragile]))})."
            if fragile
            else "No verdict changes if one seed is left out."
        )
    chosen = [c for c in contrasts if c.variant in late]
    if chosen:
        said.append(
            f"Exploratory, since chosen or changed after the first run: {listed(_cut([c.variant for c in chosen]))}."
        )
    return [Finding(text=" ".join(s for s in said if s))]


def _level(mean: float, metric: Metric) -> str:
    unit = " %" if metric.unit == "points" else f" {metric.unit}" if metric.unit else ""
    return f"{number(mean, metric.digits)}{unit}"


def _of(cases: Sequence[Contrast], total: int) -> str:
    return f"{len(cases)} of {plural(total, 'variant')}"


def _names(cases: Sequence[Contrast]) -> str:
    """The variants, with a mark where variant and baseline gave the same."""
    marked = [[c.variant, *(m for m in flags(c) if m in SAME)] for c in cases]
    return listed(_cut([f"{name} ({', '.join(marks)})" if marks else name for name, *marks in marked]))


def _named(cases: Sequence[Contrast]) -> str:
    return listed(_cut([_one(c) for c in cases]))


def _cut(names: list[str]) -> list[str]:
    return names if len(names) <= NAMED + 1 else [*names[:NAMED], f"{len(names) - NAMED} more"]


def _one(c: Contrast) -> str:
    """A variant with its difference, or with the number of its runs that failed."""
    marks = [m for m in flags(c) if m in SAME]
    if c.arm.failures:
        marks = [f"{c.arm.failures} of {c.arm.runs} runs failed", *marks]
    elif c.estimate is not None:
        marks = [f"{difference(c.estimate, c.metric.digits)} {c.metric.unit}".rstrip(), *marks]
    return f"{c.variant} ({'; '.join(marks)})" if marks else c.variant
