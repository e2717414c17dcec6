import itertools
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from knockout.analysis.report.figures.cost import NAME, PLOT, cost_table, label_places
from knockout.analysis.results import load
from tests.analysis.conftest import TEST, BuildStudy
from tests.analysis.report.figures.curves import source_of


def test_each_arm_has_its_mean_interval_and_median_cost(build_study: BuildStudy) -> None:
    results = load(build_study({"baseline": [300, 304, 298, 301], "no_scale": [310, 309, "diverged", 311]}))
    source = source_of(results)
    frame = cost_table(source, results)
    ours, base = (frame[frame["variant"] == v].iloc[0] for v in ("no_scale", "baseline"))
    points = [100 * c / TEST for c in (310, 309, 311)]
    low, high = stats.t.interval(0.95, 2, loc=sum(points) / 3, scale=float(stats.sem(points)))
    assert [ours[c] for c in ("mean", "low", "high")] == pytest.approx([sum(points) / 3, low, high])
    assert ours["n"] == 3
    assert ours["cost_median"] == 16.0  # 10 s + seed + 5 s, over seeds 0, 1 and 3
    assert base["cost_median"] == 11.5
    frames = PLOT.frames(source)
    said = PLOT.caption(source, frames)
    assert "machine of these runs" in said
    assert "n = 3 to 4" in said
    assert ">no_scale</text>" in PLOT.draw(source, frames).svg()


def test_parameters_stand_in_where_times_are_not_recorded(build_study: BuildStudy) -> None:
    results = load(build_study({"baseline": [300, 304, 298], "no_scale": [310, 309, 311]}))
    results = replace(results, costs=results.costs.drop(columns="train_seconds"))
    source = source_of(results)
    frames = PLOT.frames(source)
    assert set(frames[NAME]["cost"]) == {"parameters"}
    assert "seconds" not in PLOT.draw(source, frames).svg()
    results = replace(results, costs=results.costs.drop(columns="parameters"))
    assert not PLOT.frames(source_of(results))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.005, 0.2)), min_size=1, max_size=40))
def test_labels_keep_their_order_and_do_not_overlap(labels: list[tuple[float, float]]) -> None:
    wanted, heights = ([label[i] for label in labels] for i in range(2))
    placed = label_places(wanted, heights, low=0.0, high=1.0)
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    scale = min(1.0, 1.0 / sum(heights))
    edges = [(placed[i] - scale * heights[i] / 2, placed[i] + scale * heights[i] / 2) for i in order]
    assert all(upper[0] >= lower[1] - 1e-9 for lower, upper in itertools.pairwise(edges))
    assert edges[0][0] >= -1e-9
    assert edges[-1][1] <= 1.0 + 1e-9


def test_labels_that_have_room_stand_at_their_points() -> None:
    assert label_places([0.2, 0.9, 0.5], [0.1] * 3, low=0.0, high=1.0) == pytest.approx([0.2, 0.9, 0.5])
    assert label_places([0.5, 0.5], [0.1] * 2, low=0.0, high=1.0) == pytest.approx([0.45, 0.55])
    assert label_places([0.5, 0.5], [0.1, 0.3], low=0.0, high=1.0) == pytest.approx([0.4, 0.6])


def test_an_arm_without_a_living_run_is_named(build_study: BuildStudy) -> None:
    results = load(build_study({"baseline": [300, 304, 298], "no_scale": ["diverged"] * 3, "heads_1": [301, 299, 300]}))
    source = source_of(results)
    frames = PLOT.frames(source)
    assert isinstance(frames[NAME], pd.DataFrame)
    assert "Without a run that did not fail: no_scale." in PLOT.caption(source, frames)
