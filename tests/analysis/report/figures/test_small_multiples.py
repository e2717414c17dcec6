import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from knockout.analysis.report.figures.small_multiples import (
    Look,
    beyond,
    draw_median,
    draw_runs,
    log_ends,
    panel_title,
    panels,
    ticks,
)
from tests.analysis.report.figures.curves import xs, ys

RUNS = pd.DataFrame(
    {
        "seed": [0, 0, 0, 1, 1],
        "x": [1.0, 2.0, 3.0, 1.0, 2.0],
        "value": [0.5, 9.0, 0.4, 0.6, -3.0],
        "status": ["finished"] * 3 + ["diverged"] * 2,
    }
)


def test_every_seed_is_a_line_and_what_leaves_the_axis_is_marked_at_its_edge() -> None:
    ax = draw_runs(RUNS, ax=Figure().subplots(), colour="#0072B2", low=0.0, high=1.0)
    (lines,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    assert [len(np.asarray(s)) for s in lines.get_segments()] == [3, 2]
    marks = {line.get_marker(): line for line in ax.lines}
    assert (xs(marks["^"]), ys(marks["^"])) == ([2.0], [1.0])
    assert (xs(marks["v"]), ys(marks["v"])) == ([2.0], [0.0])
    assert xs(marks["x"]) == [2.0]  # where the run that diverged ended
    assert beyond(RUNS, 0.0, 1.0) == 2


def test_one_step_is_drawn_as_points_that_can_be_seen() -> None:
    ax = Figure().subplots()
    draw_runs(RUNS[RUNS["x"] == 1.0], ax=ax, colour="#0072B2", low=0.0, high=1.0)
    draw_median(pd.DataFrame({"x": [1.0], "median": [0.5], "lower": [0.4], "upper": [0.6]}), ax=ax, colour="#0072B2")
    assert [line.get_marker() for line in ax.lines] == ["x", "o", "o"]


@pytest.mark.parametrize(
    "name", ["short", "x" * 200, "a_variant_with_a_name_of_many_words_that_goes_on_and_on_and_on_64", "注意力" * 20]
)
def test_a_name_is_never_cut(name: str) -> None:
    titled = panel_title(name)
    assert titled.replace("\n", "") == name
    assert max(map(len, titled.split("\n"))) <= 30


def test_a_log_axis_holds_all_but_what_is_far_below() -> None:
    low, high = log_ends(pd.Series([1e-30, 0.1, 10.0]), [20.0])
    assert high > 20.0
    assert low == pytest.approx(20e-5, rel=1.0)
    assert log_ends(pd.Series([0.0, np.nan]))[0] > 0


@pytest.mark.parametrize(
    ("low", "high", "scale"), [(0.4, 3.0, "log"), (1e-4, 1e3, "log"), (-0.3, 2.0, "symlog"), (0.9, 1.2, "log")]
)
def test_ticks_lie_inside_and_are_few(low: float, high: float, scale: str) -> None:
    made = ticks(Look(x_label="", y_label="", low=low, high=high, scale=scale, linear=0.05))  # type: ignore[arg-type]
    assert made == sorted(set(made))
    assert all(low <= tick <= high for tick in made)
    assert 1 <= len(made) <= 12
    assert scale == "log" or 0.0 in made


def test_panels_repeat_and_hold_names_as_text() -> None:
    names = ["<script>alert(1)</script>", r"$\frac{1}{$", "\U0001f600" * 3, "b", "c"]

    def draw() -> str:
        look = Look(x_label="step", y_label="y", low=0.0, high=1.0, notes=dict.fromkeys(names, "10 %"))
        return panels(
            names, lambda _, ax: draw_runs(RUNS, ax=ax, colour="#0072B2", low=0.0, high=1.0), name="t", look=look
        ).svg()

    text = draw()
    assert text == draw()
    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert r"$\frac{1}{$" in text
    assert "mathdefault" not in text


def test_a_log_axis_has_ticks_without_markup() -> None:
    look = Look(x_label="step", y_label="y", low=0.01, high=10.0, scale="log")
    text = panels(["a"], lambda _, ax: ax.plot([1, 2], [0.1, 1.0]), name="t", look=look).svg()
    assert "mathdefault" not in text
    assert ">0.1</text>" in text
