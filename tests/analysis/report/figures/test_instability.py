from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from matplotlib.figure import Figure

from knockout.analysis.inference.instability import Instability, instability_of
from knockout.analysis.inference.instability_cells import Cell, Label
from knockout.analysis.report.figures.instability import NAME, PLOT, draw_instability, heat_table
from knockout.analysis.report.sections.instability import title_of
from knockout.analysis.results import load
from knockout.plan import Plan
from tests.analysis.conftest import BuildStudy
from tests.analysis.report.figures.curves import curve_of, source_of

Scale = Literal["ratio", "difference"]


def cell(variant: str, metric: str, estimate: float | None, label: Label, *, scale: Scale = "ratio") -> Cell:
    return Cell(
        variant=variant, metric=metric, scale=scale, estimate=estimate, low=None, high=None, n=6, n_planned=6,
        ranked=0, test="signed rank", p=0.03, p_bh=0.04, label=label, reason="",
    )  # fmt: skip


@pytest.fixture
def found() -> Instability:
    rng = np.random.default_rng(0)
    curves = [curve_of(rng.normal(1.0, 0.1, 400), variant=v, seed=s) for v in ("base", "a") for s in range(6)]
    whole = instability_of(curves, baseline="base", plan=Plan())
    cells = (
        cell("a", "drawdown", 4.0, "higher"),
        cell("b", "drawdown", 1 / 64, "lower"),
        cell("a", "early_peak", None, "not testable"),
        cell("b", "early_peak", 1.0, "not shown"),
        cell("a", "spikes", 0.02, "higher", scale="difference"),
        cell("b", "spikes", -0.01, "lower", scale="difference"),
        cell("c", "spikes", 0.5, "not shown", scale="difference"),
    )
    return replace(whole, cells=cells)


def test_colour_is_the_binary_logarithm_of_a_ratio(found: Instability) -> None:
    frame = heat_table(found).set_index(["metric", "variant"])["colour"]
    assert frame["drawdown", "a"] == 2.0  # a ratio of 4
    assert frame["drawdown", "b"] == -3.0  # 1/64 is beyond the darkest
    assert frame["early_peak", "b"] == 0.0
    assert np.isnan(frame["early_peak", "a"])
    assert frame["spikes", "a"] == 3.0  # the largest difference of its measure that is shown
    assert frame["spikes", "b"] == -1.5
    assert frame["spikes", "c"] == 0.0


def test_the_mark_of_a_cell_is_its_verdict(found: Instability) -> None:
    ax = draw_instability(heat_table(found), ax=Figure().subplots())
    marks = {tuple(map(round, t.get_position())): t.get_text() for t in ax.texts}
    assert marks == {(0, 0): "▲", (0, 1): "▼", (1, 0): "", (1, 1): "·", (2, 0): "▲", (2, 1): "▼", (2, 2): "·"}
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b", "c"]
    assert [t.get_text() for t in ax.get_xticklabels()][-1] == f"{title_of('spikes')} (difference)"


def test_a_study_has_it_and_says_what_it_tests(build_study: BuildStudy) -> None:
    source = source_of(load(build_study({"baseline": [300, 301, 302], "no_scale": [301, 302, "diverged"]})))
    frames = PLOT.frames(source)
    assert set(frames[NAME]["variant"]) == {"no_scale"}
    said = PLOT.caption(source, frames)
    assert "n = 3" in said
    assert "Exploratory" in said
    text = PLOT.draw(source, frames).svg()
    assert text == PLOT.draw(source, frames).svg()
    assert "failed runs (difference)" in text
    assert not PLOT.frames(replace(source, instability=None))
