"""`knockout curves`: how unstable the loss curves of runs from elsewhere are."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from knockout.console import out
from knockout.errors import UserError
from knockout.parameters import Quiet
from knockout.plurals import plural
from knockout.strict import printable
from knockout.terminal import NAMES, Column, fitted, hushed, say, working

if TYPE_CHECKING:
    from knockout.analysis.report.curves_alone import Curves

SHOWN = 4
"""Differences of a variant that stand in the table's first lines."""


def curves(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="CSV, TSV or Parquet files of steps, or folders of them: variant, seed, step, loss; or an export of"
            " Weights & Biases, TensorBoard or MLflow.",
        ),
    ],
    baseline: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="The variant that all others are compared with, or its COLUMN=VALUE pairs."),
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(help="The column of the variants' names. Several columns: their combination is the variant."),
    ] = None,
    seed: Annotated[list[str] | None, typer.Option(help="The column of seeds. Several columns form a block.")] = None,
    seed_pattern: Annotated[
        str, typer.Option(help=r"A regular expression for seeds in the runs' names, such as '_seed(\d+)$'.")
    ] = "",
    wide: Annotated[
        bool, typer.Option("--wide", help="The file has a column of steps, then a column for each run.")
    ] = False,
    step: Annotated[str, typer.Option(help="The column of steps.")] = "step",
    loss: Annotated[str, typer.Option(help="The column of the training loss, in nats.")] = "loss",
    grad_norm: Annotated[str, typer.Option(help="The column of the gradient norm before clipping.")] = "grad_norm",
    learning_rate: Annotated[str, typer.Option(help="The column of the learning rate.")] = "learning_rate",
    probe_loss: Annotated[
        str, typer.Option(help="The column of the loss on fixed examples, evaluated now and then.")
    ] = "probe_loss",
    probe_accuracy: Annotated[str, typer.Option(help="The column of the accuracy on them, 0 to 1.")] = "probe_accuracy",
    status: Annotated[
        list[str] | None,
        typer.Option(help="The column of statuses. WORD=STATUS maps a word that Knockout does not know."),
    ] = None,
    clip_norm: Annotated[float | None, typer.Option(help="The norm at which gradients were clipped.")] = None,
    other_batches: Annotated[
        bool, typer.Option("--other-batches", help="Runs of one seed do not see the same batches.")
    ] = False,
    plan: Annotated[Path | None, typer.Option(help="A plan, for its alpha, instead of the packaged one.")] = None,
    to: Annotated[Path | None, typer.Option(help="The report's folder, instead of FILE_curves.")] = None,
    quiet: Quiet = False,
) -> None:
    """Measure how unstable loss curves are, from step logs of any trainer, and compare the variants."""
    from knockout.analysis.external.step_asked import CurvesAsked
    from knockout.analysis.external.step_points import StepColumns
    from knockout.analysis.external.step_suggest import curves_or_suggest

    words = [s for s in status or [] if "=" in s]
    columns = [s for s in status or [] if "=" not in s]
    if len(columns) > 1:
        raise UserError(f"--status names one column, got {', '.join(columns)}; WORD=STATUS maps a word")
    if seed and seed_pattern:
        raise UserError("--seed and --seed-pattern exclude each other: name one of them")
    asked = CurvesAsked(
        sources=tuple(files),
        columns=StepColumns(
            variant=tuple(variant or ["variant"]),
            seed=tuple(seed or ["seed"]),
            seed_pattern=seed_pattern,
            step=step,
            loss=loss,
            grad_norm=grad_norm,
            learning_rate=learning_rate,
            probe_loss=probe_loss,
            probe_accuracy=probe_accuracy,
            status=columns[0] if columns else "status",
            wide=wide,
        ),
        baseline=", ".join(baseline or []),
        statuses=dict(w.rsplit("=", 1) for w in words),
        clip_norm=clip_norm,
        same_batches=not other_batches,
        plan=plan,
        target=to,
    )
    with working(f"measuring {files[0]} and drawing its figures", quiet=quiet):
        written = curves_or_suggest(asked)
    with hushed(quiet):
        print_curves(written.curves)
    found = written.curves.instability
    shown = sum(cell.label in ("higher", "lower") for cell in found.cells)
    counted = f"{plural(shown, 'difference')} shown of {plural(len(found.cells), 'cell')}; "
    say(f"{counted if quiet else ''}report:", whole=str(written.paths["report.html"]))


def print_curves(judged: "Curves") -> None:
    """Print what is shown of each variant, then the rest in short, and the notes."""
    from knockout.analysis.report.sections.instability import is_worse, size_of, title_of
    from knockout.analysis.report.sentences import DASH, listed, p_text

    found = judged.instability
    columns = (
        Column(name="variant", folds=True, least=NAMES),
        Column(name="measure", folds=True, least=16),
        Column(name="variant / baseline", right=True),
        Column(name="seeds", right=True, drop=2),
        Column(name="p (BH)", right=True, drop=1),
        Column(name="shown", verdict=False),
    )
    rows: list[Sequence[str]] = []
    for name in found.variants:
        own = [c for c in found.cells if c.variant == name and c.label in ("higher", "lower")]
        own.sort(key=lambda c: (c.p_bh or 0.0, c.p or 0.0, c.metric))
        for i, cell in enumerate(own):
            label = f"{cell.label}, {'worse' if is_worse(cell) else 'better'}"
            size = size_of(cell) if cell.estimate is not None else DASH
            first = name if i == 0 else ""
            rows.append((first, title_of(cell.metric), size, f"{cell.n}/{cell.n_planned}", p_text(cell.p_bh), label))
    if rows:
        out.print(fitted(columns, [[printable(cell) for cell in row] for row in rows], console=out))
        out.print()
    quiet = [
        v for v in found.variants if not any(c.variant == v and c.label in ("higher", "lower") for c in found.cells)
    ]
    for name in quiet:
        own = [c for c in found.cells if c.variant == name and c.estimate not in (None, 0.0)]
        sizes = ", ".join(f"{title_of(c.metric)} {size_of(c)}" for c in own[:SHOWN])
        more = f" and {len(own) - SHOWN} more" if len(own) > SHOWN else ""
        untested = bool(own) and all(c.label == "not testable" for c in own)
        say(
            escape(
                printable(
                    f"{name}: {'nothing is testable' if untested else 'nothing is shown'}; {sizes or 'no value'}{more}"
                )
            )
        )
    failed = [(arm, c) for arm, c in found.counts.items() if c.diverged + c.dead]
    if failed:
        say(
            escape(
                printable(
                    "failed runs: " + listed([f"{c.diverged + c.dead} of {c.runs} of {arm}" for arm, c in failed])
                )
            )
        )
    if len(found.seeds) < 3:
        say(f"{plural(len(found.seeds), 'seed')}: estimates only, nothing is tested below 3 seeds")
    for note in judged.notes:
        say(escape(printable(note)))
    if found.missing:
        say(escape(printable(f"not measured: {missing_text(list(found.missing.items()))}")))
    out.print()


def missing_text(missing: Sequence[tuple[str, str]]) -> str:
    """What was not measured, and what it needs, in short: "loss spikes (the loss of every step)"."""
    needs: dict[str, int] = {}
    for _, why in missing:
        need = why.removeprefix("not logged: ").partition(" (")[0].partition(" with ")[0]
        needs[need] = needs.get(need, 0) + 1
    return "; ".join(f"{plural(count, 'measure')} without {need}" for need, count in needs.items())
