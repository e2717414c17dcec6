"""What the command line prints about a study, its cost and a dataset. Plain text when it is not a terminal."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from rich.markup import escape

from knockout.console_data import safe
from knockout.floor_text import floor_lines
from knockout.plurals import plural
from knockout.strict import printable
from knockout.terminal import NAMES, Column, err, fitted, out, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from knockout.analysis.inference.comparison import Comparison
    from knockout.analysis.inference.contrasts import Contrast
    from knockout.analysis.report.unpaired import UnpairedComparison
    from knockout.design import Variant
    from knockout.job import Floor
    from knockout.plan import Plan
    from knockout.source_changes import SourceChange
    from knockout.study import Run, Study
    from knockout.sweep.estimate import Estimate, Pace
    from knockout.sweep.machine import Machine
    from knockout.sweep.owner import Progress
    from knockout.sweep.survey import Survey

__all__ = ["err", "out"]

SMALL_SPLIT = 0.1
"""Test accuracy above the majority share. A bar higher than this is more than a model may gain."""

UNEVEN_SHARE = 0.8
"""The majority share of the test labels above which accuracy says little."""


def print_verdicts(comparison: "Comparison", described: "Mapping[str, Variant]", late: "Mapping[str, str]") -> None:
    """Print the verdict table, below the baseline and sorted by effect.

    `described`: what each variant changes; `late`: why some are exploratory.
    """
    from knockout.analysis.report import sentences

    metric = comparison.metric
    level = sentences.header(metric).replace(",", "")
    columns = (
        Column(name="variant", folds=True, least=NAMES),
        Column(name="changes", folds=True, drop=4),
        Column(name="pairs", right=True, drop=2),
        Column(name="failed runs", right=True, drop=1),
        Column(name=f"{level[:1].lower()}{level[1:]}", right=True, drop=3),
        Column(name="difference [95 % CI]", right=True),
        Column(name="p (Holm)", right=True),
        Column(name="verdict", folds=True, below=True, verdict=True),
    )
    base = comparison.contrasts[0].baseline
    failed = f"{base.failures} of {base.runs}"
    rows = [(comparison.baseline, "", "", failed, sentences.level(base, metric.digits), "", "", "baseline")]
    for c in sorted(comparison.contrasts, key=lambda c: _effect(c, metric.sign)):
        difference = sentences.difference(c.estimate, metric.digits)
        rows.append(
            (
                c.variant,
                sentences.change(described, c.variant),
                f"{c.n_pairs}/{c.n_planned}",
                f"{c.arm.failures} of {c.arm.runs}",
                sentences.level(c.arm, metric.digits),
                f"{difference} {sentences.interval(c.estimate, metric.digits)}",
                sentences.p_text(c.p_holm if c.p is not None else None),
                ", ".join([sentences.verdict_text(c), *sentences.flags(c, late)]),
            )
        )
    shown = [i for i in range(len(columns)) if described or columns[i].name != "changes"]
    out.print(fitted([columns[i] for i in shown], [[printable(row[i]) for i in shown] for row in rows], console=out))
    out.print()


def print_unpaired(comparison: "UnpairedComparison") -> None:
    """Print the verdicts of an unpaired comparison, and that it is the weaker one."""
    from knockout.analysis.report.sections.unpaired import WEAKER, unpaired_rows, unpaired_titles

    titles = {name: title.removeprefix("#") for name, title in unpaired_titles(comparison).items()}
    columns = (
        Column(name=titles["variant"], folds=True, least=NAMES),
        Column(name=titles["runs"], right=True, drop=5),
        Column(name=titles["failed runs"], right=True, drop=4),
        Column(name=titles["level"], right=True, drop=3),
        Column(name="Difference [95 % CI]", right=True),
        Column(name=titles["detectable"], right=True, drop=2),
        Column(name=titles["p"], right=True, drop=1),
        Column(name=titles["p (Holm)"], right=True),
        Column(name=titles["verdict"], folds=True, least=14, below=True, verdict=True),
    )
    rows = [
        [printable("; ".join(part for part in (row[name].text, *row[name].notes) if part)) for name in titles]
        for row in unpaired_rows(comparison)
    ]
    out.print(fitted(columns, rows, console=out))
    out.print()
    say(f"[bold]{escape(WEAKER)}[/bold]")


def verdict_counts(comparison: "Comparison | UnpairedComparison") -> str:
    """How many variants have each verdict, such as "2 worse, 1 inconclusive"."""
    from knockout.analysis.report import sentences

    counts = Counter(sentences.shown(c.verdict) for c in comparison.contrasts)
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())


def print_report_path(comparison: "Comparison | UnpairedComparison", path: Path, *, quiet: bool) -> None:
    """Print where the report lies; where nothing else is printed, after how many variants have each verdict."""
    counts = f"{verdict_counts(comparison)}; " if quiet else ""
    say(f"{counts}report:", whole=str(path))


def print_wanted(state: "Survey") -> None:
    """Print what `run` would train, and what stands in its way."""
    from knockout.design import dropped_line

    print_damaged(state.ledger.damaged)
    for name in state.study.arms:
        seeds = ", ".join(str(r.seed) for r in state.wanted if r.variant == name)
        if seeds:
            say(f"{escape(name)}: seeds {seeds}")
    if state.dropped:
        say(escape(dropped_line(state.dropped)))
    if state.stop is not None:
        say(escape(str(state.stop)))
    print_change(state.change)


def _effect(contrast: "Contrast", sign: int) -> tuple[bool, float]:
    """The order of the table: what lowers the metric's quality most comes first, what has no estimate last."""
    estimate = contrast.estimate
    return estimate is None, 0.0 if estimate is None else sign * estimate.difference


def print_dead(root: Path, finished: int) -> None:
    """Print how many finished runs stayed at chance level. They are results, ranked as failures."""
    if not finished:
        return
    from knockout.analysis.results import dead_runs  # pandas: only where there is something to judge

    dead = dead_runs(root)
    if dead:
        names = ", ".join(f"{variant} seed {seed}" for variant, seed in dead[:5])
        more = f" and {len(dead) - 5} more" if len(dead) > 5 else ""
        dead_text = f"{len(dead)} of the finished runs are dead (no better than a constant answer)"
        say(f"{dead_text}: {escape(names)}{more}")


def print_running(running: "Mapping[str, Progress | None]", runs: "Mapping[str, Run]") -> None:
    """Print what is trained now. `running`: run id -> how far it is; `runs`: those of the study."""
    for run_id, at in running.items():
        where = "starting" if at is None else f"step {at.step}/{at.steps}, loss {at.loss:.3f}"
        run = runs.get(run_id)
        name = f"{run_id[:12]} (not in this study)" if run is None else f"{run.variant} seed {run.seed}"
        say(f"running: {escape(name)}: {where}")


def print_damaged(lines: "Iterable[str]") -> None:
    """Print which records cannot be read. They count as missing, and nothing of them is lost."""
    for line in lines:
        say(f"damaged, counted as missing: {safe(line)}; `knockout run` sets it aside and trains it again")


def print_change(change: "SourceChange") -> None:
    """Print what has to be said of the sources of the trainer that a study's results come from, and the way on."""
    for line in change.lines:
        then = f": {change.way_on}" if change.undeclared else ""
        colour = "red" if change.undeclared else "bold"
        say(f"[{colour}]trainer[/{colour}]: {escape(line + then)}")


def design_notes(study: "Study") -> list[str]:
    """Sentences about crossings, A/A arms and claims of equality of a study, and about what it leaves out."""
    notes = [f"{line}." for line in study.unused]
    for axes in study.cross:
        k = len(axes)
        spread = (
            " If the errors of the cells are independent, the sd of the interaction is 1.4 times that of a contrast,"
            " and the sd of a main effect 0.7 times."
        )
        notes.append(
            f"{' x '.join(axes)}: {2**k} cells give {2**k - 1} main effects and interactions, a family of their own."
            f"{spread if k == 2 else ''}"
        )
    if study.placebos:
        rate = "" if len(study.placebos) >= 20 else "; their rate of verdicts is reported from 20 arms on"
        number = len(study.placebos)
        arms = f"{plural(number, 'A/A arm')} (the baseline with other seeds) {'is' if number == 1 else 'are'}"
        notes.append(f"{arms} tested one by one, outside the family{rate}.")
    equal = [c.id for c in study.claims if c.says == "equal"]
    if study.anytime and equal:
        claims = f"Claims of equality ({', '.join(equal)})"
        notes.append(f"{claims} cannot be supported: an e-process cannot show equivalence.")
    return notes


def print_cost(study: "Study", cost: "Estimate", machine: "Machine") -> None:
    """Print what the study will cost on this machine, by the steps that were measured."""
    from knockout.sweep.progress import describe
    from knockout.trainers import DEFAULT_TRAINER

    devices, workers = machine.devices, machine.workers
    out.print("[bold]What it will cost here[/bold]")
    runs = len(study.seeds) * len(study.arms)
    most = "at most " if study.anytime else ""
    time = describe(cost.start_seconds + cost.seconds / workers)
    evaluation = "" if cost.evaluation_counted else ", without evaluation"
    measured = "on one whole run" if cost.whole else f"over a few steps of every variant{evaluation}"
    ours = study.trainer.path == DEFAULT_TRAINER and devices == ("cpu",)
    later = " (later up to 0.8 GB more per worker, for kernels of every batch size)" if ours else ""
    say(
        f"- about {time} for {most}{plural(runs, 'run')} with {plural(workers, 'worker')} on {devices[0]} "
        f"(measured {measured}), {cost.peak_bytes * workers / 1e9:.1f} GB of memory "
        f"at first{later}, {cost.disk_bytes / 1e6:.1f} MB of disk"
    )
    slowest = max(cost.paces, key=lambda name: cost.paces[name].seconds_per_step)
    pace = cost.paces[slowest]
    if pace.seconds_per_step:
        ms = 1000 * pace.seconds_per_step
        each = f"{ms:.0f}" if ms >= 10 else f"{ms:.2g}"
        say(f"- the slowest variant is {slowest}: {plural(pace.steps, 'step')} of {each} ms")
    for note in dict.fromkeys(p.note for p in cost.paces.values() if p.note):
        say(f"- {escape(study.trainer.path)}: {note}")
    if "test accuracy" in {p.objective for p in cost.paces.values()}:
        say("- it reports no validation split: what is shown of a run is its test accuracy")
    if (
        study.trainer.path != DEFAULT_TRAINER
        and not cost.whole
        and not any(pace.trouble for pace in cost.paces.values())
    ):
        say(f"- {escape(answer_text(cost.paces))}")
    for name, pace in cost.paces.items():
        if pace.trouble:
            say(f"- [red]{escape(name)} did not train[/red]: {escape(pace.trouble)}")


def answer_text(paces: "Mapping[str, Pace]") -> str:
    """Of which variants the answer of a trainer of one's own was checked, in words."""
    from knockout.sweep.estimate import ANSWER_SECONDS
    from knockout.sweep.progress import describe

    seen = [name for name, pace in paces.items() if pace.answered]
    if len(seen) == len(paces):
        return "the trainer's answer was checked, on one whole run of every variant"
    if seen:
        return f"the trainer's answer was checked on one whole run of {', '.join(seen)}, and not of the other variants"
    one = describe(next(iter(paces.values())).run_seconds)
    why = f"a run takes about {one}, and only what ends within {ANSWER_SECONDS:.0f} s is trained to its end here"
    return f"the trainer's answer was not checked: {why}"


def print_design(study: "Study", summary: "Mapping[str, Any]") -> None:
    """Print the variants, the seeds and the data of a study."""
    from knockout.variants import BASELINE, changes

    n, k = len(study.seeds), len(study.variants)
    say(f"[bold]{escape(study.name)}[/bold]: {escape(study.question)}")
    placebos = f" and {plural(len(study.placebos), 'placebo arm')}" if study.placebos else ""
    most = "at most " if study.anytime else ""
    total = f"{most}{plural(n, 'seed')} = {most}{plural(n * len(study.arms), 'run')}"
    say(f"{plural(k, 'variant')} and the baseline{placebos} x {total}, in blocks of one seed")
    if summary:
        text = 100 / summary["splits"]["test"]["count"]
        sizes = ", ".join(f"{split} {value['count']}" for split, value in summary["splits"].items())
        classes = plural(len(summary["classes"]), "class")
        say(f"data: {escape(summary['source'])} ({sizes}), {classes}, {summary['tokens']} tokens")
        print_chance(study.plan, summary["splits"]["test"]["labels"], f"one test example is {text:.2g} points")
        if text > study.plan.margin and study.plan.metric != "log_loss":
            say(f"[red]test is small[/red]: one example is more than the margin of {study.plan.margin:g} points")
        for note in summary["notes"]:
            say(f"  note: {escape(note)}")
        for reason, count in summary["dropped"].items():
            say(f"  dropped: {count} ({escape(reason)})")
    base = study.baseline
    if base.recipe is not None:
        say(f"recipe: {escape(fields_text(base.recipe))}")
    own = ", ".join(f"{key} {value_text(value)}" for key, (_, value) in changes(base.factors).items())
    default = "the defaults (`knockout list`)"
    rows = [(BASELINE, printable(": ".join(part for part in (base.system, own) if part) or default))]
    for name, arm in study.compared.items():
        if name != BASELINE:
            differs = [change_text(key, *pair) for key, pair in arm.differences(base).items()]
            rows.append((name, printable(", ".join(differs))))
    out.print(fitted((Column(name="variant", folds=True), Column(name="changes", folds=True)), rows, console=out))


def print_floors(floors: "Sequence[Floor]", metric: str) -> None:
    """Print what simpler models reach on the test split, and how they were made."""
    for line in floor_lines(floors, metric):
        out.print(safe(line), soft_wrap=True)
    for floor in floors:
        if floor.made:
            out.print(f"  {safe(floor.name)}: {safe(floor.made)}", soft_wrap=True)


def print_variants(variants: "Mapping[str, Any]", papers: "Mapping[str, str]") -> None:
    """Print registered variants, name -> factors: what each one changes, and its papers (see `papers_of`)."""
    from knockout.variants import changes, papers_of

    columns = (
        Column(name="variant", folds=True, least=NAMES),
        Column(name="changes", folds=True),
        Column(name="paper", folds=True, below=True),
    )
    rows = []
    for name, factors in variants.items():
        differs = changes(factors)
        text = ", ".join(change_text(k, *pair) for k, pair in differs.items()) or "nothing: the levels below"
        rows.append((name, text, "; ".join(papers_of({k: after for k, (_, after) in differs.items()}, papers))))
    out.print(fitted(columns, rows, console=out))


def print_systems(systems: "Mapping[str, Any]") -> None:
    """Print registered systems: the sizes and the training that each states, and where it comes from."""
    columns = (
        Column(name="system", folds=True, least=NAMES),
        Column(name="recipe", folds=True),
        Column(name="source", folds=True, below=True),
    )
    rows = [
        (name, ", ".join(f"{k} {value_text(v)}" for k, v in system.recipe.items()) or "the study's", system.source)
        for name, system in systems.items()
    ]
    out.print(fitted(columns, rows, console=out))


def print_fields(title: str, cls: type) -> None:
    """Print the fields of a trainer's `Factors` or `Recipe`: what each may be, and its default, as in a study file."""
    hints = get_type_hints(cls)
    rows = [
        (
            f"{f.metadata.get('section', 'train')}.{f.name}" if title == "key" else f.name,
            _allowed(hints[f.name], f.metadata),
            json.dumps(f.default),
        )
        for f in fields(cls)
    ]
    columns = (Column(name=title), Column(name="allowed", folds=True), Column(name="default", right=True))
    out.print(fitted(columns, rows, console=out))


def _allowed(hint: Any, limits: "Mapping[str, Any]") -> str:
    """The choices of a field, or its type and bounds, in words."""
    if get_origin(hint) is Literal:
        return ", ".join(json.dumps(value) for value in get_args(hint))
    if hint is bool:
        return "true, false"
    kinds: Mapping[Any, str] = {int: "an integer", float: "a number", str: "a text"}
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    bounds = [f"{sign} {limits[key]:g}" for key, sign in signs.items() if key in limits]
    return " ".join([kinds.get(hint, getattr(hint, "__name__", str(hint))), " and ".join(bounds)]).strip()


def print_chance(plan: "Plan", test_labels: "Sequence[int]", example: str) -> None:
    """Print what a run has to exceed so that it does not count as dead."""
    from knockout.analysis.stats.chance import chance_level, constant_score

    constant = constant_score(test_labels, plan.metric)
    if plan.metric == "log_loss":
        say(f"a run counts as dead unless its test log-loss is below {constant:.4f} nats (the class frequencies)")
        return
    if plan.metric == "macro_f1":
        blind = 100 / sum(n > 0 for n in test_labels)
        say(
            f"always guessing gives {100 * constant:.1f} % macro-F1, any answer that ignores the text at most about"
            f" {blind:.1f} %: a run that is no better counts as dead; {example}"
        )
        return
    count = sum(test_labels)
    bar = chance_level(test_labels, count=count, standard_errors=plan.dead_standard_errors).bound
    say(
        f"a run counts as alive above about {100 * bar:.1f} % test accuracy (always guessing gives"
        f" {100 * constant:.1f} %); {example}"
    )
    if bar - constant > SMALL_SPLIT:
        say(
            f"[red]test is small[/red]: with {plural(count, 'example')} a run must exceed chance level by"
            f" {100 * (bar - constant):.0f} points to count as alive"
        )
    if constant > UNEVEN_SHARE:
        say(
            f"[red]classes are uneven[/red]: always guessing has {100 * constant:.1f} % accuracy, so accuracy says"
            ' little; consider metric = "macro_f1" in \\[plan]'
        )


def change_text(factor: str, before: Any, after: Any) -> str:
    return f"{factor}: {value_text(before)} -> {value_text(after)}"


def fields_text(record: Any) -> str:
    """The fields of a dataclass as one line."""
    return ", ".join(f"{key} {value_text(value)}" for key, value in asdict(record).items())


def value_text(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
