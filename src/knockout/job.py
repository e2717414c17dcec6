"""The contract between the sweep and a trainer: `Job` is the input of a trainer, `Outcome` its result for one run.

A trainer is a function `train(job: Job) -> list[Outcome]` in a module that also holds

- `Factors`: a frozen dataclass whose defaults are the baseline;
- `VERSION`: an integer that is raised when the numbers of a configuration change;
- optionally `Recipe` (a frozen dataclass of what all runs share), `VARIANTS` (name -> Factors), `PAPERS`
  (factor -> source) and `faults(factors, recipe)` (factor -> why a combination cannot be built);
- optionally `FLOORS`: what simpler models reach on the same test examples, name -> `SCORES` -> value, such as
  `{"a linear model": {"accuracy": 0.75}}`; or a function that returns this, given the study's `DataRef` (`None` for a
  study without data).

What a trainer returns is checked before anything is written. Numbers, arrays and tensors of numpy and torch become
plain numbers and lists. A run that is `finished` with a loss, gradient or metric that is not finite is recorded as
diverged. A run whose outcome cannot be used is `crashed`, with a reason that shows what was returned and what is
expected. That includes counts and predictions that contradict each other, and test examples that are not those of the
study's other runs.

The trainer calls `job.progress` at every step, or every few steps where they run asynchronously on a device. This call
raises `Stopped` when the run has to end without a record.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Status = Literal["finished", "diverged", "crashed", "out_of_memory", "killed", "timed_out"]

RECORDED: tuple[Status, ...] = ("finished", "diverged")
"""The statuses that are results. A run with any other status is missing, and is tried again."""


class Stopped(Exception):
    """Raised by `progress` inside a trainer when the run must end without a record."""


class TimedOut(Exception):
    """Raised by `progress` inside a trainer when the run has exceeded its time limit."""


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """The dataset, its split and its tokenisation. The resulting rows and the tokenisation are part of every run's id;
    the names of files and columns are not."""

    source: str = ""
    tokens: Literal["word", "char", "bpe"] = "word"
    max_length: int = field(default=64, metadata={"ge": 1, "le": 65536})  # tokens
    vocabulary_size: int = field(default=20_000, metadata={"ge": 4, "le": 1_000_000})
    min_frequency: int = field(default=2, metadata={"ge": 1})
    split: tuple[float, float, float] = (0.7, 0.1, 0.2)  # training, validation, test; for data without splits
    text_column: str = "text"
    label_column: str = "label"
    group_column: str = ""  # texts of one group (such as all reviews of a film) stay in one split
    drop_unlabeled: bool = False  # leave out rows without a label, and count them; else they are an error
    sizes: tuple[int, int, int] = (0, 0, 0)  # the most texts of training, validation, test; 0: all


@dataclass(frozen=True, kw_only=True)
class DataRef:
    """Prepared data: the id of the content, and the file that a trainer reads."""

    id: str
    path: Path


SCORES = ("accuracy", "macro_f1", "log_loss")
"""What a floor may have: two shares from 0 to 1, and nats per example."""


@dataclass(frozen=True, kw_only=True)
class Floor:
    """What a simpler model reaches on the test split. No deep model needs to be trained for it."""

    name: str
    """as a sentence names it, such as "a linear model", with its article"""
    scores: Mapping[str, float]
    """some of `SCORES` -> value"""
    made: str = ""
    """how; empty for one that the trainer states"""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One or more runs of one variant that a worker trains in one call."""

    variant: str
    factors: Any
    recipe: Any
    seeds: tuple[int, ...]
    run_ids: tuple[str, ...]
    data: DataRef | None
    device: str  # "cpu", "cuda", "cuda:1", "mps"
    threads: int
    progress: Callable[[int, int, float], None]
    """`progress(step, steps, loss)`, three numbers: called during training; may raise `Stopped` or `TimedOut`."""
    log: Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One value per optimiser step, in order. Loss in nats; gradient norm before clipping."""

    loss: list[float]
    learning_rate: list[float]
    grad_norm: list[float]


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """The results on the validation split after one epoch."""

    epoch: int
    step: int
    loss: float  # nats per example
    correct: int
    count: int


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """The predictions for the test examples, in the order of the data."""

    label: list[int]
    predicted: list[int]
    log_probability: list[float]  # of the true label, nats: at most 0


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Fixed examples of the training split, evaluated without dropout before the first step and at even steps.

    The same examples at every step, in every run and of every variant: what changes is then the model alone, not the
    batch. 256 of them are enough. A step has one value in each list; a loss that is not finite is kept as it is.
    """

    step: list[int]
    """in ascending order; 0 is before the first step"""
    loss: list[float]
    """nats per example"""
    correct: list[int]
    count: int
    """examples in the probe"""


QUANTITIES = (
    "gradient",
    "ffn_output_gradient",
    "attention_logit",
    "attention_entropy",
    "attention_peak",
    "rank_residual",
)
"""What `Layers` may hold of a layer (packed records know them by their places: new ones go to the end):

`gradient`: the norm of the gradient of its parameters, before clipping. `ffn_output_gradient`: of the output weight of
its feed-forward network alone. `attention_logit`: the largest absolute logit of attention between real tokens.
`attention_entropy`: the mean entropy of the attention weights of a token, over ln(number of real tokens).
`attention_peak`: the share of tokens whose largest attention weight is above .9. `rank_residual`: the mean over texts
of ||X - 1 mean(X)|| / ||X|| (Frobenius norms) of the layer's output X (tokens x features; Dong et al. 2021)."""

EMBEDDING, HEAD = -1, -2
"""What `Layers.layer` calls the parameters before the first layer, and those after the last."""


@dataclass(frozen=True, kw_only=True)
class Layers:
    """Quantities of single layers at a few steps, such as 1, 2, 4, ..., 64, 100, 128, ... and the last one.

    Four lists of one length; a row says: at this step this quantity of this layer had this value. A quantity, a layer
    or a step that a model does not have is left out.
    """

    step: list[int]
    """from 1; what is measured before the update of this step"""
    quantity: list[str]
    """of `QUANTITIES`"""
    layer: list[int]
    """0, 1, ... from the input on; `EMBEDDING` and `HEAD`"""
    value: list[float]


@dataclass(frozen=True, kw_only=True)
class AttentionText:
    """What every head attends to in one text. It is drawn, and no statistic uses it."""

    example: int
    """the text's place in its split, from 0"""
    split: str
    tokens: list[str]
    """T of them, without padding"""
    weights: list[list[list[list[float]]]]
    """layers x heads x T queries x T keys, each from 0 to 1; kept to three decimals"""


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Attention weights after the last step: one text or two, short ones, the same in all runs of a study."""

    texts: list[AttentionText]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of one run."""

    run_id: str
    status: Status
    metrics: dict[str, dict[str, float | int]]
    """split -> metric -> value; at least `correct` and `count` for every evaluated split, and `test` if it finished."""
    curve: Curve
    epochs: list[Epoch] = field(default_factory=list)
    predictions: Predictions | None = None
    probe: Probe | None = None
    layers: Layers | None = None
    attention: Attention | None = None
    costs: dict[str, float | int] = field(default_factory=dict)
    """train_seconds, eval_seconds, measure_seconds, tokens, steps, parameters, peak_bytes."""
    reason: str = ""
    """For a run that diverged: the value that was not finite, and the step."""
