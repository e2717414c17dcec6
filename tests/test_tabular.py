"""Formats, encodings and separators: what both readers of tables build on."""

import bz2
import csv
import gzip
import io
import lzma
import pickle
import tarfile
from pathlib import Path

import pytest

from knockout import tabular
from knockout.tabular import RUNS, CsvForm, TableError


def tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.csv"), io.BytesIO(b""))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("raw", "got"),
    [
        (gzip.compress(b"a,b", mtime=0), "is compressed with gzip: unpack it first (gunzip)"),
        (bz2.compress(b"a,b"), "is compressed with bzip2"),
        (lzma.compress(b"a,b"), "is compressed with xz"),
        (tar(), "is a tar archive"),
        *((pickle.dumps([1], protocol=p), "is a pickle, which is never read") for p in range(2, 6)),
    ],
)
def test_other_formats_are_known_by_their_first_bytes(raw: bytes, got: str) -> None:
    with pytest.raises(TableError) as caught:
        tabular.refuse_other_formats(raw[: tabular.START_BYTES])
    assert str(caught.value).startswith(got)


@pytest.mark.parametrize("raw", [b"", b"PAR1", b"a,b\n", "größe,好".encode(), b"PK,1\n", "a,b".encode("utf-16")])
def test_tables_are_no_other_format(raw: bytes) -> None:
    tabular.refuse_other_formats(raw)


@pytest.mark.parametrize(
    ("text", "wanted", "separator"),
    [
        ("text,label\n", ["text"], ","),
        ("a,b;label;text\n", ["text"], ";"),
        ("a,b\tlabel\n", ["label"], "\t"),
        ('\n"one;two",label\n', ["label"], ","),
        ("text\n", ["text"], ","),
        ("a;b;c,d\n", ["text"], ";"),
        ('"open', [], ","),
    ],
)
def test_the_wanted_columns_tell_the_separator(text: str, wanted: list[str], separator: str) -> None:
    assert tabular.separator_of(text, wanted) == separator


def test_a_header_that_splits_in_two_ways() -> None:
    with pytest.raises(TableError, match="splits at a comma and a semicolon"):
        tabular.separator_of("a,b;text;c,label,d\n", ["text", "label"])


def test_the_form_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text;label\n" + "好;1\n" * 500_000, encoding="utf-16")  # the part that is looked at ends within
    assert tabular.csv_form(path, ["text"]) == CsvForm(encoding="utf-16", separator=";")
    path.write_bytes("größe;label\n".encode("latin-1"))
    with pytest.raises(TableError, match="no UTF-8 in its first lines"):
        tabular.csv_form(path, ["text"])


def test_rows_have_the_lines_on_which_they_begin_and_end() -> None:
    text = 'a,b\n\n"1\n2",3\n4,5'
    rows = list(tabular.csv_rows(io.StringIO(text, newline=""), ",", RUNS, strict=True))
    assert [(r.line, r.last_line, r.cells) for r in rows] == [
        (1, 1, ["a", "b"]),
        (3, 4, ["1\n2", "3"]),
        (5, 5, ["4", "5"]),
    ]


def test_the_limit_of_a_cell_is_put_back() -> None:
    before = csv.field_size_limit()
    rows = tabular.csv_rows(io.StringIO("a" * 200_000), ",", RUNS, strict=True)
    assert len(next(rows).cells[0]) == 200_000
    rows.close()
    assert csv.field_size_limit() == before
