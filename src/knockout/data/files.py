"""Rows of local Parquet, CSV and JSON files: sizes first, then the columns that a study names, and nothing else.

Compressed files, pickles and loading scripts are never opened. A text stays what the file spells: no reader may turn it
into a number, a date or a missing value.
"""

import csv
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knockout.data import limits
from knockout.data.corpus import DataError

FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}

BATCH_ROWS = 65_536
"""Rows of a Parquet file that are looked at together while it is measured."""

PACKED = {
    b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4", b"7z\xbc\xaf\x27\x1c": "7z", b"Rar!\x1a\x07": "rar",
}  # fmt: skip
"""First bytes of what `datasets` would unpack, to any size, under whatever name."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The named columns of one split, in the order of the files. `names` are those of a `ClassLabel` column."""

    columns: dict[str, list[Any]]
    names: list[str] | None = None


def format_of(path: Path) -> str:
    """`parquet`, `csv` or `json`; empty for what is not read."""
    return FORMATS.get(path.suffix.lower(), "")


def read_files(files: Sequence[Path], kind: str, columns: Sequence[str], cache: Path) -> Rows:
    """The named columns of files of one format, one after the other.

    Raises `DataError`, with the file's name, for a file that is broken, too large, packed, or lacks a column.
    """
    limits.check_files(files)
    if kind == "parquet":
        names = _measure_parquet(files, columns)
        return Rows(columns=_load("parquet", files, columns, cache, columns=list(columns)), names=names)
    for file in files:
        _refuse_packed(file)
    if kind == "json":
        return _read_json(files, columns)
    header = _csv_header(files, columns)
    _measure_csv(files, columns, header)
    return Rows(columns=_load("csv", files, columns, cache, **_as_text(header)))


def has_column(files: Sequence[Path], kind: str, column: str) -> bool:
    """Whether the first of the files has a column of that name."""
    if kind == "csv":
        return column in _csv_header(files[:1], ())
    try:
        if kind == "json":
            return column in next(_records(files[0]), {})
        import pyarrow.parquet as pq

        return column in pq.read_schema(files[0]).names
    except (OSError, ValueError, TypeError):
        return True  # reading it says what is wrong


def _as_text(header: Sequence[str]) -> dict[str, Any]:
    """Options of the CSV reader that leave every cell as it is spelt ("null" and "01" are texts)."""
    import datasets

    features = datasets.Features({name: datasets.Value("string") for name in header})
    return {"features": features, "keep_default_na": False, "na_filter": False, "index_col": False}


def _load(kind: str, files: Sequence[Path], columns: Sequence[str], cache: Path, /, **options: Any) -> dict[str, Any]:
    """Rows through `datasets`, whose tables live only as long as this call.

    `datasets` knows a local file by path and time alone and would answer with the old rows of one that has changed, and
    it believes whatever lies in its cache: so every call has a cache of its own.
    """
    import datasets

    datasets.disable_progress_bars()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="tables-", ignore_cleanup_errors=True) as folder:
        try:
            # Only packaged readers are ever named here: no loading script is run, no pickle is read.
            paths = [str(f.resolve()) for f in files]
            table = datasets.load_dataset(kind, data_files={"rows": paths}, cache_dir=folder, **options)["rows"]
        except Exception as error:
            if len(files) > 1:  # the one that cannot be read alone is to blame
                for file in files:
                    _load(kind, [file], columns, cache, **options)
            raise not_read(", ".join(map(str, files)), kind, error.__cause__ or error) from error
        _give_back()
        return columns_of(table, columns, ", ".join(f.name for f in files))


def columns_of(table: Any, columns: Sequence[str], where: str) -> dict[str, list[Any]]:
    """The named columns of a table of `datasets`, which lies on disk, as lists in memory.

    Raises `DataError` where they would not fit.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    limits.check_rows(where, table.num_rows)
    limits.check_bytes(where, sum(table.data.column(n).nbytes for n in columns), limits.named(columns))
    for name in columns:
        column = table.data.column(name)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            limits.check_length(f"{where}: column {name!r}", pc.max(pc.utf8_length(column)).as_py() or 0)
    return {name: table[name][:] for name in columns}  # at once: row by row takes twenty times as long


def not_read(where: str, kind: str, cause: BaseException) -> DataError:
    return DataError(f"{where}: not read as {kind} ({type(cause).__name__}: {first_line(cause)})")


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:200]


def lacks(where: str, column: str, have: Sequence[str]) -> DataError:
    """A column is not there: what is, and where to say so."""
    listed = ", ".join(map(repr, have[:20])) + (f" and {len(have) - 20} more" if len(have) > 20 else "")
    return DataError(
        f"{where} has no column {column!r}; it has {listed}. Name the right one as data.text_column, "
        "data.label_column or data.group_column"
    )


def _refuse_packed(file: Path) -> None:
    with file.open("rb") as opened:
        start = opened.read(512)
    found = next((name for magic, name in PACKED.items() if start.startswith(magic)), None)
    if found is None and start[257:262] == b"ustar":
        found = "tar"
    if found is not None:
        raise DataError(f"{file}: packed with {found}; unpack it first, so that its size is known")


# --- Parquet ------------------------------------------------------------------------------------------------------


def _measure_parquet(files: Sequence[Path], columns: Sequence[str]) -> list[str] | None:
    """Refuse what is too large before it is expanded; the names of the classes, where the files carry them.

    A few hundred bytes can hold gigabytes (one long text in a dictionary, repeated), and a file's own sum counts the
    dictionary once. So texts are read as dictionaries, which stay small, and their lengths are added up.
    """
    rows = size = 0
    found: dict[str, tuple[list[str] | None, str]] = {}
    for file in files:
        try:
            more_rows, more_size, names, kinds = _measure_one(file, columns)
        except (DataError, MemoryError):
            raise
        except Exception as error:
            raise not_read(str(file), "parquet", error) from error
        limits.check_expansion(str(file), more_size, file.stat().st_size)
        rows, size = rows + more_rows, size + more_size
        limits.check_rows(str(file), rows)
        limits.check_bytes(str(file), size, limits.named(columns))
        found[file.name] = names, kinds
    (first, told), *others = found.items()
    for name, other in others:
        if other != told:
            raise DataError(f"{files[0].parent}: {first} and {name} differ in what their columns hold: {told}, {other}")
    return told[0]


def _measure_one(file: Path, columns: Sequence[str]) -> tuple[int, int, list[str] | None, str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(file)
    schema = metadata.schema.to_arrow_schema()
    for name in columns:
        if name not in schema.names:
            raise lacks(str(file), name, schema.names)
    limits.check_rows(str(file), metadata.num_rows)
    flat = [schema.field(name).type for name in columns]
    if any(pa.types.is_nested(kind) for kind in flat):
        nested = next(n for n, kind in zip(columns, flat, strict=True) if pa.types.is_nested(kind))
        raise DataError(f"{file}: column {nested!r} holds {schema.field(nested).type}, not one value a row")
    stored = 0
    for group in range(metadata.num_row_groups):
        of_group = metadata.row_group(group)
        chunks = [of_group.column(i) for i in range(of_group.num_columns)]
        stored += sum(c.total_uncompressed_size for c in chunks if c.path_in_schema in columns)
    limits.check_bytes(str(file), stored, limits.named(columns))
    kinds = ", ".join(f"{n} {_kind(k)}" for n, k in zip(columns, flat, strict=True))
    strings = [n for n, kind in zip(columns, flat, strict=True) if _kind(kind) == "text"]
    return metadata.num_rows, _expanded(file, strings) + stored, _class_names(schema, columns), kinds


def _expanded(file: Path, strings: Sequence[str]) -> int:
    """Bytes of the columns of strings once every value stands by itself."""
    import pyarrow.parquet as pq

    size = 0
    if not strings:
        return size
    with pq.ParquetFile(file, read_dictionary=list(strings), pre_buffer=False, buffer_size=2**20) as opened:
        for group in range(opened.num_row_groups):
            batches = opened.iter_batches(
                batch_size=BATCH_ROWS, row_groups=[group], columns=list(strings), use_threads=False
            )
            for batch in batches:
                for name, column in zip(batch.schema.names, batch.columns, strict=True):
                    size += _size_of(column, f"{file}: column {name!r}")
                    limits.check_bytes(str(file), size, limits.named(strings))
            del batches
            _give_back()  # arrow keeps some five times the row group in its dictionaries
    return size


def _size_of(column: Any, where: str) -> int:
    """Bytes of a dictionary-coded column once every value stands by itself."""
    import numpy as np
    import pyarrow.compute as pc

    lengths = pc.binary_length(column.dictionary).to_numpy(zero_copy_only=False)
    if not len(lengths):
        return 0
    if int(np.nanmax(lengths)) > limits.MAX_CHARACTERS:  # in bytes: up to four a character
        limits.check_length(where, pc.max(pc.utf8_length(column.dictionary)).as_py())
    return int(lengths[column.indices.drop_null().to_numpy()].sum())


def _give_back() -> None:
    """Let arrow return what it no longer uses to the system."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


def _kind(kind: Any) -> str:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    return "whole numbers" if pa.types.is_integer(kind) else str(kind)


def _class_names(schema: Any, columns: Sequence[str]) -> list[str] | None:
    """Names that `datasets` has left in a Parquet file: {"info": {"features": {column: {"names": [...]}}}}."""
    try:
        features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
        found = next((features[c] for c in columns if features.get(c, {}).get("_type") == "ClassLabel"), None)
        return None if found is None else [str(name) for name in found["names"]]
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


# --- CSV ----------------------------------------------------------------------------------------------------------


def _csv_header(files: Sequence[Path], columns: Sequence[str]) -> list[str]:
    """The columns of CSV files, which must be the same in all."""
    import pandas as pd

    headers: list[list[str]] = []
    for file in files:
        try:
            headers.append([str(c) for c in pd.read_csv(file, nrows=0, index_col=False, dtype=object).columns])
        except Exception as error:
            raise not_read(str(file), "csv", error) from error
        if headers[-1] != headers[0]:
            raise DataError(f"{file}: its columns are {headers[-1]}, those of {files[0].name} {headers[0]}")
        for name in columns:
            if name not in headers[-1]:
                raise lacks(str(file), name, headers[-1])
            if f"{name}.1" in headers[-1]:  # as pandas renames the second
                raise DataError(f"{file}: two columns are called {name!r}")
    return headers[0]


def _measure_csv(files: Sequence[Path], columns: Sequence[str], header: Sequence[str]) -> None:
    """Refuse what is too large, or has a row that is longer or shorter than the header, before it is read.

    pandas takes a first cell too many for a row's name, fills up what is missing, and reads to the end of the file for
    a quotation mark that is not closed.
    """
    places = [header.index(name) for name in columns]
    rows = size = 0
    before = csv.field_size_limit(limits.MAX_LINE_BYTES)
    try:
        for file in files:
            number = 0
            try:
                with file.open(encoding="utf-8-sig", newline="") as opened:
                    reader = csv.reader(opened)
                    next(reader)
                    for number, row in enumerate(reader, start=1):
                        if not row:  # a blank line, which pandas skips
                            continue
                        if len(row) != len(header):
                            raise DataError(
                                f"{file}: row {number}, which ends in line {reader.line_num}, has {len(row)} cells, "
                                f"the header {len(header)}; a text with a comma needs quotation marks"
                            )
                        longest = max(len(row[i]) for i in places)
                        limits.check_length(f"{file}: row {number}", longest)
                        size += sum(len(row[i]) for i in places)
                        rows += 1
            except UnicodeDecodeError as error:
                raise not_read(str(file), "csv", error) from error
            except csv.Error as error:
                raise not_read(f"{file}: after row {number}", "csv", error) from error
            limits.check_rows(str(file), rows)
            limits.check_bytes(str(file), size, limits.named(columns))
    finally:
        csv.field_size_limit(before)


# --- JSON ---------------------------------------------------------------------------------------------------------


def _read_json(files: Sequence[Path], columns: Sequence[str]) -> Rows:
    """One object a line, or one list of objects.

    Read here and not by `datasets`, which makes dates of texts that look like dates and objects of mixed columns.
    """
    read: dict[str, list[Any]] = {name: [] for name in columns}
    seen: set[str] = set()
    size = 0
    for file in files:
        try:
            for number, record in enumerate(_records(file), start=1):
                if not isinstance(record, dict):
                    raise DataError(f"{file}: record {number} is no object with the columns as keys")
                for name in columns:
                    value = record.get(name)
                    if isinstance(value, str):
                        limits.check_length(f"{file}: record {number}", len(value))
                        size += len(value)
                    read[name].append(value)
                if not seen.issuperset(columns):
                    seen |= record.keys()
                if number % BATCH_ROWS == 0:
                    limits.check_rows(str(file), len(read[columns[0]]))
                    limits.check_bytes(str(file), size, limits.named(columns))
        except (ValueError, RecursionError) as error:
            raise error if isinstance(error, DataError) else not_read(str(file), "json", error) from error
    limits.check_rows(str(files[-1]), len(read[columns[0]]))
    if not read[columns[0]]:
        raise DataError(f"{', '.join(map(str, files))}: not read as json (it holds no record)")
    for name in columns:
        if name not in seen:
            raise lacks(", ".join(f.name for f in files), name, sorted(seen))
    return Rows(columns=read)


def _records(file: Path) -> Any:
    with file.open("rb") as opened:
        start = opened.read(64).removeprefix(b"\xef\xbb\xbf")
        opened.seek(0)
        if start.lstrip().startswith(b"["):
            if (size := file.stat().st_size) > limits.MAX_JSON_LIST_BYTES:
                raise DataError(
                    f"{file}: a list of {size:,} bytes, where one may have {limits.MAX_JSON_LIST_BYTES:,}; write one "
                    "object a line"
                )
            yield from json.loads(opened.read().decode("utf-8-sig"))
            return
        number = 0
        while line := opened.readline(limits.MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > limits.MAX_LINE_BYTES:
                raise DataError(f"{file}: line {number} has more than {limits.MAX_LINE_BYTES:,} bytes")
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            if text:
                try:
                    yield json.loads(text)
                except ValueError as error:
                    raise ValueError(f"line {number}: {first_line(error)}; one object a line is read") from error
