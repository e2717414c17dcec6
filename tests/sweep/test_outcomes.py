"""What a trainer may return, and what becomes of it: plain numbers, a run that diverged, or a crash with a reason."""

import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from knockout.job import Curve, Epoch, Outcome, Predictions
from knockout.ledger import read_ledger
from knockout.record import write_record
from knockout.sweep.outcomes import SHOWN_FAULTS, AnswerError, outcomes_of
from knockout.sweep.plain import plain_number, sequence_of

ID = "a" * 64
NAN, INF = math.nan, math.inf


def good(**changes: Any) -> Outcome:
    """A finished run on four test examples, three of them correct; some of its fields are of any type."""
    plain = Outcome(
        run_id=ID,
        status="finished",
        metrics={
            "validation": {"loss": 0.4, "correct": 1, "count": 2},
            "test": {"loss": 0.5, "correct": 3, "count": 4},
        },
        curve=Curve(loss=[1.0, 0.5], learning_rate=[0.1, 0.1], grad_norm=[2.0, 1.0]),
        epochs=[
            Epoch(epoch=1, step=1, loss=0.6, correct=1, count=2),
            Epoch(epoch=2, step=2, loss=0.4, correct=1, count=2),
        ],
        predictions=Predictions(label=[0, 1, 1, 0], predicted=[0, 1, 1, 1], log_probability=[-0.1, -0.2, -0.3, -1.2]),
        costs={"train_seconds": 1.5, "steps": 2},
    )
    return replace(plain, **changes)


def on_test(**changes: Any) -> Outcome:
    """The same without predictions, and with other metrics on the test split."""
    return good(metrics={"test": {"loss": 0.5, "correct": 3, "count": 4, **changes}}, predictions=None)


def curve(**changes: Any) -> Outcome:
    return good(curve=replace(good().curve, **changes))


def second_epoch(**changes: Any) -> Outcome:
    first, second = good().epochs
    return good(epochs=[first, replace(second, **changes)])


def predictions(**changes: Any) -> Outcome:
    seen = good().predictions
    assert seen is not None
    return good(predictions=replace(seen, **changes))


def raising() -> Iterator[Outcome]:
    yield good()
    raise RuntimeError("in the middle")


WHOLE_ANSWERS: dict[str, tuple[Any, str]] = {
    "None": (None, "got None; expected a list of 1 Outcome"),
    "an empty list": ([], "got 0 outcomes"),
    "an outcome alone": (good(), "got an Outcome; expected a list of 1 Outcome"),
    "two outcomes for one run": ([good(), good()], "got 2 outcomes"),
    "a dict": ({"accuracy": 0.83}, 'got {"accuracy": 0.83}; expected a list'),
    "a dict in a list": ([{"accuracy": 0.83}], 'got a list of {"accuracy": 0.83}'),
    "a number": (0.83, "got 0.83; expected a list"),
    "a text": ("finished", 'got "finished"; expected a list'),
    "an array": (np.array([0.83]), "got a list of 0.83"),
    "another class of the same fields": ([SimpleNamespace(run_id=ID)], "got a list of a SimpleNamespace"),
    "a run_id of its own": ([good(run_id="run-1")], 'run_id: got "run-1"; expected "aaa'),
    "no run_id": ([good(run_id=None)], "run_id: got null"),
}


@pytest.mark.parametrize(("answer", "says"), WHOLE_ANSWERS.values(), ids=WHOLE_ANSWERS)
def test_an_answer_that_is_no_outcome_of_the_run_is_refused(answer: Any, says: str) -> None:
    with pytest.raises(AnswerError) as refused:
        outcomes_of(answer, [ID])
    assert says in str(refused.value)
    assert "example: " in str(refused.value)
    assert len(str(refused.value).splitlines()) <= 3


CRASHES: dict[str, tuple[Outcome, str]] = {
    "accuracy without counts": (
        good(metrics={"test": {"accuracy": 0.83}}), 'metrics["test"]: got {"accuracy": 0.83}; expected correct'
    ),
    "no metrics": (good(metrics={}), 'metrics: got no split; expected "test" among them'),
    "no test metrics": (
        good(metrics={"validation": {"correct": 1, "count": 2}}), 'metrics: got the splits validation; expected "test"'
    ),
    "metrics without splits": (good(metrics={"accuracy": 0.83}), 'metrics["accuracy"]: got 0.83; expected a dict'),
    "metrics None": (good(metrics=None), "metrics: got None; expected a dict"),
    "metrics a list": (good(metrics=[0.83]), "metrics: got [0.83]; expected a dict"),
    "correct above count": (on_test(correct=6), 'metrics["test"]: got correct = 6, count = 4; expected'),
    "correct negative": (on_test(correct=-1), 'metrics["test"]["correct"]: got -1; expected a whole number'),
    "count zero": (on_test(correct=0, count=0), 'metrics["test"]["count"]: got 0; expected a whole number'),
    "count infinite": (on_test(count=INF), 'metrics["test"]["count"]: got Infinity'),
    "correct a share": (on_test(correct=0.75), 'metrics["test"]["correct"]: got 0.75; expected a whole number'),
    "correct text": (on_test(correct="3"), 'metrics["test"]["correct"]: got "3"; expected a whole number'),
    "correct true": (on_test(correct=True), 'metrics["test"]["correct"]: got true'),
    "correct NaN": (on_test(correct=NAN), 'metrics["test"]["correct"]: got NaN'),
    "correct a tensor of two": (on_test(correct=torch.ones(2)), 'metrics["test"]["correct"]: got a Tensor'),
    "loss text": (on_test(loss="0.5"), 'metrics["test"]["loss"]: got "0.5"; expected a number'),
    "loss None": (on_test(loss=None), 'metrics["test"]["loss"]: got None; expected a number'),
    "loss complex": (on_test(loss=0.5 + 1j), 'metrics["test"]["loss"]: got a complex'),
    "loss beyond all numbers": (on_test(loss=10**400), 'metrics["test"]["loss"]: got'),
    "curve None": (good(curve=None), "curve: got None; expected a Curve"),
    "curve a dict": (good(curve={"loss": [1.0]}), 'curve: got {"loss": [1.0]}; expected a Curve'),
    "curve of one list": (good(curve=[1.0, 0.5]), "curve: got [1.0, 0.5]; expected a Curve"),
    "curve lists of two lengths": (curve(learning_rate=[0.1]), "curve: got 2 of loss, 1 of learning_rate"),
    "curve of texts": (curve(loss=["1.0", "0.5"]), 'curve.loss[0]: got "1.0"; expected numbers'),
    "curve of lists": (curve(loss=np.ones((2, 2))), "curve.loss[0]: got [1.0, 1.0]; expected numbers"),
    "curve a number": (curve(loss=0.5), "curve.loss: got 0.5; expected a list of numbers"),
    "curve text": (curve(loss="0.5"), 'curve.loss: got "0.5"; expected a list of numbers'),
    "learning rate NaN": (curve(learning_rate=[NAN, NAN]), "curve.learning_rate: got a value that is not finite"),
    "epoch 0": (second_epoch(epoch=0), "epochs[1].epoch: got 0; expected a whole number of at least 1"),
    "epoch twice": (second_epoch(epoch=1), "epochs[1].epoch: got 1 after 1; expected epochs in order"),
    "epoch of half": (second_epoch(epoch=1.5), "epochs[1].epoch: got 1.5"),
    "epoch correct above count": (second_epoch(correct=3), "epochs[1]: got correct = 3, count = 2"),
    "epoch step negative": (second_epoch(step=-1), "epochs[1].step: got -1"),
    "epochs None": (good(epochs=None), "epochs: got None; expected a list of Epoch"),
    "epochs dicts": (good(epochs=[{"epoch": 1}]), 'epochs[0]: got {"epoch": 1}; expected an Epoch'),
    "predictions a list": (good(predictions=[0, 1, 1, 1]), "predictions: got [0, 1, 1, 1]; expected Predictions"),
    "predictions of another length": (
        good(predictions=Predictions(label=[0, 1], predicted=[0, 1], log_probability=[-0.1, -0.2])),
        'predictions: got 2 of them; expected one for each of metrics["test"]["count"] = 4',
    ),
    "predictions of two lengths": (predictions(predicted=[0, 1, 1]), "predictions: got 4 of label, 3 of predicted"),
    "predictions that contradict the counts": (
        predictions(predicted=[0, 1, 1, 0]), 'predictions: got 4 that are correct; expected metrics'
    ),
    "predictions NaN": (predictions(log_probability=[NAN, -0.2, -0.3, -1.2]), "predictions.log_probability: got nan"),
    "probabilities instead of logarithms": (
        predictions(log_probability=[0.9, 0.8, 0.7, 0.3]), "predictions.log_probability: got 0.9; expected natural log"
    ),
    "predicted NaN": (predictions(predicted=[0, 1, 1, NAN]), "predictions.predicted[3]: got NaN"),
    "predicted scores": (predictions(predicted=[0.1, 0.9, 0.8, 0.7]), "predictions.predicted[0]: got 0.1"),
    "predicted names": (predictions(predicted=["neg"] * 4), 'predictions.predicted[0]: got "neg"'),
    "labels negative": (predictions(label=[-1, 1, 1, 0]), "predictions.label[0]: got -1"),
    "labels beyond 16 bits": (predictions(label=[2**15, 1, 1, 0]), "predictions.label[0]: got 32768"),
    "cost infinite": (good(costs={"train_seconds": INF}), 'costs["train_seconds"]: got Infinity; expected'),
    "cost NaN": (good(costs={"train_seconds": NAN}), 'costs["train_seconds"]: got NaN'),
    "cost negative": (good(costs={"train_seconds": -1.0}), 'costs["train_seconds"]: got -1.0'),
    "cost text": (good(costs={"train_seconds": "1 min"}), 'costs["train_seconds"]: got "1 min"; expected a number'),
    "cost of half a step": (good(costs={"steps": 1.5}), 'costs["steps"]: got 1.5; expected a whole number'),
    "costs None": (good(costs=None), "costs: got None; expected a dict"),
    "unknown status": (good(status="finishd"), 'status: got "finishd" (did you mean "finished"?)'),
    "status true": (good(status=True), "status: got true; expected one of finished"),
    "status a list": (good(status=["finished"]), 'status: got ["finished"]'),
}  # fmt: skip


@pytest.mark.parametrize(("outcome", "says"), CRASHES.values(), ids=CRASHES)
def test_an_outcome_that_cannot_be_used_is_a_crash_that_says_why(outcome: Outcome, says: str, tmp_path: Path) -> None:
    (read,) = outcomes_of([outcome], [ID])
    assert read.status == "crashed"
    assert says in read.reason
    assert "example: " in read.reason
    assert len(read.reason.splitlines()) <= SHOWN_FAULTS + 3
    folder = record(read, tmp_path)
    assert folder.parent.name == "attempts"
    assert not read_ledger(tmp_path).damaged


DIVERGED: dict[str, tuple[Outcome, str]] = {
    "loss NaN": (curve(loss=[NAN, 0.5]), "loss not finite at step 1 of 2"),
    "loss infinite in single precision": (curve(loss=[1.0, 1e39]), "loss not finite at step 2 of 2"),
    "gradient infinite": (curve(grad_norm=[INF, 1.0]), "gradient not finite at step 1 of 2"),
    "test loss NaN": (on_test(loss=NAN), "test loss not finite (nan)"),
    "test loss infinite": (on_test(loss=torch.tensor(INF)), "test loss not finite (inf)"),
    "any metric NaN": (on_test(auc=np.float32(NAN)), "test auc not finite (nan)"),
    "everything NaN": (
        good(
            metrics={"test": {"loss": NAN, "correct": 2, "count": 4}},
            curve=Curve(loss=[1.0, NAN], learning_rate=[0.1, 0.1], grad_norm=[1.0, NAN]),
            epochs=[],
            predictions=Predictions(label=[0, 1, 1, 0], predicted=[0, 0, 0, 0], log_probability=[NAN] * 4),
        ),
        "test loss not finite (nan)",
    ),
    "epoch loss NaN": (second_epoch(loss=NAN), "validation loss not finite after epoch 2"),
}


@pytest.mark.parametrize(("outcome", "says"), DIVERGED.values(), ids=DIVERGED)
def test_a_finished_run_that_is_not_finite_has_diverged(outcome: Outcome, says: str, tmp_path: Path) -> None:
    (read,) = outcomes_of([outcome], [ID])
    assert (read.status, read.reason) == ("diverged", says)
    assert read.predictions is None
    assert all(math.isfinite(v) for values in read.metrics.values() for v in values.values())
    assert all(math.isfinite(epoch.loss) for epoch in read.epochs)
    record(read, tmp_path)
    assert read_ledger(tmp_path).records[ID].status == "diverged"


def test_a_curve_ends_with_its_first_step_that_is_not_finite() -> None:
    told = curve(loss=[1.0, NAN, NAN], learning_rate=[0.3, 0.2, 0.1], grad_norm=[1.0, NAN, NAN])
    (read,) = outcomes_of([told], [ID])
    assert (len(read.curve.loss), read.curve.learning_rate, len(read.curve.grad_norm)) == (2, [0.3, 0.2], 2)


def test_a_run_that_says_that_it_diverged_keeps_its_reason_and_loses_what_is_not_finite() -> None:
    told = good(status="diverged", reason="loss not finite", metrics={"test": {"loss": NAN, "correct": 1, "count": 2}})
    (read,) = outcomes_of([told], [ID])
    assert (read.status, read.reason, read.metrics) == ("diverged", "loss not finite", {})


def test_what_is_good_stays_as_it_is() -> None:
    assert outcomes_of([good()], [ID]) == [good()]
    assert outcomes_of((good(predictions=None, epochs=[], costs={}),), [ID])[0].status == "finished"


def test_numbers_of_numpy_and_torch_become_plain_ones(tmp_path: Path) -> None:
    seen = good().predictions
    assert seen is not None
    a_curve: Any = Curve
    an_epoch: Any = Epoch
    some_predictions: Any = Predictions
    arrays: Any = {
        "metrics": {
            np.str_("test"): {"loss": torch.tensor(0.5), "correct": np.int64(3), "count": torch.tensor(4.0),
                              "f1": np.float32(0.5)}
        },
        "curve": a_curve(
            loss=torch.tensor([1.0, 0.5], requires_grad=True),
            learning_rate=np.array([0.1, 0.1]),
            grad_norm=[torch.tensor(2.0), np.float64(1.0)],
        ),
        "epochs": (
            an_epoch(epoch=np.int32(1), step=np.uint8(2), loss=np.float16(0.5), correct=torch.tensor(1), count=2),
        ),
        "predictions": some_predictions(
            label=torch.tensor(seen.label),
            predicted=np.array(seen.predicted, dtype=float),
            log_probability=tuple(np.array(seen.log_probability)),
        ),
        "costs": {"train_seconds": np.longdouble(1.5), "steps": Fraction(2), "parameters": torch.tensor(10)},
    }  # fmt: skip
    (read,) = outcomes_of([good(**arrays)], [ID])
    assert read.status == "finished", read.reason
    assert read.metrics == {"test": {"loss": 0.5, "correct": 3, "count": 4, "f1": 0.5}}
    assert read.curve == good().curve
    assert read.predictions == seen
    plain = [
        *read.metrics["test"].values(), *read.curve.loss, *read.curve.grad_norm, *read.predictions.predicted,
        *vars(read.epochs[0]).values(), *read.costs.values(),
    ]  # fmt: skip
    assert {type(value) for value in plain} == {int, float}
    record(read, tmp_path)
    assert read_ledger(tmp_path).records[ID].outcome["metrics"]["test"]["correct"] == 3


@pytest.mark.parametrize(
    ("value", "number"),
    [(True, None), (np.bool_(True), None), (np.datetime64("2026-01-01"), None), (b"1", None), (Decimal("0.5"), 0.5),
     (np.array(3), 3), (np.array([3]), 3), (np.array([3, 4]), None), (-0.0, 0.0), (10**400, None)],
)  # fmt: skip
def test_a_number_is_what_is_one(value: object, number: float | None) -> None:
    assert plain_number(value) == number


def test_a_list_is_what_has_an_order() -> None:
    assert sequence_of(range(3)) == sequence_of(iter((0, 1, 2))) == sequence_of(np.arange(3)) == [0, 1, 2]
    for value in ({1, 2}, {1: 2}, "12", b"12", np.array(3), 3, None):
        assert sequence_of(value) is None


def test_outcomes_of_several_runs_are_sorted_by_run() -> None:
    first, second = good(run_id="1"), good(run_id="2", metrics={})
    read = outcomes_of((o for o in (second, first)), ["1", "2"])
    assert [(o.run_id, o.status) for o in read] == [("1", "finished"), ("2", "crashed")]


def test_what_a_generator_raises_is_raised() -> None:
    with pytest.raises(RuntimeError, match="in the middle"):
        outcomes_of(raising(), [ID])


def record(outcome: Outcome, root: Path) -> Path:
    return write_record(
        root,
        config={"run_id": ID, "variant": "up", "seed": 0},
        outcome=outcome,
        environment={},
        ended="2026-01-01T00:00:00+00:00",
        log="",
    )
