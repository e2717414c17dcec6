"""A trainer of one's own: logistic regression on two features, in NumPy."""

from dataclasses import dataclass

import numpy as np

from knockout.job import Curve, Job, Outcome
from knockout.streams import stream

VERSION = 1  # raise it when you change what a configuration computes


@dataclass(frozen=True, kw_only=True)
class Factors:  # what variants may change; the defaults are the baseline
    squares: bool = True  # the squares of the features are features too
    momentum: float = 0.9


@dataclass(frozen=True, kw_only=True)
class Recipe:  # what all runs share: the table [train] of the study file
    steps: int = 300
    learning_rate: float = 0.05


def train(job: Job) -> list[Outcome]:
    return [train_one(job, seed, run_id) for seed, run_id in zip(job.seeds, job.run_ids, strict=True)]


def train_one(job: Job, seed: int, run_id: str) -> Outcome:
    x = np.random.default_rng(0).normal((0.7, 0.0), size=(2000, 2))  # the data: the same for every run
    y = (x**2).sum(axis=1) > 1.6
    x = np.hstack([x, x**2 * job.factors.squares, np.ones((2000, 1))])
    weights = np.random.default_rng(stream(seed, "initial weights")).normal(size=5)
    batches = np.random.default_rng(stream(seed, "batches"))
    velocity, rate, curve = np.zeros(5), job.recipe.learning_rate, Curve(loss=[], learning_rate=[], grad_norm=[])
    for step in range(1, job.recipe.steps + 1):
        rows = batches.integers(1000, size=32)  # the first 1,000 points are the training split
        gradient = x[rows].T @ (1 / (1 + np.exp(-x[rows] @ weights)) - y[rows]) / 32
        loss = log_loss(x[rows] @ weights, y[rows])
        velocity = job.factors.momentum * velocity - rate * gradient
        weights = weights + velocity
        curve.loss.append(loss)
        curve.learning_rate.append(rate)
        curve.grad_norm.append(float(np.linalg.norm(gradient)))
        job.progress(step, job.recipe.steps, loss)  # shows it on the screen, and ends the run when it has to end
    metrics: dict[str, dict[str, float | int]] = {}
    for split, rows in (("validation", np.arange(1000, 1500)), ("test", np.arange(1500, 2000))):
        scores = x[rows] @ weights
        right = int(((scores > 0) == y[rows]).sum())
        metrics[split] = {"correct": right, "count": len(rows), "loss": log_loss(scores, y[rows])}
    return Outcome(run_id=run_id, status="finished", metrics=metrics, curve=curve)


def log_loss(scores: np.ndarray, y: np.ndarray) -> float:
    return float(np.logaddexp(0, np.where(y, -scores, scores)).mean())  # nats per example
