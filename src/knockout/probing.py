"""What the trainer measures of a model while it trains it: the probe, quantities of layers, attention weights.

Nothing here changes a run. The model is measured in evaluation mode, without dropout (with `dropout_at_test` too) and
without any random draw, and gradients are those of the training step. Measured are the current weights: with
`weight_averaging` not the average, which moves too slowly to show what training does. Losses are not smoothed.

The probe has 128 training texts, 8 of which serve for the quantities of layers: the same ones for all seeds and
variants of the data. It is evaluated before the first step and after J even steps; J is 200 or, if that is fewer,
0.1 * (texts trained on) / (texts in the probe). More would cost too much: measuring may take 10 % of the time of
training (`make bench`). With 256 texts, 16 for the layers, and a share of 0.3, it took 20 % on `quick`. At equal cost,
more probes of fewer texts show more of the course: all probes have the same texts, so their number adds no noise.

Dimensions: B texts, T tokens, D size of a state, H heads, G groups of parameters.
"""

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from knockout.data.batches import Data, Split, evaluation_batches
from knockout.job import EMBEDDING, HEAD, Attention, AttentionText, Layers, Probe
from knockout.model.attention import Attention as SelfAttention
from knockout.model.dropout import Dropout
from knockout.model.encoder import Encoder
from knockout.model.layer import Layer
from knockout.streams import stream

TEXTS, LAYER_TEXTS = 128, 8
MOST, SHARE = 200, 0.1
PROBE_TOKENS = {"cpu": 1024, "cuda": 32768, "mps": 32768}
"""Padded tokens of a batch of the probe."""

PEAK = 0.9
SHOWN_TOKENS = (8, 16)
"""Real tokens of a text whose attention is shown, from and to."""
LONGEST_SHOWN = 64


def probe_texts(count: int) -> NDArray[np.int64]:
    """Which training texts are the probe: the first of one fixed permutation, the same in every run of the data."""
    return np.random.default_rng(stream(0, "probe")).permutation(count)[:TEXTS]


def probe_steps(steps: int, trained: int, texts: int) -> list[int]:
    """The steps after which a probe of so many texts is evaluated, 0 and the last among them. `trained`: texts."""
    number = max(1, min(MOST, steps, int(SHARE * trained / texts)))
    return [round(i * steps / number) for i in range(number + 1)]


def layer_steps(steps: int) -> set[int]:
    """1, 2, 4, ... 64, 100, 128, 256, ... and the last."""
    return {2**i for i in range(steps.bit_length())} | {min(100, steps), steps}


def shown_texts(lengths: NDArray[np.int64], labels: NDArray[np.int64]) -> list[int]:
    """The texts whose attention is shown: of each of the two commonest classes the first of 8 to 16 tokens.

    Where a class has none, its shortest; a text of more than 64 tokens is left out. `lengths`: before they were cut.
    """
    counts = np.bincount(labels)
    chosen = []
    for label in np.argsort(-counts, kind="stable")[:2]:
        own = np.flatnonzero(labels == label)
        if not len(own):
            continue
        low, high = SHOWN_TOKENS
        right = own[(lengths[own] >= low) & (lengths[own] <= high)]
        chosen.append(int(right[0] if len(right) else own[np.argmin(lengths[own])]))
    return [i for i in chosen if lengths[i] <= LONGEST_SHOWN]


@contextlib.contextmanager
def still(model: nn.Module) -> Iterator[None]:
    """Within the block the model has no dropout and keeps nothing for gradients; after it, it is as it was."""
    training = model.training
    streams = [(m, m.at_test) for m in model.modules() if isinstance(m, Dropout) and m.at_test is not None]
    try:
        model.eval()
        for dropout, _ in streams:
            dropout.at_test = None
        with torch.no_grad():
            yield
    finally:
        for dropout, at_test in streams:
            dropout.at_test = at_test
        model.train(training)


@dataclass(frozen=True, kw_only=True)
class Groups:
    """The parameters of a model by where they are: in a layer, before the first, or after the last."""

    layers: list[int]  # of each group, as `knockout.job.Layers` has them
    of: Tensor  # (parameters,) the group of each
    ffn_outputs: dict[int, int]  # layer -> which parameter is its FFN's output weight

    @classmethod
    def of_model(cls, model: Encoder) -> "Groups":
        names = [name for name, _ in model.named_parameters()]
        of = [_layer_of(name) for name in names]
        layers = sorted(set(of))
        found = ((i, re.fullmatch(r"layers\.(\d+)\.ffn_out\.weight", name)) for i, name in enumerate(names))
        return cls(
            layers=layers,
            of=torch.tensor([layers.index(layer) for layer in of], device=next(model.parameters()).device),
            ffn_outputs={int(match[1]): i for i, match in found if match},
        )

    def gradients(self, gradients: Sequence[Tensor]) -> tuple[list[tuple[str, int]], Tensor]:
        """The norm of each group's gradient, and of that of each FFN's output weight: what they are, and values."""
        norms = torch.stack(torch._foreach_norm(list(gradients)))  # (parameters,)
        squares = norms.new_zeros(len(self.layers)).index_add_(0, self.of, norms.square())  # (G,)
        names = [("gradient", layer) for layer in self.layers]
        names += [("ffn_output_gradient", layer) for layer in self.ffn_outputs]
        return names, torch.cat((squares.sqrt(), *(norms[i : i + 1] for i in self.ffn_outputs.values())))


def _layer_of(name: str) -> int:
    found = re.match(r"layers\.(\d+)\.|recurrent\.lstm\.\w+_l(\d+)(?:_reverse)?$", name)
    if found:
        return int(found[1] or found[2])
    return EMBEDDING if name.split(".")[0] in ("embedding", "positions", "cls") else HEAD


def rank_residual(x: Tensor, real: Tensor) -> Tensor:
    """||X - 1 mean(X)|| / ||X|| (Frobenius) over the real tokens of each text (B, T, D), as the mean over texts."""
    weight = real[..., None].to(x.dtype)
    x = x * weight
    mean = x.sum(1, keepdim=True) / weight.sum(1, keepdim=True)
    norms = [torch.linalg.vector_norm(y, dim=(1, 2)) for y in ((x - mean) * weight, x)]
    mean_share: Tensor = (norms[0] / norms[1]).mean()
    return mean_share


def attention_quantities(logits: Tensor, weights: Tensor, real: Tensor, keys: Tensor) -> Tensor:
    """The largest absolute logit, the mean entropy of a row over ln(number of keys), and the share of peaked rows.

    Logits and weights: (B, H, T, T). Rows are those of `real` tokens (B, T), their columns the `keys` (B, T) that can
    be attended to. Entropy and peaks leave out texts with one key, whose rows have no choice: NaN if there are no
    others. Weights that `after_softmax` has left at less than 1 count as shares of their sum.
    """
    pairs = real[:, None, :, None] & keys[:, None, None, :]  # (B, 1, T, T)
    largest = logits.masked_fill(~pairs, 0.0).abs().amax()
    number = keys.sum(1)
    rows = (real & (number > 1)[:, None])[:, None].expand(weights.shape[:3])  # (B, H, T)
    shares = weights.masked_fill(~pairs, 0.0)
    shares = shares / shares.sum(-1, keepdim=True).where(rows[..., None], 1.0)
    entropy = torch.special.entr(shares).sum(-1) / number.clamp(min=2).log()[:, None, None]  # (B, H, T)
    peaked = (shares.amax(-1) > PEAK).to(shares.dtype)
    means = [values.where(rows, 0.0).sum() / rows.sum() for values in (entropy, peaked)]
    return torch.stack((largest, *means))


@dataclass(kw_only=True)
class Measuring:
    """What is measured of one run, and when. `pending` values stay on the device until the run has ended."""

    model: Encoder
    groups: Groups
    probe: list[tuple[Tensor, Tensor, Tensor]]  # ids, mask and labels of each batch
    texts: int
    few: tuple[Tensor, Tensor]  # ids and mask of the texts for quantities of layers
    probe_at: list[int]
    layers_at: set[int]
    probed: list[Tensor] = field(default_factory=list)  # (summed loss, correct) of each probe
    quantities: list[tuple[int, list[tuple[str, int]], Tensor]] = field(default_factory=list)
    attention: Attention | None = None
    seconds: float = 0.0

    @classmethod
    def of_run(cls, model: Encoder, data: Data, *, steps: int, trained: int) -> "Measuring":
        """`data` as the run reads them; `trained`: texts of all steps together."""
        split, device = data.train, data.train.ids.device
        chosen = probe_texts(split.count)
        batches = evaluation_batches(split.lengths[chosen], tokens=PROBE_TOKENS[device.type], pad_to=split.pad_to)
        few = _read(split, chosen[:LAYER_TEXTS])
        return cls(
            model=model,
            groups=Groups.of_model(model),
            probe=[_read(split, chosen[batch]) for batch in batches],
            texts=len(chosen),
            few=few[:2],
            probe_at=probe_steps(steps, trained, len(chosen)),
            layers_at=layer_steps(steps),
        )

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time of the block as measuring."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - started

    def before_update(self, step: int, gradients: Sequence[Tensor]) -> None:
        """Measure the layers where this is one of the steps for it; `gradients` in the order of the parameters."""
        if step in self.layers_at:
            with self.timed():
                self.quantities.append((step, *self.groups.gradients(gradients)))
                names, values = self.layer_quantities()
                if names:
                    self.quantities.append((step, names, values))

    def after_step(self, step: int) -> None:
        """Evaluate the probe where this is one of the steps for it; 0 is before the first one."""
        if len(self.probed) < len(self.probe_at) and step == self.probe_at[len(self.probed)]:
            with self.timed(), still(self.model):
                sums = [self._sums(*batch) for batch in self.probe]
                self.probed.append(torch.stack(sums).sum(0))

    def _sums(self, ids: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        logits = self.model(ids, mask)
        loss = F.cross_entropy(logits, labels, reduction="sum")
        return torch.stack((loss, (logits.argmax(-1) == labels).sum().to(loss.dtype)))

    def layer_quantities(self) -> tuple[list[tuple[str, int]], Tensor]:
        """Quantities of every layer with attention and of every layer's output: what they are, and their values."""
        ids, mask = self.few
        names: list[tuple[str, int]] = []
        values: list[Tensor] = []
        real = mask if self.model.cls is None else torch.cat((mask.new_ones(len(mask), 1), mask), 1)
        for number, layer in enumerate(watched(self.model, ids, mask)):
            if layer.logits is not None and layer.weights is not None:
                names += [(f"attention_{name}", number) for name in ("logit", "entropy", "peak")]
                keys = torch.ones_like(real) if layer.keys is None else layer.keys
                values.append(attention_quantities(layer.logits, layer.weights, real, keys))
            names.append(("rank_residual", number))
            values.append(rank_residual(layer.output, real)[None])
        return names, torch.cat(values) if values else torch.empty(0)

    def attend(self, split: Split, name: str, chosen: Sequence[int], words: Sequence[str]) -> None:
        """Keep what the model attends to in the chosen texts of a split; `words`: tokens by their ids, if known."""
        if not any(isinstance(module, SelfAttention) for module in self.model.modules()):
            return
        with self.timed():
            texts = [self._attended(split, name, example, words) for example in chosen]
            self.attention = Attention(texts=texts) if texts else None

    def _attended(self, split: Split, name: str, example: int, words: Sequence[str]) -> AttentionText:
        ids, mask, _ = _read(split, np.array([example]))
        layers = watched(self.model, ids, mask)
        tokens = [words[i] if i < len(words) else str(i) for i in ids[mask].tolist()]
        if self.model.cls is not None:
            tokens.insert(0, "[CLS]")
        weights = [
            w[0, :, : len(tokens), : len(tokens)].tolist() for layer in layers if (w := layer.weights) is not None
        ]
        return AttentionText(example=example, split=name, tokens=tokens, weights=weights)

    def results(self, last: int, *, diverged: bool) -> tuple[Probe, Layers]:
        """The tables, up to the step at which the run ended; if that `diverged`, no probe after its update."""
        values = torch.stack(self.probed).tolist() if self.probed else []
        probed = zip(self.probe_at, values, strict=False)
        kept = [(step, loss, correct) for step, (loss, correct) in probed if step <= last - diverged]
        rows = [
            (step, name, layer, value)
            for step, names, measured in self.quantities
            for (name, layer), value in zip(names, measured.float().tolist(), strict=True)
            if step <= last
        ]
        probe = Probe(
            step=[step for step, _, _ in kept],
            loss=[loss / self.texts for _, loss, _ in kept],
            correct=[int(correct) for _, _, correct in kept],
            count=self.texts,
        )
        step, quantity, layer, value = (list(column) for column in zip(*rows, strict=True)) if rows else ([],) * 4
        return probe, Layers(
            step=cast("list[int]", step),
            quantity=cast("list[str]", quantity),
            layer=cast("list[int]", layer),
            value=cast("list[float]", value),
        )


@dataclass(kw_only=True)
class Watched:
    """What one layer did with a batch, in float32 or wider. Without attention it has no logits and weights."""

    output: Tensor  # (B, T, D)
    logits: Tensor | None = None  # (B, H, T, T)
    weights: Tensor | None = None
    keys: Tensor | None = None  # (B, T); `None` where padding is attended to


def watched(model: Encoder, ids: Tensor, mask: Tensor) -> list[Watched]:
    """What each layer of a transformer does with a batch, in evaluation, without dropout."""
    seen: list[Watched] = []
    inner: list[tuple[Tensor, Tensor, Tensor | None]] = []

    def after_attention(module: nn.Module, inputs: tuple[Tensor, Tensor | None, Tensor | None], _: Tensor) -> None:
        logits, weights = cast("SelfAttention", module).seen(*inputs)
        inner.append((_wide(logits), _wide(weights), inputs[1]))

    def after_layer(_module: nn.Module, _inputs: object, output: Tensor) -> None:
        logits, weights, keys = inner.pop() if inner else (None, None, None)
        seen.append(Watched(output=_wide(output), logits=logits, weights=weights, keys=keys))

    with contextlib.ExitStack() as hooks, still(model):
        for module in model.layers:
            layer = cast("Layer", module)
            hooks.callback(layer.register_forward_hook(after_layer).remove)
            if layer.mixing == "attention":
                hooks.callback(layer.attention.register_forward_hook(after_attention).remove)
        if len(model.layers):
            model(ids, mask)
    return seen


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def _read(split: Split, index: NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
    return split.batch(torch.from_numpy(index).to(split.ids.device), split.width(index))
