"""The sentences of a report and its numbers as text, each computed from a verdict."""

import math
import re
from collections.abc import Container, Mapping, Sequence

from knockout.analysis.inference.contrasts import Contrast
from knockout.analysis.inference.interactions import EffectEstimate, JudgedEffect
from knockout.analysis.inference.pairing import pairing_numbers
from knockout.analysis.inference.pairs import Arm, Estimate
from knockout.analysis.inference.secondary import Secondary
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.power import span
from knockout.design import Variant
from knockout.plurals import plural
from knockout.study import Plan

DASH = "–"


NOISE = 1e-9
"""A difference under this is the rounding of floats: it has no sign."""


def signed(value: float | None, digits: int = 2) -> str:
    """A difference in points: "+0.35", "−1.20". One that rounds to zero keeps its sign: "−0.00"."""
    if value is None:
        return DASH
    exact = 0.0 if digits <= 2 and abs(value) < NOISE else value
    return f"{exact:+{_form(exact, digits)}}".replace("-", "−")


def decimals(estimate: Estimate | EffectEstimate | None, digits: int = 2) -> int:
    """The decimals of a difference and its interval: `digits`, or more where these show nothing of the interval.

    What must show is half the interval's width, or the difference itself where all differences are one number.
    """
    if estimate is None or estimate.low is None or estimate.high is None:
        size = 0.0 if estimate is None or estimate.n <= 2 else abs(estimate.difference)
    else:
        size = (estimate.high - estimate.low) / 2
    if not NOISE <= size < 10.0**-digits:
        return digits
    return min(1 - math.floor(math.log10(size)), 12)


def difference(estimate: Estimate | EffectEstimate | None, digits: int = 2) -> str:
    """The difference of an estimate, with the decimals that its interval needs."""
    return DASH if estimate is None else signed(estimate.difference, decimals(estimate, digits))


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
    shown_digits = decimals(estimate, digits)
    return f"[{signed(estimate.low, shown_digits)}, {signed(estimate.high, shown_digits)}]"


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


def shown(text: str) -> str:
    """Our own words as a person reads them: the files' verdict `trivial` is called negligible."""
    return re.sub(r"\btrivial\b", "negligible", text)


def verdict_text(contrast: Contrast) -> str:
    """A verdict as a person reads it. The files keep `contrast.label`."""
    if contrast.verdict == "undecidable by design" and contrast.n_planned > 2:
        return "undecidable (runs failed)"  # the design could have decided, had no run failed
    return shown(contrast.label)


def needed(contrast: Contrast) -> str:
    """The differences that this study could detect, and the seeds that would settle it, at the observed spread."""
    needs, metric = contrast.needs, contrast.metric
    if needs is None:
        return ""
    seeds = seeds_needed(needs.seeds_difference_first, needs.seeds_difference_low, needs.seeds_difference_high)
    equal = seeds_needed(needs.seeds_equivalence_first, needs.seeds_equivalence_low, needs.seeds_equivalence_high)
    if_whole = " (were no run to fail)" if contrast.failures else ""
    smallest = f"{detectable(contrast)} {metric.unit}".rstrip()
    power = f"{contrast.power * 100:g} %"
    return (
        f"With {contrast.n_planned} seeds and the standard deviation seen here{if_whole}, the minimum detectable"
        f" difference is {smallest} at {power} power; {seeds} seeds would detect one of {metric.size(contrast.margin)},"
        f" and {equal} would show equivalence if there is none."
    )


def seeds_needed(first: int | None, low: int | None, high: int | None) -> str:
    """The seeds that a contrast needs as the first under Holm, with the interval that the sd's uncertainty gives."""
    return f"{span(first, first)} [{span(low, high)}]"


def pairing(contrasts: Sequence[Contrast]) -> str:
    """Whether pairing by seed helped, and what it costs where it did not; "" where that is not known."""
    found = pairing_numbers(contrasts)
    if found is None:
        return ""
    bound, variants = number(found.bound), plural(found.known, "variant")
    if 2 * found.low <= found.known or found.cost is None:
        return (
            f"Pairing by seed helped: for {found.known - found.low} of {variants} the correlation of variant and"
            f" baseline over seeds is above {bound},"
            " from which the paired test detects smaller differences than independent samples of as many seeds would."
        )
    size = f"{abs(found.cost):.0f} % {'larger' if found.cost > 0 else 'smaller'}"
    return (
        f"Pairing by seed did not help here: for {found.low} of {variants} the correlation of variant and baseline over"
        f" seeds is at most {bound}, and pairing pays only above that. The minimum detectable difference is {size}"
        " (median over the variants) than with independent samples of as many seeds."
    )


def flags(contrast: Contrast, late: Container[str] = ()) -> list[str]:
    """What a reader must know wherever the verdict stands. `late`: the variants whose contrast is exploratory."""
    marks = ["exploratory"] if contrast.variant in late else []
    marks += ["identical predictions"] if contrast.identical else ["same values"] if contrast.unchanged else []
    marks += ["normal theory only"] if contrast.normal_theory_only else []
    return marks + fragile(contrast, short=True)


def detectable(contrast: Contrast) -> str:
    """The minimum detectable difference, tested alone and as the first under Holm."""
    needs, digits = contrast.needs, contrast.metric.digits
    if needs is None:
        return DASH
    alone, first = number(needs.detectable, digits), number(needs.detectable_first, digits)
    return alone if alone == first else f"{alone} to {first}"


def meanings(plan: Plan, metric: Metric, *, failures: bool) -> list[tuple[str, str]]:
    """What each verdict means, as (verdict, meaning), the clearest first. `failures`: whether any run failed."""
    alpha, margin = f"{plan.alpha:g}", metric.size(plan.margin)
    rows = [
        ("better, worse", f"A difference is shown: p <= {alpha} after Holm's correction over all variants."),
        ("negligible", f"A difference is shown, and it is also shown to be smaller than {margin}."),
        (
            "equivalent",
            f"No difference is shown, and one as large as {margin} is ruled out (TOST, p <= {alpha} after Holm).",
        ),
        ("inconclusive", "Neither is shown. This is no evidence that the variant equals the baseline."),
        ("incomplete", "A planned run has no result yet. Nothing is tested before it has."),
        (
            "undecidable by design",
            "With this number of seeds no result could have given a verdict; only estimates are shown.",
        ),
    ]
    ranked = "A failed run ranks below every other, and an exact signed-rank test on ranks is used."
    return rows + ([("with failed runs", ranked)] if failures else [])


START_DECIDES = ("scale", "residual", "norm", "qk_norm", "embedding_scale")
"""Factors whose effect depends on how the weights start."""


def starting_weights(described: Mapping[str, Variant], baseline: str) -> str:
    """Which initialisation the verdicts on some variants hold for; empty where no variant depends on it."""
    variants = [v for v, what in described.items() if v != baseline and set(what.changes) & set(START_DECIDES)]
    start = described[baseline].factors.get("initialisation") if baseline in described else None
    if not variants or start is None:
        return ""
    verdicts = "verdict" if len(variants) == 1 else "verdicts"
    return f"Weights start as {start}: with another initialisation the {verdicts} on {listed(variants)} may differ."


def limits(contrasts: Sequence[Contrast], *, learning_rate: float | None, costs: bool, start: str = "") -> list[str]:
    """What a study's verdicts do not cover.

    `learning_rate`: the one of all variants, None for a trainer without it. `costs`: whether the report shows any.
    `start`: of `starting_weights`.
    """
    tuning = (
        "Nothing is tuned per variant: a variant that is worse here might do better with settings of its own."
        if learning_rate is None
        else f"All variants use one learning rate ({learning_rate:g}), not tuned per variant: a variant that is worse"
        " here might do better at its own."
    )
    return [
        "Seeds vary initialisation, data order and dropout, not the data split: all results are on this training set.",
        (
            "Verdicts are over seeds, on this one test set. The intervals for other test examples like these are for"
            " illustration; verdicts do not use them."
        ),
        tuning,
        *([start] if start else []),
        *([text] if (text := pairing(contrasts)).startswith("Pairing by seed did not") else []),
        *(["Costs were measured while other runs shared the machine."] if costs else []),
    ]


def sentence(contrast: Contrast) -> str:
    """One contrast in words: the verdict, its numbers, its test, and what limits it."""
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
            f" could confirm this (that needs {contrast.seeds_for_floor} seeds)."
        )
    else:
        parts.append(_disagreement(contrast))
    parts += [_at_the_floor(contrast), *fragile(contrast), _other_examples(contrast), _given_this_seed(contrast)]
    whole = contrast.n_pairs == contrast.n_planned and contrast.test != "e-process"
    if contrast.verdict == "inconclusive" and estimate is not None and whole:
        parts.append(needed(contrast))
    return " ".join(p for p in parts if p)


def _disagreement(contrast: Contrast) -> str:
    """Which robustness checks disagree with the planned test about p <= alpha."""
    others = contrast.sensitivity
    p = {
        "sign-flip": others.sign_flip_holm,
        "Wilcoxon": others.wilcoxon_holm,
        "max-T": others.max_t if others.max_t is not None else 1.0,
    }
    against = [f"{name} ({p_equals(p[name])})" for name in others.disagree]
    if not against:
        return ""
    return f"Robustness checks disagree: {listed(against)}. The verdict is that of the paired t test."


def _at_the_floor(contrast: Contrast) -> str:
    """Whether the exact p is the smallest possible one, and still above alpha."""
    exact = contrast.test in ("worst_rank", "exact (constant difference)")
    if not exact or contrast.verdict != "inconclusive" or contrast.p is None or contrast.p > contrast.floor:
        return ""
    return f"This is the smallest p possible at {contrast.n_planned} seeds ({p_equals(contrast.floor)} before Holm)."


def fragile(contrast: Contrast, *, short: bool = False) -> list[str]:
    """What a verdict rests on that changes when one seed is left out; nothing for one that does not change."""
    flips = [x for x in contrast.left_out if x.flips]
    if not flips:
        return []
    verdicts = " or ".join(sorted({shown(x.verdict) for x in flips}))
    if len(flips) == 1:
        rests = f"rests on seed {flips[0].seed}"
        return [rests] if short else [f"{rests[0].upper()}{rests[1:]}: leaving it out makes it {verdicts}."]
    if short:
        return [f"rests on the number of seeds: {len(flips)} of {contrast.n_planned} change it"]
    which = ", ".join(str(x.seed) for x in flips[:8]) + (", ..." if len(flips) > 8 else "")
    return [
        (
            f"Rests on the number of seeds: leaving out any of {len(flips)} of {contrast.n_planned} ({which}) makes it"
            f" {verdicts}."
        )
    ]


def effect_sentence(effect: JudgedEffect, metric: Metric) -> str:
    """One main effect or interaction in a sentence."""
    e, judged = effect.estimate, effect.judgement
    size = DASH if e is None else f"{difference(e, metric.digits)} {metric.unit}".rstrip()
    tested = f", p {p_text(judged.p_holm)} after Holm" if judged.tested.p is not None else f" ({judged.reason})"
    return f"{effect.name}: {size} {interval(e, metric.digits)}, {shown(effect.finding)}{tested}."


def secondary_sentence(row: Secondary) -> str:
    """One contrast on a secondary metric in a sentence."""
    e, metric = row.estimate, row.metric
    size = DASH if e is None else f"{difference(e, metric.digits)} {metric.unit}".rstrip()
    p = DASH if row.p is None else p_text(row.p_bh)
    return (
        f"{row.variant}, {title(metric)} ({metric.better} is better), exploratory: {size}"
        f" {interval(e, metric.digits)}, p {p} after Benjamini and Hochberg."
    )


def _other_examples(contrast: Contrast) -> str:
    """Whether a shown difference also holds over test examples, taken as a sample like the seeds."""
    two, e = contrast.two_source, contrast.estimate
    if two is None or not two.estimable or e is None or e.low is None or e.high is None:
        return ""
    if two.low is None or two.high is None or contrast.verdict not in ("better", "worse"):
        return ""
    low, high = 100 * two.low, 100 * two.high
    holds = "should hold" if low > 0 or high < 0 else "might not hold"
    return (
        f"On other test examples like these it {holds}: the interval over seeds and test examples is"
        f" {signed(low)} to {signed(high)}."
    )


def _given_this_seed(contrast: Contrast) -> str:
    """For a single seed, all that can be tested: McNemar's test over the test examples."""
    if contrast.n_planned != 1 or not contrast.mcnemar:
        return ""
    counts = contrast.mcnemar[0]
    return (
        f"Given this seed, it is right where the baseline is wrong on {counts.variant_only:,} test examples, and wrong"
        f" where the baseline is right on {counts.baseline_only:,} (McNemar, mid-{p_equals(counts.p_mid)}): this holds"
        " for no other seed."
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
        return f"{name} is {verdict_text(contrast).partition(' (')[0]}: {contrast.reason}.{seen}"
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
            f"{name} is negligible: it differs from the baseline by {size} ({tested}), which is shown to be less than"
            f" the margin of {margin} ({tost})."
        )
    if contrast.verdict == "equivalent":
        return f"{name} is equivalent to the baseline within ±{margin}: difference {size} ({tost})."
    return (
        f"{name} is inconclusive: the difference of {size} is neither shown to differ from 0 ({tested}) nor"
        f" shown to be under {margin} ({tost})."
    )


def _failures(contrast: Contrast) -> str:
    arm, base = contrast.arm, contrast.baseline
    estimate = contrast.estimate
    given = (
        f"Given that neither run failed ({estimate.n} of {plural(contrast.n_planned, 'pair')}), the difference is"
        f" {_size(estimate, contrast.metric)}."
        if estimate is not None
        else "In no pair did both runs finish without failing."
    )
    return (
        f"{arm.failures} of {arm.runs} of its runs failed, {base.failures} of {base.runs} of the baseline's (exact"
        f" paired {p_equals(contrast.p_failures)}). {given}"
    )


def _test(contrast: Contrast) -> str:
    names = {
        "t": "paired t test",
        "worst_rank": "exact worst-rank test",
        "e-process": "e-process, valid at every look",
        "none": "no test",
    }
    return names.get(contrast.test, "exact test of a constant difference")


def _size(estimate: Estimate | None, metric: Metric, *, with_interval: bool = True) -> str:
    if estimate is None:
        return DASH
    digits = decimals(estimate, metric.digits)
    low, high = signed(estimate.low, digits), signed(estimate.high, digits)
    bounds = "" if estimate.low is None or not with_interval else f" [95 % confidence interval {low} to {high}]"
    return f"{signed(estimate.difference, digits)} {metric.unit}".rstrip() + bounds


def _value(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
