"""The two studies of a diff: how they are read, why they cannot be compared, and what differs between their designs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from knockout.analysis.history import MADE_WITH
from knockout.analysis.inference.pairs import Seed
from knockout.analysis.results import Results, load
from knockout.design import absence, read_design
from knockout.errors import UserError
from knockout.ledger import read_packed
from knockout.strict import got_text

Levels = Mapping[str, tuple[object, object]]
"""key -> its default, its value"""


class DiffError(UserError, ValueError):
    """Two studies that cannot be compared; the text says how they can."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One thing that differs between the designs. `before` and `after`: its value in A and in B, as JSON has it."""

    of: str
    """what it belongs to: "recipe", "data", "plan", "trainer", "libraries", or the name of an arm"""
    key: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.of}: {self.key}: {got_text(self.before)} -> {got_text(self.after)}"


def read_side(path: Path) -> Results:
    """A study's folder, or one of its packed files with the design.json beside it.

    Raises `DiffError` for a file that holds no records, or has no design beside it, and `ResultsError` as `load` does.
    """
    if not path.is_file():
        if not path.exists():
            raise DiffError(f"{path}: no such folder or file: name a study's folder, or a file of packed records")
        return load(path)
    ledger = read_packed(path)
    if not ledger.records and not ledger.attempts:
        why = ledger.damaged[0] if ledger.damaged else f"{path.name}: no records"
        raise DiffError(f"{path.parent / why}; `knockout pack` writes a study's records into one file")
    design = read_design(path.parent)
    if design is None:
        raise DiffError(f"{path}: its study's design.json has to lie beside it: {absence(path.parent)}")
    results = load(path.parent, ledger=ledger)
    if not results.runs["status"].ne("missing").any():
        raise DiffError(f"{path}: none of its records is of the study in {path.parent / 'design.json'}")
    return results


def check_comparable(before: Results, after: Results) -> None:
    """Raise `DiffError` where a difference between runs of one seed would not mean anything, with the way on."""
    metrics = before.metric.name, after.metric.name
    if metrics[0] != metrics[1]:
        raise DiffError(
            f"A is judged by {metrics[0]} and B by {metrics[1]}: set the same metric in [plan] of both study files and"
            " call `knockout run`, which trains nothing again for it"
        )
    ids = before.design.data.id, after.design.data.id
    if ids[0] != ids[1] and all(ids):
        keys = sorted((d for d in _data(before, after) if d.key != "id"), key=lambda d: d.key != "source")
        what = ", ".join(f"{d.key} {got_text(d.before)} and {got_text(d.after)}" for d in keys[:3])
        what = what or f"id {ids[0][:12]} and {ids[1][:12]}"
        raise DiffError(
            f"A and B have other data ({what}), so their runs of one seed are no pairs: run both on the same data, or"
            " compare the variants within each with `knockout report`"
        )
    sizes = [side.runs["test_count"].dropna() for side in (before, after)]
    counts = [int(size.iloc[0]) if len(size) else None for size in sizes]
    if None not in counts and counts[0] != counts[1]:
        raise DiffError(
            f"A was tested on {counts[0]:,} examples and B on {counts[1]:,}: evaluate both on the same test examples"
        )
    labels = before.labels_sha256, after.labels_sha256
    if None not in labels and labels[0] != labels[1]:
        raise DiffError("A and B have test examples with other labels, or in another order: evaluate both on the same")


def common_arms(before: Results, after: Results) -> list[str]:
    """The arms that both have, in A's order, the baseline first. Raises `DiffError` where there are none."""
    theirs = _arms(after)
    arms = [name for name in _arms(before) if name in theirs]
    if not arms:
        names = ", ".join(_arms(before)[:8]), ", ".join(theirs[:8])
        raise DiffError(f"A and B have no arm in common (A: {names[0]}; B: {names[1]}): give them the same names")
    return arms


def common_seeds(before: Results, after: Results) -> list[Seed]:
    """The seeds that both planned; of a study that added seeds until all was decided, those that it ran.

    Raises `DiffError` where there are none, or no run of them has a result in both.
    """
    own = [_seeds(side) for side in (before, after)]
    seeds: list[Seed] = [seed for seed in own[0] if seed in own[1]]
    if not seeds:
        shown = [", ".join(map(str, seeds[:8])) or "none" for seeds in own]
        raise DiffError(
            f"A and B have no seed in common (A: {shown[0]}; B: {shown[1]}): run one of them with the seeds of the"
            " other, such as `knockout run STUDY --set seeds=5`"
        )
    for name, side in (("A", before), ("B", after)):
        if not side.runs["status"].isin(["finished", "diverged"]).any():
            raise DiffError(f"{name}: {side.root}: no run has a result yet: continue it with `knockout run`")
    return seeds


def arms_only(side: Results, other: Results) -> list[str]:
    """The arms that the other does not have."""
    return [name for name in _arms(side) if name not in _arms(other)]


def design_differences(before: Results, after: Results) -> list[Difference]:
    """What differs between the designs, and between the machines and libraries that the runs were made with."""
    a, b = before.design, after.design
    rows = [("study", a.study, b.study), ("path", a.trainer, b.trainer), ("version", a.version, b.version)]
    found = [
        Difference(of="study" if key == "study" else "trainer", key=key, before=x, after=y)
        for key, x, y in rows
        if x != y
    ]
    sources = [sorted(side.change.recorded) for side in (before, after)]
    if all(sources) and sources[0] != sources[1]:
        found.append(Difference(of="trainer", key="source", before=sources[0], after=sources[1]))
    settings = a.now.setting, b.now.setting
    if settings[0] is not None and settings[1] is not None:
        found += _differing("recipe", settings[0].recipe, settings[1].recipe)
        for arm in settings[0].factors:
            if arm in settings[1].factors:
                found += _differing(arm, settings[0].factors[arm], settings[1].factors[arm])
    found += _data(before, after)
    plans = asdict(a.now.plan), asdict(b.now.plan)
    found += [
        Difference(of="plan", key=key, before=_plain(plans[0][key]), after=_plain(plans[1][key]))
        for key in plans[0]
        if key in plans[1] and key != "absent" and plans[0][key] != plans[1][key]
    ]
    if before.seeds != after.seeds:
        found.append(Difference(of="plan", key="seeds", before=before.seeds, after=after.seeds))
    return found + _made_with(before, after)


def _data(before: Results, after: Results) -> list[Difference]:
    settings = before.design.now.setting, after.design.now.setting
    if settings[0] is None or settings[1] is None:
        ids = before.design.data.id, after.design.data.id
        return [Difference(of="data", key="id", before=ids[0], after=ids[1])] if ids[0] != ids[1] else []
    # `sizes` is left out where all texts are kept
    old, new = ({"sizes": [0, 0, 0], **setting.data} for setting in settings if setting is not None)
    return [
        Difference(of="data", key=key, before=_plain(old.get(key)), after=_plain(new.get(key)))
        for key in dict.fromkeys([*old, *new])
        if old.get(key) != new.get(key)
    ]


def _differing(of: str, before: Levels, after: Levels) -> list[Difference]:
    """A key that only one of the two has counts with its default in the other: older versions lack it."""
    found = []
    for key in dict.fromkeys([*before, *after]):
        old = before[key][1] if key in before else after[key][0]
        new = after[key][1] if key in after else before[key][0]
        if old != new:
            found.append(Difference(of=of, key=key, before=_plain(old), after=_plain(new)))
    return found


def _made_with(before: Results, after: Results) -> list[Difference]:
    found = []
    for name, column in MADE_WITH.items():
        values = [
            sorted({str(v) for v in side.costs[column].dropna()}) if column in side.costs else []
            for side in (before, after)
        ]
        if all(values) and values[0] != values[1]:
            old, new = (", ".join(each) for each in values)
            found.append(Difference(of="libraries and machine", key=name, before=old, after=new))
    return found


def _arms(side: Results) -> list[str]:
    return [side.baseline, *side.variants, *side.placebos]


def _seeds(side: Results) -> Sequence[Seed]:
    return side.seeds if side.anytime is None else side.complete_seeds


def _plain(value: object) -> Any:
    return list(value) if isinstance(value, tuple) else value
