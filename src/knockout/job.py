"""What a trainer is asked for and what it answers: the contract between the sweep and any trainer.

A trainer is a function `train(job: Job) -> list[Outcome]` in a module that also holds

- `Factors`: a frozen dataclass whose defaults are the baseline;
- `VERSION`: an integer that is raised when the numbers of a configuration change;
- optionally `Recipe` (a frozen dataclass of what all runs share), `VARIANTS` (name -> Factors), `PAPERS`
  (factor -> source) and `faults(factors, recipe)` (factor -> why a combination cannot be built).

It calls `job.progress` at every step, or every few where steps run on a device that is not waited for; this raises
`Stopped` when the run has to end without a record.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Status = Literal["finished", "diverged", "crashed", "out_of_memory", "killed", "timed_out"]

RECORDED: tuple[Status, ...] = ("finished", "diverged")
"""The statuses that are results. With any other the cell is missing, and is tried again."""


class Stopped(Exception):
    """Raised inside a trainer, by `progress`, when the run must end now and leave no record."""


class TimedOut(Exception):
    """Raised inside a trainer, by `progress`, when the run has used up its time."""


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """Which texts, how they are split and how they become tokens. The rows that come of it are part of every run's id,
    and how they become tokens; what files and columns are called is not."""

    source: str = ""
    tokens: Literal["word", "char", "bpe"] = "word"
    max_length: int = field(default=64, metadata={"ge": 1, "le": 65536})  # tokens
    vocabulary_size: int = field(default=20_000, metadata={"ge": 4, "le": 1_000_000})
    min_frequency: int = field(default=2, metadata={"ge": 1})
    split: tuple[float, float, float] = (0.7, 0.1, 0.2)  # training, validation, test; for data that come unsplit
    text_column: str = "text"
    label_column: str = "label"
    group_column: str = ""  # texts of one group (reviews of one film) stay on one side of every cut that is made here


@dataclass(frozen=True, kw_only=True)
class DataRef:
    """Prepared data: the id of their content, and the file that a trainer reads them from."""

    id: str
    path: Path


@dataclass(frozen=True, kw_only=True)
class Job:
    """One or more runs of one variant that a worker trains together."""

    variant: str
    factors: Any
    recipe: Any
    seeds: tuple[int, ...]
    run_ids: tuple[str, ...]
    data: DataRef | None
    device: str  # "cpu", "cuda", "cuda:1", "mps"
    threads: int
    progress: Callable[[int, int, float], None]
    """`progress(step, steps, loss)`: called as training goes on; may raise `Stopped` or `TimedOut`."""
    log: Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One value per optimiser step, in order. Loss in nats; gradient norm before clipping."""

    loss: list[float]
    learning_rate: list[float]
    grad_norm: list[float]


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """The validation split after one epoch."""

    epoch: int
    step: int
    loss: float  # nats per text
    correct: int
    count: int


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """The test split, text by text, in the order of the data."""

    label: list[int]
    predicted: list[int]
    log_probability: list[float]  # of the true label, nats


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one run came to."""

    run_id: str
    status: Status
    metrics: dict[str, dict[str, float | int]]
    """split -> metric -> value; at least `correct` and `count` for every split that was read."""
    curve: Curve
    epochs: list[Epoch] = field(default_factory=list)
    predictions: Predictions | None = None
    costs: dict[str, float | int] = field(default_factory=dict)
    """train_seconds, eval_seconds, tokens, steps, parameters, peak_bytes."""
    reason: str = ""
    """For a run that diverged: what was not finite, and at which step."""
