"""One quantity of one run over its steps: restarts, steps in no order, the interval between points."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

Kind = Literal["as logged", "sorted", "restarted", "repeated"]

REGULAR = 0.9
"""The share of equal distances from which on a run logs at an interval; below it, points were sampled."""

FEW = 5
"""Points of which nobody can say at what interval they were logged: of a run that diverged at once."""

MANY = 20
"""Steps that go back more often than this, in a tenth of the rows, are in no order."""


class Repeated(ValueError):
    """Steps that stand more than once in a run, and are no restart; the text goes on after the run's name."""


@dataclass(frozen=True)
class Series:
    """Steps, and the value at each."""

    step: Floats
    value: Floats

    @staticmethod
    def empty() -> "Series":
        return Series(np.empty(0), np.empty(0))


def settled(step: Floats, value: Floats) -> tuple[Series, Kind, int]:
    """The points with steps that rise, how that came, and how many points were left out.

    Steps that go back are a restart: what was logged before, from that step on, gives way. TensorBoard shows restarts
    so (`purge_orphaned_data`). Steps in no order are sorted, where none stands twice.

    Raises `Repeated` where a later part repeats a whole run, where most steps stand twice, and where steps repeat in no
    order.
    """
    moves = np.diff(step)
    if (moves > 0).all():
        return Series(step, value), "as logged", 0
    if len(np.unique(step)) == len(step):
        order = np.argsort(step, kind="stable")
        return Series(step[order], value[order]), "sorted", 0
    backs = np.flatnonzero(moves < 0)
    twice = int((moves == 0).sum())
    if 2 * twice > len(np.unique(step)):
        raise Repeated("has most of its steps more than once")
    if len(backs) > max(MANY, len(step) / 10):
        raise Repeated("has steps in no order, and some more than once")
    starts, ends = [0, *(backs + 1)], [*(backs + 1), len(step)]
    for start, end in zip(starts[:-1], ends[:-1], strict=True):
        if step[end] <= step[start] and step[end - 1] >= step[-1]:
            raise Repeated(
                f"stands more than once: steps {step[start]:,.0f} to {step[end - 1]:,.0f}, then steps {step[end]:,.0f}"
                f" to {step[-1]:,.0f}"
            )
    later = np.minimum.accumulate(step[::-1])[::-1]
    keep = np.append(step[:-1] < later[1:], True)
    return Series(step[keep], value[keep]), "restarted" if len(backs) else "repeated", int((~keep).sum())


def interval(step: Floats) -> int:
    """The usual distance of two points in steps; 0 for fewer than five points.

    Points at no regular distance, as a tracker's sample of them, have their median distance, but at least 2.
    """
    if len(step) < FEW:
        return 0
    if is_regular(step):
        distances, counts = np.unique(np.diff(step), return_counts=True)
        return int(distances[counts.argmax()])
    return max(2, int(np.median(np.diff(step))))


def is_regular(step: Floats) -> bool:
    """Whether nearly all points have the same distance."""
    counts = np.unique(np.diff(step), return_counts=True)[1]
    return len(counts) == 0 or bool(counts.max() >= REGULAR * (len(step) - 1))


def thinned(series: Series, every: int, origin: float) -> Series:
    """The points at the steps `origin`, `origin` + `every`, ...; the last one stays, for it says how the run ended."""
    keep = (series.step - origin) % every == 0
    if len(keep) and not np.isfinite(series.value[-1]):
        keep[-1] = True
    return Series(series.step[keep], series.value[keep])
