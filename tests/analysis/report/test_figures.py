from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from knockout.analysis.report.figures import PLOTS, draw_curves, draw_forest, forest, is_compressed, panels
from knockout.analysis.report.svg import PALETTE, colours
from knockout.analysis.report.tables import forest_seed_table, forest_table
from tests.analysis.inference.test_contrasts import BASE, Cell, judged

SHIFTED: list[Cell] = [b - 2000 for b in BASE if isinstance(b, int)]


def tables(correct: Mapping[str, Sequence[Cell]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    found = judged(correct)
    return forest_table(found), forest_seed_table(found)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_palette_has_a_colour_for_every_registered_variant() -> None:
    assert len(set(PALETTE)) == len(PALETTE) >= 14
    assert all(1.05 / (luminance(c) + 0.05) >= 2.1 for c in PALETTE)  # contrast with the white page
    assert len(set(colours([f"v{i}" for i in range(14)]).values())) == 14


def test_every_figure_is_listed_once() -> None:
    names = [plot.name for plot in PLOTS]
    assert names == ["forest", "examples", "loss_curves", "validation_curves"]


def test_forest_draws_what_the_frame_says() -> None:
    frame, seeds = tables({"base": BASE, "a": [b + 7 for b in BASE if isinstance(b, int)], "b": ["dead", *BASE[1:]]})
    ax = draw_forest(frame, seeds, ax=Figure().subplots(), margin=0.5, label="difference in accuracy")
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]
    assert [t.get_text() for t in ax.texts] == ["negligible", "inconclusive; 1 failed"]
    drawn = [line for line in ax.lines if line.get_marker() == "D"]
    assert [float(np.asarray(d.get_xdata())[0]) for d in drawn] == pytest.approx(list(frame["difference"]))
    assert [line.get_marker() for line in ax.lines].count("x") == 1
    dots = [len(np.asarray(line.get_xdata())) for line in ax.lines if line.get_marker() == "o"]
    assert dots == [8, 7]


def test_a_collapse_does_not_flatten_the_others() -> None:
    near, far = tables({"base": BASE, "a": list(BASE)}), tables({"base": BASE, "a": list(BASE), "b": SHIFTED})
    assert not is_compressed(*near, margin=0.5)
    assert is_compressed(*far, margin=0.5)
    assert (
        draw_forest(*far, ax=Figure().subplots(), margin=0.5, label="difference in accuracy").get_xscale() == "symlog"
    )
    assert (
        draw_forest(*near, ax=Figure().subplots(), margin=0.5, label="difference in accuracy").get_xscale() == "linear"
    )


def test_no_estimate_draws_no_mark() -> None:
    frame, seeds = tables({"base": BASE[:3], "a": ["diverged", "crashed", "missing"]})
    text = forest(frame, seeds, margin=0.5, label="difference in accuracy")
    assert "incomplete: 1 of 3" in text


def curves() -> tuple[pd.DataFrame, pd.DataFrame]:
    rows = [
        {
            "variant": v,
            "seed": s,
            "x": x,
            "value": 1.0 / x + s / 10,
            "status": "diverged" if (v, s) == ("a", 1) else "finished",
        }
        for v in ("base", "a")
        for s in range(2)
        for x in range(1, 6)
    ]
    frame = pd.DataFrame(rows)
    middle = frame.groupby(["variant", "x"])["value"].median().reset_index(name="median")
    return frame, middle.assign(lower=middle["median"] - 0.1, upper=middle["median"] + 0.1)


def test_curves_draw_every_seed_and_mark_where_one_diverged() -> None:
    frame, middle = curves()
    ax = draw_curves(frame, middle, ax=Figure().subplots(), variant="a", baseline="base", colour="#0072B2", ceiling=0.2)
    thin = [line for line in ax.lines if line.get_linewidth() < 1 and line.get_marker() == "None"]
    assert len(thin) == 2
    crosses = [line for line in ax.lines if line.get_marker() == "x"]
    assert [float(np.asarray(c.get_ydata())[0]) for c in crosses] == [0.2]


@pytest.mark.parametrize("n", [1, 2, 4])
def test_panels_are_the_same_bytes_and_never_interpret_labels(n: int) -> None:
    frame, middle = curves()
    names = [r"$\frac{1}{$", "b", "c", "d"][:n]
    whole = pd.concat(
        [frame[frame["variant"] == "base"], *(frame[frame["variant"] == "a"].assign(variant=v) for v in names)]
    )
    sums = pd.concat(
        [middle[middle["variant"] == "base"], *(middle[middle["variant"] == "a"].assign(variant=v) for v in names)]
    )

    def draw() -> str:
        return panels(
            whole,
            name="loss",
            summaries=sums,
            variants=names,
            baseline="base",
            x_label="step",
            y_label="loss (nats)",
            reference=0.69,
            floor_at_zero=True,
        )

    first = draw()
    assert first == draw()
    assert r"$\frac{1}{$" in first
    assert "<metadata>" not in first


def test_a_single_epoch_is_drawn_as_points_that_can_be_seen() -> None:
    frame, middle = curves()
    frame, middle = (table[table["x"] == table["x"].min()] for table in (frame, middle))
    ax = draw_curves(
        frame, middle, ax=Figure().subplots(), variant="a", baseline="base", colour="#0072B2", ceiling=None
    )
    drawn = [line for line in ax.lines if np.size(line.get_xdata())]
    assert len(drawn) >= 3
    assert {line.get_marker() for line in drawn} <= {"o", "x"}
