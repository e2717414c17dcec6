"""Provenance: what was planned when, what has changed since, and what each number was made with."""

import tomllib
from collections.abc import Mapping, Sequence

from knockout.analysis.results import Results
from knockout.design import DataSummary
from knockout.source_changes import SourceChange

JUDGING = ("metric", "alpha", "margin", "dead_standard_errors")
"""The keys of a plan that can change a verdict."""

MADE_WITH = {
    "Host": "host",
    "Platform": "platform",
    "Processor": "cpu",
    "Device": "device",
    "Device name": "device_name",
    "Precision": "precision",
    "Threads per run": "threads",
    "torch": "torch",
    "Python": "python",
    "Knockout that trained": "knockout",
}
"""What provenance calls a column of the costs; a trainer need not tell them all."""


def exploratory(results: Results) -> dict[str, str]:
    """variant -> why its contrast is exploratory: something of it was fixed only after the first run had started."""
    first, now = results.design.first, results.design.now
    shared = []
    if first.anytime and now.anytime:  # an e-process may be given more seeds at any time
        if first.anytime.process != now.anytime.process:
            shared.append("the e-process changed after the first run")
    elif first.seeds != now.seeds or bool(first.anytime) != bool(now.anytime):
        shared.append("the seeds changed after the first run")
    changed = [key for key in JUDGING if getattr(first.plan, key) != getattr(now.plan, key)]
    if changed:
        shared.append(f"the plan's {', '.join(changed)} changed after the first run")
    by_variant = {
        variant: [*shared, *(["added after the first run"] if variant not in first.variants else [])]
        for variant in results.variants
    }
    return {variant: "; ".join(reasons) for variant, reasons in by_variant.items() if reasons}


def dropped(results: Results) -> list[str]:
    """Variants that were planned when the first run started, and are not any more. They still count in the family."""
    return [v for v in results.design.first.variants if v not in results.variants]


def later_placebos(results: Results) -> list[str]:
    """Placebo arms that were added after the first run. They make no other contrast exploratory."""
    return [p for p in results.placebos if p not in results.design.first.placebos]


def later_claims(results: Results) -> set[str]:
    """The ids of claims that were added, or say something else, since the first run."""
    first, now = results.design.first, results.design.now
    late = set(now.claims) - set(first.claims)
    copy = results.root / "study.toml"
    if first.study_sha256 != now.study_sha256 and copy.is_file():
        before = {c.get("id"): c for c in tomllib.loads(copy.read_text(encoding="utf-8-sig")).get("claims", [])}
        for claim in results.design.claims:
            then = before.get(claim.id, {})
            if (then.get("variant"), then.get("says")) != (claim.variant, claim.says):
                late.add(claim.id)
    return late


def design_rows(results: Results) -> list[tuple[str, str]]:
    """The design at a glance."""
    design, plan, data = results.design, results.plan, results.design.data
    rows = [("Variants", f"{len(results.variants)} and the baseline"), ("Seeds", _planned(results))]
    if results.placebos:
        rows.append(("Placebo arms", f"{len(results.placebos)}: the baseline on other streams"))
    if data.splits:
        order = [name for name in ("train", "validation", "test") if name in data.splits]
        sizes = ", ".join(f"{name} {data.splits[name].count:,}" for name in order)
        rows.append(("Data", f"{data.source}: {sizes} texts"))
    if data.classes:
        rows.append(("Classes", ", ".join(data.classes) + _majority(data)))
    if data.tokens:
        rows.append(("Tokens", f"{data.tokens}, up to {data.max_length}, vocabulary {data.vocabulary:,}"))
    rows += [("Recipe", _pairs(design.recipe))] if design.recipe else []
    hours = design.budget.hours
    rows.append(("Budget", f"{hours:g} hour{'' if hours == 1 else 's'} of training" if hours else "no limit"))
    overridden = f" (the study's own: {', '.join(design.overridden)})" if design.overridden else ""
    judged = (
        f"test {plan.metric}, paired t test, Holm over {len(results.variants) + len(dropped(results))} contrasts,"
        f" alpha {plan.alpha:g}, margin {results.metric.size(plan.margin)}{overridden}"
    )
    return [*rows, ("Judged by", judged)]


def provenance_rows(results: Results, *, version: str) -> list[tuple[str, str]]:
    """What a reader needs to trace the numbers, as (name, value)."""
    design, data, first, now = results.design, results.design.data, results.design.first, results.design.now
    rows = [
        ("Study", f"{design.study}, sha256 {now.study_sha256}, {_changed(first.study_sha256, now.study_sha256)}"),
        ("Plan", f"sha256 {now.plan_sha256}, {_changed(first.plan_sha256, now.plan_sha256)}"),
        ("Trainer", f"{design.trainer}, version {design.version}"),
        *_source_rows(results.change),
        ("Data", f"id {data.id}"),
    ]
    added = [v for v in results.variants if v not in first.variants]
    rows += [("Variants added since the first run", ", ".join(added))] if added else []
    gone = dropped(results)
    rows += [("Variants dropped since the first run", f"{', '.join(gone)} (still counted by Holm)")] if gone else []
    late = later_placebos(results)
    rows += [("Placebo arms added since the first run", ", ".join(late))] if late else []
    if first.seeds != now.seeds:
        rows.append(("Seeds when the first run started", _seeds(first.seeds)))
    rows += [("Rows dropped", f"{reason}: {n:,}") for reason, n in data.dropped.items()]
    rows += [("Note on the data", note) for note in data.notes]
    costs = results.costs
    for name, column in MADE_WITH.items():
        if column in costs:
            values = sorted({str(v) for v in costs[column].dropna()})
            rows += [(name, ", ".join(values))] if values else []
    rows.append(("Knockout that reports", version))
    rows.append(("Records of other designs in the folder", f"{results.others}"))
    rows += [("Damaged record", line) for line in results.damaged]
    return [*rows, *(("Not checked", note) for note in results.notes)]


def source_warnings(results: Results) -> tuple[str, ...]:
    """The warning that results come from several sources of the trainer, or that it has changed since."""
    change = results.change
    return tuple(f"{line[:1].upper()}{line[1:]}." for line in change.lines)


def _source_rows(change: SourceChange) -> list[tuple[str, str]]:
    made = [f"sha256 {source} ({n} runs)" for source, n in change.recorded.items()]
    made += [f"not recorded ({change.unrecorded} runs)"] if change.recorded and change.unrecorded else []
    return [("Source of the trainer", "; ".join(made))] if made else []


def workers(results: Results) -> str:
    """How many workers shared the machine, as the records say."""
    workers = results.costs.get("workers")
    counts = [] if workers is None else sorted({int(n) for n in workers.dropna()})
    if not counts:
        return "an unrecorded number of workers"
    return f"{' or '.join(map(str, counts))} worker{'' if counts == [1] else 's'}"


def _changed(first: str, now: str) -> str:
    return "unchanged since the first run" if first == now else f"CHANGED since the first run ({first})"


def _planned(results: Results) -> str:
    seeds = _seeds(results.seeds)
    if results.anytime is None:
        return seeds
    return f"at most {seeds}, in order until the {results.anytime} e-process has decided every contrast"


def _seeds(seeds: Sequence[int]) -> str:
    whole = list(seeds) == list(range(seeds[0], seeds[0] + len(seeds)))
    text = f"{seeds[0]} to {seeds[-1]}" if whole and len(seeds) > 2 else ", ".join(map(str, seeds))
    return f"{len(seeds)} ({text})"


def _majority(data: DataSummary) -> str:
    labels = data.label_counts.get("test", ())
    return f" (always the commonest: {100 * max(labels) / sum(labels):.1f} % of the test split)" if sum(labels) else ""


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{k} {v}" for k, v in values.items())
