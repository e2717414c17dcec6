"""`without_effect` names a field exactly where no value of it changes what the model computes."""

import dataclasses
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import torch
from torch import Tensor

from knockout.model.encoder import Encoder, initialise
from knockout.variants import SYSTEMS, VARIANTS, Factors, Recipe, faults, without_effect

from .conftest import Batch

RECIPE = Recipe(d_model=16, num_layers=1, d_ff=24)
SIZES: dict[str, tuple[Any, ...]] = {"num_layers": (1, 2), "d_ff": (24, 40)}
NUMBERS: dict[str, tuple[Any, ...]] = {"num_heads": (1, 8), "head_size": (0, 6), "dropout": (0.0, 0.3)}
TRAINING = {
    "warmup", "clip_norm", "schedule", "label_smoothing", "word_dropout", "weight_averaging", "order", "drop_last",
    "padding",
}  # fmt: skip
SAME_NUMBERS = {"checkpointing"}  # it changes time and memory only

CONFIGURATIONS: dict[str, Factors] = {
    "baseline": Factors(),
    "padding everywhere": Factors(attention_mask=False, pooling_mask=False),
    "after softmax": Factors(mask_fill="after_softmax"),
    "post": Factors(norm="post", pooling="first", pooling_mask=False),
    "no norm": Factors(norm="none", pooling="last", pooling_mask=False),
    "no dropout": Factors(dropout=0.0),
    "no ffn": Factors(feed_forward=False, pooling="cls"),
    "fourier": Factors(mixing="fourier"),
    "fourier over padding": Factors(mixing="fourier", attention_mask=False),
    "no mixing": Factors(mixing="none"),
    "no mixing over padding": Factors(mixing="none", pooling_mask=False),
    "empty layers": Factors(mixing="none", feed_forward=False),
    "empty layers without dropout": Factors(mixing="none", feed_forward=False, embedding_dropout=False, norm="none"),
    "bilstm": Factors(encoder="bilstm", position="none"),
    "bilstm over padding": Factors(encoder="bilstm", pooling_mask=False),
    "bag": Factors(encoder="bag", position="none"),
    "bag over padding": Factors(encoder="bag", pooling_mask=False, embedding_dropout=False),
}


def choices(name: str) -> tuple[Any, ...]:
    hint = get_type_hints(Factors)[name]
    if get_origin(hint) is Literal:
        return get_args(hint)
    return (False, True) if hint is bool else NUMBERS[name]


def computed(factors: Factors, recipe: Recipe, batch: Batch) -> tuple[Tensor, Tensor]:
    """The logits in training and in evaluation."""
    model = Encoder(factors, recipe, vocabulary=50, classes=3, max_length=12)
    initialise(model, seed=2)
    with torch.no_grad():
        return model.train()(*batch), model.eval()(*batch)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_it_names_the_fields_that_change_no_logit(name: str, batch: Batch) -> None:
    factors = CONFIGURATIONS[name]
    others = {
        f.name: [(dataclasses.replace(factors, **{f.name: v}), RECIPE) for v in choices(f.name)]
        for f in dataclasses.fields(Factors)
        if f.name not in TRAINING | SAME_NUMBERS
    } | {size: [(factors, dataclasses.replace(RECIPE, **{size: v})) for v in SIZES[size]] for size in SIZES}
    here = computed(factors, RECIPE, batch)
    still = set()
    for field, candidates in others.items():
        there = [computed(f, r, batch) for f, r in candidates if not faults(f, r)]
        if all(torch.allclose(a, b, atol=1e-6, rtol=0) for pair in there for a, b in zip(here, pair, strict=True)):
            still.add(field)
    named = set(without_effect(factors, RECIPE)) - SAME_NUMBERS
    assert still == named


def test_the_reasons_name_what_is_in_the_way() -> None:
    found = without_effect(Factors(encoder="bilstm"), Recipe(epochs=1))
    assert 'encoder = "bilstm"' in found["num_heads"]
    assert "epoch" in found["weights"]
    assert without_effect(Factors(mixing="fourier"), Recipe())["scale"] == (
        'there is no attention where mixing = "fourier"'
    )
    fields = [f.name for cls in (Factors, Recipe) for f in dataclasses.fields(cls)]
    assert list(found) == [f for f in fields if f in found]


def test_no_registered_variant_or_system_consists_of_fields_without_effect() -> None:
    """But one: padding is masked everywhere in the baseline, so its embedding shows under other baselines only."""
    default = Factors()
    for name, factors in VARIANTS.items():
        changed = {f.name for f in dataclasses.fields(Factors) if getattr(factors, f.name) != getattr(default, f.name)}
        idle = set(without_effect(factors, Recipe())) & set(without_effect(default, Recipe()))
        assert changed & idle == ({"padding_embedding"} if name == "trained_padding" else set()), name
    for name, system in SYSTEMS.items():
        assert faults(system.factors, Recipe(**system.recipe)) == {}, name
