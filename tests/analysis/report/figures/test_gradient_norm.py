from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from knockout.analysis.report.curves import summary
from knockout.analysis.report.figures.gradient_norm import (
    PLOT,
    clipped_shares,
    draw_gradient_norm,
    gradient_norms,
)
from knockout.analysis.results import load
from knockout.analysis.stats.curve import RunCurve
from tests.analysis.conftest import STEPS, BuildStudy
from tests.analysis.report.figures.curves import curve_of, source_of, ys


def run(norms: list[float], *, variant: str = "a", seed: int = 0, clip: float | None = 1.0) -> RunCurve:
    values = np.array(norms)
    return replace(curve_of(values, variant=variant, seed=seed), grad_norm=values, clip_norm=clip)


def test_a_norm_that_clipping_cuts_lies_above_the_clip_norm() -> None:
    runs = [
        run([0.5, 1.0, 1.5, 2.0]),
        run([3.0, 0.1], seed=1),
        run([9.0], variant="b", clip=None),
        run([np.nan], variant="c"),
    ]
    shares = clipped_shares(runs).set_index("variant")
    assert shares.loc["a", "share"] == 3 / 6  # 1.5, 2 and 3 of six; 1 itself is not cut
    assert shares["share"].isna().to_dict() == {"a": False, "b": True, "c": False}  # no clipping
    assert shares.loc["c", "share"] == 1.0  # a norm that is no number is no step that was left alone


def test_a_log_axis_gets_no_zero() -> None:
    assert list(gradient_norms([run([0.0, 0.5, 2.0])])["value"]) == [0.5, 2.0]


def test_an_arm_has_its_own_line_and_the_baseline_behind() -> None:
    runs = gradient_norms([run([1.0, 2.0], variant="base"), run([3.0, 4.0]), run([5.0, 6.0], seed=1)])
    ax = Figure().subplots()
    draw_gradient_norm(
        runs, ax=ax, variant="a", baseline="base", summaries=summary(runs), colour="#0072B2", ends=(0.1, 10.0)
    )
    assert [ys(line) for line in ax.lines] == [[1.0, 2.0], [4.0, 5.0]]


def test_the_figure_of_a_study(build_study: BuildStudy) -> None:
    results = load(build_study({"baseline": [300, 301, 302], "no_clipping": [300, "diverged", 301]}))
    source = source_of(results)
    frames = PLOT.frames(source)
    base = frames["gradient_norm"][frames["gradient_norm"]["variant"] == "baseline"]
    assert len(base) == 3 * STEPS
    text = PLOT.draw(source, frames).svg()
    assert "clipped at 1: 0 % of steps" in text
    assert "no clipping" in text
    assert "A run that diverged ends in x." in PLOT.caption(source, frames)
    assert "n = 3" in PLOT.caption(source, frames)


def test_nothing_is_drawn_without_norms(build_study: BuildStudy) -> None:
    results = load(build_study({"baseline": [300, 301], "no_scale": [300, 302]}))
    for curve in results.curves.values():
        curve["grad_norm"] = np.nan
    source = source_of(results)
    assert not PLOT.frames(source)
    assert not PLOT.frames(replace(source, results=None, curves=()))
