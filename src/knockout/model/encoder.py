"""The encoder: embedding, positions, layers, pooling, classifier.

Dimensions: B texts, T tokens, D d_model, C classes.

Dropout as in Vaswani et al. 2017, 5.4: on the sum of embedding and position, and on the output of every sub-layer
before it is added. Each dropout module has a random stream of its own, keyed by its name, so variants share the masks.
"""

import contextlib
import math

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from knockout.model.attention import Linear
from knockout.model.dropout import Dropout, repeated
from knockout.model.initialisation import attention_maps, fill_map, fill_table
from knockout.model.layer import Layer, norm
from knockout.model.pooling import AttentionPooling, pool
from knockout.model.positions import Positions
from knockout.model.recurrent import Recurrent
from knockout.streams import generator
from knockout.variants import Factors, Recipe


class Encoder(nn.Module):
    """Token ids (B, T) -> logits (B, C)."""

    def __init__(self, factors: Factors, recipe: Recipe, *, vocabulary: int, classes: int, max_length: int) -> None:
        super().__init__()
        D = recipe.d_model
        self.factors = factors
        self.precision = recipe.precision
        trained = factors.padding_embedding == "trained"  # factor: padding_embedding
        self.embedding = nn.Embedding(vocabulary, D, padding_idx=None if trained else 0)
        self.embedding_scale = math.sqrt(D) if factors.embedding_scale else 1.0  # factor: embedding_scale
        # factor: pooling. [CLS] is a token of its own, before the first word (Devlin et al. 2019, 3).
        self.cls = nn.Parameter(torch.empty(1, 1, D)) if factors.pooling == "cls" else None
        length = max_length + (self.cls is not None)
        self.positions = Positions(factors, length=length, d_model=D)
        # factor: embedding_dropout
        self.embedding_dropout = Dropout(factors.dropout) if factors.embedding_dropout else nn.Identity()
        # factor: encoder. A bag of embeddings has nothing here.
        depth = recipe.num_layers if factors.encoder == "transformer" else 0
        self.layers = nn.ModuleList(Layer(factors, recipe, length=length) for _ in range(depth))
        self.recurrent = (
            Recurrent(D, recipe.d_ff, num_layers=recipe.num_layers, dropout=factors.dropout)
            if factors.encoder == "bilstm"
            else None
        )
        # factor: norm; factor: final_norm. Pre-LN leaves the sum of all layers unnormalised, so it ends in a norm;
        # Post-LN has one already.
        ends_in_norm = factors.encoder == "transformer" and factors.norm == "pre" and factors.final_norm
        self.final_norm = norm(factors, D) if ends_in_norm else nn.Identity()
        width = D if self.recurrent is None else 2 * recipe.d_ff
        self.attention_pooling = AttentionPooling(width) if factors.pooling == "attention" else None
        # factor: pooled_dropout
        self.pooled_dropout = Dropout(factors.dropout) if factors.pooled_dropout else nn.Identity()
        self.classifier = Linear(width, classes)

    def states(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The final states (B, T, D) of all tokens, including [CLS] if there is one, and their mask (B, T).

        Of an LSTM there are 2 * d_ff numbers in a state.
        """
        x = self.embedding(ids) * self.embedding_scale  # Vaswani et al. 2017, 3.4
        if self.cls is not None:
            x = torch.cat((self.cls.expand(len(x), -1, -1) * self.embedding_scale, x), dim=1)
            mask = torch.cat((mask.new_ones(len(mask), 1), mask), dim=1)
        x = self.embedding_dropout(self.positions(x))
        if self.recurrent is not None:
            x = self.recurrent(x, mask)
        keys = mask if self.factors.attention_mask else None  # factor: attention_mask
        bias = self.positions.bias(x.shape[1])
        for layer in self.layers:
            if self.factors.checkpointing and torch.is_grad_enabled():  # factor: checkpointing
                x = _checkpointed(layer, x, keys, bias)
            else:
                x = layer(x, keys, bias)
        return self.final_norm(x), mask

    def pooled(self, x: Tensor, mask: Tensor) -> Tensor:
        """The states of all tokens and their mask -> one vector per text."""
        factors = self.factors
        if factors.pooling == "attention":
            assert self.attention_pooling is not None
            y: Tensor = self.attention_pooling(x, mask if factors.pooling_mask else None)
            return y
        return pool(x, mask, kind=factors.pooling, masked=factors.pooling_mask)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            x, mask = self.states(ids, mask)
            logits: Tensor = self.classifier(self.pooled_dropout(self.pooled(x, mask)))
        return logits if logits.dtype == torch.float64 else logits.float()


def _checkpointed(layer: nn.Module, x: Tensor, keys: Tensor | None, bias: Tensor | None) -> Tensor:
    """The layer's output. Its activations are not kept, but computed again, with the same masks of dropout, when the
    backward pass needs them (Chen et al. 2016)."""
    generators = [m.generator for m in layer.modules() if isinstance(m, Dropout) and m.generator is not None]
    states = [g.get_state() for g in generators]
    y: Tensor = checkpoint(
        layer,
        x,
        keys,
        bias,
        use_reentrant=False,
        preserve_rng_state=False,  # no layer draws from the global generator
        context_fn=lambda: (contextlib.nullcontext(), repeated(generators, states)),
    )
    return y


def initialise(model: Encoder, *, seed: int) -> None:
    """Draw every parameter from its own random stream, keyed by seed and name, and start the streams of dropout.

    Parameters of equal name and shape start equal in all variants of one initialisation, whatever a variant adds or
    removes. The distributions are in `knockout.model.initialisation`. Dropout in evaluation (`dropout_at_test`) draws
    from streams apart from those of training, so that training sees the masks that it sees without.
    """
    factors, d_model = model.factors, model.embedding.embedding_dim
    kind = factors.initialisation  # factor: initialisation
    outputs = attention_maps(model)
    with torch.no_grad():
        for path, module in model.named_modules():
            for own, parameter in module.named_parameters(recurse=False):
                name = f"{path}.{own}" if path else own
                draw = generator(seed, f"initialisation/{name}")
                value = torch.empty(parameter.shape)
                if "norm" in name:
                    value.fill_(1.0 if own == "weight" else 0.0)
                elif isinstance(module, nn.Linear | nn.LSTM):
                    fill_map(value, module, kind=kind, output=outputs.get(module), draw=draw)
                else:
                    fill_table(value, name, kind=kind, d_model=d_model, draw=draw)
                    if module is model.embedding and model.embedding.padding_idx is not None:
                        value[model.embedding.padding_idx] = 0.0
                parameter.copy_(value)
    device = next(model.parameters()).device.type
    for name, module in model.named_modules():
        if isinstance(module, Dropout):
            at_test = generator(seed, f"dropout_at_test/{name}", device) if factors.dropout_at_test else None
            module.start(generator(seed, f"dropout/{name}", device), at_test)
