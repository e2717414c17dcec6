"""The optional tables of a trainer's answer, checked: what it measured beside its results (`knockout.job`)."""

from collections import Counter

from knockout.job import HEAD, QUANTITIES, Attention, AttentionText, Layers, Probe
from knockout.strict import got_text, nearest
from knockout.sweep.plain import CLASSES, Reading, sequence_of, shown

LARGEST_STEP = 2**31 - 1
LARGEST_BYTE = 127
TEXTS, WEIGHTS = 2, 2**20
"""The most texts with attention weights, and the most weights of one."""


def probe_of(read: Reading, given: object) -> Probe | None:
    """A loss that is not finite is kept: it is a measurement, and no result."""
    if given is None:
        return None
    if not isinstance(given, Probe):
        read.fault("probe", shown(given), "a Probe, or None")
        return None
    count = read.whole("probe.count", given.count, least=1)
    probe = Probe(
        step=read.wholes("probe.step", given.step, least=0, most=LARGEST_STEP),
        loss=read.numbers("probe.loss", given.loss),
        correct=read.wholes("probe.correct", given.correct, least=0, most=count),
        count=min(count, LARGEST_STEP),
    )
    read.equal_lengths("probe", step=probe.step, loss=probe.loss, correct=probe.correct)
    read.ascending("probe.step", probe.step)
    return probe


def layers_of(read: Reading, given: object) -> Layers | None:
    """Values that are not finite are kept, as in `probe`."""
    if given is None:
        return None
    if not isinstance(given, Layers):
        read.fault("layers", shown(given), "Layers, or None")
        return None
    layers = Layers(
        step=read.wholes("layers.step", given.step, least=0, most=LARGEST_STEP),
        quantity=read.texts("layers.quantity", given.quantity),
        layer=read.wholes("layers.layer", given.layer, least=HEAD, most=CLASSES - 1),
        value=read.numbers("layers.value", given.value),
    )
    for i, name in enumerate(layers.quantity):
        if name not in QUANTITIES:
            hint = nearest(name, QUANTITIES)
            meant = f' (did you mean "{hint}"?)' if hint else ""
            read.fault(f"layers.quantity[{i}]", got_text(name) + meant, f"one of {', '.join(QUANTITIES)}")
            break
    read.equal_lengths("layers", step=layers.step, quantity=layers.quantity, layer=layers.layer, value=layers.value)
    rows = list(zip(layers.step, layers.quantity, layers.layer, strict=False))
    twice = next((row for row, n in Counter(rows).items() if n > 1), None)
    if twice is not None:
        read.fault("layers", f"{twice[1]} of layer {twice[2]} twice at step {twice[0]}", "each once a step")
    return layers


def attention_of(read: Reading, given: object) -> Attention | None:
    if given is None:
        return None
    texts = sequence_of(given.texts) if isinstance(given, Attention) else None
    if texts is None or not all(isinstance(text, AttentionText) for text in texts):
        read.fault("attention", shown(given), "an Attention of AttentionText, or None")
        return None
    if not 1 <= len(texts) <= TEXTS:
        read.fault("attention.texts", f"{len(texts)} of them", f"1 to {TEXTS}")
        return None
    return Attention(texts=[_text_of(read, f"attention.texts[{i}]", text) for i, text in enumerate(texts)])


def _text_of(read: Reading, where: str, given: AttentionText) -> AttentionText:
    tokens = read.texts(f"{where}.tokens", given.tokens)
    split = given.split if isinstance(given.split, str) else ""
    if not split:
        read.fault(f"{where}.split", shown(given.split), 'the name of a split, such as "test"')
    example = read.whole(f"{where}.example", given.example)
    if example > LARGEST_STEP:
        read.fault(f"{where}.example", str(example), f"at most {LARGEST_STEP}")
    size = len(tokens)
    layers = read.nested(f"{where}.weights", given.weights, f"layers x heads x {size} x {size} numbers from 0 to 1")
    heads = len(layers[0]) if layers else 0
    square = all(
        len(layer) == heads and all(len(m) == size and all(len(row) == size for row in m) for m in layer)
        for layer in layers
    )
    if not square:
        read.fault(f"{where}.weights", "another shape", f"layers x heads x {size} x {size}, for {size} tokens")
    elif not 1 <= len(layers) * heads * size * size <= WEIGHTS or max(len(layers), heads) > LARGEST_BYTE:
        got = f"{len(layers)} x {heads} x {size} x {size}"
        read.fault(f"{where}.weights", got, f"1 to {WEIGHTS} weights, of at most {LARGEST_BYTE} layers and heads")
    return AttentionText(example=example, split=split, tokens=tokens, weights=layers)
