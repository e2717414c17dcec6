"""What several objects have in common."""

from dataclasses import dataclass
from typing import Any, Literal

VERSION: Literal[1] = 1
Version = Literal[1]
Verdict = Literal["better", "worse", "trivial", "equivalent", "inconclusive", "undecidable by design"]
Value = bool | int | float | str | None | list[Any] | dict[str, Any]
"""A value of a study file, as JSON has it."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One key that differs: its value before (in the baseline, in study A), and after (in the variant, in study B)."""

    key: str
    before: Value
    after: Value


@dataclass(frozen=True, kw_only=True)
class Metric:
    """The metric of the verdicts. `unit`: "points" (hundredths of a share), "nats", or nothing."""

    name: str
    unit: str
    better: Literal["higher", "lower"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How differences are judged. `margin` and `planned_sd` are in the metric's unit."""

    alpha: float
    margin: float
    power: float
    planned_sd: float


@dataclass(frozen=True, kw_only=True)
class Floor:
    """What a simpler model reaches on the test split: shares from 0 to 1, and nats. `made`: how; "" where stated."""

    name: str
    made: str
    accuracy: float | None
    macro_f1: float | None
    log_loss: float | None


@dataclass(frozen=True, kw_only=True)
class Trainer:
    """The trainer. `changes`: sentences on sources of it that differ between results; empty where all are one."""

    path: str
    version: int
    changes: list[str]


@dataclass(frozen=True, kw_only=True)
class RunName:
    """One run of a study."""

    run_id: str
    variant: str
    seed: int
