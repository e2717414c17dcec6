"""What figures of differences from the baseline share: the axis with the margin, and the names of the rows."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from knockout.analysis.report.svg import columns_of, line_count, wrapped
from knockout.analysis.report.theme import BAND, SOFT, ZERO

LINEAR = 20
"""Differences beyond so many margins make the axis logarithmic beyond four."""
APART = 0.055
"""The least distance of two ticks, as a share of the axis."""
ROW = 0.42
"""Inches of a row with a short name."""
MINUS = "−"


def is_wide(ends: Sequence[float], margin: float) -> bool:
    """Whether these differences need an axis that is logarithmic beyond four margins."""
    return max((abs(x) for x in ends), default=0.0) > LINEAR * margin


def margin_axis(ax: Axes, ends: Sequence[float], *, margin: float | None, room: bool = False) -> None:
    """The axis of differences, which holds `ends`: the margin as a band and as ticks, and the line of no difference.

    `room`: for the marks of failed runs at its left end. Without a margin matplotlib chooses the axis.
    """
    ax.axvline(0.0, color=ZERO, linewidth=0.9, zorder=1)
    if margin is None:
        return
    low, high = min([-2 * margin, *ends]), max([2 * margin, *ends])
    ax.axvspan(-margin, margin, color=BAND, zorder=0)
    for sign in (-1, 1):
        ax.axvline(sign * margin, color=SOFT, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1)
    if not is_wide(ends, margin):
        pad = 0.04 * (high - low)
        left, right = low - (3 if room else 1) * pad, high + pad
        ax.set_xlim(left, right)
        step = next(k for k in (1, 2, 5, 10) if (right - left) / (k * margin) <= 11)
        steps = [k * step * margin for k in range(1, 12)]
    else:
        linear = 4 * margin
        ax.set_xscale("symlog", linthresh=linear, linscale=1.2)
        left = low * (2.2 if room else 1.15) if low < -linear else low - linear * (0.6 if room else 0.1)
        right = high * 1.15 if high > linear else high + linear * 0.1
        ax.set_xlim(left, right)
        decades = [m * 10.0**k for k in range(-4, 9) for m in (1, 2, 5)]
        steps = [2 * margin, linear, *(s for s in decades if s > 1.5 * linear)]
    # The margin and zero first: other ticks only where there is room between.
    wanted = [0.0, *(sign * s for s in (margin, *steps) for sign in (-1, 1))]
    ticks = _apart([t for t in wanted if left <= t <= right], ax)
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticks(ticks, [tick_text(t) for t in ticks])
    ax.text(0.0, 1.0, f"margin ±{margin:.3g}", transform=ax.get_xaxis_transform(), ha="center", va="bottom",
            fontsize=8.5, color=SOFT)  # fmt: skip


def tick_text(value: float) -> str:
    """A difference beside its tick, with its sign."""
    return "0" if value == 0 else f"{value:+.3g}".replace("-", MINUS)


def _apart(ticks: Sequence[float], ax: Axes) -> list[float]:
    """Those ticks, in order of importance, that stand apart on the axis; sorted."""
    place = ax.transAxes.inverted().transform
    kept: list[tuple[float, float]] = []
    for tick in ticks:
        at = float(place(ax.transData.transform((tick, 0.0)))[0])
        if all(abs(at - other) >= APART for _, other in kept):
            kept.append((tick, at))
    return sorted(tick for tick, _ in kept)


def row_names(ax: Axes, names: Sequence[str]) -> None:
    """The names of the rows at the left, whole, the first row at the top."""
    places, length = row_places(names), name_length(names)
    ax.set_yticks(places, [wrapped(name, length) for name in names])
    ax.set_ylim(places[-1] + _half(names[-1], length) + 0.1, -_half(names[0], length) - 0.1)


def name_length(names: Sequence[str]) -> int:
    """The columns that names of rows may take before they go on in another line."""
    return 28 if max((columns_of(name) for name in names), default=0) <= 56 else 44


def row_places(names: Sequence[str]) -> list[float]:
    """The height of each row's middle on the axis, 1 apart, and more where a name takes several lines."""
    length = name_length(names)
    halves = [_half(name, length) for name in names]
    apart = [a + b for a, b in pairwise(halves)]
    return list(accumulate(apart, initial=0.0))


def rows_height(names: Sequence[str]) -> float:
    """Inches of all rows."""
    length = name_length(names)
    return ROW * sum(2 * _half(name, length) for name in names)


def _half(name: str, length: int) -> float:
    """Half of what a row takes, in rows of one line."""
    return max(1.0, (0.16 * line_count(wrapped(name, length)) + 0.08) / ROW) / 2
