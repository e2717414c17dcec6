"""The pages: which sections a report has, and in which order."""

from collections.abc import Container, Mapping, Sequence
from importlib.metadata import version

import pandas as pd

from knockout.analysis import history
from knockout.analysis.inference.claims import Judged
from knockout.analysis.inference.comparison import Comparison
from knockout.analysis.inference.instability import Instability
from knockout.analysis.report import sentences, tables
from knockout.analysis.report.answer import answer, distances
from knockout.analysis.report.blocks import Drawing, Figure, Page, Section
from knockout.analysis.report.findings import findings
from knockout.analysis.report.loss_drawing import loss_drawings
from knockout.analysis.report.sections import further, lengths, methods, setting, side_by_side, verdicts
from knockout.analysis.report.sections import instability as unstable
from knockout.analysis.report.sections.variants import section_ids, variants
from knockout.analysis.results import Results
from knockout.analysis.stats.trace import recording
from knockout.design import Variant
from knockout.floor_text import floor_lines

BALANCED_SHARE = 0.55
"""The largest share of the larger of two classes at which macro-F1 is taken to repeat accuracy."""


def study_page(
    results: Results,
    comparison: Comparison,
    claims: Sequence[Judged],
    *,
    figures: Sequence[Figure],
    late: Mapping[str, str],
    instability: Instability | None = None,
    files: Sequence[tuple[str, str, str]] = (),
) -> Page:
    """The report of a study.

    `late`: variant -> why its contrast is exploratory; `files`: those that the page carries, as (name, what it holds,
    text).
    """
    design, recipe = results.design, results.design.recipe
    runs, rate = needed_runs(results, comparison), recipe.get("learning_rate")
    changed_rate = any("learning_rate" in levels for levels in results.changes.values())
    one_rate = rate if isinstance(rate, float) and not changed_rate else None
    tuning = (
        "one learning rate for all variants (not tuned per variant)"
        if one_rate is not None
        else "nothing tuned per variant"
    )
    with recording(comparison.trace):
        costs = setting.costs(tables.cost_rows(results), workers=history.workers(results))
    return Page(
        title=f"Ablation study “{design.study}”, {tuning}",
        question=design.question,
        answer=tuple(study_answer(results, comparison, late)),
        findings=findings(
            comparison.contrasts,
            done=_done(runs),
            planned=len(runs),
            late=late,
            fixed_seeds=comparison.sequential is None,
            floors=design.floors,
            gaps=comparison.floors,
        ),
        floor=tuple(floor_lines(design.floors, comparison.metric.name, distances(comparison.floors))),
        warnings=(*history.unknown(results), *history.source_warnings(results), *exploratory_warnings(late)),
        sections=_existing(
            *_judging(
                comparison,
                figures,
                described=design.described,
                late=late,
                troubles=failed_runs(runs),
                drawings=loss_drawings(results),
            ),
            methods.for_a_paper(
                methods.paragraph(comparison, results, late=late), methods.tables_tex(comparison), files
            ),
            setting.design(
                f"{changes_sentence(results.changes)} All share the same seeds, so every run of a variant is compared"
                " with the baseline's run of the same seed.",
                history.design_rows(results),
                notes=comparison.notes,
            ),
            *_checks(comparison, repeating=repeating_metrics(results)),
            *unstable.sections(instability),
            lengths.lengths(
                tables.length_rows(results, comparison.seeds),
                baseline=results.baseline,
                max_length=design.data.max_length,
            ),
            further.losses(tables.loss_rows(results)),
            further.claims(
                claims, later=history.later_claims(results), margin=comparison.metric.size(comparison.plan.margin)
            ),
            setting.failed_and_missing(failed_runs(runs), unchecked=results.unchecked),
            costs,
            side_by_side.section(results.root, design),
            setting.limits(
                sentences.limits(
                    comparison.contrasts,
                    learning_rate=one_rate,
                    costs=costs is not None,
                    start=sentences.starting_weights(design.described, design.baseline),
                )
            ),
            setting.provenance(
                history.provenance_rows(results, version=version("knockout")),
                files="summary.csv (runs), contrasts.csv (tests), costs.csv (seconds, memory, machines), figures/*.csv"
                " (the data of the figures), and analysis.json (every number with the call that made it)",
            ),
            setting.glossary(),
        ),
    )


def comparison_page(
    comparison: Comparison,
    *,
    title: str,
    question: str,
    provenance: Sequence[tuple[str, str]],
    figures: Sequence[Figure],
    files: Sequence[tuple[str, str, str]] = (),
) -> Page:
    """The report of runs that come from elsewhere. `files`: as in `study_page`."""
    planned = len(comparison.seeds) * (len(comparison.contrasts) + 1)
    done = comparison.contrasts[0].baseline.runs + sum(c.arm.runs for c in comparison.contrasts)
    unpaired = [
        (c.variant, str(p.seed), p.state, "", "")
        for c in comparison.contrasts
        for p in c.pairs
        if p.state != "complete"
    ]
    return Page(
        title=title,
        question=question,
        answer=tuple(comparison_answer(comparison)),
        findings=findings(comparison.contrasts, done=done, planned=planned),
        warnings=(),
        sections=_existing(
            *_judging(comparison, figures, described={}, late={}),
            methods.for_a_paper(methods.paragraph(comparison, late={}), methods.tables_tex(comparison), files),
            setting.design(
                "Every run of a variant is compared with the baseline's run of the same seed.",
                _comparison_design(comparison),
                notes=comparison.notes,
            ),
            *_checks(comparison),
            setting.failed_and_missing(unpaired),
            setting.limits(
                (
                    (
                        "Metric, margin, baseline and variants were named when this report was made. Whether they were"
                        " fixed before results existed is not known."
                    ),
                    "What runs of one seed share, and what was tuned for which variant, is not known here.",
                    (
                        "Verdicts are over the seeds given, on one test set. If seeds were added after looking at"
                        " results, every p value here is too small."
                    ),
                )
            ),
            setting.provenance(
                provenance,
                files="contrasts.csv (tests), figures/*.csv (the data of the figures), and analysis.json (every number"
                " with the call that made it)",
            ),
            setting.glossary(),
        ),
    )


def study_answer(results: Results, comparison: Comparison, late: Mapping[str, str]) -> list[str]:
    """What a study found, in a few sentences. `late`: variant -> why its contrast is exploratory."""
    runs = needed_runs(results, comparison)
    return answer(
        comparison.contrasts,
        done=_done(runs),
        planned=len(runs),
        late=late,
        floors=results.design.floors,
        gaps=comparison.floors,
    )


def _done(runs: pd.DataFrame) -> int:
    return int(runs["status"].isin(["finished", "diverged"]).sum())


def comparison_answer(comparison: Comparison) -> list[str]:
    """What a comparison of runs that come from elsewhere shows, in a few sentences."""
    planned = len(comparison.seeds) * (len(comparison.contrasts) + 1)
    done = comparison.contrasts[0].baseline.runs + sum(c.arm.runs for c in comparison.contrasts)
    return answer(comparison.contrasts, done=done, planned=planned)


def changes_sentence(changes: Mapping[str, Mapping[str, object]]) -> str:
    """Whether each variant changes one factor of the baseline, and which change several.

    `changes`: variant -> factor -> its level, where it differs from the baseline's.
    """
    changed = {variant: len(levels) for variant, levels in changes.items()}
    several = [variant for variant, n in changed.items() if n > 1]
    none = [variant for variant, n in changed.items() if n == 0]
    if not several and not none:
        return "Each variant is the baseline with one factor changed."
    lines = []
    if several:
        least = "Each variant changes" if len(several) == len(changed) else f"{sentences.listed(several)} "
        verb = "" if len(several) == len(changed) else "changes" if len(several) == 1 else "change"
        lines.append(f"{least}{verb} several factors of the baseline at once.")
    if none:
        lines.append(f"{sentences.listed(none)} {'is' if len(none) == 1 else 'are'} the baseline unchanged.")
    if len(several) + len(none) < len(changed):
        lines.append("Each other variant is the baseline with one factor changed.")
    return " ".join(lines)


def repeating_metrics(results: Results) -> tuple[str, ...]:
    """Secondary metrics that say nothing new: macro-F1 beside accuracy on two classes of about the same size."""
    labels = results.design.data.label_counts.get("test", ())
    balanced = len(labels) == 2 and max(labels) <= BALANCED_SHARE * sum(labels)
    return ("macro_f1",) if balanced and results.plan.metric == "accuracy" else ()


def exploratory_warnings(late: Mapping[str, str]) -> tuple[str, ...]:
    """The warning that some contrasts are exploratory, with the reasons."""
    if not late:
        return ()
    return (
        (
            f"Some contrasts are exploratory, and marked so: {'; '.join(sorted(set(late.values())))}. They count in"
            " Holm's correction, which can only raise the p values of the others."
        ),
    )


def needed_runs(results: Results, comparison: Comparison) -> pd.DataFrame:
    """The runs of a study, without those that were not needed any more once all was decided."""
    if comparison.sequential is None or comparison.sequential.decided_at is None:
        return results.runs
    return results.runs[results.runs["seed"].isin(comparison.seeds)]


def _existing(*sections: Section | None) -> tuple[Section, ...]:
    return tuple(s for s in sections if s is not None)


def _judging(
    comparison: Comparison,
    figures: Sequence[Figure],
    *,
    described: Mapping[str, Variant],
    late: Mapping[str, str],
    troubles: Sequence[tuple[str, str, str, str, str]] = (),
    drawings: Mapping[str, Drawing] | None = None,
) -> list[Section]:
    ids = section_ids(comparison.variants)
    return [
        verdicts.verdicts(comparison, described=described, late=late, links=ids),
        verdicts.reading(comparison),
        *map(setting.figure, figures),
        *variants(comparison, described=described, late=late, troubles=troubles, drawings=drawings),
    ]


def _checks(comparison: Comparison, *, repeating: Container[str] = ()) -> list[Section | None]:
    return [
        verdicts.robustness(comparison),
        verdicts.sizes(comparison),
        further.sequential(comparison),
        verdicts.leave_one_seed_out(comparison),
        further.test_examples(comparison),
        *(further.factorial(c, comparison.metric, index=i) for i, c in enumerate(comparison.crossings, 1)),
        further.aa_arms(comparison),
        further.secondary(comparison, repeating=repeating),
    ]


def _comparison_design(comparison: Comparison) -> list[tuple[str, str]]:
    metric, plan = comparison.metric, comparison.plan
    seeds = ", ".join(map(str, comparison.seeds[:12])) + (", …" if len(comparison.seeds) > 12 else "")
    return [
        ("Baseline", comparison.baseline),
        ("Variants", str(len(comparison.contrasts))),
        ("Seeds", f"{len(comparison.seeds)} ({seeds})"),
        (
            "Judged by",
            (
                f"{metric.name} ({metric.better} is better), paired t test, Holm over {len(comparison.contrasts)}"
                f" contrasts, alpha {plan.alpha:g}, margin {metric.size(plan.margin)}"
            ),
        ),
    ]


def failed_runs(runs: pd.DataFrame) -> list[tuple[str, str, str, str, str]]:
    """Every run that failed or has no result, as (variant, seed, status, reason, folder); those that were never tried
    in one row per variant."""
    untried = runs["status"] == "missing"
    tried = runs[(runs["failed"] | (runs["status"] != "finished")) & ~untried]
    rows = [
        (
            str(run["variant"]),
            str(run["seed"]),
            "dead" if run["dead"] else str(run["status"]),
            str(run["reason"]),
            str(run["folder"]),
        )
        for run in tried.to_dict("records")
    ]
    for variant, own in runs[untried].groupby("variant", sort=False):
        rows.append((str(variant), ", ".join(str(s) for s in own["seed"]), "missing", "not run yet", ""))
    return rows
