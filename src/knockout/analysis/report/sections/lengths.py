"""The section on accuracy by the length of the test text."""

from collections.abc import Sequence

from knockout.analysis.inference.by_length import BOUNDS, LengthClass, LengthRow
from knockout.analysis.report.blocks import Cell, Section, table
from knockout.analysis.report.sections.verdicts import INTERVAL
from knockout.analysis.report.sentences import difference, interval, number


def lengths(rows: Sequence[LengthRow], *, baseline: str, max_length: int) -> Section | None:
    """Accuracy by length, arm by arm. `max_length`: the tokens at which the study's data cut a text."""
    if not rows:
        return None
    classes = list(dict.fromkeys(row.of for row in rows))
    texts = sum(c.texts for c in classes)
    quartiles = any(c.longest not in (*BOUNDS, None) for c in classes)
    body: list[list[Cell | str]] = [["test texts", *(f"{c.texts:,} ({100 * c.texts / texts:.0f} %)" for c in classes)]]
    for variant in dict.fromkeys(row.variant for row in rows):
        body.append([variant, *(_cell(row) for row in rows if row.variant == variant)])
    return Section(
        id="lengths",
        title="Accuracy by length of the text",
        tells="On which texts a difference arises: short or long ones.",
        lead=(
            (
                "Accuracy on test texts of different lengths, in %: the mean over the runs that did not fail. Below it"
                f" the mean paired difference from {baseline}, in points, with its {INTERVAL} over seeds (t). This"
                " describes where a difference comes from: nothing is tested, intervals are not corrected for their"
                " number, and verdicts do not use them."
            ),
        ),
        blocks=(table(("Variant", *(f"#{_title(c)}" for c in classes)), body, dense=len(classes) > 3),),
        notes=(
            (
                f"The length of a text is its number of tokens before it is cut at {max_length:,}."
                + (" The classes are quarters of the texts, since their lengths are much alike." if quartiles else "")
                + " All numbers: lengths.csv."
            ),
        ),
    )


def _title(of: LengthClass) -> str:
    return f"Over {of.shortest - 1:,} tokens" if of.longest is None else f"{of.shortest:,} to {of.longest:,} tokens"


def _cell(row: LengthRow) -> Cell:
    e = row.estimate
    return Cell(text=number(row.accuracy), notes=(f"{difference(e)} {interval(e)}",) if e is not None else ())
