"""The report of a study: one HTML file, its Markdown twin, CSV files and figures. Same records, same bytes."""

import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
import pandas as pd
from markupsafe import Markup

from knockout.analysis import provenance, tables
from knockout.analysis.claims import Judged, judge
from knockout.analysis.contrasts import Contrast, contrasts
from knockout.analysis.curves import loss_curves, summary, validation_curves
from knockout.analysis.document import context
from knockout.analysis.load import Results, ResultsError, load
from knockout.analysis.power import in_points
from knockout.strict import printable

FILES = ("report.html", "report.md", "summary.csv", "contrasts.csv", "costs.csv")


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was written, and what it was written from."""

    results: Results
    contrasts: tuple[Contrast, ...]
    claims: tuple[Judged, ...]
    answer: tuple[str, ...]
    paths: Mapping[str, Path]
    """name below the study's folder, such as "report.html" -> path"""


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
    late, found, claims = _judged(results)
    figures = draw(results, found)
    told = context(results, found, claims, figures=figures, late=late)
    texts = {
        "summary.csv": tables.csv_text(tables.summary_table(results)),
        "contrasts.csv": tables.csv_text(tables.contrast_table(found, late)),
        "costs.csv": tables.csv_text(results.costs),
        "report.md": _markdown().get_template("report.md.j2").render(told),
        "report.html": _html().get_template("report.html.j2").render(told),
    }
    for figure in figures:
        texts[f"figures/{figure.name}.svg"] = figure.svg
        texts |= {f"figures/{name}.csv": tables.csv_text(frame) for name, frame in figure.data.items()}
    (root / "figures").mkdir(exist_ok=True)
    for name, text in texts.items():
        _replace(root / name, text)
    return Report(
        results=results,
        contrasts=tuple(found),
        claims=tuple(claims),
        answer=tuple(told["answer"]),
        paths={name: root / name for name in texts},
    )


def verdict_note(root: Path) -> str:
    """The answer and the verdict table of a study's folder as it stands, in Markdown; nothing is written.

    Says in words where no run has finished yet. Raises `ResultsError` where records contradict each other.
    """
    results = load(root)
    told: dict[str, object] = {"question": results.design["question"], "verdicts": [], "damaged": results.damaged}
    if (results.runs["status"] == "finished").any():
        late, found, claims = _judged(results)
        told |= context(results, found, claims, figures=[], late=late)
    return _markdown().get_template("note.md.j2").render(told, planned=len(results.runs))


def _judged(results: Results) -> tuple[dict[str, str], list[Contrast], list[Judged]]:
    """Why a variant is exploratory, the contrasts, and the rulings on the claims."""
    late = provenance.exploratory(results)
    found = contrasts(
        results.runs,
        baseline=results.baseline,
        variants=results.variants,
        seeds=results.seeds,
        plan=results.plan,
        family=len(results.variants) + len(provenance.dropped(results)),
    )
    return late, found, judge(results.design["claims"], found)


def draw(results: Results, found: Sequence[Contrast]) -> list[Figure]:
    """All figures of a report, as SVG with their data and captions."""
    from knockout.analysis import figures  # matplotlib: only where something is drawn

    margin = results.plan.margin
    forest, seeds = tables.forest_table(found), tables.forest_seed_table(found)
    compressed = figures.is_compressed(forest, seeds, margin=margin)
    drawn = [
        Figure(
            name="forest",
            title="Differences from the baseline",
            caption=_forest_caption(results, failures=bool(forest["failures"].sum()), compressed=compressed),
            svg=figures.forest(forest, seeds, margin=margin),
            data={"forest": forest, "forest_seeds": seeds},
        )
    ]
    loss, block = loss_curves(results)
    accuracy = validation_curves(results)
    classes = len(results.design["data"].get("classes", []))
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


def _forest_caption(results: Results, *, failures: bool, compressed: bool) -> str:
    margin = results.plan.margin
    told = [
        f"Difference in test accuracy, variant minus baseline, paired by seed; n = {len(results.seeds)} where the",
        "table names no other number. Diamond: mean. Line: 95 % t interval over seeds, not adjusted for the number",
        f"of variants; it decides nothing. Dots under it: one per seed. Band: the margin of ±{in_points(margin)}.",
    ]
    if failures:
        told.append("Hollow diamond: runs failed, and the mean is over the pairs in which neither did;")
        told.append("x at the left edge: pairs with a failed run.")
    if compressed:
        told.append(f"The axis is linear to ±{in_points(4 * margin)} and logarithmic beyond.")
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
        loader=jinja2.PackageLoader("knockout.analysis"),
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
