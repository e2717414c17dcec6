"""Runs as Optuna's trials: the one place that says which trial stands for a run and how it ended."""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState

from knockout.study import Run
from knockout.sweep.answer import Answer


def trial_of(
    answer: Answer,
    *,
    params: Mapping[str, Any],
    distributions: Mapping[str, BaseDistribution],
    attributes: Mapping[str, Any],
    number: int = -1,
    started: datetime | None = None,
    ended: datetime | None = None,
) -> FrozenTrial:
    """The trial of a run that has ended. Its value is Optuna's objective, its intermediate values the learning curve.

    `attributes` come after status and reason. Times are local, without a zone; now where they are not given. The
    `number` is that of a list of trials; a study numbers what is added to it.
    """
    began = started or ended or datetime.now()
    values = values_of(answer)
    return FrozenTrial(
        number=number,
        trial_id=number,
        state=state_of(answer),
        value=values[0] if values else None,
        datetime_start=began,
        datetime_complete=ended or began,
        params=dict(params),
        distributions=dict(distributions),
        user_attrs={**result_attributes(answer), **attributes},
        system_attrs={},
        intermediate_values=dict(answer.epochs),
    )


def state_of(answer: Answer) -> TrialState:
    """COMPLETE for a finished run that has a value; FAIL for every other, whose attribute `status` says which."""
    return TrialState.COMPLETE if values_of(answer) else TrialState.FAIL


def values_of(answer: Answer) -> list[float] | None:
    """The objective as Optuna takes it; `None` where the trial fails."""
    return [answer.objective.value] if answer.status == "finished" and answer.objective is not None else None


def result_attributes(answer: Answer) -> dict[str, str]:
    """How a run ended, in words: its status, what its value is, and the reason, where there are any."""
    value = {"objective": answer.objective.name} if answer.objective is not None else {}
    return {"status": answer.status, **value, **({"reason": answer.reason} if answer.reason else {})}


def run_attributes(run: Run) -> dict[str, Any]:
    """Which run it is: variant, seed, run id; of a placebo also the `stream` that it is trained with."""
    stream = {} if run.stream is None else {"stream": run.stream}
    return {"variant": run.variant, "seed": run.seed, "run_id": run.id, **stream}


def agrees(trial: FrozenTrial, answer: Answer) -> bool:
    """Whether a trial says the variant, training seed, status, value and learning curve that `answer` says."""
    attributes = trial.user_attrs
    return (
        attributes.get("variant") == answer.run.variant
        and attributes.get("stream", attributes.get("seed")) == answer.run.training_seed
        and attributes.get("status") == answer.status
        and trial.values == values_of(answer)
        and _same_curve(trial.intermediate_values, dict(answer.epochs))
    )


def _same_curve(first: Mapping[int, float], second: Mapping[int, float]) -> bool:
    """Equal, and NaN equals NaN."""
    return first.keys() == second.keys() and all(
        a == b or (math.isnan(a) and math.isnan(b)) for a, b in ((first[k], second[k]) for k in first)
    )
