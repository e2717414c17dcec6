"""Small models, of every variant, on a batch of random ids."""

from collections.abc import Callable

import pytest
import torch

from knockout.model.encoder import Encoder, initialise
from knockout.variants import Factors, Recipe

VOCABULARY, CLASSES, MAX_LENGTH = 50, 3, 12
LENGTHS = (12, 5, 1, 9)
RECIPE = Recipe(d_model=32, num_layers=2, d_ff=48)


def build(factors: Factors, *, seed: int = 0, recipe: Recipe = RECIPE) -> Encoder:
    """An initialised encoder in eval mode."""
    model = Encoder(factors, recipe, vocabulary=VOCABULARY, classes=CLASSES, max_length=MAX_LENGTH)
    initialise(model, seed=seed)
    return model.eval()


Batch = tuple[torch.Tensor, torch.Tensor]


@pytest.fixture
def batch() -> Batch:
    """Ids (B, T) and their mask; texts of 12, 5, 1 and 9 tokens."""
    draw = torch.Generator().manual_seed(7)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return torch.randint(2, VOCABULARY, mask.shape, generator=draw) * mask, mask


def permute_tokens(batch: Batch) -> torch.Tensor:
    """The same ids with the real tokens of every text turned around."""
    ids = batch[0].clone()
    for row, length in enumerate(LENGTHS):
        ids[row, :length] = ids[row, :length].flip(0)
    return ids


Build = Callable[..., Encoder]
