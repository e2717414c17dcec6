"""A trainer's answer, checked against `knockout.job` before anything of it is written.

Numbers of numpy and torch become plain ones. A run that finished with a loss, gradient or metric that is not finite has
diverged. Any other outcome that cannot be used is a crash of that run alone, whose reason shows what the trainer
returned and what is expected.
"""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard, get_args

from knockout.job import RECORDED, Curve, Epoch, Outcome, Predictions, Status
from knockout.strict import got_text, nearest
from knockout.sweep.measurements import attention_of, layers_of, probe_of
from knockout.sweep.plain import CLASSES, ROUNDING, Reading, sequence_of, shown

SHOWN_FAULTS = 3
LARGEST_FLOAT32 = 3.4e38
"""Curves are kept in this precision, in which a larger number is infinite."""
WHOLE_COSTS = ("tokens", "steps", "parameters", "peak_bytes")

NOTHING = Curve(loss=[], learning_rate=[], grad_norm=[])

EXAMPLES = {
    "answer": 'return [Outcome(run_id=job.run_ids[0], status="finished", metrics=..., curve=...)]',
    "run_id": "Outcome(run_id=job.run_ids[0], ...)",
    "status": 'Outcome(..., status="finished")',
    "metrics": 'metrics={"validation": {"loss": 0.52, "correct": 81, "count": 100},'
    ' "test": {"loss": 0.55, "correct": 160, "count": 200}}',
    "curve": "curve=Curve(loss=[0.69, 0.61], learning_rate=[0.1, 0.1], grad_norm=[1.3, 0.9])",
    "epochs": "epochs=[Epoch(epoch=1, step=50, loss=0.52, correct=81, count=100)]",
    "predictions": "predictions=Predictions(label=[0, 1], predicted=[0, 0], log_probability=[-0.1, -1.6])",
    "probe": "probe=Probe(step=[0, 50, 100], loss=[0.69, 0.55, 0.41], correct=[128, 180, 211], count=256)",
    "layers": 'layers=Layers(step=[1, 1], quantity=["gradient", "gradient"], layer=[0, 1], value=[0.02, 0.05])',
    "attention": 'attention=Attention(texts=[AttentionText(example=3, split="test", tokens=["a", "b"],'
    " weights=[[[[0.9, 0.1], [0.5, 0.5]]]])])",
    "costs": 'costs={"train_seconds": 12.5, "eval_seconds": 0.8, "steps": 100}',
}
"""part of an answer -> how it is written"""


class AnswerError(ValueError):
    """A trainer's answer that cannot be used; the text shows what it is, what is expected, and an example."""

    def __init__(self, part: str, faults: Sequence[str]) -> None:
        """`part`: the key of `EXAMPLES`."""
        shown = list(faults[:SHOWN_FAULTS])
        more = [f"and {len(faults) - SHOWN_FAULTS} more"] if len(faults) > SHOWN_FAULTS else []
        example = f"example: {EXAMPLES[part]}"
        super().__init__("the trainer's answer cannot be used: " + "\n  ".join([*shown, *more, example]))


def outcomes_of(answer: object, run_ids: Sequence[str]) -> list[Outcome]:
    """One outcome for each run, in the order of `run_ids`.

    One that cannot be used has the status `crashed`. Raises `AnswerError` where it cannot be said which outcome is of
    which run, and whatever the trainer raises if it is a generator.
    """
    expected = f"a list of {len(run_ids)} Outcome{'s' if len(run_ids) != 1 else ''}, one for each of job.run_ids"
    items = sequence_of(answer)
    if items is None or not all(isinstance(item, Outcome) for item in items):
        got = shown(answer) if items is None else f"a list of {', '.join(map(shown, items[:SHOWN_FAULTS]))}"
        raise AnswerError("answer", [f"got {got}; expected {expected}"])
    outcomes = [item for item in items if isinstance(item, Outcome)]
    if len(outcomes) != len(run_ids):
        raise AnswerError("answer", [f"got {len(outcomes)} outcomes; expected {expected}"])
    ids = [outcome.run_id for outcome in outcomes]
    if any(not isinstance(i, str) for i in ids) or set(ids) != set(run_ids):
        got = ", ".join(map(got_text, ids[:SHOWN_FAULTS]))
        raise AnswerError("run_id", [f"run_id: got {got}; expected {', '.join(map(got_text, run_ids[:SHOWN_FAULTS]))}"])
    by_id = {outcome.run_id: outcome for outcome in outcomes}
    return [checked(by_id[run_id]) for run_id in run_ids]


def crashed(run_id: str, reason: str) -> Outcome:
    """The outcome of a run whose answer cannot be used."""
    return Outcome(run_id=run_id, status="crashed", reason=reason, metrics={}, curve=NOTHING)


def checked(outcome: Outcome) -> Outcome:
    """The outcome in plain numbers: `diverged` where it finished with one that is not finite, `crashed` if unusable."""
    statuses = get_args(Status)
    if outcome.status not in statuses:
        hint = nearest(outcome.status, statuses)
        meant = f' (did you mean "{hint}"?)' if hint else ""
        fault = f"status: got {got_text(outcome.status)}{meant}; expected one of {', '.join(statuses)}"
        return crashed(outcome.run_id, str(AnswerError("status", [fault])))
    reason = "" if outcome.reason is None else str(outcome.reason)
    if outcome.status not in RECORDED:  # there is no result to check
        return replace(crashed(outcome.run_id, reason), status=outcome.status)
    read = _Reading(finished=outcome.status == "finished")
    plain = replace(
        outcome,
        reason=reason,
        metrics=read.metrics(outcome.metrics),
        curve=read.curve(outcome.curve),
        epochs=read.epochs(outcome.epochs),
        predictions=None,
        probe=probe_of(read, outcome.probe),
        layers=layers_of(read, outcome.layers),
        attention=None,
        costs=read.costs(outcome.costs),
    )
    if (
        not read.diverged
    ):  # predictions and attention of a model that diverged say nothing, and may be no numbers at all
        plain = replace(
            plain,
            predictions=read.predictions(outcome.predictions),
            attention=attention_of(read, outcome.attention),
        )
        read.compare(plain)
    if read.faults:
        return crashed(outcome.run_id, str(AnswerError(read.faults[0][0], [text for _, text in read.faults])))
    return _until_it_diverged(plain, read.not_finite) if read.diverged else plain


def _until_it_diverged(outcome: Outcome, not_finite: Sequence[str]) -> Outcome:
    """What the built-in trainer records of a run that diverged: what came before, and the first step that is bad."""
    curve = outcome.curve
    pairs = zip(curve.loss, curve.grad_norm, strict=True)
    end = next((n for n, pair in enumerate(pairs, 1) if not all(map(_stored, pair))), len(curve.loss))
    bad = next((n for n, epoch in enumerate(outcome.epochs) if not math.isfinite(epoch.loss)), len(outcome.epochs))
    return replace(
        outcome,
        status="diverged",
        reason=outcome.reason or (not_finite[0] if not_finite else ""),
        metrics={s: m for s, m in outcome.metrics.items() if all(map(math.isfinite, m.values()))},
        curve=Curve(loss=curve.loss[:end], learning_rate=curve.learning_rate[:end], grad_norm=curve.grad_norm[:end]),
        epochs=outcome.epochs[:bad],
        attention=None,
    )


class _Reading(Reading):
    """One outcome as it is read part by part: its faults, and what in it is not finite."""

    def __init__(self, *, finished: bool) -> None:
        super().__init__()
        self.finished = finished
        self.not_finite: list[str] = []

    @property
    def diverged(self) -> bool:
        """Whether the trainer says so, or a number read so far does."""
        return not self.finished or bool(self.not_finite)

    def metrics(self, given: object) -> dict[str, dict[str, float | int]]:
        """split -> metric -> value. Faults are a split without counts, and a finished run without a test split."""
        if not _is_table(given):
            self.fault("metrics", shown(given), "a dict: split -> metric -> value")
            return {}
        metrics = {}
        for split, values in given.items():
            where = f'metrics["{split}"]'
            if not _is_table(values):
                self.fault(where, shown(values), "a dict with correct, count, and any other metric")
                continue
            lacking = [name for name in ("correct", "count") if name not in values]
            if lacking:
                self.fault(where, shown(values), f"{' and '.join(lacking)} too, the numbers of examples")
                continue
            correct, count = self.counts(where, '["{}"]', values["correct"], values["count"])
            rest = {
                str(k): self.number(f'{where}["{k}"]', v) for k, v in values.items() if k not in ("correct", "count")
            }
            metrics[str(split)] = {**rest, "correct": correct, "count": count}
            self.not_finite += [f"{split} {k} not finite ({v})" for k, v in rest.items() if not math.isfinite(v)]
        if self.finished and "test" not in given:
            got = f"the splits {', '.join(map(str, given))}" if given else "no split"
            self.fault("metrics", got, '"test" among them: a finished run is judged by it')
        return metrics

    def curve(self, given: object) -> Curve:
        if not isinstance(given, Curve):
            self.fault("curve", shown(given), "a Curve")
            return NOTHING
        curve = Curve(
            loss=self.numbers("curve.loss", given.loss),
            learning_rate=self.numbers("curve.learning_rate", given.learning_rate),
            grad_norm=self.numbers("curve.grad_norm", given.grad_norm),
        )
        self.equal_lengths("curve", loss=curve.loss, learning_rate=curve.learning_rate, grad_norm=curve.grad_norm)
        for name, values in (("loss", curve.loss), ("gradient", curve.grad_norm)):
            step = next((n for n, value in enumerate(values, 1) if not _stored(value)), 0)
            self.not_finite += [f"{name} not finite at step {step} of {len(values)}"] if step else []
        if not self.diverged and not all(map(math.isfinite, curve.learning_rate)):
            self.fault("curve.learning_rate", "a value that is not finite", "finite numbers")
        return curve

    def epochs(self, given: object) -> list[Epoch]:
        items = sequence_of(given)
        if items is None:
            self.fault("epochs", shown(given), "a list of Epoch; [] where there is no validation split")
            return []
        epochs: list[Epoch] = []
        for i, item in enumerate(items):
            where = f"epochs[{i}]"
            if not isinstance(item, Epoch):
                self.fault(where, shown(item), "an Epoch")
                continue
            correct, count = self.counts(where, ".{}", item.correct, item.count)
            epoch = Epoch(
                epoch=self.whole(f"{where}.epoch", item.epoch, least=1),
                step=self.whole(f"{where}.step", item.step),
                loss=self.number(f"{where}.loss", item.loss),
                correct=correct,
                count=count,
            )
            if epochs and epoch.epoch <= epochs[-1].epoch:
                self.fault(f"{where}.epoch", f"{epoch.epoch} after {epochs[-1].epoch}", "epochs in order, each once")
            if not math.isfinite(epoch.loss):
                self.not_finite.append(f"validation loss not finite after epoch {epoch.epoch}")
            epochs.append(epoch)
        return epochs

    def predictions(self, given: object) -> Predictions | None:
        if given is None:
            return None
        if not isinstance(given, Predictions):
            self.fault("predictions", shown(given), "Predictions, or None")
            return None
        predictions = Predictions(
            label=self.classes("predictions.label", given.label, least=0),
            predicted=self.classes("predictions.predicted", given.predicted, least=-CLASSES),
            log_probability=self.numbers("predictions.log_probability", given.log_probability),
        )
        self.equal_lengths(
            "predictions",
            label=predictions.label,
            predicted=predictions.predicted,
            log_probability=predictions.log_probability,
        )
        wrong = next((v for v in predictions.log_probability if not v <= ROUNDING), None)  # NaN too
        if wrong is not None:
            self.fault("predictions.log_probability", str(wrong), "natural logarithms of probabilities: at most 0")
        return predictions

    def costs(self, given: object) -> dict[str, float | int]:
        if not _is_table(given):
            self.fault("costs", shown(given), "a dict: name -> number")
            return {}
        costs: dict[str, float | int] = {}
        for name, value in given.items():
            where = f'costs["{name}"]'
            if name in WHOLE_COSTS:
                costs[str(name)] = self.whole(where, value)
                continue
            costs[str(name)] = self.number(where, value)
            if not (0 <= costs[str(name)] < math.inf):
                self.fault(where, shown(value), "a finite number of at least 0")
        return costs

    def compare(self, outcome: Outcome) -> None:
        """Predictions are of the test split: as many, and as many of them correct, as its metrics say."""
        test = outcome.metrics.get("test")
        seen = outcome.predictions
        if self.faults or test is None or seen is None:
            return
        if len(seen.label) != test["count"]:
            self.fault(
                "predictions",
                f"{len(seen.label)} of them",
                f'one for each of metrics["test"]["count"] = {test["count"]}',
            )
            return
        correct = sum(map(operator.eq, seen.label, seen.predicted))
        if correct != test["correct"]:
            self.fault(
                "predictions", f"{correct} that are correct", f'metrics["test"]["correct"] = {test["correct"]} of them'
            )


def _is_table(value: object) -> TypeGuard[Mapping[object, object]]:
    return isinstance(value, Mapping)


def _stored(value: float) -> bool:
    """Whether a number is finite, also once it is kept in single precision."""
    return abs(value) < LARGEST_FLOAT32
