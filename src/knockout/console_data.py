"""What the command line prints about a dataset."""

import re
from typing import TYPE_CHECKING

from rich.markup import escape

from knockout.plurals import plural
from knockout.strict import printable
from knockout.terminal import Column, fitted, out, say

if TYPE_CHECKING:
    from knockout.data.describe import Facts

SHOWN_CLASSES = 20

UNKNOWN_SHARE = 0.2
"""Share of unknown validation tokens above which another tokenisation is advised."""


def print_facts(source: str, facts: "Facts") -> None:
    """Print the summary of a dataset."""
    splits = facts.splits
    out.print(f"[bold]{safe(source)}[/bold]: {facts.tokens} tokens, vocabulary size {facts.vocabulary:,}")
    print_table(
        ("before cleaning", "rows", "empty", "duplicates", "contradicting labels"),
        [
            (name, f"{g.rows:,}", f"{g.empty:,}", f"{g.repeats:,}", f"{g.contradicting:,}")
            for name, g in facts.given.items()
        ],
    )
    for (first, later), count in facts.leaks.items():
        has = f"{plural(count, 'row')} of {later} {'has' if count == 1 else 'have'}"
        say(f"leakage: {has} a text that is also in {first}")
    out.print()
    names = list(splits["train"].classes)
    shares = [(safe(name), *(f"{s.classes[name]:,} ({s.classes[name] / s.count:.1%})" for s in splits.values()))
              for name in names[:SHOWN_CLASSES]]  # fmt: skip
    rest = [(f"and {len(names) - SHOWN_CLASSES} more", "", "", "")] if len(names) > SHOWN_CLASSES else []
    print_table(
        ("after cleaning", *splits),
        [
            ("texts", *(f"{s.count:,}" for s in splits.values())),
            *shares,
            *rest,
            ("always guessing", *(f"{safe(s.majority)}: {s.majority_share:.1%}" for s in splits.values())),
        ],
    )
    out.print()
    quantiles = splits["train"].lengths.quantiles
    print_table(
        (
            "length in tokens",
            "mean",
            *("max" if q == 1 else f"{q:.0%}" for q in quantiles),
            "cut texts",
            "unknown tokens",
        ),
        [
            (
                name,
                f"{s.lengths.mean:.1f}",
                *(f"{v:,}" for v in s.lengths.quantiles.values()),
                f"{s.lengths.cut:,}",
                f"{s.unknown:.2%}",
            )
            for name, s in splits.items()
        ],
    )
    train = splits["train"]
    say(
        f"max_length = {facts.max_length} cuts {train.lengths.cut / train.count:.1%} of the training texts and "
        f"{train.lengths.cut_tokens:.1%} of their tokens; max_length = {facts.advised_length} keeps at least "
        f"95 % of them whole and cuts {facts.advised_cut_tokens:.1%} of the tokens"
    )
    say(
        f"padding adds {facts.padding_batched:.1%} positions in batches of similar length, as used in training; "
        f"padding every text to max_length would add {facts.padding_full:.0%}"
    )
    if splits["validation"].unknown > UNKNOWN_SHARE:
        other = "char" if facts.tokens == "word" else "bpe"
        say(f"[red]many tokens are unknown[/red]: try --tokens {other} (data.tokens in a study)")
    for note in facts.notes:
        say(f"note: {safe(note)}")
    for reason, count in facts.dropped.items():
        say(f"dropped: {count:,} ({safe(reason)})")


def as_options(text: str) -> str:
    """A message with the keys of a study's `[data]` as options of `knockout data`."""
    named = r"data\.(text_column|label_column|group_column|drop_unlabeled|sizes)( = true)?"
    return re.sub(named, lambda key: "--" + key[1].replace("_", "-"), text)


def print_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    columns = [Column(name=name, right=i > 0, folds=True) for i, name in enumerate(header)]
    out.print(fitted(columns, rows, console=out))


def safe(text: str) -> str:
    """A text from a user's data, made safe for the terminal: no markup, no control characters."""
    return escape(printable(text))
