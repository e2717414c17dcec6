"""Metrics: what is measured of a run, in which unit it is displayed, and which way is better."""

import math
import re
from dataclasses import dataclass
from typing import Literal

from knockout.analysis.stats.numeric import ROUNDING

Better = Literal["higher", "lower"]

SHARES = frozenset({"accuracy", "acc", "f1", "precision", "recall", "auc", "auroc"})
"""Words in the name of a metric that is a share from 0 to 1, and of which higher is better."""

HIGHER = frozenset({"score", "bleu", "rouge", "reward", "return", "r2", "map", "mrr", "ndcg", "psnr", "ssim"})

LOWER = frozenset(
    {"loss", "logloss", "nll", "perplexity", "ppl", "error", "err", "wer", "cer", "mae", "mape", "mse", "rmse"}
    | {"brier", "bpc", "bpb", "fid", "eer", "ece", "entropy", "ce", "regret"}
)
"""Words in the name of a metric of which lower is better."""

OF_A_METRIC = frozenset(
    {"drop", "dropped", "decrease", "decline", "degradation", "deterioration", "reduction", "reduced", "decreased"}
    | {"improvement", "improved", "gain", "gains", "increase", "increased", "growth", "lift", "saving", "savings"}
    | {"gap", "diff", "difference", "delta", "change", "ratio", "disparity", "vs", "versus", "penalty"}
    | {"std", "stdev", "stddev", "sd", "var", "variance", "sem", "stderr", "cv", "iqr", "range", "spread", "deviation"}
    | {"neg", "negative", "negated", "minus", "inverse", "inverted", "inv", "reciprocal", "complement", "opposite"}
    | {"threshold", "weight", "coef", "coefficient", "sensitivity", "uncertainty", "instability"}
)
"""Words of names of which the metric's own direction says nothing: its drop, its gap, its spread, its negative."""

TIMES = frozenset(
    {"time", "epochs", "steps", "iterations", "batches", "samples", "seconds", "minutes", "hours", "days"}
)
"""Of "epochs_to_accuracy" fewer are better."""

MINUS = re.compile(r"(?:^|[/(])\s*[-\u2212]|(?:^|[/( ])1\s*[-\u2212]\s*\(?[a-z]")
"""Of "-loss" and "1 - accuracy"; "top-1-accuracy" is none."""

OPPOSITE = re.compile(
    r"(?<![a-z])neg_(?:log_loss|brier_score|max_error|(?:root_)?mean_squared_(?:log_)?error|mean_absolute_error"
    r"|mean_absolute_percentage_error|median_absolute_error|mean_(?:poisson|gamma)_deviance)(?![a-z])"
)
"""The scorers of scikit-learn that are negative losses (`sklearn.metrics.get_scorer_names`): higher is better."""


def words_of(name: str) -> set[str]:
    """The words that a metric's name is made of: "val/Accuracy_top1" of "val", "accuracy" and "top1"."""
    return set(re.findall(r"[a-z]+\d*", name.lower()))


def better_by_name(name: str) -> Better | None:
    """Which way is better, where the name says it; `None` where it says nothing, or two things.

    "neg_log_loss" is a scorer of scikit-learn. "accuracy_drop", "acc_gap", "score_std" and "loss_improvement" name a
    metric, and something of it that may be better the other way.
    """
    rest, opposite = OPPOSITE.subn("", name.lower())
    words = words_of(rest)
    if words & OF_A_METRIC or MINUS.search(rest) or (words & {"to", "until"} and words & TIMES):
        return None
    if opposite:
        return None if words & (SHARES | HIGHER | LOWER) else "higher"
    higher, lower = bool(words & (SHARES | HIGHER)), bool(words & LOWER)
    return None if higher == lower else "higher" if higher else "lower"


def seen_by_name(name: str) -> str:
    """What to say of a metric that is not measured on test data, by its name; else nothing."""
    words = words_of(name)
    if "test" in words:
        return ""
    if words & {"val", "valid", "validation", "dev", "eval"}:
        return (
            f"{name} is measured on validation data, by its name. Where these chose the epoch or a setting, a verdict"
            " on it is on data that chose; one on a test metric is not."
        )
    if words & {"train", "training"}:
        return f"{name} is measured on training data, by its name: a verdict on it says nothing of other data."
    return ""


def is_share(name: str) -> bool:
    """Whether the name is that of a share from 0 to 1."""
    return bool(words_of(name) & SHARES) and better_by_name(name) == "higher"


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric. Values are stored as they were measured (counts of correct predictions stay whole numbers, so that
    ties hold: .825 - .775 is not .375 - .325 in floating point) and displayed in `unit`."""

    name: str
    unit: str
    """ "points" (hundredths of a share), "nats", or nothing"""
    scale: float
    """units displayed per unit stored: 100 / examples for a count, 100 for a share, 1 for anything else"""
    better: Better
    whole: bool
    """whether values are whole numbers"""
    digits: int = 2
    """decimals that are printed"""
    rounding: float = ROUNDING
    """how precise values are: differences below this share of the largest one are rounding"""

    @property
    def sign(self) -> int:
        """1 where higher is better, -1 where lower is."""
        return 1 if self.better == "higher" else -1

    def size(self, value: float) -> str:
        """A size in the metric's unit: "0.5 points", "1 point", "0.05 nats", "0.05"."""
        return sized(value, self.unit)


def sized(value: float, unit: str) -> str:
    """A size in a unit: "0.5 points", "1 point"."""
    return f"{value:g} {unit[:-1] if value == 1 and unit in ('points', 'nats') else unit}".rstrip()


def unit_of(name: str) -> str:
    """The unit of a metric that a plan may name."""
    return "nats" if name == "log_loss" else "points"


def counted(name: str, *, examples: int) -> Metric:
    """A count of correct predictions among so many test examples, displayed in points."""
    return Metric(name=name, unit="points", scale=100.0 / examples, better="higher", whole=True)


def share(name: str, *, better: Better = "higher") -> Metric:
    """A share from 0 to 1, displayed in points."""
    return Metric(name=name, unit="points", scale=100.0, better=better, whole=False)


def digits_for(margin: float) -> int:
    """Decimals to print in the metric's own unit: two more than the margin needs, and at most 12."""
    return min(2 + max(0, -math.floor(math.log10(margin))), 12)


def raw(name: str, *, better: Better, margin: float, unit: str = "") -> Metric:
    """Anything else, displayed as it is stored, with two digits more than the margin has."""
    return Metric(name=name, unit=unit, scale=1.0, better=better, whole=False, digits=digits_for(margin))
