"""Systems side by side: what each variant costs when it is measured alone (profile.csv)."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from knockout.analysis.report.blocks import Section, Table, table
from knockout.analysis.report.sentences import DASH
from knockout.design import Design
from knockout.plurals import plural
from knockout.profile_table import ProfileError, ProfileRow, read_profile

TITLE = "Systems side by side"
MIB = 2.0**20

RATIOS = {
    "seconds_per_epoch": "#Training",
    "seconds_per_step": "#Training, per step",
    "latency_1_p50_ms": "#Latency at batch 1",
    "latency_64_p50_ms": "#Latency at batch 64",
    "train_above_idle_bytes": "#Memory, training",
    "evaluation_above_idle_bytes": "#Memory, evaluation",
}
"""column of profile.csv whose ratio to the baseline is shown -> its heading"""


def section(root: Path, design: Design) -> Section | None:
    """The table of `knockout profile`: ratios to the baseline, then the values; `None` where there is none.

    Rows of what the study does not run any more are left out, and counted.
    """
    try:
        measured = read_profile(root)
    except ProfileError as error:
        lead = f"{error}; it is left out. `knockout run` sets it aside, `knockout profile` measures again."
        return Section(id="side-by-side", title=TITLE, lead=(lead,))
    ids = {run.id for run in design.runs}
    rows = [row for row in measured if row.run_id in ids]
    if not measured:
        return None
    old = len(measured) - len(rows)
    gone = (
        f"{plural(old, 'row')} of profile.csv {'is' if old == 1 else 'are'} of variants, data or seeds that the study"
        " does not run any more, and left out; `knockout profile` measures again."
    )
    dropped = (gone,) if old else ()
    if not any(row.variant == design.baseline for row in rows):
        return Section(id="side-by-side", title=TITLE, lead=dropped)
    return Section(
        id="side-by-side",
        title=TITLE,
        tells="Time, latency and memory of each variant, measured alone.",
        lead=(f"{conditions(rows)} {reading(rows)}", *dropped),
        blocks=tuple(block for block in (ratios(rows), values(rows)) if len(block.columns) > 1),
        notes=(*counted(rows), *troubles(rows), "All numbers: profile.csv."),
    )


def conditions(rows: Sequence[ProfileRow]) -> str:
    """On which machine and how often was measured, in one sentence."""
    row = next((row for row in rows if row.texts["device"]), rows[0])
    texts, threads = row.texts, plural(int(row.numbers["threads"]), "thread")
    where = f"{texts['device_name']}, {threads}, torch {texts['torch']}" if texts["torch"] else texts["device_name"]
    rounds = plural(int(row.numbers.get("rounds", 0)), "round")
    day = texts["measured"][:10]
    return f"Each variant was measured alone, in processes of its own, in {rounds} of rotated order ({where}; {day})."


def reading(rows: Sequence[ProfileRow]) -> str:
    """How the numbers are to be read, as far as they are there."""
    said = "Ratios are to the baseline in the same round: the median over rounds, and their range."
    timed = {int(row.numbers["timed_steps"]) for row in rows if "timed_steps" in row.numbers}
    if timed:
        steps = f"{min(timed)}" if len(timed) == 1 else f"{min(timed)} to {max(timed)}"
        said += f" Training time is from {steps} timed optimiser steps, without evaluation."
    passes = [row.numbers for row in rows if "latency_1_passes" in row.numbers]
    if passes:
        at_1, at_64 = (int(passes[0][f"latency_{size}_passes"]) for size in (1, 64))
        said += f" Latency is of the forward pass, over {at_1} batches of 1 test text and {at_64} of 64 (p50 / p95)."
    return said


def ratios(rows: Sequence[ProfileRow]) -> Table:
    """The ratios to the baseline."""
    shown = {n: title for n, title in RATIOS.items() if any(f"{n}_ratio" in row.numbers for row in rows)}
    if "seconds_per_epoch" in shown:
        shown.pop("seconds_per_step", None)
    heads = [f"{title}, ratio" for title in shown.values()]
    return table(("Variant", *heads), [(row.variant, *(ratio_text(row.numbers, n) for n in shown)) for row in rows])


def values(rows: Sequence[ProfileRow]) -> Table:
    """The values themselves: medians over the rounds."""
    cells = [{title: text(row.numbers) for title, text in VALUES.items()} for row in rows]
    shown = [title for title in VALUES if any(row[title] != DASH for row in cells)]
    body = [(row.variant, *(texts[title] for title in shown)) for row, texts in zip(rows, cells, strict=True)]
    return table(("Variant", *shown), body, dense=True)


def counted(rows: Sequence[ProfileRow]) -> tuple[str, ...]:
    """What the memory counts; empty where none was measured."""
    of = {row.texts["memory_of"] for row in rows if row.numbers.keys() & {"train_peak_bytes", "evaluation_peak_bytes"}}
    if not of:
        return ()
    what = (
        "what torch's allocator had given out on the device; above idle, without the data that lie there"
        if of == {"allocator"}
        else "the largest resident size of the process; above idle, over that with data and libraries but no model"
    )
    return (f"Memory: the peak, and in brackets how far it is above idle. The peak is {what}.",)


def troubles(rows: Sequence[ProfileRow]) -> tuple[str, ...]:
    """Which numbers are missing, and why."""
    lines = tuple(f"{row.variant}: not measured: {row.texts['trouble']}." for row in rows if row.texts["trouble"])
    had = {name for row in rows for name in row.numbers}
    if "seconds_per_step" in had and "parameters" not in had:
        own = "Of a trainer of one's own only the calls of job.progress are seen: no latency, no parameters."
        return (*lines, own)
    return lines


def ratio_text(numbers: Mapping[str, float], name: str) -> str:
    """Such as "1.20 [1.15, 1.31]"; a dash where there is none."""
    if f"{name}_ratio" not in numbers:
        return DASH
    middle, low, high = (numbers[f"{name}_ratio{ending}"] for ending in ("", "_low", "_high"))
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"


def latency_text(numbers: Mapping[str, float], size: int) -> str:
    """The 50th and 95th percentile of a batch of so many texts, in milliseconds."""
    if f"latency_{size}_p50_ms" not in numbers:
        return DASH
    return " / ".join(f"{numbers[f'latency_{size}_p{share}_ms']:.3g}" for share in (50, 95))


def memory_text(numbers: Mapping[str, float], part: str) -> str:
    """The peak of "train" or "evaluation", and how far it is above the idle process. MiB."""
    if f"{part}_peak_bytes" not in numbers:
        return DASH
    return f"{numbers[f'{part}_peak_bytes'] / MIB:,.0f} ({numbers[f'{part}_above_idle_bytes'] / MIB:,.0f})"


def _number(numbers: Mapping[str, float], name: str, form: str) -> str:
    return format(numbers[name], form) if name in numbers else DASH


VALUES: Mapping[str, Callable[[Mapping[str, float]], str]] = {
    "#Parameters": lambda numbers: _number(numbers, "parameters", ",.0f"),
    "#Seconds per epoch": lambda numbers: _number(numbers, "seconds_per_epoch", ".3g"),
    "#Batch of 1, ms": lambda numbers: latency_text(numbers, 1),
    "#Batch of 64, ms": lambda numbers: latency_text(numbers, 64),
    "#Training, MiB": lambda numbers: memory_text(numbers, "train"),
    "#Evaluation, MiB": lambda numbers: memory_text(numbers, "evaluation"),
    "#Seconds per step": lambda numbers: _number(numbers, "seconds_per_step", ".3g"),
    "#Texts per second": lambda numbers: _number(numbers, "examples_per_second", ",.0f"),
    "#Tokens per second": lambda numbers: _number(numbers, "tokens_per_second", ",.0f"),
}
"""heading -> what stands under it; what a narrow terminal leaves out comes last"""
