"""Prepared data: token ids as flat arrays in one file, cached by the content of the source and this package's code."""

import hashlib
import importlib.metadata
import json
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knockout.data import sources
from knockout.data.corpus import SPLITS, Corpus
from knockout.data.lengths import pack_lengths
from knockout.data.limits import check_files
from knockout.data.sources import cache_folder, read_corpus, source_files
from knockout.data.synthetic import is_synthetic
from knockout.files import replace_file
from knockout.job import DataRef, DataSpec

READERS = ("datasets", "tokenizers")
"""Packages whose version may change how a file is read."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Data that are ready for trainers, and their summary for the report."""

    ref: DataRef
    summary: Mapping[str, Any]


def prepare(spec: DataSpec, *, corpus: Corpus | None = None) -> Prepared:
    """Read, clean and tokenise a dataset, or return the cached result. `corpus`: what was read and cleaned already.

    Raises `knockout.data.corpus.DataError` for errors in the data or in their description.
    """
    key = _cache_key(spec)
    folder = cache_folder() / "prepared"
    if key is not None:
        cached = _cached(folder, key)
        if cached is not None:
            return cached
    corpus = read_corpus(spec) if corpus is None else corpus
    data_id = content_id(corpus, spec)
    name = key or data_id
    folder.mkdir(parents=True, exist_ok=True)
    arrays, vocabulary = _arrays(corpus, spec)
    summary = {
        "source": spec.source if is_synthetic(spec.source) else Path(spec.source).name or spec.source,
        "tokens": spec.tokens,
        "max_length": spec.max_length,
        "classes": corpus.classes,
        "vocabulary": vocabulary,
        "splits": {
            split: {
                "count": len(texts.label),
                "labels": np.bincount(texts.label, minlength=len(corpus.classes)).tolist(),
            }
            for split, texts in corpus.splits.items()
        },
        "dropped": dict(corpus.dropped),
        "notes": corpus.notes,
        "test_lengths": pack_lengths(arrays["test_full_lengths"].tolist()),
    }
    path = folder / f"{name}.npz"
    replace_file(path, lambda file: np.savez(file, allow_pickle=False, **arrays))
    content = {"id": data_id, "summary": summary, "arrays": _sha256(path)}
    sealed = json.dumps({**content, "sha256": _seal(content)}, ensure_ascii=False).encode()
    replace_file(path.with_suffix(".json"), lambda file: file.write(sealed))
    return Prepared(ref=DataRef(id=data_id, path=path), summary=summary)


def content_id(corpus: Corpus, spec: DataSpec) -> str:
    """sha256 of the normalised rows in split order, with how they become tokens."""
    sha = hashlib.sha256()
    limits = {
        k: v for k, v in asdict(spec).items() if k in ("tokens", "max_length", "vocabulary_size", "min_frequency")
    }
    sha.update(json.dumps([limits, corpus.classes], sort_keys=True).encode())
    for split in SPLITS:
        texts = corpus.splits[split]
        for text, label in zip(texts.text, texts.label, strict=True):
            sha.update(f"{split}\t{label}\t{text}\n".encode())
    return sha.hexdigest()


def _arrays(corpus: Corpus, spec: DataSpec) -> tuple[dict[str, NDArray[np.integer[Any]]], int]:
    from knockout.data import vocabulary

    tokenizer = vocabulary.learn(
        corpus.splits["train"].text,
        tokens=spec.tokens,
        vocabulary_size=spec.vocabulary_size,
        min_frequency=spec.min_frequency,
    )
    size = tokenizer.get_vocab_size()
    arrays: dict[str, NDArray[np.integer[Any]]] = {"shape": np.array([size, len(corpus.classes), spec.max_length])}
    words = json.dumps(vocabulary.words(tokenizer), ensure_ascii=False).encode()
    arrays["words"] = np.frombuffer(words, np.uint8)
    for split in SPLITS:
        texts = corpus.splits[split]
        if split == "test":
            whole, ends = vocabulary.encode_flat(tokenizer, texts.text, max_length=None)
            lengths = np.diff(ends)
            arrays["test_full_lengths"] = lengths
            ids, offsets = _cut(whole, lengths, spec.max_length)
        else:
            ids, offsets = vocabulary.encode_flat(tokenizer, texts.text, max_length=spec.max_length)
        arrays[f"{split}_ids"], arrays[f"{split}_offsets"] = ids, offsets
        arrays[f"{split}_labels"] = np.array(texts.label, dtype=np.int64)
    return arrays, size


def _cut(ids: NDArray[np.int32], lengths: NDArray[np.int64], most: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The texts, each cut after `most` tokens: ids, and the offset of each text and of the end."""
    starts = np.cumsum(lengths) - lengths
    kept = np.arange(len(ids)) - np.repeat(starts, lengths) < most
    return ids[kept], np.concatenate(([0], np.cumsum(np.minimum(lengths, most), dtype=np.int64)))


def _cache_key(spec: DataSpec) -> str | None:
    """Hash of all that the prepared data are made from; `None` without files: a hub may change, and generated texts
    are made again in less than a second.

    That is the source's bytes, the spec, the source code of this package, and the versions of what it reads with.
    """
    files = source_files(spec)
    if not files:
        return None
    check_files(files)
    root = Path(spec.source).expanduser()
    names = [str(f.relative_to(root)) if f.is_relative_to(root) else f.name for f in files]
    versions = [unicodedata.unidata_version, *(importlib.metadata.version(p) for p in READERS)]
    identity = {**asdict(spec), "source": names, "versions": versions}
    sha = hashlib.sha256(json.dumps(identity, sort_keys=True).encode())
    own = sorted(Path(sources.__file__).parent.glob("*.py"))
    for file in (*files, *own):
        sha.update(_sha256(file).encode())
    return sha.hexdigest()


def _cached(folder: Path, key: str) -> Prepared | None:
    path = folder / f"{key}.npz"
    try:
        content = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        if content.pop("sha256") != _seal(content) or content["arrays"] != _sha256(path):
            return None
        return Prepared(ref=DataRef(id=content["id"], path=path), summary=content["summary"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _seal(content: Mapping[str, Any]) -> str:
    """sha256 of what the JSON beside the arrays says, the checksum of the arrays included."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
