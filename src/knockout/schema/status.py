"""The object of `knockout status`."""

from dataclasses import dataclass
from typing import Literal

from knockout.schema.common import RunName, Trainer, Version


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Runs. `lost`: of the missing ones, those that crashed, were killed, or ran out of memory or time."""

    planned: int
    finished: int
    diverged: int
    missing: int
    lost: int


@dataclass(frozen=True, kw_only=True)
class Coordinator:
    """The process that spreads runs over workers."""

    pid: int
    host: str


@dataclass(frozen=True, kw_only=True)
class RunningRun:
    """A run that is trained now; variant and seed are null for one that is not of this study, step, steps and loss
    for one that is starting."""

    run_id: str
    variant: str | None
    seed: int | None
    step: int | None
    steps: int | None
    loss: float | None


@dataclass(frozen=True, kw_only=True)
class LostRun(RunName):
    """A run without a result that was tried. `status` and `reason`: of its last attempt."""

    attempts: int
    given_up: bool
    status: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class End:
    """When the missing runs will have ended: seconds from now, and the time in ISO 8601."""

    seconds: float
    at: str
    at_most: bool


@dataclass(frozen=True, kw_only=True)
class ArmSeed:
    """One run, by its variant and seed."""

    variant: str
    seed: int


@dataclass(frozen=True, kw_only=True)
class Status:
    """`knockout status`. `decided`: of a study that adds seeds until all is decided, how far it is, in words."""

    schema: Version
    command: Literal["status"]
    study: str
    folder: str
    complete: bool
    counts: Counts
    coordinator: Coordinator | None
    running: list[RunningRun]
    ends: End | None
    missing: list[RunName]
    lost: list[LostRun]
    dead: list[ArmSeed]
    decided: str | None
    trainer: Trainer
    damage: list[str]
