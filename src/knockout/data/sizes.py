"""Smaller splits: so many texts of each, the same ones for every order of the file.

The texts of a class are put in the order of a hash. The classes then take turns by the quotients of Webster and
Sainte-Lague, (rank + 1/2) / texts of the class, and a size takes the first of this one sequence. So a smaller size is a
part of every larger one. For two classes these are the counts of the largest remainders. For more classes the largest
remainders are not nested: a class may lose a text when the size grows (the Alabama paradox; Balinski & Young 1982).
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence

from knockout.data.corpus import DataError, Row


def reduce(
    rows: Sequence[Row], size: int, *, twin: Mapping[str, str], classes: Sequence[str], split: str
) -> tuple[list[Row], str]:
    """At most `size` rows in their order, with the shares of the classes as in all rows, and a note that says so.

    `twin`: text -> the text that stands for it. Raises `DataError` where a class of the split would have no row left.
    """
    if size >= len(rows):
        return list(rows), f"data.sizes asks for {size:,} texts of {split}: it has {len(rows):,}, and all are kept"
    sequence = _balanced(rows, twin)
    kept = sequence[:size]
    lost = sorted({label for _, label in rows} - {rows[i][1] for i in kept})
    if lost:
        least = 1 + max(next(n for n, i in enumerate(sequence) if rows[i][1] == label) for label in lost)
        raise DataError(
            f"data.sizes: {size:,} of the {len(rows):,} texts of {split} hold none of class "
            f"{', '.join(classes[label] for label in lost)}; ask for at least {least:,}, or 0 for all"
        )
    note = f"data.sizes: {size:,} of {len(rows):,} texts of {split} are kept, by a hash of the text within each class"
    return [rows[i] for i in sorted(kept)], note


def _balanced(rows: Sequence[Row], twin: Mapping[str, str]) -> list[int]:
    """The indices of all rows in the order in which a growing size takes them."""

    def place(i: int) -> tuple[bytes, str, int]:
        text = rows[i][0]
        key = twin.get(text, text)
        # Not the hash that cuts the splits: a split must not be cut further along the same line.
        return hashlib.sha256(f"sizes\t{key}".encode()).digest(), text, i

    counts = Counter(label for _, label in rows)
    ranks: Counter[int] = Counter()
    turns = []
    for i in sorted(range(len(rows)), key=place):
        label = rows[i][1]
        turns.append(((2 * ranks[label] + 1) / counts[label], label, i))
        ranks[label] += 1
    return [i for _, _, i in sorted(turns)]
