"""The key `cross` of a study file: full factorials of variants. Cells that are no variant yet are added as variants."""

import dataclasses
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from knockout.strict import Fault, got_text, nearest
from knockout.trainers import Trainer
from knockout.variants import BASELINE, changes

MAX_CROSSED = 5  # 2^5 cells
MAX_NAME = 64  # as of every variant


def cross_variants(
    raw: object, factors: Mapping[str, Any], *, named: object, trainer: Trainer | None, recipe: Any, file: str
) -> tuple[dict[str, Any], tuple[tuple[str, ...], ...], list[Fault]]:
    """The variants that full factorials lack (name -> factors, pairs before threes), the crossings, and the faults.

    `raw` is the value of `cross`, `factors` holds the variants that the study runs already, including the baseline, and
    `named` is the value of `variants`.
    """
    allowed = f'lists of 2 to {MAX_CROSSED} different names of `variants`, such as [["one", "another"]]'
    if not isinstance(raw, list) or not all(isinstance(axes, list) for axes in raw):
        return {}, (), [Fault(file=file, key="cross", got=f"got {got_text(raw)}", allowed=allowed)]
    named = named if isinstance(named, list) else []  # a name of these that is no variant is a fault already
    run = [name for name in factors if name != BASELINE]
    collected: list[Fault] = []
    known, there = dict(factors), set(factors.values())
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
        for name in unknown if factors else ():
            got, hint = f'"{name}" is not among the variants of this study', nearest(name, run)
            if name == BASELINE:
                got, hint = "the baseline is a cell of every factorial and not named here", ""
            collected.append(Fault(file=file, key=key, got=got, allowed=", ".join(run), nearest=hint))
        if trainer is None or not all(name in run for name in axes):
            continue
        crossings[frozenset(axes)] = tuple(axes)
        new, wrong = _cells(axes, known, there, trainer, recipe, Fault(file=file, key=key))
        known |= new
        there |= set(new.values())
        collected += wrong
    cells = {name: value for name, value in known.items() if name not in factors}
    return cells, tuple(crossings.values()), collected


def _cells(
    axes: list[str], known: Mapping[str, Any], there: set[Any], trainer: Trainer, recipe: Any, at: Fault
) -> tuple[dict[str, Any], list[Fault]]:
    """The combinations of the axes that are not there yet, name -> factors, pairs first. `at`: where they stand."""
    own = {axis: {factor: after for factor, (_, after) in changes(known[axis]).items()} for axis in axes}
    collected: list[Fault] = []
    for one, other in combinations(axes, 2):
        if both := [factor for factor in own[one] if factor in own[other]]:
            got = f'"{one}" and "{other}" both change {", ".join(both)}'
            collected.append(dataclasses.replace(at, got=got, allowed="variants that change different factors"))
    if collected:
        return {}, collected
    checked = recipe is not None or trainer.recipe is None
    of_axes = {fault for axis in axes if checked for fault in trainer.faults(known[axis], recipe).items()}
    cells: dict[str, Any] = {}
    for chosen in (c for size in range(2, len(axes) + 1) for c in combinations(axes, size)):
        value = dataclasses.replace(known[BASELINE], **{k: v for axis in chosen for k, v in own[axis].items()})
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
        for factor, why in trainer.faults(value, recipe).items() if checked else ():
            if (factor, why) not in of_axes:  # a fault of an axis alone is reported there
                given = getattr(value, factor, getattr(recipe, factor, None))  # of the factors, or of the recipe
                got = f"{factor} = {got_text(given)} {why}"
                collected.append(Fault(file=at.file, key=f"variant {name}", got=got))
    return cells, collected
