import csv
import io

import numpy as np
import pandas as pd

from knockout.analysis.inference.contrasts import Contrast
from knockout.analysis.report.tables import (
    contrast_table,
    cost_rows,
    csv_text,
    forest_seed_table,
    forest_table,
    summary_table,
)
from knockout.analysis.results import load
from tests.analysis.conftest import BuildStudy
from tests.analysis.inference.test_contrasts import BASE, judged

NAMES = ["NA", "None", "007", "<b>", "nan", "a,b", 'say "x"', "line\nbreak", "ünï"]
FORMULAS = ["=1+1", "+1", "-1", "@x", "\tx", "\rx"]


def read(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)


def test_text_stays_text_and_numbers_lose_nothing() -> None:
    values = [0.1, 1 / 3, np.float64(2 / 3), 1e-300, 5.0, float("nan"), None, 7, True]
    frame = pd.DataFrame({"name": NAMES, "value": pd.Series(values, dtype=object)})
    back = read(csv_text(frame))
    assert list(back["name"]) == NAMES
    told = ["0.1", "0.3333333333333333", "0.6666666666666666", "1e-300", "5.0", "", "", "7", "true"]
    assert list(back["value"]) == told


def test_no_cell_is_a_formula() -> None:
    rows = list(csv.reader(io.StringIO(csv_text(pd.DataFrame({"=name": FORMULAS, "n": [-1.5] * 6})), newline="")))
    assert rows[0] == ["'=name", "n"]
    assert [r[0] for r in rows[1:]] == [f"'{f}" for f in FORMULAS]
    assert {r[1] for r in rows[1:]} == {"-1.5"}  # a negative number is none


def test_summary_holds_only_what_every_rerun_repeats(build_study: BuildStudy) -> None:
    results = load(build_study({"baseline": [300, 301], "heads_1": [300, "crashed"]}))
    text = csv_text(summary_table(results))
    assert "box" not in text
    assert "seconds" not in text
    assert "2026" not in text
    back = read(text)
    assert list(back["variant"]) == ["baseline", "heads_1", "baseline", "heads_1"]
    assert list(back["test_correct"]) == ["300", "300", "301", ""]
    assert list(back["test_accuracy"])[:1] == ["0.75"]
    assert list(back["status"])[-1] == "crashed"


def _toy() -> list[Contrast]:
    return judged({"base": BASE, "a": ["diverged", *BASE[1:]], "b": [8000] * 7 + ["crashed"], "c": BASE})


def test_contrast_table_has_every_number_of_every_contrast() -> None:
    found = _toy()
    frame = contrast_table(found, {"a": "added after the first run"})
    assert list(frame["variant"]) == ["a", "b", "c"]
    assert list(frame["exploratory"]) == ["added after the first run", "", ""]
    assert list(frame["verdict"]) == [c.label for c in found]
    assert list(frame["n_estimate"]) == [7, 7, 8]
    assert list(frame["variant_failures"]) == [1, 0, 0]
    assert frame["p"].iloc[1] is None or np.isnan(frame["p"].iloc[1])
    assert frame["p_holm"].iloc[1] == 1.0


def test_forest_tables_are_what_is_drawn() -> None:
    found = _toy()
    frame, seeds = forest_table(found), forest_seed_table(found)
    assert list(frame["failures"]) == [1, 0, 0]
    assert len(seeds) == 24
    assert seeds[seeds["variant"] == "a"]["state"].iloc[0] == "variant failed"
    assert seeds["difference"].isna().sum() == 2


def test_costs_are_medians_and_ratios_paired_by_seed(build_study: BuildStudy) -> None:
    results = load(build_study({"baseline": [300, 301, "missing"], "heads_1": [300, 303, 302]}))
    base, heads = cost_rows(results)
    assert (base["variant"], base["runs"], base["train_seconds"]) == ("baseline", 2, 10.5)
    assert heads["train_seconds"] == 16.0
    assert heads["ratio"] == (15 / 10 + 16 / 11) / 2  # the third seed has no partner
    assert heads["tokens_per_second"] == 30_000 / 16
    assert base["peak_bytes"] == 500 * 2**20
