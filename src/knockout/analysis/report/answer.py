"""The answer of a report: what a study shows, in a few sentences."""

import dataclasses
from collections.abc import Container, Mapping, Sequence

from knockout.analysis.inference.contrasts import Contrast
from knockout.analysis.inference.floors import Gap
from knockout.analysis.report.sentences import (
    DASH,
    decimals,
    difference,
    flags,
    interval,
    level,
    listed,
    seeds_needed,
    signed,
    title,
    verdict_text,
)
from knockout.floor_text import Distance, below_floor, floor_lines
from knockout.job import Floor
from knockout.plurals import plural


def answer(
    contrasts: Sequence[Contrast],
    *,
    done: int,
    planned: int,
    late: Container[str] = (),
    floors: Sequence[Floor] = (),
    gaps: Mapping[str, Gap] | None = None,
) -> list[str]:
    """What a study found, in two to eight sentences. `done` of `planned` runs came to a result.

    `late`: the variants whose contrast is exploratory. `floors`: what simpler models reach; where the baseline does
    not, the first sentence says so. `gaps`: name of a floor -> the baseline's distance to it, with its interval.
    """

    def sized(cases: Sequence[Contrast]) -> str:
        return listed([f"{c.variant} ({'; '.join([_brief(c), *flags(c, late)])})" for c in cases])

    def named(cases: Sequence[Contrast]) -> str:
        return listed([c.variant + (f" ({'; '.join(marks)})" if (marks := flags(c, late)) else "") for c in cases])

    first = contrasts[0]
    metric, baseline = first.metric, first.baseline
    away = distances(gaps or {})
    below = below_floor(floors, metric.name, baseline.mean, away)
    lines = [below] if below else []
    if done < planned:
        lines.append(f"The study is not complete: {done:,} of {plural(planned, 'run')} came to a result.")
    if baseline.failures:
        lines.append(f"{baseline.failures} of the baseline's {plural(baseline.runs, 'run')} failed.")
        if baseline.failures == baseline.runs:
            lines.append("A baseline that does not train shows nothing: fix the recipe before judging the variants.")
    by: dict[str, list[Contrast]] = {}
    for contrast in contrasts:
        by.setdefault(contrast.verdict, []).append(contrast)
    margin = metric.size(first.margin)
    moved = [f"{sized(by[v])} {_is(by[v])} {v}" for v in ("worse", "better") if v in by]
    base = _described_baseline(first)
    lines.append(
        f"Compared with {base}: {listed(moved)}." if moved else f"Nothing is shown to be better or worse than {base}."
    )
    if "trivial" in by:
        small = by["trivial"]
        lines.append(f"{sized(small)} {_is(small)} negligible: shown to differ, by less than {margin}.")
    if "equivalent" in by:
        equal = by["equivalent"]
        lines.append(f"{sized(equal)} {_is(equal)} equivalent to the baseline within ±{margin}.")
    still = by.get("inconclusive", [])
    parted = [c for c in still if c.n_pairs < c.n_planned]
    failing = [c for c in still if c.n_pairs == c.n_planned and c.failures]
    open_ = [c for c in still if c not in parted and c not in failing]
    if open_:
        names = named(open_)
        lines.append(f"{names} {_is(open_)} inconclusive: neither a difference nor equivalence is shown.")
        lines += _settling(open_)
    if failing:
        lines.append(f"{sized(failing)} {_is(failing)} inconclusive, counting the runs that failed.")
    if parted:
        lines.append(
            f"{named(parted)} {_is(parted)} inconclusive while runs are missing: complete them, or leave their seeds"
            " out for all variants, and say so."
        )
    for text in ("undecidable by design", "undecidable (runs failed)"):
        cases = [c for c in by.get("undecidable by design", []) if verdict_text(c) == text]
        if cases:
            lines.append(f"{named(cases)} {_is(cases)} {text}.")
    failed = [c for c in contrasts if c.arm.failures]
    if failed:
        shares = [f"{c.arm.failures} of {c.arm.runs} of {c.variant}" for c in failed]
        lines.append(f"Runs failed: {listed(shares)}.")
    return [*lines, *floor_lines(floors, metric.name, away)]


def distances(gaps: Mapping[str, Gap]) -> dict[str, Distance]:
    """Name of a floor -> how far the baseline is from it, for the sentences on floors."""
    return {name: Distance(difference=g.difference, low=g.low, high=g.high, runs=g.n) for name, g in gaps.items()}


def _described_baseline(contrast: Contrast) -> str:
    """The baseline with its mean, over the runs that did not fail."""
    arm, metric = contrast.baseline, contrast.metric
    if arm.mean is None:  # none of its runs finished alive
        return "the baseline"
    unit = " %" if metric.unit == "points" else f" {metric.unit}" if metric.unit else ""
    mean = level(dataclasses.replace(arm, failures=0), metric.digits)
    alive = arm.runs - arm.failures
    over = f"the {alive} of {arm.runs} seeds that did not fail" if arm.failures else plural(alive, "seed")
    return f"the baseline ({mean}{unit} {title(metric)} over {over})"


def _settling(contrasts: Sequence[Contrast]) -> list[str]:
    """How many seeds would settle inconclusive contrasts, where that can be computed for all of them."""
    needed = []
    for contrast in contrasts:
        needs = contrast.needs
        if needs is None or needs.seeds_difference_first is None or needs.seeds_equivalence_first is None:
            return []
        needed += [
            (needs.seeds_difference_first, needs.seeds_difference_low, needs.seeds_difference_high),
            (needs.seeds_equivalence_first, needs.seeds_equivalence_low, needs.seeds_equivalence_high),
        ]
    first, low, high = max(needed, key=lambda x: x[0])
    contrast = contrasts[0]
    which = "it" if len(contrasts) == 1 else "both of them" if len(contrasts) == 2 else "all of them"
    return [
        (
            f"{seeds_needed(first, low, high)} seeds would settle {which} at a margin of"
            f" {contrast.metric.size(contrast.margin)} with {contrast.power * 100:g} % power (in brackets: the 95 %"
            " confidence interval, from that of the standard deviation)."
        )
    ]


def _brief(contrast: Contrast) -> str:
    """Difference and confidence interval, after the number of failed runs where there are any."""
    estimate, metric = contrast.estimate, contrast.metric
    size = DASH
    if estimate is not None:
        size = f"{difference(estimate, metric.digits)} {metric.unit}".rstrip()
        if estimate.low is None:
            size = f"{size}, {interval(estimate, metric.digits)}" if estimate.n > 2 else size
        else:
            digits = decimals(estimate, metric.digits)
            size += f", 95 % CI {signed(estimate.low, digits)} to {signed(estimate.high, digits)}"
    if not contrast.failures:
        return size
    failed = f"{plural(contrast.failures, 'failed run')} counted as worst"
    return failed if estimate is None else f"{failed}; {size} in the pairs without"


def _is(contrasts: Sequence[Contrast]) -> str:
    return "is" if len(contrasts) == 1 else "are"
