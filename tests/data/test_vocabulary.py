"""Vocabulary: which tokens are known, and what texts become, against a count by hand."""

import os
import re
import subprocess
import sys
from collections import Counter
from typing import Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from knockout.data.corpus import Corpus, Texts
from knockout.data.prepare import _arrays
from knockout.data.vocabulary import PAD, SPECIALS, UNK, encode, learn
from knockout.job import DataSpec

Tokens = Literal["word", "char"]

texts = st.lists(st.text("abcAB .,!?'_é1\t", max_size=20), max_size=12)
chinese = st.lists(st.text("好吃不送餐快慢。，a 1", max_size=12), max_size=12)


def tokenise(text: str, tokens: Tokens) -> list[str]:
    """By hand: `word` is runs of word characters or of other signs, lower case; `char` every visible character."""
    return re.findall(r"\w+|[^\w\s]+", text.lower()) if tokens == "word" else [c for c in text if not c.isspace()]


def most_frequent(corpus: list[str], tokens: Tokens, size: int, min_frequency: int) -> list[str]:
    counts = Counter(token for text in corpus for token in tokenise(text, tokens))
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return [token for token, count in ordered if count >= min_frequency][: size - len(SPECIALS)]


def check(corpus: list[str], tokens: Tokens, size: int, min_frequency: int, max_length: int) -> None:
    tokenizer = learn(corpus, tokens=tokens, vocabulary_size=size, min_frequency=min_frequency)
    known = most_frequent(corpus, tokens, size, min_frequency)
    index = {token: i for i, token in enumerate([*SPECIALS, *known])}
    assert tokenizer.get_vocab() == index
    expected = [[index.get(t, UNK) for t in tokenise(text, tokens)][:max_length] or [UNK] for text in corpus]
    assert encode(tokenizer, corpus, max_length=max_length) == expected


@given(corpus=texts, size=st.integers(4, 12), min_frequency=st.integers(1, 3), max_length=st.integers(1, 6))
@example(corpus=["b a", "a b", "c c c", "d"], size=5, min_frequency=1, max_length=2)  # a and b tie at the limit
def test_words_against_a_count_by_hand(corpus: list[str], size: int, min_frequency: int, max_length: int) -> None:
    check(corpus, "word", size, min_frequency, max_length)


@given(corpus=chinese, size=st.integers(4, 12), min_frequency=st.integers(1, 3), max_length=st.integers(1, 6))
def test_characters_against_a_count_by_hand(corpus: list[str], size: int, min_frequency: int, max_length: int) -> None:
    check(corpus, "char", size, min_frequency, max_length)


def test_chinese_is_one_token_a_character_and_one_word_a_clause() -> None:
    assert tokenise("很好吃，快", "char") == ["很", "好", "吃", "，", "快"]
    by_char = learn(["很好吃，快"], tokens="char", vocabulary_size=100, min_frequency=1)
    by_word = learn(["很好吃，快"], tokens="word", vocabulary_size=100, min_frequency=1)
    assert len(encode(by_char, ["很好吃，快"], max_length=64)[0]) == 5
    assert len(encode(by_word, ["很好吃，快"], max_length=64)[0]) == 3


@pytest.mark.parametrize("tokens", ["word", "char"])
@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_a_text_without_tokens_is_one_unknown_token(tokens: Tokens, text: str) -> None:
    tokenizer = learn(["a b"], tokens=tokens, vocabulary_size=10, min_frequency=1)
    assert encode(tokenizer, [text, "a", text], max_length=4) == [[UNK], [2], [UNK]]


@pytest.mark.parametrize("tokens", ["word", "char"])
def test_no_text_can_spell_padding(tokens: Tokens) -> None:
    corpus = ["[PAD] [UNK] a", "[PAD]"]
    tokenizer = learn(corpus, tokens=tokens, vocabulary_size=100, min_frequency=1)
    for ids in encode(tokenizer, corpus, max_length=64):
        assert PAD not in ids
        assert UNK not in ids  # every sign of it was learned


def test_the_specials_come_first() -> None:
    tokenizer = learn([], tokens="word", vocabulary_size=10, min_frequency=1)
    assert tokenizer.get_vocab() == {"[PAD]": 0, "[UNK]": 1}
    assert (PAD, UNK) == (0, 1)


def test_the_vocabulary_is_of_the_training_split_only() -> None:
    def corpus(other: str) -> Corpus:
        parts = {"train": ["a a b", "a"], "validation": [f"a {other}"], "test": [f"{other} b"]}
        return Corpus(
            classes=["0"], splits={s: Texts(text=t, label=[0] * len(t)) for s, t in parts.items()}, dropped={}, notes=[]
        )

    spec = DataSpec(source="x", min_frequency=1)
    arrays, size = _arrays(corpus("zzz"), spec)
    assert size == len(SPECIALS) + 2
    assert arrays["train_ids"].tolist() == [2, 2, 3, 2]
    assert arrays["train_offsets"].tolist() == [0, 3, 4]
    assert arrays["validation_ids"].tolist() == [2, UNK]
    assert arrays["test_ids"].tolist() == [UNK, 3]
    more, _ = _arrays(corpus("yyy " * 50), spec)
    assert more["train_ids"].tolist() == arrays["train_ids"].tolist()


def test_the_same_vocabulary_in_every_process() -> None:
    code = (
        "import json; from knockout.data.vocabulary import learn;"
        "texts = [f'w{i % 97} w{i % 31} x{i % 13}' for i in range(500)];"
        "v = learn(texts, tokens='word', vocabulary_size=60, min_frequency=2).get_vocab();"
        "print(json.dumps(sorted(v.items())))"
    )
    shown = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "RAYON_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed, threads in (("1", "1"), ("2", "4"))
    ]
    assert shown[0] == shown[1]
    assert '["w0", ' in shown[0]
