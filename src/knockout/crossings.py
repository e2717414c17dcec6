"""The key `cross` of a study file: full factorials of variants. Cells that are no variant yet are added as variants."""

import dataclasses
from collections.abc import Mapping
from itertools import combinations

from knockout.arms import Arm, build_faults
from knockout.strict import Fault, got_text, nearest
from knockout.trainers import Trainer
from knockout.variants import BASELINE

MAX_CROSSED = 5  # 2^5 cells
MAX_NAME = 64  # as of every variant


def cross_variants(
    raw: object, arms: Mapping[str, Arm], *, named: object, trainer: Trainer | None, file: str
) -> tuple[dict[str, Arm], tuple[tuple[str, ...], ...], list[Fault]]:
    """The variants that full factorials lack (name -> arm, pairs before threes), the crossings, and the faults.

    `raw` is the value of `cross`, `arms` holds the variants that the study runs already, including the baseline, and
    `named` is the value of `variants`.
    """
    allowed = f'lists of 2 to {MAX_CROSSED} different names of `variants`, such as [["one", "another"]]'
    if not isinstance(raw, list) or not all(isinstance(axes, list) for axes in raw):
        return {}, (), [Fault(file=file, key="cross", got=f"got {got_text(raw)}", allowed=allowed)]
    named = named if isinstance(named, list) else []  # a name of these that is no variant is a fault already
    run = [name for name in arms if name != BASELINE]
    collected: list[Fault] = []
    known, there = dict(arms), set(arms.values())
    crossings: dict[frozenset[str], tuple[str, ...]] = {}
    for i, axes in enumerate(raw, 1):
        key = f"cross {i}"
        if not 2 <= len(axes) <= MAX_CROSSED or not all(isinstance(a, str) for a in axes) or len(set(axes)) < len(axes):
            collected.append(Fault(file=file, key=key, got=f"got {got_text(axes)}", allowed=allowed))
            continue
        if frozenset(axes) in crossings:
            collected.append(Fault(file=file, key=key, got="the same names are crossed twice", allowed="once"))
            continue
        unknown = [name for name in axes if name not in run and (name == BASELINE or name not in named)]
        for name in unknown if arms else ():
            got, hint = f'"{name}" is not among the variants of this study', nearest(name, run)
            if name == BASELINE:
                got, hint = "the baseline is a cell of every factorial and not named here", ""
            collected.append(Fault(file=file, key=key, got=got, allowed=", ".join(run), nearest=hint))
        if trainer is None or not all(name in run for name in axes):
            continue
        crossings[frozenset(axes)] = tuple(axes)
        new, wrong = _cells(axes, known, there, trainer, Fault(file=file, key=key))
        known |= new
        there |= set(new.values())
        collected += wrong
    cells = {name: value for name, value in known.items() if name not in arms}
    return cells, tuple(crossings.values()), collected


def _cells(
    axes: list[str], known: Mapping[str, Arm], there: set[Arm], trainer: Trainer, at: Fault
) -> tuple[dict[str, Arm], list[Fault]]:
    """The combinations of the axes that are not there yet, name -> arm, pairs first. `at`: where they stand."""
    base = known[BASELINE]
    own = {axis: {k: after for k, (_, after) in known[axis].differences(base).items()} for axis in axes}
    collected: list[Fault] = []
    for one, other in combinations(axes, 2):
        if both := [factor for factor in own[one] if factor in own[other]]:
            got = f'"{one}" and "{other}" both change {", ".join(both)}'
            collected.append(dataclasses.replace(at, got=got, allowed="variants that change different factors"))
    if collected:
        return {}, collected
    of_axes = {fault.got for axis in axes for fault in build_faults(trainer, known[axis], at.file, axis)}
    cells: dict[str, Arm] = {}
    for chosen in (c for size in range(2, len(axes) + 1) for c in combinations(axes, size)):
        value = base.changed({k: v for axis in chosen for k, v in own[axis].items()})
        if value in there:
            continue
        name = "__and__".join(chosen)
        if name in known or len(name) > MAX_NAME:
            taken = "is a variant that changes something else"
            why = taken if name in known else f"has {len(name)} characters, above {MAX_NAME}"
            got = f"the name of a cell, {got_text(name)}, {why}"
            way = f"[variant.NAME] of your own with the changes of {' and '.join(chosen)}, listed in `variants`"
            collected.append(dataclasses.replace(at, got=got, allowed=way))
            continue
        cells[name] = value
        faults = build_faults(trainer, value, at.file, f"variant {name}")
        collected += [fault for fault in faults if fault.got not in of_axes]  # a fault of an axis alone stands there
    return cells, collected
