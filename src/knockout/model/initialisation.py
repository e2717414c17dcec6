"""The values that parameters start from, by the kind of module they belong to.

| kind              | linear maps and LSTM                              | their biases     | tables and [CLS]        |
|-------------------|---------------------------------------------------|------------------|-------------------------|
| `glorot`          | U(±sqrt(6 / (inputs + outputs))), map by map      | 0                | N(0, 1 / d_model)       |
| `torch`           | U(±1 / sqrt(inputs)); LSTM: U(±1 / sqrt(hidden))  | the same         | N(0, 1)                 |
| `torch_attention` | `torch`, but queries, keys and values as one map  | `torch`, but 0   | N(0, 1)                 |
|                   | by Glorot                                         | in attention     |                         |
| `normal_02`       | N(0, .02²)                                        | 0                | N(0, .02²)              |

`glorot` is Glorot & Bengio 2010; an embedding that is scaled by sqrt(d_model) then has the size of a position, and a
table of learned positions starts from N(0, 1) for that reason. `torch` is what the constructors of torch.nn draw
(kaiming_uniform with a = sqrt(5), after He et al. 2015); `torch_attention` is torch.nn.MultiheadAttention;
`normal_02` is BERT (Devlin et al. 2019). Norms start at 1 and 0, the embedding of padding at 0 unless it is trained,
and the biases by distance (`t5`) from N(0, .02²) always: they are added to logits.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from knockout.model.attention import Attention, Linear

Kind = Literal["glorot", "torch", "torch_attention", "normal_02"]

GATES = 4
"""Maps that are stacked in each matrix of an LSTM."""


def attention_maps(model: nn.Module) -> dict[nn.Module, bool]:
    """The linear maps inside attention -> whether it is the one of the output."""
    return {
        part: part is module.out
        for module in model.modules()
        if isinstance(module, Attention)
        for part in module.modules()
        if isinstance(part, nn.Linear)
    }


def fill_map(
    value: Tensor, module: nn.Linear | nn.LSTM, *, kind: Kind, output: bool | None, draw: torch.Generator
) -> None:
    """Fill with the first values of a weight (two dimensions) or a bias of this module.

    `output` is None outside attention, else whether the module is its map of the output.
    """
    bias = value.dim() == 1
    inside = kind == "torch_attention" and output is not None
    if bias and (kind in ("glorot", "normal_02") or inside):
        value.zero_()
    elif kind == "normal_02":
        value.normal_(std=0.02, generator=draw)
    elif kind == "glorot" or (inside and not output):
        blocks = module.blocks if isinstance(module, Linear) else GATES if isinstance(module, nn.LSTM) else 1
        outputs = value.shape[0] / (1 if inside else blocks)
        bound = math.sqrt(6 / (outputs + value.shape[1]))
        value.uniform_(-bound, bound, generator=draw)
    else:
        bound = (module.in_features if isinstance(module, nn.Linear) else module.hidden_size) ** -0.5
        value.uniform_(-bound, bound, generator=draw)


def fill_table(value: Tensor, name: str, *, kind: Kind, d_model: int, draw: torch.Generator) -> None:
    """Fill with the first values of embeddings, learned positions, biases by distance, or [CLS]."""
    match kind:
        case _ if name == "positions.buckets":
            value.normal_(std=0.02, generator=draw)
        case "glorot":
            value.normal_(std=1.0 if name == "positions.table" else d_model**-0.5, generator=draw)
        case "torch" | "torch_attention":
            value.normal_(std=1.0, generator=draw)
        case "normal_02":
            value.normal_(std=0.02, generator=draw)
