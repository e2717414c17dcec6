"""Controls: claims whose answers are known, over several studies.

`python -m knockout.analysis.controls DIR... --into DIR` writes one table of all claims, `controls.md` and
`controls.csv`, from the records alone: same records, same bytes.
Exit code 0 if every claim is supported, 1 if one is not, 2 for what the user can mend. A claim that is named by
`--finding` is known not to come out as stated: the page says so, and it is no reason for 1.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from knockout.analysis.report.render import markdown
from knockout.analysis.report.sentences import level
from knockout.analysis.report.study import judge_study
from knockout.analysis.report.tables import csv_text
from knockout.analysis.results import ResultsError, load
from knockout.errors import UserError
from knockout.files import replace_text

SUPPORTED = "supported"

ABOUT = (
    "Each study trains a small encoder on generated texts (`src/knockout/data/synthetic.py`) of which it is known which"
    " component they need. Its claims stand in `ablations/controls_*.toml`, with what was seen before they"
    " were written. Baseline and variant: mean ± sd of the"
    " plan's metric over the runs that did not fail. `make controls` makes this page."
)


def controls_table(folders: Sequence[Path]) -> pd.DataFrame:
    """One row per claim of the studies in these folders, in the order of the folders and of their study files.

    Columns: `study`, `claim`, `variant`, `text`, `expected`, `metric`, `baseline` and `result_of_variant` (mean and sd
    of the plan's metric over runs that did not fail), `failed` (failed runs of all runs, of the variant), `result`
    (supported, refuted or inconclusive) and `reason`. Raises `ResultsError` for a folder without a study or a claim.
    """
    rows = []
    for folder in folders:
        results = load(folder)
        judged = judge_study(results)
        contrasts = {c.variant: c for c in judged.comparison.contrasts}
        if not judged.claims:
            raise ResultsError(f"{folder}: the study has no claims, so it is no control")
        for claim in judged.claims:
            contrast = contrasts[claim.variant]
            rows.append(
                {
                    "study": folder.resolve().name,
                    "claim": claim.id,
                    "variant": claim.variant,
                    "text": claim.text,
                    "expected": claim.says,
                    "metric": claim.metric,
                    "baseline": level(contrast.baseline),
                    "result_of_variant": level(contrast.arm),
                    "failed": f"{contrast.arm.failures} of {contrast.arm.runs}",
                    "result": claim.ruling,
                    "reason": claim.reason,
                }
            )
    return pd.DataFrame(rows)


def answer(table: pd.DataFrame) -> str:
    """How many claims are supported, and which are not, in one sentence."""
    others = table[table["result"] != SUPPORTED]
    named = "; ".join(f"{row.claim} is {row.result}" for row in others.itertuples())
    return f"{len(table) - len(others)} of {len(table)} claims are supported" + (f": {named}." if named else ".")


def controls_page(table: pd.DataFrame) -> str:
    """The table as a page in Markdown."""
    head = (
        "Claim",
        "In words",
        "Variant",
        "Expected",
        "Baseline",
        "Variant's result",
        "Failed",
        "Result",
    )
    columns = ("claim", "text", "variant", "expected", "baseline", "result_of_variant", "failed", "result")
    metrics = table["expected"].where(table["metric"] != "failures", table["expected"] + " (failures)")
    shown = table.assign(expected=metrics)[list(columns)]
    lines = [
        "# Controls with known answers",
        "",
        answer(table),
        "",
        ABOUT,
        "",
        "| " + " | ".join(head) + " |",
        "|" + " --- |" * len(head),
        *("| " + " | ".join(markdown(cell) for cell in row) + " |" for row in shown.itertuples(index=False)),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and write it; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m knockout.analysis.controls", description="One table of all claims."
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="the folder of a study with claims")
    parser.add_argument("--into", type=Path, required=True, metavar="DIR", help="where controls.md and controls.csv go")
    known = "a claim that is known not to come out as stated"
    parser.add_argument("--finding", action="append", default=[], metavar="CLAIM", help=known)
    given = parser.parse_args(arguments)
    try:
        table = controls_table(given.folders)
        given.into.mkdir(parents=True, exist_ok=True)
        replace_text(given.into / "controls.csv", csv_text(table))
        replace_text(given.into / "controls.md", controls_page(table))
    except (UserError, OSError) as error:
        print(f"knockout: {error}", file=sys.stderr)
        return 2
    print(table[["claim", "variant", "expected", "metric", "failed", "result", "reason"]].to_string(index=False))
    print(f"\n{answer(table)}\n{given.into / 'controls.md'}")
    others = table.loc[table["result"] != SUPPORTED, "claim"]
    return 1 if set(others) - set(given.finding) else 0


if __name__ == "__main__":
    sys.exit(main())
