"""Each kind of position: the formula of its paper, what it must leave unseen, and lengths beyond the trained one."""

import dataclasses
import math
from typing import Literal

import numpy as np
import pytest
import torch
from torch import nn

from knockout.model.encoder import Encoder, initialise
from knockout.model.positions import Positions, Rotation, Sinusoids, alibi_slopes, sinusoids, t5_buckets
from knockout.variants import VARIANTS, Factors, Recipe

from .conftest import MAX_LENGTH, RECIPE, VOCABULARY, Batch, build, permute_tokens

BASELINE = VARIANTS["baseline"]
KINDS = {
    name: factors
    for name, factors in VARIANTS.items()
    if factors == dataclasses.replace(BASELINE, position=factors.position)
}
ORDER_SEEN = ("baseline", "position_learned", "rope", "alibi", "t5_bias")


def logits(factors: Factors, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        out: torch.Tensor = build(factors)(ids, mask)
    return out


def test_every_kind_is_registered() -> None:
    assert set(KINDS) == {*ORDER_SEEN, "no_position", "position_by_row"}


@pytest.mark.parametrize("name", KINDS)
def test_only_with_positions_of_words_mean_pooling_sees_their_order(name: str, batch: Batch) -> None:
    turned, mask = permute_tokens(batch), batch[1]
    moved = (logits(KINDS[name], *batch) - logits(KINDS[name], turned, mask)).abs().amax(1)
    assert moved[2] < 1e-6  # the text of one token has no order
    if name in ("no_position", "position_by_row"):
        assert moved.max() < 1e-5
    elif name == "alibi":  # symmetric: a text that is turned around keeps all its distances
        assert moved.max() < 1e-5
        ids = batch[0].clone()
        ids[0, :2] = ids[0, :2].flip(0)
        assert (logits(KINDS[name], *batch) - logits(KINDS[name], ids, mask))[0].abs().max() > 1e-3
    else:
        assert (moved[[0, 1, 3]] > (1e-5 if name == "t5_bias" else 1e-3)).all()  # the bias of t5 starts small


# sinusoids and learned tables


def test_sinusoids_are_the_formula_of_the_paper() -> None:
    table = sinusoids(40, 8)
    for t in range(40):
        for i in range(4):
            angle = t / 10000 ** (2 * i / 8)
            assert table[t, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[t, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_a_table_of_sinusoids_grows_and_keeps_its_rows() -> None:
    table = Sinusoids(5, 8)
    before = table(5).clone()
    torch.testing.assert_close(table(40), sinusoids(40, 8), atol=0, rtol=1e-6)
    assert torch.equal(table(5), before)
    assert "table" not in table.state_dict()


def test_learned_positions_are_parameters_and_add_to_the_token(batch: Batch) -> None:
    learned, fixed = build(VARIANTS["position_learned"]), build(BASELINE)
    assert set(dict(learned.named_parameters())) - set(dict(fixed.named_parameters())) == {"positions.table"}
    assert isinstance(learned.positions.table, nn.Parameter)
    with torch.no_grad():  # with the sinusoids as its table it is the baseline
        learned.positions.table.copy_(sinusoids(MAX_LENGTH, RECIPE.d_model))
        torch.testing.assert_close(learned(*batch), fixed(*batch))


def test_by_row_every_token_of_a_text_has_the_position_of_the_text(batch: Batch) -> None:
    positions = Positions(VARIANTS["position_by_row"], length=MAX_LENGTH, d_model=8)
    x = torch.zeros(MAX_LENGTH + 9, 3, 8)  # more texts than the table has rows
    added = positions(x)
    for b in range(len(x)):
        for i in range(4):
            angle = b / 10000 ** (2 * i / 8)
            expected = torch.tensor([math.sin(angle), math.cos(angle)]).expand(3, 2)
            torch.testing.assert_close(added[b, :, 2 * i : 2 * i + 2], expected, atol=1e-5, rtol=0)
    ids, mask = batch
    predicted = logits(VARIANTS["position_by_row"], ids, mask)
    turned = logits(VARIANTS["position_by_row"], ids.flip(0), mask.flip(0)).flip(0)
    assert (predicted - turned).abs().amax(1).min() > 1e-3  # the prediction depends on the row
    assert torch.allclose(logits(BASELINE, ids, mask), logits(BASELINE, ids.flip(0), mask.flip(0)).flip(0), atol=1e-5)


# rope


def test_rope_is_the_formula_of_the_paper() -> None:
    """Su et al. 2021, equation 15: blocks of a rotation by m theta_i with theta_i = 10000^(-2(i - 1) / d), i from 1."""
    K, T = 6, 9
    x = torch.randn(2, T, 3, K, generator=torch.Generator().manual_seed(0))
    got = Rotation(K)(x)
    for m in range(T):
        R = np.zeros((K, K))
        for i in range(1, K // 2 + 1):
            theta = 10000 ** (-2 * (i - 1) / K)
            c, s = math.cos(m * theta), math.sin(m * theta)
            R[2 * i - 2 : 2 * i, 2 * i - 2 : 2 * i] = [[c, -s], [s, c]]
        for b in range(2):
            for h in range(3):
                assert got[b, m, h].numpy() == pytest.approx(R @ x[b, m, h].double().numpy(), abs=1e-5)


def test_rope_scores_depend_on_the_distance_only_and_norms_stay() -> None:
    q, k = torch.randn(2, 8, generator=torch.Generator().manual_seed(1))
    rotation = Rotation(8)
    turned_q, turned_k = (rotation(v.expand(1, 30, 1, 8))[0, :, 0] for v in (q, k))
    scores = turned_q @ turned_k.T  # (30, 30)
    for shift in (1, 5, 20):
        torch.testing.assert_close(scores[shift:, shift:], scores[:-shift, :-shift], atol=1e-4, rtol=0)
    assert scores[0].std() > 0.1  # and on the distance they do depend
    torch.testing.assert_close(turned_q.norm(dim=-1), q.norm().expand(30))


# alibi


def test_alibi_slopes_are_those_of_the_paper() -> None:
    assert alibi_slopes(8) == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]  # section 3
    assert alibi_slopes(16) == pytest.approx([2 ** (-(h + 1) / 2) for h in range(16)])
    assert alibi_slopes(1) == [2**-8]
    for heads in range(1, 40):
        slopes = alibi_slopes(heads)
        assert slopes == pytest.approx(published_slopes(heads))
        assert len(set(slopes)) == heads


def published_slopes(n: int) -> list[float]:
    """`get_slopes` of github.com/ofirpress/attention_with_linear_biases, fairseq/models/transformer.py."""

    def power_of_2(n: int) -> list[float]:
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(n).is_integer():
        return power_of_2(n)
    closest = 2 ** math.floor(math.log2(n))
    return power_of_2(closest) + published_slopes(2 * closest)[0::2][: n - closest]


@pytest.mark.parametrize("heads", [8, 12])
def test_alibi_is_minus_slope_times_distance_in_both_directions(heads: int) -> None:
    bias = Positions(Factors(position="alibi", num_heads=heads), length=4, d_model=48).bias(7)
    assert bias is not None
    assert bias.shape == (heads, 7, 7)
    for h, slope in enumerate(published_slopes(heads)):
        for i in range(7):
            for j in range(7):
                assert bias[h, i, j].item() == pytest.approx(-slope * abs(i - j))
    assert torch.equal(bias, bias.mT)


# t5


def published_bucket(relative_position: int) -> int:
    """`_relative_position_bucket` of github.com/google-research/text-to-text-transfer-transformer, bidirectional."""
    num_buckets, max_distance, bucket = 32, 128, 0
    n = -relative_position
    num_buckets //= 2
    bucket += num_buckets if n < 0 else 0
    n = abs(n)
    max_exact = num_buckets // 2
    if n < max_exact:
        return bucket + n
    share = np.log(np.float32(n) / max_exact) / np.log(max_distance / max_exact)
    return bucket + min(max_exact + int(share * (num_buckets - max_exact)), num_buckets - 1)


def test_t5_buckets_are_the_published_ones_and_monotone() -> None:
    distances = torch.arange(-300, 301)
    buckets = t5_buckets(distances).tolist()
    assert buckets == [published_bucket(int(d)) for d in distances]
    after, before = buckets[300:], buckets[300::-1]
    assert after[1:] == sorted(after[1:])
    assert before == sorted(before)
    assert [b + 16 for b in before[1:]] == after[1:]
    assert set(before) == set(range(16))
    assert set(after[91:]) == {31}  # one for all far ones
    assert after[90] == 30


def test_t5_has_one_table_for_all_layers_and_a_bias_for_each_bucket_and_head(batch: Batch) -> None:
    model = build(VARIANTS["t5_bias"])
    extra = set(dict(model.named_parameters())) - set(dict(build(BASELINE).named_parameters()))
    assert extra == {"positions.buckets"}
    table = model.positions.buckets
    assert isinstance(table, nn.Parameter)
    assert table.shape == (32, 8)
    assert 0.01 < table.std().item() < 0.03
    bias = model.positions.bias(20)
    assert bias is not None
    for h in range(8):
        for i in range(20):
            for j in range(20):
                assert bias[h, i, j] == table[published_bucket(j - i), h]
    with torch.no_grad():
        before = model(*batch)
        torch.testing.assert_close(before, logits(VARIANTS["no_position"], *batch), atol=0.1, rtol=0)
        table.add_(1.0)  # the same for all keys, which softmax does not see
        torch.testing.assert_close(model(*batch), before, atol=1e-5, rtol=1e-5)
        table.zero_()
        torch.testing.assert_close(model(*batch), logits(VARIANTS["no_position"], *batch), atol=1e-5, rtol=1e-5)


# [CLS] and lengths


@pytest.mark.parametrize("name", KINDS)
def test_cls_is_token_0_of_every_kind(name: str, batch: Batch) -> None:
    model = build(dataclasses.replace(KINDS[name], pooling="cls"))
    with torch.no_grad():
        assert model(*batch).isfinite().all()
        bias = model.positions.bias(batch[0].shape[1] + 1)
        if model.positions.table is not None:
            assert len(model.positions.table) == MAX_LENGTH + 1
    assert bias is None or bias.shape[-1] == MAX_LENGTH + 1


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("name", KINDS)
def test_texts_may_be_longer_than_the_table(name: str, pooling: Literal["mean", "cls"]) -> None:
    """A model for 12 tokens computes the same as one for 40 with the same parameters, on texts of both lengths."""
    factors = dataclasses.replace(KINDS[name], pooling=pooling)
    short = build(factors)
    draw = torch.Generator().manual_seed(3)
    ids = torch.randint(2, VOCABULARY, (45, 40), generator=draw)  # 45 rows: more than the table for 12 has
    mask = torch.arange(40) < torch.tensor([40, 13, 12, 3, 1] * 9)[:, None]
    ids = ids * mask
    long = Encoder(factors, RECIPE, vocabulary=VOCABULARY, classes=3, max_length=40)
    initialise(long, seed=0)
    with torch.no_grad():
        if isinstance(long.positions.table, nn.Parameter):  # learned: the last row stands for all that follow
            assert short.positions.table is not None
            rows = len(short.positions.table)
            long.positions.table[:rows] = short.positions.table
            long.positions.table[rows:] = short.positions.table[-1]
        got, expected = short(ids, mask), long.eval()(ids, mask)
    assert got.isfinite().all()
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


def test_gradients_of_learned_positions_beyond_the_table_go_to_its_last_row() -> None:
    positions = Positions(VARIANTS["position_learned"], length=4, d_model=2)
    assert positions.table is not None
    nn.init.zeros_(positions.table)
    positions(torch.zeros(1, 7, 2)).sum().backward()
    assert positions.table.grad is not None
    assert positions.table.grad[:, 0].tolist() == [1, 1, 1, 4]


def test_rope_of_one_pair_and_many_heads_can_be_built() -> None:
    model = Encoder(
        Factors(position="rope", num_heads=4, head_size=2), Recipe(d_model=6, num_layers=1, d_ff=4),
        vocabulary=5, classes=2, max_length=3,
    )  # fmt: skip
    initialise(model, seed=0)
    ids = torch.tensor([[2, 3, 4]])
    assert model.eval()(ids, ids > 0).isfinite().all()
