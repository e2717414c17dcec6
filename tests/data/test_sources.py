"""Sources: what is read, what is dropped and counted, and what is refused."""

import csv
import hashlib
import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knockout.data import limits, sources, vocabulary
from knockout.data.corpus import SPLITS, Corpus, DataError, Tables
from knockout.data.prepare import content_id
from knockout.data.rules import clean, normalise
from knockout.data.sources import absolute_source, load_tables, read_corpus
from knockout.job import DataSpec

SHARED = Path(__file__).parents[2].parent / "shared" / "data"

Row = tuple[Any, Any]


def spec(source: Path | str = "x", **changed: Any) -> DataSpec:
    return DataSpec(source=str(source), **changed)


def many(count: int = 100, word: str = "word") -> list[Row]:
    """Rows of different texts, labels by turns."""
    return [(f"{word} {i} here", i % 2) for i in range(count)]


def tables(names: list[str] | None = None, **splits: Sequence[Row]) -> Tables:
    rows = {split: ([t for t, _ in pairs], [y for _, y in pairs]) for split, pairs in splits.items()}
    return Tables(rows=rows, names=names, notes=[])


def rows_of(corpus: Corpus, split: str) -> list[tuple[str, int]]:
    return list(zip(corpus.splits[split].text, corpus.splits[split].label, strict=True))


def write(path: Path, rows: Sequence[tuple[Any, ...]], columns: tuple[str, ...] = ("text", "label")) -> Path:
    """Rows in the format that the path's extension names."""
    records = [dict(zip(columns, row, strict=True)) for row in rows]
    kind = path.suffix.lower()
    if kind == ".parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    elif kind == ".csv":
        lines = [",".join('"' + str(v).replace('"', '""') + '"' for v in r.values()) for r in records]
        path.write_text("\n".join([",".join(columns), *lines]) + "\n", encoding="utf-8")
    elif kind == ".jsonl":
        path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    else:
        path.write_text(json.dumps(records), encoding="utf-8")
    return path


# --- normalising --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a<br />b<br/>c<BR>d<br >e", "a b c d e"),
        ("a\u0085b\u00a0c\u2003d\te\r\nf", "a b c d e f"),
        ("\ufeffa\ufeff b", "a b"),
        ("  a   b ", "a b"),
        ("e\u0301", "\u00e9"),
        ("<br /><br />", ""),
        ("a < br b", "a < br b"),
    ],
)
def test_normalise(text: str, expected: str) -> None:
    assert normalise(text) == expected


@given(st.text())
def test_a_normalised_text_has_single_spaces_and_stays_as_it_is(text: str) -> None:
    once = normalise(text)
    assert once == once.strip()
    assert "  " not in once
    assert not any(c.isspace() and c != " " for c in once)
    assert "\ufeff" not in once


# --- the embedded set ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KNOCKOUT_CACHE", str(tmp_path_factory.mktemp("cache")))
        return load_tables(spec("rotten_tomatoes"))


def test_rotten_tomatoes_keeps_every_sentence_and_splits_7_1_2(embedded: Tables) -> None:
    corpus = clean(embedded, spec("rotten_tomatoes"))
    counts = {split: len(corpus.splits[split].text) for split in SPLITS}
    assert sum(counts.values()) == 8530
    assert corpus.dropped == {}
    for split, share in zip(SPLITS, (0.7, 0.1, 0.2), strict=True):
        assert abs(counts[split] - share * 8530) < 4 * (8530 * share * (1 - share)) ** 0.5  # 4 binomial sd
    assert Counter(label for split in SPLITS for label in corpus.splits[split].label) == {0: 4265, 1: 4265}
    for split in SPLITS:  # the class balance of each part is that of the whole, within 4 binomial sd
        labels = corpus.splits[split].label
        assert abs(sum(labels) / len(labels) - 0.5) < 4 * 0.5 / len(labels) ** 0.5


def test_the_split_is_a_function_of_the_text_alone(embedded: Tables) -> None:
    texts, labels = embedded.rows["unsplit"]
    backwards = Tables(rows={"unsplit": (texts[::-1], labels[::-1])}, names=embedded.names, notes=[])
    half = Tables(rows={"unsplit": (texts[::2], labels[::2])}, names=embedded.names, notes=[])
    whole, turned, part = (clean(t, spec("rotten_tomatoes")) for t in (embedded, backwards, half))
    for split in SPLITS:
        assert set(rows_of(whole, split)) == set(rows_of(turned, split))
        assert set(rows_of(part, split)) <= set(rows_of(whole, split))


def test_another_split_moves_only_what_the_borders_pass(embedded: Tables) -> None:
    small = clean(embedded, spec("rotten_tomatoes", split=(0.5, 0.1, 0.4)))
    large = clean(embedded, spec("rotten_tomatoes", split=(0.7, 0.1, 0.2)))
    assert set(small.splits["train"].text) < set(large.splits["train"].text)
    assert set(large.splits["test"].text) < set(small.splits["test"].text)


def test_two_processes_split_alike_whatever_the_hash_seed(tmp_path: Path) -> None:
    rows = [(f"text {i}", ["no", "yes", "maybe"][i % 3]) for i in range(300)]
    path = write(tmp_path / "a.csv", rows)
    code = (
        "import sys, hashlib; from knockout.job import DataSpec; from knockout.data.prepare import content_id;"
        "from knockout.data.sources import read_corpus; s = DataSpec(source=sys.argv[1]); c = read_corpus(s);"
        "print(content_id(c, s), c.classes)"
    )
    shown = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "KNOCKOUT_CACHE": str(tmp_path / hash_seed)}
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)], env=environment, capture_output=True, text=True, check=True
        )
        shown.append(done.stdout)
    assert shown[0] == shown[1]
    assert "['maybe', 'no', 'yes']" in shown[0]


# --- the rules ----------------------------------------------------------------------------------------------------


def test_repeats_and_contradictions_are_dropped_and_counted() -> None:
    rows = [*many(), ("twice", 0), ("twice ", 0), ("thrice", 1), ("thrice", 1), ("thrice", 1), ("both", 0), ("both", 1)]
    corpus = clean(tables(unsplit=rows), spec())
    kept = Counter(text for split in SPLITS for text in corpus.splits[split].text)
    assert set(kept.values()) == {1}
    assert set(kept) == {t for t, _ in many()} | {"twice", "thrice"}
    assert corpus.dropped == {"contradicting labels in the data": 2, "repeats in the data": 3}


texts_and_labels = st.lists(st.tuples(st.sampled_from("abcdefghij"), st.integers(0, 1)), max_size=25)


@given(train=texts_and_labels, validation=texts_and_labels, test=texts_and_labels)
def test_the_rules_against_brute_force(train: list[Row], validation: list[Row], test: list[Row]) -> None:
    """Every row of every split is kept or counted; splits are disjoint; a given test split is as it was."""
    apart = {"train": many(20, "t"), "validation": many(20, "v"), "test": many(20, "u")}
    given_rows = {"train": train + apart["train"], "validation": validation + apart["validation"]}
    test_rows = test + apart["test"]
    corpus = clean(tables(train=given_rows["train"], validation=given_rows["validation"], test=test_rows), spec())
    tests = {text for text, _ in test}

    def consistent(rows: list[Row]) -> set[Row]:
        return {(t, y) for t, y in rows if (t, 1 - y) not in rows}

    validations = {row for row in consistent(given_rows["validation"]) if row[0] not in tests}
    trains = {row for row in consistent(given_rows["train"]) if row[0] not in tests | {t for t, _ in validations}}
    assert rows_of(corpus, "test") == test + apart["test"]
    assert sorted(rows_of(corpus, "validation")) == sorted(validations)
    assert sorted(rows_of(corpus, "train")) == sorted(trains)
    before = sum(map(len, given_rows.values()))
    assert before - len(trains) - len(validations) == sum(corpus.dropped.values())


def test_a_given_test_split_is_never_changed() -> None:
    test = [*many(200, "t"), ("t 0 here", 0), ("t 1 here", 0), ("", 1), ("<br />", 0)]
    corpus = clean(tables(train=many(), validation=many(30, "v"), test=test), spec())
    assert rows_of(corpus, "test") == [(normalise(t), y) for t, y in test]
    assert corpus.dropped == {}
    assert any("2 empty texts of the given test split" in note for note in corpus.notes)


def test_training_rows_in_validation_or_test_are_dropped_and_counted() -> None:
    validation, test = many(30, "v"), many(40, "u")
    train = [*many(), *validation[:3], *test[:5], test[0], ("U 6 HERE", 0)]
    corpus = clean(tables(train=train, validation=[*validation, *test[:2]], test=test), spec())
    assert rows_of(corpus, "train") == many()  # "U 6 HERE" is "u 6 here" to the model
    assert rows_of(corpus, "validation") == validation
    assert corpus.dropped == {
        "repeats in train": 1,
        "in train and in validation or test": 9,
        "in validation and in test": 2,
    }
    by_case = clean(tables(train=train, validation=[*validation, *test[:2]], test=test), spec(tokens="bpe"))
    assert rows_of(by_case, "train") == [*many(), ("U 6 HERE", 0)]


def test_a_missing_validation_is_a_tenth_of_training() -> None:
    corpus = clean(tables(train=many(2000), test=many(50, "u")), spec())
    train, validation = set(corpus.splits["train"].text), set(corpus.splits["validation"].text)
    assert train | validation == {t for t, _ in many(2000)}
    assert not train & validation
    assert abs(len(validation) - 200) < 4 * (2000 * 0.1 * 0.9) ** 0.5
    assert any("no validation split was given" in note for note in corpus.notes)


def test_sorted_by_class_does_not_matter() -> None:
    rows = [(f"text {i}", int(i >= 1000)) for i in range(2000)]  # as IMDB's files are
    corpus = clean(tables(train=rows, test=many(50, "u")), spec())
    labels = corpus.splits["validation"].label
    assert abs(sum(labels) / len(labels) - 0.5) < 4 * 0.5 / len(labels) ** 0.5


def test_empty_texts_up_to_one_percent_are_dropped_and_counted() -> None:
    rows = [*many(198), (" <br /> ", 0), (None, 1)]
    corpus = clean(tables(unsplit=rows), spec())
    assert corpus.dropped == {"empty in unsplit": 2}
    assert "" not in {t for split in SPLITS for t in corpus.splits[split].text}


@pytest.mark.parametrize("split", ["unsplit", "train", "validation", "test"])
def test_more_than_one_percent_empty_is_an_error(split: str) -> None:
    splits: dict[str, list[Row]] = {"train": many(), "validation": many(30, "v"), "test": many(30, "u")}
    if split == "unsplit":
        splits = {"unsplit": many()}
    splits[split] = [*many(196, "w"), ("", 0), ("", 1)]
    with pytest.raises(DataError, match=f"2 of 198 texts of {split} are empty, over 1%; is 'text' the right column"):
        clean(tables(None, **splits), spec())


@pytest.mark.parametrize("label", [None, ""])
def test_a_row_without_a_label(label: object) -> None:
    rows = [(f"text {i}", "ab"[i % 2]) for i in range(100)]
    with pytest.raises(
        DataError, match=r"1 of 101 rows of unsplit are without a label \(row 101; column 'label' has (None|'')\)"
    ):
        clean(tables(unsplit=[*rows, ("more", label)]), spec())


@pytest.mark.parametrize("nothing", [None, "", "  ", float("nan")])
def test_rows_without_a_label_are_left_out_on_demand(nothing: object) -> None:
    """The kept rows are the data: with and without the others they have the same id."""
    rows, more = many(), [("more", nothing), ("and more", nothing)]
    if isinstance(nothing, str):
        rows = [(text, "ab"[label]) for text, label in rows]
    asked, plain = spec(drop_unlabeled=True), spec()
    groups = {"train": [f"film {i % 20}" for i in range(100)] + [None, None]}
    corpus = clean(tables(train=[*rows, *more], test=[*rows[:30], *more[:1]]), asked)
    assert corpus.dropped["without a label in train"] == 2
    assert corpus.dropped["without a label in test"] == 1
    assert content_id(corpus, asked) == content_id(clean(tables(train=rows, test=rows[:30]), plain), plain)
    clean(with_groups(groups, train=[*rows, *more], test=rows[:30]), replace(asked, group_column="film"))


def test_which_rows_are_without_a_label() -> None:
    rows: list[Row] = [(t, None if i % 10 == 3 else y) for i, (t, y) in enumerate(many())]
    with pytest.raises(DataError) as caught:
        clean(tables(train=rows, test=[(t, -1) for t, _ in many(30, "u")], names=["no", "yes"]), spec())
    assert "10 of 100 rows of train are without a label (rows 4, 14, 24, 34, 44, ...;" in str(caught.value)
    assert "30 of 30 rows of test are without a label" in str(caught.value)
    assert "all of test: it cannot be scored" in str(caught.value)
    assert "data.drop_unlabeled = true" in str(caught.value)


def test_labels_that_differ_in_spaces_or_form_are_one_class() -> None:
    spelt = ["Caf\u00e9 bar", "Cafe\u0301  bar ", "\ufeffCaf\u00e9\u00a0bar", "other"]
    corpus = clean(tables(unsplit=[(f"text {i}", spelt[i % 4]) for i in range(100)]), spec())
    assert corpus.classes == ["Caf\u00e9 bar", "other"]
    numbered = tables(names=spelt, unsplit=[(f"text {i}", i % 4) for i in range(100)])
    assert clean(numbered, spec()).classes == corpus.classes


def test_scarce_and_lacking_classes_are_named() -> None:
    rows = [(f"text {i}", "Positive" if i % 2 else "Negative") for i in range(1000)]
    odd = [(f"odd {i}", "positive") for i in range(4)]
    corpus = clean(
        tables(train=[*rows, *odd], validation=[(f"v {t}", y) for t, y in rows[:99]], test=rows[-99:]), spec()
    )
    assert "validation has no text of positive" in corpus.notes
    assert "test has no text of positive" in corpus.notes
    total = sum(len(corpus.splits[s].text) for s in SPLITS)
    assert f"classes with very few rows (is a label spelt in two ways?): positive (4 of {total:,} rows)" in corpus.notes
    many_classes = clean(tables(unsplit=[(f"text {i}", i % 200) for i in range(4000)]), spec())
    assert not [note for note in many_classes.notes if "very few rows" in note]  # 200 classes of one half percent each


@pytest.mark.parametrize(
    ("tokens", "alike"),
    [
        ("word", [("Good, film!", "good , FILM !"), ("\u039f\u0394\u039f\u03a3", "\u03bf\u03b4\u03bf\u03c3")]),
        ("char", [("good film", "go odfilm")]),
        ("bpe", []),
    ],
)
def test_twins_are_texts_with_the_same_tokens(tokens: Literal["word", "char", "bpe"], alike: list[Row]) -> None:
    texts = ["Good, film!", "good , FILM !", "good film", "go odfilm", "Good Film!", "good. film",
             "\u039f\u0394\u039f\u03a3", "\u03bf\u03b4\u03bf\u03c3"]  # fmt: skip
    found = vocabulary.twins(texts, tokens)
    tokenizer = vocabulary.learn(texts, tokens=tokens, vocabulary_size=1000, min_frequency=1)
    ids = dict(zip(texts, map(tuple, vocabulary.encode(tokenizer, texts, max_length=None)), strict=True))
    for one in texts:
        for other in texts:
            assert (found.get(one, one) == found.get(other, other)) == (ids[one] == ids[other]), (one, other)
    for one, other in alike:
        assert found.get(one, one) == found.get(other, other)


def test_repeats_in_other_case_stay_in_one_split_whatever_their_order() -> None:
    rows = [*many(300), *((text.upper(), label) for text, label in many(300))]
    for order in (rows, rows[::-1]):
        corpus = clean(tables(unsplit=order), spec())
        assert corpus.dropped == {"repeats in the data": 300}
    sizes = [{s: {t.lower() for t in clean(tables(unsplit=o), spec()).splits[s].text} for s in SPLITS}
             for o in (rows, rows[::-1])]  # fmt: skip
    assert sizes[0] == sizes[1]


def test_the_minus_one_of_unlabelled_rows() -> None:
    with pytest.raises(
        DataError,
        match=r"1 of 101 rows of train are without a label \(row 101; column 'label' has -1\).*drop_unlabeled = true",
    ):
        clean(tables(names=["neg", "pos"], train=[*many(), ("more", -1)], test=many(30, "u")), spec())


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([1, 0], ["0", "1"]),
        (["pos", "neg"], ["neg", "pos"]),
        ([5, 3], ["3", "5"]),
        ([10, 9], ["9", "10"]),  # numbers in the order of numbers
        ([True, False], ["False", "True"]),
        (["NA", "None"], ["NA", "None"]),
    ],
)
def test_labels_are_indices_in_a_fixed_order(labels: list[Any], classes: list[str]) -> None:
    rows = [(f"text {i}", labels[i % 2]) for i in range(100)]
    corpus = clean(tables(unsplit=rows), spec())
    assert corpus.classes == classes
    for split in SPLITS:
        for text, label in rows_of(corpus, split):
            assert str(labels[int(text.split()[1]) % 2]) == classes[label]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, "a"], "partly text and partly numbers"),
        ([0.0, float("inf")], "not a finite number"),
        ([0.0, float("nan")], "50 of 100 rows of unsplit are without a label"),
        ([[0], [1]], "labels are list"),
        ([{"x": 0}, 1], "labels are dict"),
        ([1, 1], "train holds 1 classes"),
    ],
)
def test_labels_that_are_no_classes(labels: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        clean(tables(unsplit=[(f"text {i}", labels[i % 2]) for i in range(100)]), spec())


def test_a_thousand_and_one_labels_are_no_classification() -> None:
    with pytest.raises(DataError, match="1001 different labels"):
        clean(tables(unsplit=[(f"text {i}", i) for i in range(1001)]), spec())


def test_a_class_that_training_never_shows_is_named() -> None:
    corpus = clean(tables(names=["a", "b", "c"], train=many(), test=[*many(30, "u"), ("rare", 2)]), spec())
    assert "classes that training never shows: c (1 in test)" in corpus.notes
    corpus = clean(
        tables(train=[*many(), ("w", 3)], validation=[*many(9, "v"), ("q", 3), ("p", 2)], test=many(9)), spec()
    )
    assert "classes that training never shows: 2 (1 in validation)" in corpus.notes


# --- groups -------------------------------------------------------------------------------------------------------


def films(count: int, per: int, word: str = "word") -> tuple[list[Row], list[Any]]:
    """Rows of `count` groups, `per` texts each, in an order that mixes them; and the group of each row."""
    rows = [(f"{word} {i} here", i // count % 2) for i in range(count * per)]
    return rows, [f"film{i % count}" for i in range(count * per)]


def with_groups(groups: dict[str, list[Any]], **splits: Sequence[Row]) -> Tables:
    return replace(tables(None, **splits), groups=groups)


def fraction(key: str) -> float:
    """The first 56 bits of sha256, as a part of 1."""
    return int(hashlib.sha256(key.encode()).hexdigest()[:14], 16) / 16**14


def test_a_missing_validation_is_cut_by_group() -> None:
    rows, groups = films(300, 8)
    of_text = dict(zip([t for t, _ in rows], groups, strict=True))
    corpus = clean(with_groups({"train": groups}, train=rows, test=many(50, "u")), spec(group_column="film"))
    validation = [row for row in rows if fraction(of_text[row[0]]) < 0.1]
    assert rows_of(corpus, "validation") == validation
    assert rows_of(corpus, "train") == [row for row in rows if row not in validation]
    parts = [{of_text[t] for t in corpus.splits[s].text} for s in ("train", "validation")]
    assert not parts[0] & parts[1]
    assert abs(len(parts[1]) - 30) < 4 * (300 * 0.1 * 0.9) ** 0.5
    (note,) = [n for n in corpus.notes if "no validation split was given" in n]
    assert "optimistic" not in note
    assert f"validation {len(validation):,} texts of {len(parts[1])} groups" in note
    assert "test has no column 'film': whether its groups are elsewhere is not known" in corpus.notes


@given(
    rows=st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 1), st.integers(0, 9)), max_size=30),
    order=st.randoms(use_true_random=False),
)
def test_unsplit_data_are_cut_by_group_whatever_the_order(rows: list[tuple[str, int, int]], order: Any) -> None:
    base, groups = films(60, 4)
    every = [*zip(base, groups, strict=True), *(((t, y), f"film{g}") for t, y, g in rows)]
    first: dict[str, str] = {}
    for (text, _), group in every:
        first[text] = min(group, first.get(text, group))

    def cleaned() -> Corpus:
        found = with_groups({"unsplit": [g for _, g in every]}, unsplit=[row for row, _ in every])
        return clean(found, spec(group_column="film"))

    corpus = cleaned()
    for split, low, high in (("train", 0, 0.7), ("validation", 0.7, 0.8), ("test", 0.8, 1)):
        assert all(low <= fraction(first[text]) < high for text in corpus.splits[split].text)
    assert sum(len(corpus.splits[s].text) for s in SPLITS) + sum(corpus.dropped.values()) == len(every)
    order.shuffle(every)
    again = cleaned()
    assert {s: set(rows_of(again, s)) for s in SPLITS} == {s: set(rows_of(corpus, s)) for s in SPLITS}


@pytest.mark.parametrize("missing", [None, "", "  ", float("nan")])
def test_a_row_without_a_group(missing: Any) -> None:
    rows, groups = films(60, 4)
    groups[17] = missing
    with pytest.raises(DataError, match=r"row 18 of unsplit has .* in the group column 'film'; every row"):
        clean(with_groups({"unsplit": groups}, unsplit=rows), spec(group_column="film"))


def test_groups_that_given_splits_share_are_counted_and_left() -> None:
    (train, a), (validation, b), (test, c) = films(20, 4), films(5, 4, "v"), films(7, 4, "u")
    found = with_groups({"train": a, "validation": b, "test": c}, train=train, validation=validation, test=test)
    corpus = clean(found, spec(group_column="film"))
    assert corpus.notes == [
        "5 groups of column 'film' are in train and in validation",
        "7 groups of column 'film' are in train and in test",
        "5 groups of column 'film' are in validation and in test",
    ]
    assert [rows_of(corpus, s) for s in SPLITS] == [train, validation, test]


def test_too_few_groups_for_a_cut() -> None:
    rows, _ = films(60, 4)
    with pytest.raises(DataError, match=r"holds 0 classes.*\(cut by groups of column 'film'\)"):
        clean(with_groups({"unsplit": ["one"] * 240}, unsplit=rows), spec(group_column="film"))


@pytest.mark.parametrize("extension", ["parquet", "csv", "jsonl"])
@pytest.mark.usefixtures("cache")
def test_a_group_column_in_files(extension: str, tmp_path: Path) -> None:
    rows, groups = films(40, 6)
    for name, part in (("train", rows), ("test", many(30, "u"))):
        write(tmp_path / f"{name}.{extension}", part)
    with pytest.raises(DataError, match=r"train\.\w+ has no column 'film'; it has 'label', 'text'|'text', 'label'"):
        read_corpus(spec(tmp_path, group_column="film"))
    by_text = read_corpus(spec(tmp_path))
    triples = [(t, y, int(g.removeprefix("film"))) for (t, y), g in zip(rows, groups, strict=True)]
    write(tmp_path / f"train.{extension}", triples, ("text", "label", "film"))
    corpus = read_corpus(spec(tmp_path, group_column="film"))
    of_text = {t: str(g) for t, _, g in triples}
    assert corpus.splits["validation"].text == [t for t, _ in rows if fraction(of_text[t]) < 0.1]
    assert read_corpus(spec(tmp_path)).splits == by_text.splits != corpus.splits
    ids = {content_id(c, spec(tmp_path, group_column=g)) for c, g in ((by_text, ""), (by_text, "film"))}
    assert len(ids) == 1  # the column's name is not in the id: the rows are


def test_the_embedded_sentences_have_no_groups() -> None:
    with pytest.raises(DataError, match="rotten_tomatoes has no groups"):
        read_corpus(spec("rotten_tomatoes", group_column="film"))


@pytest.mark.parametrize("separator", [";", "\t", ","])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", ["mine.csv", "mine.tsv"])
@pytest.mark.usefixtures("cache")
def test_separators_and_marks_as_spreadsheets_write_them(
    separator: str, encoding: str, name: str, tmp_path: Path
) -> None:
    lines = [f"text{separator}label", *(f"{text} \u00e9{separator}{label}" for text, label in many())]
    (tmp_path / name).write_text("\n".join(lines) + "\n", encoding=encoding)
    corpus = read_corpus(spec(tmp_path / name))
    assert {t for s in SPLITS for t in corpus.splits[s].text} == {f"{t} \u00e9" for t, _ in many()}


@pytest.mark.usefixtures("cache")
def test_latin_1_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\ncaf\u00e9,1\n", encoding="latin-1")
    with pytest.raises(DataError, match=r"iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW, if it is Latin-1"):
        load_tables(spec(tmp_path / "a.csv"))


@pytest.mark.usefixtures("cache")
def test_all_missing_columns_are_named_with_their_keys(tmp_path: Path) -> None:
    for name in ("a.csv", "a.parquet", "a.jsonl"):
        path = write(tmp_path / name, many(), columns=("review", "stars"))
        with pytest.raises(DataError) as caught:
            load_tables(spec(path, group_column="film"))
        assert "has no column 'text' and no column 'label' and no column 'film'; it has 'review', 'stars'" in str(
            caught.value
        )
        assert "as data.text_column and data.label_column and data.group_column" in str(caught.value)


@pytest.mark.usefixtures("cache")
def test_a_folder_of_save_to_disk_is_read(tmp_path: Path) -> None:
    named = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])})
    parts = {"train": many(), "test": many(40, "u")}
    made = {
        split: datasets.Dataset.from_dict({"text": [t for t, _ in rows], "label": [y for _, y in rows]}, features=named)
        for split, rows in parts.items()
    }
    datasets.DatasetDict(made).save_to_disk(tmp_path / "both")
    made["train"].save_to_disk(tmp_path / "one")
    corpus = read_corpus(spec(tmp_path / "both"))
    assert corpus.classes == ["no", "yes"]
    assert rows_of(corpus, "test") == parts["test"]
    whole = read_corpus(spec(tmp_path / "one"))
    assert sum(len(whole.splits[s].text) for s in SPLITS) == 100
    assert sources.source_files(spec(tmp_path / "one"))  # so that prepared data are cached by their content
    with pytest.raises(DataError, match="no column 'review'"):
        read_corpus(spec(tmp_path / "both", text_column="review"))
    (tmp_path / "both" / "train" / "state.json").write_text("{")
    with pytest.raises(DataError, match=r"not read as a folder of save_to_disk .*to_parquet"):
        read_corpus(spec(tmp_path / "both"))


# --- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.json", "a.jsonl", "A.CSV"])
@pytest.mark.usefixtures("cache")
def test_a_single_file_is_split_by_the_hash(name: str, tmp_path: Path) -> None:
    rows = [(f'text {i}, "so" it\nis', i % 2) for i in range(200)]
    corpus = read_corpus(spec(write(tmp_path / name, rows)))
    assert sorted(row for split in SPLITS for row in rows_of(corpus, split)) == sorted(
        (normalise(t), y) for t, y in rows
    )
    assert {s: rows_of(corpus, s) for s in SPLITS} == {
        s: rows_of(clean(tables(unsplit=rows), spec()), s) for s in SPLITS
    }


@pytest.mark.parametrize(
    ("train", "validation", "test"),
    [
        ("train.parquet", "validation.parquet", "test.parquet"),
        ("train.csv", "dev.csv", "test.csv"),
        ("training.jsonl", "valid.jsonl", "eval.jsonl"),
        ("data/train-00000-of-00001.parquet", "data/val-00000-of-00001.parquet", "data/test-00000-of-00001.parquet"),
    ],
)
@pytest.mark.usefixtures("cache")
def test_a_folder(train: str, validation: str, test: str, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    (folder / "data").mkdir(parents=True)
    parts = {"train": (train, many()), "validation": (validation, many(20, "v")), "test": (test, many(30, "u"))}
    for name, rows in parts.values():
        write(folder / name, rows)
    corpus = read_corpus(spec(folder))
    assert {split: rows_of(corpus, split) for split in SPLITS} == {split: rows for split, (_, rows) in parts.items()}


@pytest.mark.usefixtures("cache")
def test_other_files_are_ignored_and_named(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", many())
    write(tmp_path / "test.csv", many(30, "u"))
    write(tmp_path / "unsupervised.csv", many(30, "z"))
    (tmp_path / "README.md").write_text("no data\n")
    (tmp_path / "loader.py").write_text("raise SystemExit(f'{__file__} was run')\n")
    (tmp_path / "train.pkl").write_bytes(pickle.dumps("never read"))
    corpus = read_corpus(spec(tmp_path))
    assert "ignored, since their names are no split's: unsupervised.csv" in corpus.notes
    assert not any(t.startswith("z ") for s in SPLITS for t in corpus.splits[s].text)


@pytest.mark.usefixtures("cache")
def test_texts_that_look_like_missing_values_stay_texts(tmp_path: Path) -> None:
    odd = ["null", "NA", "None", "nan", "N/A", "NULL", "-1.5"]
    path = write(tmp_path / "a.csv", [*many(), *((t, 1) for t in odd)])
    corpus = read_corpus(spec(path, tokens="bpe"))  # in lower case some of them are one text
    assert set(odd) <= {t for s in SPLITS for t in corpus.splits[s].text}
    assert corpus.dropped == {}


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
@pytest.mark.usefixtures("cache")
def test_a_byte_order_mark_and_breaks_in_a_file(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, [*many(), ("one\u0085two<br />three", 1)])
    path.write_text("\ufeff" + path.read_text(encoding="utf-8"), encoding="utf-8")
    corpus = read_corpus(spec(path))
    assert "one two three" in {t for s in SPLITS for t in corpus.splits[s].text}


@pytest.mark.usefixtures("cache")
def test_other_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", many(), ("review", "stars"))
    with pytest.raises(DataError, match=r"has no column 'text'.*; it has 'review', 'stars'.*data\.text_column"):
        read_corpus(spec(path))
    with pytest.raises(DataError, match="has no column 'label'; it has 'review', 'stars'"):
        read_corpus(spec(path, text_column="review"))
    corpus = read_corpus(spec(path, text_column="review", label_column="stars"))
    assert sum(len(corpus.splits[s].text) for s in SPLITS) == 100


@pytest.mark.usefixtures("cache")
def test_numbers_in_the_column_of_texts(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [(i, i % 2) for i in range(50)])
    with pytest.raises(DataError, match="column 'text' holds int, not text"):
        read_corpus(spec(path))


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.csv", "a.parquet"])
@pytest.mark.usefixtures("cache")
def test_texts_that_look_like_dates_stay_texts(name: str, tmp_path: Path) -> None:
    rows = [(f"2020-01-{1 + i % 28:02} {i // 28:02}:00:00", i % 2) for i in range(100)]
    corpus = read_corpus(spec(write(tmp_path / name, rows)))
    assert sorted(row for s in SPLITS for row in rows_of(corpus, s)) == sorted(rows)


@pytest.mark.parametrize("extension", ["csv", "jsonl", "parquet"])
@pytest.mark.usefixtures("cache")
def test_labels_that_are_numbers_here_and_names_there(extension: str, tmp_path: Path) -> None:
    write(tmp_path / f"train.{extension}", many())
    write(tmp_path / f"test.{extension}", [(t, ("neg", "pos")[y]) for t, y in many(30, "u")])
    with pytest.raises(DataError) as caught:
        read_corpus(spec(tmp_path))
    message = str(caught.value)
    assert "no label of test ('neg', 'pos') occurs in train" in message or (
        "labels are partly text and partly numbers: " in message and "test has 'neg', 'pos'" in message
    )


def test_names_of_other_spelling_are_no_further_classes() -> None:
    train = [(t, ("neg", "pos")[y]) for t, y in many()]
    with pytest.raises(DataError, match=r"no label of test \('0', '1'\) occurs in train \('neg', 'pos'\); spell them"):
        clean(tables(train=train, test=[(t, str(y)) for t, y in many(30, "u")]), spec())
    with pytest.raises(DataError, match="partly true or false and partly numbers"):
        clean(tables(train=many(), test=[(t, bool(y)) for t, y in many(30, "u")]), spec())
    padded = [(t, ("neg ", " pos")[y]) for t, y in many(30, "u")]
    assert clean(tables(train=train, test=padded), spec()).classes == ["neg", "pos"]


@pytest.mark.usefixtures("cache")
def test_classes_that_are_named_differently_in_two_splits(tmp_path: Path) -> None:
    for split, names in (("train", ["neg", "pos"]), ("test", ["pos", "neg"])):
        kinds = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=names)})
        rows = many(40, split)
        table = datasets.Dataset.from_dict({"text": [t for t, _ in rows], "label": [y for _, y in rows]}, kinds)
        table.to_parquet(str(tmp_path / f"{split}.parquet"))
    with pytest.raises(
        DataError, match=r"name their classes differently: test \['pos', 'neg'\]; train \['neg', 'pos'\]"
    ):
        read_corpus(spec(tmp_path))


@pytest.mark.usefixtures("cache")
def test_labels_of_csv_are_in_the_order_of_numbers_where_all_splits_have_numbers(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", [(t, (9, 10)[y]) for t, y in many()])
    write(tmp_path / "test.csv", [(t, (9, 10)[y]) for t, y in many(30, "u")])
    assert read_corpus(spec(tmp_path)).classes == ["9", "10"]
    write(tmp_path / "train.csv", [*((t, (9, 10)[y]) for t, y in many()), ("w", "x")])
    assert read_corpus(spec(tmp_path)).classes == ["10", "9", "x"]
    write(tmp_path / "train.csv", [(t, ("01", "1")[y]) for t, y in many()])
    write(tmp_path / "test.csv", [(t, ("01", "1")[y]) for t, y in many(30, "u")])
    assert read_corpus(spec(tmp_path)).classes == ["01", "1"]


@pytest.mark.parametrize(("row", "cells"), [("a film, which is bad,0", 3), ("bad", 1)])
@pytest.mark.usefixtures("cache")
def test_a_csv_row_of_another_length(row: str, cells: int, tmp_path: Path) -> None:
    for rows, line in (([*['"fine,\nindeed",1'] * 30, row], 62), ([row] * 30, 2)):
        (tmp_path / "a.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
        with pytest.raises(
            DataError, match=rf"a\.csv: line {line}: has {cells} cells, the header 2; .*text with a comma"
        ):
            read_corpus(spec(tmp_path / "a.csv"))


@pytest.mark.usefixtures("cache")
def test_blank_lines_of_a_csv_file_are_no_rows(tmp_path: Path) -> None:
    lines = ["text,label", "", *(f"text {i},{i % 2}" for i in range(60)), "", ""]
    (tmp_path / "a.csv").write_text("\n".join(lines), encoding="utf-8")
    assert sum(len(read_corpus(spec(tmp_path / "a.csv")).splits[s].text) for s in SPLITS) == 60


@pytest.mark.usefixtures("cache")
def test_a_quotation_mark_that_is_not_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'text,label\nfine,1\n"open,0\n' + "more,1\n" * 1000
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.csv: line 3: has 1 cells, the header 2 \(it ends in line 1003\)"):
        read_corpus(spec(tmp_path / "a.csv"))
    monkeypatch.setattr(limits, "TEXTS", replace(limits.TEXTS, line_bytes=5000))
    with pytest.raises(DataError, match=r"a\.csv: line 3: no CSV \(field larger than"):
        read_corpus(spec(tmp_path / "a.csv"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"text": "a", "label": 0}\n{"text": "b"', r"line 2: .*one object a line is read"),
        ('{"text": "a", "label": 0}\n3\n', "record 2 is no object"),
        ("[1, 2]", "record 1 is no object"),
        ('{"text": "a"}\n' * 3, "has no column 'label'; it has 'text'"),
        ('{"text": "a", "label": NaN}\n' * 3, "3 of 3 rows of unsplit are without a label"),
        ('{"text": "\\ud800", "label": 1}\n' * 3, "row 1 of unsplit holds half a character"),
        ('{"text": ["a"], "label": 1}\n' * 3, "column 'text' holds list, not text"),
        ("[" * 100_000, "not read as json"),
        ("[]", "it holds no record"),
    ],
)
@pytest.mark.usefixtures("cache")
def test_json_that_is_none(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(DataError, match=message):
        read_corpus(spec(tmp_path / "a.json"))


@pytest.mark.usefixtures("cache")
def test_shards_and_the_hubs_folders(tmp_path: Path) -> None:
    """plain_text/train-00000-of-00002.parquet of stanfordnlp/imdb; default/train/0000.parquet as the hub converts."""
    rows = many(60)
    expected = {"train": rows, "validation": many(20, "v"), "test": many(30, "u")}
    for number, layout in enumerate(("plain_text/{}-0000{}-of-00002.parquet", "default/{}/000{}.parquet", "{}/{}.csv")):
        folder = tmp_path / str(number)
        for split, of_split in expected.items():
            for shard, part in enumerate((of_split[: len(of_split) // 2], of_split[len(of_split) // 2 :])):
                path = folder / layout.format(split, shard)
                path.parent.mkdir(parents=True, exist_ok=True)
                write(path, part)
        corpus = read_corpus(spec(folder))
        assert {s: rows_of(corpus, s) for s in SPLITS} == expected, layout
    (tmp_path / "1" / "other").mkdir()
    write(tmp_path / "1" / "other" / "train.csv", rows)
    with pytest.raises(DataError, match=r"the folder holds several with data \(default, other\); name one of them"):
        read_corpus(spec(tmp_path / "1"))


@pytest.mark.usefixtures("cache")
def test_shards_of_different_columns(tmp_path: Path) -> None:
    write(tmp_path / "train-0.csv", many())
    write(tmp_path / "train-1.csv", many(30, "w"), ("label", "text"))
    write(tmp_path / "test.csv", many(30, "u"))
    with pytest.raises(DataError, match=r"train-1\.csv: its columns are \['label', 'text'\], those of train-0\.csv"):
        read_corpus(spec(tmp_path))
    other = tmp_path / "other"
    other.mkdir()
    write(other / "train-0.parquet", many())
    write(other / "train-1.parquet", [(t, "ab"[y]) for t, y in many(30, "w")])
    write(other / "test.parquet", many(30, "u"))
    with pytest.raises(DataError, match=r"train-0\.parquet and train-1\.parquet differ in what their columns hold"):
        read_corpus(spec(other))


@pytest.mark.usefixtures("cache")
def test_a_csv_column_of_numbers_is_no_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [(i, i % 2) for i in range(50)])
    with pytest.raises(DataError, match="column 'text' holds numbers, not text"):
        read_corpus(spec(path))


@pytest.mark.usefixtures("cache")
def test_named_labels_of_a_parquet_file(tmp_path: Path) -> None:
    feature = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["zero", "one"])})
    rows = many()
    table = datasets.Dataset.from_dict({"text": [t for t, _ in rows], "label": [y for _, y in rows]}, features=feature)
    table.to_parquet(str(tmp_path / "a.parquet"))
    corpus = read_corpus(spec(tmp_path / "a.parquet"))
    assert corpus.classes == ["zero", "one"]
    assert sorted(row for s in SPLITS for row in rows_of(corpus, s)) == sorted(rows)


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("bad", ["train", "test"])
@pytest.mark.parametrize("extension", ["parquet", "csv", "jsonl"])
def test_a_corrupt_file_is_named(bad: str, extension: str, tmp_path: Path) -> None:
    for split in ("train", "test"):
        write(tmp_path / f"{split}.{extension}", many(30, split))
    (tmp_path / f"{bad}.{extension}").write_bytes(b"PAR1\xff\xfe\x00 broken")
    with pytest.raises(DataError) as caught:
        read_corpus(spec(tmp_path))
    what = "is a binary file" if extension == "csv" else "not read as"
    assert str(caught.value).startswith(f"{tmp_path / f'{bad}.{extension}'}: {what}")


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.usefixtures("cache")
def test_csv_as_spreadsheets_write_it(separator: str, encoding: str, tmp_path: Path) -> None:
    rows = [(f"{t}, 好; \U0001f600", y) for t, y in many()]
    with (tmp_path / "a.csv").open("w", encoding=encoding, newline="") as opened:
        csv.writer(opened, delimiter=separator).writerows([("text", "label"), *rows])
    corpus = read_corpus(spec(tmp_path / "a.csv"))
    assert sorted(t for s in SPLITS for t in corpus.splits[s].text) == sorted(t for t, _ in rows)


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "SEP=;", "sep=;;"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.usefixtures("cache")
def test_the_line_that_tells_excel_the_separator_is_no_header(first: str, encoding: str, tmp_path: Path) -> None:
    rows = [(f"{t}, 好", y) for t, y in many()]
    lines = [first, "text;label", *(f"{t};{y}" for t, y in rows)]
    (tmp_path / "a.csv").write_bytes("\r\n".join([*lines, ""]).encode(encoding))
    corpus = read_corpus(spec(tmp_path / "a.csv"))
    assert sorted(row for s in SPLITS for row in rows_of(corpus, s)) == sorted(rows)


@pytest.mark.usefixtures("cache")
def test_under_that_line_rows_keep_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sep=;\ntext;label\na;0\nb;1;2\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 4: has 3 cells, the header 2"):
        read_corpus(spec(tmp_path / "a.csv"))
    (tmp_path / "a.csv").write_text("sep=|\ntext|label\na|0\n", encoding="utf-8")
    with pytest.raises(DataError, match=r'line 1: says that "[|]" separates the columns'):
        read_corpus(spec(tmp_path / "a.csv"))


@pytest.mark.usefixtures("cache")
def test_csv_files_of_one_split_are_written_alike(tmp_path: Path) -> None:
    write(tmp_path / "train-0.csv", many())
    (tmp_path / "train-1.csv").write_text("text;label\na;0\n", encoding="utf-8")
    write(tmp_path / "test.csv", many(30, "u"))
    with pytest.raises(DataError, match=r"train-1\.csv: is utf-8 with a semicolon between columns, and train-0"):
        read_corpus(spec(tmp_path))


@pytest.mark.parametrize("at", [0, 200_000])
@pytest.mark.usefixtures("cache")
def test_a_csv_file_in_another_encoding(at: int, tmp_path: Path) -> None:
    rows = [f"text {i},{i % 2}\n" for i in range(at)]
    (tmp_path / "a.csv").write_bytes("".join(["text,label\n", *rows, "größe,1\n"]).encode("latin-1"))
    with pytest.raises(DataError, match=r"a\.csv: no UTF-8 (in its first lines|after line \d+): save it"):
        read_corpus(spec(tmp_path / "a.csv"))


@pytest.mark.usefixtures("cache")
def test_a_parquet_file_cut_anywhere_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", many(20))
    whole = path.read_bytes()
    for end in range(0, len(whole), len(whole) // 5):
        path.write_bytes(whole[:end])
        with pytest.raises(DataError, match=r"a\.parquet: not read as parquet"):
            read_corpus(spec(path))


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("content", ["", "text,label\n"])
def test_a_file_without_rows(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(DataError, match=r"a\.csv"):
        read_corpus(spec(tmp_path / "a.csv"))


@pytest.mark.parametrize("name", ["./nothing.csv", "/no/such/folder", "~/no-such-file-anywhere", "nothing.parquet"])
def test_a_missing_file(name: str) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        read_corpus(spec(name))


@pytest.mark.parametrize("name", ["a.pkl", "a.py", "a.pt", "a.npz", "a.txt", "a"])
def test_other_formats_are_refused_unread(name: str, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    (tmp_path / name).write_bytes(pickle.dumps(Trap()))
    with pytest.raises(DataError, match=r"read are \.parquet, \.csv, \.tsv, \.json, \.jsonl, got"):
        read_corpus(spec(tmp_path / name))
    assert not (tmp_path / "sprung").exists()


def test_a_folder_named_after_its_script_runs_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "reviews"
    folder.mkdir()
    (folder / "reviews.py").write_text(f"import os; os.mkdir({str(tmp_path / 'sprung')!r})\n")
    with pytest.raises(
        DataError, match=r"the folder holds no \.parquet, .* \(a loading script such as reviews\.py is never run"
    ):
        read_corpus(spec(folder))
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("names", [("train.csv",), ("train.csv", "validation.csv"), ("a.csv", "b.csv")])
def test_a_folder_without_train_and_test(names: tuple[str, ...], tmp_path: Path) -> None:
    for name in names:
        write(tmp_path / name, many(10))
    with pytest.raises(DataError, match=f"needs train and test files.*got {', '.join(names)}"):
        read_corpus(spec(tmp_path))


def test_a_folder_of_two_formats(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", many(10))
    write(tmp_path / "test.jsonl", many(10))
    with pytest.raises(DataError, match="one format per folder, got csv, json"):
        read_corpus(spec(tmp_path))


@pytest.mark.usefixtures("cache")
def test_new_content_is_read_even_where_path_and_time_are_the_old_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", many(50, "old"))
    read_corpus(spec(path))
    stat = path.stat()
    write(path, many(50, "new"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    corpus = read_corpus(spec(path))
    assert {t.split()[0] for s in SPLITS for t in corpus.splits[s].text} == {"new"}


# --- hubs ---------------------------------------------------------------------------------------------------------


def test_a_hub_without_a_network(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """The real path through `datasets`, which is told that there is no network."""
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache / "hub")
    for name, asked in (("imdb", "stanfordnlp/imdb"), ("someone/reviews:small", "someone/reviews")):
        with pytest.raises(DataError) as caught:
            read_corpus(spec(name))
        message = str(caught.value)
        assert message.startswith(f"{name}: neither a local file nor loaded from the hub as {asked!r}")
        assert "Without a network, give a local folder with train and test files" in message
        assert "\n" not in message


@pytest.mark.parametrize(
    ("error", "way_on"),
    [
        (
            RuntimeError("Dataset scripts are no longer supported, but found x.py"),
            "Loading scripts are never run: save",
        ),
        (ValueError("Config name is missing.\nPick one among: a, b"), 'source = "owner/name:configuration"'),
        (ConnectionError("no route to host"), "Is the name right"),
    ],
)
def test_what_a_hub_refuses(error: Exception, way_on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(datasets, "load_dataset_builder", refuse)
    with pytest.raises(DataError, match=way_on) as caught:
        read_corpus(spec("someone/old"))
    assert f"{type(error).__name__}: {str(error).splitlines()[0]}" in str(caught.value)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Path:
    """A folder that stands in for the hub's imdb: what `datasets` does with a hub's files, without the network."""
    folder = tmp_path / "hub" / "imdb"
    (folder / "data").mkdir(parents=True)
    original = sources.load_hub
    monkeypatch.setattr(sources, "load_hub", lambda _n, c, *, source: original(str(folder), c, source=source))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache / "hub")
    return folder


def test_a_hub_in_shards(hub: Path) -> None:
    rows, labels = many(60), datasets.ClassLabel(names=["neg", "pos"])
    features = datasets.Features({"text": datasets.Value("string"), "label": labels})

    def shard(name: str, part: Sequence[Row]) -> None:
        table = datasets.Dataset.from_dict({"text": [t for t, _ in part], "label": [y for _, y in part]}, features)
        table.to_parquet(str(hub / "data" / name))

    shard("train-00000-of-00002.parquet", rows[:30])
    shard("train-00001-of-00002.parquet", rows[30:])
    shard("validation-00000-of-00001.parquet", many(20, "v"))
    shard("test-00000-of-00001.parquet", many(30, "u"))
    corpus = read_corpus(spec("imdb"))
    assert corpus.classes == ["neg", "pos"]
    assert {s: rows_of(corpus, s) for s in SPLITS} == {
        "train": rows, "validation": many(20, "v"), "test": many(30, "u"),
    }  # fmt: skip
    (note,) = (n for n in corpus.notes if n.startswith("read from the hub"))
    assert "stanfordnlp/imdb, fingerprints train " in note
    same = read_corpus(spec(hub))  # a copy of the hub's folder is the same data
    assert (same.classes, same.splits) == (corpus.classes, corpus.splits)


def test_the_unsupervised_split_of_imdb_is_ignored_and_named(hub: Path) -> None:
    for name, rows in (("train", many()), ("test", many(30, "u")), ("unsupervised", [("z", -1), ("y", -1)])):
        write(hub / "data" / f"{name}-00000-of-00001.parquet", rows)
    by_name, by_path = read_corpus(spec("imdb")), read_corpus(spec(hub))
    assert rows_of(by_name, "test") == rows_of(by_path, "test") == many(30, "u")
    assert "splits ignored, since their names are none of ours: unsupervised" in by_name.notes
    assert "ignored, since their names are no split's: unsupervised-00000-of-00001.parquet" in by_path.notes


def test_a_hub_without_a_test_split(hub: Path) -> None:
    write(hub / "data" / "train-00000-of-00001.parquet", many(200))
    corpus = read_corpus(spec("imdb"))
    assert sum(len(corpus.splits[s].text) for s in SPLITS) == 200
    assert any("no test split" in note for note in corpus.notes)


def test_a_hub_without_a_training_split(hub: Path) -> None:
    write(hub / "data" / "test-00000-of-00001.parquet", many(20))
    with pytest.raises(DataError, match="no training split, only test"):
        read_corpus(spec("imdb"))


def test_a_hub_of_other_columns(hub: Path) -> None:
    for name in ("train", "test"):
        write(hub / "data" / f"{name}-00000-of-00001.parquet", many(40, name), ("review", "stars"))
    with pytest.raises(
        DataError, match=r"imdb: t\w+ has no column 'text' and no column 'label'; it has 'review', 'stars'"
    ):
        read_corpus(spec("imdb"))
    assert len(rows_of(read_corpus(spec("imdb", text_column="review", label_column="stars")), "test")) == 40


def test_a_hub_of_pickles_scripts_or_pictures_is_not_read(hub: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return os.mkdir, (str(hub / "sprung"),)

    (hub / "imdb.py").write_text(f"import os; os.mkdir({str(hub / 'sprung')!r})\n")
    for name in ("train.pkl", "train.xml", "train.tar"):
        (hub / "data" / name).write_bytes(pickle.dumps(Trap()))
        with pytest.raises(DataError):
            read_corpus(spec("imdb"))
        (hub / "data" / name).unlink()
    assert not (hub / "sprung").exists()


class Announced:
    """A builder as `datasets` makes one for a hub's Parquet files, before anything is downloaded."""

    __module__ = "datasets.packaged_modules.parquet.parquet"
    hash = "0123456789abcdef0123456789abcdef01234567"

    def __init__(self, examples: int) -> None:
        told = {"name": "train", "num_examples": examples, "num_bytes": 0, "dataset_name": "x"}
        self.info = datasets.DatasetInfo(splits={"train": told})
        self.downloaded = False

    def download_and_prepare(self) -> None:
        self.downloaded = True

    def as_dataset(self) -> Any:
        rows = {s: datasets.Dataset.from_dict({"text": [f"{s} {i}" for i in range(40)], "label": [0, 1] * 20})
                for s in ("train", "validation", "test")}  # fmt: skip
        return datasets.DatasetDict(rows)


def test_the_revision_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load_dataset_builder", lambda *_: Announced(40))
    notes = read_corpus(spec("someone/reviews")).notes
    assert notes == ["read from the hub: someone/reviews, revision 0123456789abcdef0123456789abcdef01234567"]


def test_a_hub_that_says_it_is_too_large_is_not_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Announced(10**9)
    monkeypatch.setattr(datasets, "load_dataset_builder", lambda *_: builder)
    with pytest.raises(DataError, match=r"someone/huge \(as the hub says\): 1,000,000,000 rows, where at most"):
        read_corpus(spec("someone/huge"))
    assert not builder.downloaded


def test_a_folder_of_the_hubs_name_is_not_taken_for_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stanfordnlp" / "imdb").mkdir(parents=True)
    with pytest.raises(DataError, match=r"stanfordnlp/imdb is also a folder here; name it as \./stanfordnlp/imdb"):
        read_corpus(spec("imdb"))


# --- paths relative to a study ------------------------------------------------------------------------------------


def test_a_path_is_relative_to_the_study(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert absolute_source(spec("mine"), tmp_path).source == str(tmp_path.resolve() / "mine")
    assert absolute_source(spec("./other.csv"), tmp_path).source == str(tmp_path.resolve() / "other.csv")
    assert absolute_source(spec("/abs/x.csv"), tmp_path).source == "/abs/x.csv"
    for name in ("rotten_tomatoes", "imdb", "someone/reviews"):
        assert absolute_source(spec(name), tmp_path).source == name


# --- real sets, where they are ------------------------------------------------------------------------------------


def needs(name: str) -> Path:
    if not (SHARED / name).is_dir():
        pytest.skip(f"{SHARED / name} is not on this machine")
    return SHARED / name


def column(path: Path, name: str) -> list[Any]:
    return list(pq.read_table(path, columns=[name]).column(name).to_pylist())


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    ("name", "tokens", "classes"), [("rt_polarity", "word", 2), ("waimai_10k", "char", 2), ("trec6", "word", 6)]
)
def test_a_real_set(name: str, tokens: Any, classes: int) -> None:
    folder = needs(name)
    corpus = read_corpus(spec(folder, tokens=tokens))
    assert len(corpus.classes) == classes
    assert corpus.splits["test"].text == [normalise(t) for t in column(folder / "test.parquet", "text")]
    parts = [set(corpus.splits[s].text) for s in SPLITS]
    assert not parts[0] & parts[1]
    assert not (parts[0] | parts[1]) & parts[2]
    before = len(column(folder / "train.parquet", "label"))
    if (folder / "validation.parquet").exists():
        before += len(column(folder / "validation.parquet", "label"))
    else:
        assert any("no validation split was given" in note for note in corpus.notes)
    kept = len(corpus.splits["train"].text) + len(corpus.splits["validation"].text)
    assert before - kept == sum(corpus.dropped.values())
    assert "\ufeff" not in "".join(corpus.splits["train"].text)


@pytest.mark.usefixtures("cache")
def test_the_traps_of_imdb(tmp_path: Path) -> None:
    """A head and a tail of the official file (sorted by class), with the breaks and the U+0085 that it holds."""
    table = pq.read_table(needs("imdb") / "official" / "train.parquet", columns=["text", "label"])
    head = pa.concat_tables([table.slice(0, 1000), table.slice(len(table) - 1000)])
    pq.write_table(head, tmp_path / "head.parquet")
    raw = [str(t) for t in head.column("text").to_pylist()]
    assert sum("<br />" in t for t in raw) > 500
    corpus = read_corpus(spec(tmp_path / "head.parquet"))
    texts = [t for s in SPLITS for t in corpus.splits[s].text]
    assert not any("<br" in t or "\u0085" in t for t in texts)
    assert len(texts) + sum(corpus.dropped.values()) == 2000
    for split in SPLITS:
        labels = corpus.splits[split].label
        assert abs(sum(labels) / len(labels) - 0.5) < 4 * 0.5 / len(labels) ** 0.5


def test_the_words_of_splits_lead_to_ours() -> None:
    assert set(sources.SPLIT_WORDS.values()) == set(SPLITS)
    assert all(sources.SPLIT_WORDS[split] == split for split in SPLITS)
