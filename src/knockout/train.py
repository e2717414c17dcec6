"""The trainer: one job -> one outcome per seed.

Flat tensors on the device, batches by length, one forward and backward pass per step, AdamW. Every step's loss (nats),
learning rate and gradient norm (before clipping) is kept; validation is read after every epoch, the test split once.
On CPU the same job gives the same bits, alone or as the twentieth of a worker.
"""

import contextlib
import math
import time
from pathlib import Path

import psutil
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from knockout.data.batches import Data, Split, evaluation_batches, load, training_batches
from knockout.job import Curve, Epoch, Job, Outcome, Predictions
from knockout.model.encoder import Encoder, initialise
from knockout.variants import PAPERS, VARIANTS, VERSION, Factors, Recipe, faults

__all__ = ["PAPERS", "VARIANTS", "VERSION", "Factors", "Recipe", "faults", "train"]

EVALUATION_TOKENS = {"cpu": 2048, "cuda": 32768, "mps": 32768}
"""Padded tokens of one evaluation batch: what a core's cache holds, or what keeps a GPU busy. Fixed, since logits
depend on the shape of the batch in their last bits."""

SYNC_STEPS = 50
"""On a GPU losses are read back every so many steps; on CPU every step."""


def train(job: Job) -> list[Outcome]:
    """Train and evaluate every seed of the job, one after the other."""
    assert job.data is not None, "this trainer reads texts"
    torch.set_num_threads(job.threads)
    device = torch.device(job.device)
    data = load(job.data.path, job.device)
    return [_run(job, seed, run_id, data, device) for seed, run_id in zip(job.seeds, job.run_ids, strict=True)]


def learning_rate(step: int, *, steps: int, warmup: float, peak: float) -> float:
    """The rate of a step, 1 to `steps`: linear from peak/w over w = ceil(warmup * steps) steps, then half a cosine.

    The cosine (Loshchilov & Hutter 2017) starts at the peak and would reach 0 one step after the last. Without warmup
    it spans all steps.
    """
    w = math.ceil(warmup * steps)  # factor: warmup (Vaswani et al. 2017, 5.3)
    if step <= w:
        return peak * step / w
    return peak * 0.5 * (1 + math.cos(math.pi * (step - w - 1) / (steps - w)))


def _run(job: Job, seed: int, run_id: str, data: Data, device: torch.device) -> Outcome:
    factors, recipe = job.factors, job.recipe
    assert isinstance(factors, Factors)
    assert isinstance(recipe, Recipe)
    _reset_peak(device)
    model = Encoder(factors, recipe, vocabulary=data.vocabulary, classes=data.classes, max_length=data.max_length).to(
        device
    )
    initialise(model, seed=seed)
    parameters, vector = _as_one_vector(model)
    optimizer = torch.optim.AdamW(
        [vector], lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=device.type != "mps"
    )
    steps_per_epoch = math.ceil(data.train.count / recipe.batch_size)
    steps = steps_per_epoch * recipe.epochs
    curve = Curve(loss=[], learning_rate=[], grad_norm=[])
    pending: list[Tensor] = []  # (loss, gradient norm) of steps that were not read back yet
    epochs: list[Epoch] = []
    best: tuple[int, dict[str, Tensor]] | None = None
    tokens, train_seconds, eval_seconds, step = 0, 0.0, 0.0, 0
    sync_every = 1 if device.type == "cpu" else SYNC_STEPS

    def outcome(
        status: str, reason: str, predictions: Predictions | None, metrics: dict[str, dict[str, float | int]]
    ) -> Outcome:
        return Outcome(
            run_id=run_id,
            status="finished" if status == "finished" else "diverged",
            reason=reason,
            metrics=metrics,
            curve=curve,
            epochs=epochs,
            predictions=predictions,
            costs={
                "train_seconds": train_seconds,
                "eval_seconds": eval_seconds,
                "tokens": tokens,
                "steps": len(curve.loss),
                "parameters": vector.numel(),
                "peak_bytes": _peak_bytes(device),
            },
        )

    for epoch in range(1, recipe.epochs + 1):
        started = time.perf_counter()
        model.train()
        for batch in training_batches(data.train.lengths, batch_size=recipe.batch_size, seed=seed, epoch=epoch):
            step += 1
            rate = learning_rate(step, steps=steps, warmup=factors.warmup, peak=recipe.learning_rate)
            optimizer.param_groups[0]["lr"] = rate
            ids, mask, labels = data.train.batch(torch.from_numpy(batch).to(device), data.train.width(batch))
            loss = F.cross_entropy(model(ids, mask), labels)
            gradients = torch.autograd.grad(loss, parameters)
            vector.grad = torch.cat([gradient.flatten() for gradient in gradients])
            norm = torch.nn.utils.clip_grad_norm_([vector], factors.clip_norm or math.inf)  # factor: clip_norm
            optimizer.step()
            tokens += int(data.train.lengths[batch].sum())
            curve.learning_rate.append(rate)
            pending.append(torch.stack((loss.detach(), norm)))
            if len(pending) >= sync_every or step == steps:
                first_bad = _read_back(pending, curve)
                if first_bad is not None:
                    train_seconds += time.perf_counter() - started
                    which = "loss" if not math.isfinite(curve.loss[-1]) else "gradient"
                    return outcome("diverged", f"{which} not finite at step {first_bad} of {steps}", None, {})
                job.progress(step, steps, curve.loss[-1])
        train_seconds += time.perf_counter() - started

        started = time.perf_counter()
        loss_sum, predictions = evaluate(model, data.validation)
        if not math.isfinite(loss_sum):  # such an epoch can be no one's best, and nothing sound follows it
            eval_seconds += time.perf_counter() - started
            return outcome("diverged", f"validation loss not finite after epoch {epoch} of {recipe.epochs}", None, {})
        correct = _correct(predictions)
        count = data.validation.count
        epochs.append(Epoch(epoch=epoch, step=step, loss=loss_sum / count, correct=correct, count=count))
        job.log(f"epoch {epoch}: step {step}, validation loss {loss_sum / count:.4f}, accuracy {correct / count:.4f}")
        if recipe.weights == "best_validation" and (best is None or correct > best[0]):
            best = correct, {name: value.clone() for name, value in model.state_dict().items()}
        eval_seconds += time.perf_counter() - started

    if best is not None:
        model.load_state_dict(best[1])
    started = time.perf_counter()
    loss_sum, predictions = evaluate(model, data.test)
    eval_seconds += time.perf_counter() - started
    chosen = max(epochs, key=lambda e: (e.correct, -e.epoch)) if best is not None else epochs[-1]
    metrics: dict[str, dict[str, float | int]] = {
        "validation": {"loss": chosen.loss, "correct": chosen.correct, "count": chosen.count},
        "test": {"loss": loss_sum / data.test.count, "correct": _correct(predictions), "count": data.test.count},
    }
    if not math.isfinite(loss_sum):
        return outcome("diverged", "test loss not finite, after the last step", None, {})
    return outcome("finished", "", predictions, metrics)


def _as_one_vector(model: Encoder) -> tuple[list[nn.Parameter], nn.Parameter]:
    """The parameters of a model, which are views of one vector from now on, and that vector.

    Clipping and AdamW are then a few kernels for all parameters together, not a dozen for each.
    """
    parameters = list(model.parameters())
    vector = nn.Parameter(torch.cat([parameter.detach().flatten() for parameter in parameters]))
    views = torch.split(vector.detach(), [parameter.numel() for parameter in parameters])
    for parameter, view in zip(parameters, views, strict=True):
        parameter.data = view.view_as(parameter)
    return parameters, vector


@torch.no_grad()
def evaluate(model: Encoder, split: Split) -> tuple[float, Predictions]:
    """The sum of the loss over a split (nats) and its predictions, in the order of the data. No dropout, no draw."""
    model.eval()
    device = split.ids.device
    predicted = torch.empty(split.count, dtype=torch.int64, device=device)
    log_probability = torch.empty(split.count, dtype=torch.float32, device=device)
    for batch in evaluation_batches(split.lengths, tokens=EVALUATION_TOKENS[device.type]):
        index = torch.from_numpy(batch).to(device)
        ids, mask, labels = split.batch(index, split.width(batch))
        logits = model(ids, mask)  # (B, C)
        predicted[index] = logits.argmax(-1)
        log_probability[index] = F.log_softmax(logits, -1).gather(1, labels[:, None])[:, 0]
    told = Predictions(
        label=split.labels.tolist(), predicted=predicted.tolist(), log_probability=log_probability.tolist()
    )
    return -math.fsum(told.log_probability), told


def _read_back(pending: list[Tensor], curve: Curve) -> int | None:
    """Move losses and norms into the curve, up to the first step that is not finite; return that step, 1-based."""
    values = torch.stack(pending).tolist()
    pending.clear()
    for loss, norm in values:
        curve.loss.append(loss)
        curve.grad_norm.append(norm)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            del curve.learning_rate[len(curve.loss) :]
            return len(curve.loss)
    return None


def _correct(predictions: Predictions) -> int:
    return sum(p == y for p, y in zip(predictions.predicted, predictions.label, strict=True))


def _reset_peak(device: torch.device) -> None:
    """Let `_peak_bytes` count from now."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with contextlib.suppress(OSError):  # proc(5): "5" resets the high-water mark
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak_bytes(device: torch.device) -> int:
    """The largest memory since `_reset_peak`: of the device's allocator, or resident in this process on the CPU.

    Without /proc: what is resident now.
    """
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))
    return int(psutil.Process().memory_info().rss)
