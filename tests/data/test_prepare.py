"""Prepared data: found again, made again when anything changed, whole whoever writes at the same time."""

import errno
import importlib.metadata
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from knockout.data import prepare as module
from knockout.data import sources
from knockout.data.corpus import SPLITS, DataError
from knockout.data.lengths import unpack_lengths
from knockout.data.prepare import Prepared, prepare
from knockout.data.sources import read_corpus
from knockout.data.vocabulary import encode, learn
from knockout.job import DataSpec

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "reviews.csv"
    lines = [f"word{i % 17} text{i} w{i % 3},{'ab'[i % 2]}" for i in range(120)]
    path.write_text("\n".join(["text,label", *lines]) + "\n", encoding="utf-8")
    return path


def arrays_of(prepared: Prepared) -> dict[str, NDArray[Any]]:
    with np.load(prepared.ref.path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def assert_same(one: Prepared, other: Prepared) -> None:
    assert one.ref == other.ref
    assert one.summary == other.summary
    first, second = arrays_of(one), arrays_of(other)
    assert first.keys() == second.keys()
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name])


def test_the_arrays_are_the_encoded_texts(source: Path) -> None:
    spec = DataSpec(source=str(source), max_length=2, min_frequency=1)
    prepared, corpus = prepare(spec), read_corpus(spec)
    arrays = arrays_of(prepared)
    tokenizer = learn(corpus.splits["train"].text, tokens="word", vocabulary_size=20_000, min_frequency=1)
    assert arrays["shape"].tolist() == [tokenizer.get_vocab_size(), 2, 2]
    for split in SPLITS:
        ids, offsets = arrays[f"{split}_ids"], arrays[f"{split}_offsets"]
        rows = [ids[a:b].tolist() for a, b in pairwise(offsets)]
        assert rows == encode(tokenizer, corpus.splits[split].text, max_length=2)
        assert arrays[f"{split}_labels"].tolist() == corpus.splits[split].label
        told = prepared.summary["splits"][split]
        assert told["count"] == len(rows)
        assert told["labels"] == [corpus.splits[split].label.count(y) for y in (0, 1)]
        assert ids.dtype == np.int32


@pytest.mark.parametrize("tokens", ["word", "char", "bpe"])
def test_the_lengths_of_the_test_texts_are_known_before_they_are_cut(source: Path, tokens: Any) -> None:
    spec = DataSpec(source=str(source), tokens=tokens, max_length=2, vocabulary_size=300)
    prepared, corpus = prepare(spec), read_corpus(spec)
    tokenizer = learn(corpus.splits["train"].text, tokens=tokens, vocabulary_size=300, min_frequency=2)
    whole = [len(ids) for ids in encode(tokenizer, corpus.splits["test"].text, max_length=None)]
    assert min(whole) > 2
    assert list(unpack_lengths(prepared.summary["test_lengths"])) == whole
    arrays = arrays_of(prepared)
    assert arrays["test_full_lengths"].tolist() == whole
    ids, offsets = arrays["test_ids"], arrays["test_offsets"]
    cut = encode(tokenizer, corpus.splits["test"].text, max_length=2)
    assert [ids[a:b].tolist() for a, b in pairwise(offsets)] == cut
    assert ids.dtype == np.int32
    assert offsets.dtype == np.int64


def test_found_again_without_reading(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = prepare(DataSpec(source=str(source)))

    def unread(spec: DataSpec) -> None:
        raise AssertionError(f"{spec} was read again")

    monkeypatch.setattr(module, "read_corpus", unread)
    assert_same(first, prepare(DataSpec(source=str(source))))


def test_a_changed_file_is_other_data(source: Path) -> None:
    first = prepare(DataSpec(source=str(source)))
    stat = source.stat()
    source.write_text(source.read_text().replace("word1 ", "wordX "))
    os.utime(source, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # not even the clock tells
    second = prepare(DataSpec(source=str(source)))
    assert first.ref.id != second.ref.id
    assert first.ref.path != second.ref.path


def test_the_same_bytes_elsewhere_are_the_same_data(source: Path, tmp_path: Path) -> None:
    first = prepare(DataSpec(source=str(source)))
    (tmp_path / "other").mkdir()
    moved = source.rename(tmp_path / "other" / source.name)
    assert prepare(DataSpec(source=str(moved))).ref.id == first.ref.id


def test_the_format_of_the_file_is_not_in_the_id(source: Path, tmp_path: Path) -> None:
    rows = [line.split(",") for line in source.read_text().splitlines()[1:]]
    other = tmp_path / "reviews.jsonl"
    other.write_text("".join(json.dumps({"text": t, "label": y, "extra": 1}) + "\n" for t, y in rows))
    assert prepare(DataSpec(source=str(other))).ref.id == prepare(DataSpec(source=str(source))).ref.id


@pytest.mark.parametrize(
    "changed",
    [
        {"max_length": 2},
        {"tokens": "char"},
        {"tokens": "bpe"},
        {"vocabulary_size": 9},
        {"min_frequency": 3},
        {"split": (0.5, 0.2, 0.3)},
    ],
    ids=str,
)
def test_what_changes_the_numbers_changes_the_id(changed: dict[str, Any], source: Path) -> None:
    first, second = prepare(DataSpec(source=str(source))), prepare(DataSpec(source=str(source), **changed))
    assert first.ref.id != second.ref.id
    assert first.ref.path != second.ref.path


def test_a_change_of_our_own_code_makes_the_data_again(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = prepare(DataSpec(source=str(source)))
    own = tmp_path / "package"
    own.mkdir()
    for file in Path(module.__file__).parent.glob("*.py"):
        (own / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(sources, "__file__", str(own / "sources.py"))
    assert prepare(DataSpec(source=str(source))).ref == first.ref
    (own / "vocabulary.py").write_text("# changed\n")
    assert prepare(DataSpec(source=str(source))).ref.path != first.ref.path


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_a_damaged_cache_file_is_made_again(suffix: str, source: Path) -> None:
    first = prepare(DataSpec(source=str(source)))
    file = first.ref.path.with_suffix(suffix)
    whole, arrays = file.read_bytes(), arrays_of(first)
    cuts = [whole[:end] for end in range(0, len(whole), len(whole) // 5)]
    flipped = bytearray(first.ref.path.read_bytes())
    flipped[len(flipped) // 2] ^= 1
    for damaged in [*cuts, *([bytes(flipped)] if suffix == ".npz" else [b"[]", b"{}", b"3"])]:
        file.write_bytes(damaged)
        again = prepare(DataSpec(source=str(source)))
        assert (again.ref, again.summary) == (first.ref, first.summary)
        assert file.read_bytes() == whole
        np.testing.assert_equal(arrays_of(again), arrays)


def prepare_in(cache: Path, source: Path) -> Prepared:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KNOCKOUT_CACHE", str(cache))
        return prepare(DataSpec(source=str(source)))


def test_four_processes_at_once(source: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from knockout.job import DataSpec; from knockout.data.prepare import prepare, _sha256;"
        "p = prepare(DataSpec(source=sys.argv[1])); print(p.ref.id, p.ref.path, _sha256(p.ref.path))"
    )
    environment = {**os.environ, "KNOCKOUT_CACHE": str(tmp_path / "shared")}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(source)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(4)
    ]
    answers = [process.communicate(timeout=60) for process in started]
    assert [process.returncode for process in started] == [0, 0, 0, 0], answers
    assert len({told for told, _ in answers}) == 1
    assert len(list((tmp_path / "shared" / "prepared").iterdir())) == 2  # one file and its JSON, nothing half written
    assert [p.name for p in (tmp_path / "shared").iterdir()] == ["prepared"]  # no table is left behind
    assert prepare_in(tmp_path / "shared", source).ref.id in answers[0][0].decode()


def test_any_byte_that_flips_in_the_json_is_seen(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A summary that says 84 texts where there are 85 would go into every report."""
    first = prepare(DataSpec(source=str(source)))
    file = first.ref.path.with_suffix(".json")
    whole = file.read_bytes()
    monkeypatch.setattr(module, "read_corpus", lambda _spec: (_ for _ in ()).throw(InterruptedError))
    assert prepare(DataSpec(source=str(source))) == first
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1
        if json_or_none(flipped) == json.loads(whole):  # a space became a space of another kind
            continue
        file.write_bytes(flipped)
        with pytest.raises(InterruptedError):
            prepare(DataSpec(source=str(source)))


def json_or_none(content: bytes | bytearray) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None


@pytest.mark.parametrize("package", ["datasets", "tokenizers"])
def test_another_version_of_a_reader_makes_the_data_again(
    package: str, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = prepare(DataSpec(source=str(source)))
    version = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "99" if name == package else version(name))
    second = prepare(DataSpec(source=str(source)))
    assert second.ref.path != first.ref.path
    assert second.ref.id == first.ref.id


def test_the_id_does_not_hang_on_what_columns_are_called(source: Path, tmp_path: Path) -> None:
    other = tmp_path / "renamed.csv"
    other.write_text(source.read_text().replace("text,label", "review,stars", 1))
    renamed = prepare(DataSpec(source=str(other), text_column="review", label_column="stars"))
    assert renamed.ref.id == prepare(DataSpec(source=str(source))).ref.id


def test_the_id_of_the_embedded_study_is_the_published_one() -> None:
    """The records in results/reference are found by it. Whoever changes it on purpose changes it here."""
    published = "4d187a9a3c9562fcb43065813b88a34d4572af240cc4f9f949347b2e04652adf"
    assert prepare(DataSpec(source="rotten_tomatoes")).ref.id == published


def test_a_full_disk_leaves_nothing_half_written(source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.fsync, [0]
    for broken in (1, 2):

        def fsync(handle: int, broken: int = broken) -> None:
            calls[0] += 1
            if calls[0] == broken:
                raise OSError(errno.ENOSPC, "No space left on device")
            real(handle)

        calls[0] = 0
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fsync)
            with pytest.raises(OSError, match="No space left"):
                prepare(DataSpec(source=str(source)))
        assert not list((cache / "prepared").glob(".*"))
        assert not list((cache / "prepared").glob("*.json"))
    assert prepare(DataSpec(source=str(source))).summary["classes"] == ["a", "b"]


def test_a_fault_of_the_data_leaves_nothing(source: Path, cache: Path) -> None:
    with pytest.raises(DataError):
        prepare(DataSpec(source=str(source), text_column="nothing"))
    assert not (cache / "prepared").exists()
