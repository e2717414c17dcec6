"""Synthetic studies on disk, written as the sweep writes them, and the reference values."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knockout.design import write_design
from knockout.job import Curve, Epoch, Outcome, Predictions, Status
from knockout.ledger import run_config
from knockout.record import write_record
from knockout.study import Run, Study, read_study

REFERENCE = Path(__file__).parents[1] / "reference" / "statistics.json"
DATA_ID = "ab" * 32
TEST, VALIDATION, STEPS = 400, 200, 40
LABELS = [0] * (TEST // 2) + [1] * (TEST // 2)

BuildStudy = Callable[..., Path]


@pytest.fixture(scope="session")
def reference() -> Callable[[str], dict[str, Any]]:
    """`reference(id)`: inputs and expected values of R and published tables."""
    entries = {e["id"]: e for e in json.loads(REFERENCE.read_text(encoding="utf-8"))["entries"]}
    return lambda name: dict(entries[name])


@pytest.fixture
def build_study(tmp_path: Path) -> BuildStudy:
    """`build_study(correct, ...)` writes a whole study and returns its folder.

    `correct`: variant -> counts of correct test predictions, one per seed; the baseline among them. Instead of a count
    a status may stand, or "dead", or "missing". `placebo_1` and so on are placebo arms. With `anytime` so many seeds
    are planned, and those without a count are missing.
    """

    def build(
        correct: Mapping[str, Sequence[int | str]],
        *,
        claims: str = "",
        extra: str = "",
        name: str = "synthetic",
        anytime: int = 0,
    ) -> Path:
        arms = [v for v in correct if v.startswith("placebo_")]
        variants = [v for v in correct if v not in ("baseline", *arms)]
        seeds = f'"anytime"\nmax_seeds = {anytime}' if anytime else len(correct["baseline"])
        extra = f"placebo = {len(arms)}\n{extra}"
        study = write_study(tmp_path, variants, seeds, name=name, claims=claims, extra=extra)
        root = tmp_path / name
        for run in write_design(root, study, data_id=DATA_ID, data_summary=data_summary()):
            told = dict(enumerate(correct[run.variant])).get(study.seeds.index(run.seed), "missing")
            if told != "missing":
                write_run(root, study, run, told)
        return root

    return build


def write_study(
    folder: Path, variants: Sequence[str], seeds: int | str, *, name: str, claims: str, extra: str
) -> Study:
    path = folder / f"{name}.toml"
    text = (
        f'question = "Which parts | of it matter?"\nvariants = {json.dumps(list(variants))}\nseeds = {seeds}\n{extra}\n'
    )
    path.write_text(text + '[data]\nsource = "rotten_tomatoes"\n[run]\nworkers = 2\n' + claims, encoding="utf-8")
    return read_study(path)


def data_summary() -> dict[str, Any]:
    halves = {"train": 1000, "validation": VALIDATION, "test": TEST}
    return {
        "source": "rotten_tomatoes",
        "tokens": "word",
        "max_length": 64,
        "classes": ["negative", "positive"],
        "vocabulary": 900,
        "splits": {k: {"count": n, "labels": [n // 2, n // 2]} for k, n in halves.items()},
        "dropped": {"repeated text": 31},
        "notes": ["split by hash"],
    }


def outcome(run: Run, told: int | str) -> Outcome:
    """What a trainer would answer: the same for the same run."""
    rng = np.random.default_rng([run.seed, len(run.variant)])
    status: Status = "finished" if told == "dead" or isinstance(told, int) else told  # type: ignore[assignment]
    right = told if isinstance(told, int) else TEST // 2 if told == "dead" else int(0.75 * TEST)
    validation = VALIDATION // 2 if told == "dead" else int(0.8 * VALIDATION)
    loss = [float(x) for x in 0.3 + 0.4 * np.exp(-np.arange(STEPS) / 10) + rng.normal(0, 0.02, STEPS)]
    if status == "diverged":
        loss = [*loss[:20], 9.0, float("nan")]
    finished = status == "finished"
    metrics: dict[str, dict[str, float | int]] = {
        "validation": {"loss": 0.5, "correct": validation, "count": VALIDATION},
        "test": {"loss": 0.51, "correct": right, "count": TEST},
    }
    return Outcome(
        run_id=run.id,
        status=status,
        metrics=metrics if finished else {},
        curve=Curve(loss=loss, learning_rate=[1e-3] * len(loss), grad_norm=[1.0] * len(loss)),
        epochs=[
            Epoch(epoch=e, step=e * STEPS // 2, loss=0.5, correct=validation - 2 + e, count=VALIDATION) for e in (1, 2)
        ],
        predictions=predictions(right) if finished else None,
        costs={
            "train_seconds": 10.0 + run.seed + (5.0 if run.variant != "baseline" else 0.0),
            "eval_seconds": 1.0,
            "tokens": 30_000,
            "steps": len(loss),
            "parameters": 650_000,
            "peak_bytes": 500 * 2**20,
        },
        reason={"diverged": "the loss is nan at step 22", "crashed": "RuntimeError: boom | <b>"}.get(status, ""),
    )


def predictions(right: int) -> Predictions:
    predicted = [label if i < right else 1 - label for i, label in enumerate(LABELS)]
    return Predictions(label=LABELS, predicted=predicted, log_probability=[-0.5] * TEST)


def write_run(
    root: Path, study: Study, run: Run, told: int | str, *, answer: Outcome | None = None, data_id: str = DATA_ID
) -> Path:
    return write_record(
        root,
        config=run_config(study, run, data_id=data_id),
        outcome=answer or outcome(run, told),
        environment={
            "host": "box",
            "pid": 7,
            "python": "3.11",
            "torch": "2.13",
            "knockout": "0.1.0",
            "device": "cpu",
            "workers": 2,
        },
        ended=f"2026-01-01T00:{run.seed:02d}:00",
        log="",
    )
