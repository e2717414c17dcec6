"""Learning rates against torch's own schedulers, and growing batches against their definition."""

import math
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from knockout.schedules import Phase, constant_rate, learning_rate, onecycle, phases, rate_and_beta1, sizes


def torch_onecycle(*, steps: int, warmup: float, peak: float, calls: int) -> list[tuple[float, float]]:
    """The learning rate and beta1 with which torch's scheduler makes each of `calls` steps."""
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=peak)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=peak, total_steps=steps, pct_start=warmup, anneal_strategy="cos"
    )
    made = []
    for _ in range(calls):
        group = optimizer.param_groups[0]
        made.append((group["lr"], group["betas"][0]))
        optimizer.step()
        scheduler.step()
    return made


@pytest.mark.parametrize("warmup", [0.0, 0.001, 0.1, 0.3, 0.99])
@pytest.mark.parametrize("steps", [1, 2, 7, 97, 250])
def test_onecycle_is_torchs_at_every_step(steps: int, warmup: float) -> None:
    expected = torch_onecycle(steps=steps, warmup=warmup, peak=3e-4, calls=steps)
    ours = [onecycle(s, steps=steps, warmup=warmup, peak=3e-4) for s in range(1, steps + 1)]
    assert ours == expected  # every bit
    assert [rate_and_beta1("onecycle", s, steps=steps, warmup=warmup, peak=3e-4) for s in range(1, steps + 1)] == ours


def test_onecycle_without_warmup_starts_on_the_way_down() -> None:
    """Torch allows pct_start = 0: there is no rise, and the first of T steps is 1/T of the way down."""
    rates = [onecycle(s, steps=100, warmup=0.0, peak=1.0) for s in range(1, 101)]
    assert rates[0][0] == pytest.approx((1 + math.cos(math.pi / 100)) / 2, abs=1e-6)
    assert [r for r, _ in rates] == sorted((r for r, _ in rates), reverse=True)
    assert rates[-1] == pytest.approx((1 / 250_000, 0.95))


def test_onecycle_where_torch_divides_by_zero_has_its_peak_there() -> None:
    with pytest.raises(ZeroDivisionError):
        torch_onecycle(steps=10, warmup=0.1, peak=1.0, calls=1)
    assert onecycle(1, steps=10, warmup=0.1, peak=1.0) == pytest.approx((1.0, 0.85))
    assert onecycle(10, steps=10, warmup=0.1, peak=1.0) == pytest.approx((1 / 250_000, 0.95))


def test_the_tutorials_count_of_steps_raises_with_the_last_partial_batch_kept() -> None:
    """25,000 texts, 64 a batch, 5 epochs: `epochs * (n // batch)` is five steps short if no batch is dropped."""
    texts, batch_size, epochs = 25_000, 64, 5
    planned = epochs * (texts // batch_size)

    def steps(*, drop_last: bool) -> int:
        cut = [
            phases(texts, epoch=e, epochs=epochs, batch_size=batch_size, drop_last=drop_last)
            for e in range(1, epochs + 1)
        ]
        return sum(phase.steps for epoch in cut for phase in epoch)

    assert (planned, steps(drop_last=True), steps(drop_last=False)) == (1950, 1950, 1955)
    assert len(torch_onecycle(steps=planned, warmup=0.1, peak=3e-4, calls=1950)) == 1950
    with pytest.raises(ValueError, match=r"Tried to step 1951 times\. The specified number of total steps is 1950"):
        torch_onecycle(steps=planned, warmup=0.1, peak=3e-4, calls=1951)


@pytest.mark.parametrize("warmup", [0.0, 0.05, 0.5])
def test_constant_is_torchs_linear_warmup_and_then_the_peak(warmup: float) -> None:
    steps, peak = 60, 2e-4
    rates = [constant_rate(s, steps=steps, warmup=warmup, peak=peak) for s in range(1, steps + 1)]
    w = max(1, math.ceil(warmup * steps))
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=peak)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1 / w, total_iters=w - 1)
    expected = []
    for _ in range(steps):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates == pytest.approx(expected)
    assert [rate_and_beta1("constant", s, steps=steps, warmup=warmup, peak=peak) for s in range(1, steps + 1)] == [
        (rate, 0.9) for rate in rates
    ]


def test_cosine_is_torchs_after_a_linear_warmup() -> None:
    steps, w, peak = 80, 8, 1e-3
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=peak)
    scheduler = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1 / w, total_iters=w - 1),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps - w),
        ],
        milestones=[w],
    )
    expected = []
    for _ in range(steps):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own call within SequentialLR passes an epoch
            scheduler.step()
    assert [learning_rate(s, steps=steps, warmup=0.1, peak=peak) for s in range(1, steps + 1)] == pytest.approx(
        expected
    )
    assert rate_and_beta1("cosine", 9, steps=steps, warmup=0.1, peak=peak) == (peak, 0.9)


def test_sizes_double_to_the_batch_size() -> None:
    assert sizes(256, initial=32) == [32, 64, 128, 256]
    assert sizes(96, initial=24) == [24, 48, 96]
    assert sizes(64, initial=64) == sizes(64, initial=0) == [64]
    for initial in (65, 128, 48, 21):
        with pytest.raises(ValueError, match="do not reach 64"):
            sizes(64, initial=initial)


@given(
    count=st.integers(1, 3000),
    epochs=st.integers(1, 6),
    initial=st.integers(1, 20),
    doublings=st.integers(0, 5),
    drop_last=st.booleans(),
)
def test_growing_batches_cover_every_epoch_in_equal_shares(
    count: int, epochs: int, initial: int, doublings: int, drop_last: bool
) -> None:
    batch_size = initial << doublings
    made = [
        phases(count, epoch=e, epochs=epochs, batch_size=batch_size, initial=initial, drop_last=drop_last)
        for e in range(1, epochs + 1)
    ]
    for epoch in made:
        left_out = count - sum(phase.texts for phase in epoch)
        assert 0 <= left_out < batch_size
        assert left_out == 0 or drop_last
        whole = epoch if drop_last else epoch[:-1]
        assert all(phase.texts % phase.batch_size == 0 for phase in whole)  # only an epoch's last batch is partial
        assert all(phase.texts > 0 for phase in epoch)
    in_order = [phase.batch_size for epoch in made for phase in epoch]
    assert in_order == sorted(in_order)
    if not drop_last:
        share = epochs * count / (doublings + 1)
        for i in range(doublings + 1):
            size = initial << i
            texts = sum(phase.texts for epoch in made for phase in epoch if phase.batch_size == size)
            assert abs(texts - share) <= size + 1  # it may begin half a size late, and end a size late


def test_growing_batches_by_hand() -> None:
    """100 texts, 2 epochs, 8 to 32: each size has 66 or 67 of the 200 texts, rounded up to whole batches."""
    assert phases(100, epoch=1, epochs=2, batch_size=32, initial=8) == [Phase(8, 72), Phase(16, 28)]
    assert phases(100, epoch=2, epochs=2, batch_size=32, initial=8) == [Phase(16, 48), Phase(32, 52)]
    assert [p.steps for p in phases(100, epoch=2, epochs=2, batch_size=32, initial=8)] == [3, 2]
    assert phases(100, epoch=2, epochs=2, batch_size=32, initial=8, drop_last=True) == [Phase(16, 48), Phase(32, 32)]
    assert phases(100, epoch=1, epochs=2, batch_size=32) == [Phase(32, 100)]
    assert phases(31, epoch=1, epochs=2, batch_size=32, drop_last=True) == []
