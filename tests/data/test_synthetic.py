"""The generated texts: each label is computed again from its text, by rules that are written anew here."""

import hashlib
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from knockout.data.corpus import SPLITS, DataError
from knockout.data.prepare import prepare
from knockout.data.sources import absolute_source, load_tables, read_corpus
from knockout.data.synthetic import TASKS
from knockout.job import DataSpec
from tests.command_line import knockout

RULES: dict[str, Callable[[str], str]] = {
    "order": lambda text: "a_first" if text.index("a") < text.index("b") else "b_first",
    "majority": lambda text: "more_a" if text.count("a") > text.count("b") else "more_b",
    "rare": lambda text: "present" if "z" in text else "absent",
    "first": lambda text: text[0],
    "matching": lambda text: "different" if "a" in text and "b" in text else "same",
    "xor": lambda text: "a_early_or_b_late" if ("a" in text) == bool(set("ab") & set(text[:12])) else (
        "b_early_or_a_late"
    ),
}  # fmt: skip
DIGESTS = {
    "order": "9f126567dd0ef75b",
    "majority": "6f7776064b5ff998",
    "rare": "ecbe16c579caa0b9",
    "first": "68708777a464fcc6",
    "matching": "c98b25c34a000136",
    "xor": "9bfae786a6e55f7d",
}
ORDER_FREE = ("majority", "rare", "matching")


def spec(name: str) -> DataSpec:
    return DataSpec(source=f"synthetic/{name}")


def test_every_task_has_a_rule_here() -> None:
    assert set(RULES) == set(TASKS) == set(DIGESTS)


@pytest.mark.parametrize("name", TASKS)
def test_labels_follow_the_rule_and_nothing_is_dropped(name: str) -> None:
    corpus = read_corpus(spec(name))
    assert corpus.dropped == {}
    assert {s: len(corpus.splits[s].text) for s in SPLITS} == {"train": 3000, "validation": 500, "test": 1000}
    for split in SPLITS:
        texts = corpus.splits[split]
        assert [RULES[name](t) for t in texts.text] == [corpus.classes[y] for y in texts.label]
        assert set(Counter(texts.label).values()) == {len(texts.label) // 2}


@pytest.mark.parametrize("name", TASKS)
def test_no_text_occurs_twice_within_or_across_splits(name: str) -> None:
    rows = load_tables(spec(name)).rows
    texts = [text for of_split, _ in rows.values() for text in of_split]
    assert len(set(texts)) == len(texts) == 4500


@pytest.mark.parametrize("name", TASKS)
def test_texts_are_the_same_at_every_call(name: str) -> None:
    digest = hashlib.sha256(repr(load_tables(spec(name)).rows).encode()).hexdigest()[:16]
    assert digest == DIGESTS[name]


@pytest.mark.parametrize("name", TASKS)
def test_only_order_free_tasks_keep_their_labels_when_the_tokens_are_shuffled(name: str) -> None:
    texts, labels = load_tables(spec(name)).rows["test"]
    classes = TASKS[name].classes
    draw = random.Random(0)
    kept = [
        RULES[name](" ".join(draw.sample(text.split(), len(text.split())))) == classes[label]
        for text, label in zip(texts, labels, strict=True)
        if name != "first"
    ] or [draw.choice(text.split()) == text[0] for text in texts]
    assert all(kept) == (name in ORDER_FREE)


@pytest.mark.parametrize(
    ("name", "lowest", "highest"),
    [("majority", 1.0, 1.0), ("rare", 1.0, 1.0), ("order", 0.4, 0.6), ("first", 0.4, 0.6), ("matching", 0.25, 0.75)],
)
def test_what_a_linear_model_of_the_counts_can_and_cannot_do(name: str, lowest: float, highest: float) -> None:
    """The groups of `order` and `first` share their tokens: any rule on counts is right on exactly half."""
    text_features = pytest.importorskip("sklearn.feature_extraction.text")
    linear_model = pytest.importorskip("sklearn.linear_model")
    rows = load_tables(spec(name)).rows
    counts = text_features.CountVectorizer(token_pattern=r"\S+")
    fitted = linear_model.LogisticRegression(C=100.0, max_iter=1000)
    fitted.fit(counts.fit_transform(rows["train"][0]), rows["train"][1])
    accuracy = fitted.score(counts.transform(rows["test"][0]), rows["test"][1])
    assert lowest <= accuracy <= highest


def test_a_name_that_does_not_exist_is_answered_with_those_that_do() -> None:
    with pytest.raises(DataError, match=r'did you mean "synthetic/order"\?.*synthetic/majority.*synthetic/xor'):
        read_corpus(spec("ordre"))
    with pytest.raises(DataError, match="synthetic/order has no groups"):
        read_corpus(DataSpec(source="synthetic/order", group_column="film"))


def test_a_folder_called_synthetic_is_read_as_a_folder(tmp_path: Path) -> None:
    (tmp_path / "synthetic" / "mine").mkdir(parents=True)
    assert absolute_source(spec("mine"), tmp_path).source == str(tmp_path.resolve() / "synthetic" / "mine")
    assert absolute_source(spec("order"), tmp_path).source == "synthetic/order"


@pytest.mark.usefixtures("cache")
def test_prepared_data_have_the_same_id_each_time_and_name_their_source() -> None:
    one, two = prepare(spec("order")), prepare(spec("order"))
    assert one == two
    assert one.summary["source"] == "synthetic/order"
    assert "best accuracy is 100 %" in one.summary["notes"][0]


def test_the_command_describes_a_generated_source(tmp_path: Path) -> None:
    done = knockout("data", "synthetic/order", cwd=tmp_path)
    assert done.returncode == 0
    assert "a_first" in done.stdout
    wrong = knockout("data", "synthetic/ordre", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "synthetic/order" in wrong.stderr
    assert "Traceback" not in wrong.stderr
