"""Limits: what is refused before it is expanded, with the file, what was found, and what is allowed."""

import gzip
import json
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from knockout.data import limits
from knockout.data.corpus import SPLITS, DataError, Tables
from knockout.data.rules import clean
from knockout.data.sources import load_tables, read_corpus
from knockout.job import DataSpec

pytestmark = pytest.mark.usefixtures("cache")


def bomb(path: Path, *, characters: int, rows: int) -> Path:
    """One text, stored once, and repeated by run-length encoding."""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["a" * characters]))
    label = pa.array([i % 2 for i in range(rows)])
    pq.write_table(
        pa.table({"text": text, "label": label}), path, compression="zstd", store_schema=False, write_statistics=False
    )
    return path


def test_a_file_of_some_hundred_bytes_that_expands_to_200_megabytes(tmp_path: Path) -> None:
    path = bomb(tmp_path / "a.parquet", characters=100_000, rows=2_000)
    assert path.stat().st_size < 463
    table = pq.read_metadata(path).row_group(0)
    assert sum(table.column(i).total_uncompressed_size for i in range(2)) < 200_000  # the file's own sum tells nothing
    with pytest.raises(DataError, match=r"bytes that expand to 200,\d{3},\d{3}, \d{3},\d{3} times as many") as caught:
        read_corpus(DataSpec(source=str(path)))
    assert str(caught.value).startswith(f"{path}: {path.stat().st_size} bytes that expand")


@pytest.mark.long
def test_real_texts_do_not_expand_like_that(tmp_path: Path) -> None:
    """80 MB of words drawn at random, highly compressible, are read."""
    path = tmp_path / "a.parquet"
    words = np.random.default_rng(0).integers(0, 50, (8_000, 1_200))
    texts = [" ".join(f"longword{w}" for w in row) for row in words]
    pq.write_table(pa.table({"text": texts, "label": [i % 2 for i in range(len(texts))]}), path, compression="zstd")
    assert sum(map(len, texts)) > limits.TEXTS.expansion_from_bytes
    assert len(load_tables(DataSpec(source=str(path))).rows["unsplit"][0]) == len(texts)


def test_a_file_that_expands_to_10_gigabytes_takes_no_memory(tmp_path: Path) -> None:
    """Against the limits as they are, in a process that may not have 4 GB."""
    path = bomb(tmp_path / "a.parquet", characters=999_999, rows=10_000)
    assert path.stat().st_size < 1000
    code = (
        "import sys; from knockout.data.sources import read_corpus; from knockout.job import DataSpec\n"
        "try: read_corpus(DataSpec(source=sys.argv[1]))\nexcept ValueError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30)),
    )
    assert "take 9,999,990,000 bytes once expanded, where at most 2,147,483,648 are read" in done.stdout, done.stderr


def test_many_rows_are_refused_by_the_metadata_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows = limits.TEXTS.rows + 1
    column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()).take(pa.array([0] * rows)), pa.array(["a"]))
    pq.write_table(pa.table({"text": column, "label": column}), path, store_schema=False)
    with pytest.raises(DataError, match=r"a\.parquet: 5,000,001 rows, where at most 5,000,000 are read"):
        read_corpus(DataSpec(source=str(path)))


def texts(count: int = 60) -> list[str]:
    return [f"text {i}" for i in range(count)]


def write_parquet(path: Path, rows: list[str]) -> None:
    pq.write_table(pa.table({"text": rows, "label": [i % 2 for i in range(len(rows))]}), path)


def write_csv(path: Path, rows: list[str]) -> None:
    path.write_text("text,label\n" + "".join(f'"{t}",{i % 2}\n' for i, t in enumerate(rows)), encoding="utf-8")


def write_lines(path: Path, rows: list[str]) -> None:
    path.write_text("".join(json.dumps({"text": t, "label": i % 2}) + "\n" for i, t in enumerate(rows)))


def write_list(path: Path, rows: list[str]) -> None:
    path.write_text(json.dumps([{"text": t, "label": i % 2} for i, t in enumerate(rows)]))


formats = pytest.mark.parametrize(
    ("name", "write"),
    [("a.parquet", write_parquet), ("a.csv", write_csv), ("a.jsonl", write_lines), ("a.json", write_list)],
    ids=["parquet", "csv", "lines", "list"],
)


@formats
def test_a_text_of_ten_megabytes(name: str, write: Callable[[Path, list[str]], None], tmp_path: Path) -> None:
    write(tmp_path / name, [*texts(), "很" * 10_000_000])
    with pytest.raises(DataError) as caught:
        read_corpus(DataSpec(source=str(tmp_path / name)))
    message = str(caught.value)
    assert name in message
    assert "a text of 10,000,000 characters, where one may have 1,000,000" in message


@formats
def test_a_text_of_the_longest_length_is_read(
    name: str, write: Callable[[Path, list[str]], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TEXTS", replace(limits.TEXTS, cell_characters=50))
    write(tmp_path / name, [*texts(), "很" * 50])  # characters, not bytes
    assert "很" * 50 in {t for s in SPLITS for t in read_corpus(DataSpec(source=str(tmp_path / name))).splits[s].text}
    write(tmp_path / name, [*texts(), "很" * 51])
    with pytest.raises(DataError, match="a text of 51 characters, where one may have 50"):
        read_corpus(DataSpec(source=str(tmp_path / name)))


@formats
@pytest.mark.parametrize(
    ("limit", "value", "message"),
    [
        ("rows", 59, r"60 rows, where at most 59 are read"),
        ("expanded_bytes", 300, r"bytes once expanded, where at most 300 are read"),
        ("file_bytes", 200, r"bytes, where a file may have 200"),
    ],
)
def test_each_limit_in_each_format(
    limit: str,
    value: int,
    message: str,
    name: str,
    write: Callable[[Path, list[str]], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(tmp_path / name, texts())
    read_corpus(DataSpec(source=str(tmp_path / name)))
    monkeypatch.setattr(limits, "TEXTS", replace(limits.TEXTS, **{limit: value}))
    with pytest.raises(DataError, match=message):
        read_corpus(DataSpec(source=str(tmp_path / name)))


def test_rows_of_all_splits_are_added_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for split in ("train", "test"):
        write_lines(tmp_path / f"{split}.jsonl", [f"{split} {t}" for t in texts()])
    monkeypatch.setattr(limits, "TEXTS", replace(limits.TEXTS, rows=119))
    with pytest.raises(DataError, match="120 rows, where at most 119"):
        read_corpus(DataSpec(source=str(tmp_path)))


def test_limits_of_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_list(tmp_path / "a.json", texts())
    monkeypatch.setattr(limits, "TEXTS", replace(limits.TEXTS, json_list_bytes=100))
    with pytest.raises(DataError, match=r"a\.json: a list of 1,\d+ bytes, where one may have 100; write one object a"):
        read_corpus(DataSpec(source=str(tmp_path / "a.json")))
    write_lines(tmp_path / "a.jsonl", texts())
    monkeypatch.setattr(limits, "TEXTS", replace(limits.TEXTS, line_bytes=20))
    with pytest.raises(DataError, match=r"a\.jsonl: line 1 has more than 20 bytes"):
        read_corpus(DataSpec(source=str(tmp_path / "a.jsonl")))


def test_other_columns_cost_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture beside each text is neither counted nor read."""
    table = pa.table({"text": texts(), "picture": [b"x" * 100_000] * 60, "label": [0, 1] * 30})
    pq.write_table(table, tmp_path / "a.parquet")
    monkeypatch.setattr(limits, "TEXTS", replace(limits.TEXTS, expanded_bytes=10_000))
    assert len(load_tables(DataSpec(source=str(tmp_path / "a.parquet"))).rows["unsplit"][0]) == 60


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.jsonl"])
def test_packed_files_are_not_unpacked(name: str, tmp_path: Path) -> None:
    """`datasets` would unpack them whatever they are called; gzip makes a gigabyte of a megabyte."""
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"text,label\n" * 1000))
    with pytest.raises(DataError, match=rf"{name}: is compressed with gzip: unpack it first"):
        read_corpus(DataSpec(source=str(path)))
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("a.csv", "text,label\na,0\n")
    with pytest.raises(DataError, match=rf"{name}: is a zip archive or a workbook: unpack it"):
        read_corpus(DataSpec(source=str(path)))


def test_real_sets_pass() -> None:
    """The largest usual sets, by their published sizes: rows, characters of the longest text, bytes."""
    for rows, characters, size in (
        (50_000, 13_704, 66_000_000),  # IMDB
        (127_600, 1_012, 31_000_000),  # AG News
        (4_000_000, 1_030, 1_720_000_000),  # Amazon polarity
        (700_000, 5_637, 515_000_000),  # Yelp full
    ):
        limits.check_rows("x", rows)
        limits.check_length("x", characters)
        limits.check_bytes("x", size, "texts")


def test_tables_of_any_origin_pass_the_check_of_lengths() -> None:
    rows: Any = (["a" * 1_000_001, "b"], [0, 1])
    with pytest.raises(DataError, match="row 1 of unsplit: a text of 1,000,001 characters"):
        clean(Tables(rows={"unsplit": rows}, names=None, notes=[]), DataSpec(source="x"))
