"""Interaction plots: the mean of every cell of a factorial, with lines that are parallel where nothing interacts."""

import itertools

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from knockout.analysis.inference.comparison import Comparison
from knockout.analysis.inference.interactions import Crossing, sized_effect
from knockout.analysis.inference.pairs import Seed
from knockout.analysis.report.figures.plot import Frames, Plot, Source
from knockout.analysis.report.figures.small_multiples import DASHED, NOTE_COLOUR, panel_title
from knockout.analysis.report.sentences import header, title
from knockout.analysis.report.svg import PALETTE, Drawing, columns_of, label_text, line_count, plain_axes, wrapped

NAME = "interaction"
MOST = 12
"""The most panels; of k factors a crossing has 2^(k - 2)."""


def cell_means(comparison: Comparison) -> pd.DataFrame:
    """The mean of the metric in every cell of every factorial, over the seeds at which all its cells came through.

    Columns: factorial, axes (the variants that change one factor each), cell (levels, such as "01"), variant, mean,
    low, high (95 % t interval), n. Rows in the order of the levels, the last factor fastest.
    """
    rows = []
    for crossing in comparison.crossings:
        cells = crossing.factorial.cells
        values = {place: _values(comparison, name) for place, name in cells.items()}
        whole = [s for s in comparison.seeds if all(s in own for own in values.values())]
        for place in itertools.product((0, 1), repeat=len(crossing.factorial.factors)):
            made = sized_effect([values[place][s] for s in whole], comparison.metric.scale) if whole else None
            if made is None:
                continue
            row = {
                "factorial": _name(crossing),
                "axes": _axes(crossing),
                "cell": "".join(map(str, place)),
                "variant": cells[place],
            }
            rows.append({**row, "mean": made.difference, "low": made.low, "high": made.high, "n": made.n})
    columns = ["factorial", "axes", "cell", "variant", "mean", "low", "high", "n"]
    return pd.DataFrame(rows, columns=columns).astype({"mean": float, "low": float, "high": float})


def _values(comparison: Comparison, arm: str) -> dict[Seed, float]:
    """seed -> the arm's value as the metric stores it, where its run and the baseline's came through."""
    if arm == comparison.baseline:
        pairs = [p for c in comparison.contrasts for p in c.pairs]
        return {p.seed: p.baseline for p in pairs if p.state == "complete" and p.baseline is not None}
    pairs = list(comparison[arm].pairs)
    return {p.seed: p.variant for p in pairs if p.state == "complete" and p.variant is not None}


def _name(crossing: Crossing) -> str:
    return " x ".join(crossing.factorial.factors)


def _axes(crossing: Crossing) -> str:
    return " x ".join(crossing.factorial.axes)


def _frames(source: Source) -> Frames:
    frame = cell_means(source.comparison)
    return {NAME: frame} if len(frame) else {}


def draw_interaction(frame: pd.DataFrame, *, ax: Axes, first: str, second: str) -> Axes:
    """One panel: the first factor across, one line for each level of the second. `frame`: cell, mean, low, high.

    Only the first two levels of a cell are read; the frame holds four cells.
    """
    for level, colour, line, mark in (("0", PALETTE[0], "-", "o"), ("1", PALETTE[1], DASHED, "D")):
        own = frame[frame["cell"].str[1] == level].sort_values("cell")
        x = [int(cell[0]) + (0.03 if level == "1" else -0.03) for cell in own["cell"]]
        label = wrapped(f"{second} {'changed' if level == '1' else 'as baseline'}", 40)
        ax.plot(x, own["mean"], color=colour, linestyle=line, marker=mark, markersize=5, linewidth=1.5, label=label)
        for place, low, high in zip(x, own["low"], own["high"], strict=True):
            if pd.notna(low):
                ax.plot([place, place], [low, high], color=colour, linewidth=1.1)
    ax.set_xticks([0, 1], ["as baseline", "changed"])
    ax.set_xlim(-0.3, 1.3)
    ax.set_xlabel(wrapped(first, 40), fontsize=9)
    ax.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.24), handlelength=2.6)
    plain_axes(ax)
    return ax


def _plan(source: Source, frame: pd.DataFrame) -> list[tuple[Crossing, str, pd.DataFrame]]:
    """The panels: a crossing, the levels of its factors from the third on, and the four cells."""
    made = []
    for crossing in source.comparison.crossings:
        own = frame[frame["axes"] == _axes(crossing)]
        for rest in sorted(set(own["cell"].str[2:])):
            made.append((crossing, rest, own[own["cell"].str[2:] == rest]))
    return made


def _svg(source: Source, frames: Frames) -> Drawing:
    shown = _plan(source, frames[NAME])[:MOST]
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    names = [_name(crossing) for crossing in source.comparison.crossings]
    longest = max(columns_of(" x ".join(crossing.factorial.factors)) for crossing, _, _ in shown)
    height = 3.0 + 0.16 * 4 * max(0, longest // 34 - 1)  # a name stands in title, note, legend and axis

    def draw(canvas: Canvas) -> None:
        grid = canvas.subplots(rows, columns, sharey=True, squeeze=False)
        for i, ax in enumerate(grid.flat):
            if i >= len(shown):
                ax.set_visible(False)
                continue
            crossing, rest, cells = shown[i]
            factors = crossing.factorial.factors
            draw_interaction(cells, ax=ax, first=factors[0], second=factors[1])
            note = _note(crossing, rest, repeated=names.count(_name(crossing)) > 1)
            ax.set_title(panel_title(f"{factors[0]} x {factors[1]}"), fontsize=9.5, loc="left", color="#222222",
                         pad=6 + 11 * (line_count(note) if note else 0))  # fmt: skip
            if note:
                ax.text(0.0, 1.03, note, transform=ax.transAxes, fontsize=8, color=NOTE_COLOUR, va="bottom")
        canvas.supylabel(label_text(header(source.comparison.metric), 60), fontsize=9.5)

    return Drawing(draw, name=NAME, width=1.0 + 2.75 * max(columns, 2) if columns > 1 else 4.6, height=height * rows)


def _note(crossing: Crossing, rest: str, *, repeated: bool) -> str:
    """The levels of the factors from the third on; and all levels, where other panels have the same factors."""
    named = [
        f"{factor} {'changed' if level == '1' else 'as baseline'}"
        for factor, level in zip(crossing.factorial.factors[2:], rest, strict=True)
    ]
    return "\n".join(wrapped(line, 44) for line in ([_axes(crossing)] if repeated else []) + named)


def _caption(source: Source, frames: Frames) -> str:
    frame = frames[NAME]
    panels = _plan(source, frame)
    n = f"{frame['n'].max()}" if frame["n"].min() == frame["n"].max() else f"{frame['n'].min()} to {frame['n'].max()}"
    lines = [
        f"Mean {title(source.comparison.metric)} of each cell, over the n = {n} seeds at which no cell failed.",
        "Vertical lines: 95 % confidence intervals (t) of each cell alone. Parallel lines: no interaction.",
        "The effects are paired by seed, so their own intervals, in the table of effects, are usually far narrower.",
    ]
    if len(panels) > MOST:
        lines.append(f"The first {MOST} of {len(panels)} panels; the data have all.")
    lost = [_axes(c) for c in source.comparison.crossings if _axes(c) not in set(frame["axes"])]
    lines += [f"No seed at which all cells came through: {', '.join(lost)}."] if lost else []
    return " ".join(lines)


PLOT = Plot(name=NAME, title=lambda _: "Interactions", frames=_frames, draw=_svg, caption=_caption)
