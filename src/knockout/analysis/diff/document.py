"""What `knockout diff --json` prints."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from knockout import documents, schema
from knockout.analysis.diff.paired import Diff
from knockout.analysis.diff.texts import answer, sentence
from knockout.analysis.report.documents import contrast_document, metric_document
from knockout.analysis.results import Results
from knockout.job import RECORDED


def diff_document(diff: Diff, paths: Mapping[str, Path]) -> schema.Diff:
    """The diff, with the files that were written."""
    comparison = diff.comparison
    return schema.Diff(
        schema=schema.VERSION,
        command="diff",
        before=_side(diff.paths[0], diff.before),
        after=_side(diff.paths[1], diff.after),
        metric=metric_document(comparison.metric),
        plan=documents.plan(comparison.plan),
        seeds=[int(seed) for seed in comparison.seeds],
        answer=answer(diff),
        arms=[
            schema.ArmDifference(
                arm=c.variant,
                contrast=replace(contrast_document(c, {}), sentence=sentence(c, diff.identity[c.variant])),
                identity=schema.Identity(**asdict(diff.identity[c.variant])),
            )
            for c in diff.contrasts
        ],
        identity=schema.Identity(**asdict(diff.total)),
        only_before=list(diff.only_before),
        only_after=list(diff.only_after),
        differences=[
            schema.DesignDifference(of=d.of, key=d.key, before=d.before, after=d.after) for d in diff.differences
        ],
        verdicts=[
            schema.VerdictMove(variant=m.variant, before=m.before, after=m.after, moved=m.moved) for m in diff.verdicts
        ],
        notes=list(comparison.notes),
        files={name: str(path) for name, path in paths.items()},
    )


def _side(path: Path, results: Results) -> schema.DiffSide:
    design = results.design
    return schema.DiffSide(
        path=str(path),
        study=design.study,
        question=design.question,
        trainer=documents.trainer(results.change, path=design.trainer, version=design.version),
        seeds=list(results.seeds),
        runs=len(results.runs),
        results=int(results.runs["status"].isin(RECORDED).sum()),
    )
