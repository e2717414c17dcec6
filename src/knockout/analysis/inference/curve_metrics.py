"""The measures of instability: one number per run each, which way is worse, and what a run has to log for it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from knockout.analysis.stats import instability as curves
from knockout.analysis.stats import internals
from knockout.analysis.stats.curve import Array, RunCurve
from knockout.analysis.stats.instability import LEAST_DESCENT

DIGITS = 9
"""Significant digits of a value: losses are stored as float32, which has seven."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the measures of all runs share."""

    entropy: float
    """H: of the training labels, nats; where they are not known, the baseline's median first loss"""
    labels_known: bool

    @property
    def least(self) -> float:
        """The descent under which a ratio to it means nothing, in nats."""
        return LEAST_DESCENT * self.entropy


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A run's curve, with what several measures need."""

    curve: RunCurve
    smooth: Array | None
    excursions: curves.Excursions | None
    heights: Array | None
    """by how many robust sd each step is above its neighbours"""
    changes: curves.Changes | None
    excess: Array | None
    """the paired excess loss over the baseline's run of the same seed and the same batches"""
    setting: Setting


@dataclass(frozen=True, kw_only=True)
class CurveMetric:
    """One measure."""

    name: str
    title: str
    unit: str
    worse: Literal["higher", "lower"]
    ratio: bool
    """contrasts are ratios; else differences, as of shares that are often 0"""
    worst: tuple[str, ...]
    """which failed runs rank as the worst whatever they measured: "diverged", "dead", both or neither"""
    needs: str
    """what a run has to log"""
    of: Callable[[Prepared], float | None]
    against_zero: bool = False
    """measured against the baseline's run already: tested against 0"""
    tested: bool = True

    @property
    def sign(self) -> int:
        """1 where higher is worse."""
        return 1 if self.worse == "higher" else -1


CALM = ("diverged", "dead")
"""Of measures that a flat line would win."""

ENDED = ("diverged",)
"""Of measures that a dead run has like any other."""

PROBE = "a probe"
EVERY_STEP = "the loss of every step"
EVERY_GRADIENT = "the gradient norm of every step"
LAYERS = "quantities of layers"
BATCHES = "the loss of every step, on the same batches as the baseline"


def _spikes(deviations: float) -> Callable[[Prepared], float | None]:
    return lambda p: curves.spike_share(p.heights, deviations)


def _gradient_spikes(p: Prepared) -> float | None:
    c = p.curve
    if c.grad_norm is None:
        return None
    return curves.spike_share(curves.spike_heights(c.grad_norm, steps=c.steps, every=c.every), 5)


def _excursion(part: Literal["drawdown", "tail", "area"]) -> Callable[[Prepared], float | None]:
    return lambda p: None if p.excursions is None else float(getattr(p.excursions, part))


def _change(part: Literal["tail", "iqr"]) -> Callable[[Prepared], float | None]:
    return lambda p: None if p.changes is None else float(getattr(p.changes, part))


def _excess(part: Literal["early", "late", "sd"]) -> Callable[[Prepared], float | None]:
    def of(p: Prepared) -> float | None:
        c = p.curve
        own = p.excess
        if own is None or c.every > 1 or len(own) < (c.steps if part == "late" else curves.early_end(c.steps)):
            return None
        part_of = own[c.steps // 2 :] if part == "late" else own[: curves.early_end(c.steps)]
        if len(part_of) < 20:
            return None
        return float(part_of.std(ddof=1)) if part == "sd" else float(part_of.mean())

    return of


def _paired_jitter(p: Prepared) -> float | None:
    c = p.curve
    return None if p.excess is None else curves.paired_jitter(p.excess, steps=c.steps, every=c.every)


def _plateau(p: Prepared) -> float | None:
    return internals.plateau(p.curve.probe_loss, entropy=p.setting.entropy if p.setting.labels_known else None)


def _depth_ratio(at: int) -> Callable[[Prepared], float | None]:
    return lambda p: internals.depth_ratio(p.curve.layers, at)


def _rank_residual(at: int) -> Callable[[Prepared], float | None]:
    return lambda p: internals.rank_residual(p.curve.layers, at)


def _metric(
    name: str,
    title: str,
    of: Callable[[Prepared], float | None],
    needs: str,
    *,
    unit: str = "",
    worse: Literal["higher", "lower"] = "higher",
    ratio: bool = True,
    worst: tuple[str, ...] = ENDED,
    against_zero: bool = False,
    tested: bool = True,
) -> CurveMetric:
    return CurveMetric(
        name=name,
        title=title,
        unit=unit,
        worse=worse,
        ratio=ratio,
        worst=worst,
        needs=needs,
        of=of,
        against_zero=against_zero,
        tested=tested,
    )


METRICS: Mapping[str, CurveMetric] = {
    m.name: m
    for m in (
        _metric("spikes", "loss spikes (5 sd)", _spikes(5), EVERY_STEP, unit="share", ratio=False, worst=CALM),
        _metric("large_spikes", "loss spikes (7 sd)", _spikes(7), EVERY_STEP, unit="share", ratio=False, worst=CALM),
        _metric(
            "gradient_spikes",
            "gradient spikes (5 sd)",
            _gradient_spikes,
            EVERY_GRADIENT,
            unit="share",
            ratio=False,
            worst=CALM,
        ),
        _metric("drawdown", "drawdown", _excursion("drawdown"), "the loss", worst=CALM),
        _metric("drawdown_tail", "upper 5 % of the drawdown", _excursion("tail"), "the loss", worst=CALM),
        _metric("excursion_area", "excursion area", _excursion("area"), "the loss", worst=CALM),
        _metric(
            "total_variation",
            "total variation",
            lambda p: internals.total_variation(p.curve.probe_loss, least=p.setting.least),
            PROBE,
            worst=CALM,
        ),
        _metric("short_term_risk", "short-term risk", _change("tail"), EVERY_STEP, unit="nats", worst=CALM),
        _metric("short_term_iqr", "short-term IQR", _change("iqr"), EVERY_STEP, unit="nats", worst=CALM),
        _metric(
            "blow_up",
            "end over start",
            lambda p: internals.blow_up(p.smooth, p.curve.probe_loss, steps=p.curve.steps, every=p.curve.every),
            PROBE,
        ),
        _metric("plateau", "lowest probe loss / H", _plateau, f"{PROBE} and the training labels"),
        _metric("mean_probe_loss", "mean probe loss", lambda p: internals.area(p.curve.probe_loss), PROBE, unit="nats"),
        _metric(
            "excess_early",
            "early paired excess loss",
            _excess("early"),
            BATCHES,
            unit="nats",
            ratio=False,
            against_zero=True,
        ),
        _metric(
            "excess_late",
            "late paired excess loss",
            _excess("late"),
            BATCHES,
            unit="nats",
            ratio=False,
            against_zero=True,
        ),
        _metric("excess_sd", "sd of the early excess loss", _excess("sd"), BATCHES, unit="nats", tested=False),
        _metric(
            "early_peak",
            "early peak",
            lambda p: curves.early_peak(p.curve.loss, every=p.curve.every),
            EVERY_STEP,
        ),
        _metric(
            "early_jitter",
            "early jitter",
            lambda p: curves.early_jitter(p.curve.loss, steps=p.curve.steps, every=p.curve.every),
            EVERY_STEP,
            worst=CALM,
        ),
        _metric("excess_jitter", "early jitter of the excess loss", _paired_jitter, BATCHES, tested=False),
        _metric(
            "gradient_outliers",
            "gradient outliers",
            lambda p: curves.gradient_outliers(p.curve.grad_norm, every=p.curve.every),
            EVERY_GRADIENT,
        ),
        _metric(
            "early_gradient",
            "early gradient peak",
            lambda p: curves.early_gradient(p.curve.grad_norm, steps=p.curve.steps, every=p.curve.every),
            EVERY_GRADIENT,
        ),
        _metric(
            "clipped",
            "clipped steps",
            lambda p: curves.clipped_share(p.curve.grad_norm, p.curve.clip_norm, every=p.curve.every),
            f"{EVERY_GRADIENT}, and a norm at which it is clipped",
            unit="share",
            ratio=False,
        ),
        *(
            _metric(
                f"depth_ratio_{when}",
                f"depth gradient ratio {said}",
                _depth_ratio(at),
                f"{LAYERS} with ffn_output_gradient of two layers",
                worst=() if at == 0 else ENDED,
            )
            for when, said, at in (("init", "at step 1", 0), ("100", "at step 100", 100), ("end", "at the end", -1))
        ),
        _metric(
            "attention_logit_init",
            "largest attention logit at step 1",
            lambda p: internals.attention_logit(p.curve.layers, initial=True),
            f"{LAYERS} with attention_logit",
            worst=(),
        ),
        _metric(
            "attention_logit",
            "largest attention logit",
            lambda p: internals.attention_logit(p.curve.layers, initial=False),
            f"{LAYERS} with attention_logit",
        ),
        _metric(
            "attention_entropy",
            "attention entropy",
            lambda p: internals.attention_entropy(p.curve.layers),
            f"{LAYERS} with attention_entropy",
            unit="share",
            worse="lower",
        ),
        _metric(
            "attention_peak",
            "rows with a weight over .9",
            lambda p: internals.attention_peak(p.curve.layers),
            f"{LAYERS} with attention_peak",
            unit="share",
            ratio=False,
        ),
        *(
            _metric(
                f"rank_residual_{when}",
                f"rank residual {said}",
                _rank_residual(at),
                f"{LAYERS} with rank_residual",
                unit="share",
                worse="lower",
                worst=() if at == 0 else ENDED,
            )
            for when, said, at in (("init", "at step 1", 0), ("end", "at the end", -1))
        ),
    )
}
"""Every measure that is one number per run, in the order of reports."""


def measure(prepared: Prepared) -> dict[str, float]:
    """Name of each measure that the run allows -> its value; NaN where the run ranks as failed on it."""
    found = {name: metric.of(prepared) for name, metric in METRICS.items()}
    return {name: _rounded(value) for name, value in found.items() if value is not None}


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else math.nan


def prepare(curve: RunCurve, base: RunCurve | None, setting: Setting) -> Prepared:
    """What the measures need of a run. `base`: the baseline's run of the same seed, where both saw the same batches."""
    smooth = curves.smoothed(curve.loss, steps=curve.steps, every=curve.every)
    return Prepared(
        curve=curve,
        smooth=smooth,
        excursions=curves.excursions(smooth, least=setting.least),
        heights=curves.spike_heights(curve.loss, steps=curve.steps, every=curve.every),
        changes=curves.step_changes(curve.loss, every=curve.every),
        excess=None if base is None or base is curve else curves.excess(curve.loss, curve.step, base.loss, base.step),
        setting=setting,
    )
