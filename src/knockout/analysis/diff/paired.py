"""The difference B minus A of every arm that two studies have, paired by seed, judged as one family."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from knockout.analysis.diff.sides import (
    Difference,
    arms_only,
    check_comparable,
    common_arms,
    common_seeds,
    design_differences,
    read_side,
)
from knockout.analysis.history import dropped
from knockout.analysis.inference.comparison import Comparison
from knockout.analysis.inference.contrasts import contrasts
from knockout.analysis.inference.family import Family, family_of
from knockout.analysis.inference.pairs import Row, Seed, pair, rows_of
from knockout.analysis.inference.sequential import sequential
from knockout.analysis.inference.verdict import judge
from knockout.analysis.report.printed import Contrast, printed
from knockout.analysis.results import Results
from knockout.analysis.stats.trace import Trace, recording
from knockout.job import RECORDED

LOSSES = ("test_loss", "validation_loss", "final_loss")
"""Columns of the runs that are equal to the last bit where the same numbers were computed."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """How many pairs of runs came out alike to the last bit. `pairs`: those with two results."""

    pairs: int
    predictions: int
    """with the same answer to every test example; runs that kept no predictions are never counted"""
    losses: int
    """with equal training, validation and test loss"""
    identical: int
    """with all of these equal, and the same status; of runs without predictions, with equal losses and score"""


@dataclass(frozen=True, kw_only=True)
class Moved:
    """The verdict on a variant against its baseline, in A and in B."""

    variant: str
    before: str
    after: str

    @property
    def moved(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True, kw_only=True)
class Diff:
    """What is different in B. `comparison`: one contrast per arm, in which A's runs are the baseline."""

    before: Results
    after: Results
    paths: tuple[Path, Path]
    comparison: Comparison
    contrasts: tuple[Contrast, ...]
    identity: Mapping[str, Identity]
    """arm -> how many of its runs are alike"""
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    differences: tuple[Difference, ...]
    verdicts: tuple[Moved, ...]
    """of the variants that both have, on the same seeds or not"""

    @property
    def total(self) -> Identity:
        """Over all arms."""
        own = self.identity.values()
        return Identity(
            pairs=sum(i.pairs for i in own),
            predictions=sum(i.predictions for i in own),
            losses=sum(i.losses for i in own),
            identical=sum(i.identical for i in own),
        )


def diff_studies(before: Path, after: Path) -> Diff:
    """Read two studies and compare them arm by arm. Each path is a folder, or a file of packed records.

    The null hypothesis of each test: the mean difference between B's and A's run of one seed is 0; Holm over the arms;
    equivalence within A's margin. Raises `DiffError` where they cannot be compared.
    """
    a, b = read_side(before), read_side(after)
    check_comparable(a, b)
    arms, seeds = common_arms(a, b), common_seeds(a, b)
    comparison = _compare(a, b, arms, seeds)
    old, new = labels(a), labels(b)
    return Diff(
        before=a,
        after=b,
        paths=(before, after),
        comparison=comparison,
        contrasts=printed(comparison).contrasts,
        identity={arm: identity_of(a.runs, b.runs, arm, seeds) for arm in arms},
        only_before=tuple(arms_only(a, b)),
        only_after=tuple(arms_only(b, a)),
        differences=tuple(design_differences(a, b)),
        verdicts=tuple(Moved(variant=v, before=old[v], after=new[v]) for v in old if v in new),
    )


def _compare(before: Results, after: Results, arms: Sequence[str], seeds: Sequence[Seed]) -> Comparison:
    ours, theirs = rows_of(after.runs), rows_of(before.runs)
    named = {arm: f"{arm} in A" for arm in arms}  # names of arms hold no blank
    rows: dict[tuple[str, Seed], Row] = {(arm, s): ours[arm, s] for arm in arms for s in seeds if (arm, s) in ours}
    rows |= {(named[arm], s): theirs[arm, s] for arm in arms for s in seeds if (arm, s) in theirs}
    metric, plan = before.metric, before.plan
    pairs = {arm: tuple(pair(s, rows.get((arm, s)), rows.get((named[arm], s)), metric) for s in seeds) for arm in arms}
    family = Family(metric=metric, plan=plan, baseline="A", seeds=tuple(seeds), size=len(arms), pairs=pairs)
    notes = []
    if before.anytime or after.anytime:
        notes.append(
            "Seeds were added until all was decided within a study. The tests between A and B take their number as"
            " fixed."
        )
    with recording(Trace()) as trace:
        found = contrasts(family, rows, baselines=named)
    return Comparison(
        metric=metric,
        baseline="A",
        seeds=tuple(seeds),
        plan=plan,
        contrasts=tuple(found),
        secondary=(),
        crossings=(),
        placebos=None,
        sequential=None,
        notes=tuple(notes),
        trace=trace,
    )


def labels(results: Results) -> dict[str, str]:
    """Variant -> its verdict against the baseline as the study's report has it, without all other numbers."""
    seeds = results.seeds if results.anytime is None else results.complete_seeds or results.seeds
    family = family_of(
        rows_of(results.runs),
        metric=results.metric,
        plan=results.plan,
        baseline=results.baseline,
        variants=results.variants,
        seeds=seeds,
        size=len(results.variants) + len(dropped(results)),
    )
    judged = judge(family) if results.anytime is None else sequential(family, results.anytime).judgements
    found: dict[str, str] = {}
    for name, pairs in family.pairs.items():
        there, planned = sum(p.state != "missing" for p in pairs), len(pairs)
        part = f" (incomplete: {there} of {planned})" if planned > 2 and there < planned else ""
        found[name] = f"{judged[name].verdict}{part}"
    return found


def identity_of(before: pd.DataFrame, after: pd.DataFrame, arm: str, seeds: Sequence[Seed]) -> Identity:
    """How many of an arm's runs are alike. The frames are `Results.runs`."""
    old, new = (
        {row["seed"]: row for row in frame[frame["variant"] == arm].to_dict("records")} for frame in (before, after)
    )
    pairs = [(old[s], new[s]) for s in seeds if s in old and s in new]
    pairs = [(x, y) for x, y in pairs if x["status"] in RECORDED and y["status"] in RECORDED]
    answers = [_known(x["predictions_sha256"]) and x["predictions_sha256"] == y["predictions_sha256"] for x, y in pairs]
    losses = [all(_equal(x[name], y[name]) for name in LOSSES) for x, y in pairs]
    kept = [_known(x["predictions_sha256"]) or _known(y["predictions_sha256"]) for x, y in pairs]
    alike = [
        same and x["status"] == y["status"] and (answered if any_kept else _equal(x["test_correct"], y["test_correct"]))
        for (x, y), answered, same, any_kept in zip(pairs, answers, losses, kept, strict=True)
    ]
    return Identity(pairs=len(pairs), predictions=sum(answers), losses=sum(losses), identical=sum(alike))


def _known(value: object) -> bool:
    return isinstance(value, str)


def _equal(a: object, b: object) -> bool:
    missing = [pd.isna(x) if isinstance(x, float) else x is None or x is pd.NA for x in (a, b)]
    return all(missing) or (not any(missing) and a == b)
