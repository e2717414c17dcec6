"""The report of loss curves without a study."""

from collections.abc import Sequence
from dataclasses import replace

from knockout.analysis.inference.instability import Instability
from knockout.analysis.inference.instability_cells import Cell as Measured
from knockout.analysis.report.blocks import Definitions, Figure, Page, Section
from knockout.analysis.report.sections import instability as unstable
from knockout.analysis.report.sections import setting
from knockout.analysis.report.sentences import listed
from knockout.analysis.stats.curve import RunCurve
from knockout.plurals import plural

TERMS = (
    ("Baseline", "The variant that all others are compared with, seed by seed."),
    ("Seed", "What the runs of a pair share: initial weights and order of batches, as far as the trainer says so."),
    ("Ratio", "The geometric mean over seeds of variant over baseline: ×2 is twice as unstable."),
    ("Failed run", "A run whose loss became NaN or infinite. It ranks as the worst on every measure."),
    (
        "Benjamini-Hochberg",
        "Raises p values so that of the differences called shown, a share of alpha at most is expected to be false.",
    ),
    ("Not testable", "With so few seeds, or with values missing, no result could have been shown."),
    ("Spike", "A step whose log loss is 5 (or 7) robust sd above the centre of the steps around it."),
    ("Drawdown", "The largest rise of the smoothed loss above its lowest value so far, as a share of the descent."),
    ("Excursion area", "The mean of that rise over all steps."),
    ("Paired excess loss", "The loss minus that of the baseline's run of the same seed at the same step."),
)


def curves_answer(found: Instability) -> list[str]:
    """What is shown, one sentence for each variant; and what could not be tested."""
    shown = {v: [c for c in found.cells if c.variant == v and c.label in ("higher", "lower")] for v in found.variants}
    lines = []
    for variant, cells in shown.items():
        if cells:
            cells = sorted(cells, key=lambda c: (c.p_bh or 0.0, c.p or 0.0, c.metric))
            named = [shown_text(c) for c in cells[:3]]
            more = f", and {len(cells) - 3} more" if len(cells) > 3 else ""
            lines.append(f"{variant} against {found.baseline}: {listed(named)}{more}.")
    quiet = [v for v in found.variants if not shown[v]]
    if len(found.seeds) < 3:
        lines.append(f"{plural(len(found.seeds), 'seed')}: estimates only; nothing is tested below 3 seeds.")
    elif quiet:
        lines.append(f"No difference from {found.baseline} is shown of {listed(quiet)}.")
    failed = [f"{c.diverged + c.dead} of {c.runs} of {arm}" for arm, c in found.counts.items() if c.diverged + c.dead]
    return [*lines, *([f"Failed runs: {listed(failed)}."] if failed else [])]


def shown_text(cell: Measured) -> str:
    """A difference that is shown: "drawdown higher (×1.9)"; failed runs have ranks and no size."""
    size = "" if cell.estimate is None else f" ({unstable.size_of(cell)})"
    return f"{unstable.title_of(cell.metric)} {cell.label}{size}"


def _answering(sections: Sequence[Section]) -> list[Section]:
    """The sections with the table of measures in front, unfolded: here it is what a reader asked for."""
    return [replace(s, part="answer") if s.id == "instability" else s for s in sections]


def curves_page(
    found: Instability,
    curves: Sequence[RunCurve],
    *,
    title: str,
    notes: Sequence[str],
    figures: Sequence[Figure],
    provenance: Sequence[tuple[str, str]],
    same_batches: bool,
) -> Page:
    """The page. `notes`: what was decided about the runs when they were read."""
    words = {word: sum(c.status == word for c in curves) for word in dict.fromkeys(c.status for c in curves)}
    spans = sorted({c.every for c in curves})
    limits = [
        "All measures are exploratory: many are computed, and the correction is over all of them.",
        "What counts as the baseline and which runs belong together was said when this report was made.",
    ]
    if same_batches:
        limits.append(
            "The paired excess loss takes it that the runs of a seed see the same batches. Where they do not, it holds"
            " the noise of batches: --other-batches leaves it out."
        )
    return Page(
        title=title,
        question=f"How unstable is the training loss of each variant, against {found.baseline}?",
        answer=tuple(curves_answer(found)),
        warnings=tuple(notes),
        sections=(
            *_answering(unstable.sections(found)),
            *(setting.figure(figure) for figure in figures),
            setting.design(
                "Every variant is compared with the baseline's runs of the same seeds.",
                [
                    ("Baseline", found.baseline),
                    ("Variants", str(len(found.variants))),
                    ("Seeds", str(len(found.seeds))),
                    ("Runs", ", ".join(f"{n} {word.replace('_', ' ')}" for word, n in words.items())),
                    ("Steps", f"{max((c.steps for c in curves), default=0):,} in the longest run"),
                    ("Losses", "every step" if spans == [1] else f"every {' or '.join(map(str, spans))} steps"),
                    (
                        "Correction",
                        f"Benjamini-Hochberg over {plural(len(found.cells), 'cell')}, alpha {found.alpha:g}",
                    ),
                ],
                notes=(),
            ),
            setting.limits(limits),
            setting.provenance(
                provenance,
                files="instability.csv (runs), instability_contrasts.csv (tests), analysis.json (every number and its"
                " call)",
            ),
            Section(id="glossary", title="Glossary", blocks=(Definitions(items=TERMS),)),
        ),
    )
