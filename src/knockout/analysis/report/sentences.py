"""Words for numbers: the sentences of a report, each computed from a verdict."""

import dataclasses
from collections.abc import Mapping, Sequence

from knockout.analysis.inference.contrasts import Contrast
from knockout.analysis.inference.interactions import EffectEstimate, JudgedEffect
from knockout.analysis.inference.pairs import Arm, Estimate
from knockout.analysis.inference.secondary import Secondary
from knockout.analysis.results import Results
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.power import span
from knockout.design import Variant
from knockout.study import Plan

DASH = "–"


def signed(value: float | None, digits: int = 2) -> str:
    """A difference in points: "+0.35", "−1.20"."""
    return DASH if value is None else f"{_whole(value, digits):+{_form(value, digits)}}".replace("-", "−")


def number(value: float | None, digits: int = 2) -> str:
    return DASH if value is None else f"{_whole(value, digits):{_form(value, digits)}}".replace("-", "−")


def _form(value: float, digits: int) -> str:
    """So many decimals, or powers of ten where these would show none of it, or more digits than anyone reads."""
    shows = digits <= 2 or value == 0 or 0.05 * 10.0**-digits < abs(value)
    return f".{digits}f" if shows and abs(value) < 1e12 else ".2e"


def _whole(value: float, digits: int) -> float:
    """Without the sign of a zero that only rounding made."""
    return 0.0 if digits <= 2 and abs(value) < 0.5 * 10.0**-digits else value


def p_text(p: float | None) -> str:
    """A p value to three digits: ".031", "<.001", "1"."""
    if p is None:
        return DASH
    return "<.001" if p < 0.0005 else "1" if p > 0.9995 else f"{p:.3f}".removeprefix("0")


def p_equals(p: float) -> str:
    text = p_text(p)
    return f"p {text[0]} {text[1:]}" if text.startswith("<") else f"p = {text}"


def interval(estimate: Estimate | EffectEstimate | None, digits: int = 2) -> str:
    """The t interval, a dash where there is none, "no spread" where all differences are one number."""
    if estimate is None or estimate.low is None:
        return "no spread" if estimate is not None and estimate.n > 2 else DASH
    return f"[{signed(estimate.low, digits)}, {signed(estimate.high, digits)}]"


def level(arm: Arm, digits: int = 2) -> str:
    """Mean and sd over the runs that did not fail, whose number is said where some did."""
    if arm.mean is None:
        return DASH
    alive = f" (n = {arm.runs - arm.failures})" if arm.failures else ""
    return number(arm.mean, digits) + (f" ± {number(arm.sd, digits)}" if arm.sd is not None else "") + alive


def title(metric: Metric) -> str:
    """What a metric is called in a sentence: "accuracy", "macro-F1", "log-loss"."""
    return {"macro_f1": "macro-F1", "log_loss": "log-loss"}.get(metric.name, metric.name)


def header(metric: Metric) -> str:
    """What a column of levels is called: "Accuracy, %", "Log-loss, nats"."""
    name = title(metric)
    unit = "%" if metric.unit == "points" else metric.unit
    return f"{name[:1].upper()}{name[1:]}" + (f", {unit}" if unit else "")


def change(described: Mapping[str, Variant], variant: str) -> str:
    """What a variant changes: "num_heads: 8 → 1"."""
    changes = described[variant].changes if variant in described else {}
    return "; ".join(f"{factor}: {_value(a)} → {_value(b)}" for factor, (a, b) in changes.items())


def listed(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""


def plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def needed(contrast: Contrast) -> str:
    """Seeds that would decide at the observed sd, and the differences that this study could find."""
    told, metric = contrast.needs, contrast.metric
    if told is None:
        return ""
    seeds = span(told.seeds_difference, told.seeds_difference_first)
    equal = span(told.seeds_equivalence, told.seeds_equivalence_first)
    if_whole = " (were no run to fail)" if contrast.failures else ""
    found = f"{detectable(contrast)} {metric.unit}".rstrip()
    return (
        f"With {contrast.n_planned} seeds and the sd seen here{if_whole}, a difference of {found} would be found with a"
        f" chance of {contrast.power * 100:g} %; {seeds} seeds would find one of {metric.size(contrast.margin)}, and"
        f" {equal} would show equivalence if there is none."
    )


def detectable(contrast: Contrast) -> str:
    """The smallest detectable difference, tested alone and as the first under Holm."""
    told, digits = contrast.needs, contrast.metric.digits
    if told is None:
        return DASH
    alone, first = number(told.detectable, digits), number(told.detectable_first, digits)
    return alone if alone == first else f"{alone} to {first}"


def meanings(plan: Plan, metric: Metric) -> list[tuple[str, str]]:
    """How to read a verdict: (verdict, what it says), in the order of the rule."""
    alpha, margin = f"{plan.alpha:g}", metric.size(plan.margin)
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
        (
            "Verdicts are over seeds, on this one test set. Whether the differences hold on other texts like these is"
            " told apart, and decides nothing."
        ),
    ]
    rate = results.design.recipe.get("learning_rate")
    if rate is not None:
        told.append(
            f"All variants train at the baseline's learning rate ({rate:g}): a"
            " variant that is worse here may not be at a rate of its own."
        )
    else:
        told.append("Nothing is tuned per variant: one that is worse here may not be with settings of its own.")
    return [*told, "Costs were measured while other runs shared the machine."]


def answer(contrasts: Sequence[Contrast], *, done: int, planned: int) -> list[str]:
    """The answer to a question: two to six sentences, each read off the verdicts. `done` of `planned` runs came to a
    result."""
    first = contrasts[0]
    metric = first.metric
    told: list[str] = []
    if done < planned:
        told.append(f"The study is not complete: {done:,} of {plural(planned, 'run')} came to a result.")
    unit = " %" if metric.unit == "points" else f" {metric.unit}" if metric.unit else ""
    mean = level(dataclasses.replace(first.baseline, failures=0), metric.digits)
    alive = first.baseline.runs - first.baseline.failures
    over = f"the {alive} of {first.baseline.runs} seeds that did not fail"
    base = (
        f"the baseline ({mean}{unit} {title(metric)} over {over if first.baseline.failures else plural(alive, 'seed')})"
    )
    if first.baseline.mean is None:  # none of its runs finished alive
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
        told.append(f"{_sized(by['trivial'])} differ{_s(by['trivial'])}, but by less than {metric.size(first.margin)}.")
    if "equivalent" in by:
        told.append(
            f"{_sized(by['equivalent'])} {_is(by['equivalent'])} equivalent to it within ±{metric.size(first.margin)}."
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
    needs = [c.needs for c in contrasts]
    seeds = [n for t in needs if t is not None for n in (t.seeds_difference_first, t.seeds_equivalence_first)]
    known = [n for n in seeds if n is not None]
    if not seeds or len(known) < len(seeds) or None in needs:
        return ""
    first = contrasts[0]
    return (
        f". For {'the hardest of them' if len(contrasts) > 1 else 'it'} {max(known):,} seeds would decide between no"
        f" difference and one of {first.metric.size(first.margin)}, with a chance of {first.power * 100:g} %"
    )


def sentence(contrast: Contrast) -> str:
    """One contrast in plain words: the verdict, its numbers, its test, and what limits it."""
    parts = [_verdict(contrast)]
    if contrast.failures:
        parts.append(_failures(contrast))
    estimate = contrast.estimate
    if contrast.identical:
        parts.append("Both runs of every pair are right on the same test examples: the change may have no effect.")
    elif contrast.unchanged:
        parts.append(f"Every pair has the same {title(contrast.metric)}: see whether the change has any effect at all.")
    if contrast.normal_theory_only:
        parts.append(
            f"Normal theory only: at {contrast.n_planned} seeds and {plural(contrast.family, 'contrast')} no exact test"
            f" could decide (that needs {contrast.seeds_for_floor})."
        )
    else:
        parts.append(_disagreement(contrast))
    parts += [_at_the_floor(contrast), _one_seed(contrast), _other_texts(contrast), _given_this_seed(contrast)]
    whole = contrast.n_pairs == contrast.n_planned and contrast.test != "e-process"
    if contrast.verdict == "inconclusive" and estimate is not None and whole:
        parts.append(needed(contrast))
    return " ".join(p for p in parts if p)


def _disagreement(contrast: Contrast) -> str:
    """Which companions say otherwise about p <= alpha."""
    beside = contrast.sensitivity
    p = {
        "sign-flip": beside.sign_flip_holm,
        "Wilcoxon": beside.wilcoxon_holm,
        "max-T": beside.max_t if beside.max_t is not None else 1.0,
    }
    against = [f"{name} ({p_equals(p[name])})" for name in beside.disagree]
    if not against:
        return ""
    return f"Adjusted as the t test is, {listed(against)} would say otherwise. The t test was planned, and decides."


def _at_the_floor(contrast: Contrast) -> str:
    """Whether the exact p is the smallest that there is, and does not decide."""
    exact = contrast.test in ("worst_rank", "exact (constant difference)")
    if not exact or contrast.verdict != "inconclusive" or contrast.p is None or contrast.p > contrast.floor:
        return ""
    return f"No smaller p exists at {contrast.n_planned} seeds: {p_equals(contrast.floor)} before Holm."


def _one_seed(contrast: Contrast) -> str:
    """Whether the verdict hangs on one seed."""
    flips = [x for x in contrast.left_out if x.flips]
    if not flips:
        return ""
    if len(flips) == 1:
        return f"One seed flips this: without seed {flips[0].seed} it would be {flips[0].verdict}."
    verdicts = listed(sorted({x.verdict for x in flips}))
    which = ", ".join(str(x.seed) for x in flips[:8]) + (", ..." if len(flips) > 8 else "")
    return (
        f"One seed flips this: it would be {verdicts} without any one of {len(flips)} of the {contrast.n_planned} seeds"
        f" ({which})."
    )


def effect_sentence(effect: JudgedEffect, metric: Metric) -> str:
    """One main effect or interaction in words."""
    e, judged = effect.estimate, effect.judgement
    size = DASH if e is None else f"{signed(e.difference, metric.digits)} {metric.unit}".rstrip()
    tested = f", p {p_text(judged.p_holm)} after Holm" if judged.tested.p is not None else f" ({judged.reason})"
    return f"{effect.name}: {size} {interval(e, metric.digits)}, {effect.finding}{tested}."


def secondary_sentence(told: Secondary) -> str:
    """One contrast on a secondary metric in words."""
    e, metric = told.estimate, told.metric
    size = DASH if e is None else f"{signed(e.difference, metric.digits)} {metric.unit}".rstrip()
    p = DASH if told.p is None else p_text(told.p_bh)
    return (
        f"{told.variant}, {title(metric)} ({metric.better} is better), exploratory: {size}"
        f" {interval(e, metric.digits)}, p {p} after Benjamini and Hochberg."
    )


def _other_texts(contrast: Contrast) -> str:
    """What the second source of variance says, where it says something else than the seeds."""
    two, e = contrast.two_source, contrast.estimate
    if two is None or not two.estimable or e is None or e.low is None or e.high is None:
        return ""
    if two.low is None or two.high is None or contrast.verdict not in ("better", "worse"):
        return ""
    low, high = 100 * two.low, 100 * two.high
    told = f"the interval over seeds and test examples is [{signed(low)} to {signed(high)}]"
    holds = "should hold" if low > 0 or high < 0 else "might not hold"
    return f"On other texts like these it {holds}: {told}."


def _given_this_seed(contrast: Contrast) -> str:
    """Of a single seed, all that can be tested: McNemar's test over the test examples."""
    if contrast.n_planned != 1 or not contrast.mcnemar:
        return ""
    told = contrast.mcnemar[0]
    return (
        f"Given this seed, it is right where the baseline is wrong on {told.variant_only:,} test examples, and wrong"
        f" where the baseline is right on {told.baseline_only:,} (McNemar, mid-{p_equals(told.p_mid)}): that says"
        " nothing about other seeds."
    )


def _verdict(contrast: Contrast) -> str:
    estimate, name, metric = contrast.estimate, contrast.variant, contrast.metric
    margin = metric.size(contrast.margin)
    size = _size(estimate, metric, with_interval=contrast.test != "e-process")
    tested = f"{_test(contrast)}, {p_equals(contrast.p_holm)} after Holm over {plural(contrast.family, 'contrast')}"
    if contrast.n_planned > 2 and contrast.n_pairs < contrast.n_planned:
        so_far = f" So far the difference is {size}." if estimate is not None else ""
        there = f"{contrast.n_pairs} of {contrast.n_planned} pairs"
        return f"{name} is inconclusive: {there} have both results, and nothing is tested until all have.{so_far}"
    if contrast.verdict == "undecidable by design":
        seen = "" if estimate is None or contrast.failures else f" The difference seen is {size}."
        return f"{name} is undecidable by design: {contrast.reason}.{seen}"
    if contrast.test == "worst_rank":
        if contrast.verdict == "inconclusive":
            return f"{name} is inconclusive ({tested})."
        return f"{name} is {contrast.verdict} than the baseline ({tested})."
    if contrast.test == "e-process" and contrast.verdict == "inconclusive":
        return f"{name} is inconclusive: {contrast.reason} ({tested}). The difference so far is {size}."
    if contrast.verdict in ("better", "worse"):
        return f"{name} is {contrast.verdict} than the baseline: {size} ({tested})."
    tost = f"TOST {p_equals(contrast.p_tost_holm)} after Holm"
    if contrast.verdict == "trivial":
        return (
            f"{name} differs from the baseline by {size} ({tested}), which is shown to be less than the"
            f" margin of {margin} ({tost})."
        )
    if contrast.verdict == "equivalent":
        return f"{name} is equivalent to the baseline within ±{margin}: difference {size} ({tost})."
    return (
        f"{name} is inconclusive: the difference of {size} is neither shown to differ from 0 ({tested}) nor"
        f" to be under {margin} ({tost})."
    )


def _failures(contrast: Contrast) -> str:
    arm, base = contrast.arm, contrast.baseline
    estimate = contrast.estimate
    given = (
        f"Given that neither run failed ({estimate.n} of {plural(contrast.n_planned, 'pair')}), the difference is"
        f" {_size(estimate, contrast.metric)}."
        if estimate is not None
        else "In no pair did both runs come through."
    )
    return (
        f"{arm.failures} of {arm.runs} of its runs failed, {base.failures} of {base.runs} of the baseline's (exact"
        f" paired {p_equals(contrast.p_failures)}). {given}"
    )


def _test(contrast: Contrast) -> str:
    names = {
        "t": "paired t test",
        "worst_rank": "exact worst-rank test",
        "e-process": "e-process, valid at any time of looking",
        "none": "no test",
    }
    return names.get(contrast.test, "exact test of a constant difference")


def _size(estimate: Estimate | None, metric: Metric, *, with_interval: bool = True) -> str:
    if estimate is None:
        return DASH
    low, high = signed(estimate.low, metric.digits), signed(estimate.high, metric.digits)
    bounds = "" if estimate.low is None or not with_interval else f" [95 % t interval {low} to {high}]"
    return f"{signed(estimate.difference, metric.digits)} {metric.unit}".rstrip() + bounds


def _sized(contrasts: Sequence[Contrast]) -> str:
    return listed([f"{c.variant} ({_brief(c)})" for c in contrasts])


def _brief(contrast: Contrast) -> str:
    estimate = contrast.estimate
    metric = contrast.metric
    size = DASH
    if estimate is not None:
        told = f"{signed(estimate.difference, metric.digits)} {metric.unit}".rstrip()
        size = f"{told} {interval(estimate, metric.digits)}"
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
