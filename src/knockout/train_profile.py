"""How fast the built-in trainer is, and how much memory it takes: one variant, alone in its process.

A study names no function of this module: `knockout profile` calls it by its name, so that nothing imports the trainer.
Each function returns measured values by the names that they have in profile.csv (results/README.md).
"""

import time

import numpy as np
import torch
from numpy.typing import NDArray

from knockout import memory
from knockout.data.batches import Split, load
from knockout.job import Job
from knockout.model.encoder import Encoder, initialise
from knockout.streams import stream
from knockout.train import SYNC_STEPS, Meter, as_read, batching, build, peak_bytes, read_epoch, reset_peak, train_epoch
from knockout.variants import Factors, Recipe

TIMED_STEPS = 30
"""Optimiser steps that are timed. They are spread evenly over all batches of the run."""
WARM_STEPS = 5
"""Steps before them at least. Each new shape of a batch has a step of its own there, which prepares kernels."""
PASSES = {1: 200, 64: 50}
"""Texts in a batch -> the forward passes that are timed."""

clock = time.perf_counter


def training(job: Job) -> dict[str, float]:
    """Parameters, seconds of optimiser steps and of an epoch without its evaluation, and the peak memory of training.

    Raises `knockout.train.Diverged` where a loss is not finite, and `UserError` as the trainer does.
    """
    factors, recipe = _levels(job)
    device = torch.device(job.device)
    torch.set_num_threads(job.threads)
    assert job.data is not None, "this trainer needs data"
    data = load(job.data.path, job.device)
    texts, lengths = as_read(factors, recipe, data), data.train.lengths
    idle = _used_bytes(device)
    reset_peak(device)
    network = build(factors, recipe, job.seeds[0], texts, device)
    epochs = batching(factors, recipe, texts.train.count)
    sizes = [sum(phase.steps for phase in epoch) for epoch in epochs]
    meter = Meter(steps=sum(sizes) + 3 * TIMED_STEPS + WARM_STEPS, sync_every=1 if device.type == "cpu" else SYNC_STEPS)

    def read(number: int) -> tuple[Split, list[NDArray[np.int64]]]:
        return read_epoch(factors, texts.train, lengths, epochs[number - 1], seed=job.seeds[0], number=number)

    def seconds_of(split: Split, batches: list[NDArray[np.int64]]) -> float:
        _synchronise(device)
        before = clock()
        train_epoch(job, factors, recipe, network, split, batches, meter)
        _synchronise(device)
        return clock() - before

    read(1)  # what it loads is no part of an epoch
    _synchronise(device)
    before = clock()
    read(1)
    _synchronise(device)
    preparing = clock() - before
    seconds, tokens, examples = 0.0, 0, 0
    seen: set[tuple[int, int]] = set()
    for number, places in _spread(sizes).items():
        split, batches = read(number)
        chosen = [batches[place] for place in places]
        new: list[NDArray[np.int64]] = []
        for batch in chosen:
            shape = (len(batch), split.width(batch))
            if shape not in seen:
                seen.add(shape)
                new.append(batch)
        if meter.tokens == 0:
            new += [chosen[i % len(chosen)] for i in range(WARM_STEPS - len(new))]
        if new:
            seconds_of(split, new)
        so_far = meter.tokens
        seconds += seconds_of(split, chosen)
        tokens += meter.tokens - so_far
        examples += sum(map(len, chosen))
    per_step, steps = seconds / TIMED_STEPS, sum(sizes) / len(sizes)
    peak = peak_bytes(device)
    return {
        "parameters": network.vector.numel(),
        "timed_steps": TIMED_STEPS,
        "steps_per_epoch": steps,
        "seconds_per_step": per_step,
        "seconds_per_epoch": preparing + steps * per_step,
        "examples_per_second": examples / seconds,
        "tokens_per_second": tokens / seconds,
        "train_idle_bytes": idle,
        "train_peak_bytes": peak,
        "train_above_idle_bytes": max(0, peak - idle),
    }


def evaluation(job: Job) -> dict[str, float]:
    """Parameters, milliseconds of a forward pass over batches of test texts, and the peak memory of evaluation.

    The model is in evaluation mode and keeps nothing for gradients. A pass starts with token ids on the device and ends
    with logits there. Texts are drawn at random, the same for every variant, and padded as the study pads: to the
    longest of their batch, or to `max_length`.
    """
    factors, recipe = _levels(job)
    device = torch.device(job.device)
    torch.set_num_threads(job.threads)
    assert job.data is not None, "this trainer needs data"
    texts = as_read(factors, recipe, load(job.data.path, job.device))
    idle = _used_bytes(device)
    reset_peak(device)
    model = Encoder(factors, recipe, vocabulary=texts.vocabulary, classes=texts.classes, max_length=texts.max_length)
    model = model.to(device)
    initialise(model, seed=job.seeds[0])
    model.eval()
    order = np.random.default_rng(stream(0, "profile")).permutation(texts.test.count)
    measured: dict[str, float] = {"parameters": sum(parameter.numel() for parameter in model.parameters())}
    for size, passes in PASSES.items():
        batches = [order[(i * size + np.arange(size)) % len(order)] for i in range(passes)]
        milliseconds = 1000 * np.array(_pass_seconds(model, texts.test, batches, device))
        measured[f"latency_{size}_passes"] = len(milliseconds)
        for share in (50, 95):
            measured[f"latency_{size}_p{share}_ms"] = float(np.percentile(milliseconds, share))
    peak = peak_bytes(device)
    return {
        **measured,
        "evaluation_idle_bytes": idle,
        "evaluation_peak_bytes": peak,
        "evaluation_above_idle_bytes": max(0, peak - idle),
    }


@torch.no_grad()
def _pass_seconds(model: Encoder, split: Split, batches: list[NDArray[np.int64]], device: torch.device) -> list[float]:
    """The seconds of each batch's forward pass, after one that is not timed for each shape."""
    warm = {split.width(batch): batch for batch in batches}
    for batch in warm.values():
        ids, mask, _ = split.batch(torch.from_numpy(batch).to(device), split.width(batch))
        model(ids, mask)
    seconds = []
    for batch in batches:
        ids, mask, _ = split.batch(torch.from_numpy(batch).to(device), split.width(batch))
        _synchronise(device)
        before = clock()
        model(ids, mask)
        _synchronise(device)
        seconds.append(clock() - before)
    return seconds


def _levels(job: Job) -> tuple[Factors, Recipe]:
    assert isinstance(job.factors, Factors)
    assert isinstance(job.recipe, Recipe)
    return job.factors, job.recipe


def _spread(sizes: list[int]) -> dict[int, list[int]]:
    """Epoch, from 1 -> the places of its batches that are timed; evenly over all epochs, some twice where they are few.

    `sizes`: the number of batches of each epoch.
    """
    places = [(number, place) for number, size in enumerate(sizes, 1) for place in range(size)]
    spread: dict[int, list[int]] = {}
    for i in range(TIMED_STEPS):
        number, place = places[i * len(places) // TIMED_STEPS]
        spread.setdefault(number, []).append(place)
    return spread


def _used_bytes(device: torch.device) -> int:
    """What is in use before the model is built: by this process, or on a GPU by the data alone."""
    return int(torch.cuda.memory_allocated(device)) if device.type == "cuda" else memory.resident_bytes()


def _synchronise(device: torch.device) -> None:
    """Wait for a GPU to finish what was started on it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
