"""Parents of nested runs: MLflow exports them as rows of their own, beside the runs that they hold."""

from collections.abc import Sequence
from dataclasses import replace

from knockout.analysis.external.table import Sheet, count_with_noun

RUN_IDS = ("run_id", "Run ID")
PARENT_IDS = ("tags.mlflow.parentRunId", "mlflow.parentRunId")
"""By `mlflow.search_runs`, and in the CSV of MLflow's pages."""


def without_parents(sheet: Sheet, needed: Sequence[str]) -> tuple[Sheet, list[str]]:
    """The sheet without rows that are the parents of others and lack a cell of the columns that are needed; a note."""
    ids = next((name for name in RUN_IDS if name in sheet.cells), "")
    parents = {cell for name in PARENT_IDS for cell in sheet.cells.get(name, ()) if cell}
    if not ids or not parents:
        return sheet, []
    columns = [sheet.cells[name] for name in needed]
    out = [i for i, cell in enumerate(sheet.cells[ids]) if cell in parents and not all(column[i] for column in columns)]
    if not out or len(out) == len(sheet.rows):
        return sheet, []
    left = [i for i in range(len(sheet.rows)) if i not in set(out)]
    places = sheet.places([sheet.rows[i] for i in out])
    note = f"{count_with_noun(len(out), 'parent')} of nested runs left out: no runs of a variant themselves ({places})."
    cells = {name: [column[i] for i in left] for name, column in sheet.cells.items()}
    return replace(sheet, rows=tuple(sheet.rows[i] for i in left), cells=cells), [note]
