import math

import pandas as pd
import pytest
from matplotlib.figure import Figure

from knockout.analysis.inference.learning_rates import RateGroup
from knockout.analysis.report.figures.learning_rates import (
    NAME,
    PLOT,
    draw_learning_rates,
    final_losses,
    rate_ends,
    rate_summary,
)
from knockout.analysis.results import load
from tests.analysis.conftest import BuildStudy
from tests.analysis.report.figures.curves import source_of, xs, ys

DECLARED = """
[variant.slow]
learning_rate = 1e-4
[variant.fast]
learning_rate = 1e-1
[variant.post]
norm = "post"
[variant.post_fast]
norm = "post"
learning_rate = 1e-1
"""


def test_failed_runs_have_no_value_whatever_their_loss(build_study: BuildStudy) -> None:
    results = load(build_study({"baseline": [300, 301, 302], "no_scale": [290, "dead", "diverged"]}))
    group = RateGroup(
        name="baseline",
        rates={"baseline": 1e-3, "no_scale": 1e-2},
        losses={("baseline", 0): 0.4, ("baseline", 1): 0.5, ("no_scale", 0): 0.6, ("no_scale", 1): 0.1},
        accuracies={},
    )
    frame = final_losses(results.runs, [group])
    base, other = (frame[frame["variant"] == v] for v in ("baseline", "no_scale"))
    assert list(zip(base["seed"], base["value"], strict=True)) == [(0, 0.4), (1, 0.5)]  # no loss at seed 2: no row
    assert list(other["failed"]) == [False, True, True]
    assert [None if math.isnan(v) else v for v in other["value"]] == [0.6, None, None]
    summary = rate_summary(frame)[["learning_rate", "median", "n", "failures"]]
    assert summary.values.tolist() == [[1e-3, 0.45, 2, 0], [1e-2, 0.6, 1, 2]]


def test_dots_medians_and_failures_at_the_top(build_study: BuildStudy) -> None:
    results = load(build_study({"baseline": [300, 301, 302], "no_scale": [290, "dead", "diverged"]}))
    losses: dict[tuple[str, int | str], float] = {("baseline", 0): 0.4, ("baseline", 1): 0.41, ("baseline", 2): 0.42}
    losses["no_scale", 0] = 0.6
    group = RateGroup(name="g", rates={"baseline": 1e-3, "no_scale": 1e-2}, losses=losses, accuracies={})
    frame = final_losses(results.runs, [group])
    ax = draw_learning_rates(
        frame, ax=Figure().subplots(), summary=rate_summary(frame), reference=None, colour="#0072B2", top=1.0
    )
    marks = {line.get_marker(): line for line in ax.lines}
    assert ys(marks["x"]) == [1.0, 1.0]
    assert xs(marks["x"]) == pytest.approx([1e-2, 1e-2], rel=0.35)
    assert sorted(ys(marks["o"])) == pytest.approx([0.4, 0.41, 0.42, 0.6])
    assert ys(marks["D"]) == pytest.approx([0.41, 0.6])
    assert ax.get_xscale() == "log"


def test_a_group_without_failures_has_no_line_that_is_empty(build_study: BuildStudy) -> None:
    """One that is not clipped lay at the origin of the figure, and the layout left no room for the axes."""
    results = load(build_study({"baseline": [300, 301, 302], "no_scale": [290, 291, 292]}))
    losses: dict[tuple[str, int | str], float] = {(v, s): 0.4 for v in ("baseline", "no_scale") for s in range(3)}
    group = RateGroup(name="g", rates={"baseline": 1e-3, "no_scale": 1e-2}, losses=losses, accuracies={})
    frame = final_losses(results.runs, [group])
    ax = draw_learning_rates(
        frame, ax=Figure().subplots(), summary=rate_summary(frame), reference=None, colour="#0072B2", top=1.0
    )
    assert all(len(xs(line)) for line in ax.lines)


def test_groups_are_arms_that_differ_in_the_rate_alone(build_study: BuildStudy) -> None:
    arms = {"baseline": [300, 301, 302], "slow": [290, 291, 289], "fast": [300, "dead", 280], "post": [300, 299, 301]}
    root = build_study({**arms, "post_fast": ["diverged"] * 3, "no_scale": [300, 300, 301]}, claims=DECLARED)
    source = source_of(load(root))
    frames = PLOT.frames(source)
    groups = frames[NAME].groupby("group", sort=False)["variant"].agg(lambda v: sorted(set(v))).to_dict()
    assert groups == {"baseline": ["baseline", "fast", "slow"], "post": ["post", "post_fast"]}
    said = PLOT.caption(source, frames)
    assert "(4 in all)" in said
    assert "Grey and dashed: the medians of baseline." in said
    text = PLOT.draw(source, frames).svg()
    assert ">post</text>" in text
    assert "mathdefault" not in text


def test_one_loss_far_off_does_not_flatten_the_rest() -> None:
    values = [0.40, 0.41, 0.42, 0.45, 0.5, 90.0]
    low, high = rate_ends(pd.DataFrame({"value": values}))
    assert low < 0.40
    assert 0.5 < high < 1.0


def test_no_groups_no_figure(build_study: BuildStudy) -> None:
    assert not PLOT.frames(source_of(load(build_study({"baseline": [300, 301], "no_scale": [301, 302]}))))
