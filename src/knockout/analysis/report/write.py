"""The report of a study: one HTML file, its Markdown twin, CSV files and figures. Same records, same bytes."""

import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import jinja2
import pandas as pd
from markupsafe import Markup

from knockout.analysis import history
from knockout.analysis.inference.claims import Judged, judge
from knockout.analysis.inference.comparison import compare_runs
from knockout.analysis.inference.contrasts import Contrast
from knockout.analysis.report import tables
from knockout.analysis.report.audit_trail import account
from knockout.analysis.report.context import judged_context, study_context
from knockout.analysis.report.curves import loss_curves, summary, validation_curves
from knockout.analysis.report.printed import Comparison, printed
from knockout.analysis.report.sentences import title
from knockout.analysis.results import Results, ResultsError, load
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.trace import recording
from knockout.strict import printable

FILES = ("report.html", "report.md", "summary.csv", "contrasts.csv", "costs.csv", "analysis.json")


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was written, and what it was written from."""

    results: Results
    comparison: Comparison
    claims: tuple[Judged, ...]
    answer: tuple[str, ...]
    paths: Mapping[str, Path]
    """name below the study's folder, such as "report.html" -> path"""

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        return self.comparison.contrasts


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure with what is drawn in it."""

    name: str
    title: str
    caption: str
    svg: str
    data: Mapping[str, pd.DataFrame]
    """file name without ending -> the frame behind it"""

    @property
    def svg_markup(self) -> Markup:
        """For HTML: our own figures, in which matplotlib has escaped every label."""
        return Markup(self.svg)


def write_report(root: Path) -> Report:
    """Analyse a study's folder and write the report into it, each file whole or not at all.

    Raises `ResultsError` where records contradict each other, or no run has finished.
    """
    results = load(root)
    if not (results.runs["status"] == "finished").any():
        raise ResultsError(
            f"{root}: none of {len(results.runs)} planned runs has finished, so there is nothing to report"
        )
    late = history.exploratory(results)
    comparison, claims = judged(results)
    figures = draw(results, comparison)
    told = study_context(results, comparison, claims, figures=figures, late=late)
    texts = {
        "summary.csv": tables.csv_text(tables.summary_table(results)),
        "costs.csv": tables.csv_text(results.costs),
        **_texts(comparison, told, figures, late=late),
    }
    _write(root, texts)
    return Report(
        results=results,
        comparison=comparison,
        claims=tuple(claims),
        answer=tuple(told["answer"]),
        paths={name: root / name for name in texts},
    )


def write_comparison(
    comparison: Comparison, target: Path, *, title: str, question: str, provenance: Sequence[tuple[str, str]]
) -> dict[str, Path]:
    """Write the report of runs that come from elsewhere into a folder, each file whole or not at all.

    `provenance`: (name, value) of where the runs come from. Returns the paths, by name below the folder.
    Raises `ResultsError` where the folder is a study's own, or no run has finished.
    """
    if (target / "design.json").exists():
        raise ResultsError(f"{target} is the folder of a study: name another with --to")
    if target.is_dir() and any(target.iterdir()) and not (target / "analysis.json").exists():
        raise ResultsError(f"{target} holds files that are no report: name another folder with --to, or empty it")
    first = comparison.contrasts[0]
    recorded = [p for c in comparison.contrasts for p in c.pairs if p.state != "missing"]
    if not recorded and first.baseline.runs == 0:
        raise ResultsError("none of the runs has finished, so there is nothing to report")
    figures = [_forest(comparison), *_texts_figure(comparison)]
    planned = len(comparison.seeds) * (len(comparison.contrasts) + 1)
    done = first.baseline.runs + sum(c.arm.runs for c in comparison.contrasts)
    told = judged_context(comparison, described={}, late={}, done=done, planned=planned)
    told |= {
        "title": title,
        "question": question,
        "lead": "Runs are compared with the baseline's run of the same seed.",
        "design": _frame_design(comparison),
        "figures": figures,
        "claims": [],
        "costs": [],
        "workers": "",
        "troubles": _unpaired(comparison),
        "caveats": [
            (
                "Metric, margin, baseline and variants were named when this report was made: whether they were fixed"
                " before results existed is not known."
            ),
            "What was shared between runs of one seed, and what was tuned for which variant, is not known here.",
            (
                "Verdicts are over the seeds given, on one test set. Seeds that were added after looking at results"
                " make every p value here too small."
            ),
        ],
        "provenance": list(provenance),
    }
    texts = _texts(comparison, told, figures, late={})
    target.mkdir(parents=True, exist_ok=True)
    _write(target, texts)
    return {name: target / name for name in texts}


def _unpaired(comparison: Comparison) -> list[dict[str, str]]:
    """Every pair of which a run failed or has no result."""
    return [
        {"variant": c.variant, "seed": str(p.seed), "status": p.state, "reason": "", "folder": ""}
        for c in comparison.contrasts
        for p in c.pairs
        if p.state != "complete"
    ]


def _frame_design(comparison: Comparison) -> list[tuple[str, str]]:
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


def _texts(
    comparison: Comparison, told: Mapping[str, object], figures: Sequence["Figure"], *, late: Mapping[str, str]
) -> dict[str, str]:
    """The files that every report has: name -> text."""
    texts = {
        "contrasts.csv": tables.csv_text(tables.contrast_table(comparison.contrasts, late)),
        "analysis.json": account(comparison),
        "report.md": _markdown().get_template("report.md.j2").render(told),
        "report.html": _html().get_template("report.html.j2").render(told),
    }
    more = {
        "seeds.csv": tables.left_out_table(comparison.contrasts),
        "examples.csv": tables.mcnemar_table(comparison.contrasts),
        "secondary.csv": tables.secondary_table(comparison.secondary),
        "effects.csv": tables.effect_table(comparison.crossings),
    }
    texts |= {name: tables.csv_text(frame) for name, frame in more.items() if len(frame)}
    for figure in figures:
        texts[f"figures/{figure.name}.svg"] = figure.svg
        texts |= {f"figures/{name}.csv": tables.csv_text(frame) for name, frame in figure.data.items()}
    return texts


def _write(root: Path, texts: Mapping[str, str]) -> None:
    (root / "figures").mkdir(exist_ok=True)
    for name in ("seeds.csv", "examples.csv", "secondary.csv", "effects.csv"):
        if name not in texts:  # of an earlier report, which had it
            (root / name).unlink(missing_ok=True)
    for name, text in texts.items():
        _replace(root / name, text)


def verdict_note(root: Path) -> str:
    """The answer and the verdict table of a study's folder as it stands, in Markdown; nothing is written.

    Says in words where no run has finished yet. Raises `ResultsError` where records contradict each other.
    """
    results = load(root)
    told: dict[str, object] = {"question": results.design.question, "verdicts": [], "damaged": results.damaged}
    if (results.runs["status"] == "finished").any():
        comparison, claims = judged(results)
        told |= study_context(results, comparison, claims, figures=[], late=history.exploratory(results))
    return _markdown().get_template("note.md.j2").render(told, planned=len(results.runs))


def judged(results: Results) -> tuple[Comparison, list[Judged]]:
    """Everything that is said of a study's variants, and the rulings on its claims."""
    seeds = results.seeds if results.anytime is None else results.complete_seeds
    found = compare_runs(
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
    )
    with recording(found.trace):
        claims = judge(
            [asdict(claim) for claim in results.design.claims],
            found.contrasts,
            runs=results.runs,
            baseline=results.baseline,
        )
    return printed(found), claims


def draw(results: Results, comparison: Comparison) -> list[Figure]:
    """All figures of a report, as SVG with their data and captions."""
    from knockout.analysis.report import figures  # matplotlib: only where something is drawn

    drawn = [_forest(comparison), *_texts_figure(comparison)]
    loss, block = loss_curves(results)
    accuracy = validation_curves(results)
    classes = len(results.design.data.classes)
    if len(loss):
        middle = summary(loss)
        svg = figures.panels(
            loss,
            name="loss_curves",
            summaries=middle,
            variants=results.variants,
            baseline=results.baseline,
            x_label="optimiser step",
            y_label="training loss (nats per text)",
            reference=math.log(classes) if classes > 1 else None,
            floor_at_zero=True,
        )
        drawn.append(
            Figure(
                name="loss_curves",
                title="Training loss",
                caption=_loss_caption(results, block=block, classes=classes),
                svg=svg,
                data={"loss_curves": loss, "loss_curves_summary": middle},
            )
        )
    if len(accuracy):
        middle = summary(accuracy)
        svg = figures.panels(
            accuracy,
            name="validation_curves",
            summaries=middle,
            variants=results.variants,
            baseline=results.baseline,
            x_label="epoch",
            y_label="validation accuracy (%)",
            reference=None,
            floor_at_zero=False,
        )
        drawn.append(
            Figure(
                name="validation_curves",
                title="Validation accuracy",
                caption=f"Accuracy on the validation split after each epoch. {_curve_caption(results)}",
                svg=svg,
                data={"validation_curves": accuracy, "validation_curves_summary": middle},
            )
        )
    return drawn


def _forest(comparison: Comparison) -> Figure:
    from knockout.analysis.report import figures

    metric, margin = comparison.metric, comparison.plan.margin
    forest, seeds = tables.forest_table(comparison.contrasts), tables.forest_seed_table(comparison.contrasts)
    compressed = figures.is_compressed(forest, seeds, margin=margin)
    failures = bool(forest["failures"].sum())
    return Figure(
        name="forest",
        title=f"Differences from {'the baseline' if comparison.baseline == 'baseline' else comparison.baseline}",
        caption=_forest_caption(metric, margin, n=len(comparison.seeds), failures=failures, compressed=compressed),
        svg=figures.forest(forest, seeds, margin=margin, label=_axis(metric)),
        data={"forest": forest, "forest_seeds": seeds},
    )


def _texts_figure(comparison: Comparison) -> list[Figure]:
    """The picture of both variances, where predictions are there."""
    from knockout.analysis.report import figures

    frame = tables.texts_table(comparison.contrasts)
    if frame.empty:
        return []
    margin = comparison.plan.margin if comparison.metric.unit == "points" else 0.0
    two = next(c.two_source for c in comparison.contrasts if c.two_source is not None)
    caption = (
        "Difference in accuracy over the pairs in which neither run failed. Upper, thick line: 95 % t interval over"
        f" seeds, on this test set. Lower, thin line: 95 % interval over seeds and {two.examples:,} test examples, for"
        f" texts like these. Shades: the middle 50, 80 and 95 % of {comparison.plan.draws:,} bootstrap draws over seeds"
        " and examples, which are a picture and no interval. Nothing here decides anything."
    )
    return [
        Figure(
            name="texts",
            title="On this test set, and on texts like these",
            caption=caption,
            svg=figures.texts(frame, margin=margin),
            data={"texts": frame},
        )
    ]


def _axis(metric: Metric) -> str:
    unit = f" ({metric.unit})" if metric.unit else ""
    arrow = "" if metric.better == "higher" else "; lower is better"
    return f"difference in {title(metric)}{unit}, variant minus baseline{arrow}"


def _forest_caption(metric: Metric, margin: float, *, n: int, failures: bool, compressed: bool) -> str:
    told = [
        f"Difference in {title(metric)}, variant minus baseline, paired by seed; n = {n} where the",
        "table names no other number. Diamond: mean. Line: 95 % t interval over seeds, not adjusted for the number",
        f"of variants; it decides nothing. Dots under it: one per seed. Band: the margin of ±{metric.size(margin)}.",
    ]
    if failures:
        told.append("Hollow diamond: runs failed, and the mean is over the pairs in which neither did;")
        told.append("x at the left edge: pairs with a failed run.")
    if compressed:
        told.append(f"The axis is linear to ±{metric.size(4 * margin)} and logarithmic beyond.")
    return " ".join(told)


def _loss_caption(results: Results, *, block: int, classes: int) -> str:
    smoothed = f"as means over blocks of {block} steps, with no other smoothing" if block > 1 else "not smoothed"
    told = [f"Training loss per step, {smoothed}.", _curve_caption(results)]
    if classes > 1:
        told.append(
            f"Dotted: ln {classes} = {math.log(classes):.3f}, the loss of giving all {classes} classes one chance."
        )
    if (results.runs["status"] == "diverged").any():
        told.append("A run that diverged ends in x; the axis is cut where only single runs go.")
    return " ".join(told)


def _curve_caption(results: Results) -> str:
    return (
        f"Thin lines: one per seed, n = {len(results.seeds)} where none is missing. Strong line: their median at each"
        " step, over the runs that got there; band: their inter-quartile range, which is no interval of the mean. Grey"
        " and dashed: the baseline."
    )


def _html() -> jinja2.Environment:
    return _environment(autoescape=True, finalize=lambda value: value if hasattr(value, "__html__") else plain(value))


def _markdown() -> jinja2.Environment:
    """Everything that the template prints is escaped: no cell can end its table, and no name can become markup."""
    return _environment(autoescape=False, finalize=markdown)


def _environment(*, autoescape: bool, finalize: Callable[[object], object]) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("knockout.analysis.report"),
        autoescape=autoescape,
        finalize=finalize,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def plain(value: object) -> str:
    """Any value as text of one line, without control characters."""
    return printable(" ".join(str(value).split()))


def markdown(value: object) -> str:
    """Any value as text of one line that Markdown prints as it is."""
    return "".join(f"\\{c}" if c in "\\|<>&`*$~" else c for c in plain(value)).replace("](", "]\\(")


def _replace(path: Path, text: str) -> None:
    """Write a file whole: a reader sees the old one or the new one."""
    temporary = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}")
    try:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
