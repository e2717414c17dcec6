"""Words for numbers: the sentences of a report, each computed from a verdict."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from knockout.analysis.contrasts import Contrast
from knockout.analysis.load import Results
from knockout.analysis.pairing import Arm, Estimate
from knockout.analysis.power import in_points, span
from knockout.study import Plan

DASH = "–"


def signed(value: float | None, digits: int = 2) -> str:
    """A difference in points: "+0.35", "−1.20"."""
    return DASH if value is None else f"{value:+.{digits}f}".replace("-", "−")


def number(value: float | None, digits: int = 2) -> str:
    return DASH if value is None else f"{value:.{digits}f}".replace("-", "−")


def p_text(p: float | None) -> str:
    """A p value to three digits: ".031", "<.001", "1"."""
    if p is None:
        return DASH
    return "<.001" if p < 0.0005 else "1" if p > 0.9995 else f"{p:.3f}".removeprefix("0")


def p_equals(p: float) -> str:
    text = p_text(p)
    return f"p {text[0]} {text[1:]}" if text.startswith("<") else f"p = {text}"


def interval(estimate: Estimate | None) -> str:
    """The 95 % t interval in points, or a dash where there is none."""
    return DASH if estimate is None or estimate.low is None else f"[{signed(estimate.low)}, {signed(estimate.high)}]"


def accuracy(arm: Arm) -> str:
    """Mean and sd in points over the runs that did not fail, whose number is said where some did."""
    if arm.accuracy is None:
        return DASH
    alive = f" (n = {arm.runs - arm.failures})" if arm.failures else ""
    return number(arm.accuracy) + (f" ± {number(arm.accuracy_sd)}" if arm.accuracy_sd is not None else "") + alive


def change(described: Mapping[str, Any], variant: str) -> str:
    """What a variant changes: "num_heads: 8 → 1"."""
    changes = described.get(variant, {}).get("changes", {})
    return "; ".join(f"{factor}: {_value(a)} → {_value(b)}" for factor, (a, b) in changes.items())


def listed(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""


def plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def needed(contrast: Contrast) -> str:
    """Seeds that would decide at the observed sd, and the differences that this study could find."""
    if contrast.detectable is None or contrast.detectable_first is None:
        return ""
    seeds = span(contrast.seeds_difference, contrast.seeds_difference_first)
    equal = span(contrast.seeds_equivalence, contrast.seeds_equivalence_first)
    if_whole = " (were no run to fail)" if contrast.failures else ""
    return (
        f"With {contrast.n_planned} seeds and the sd seen here{if_whole}, a difference of {detectable(contrast)} points"
        f" would be found with a chance of {contrast.power * 100:g} %; {seeds} seeds would find one of"
        f" {in_points(contrast.margin)}, and {equal} would show equivalence if there is none."
    )


def detectable(contrast: Contrast) -> str:
    """The smallest detectable difference in points, tested alone and as the first under Holm."""
    alone, first = number(contrast.detectable), number(contrast.detectable_first)
    return alone if alone == first else f"{alone} to {first}"


def meanings(plan: Plan) -> list[tuple[str, str]]:
    """How to read a verdict: (verdict, what it says), in the order of the rule."""
    alpha, margin = f"{plan.alpha:g}", in_points(plan.margin)
    return [
        ("undecidable by design", "With this many seeds no result could have decided; estimates only."),
        ("incomplete", "A run that was planned has no result yet; nothing is tested before it has."),
        ("better, worse", f"A difference is shown: p <= {alpha} after Holm's correction over all variants."),
        ("trivial", f"A difference is shown, and it is also shown to be less than {margin}."),
        ("equivalent", f"No difference is shown, and one of {margin} is excluded (TOST, p <= {alpha}, Holm)."),
        ("inconclusive", "Neither is shown: this is not evidence of no difference."),
        ("with failed runs", "A failed run ranks below every other, and an exact signed-rank test on ranks decides."),
    ]


def caveats(results: Results) -> list[str]:
    """What the verdicts do not reach."""
    told = [
        "Seeds vary initialisation, data order and dropout, not the split: everything here is on this training set.",
        "Inference is over seeds, on this one test set: that the differences hold on other texts is not tested.",
    ]
    if "learning_rate" in results.design["recipe"]:
        told.append(
            f"All variants train at the baseline's learning rate ({results.design['recipe']['learning_rate']:g}): a"
            " variant that is worse here may not be at a rate of its own."
        )
    else:
        told.append("Nothing is tuned per variant: one that is worse here may not be with settings of its own.")
    return [*told, "Costs were measured while other runs shared the machine."]


def answer(results: Results, contrasts: Sequence[Contrast]) -> list[str]:
    """The answer to a study's question: two to six sentences, each read off the verdicts."""
    first = contrasts[0]
    told: list[str] = []
    done = int(results.runs["status"].isin(["finished", "diverged"]).sum())
    if done < len(results.runs):
        told.append(f"The study is not complete: {done:,} of {plural(len(results.runs), 'run')} came to a result.")
    mean = accuracy(dataclasses.replace(first.baseline, failures=0))
    alive = first.baseline.runs - first.baseline.failures
    over = f"the {alive} of {first.baseline.runs} seeds that did not fail"
    base = f"the baseline ({mean} % accuracy over {over if first.baseline.failures else plural(alive, 'seed')})"
    if first.baseline.accuracy is None:  # none of its runs finished alive
        base = "the baseline"
    by: dict[str, list[Contrast]] = {}
    for contrast in contrasts:
        by.setdefault(contrast.verdict, []).append(contrast)
    if first.baseline.failures:
        told.append(f"{first.baseline.failures} of the baseline's {plural(first.baseline.runs, 'run')} failed.")
        if first.baseline.failures == first.baseline.runs:
            told.append("A baseline that does not train shows nothing: mend the recipe before the variants are judged.")
    moved = [f"{_sized(by[v])} {_is(by[v])} {v}" for v in ("worse", "better") if v in by]
    told.append(
        f"Against {base}, {listed(moved)}." if moved else f"Nothing is shown to be better or worse than {base}."
    )
    if "trivial" in by:
        told.append(f"{_sized(by['trivial'])} differ{_s(by['trivial'])}, but by less than {in_points(first.margin)}.")
    if "equivalent" in by:
        told.append(
            f"{_sized(by['equivalent'])} {_is(by['equivalent'])} equivalent to it within ±{in_points(first.margin)}."
        )
    still = by.get("inconclusive", [])
    parted = [c for c in still if c.n_pairs < c.n_planned]
    failing = [c for c in still if c.n_pairs == c.n_planned and c.failures]
    open_ = [c for c in still if c not in parted and c not in failing]
    if open_:
        told.append(f"{_sized(open_)} {_is(open_)} inconclusive{_deciding(open_)}.")
    if failing:
        told.append(f"{_sized(failing)} {_is(failing)} inconclusive, counting the runs that failed.")
    if parted:
        told.append(f"{listed([c.variant for c in parted])} {_is(parted)} inconclusive while runs are missing.")
    if "undecidable by design" in by:
        cases = by["undecidable by design"]
        told.append(f"{listed([c.variant for c in cases])} {_is(cases)} undecidable by design.")
    failed = [c for c in contrasts if c.arm.failures]
    if failed:
        counts = [f"{c.arm.failures} of {c.arm.runs} of {c.variant}" for c in failed]
        told.append(f"Runs failed: {listed(counts)}.")
    return told


def _deciding(contrasts: Sequence[Contrast]) -> str:
    """What would decide inconclusive contrasts: the seeds that the hardest of them needs."""
    seeds = [n for c in contrasts for n in (c.seeds_difference_first, c.seeds_equivalence_first)]
    known = [n for n in seeds if n is not None]
    if not seeds or len(known) < len(seeds):
        return ""
    first = contrasts[0]
    return (
        f": {max(known):,} seeds would decide between no difference and one of {in_points(first.margin)},"
        f" with a chance of {first.power * 100:g} %"
    )


def sentence(contrast: Contrast) -> str:
    """One contrast in plain words: the verdict, its numbers, its test, and what limits it."""
    parts = [_verdict(contrast)]
    if contrast.failures:
        parts.append(_failures(contrast))
    estimate = contrast.estimate
    if contrast.identical:
        parts.append("The predictions are identical in every pair.")
    if contrast.normal_theory_only:
        parts.append(
            f"Normal theory only: at {contrast.n_planned} seeds and {plural(contrast.family, 'contrast')} no exact test"
            f" could decide (that needs {contrast.seeds_for_floor})."
        )
    elif contrast.sign_flip_disagrees:
        parts.append(
            f"The exact sign-flip test disagrees: {p_equals(contrast.p_sign_flip_holm)} after Holm. The t test was"
            " planned, and decides."
        )
    if contrast.verdict == "inconclusive" and estimate is not None and contrast.n_pairs == contrast.n_planned:
        parts.append(needed(contrast))
    return " ".join(p for p in parts if p)


def _verdict(contrast: Contrast) -> str:
    estimate, name, margin = contrast.estimate, contrast.variant, contrast.margin
    tested = f"{_test(contrast)}, {p_equals(contrast.p_holm)} after Holm over {plural(contrast.family, 'contrast')}"
    if contrast.n_planned > 2 and contrast.n_pairs < contrast.n_planned:
        so_far = f" So far the difference is {_size(estimate)}." if estimate is not None else ""
        there = f"{contrast.n_pairs} of {contrast.n_planned} pairs"
        return f"{name} is inconclusive: {there} have both results, and nothing is tested until all have.{so_far}"
    if contrast.verdict == "undecidable by design":
        seen = "" if estimate is None or contrast.failures else f" The difference seen is {_size(estimate)}."
        return f"{name} is undecidable by design: {contrast.reason}.{seen}"
    if contrast.test == "worst_rank":
        if contrast.verdict == "inconclusive":
            return f"{name} is inconclusive ({tested})."
        return f"{name} is {contrast.verdict} than the baseline ({tested})."
    if contrast.verdict in ("better", "worse"):
        return f"{name} is {contrast.verdict} than the baseline: {_size(estimate)} ({tested})."
    tost = f"TOST {p_equals(contrast.p_tost_holm)} after Holm"
    if contrast.verdict == "trivial":
        return (
            f"{name} differs from the baseline by {_size(estimate)} ({tested}), which is shown to be less than the"
            f" margin of {in_points(margin)} ({tost})."
        )
    if contrast.verdict == "equivalent":
        return (
            f"{name} is equivalent to the baseline within ±{in_points(margin)}: difference {_size(estimate)} ({tost})."
        )
    return (
        f"{name} is inconclusive: the difference of {_size(estimate)} is neither shown to differ from 0 ({tested}) nor"
        f" to be under {in_points(margin)} ({tost})."
    )


def _failures(contrast: Contrast) -> str:
    arm, base = contrast.arm, contrast.baseline
    estimate = contrast.estimate
    given = (
        f"Given that neither run failed ({estimate.n} of {plural(contrast.n_planned, 'pair')}), the difference is"
        f" {_size(estimate)}."
        if estimate is not None
        else "In no pair did both runs come through."
    )
    return (
        f"{arm.failures} of {arm.runs} of its runs failed, {base.failures} of {base.runs} of the baseline's (exact"
        f" paired {p_equals(contrast.p_failures)}). {given}"
    )


def _test(contrast: Contrast) -> str:
    names = {"t": "paired t test", "worst_rank": "exact worst-rank test", "none": "no test"}
    return names.get(contrast.test, "exact test of a constant difference")


def _size(estimate: Estimate | None) -> str:
    if estimate is None:
        return DASH
    bounds = "" if estimate.low is None else f" [95 % t interval {signed(estimate.low)} to {signed(estimate.high)}]"
    return f"{signed(estimate.difference)} points{bounds}"


def _sized(contrasts: Sequence[Contrast]) -> str:
    return listed([f"{c.variant} ({_brief(c)})" for c in contrasts])


def _brief(contrast: Contrast) -> str:
    estimate = contrast.estimate
    size = DASH if estimate is None else f"{signed(estimate.difference)} points {interval(estimate)}"
    if not contrast.failures:
        return size
    failed = f"{plural(contrast.failures, 'failed run')} counted as worst"
    return failed if estimate is None else f"{failed}; {size} in the pairs without"


def _is(contrasts: Sequence[Contrast]) -> str:
    return "is" if len(contrasts) == 1 else "are"


def _s(contrasts: Sequence[Contrast]) -> str:
    return "s" if len(contrasts) == 1 else ""


def _value(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
