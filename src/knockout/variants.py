"""The registry: every factor that can be ablated, the baseline, and the variants of it.

A factor is one component of the model or of the training recipe. The defaults of `Factors` are the baseline; a variant
is a constructor call that names what differs. What a variant changes is computed (`changes`), never written by hand.

`VERSION` is part of every run's id. Whoever changes a default, or the numbers that a configuration
trains to, raises it.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

VERSION = 2

BASELINE = "baseline"


@dataclass(frozen=True, kw_only=True)
class Factors:
    """The components that a variant may change. Metadata are the bounds that study files are checked against."""

    position: Literal["sinusoidal", "learned", "none"] = "sinusoidal"
    residual: bool = True
    scale: Literal["sqrt_dk", "none"] = "sqrt_dk"  # the divisor of the attention logits
    num_heads: int = field(default=8, metadata={"ge": 1})
    pooling: Literal["mean", "max", "cls", "first"] = "mean"
    norm: Literal["pre", "post"] = "pre"
    warmup: float = field(default=0.1, metadata={"ge": 0.0, "lt": 1.0})  # fraction of the optimiser steps
    activation: Literal["relu", "gelu"] = "relu"
    dropout: float = field(default=0.1, metadata={"ge": 0.0, "lt": 1.0})
    clip_norm: float = field(default=1.0, metadata={"ge": 0.0})  # largest gradient norm; 0 is no clipping
    attention_mask: bool = True  # no attention to padding
    pooling_mask: bool = True  # padding is left out of the pooled vector


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The hyperparameters that all runs of a study share: the sizes of the model, and training."""

    d_model: int = field(default=64, metadata={"section": "model", "ge": 2, "le": 8192})
    num_layers: int = field(default=2, metadata={"section": "model", "ge": 1, "le": 256})
    d_ff: int = field(default=256, metadata={"section": "model", "ge": 1, "le": 65536})
    epochs: int = field(default=3, metadata={"ge": 1, "le": 10_000})
    batch_size: int = field(default=64, metadata={"ge": 1, "le": 65536})  # texts per optimiser step
    learning_rate: float = field(default=1e-3, metadata={"gt": 0.0, "le": 10.0})  # the peak
    weight_decay: float = field(default=0.01, metadata={"ge": 0.0, "lt": 1.0})
    weights: Literal["last", "best_validation"] = "last"  # the weights that are evaluated on the test split
    precision: Literal["float32", "bfloat16"] = "float32"  # of products and activations; weights are float32


VARIANTS: Mapping[str, Factors] = MappingProxyType(
    {
        BASELINE: Factors(),
        "no_position": Factors(position="none"),
        "position_learned": Factors(position="learned"),
        "no_residual": Factors(residual=False),
        "no_scale": Factors(scale="none"),
        "heads_1": Factors(num_heads=1),
        "heads_16": Factors(num_heads=16),
        "pool_max": Factors(pooling="max"),
        "pool_cls": Factors(pooling="cls"),
        "pool_first": Factors(pooling="first"),
        "post_norm": Factors(norm="post"),
        "no_warmup": Factors(warmup=0.0),
        # Interactions: two factors at once, named for both.
        "post_norm_no_warmup": Factors(norm="post", warmup=0.0),
        "no_residual_no_scale": Factors(residual=False, scale="none"),
    }
)

PAPERS: Mapping[str, str] = MappingProxyType(
    {
        "position": "Vaswani et al. 2017, 3.5 and table 3 (E)",
        "residual": "Dong, Cordonnier & Loukas 2021: rank collapse without skip connections",
        "scale": "Vaswani et al. 2017, 3.2.1",
        "num_heads": "Vaswani et al. 2017, table 3 (A); Michel, Levy & Neubig 2019",
        "pooling": "Devlin et al. 2019, 3 ([CLS]); Reimers & Gurevych 2019, table 6",
        "norm": "Xiong et al. 2020: Pre-LN against Post-LN",
        "warmup": "Vaswani et al. 2017, 5.3; Xiong et al. 2020, 3.1",
        "activation": "Hendrycks & Gimpel 2016",
        "dropout": "Vaswani et al. 2017, 5.4",
        "clip_norm": "Pascanu, Mikolov & Bengio 2013",
        "attention_mask": "Vaswani et al. 2017, 3.2.3",
        "pooling_mask": "Reimers & Gurevych 2019, 3",
    }
)


def changes(factors: Any, baseline: Any = None) -> dict[str, tuple[Any, Any]]:
    """The differences from the baseline: factor -> (value in the baseline, value here), in the order of the fields.

    `factors` is an instance of any dataclass; `baseline` is the same class with its defaults unless given.
    """
    reference = type(factors)() if baseline is None else baseline
    pairs = ((f.name, getattr(reference, f.name), getattr(factors, f.name)) for f in dataclasses.fields(factors))
    return {name: (before, after) for name, before, after in pairs if before != after}


def faults(factors: Factors, recipe: Recipe) -> dict[str, str]:
    """factor -> why it cannot be combined with the others or with the recipe. Empty where the model can be built."""
    wrong = {}
    if recipe.d_model % factors.num_heads:
        fitting = [h for h in range(1, recipe.d_model + 1) if recipe.d_model % h == 0]
        wrong["num_heads"] = f"does not divide d_model = {recipe.d_model}; allowed: {', '.join(map(str, fitting))}"
    if factors.position == "sinusoidal" and recipe.d_model % 2:
        wrong["position"] = f"sinusoidal positions come in pairs and d_model = {recipe.d_model} is odd"
    return wrong
