"""What `--json` prints of a report and of a comparison: the numbers of contrasts.csv, and the sentences about them."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from knockout import documents, schema
from knockout.analysis import history
from knockout.analysis.inference.contrasts import Contrast
from knockout.analysis.inference.pairs import Arm
from knockout.analysis.report import sentences, tables
from knockout.analysis.report.printed import Comparison
from knockout.analysis.report.sections.page import comparison_answer, exploratory_warnings, failed_runs, needed_runs
from knockout.analysis.report.sections.unpaired import WEAKER, unpaired_answer, unpaired_sentence
from knockout.analysis.report.unpaired import UnpairedComparison, unpaired_row
from knockout.analysis.stats.metric import Metric
from knockout.design import dropped_line
from knockout.ledger import damaged_files

if TYPE_CHECKING:
    from knockout.analysis.report.write import Report


def report_document(written: "Report") -> schema.Report:
    """What `knockout report` found and wrote."""
    results, comparison, design = written.results, written.comparison, written.results.design
    late = history.exploratory(results)
    gone = [f"{dropped_line(design.dropped)}."] if design.dropped else []
    warnings = (*history.unknown(results), *history.source_warnings(results), *exploratory_warnings(late))
    return schema.Report(
        schema=schema.VERSION,
        command="report",
        study=design.study,
        question=design.question,
        folder=str(results.root),
        metric=metric_document(comparison.metric),
        plan=documents.plan(comparison.plan),
        baseline=comparison.baseline,
        seeds=[int(seed) for seed in comparison.seeds],
        answer=list(written.answer),
        warnings=[*warnings, *gone],
        contrasts=[contrast_document(c, late) for c in comparison.contrasts],
        claims=[
            schema.Claim(
                id=claim.id,
                variant=claim.variant,
                says=claim.says,
                metric=claim.metric,
                text=claim.text,
                ruling=claim.ruling,
                reason=claim.reason,
            )
            for claim in written.claims
        ],
        floors=documents.floors(design.floors),
        floor_gaps=[schema.FloorGap(name=name, **asdict(gap)) for name, gap in comparison.floors.items()],
        failures=[
            schema.FailedRun(variant=variant, seed=seed, status=status, reason=reason, folder=folder)
            for variant, seed, status, reason, folder in failed_runs(needed_runs(results, comparison))
        ],
        dropped_variants=list(design.dropped),
        notes=[*comparison.notes, *results.notes],
        trainer=documents.trainer(results.change, path=design.trainer, version=design.version),
        damage=[*results.damaged, *(line for _, line in damaged_files(results.root))],
        files={name: str(path) for name, path in written.paths.items()},
    )


def comparison_document(
    comparison: Comparison | UnpairedComparison, *, source: Path, paths: Mapping[str, Path]
) -> schema.Compare:
    """What `knockout compare` found and wrote. `source`: the file of runs."""
    paired = isinstance(comparison, Comparison)
    return schema.Compare(
        schema=schema.VERSION,
        command="compare",
        source=str(source),
        paired=paired,
        metric=metric_document(comparison.metric),
        plan=documents.plan(comparison.plan),
        baseline=comparison.baseline,
        seeds=list(comparison.seeds) if isinstance(comparison, Comparison) else [],
        answer=comparison_answer(comparison) if isinstance(comparison, Comparison) else unpaired_answer(comparison),
        warnings=[] if paired else [WEAKER],
        contrasts=[contrast_document(c, {}) for c in comparison.contrasts]
        if isinstance(comparison, Comparison)
        else [],
        unpaired_contrasts=[]
        if isinstance(comparison, Comparison)
        else [schema.UnpairedContrast(**unpaired_row(c), sentence=unpaired_sentence(c)) for c in comparison.contrasts],
        failures=_failed_pairs(comparison) if isinstance(comparison, Comparison) else _failed_arms(comparison),
        notes=list(comparison.notes),
        files={name: str(path) for name, path in paths.items()},
    )


def contrast_document(contrast: Contrast, late: Mapping[str, str]) -> schema.Contrast:
    """One contrast. `late`: variant -> why its contrast is exploratory."""
    row = tables.contrast_row(contrast, late.get(contrast.variant, ""))
    return schema.Contrast(
        **row
        | {
            "verdict": contrast.verdict,
            "label": contrast.label,
            "sentence": sentences.sentence(contrast),
            "flags": sentences.flags(contrast, late),
            "seeds": [
                schema.SeedDifference(seed=p.seed, state=p.state, difference=p.difference) for p in contrast.pairs
            ],
        }
    )


def metric_document(metric: Metric) -> schema.Metric:
    """The metric of the verdicts."""
    return schema.Metric(name=metric.name, unit=metric.unit, better=metric.better)


def _failed_pairs(comparison: Comparison) -> list[schema.FailedRun]:
    """One row for each run that failed, of the variants and, once, of the baseline; and for each pair without a
    result, under the variant."""
    rows: dict[tuple[str, int | str], str] = {}
    for contrast in comparison.contrasts:
        for pair in contrast.pairs:
            if pair.state in ("variant failed", "both failed"):
                rows[contrast.variant, pair.seed] = "failed"
            if pair.state in ("baseline failed", "both failed"):
                rows[comparison.baseline, pair.seed] = "failed"
            if pair.state == "missing":
                rows[contrast.variant, pair.seed] = "no pair of results"
    return [
        schema.FailedRun(variant=variant, seed=seed, status=status, reason="", folder="")
        for (variant, seed), status in rows.items()
    ]


def _failed_arms(comparison: UnpairedComparison) -> list[schema.FailedRun]:
    """Runs that failed, counted: without seeds, each is one of its arm's."""
    first = comparison.contrasts[0]
    arms: list[tuple[str, Arm]] = [(comparison.baseline, first.baseline)]
    arms += [(c.variant, c.arm) for c in comparison.contrasts]
    return [
        schema.FailedRun(variant=name, seed=number, status="failed", reason="", folder="")
        for name, arm in arms
        for number in range(1, arm.failures + 1)
    ]
