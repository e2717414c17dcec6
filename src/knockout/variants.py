"""The registry: every factor that can be ablated, the baseline, its variants, and whole systems.

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
    """The components that a variant may change. Metadata are the bounds that study files are checked against.

    A factor with `batches` in its metadata changes which examples a batch holds, or their order.
    """

    position: Literal["sinusoidal", "learned", "none", "rope", "alibi", "t5", "sinusoidal_by_row"] = "sinusoidal"
    residual: bool = True
    scale: Literal["sqrt_dk", "none"] = "sqrt_dk"  # the divisor of the attention logits
    num_heads: int = field(default=8, metadata={"ge": 1})
    pooling: Literal["mean", "max", "cls", "first", "last", "attention"] = "mean"
    norm: Literal["pre", "post", "none"] = "pre"
    warmup: float = field(default=0.1, metadata={"ge": 0.0, "lt": 1.0})  # fraction of the optimiser steps
    activation: Literal["relu", "gelu", "swiglu"] = "relu"
    dropout: float = field(default=0.1, metadata={"ge": 0.0, "lt": 1.0})
    clip_norm: float = field(default=1.0, metadata={"ge": 0.0})  # largest gradient norm; 0 is no clipping
    attention_mask: bool = True  # no attention to padding
    pooling_mask: bool = True  # padding is left out of the pooled vector

    # The model.
    encoder: Literal["transformer", "bilstm", "bag"] = "transformer"  # what stands between embedding and pooling
    mixing: Literal["attention", "fourier", "none"] = "attention"  # what mixes the tokens of a text
    feed_forward: bool = True
    norm_kind: Literal["layer", "rms"] = "layer"
    final_norm: bool = True  # a norm after the last layer, where norm = "pre"
    head_size: int = field(default=0, metadata={"ge": 0, "le": 8192})  # d_k; 0 is d_model / num_heads
    projections: Literal["separate", "tied_qk", "shared"] = "separate"  # of queries, keys and values
    qk_norm: bool = False
    mask_fill: Literal["minus_infinity", "minus_1e9", "after_softmax"] = "minus_infinity"  # of logits of padding
    embedding_scale: bool = True  # embeddings times sqrt(d_model)
    padding_embedding: Literal["zero", "trained"] = "zero"
    initialisation: Literal["glorot", "torch", "torch_attention", "normal_02"] = "glorot"

    # Places of dropout, beside the output of every sub-layer; the rate is `dropout`.
    embedding_dropout: bool = True
    attention_dropout: bool = False  # on the attention weights
    ffn_dropout: bool = False  # between the two maps of the feed-forward network
    double_ffn_dropout: bool = False  # a second time on the output of the feed-forward network
    pooled_dropout: bool = False
    dropout_at_test: bool = False

    # Training.
    schedule: Literal["cosine", "onecycle", "constant"] = "cosine"
    label_smoothing: float = field(default=0.0, metadata={"ge": 0.0, "lt": 1.0})
    word_dropout: float = field(default=0.0, metadata={"ge": 0.0, "lt": 1.0})  # share of tokens made unknown
    weight_averaging: float = field(default=0.0, metadata={"ge": 0.0, "lt": 1.0})  # decay of the average per step
    checkpointing: bool = False  # activations of layers are computed again in the backward pass
    order: Literal["by_length", "shuffled", "by_class"] = field(default="by_length", metadata={"batches": True})
    drop_last: bool = field(default=False, metadata={"batches": True})  # leave out the last batch if it is not full
    padding: Literal["batch", "full"] = "batch"  # to the longest text of the batch, or to max_length


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The hyperparameters: the sizes of the model, and training. A variant may change these as well.

    `max_length` and `train_length` cut texts for this run only; the prepared data stay as they are.
    """

    d_model: int = field(default=64, metadata={"section": "model", "ge": 2, "le": 8192})
    num_layers: int = field(default=2, metadata={"section": "model", "ge": 1, "le": 256})
    d_ff: int = field(default=256, metadata={"section": "model", "ge": 1, "le": 65536})
    epochs: int = field(default=3, metadata={"ge": 1, "le": 10_000})
    batch_size: int = field(default=64, metadata={"ge": 1, "le": 65536, "batches": True})  # texts per optimiser step
    learning_rate: float = field(default=1e-3, metadata={"gt": 0.0, "le": 10.0})  # the peak
    weight_decay: float = field(default=0.01, metadata={"ge": 0.0, "lt": 1.0})
    weights: Literal["last", "best_validation"] = "last"  # the weights that are evaluated on the test split
    precision: Literal["float32", "bfloat16"] = "float32"  # of products and activations; weights are float32
    initial_batch_size: int = field(default=0, metadata={"ge": 0, "le": 65536, "batches": True})  # 0: batch_size
    max_length: int = field(default=0, metadata={"ge": 0, "le": 65536})  # tokens per text; 0: as in [data]
    train_length: int = field(default=0, metadata={"ge": 0, "le": 65536})  # tokens per training text; 0: max_length


VARIANTS: Mapping[str, Factors] = MappingProxyType(
    {
        BASELINE: Factors(),
        "no_position": Factors(position="none"),
        "position_learned": Factors(position="learned"),
        "rope": Factors(position="rope"),
        "alibi": Factors(position="alibi"),
        "t5_bias": Factors(position="t5"),
        "position_by_row": Factors(position="sinusoidal_by_row"),
        "no_residual": Factors(residual=False),
        "no_scale": Factors(scale="none"),
        "heads_1": Factors(num_heads=1),
        "heads_16": Factors(num_heads=16),
        "head_size_32": Factors(head_size=32),
        "tied_qk": Factors(projections="tied_qk"),
        "shared_qkv": Factors(projections="shared"),
        "qk_norm": Factors(qk_norm=True),
        "no_attention": Factors(mixing="none"),
        "fourier": Factors(mixing="fourier"),
        "no_ffn": Factors(feed_forward=False),
        "gelu": Factors(activation="gelu"),
        "swiglu": Factors(activation="swiglu"),
        "pool_max": Factors(pooling="max"),
        "pool_cls": Factors(pooling="cls"),
        "pool_first": Factors(pooling="first"),
        "pool_last": Factors(pooling="last"),
        "pool_attention": Factors(pooling="attention"),
        "post_norm": Factors(norm="post"),
        "no_norm": Factors(norm="none"),
        "no_final_norm": Factors(final_norm=False),
        "rms_norm": Factors(norm_kind="rms"),
        "no_embedding_scale": Factors(embedding_scale=False),
        "init_torch": Factors(initialisation="torch"),
        "init_torch_attention": Factors(initialisation="torch_attention"),
        "init_normal": Factors(initialisation="normal_02"),
        "no_attention_mask": Factors(attention_mask=False),
        "pool_over_padding": Factors(pooling_mask=False),
        "mask_1e9": Factors(mask_fill="minus_1e9"),
        "mask_after_softmax": Factors(mask_fill="after_softmax"),
        "trained_padding": Factors(padding_embedding="trained"),
        "no_dropout": Factors(dropout=0.0),
        "no_embedding_dropout": Factors(embedding_dropout=False),
        "attention_dropout": Factors(attention_dropout=True),
        "ffn_dropout": Factors(ffn_dropout=True),
        "double_ffn_dropout": Factors(double_ffn_dropout=True),
        "pooled_dropout": Factors(pooled_dropout=True),
        "dropout_at_test": Factors(dropout_at_test=True),
        "no_warmup": Factors(warmup=0.0),
        "no_clipping": Factors(clip_norm=0.0),
        "onecycle": Factors(schedule="onecycle"),
        "constant_rate": Factors(schedule="constant"),
        "label_smoothing": Factors(label_smoothing=0.1),
        "word_dropout": Factors(word_dropout=0.1),
        "weight_averaging": Factors(weight_averaging=0.99),
        "checkpointing": Factors(checkpointing=True),
        "shuffled": Factors(order="shuffled"),
        "sorted_by_class": Factors(order="by_class"),
        "drop_last": Factors(drop_last=True),
        "full_padding": Factors(padding="full"),
        # Interactions: two factors at once, named for both.
        "post_norm_no_warmup": Factors(norm="post", warmup=0.0),
        "no_residual_no_scale": Factors(residual=False, scale="none"),
    }
)


@dataclass(frozen=True, kw_only=True)
class System:
    """A whole model with its training: a baseline for a study, or a variant that replaces the model."""

    factors: Any
    recipe: Mapping[str, Any]
    """what it states of the recipe; all else is the study's"""
    source: str = ""


SYSTEMS: Mapping[str, System] = MappingProxyType(
    {
        "tutorial_a": System(
            factors=Factors(
                final_norm=False, mask_fill="minus_1e9", pooling_mask=False, embedding_scale=False,
                initialisation="torch", embedding_dropout=False, ffn_dropout=True, warmup=0.0, schedule="constant",
                order="shuffled", padding="full",
            ),
            recipe={"d_model": 128, "num_layers": 2, "d_ff": 512, "learning_rate": 2e-4, "weight_decay": 0.0},
            source="a tutorial on classifying Chinese reviews: Pre-LN without a last norm, mean over padding, Adam",
        ),
        "tutorial_b": System(
            factors=Factors(
                norm="post", attention_mask=False, pooling_mask=False, embedding_scale=False, initialisation="torch",
                attention_dropout=True, ffn_dropout=True, double_ffn_dropout=True, schedule="onecycle",
                order="shuffled", drop_last=True, padding="full",
            ),
            recipe={"d_model": 256, "num_layers": 3, "d_ff": 1024, "learning_rate": 3e-4, "epochs": 5},
            source="a tutorial on IMDB: Post-LN, no mask, mean over padding, OneCycle",
        ),
        "tutorial_c": System(
            factors=Factors(
                position="sinusoidal_by_row", norm="post", attention_mask=False, pooling="first",
                embedding_scale=False, padding_embedding="trained", initialisation="torch", ffn_dropout=True,
                pooled_dropout=True, warmup=0.0, schedule="constant", clip_norm=0.0, order="shuffled", padding="full",
            ),
            recipe={"d_model": 512, "num_layers": 6, "d_ff": 2048, "learning_rate": 1e-4, "weight_decay": 0.0},
            source="a tutorial on IMDB: Post-LN, first token, positions by the row in the batch, Adam",
        ),
        "bilstm_attention": System(
            factors=Factors(
                encoder="bilstm", position="none", pooling="attention", embedding_scale=False, initialisation="torch",
                schedule="onecycle", order="shuffled", drop_last=True,
            ),
            recipe={"d_model": 200, "num_layers": 1, "d_ff": 256, "learning_rate": 3e-4, "epochs": 5},
            source="the rival of the tutorial on IMDB: a bidirectional LSTM with additive attention (Bahdanau 2015)",
        ),
        "bag_of_embeddings": System(
            factors=Factors(encoder="bag", position="none"),
            recipe={},
            source="Joulin et al. 2017 (fastText): the mean of the embeddings and a linear classifier",
        ),
    }
)  # fmt: skip

PAPERS: Mapping[str, str] = MappingProxyType(
    {
        "position": "Vaswani et al. 2017, 3.5 and table 3 (E)",
        "position=rope": "Su et al. 2021: rotary positions",
        "position=alibi": "Press, Smith & Lewis 2022: linear biases",
        "position=t5": "Raffel et al. 2020, 2.1: relative buckets",
        "residual": "Dong, Cordonnier & Loukas 2021: rank collapse without skip connections",
        "scale": "Vaswani et al. 2017, 3.2.1",
        "num_heads": "Vaswani et al. 2017, table 3 (A); Michel, Levy & Neubig 2019",
        "pooling": "Devlin et al. 2019, 3 ([CLS]); Reimers & Gurevych 2019, table 6",
        "pooling=attention": "Lin et al. 2017: self-attentive sentence embedding",
        "norm": "Xiong et al. 2020: Pre-LN against Post-LN",
        "norm=none": "Zhang, Dauphin & Ma 2019: training without normalisation",
        "warmup": "Vaswani et al. 2017, 5.3; Xiong et al. 2020, 3.1",
        "activation": "Hendrycks & Gimpel 2016",
        "activation=swiglu": "Shazeer 2020: GLU variants",
        "dropout": "Vaswani et al. 2017, 5.4",
        "clip_norm": "Pascanu, Mikolov & Bengio 2013",
        "attention_mask": "Vaswani et al. 2017, 3.2.3",
        "pooling_mask": "Reimers & Gurevych 2019, 3",
        "encoder": "Hochreiter & Schmidhuber 1997 and Bahdanau, Cho & Bengio 2015 (bilstm); Joulin et al. 2017 (bag)",
        "mixing": "Lee-Thorp et al. 2022 (fourier)",
        "feed_forward": "Dong, Cordonnier & Loukas 2021, 3: attention without the MLP",
        "norm_kind": "Zhang & Sennrich 2019 (rms)",
        "final_norm": "Xiong et al. 2020, figure 1",
        "head_size": "Bhojanapalli et al. 2020: heads of a fixed size",
        "projections": "Kitaev, Kaiser & Levskaya 2020, 4: shared queries and keys",
        "qk_norm": "Henry et al. 2020; Dehghani et al. 2023",
        "mask_fill": "Vaswani et al. 2017, 3.2.3: minus infinity before the softmax",
        "embedding_scale": "Vaswani et al. 2017, 3.4",
        "padding_embedding": "Paszke et al. 2019: torch.nn.Embedding, padding_idx",
        "initialisation": "Glorot & Bengio 2010; He et al. 2015 (torch.nn.Linear); Devlin et al. 2019 (normal, .02)",
        "embedding_dropout": "Vaswani et al. 2017, 5.4",
        "attention_dropout": "Devlin et al. 2019, A.2",
        "ffn_dropout": "Vaswani et al. 2018 (tensor2tensor): dropout after the activation",
        "double_ffn_dropout": "Srivastava et al. 2014: two masks at rate p drop 1 - (1 - p)^2",
        "pooled_dropout": "Devlin et al. 2019: dropout before the classifier",
        "dropout_at_test": "Gal & Ghahramani 2016: dropout in prediction",
        "schedule": "Loshchilov & Hutter 2017: half a cosine",
        "schedule=onecycle": "Smith & Topin 2018",
        "label_smoothing": "Szegedy et al. 2016, 7",
        "word_dropout": "Iyyer et al. 2015, 3.1",
        "weight_averaging": "Polyak & Juditsky 1992; Izmailov et al. 2018",
        "checkpointing": "Chen et al. 2016",
        "order": "Bengio 2012, 3.1: shuffled examples; Khomenko et al. 2016: batches of similar length",
        "drop_last": "Bengio 2012, 3.1",
        "padding": "Khomenko et al. 2016",
    }
)


def papers_of(changed: Mapping[str, object], papers: Mapping[str, str]) -> tuple[str, ...]:
    """The papers of some changes, field -> new value. One under "field=value" stands for the field's own."""
    found = (papers.get(f"{field}={value}", papers.get(field, "")) for field, value in changed.items())
    return tuple(paper for paper in found if paper)


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
    if recipe.d_model % factors.num_heads and not factors.head_size and _attends(factors):
        fitting = [h for h in range(1, recipe.d_model + 1) if recipe.d_model % h == 0]
        wrong["num_heads"] = f"does not divide d_model = {recipe.d_model}; allowed: {', '.join(map(str, fitting))}"
    if factors.position in ("sinusoidal", "sinusoidal_by_row") and recipe.d_model % 2:
        wrong["position"] = f"sinusoidal positions come in pairs and d_model = {recipe.d_model} is odd"
    if factors.position in ("rope", "alibi", "t5"):
        acts = f'"{factors.position}" acts inside attention, and'
        if factors.encoder != "transformer":
            wrong["position"] = f'{acts} encoder = "{factors.encoder}" has none'
        elif factors.mixing != "attention":
            wrong["position"] = f'{acts} mixing = "{factors.mixing}" has none'
        elif factors.position == "rope" and "num_heads" not in wrong:
            size = factors.head_size or recipe.d_model // factors.num_heads
            if size % 2:
                wrong["position"] = f"rope turns pairs of numbers, and the size of a head is odd: {size}"
    fitting = [recipe.batch_size >> i for i in range(17) if not recipe.batch_size % (1 << i)]
    if recipe.initial_batch_size and recipe.initial_batch_size not in fitting:
        allowed = f"0, {', '.join(map(str, reversed(fitting)))}"
        wrong["initial_batch_size"] = f"does not double to batch_size = {recipe.batch_size}; allowed: {allowed}"
    if recipe.max_length and recipe.train_length > recipe.max_length:
        wrong["train_length"] = f"is above max_length = {recipe.max_length}, to which all texts are cut"
    return wrong


def without_effect(factors: Factors, recipe: Recipe) -> dict[str, str]:
    """field -> why it changes nothing in this configuration, whatever its value. Empty where every field acts.

    A field acts if it changes a prediction, a gradient, or the time and memory that they take.
    """
    why: dict[str, str] = {}

    def idle(reason: str, *fields: str) -> None:
        for name in fields:
            why.setdefault(name, reason)

    attention = ("num_heads", "head_size", "scale", "projections", "qk_norm", "mask_fill", "attention_dropout")
    ffn = ("activation", "ffn_dropout", "double_ffn_dropout")
    norms = ("norm_kind", "final_norm")
    if factors.encoder != "transformer":
        there = f'encoder = "{factors.encoder}" has no layers of a Transformer'
        idle(there, "mixing", "feed_forward", "residual", "norm", "checkpointing", *norms, *attention, *ffn)
        packed = factors.encoder == "bilstm"
        idle("the LSTM skips padding always" if packed else "nothing mixes the tokens", "attention_mask")
        if not packed:
            idle('encoder = "bag" has no layers', "num_layers", "d_ff")
    elif not _attends(factors):
        idle(f'there is no attention where mixing = "{factors.mixing}"', *attention)
    if not factors.feed_forward and factors.encoder == "transformer":
        idle("there is no feed-forward network", *ffn, "d_ff")
    if factors.encoder == "transformer" and factors.mixing == "none":
        idle("nothing mixes the tokens", "attention_mask")
        if not factors.feed_forward:
            empty = "the layers hold neither mixing nor a feed-forward network"
            idle(empty, "residual", "num_layers", "checkpointing")
            if factors.norm != "pre" or not factors.final_norm:
                idle(empty, "norm_kind")
    if factors.norm == "none":
        idle('there is no norm where norm = "none"', "norm_kind")
    if factors.norm != "pre":
        idle(f'the layers end in no norm of their own where norm = "{factors.norm}"', "final_norm")
    if not factors.attention_mask:
        idle("padding is not masked in attention", "mask_fill")
    if factors.pooling in ("cls", "first"):
        idle(f'pooling = "{factors.pooling}" reads no padding', "pooling_mask")
    if not _padding_counts(factors):
        idle("padding is left out everywhere", "padding_embedding")
    places = ("embedding_dropout", "attention_dropout", "ffn_dropout", "double_ffn_dropout", "pooled_dropout")
    if factors.dropout == 0.0:
        idle("dropout = 0", *places, "dropout_at_test")
    elif not _drops(factors):
        idle("no place of dropout is left", "dropout", "dropout_at_test")
    if recipe.epochs == 1:
        idle("the last epoch of one is the best", "weights")
    return {f.name: why[f.name] for cls in (Factors, Recipe) for f in dataclasses.fields(cls) if f.name in why}


def _attends(factors: Factors) -> bool:
    return factors.encoder == "transformer" and factors.mixing == "attention"


def _padding_counts(factors: Factors) -> bool:
    """Whether the embedding of padding reaches a prediction: by pooling, or by mixing."""
    if not factors.pooling_mask and factors.pooling not in ("cls", "first") and factors.encoder != "bilstm":
        return True
    mixed = factors.encoder == "transformer" and factors.mixing != "none"
    return mixed and (not factors.attention_mask or (_attends(factors) and factors.mask_fill == "after_softmax"))


def _drops(factors: Factors) -> bool:
    """Whether there is any place of dropout."""
    layers = factors.encoder == "transformer" and (factors.mixing != "none" or factors.feed_forward)
    return factors.encoder == "bilstm" or layers or factors.embedding_dropout or factors.pooled_dropout
