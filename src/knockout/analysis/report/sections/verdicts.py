"""The verdicts, how to read them, and what they rest on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from knockout.analysis.inference.comparison import Comparison
from knockout.analysis.inference.contrasts import Contrast
from knockout.analysis.report import sentences
from knockout.analysis.report.blocks import Cell, Definitions, Section, Table, table
from knockout.analysis.report.sentences import DASH, difference, interval, number, p_text, signed
from knockout.analysis.stats.metric import Metric
from knockout.design import Variant
from knockout.plurals import plural

INTERVAL = "95 % confidence interval"

ORDER = ("worse", "better", "negligible", "equivalent", "inconclusive", "undecidable")
"""Verdicts by the first word, as a reader who sorts by them gets them: what is shown first."""


def verdicts(
    comparison: Comparison,
    *,
    described: Mapping[str, Variant],
    late: Mapping[str, str],
    links: Mapping[str, str] | None = None,
) -> Section:
    """The table of verdicts. `described`: variant -> what it changes; `late`: variant -> why it is exploratory;
    `links`: variant -> id of the section that tells more of it."""
    return Section(
        id="verdicts",
        title="Verdicts",
        part="answer",
        blocks=(verdict_table(comparison, described=described, late=late, links=links),),
        notes=(
            (
                "The verdict follows from the p values after Holm's correction. The confidence intervals are over"
                " seeds and not adjusted for the number of variants; they do not set the verdict."
            ),
            *(
                (
                    (
                        "Where runs failed, p comes from the exact worst-rank test, which counts failures; difference"
                        " and interval then cover only the pairs in which neither run failed. A range after the failed"
                        " runs is the 95 % Wilson interval of their rate."
                    ),
                )
                if any_failed(comparison)
                else ()
            ),
        ),
    )


def any_failed(comparison: Comparison) -> bool:
    """Whether a run of the baseline or of a variant failed."""
    first = comparison.contrasts[0]
    return bool(first.baseline.failures) or any(c.arm.failures for c in comparison.contrasts)


def verdict_table(
    comparison: Comparison,
    *,
    described: Mapping[str, Variant],
    late: Mapping[str, str],
    links: Mapping[str, str] | None = None,
) -> Table:
    """One row per variant, under one of the baseline. `links`: variant -> id of the section that tells more of it."""
    metric, base = comparison.metric, comparison.contrasts[0].baseline
    head = (
        comparison.baseline,
        "",
        "",
        "",
        sentences.level(base, metric.digits),
        plural(base.runs, "run"),
        f"{base.failures} of {base.runs}",
        "",
        "",
    )
    ids = {} if links is None else links
    return table(
        (
            "Variant",
            "Verdict",
            f"#{difference_header(metric)}",
            "#p, Holm",
            f"#{sentences.header(metric)}, mean ± sd",
            "#Pairs",
            "#Failed runs",
            "#p",
            "#d_z",
        ),
        [head, *(_verdict_row(c, described, late, ids.get(c.variant, "")) for c in comparison.contrasts)],
        sorted_by_reader=True,
    )


def difference_header(metric: Metric) -> str:
    """The head of a column of differences with their intervals."""
    return f"Difference{f', {metric.unit}' if metric.unit else ''} [{INTERVAL}]"


def verdict_cell(contrast: Contrast, tags: Sequence[str] = ()) -> Cell:
    """The verdict as a coloured label."""
    text = sentences.verdict_text(contrast)
    return Cell(text=text, badge=text.split()[0], notes=tuple(tags))


def difference_cell(contrast: Contrast) -> Cell:
    """Difference and interval, with the number of pairs where failed runs are left out of it."""
    estimate, digits = contrast.estimate, contrast.metric.digits
    given = contrast.failures and estimate is not None
    return Cell(
        text=f"{difference(estimate, digits)} {interval(estimate, digits)}" if estimate is not None else DASH,
        notes=(f"neither failed: {estimate.n} pairs",) if given and estimate is not None else (),
    )


def counts(contrast: Contrast) -> tuple[str, str]:
    """Pairs, and failed runs with the interval of their rate."""
    arm = contrast.arm
    low, high = arm.rate_low, arm.rate_high
    rate = f" [{100 * low:.0f}–{100 * high:.0f} %]" if arm.failures and low is not None and high is not None else ""
    pairs = str(contrast.n_pairs) + (f" of {contrast.n_planned}" if contrast.n_pairs < contrast.n_planned else "")
    return pairs, f"{arm.failures} of {arm.runs}{rate}"


def _verdict_row(
    contrast: Contrast, described: Mapping[str, Variant], late: Mapping[str, str], link: str
) -> tuple[Cell, ...]:
    estimate, arm = contrast.estimate, contrast.arm
    change = sentences.change(described, contrast.variant)
    verdict = verdict_cell(contrast, sentences.flags(contrast, late))
    pairs, failed = counts(contrast)
    tested = contrast.p is not None
    return (
        Cell(text=contrast.variant, notes=(change,) if change else (), link=link),
        replace(verdict, sort=ORDER.index(verdict.badge) if verdict.badge in ORDER else None),
        replace(difference_cell(contrast), sort=None if estimate is None else estimate.difference),
        Cell(text=p_text(contrast.p_holm) if tested else DASH, sort=contrast.p_holm if tested else None),
        Cell(text=sentences.level(arm, contrast.metric.digits), sort=arm.mean),
        Cell(text=pairs, sort=contrast.n_pairs),
        Cell(text=failed, sort=arm.failures),
        Cell(text=p_text(contrast.p), sort=contrast.p),
        _sized(None if estimate is None else estimate.d_z),
    )


def _sized(d_z: float | None) -> Cell:
    return Cell(text=signed(d_z), sort=d_z)


def reading(comparison: Comparison) -> Section:
    """What each verdict means, with this plan's numbers."""
    plan, metric = comparison.plan, comparison.metric
    return Section(
        id="reading",
        title="How to read a verdict",
        part="answer",
        folded=True,
        tells="What each of the words means, with this plan's numbers.",
        terms=(
            *("Better, worse", "Negligible", "Equivalent", "Inconclusive", "Undecidable by design"),
            *("Paired t test", "Holm's correction", "TOST (equivalence test)", "Normal theory only", "Exploratory"),
        ),
        blocks=(Definitions(items=tuple(sentences.meanings(plan, metric, failures=any_failed(comparison)))),),
    )


def robustness(comparison: Comparison) -> Section:
    """The same contrasts under other tests."""
    first = comparison.contrasts[0]
    k = first.family
    return Section(
        id="robustness",
        title="Robustness checks",
        tells="Whether other tests of the same differences agree with the planned one.",
        terms=("Sign-flip test", "Wilcoxon signed-rank test", "Max-T", "Welch's test", "Worst-rank test"),
        lead=(
            (
                "The same contrasts under other tests. Verdicts do not use them. Where two p values stand in a cell,"
                " the second is after Holm's correction."
            ),
        ),
        blocks=(
            table(
                (
                    "Variant",
                    "Planned test",
                    "#n",
                    "#Sign-flip p",
                    "#Wilcoxon p",
                    "#max-T p",
                    "#TOST p",
                    "#Welch p",
                    "#Failures, exact p",
                ),
                map(_robustness_row, comparison.contrasts),
                dense=True,
            ),
        ),
        notes=(
            (
                "The sign-flip and Wilcoxon tests are exact and allow for ties; max-T flips the signs of whole seeds"
                f" for all variants at once, from 6 seeds on. With {len(comparison.seeds)} pairs no exact test can"
                f" give a p below {p_text(first.floor)}; over {plural(k, 'contrast')} a sign-flip test needs"
                f" {first.seeds_for_floor} seeds to pass Holm's correction. Welch's test ignores the pairing."
            ),
        ),
    )


def _two(raw: float | None, adjusted: float | None) -> str:
    return DASH if raw is None else f"{p_text(raw)} / {p_text(adjusted)}"


def _robustness_row(contrast: Contrast) -> tuple[Cell | str, ...]:
    e, others = contrast.estimate, contrast.sensitivity
    tested = {"t": "paired t", "worst_rank": "worst-rank"}.get(contrast.test, contrast.test)
    return (
        contrast.variant,
        Cell(text=tested, notes=(f"disagrees: {', '.join(others.disagree)}",) if others.disagree else ()),
        str(e.n if e is not None else 0),
        _two(None if others.sign_flip is None else others.sign_flip.p, others.sign_flip_holm),
        _two(None if others.wilcoxon is None else others.wilcoxon.p, others.wilcoxon_holm),
        p_text(others.max_t),
        _two(contrast.p_tost, contrast.p_tost_holm),
        p_text(e.p_welch if e is not None else None),
        p_text(contrast.p_failures),
    )


def sizes(comparison: Comparison) -> Section:
    """Effect sizes, and the differences and seeds that the observed spread allows."""
    plan = comparison.plan
    margin, power = comparison.metric.size(plan.margin), f"{plan.power * 100:g} %"
    return Section(
        id="sizes",
        title="Effect sizes, and what more seeds would show",
        tells="How large the differences are beside their spread, and how many seeds would decide what is open.",
        terms=(
            *("d_z", "g_z", "d_av", "Cliff's delta", "Win rate", "Minimum detectable effect"),
            "Pitman-Morgan test",
        ),
        blocks=(
            table(
                (
                    "Variant",
                    "#sd of differences",
                    "#d_z",
                    "#g_z",
                    "#d_av",
                    "#Cliff's delta",
                    "#Win rate",
                    "#Correlation",
                    "#Ratio of sds",
                    "#p of ratio",
                    "#Minimum detectable",
                    "#Seeds, difference [95 % CI]",
                    "#Seeds, equivalence [95 % CI]",
                ),
                map(_size_row, comparison.contrasts),
                dense=True,
            ),
        ),
        notes=(
            (
                f"Minimum detectable: the smallest difference found with {power} power at the standard deviation seen"
                " here; two numbers: tested alone, and as the first under Holm. Seeds: how many would find a"
                f" difference of {margin}, or show equivalence if there is none, with the same power as the first under"
                " Holm. In brackets: the same at the ends of the 95 % confidence interval of the standard deviation."
                " None of these uses the difference seen."
            ),
            (
                "Win rate: share of seeds at which the variant is better, ties count half. Ratio of sds: variant to"
                " baseline over seeds, with the Pitman-Morgan test, which assumes normal values."
            ),
            *((text,) if (text := sentences.pairing(comparison.contrasts)) else ()),
        ),
    )


def _size_row(contrast: Contrast) -> tuple[str, ...]:
    e, spread, needs = contrast.estimate, contrast.sensitivity.stability, contrast.needs
    return (
        contrast.variant,
        number(e.sd if e is not None else None, contrast.metric.digits),
        signed(e.d_z if e is not None else None),
        signed(e.g_z if e is not None else None),
        signed(e.d_av if e is not None else None),
        signed(e.cliffs_delta if e is not None else None),
        number(e.win_rate if e is not None else None),
        number(e.correlation if e is not None else None),
        number(None if spread is None else spread.ratio),
        p_text(None if spread is None else spread.p),
        sentences.detectable(contrast).replace(" to ", DASH),
        _seeds(needs.seeds_difference_first, needs.seeds_difference_low, needs.seeds_difference_high)
        if needs is not None
        else DASH,
        _seeds(needs.seeds_equivalence_first, needs.seeds_equivalence_low, needs.seeds_equivalence_high)
        if needs is not None
        else DASH,
    )


def _seeds(first: int | None, low: int | None, high: int | None) -> str:
    return sentences.seeds_needed(first, low, high).replace(" to ", DASH)


def leave_one_seed_out(comparison: Comparison) -> Section | None:
    """Every verdict without each of the seeds."""
    rows = [_left_out_row(c) for c in comparison.contrasts if c.left_out]
    if not rows:
        return None
    return Section(
        id="leave-one-seed-out",
        title="Leave-one-seed-out",
        tells="Whether a verdict rests on one particular seed.",
        terms=("Leave-one-seed-out",),
        lead=(
            (
                "All variants judged again without each seed. A verdict that changes without one particular seed rests"
                " on that seed; one that changes without any of several seeds rests on the number of seeds."
            ),
        ),
        blocks=(
            table(
                ("Variant", "Verdict", "#Difference", "#p, Holm", "#TOST p, Holm", "Seeds without which it changes"),
                rows,
            ),
        ),
        notes=("Every case: seeds.csv.",),
    )


def _left_out_row(contrast: Contrast) -> tuple[str, ...]:
    digits, cases = contrast.metric.digits, contrast.left_out
    differences = [x.difference for x in cases if x.difference is not None]
    p, tost = [x.p_holm for x in cases], [x.p_tost_holm for x in cases]
    flips: dict[str, list[str]] = {}
    for x in cases:
        if x.flips:
            flips.setdefault(sentences.shown(x.verdict), []).append(str(x.seed))
    changed = "; ".join(f"{', '.join(seeds)} (then {verdict})" for verdict, seeds in flips.items())
    return (
        contrast.variant,
        sentences.verdict_text(contrast),
        f"{signed(min(differences), digits)} to {signed(max(differences), digits)}" if differences else DASH,
        f"{p_text(min(p))} to {p_text(max(p))}" if contrast.p is not None else DASH,
        f"{p_text(min(tost))} to {p_text(max(tost))}" if contrast.p_tost is not None else DASH,
        changed or "none",
    )
