"""What goes into a paper: a methods paragraph, tables in LaTeX, and the files that the page carries."""

import statistics
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from knockout.analysis import history
from knockout.analysis.inference.comparison import Comparison
from knockout.analysis.inference.contrasts import Contrast
from knockout.analysis.report import sentences
from knockout.analysis.report.blocks import Cell, Downloads, Listing, Section, Table, table
from knockout.analysis.report.latex import latex_file
from knockout.analysis.report.sections.verdicts import INTERVAL, counts, difference_header, verdict_cell
from knockout.analysis.report.sentences import DASH, difference, interval, number, p_text, signed
from knockout.analysis.results import Results
from knockout.plurals import plural

REFERENCES = {
    "Holm 1979": "Holm S (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of"
    " Statistics 6(2), 65-70.",
    "Schuirmann 1987": "Schuirmann DJ (1987). A comparison of the two one-sided tests procedure and the power approach"
    " for assessing the equivalence of average bioavailability. Journal of Pharmacokinetics and Biopharmaceutics 15(6),"
    " 657-680.",
    "Lachin 1999": "Lachin JM (1999). Worst-rank score analysis with informatively missing observations in clinical"
    " trials. Controlled Clinical Trials 20(5), 408-422.",
    "Westfall and Young 1993": "Westfall PH, Young SS (1993). Resampling-Based Multiple Testing. Wiley.",
    "Wilcoxon 1945": "Wilcoxon F (1945). Individual comparisons by ranking methods. Biometrics Bulletin 1(6), 80-83.",
    "Benjamini and Hochberg 1995": "Benjamini Y, Hochberg Y (1995). Controlling the false discovery rate: a practical"
    " and powerful approach to multiple testing. Journal of the Royal Statistical Society B 57(1), 289-300.",
    "Wilson 1927": "Wilson EB (1927). Probable inference, the law of succession, and statistical inference. Journal of"
    " the American Statistical Association 22(158), 209-212.",
}
"""How the paragraph cites a work -> the entry of its list of references"""


def paragraph(comparison: Comparison, results: Results | None = None, *, late: Mapping[str, str]) -> str:
    """The methods in one paragraph, for a paper. `results`: of a study; runs from elsewhere have none."""
    said = [
        *_compared(comparison, results),
        *_tested(comparison),
        *_failures(comparison),
        *_beside(comparison),
        *_fixed(results, late),
        _software(results),
    ]
    return " ".join(said)


def _compared(comparison: Comparison, results: Results | None) -> list[str]:
    metric, n = comparison.metric, len(comparison.seeds)
    variants = plural(len(comparison.contrasts), "variant")
    seeds = f"{plural(n, 'random seed')} ({_span(comparison.seeds)})"
    where = f" {sentences.title(metric)} ({metric.better} is better)"
    lines = [f"We compared {variants} with the baseline “{comparison.baseline}” in{where}, on {seeds} each."]
    if results is None:
        return [*lines, "Each run of a variant was paired with the baseline's run of the same seed."]
    data, recipe = results.design.data, results.design.recipe
    if data.splits:
        sizes = ", ".join(
            f"{data.splits[s].count:,} {s}" for s in ("train", "validation", "test") if s in data.splits
        ).replace(" train", " training")
        lines.append(f"The data were {data.source} ({sizes} texts); results are on the test split.")
    given = [
        text.format(f"{recipe[key]:g}") for key, text in RECIPE.items() if isinstance(recipe.get(key), int | float)
    ]
    if given:
        lines.append(
            f"Unless a variant changes it, training used {sentences.listed(given)}. No setting was tuned per variant."
        )
    lines.append(
        "A seed fixed the initial values of all shared parameters, the order of the data and the dropout masks, so each"
        " run of a variant was paired with the baseline's run of the same seed."
        if results.design.trainer.startswith("knockout.")
        else "Each run of a variant was paired with the baseline's run of the same seed."
    )
    return lines


RECIPE = {
    "num_layers": "{} layers",
    "d_model": "a width of {}",
    "epochs": "{} epochs",
    "batch_size": "batches of {} texts",
    "learning_rate": "a peak learning rate of {}",
}
"""hyperparameter -> how a sentence says it"""


def _tested(comparison: Comparison) -> list[str]:
    plan, metric = comparison.plan, comparison.metric
    alpha, margin = f"{plan.alpha:g}", metric.size(plan.margin)
    family = plural(comparison.contrasts[0].family, "contrast")
    if comparison.sequential is not None:
        process = comparison.sequential
        return [
            (
                f"Seeds were added one by one until a {process.process} e-process had decided every contrast, which is"
                f" valid at every look; p values were adjusted by Holm's method over the {family} at alpha = {alpha}"
                " (Holm 1979)."
            )
        ]
    return [
        (
            "The planned test was the two-sided paired t test on the differences over seeds, with p values adjusted by"
            f" Holm's method over all {family} at alpha = {alpha} (Holm 1979)."
        ),
        (
            f"Equivalence within a margin of ±{margin} was tested by two one-sided tests (Schuirmann 1987), adjusted in"
            " the same way. A variant is called better or worse where a difference is shown, negligible where it is"
            " also shown to be smaller than the margin, equivalent where only the latter is shown, and inconclusive"
            " otherwise. Intervals are unadjusted 95 % t intervals over seeds."
        ),
    ]


def _failures(comparison: Comparison) -> list[str]:
    base = comparison.contrasts[0].baseline
    failed = [c for c in comparison.contrasts if c.arm.failures]
    rule = (
        "A run counted as failed if it diverged, or ended no better than a constant answer; failed runs were kept and"
        " ranked below all others."
    )
    if not failed and not base.failures:
        return [f"{rule} No run failed."]
    shares = [f"{c.arm.failures} of {c.arm.runs} of {c.variant}" for c in failed]
    shares = [f"{base.failures} of {base.runs} of the baseline", *shares] if base.failures else shares
    return [
        (
            f"{rule} For contrasts with failed runs an exact signed-rank test on worst ranks took the place of the t"
            f" test (Lachin 1999); failure rates have Wilson intervals (Wilson 1927). Runs failed: "
            f"{sentences.listed(shares)}."
        )
    ]


def _beside(comparison: Comparison) -> list[str]:
    contrasts, lines = comparison.contrasts, []
    tests = [
        ("exact sign-flip tests", any(c.sensitivity.sign_flip is not None for c in contrasts)),
        (
            "exact Wilcoxon signed-rank tests (Wilcoxon 1945)",
            any(c.sensitivity.wilcoxon is not None for c in contrasts),
        ),
        (
            "a max-T test by joint sign flips (Westfall and Young 1993)",
            any(c.sensitivity.max_t is not None for c in contrasts),
        ),
        ("the same analysis without each seed in turn", any(c.left_out for c in contrasts)),
    ]
    given = [name for name, there in tests if there]
    if given:
        lines.append(f"As a sensitivity analysis, which decides nothing, we ran {sentences.listed(given)}.")
    if comparison.secondary:
        lines.append(
            "Secondary metrics are exploratory; their p values are adjusted for the false discovery rate (Benjamini and"
            " Hochberg 1995)."
        )
    needs = [c.needs.detectable_first for c in contrasts if c.needs is not None]
    if needs:
        median = number(statistics.median(needs), comparison.metric.digits)
        lines.append(
            f"At the spread seen, {plural(len(comparison.seeds), 'seed')} would show a true difference of"
            f" {f'{median} {comparison.metric.unit}'.rstrip()} (median over the variants) with"
            f" {100 * comparison.plan.power:g} % power."
        )
    return lines


def _fixed(results: Results | None, late: Mapping[str, str]) -> list[str]:
    if results is None:
        return ["Whether metric, margin and variants were fixed before the runs is not recorded."]
    if late:
        names = sentences.listed(list(late))
        return [
            f"Not fixed before the first run, and so exploratory: {names} ({'; '.join(sorted(set(late.values())))})."
        ]
    return ["Variants, seeds, metric, margin and tests were fixed before the first run."]


def _software(results: Results | None) -> str:
    used = [f"{name} {version(name)}" for name in ("knockout", "numpy", "scipy", "statsmodels")]
    trained = [value for name, value in history.trained_with(results)] if results is not None else []
    made = f"Models were trained with {sentences.listed(trained)}. " if trained else ""
    return f"{made}The analysis used {sentences.listed(used)}."


def _span(seeds: Sequence[int | str]) -> str:
    whole = [s for s in seeds if isinstance(s, int)]
    if len(whole) == len(seeds) > 2 and whole == list(range(whole[0], whole[0] + len(whole))):
        return f"{whole[0]} to {whole[-1]}"
    return ", ".join(map(str, seeds[:12])) + (", …" if len(seeds) > 12 else "")


def cited(text: str) -> list[str]:
    """The references of a paragraph, in the order of its citations."""
    return [entry for _, entry in sorted((text.find(key), entry) for key, entry in REFERENCES.items() if key in text)]


def tables_tex(comparison: Comparison) -> str:
    """Two tables for a paper: the verdicts, and every contrast with its tests."""
    metric, seeds = comparison.metric, plural(len(comparison.seeds), "seed")
    what = f"{sentences.title(metric)} against {comparison.baseline}, paired by seed ({seeds})"
    return latex_file(
        [
            ("verdicts", f"Verdicts: {what}.", _short(comparison)),
            ("contrasts", f"Contrasts: {what}. Intervals are unadjusted.", _contrasts(comparison)),
        ]
    )


def _short(comparison: Comparison) -> Table:
    metric, base = comparison.metric, comparison.contrasts[0].baseline
    rows = [
        (c.variant, _level(c), _difference(c), p_text(c.p_holm) if c.p is not None else DASH, verdict_cell(c).text)
        for c in comparison.contrasts
    ]
    head = (comparison.baseline, sentences.level(base, metric.digits), "", "", "")
    columns = (
        "Variant",
        f"#{sentences.header(metric)}",
        f"#{difference_header(metric).replace(INTERVAL, '95 % CI')}",
        "#p (Holm)",
        "Verdict",
    )
    return table(columns, [head, *rows])


def _contrasts(comparison: Comparison) -> Table:
    columns = ("Variant", "#Pairs", "#Failed", "#Difference", "#p", "#Holm", "#TOST", "#Sign-flip", "#d_z", "Verdict")
    return table(columns, [_contrast(c) for c in comparison.contrasts])


def _contrast(c: Contrast) -> tuple[Cell | str, ...]:
    pairs, failed = counts(c)
    e = c.estimate
    return (
        c.variant,
        pairs,
        failed.partition(" [")[0],
        _difference(c),
        p_text(c.p),
        p_text(c.p_holm) if c.p is not None else DASH,
        p_text(c.p_tost_holm) if c.p_tost is not None else DASH,
        p_text(c.sensitivity.sign_flip_holm) if c.sensitivity.sign_flip is not None else DASH,
        signed(None if e is None else e.d_z),
        verdict_cell(c).text,
    )


def _level(c: Contrast) -> str:
    return sentences.level(c.arm, c.metric.digits)


def _difference(c: Contrast) -> str:
    digits = c.metric.digits
    return DASH if c.estimate is None else f"{difference(c.estimate, digits)} {interval(c.estimate, digits)}"


def for_a_paper(text: str, tex: str, files: Sequence[tuple[str, str, str]]) -> Section:
    """The paragraph with its references, the LaTeX file, and the files to download: (name, what it holds, text)."""
    references = cited(text)
    return Section(
        id="paper",
        title="For a paper: methods, tables, files",
        blocks=(
            Listing(
                name="Methods", text="\n\n".join([text, *(["\n".join(references)] if references else [])]), prose=True
            ),
            Listing(name="tables.tex", text=tex),
            Downloads(files=(("tables.tex", "the tables above, for LaTeX with booktabs", tex), *files)),
        ),
        tells="A methods paragraph ready to paste, the tables in LaTeX, and the data as CSV files.",
    )
