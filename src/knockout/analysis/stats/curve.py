"""The curve of one run: what its trainer logged while it trained, as arrays."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class RunCurve:
    """One run's curve. Arrays of one kind have one length; `None` where a column was not logged."""

    variant: str
    seed: int | str
    status: str
    """as in a record: finished, diverged, ..."""
    dead: bool
    """finished, and learned nothing"""
    step: Array
    """optimiser steps, from 1"""
    loss: Array
    """training loss of the step's batch, nats; NaN or infinite where it was not finite"""
    grad_norm: Array | None = None
    """before clipping"""
    learning_rate: Array | None = None
    steps: int
    """T: the planned steps of the run"""
    every: int = 1
    """1 where every step is logged; else the distance of two points, in steps"""
    probe_step: Array | None = None
    """steps at which the probe was evaluated, 0 for the initial weights"""
    probe_loss: Array | None = None
    """nats per example, in evaluation mode"""
    probe_accuracy: Array | None = None
    """0 to 1"""
    layers: pd.DataFrame | None = None
    """columns step, quantity, layer, value, as in layers.parquet"""
    clip_norm: float | None = None
    """the largest gradient norm that the optimiser applies; `None` where nothing is clipped or it is not known"""

    @property
    def failed(self) -> bool:
        """Whether the run diverged or is dead."""
        return self.dead or self.status == "diverged"


def finite_part(values: Array) -> Array:
    """The values before the first that is not finite."""
    bad = np.flatnonzero(~np.isfinite(values))
    return values[: bad[0]] if len(bad) else values
