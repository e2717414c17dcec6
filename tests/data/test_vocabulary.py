"""Vocabulary: which tokens are known, and what texts become, against a count by hand."""

import os
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, pre_tokenizers

from knockout.data import vocabulary
from knockout.data.corpus import Corpus, DataError, Texts
from knockout.data.prepare import _arrays
from knockout.data.rules import normalise
from knockout.data.vocabulary import PAD, SPECIALS, UNK, encode, encode_flat, learn
from knockout.job import DataSpec

Tokens = Literal["word", "char", "bpe"]

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


@pytest.mark.parametrize("tokens", ["word", "char", "bpe"])
def test_no_text_can_spell_padding(tokens: Tokens) -> None:
    corpus = ["[PAD] [UNK] a", "[PAD]"]
    tokenizer = learn(corpus, tokens=tokens, vocabulary_size=300, min_frequency=1)
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


any_texts = st.lists(st.text(max_size=20), min_size=1, max_size=8)


def spelt(tokenizer: Tokenizer, ids: list[int]) -> str:
    """The text that pieces of bytes stand for, by the table of GPT-2 (Radford et al. 2019), made by hand."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    sign = {chr(b): b for b in plain}
    sign |= {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in plain)}
    return bytes(sign[c] for i in ids for c in str(tokenizer.id_to_token(i))).decode()


@given(train=any_texts, others=any_texts, size=st.integers(258, 300), min_frequency=st.integers(1, 4))
def test_byte_pairs_spell_every_text_and_know_every_byte(
    train: list[str], others: list[str], size: int, min_frequency: int
) -> None:
    tokenizer = learn(train, tokens="bpe", vocabulary_size=size, min_frequency=min_frequency)
    assert 258 <= tokenizer.get_vocab_size() <= size
    assert [tokenizer.id_to_token(i) for i in (PAD, UNK)] == list(SPECIALS)
    for text, ids in zip(others, encode(tokenizer, others, max_length=None), strict=True):
        if text:
            assert spelt(tokenizer, ids) == (text if text.startswith(" ") else f" {text}")
            assert not {PAD, UNK} & set(ids)
        else:
            assert ids == [UNK]


@pytest.mark.parametrize("min_frequency", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [258, 262, 275, 400])
def test_byte_pairs_against_merging_by_hand(size: int, min_frequency: int) -> None:
    """Sennrich et al. 2016, algorithm 1, merge the commonest pair, again and again, while it occurs often enough
    and the vocabulary has room; of equally common ones that of the smallest ids."""
    words = {" low": 7, " lowest": 3, " newer": 9, " wide": 2}
    corpus = [word[1:] for word, count in words.items() for _ in range(count)]
    pieces = {word: ["Ġ", *word[1:]] for word in words}
    merged: list[str] = []
    while len(merged) < size - 258:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in pairwise(pieces[word]):
                pairs[pair] += count
        if not pairs or max(pairs.values()) < min_frequency:
            break
        top = max(pairs.values())
        ranks = {c: i for i, c in enumerate([*SPECIALS, *sorted(pre_tokenizers.ByteLevel.alphabet()), *merged])}
        a, b = min((p for p in pairs if pairs[p] == top), key=lambda p: (ranks[p[0]], ranks[p[1]]))
        merged.append(a + b)
        for word, parts in pieces.items():
            i, joined = 0, []
            while i < len(parts):
                both = i + 1 < len(parts) and (parts[i], parts[i + 1]) == (a, b)
                joined.append(a + b if both else parts[i])
                i += 2 if both else 1
            pieces[word] = joined
    tokenizer = learn(corpus, tokens="bpe", vocabulary_size=size, min_frequency=min_frequency)
    index = tokenizer.get_vocab()
    known = sorted(index, key=lambda token: index[token])
    assert known[258:] == merged
    told = encode(tokenizer, [word[1:] for word in words], max_length=None)
    assert [[tokenizer.id_to_token(i) for i in ids] for ids in told] == list(pieces.values())


def test_byte_pairs_in_a_vocabulary_without_room_for_the_bytes() -> None:
    with pytest.raises(DataError, match=r'vocabulary_size = 257: tokens = "bpe" needs at least 258'):
        learn(["a"], tokens="bpe", vocabulary_size=257, min_frequency=1)


def test_texts_encoded_in_pieces_are_the_texts_encoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = [f"w{i} " * (i % 5) for i in range(23)]
    tokenizer = learn(corpus, tokens="word", vocabulary_size=30, min_frequency=1)
    monkeypatch.setattr(vocabulary, "PIECE", 4)
    ids, offsets = encode_flat(tokenizer, corpus, max_length=3)
    assert [ids[a:b].tolist() for a, b in pairwise(offsets)] == encode(tokenizer, corpus, max_length=3)
    ids, offsets = encode_flat(tokenizer, [], max_length=3)
    assert (ids.tolist(), offsets.tolist()) == ([], [0])


@pytest.mark.parametrize("tokens", ["word", "char", "bpe"])
@given(
    corpus=st.lists(st.text(max_size=40) | st.text("abAß _1.,'!餐é\u0301\u0130\u03a3", max_size=40), max_size=8),
    max_length=st.integers(1, 6),
)
@example(corpus=["it's a b c", "a  b", "a b ", "a!b !c d", "\x1c a", "好 吃 不 送"], max_length=2)
def test_what_lies_behind_max_length_changes_no_token_before_it(
    tokens: Tokens, corpus: list[str], max_length: int
) -> None:
    corpus = [normalise(text) for text in corpus]
    tokenizer = learn(corpus, tokens=tokens, vocabulary_size=300, min_frequency=1)
    whole = encode(tokenizer, corpus, max_length=None)
    assert encode(tokenizer, corpus, max_length=max_length) == [row[:max_length] for row in whole]


def test_a_long_text_is_encoded_only_as_far_as_it_is_used() -> None:
    text = "it's " * 3 + "a " * 1000
    assert vocabulary._head(text, 4) == "it's it's it's a "
    assert vocabulary._head("a b c", 3) == "a b c"
    assert vocabulary._head("", 1) == ""


@pytest.mark.parametrize("tokens", ["word", "bpe"])
def test_the_same_vocabulary_in_every_process(tokens: Tokens) -> None:
    size = {"word": 60, "bpe": 330}[tokens]
    code = (
        "import json; from knockout.data.vocabulary import learn;"
        "texts = [f'w{i % 97} w{i % 31} x{i % 13}' for i in range(500)];"
        f"v = learn(texts, tokens='{tokens}', vocabulary_size={size}, min_frequency=2).get_vocab();"
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
    assert ('["w0", ' if tokens == "word" else '["\\u0120w", ') in shown[0]
