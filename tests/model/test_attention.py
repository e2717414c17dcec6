"""Self-attention and each of its factors, against a transcription of the formula in float64, by head and text."""

import dataclasses
import math
from typing import Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from knockout.model.attention import Attention
from knockout.model.dropout import Dropout
from knockout.model.encoder import Encoder, initialise
from knockout.model.layer import Layer
from knockout.model.positions import Positions
from knockout.variants import VARIANTS, Factors, Recipe

from .conftest import LENGTHS, MAX_LENGTH, RECIPE, VOCABULARY, Batch, build
from .test_positions import published_bucket, published_slopes

BASELINE = VARIANTS["baseline"]
D = RECIPE.d_model

Array = NDArray[np.float64]


def first_attention(factors: Factors, *, seed: int = 0) -> Attention:
    """The attention of the first layer, with biases and gains drawn, so that a formula without them is noticed."""
    layer = build(factors, seed=seed).layers[0]
    assert isinstance(layer, Layer)
    draw = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, parameter in layer.attention.named_parameters():
            if name.endswith("bias") or "norm" in name:
                parameter.add_(torch.randn(parameter.shape, generator=draw) * 0.3)
    return layer.attention


def states(batch: Batch, *, size: float = 2.0) -> Tensor:
    return size * torch.randn(*batch[0].shape, D, generator=torch.Generator().manual_seed(1))


def double(parameter: Tensor) -> Array:
    return parameter.detach().double().numpy()


def linear(layer: nn.Linear, x: Array) -> Array:
    return x @ double(layer.weight).T + double(layer.bias)


def rotated(x: Array) -> Array:
    """Su et al. 2021, equation 34, for the positions 0, 1, ... of the rows of x (T, K)."""
    K = x.shape[1]
    out = np.empty_like(x)
    for m in range(len(x)):
        for i in range(K // 2):
            angle = m * 10000 ** (-2 * i / K)
            a, b = x[m, 2 * i], x[m, 2 * i + 1]
            out[m, 2 * i] = a * math.cos(angle) - b * math.sin(angle)
            out[m, 2 * i + 1] = b * math.cos(angle) + a * math.sin(angle)
    return out


def normalised(x: Array, gain: Array) -> Array:
    """Zhang & Sennrich 2019, equation 4."""
    return np.stack([row / math.sqrt(float((row**2).mean()) + 1e-6) * gain for row in x])


def by_hand(layer: Attention, factors: Factors, x: Tensor, mask: Tensor | None, buckets: Tensor | None = None) -> Array:
    """Vaswani et al. 2017, equation 1, and what the factors make of it, head by head and text by text."""
    H = factors.num_heads
    K = factors.head_size or D // H
    slopes = published_slopes(H)
    out = np.zeros((*x.shape[:2], H * K))
    for b, text in enumerate(double(x)):
        T = len(text)
        real = np.ones(T, dtype=bool) if mask is None else mask[b].numpy()
        match factors.projections:
            case "separate":
                q, k, v = np.split(linear(layer.qkv, text), 3, axis=1)
            case "tied_qk":
                q = k = linear(layer.qk, text)
                v = linear(layer.v, text)
            case "shared":
                q = k = v = linear(layer.shared, text)
        for h in range(H):
            part = slice(h * K, (h + 1) * K)
            q_h, k_h, v_h = q[:, part], k[:, part], v[:, part]
            if factors.qk_norm:
                q_h, k_h = normalised(q_h, double(layer.q_norm.weight)), normalised(k_h, double(layer.k_norm.weight))
            if factors.position == "rope":
                q_h, k_h = rotated(q_h), rotated(k_h)
            for i in range(T):
                scores = np.array([q_h[i] @ k_h[j] for j in range(T)])
                if factors.scale == "sqrt_dk":
                    scores /= math.sqrt(K)
                if factors.position == "alibi":
                    scores -= np.array([slopes[h] * abs(i - j) for j in range(T)])
                if buckets is not None:
                    scores += np.array([double(buckets)[published_bucket(j - i), h] for j in range(T)])
                if factors.mask_fill == "minus_infinity":
                    scores[~real] = -np.inf
                if factors.mask_fill == "minus_1e9":
                    scores[~real] = -1e9
                weights = np.exp(scores - scores.max())
                weights /= weights.sum()
                if factors.mask_fill == "after_softmax":
                    weights[~real] = 0.0
                out[b, i, part] = sum(weights[j] * v_h[j] for j in range(T))
    return linear(layer.out, out)


CASES = {
    **{name: VARIANTS[name] for name in ("baseline", "no_scale", "heads_1", "heads_16")},
    **{
        name: VARIANTS[name]
        for name in ("rope", "alibi", "t5_bias", "head_size_32", "tied_qk", "shared_qkv", "qk_norm")
    },
    **{name: VARIANTS[name] for name in ("mask_1e9", "mask_after_softmax")},
    "odd heads": Factors(num_heads=3, head_size=6),
    "odd heads, alibi": Factors(num_heads=3, head_size=6, position="alibi"),
    "rope, normalised": Factors(position="rope", qk_norm=True, scale="none"),
    "rope, tied, normalised": Factors(position="rope", qk_norm=True, projections="tied_qk"),
    "alibi, after the softmax": Factors(position="alibi", mask_fill="after_softmax"),
    "t5, -1e9, fixed size, shared": Factors(position="t5", mask_fill="minus_1e9", head_size=5, projections="shared"),
}


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_attention_is_its_formula(case: str, masked: bool, batch: Batch) -> None:
    factors = CASES[case]
    layer = first_attention(factors)
    positions = Positions(factors, length=MAX_LENGTH, d_model=D)
    buckets = None
    if factors.position == "t5":
        buckets = nn.init.normal_(positions.buckets, generator=torch.Generator().manual_seed(2))
    x, mask = states(batch), batch[1] if masked else None
    with torch.no_grad():
        got = layer(x, mask, positions.bias(x.shape[1]))
    expected = by_hand(layer, factors, x, mask, buckets)
    np.testing.assert_allclose(got.double().numpy(), expected, atol=3e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("case", "other"),
    [
        ("baseline", Factors(scale="none")),
        ("baseline", Factors(num_heads=4)),
        ("rope", BASELINE),
        ("qk_norm", BASELINE),
        ("mask_after_softmax", BASELINE),
        ("alibi", BASELINE),
    ],
)
def test_the_formula_of_another_factor_is_another(case: str, other: Factors, batch: Batch) -> None:
    """The transcription can tell them apart."""
    layer, x = first_attention(CASES[case]), states(batch)
    bias = Positions(CASES[case], length=MAX_LENGTH, d_model=D).bias(x.shape[1])
    with torch.no_grad():
        got = layer(x, batch[1], bias).double().numpy()
    assert np.abs(got - by_hand(layer, other, x, batch[1])).max() > 1e-2


@pytest.mark.parametrize("case", CASES)
def test_both_kernels_have_the_same_gradients(case: str, batch: Batch) -> None:
    """In float32 and in float64, for which no fast kernel is taken."""
    factors = CASES[case]
    gradients = []
    for dtype in (torch.float32, torch.float64):
        layer = first_attention(factors).to(dtype)
        positions = Positions(factors, length=MAX_LENGTH, d_model=D)
        if factors.position == "t5":
            nn.init.normal_(positions.buckets, generator=torch.Generator().manual_seed(2))
        x = states(batch).to(dtype).requires_grad_()
        (layer(x, batch[1], positions.bias(x.shape[1])) ** 2).sum().backward()
        wanted = [x, *layer.parameters(), *positions.parameters()]
        gradients.append([p.grad.double() for p in wanted if p.grad is not None])
        assert len(gradients[-1]) == len(wanted)
    for single, exact in zip(*gradients, strict=True):
        torch.testing.assert_close(single, exact, atol=2e-3 * float(exact.abs().max()) + 1e-4, rtol=1e-3)


# scale, heads and their size


def test_without_the_scale_logits_grow_by_sqrt_dk() -> None:
    """The variance argument of Vaswani et al. 2017, footnote 4: q.k of unit normals has sd sqrt(d_k)."""
    draw = torch.Generator().manual_seed(0)
    for d_k in (4, 64):
        q, k = (torch.randn(2000, d_k, generator=draw) for _ in range(2))
        assert (q * k).sum(-1).std().item() == pytest.approx(d_k**0.5, rel=0.1)
    sizes = Recipe(d_model=64)
    assert Attention(Factors(num_heads=1), sizes).scale == 1 / 8
    assert Attention(Factors(num_heads=1, scale="none"), sizes).scale == 1.0
    assert Attention(Factors(num_heads=1, head_size=16), sizes).scale == 1 / 4


def test_the_number_of_heads_changes_no_parameter() -> None:
    reference = dict(build(BASELINE).named_parameters())
    for name in ("heads_1", "heads_16"):
        for parameter_name, parameter in build(VARIANTS[name]).named_parameters():
            assert torch.equal(parameter, reference[parameter_name])


def test_a_fixed_head_size_needs_no_divisor_and_each_block_is_glorot() -> None:
    layer = first_attention(Factors(num_heads=5, head_size=24))
    assert layer.qkv.weight.shape == (3 * 5 * 24, D)
    assert layer.out.weight.shape == (D, 5 * 24)
    bound = math.sqrt(6 / (5 * 24 + D))
    for block in layer.qkv.weight.chunk(3):
        assert block.abs().max().item() == pytest.approx(bound, rel=0.01)
    assert layer.out.weight.abs().max().item() == pytest.approx(bound, rel=0.01)


def test_the_head_size_that_division_gives_is_the_baseline(batch: Batch) -> None:
    with torch.no_grad():
        assert torch.equal(build(Factors(head_size=D // 8))(*batch), build(BASELINE)(*batch))


# projections and qk_norm


def raw_scores(layer: Attention, x: Tensor) -> Tensor:
    """q @ k.T of every head (B, H, T, T)."""
    with torch.no_grad():
        q, k, _ = layer.project(x).view(*x.shape[:2], 3, layer.num_heads, -1).permute(2, 0, 3, 1, 4)
    scores: Tensor = q @ k.mT
    return scores


@pytest.mark.parametrize("qk_norm", [False, True])
@pytest.mark.parametrize("projections", ["tied_qk", "shared", "separate"])
def test_one_map_for_queries_and_keys_makes_scores_symmetric(
    projections: Literal["tied_qk", "shared", "separate"], qk_norm: bool, batch: Batch
) -> None:
    scores = raw_scores(first_attention(Factors(projections=projections, qk_norm=qk_norm)), states(batch))
    asymmetry = (scores - scores.mT).abs().max() / scores.abs().max()
    assert (asymmetry > 0.1) if projections == "separate" else (asymmetry < 1e-5)


def test_projections_have_the_parameters_that_they_say() -> None:
    for projections, shapes in (
        ("separate", {"qkv.weight": (3 * D, D)}),
        ("tied_qk", {"qk.weight": (D, D), "v.weight": (D, D)}),
        ("shared", {"shared.weight": (D, D)}),
    ):
        layer = first_attention(Factors(projections=projections))  # type: ignore[arg-type]
        weights = {n: tuple(p.shape) for n, p in layer.named_parameters() if n.endswith("weight")}
        assert weights == {**shapes, "out.weight": (D, D)}
        for parameter in layer.parameters():
            if parameter.ndim == 2:
                assert parameter.abs().max().item() == pytest.approx(math.sqrt(6 / (2 * D)), rel=0.02)


@pytest.mark.parametrize("size", [1.0, 100.0])
def test_with_qk_norm_logits_are_bounded_whatever_the_states(size: float, batch: Batch) -> None:
    """With gains of 1 every query and key has the norm sqrt(d_k): no logit is beyond sqrt(d_k) (Cauchy-Schwarz)."""
    layers = {}
    for name in ("qk_norm", "baseline"):
        layer = build(VARIANTS[name]).layers[0]
        assert isinstance(layer, Layer)
        layers[name] = layer.attention
    x = states(batch, size=size)
    logits = {name: raw_scores(layer, x) * layer.scale for name, layer in layers.items()}
    assert logits["qk_norm"].abs().max() <= 4**0.5 + 1e-4
    assert logits["qk_norm"].abs().max() > 1.5
    if size == 100.0:
        assert logits["baseline"].abs().max() > 1e3


def test_qk_norm_has_one_gain_for_each_number_of_a_head() -> None:
    layer = build(VARIANTS["qk_norm"]).layers[0]
    assert isinstance(layer, Layer)
    gains = {n: p for n, p in layer.attention.named_parameters() if "norm" in n}
    assert set(gains) == {"q_norm.weight", "k_norm.weight"}
    assert all(torch.equal(p, torch.ones(D // 8)) for p in gains.values())


# the mask


@pytest.mark.parametrize("fill", ["minus_infinity", "minus_1e9", "after_softmax"])
@pytest.mark.parametrize("position", ["none", "alibi"])
def test_a_text_of_padding_alone(
    fill: Literal["minus_infinity", "minus_1e9", "after_softmax"], position: Literal["none", "alibi"], batch: Batch
) -> None:
    """-1e9: the mean of all values. Minus infinity: 0 / 0 in the kernel for short texts, 0 in torch's own."""
    factors = Factors(mask_fill=fill, position=position)
    layer, x = first_attention(factors), states(batch)
    with torch.no_grad():
        nn.init.eye_(layer.out.weight)
        nn.init.zeros_(layer.out.bias)
        values = layer.project(x).chunk(3, -1)[2]
        bias = Positions(factors, length=MAX_LENGTH, d_model=D).bias(x.shape[1])
        got = layer(x, torch.zeros_like(batch[1]), bias)
        mixed = layer(x, batch[1] & (torch.arange(len(x)) != 1)[:, None], bias)
    if fill == "minus_infinity" and position == "none":
        assert got.isnan().all()
    elif fill == "minus_1e9":
        torch.testing.assert_close(got, values.mean(1, keepdim=True).expand_as(got), atol=1e-5, rtol=1e-5)
    else:
        assert (got == 0).all()
    others = [0, 2, 3]
    assert mixed[others].isfinite().all()  # the other texts of the batch are as they were


def weights_of(layer: Attention, x: Tensor, mask: Tensor | None) -> Tensor:
    """The sum of the attention weights of each query (B, T): what attention makes of values that are all 1."""
    with torch.no_grad():
        layer.qkv.weight[2 * D :] = 0.0
        layer.qkv.bias[2 * D :] = 1.0
        nn.init.eye_(layer.out.weight)
        nn.init.zeros_(layer.out.bias)
        sums: Tensor = layer(x, mask)
    return sums.mean(-1)


def test_weights_sum_to_less_than_one_only_where_padding_is_removed_after_the_softmax(batch: Batch) -> None:
    sums = {n: weights_of(first_attention(VARIANTS[n]), states(batch), batch[1]) for n in
            ("baseline", "mask_1e9", "mask_after_softmax", "no_attention_mask")}  # fmt: skip
    for name in ("baseline", "mask_1e9", "no_attention_mask"):
        torch.testing.assert_close(sums[name], torch.ones_like(sums[name]))
    assert (sums["mask_after_softmax"][1:] < 0.99).all()
    torch.testing.assert_close(sums["mask_after_softmax"][0], torch.ones(MAX_LENGTH))  # a text without padding


def test_minus_1e9_is_minus_infinity_in_float32(batch: Batch) -> None:
    with torch.no_grad():
        torch.testing.assert_close(build(VARIANTS["mask_1e9"])(*batch), build(BASELINE)(*batch), atol=1e-5, rtol=1e-5)


# dropout of the weights


def test_dropout_of_the_weights_drops_its_share_and_keeps_the_mean() -> None:
    rate, tokens = 0.25, 64
    model = Encoder(
        Factors(attention_dropout=True, dropout=rate), RECIPE, vocabulary=VOCABULARY, classes=3, max_length=tokens
    )
    initialise(model, seed=0)
    layer = model.layers[0]
    assert isinstance(layer, Layer)
    seen: dict[str, Tensor] = {}
    dropout = layer.attention.weights_dropout
    assert isinstance(dropout, Dropout)
    dropout.register_forward_hook(lambda _, args, y: seen.update(before=args[0], after=y))
    sums = weights_of(
        layer.attention.train(), torch.randn(50, tokens, D, generator=torch.Generator().manual_seed(4)), None
    )
    before, after = seen["before"], seen["after"]
    assert before.shape == (50, 8, tokens, tokens)
    kept = after != 0
    n = kept.numel()
    assert 1 - kept.double().mean().item() == pytest.approx(rate, abs=5 * math.sqrt(rate * (1 - rate) / n))
    torch.testing.assert_close(after[kept], before[kept] / (1 - rate), atol=1e-6, rtol=1e-4)
    assert sums.std() > 0.01
    assert sums.double().mean().item() == pytest.approx(1.0, abs=0.01)


def test_dropout_of_the_weights_has_a_stream_of_its_own(batch: Batch) -> None:
    model = build(VARIANTS["attention_dropout"])
    extra = {n for n, m in model.named_modules() if isinstance(m, Dropout)} - {
        n for n, m in build(BASELINE).named_modules() if isinstance(m, Dropout)
    }
    assert extra == {f"layers.{i}.attention.weights_dropout" for i in range(RECIPE.num_layers)}
    with torch.no_grad():  # at test it is the baseline
        torch.testing.assert_close(model(*batch), build(BASELINE)(*batch), atol=1e-5, rtol=1e-5)
        model.train()
        assert (model(*batch) - model(*batch)).abs().max() > 1e-3


# precision


@pytest.mark.parametrize("case", [*CASES, "attention_dropout"])
def test_bfloat16_is_near_float32(case: str, batch: Batch) -> None:
    factors = CASES.get(case, VARIANTS["attention_dropout"])
    single = build(factors)
    narrow = build(factors, recipe=dataclasses.replace(RECIPE, precision="bfloat16"))
    got = narrow(*batch)
    torch.testing.assert_close(got, single(*batch), atol=0.1, rtol=0.1)
    got.sum().backward()
    for name, parameter in narrow.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    assert len(got) == len(LENGTHS)


def test_minus_1e9_overflows_in_float16_and_not_in_bfloat16() -> None:
    padding = torch.tensor([False, True])
    assert torch.zeros(2, dtype=torch.bfloat16).masked_fill(padding, -1e9).isfinite().all()
    with pytest.raises(RuntimeError, match="overflow"):
        torch.zeros(2, dtype=torch.float16).masked_fill(padding, -1e9)


@pytest.mark.parametrize(
    "factors",
    [
        Factors(mask_fill="after_softmax"),
        Factors(mask_fill="minus_1e9", position="t5"),
        Factors(attention_dropout=True),
    ],
)
def test_weights_in_parts_are_the_same_as_at_once(
    factors: Factors, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outputs() -> tuple[torch.Tensor, list[torch.Tensor]]:
        model = build(factors).train()
        out = model(*batch)
        return out, list(torch.autograd.grad(out.square().sum(), list(model.parameters())))

    whole, gradients = outputs()
    monkeypatch.setattr("knockout.model.attention.HELD", 1)  # one text at a time
    parts, of_parts = outputs()
    torch.testing.assert_close(parts, whole)  # the masks of dropout among them: they are drawn text by text
    torch.testing.assert_close(of_parts, gradients)
