"""The setting of the results: the design, failed runs, costs, limits, provenance, the glossary, the figures."""

from collections.abc import Mapping, Sequence
from typing import Any

from knockout.analysis.report.blocks import Bullets, Definitions, Figure, FigureBlock, Section, Warnings, table
from knockout.analysis.report.glossary import GLOSSARY
from knockout.analysis.report.sentences import DASH


def design(lead: str, rows: Sequence[tuple[str, str]], *, notes: Sequence[str]) -> Section:
    """What was compared. `notes`: what was done to the input, which no reader should miss."""
    blocks = (Definitions(items=tuple(rows)), *((Warnings(items=tuple(notes)),) if notes else ()))
    return Section(id="design", title="Design", lead=(lead,), blocks=blocks)


def figure(drawn: Figure) -> Section:
    """One figure with its caption."""
    return Section(id=f"figure-{drawn.name}", title=drawn.title, blocks=(FigureBlock(figure=drawn),))


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
        return Section(id="failed", title=title, lead=(none, *(doubt if unchecked else ())))
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
    )


def costs(rows: Sequence[Mapping[str, Any]], *, workers: str) -> Section | None:
    """Seconds, memory and speed of every variant. `workers`: how many shared the machine, in words."""
    if not rows:
        return None
    return Section(
        id="costs",
        title="Costs",
        lead=(
            (
                f"Medians over the finished runs, measured while {workers} shared the machine named under Provenance."
                " Compare only within this table. The ratio is the median over seeds of each run's ratio to the"
                " baseline."
            ),
        ),
        blocks=(
            table(
                (
                    "Variant",
                    "#Runs",
                    "#Parameters",
                    "#Training, seconds",
                    "#Ratio to baseline",
                    "#Peak memory, MiB",
                    "#Tokens per second",
                ),
                map(_cost_row, rows),
            ),
        ),
    )


def _cost_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    def cell(name: str, form: str, scale: float = 1.0) -> str:
        return DASH if row[name] is None else format(row[name] / scale, form)

    return (
        str(row["variant"]),
        str(row["runs"]),
        cell("parameters", ",.0f"),
        cell("train_seconds", ",.1f"),
        cell("ratio", ".2f"),
        cell("peak_bytes", ",.0f", 2.0**20),
        cell("tokens_per_second", ",.0f"),
    )


def limits(items: Sequence[str]) -> Section:
    """What the verdicts do not cover."""
    return Section(id="limits", title="Limits", blocks=(Bullets(items=tuple(items)),))


def provenance(rows: Sequence[tuple[str, str]], *, files: str) -> Section:
    """Where the numbers come from, and the files that hold them."""
    return Section(
        id="provenance", title="Provenance", blocks=(Definitions(items=tuple(rows)),), notes=(f"All numbers: {files}.",)
    )


def glossary() -> Section:
    """The terms of the report."""
    items = tuple((term.name, term.meaning) for term in GLOSSARY)
    return Section(id="glossary", title="Glossary", blocks=(Definitions(items=items),))
