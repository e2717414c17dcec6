"""The test examples of a study: all of its runs are judged on the same ones, and the first record says which."""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filelock
import numpy as np
from numpy.typing import NDArray

from knockout.design import read_design
from knockout.job import Outcome
from knockout.ledger import results_in
from knockout.sweep.outcomes import AnswerError

SAME = ("trainer", "version", "data")
"""Runs of one design whose records agree on these have the same test examples, whatever their variant and seed."""


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Test examples, as far as they are known."""

    count: int
    labels: str | None
    """sha256 of the labels in their order"""
    source: str
    """where they are known from, for a message"""


_known: dict[str, Examples] = {}
"""of the studies that this process has worked for"""


@contextlib.contextmanager
def expected_examples(root: Path, config: Mapping[str, Any], *, count: int | None) -> Iterator[Examples | None]:
    """The test examples that a run must have been judged on. `count`: of the data's test split, where it is known.

    Gives `None` where no record says so yet, and holds a lock meanwhile: the caller writes the first record.
    """
    if count is not None:
        yield Examples(count=count, labels=None, source="the study's data")
        return
    key = json.dumps([str(root), *(config.get(name) for name in (*SAME, "recipe"))], default=str)
    if key not in _known:
        (root / "running").mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(root / "running" / "examples"):
            first = _recorded(root, config)
            if first is None:
                yield None
                return
            _known[key] = first
    yield _known[key]


def why_others(outcome: Outcome, expected: Examples | None) -> str:
    """Why an outcome is of other test examples than expected; empty where it is not."""
    if expected is None or outcome.status != "finished":
        return ""
    where = f"{expected.source}: all runs of a study are judged on the same test examples"
    count = outcome.metrics["test"]["count"]
    if count != expected.count:
        got = f'metrics["test"]["count"]: got {count}; expected {expected.count}, as in {where}'
        return str(AnswerError("metrics", [got]))
    seen = outcome.predictions
    if seen is not None and expected.labels is not None and _digest(np.asarray(seen.label)) != expected.labels:
        return str(AnswerError("predictions", [f"predictions.label: got other labels than in {where}"]))
    return ""


def _recorded(root: Path, config: Mapping[str, Any]) -> Examples | None:
    """Those of the first finished run of the design that was made with the same trainer and data.

    A run of an earlier design of the folder counts where its recipe is the same, too.
    """
    design = read_design(root)
    planned = {run.id for run in design.runs} if design else set()
    for record in results_in(root):
        same = all(record.config.get(name) == config.get(name) for name in SAME)
        ours = record.config.get("run_id") in planned or record.config.get("recipe") == config.get("recipe")
        if record.status == "finished" and same and ours:
            count = record.outcome["metrics"]["test"]["count"]
            labels = _digest(record.table("predictions")["label"].to_numpy()) if record.has("predictions") else None
            return Examples(count=count, labels=labels, source=f"runs/{record.path.name}")
    return None


def _digest(labels: NDArray[Any]) -> str:
    return hashlib.sha256(labels.astype("<i4").tobytes()).hexdigest()
