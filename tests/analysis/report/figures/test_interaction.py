import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

from knockout.analysis.report.figures.interaction import PLOT, cell_means, draw_interaction
from knockout.analysis.report.figures.plot import Source
from tests.analysis.inference.test_interactions import TEXTS, N, compared, counts, runs
from tests.analysis.report.figures.curves import ys


def test_cells_are_means_with_t_intervals_in_points() -> None:
    given = counts()
    frame = cell_means(compared(runs(given))).set_index("cell")
    assert set(frame["axes"]) == {"norm x warmup"}
    assert dict(frame["variant"]) == {"00": "base", "01": "warmup", "10": "norm", "11": "both"}
    for cell, name in zip(frame.index, frame["variant"], strict=True):
        points = 100 * np.array(given[name]) / TEXTS
        low, high = stats.t.interval(0.95, N - 1, loc=points.mean(), scale=points.std(ddof=1) / N**0.5)
        assert [frame[c][cell] for c in ("mean", "low", "high")] == pytest.approx([points.mean(), low, high])


def test_a_seed_at_which_a_cell_failed_is_left_out_of_all_cells() -> None:
    given = counts()
    frame = cell_means(compared(runs(given, failed=(("both", 2),)))).set_index("cell")
    kept = [c for s, c in enumerate(given["base"]) if s != 2]
    assert set(frame["n"]) == {N - 1}
    assert frame.loc["00", "mean"] == pytest.approx(100 * np.mean(kept) / TEXTS)


def test_one_line_per_level_of_the_second_factor() -> None:
    frame = cell_means(compared(runs(counts())))
    ax = draw_interaction(frame, ax=Figure().subplots(), first="norm", second="warmup")
    lines = {str(line.get_label()): ys(line) for line in ax.lines if line.get_marker() in ("o", "D")}
    means = frame.set_index("cell")["mean"]
    assert lines["warmup as baseline"] == [means["00"], means["10"]]
    assert lines["warmup changed"] == [means["01"], means["11"]]


def test_the_figure_is_there_where_a_factorial_is() -> None:
    source = Source(comparison=compared(runs(counts())), results=None)
    frames = PLOT.frames(source)
    text = PLOT.draw(source, frames).svg()
    assert ">norm x warmup</text>" in text
    assert f"n = {N}" in PLOT.caption(source, frames)
    dead = runs(counts(), failed=tuple(("both", s) for s in range(N)))
    assert not PLOT.frames(Source(comparison=compared(dead), results=None))
