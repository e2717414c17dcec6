"""Provenance: what was planned when, what has changed since, and what each number was made with."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from knockout.analysis.results import Results
from knockout.study import Plan

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
    first, now = results.design["first"], results.design["now"]
    everything = []
    before, after = (told.get("anytime") for told in (first, now))
    if before and after:  # an e-process may be given more seeds at any time
        if before["process"] != after["process"]:
            everything.append("the e-process changed after the first run")
    elif list(first["seeds"]) != list(now["seeds"]) or bool(before) != bool(after):
        everything.append("the seeds changed after the first run")
    default = asdict(Plan())  # what a design says that was made before a key was there
    turned = [k for k in JUDGING if first["plan"].get(k, default[k]) != now["plan"].get(k, default[k])]
    if turned:
        everything.append(f"the plan's {', '.join(turned)} changed after the first run")
    found = {}
    for variant in results.variants:
        reasons = [*everything, *(["added after the first run"] if variant not in first["variants"] else [])]
        if reasons:
            found[variant] = "; ".join(reasons)
    return found


def dropped(results: Results) -> list[str]:
    """Variants that were planned when the first run started, and are not any more. They still count in the family."""
    return [v for v in results.design["first"]["variants"] if v not in results.variants]


def later_placebos(results: Results) -> list[str]:
    """Placebo arms that were added after the first run. They make no other contrast exploratory."""
    return [p for p in results.placebos if p not in results.design["first"].get("placebos", [])]


def later_claims(results: Results) -> set[str]:
    """The ids of claims that were added, or say something else, since the first run."""
    first, now = results.design["first"], results.design["now"]
    late = {i for i in now["claims"] if i not in first["claims"]}
    copy = results.root / "study.toml"
    if first["study_sha256"] != now["study_sha256"] and copy.is_file():
        before = {c.get("id"): c for c in tomllib.loads(copy.read_text(encoding="utf-8-sig")).get("claims", [])}
        for claim in results.design["claims"]:
            then = before.get(claim["id"], {})
            if (then.get("variant"), then.get("says")) != (claim["variant"], claim["says"]):
                late.add(claim["id"])
    return late


def design_rows(results: Results) -> list[tuple[str, str]]:
    """The design at a glance."""
    design, plan = results.design, results.plan
    data, splits = design["data"], design["data"].get("splits", {})
    rows = [("Variants", f"{len(results.variants)} and the baseline"), ("Seeds", _planned(results))]
    if results.placebos:
        rows.append(("Placebo arms", f"{len(results.placebos)}: the baseline on other streams"))
    if splits:
        order = [name for name in ("train", "validation", "test") if name in splits]
        sizes = ", ".join(f"{name} {splits[name]['count']:,}" for name in order)
        rows.append(("Data", f"{data.get('source', '')}: {sizes} texts"))
    if data.get("classes"):
        rows.append(("Classes", ", ".join(map(str, data["classes"])) + _majority(splits)))
    if data.get("tokens"):
        rows.append(("Tokens", f"{data['tokens']}, up to {data['max_length']}, vocabulary {data['vocabulary']:,}"))
    rows += [("Recipe", _pairs(design["recipe"]))] if design["recipe"] else []
    hours = design["budget"]["hours"]
    rows.append(("Budget", f"{hours:g} hour{'' if hours == 1 else 's'} of training" if hours else "no limit"))
    overridden = f" (the study's own: {', '.join(design['overridden'])})" if design["overridden"] else ""
    judged = (
        f"test {plan.metric}, paired t test, Holm over {len(results.variants) + len(dropped(results))} contrasts,"
        f" alpha {plan.alpha:g}, margin {results.metric.size(plan.margin)}{overridden}"
    )
    return [*rows, ("Judged by", judged)]


def provenance_rows(results: Results, *, version: str) -> list[tuple[str, str]]:
    """What a reader needs to trace the numbers, as (name, value)."""
    design, data = results.design, results.design["data"]
    first, now = design["first"], design["now"]
    rows = [
        ("Study", f"{design['study']}, sha256 {now['study_sha256']}, {_changed(first, now, 'study_sha256')}"),
        ("Plan", f"sha256 {now['plan_sha256']}, {_changed(first, now, 'plan_sha256')}"),
        ("Trainer", f"{design['trainer']}, version {design['version']}"),
        ("Data", f"id {data['id']}"),
    ]
    added = [v for v in results.variants if v not in first["variants"]]
    rows += [("Variants added since the first run", ", ".join(added))] if added else []
    gone = dropped(results)
    rows += [("Variants dropped since the first run", f"{', '.join(gone)} (still counted by Holm)")] if gone else []
    late = later_placebos(results)
    rows += [("Placebo arms added since the first run", ", ".join(late))] if late else []
    if list(first["seeds"]) != list(now["seeds"]):
        rows.append(("Seeds when the first run started", _seeds([int(s) for s in first["seeds"]])))
    rows += [("Rows dropped", f"{reason}: {n:,}") for reason, n in data.get("dropped", {}).items()]
    rows += [("Note on the data", str(note)) for note in data.get("notes", [])]
    costs = results.costs
    for name, column in MADE_WITH.items():
        if column in costs:
            values = sorted({str(v) for v in costs[column].dropna()})
            rows += [(name, ", ".join(values))] if values else []
    rows.append(("Knockout that reports", version))
    rows.append(("Records of other designs in the folder", f"{results.others}"))
    rows += [("Damaged record", line) for line in results.damaged]
    return [*rows, *(("Not checked", note) for note in results.notes)]


def workers(results: Results) -> str:
    """How many workers shared the machine, as the records say."""
    told = results.costs.get("workers")
    counts = [] if told is None else sorted({int(n) for n in told.dropna()})
    if not counts:
        return "an unrecorded number of workers"
    return f"{' or '.join(map(str, counts))} worker{'' if counts == [1] else 's'}"


def _changed(first: Mapping[str, Any], now: Mapping[str, Any], key: str) -> str:
    return "unchanged since the first run" if first[key] == now[key] else f"CHANGED since the first run ({first[key]})"


def _planned(results: Results) -> str:
    told = _seeds(results.seeds)
    if results.anytime is None:
        return told
    return f"at most {told}, in order until the {results.anytime} e-process has decided every contrast"


def _seeds(seeds: Sequence[int]) -> str:
    whole = list(seeds) == list(range(seeds[0], seeds[0] + len(seeds)))
    text = f"{seeds[0]} to {seeds[-1]}" if whole and len(seeds) > 2 else ", ".join(map(str, seeds))
    return f"{len(seeds)} ({text})"


def _majority(splits: Mapping[str, Any]) -> str:
    labels = splits.get("test", {}).get("labels", [])
    return f" (always the commonest: {100 * max(labels) / sum(labels):.1f} % of the test split)" if sum(labels) else ""


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} {v}" for k, v in values.items())
