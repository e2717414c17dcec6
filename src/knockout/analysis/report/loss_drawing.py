"""A small drawing of the training loss of each variant beside the baseline's, as plain SVG."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from knockout.analysis.report import curves
from knockout.analysis.report.blocks import Drawing
from knockout.analysis.results import Results

WIDTH, HEIGHT, EDGE = 560, 150, 6
POINTS = 60
"""The most points of a line."""


def loss_drawings(results: Results) -> dict[str, Drawing]:
    """variant -> the median training loss over its seeds, with the quartiles, beside the baseline's median.

    Variants without a curve have none.
    """
    every = curves.loss_curves(results)
    if every.empty:
        return {}
    of = {str(v): part for v, part in curves.summary(every).groupby("variant", sort=False)}
    base = of.get(results.baseline)
    if base is None:
        return {}
    return {v: _drawing(of[v], base) for v in results.variants if v in of and len(of[v]) > 1 and len(base) > 1}


def _drawing(own: pd.DataFrame, base: pd.DataFrame) -> Drawing:
    frames = [_thin(own), _thin(base)]
    x_end = max(float(f["x"].max()) for f in frames)
    values = np.concatenate([f[c].to_numpy(dtype=float) for f in frames for c in ("median", "lower", "upper")])
    low, high = float(np.min(values)), float(np.max(values))
    span = high - low or 1.0

    def points(x: NDArray[np.float64], y: NDArray[np.float64]) -> list[str]:
        across = EDGE + (WIDTH - 2 * EDGE) * x / x_end
        down = EDGE + (HEIGHT - 2 * EDGE) * (high - y) / span
        return [f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True)]

    def line(frame: pd.DataFrame, column: str) -> list[str]:
        return points(frame["x"].to_numpy(dtype=float), frame[column].to_numpy(dtype=float))

    thin, against = frames
    band = " ".join([*line(thin, "upper"), *reversed(line(thin, "lower"))])
    ends = (float(own["median"].iloc[-1]), float(base["median"].iloc[-1]))
    caption = (
        f"Training loss over {x_end:,.0f} steps, from {high:.3g} to {low:.3g} nats: the median over seeds with its"
        f" quartiles (solid), and the baseline's median (dashed). At the end {ends[0]:.3g} and {ends[1]:.3g} nats."
    )
    return Drawing(
        svg=(
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{caption}">'
            f'<polygon class="loss-band" points="{band}"/>'
            f"{_polyline('loss-base', line(against, 'median'))}{_polyline('loss-own', line(thin, 'median'))}</svg>"
        ),
        caption=caption,
    )


def _polyline(kind: str, points: Sequence[str]) -> str:
    return f'<polyline class="{kind}" points="{" ".join(points)}"/>'


def _thin(frame: pd.DataFrame) -> pd.DataFrame:
    """So many points at most, the first and the last among them."""
    if len(frame) <= POINTS:
        return frame
    return frame.iloc[np.unique(np.linspace(0, len(frame) - 1, POINTS).round().astype(int))]
