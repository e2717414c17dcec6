"""Random streams, one for each purpose of a run: the initialisation of a parameter, the order of an epoch, a dropout.

A stream depends on (seed, purpose) only, so a component that one variant adds or removes does not change the random
numbers of any other component: runs of one seed are paired.
"""

import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def stream(seed: int, purpose: str) -> np.random.SeedSequence:
    """The seed sequence of one purpose of one run: independent of every other purpose and of the order of use."""
    return np.random.SeedSequence([seed, zlib.crc32(purpose.encode())])


def generator(seed: int, purpose: str, device: str = "cpu") -> "torch.Generator":
    """A torch generator for the stream of one purpose."""
    import torch  # takes seconds, and a trainer without it needs `stream` alone

    state = stream(seed, purpose).generate_state(1, np.uint64)[0]
    return torch.Generator(device=device).manual_seed(int(state) & (2**63 - 1))
