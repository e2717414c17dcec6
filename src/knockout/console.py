"""What the command line prints of a study, its cost and a data set. Plain when it is no terminal."""

import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from knockout.analysis.inference.comparison import Comparison
    from knockout.data.describe import Facts
    from knockout.job import DataRef
    from knockout.study import Study

out = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
err = Console(stderr=True, highlight=False)

SHOWN_CLASSES = 20

SMALL_SPLIT = 0.1
"""Above the share of the commonest class: more than a model may be expected to gain at once."""

UNKNOWN_SHARE = 0.2
"""Of a validation split's tokens: more are a sign of a wrong way to cut texts into tokens."""


def print_verdicts(comparison: "Comparison", described: "Mapping[str, Any]", late: "Mapping[str, str]") -> None:
    """The verdict table. `described`: what each variant changes; `late`: why some are exploratory."""
    from knockout.analysis.report import sentences

    metric = comparison.metric
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("variant", overflow="fold")
    if described:
        table.add_column("changes", overflow="fold")
    level = sentences.header(metric).replace(",", "")
    for column in ("pairs", "failed runs", f"{level[:1].lower()}{level[1:]}", "difference [95 % CI]", "p (Holm)"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for c in comparison.contrasts:
        marks = [sentences.verdict_text(c), *(["exploratory"] if c.variant in late else [])]
        marks += ["normal theory only"] if c.normal_theory_only else []
        estimate = sentences.signed(c.estimate.difference, metric.digits) if c.estimate else sentences.DASH
        cells = (
            c.variant,
            *([sentences.change(described, c.variant)] if described else []),
            f"{c.n_pairs}/{c.n_planned}",
            f"{c.arm.failures} of {c.arm.runs}",
            sentences.level(c.arm, metric.digits),
            f"{estimate} {sentences.interval(c.estimate, metric.digits)}",
            sentences.p_text(c.p_holm),
            ", ".join(marks),
        )
        table.add_row(*map(escape, cells))
    out.print(table)
    out.print()


def print_dead(root: Path, finished: int) -> None:
    """Say how many finished runs did not leave chance level: results too, and ranked as failures."""
    if not finished:
        return
    from knockout.analysis.results import dead_runs  # pandas: only where there is something to judge

    dead = dead_runs(root)
    if dead:
        names = ", ".join(f"{variant} seed {seed}" for variant, seed in dead[:5])
        more = f" and {len(dead) - 5} more" if len(dead) > 5 else ""
        out.print(f"{len(dead)} of the finished are dead, at chance level: {names}{more}", soft_wrap=True)


def design_notes(study: "Study") -> list[str]:
    """What a study of another shape than variants and seeds can show, in plain words."""
    told = []
    for axes in study.cross:
        k = len(axes)
        spread = (
            " If errors of cells are independent, the sd of the interaction is 1.4 times that of a contrast, of a main"
            " effect 0.7 times."
        )
        told.append(
            f"{' x '.join(axes)}: {2**k} cells give {2**k - 1} main effects and interactions, a family of their own."
            f"{spread if k == 2 else ''}"
        )
    if study.placebos:
        rate = "" if len(study.placebos) >= 20 else "; a rate is told from 20"
        told.append(f"{len(study.placebos)} placebo arms are judged one by one, outside the family{rate}.")
    equal = [c.id for c in study.claims if c.says == "equal"]
    if study.anytime and equal:
        told.append(f"Claims of equality ({', '.join(equal)}) cannot be supported: an e-process shows no equivalence.")
    return told


def print_cost(study: "Study", ref: "DataRef | None", summary: "Mapping[str, Any]") -> None:
    from knockout.sweep.coordinate import devices_of, workers_of
    from knockout.sweep.estimate import estimate
    from knockout.sweep.progress import describe

    devices = devices_of(study)
    workers = workers_of(study, devices)
    found = estimate(study, data=ref, summary=summary, device=devices[0])
    out.print("[bold]What it will cost here[/bold]")
    runs = len(study.seeds) * len(study.arms)
    most = "at most " if study.anytime else ""
    time = describe(found.start_seconds + found.seconds / workers)
    evaluation = "" if found.evaluation_counted else ", evaluation not counted"
    ours = study.trainer.path == "knockout.train:train" and devices == ["cpu"]
    later = " (later up to 0.8 GB more a worker: kernels for every size of batch)" if ours else ""
    out.print(
        f"- about {time} for {most}{runs} runs with {workers} workers on {devices[0]} "
        f"(measured on a few steps of every variant{evaluation}), {found.peak_bytes * workers / 1e9:.1f} GB of memory "
        f"at first{later}, {found.disk_bytes / 1e6:.1f} MB of disk"
    )
    slowest = max(found.paces, key=lambda name: found.paces[name].seconds_per_step)
    pace = found.paces[slowest]
    out.print(f"- the slowest variant is {slowest}: {pace.steps} steps of {1000 * pace.seconds_per_step:.0f} ms")
    for name, pace in found.paces.items():
        if pace.trouble:
            out.print(f"- [red]{name} did not train[/red]: {escape(pace.trouble)}")


def print_design(study: "Study", told: "Mapping[str, Any]") -> None:
    from knockout.variants import BASELINE, changes

    n, k = len(study.seeds), len(study.variants)
    out.print(f"[bold]{escape(study.name)}[/bold]: {escape(study.question)}")
    placebos = f" and {len(study.placebos)} placebo arm{'s' * (len(study.placebos) > 1)}" if study.placebos else ""
    most = "at most " if study.anytime else ""
    total = f"{most}{n} seeds = {most}{n * len(study.arms)} runs"
    out.print(f"{k} variants and the baseline{placebos} x {total}, in blocks of one seed")
    if told:
        aside = told["splits"]["validation"]
        p = max(aside["labels"]) / aside["count"]
        bar = p + study.plan.dead_standard_errors * math.sqrt(p * (1 - p) / aside["count"])
        text = 100 / told["splits"]["test"]["count"]
        sizes = ", ".join(f"{split} {value['count']}" for split, value in told["splits"].items())
        out.print(f"data: {escape(told['source'])} ({sizes}), {len(told['classes'])} classes, {told['tokens']} tokens")
        out.print(
            f"a run counts as alive above {100 * bar:.1f} % validation accuracy (always guessing gives"
            f" {100 * p:.1f} %); one test text is {text:.2g} points"
        )
        if bar - p > SMALL_SPLIT:
            out.print(f"[red]validation is small[/red]: {aside['count']} texts leave chance level that uncertain")
        if text > study.plan.margin and study.plan.metric != "log_loss":
            out.print(f"[red]test is small[/red]: one text is more than the margin of {study.plan.margin:g} points")
        for note in told["notes"]:
            out.print(f"  note: {escape(note)}")
        for reason, count in told["dropped"].items():
            out.print(f"  dropped: {count} ({escape(reason)})")
    if study.recipe is not None:
        out.print(f"recipe: {escape(plain(study.recipe))}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("variant")
    table.add_column("changes", overflow="fold")
    for name, factors in study.factors.items():
        told_changes = ", ".join(change_text(key, *pair) for key, pair in changes(factors).items())
        table.add_row(name, escape(told_changes if name != BASELINE else plain(factors)))
    out.print(table)


def print_facts(source: str, facts: "Facts") -> None:
    splits = facts.splits
    out.print(f"[bold]{safe(source)}[/bold]: {facts.tokens} tokens, a vocabulary of {facts.vocabulary:,}")
    print_table(
        ("rows as they came", "rows", "empty", "repeats", "contradicting"),
        [
            (name, f"{g.rows:,}", f"{g.empty:,}", f"{g.repeats:,}", f"{g.contradicting:,}")
            for name, g in facts.given.items()
        ],
    )
    for (first, later), count in facts.leaks.items():
        out.print(f"texts of {first} that come again in {later}: {count:,} rows of {later}")
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
        ("length in tokens", "mean", *("max" if q == 1 else f"{q:.0%}" for q in quantiles), "cut", "unknown tokens"),
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
    out.print(
        f"max_length = {facts.max_length} cuts {train.lengths.cut / train.count:.1%} of the training texts and "
        f"{train.lengths.cut_tokens:.1%} of their tokens; max_length = {facts.advised_length} keeps 95 % of "
        f"them whole and cuts {facts.advised_cut_tokens:.1%} of the tokens",
        soft_wrap=True,
    )
    out.print(
        f"padding costs {facts.padding_batched:.1%} more positions in batches by length, as training makes them, and "
        f"would cost {facts.padding_full:.0%} if every text were padded to max_length",
        soft_wrap=True,
    )
    if splits["validation"].unknown > UNKNOWN_SHARE:
        other = "char" if facts.tokens == "word" else "bpe"
        out.print(f"[red]many tokens are unknown[/red]: try --tokens {other} (data.tokens in a study)")
    for note in facts.notes:
        out.print(f"note: {safe(note)}", soft_wrap=True)
    for reason, count in facts.dropped.items():
        out.print(f"dropped: {count:,} ({safe(reason)})", soft_wrap=True)


def print_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for i, column in enumerate(header):
        table.add_column(column, justify="right" if i else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    out.print(table)


def safe(text: str) -> str:
    """Text of a user's data for the terminal: no markup, no control characters."""
    from knockout.strict import printable

    return escape(printable(text))


def change_text(factor: str, before: Any, after: Any) -> str:
    return f"{factor}: {value_text(before)} -> {value_text(after)}"


def plain(record: Any) -> str:

    return ", ".join(f"{key} {value_text(value)}" for key, value in asdict(record).items())


def value_text(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
