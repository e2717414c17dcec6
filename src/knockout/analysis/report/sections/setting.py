"""The setting of the results: the design, failed runs, costs, limits, provenance, the glossary, the figures."""

from collections.abc import Mapping, Sequence
from typing import Any

from knockout.analysis.report.blocks import Bullets, Definitions, Figure, FigureBlock, Section, Warnings, table
from knockout.analysis.report.glossary import GLOSSARY
from knockout.analysis.report.sentences import DASH


def design(lead: str, rows: Sequence[tuple[str, str]], *, notes: Sequence[str]) -> Section:
    """What was compared. `notes`: what was done to the input, which no reader should miss."""
    blocks = (Definitions(items=tuple(rows)), *((Warnings(items=tuple(notes)),) if notes else ()))
    return Section(
        id="design",
        title="Design, and what changed since the first run",
        lead=(lead,),
        blocks=blocks,
        tells="What was planned, and whether anything changed after the first run.",
        terms=("Seed", "Run", "Baseline", "Variant", "Family"),
    )


def figure(drawn: Figure) -> Section:
    """One figure with its caption."""
    return Section(id=f"figure-{drawn.name}", title=drawn.title, blocks=(FigureBlock(figure=drawn),), part="figures")


def failed_and_missing(rows: Sequence[tuple[str, str, str, str, str]], *, unchecked: int = 0) -> Section:
    """Runs without a result, and results that count as failures: variant, seed, status, reason, folder.

    `unchecked`: finished runs of which it is not known whether they are dead.
    """
    title = "Failed and missing runs"
    doubt = (
        (
            f"Of {unchecked:,} finished run{'' if unchecked == 1 else 's'} it is not known whether they learned"
            " anything: their trainer kept no predictions, and how many examples each class has is not known. A run at"
            " chance level then counts like any other. Return `predictions` to have it checked."
        ),
    )
    if not rows:
        none = "None: every planned run finished" + (", and none was dead." if not unchecked else ".")
        return Section(id="failed", title=title, lead=(none, *(doubt if unchecked else ())), part="limits")
    return Section(
        id="failed",
        title=title,
        lead=(
            (
                "Failed runs count as results and rank worst: a run that diverged, or that is dead (it finished, but"
                " on the metric of the verdicts no better than a constant answer). Runs that crashed, were killed, or"
                " ran out of memory or time are missing."
            ),
            *(doubt if unchecked else ()),
        ),
        blocks=(table(("Variant", "Seed", "Status", "Reason", "Folder"), rows),),
        part="limits",
        folded=len(rows) > 6,
        tells=_counted(rows),
        terms=("Diverged", "Dead run", "Worst-rank test"),
    )


def _counted(rows: Sequence[tuple[str, str, str, str, str]]) -> str:
    """How many runs of which variant have which status: "no_residual: 12 dead"."""
    counts: dict[tuple[str, str], int] = {}
    for variant, seed, status, _, _ in rows:
        counts[variant, status] = counts.get((variant, status), 0) + len(seed.split(", "))
    named = [f"{variant}: {n} {status}" for (variant, status), n in counts.items()]
    more = f"; {len(named) - SHOWN_COUNTS} more" if len(named) > SHOWN_COUNTS else ""
    return f"{'; '.join(named[:SHOWN_COUNTS])}{more}."


SHOWN_COUNTS = 8
"""The most counts of failed and missing runs that the heading names."""

SHOWN_COSTS = {
    "parameters": ("#Parameters", ",.0f", 1.0),
    "train_seconds": ("#Training, seconds", ",.1f", 1.0),
    "ratio": ("#Ratio to baseline", ".2f", 1.0),
    "peak_bytes": ("#Peak memory, MiB", ",.0f", 2.0**20),
    "tokens_per_second": ("#Tokens per second", ",.0f", 1.0),
}
"""cost -> its heading, format, and the unit that it is shown in"""


def costs(rows: Sequence[Mapping[str, Any]], *, workers: str) -> Section | None:
    """Seconds, memory and speed of every variant, without those that no variant has; `None` where there are none.

    `workers`: how many shared the machine, in words.
    """
    given = [name for name in SHOWN_COSTS if any(row[name] is not None for row in rows)]
    if not given:
        return None
    ratio = " The ratio is the median over seeds of each run's ratio to the baseline." if "ratio" in given else ""
    return Section(
        id="costs",
        title="Costs",
        lead=(
            (
                f"Medians over the finished runs, measured while {workers} shared the machine named under Provenance."
                f" Compare only within this table.{ratio}"
            ),
        ),
        blocks=(
            table(
                ("Variant", "#Runs", *(SHOWN_COSTS[name][0] for name in given)),
                [(str(row["variant"]), str(row["runs"]), *(_cost(row, name) for name in given)) for row in rows],
            ),
        ),
        tells="Seconds, memory and speed of every variant, measured while other runs shared the machine.",
    )


def _cost(row: Mapping[str, Any], name: str) -> str:
    _, form, scale = SHOWN_COSTS[name]
    return DASH if row[name] is None else format(row[name] / scale, form)


def limits(items: Sequence[str]) -> Section:
    """What the verdicts do not cover."""
    return Section(id="limits", title="Limits", blocks=(Bullets(items=tuple(items)),), part="limits")


def provenance(rows: Sequence[tuple[str, str]], *, files: str) -> Section:
    """Where the numbers come from, and the files that hold them."""
    return Section(
        id="provenance",
        title="Provenance",
        blocks=(Definitions(items=tuple(rows)),),
        notes=(f"All numbers: {files}.",),
        tells="Where the numbers come from: data, machine, versions, and the files that hold every number.",
    )


def glossary() -> Section:
    """The terms of the report."""
    items = tuple((term.name, term.meaning) for term in GLOSSARY)
    return Section(
        id="glossary",
        title="Glossary",
        blocks=(Definitions(items=items, anchored=True),),
        tells="Every term of this report in one or two sentences.",
    )
