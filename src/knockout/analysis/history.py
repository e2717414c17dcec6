"""Provenance: what was planned when, what has changed since, and what each number was made with."""

from collections.abc import Mapping, Sequence

from knockout.analysis.results import Results
from knockout.copies import Kind, copy_with, text_of
from knockout.design import DataSummary, Setting, Snapshot
from knockout.floor_text import TITLES, score_text
from knockout.job import Floor
from knockout.ledger import damaged_files
from knockout.overrides import content, lines_in
from knockout.plurals import plural
from knockout.source_changes import SourceChange
from knockout.strict import got_text
from knockout.variants import BASELINE

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
    shared += setting_changes(first.setting, now.setting)
    by_variant = {
        variant: [
            *shared,
            *(["added after the first run"] if variant not in first.variants else []),
            *_redefined(first.setting, now.setting, variant),
        ]
        for variant in results.variants
    }
    return {variant: "; ".join(reasons) for variant, reasons in by_variant.items() if reasons}


def setting_changes(first: Setting | None, now: Setting | None) -> list[str]:
    """What of recipe, data, baseline and trainer changed after the first run, each with the old and the new value.

    Empty where one of the two is not known: older versions did not record them.
    """
    if first is None or now is None:
        return []
    then, since = (f"{s.trainer} version {s.version}" for s in (first, now))
    lines = [_moved("the trainer", then, since)] if then != since else []
    lines += _differing("the recipe's", first.recipe, now.recipe)
    ids = [setting.data.get("id") for setting in (first, now)]
    if ids[0] != ids[1] and ids[0] is not None:
        # `sizes` is left out where all texts are kept
        old, new = ({"sizes": [0, 0, 0], **setting.data} for setting in (first, now))
        spec = [key for key in old if key != "id" and old[key] != new.get(key, old[key])]
        lines += [_moved(f"the data's {key}", got_text(old[key]), got_text(new[key])) for key in spec]
        lines += [] if spec else [_moved("the data", f"id {ids[0]}", f"id {ids[1]}")]
    return [*lines, *_redefined(first, now, BASELINE)]


def dropped(results: Results) -> list[str]:
    """Variants that were planned when the first run started, and are not any more. They still count in the family."""
    return list(results.design.dropped)


def later_placebos(results: Results) -> list[str]:
    """Placebo arms that were added after the first run. They make no other contrast exploratory."""
    return [p for p in results.placebos if p not in results.design.first.placebos]


def later_claims(results: Results) -> set[str]:
    """The ids of claims that were added, or say something else, since the first run."""
    first, now = results.design.first, results.design.now
    late = set(now.claims) - set(first.claims)
    text = _first_text(results)
    if first.study_sha256 != now.study_sha256 and text is not None:
        before = {c.get("id"): c for c in content(text).get("claims", [])}
        for claim in results.design.claims:
            then = before.get(claim.id, {})
            if (then.get("variant"), then.get("says")) != (claim.variant, claim.says):
                late.add(claim.id)
    return late


def unknown(results: Results) -> tuple[str, ...]:
    """What is not known any more of how the study was planned: sentences for the head of the report."""
    first, now = results.design.first, results.design.now
    said = list(results.design.rebuilt)
    if now.claims and first.study_sha256 != now.study_sha256 and _first_text(results) is None:
        said.append(
            "The study file changed after the first run, and its first copy (study.first.toml) is missing or changed:"
            " whether the claims say what they said then is not known."
        )
    return tuple(said)


def _first_text(results: Results) -> str | None:
    path = copy_with(results.root, "study", results.design.first.study_sha256)
    return None if path is None else text_of(path)


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
    base = design.described.get(design.baseline)
    if base is not None and (base.system or base.changes):
        own = _pairs({key: value for key, (_, value) in base.changes.items()})
        rows.append(("Baseline", ": ".join(part for part in (base.system, own) if part)))
    rows += [(f"Floor: {floor.name}", _floor(floor)) for floor in design.floors]
    rows += [("Recipe", _pairs(design.recipe))] if design.recipe else []
    differing = {v: design.described[v].own_batches for v in results.variants if v in design.described}
    unlike = ", ".join(f"{v} ({', '.join(keys)})" for v, keys in differing.items() if keys)
    rows += [("Batches", f"the same examples in the same order in all arms but {unlike}")] if unlike else []
    hours = design.budget.hours
    rows.append(("Budget", f"{hours:g} hour{'' if hours == 1 else 's'} of training" if hours else "no limit"))
    overridden = f" (the study's own: {', '.join(design.overridden)})" if design.overridden else ""
    family = plural(len(results.variants) + len(dropped(results)), "contrast")
    judged = (
        f"test {plan.metric}, paired t test, Holm over {family},"
        f" alpha {plan.alpha:g}, margin {results.metric.size(plan.margin)}{overridden}"
    )
    rows.append(("Judged by", judged))
    return [*rows, *([("Set on the command line", "; ".join(lines))] if (lines := _set_lines(results)) else [])]


def _floor(floor: Floor) -> str:
    """Its scores, and how it was made."""
    scores = ", ".join(f"{TITLES[metric]} {score_text(metric, value)}" for metric, value in floor.scores.items())
    return f"{scores} ({floor.made or 'stated by the trainer'})"


def _set_lines(results: Results) -> tuple[str, ...]:
    """What `--set` put in the place of the study file's values, as the copy of the newest run says."""
    path = copy_with(results.root, "study", results.design.now.study_sha256, newest=True)
    return lines_in("" if path is None else text_of(path) or "")


def provenance_rows(results: Results, *, version: str) -> list[tuple[str, str]]:
    """What a reader needs to trace the numbers, as (name, value)."""
    design, data, first, now = results.design, results.design.data, results.design.first, results.design.now
    rows = [
        ("Study", f"{design.study}, sha256 {now.study_sha256}, {_changed(first.study_sha256, now.study_sha256)}"),
        ("Plan", f"sha256 {now.plan_sha256}, {_plan_changed(first, now)}"),
        *([("Copies", copies)] if (copies := _copies(results)) else []),
        ("Trainer", f"{design.trainer}, version {design.version}"),
        *_source_rows(results.change),
        ("Data", f"id {data.id}"),
    ]
    added = [v for v in results.variants if v not in first.variants]
    rows += [("Variants added since the first run", ", ".join(added))] if added else []
    gone = dropped(results)
    rows += [("Variants dropped since the first run", f"{', '.join(gone)} (still counted by Holm)")] if gone else []
    unjudged = [claim for claim in first.claims if claim not in now.claims]
    rows += [("Claims dropped since the first run", f"{', '.join(unjudged)} (not judged)")] if unjudged else []
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
    rows += [("Damaged file", line) for _, line in damaged_files(results.root)]
    return [*rows, *(("Not checked", note) for note in results.notes)]


def source_warnings(results: Results) -> tuple[str, ...]:
    """The warning that results come from several sources of the trainer, or that it has changed since."""
    change = results.change
    return tuple(f"{line[:1].upper()}{line[1:]}." for line in change.lines)


def _source_rows(change: SourceChange) -> list[tuple[str, str]]:
    made = [f"sha256 {source} ({plural(n, 'run')})" for source, n in change.recorded.items()]
    made += [f"not recorded ({plural(change.unrecorded, 'run')})"] if change.recorded and change.unrecorded else []
    return [("Source of the trainer", "; ".join(made))] if made else []


def trained_with(results: Results) -> list[tuple[str, str]]:
    """The software that trained the runs, as (name, "name version"), as far as the records say."""
    names = {"torch": "torch", "python": "Python", "knockout": "knockout"}
    rows = []
    for column, name in names.items():
        known = sorted({str(v) for v in results.costs[column].dropna()}) if column in results.costs else []
        rows += [(name, f"{name} {' and '.join(known)}")] if known else []
    return rows


def workers(results: Results) -> str:
    """How many workers shared the machine, as the records say."""
    workers = results.costs.get("workers")
    counts = [] if workers is None else sorted({int(n) for n in workers.dropna()})
    if not counts:
        return "an unrecorded number of workers"
    return f"{' or '.join(map(str, counts))} worker{'' if counts == [1] else 's'}"


def _plan_changed(first: Snapshot, now: Snapshot) -> str:
    changed = _changed(first.plan_sha256, now.plan_sha256)
    if first.plan == now.plan and first.plan_sha256 != now.plan_sha256:
        return f"of other text than at the first run ({first.plan_sha256}), and with the same value of every key"
    return changed


def _changed(first: str, now: str) -> str:
    return "unchanged since the first run" if first == now else f"CHANGED since the first run ({first})"


def _copies(results: Results) -> str:
    """Which copy of the study file and of the plan is which; empty where none is there."""
    named = []
    for when, snapshot, newest in (
        ("of this report", results.design.now, True),
        ("of the first run", results.design.first, False),
    ):
        sums: list[tuple[Kind, str]] = [("study", snapshot.study_sha256), ("plan", snapshot.plan_sha256)]
        paths = [copy_with(results.root, kind, sha256, newest=newest) for kind, sha256 in sums]
        names = [path.name for path in paths if path is not None]
        named += [f"{' and '.join(names)} {when}"] if names else []
    return "; ".join(named)


def _moved(what: str, then: str, since: str) -> str:
    return f"{what} changed from {then} to {since} after the first run"


def _differing(
    whose: str, first: Mapping[str, tuple[object, object]], now: Mapping[str, tuple[object, object]]
) -> list[str]:
    """One line for each key with another value. A key that only one of the two has counts with its default there."""
    lines = []
    for key in dict.fromkeys([*first, *now]):
        then = first[key][1] if key in first else now[key][0]
        since = now[key][1] if key in now else first[key][0]
        lines += [_moved(f"{whose} {key}", got_text(then), got_text(since))] if then != since else []
    return lines


def _redefined(first: Setting | None, now: Setting | None, variant: str) -> list[str]:
    """The factors of a variant that have another level than when the first run started."""
    if first is None or now is None or variant not in first.factors or variant not in now.factors:
        return []
    whose = "the baseline's" if variant == BASELINE else "its"
    return _differing(whose, first.factors[variant], now.factors[variant])


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
