"""What changes from step to step: the learning rate, AdamW's beta1, and the size of a batch. Pure functions."""

import math
from dataclasses import dataclass
from typing import Literal

Schedule = Literal["cosine", "onecycle", "constant"]

BETA1 = 0.9
"""AdamW's default, of every schedule but `onecycle`."""

ONECYCLE_BETAS = (0.85, 0.95)
"""beta1 at the peak of the learning rate, and at both ends."""

DIVISOR, FINAL_DIVISOR = 25.0, 1e4
"""`onecycle` starts at peak / DIVISOR and ends at peak / (DIVISOR * FINAL_DIVISOR)."""


def rate_and_beta1(schedule: Schedule, step: int, *, steps: int, warmup: float, peak: float) -> tuple[float, float]:
    """The learning rate and AdamW's beta1 of a step, 1 to `steps`."""
    match schedule:  # factor: schedule
        case "cosine":
            return learning_rate(step, steps=steps, warmup=warmup, peak=peak), BETA1
        case "constant":
            return constant_rate(step, steps=steps, warmup=warmup, peak=peak), BETA1
        case "onecycle":
            return onecycle(step, steps=steps, warmup=warmup, peak=peak)


def learning_rate(step: int, *, steps: int, warmup: float, peak: float) -> float:
    """The learning rate of a step, 1 to `steps`: linear warmup, then half a cosine.

    The warmup rises from peak/w over w = ceil(warmup * steps) steps. The cosine (Loshchilov & Hutter 2017) starts at
    the peak and would reach 0 one step after the last; without warmup it spans all steps.
    """
    w = math.ceil(warmup * steps)  # factor: warmup (Vaswani et al. 2017, 5.3)
    if step <= w:
        return peak * step / w
    return peak * 0.5 * (1 + math.cos(math.pi * (step - w - 1) / (steps - w)))


def constant_rate(step: int, *, steps: int, warmup: float, peak: float) -> float:
    """The learning rate of a step, 1 to `steps`: the linear warmup of `learning_rate`, then the peak."""
    return peak * min(1.0, step / max(1, math.ceil(warmup * steps)))


def onecycle(step: int, *, steps: int, warmup: float, peak: float) -> tuple[float, float]:
    """The learning rate and beta1 of a step, 1 to `steps`, by the policy of Smith & Topin 2018 as torch has it.

    They are those of `torch.optim.lr_scheduler.OneCycleLR(max_lr=peak, total_steps=steps, pct_start=warmup)`. Two half
    cosines: the rate rises from peak / 25 to the peak and falls to peak / 250,000, while beta1 falls from .95 to .85
    and rises again. The peak is at step warmup * steps, which may lie between two steps. With less than one step of
    warmup, 0 included, there is no rise: the first step is already on the way down.

    If warmup * steps is exactly 1, torch divides 0 by 0. Here that one step is the peak.
    """
    at, top, end = step - 1, warmup * steps - 1, steps - 1
    low, high = ONECYCLE_BETAS
    start, final = peak / DIVISOR, peak / DIVISOR / FINAL_DIVISOR
    if at <= top:
        part = at / top if top else 1.0
        return _half_cosine(start, peak, part), _half_cosine(high, low, part)
    part = (at - top) / (end - top)
    return _half_cosine(peak, final, part), _half_cosine(low, high, part)


def _half_cosine(start: float, end: float, part: float) -> float:
    """From `start` to `end` as `part` goes from 0 to 1."""
    return end + (start - end) / 2 * (1 + math.cos(math.pi * part))


@dataclass(frozen=True)
class Phase:
    """Consecutive batches of one size within an epoch."""

    batch_size: int
    texts: int

    @property
    def steps(self) -> int:
        """The number of batches; the last may be smaller."""
        return -(-self.texts // self.batch_size)


def sizes(batch_size: int, *, initial: int) -> list[int]:
    """The sizes of batches of a run: `initial`, doubled until `batch_size`; where `initial` is 0, `batch_size` alone.

    Raises `ValueError` where doubling does not lead to `batch_size`.
    """
    doublings = (batch_size // initial).bit_length() - 1 if initial else 0
    if initial and initial << max(doublings, 0) != batch_size:
        raise ValueError(f"batches of {initial} texts that double do not reach {batch_size}")
    return [batch_size >> i for i in range(doublings, -1, -1)]


def phases(
    count: int, *, epoch: int, epochs: int, batch_size: int, initial: int = 0, drop_last: bool = False
) -> list[Phase]:
    """How an epoch, 1 to `epochs`, over `count` texts is cut into batches: the phases, in order.

    Each size has an equal share of the texts of all epochs (Smith et al. 2018, who raise the batch size where others
    lower the rate), to within one batch: a size ends with a whole batch, or with the epoch. So only the last batch of
    an epoch may not be full; `drop_last` leaves it out.
    """
    ladder = sizes(batch_size, initial=initial)
    found, taken = [], 0
    for i, size in enumerate(ladder, 1):
        share_end = i * epochs * count // len(ladder) - (epoch - 1) * count  # in texts of this epoch
        whole = -(-max(0, share_end - taken) // size) * size
        texts = min(whole, count - taken)
        taken += texts
        if drop_last:
            texts -= texts % size
        if texts:
            found.append(Phase(size, texts))
    return found
