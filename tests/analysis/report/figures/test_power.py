from collections.abc import Sequence

import pytest
from matplotlib.figure import Figure
from statsmodels.stats.power import TTestPower

from knockout.analysis import compare
from knockout.analysis.inference.comparison import Comparison
from knockout.analysis.report.figures.plot import Source
from knockout.analysis.report.figures.power import PLOT, draw_power, observed_sds, power_curves
from tests.analysis.frames import BASE, MOVED, tidy


def compared(arms: dict[str, Sequence[float]]) -> Comparison:
    return compare(tidy(arms), metric="accuracy", baseline="base", margin=1.0)


def test_power_is_that_of_the_paired_t_test_as_the_first_of_all_contrasts() -> None:
    comparison = compared(
        {"base": BASE, "a": MOVED, "b": [x + y for x, y in zip(BASE, [0.01, -0.02] * 4, strict=True)]}
    )
    sds = observed_sds(comparison)
    assert len(sds) == 2
    frame = power_curves(comparison)
    assert list(dict.fromkeys(frame["seeds"])) == [8, 16]
    for n in (8, 16):
        row = frame[frame["seeds"] == n].iloc[20]
        for column, sd in (("power", sum(sds) / 2), ("least", sds[1]), ("most", sds[0])):
            expected = TTestPower().power(row["difference"] / sd, n, 0.05 / 2, alternative="two-sided")
            assert row[column] == pytest.approx(expected, abs=1e-6)
        assert frame[frame["seeds"] == n]["power"].is_monotonic_increasing
    assert frame["power"].iloc[0] == pytest.approx(0.025, abs=1e-9)  # no difference: the level of the test


def test_more_seeds_never_show_less() -> None:
    frame = power_curves(compared({"base": BASE, "a": MOVED}))
    few, many = (frame[frame["seeds"] == n]["power"].to_numpy() for n in (8, 16))
    assert (many >= few - 1e-9).all()


def test_without_a_spread_there_is_nothing_to_draw() -> None:
    same = compared({"base": [0.5] * 5, "a": [0.6] * 5})
    assert power_curves(same).empty
    assert not PLOT.frames(Source(comparison=same, results=None))


def test_margin_and_wanted_power_are_marked() -> None:
    comparison = compared({"base": BASE, "a": MOVED})
    source = Source(comparison=comparison, results=None)
    frames = PLOT.frames(source)
    ax = draw_power(frames["power"], ax=Figure().subplots(), margin=1.0, wanted=0.8)
    assert [t.get_text() for t in ax.texts] == ["margin", "80 %"]
    text, said = PLOT.draw(source, frames).svg(), PLOT.caption(source, frames)
    assert ">16 seeds</text>" in text
    assert "with 8 seeds" in said
    assert "80 % power" in said
