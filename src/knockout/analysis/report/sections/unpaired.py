"""The report of an unpaired comparison: every section says that it is one, and the weaker."""

from collections.abc import Sequence
from typing import Literal

from knockout.analysis.inference.unpaired import UnpairedComparison, UnpairedContrast
from knockout.analysis.report import sentences
from knockout.analysis.report.blocks import Bullets, Cell, Definitions, Page, Section, Table, table
from knockout.analysis.report.sections import setting
from knockout.analysis.report.sections.verdicts import difference_header
from knockout.analysis.report.sentences import DASH, number, p_equals, p_text, signed
from knockout.plurals import plural

WEAKER = (
    "Unpaired: nothing says which runs share a seed, so runs of each variant are compared with all runs of the baseline"
    " (Welch's t test). What runs of one seed have in common is noise here; with seeds, a paired comparison of the same"
    " runs would usually find smaller differences."
)

TERMS = (
    (
        "Unpaired comparison",
        (
            "The runs of a variant and of the baseline are taken as independent samples. It is the weaker comparison:"
            " paired by seed, what a seed adds to both runs cancels out."
        ),
    ),
    ("Welch's t test", "Compares two means whose variances may differ. It takes the runs of each arm as normal."),
    ("Holm's correction", "Raises p values so that the chance of any false verdict in the family stays below alpha."),
    ("TOST", "Two one-sided tests, here Welch's, that together show a difference to be smaller than the margin."),
    (
        "Rank-sum test",
        (
            "Wilcoxon's, also called Mann-Whitney: compares the ranks of all runs, exactly, with ties. Where runs"
            " failed it decides, with failed runs ranked below all others."
        ),
    ),
    (
        "Permutation test",
        "Compares the difference of means with that under every other way to deal the runs to the two arms.",
    ),
    (
        "Minimum detectable difference",
        "The smallest true difference that these runs would show with the planned power, at the sds seen.",
    ),
    ("Cliff's delta", "P(variant > baseline) - P(variant < baseline) over all pairs of a run of each: from -1 to 1."),
)


def unpaired_page(
    comparison: UnpairedComparison, *, title: str, question: str, provenance: Sequence[tuple[str, str]]
) -> Page:
    """The report of runs without seeds."""
    metric, plan = comparison.metric, comparison.plan
    failed = any(c.failures for c in comparison.contrasts)
    meanings = [
        ("undecidable by design", "With so few runs no result could have given a verdict; only estimates are shown.")
        if name == "undecidable by design"
        else (name, meaning.replace("signed-rank test on ranks", "rank-sum test"))
        for name, meaning in sentences.meanings(plan, metric, failures=failed)
        if name != "incomplete" or any(c.missing for c in comparison.contrasts)
    ]
    return Page(
        title=title,
        question=question,
        answer=tuple(unpaired_answer(comparison)),
        warnings=(WEAKER,),
        sections=(
            Section(
                id="verdicts",
                part="answer",
                title="Verdicts, unpaired",
                blocks=(unpaired_verdict_table(comparison),),
                notes=(
                    (
                        "The verdict follows from the p values after Holm's correction. The confidence intervals are"
                        " Welch's, over runs, and not adjusted for the number of variants; they do not set the verdict."
                    ),
                    (
                        "Minimum detectable: the smallest difference that Welch's test of these numbers of runs finds"
                        f" with {plan.power * 100:g} % power at the standard deviations seen here; two numbers: tested"
                        " alone, and as the first under Holm. The difference seen is not used."
                    ),
                ),
            ),
            Section(
                id="reading",
                title="How to read a verdict",
                blocks=(Definitions(items=tuple(meanings)),),
                part="answer",
                folded=True,
                tells="What each of the words means, with this plan's numbers.",
            ),
            Section(
                id="words",
                title="Each variant in words",
                part="variants",
                folded=False,
                blocks=(Bullets(items=tuple(map(unpaired_sentence, comparison.contrasts))),),
            ),
            setting.design(
                "The runs of each variant are compared with all runs of the baseline, as independent samples.",
                [
                    ("Baseline", comparison.baseline),
                    ("Variants", str(len(comparison.contrasts))),
                    ("Runs", runs_text(comparison)),
                    (
                        "Judged by",
                        (
                            f"{metric.name} ({metric.better} is better), Welch's t test, unpaired, Holm over"
                            f" {plural(len(comparison.contrasts), 'contrast')}, alpha {plan.alpha:g}, margin"
                            f" {metric.size(plan.margin)}"
                        ),
                    ),
                ],
                notes=comparison.notes,
            ),
            _robustness(comparison),
            setting.limits(
                (
                    WEAKER,
                    "All contrasts share the baseline's runs: where these are low by chance, every variant looks good.",
                    "Runs are taken as independent. Runs that share a seed, a data split or a machine are not.",
                    (
                        "Metric, margin, baseline and variants were named when this report was made. Whether they were"
                        " fixed before results existed is not known."
                    ),
                )
            ),
            setting.provenance(
                provenance, files="contrasts.csv (tests), and analysis.json (every number and its call)"
            ),
            Section(
                id="glossary",
                title="Glossary",
                blocks=(Definitions(items=TERMS, anchored=True),),
                tells="Every term of this report in one or two sentences.",
            ),
        ),
    )


def runs_text(comparison: UnpairedComparison) -> str:
    """How many runs there are: "4 to 6 runs of each variant, 5 of the baseline"."""
    counts = [c.planned[0] for c in comparison.contrasts]
    low, high = min(counts), max(counts)
    span = plural(low, "run") if low == high else f"{low} to {plural(high, 'run')}"
    return f"{span} of each variant, {comparison.contrasts[0].planned[1]} of the baseline"


def unpaired_answer(comparison: UnpairedComparison) -> list[str]:
    """What was seen, in a few sentences, each of which stands for itself as unpaired."""
    by: dict[str, list[str]] = {}
    for c in comparison.contrasts:
        by.setdefault(c.verdict, []).append(c.variant)
    base, margin = comparison.baseline, comparison.metric.size(comparison.plan.margin)
    moved = [f"{sentences.listed(by[v])} {_is(by[v])} {v}" for v in ("better", "worse") if v in by]
    lines = [
        f"Compared with {base}, unpaired: {sentences.listed(moved)}."
        if moved
        else f"Unpaired, nothing is shown to be better or worse than {base}."
    ]
    if "trivial" in by:
        lines.append(f"{sentences.listed(by['trivial'])}: shown to differ, by less than {margin}.")
    if "equivalent" in by:
        lines.append(f"{sentences.listed(by['equivalent'])}: equivalent to the baseline within ±{margin}.")
    if "inconclusive" in by:
        lines.append(f"{sentences.listed(by['inconclusive'])}: inconclusive, which is no evidence of equality.")
    if "undecidable by design" in by:
        lines.append(f"{sentences.listed(by['undecidable by design'])}: too few runs for any verdict.")
    return lines


VerdictColumn = Literal[
    "variant", "runs", "failed runs", "level", "difference", "detectable", "p", "p (Holm)", "verdict"
]
"""The columns of the table of verdicts, by name; their titles name the metric."""


def unpaired_titles(comparison: UnpairedComparison) -> dict[VerdictColumn, str]:
    """The title of each column, in order; "#" before one sets it to the right."""
    metric = comparison.metric
    return {
        "variant": "Variant",
        "runs": "#Runs",
        "failed runs": "#Failed runs",
        "level": f"#{sentences.header(metric)}, mean ± sd",
        "difference": f"#{difference_header(metric)}, unpaired",
        "detectable": "#Minimum detectable",
        "p": "#p",
        "p (Holm)": "#p, Holm",
        "verdict": "Verdict (unpaired)",
    }


def unpaired_rows(comparison: UnpairedComparison) -> list[dict[VerdictColumn, Cell]]:
    """One row per variant, under one of the baseline."""
    first, empty = comparison.contrasts[0], Cell(text="")
    base = first.baseline
    head: dict[VerdictColumn, Cell] = {
        **dict.fromkeys(unpaired_titles(comparison), empty),
        "variant": Cell(text=comparison.baseline),
        "runs": Cell(text=_runs(base.runs, first.planned[1])),
        "failed runs": Cell(text=f"{base.failures} of {base.runs}"),
        "level": Cell(text=sentences.level(base, comparison.metric.digits)),
    }
    return [head, *map(_verdict_row, comparison.contrasts)]


def unpaired_verdict_table(comparison: UnpairedComparison) -> Table:
    """The rows of `unpaired_rows` as the report's table."""
    titles = unpaired_titles(comparison)
    first: tuple[VerdictColumn, ...] = ("variant", "verdict", "difference", "p (Holm)")
    order = (*first, *(name for name in titles if name not in first))
    return table([titles[name] for name in order], [[row[name] for name in order] for row in unpaired_rows(comparison)])


def _runs(results: int, planned: int) -> str:
    return str(results) if results == planned else f"{results} of {planned}"


def _verdict_row(c: UnpairedContrast) -> dict[VerdictColumn, Cell]:
    verdict = sentences.shown(c.verdict)
    return {
        "variant": Cell(text=c.variant),
        "runs": Cell(text=_runs(c.arm.runs, c.planned[0])),
        "failed runs": Cell(text=f"{c.arm.failures} of {c.arm.runs}"),
        "level": Cell(text=sentences.level(c.arm, c.metric.digits)),
        "difference": Cell(
            text=_difference(c), notes=("of runs that did not fail",) if c.failures and c.estimate else ()
        ),
        "detectable": Cell(text=detectable_text(c).replace(" to ", DASH)),
        "p": Cell(text=p_text(c.p)),
        "p (Holm)": Cell(text=DASH if c.p is None else p_text(c.p_holm)),
        "verdict": Cell(
            text=verdict + (f" (incomplete: {c.missing} missing)" if c.missing else ""),
            badge=verdict.split()[0],
            notes=(f"{sentences.listed(c.disagree)} test disagrees",) if c.disagree else (),
        ),
    }


def detectable_text(c: UnpairedContrast) -> str:
    """The minimum detectable difference, tested alone and as the first under Holm."""
    if c.needs is None:
        return DASH
    alone, first = (number(x, c.metric.digits) for x in (c.needs.detectable, c.needs.detectable_first))
    return alone if alone == first else f"{alone} to {first}"


def _difference(c: UnpairedContrast) -> str:
    e, digits = c.estimate, c.metric.digits
    if e is None:
        return DASH
    between = DASH if e.low is None or e.high is None else f"[{signed(e.low, digits)}, {signed(e.high, digits)}]"
    return f"{signed(e.difference, digits)} {between}"


def unpaired_sentence(c: UnpairedContrast) -> str:
    """One contrast in words: verdict, difference, test, and what limits it."""
    unit = f" {c.metric.unit}" if c.metric.unit else ""
    size = f"{_difference(c)}{unit}"
    verdict = sentences.shown(c.verdict)
    tested = "" if c.p is None else f", {c.test}, {p_equals(c.p_holm)} after Holm over {plural(c.family, 'contrast')}"
    failed = f" {c.failures} of {c.arm.runs + c.baseline.runs} runs failed." if c.failures else ""
    beside = f" The {sentences.listed(c.disagree)} test disagrees." if c.disagree else ""
    why = "" if c.p is not None else f" ({c.reason})"
    least = ""
    if c.verdict == "inconclusive" and c.needs is not None:
        least = (
            f" With these runs and standard deviations, the minimum detectable difference is {detectable_text(c)}{unit}"
            f" at {c.power * 100:g} % power."
        )
    return f"{c.variant}, unpaired: {verdict}{why}, {size}{tested}.{failed}{least}{beside}"


def _robustness(comparison: UnpairedComparison) -> Section:
    return Section(
        id="robustness",
        title="Robustness checks and effect sizes, unpaired",
        tells="Whether other tests of the same differences agree with the planned one.",
        terms=("Rank-sum test", "Permutation test", "Cliff's delta"),
        lead=("The same contrasts under other tests, which verdicts do not use. Second p: after Holm's correction.",),
        blocks=(
            table(
                (
                    "Variant",
                    "Planned test",
                    "#t",
                    "#Welch df",
                    "#TOST p",
                    "#Rank-sum p",
                    "#Permutation p",
                    "#d_av",
                    "#Cliff's delta",
                ),
                map(_robustness_row, comparison.contrasts),
                dense=True,
            ),
        ),
    )


def _robustness_row(c: UnpairedContrast) -> tuple[Cell | str, ...]:
    e = c.estimate
    rank, means = c.rank_sum, c.permuted
    return (
        c.variant,
        Cell(text=c.test, notes=(f"disagrees: {', '.join(c.disagree)}",) if c.disagree else ()),
        signed(None if e is None else e.t),
        number(None if e is None else e.df),
        DASH if c.p_tost is None else f"{p_text(c.p_tost)} / {p_text(c.p_tost_holm)}",
        DASH if rank is None else f"{p_text(rank.p)} / {p_text(c.rank_sum_holm)}",
        DASH if means is None else f"{p_text(means.p)} / {p_text(c.permuted_holm)}",
        signed(None if e is None else e.d_av),
        signed(None if e is None else e.cliffs_delta),
    )


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
