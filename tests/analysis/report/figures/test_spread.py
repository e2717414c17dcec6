import numpy as np
import pytest

from knockout.analysis.report.figures.spread import LEAST, PLOT, spread_ratios
from knockout.analysis.results import load
from knockout.analysis.stats.curve import RunCurve
from tests.analysis.conftest import BuildStudy
from tests.analysis.report.figures.curves import curve_of, source_of


def arm(variant: str, losses: np.ndarray, *, lengths: list[int] | None = None) -> list[RunCurve]:
    lengths = lengths or [losses.shape[1]] * len(losses)
    return [curve_of(own[:n], variant=variant, seed=s) for s, (own, n) in enumerate(zip(losses, lengths, strict=True))]


def test_three_times_the_spread_is_a_ratio_of_three_whatever_the_level() -> None:
    base = np.random.default_rng(1).normal(1.0, 0.1, (8, 30))
    made = spread_ratios([*arm("base", base), *arm("a", 5.0 + 3.0 * base)], baseline="base")
    assert list(made["ratio"]) == pytest.approx([3.0] * 30)
    low, high = np.quantile(base[:, 4], [0.25, 0.75])
    assert made["baseline_iqr"].iloc[4] == pytest.approx(high - low)
    assert set(made["n"]) == {8}


def test_steps_that_too_few_runs_reached_are_left_out() -> None:
    losses = np.random.default_rng(2).normal(1.0, 0.1, (5, 20))
    short = arm("a", losses, lengths=[20, 20, 20, 10, 10])
    made = spread_ratios([*arm("base", losses), *short], baseline="base")
    assert made["x"].max() == 10
    assert not len(spread_ratios([*arm("base", losses[: LEAST - 1]), *arm("a", losses)], baseline="base"))


def test_a_baseline_without_spread_has_no_ratio() -> None:
    assert not len(spread_ratios([*arm("base", np.ones((5, 4))), *arm("a", np.eye(5, 4))], baseline="base"))


def test_the_figure_of_a_study(build_study: BuildStudy) -> None:
    results = load(build_study({"baseline": [300] * 5, "no_scale": [301] * 5, "heads_1": ["diverged"] * 2 + [300] * 3}))
    source = source_of(results)
    frames = PLOT.frames(source)
    assert list(dict.fromkeys(frames["spread"]["variant"])) == ["no_scale", "heads_1"]
    late = frames["spread"][(frames["spread"]["variant"] == "heads_1")]
    assert late["x"].max() < 23  # two of five runs end at step 22
    assert "n = 5 runs" in PLOT.caption(source, frames)
    assert "mathdefault" not in PLOT.draw(source, frames).svg()
