import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from PIL import ImageFont

from knockout.analysis.report.figure_formats import asked_formats
from knockout.analysis.report.figures import PLOTS
from knockout.analysis.report.figures.differences import margin_axis
from knockout.analysis.report.figures.forest import MARKS, OTHER, draw_forest, forest, is_compressed
from knockout.analysis.report.figures.panels import (
    Curves,
    Scale,
    beyond,
    draw_beyond,
    draw_curves,
    drawn_rows,
    panels,
    panels_caption,
)
from knockout.analysis.report.svg import colours, columns_of, seed_looks, wrapped
from knockout.analysis.report.tables import forest_seed_table, forest_table
from knockout.analysis.report.theme import BASELINE_COLOUR, PALETTE, themed
from knockout.analysis.report.write import write_report
from knockout.errors import UserError
from tests.analysis.conftest import BuildStudy
from tests.analysis.inference.test_contrasts import BASE, Cell, judged

SHIFTED: list[Cell] = [b - 2000 for b in BASE if isinstance(b, int)]


def tables(correct: Mapping[str, Sequence[Cell]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    found = judged(correct)
    return forest_table(found), forest_seed_table(found)


DARK = "#14181d"
# Machado, Oliveira & Fernandes 2009, severity 1.0, of linear RGB.
PROTANOPIA = ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998))
DEUTERANOPIA = ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881))
TO_XYZ = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG 2.2."""
    light, dark = sorted((float(linear(c) @ TO_XYZ[1]) for c in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear RGB, D65."""
    x, y, z = np.array(TO_XYZ) @ rgb / np.array([0.95047, 1.0, 1.08883])
    fx, fy, fz = (math.cbrt(v) if v > 216 / 24389 else (24389 / 27 * v + 16) / 116 for v in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


def test_the_palette_is_seen_on_both_pages() -> None:
    assert len(set(PALETTE)) == len(PALETTE) >= 14
    marks = [m.colour for m in (*MARKS.values(), OTHER)]
    for colour in (*PALETTE, BASELINE_COLOUR, *marks):
        assert contrast(colour, "#FFFFFF") >= 3, colour
        assert contrast(colour, DARK) >= 3, colour
    assert len(set(colours([f"v{i}" for i in range(14)]).values())) == 14


@pytest.mark.parametrize("matrix", [PROTANOPIA, DEUTERANOPIA])
def test_neighbours_differ_for_colour_blind_readers(matrix: tuple[tuple[float, ...], ...]) -> None:
    seen = [lab(np.clip(np.array(matrix) @ linear(c), 0, 1)) for c in PALETTE]
    for i, one in enumerate(seen):
        assert float(np.linalg.norm(one - seen[(i + 1) % len(seen)])) >= 15, PALETTE[i]


def test_each_verdict_has_its_own_shape() -> None:
    marks = (*MARKS.values(), OTHER)
    assert len({m.shape for m in marks}) == len({m.colour for m in marks}) == len(marks)


def test_every_figure_is_listed_once() -> None:
    names = [plot.name for plot in PLOTS]
    assert len(set(names)) == len(names)
    assert {"forest", "examples", "loss_curves", "validation_curves"} < set(names)


def test_forest_draws_what_the_frame_says() -> None:
    frame, seeds = tables({"base": BASE, "a": [b + 7 for b in BASE if isinstance(b, int)], "b": ["dead", *BASE[1:]]})
    ax = draw_forest(frame, seeds, ax=Figure().subplots(), margin=0.5, label="difference in accuracy")
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]
    assert [t.get_text() for t in ax.texts] == ["margin ±0.5", "negligible", "inconclusive; 1 failed"]
    means = [line for line in ax.lines if line.get_markersize() == 6.5]
    assert [float(np.asarray(d.get_xdata())[0]) for d in means] == pytest.approx(list(frame["difference"]))
    assert [d.get_marker() for d in means] == ["s", "o"]
    assert [d.get_markerfacecolor() != d.get_color() for d in means] == [False, True]  # hollow: a run failed
    dots = [line for line in ax.lines if line.get_markersize() == 3.8]
    assert len(dots) == 15
    assert len({d.get_marker() for d in dots[:8]}) == 8
    assert [d.get_marker() for d in dots[8:]] == [d.get_marker() for d in dots[1:8]]  # one shape per seed


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
    text = forest(frame, seeds, margin=0.5, label="difference in accuracy").svg()
    assert "incomplete: 1 of 3" in text


@settings(max_examples=40, deadline=None)
@given(
    margin=st.floats(min_value=0.01, max_value=50),
    sizes=st.lists(st.floats(min_value=-60, max_value=60), min_size=1, max_size=5),
)
def test_the_margin_has_ticks_and_ticks_stand_apart(margin: float, sizes: list[float]) -> None:
    ax = Figure().subplots()
    ends = [s * margin for s in sizes]
    margin_axis(ax, ends, margin=margin)
    left, right = ax.get_xlim()
    assert left <= min(ends) <= max(ends) <= right
    ticks = [float(t) for t in ax.get_xticks()]
    assert 0.0 in ticks
    if (right - left) / margin < 15 and ax.get_xscale() == "linear":
        assert {-1.0, 1.0} <= {round(t / margin, 6) for t in ticks}
    places = sorted(float(ax.transAxes.inverted().transform(ax.transData.transform((t, 0)))[0]) for t in ticks)
    assert all(b - a > 0.05 for a, b in pairwise(places))


@given(st.text(max_size=200), st.integers(min_value=4, max_value=40))
def test_wrapping_loses_no_character_and_no_line_is_too_long(text: str, length: int) -> None:
    lines = wrapped(text, length).split("\n")
    assert all(columns_of(line) <= length for line in lines)
    if text.isprintable():
        assert re.sub(r"\s", "", "".join(lines)) == re.sub(r"\s", "", text)


FONT = ImageFont.truetype(mpl.get_data_path() + "/fonts/ttf/DejaVuSans.ttf", 100)


def labels_of(svg: str) -> list[tuple[str, float, float, float]]:
    """Text, left and right end (wide characters: 1 em; others as Pillow measures them), and baseline of every label."""
    root = ElementTree.fromstring(svg)
    found: list[tuple[str, float, float, float]] = []

    def walk(node: ElementTree.Element, moves: list[tuple[float, float]]) -> None:
        for child in node:
            transform = child.get("transform", "")
            if child.tag.endswith("}text"):
                style, text = child.get("style", ""), child.text or ""
                size = re.search(r"([0-9.]+)px", style)
                assert size, style
                assert float(size[1]) >= 8, (text, style)
                if "rotate(-90" in transform or (not child.get("x") and not transform):
                    continue
                shift = re.search(r"translate\(([-0-9.]+) ([-0-9.]+)\)", transform)
                x, y = (
                    (float(shift[1]), float(shift[2]))
                    if shift
                    else (float(child.get("x", 0)), float(child.get("y", 0)))
                )
                wide = columns_of(text) - len(text)
                narrow = "".join(c for c in text if columns_of(c) == 1)
                width = float(size[1]) * (wide + FONT.getlength(narrow) / FONT.size)
                anchor = re.search(r"text-anchor: (\w+)", style)
                start = {"end": x - width, "middle": x - width / 2}.get(anchor[1] if anchor else "", x)
                found.append((text, start, start + width, y))
            walk(child, moves)

    walk(root, [])
    return found


@pytest.mark.parametrize("name", ["short", "v" * 200, "变体" * 60, "a_long_name_of_a_variant_" * 8])
def test_every_label_is_inside_the_forest_and_no_name_is_cut(name: str) -> None:
    frame, seeds = tables({"base": BASE, name: SHIFTED, "b": ["dead", *BASE[1:]]})
    svg = forest(frame, seeds, margin=0.5, label="difference in accuracy").svg("A title", "What it shows")
    root = ElementTree.fromstring(svg)
    _, _, width, height = (float(n) for n in root.attrib["viewBox"].split())
    labels = labels_of(svg)
    assert len(labels) > 5
    for text, left, right, y in labels:
        assert -0.5 <= left <= right <= width + 0.5, text
        assert 0 <= y <= height, text
    assert name in "".join(text for text, *_ in labels)


def test_a_screen_reader_hears_title_and_description_and_ids_are_the_figures_own() -> None:
    frame, seeds = tables({"base": BASE, '</title><script>alert("x")</script>': list(BASE)})
    drawing = forest(frame, seeds, margin=0.5, label="difference in accuracy")
    root = ElementTree.fromstring(drawing.svg("<b>Title</b>", "said & done"))
    assert root.get("role") == "img"
    ids = str(root.get("aria-labelledby")).split()
    said = {node.get("id"): node.text for node in root}
    assert [said[i] for i in ids] == ["<b>Title</b>", "said & done"]
    assert all(str(node.get("id")).startswith("forest-") for node in root.iter() if node.get("id"))
    assert not [node for node in root.iter() if node.tag.endswith("script")]


def test_the_page_has_variables_for_neutral_colours_and_names_stay() -> None:
    name = 'style="fill: #222222"'
    frame, seeds = tables({"base": BASE, name: list(BASE)})
    svg = forest(frame, seeds, margin=0.5, label="difference in accuracy").svg("T", "D")
    assert "var(" not in svg
    page = themed(svg)
    for variable in ("ink", "soft", "line", "band", "paper"):
        assert f"var(--fig-{variable}, #" in page, variable
    assert name in "".join(ElementTree.fromstring(page).itertext())
    assert "min-width: " in page.split(">")[0]


def curves(n: int = 1, *, points: int = 5) -> Curves:
    names = ["base", r"$\frac{1}{$", "b", "c", "d"][: n + 1]
    rows = [
        {
            "variant": v,
            "seed": s,
            "x": x,
            "value": 1.0 / x + s / 10,
            "status": "diverged" if (v != "base" and s) else "finished",
        }
        for v in names
        for s in range(2)
        for x in range(1, points + 1)
    ]
    frame = pd.DataFrame(rows)
    middle = frame.groupby(["variant", "x"])["value"].median().reset_index(name="median")
    middle = middle.assign(lower=middle["median"] - 0.1, upper=middle["median"] + 0.1)
    ended = pd.DataFrame([{"variant": v, "seed": 1, "x": float(points)} for v in names[1:]])
    return Curves(runs=frame, summary=middle, baseline="base", seeds=[0, 1], ended=ended, beside=middle)


SCALE = Scale(x_label="step", y_label="loss (nats)", low=0.0, high=0.25, reference=0.2)


def test_curves_draw_every_seed_and_mark_what_is_cut_and_where_one_diverged() -> None:
    of = curves()
    arm = of.runs["variant"].iloc[-1]
    own = of.runs[of.runs["variant"] == arm]
    ax = draw_curves(of, ax=Figure().subplots(), arm=arm, colour="#0072B2", scale=SCALE, looks=seed_looks(of.seeds))
    draw_beyond(own, ax=ax, colour="#0072B2", scale=SCALE)
    drawn = [c for c in ax.collections if len(c.get_paths()) == 2 and np.max(c.get_linewidth()) < 0.6]
    assert len(drawn) == 1
    assert [list(map(float, np.asarray(c.get_ydata()))) for c in ax.lines if c.get_marker() == "x"] == [[0.25]]
    triangles = [line for line in ax.lines if line.get_marker() == "^"]
    cut = own[(own["value"] > 0.25) & ~((own["seed"] == 1) & (own["x"] == 5))]
    assert [sorted(map(float, np.asarray(t.get_xdata()))) for t in triangles] == [sorted(set(cut["x"]))]
    rug = [line for line in ax.lines if line.get_marker() == "|"]
    assert [list(map(float, np.asarray(r.get_xdata()))) for r in rug] == [[5.0]]


def test_the_caption_counts_what_lies_beyond() -> None:
    of = curves()
    count = sum(float(v) > SCALE.high or float(v) < SCALE.low for v in of.runs["value"])
    assert beyond(of, SCALE) == count > 1
    assert f"{count} points lie beyond the axis" in panels_caption(of, SCALE, seeds=2)
    whole = Scale(x_label="", y_label="", low=0.0, high=99.0)
    assert "beyond" not in panels_caption(of, whole, seeds=2)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_panels_are_the_same_bytes_and_never_interpret_labels(n: int) -> None:
    names = [r"$\frac{1}{$", "b", "c", "d"][:n]
    drawing = panels(curves(n), names, name="loss", scale=SCALE)
    first = drawing.svg()
    assert first == drawing.svg()
    assert r"$\frac{1}{$" in first
    assert "base (baseline)" in first
    assert "<metadata>" not in first
    if n > 1:
        return
    for form in ("pdf", "png"):
        assert drawing.render(form) == drawing.render(form)
    pdf = drawing.render("pdf")
    assert b"CreationDate" not in pdf
    assert b"/FontFile2" in pdf  # the font as TrueType, in the file
    assert b"Software" not in drawing.render("png")


@settings(max_examples=15, deadline=None)
@given(runs=st.sampled_from([1, 7, 40]), points=st.integers(1, 100), log=st.booleans())
def test_a_thinned_run_keeps_its_ends_and_its_order(runs: int, points: int, log: bool) -> None:
    frame = pd.DataFrame(
        {"variant": "a", "seed": np.repeat(np.arange(50 * runs), points), "x": np.tile(np.arange(points), 50 * runs)}
    )
    kept = drawn_rows(frame, log=log)
    assert kept.index.is_monotonic_increasing
    assert len(kept) <= max(38_000, 20 * 50 * runs)
    ends = kept.groupby("seed")["x"].agg(["min", "max"])
    assert set(ends["min"]) == {0}
    assert set(ends["max"]) == {points - 1}


def test_a_single_epoch_is_drawn_as_points_that_can_be_seen() -> None:
    of = curves(points=1)
    arm = of.runs["variant"].iloc[-1]
    ax = draw_curves(of, ax=Figure().subplots(), arm=arm, colour="#0072B2", scale=SCALE, looks=seed_looks(of.seeds))
    assert {"o", seed_looks([0, 1])[1].marker} <= {line.get_marker() for line in ax.lines}


@pytest.mark.long
def test_formats_come_and_go(build_study: BuildStudy) -> None:
    root: Path = build_study({"baseline": [300, 310], "heads_1": [290, 288]})
    report = write_report(root, formats=("pdf", "png"))
    names = {p.stem for p in (root / "figures").glob("*.svg")}
    for form, start in (("pdf", b"%PDF"), ("png", b"\x89PNG")):
        files = list((root / "figures").glob(f"*.{form}"))
        assert {p.stem for p in files} == names
        assert all(p.read_bytes().startswith(start) for p in files)
        assert all(f"figures/{p.name}" in report.paths for p in files)
    (root / "figures" / "mine.pdf").write_bytes(b"own")
    write_report(root, formats=("png",))
    assert [p.name for p in (root / "figures").glob("*.pdf")] == ["mine.pdf"]
    assert len(list((root / "figures").glob("*.png"))) == len(names)


def test_an_unknown_format_is_named_with_those_there_are() -> None:
    assert asked_formats(["png", "pdf", "png"]) == ("svg", "pdf", "png")
    with pytest.raises(UserError, match="'eps': the formats are svg, pdf, png"):
        asked_formats(["eps"])
