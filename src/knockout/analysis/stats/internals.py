"""Instability on a fixed probe, and inside the network: layers and attention. One number per run.

`None`: the run did not log what is needed. NaN: the probe's loss never fell enough for a ratio to mean anything; the
run ranks as failed. analysis/RULES.md, "Instability of loss curves", has the definitions with their sources.
"""

import math

import numpy as np
import pandas as pd

from knockout.analysis.stats.curve import Array, finite_part

IN_A_ROW = 3
"""So many probes in a row have to reach the threshold."""

LAST = 0.05
"""The share of steps at the end whose mean counts as the end."""


def total_variation(probe_loss: Array | None, *, least: float) -> float | None:
    """The sum of |P_(j+1) - P_j| over P_0 - min P: 1 for a loss that only falls. No unit.

    NaN where P_0 - min P is under `least` (nats; .05 of the label entropy).
    """
    values = _probe(probe_loss)
    if values is None:
        return None
    descent = float(values[0] - values.min())
    return float(np.abs(np.diff(values)).sum()) / descent if descent > 0 and descent >= least else math.nan


def plateau(probe_loss: Array | None, *, entropy: float | None) -> float | None:
    """The lowest probe loss over the entropy of the training labels: above .98 the curve is a flat line, whatever its
    roughness. No unit. `None` where the entropy is not known."""
    values = _probe(probe_loss)
    return None if values is None or not entropy else float(values.min()) / entropy


def area(probe_loss: Array | None) -> float | None:
    """The mean probe loss over the run: the area under the curve, per step. Nats."""
    values = _probe(probe_loss)
    return None if values is None else float(values.mean())


def blow_up(smooth: Array | None, probe_loss: Array | None, *, steps: int, every: int = 1) -> float | None:
    """The mean of the smoothed loss over the last 5 % of the steps over P_0: above 1.2 the run blew up without
    diverging. No unit. `None` for a curve that ends before."""
    values = _probe(probe_loss)
    planned = steps // every
    if smooth is None or values is None or len(smooth) < planned or values[0] <= 0:
        return None
    return float(smooth[-max(1, round(LAST * planned)) :].mean()) / float(values[0])


def time_to_threshold(probe_step: Array | None, probe_accuracy: Array | None, *, threshold: float) -> float | None:
    """The step of the first probe with an accuracy of at least `threshold` three times running; infinite where that
    never happened. `None` without a probe."""
    if probe_step is None or probe_accuracy is None or not len(probe_step):
        return None
    reached = probe_accuracy >= threshold
    if len(reached) < IN_A_ROW:
        return math.inf
    running = np.lib.stride_tricks.sliding_window_view(reached, IN_A_ROW).all(axis=1)
    return float(probe_step[int(running.argmax())]) if running.any() else math.inf


def depth_ratio(layers: pd.DataFrame | None, at: int) -> float | None:
    """The gradient norm of the last layer's FFN output weight over the first layer's (Xiong et al. 2020). No unit.

    `at`: 0 for the first step that was logged, -1 for the last, else a step: the nearest logged one from there on.
    `None` with one layer, and where the first layer's gradient is 0.
    """
    values = _at(layers, "ffn_output_gradient", at)
    return None if values is None or len(values) < 2 or values[0] <= 0 else float(values[-1] / values[0])


def attention_logit(layers: pd.DataFrame | None, *, initial: bool) -> float | None:
    """The largest absolute attention logit over layers: at the first logged step, or over the run (Dehghani et al.
    2023). No unit."""
    values = _at(layers, "attention_logit", 0) if initial else _of(layers, "attention_logit")[2]
    return None if values is None or not len(values) else float(values.max())


def attention_entropy(layers: pd.DataFrame | None) -> float | None:
    """The lowest mean entropy of attention rows over the layers, after the last step, as a share of the largest there
    is (the logarithm of the real keys). 0 to 1; towards 0 attention collapses (Zhai et al. 2023)."""
    values = _at(layers, "attention_entropy", -1)
    return None if values is None else float(values.min())


def attention_peak(layers: pd.DataFrame | None) -> float | None:
    """The largest share of attention rows whose largest weight is over .9, over the layers, after the last step."""
    values = _at(layers, "attention_peak", -1)
    return None if values is None else float(values.max())


def rank_residual(layers: pd.DataFrame | None, at: int) -> float | None:
    """||X - 1 mean(X)||_F / ||X||_F of the last layer's output: 0 where all tokens of a text have one vector, the
    collapse of Dong et al. 2021. 0 to 1. `at` as in `depth_ratio`."""
    values = _at(layers, "rank_residual", at)
    return None if values is None else float(values[-1])


def _probe(probe_loss: Array | None) -> Array | None:
    values = None if probe_loss is None else finite_part(probe_loss)
    return None if values is None or len(values) < IN_A_ROW else values


def _of(layers: pd.DataFrame | None, quantity: str) -> tuple[Array, Array, Array]:
    """Step, layer and value of the rows of one quantity with a finite value, of the encoder's layers, by layer."""
    if layers is None:
        return np.empty(0), np.empty(0), np.empty(0)
    step, layer, value = (layers[name].to_numpy(dtype=float) for name in ("step", "layer", "value"))
    own = (layers["quantity"].to_numpy() == quantity) & (layer >= 0) & np.isfinite(value)
    step, layer, value = step[own], layer[own], value[own]
    order = np.argsort(layer, kind="stable")
    return step[order], layer[order], value[order]


def _at(layers: pd.DataFrame | None, quantity: str, at: int) -> Array | None:
    """The values of a quantity at one logged step, by layer; `None` where it was not logged from there on."""
    step, _, value = _of(layers, quantity)
    later = step[step >= at]
    if not len(later):
        return None
    here = float(step.max()) if at < 0 else float(later.min())
    return np.asarray(value[step == here], dtype=float)
