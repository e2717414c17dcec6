"""Tokenising: texts to ids, with a vocabulary that is learned from the training split only."""

from collections.abc import Sequence
from typing import Literal

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

PAD, UNK = 0, 1
SPECIALS = ("[PAD]", "[UNK]")


def learn(
    texts: Sequence[str], *, tokens: Literal["word", "char"], vocabulary_size: int, min_frequency: int
) -> Tokenizer:
    """A tokenizer with the most frequent tokens of the texts, ties in the order of the alphabet.

    `word`: runs of letters, digits and underscores, and runs of other signs, in lower case. `char`: every character
    that is no white space.
    """
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


def encode(tokenizer: Tokenizer, texts: Sequence[str], *, max_length: int) -> list[list[int]]:
    """Ids of each text, cut after `max_length` tokens; a text without any token is one unknown token."""
    encoded = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    return [e.ids[:max_length] or [UNK] for e in encoded]
