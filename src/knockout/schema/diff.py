"""The object of `knockout diff`."""

from dataclasses import dataclass
from typing import Literal

from knockout.schema.common import Metric, Plan, Trainer, Value, Version
from knockout.schema.judged import Contrast


@dataclass(frozen=True, kw_only=True)
class DiffSide:
    """One of the two studies. `path`: as it was given."""

    path: str
    study: str
    question: str
    trainer: Trainer
    seeds: list[int]
    runs: int
    results: int


@dataclass(frozen=True, kw_only=True)
class DesignDifference:
    """One thing that differs between the designs, the libraries or the machines. `of`: what it belongs to, such as
    "recipe", "data", "plan", "trainer", or the name of an arm."""

    of: str
    key: str
    before: Value
    after: Value


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Pairs of runs with two results, and how many of them are alike to the last bit: in their predictions, in their
    losses, in both (`identical`)."""

    pairs: int
    predictions: int
    losses: int
    identical: int


@dataclass(frozen=True, kw_only=True)
class ArmDifference:
    """One arm. In `contrast` the numbers of `variant_` are of B, those of `baseline_` of A, and the difference is B
    minus A; Holm is over the arms."""

    arm: str
    contrast: Contrast
    identity: Identity


@dataclass(frozen=True, kw_only=True)
class VerdictMove:
    """The verdict on a variant against its own baseline, in A and in B, as contrasts.csv has it."""

    variant: str
    before: str
    after: str
    moved: bool


@dataclass(frozen=True, kw_only=True)
class Diff:
    """`knockout diff A B`: `before` is A, `after` is B. `files` is empty without `--to`."""

    schema: Version
    command: Literal["diff"]
    before: DiffSide
    after: DiffSide
    metric: Metric
    plan: Plan
    seeds: list[int]
    answer: list[str]
    arms: list[ArmDifference]
    identity: Identity
    only_before: list[str]
    only_after: list[str]
    differences: list[DesignDifference]
    verdicts: list[VerdictMove]
    notes: list[str]
    files: dict[str, str]
