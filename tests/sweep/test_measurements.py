"""The optional tables of a trainer's answer: probe, layers, attention."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from knockout.job import Attention, AttentionText, Curve, Layers, Outcome, Probe
from knockout.ledger import read_ledger
from knockout.record import write_record
from knockout.sweep.outcomes import outcomes_of

ID = "a" * 64
NAN, INF = math.nan, math.inf
PROBE = Probe(step=[0, 5, 10], loss=[0.75, 0.5, NAN], correct=[3, 5, 4], count=8)
LAYERS = Layers(
    step=[1, 1, 10, 10],
    quantity=["gradient", "attention_logit", "gradient", "rank_residual"],
    layer=[-2, 0, -1, 1],
    value=[0.5, 3.25, INF, NAN],
)
TEXT = AttentionText(
    example=7,
    split="test",
    tokens=["<script>", "影"],
    weights=[[[[0.25, 0.75], [1.0, 0.0]], [[0.5, 0.5], [0.1254, 0.8746]]]],  # 1 layer, 2 heads
)


def probe(**changes: Any) -> Probe:
    return replace(PROBE, **changes)


def layers(**changes: Any) -> Layers:
    return replace(LAYERS, **changes)


def finished(**changes: Any) -> Outcome:
    plain = Outcome(
        run_id=ID,
        status="finished",
        metrics={"test": {"correct": 3, "count": 4}},
        curve=Curve(loss=[1.0, 0.5], learning_rate=[0.1, 0.1], grad_norm=[2.0, 1.0]),
        probe=PROBE,
        layers=LAYERS,
        attention=Attention(texts=[TEXT]),
    )
    return replace(plain, **changes)


def text(**changes: Any) -> Outcome:
    return finished(attention=Attention(texts=[replace(TEXT, **changes)]))


CRASHES: dict[str, tuple[Outcome, str]] = {
    "probe a list": (finished(probe=[0.5]), "probe: got [0.5]; expected a Probe, or None"),
    "probe count 0": (finished(probe=probe(count=0)), "probe.count: got 0; expected a whole number"),
    "probe correct above count": (
        finished(probe=probe(correct=[3, 9, 4])), "probe.correct[1]: got 9; expected whole numbers from 0 to 8"
    ),
    "probe lists of two lengths": (finished(probe=probe(loss=[1.0])), "probe: got 3 of step, 1 of loss"),
    "probe step twice": (finished(probe=probe(step=[0, 5, 5])), "probe.step[2]: got 5 after 5; expected"),
    "probe loss text": (finished(probe=probe(loss=["a", 1, 2])), 'probe.loss[0]: got "a"; expected numbers'),
    "probe step beyond 32 bits": (finished(probe=probe(step=[0, 1, 2**31])), "probe.step[2]: got 2147483648"),
    "layers a dict": (finished(layers={"step": [1]}), 'layers: got {"step": [1]}; expected Layers, or None'),
    "layers with a quantity of its own": (
        finished(layers=layers(quantity=["gradient", "attention_logits", "gradient", "rank_residual"])),
        'layers.quantity[1]: got "attention_logits" (did you mean "attention_logit"?); expected one of gradient, ',
    ),
    "layers quantity no text": (finished(layers=layers(quantity=[1] * 4)), "layers.quantity[0]: got 1"),
    "layers of one column": (finished(layers=layers(value=[])), "layers: got 4 of step, 4 of quantity, 4"),
    "layer -3": (finished(layers=layers(layer=[0, 0, 0, -3])), "layers.layer[3]: got -3; expected whole"),
    "layers twice": (
        finished(layers=layers(quantity=["gradient"] * 4, layer=[0] * 4)),
        "layers: got gradient of layer 0 twice at step 1; expected each once a step",
    ),
    "attention an array": (finished(attention=np.ones((2, 2))), "attention: got a ndarray; expected an Attention"),
    "attention of nothing": (finished(attention=Attention(texts=[])), "attention.texts: got 0 of them; expected 1"),
    "attention tokens a text": (text(tokens="ab"), 'attention.texts[0].tokens: got "ab"; expected a list of texts'),
    "attention of another size": (text(tokens=["a"]), "attention.texts[0].weights: got another shape"),
    "attention ragged": (
        text(weights=[[[[0.5, 0.5], [1.0]]]]), "attention.texts[0].weights: got another shape"
    ),
    "attention of three levels": (
        text(weights=[[[0.5, 0.5], [0.5, 0.5]]]), "attention.texts[0].weights[0][0][0]: got 0.5; expected layers x"
    ),
    "attention above 1": (
        text(weights=[[[[0.5, 1.5], [0.5, 0.5]]]]), "attention.texts[0].weights[0][0][0]: got 1.5; expected layers x"
    ),
    "attention NaN": (text(weights=[[[[0.5, NAN], [0.5, 0.5]]]]), "attention.texts[0].weights[0][0][0]: got nan"),
    "attention without a split": (text(split=None), "attention.texts[0].split: got None; expected the name of a split"),
}  # fmt: skip


@pytest.mark.parametrize(("outcome", "says"), CRASHES.values(), ids=CRASHES)
def test_a_table_that_cannot_be_used_is_named_with_an_example(outcome: Outcome, says: str) -> None:
    (read,) = outcomes_of([outcome], [ID])
    assert read.status == "crashed"
    assert says in read.reason
    assert "example: " in read.reason


def write(outcome: Outcome, root: Path) -> None:
    (read,) = outcomes_of([outcome], [ID])
    config = {"run_id": ID, "variant": "up", "seed": 0}
    write_record(root, config=config, outcome=read, environment={}, ended="2026-01-01T00:00:00+00:00", log="")


def test_the_tables_read_back_with_their_types_and_weights_to_three_decimals(tmp_path: Path) -> None:
    write(finished(), tmp_path)
    record = read_ledger(tmp_path).records[ID]
    seen, quantities = record.table("probe"), record.table("layers")
    assert [str(seen.schema.field(n).type) for n in ("step", "loss", "correct", "count")] == [
        "int32", "float", "int32", "int32"
    ]  # fmt: skip
    np.testing.assert_array_equal(seen["loss"].to_numpy(), np.array(PROBE.loss, np.float32))
    assert (seen["step"].to_pylist(), seen["correct"].to_pylist()) == ([0, 5, 10], [3, 5, 4])
    assert seen["count"].to_pylist() == [8, 8, 8]
    assert (quantities["quantity"].to_pylist(), quantities["layer"].to_pylist()) == (LAYERS.quantity, LAYERS.layer)
    np.testing.assert_array_equal(quantities["value"].to_numpy(), np.array(LAYERS.value, np.float32))
    attention = record.table("attention").to_pandas()
    assert [str(kind) for kind in attention.drop(columns="split").dtypes] == [
        "int8", "int32", "int8", "int8", "int16", "int16", "float32"
    ]  # fmt: skip
    for row in attention.itertuples():
        expected = np.array(TEXT.weights)[row.layer, row.head, row.query, row.key]
        assert row.weight == np.float32(round(expected, 3))
    assert (len(attention), set(attention["example"]), set(attention["split"])) == (8, {7}, {"test"})
    tokens = record.table("attention_tokens").to_pylist()
    assert tokens == [{"text": 0, "position": i, "token": token} for i, token in enumerate(TEXT.tokens)]


def test_a_run_without_the_tables_has_none(tmp_path: Path) -> None:
    write(finished(probe=None, layers=None, attention=None), tmp_path)
    record = read_ledger(tmp_path).records[ID]
    assert not any(record.has(name) for name in ("probe", "layers", "attention", "attention_tokens"))
    with pytest.raises(FileNotFoundError):
        record.table("probe")


def test_arrays_and_tensors_are_read_as_lists() -> None:
    weights: Any = torch.tensor(TEXT.weights)
    lists: Any = {
        "probe": probe(
            step=np.array(PROBE.step),
            loss=torch.tensor([0.75, 0.5, 0.25]),
            correct=np.array([3.0, 5.0, 4.0]),
            count=np.int64(8),
        ),
        "layers": layers(quantity=np.array(LAYERS.quantity), value=np.array(LAYERS.value, np.float16)),
        "attention": Attention(texts=[replace(TEXT, weights=weights)]),
    }
    (read,) = outcomes_of([finished(**lists)], [ID])
    assert read.reason == ""
    assert read.probe == probe(loss=[0.75, 0.5, 0.25])
    assert read.layers is not None
    assert read.layers.quantity == LAYERS.quantity
    assert read.attention is not None
    assert read.attention.texts[0].weights == weights.tolist()


def test_a_run_that_diverged_keeps_probe_and_layers(tmp_path: Path) -> None:
    told = finished(curve=Curve(loss=[1.0, NAN], learning_rate=[0.1, 0.1], grad_norm=[1.0, NAN]))
    (read,) = outcomes_of([told], [ID])
    assert (read.status, read.layers, read.attention) == ("diverged", LAYERS, None)
    write(told, tmp_path)
    record = read_ledger(tmp_path).records[ID]
    assert (record.has("probe"), record.has("layers"), record.has("attention")) == (True, True, False)
