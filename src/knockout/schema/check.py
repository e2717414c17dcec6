"""The object of `knockout check`."""

from dataclasses import dataclass
from typing import Literal

from knockout.schema.common import Change, Floor, Metric, Plan, RunName, Trainer, Verdict, Version


@dataclass(frozen=True, kw_only=True)
class Arm:
    """An arm of a study. `changes`: from the baseline; of the baseline itself, from the defaults."""

    name: str
    role: Literal["baseline", "variant", "placebo"]
    system: str
    changes: list[Change]


@dataclass(frozen=True, kw_only=True)
class PlannedRun(RunName):
    """A run of the design. `state`: it has a result; it would be trained; it failed three times and is tried with
    `--retry` only; it is not needed, since all is decided."""

    state: Literal["result", "missing", "given up", "not needed"]


@dataclass(frozen=True, kw_only=True)
class DataFacts:
    """The data of a study. `splits`: name -> number of examples. `dropped`: reason -> rows."""

    id: str
    source: str
    tokens: str
    classes: list[str]
    splits: dict[str, int]
    dropped: dict[str, int]
    notes: list[str]


@dataclass(frozen=True, kw_only=True)
class Level:
    """What one contrast can show when it is tested at `alpha`. Sizes in the metric's unit, chances from 0 to 1.

    `detectable`: the minimum detectable difference. `seeds_*`: seeds needed, null above a million."""

    alpha: float
    detectable: float | None
    chance_equivalent: float
    chance_margin: float
    chance_two_margins: float
    seeds_difference: int | None
    seeds_equivalence: int | None
    verdicts: list[Verdict]
    verdicts_after_failure: list[Verdict]


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What the seeds can show at the planned sd. `alone`: a contrast tested alone; `first`: the first under Holm.

    `sentences`: the same in words. The numbers are null where seeds are added until all is decided.
    """

    seeds: int
    contrasts: int
    at_most: bool
    exact_floor: float | None
    seeds_for_exact_floor: int | None
    alone: Level | None
    first: Level | None
    undecidable: list[str]
    sentences: list[str]


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The measured steps of one variant. `trouble`: why there is no figure; else empty."""

    variant: str
    steps: int
    seconds_per_step: float
    run_seconds: float
    answered: bool
    trouble: str
    note: str


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What all runs of the design would cost here: seconds with these workers, bytes of memory and of disk.

    `at_most`: a study that stops as soon as all is decided may cost less. `whole`: measured on one whole run.
    """

    seconds: float
    at_most: bool
    workers: int
    device: str
    memory_bytes: int
    disk_bytes: int
    evaluation_counted: bool
    whole: bool
    paces: list[Pace]


@dataclass(frozen=True, kw_only=True)
class Check:
    """`knockout check`. `cost` is null with `--no-measure`. `damage`: records and files that cannot be used."""

    schema: Version
    command: Literal["check"]
    study: str
    question: str
    folder: str
    trainer: Trainer
    metric: Metric
    plan: Plan
    anytime: Literal["sign", "t"] | None
    seeds: list[int]
    arms: list[Arm]
    dropped_variants: list[str]
    runs: list[PlannedRun]
    data: DataFacts | None
    floors: list[Floor]
    outlook: Outlook
    notes: list[str]
    cost: Cost | None
    damage: list[str]
