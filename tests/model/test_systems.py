"""Whole systems: the formula of each, written out once more in plain torch and float64, gives the same logits.

The transcriptions share no code with `knockout.model`: each reads its weights from the model's parameters by name.
"""

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from knockout.model.encoder import Encoder, initialise
from knockout.variants import SYSTEMS, Factors, Recipe

VOCABULARY, CLASSES, LENGTH = 40, 3, 10
LENGTHS = (10, 4, 1, 7)
SMALL = Recipe(d_model=16, num_layers=2, d_ff=24)
HEADS = 8


def build(name: str, *, training: bool = False) -> Encoder:
    """The system at a small size in float64, with weights of a size at which every part of it shows."""
    factors = SYSTEMS[name].factors
    assert isinstance(factors, Factors)
    if training:
        factors = dataclasses.replace(factors, dropout=0.0)
    model = Encoder(factors, SMALL, vocabulary=VOCABULARY, classes=CLASSES, max_length=LENGTH)
    initialise(model, seed=3)
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases start from constants
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=draw))
        if model.embedding.padding_idx is not None:
            model.embedding.weight[0] = 0.0
    return model.double().train(training)


@pytest.fixture
def batch() -> tuple[Tensor, Tensor]:
    """Four texts, padded with 0 to ten tokens, and the mask of their tokens."""
    mask = torch.arange(LENGTH) < torch.tensor(LENGTHS)[:, None]
    return torch.randint(1, VOCABULARY, mask.shape, generator=torch.Generator().manual_seed(1)) * mask, mask


class Weights:
    """The parameters of a model by name, and the few formulas that all systems share."""

    def __init__(self, model: Encoder) -> None:
        self.of = {name: p.detach() for name, p in model.named_parameters()}

    def affine(self, name: str, x: Tensor) -> Tensor:
        return x @ self.of[f"{name}.weight"].T + self.of[f"{name}.bias"]

    def normalised(self, name: str, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        return centred / (variance + 1e-5).sqrt() * self.of[f"{name}.weight"] + self.of[f"{name}.bias"]

    def attended(self, name: str, x: Tensor, allowed: Tensor | None) -> Tensor:
        """Heads of d_model / 8 one after the other; a logit at a forbidden key is -1e9."""
        D = x.shape[-1]
        K = D // HEADS
        rows = self.of[f"{name}.qkv.weight"].chunk(3)
        shifts = self.of[f"{name}.qkv.bias"].chunk(3)
        q, k, v = (x @ w.T + b for w, b in zip(rows, shifts, strict=True))
        heads = []
        for h in range(HEADS):
            part = slice(h * K, (h + 1) * K)
            logits = torch.einsum("btk,bsk->bts", q[..., part], k[..., part]) / math.sqrt(K)
            if allowed is not None:
                logits = torch.where(allowed[:, None, :], logits, torch.tensor(-1e9, dtype=logits.dtype))
            weights = logits.exp() if allowed is None else (logits - logits.amax(-1, keepdim=True)).exp()
            heads.append(weights / weights.sum(-1, keepdim=True) @ v[..., part])
        return self.affine(f"{name}.out", torch.cat(heads, -1))

    def fed_forward(self, layer: str, x: Tensor) -> Tensor:
        return self.affine(f"{layer}.ffn_out", self.affine(f"{layer}.ffn_in", x).clamp(min=0))


def sinusoids(rows: int, size: int) -> Tensor:
    """Even columns sin(t * w), odd ones cos(t * w), w = 10000^(-column / size); rounded as a table of float32 is."""
    t, i = torch.arange(rows).double()[:, None], torch.arange(0, size, 2).double()
    angle = t * 10000.0 ** (-i / size)
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(1).float().double()


def tutorial_a(w: Weights, ids: Tensor) -> Tensor:
    """Pre-LN; padding gets logits of -1e9; no norm at the end; the mean over all positions, padding too."""
    x = w.of["embedding.weight"][ids] + sinusoids(ids.shape[1], SMALL.d_model)
    for i in range(SMALL.num_layers):
        x = x + w.attended(f"layers.{i}.attention", w.normalised(f"layers.{i}.attention_norm", x), ids != 0)
        x = x + w.fed_forward(f"layers.{i}", w.normalised(f"layers.{i}.ffn_norm", x))
    return w.affine("classifier", x.sum(1) / ids.shape[1])


def post_norm_layers(w: Weights, x: Tensor) -> Tensor:
    """The layers of tutorials b and c, which are called without a mask."""
    for i in range(SMALL.num_layers):
        x = w.normalised(f"layers.{i}.attention_norm", x + w.attended(f"layers.{i}.attention", x, None))
        x = w.normalised(f"layers.{i}.ffn_norm", x + w.fed_forward(f"layers.{i}", x))
    return x


def tutorial_b(w: Weights, ids: Tensor) -> Tensor:
    """Post-LN without a mask; the mean over all positions, padding too."""
    x = w.of["embedding.weight"][ids] + sinusoids(ids.shape[1], SMALL.d_model)
    return w.affine("classifier", post_norm_layers(w, x).sum(1) / ids.shape[1])


def tutorial_c(w: Weights, ids: Tensor) -> Tensor:
    """Post-LN without a mask; row b of the positions is added to every token of text b; the first token is pooled."""
    x = w.of["embedding.weight"][ids] + sinusoids(len(ids), SMALL.d_model)[:, None, :]
    return w.affine("classifier", post_norm_layers(w, x)[:, 0])


def bilstm_attention(w: Weights, ids: Tensor) -> Tensor:
    """Text by text and step by step, without padding; then softmax(w . tanh(W h + b)) over the states."""
    H, rows = SMALL.d_ff, []
    for text in ids:
        x = w.of["embedding.weight"][text[text != 0]]
        for layer in range(SMALL.num_layers):
            directions = []
            for suffix in ("", "_reverse"):
                own = {k: w.of[f"recurrent.lstm.{k}_l{layer}{suffix}"] for k in
                       ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}  # fmt: skip
                h, c, states = torch.zeros(H).double(), torch.zeros(H).double(), []
                for token in x.flip(0) if suffix else x:
                    gates = own["weight_ih"] @ token + own["bias_ih"] + own["weight_hh"] @ h + own["bias_hh"]
                    i, f, g, o = gates.chunk(4)
                    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                    h = o.sigmoid() * c.tanh()
                    states.append(h)
                directions.append(torch.stack(states[::-1] if suffix else states))
            x = torch.cat(directions, -1)
        scores = w.affine("attention_pooling.hidden", x).tanh() @ w.of["attention_pooling.score.weight"][0]
        rows.append((scores.exp() / scores.exp().sum()) @ x)
    return w.affine("classifier", torch.stack(rows))


def bag_of_embeddings(w: Weights, ids: Tensor) -> Tensor:
    """The mean of the embeddings of a text, each times sqrt(d_model) as elsewhere here."""
    rows = [w.of["embedding.weight"][text[text != 0]].mean(0) * math.sqrt(SMALL.d_model) for text in ids]
    return w.affine("classifier", torch.stack(rows))


FORMULAS = {f.__name__: f for f in (tutorial_a, tutorial_b, tutorial_c, bilstm_attention, bag_of_embeddings)}


def test_every_system_has_its_formula() -> None:
    assert set(FORMULAS) == set(SYSTEMS)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", FORMULAS)
def test_the_logits_are_those_of_the_formula(name: str, training: bool, batch: tuple[Tensor, Tensor]) -> None:
    model = build(name, training=training)
    expected = FORMULAS[name](Weights(model), batch[0])
    got = model(*batch)
    assert got.dtype == torch.float64
    torch.testing.assert_close(got, expected, atol=1e-10, rtol=1e-8)


def test_the_formulas_tell_the_systems_apart(batch: tuple[Tensor, Tensor]) -> None:
    """Each fault of a tutorial shows: mended, the logits differ from its formula."""
    faults: list[tuple[str, dict[str, object]]] = [
        ("tutorial_a", {"pooling_mask": True}),
        ("tutorial_a", {"final_norm": True}),
        ("tutorial_a", {"attention_mask": False}),
        ("tutorial_a", {"embedding_scale": True}),
        ("tutorial_b", {"pooling_mask": True}),
        ("tutorial_b", {"attention_mask": True}),
        ("tutorial_b", {"norm": "none"}),
        ("tutorial_c", {"position": "sinusoidal"}),
        ("tutorial_c", {"pooling": "last"}),
        ("tutorial_c", {"padding_embedding": "zero"}),
    ]
    for name, mended in faults:
        model = build(name)
        factors = dataclasses.replace(SYSTEMS[name].factors, **mended)
        other = Encoder(factors, SMALL, vocabulary=VOCABULARY, classes=CLASSES, max_length=LENGTH).double().eval()
        weights = {k: v for k, v in model.state_dict().items() if k in other.state_dict()}
        other.load_state_dict(weights, strict=False)
        if "padding_embedding" in mended:
            with torch.no_grad():
                other.embedding.weight[0] = 0.0
        assert (other(*batch) - FORMULAS[name](Weights(model), batch[0])).abs().max() > 1e-3, (name, mended)


def test_a_text_of_tutorial_c_depends_on_its_row(batch: tuple[Tensor, Tensor]) -> None:
    model = build("tutorial_c")
    ids, mask = batch
    alone = model(ids[2:3], mask[2:3])
    assert (alone - model(ids, mask)[2:3]).abs().max() > 1e-3
    torch.testing.assert_close(model(ids[:1], mask[:1]), model(ids, mask)[:1])


def layer_parameters(d: int, f: int) -> int:
    """Four maps of attention, two of the feed-forward network, two norms; all with biases."""
    return 4 * (d * d + d) + (d * f + f) + (f * d + d) + 2 * 2 * d


def lstm_parameters(inputs: int, hidden: int) -> int:
    """Two directions of four gates, each with two biases."""
    return 2 * 4 * (inputs * hidden + hidden * hidden + 2 * hidden)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("tutorial_a", 20_000 * 128 + 2 * layer_parameters(128, 512) + 128 * 2 + 2),
        ("tutorial_b", 7_489_794),
        ("tutorial_c", 20_000 * 512 + 6 * layer_parameters(512, 2048) + 512 * 2 + 2),
        (
            "bilstm_attention",
            20_000 * 200 + lstm_parameters(200, 256) + (512 * 512 + 512) + 512 + (512 * 2 + 2),
        ),
        ("bag_of_embeddings", 20_000 * 64 + 64 * 2 + 2),
    ],
)
def test_parameters_at_a_vocabulary_of_20000(name: str, count: int) -> None:
    system = SYSTEMS[name]
    with torch.device("meta"):
        model = Encoder(system.factors, Recipe(**system.recipe), vocabulary=20_000, classes=2, max_length=256)
    assert sum(p.numel() for p in model.parameters()) == count


def test_the_count_of_tutorial_b_by_hand() -> None:
    assert 20_000 * 256 + 3 * layer_parameters(256, 1024) + 256 * 2 + 2 == 7_489_794


def test_dropout_of_the_tutorials_is_where_they_have_it() -> None:
    """Places in one pass of a layer: attention weights, output of attention, and up to three of the network's."""
    places = {}
    for name in ("tutorial_a", "tutorial_b", "tutorial_c"):
        model = build(name)
        calls = [n for n, m in model.named_modules() if type(m).__name__ == "Dropout"]
        places[name] = (
            sum(n.startswith("layers.0.") for n in calls),
            "embedding_dropout" in calls,
            "pooled_dropout" in calls,
        )
    assert places == {"tutorial_a": (3, False, False), "tutorial_b": (5, True, False), "tutorial_c": (3, True, True)}
