"""Cleaning: from rows as they were read to three clean splits.

Every dropped row is counted, and everything that is ignored is named in a note.
"""

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knockout.data import limits
from knockout.data.corpus import SPLITS, Corpus, DataError, Row, Tables, Texts
from knockout.data.sizes import reduce
from knockout.job import DataSpec

MAX_EMPTY_SHARE = 0.01
SCARCE_SHARE = 0.01
"""A class with a smaller share of the rows is named; with more than 25 classes, below a quarter of an equal share."""

VALIDATION_SHARE = 0.1
BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Given:
    """The rows of one split, texts normalised, before anything is dropped but rows without a label."""

    rows: list[Row]
    groups: list[str]  # of each row; empty without a group column
    unlabeled: int = 0  # rows without a label, left out


def normalise(text: str) -> str:
    """The text in NFC, with `<br />` and any run of white space (U+0085 too) as one space."""
    normal = " ".join(BREAK.sub(" ", unicodedata.normalize("NFC", text.replace("\ufeff", ""))).split())
    return text if normal == text else normal  # most texts are normal already: no second copy of gigabytes


def clean(tables: Tables, spec: DataSpec) -> Corpus:
    """Clean the rows and make the splits that are missing.

    A given test split keeps every row that has a label. Elsewhere empty texts, repeats, and texts with contradicting
    labels are dropped; training rows that occur in validation or test are dropped, and validation rows that occur in
    test. Texts that become the same tokens are one text here ("Good film" and "good film", under `word`). Then each
    split is reduced to the size that the spec asks for.
    """
    classes, given = read_rows(tables, spec)
    notes = list(tables.notes)
    dropped: dict[str, int] = {}
    rows_of: dict[str, list[Row]] = {}
    for split, rows in given.items():
        _count(dropped, f"without a label in {split}", rows.unlabeled)
        empty = sum(not text for text, _ in rows.rows)
        if empty > MAX_EMPTY_SHARE * len(rows.rows):
            raise DataError(
                f"{spec.source}: {empty} of {len(rows.rows)} texts of {split} are empty, over {MAX_EMPTY_SHARE:.0%}; "
                f"is {spec.text_column!r} the right column?"
            )
        rows_of[split] = rows.rows if split == "test" else [row for row in rows.rows if row[0]]
        if empty and split == "test":
            notes.append(f"{empty} empty texts of the given test split are kept as one unknown token each")
        elif empty:
            dropped[f"empty in {split}"] = empty
    twin = twins_of(given, spec)
    splits = _split(rows_of, twin, _groups_of_texts(given, twin), spec, notes, dropped)
    notes += _groups_shared(given, spec)
    for split, size in zip(SPLITS, spec.sizes, strict=True):
        if size:
            splits[split], note = reduce(splits[split], size, twin=twin, classes=classes, split=split)
            notes.append(note)
    for split in SPLITS:
        present = {label for _, label in splits[split]}
        if not present or (split != "validation" and len(present) < 2):
            raise DataError(
                f"{spec.source}: {split} holds {len(present)} classes after cleaning; at least 2 are needed"
                + (f" (cut by groups of column {spec.group_column!r})" if spec.group_column else "")
            )
    missing = set(range(len(classes))) - {label for _, label in splits["train"]}
    if missing:
        notes.append(f"classes that training never shows: {_where_shown(missing, classes, splits)}")
    notes += _scarce(classes, splits)
    return Corpus(
        classes=classes,
        splits={s: Texts(text=[t for t, _ in splits[s]], label=[y for _, y in splits[s]]) for s in SPLITS},
        dropped=dropped,
        notes=notes,
    )


def read_rows(tables: Tables, spec: DataSpec) -> tuple[list[str], dict[str, Given]]:
    """The classes, and the rows of each split: texts normalised, labels as indices.

    Nothing is dropped, but rows without a label where the spec says so. Raises `DataError` for rows without a label or
    group, and for labels or texts that are none.
    """
    classes, index = _classes(tables, spec)
    without = {
        split: [i for i, y in enumerate(labels, start=1) if _normal(y) not in index]
        for split, (_, labels) in tables.rows.items()
    }
    if any(without.values()) and not spec.drop_unlabeled:
        raise DataError(_unlabeled(tables, without, spec))
    given = {}
    for split, (texts, labels) in tables.rows.items():
        rows = []
        for number, (text, label) in enumerate(zip(texts, labels, strict=True), start=1):
            if text is not None and not isinstance(text, str):
                raise DataError(f"{spec.source}: {_holds(spec.text_column, text)}, not text (row {number} of {split})")
            try:
                (text or "").encode()
            except UnicodeEncodeError:
                raise DataError(
                    f"{spec.source}: the text of row {number} of {split} holds half a character (a lone surrogate)"
                ) from None
            limits.check_length(f"{spec.source}: row {number} of {split}", len(text or ""))
            key = _normal(label)
            if key in index:
                rows.append((normalise(text or ""), index[key]))
        left_out = frozenset(without[split])
        given[split] = Given(rows=rows, groups=_groups(tables, split, spec, left_out), unlabeled=len(left_out))
    return classes, given


def twins_of(given: Mapping[str, Given], spec: DataSpec) -> dict[str, str]:
    """Text -> the text that stands for it, of texts that the model cannot tell apart (`vocabulary.twins`)."""
    from knockout.data.vocabulary import twins

    return twins((text for rows in given.values() for text, _ in rows.rows), spec.tokens)


def _split(
    given: Mapping[str, list[Row]],
    twin: Mapping[str, str],
    group_of: Mapping[str, str],
    spec: DataSpec,
    notes: list[str],
    dropped: dict[str, int],
) -> dict[str, list[Row]]:

    def unit(row: Row) -> float:
        text = twin.get(row[0], row[0])
        return _unit(group_of.get(text, text))

    if "unsplit" in given:
        rows = _without_repeats(given["unsplit"], twin, "the data", dropped)
        first, second = spec.split[0], spec.split[0] + spec.split[1]
        splits: dict[str, list[Row]] = {split: [] for split in SPLITS}
        for row in rows:
            u = unit(row)
            splits["train" if u < first else "validation" if u < second else "test"].append(row)
        if group_of:
            notes.append(
                f"all splits are cut by a hash of column {spec.group_column!r}: {_sizes(splits, twin, group_of)}"
            )
        return splits
    test = given["test"]
    train = _without_repeats(given["train"], twin, "train", dropped)
    if "validation" in given:
        validation = _without_repeats(given["validation"], twin, "validation", dropped)
    else:
        validation = [row for row in train if unit(row) < VALIDATION_SHARE]
        train = [row for row in train if unit(row) >= VALIDATION_SHARE]
    seen = {twin.get(text, text) for text, _ in test}
    kept = [row for row in validation if twin.get(row[0], row[0]) not in seen]
    _count(dropped, "in validation and in test", len(validation) - len(kept))
    validation = kept
    seen |= {twin.get(text, text) for text, _ in validation}
    kept = [row for row in train if twin.get(row[0], row[0]) not in seen]
    _count(dropped, "in train and in validation or test", len(train) - len(kept))
    if "validation" not in given:
        by = (
            "by a hash of the text serve as one; where texts come in groups (reviews of one film), such a validation "
            "is optimistic"
        )
        if group_of:
            sizes = _sizes({"train": kept, "validation": validation}, twin, group_of)
            by = f"by a hash of column {spec.group_column!r} serve as one, and no group is in both: {sizes}"
        notes.append(f"no validation split was given: {VALIDATION_SHARE:.0%} of training {by}")
    return {"train": kept, "validation": validation, "test": test}


def _without_repeats(rows: list[Row], twin: Mapping[str, str], where: str, dropped: dict[str, int]) -> list[Row]:
    first: dict[str, Row] = {}
    contradictory: set[str] = set()
    for row in rows:
        key = twin.get(row[0], row[0])
        if first.setdefault(key, row)[1] != row[1]:
            contradictory.add(key)
    contradicting = sum(twin.get(text, text) in contradictory for text, _ in rows)
    kept = [row for key, row in first.items() if key not in contradictory]
    _count(dropped, f"contradicting labels in {where}", contradicting)
    _count(dropped, f"repeats in {where}", len(rows) - contradicting - len(kept))
    return kept


def _count(dropped: dict[str, int], reason: str, count: int) -> None:
    if count:
        dropped[reason] = count


def _unit(key: str) -> float:
    """A number in [0, 1) that depends on the text or group only, equal in every process."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:7], "big") / 2**56


# --- groups -------------------------------------------------------------------------------------------------------


def _groups(tables: Tables, split: str, spec: DataSpec, left_out: frozenset[int]) -> list[str]:
    """The group of each row that is kept, as text: 7 and "7" are one group."""
    groups = []
    for number, value in enumerate(tables.groups.get(split, []), start=1):
        if number in left_out:
            continue
        group = str(value).strip()
        nothing = value is None or group == "" or (isinstance(value, float) and not math.isfinite(value))
        if nothing or not isinstance(value, (str, int, float)):
            raise DataError(
                f"{spec.source}: row {number} of {split} has {value!r} in the group column {spec.group_column!r}; "
                "every row that is split needs a name or a number there"
            )
        groups.append(group)
    return groups


def _groups_of_texts(given: Mapping[str, Given], twin: Mapping[str, str]) -> dict[str, str]:
    """The group of each text of the split that is cut; of a text that occurs in several, the first in the alphabet."""
    cut = given.get("unsplit") or (given["train"] if "validation" not in given else None)
    group_of: dict[str, str] = {}
    if cut is not None and cut.groups:
        for (text, _), group in zip(cut.rows, cut.groups, strict=True):
            key = twin.get(text, text)
            group_of[key] = min(group, group_of.get(key, group))
    return group_of


def _sizes(splits: Mapping[str, list[Row]], twin: Mapping[str, str], group_of: Mapping[str, str]) -> str:
    return ", ".join(
        f"{split} {len(rows):,} texts of {len({group_of[twin.get(text, text)] for text, _ in rows}):,} groups"
        for split, rows in splits.items()
    )


def _groups_shared(given: Mapping[str, Given], spec: DataSpec) -> list[str]:
    """Notes on groups that occur in several given splits. They are not moved."""
    notes = []
    for one, other in (("train", "validation"), ("train", "test"), ("validation", "test")):
        if one in given and other in given and given[one].groups and given[other].groups:
            shared = set(given[one].groups) & set(given[other].groups)
            if shared:
                notes.append(f"{len(shared):,} groups of column {spec.group_column!r} are in {one} and in {other}")
    if spec.group_column:
        without = [s for s in given if not given[s].groups and given[s].rows]
        if without:
            notes.append(
                f"{' and '.join(without)} has no column {spec.group_column!r}: whether its groups are elsewhere is not "
                "known"
            )
    return notes


# --- labels -------------------------------------------------------------------------------------------------------


def _classes(tables: Tables, spec: DataSpec) -> tuple[list[str], dict[Any, int]]:
    """The names of the classes in a fixed order, and the index of every label."""
    labels = {split: {_normal(y) for y in values} for split, (_, values) in _hashable(tables, spec).items()}
    labels = {split: values - {None, ""} for split, values in labels.items()}
    all_labels = set().union(*labels.values())
    if any(isinstance(label, float) and not math.isfinite(label) for label in all_labels):
        raise DataError(f"{spec.source}: a label is not a finite number")
    if tables.names is not None:
        names = [normalise(name) for name in tables.names]
        classes = list(dict.fromkeys(names))  # "Positive" and "Positive " are one
        return classes, {i: classes.index(name) for i, name in enumerate(names)}
    kinds = sorted({_kind(label) for _, of_split in tables.rows.values() for label in of_split} - {""}, reverse=True)
    if len(kinds) > 1:
        described = "; ".join(f"{split} has {_some(of_split)}" for split, of_split in labels.items())
        raise DataError(f"{spec.source}: labels are partly {' and partly '.join(kinds)}: {described}")
    if len(all_labels) > limits.MAX_CLASSES:
        raise DataError(
            f"{spec.source}: {len(all_labels)} different labels: this is no classification"
            f" (at most {limits.MAX_CLASSES})"
        )
    for split in labels:
        if split != "train" and "train" in labels and labels[split] and not labels[split] & labels["train"]:
            raise DataError(
                f"{spec.source}: no label of {split} ({_some(labels[split])}) occurs in train "
                f"({_some(labels['train'])}); spell them alike"
            )
    ordered = sorted(all_labels)
    return [str(label) for label in ordered], {label: i for i, label in enumerate(ordered)}


def _hashable(tables: Tables, spec: DataSpec) -> Mapping[str, tuple[list[Any], list[Any]]]:
    nested = {
        type(label).__name__
        for _, labels in tables.rows.values()
        for label in labels
        if label is not None and not isinstance(label, (str, int, float))
    }
    if nested:
        raise DataError(f"{spec.source}: labels are {', '.join(sorted(nested))}; one name or number each is needed")
    return tables.rows


def _normal(label: Any) -> Any:
    """A label as it is compared: a name normalised as texts are; `None` for one that is empty or not a number."""
    if isinstance(label, str):
        return normalise(label) or None
    return None if isinstance(label, float) and math.isnan(label) else label


def _unlabeled(tables: Tables, without: Mapping[str, Sequence[int]], spec: DataSpec) -> str:
    """How many rows have no label, which come first, and the way on."""
    parts = []
    for split, numbers in without.items():
        if numbers:
            count = len(tables.rows[split][1])
            shown = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
            values = sorted({repr(tables.rows[split][1][i - 1]) for i in numbers})
            parts.append(
                f"{len(numbers):,} of {count:,} rows of {split} are without a label (row{'s' * (len(numbers) > 1)}"
                f" {shown}; column {spec.label_column!r} has {' or '.join(values[:3])})"
            )
            if len(numbers) == count:
                parts[-1] += f", which is all of {split}: it cannot be scored"
    return f"{spec.source}: {'; '.join(parts)}. Give them labels, or leave them out with data.drop_unlabeled = true"


def _scarce(classes: Sequence[str], splits: Mapping[str, list[Row]]) -> list[str]:
    """Notes on classes that a split lacks, or that few rows have."""
    counts = {split: Counter(label for _, label in rows) for split, rows in splits.items()}
    notes = []
    for split in ("validation", "test"):
        lacking = [name for i, name in enumerate(classes) if not counts[split][i] and counts["train"][i]]
        if lacking:
            notes.append(f"{split} has no text of {_listed(lacking)}")
    total = sum(map(len, splits.values()))
    least = min(SCARCE_SHARE, 0.25 / len(classes)) * total
    of_all = {name: sum(of[i] for of in counts.values()) for i, name in enumerate(classes)}
    scarce = [f"{name} ({n:,} of {total:,} rows)" for name, n in of_all.items() if 0 < n < least]
    if scarce:
        notes.append(f"classes with very few rows (is a label spelt in two ways?): {_listed(scarce)}")
    return notes


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _kind(label: Any) -> str:
    if isinstance(label, str):
        return "text" if _normal(label) else ""
    return "" if _normal(label) is None else "true or false" if isinstance(label, bool) else "numbers"


def _some(labels: Iterable[Any]) -> str:
    ordered = sorted(map(repr, labels))
    return ", ".join(ordered[:5]) + (f" and {len(ordered) - 5} more" if len(ordered) > 5 else "") or "none"


def _where_shown(missing: set[int], classes: list[str], splits: Mapping[str, list[Row]]) -> str:
    parts = []
    for i in sorted(missing):
        counts = {s: sum(label == i for _, label in splits[s]) for s in ("validation", "test")}
        shown = ", ".join(f"{n} in {s}" for s, n in counts.items() if n)
        parts.append(f"{classes[i]} ({shown or 'nowhere'})")
    return ", ".join(parts)


def _holds(column: str, value: Any) -> str:
    return f"column {column!r} holds {type(value).__name__}"
