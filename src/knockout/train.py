"""The trainer: one job in, one outcome per seed out.

Flat tensors on the device, batches of similar length, one forward and backward pass per step, AdamW. It records every
step's loss (nats), learning rate and gradient norm (before clipping), evaluates on the validation split after every
epoch, and on the test split once. On CPU the same job gives the same bits, whatever the worker has trained before.

Label smoothing and word dropout act in training only: a recorded training loss is the smoothed one, the losses on
validation and test are not. With `weight_averaging` both are those of the averaged weights.

What it measures besides, for instabilities and figures, is in `knockout.probing`; no result depends on it.
"""

import contextlib
import dataclasses
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from knockout import memory
from knockout.data.batches import Data, Split, evaluation_batches, load, training_batches, words
from knockout.errors import UserError
from knockout.job import Curve, Epoch, Job, Outcome, Predictions
from knockout.model.encoder import Encoder, initialise
from knockout.probing import Measuring, shown_texts
from knockout.schedules import Phase, phases, rate_and_beta1
from knockout.variants import PAPERS, VARIANTS, VERSION, Factors, Recipe, faults

__all__ = ["PAPERS", "VARIANTS", "VERSION", "Factors", "Recipe", "faults", "train"]

EVALUATION_TOKENS = {"cpu": 2048, "cuda": 32768, "mps": 32768}
"""Padded tokens per evaluation batch: few enough for the cache of a core, or enough to keep a GPU busy. Fixed, because
the last bits of the logits depend on the shape of the batch."""

SYNC_STEPS = 50
"""Steps between two reads of the losses from a GPU. On CPU they are read at every step."""


def train(job: Job) -> list[Outcome]:
    """Train and evaluate every seed of the job, one after the other."""
    assert job.data is not None, "this trainer needs data"
    torch.set_num_threads(job.threads)
    data = load(job.data.path, job.device)
    texts = as_read(job.factors, job.recipe, data)
    lengths = data.train.lengths  # not cut, so that every run has the same batches
    shown = shown_texts(data.test.lengths, data.test.labels.cpu().numpy())  # not cut: the same texts for every variant
    return [_run(job, seed, run_id, texts, lengths, shown) for seed, run_id in zip(job.seeds, job.run_ids, strict=True)]


def as_read(factors: Factors, recipe: Recipe, data: Data) -> Data:
    """The data as a run reads them: cut to `max_length`, training texts to `train_length`, padded as `padding` says.

    Its `max_length` is the longest text that the model is trained on: the length of a table of positions. Raises
    `UserError` for a length above that of the prepared data.
    """
    longest = recipe.max_length or data.max_length
    trained = recipe.train_length or longest
    for name, tokens, limit in (("max_length", longest, data.max_length), ("train_length", trained, longest)):
        if tokens > limit:
            raise UserError(f"{name} = {tokens}: texts have at most {limit} tokens; raise max_length in [data]")
    full = factors.padding == "full"

    def read(split: Split, tokens: int) -> Split:
        return dataclasses.replace(split.cut(tokens), pad_to=tokens if full else 0)

    return dataclasses.replace(
        data,
        max_length=trained,
        train=read(data.train, trained),
        validation=read(data.validation, longest),
        test=read(data.test, longest),
    )


class Diverged(Exception):
    """A loss or a gradient is not finite. The run ends there; its message is the reason in the record."""


@dataclass(kw_only=True)
class Meter:
    """What one run has recorded and used so far."""

    steps: int  # optimiser steps of the whole run
    sync_every: int  # steps after which losses are read back from the device
    pending: list[Tensor] = field(default_factory=list)  # (loss, gradient norm) of steps that were not read back yet
    curve: Curve = field(default_factory=lambda: Curve(loss=[], learning_rate=[], grad_norm=[]))
    epochs: list[Epoch] = field(default_factory=list)
    tokens: int = 0  # real ones of the training batches, padding left out
    train_seconds: float = 0.0
    eval_seconds: float = 0.0

    @contextlib.contextmanager
    def training(self) -> Iterator[None]:
        """Count the time of the block as training, also where it ends with `Diverged`."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.train_seconds += time.perf_counter() - started

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Count the time of the block as evaluation, also where it ends with `Diverged`."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.eval_seconds += time.perf_counter() - started


@dataclass(frozen=True, kw_only=True)
class Network:
    """A model, its parameters as views of one vector, and the optimizer of that vector."""

    model: Encoder
    parameters: list[nn.Parameter]
    vector: nn.Parameter
    optimizer: torch.optim.AdamW
    average: Tensor | None  # of the vector, over the steps so far; `None` without weight_averaging

    def weights(self) -> dict[str, Tensor]:
        """A copy of the weights as they are now."""
        return {name: value.clone() for name, value in self.model.state_dict().items()}

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Within the block the model has the averaged weights, where there is an average."""
        if self.average is None:
            yield
            return
        weights, now = self.vector.detach(), self.vector.detach().clone()
        weights.copy_(self.average)
        try:
            yield
        finally:
            weights.copy_(now)


def _run(job: Job, seed: int, run_id: str, data: Data, lengths: NDArray[np.int64], shown: Sequence[int]) -> Outcome:
    """Build, train epoch by epoch, evaluate on the test split, and return what came of it.

    `shown`: the test texts whose attention is kept.
    """
    factors, recipe = job.factors, job.recipe
    assert isinstance(factors, Factors)
    assert isinstance(recipe, Recipe)
    device = torch.device(job.device)
    epochs = batching(factors, recipe, data.train.count)
    reset_peak(device)
    network = build(factors, recipe, seed, data, device)
    meter = Meter(
        steps=sum(phase.steps for epoch in epochs for phase in epoch),
        sync_every=1 if device.type == "cpu" else SYNC_STEPS,
    )
    measuring = Measuring.of_run(
        network.model, data, steps=meter.steps, trained=sum(phase.texts for epoch in epochs for phase in epoch)
    )
    best: tuple[Epoch, dict[str, Tensor]] | None = None
    metrics: dict[str, dict[str, float | int]] = {}
    predictions, reason = None, ""
    try:
        for number, cut in enumerate(epochs, 1):
            with meter.training():
                train, batches = read_epoch(factors, data.train, lengths, cut, seed=seed, number=number)
                train_epoch(job, factors, recipe, network, train, batches, meter, measuring)
            with meter.evaluating(), network.averaged():
                epoch = _validate(job, recipe, network.model, data.validation, meter, number=number)
                if recipe.weights == "best_validation" and (best is None or epoch.correct > best[0].correct):
                    best = epoch, network.weights()
        assert job.data is not None
        with meter.training():
            measuring.attend(data.test, "test", shown, words(job.data.path))
        chosen = meter.epochs[-1]
        with meter.evaluating(), network.averaged():
            if best is not None:
                chosen, weights = best
                network.model.load_state_dict(weights)
            test_loss, predictions = _test(network.model, data.test)
        metrics["validation"] = {"loss": chosen.loss, "correct": chosen.correct, "count": chosen.count}
        metrics["test"] = {"loss": test_loss, "correct": _correct(predictions), "count": data.test.count}
    except Diverged as end:
        reason = str(end)
    last = len(meter.curve.loss)
    whole = all(math.isfinite(values[-1]) for values in (meter.curve.loss, meter.curve.grad_norm) if values)
    probe, layers = measuring.results(last, diverged=not whole)
    return Outcome(
        run_id=run_id,
        status="diverged" if reason else "finished",
        reason=reason,
        metrics=metrics,
        curve=meter.curve,
        epochs=meter.epochs,
        predictions=predictions,
        probe=probe,
        layers=layers,
        attention=measuring.attention,
        costs={
            "train_seconds": meter.train_seconds - measuring.seconds,
            "eval_seconds": meter.eval_seconds,
            "measure_seconds": measuring.seconds,
            "tokens": meter.tokens,
            "steps": len(meter.curve.loss),
            "parameters": network.vector.numel(),
            "peak_bytes": peak_bytes(device),
        },
    )


def batching(factors: Factors, recipe: Recipe, count: int) -> list[list[Phase]]:
    """The phases of every epoch over `count` training texts. Raises `UserError` where `drop_last` leaves none."""
    epochs = [
        phases(
            count,
            epoch=epoch,
            epochs=recipe.epochs,
            batch_size=recipe.batch_size,
            initial=recipe.initial_batch_size,
            drop_last=factors.drop_last,  # factor: drop_last
        )
        for epoch in range(1, recipe.epochs + 1)
    ]
    if not all(epochs):
        raise UserError(
            f"drop_last: {count} training texts are fewer than one batch of {recipe.batch_size}; lower batch_size"
        )
    return epochs


def build(factors: Factors, recipe: Recipe, seed: int, data: Data, device: torch.device) -> Network:
    """The initialised model on the device, and its optimizer."""
    model = Encoder(factors, recipe, vocabulary=data.vocabulary, classes=data.classes, max_length=data.max_length).to(
        device
    )
    initialise(model, seed=seed)
    parameters, vector = _as_one_vector(model)
    optimizer = torch.optim.AdamW(
        [vector], lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=device.type != "mps"
    )
    average = torch.zeros_like(vector.detach()) if factors.weight_averaging else None  # factor: weight_averaging
    return Network(model=model, parameters=parameters, vector=vector, optimizer=optimizer, average=average)


def read_epoch(
    factors: Factors, split: Split, lengths: NDArray[np.int64], phases: Sequence[Phase], *, seed: int, number: int
) -> tuple[Split, list[NDArray[np.int64]]]:
    """The training texts as one epoch sees them, and its batches. `lengths`: of the texts before they were cut."""
    labels = split.labels.cpu().numpy()
    batches = training_batches(lengths, seed=seed, epoch=number, phases=phases, order=factors.order, labels=labels)
    if factors.word_dropout:  # factor: word_dropout
        split = split.without_words(factors.word_dropout, seed=seed, epoch=number)
    return split, batches


def train_epoch(
    job: Job,
    factors: Factors,
    recipe: Recipe,
    network: Network,
    split: Split,
    batches: Sequence[NDArray[np.int64]],
    meter: Meter,
    measuring: Measuring | None = None,
) -> None:
    """Train on every batch once. Raises `Diverged` at the first loss or gradient that is not finite."""
    model, vector, optimizer = network.model, network.vector, network.optimizer
    device, group = split.ids.device, optimizer.param_groups[0]
    model.train()
    if measuring is not None and not meter.curve.learning_rate:
        measuring.after_step(0)
    for step, batch in enumerate(batches, len(meter.curve.learning_rate) + 1):
        rate, beta1 = rate_and_beta1(
            factors.schedule, step, steps=meter.steps, warmup=factors.warmup, peak=recipe.learning_rate
        )
        group["lr"], group["betas"] = rate, (beta1, group["betas"][1])
        ids, mask, labels = split.batch(torch.from_numpy(batch).to(device), split.width(batch))
        loss = F.cross_entropy(model(ids, mask), labels, label_smoothing=factors.label_smoothing)
        gradients = torch.autograd.grad(loss, network.parameters)
        if measuring is not None:
            measuring.before_update(step, gradients)
        vector.grad = torch.cat([gradient.flatten() for gradient in gradients])
        norm = torch.nn.utils.clip_grad_norm_([vector], factors.clip_norm or math.inf)  # factor: clip_norm
        optimizer.step()
        if network.average is not None:
            average_in(network.average, vector.detach(), step, decay=factors.weight_averaging)
        meter.tokens += int(split.lengths[batch].sum())
        meter.curve.learning_rate.append(rate)
        meter.pending.append(torch.stack((loss.detach(), norm)))
        if len(meter.pending) >= meter.sync_every or step == meter.steps:
            _read_back(meter)
            job.progress(step, meter.steps, meter.curve.loss[-1])
        if measuring is not None:
            measuring.after_step(step)


def _validate(job: Job, recipe: Recipe, model: Encoder, split: Split, meter: Meter, *, number: int) -> Epoch:
    """Evaluate on the validation split and record the epoch. Raises `Diverged` where the loss is not finite."""
    loss_sum, predictions = evaluate(model, split)
    if not math.isfinite(loss_sum):
        _read_back(meter)  # on a GPU the steps of this epoch may be pending, and one of them is then the first bad one
        raise Diverged(f"validation loss not finite after epoch {number} of {recipe.epochs}")
    correct, count = _correct(predictions), split.count
    step = len(meter.curve.learning_rate)
    epoch = Epoch(epoch=number, step=step, loss=loss_sum / count, correct=correct, count=count)
    meter.epochs.append(epoch)
    job.log(f"epoch {number}: step {step}, validation loss {epoch.loss:.4f}, accuracy {correct / count:.4f}")
    return epoch


def _test(model: Encoder, split: Split) -> tuple[float, Predictions]:
    """The loss on the test split (nats per example) and its predictions. Raises `Diverged` where it is not finite."""
    loss_sum, predictions = evaluate(model, split)
    if not math.isfinite(loss_sum):
        raise Diverged("test loss not finite, after the last step")
    return loss_sum / split.count, predictions


def _as_one_vector(model: Encoder) -> tuple[list[nn.Parameter], nn.Parameter]:
    """The parameters of a model, turned into views of one vector, and that vector.

    Clipping and AdamW are then a few kernels for all parameters together, not a dozen for each.
    """
    parameters = list(model.parameters())
    vector = nn.Parameter(torch.cat([parameter.detach().flatten() for parameter in parameters]))
    views = torch.split(vector.detach(), [parameter.numel() for parameter in parameters])
    for parameter, view in zip(parameters, views, strict=True):
        parameter.data = view.view_as(parameter)
    return parameters, vector


def average_in(average: Tensor, weights: Tensor, step: int, *, decay: float) -> None:
    """Bring the average up to date with the weights after `step`, from 1.

    It is sum(decay^(step - s) * weights_s) / sum(decay^(step - s)) over the steps s = 1 to `step`: an exponential
    moving average whose bias is corrected as in Kingma & Ba 2015, 3. The initial weights have no part in it.
    """
    average.lerp_(weights, (1 - decay) / (1 - decay**step))


@torch.no_grad()
def evaluate(model: Encoder, split: Split) -> tuple[float, Predictions]:
    """The loss summed over a split (nats) and the predictions, in the order of the data. No dropout, no random draw."""
    model.eval()
    device = split.ids.device
    predicted = torch.empty(split.count, dtype=torch.int64, device=device)
    log_probability = torch.empty(split.count, dtype=torch.float32, device=device)
    for batch in evaluation_batches(split.lengths, tokens=EVALUATION_TOKENS[device.type], pad_to=split.pad_to):
        index = torch.from_numpy(batch).to(device)
        ids, mask, labels = split.batch(index, split.width(batch))
        logits = model(ids, mask)  # (B, C)
        predicted[index] = logits.argmax(-1)
        log_probability[index] = F.log_softmax(logits, -1).gather(1, labels[:, None])[:, 0]
    predictions = Predictions(
        label=split.labels.tolist(), predicted=predicted.tolist(), log_probability=log_probability.tolist()
    )
    return -math.fsum(predictions.log_probability), predictions


def _read_back(meter: Meter) -> None:
    """Move the pending losses and gradient norms into the curve.

    Raises `Diverged` at the first step that is not finite, with which the curve then ends.
    """
    values = torch.stack(meter.pending).tolist() if meter.pending else []
    meter.pending.clear()
    curve = meter.curve
    for loss, norm in values:
        curve.loss.append(loss)
        curve.grad_norm.append(norm)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            step = len(curve.loss)
            del curve.learning_rate[step:]
            which = "gradient" if math.isfinite(loss) else "loss"
            raise Diverged(f"{which} not finite at step {step} of {meter.steps}")


def _correct(predictions: Predictions) -> int:
    return sum(p == y for p, y in zip(predictions.predicted, predictions.label, strict=True))


def reset_peak(device: torch.device) -> None:
    """Start the count that `peak_bytes` reads."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        memory.reset_peak()


def peak_bytes(device: torch.device) -> int:
    """The peak memory in bytes since `reset_peak`: the allocator's on a GPU, else the resident size of this process."""
    return int(torch.cuda.max_memory_allocated(device)) if device.type == "cuda" else memory.peak_bytes()
