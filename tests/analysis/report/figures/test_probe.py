from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from knockout.analysis.report.curves import summary
from knockout.analysis.report.figures.probe import NAME, PLOT, draw_probe, probe_ends, probe_losses
from knockout.analysis.report.figures.steps import MOST
from knockout.analysis.results import load
from knockout.analysis.stats.curve import RunCurve
from tests.analysis.conftest import BuildStudy
from tests.analysis.report.figures.curves import curve_of, source_of, ys


def run(losses: list[float], *, variant: str = "a", seed: int = 0, apart: int = 10) -> RunCurve:
    step = apart * np.arange(float(len(losses)))
    return replace(
        curve_of(np.ones(20), variant=variant, seed=seed),
        probe_step=step,
        probe_loss=np.array(losses),
        probe_accuracy=np.zeros(len(losses)),
    )


def test_what_is_drawn_is_what_was_measured() -> None:
    frame = probe_losses([run([0.7, 0.5, float("nan")]), run([0.6, 0.4, 0.3], seed=1), curve_of(np.ones(3), seed=2)])
    assert list(zip(frame["seed"], frame["x"], frame["value"], strict=True)) == [
        (0, 0.0, 0.7),
        (0, 10.0, 0.5),
        (1, 0.0, 0.6),
        (1, 10.0, 0.4),
        (1, 20.0, 0.3),
    ]


def test_many_runs_are_drawn_at_fewer_steps_with_the_last() -> None:
    runs = [run([0.5] * 200, variant=f"v{v}", seed=s) for v in range(41) for s in range(30)]
    frame = probe_losses(runs)
    assert len(frame) <= 1.1 * MOST
    assert set(frame.groupby(["variant", "seed"])["x"].max()) == {1990.0}


def test_the_median_of_the_seeds_over_that_of_the_baseline() -> None:
    seeds = [run([0.6, y], seed=s) for s, y in enumerate((0.1, 0.2, 0.9))]
    frame = probe_losses([run([0.7, 0.5], variant="base"), *seeds])
    ax = Figure().subplots()
    draw_probe(frame, ax=ax, variant="a", baseline="base", summaries=summary(frame), colour="#0072B2", ends=(0.0, 1.0))
    assert [ys(line) for line in ax.lines] == [[0.7, 0.5], [0.6, 0.2]]


def test_one_loss_far_off_does_not_flatten_the_rest() -> None:
    frame = probe_losses([*(run([0.7, 0.5], seed=s) for s in range(199)), run([0.7, 99.0], seed=199)])
    low, high = probe_ends(frame, summary(frame), np.log(2))
    assert low == 0.0
    assert 0.7 < high < 2.0


def test_the_figure_of_a_study(build_study: BuildStudy) -> None:
    source = source_of(load(build_study({"baseline": [300, 301, 302], "no_scale": [301, 302, 303]})))
    assert not PLOT.frames(source)  # none of these runs recorded a probe
    arms = [("baseline", s) for s in range(3)] + [("no_scale", s) for s in range(2)]
    source = replace(source, curves=tuple(run([0.69, 0.5], variant=v, seed=s) for v, s in arms))
    frames = PLOT.frames(source)
    assert len(frames[NAME]) == 10
    said = PLOT.caption(source, frames)
    assert f"ln 2 = {np.log(2):.3f}" in said
    assert PLOT.draw(source, frames).svg() == PLOT.draw(source, frames).svg()
    lost = replace(source, curves=source.curves[:3])
    assert "Without a recorded probe: no_scale." in PLOT.caption(lost, PLOT.frames(lost))


@pytest.mark.parametrize("losses", [[0.5], [0.0, 0.0]])
def test_few_or_flat_points_are_drawn(build_study: BuildStudy, losses: list[float]) -> None:
    source = source_of(load(build_study({"baseline": [300], "no_scale": [301]})))
    source = replace(source, curves=tuple(run(losses, variant=v) for v in ("baseline", "no_scale")))
    assert "<svg" in PLOT.draw(source, PLOT.frames(source)).svg()
