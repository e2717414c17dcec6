"""Tokenisation: texts to ids, with a vocabulary learned from the training split only."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from knockout.data.corpus import DataError

PAD, UNK = 0, 1
SPECIALS = ("[PAD]", "[UNK]")
PIECE = 2000
"""Number of texts that are encoded together."""


BYTES = 256
"""`bpe` starts with all bytes, so no text has unknown tokens."""


def learn(
    texts: Sequence[str], *, tokens: Literal["word", "char", "bpe"], vocabulary_size: int, min_frequency: int
) -> Tokenizer:
    """A tokenizer with the most frequent tokens of the texts, ties in the order of the alphabet.

    `word`: runs of letters, digits and underscores, and runs of other signs, in lower case. `char`: every character
    that is no white space. `bpe`: byte-level pairs (Sennrich et al. 2016; Radford et al. 2019), merged while they occur
    `min_frequency` times; case is kept, and a word is the same token at the start of a text as within.

    Raises `DataError` for a vocabulary of `bpe` that is too small for the bytes.
    """
    if tokens == "bpe":
        return _learn_bpe(texts, vocabulary_size, min_frequency)
    tokenizer = Tokenizer(models.WordLevel(unk_token=SPECIALS[UNK]))
    tokenizer.encode_special_tokens = True  # a text that spells "[PAD]" holds no padding
    if tokens == "word":
        tokenizer.normalizer = normalizers.Lowercase()
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    else:
        split = pre_tokenizers.Split(Regex(r"\S"), behavior="isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), split])
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocabulary_size, min_frequency=min_frequency, special_tokens=list(SPECIALS), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer, length=len(texts))
    return tokenizer


def _learn_bpe(texts: Sequence[str], vocabulary_size: int, min_frequency: int) -> Tokenizer:
    least = len(SPECIALS) + BYTES
    if vocabulary_size < least:
        raise DataError(f'data.vocabulary_size = {vocabulary_size}: tokens = "bpe" needs at least {least}')
    tokenizer = Tokenizer(models.BPE())
    tokenizer.encode_special_tokens = True
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        min_frequency=min_frequency,
        special_tokens=list(SPECIALS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer, length=len(texts))
    return tokenizer


def words(tokenizer: Tokenizer) -> list[str]:
    """The tokens by their ids, as a reader knows them: of `bpe` the bytes as text, with the space before a word."""
    tokens = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    if not isinstance(tokenizer.model, models.BPE):
        return [token for token, _ in tokens]
    decoder = decoders.ByteLevel()
    return [token if number < len(SPECIALS) else decoder.decode([token]) for token, number in tokens]


def twins(texts: Iterable[str], tokens: Literal["word", "char", "bpe"]) -> dict[str, str]:
    """Text -> the first in the alphabet of those that become the same tokens, for texts that have such a twin.

    `word` ignores case and the spaces around other signs, `char` all spaces; of `bpe` every difference is kept.
    """
    if tokens == "bpe":
        return {}
    lower, pieces = normalizers.Lowercase(), pre_tokenizers.Whitespace()

    def sequence(text: str) -> tuple[str, ...]:
        return tuple(piece for piece, _ in pieces.pre_tokenize_str(lower.normalize_str(text)))

    # Tokenising every text twice would be slow: only those that are equal without case and spaces are compared.
    first: dict[int, str] = {}
    alike: dict[int, set[str]] = {}
    for text in texts:
        squeezed = "".join(text.split())
        key = hash(squeezed.casefold() if tokens == "word" else squeezed)
        other = first.setdefault(key, text)
        if other != text:
            alike.setdefault(key, {other}).add(text)
    found: dict[str, str] = {}
    for group in alike.values():
        same: dict[object, str] = {}
        for text in sorted(group):
            kept = same.setdefault(sequence(text) if tokens == "word" else "".join(text.split()), text)
            if kept != text:
                found[text] = kept
    return found


def encode(tokenizer: Tokenizer, texts: Sequence[str], *, max_length: int | None) -> list[list[int]]:
    """Ids of each text, cut after `max_length` tokens (`None`: not cut). A text without tokens is one unknown token.

    The texts are as `rules.normalise` leaves them.
    """
    heads = list(texts) if max_length is None else [_head(text, max_length) for text in texts]
    encoded = tokenizer.encode_batch_fast(heads, add_special_tokens=False)
    return [e.ids[:max_length] or [UNK] for e in encoded]


def _head(text: str, words: int) -> str:
    """The first words of a text. Each has at least one token, so the rest of the text need not be encoded.

    No token crosses a space, so the tokens of these words are the first tokens of the text.
    """
    if text.count(" ") < words:
        return text
    parts = text.split(None, words)
    return text if len(parts) <= words else text[: -len(parts[words])]


def encode_flat(
    tokenizer: Tokenizer, texts: Sequence[str], *, max_length: int | None
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """All ids in one array, and the offset of each text and of the end.

    Encoded in chunks: `tokenizers` holds about 100 bytes per token until a call ends.
    """
    ids, lengths = [np.zeros(0, dtype=np.int32)], [0]
    for start in range(0, len(texts), PIECE):
        rows = encode(tokenizer, texts[start : start + PIECE], max_length=max_length)
        ids.append(np.fromiter(chain.from_iterable(rows), dtype=np.int32))
        lengths += map(len, rows)
    return np.concatenate(ids), np.cumsum(lengths, dtype=np.int64)
