"""Synthetic texts with a known answer: which component of a model a task needs follows from its rule.

Each source `synthetic/NAME` is generated from the seed beside its rule: 3,000 training texts, 500 for validation, 1,000
for the test. Its texts come in groups that differ in the marked tokens only, and a group is never cut in two. So each
split holds exactly as many texts of one class as of the other, no text occurs twice, and a model that cannot see
what a group varies is right on exactly half of it. Nothing is random in the labels: the best accuracy is 100 % in all.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from knockout.data.corpus import DataError, Tables

PREFIX = "synthetic/"
SIZES: Mapping[str, int] = MappingProxyType({"train": 3000, "validation": 500, "test": 1000})
FILLERS = tuple("cdefghijklmnopqrst")
"""The tokens that say nothing about the class."""

Group = list[tuple[list[str], int]]
"""Tokens and the index of the class, for each text of a group; as many of class 0 as of class 1."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One source: its two classes, the seed of its texts, and what draws one group of them."""

    classes: tuple[str, str]
    seed: int
    draw: Callable[[np.random.Generator], Group]


def _filler(rng: np.random.Generator, shortest: int, longest: int) -> list[str]:
    """Between `shortest` and `longest` tokens of filler, both included."""
    return [FILLERS[i] for i in rng.integers(len(FILLERS), size=rng.integers(shortest, longest + 1))]


def _placed(tokens: list[str], marks: Mapping[int, str]) -> list[str]:
    """The tokens with the marks at their positions."""
    return [marks.get(i, token) for i, token in enumerate(tokens)]


def order(rng: np.random.Generator) -> Group:
    """Does "a" come before "b"? Each occurs once, anywhere among 6 to 12 tokens. Best accuracy: 100 %.

    Both texts of a group hold the same tokens, so a model without positions is at 50 %. A sum over tokens
    can tell (the position of "a" minus that of "b"), so attention may be replaced in principle; no claim rests on that.
    """
    tokens = _filler(rng, 6, 12)
    first, second = sorted(map(int, rng.choice(len(tokens), size=2, replace=False)))
    return [(_placed(tokens, {first: "a", second: "b"}), 0), (_placed(tokens, {first: "b", second: "a"}), 1)]


def majority(rng: np.random.Generator) -> Group:
    """Which is more frequent, "a" or "b"? 3, 5 or 7 of 8 to 14 tokens are one of them. Best accuracy: 100 %.

    The order of the tokens says nothing, so positions are not needed; a linear model of the counts is enough. The
    texts of a group have "a" and "b" exchanged.
    """
    tokens = _filler(rng, 8, 14)
    places = rng.choice(len(tokens), size=rng.choice([3, 5, 7]), replace=False)
    is_a = rng.integers(2, size=len(places))
    more_a = int(2 * is_a.sum() > len(places))
    marks = {int(i): "ba"[a] for i, a in zip(places, is_a, strict=True)}
    exchanged = {i: "b" if mark == "a" else "a" for i, mark in marks.items()}
    return [(_placed(tokens, marks), 1 - more_a), (_placed(tokens, exchanged), more_a)]


def rare(rng: np.random.Generator) -> Group:
    """Is there a "z"? It occurs once among 20 to 40 tokens, or not at all. Best accuracy: 100 %.

    A maximum over the tokens sees one token whatever the length; in a mean it is one of up to 40. So max pooling is at
    least as good as the mean. Neither order nor attention is needed.
    """
    tokens = _filler(rng, 20, 40)
    return [(tokens, 0), (_placed(tokens, {int(rng.integers(len(tokens))): "z"}), 1)]


def first(rng: np.random.Generator) -> Group:
    """Which token is the first, "a" or "b"? Both occur later too, among 6 to 12 tokens. Best accuracy: 100 %.

    Both texts of a group hold the same tokens, so a mean over states without positions is at 50 %. The state of the
    first token (pooling "first") knows the answer, with and without positions.
    """
    tokens = _filler(rng, 6, 12)
    later = rng.integers(3, size=len(tokens) - 1)  # about a third of the rest is "a", a third "b"
    tokens = ["a", *(("a", "b", token)[kind] for kind, token in zip(later, tokens[1:], strict=True))]
    places = [i for i, token in enumerate(tokens) if token == "b"] or [int(rng.integers(1, len(tokens)))]
    place = int(rng.choice(places))
    return [(_placed(tokens, {place: "b"}), 0), (_placed(tokens, {0: "b", place: "a"}), 1)]


def matching(rng: np.random.Generator) -> Group:
    """Are the two marked tokens, each "a" or "b", the same? They stand anywhere among 6 to 12. Best accuracy: 100 %.

    The answer is the exclusive or of two tokens. Without mixing, the classifier sees a sum with one term for each
    token. Over the four texts of a group such sums are on average equal in both classes: the log loss is least for a
    constant answer, and no such model is right on more than three of four.
    """
    tokens = _filler(rng, 6, 12)
    i, j = map(int, rng.choice(len(tokens), size=2, replace=False))
    return [(_placed(tokens, {i: x, j: y}), int(x != y)) for x in "ab" for y in "ab"]


def xor(rng: np.random.Generator) -> Group:
    """Is it "a" in the first half or "b" in the second? One of them stands among 12 tokens. Best accuracy: 100 %.

    The answer is the exclusive or of a token and its position, whose embeddings are added: a network on each token
    alone (the feed-forward network) computes it without attention, and a linear map does not. Attention can as well,
    since its logits are products of tokens and positions. With neither, only the norms are left.
    """
    tokens = _filler(rng, 12, 12)
    early, late = int(rng.integers(6)), int(rng.integers(6, 12))
    return [(_placed(tokens, {i: mark}), int((mark == "b") == (i < 6))) for i in (early, late) for mark in "ab"]


TASKS: Mapping[str, Task] = MappingProxyType(
    {
        "order": Task(classes=("a_first", "b_first"), seed=1, draw=order),
        "majority": Task(classes=("more_a", "more_b"), seed=2, draw=majority),
        "rare": Task(classes=("absent", "present"), seed=3, draw=rare),
        "first": Task(classes=("a", "b"), seed=4, draw=first),
        "matching": Task(classes=("same", "different"), seed=5, draw=matching),
        "xor": Task(classes=("a_early_or_b_late", "b_early_or_a_late"), seed=6, draw=xor),
    }
)


def is_synthetic(source: str) -> bool:
    """Whether the source names generated texts. A path such as `./synthetic/order` does not."""
    return source.startswith(PREFIX)


def generate(source: str) -> Tables:
    """The texts of `synthetic/NAME`, in three splits: the same ones at every call.

    Raises `DataError` for a name that is none of `TASKS`.
    """
    name = source.removeprefix(PREFIX)
    if name not in TASKS:
        hint = difflib.get_close_matches(name, TASKS, n=1)
        meant = f' (did you mean "{PREFIX}{hint[0]}"?)' if hint else ""
        raise DataError(f"{source}: no such synthetic source{meant}; there are {', '.join(PREFIX + t for t in TASKS)}")
    task = TASKS[name]
    rng = np.random.default_rng(task.seed)
    seen: set[str] = set()
    rows: dict[str, tuple[list[str], list[int]]] = {}
    for split, size in SIZES.items():
        texts: list[str] = []
        labels: list[int] = []
        while len(texts) < size:
            group = [(" ".join(tokens), label) for tokens, label in task.draw(rng)]
            if seen.isdisjoint(text for text, _ in group):
                seen.update(text for text, _ in group)
                texts += [text for text, _ in group]
                labels += [label for _, label in group]
        rows[split] = (texts, labels)
    return Tables(
        rows=dict(rows),
        names=list(task.classes),
        notes=[f"generated texts, seed {task.seed}; the best accuracy is 100 %"],
    )
