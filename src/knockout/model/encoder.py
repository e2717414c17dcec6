"""The encoder: embedding, positions, layers, pooling, classifier.

Dimensions: B texts, T tokens, D d_model, C classes.

Dropout as in Vaswani et al. 2017, 5.4: on the sum of embedding and position, and on the output of every sub-layer
before it is added. Each dropout module has a random stream of its own, keyed by its name, so variants share the masks.
"""

import math
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from knockout.model.attention import Attention, Linear
from knockout.model.pooling import pool
from knockout.model.positions import Positions
from knockout.streams import generator
from knockout.variants import Factors, Recipe


class Dropout(nn.Module):
    """Inverted dropout with masks from its own generator (`start`), not from the global one.

    A mask is drawn as 16-bit integers, four from each 64 random bits: 4.3 times as fast as one Bernoulli draw for
    each element (82,000 elements, one thread), for a rate that is rounded to 1/65536.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.dropped = round(rate * 65536)
        self.generator: torch.Generator | None = None

    def start(self, stream: torch.Generator) -> None:
        """Use this generator from now on."""
        self.generator = stream

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.dropped == 0:  # factor: dropout
            return x
        assert self.generator is not None, "start() comes before the first step"
        words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64, device=x.device)
        bits = words.random_(-(2**63), None, generator=self.generator).view(torch.int16)  # uniform on -32768..32767
        factor = torch.ge(bits[: x.numel()].view(x.shape), self.dropped - 32768, out=torch.empty_like(x))
        return x * factor.mul_(65536 / (65536 - self.dropped))


class Layer(nn.Module):
    """One encoder layer: self-attention, then a position-wise feed-forward network."""

    def __init__(self, factors: Factors, recipe: Recipe) -> None:
        super().__init__()
        D = recipe.d_model
        weights_dropout = Dropout(factors.dropout) if factors.attention_dropout else None  # factor: attention_dropout
        self.attention = Attention(factors, recipe, weights_dropout)
        self.attention_norm = nn.LayerNorm(D)
        self.attention_dropout = Dropout(factors.dropout)
        self.ffn_in = Linear(D, recipe.d_ff, relu=factors.activation == "relu")  # factor: activation
        self.gelu = nn.GELU() if factors.activation == "gelu" else nn.Identity()  # factor: activation
        self.ffn_out = Linear(recipe.d_ff, D)
        self.ffn_norm = nn.LayerNorm(D)
        self.ffn_dropout = Dropout(factors.dropout)
        self.pre_norm = factors.norm == "pre"
        self.residual = factors.residual

    def forward(self, x: Tensor, mask: Tensor | None, bias: Tensor | None = None) -> Tensor:  # (B, T, D) -> (B, T, D)
        x = self.sublayer(x, self.attention_norm, lambda h: self.attention_dropout(self.attention(h, mask, bias)))
        return self.sublayer(x, self.ffn_norm, lambda h: self.ffn_dropout(self.ffn_out(self.gelu(self.ffn_in(h)))))

    def sublayer(self, x: Tensor, norm: nn.Module, f: Callable[[Tensor], Tensor]) -> Tensor:
        """x + f(norm(x)), or norm(x + f(x))."""
        y = f(norm(x) if self.pre_norm else x)  # factor: norm (Xiong et al. 2020, figure 1)
        if self.residual:  # factor: residual (He et al. 2016; Dong et al. 2021)
            y = x + y
        return y if self.pre_norm else cast("Tensor", norm(y))


class Encoder(nn.Module):
    """Token ids (B, T) -> logits (B, C)."""

    def __init__(self, factors: Factors, recipe: Recipe, *, vocabulary: int, classes: int, max_length: int) -> None:
        super().__init__()
        D = recipe.d_model
        self.factors = factors
        self.precision = recipe.precision
        self.embedding = nn.Embedding(vocabulary, D, padding_idx=0)
        # factor: pooling. [CLS] is a token of its own, before the first word (Devlin et al. 2019, 3).
        self.cls = nn.Parameter(torch.empty(1, 1, D)) if factors.pooling == "cls" else None
        self.positions = Positions(factors, length=max_length + (self.cls is not None), d_model=D)
        self.embedding_dropout = Dropout(factors.dropout)
        self.layers = nn.ModuleList(Layer(factors, recipe) for _ in range(recipe.num_layers))
        # factor: norm. Pre-LN leaves the sum of all layers unnormalised, so it ends in a norm; Post-LN has one already.
        self.final_norm = nn.LayerNorm(D) if factors.norm == "pre" else nn.Identity()
        self.classifier = Linear(D, classes)

    def states(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The final states (B, T, D) of all tokens, including [CLS] if there is one, and their mask (B, T)."""
        x = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)  # Vaswani et al. 2017, 3.4
        if self.cls is not None:
            x = torch.cat((self.cls.expand(len(x), -1, -1) * math.sqrt(x.shape[-1]), x), dim=1)
            mask = torch.cat((mask.new_ones(len(mask), 1), mask), dim=1)
        x = self.embedding_dropout(self.positions(x))
        keys = mask if self.factors.attention_mask else None  # factor: attention_mask
        bias = self.positions.bias(x.shape[1])
        for layer in self.layers:
            x = layer(x, keys, bias)
        return self.final_norm(x), mask

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            x, mask = self.states(ids, mask)
            logits: Tensor = self.classifier(pool(x, mask, kind=self.factors.pooling, masked=self.factors.pooling_mask))
        return logits.float()


def initialise(model: Encoder, *, seed: int) -> None:
    """Draw every parameter from its own random stream, keyed by seed and name, and start the streams of dropout.

    Parameters of equal name and shape start equal in all variants, whatever a variant adds or removes. Weights of
    linear maps: Glorot & Bengio 2010, uniform (queries, keys and values as three maps); embeddings: normal with sd
    1 / sqrt(d_model), so that a scaled embedding has the size of a position; biases 0, norms 1.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            draw = generator(seed, f"initialisation/{name}")
            value = torch.empty(parameter.shape)
            if "norm" in name:
                value.fill_(1.0 if name.endswith("weight") else 0.0)
            elif name.endswith("bias"):
                value.zero_()
            elif name == "positions.table":
                value.normal_(generator=draw)
            elif name == "positions.buckets":  # the bias of a logit: small
                value.normal_(std=0.02, generator=draw)
            elif name in ("embedding.weight", "cls"):
                value.normal_(std=parameter.shape[-1] ** -0.5, generator=draw)
                if name == "embedding.weight":
                    value[0] = 0.0
            else:
                blocks = 3 if name.endswith("qkv.weight") else 1
                bound = math.sqrt(6 / (parameter.shape[0] / blocks + parameter.shape[1]))
                value.uniform_(-bound, bound, generator=draw)
            parameter.copy_(value)
    for name, module in model.named_modules():
        if isinstance(module, Dropout):
            device = next(model.parameters()).device
            module.start(generator(seed, f"dropout/{name}", device.type))
