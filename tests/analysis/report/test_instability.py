"""The sections on instability: what they say is what was measured, and text from users stays text."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from knockout.analysis.inference.instability import Instability, instability_of
from knockout.analysis.inference.learning_rates import RateGroup
from knockout.analysis.report.blocks import Bullets, Section, Table
from knockout.analysis.report.sections import instability as sections
from knockout.analysis.stats.curve import RunCurve
from knockout.plan import Plan
from tests.analysis.inference.test_instability import H, arm, study

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def found() -> Instability:
    losses: dict[tuple[str, int | str], float] = {(n, s): 0.4 for n in ("baseline", "low", "noisy") for s in range(12)}
    losses |= {("noisy_low", s): 0.5 for s in range(12)}
    groups = [
        RateGroup(name="baseline", rates={"low": 1e-4, "baseline": 1e-3}, losses=losses, accuracies={}),
        RateGroup(name="noisy", rates={"noisy_low": 1e-4, "noisy": 1e-3}, losses=losses, accuracies={}),
    ]
    arms = {
        "baseline": arm("baseline", 12),
        "noisy": arm("noisy", 12, jitter=0.05),
        "low": arm("low", 12),
        "noisy_low": arm("noisy_low", 12, jitter=0.05),
        "flat": arm("flat", 12, flat=True),
    }
    return study(arms, rate_groups=groups)


def by_id(found: Instability) -> dict[str, Section]:
    return {s.id: s for s in sections.sections(found)}


def tables(section: Section) -> list[Table]:
    return [b for b in section.blocks if isinstance(b, Table)]


def row(table: Table, name: str) -> dict[str, str]:
    cells = next(r for r in table.rows if r[0].text == name)
    return {c.title: cell.text for c, cell in zip(table.columns, cells, strict=True)}


def test_there_is_a_section_for_each_question_that_has_an_answer(found: Instability) -> None:
    assert list(by_id(found)) == ["instability", "time-to-threshold", "seed-spread", "learning-rates"]
    assert sections.sections(None) == []
    bare = study({"baseline": arm("baseline", 12), "low": arm("low", 12)}, majority=None)
    assert list(by_id(bare)) == ["instability", "seed-spread"]


def test_the_sentence_counts_what_is_shown(found: Instability) -> None:
    section = by_id(found)["instability"]
    shown = [c for c in found.cells if c.label in ("higher", "lower")]
    assert f"{len(shown)} differences are shown" in section.lead[1]
    assert f"over all {len(found.cells)} cells" in section.lead[1]
    assert "No difference is shown of low." in section.lead[1]
    bullets = next(b for b in section.blocks if isinstance(b, Bullets))
    assert [line.split(":")[0] for line in bullets.items] == ["noisy", "noisy_low", "flat"]
    fewer = dataclasses.replace(found, cells=tuple(c for c in found.cells if c.variant != "noisy"))
    assert "noisy:" not in " ".join(
        b for block in by_id(fewer)["instability"].blocks if isinstance(block, Bullets) for b in block.items
    )


def test_a_cell_says_its_size_and_its_label(found: Instability) -> None:
    table = tables(by_id(found)["instability"])[0]
    cell = found.cell("noisy", "short_term_risk")
    assert cell is not None
    assert row(table, "noisy")["short-term risk"] == f"×{cell.ratio:.3g} higher"
    flat = next(r for r in table.rows if r[0].text == "flat")
    titles = [c.title for c in table.columns]
    variation = flat[titles.index("total variation")]
    assert (variation.text, variation.badge) == ("higher", "worse")
    assert variation.notes == ("failed runs in 12 of 12 pairs",)
    assert "largest attention logit" not in titles  # nothing was logged
    assert any(
        "largest attention logit" in note and "quantities of layers" in note
        for note in by_id(found)["instability"].notes
    )


def test_failures_flat_lines_and_spikes_are_counted(found: Instability) -> None:
    table = tables(by_id(found)["instability"])[1]
    assert row(table, "flat")["Dead"] == "12"
    assert row(table, "flat")["Flat lines"] == "12"
    assert row(table, "flat")["Failure rate, % (Wilson)"] == "76 to 100"  # 12 of 12: 12 / (12 + 1.96 squared)
    assert row(table, "baseline")["Dead"] == "0"
    spiky = [
        dataclasses.replace(c, loss=np.where(np.isin(c.step, (100, 200)), 5 * c.loss, c.loss)) for c in arm("low", 12)
    ]
    two = study({"baseline": arm("baseline", 12), "low": spiky})
    assert row(tables(by_id(two)["instability"])[1], "low")["Spikes per run (7 sd)"] == "2.0"


def test_the_table_of_learning_rates(found: Instability) -> None:
    table = tables(by_id(found)["learning-rates"])[0]
    assert row(table, "baseline")["Sensitivity"] == "0.000"
    assert row(table, "noisy")["Sensitivity"] == "0.050"
    assert row(table, "noisy")["Above its own best"] == "0.050"
    assert row(table, "noisy")["Against the baseline's group"].startswith("+0.050 nats")
    assert row(table, "noisy")["Largest stable rate (median)"] == "0.001"


def test_time_to_the_threshold_counts_runs_that_never_get_there(found: Instability) -> None:
    table = tables(by_id(found)["time-to-threshold"])[0]
    assert row(table, "flat")["Runs that got there"] == "0 of 12"
    assert row(table, "flat")["Restricted mean, steps"] == "400"
    assert row(table, "baseline")["Runs that got there"] == "12 of 12"


def test_the_csv_files_have_a_row_for_each_run_and_each_cell(found: Instability) -> None:
    runs, cells = sections.run_table(found), sections.contrast_table(found)
    assert len(runs) == 60
    assert list(runs.columns[:2]) == ["variant", "seed"]
    assert len(cells) == len(found.cells)
    flat = runs[runs["variant"] == "flat"].iloc[0]
    assert "total_variation" in flat["worst_on"].split(", ")
    assert flat["time_to_threshold"] == 400
    assert math.isnan(flat["total_variation"])
    assert sections.run_table(None).empty
    assert sections.contrast_table(None).empty


def test_names_from_elsewhere_stay_text() -> None:
    def named(name: str, n: int, *, jitter: float = 0.0) -> list[RunCurve]:
        return [dataclasses.replace(c, variant=name) for c in arm("v", n, jitter=jitter)]

    names = [HOSTILE, "模型", "a|b", "x" * 200]
    curves = [*named("baseline", 10), *(c for name in names for c in named(name, 10, jitter=0.05))]
    found = instability_of(curves, baseline="baseline", plan=Plan(), entropy=H)
    rows = [r[0].text for r in tables(by_id(found)["instability"])[0].rows]
    assert rows == names
    assert isinstance(found.wide(), pd.DataFrame)
