"""What is compared: the variants and their order, the levels of factors, and arguments that make no sense."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from knockout.analysis.external.frame import FrameError, short_list
from knockout.analysis.inference.pairs import Seed
from knockout.strict import build, nearest
from knockout.study import Plan


def run_rows(
    names: Sequence[str], seeds: Sequence[Seed], states: Sequence[str], values: Sequence[float]
) -> pd.DataFrame:
    """One row per run: variant, seed, status, failed, and value, `None` where the run did not finish."""
    return pd.DataFrame(
        {
            "variant": names,
            "seed": pd.Series(seeds, dtype=object),
            "status": ["diverged" if s == "dead" else s for s in states],
            "failed": [s in ("diverged", "dead") for s in states],
            "value": pd.Series(
                [v if s == "finished" else None for v, s in zip(values, states, strict=True)], dtype=object
            ),
        }
    )


def variants_of(names: Sequence[str], baseline: str, wanted: Sequence[str] | None, *, column: str) -> list[str]:
    """The variants that are compared: all but the baseline in their order, or those that are wanted.

    Raises `FrameError` where the baseline, a wanted variant or any variant at all is not there.
    """
    faults = []
    if baseline not in set(names):
        hint = nearest(baseline, sorted(set(names)))
        faults.append(
            f'no run of the baseline "{baseline}"; {column} has {short_list(sorted(set(names)))}'
            + (f'; did you mean "{hint}"?' if hint else "")
        )
    there = [n for n in dict.fromkeys(names) if n != baseline]
    if wanted is None:
        if not there and not faults:
            faults.append(f'all runs are of the baseline "{baseline}": there is nothing to compare with it')
    elif isinstance(wanted, str) or not wanted or len(set(wanted)) < len(wanted) or baseline in wanted:
        faults.append(f"variants must be a list of different names without the baseline, got {wanted!r}")
    else:
        for name in [name for name in wanted if name not in there]:
            hint = nearest(name, there)
            faults.append(
                f'no run of "{name}"' + (f'; did you mean "{hint}"?' if hint else f"; there are {short_list(there)}")
            )
    if faults:
        raise FrameError(*faults)
    return there if wanted is None else list(wanted)


def check_arguments(
    plan: Plan | None, *, margin: float | None, alpha: float | None, anytime: str | None = None
) -> None:
    """Raises `FrameError` with all arguments that are no number, or out of their range."""
    faults = []
    if margin is not None and not (_is_number(margin) and 0 < margin < math.inf):
        faults.append(f"margin must be a number above 0, got {margin!r}")
    if alpha is not None and not (_is_number(alpha) and 0 < alpha < 0.5):
        faults.append(f"alpha must lie between 0 and .5, got {alpha!r}")
    if anytime not in (None, "sign", "t"):
        faults.append(f'anytime must be "sign", "t" or None, got {anytime!r}')
    if plan is not None:
        _, wrong = build(Plan, asdict(plan), "", "plan")  # a Plan that was made in Python has not been checked
        faults += [f"{f.key} is {f.got.removeprefix('got ')}; allowed: {f.allowed}" for f in wrong]
    if faults:
        raise FrameError(*faults)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def changes_of(
    frame: pd.DataFrame, names: Sequence[str], factors: Sequence[str], baseline: str, variants: Sequence[str]
) -> Mapping[str, Mapping[str, Any]]:
    """variant -> factor -> level where it differs from the baseline's. Raises where a variant has two levels of one."""
    if not factors:
        return {}
    levels: dict[str, dict[str, Hashable]] = {}
    for factor in factors:
        for i, (name, level) in enumerate(zip(names, frame[factor].tolist(), strict=True)):
            if not isinstance(level, str | bool | int | float) or level != level:
                raise FrameError(f"row {i}: {factor} is {level!r}; a level is a text, a number, True or False")
            before = levels.setdefault(name, {}).setdefault(factor, level)
            if before != level:
                raise FrameError(f'row {i}: "{name}" has {factor} {level!r}, and {before!r} in another row')
    base = levels[baseline]
    changed = {v: {f: x for f, x in levels[v].items() if x != base[f]} for v in variants}
    seen: dict[tuple[Hashable, ...], str] = {tuple(base.values()): baseline}
    for v in variants:
        key = tuple(levels[v].values())
        if key in seen:
            raise FrameError(
                f'"{v}" has the same {short_list(factors)} as "{seen[key]}": a cell of a factorial has one name'
            )
        seen[key] = v
    return changed


def note_partners(runs: pd.DataFrame, baseline: str, variants: Sequence[str], notes: list[str]) -> None:
    """Note the variants of which no seed is the baseline's."""
    there = {v: set(own["seed"]) for v, own in runs.groupby("variant", sort=False)}
    for name in variants:
        if not there[name] & there[baseline]:
            notes.append(f'"{name}" has no seed in common with the baseline: nothing of it can be paired.')


def in_order(seeds: Sequence[Seed]) -> list[Seed]:
    """Every seed once: numbers by size, texts as numbers where all are, else as they come."""
    once = list(dict.fromkeys(seeds))
    if all(isinstance(s, int) for s in once) or all(str(s).isdigit() for s in once):
        return sorted(once, key=lambda s: (int(s), str(s)))
    return once
