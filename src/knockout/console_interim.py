"""How the state of a study that runs is drawn: what is not decided yet, and the differences so far."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.text import Text

from knockout.console import change_text
from knockout.lines import wrapped
from knockout.strict import printable
from knockout.terminal import NAMES, Column, fitted

if TYPE_CHECKING:
    from knockout.study import Study
    from knockout.sweep.interim import Interim, Row

DASH = "–"


def interim_drawer(study: "Study") -> "Callable[[Interim, Console], RenderableType]":
    """What draws the states of this study: the notes as lines, and the table, sorted as the final one is."""
    base = study.baseline
    changes = {
        name: "; ".join(change_text(key, *pair).replace("->", "→") for key, pair in arm.differences(base).items())
        for name, arm in study.compared.items()
    }

    def draw(interim: "Interim", console: Console) -> RenderableType:
        decisions = any(row.decision for row in interim.rows)
        columns = (
            Column(name="variant", folds=True, least=NAMES),
            Column(name="changes", folds=True, drop=3),
            Column(name="diverged", right=True, drop=1),
            Column(name=interim.measure, right=True, drop=2),
            Column(name="mean difference (sd)", right=True),
            *((Column(name="e-process", folds=True, below=True, verdict=True),) if decisions else ()),
        )
        rows = [
            (
                row.variant,
                changes[row.variant] if i else "",
                f"{row.diverged} of {interim.blocks}",
                _level(row, interim),
                _difference(row, interim) if i else "",
                *((row.decision,) if decisions else ()),
            )
            for i, row in enumerate(interim.rows)
        ]
        table = fitted(columns, [[printable(cell) for cell in row] for row in rows], console=console)
        notes = [
            wrapped(Text(note, style="dim" if i else "bold"), console.width) for i, note in enumerate(interim.notes)
        ]
        return Group(*notes, table)

    return draw


def _level(row: "Row", interim: "Interim") -> str:
    if row.mean is None:
        return DASH
    alive = f" (n = {interim.blocks - row.diverged})" if row.diverged else ""
    return f"{row.mean:.{interim.digits}f}" + ("" if row.sd is None else f" ± {row.sd:.{interim.digits}f}") + alive


def _difference(row: "Row", interim: "Interim") -> str:
    if row.difference is None:
        return DASH
    rounded = round(row.difference, interim.digits) + 0.0  # without the sign of a zero
    aside = [] if row.difference_sd is None else [f"{row.difference_sd:.{interim.digits}f}"]
    aside += [f"n = {row.pairs}"] if row.pairs < interim.blocks else []
    shown = f"{rounded:+.{interim.digits}f}".replace("-", "−")
    return f"{shown} ({'; '.join(aside)})" if aside else shown
