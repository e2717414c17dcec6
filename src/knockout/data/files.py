"""Rows of local Parquet, CSV and JSON files: sizes first, then the columns that a study names, and nothing else.

Compressed files, pickles and loading scripts are never opened. A text stays what the file spells: no reader may turn it
into a number, a date or a missing value.
"""

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knockout import tabular
from knockout.data import limits
from knockout.data.corpus import DataError
from knockout.job import DataSpec
from knockout.tabular import CsvForm, release_memory

if TYPE_CHECKING:
    import datasets

    OpenTable = Callable[[list[str], str], "datasets.DatasetDict"]
    """Paths, and the folder of a cache -> their rows, as the split "rows"."""

FORMATS = {".parquet": "parquet", ".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json"}


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
        return Rows(columns=_load("parquet", files, columns, cache, _parquet_opener(columns)), names=names)
    for file in files:
        with limits.errors_name(str(file)):
            tabular.refuse_other_formats(tabular.read_start(file))
    if kind == "json":
        return _read_json(files, columns)
    form = _csv_form(files, columns)
    header = _csv_header(files, columns, form)
    _measure_csv(files, columns, header, form)
    return Rows(columns=_load("csv", files, columns, cache, _csv_opener(header, form)))


def has_column(files: Sequence[Path], kind: str, column: str) -> bool:
    """Whether the first of the files has a column of that name."""
    if kind == "csv":
        return column in _csv_header(files[:1], (), _csv_form(files[:1], (column,)))
    try:
        if kind == "json":
            return column in next(_records(files[0]), {})
        import pyarrow.parquet as pq

        return column in pq.read_schema(files[0]).names
    except (OSError, ValueError, TypeError):
        return True  # reading it says what is wrong


def _csv_opener(header: Sequence[str], form: CsvForm) -> "OpenTable":
    """The CSV reader of `datasets`, with every cell left as it is spelt ("null" and "01" are texts)."""

    def open_table(paths: list[str], folder: str) -> "datasets.DatasetDict":
        import datasets

        return datasets.load_dataset(
            "csv",
            data_files={"rows": paths},
            cache_dir=folder,
            features=datasets.Features({name: datasets.Value("string") for name in header}),
            keep_default_na=False,
            na_filter=False,
            index_col=False,
            sep=form.separator,
            encoding=form.encoding,
            skiprows=form.skipped,
        )

    return open_table


def _parquet_opener(columns: Sequence[str]) -> "OpenTable":
    """The Parquet reader of `datasets`."""

    def open_table(paths: list[str], folder: str) -> "datasets.DatasetDict":
        import datasets

        return datasets.load_dataset("parquet", data_files={"rows": paths}, cache_dir=folder, columns=list(columns))

    return open_table


def _load(
    kind: str, files: Sequence[Path], columns: Sequence[str], cache: Path, open_table: "OpenTable"
) -> dict[str, list[Any]]:
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
            table = open_table([str(f.resolve()) for f in files], folder)["rows"]
        except Exception as error:
            if len(files) > 1:  # the one that cannot be read alone is to blame
                for file in files:
                    _load(kind, [file], columns, cache, open_table)
            raise not_read(", ".join(map(str, files)), kind, error.__cause__ or error) from error
        release_memory()
        return columns_of(table, columns, ", ".join(f.name for f in files))


def columns_of(table: Any, columns: Sequence[str], where: str) -> dict[str, list[Any]]:
    """The named columns of a table of `datasets`, which lies on disk, as lists in memory.

    Raises `DataError` where they would not fit.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    limits.check_rows(where, table.num_rows)
    limits.check_bytes(where, sum(table.data.column(n).nbytes for n in columns), tabular.named_columns(columns))
    for name in columns:
        column = table.data.column(name)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            limits.check_length(f"{where}: column {name!r}", pc.max(pc.utf8_length(column)).as_py() or 0)
    return {name: table[name][:] for name in columns}  # at once: row by row takes twenty times as long


def not_read(where: str, kind: str, cause: BaseException) -> DataError:
    return DataError(f"{where}: not read as {kind} ({type(cause).__name__}: {first_line(cause)})")


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:200]


def need(where: str, columns: Sequence[str], have: Sequence[str]) -> None:
    """Raise `MissingColumns` where some of the columns are not among those that are there."""
    missing = [name for name in columns if name not in have]
    if missing:
        raise MissingColumns(where, missing, have)


class MissingColumns(DataError):
    """Columns are not there: all of them, what there is, and, once the spec is known, where to say so."""

    def __init__(self, where: str, missing: Sequence[str], have: Sequence[str], keys: Sequence[str] = ()) -> None:
        self.where, self.missing, self.have = where, missing, have
        listed = ", ".join(map(repr, have[:20])) + (f" and {len(have) - 20} more" if len(have) > 20 else "")
        names = " and no column ".join(map(repr, missing))
        way_on = f". Name the right one{'s' * (len(keys) > 1)} as {' and '.join(keys)}" if keys else ""
        super().__init__(f"{where} has no column {names}; it has {listed}{way_on}")

    def asked_by(self, spec: DataSpec) -> "MissingColumns":
        """The same, with the keys of the study file that name these columns."""
        named = {f"data.{key}": getattr(spec, key) for key in ("text_column", "label_column", "group_column")}
        keys = [key for key, column in named.items() if column in self.missing]
        return MissingColumns(self.where, self.missing, self.have, keys)


# --- Parquet ------------------------------------------------------------------------------------------------------


def _measure_parquet(files: Sequence[Path], columns: Sequence[str]) -> list[str] | None:
    """Refuse what is too large before it is expanded; the names of the classes, where the files carry them."""
    rows = size = 0
    contents: dict[str, tuple[list[str] | None, str]] = {}
    for file in files:
        with limits.errors_name(str(file)):
            try:
                more, names, kinds = _measure_one(file, columns)
            except (DataError, tabular.TableError, MemoryError):
                raise
            except Exception as error:
                raise not_read(str(file), "parquet", error) from error
        rows, size = rows + more.rows, size + more.expanded_bytes
        limits.check_rows(str(file), rows)
        limits.check_bytes(str(file), size, tabular.named_columns(columns))
        contents[file.name] = names, kinds
    (first, of_first), *others = contents.items()
    for name, other in others:
        if other != of_first:
            raise DataError(
                f"{files[0].parent}: {first} and {name} differ in what their columns hold: {of_first}, {other}"
            )
    return of_first[0]


def _measure_one(file: Path, columns: Sequence[str]) -> tuple[tabular.ParquetSize, list[str] | None, str]:
    """The size of the columns, the names of the classes if the file has them, and the columns' kinds in words."""
    import pyarrow.parquet as pq

    schema = pq.read_schema(file)
    need(str(file), columns, schema.names)
    kinds = ", ".join(f"{name} {_kind(schema.field(name).type)}" for name in columns)
    return tabular.measure_parquet(file, columns, limits.TEXTS), _class_names(schema, columns), kinds


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
        feature = next((features[c] for c in columns if features.get(c, {}).get("_type") == "ClassLabel"), None)
        return None if feature is None else [str(name) for name in feature["names"]]
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


# --- CSV ----------------------------------------------------------------------------------------------------------


def _csv_form(files: Sequence[Path], columns: Sequence[str]) -> CsvForm:
    """Encoding and separator of CSV files, which must be the same in all."""
    forms: list[CsvForm] = []
    for file in files:
        with limits.errors_name(str(file)):
            forms.append(tabular.csv_form(file, columns))
        if forms[-1] != forms[0]:
            raise DataError(f"{file}: {_in_words(forms[-1])}, and {files[0].name} {_in_words(forms[0])}")
    return forms[0]


def _in_words(form: CsvForm) -> str:
    said = ", as its first line says" if form.skipped else ""
    return f"is {form.encoding} with a {tabular.SEPARATORS[form.separator]} between columns{said}"


def _csv_header(files: Sequence[Path], columns: Sequence[str], form: CsvForm) -> list[str]:
    """The columns of CSV files, which must be the same in all."""
    import pandas as pd

    headers: list[list[str]] = []
    for file in files:
        try:
            header = pd.read_csv(
                file,
                nrows=0,
                index_col=False,
                dtype=object,
                sep=form.separator,
                encoding=form.encoding,
                skiprows=form.skipped,
            )
        except Exception as error:
            raise not_read(str(file), "csv", error) from error
        headers.append([str(c) for c in header.columns])
        if headers[-1] != headers[0]:
            raise DataError(f"{file}: its columns are {headers[-1]}, those of {files[0].name} {headers[0]}")
        need(str(file), columns, headers[-1])
        for name in columns:
            if f"{name}.1" in headers[-1]:  # as pandas renames the second
                raise DataError(f"{file}: two columns are called {name!r}")
    return headers[0]


def _measure_csv(files: Sequence[Path], columns: Sequence[str], header: Sequence[str], form: CsvForm) -> None:
    """Refuse what is too large, or has a row that is longer or shorter than the header, before it is read.

    pandas takes a first cell too many for a row's name, fills up what is missing, and reads to the end of the file for
    a quotation mark that is not closed.
    """
    places = [header.index(name) for name in columns]
    rows = size = 0
    for file in files:
        with limits.errors_name(str(file)):
            more_rows, more_size = _measure_csv_file(file, places, header, form)
        rows, size = rows + more_rows, size + more_size
        limits.check_rows(str(file), rows)
        limits.check_bytes(str(file), size, tabular.named_columns(columns))


def _measure_csv_file(file: Path, places: Sequence[int], header: Sequence[str], form: CsvForm) -> tuple[int, int]:
    """The number of rows below the header, and the characters of the cells at some places of each."""
    rows = size = line = 0
    try:
        with file.open(encoding=form.encoding, newline="") as opened:
            read = tabular.csv_rows(opened, form.separator, limits.TEXTS, strict=False)
            for _ in range(1 + form.skipped):
                next(read)  # the header, under the line that says what separates the columns
            for row in read:
                line = row.line
                if len(row.cells) != len(header):
                    raise tabular.uneven_row(row, header, form.separator)
                lengths = [len(row.cells[i]) for i in places]
                limits.check_length(f"{file}: line {line}", max(lengths))
                size += sum(lengths)
                rows += 1
    except UnicodeError as error:
        raise tabular.wrong_encoding(form.encoding, f"after line {line}") from error
    return rows, size


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
                if number % tabular.BATCH_ROWS == 0:
                    limits.check_rows(str(file), len(read[columns[0]]))
                    limits.check_bytes(str(file), size, tabular.named_columns(columns))
        except (ValueError, RecursionError) as error:
            raise error if isinstance(error, DataError) else not_read(str(file), "json", error) from error
    limits.check_rows(str(files[-1]), len(read[columns[0]]))
    if not read[columns[0]]:
        raise DataError(f"{', '.join(map(str, files))}: not read as json (it holds no record)")
    need(", ".join(f.name for f in files), columns, sorted(seen))
    return Rows(columns=read)


def _records(file: Path) -> Any:
    with file.open("rb") as opened:
        start = opened.read(64).removeprefix(b"\xef\xbb\xbf")
        opened.seek(0)
        if start.lstrip().startswith(b"["):
            if (size := file.stat().st_size) > limits.TEXTS.json_list_bytes:
                raise DataError(
                    f"{file}: a list of {size:,} bytes, where one may have {limits.TEXTS.json_list_bytes:,}; write one "
                    "object a line"
                )
            yield from json.loads(opened.read().decode("utf-8-sig"))
            return
        number = 0
        while line := opened.readline(limits.TEXTS.line_bytes + 1):
            number += 1
            if len(line) > limits.TEXTS.line_bytes:
                raise DataError(f"{file}: line {number} has more than {limits.TEXTS.line_bytes:,} bytes")
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            if text:
                try:
                    yield json.loads(text)
                except ValueError as error:
                    raise ValueError(f"line {number}: {first_line(error)}; one object a line is read") from error
