"""Dead runs: those that finished and learned nothing, by the plan's metric (analysis/RULES.md, step 2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knockout.analysis.stats.chance import (
    Against,
    chance_level,
    classes_against_constant,
    losses_against_constant,
    tail_of,
)
from knockout.plan import Plan

NAMES = {"accuracy": "accuracy", "macro_f1": "macro-F1", "log_loss": "log-loss"}


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What a run answered to the test examples."""

    label: NDArray[np.int32]
    predicted: NDArray[np.int32]
    losses: Mapping[str, Sequence[float]] | None
    """"sum" and "squares" of the losses (nats) over the examples of each class; `None` where they were not kept"""


def why_dead(
    row: Mapping[str, Any], answers: Answers | None, labels: Mapping[str, Sequence[int]], plan: Plan
) -> str | None:
    """Why a finished run is dead; empty where it is not, and `None` where that cannot be known.

    `row`: its status, and count, correct and accuracy of each split. `labels`: split -> how many examples each class
    has. Without the answers that the metric needs, the counts are judged by accuracy.
    """
    if row["status"] != "finished":
        return ""
    if answers is not None and len(answers.label):
        if plan.metric != "log_loss":
            against = classes_against_constant(
                answers.label,
                answers.predicted,
                plan.metric,
                standard_errors=plan.dead_standard_errors,
                draws=plan.draws,
                random_seed=plan.random_seed,
            )
            return _reason(against, plan)
        if answers.losses is not None:
            against = losses_against_constant(
                np.bincount(answers.label).tolist(),
                answers.losses["sum"],
                answers.losses["squares"],
                standard_errors=plan.dead_standard_errors,
            )
            return _reason(against, plan)
    return _by_counts(row, labels, plan.dead_standard_errors)


def _reason(against: Against, plan: Plan) -> str:
    if not against.dead:
        return ""
    name = NAMES[plan.metric]
    shown = "{:.4f}" if plan.metric == "log_loss" else "{:.2%}"
    got, constant = shown.format(against.value), shown.format(against.constant)
    if not against.ahead:
        return f"test {name} {got} is no better than the constant answer's {constant}"
    return (
        f"test {name} {got} is better than the constant answer's {constant} by no more than chance"
        f" (p > {tail_of(plan.dead_standard_errors):.2g}, {plan.dead_standard_errors:g} standard errors)"
    )


def _by_counts(row: Mapping[str, Any], labels: Mapping[str, Sequence[int]], standard_errors: float) -> str | None:
    """By the accuracy on the validation split, or on the test split where a run has no validation."""
    split = "validation" if row.get("validation_correct") is not None else "test"
    if split not in labels or not sum(labels[split]):
        return None
    level = chance_level(labels[split], count=row[f"{split}_count"], standard_errors=standard_errors)
    if row[f"{split}_accuracy"] > level.bound:
        return ""
    return (
        f"{split} accuracy {row[f'{split}_accuracy']:.2%} is not above {level.bound:.2%}, the commonest label's"
        f" {level.majority_share:.2%} and {standard_errors:g} standard errors"
    )
