"""Judging a study: from its folder to the comparison and the rulings on its claims."""

from dataclasses import asdict, dataclass
from pathlib import Path

from knockout.analysis import history
from knockout.analysis.inference.claims import Judged, judge
from knockout.analysis.inference.comparison import compare_runs
from knockout.analysis.inference.instability import Instability
from knockout.analysis.report.printed import Comparison, printed
from knockout.analysis.report.render import markdown_note
from knockout.analysis.report.sections.page import exploratory_warnings, study_answer
from knockout.analysis.report.sections.verdicts import verdict_table
from knockout.analysis.results import Results, load
from knockout.analysis.run_curves import study_instability
from knockout.analysis.stats.trace import recording


@dataclass(frozen=True, kw_only=True)
class JudgedStudy:
    """A study's variants against its baseline, and the rulings on its claims."""

    comparison: Comparison
    claims: tuple[Judged, ...]
    instability: Instability | None
    """`None` where no run of the baseline kept a curve"""


def judge_study(results: Results) -> JudgedStudy:
    """Compare all variants of a study with its baseline, and rule on its claims."""
    seeds = results.seeds if results.anytime is None else results.complete_seeds
    comparison = compare_runs(
        results.runs,
        metric=results.metric,
        baseline=results.baseline,
        variants=results.variants,
        seeds=seeds or results.seeds,
        plan=results.plan,
        size=len(results.variants) + len(history.dropped(results)),
        others=results.secondary,
        changes=results.changes,
        crossed=results.design.now.cross,
        placebo_arms=results.placebos,
        anytime=results.anytime,
        correctness=results.correctness,
        floors=results.design.floors,
    )
    with recording(comparison.trace):
        instability = study_instability(results, seeds=seeds or results.seeds)
        claims = judge(
            [asdict(claim) for claim in results.design.claims],
            comparison.contrasts,
            runs=results.runs,
            baseline=results.baseline,
            instability=instability,
        )
    return JudgedStudy(comparison=printed(comparison), claims=tuple(claims), instability=instability)


def verdict_note(root: Path) -> str:
    """The answer and the verdict table of a study's folder as it stands, in Markdown; nothing is written.

    States it where no run has finished yet. Raises `ResultsError` where records contradict each other.
    """
    results = load(root)
    question, damaged, planned = results.design.question, results.damaged, len(results.runs)
    if not (results.runs["status"] == "finished").any():
        return markdown_note(question=question, verdicts=None, damaged=damaged, planned=planned)
    comparison = judge_study(results).comparison
    late = history.exploratory(results)
    return markdown_note(
        question=question,
        verdicts=verdict_table(comparison, described=results.design.described, late=late),
        answer=study_answer(results, comparison, late),
        seeds=len(comparison.seeds),
        warnings=(*history.unknown(results), *history.source_warnings(results), *exploratory_warnings(late)),
        damaged=damaged,
        planned=planned,
    )
