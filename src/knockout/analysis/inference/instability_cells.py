"""Cells: each variant against the baseline on one measure of instability, corrected together.

The rules are in analysis/RULES.md, "Instability of loss curves".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from knockout.analysis.stats.curve import RunCurve
from knockout.analysis.stats.exact import discordant, floor
from knockout.analysis.stats.multiplicity import benjamini_hochberg
from knockout.analysis.stats.paired_test import PairedTest, paired_tests
from knockout.analysis.stats.trace import traced, traced_each

Label = Literal["higher", "lower", "not shown", "not testable"]
CellTest = Literal["signed rank", "t", "paired failures", "none"]

FAILURES = "failures"
TIME = "time_to_threshold"
RATES = "learning_rate_sensitivity"
SECTION = "instability"

REACH = 0.1
"""The exact test decides where its smallest p survives the correction if this share of all cells reaches it."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One variant, or one group of learning rates, on one measure, against the baseline."""

    variant: str
    metric: str
    scale: Literal["ratio", "difference"]
    """the geometric mean of variant over baseline, or the mean of variant less baseline in the measure's unit"""
    estimate: float | None
    """over pairs in which no run ranks as the worst"""
    low: float | None
    """95 % t interval, not corrected"""
    high: float | None
    n: int
    """pairs with a value or a failure on both sides"""
    n_planned: int
    ranked: int
    """pairs in which a run ranks as the worst"""
    test: CellTest
    p: float | None
    p_bh: float
    """after Benjamini and Hochberg, over all cells; a missing p counts as 1"""
    label: Label
    reason: str

    @property
    def ratio(self) -> float | None:
        return self.estimate if self.scale == "ratio" else None

    @property
    def difference(self) -> float | None:
        return self.estimate if self.scale == "difference" else None


def exact_decides(n: int, alpha: float) -> bool:
    """Whether the signed-rank test decides without failures too: from 9 pairs at alpha .05. Below, no exact test could
    show anything after the correction, and the t test decides ("normal theory only")."""
    return floor(n) <= alpha * REACH


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A cell before the correction."""

    variant: str
    metric: str
    scale: Literal["ratio", "difference"]
    test: CellTest
    tested: PairedTest
    n_planned: int
    why: str = ""
    """what is missing, where a pair is"""


def compared(
    metric: str,
    names: Sequence[str],
    ours: Sequence[Sequence[float | None]],
    theirs: Sequence[float | None],
    *,
    ratio: bool,
    exact: bool,
    why: str = "",
) -> list[Draft]:
    """The paired test of each variant on one measure, in one traced call."""
    of = (SECTION, "")
    tests = traced_each(
        of, [f"{metric} {name}" for name in names], paired_tests, ours, theirs, ratio=ratio, exact=exact
    )
    return [
        Draft(
            variant=name,
            metric=metric,
            scale="ratio" if ratio else "difference",
            test="none" if t.p is None else "signed rank" if t.exact else "t",
            tested=t,
            n_planned=len(theirs),
            why=why,
        )
        for name, t in zip(names, tests, strict=True)
    ]


def failure_cells(arms: Mapping[str, Sequence[RunCurve | None]], baseline: str) -> list[Draft]:
    """The exact paired test of failures; the estimate is the difference of the shares of failed runs."""
    base = arms[baseline]
    drafts = []
    for name, own in arms.items():
        if name == baseline:
            continue
        pairs = [(a.failed, b.failed) for a, b in zip(own, base, strict=True) if a is not None and b is not None]
        ours, theirs = sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)
        whole = len(pairs) == len(base) and len(pairs) > 2
        p = traced((SECTION, f"{FAILURES} {name}", "p"), discordant, ours, theirs) if whole else None
        tested = PairedTest(
            n=len(pairs),
            ranked=0,
            estimate=(ours - theirs) / len(pairs) if pairs else None,
            low=None,
            high=None,
            p=p,
            exact=True,
            direction=int(np.sign(ours - theirs)),
        )
        drafts.append(
            Draft(
                variant=name,
                metric=FAILURES,
                scale="difference",
                test="none" if p is None else "paired failures",
                tested=tested,
                n_planned=len(base),
            )
        )
    return drafts


def corrected(drafts: Sequence[Draft], alpha: float) -> tuple[Cell, ...]:
    """The cells, with Benjamini and Hochberg's correction over all of them; a missing p counts as 1."""
    if not drafts:
        return ()
    p = [d.tested.p for d in drafts]
    names = [f"{d.metric} {d.variant}" for d in drafts]
    adjusted = traced_each((SECTION, "p_bh"), names, benjamini_hochberg, p)
    return tuple(
        _cell(d, p_bh, _at_floor(d, p, i), alpha) for i, (d, p_bh) in enumerate(zip(drafts, adjusted, strict=True))
    )


def _at_floor(draft: Draft, p: Sequence[float | None], i: int) -> float:
    """The adjusted p that the cell would have at the smallest p its exact test can give; 0 for the t test."""
    if draft.test in ("t", "none"):
        return 0.0
    least = floor(draft.n_planned)
    whole = np.sort([least, *(1.0 if x is None else x for j, x in enumerate(p) if j != i)])
    adjusted = whole * len(whole) / np.arange(1, len(whole) + 1)
    return float(adjusted[int(np.searchsorted(whole, least)) :].min())


def _cell(draft: Draft, p_bh: float, at_floor: float, alpha: float) -> Cell:
    t = draft.tested
    label, reason = _label(draft, p_bh, at_floor, alpha)
    return Cell(
        variant=draft.variant,
        metric=draft.metric,
        scale=draft.scale,
        estimate=t.estimate,
        low=t.low,
        high=t.high,
        n=t.n,
        n_planned=draft.n_planned,
        ranked=t.ranked,
        test=draft.test,
        p=t.p,
        p_bh=p_bh,
        label=label,
        reason=reason,
    )


def _label(draft: Draft, p_bh: float, at_floor: float, alpha: float) -> tuple[Label, str]:
    t, n = draft.tested, draft.n_planned
    if n <= 2:
        return "not testable", f"{n} seed{'s' if n != 1 else ''}: nothing is tested below 3"
    if t.n < n:
        lacks = f"; a run needs {draft.why}" if draft.why else ""
        return "not testable", f"{t.n} of {n} pairs have a value{lacks}"
    if p_bh <= alpha and t.direction:
        theory = "; normal theory only" if draft.test == "t" else ""
        return ("higher" if t.direction > 0 else "lower"), f"p <= {alpha:g} after Benjamini-Hochberg{theory}"
    if at_floor > alpha:
        return "not testable", (
            f"the smallest p of an exact test of {n} pairs, {floor(n):.3g}, is {at_floor:.2g} after Benjamini-Hochberg"
        )
    return "not shown", f"p > {alpha:g} after Benjamini-Hochberg"
