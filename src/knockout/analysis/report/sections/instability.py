"""Instability of training: what is shown of each variant, time to a threshold, spread over seeds, learning rates."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from knockout.analysis.inference.curve_metrics import METRICS
from knockout.analysis.inference.instability import Instability
from knockout.analysis.inference.instability_cells import FAILURES, RATES, TIME
from knockout.analysis.inference.instability_cells import Cell as Measured
from knockout.analysis.report.blocks import Bullets, Cell, Section, Table, table
from knockout.analysis.report.sentences import DASH, listed, number, p_text, signed
from knockout.plurals import plural

COLUMNS = (
    "drawdown",
    "excursion_area",
    "total_variation",
    "short_term_risk",
    "excess_early",
    "early_peak",
    "early_jitter",
    "gradient_outliers",
    "depth_ratio_init",
    "attention_logit",
    "rank_residual_end",
    "plateau",
)
"""The measures in the table of cells; all are in instability_contrasts.csv."""

NAMED = 4
"""So many measures are named of a variant in the list of what is shown."""

TITLES = {FAILURES: "failed runs", TIME: "time to threshold", RATES: "sensitivity to the learning rate"}


def sections(instability: Instability | None) -> list[Section]:
    """The sections on instability that there is something to say in."""
    if instability is None or not instability.cells:
        return []
    found = (cells(instability), thresholds(instability), spread(instability), learning_rates(instability))
    return [section for section in found if section is not None]


def title_of(metric: str) -> str:
    """A measure as sentences name it."""
    return TITLES.get(metric) or METRICS[metric].title


def is_worse(cell: Measured) -> bool:
    """Whether a shown cell is on the worse side of its measure."""
    sign = METRICS[cell.metric].sign if cell.metric in METRICS else 1
    return (cell.label == "higher") == (sign == 1)


def size_of(cell: Measured) -> str:
    """The estimate of a cell: a ratio as "×1.9", a difference with its sign and unit; else what stands for it."""
    if cell.estimate is None:
        return "by failed runs" if cell.ranked else DASH
    if cell.scale == "ratio":
        return f"×{cell.estimate:.3g}"
    unit = "share" if cell.metric == FAILURES else METRICS[cell.metric].unit if cell.metric in METRICS else "nats"
    return f"{signed(100 * cell.estimate)} points" if unit == "share" else f"{signed(cell.estimate, 3)} {unit}".rstrip()


def cells(instability: Instability) -> Section:
    """Every variant on the main measures, what is shown of each, and counts of spikes and failures."""
    shown = [c for c in instability.cells if c.label in ("higher", "lower")]
    untested = sum(c.label == "not testable" for c in instability.cells)
    columns = [m for m in COLUMNS if m not in instability.missing]
    by_name = {(c.variant, c.metric): c for c in instability.cells}
    rows = [(v, *(_cell(by_name.get((v, m))) for m in columns)) for v in instability.variants]
    quiet = [v for v in instability.variants if not any(c.variant == v for c in shown)]
    return Section(
        id="instability",
        tells="Which variants train less steadily than the baseline, by measure.",
        title="Instability of training",
        lead=(
            (
                "How stable training was, in one number per run and measure. Each variant is compared with the"
                " baseline's runs of the same seeds, mostly as a ratio: ×2 is twice the baseline's value. A run that"
                " diverged counts as the worst, and so does a dead one where a flat line would look stable. These"
                " numbers are exploratory, and verdicts do not use them."
            ),
            (
                f"After the correction over all {plural(len(instability.cells), 'cell')} (Benjamini-Hochberg),"
                f" {plural(len(shown), 'difference')} {'is' if len(shown) == 1 else 'are'} shown."
                + (f" {untested} could not have shown one: too few seeds, or missing values." if untested else "")
                + (f" No difference is shown of {listed(quiet)}." if quiet and shown else "")
            ),
        ),
        blocks=(
            *((Bullets(items=tuple(_bullets(instability, shown))),) if shown else ()),
            *((table(("Variant", *(f"#{title_of(m)}" for m in columns)), rows, dense=True),) if columns else ()),
            _counts(instability),
        ),
        notes=tuple(_notes(instability)),
    )


def _cell(cell: Measured | None) -> Cell | str:
    if cell is None:
        return DASH
    notes = (f"failed runs in {cell.ranked} of {cell.n} pairs",) if cell.ranked else ()
    if cell.label in ("higher", "lower"):
        text = cell.label if cell.estimate is None else f"{size_of(cell)} {cell.label}"
        return Cell(text=text, badge="worse" if is_worse(cell) else "better", notes=notes)
    return Cell(text=size_of(cell), notes=(*notes, "not testable") if cell.label == "not testable" else notes)


def _bullets(instability: Instability, shown: Sequence[Measured]) -> list[str]:
    """One line for each variant of which something is shown, the smallest p first."""
    lines = []
    for variant in dict.fromkeys((*instability.variants, *(c.variant for c in shown))):
        own = sorted((c for c in shown if c.variant == variant), key=lambda c: (c.p_bh, c.p or 0.0, c.metric))
        if own:
            named = [f"{title_of(c.metric)} {c.label} ({size_of(c)})" for c in own[:NAMED]]
            more = f"; and {len(own) - NAMED} more" if len(own) > NAMED else ""
            lines.append(f"{variant}: {'; '.join(named)}{more}")
    return lines


def _counts(instability: Instability) -> Table:
    """Failures, flat lines and spikes of every arm, the baseline first."""
    rows = []
    for name in (instability.baseline, *instability.variants):
        c = instability.counts[name]
        cell = instability.cell(name, "spikes")
        tested = None if cell is None or cell.p is None else cell.p_bh
        rows.append(
            (
                name,
                str(c.runs),
                str(c.diverged),
                str(c.dead),
                DASH
                if c.rate_low is None or c.rate_high is None
                else f"{100 * c.rate_low:.0f} to {100 * c.rate_high:.0f}",
                _whole(c.flat),
                _whole(c.blown_up),
                DASH if c.spikes is None else f"{c.spikes:.1f}",
                DASH if c.large_spikes is None else f"{c.large_spikes:.1f}",
                _whole(c.spiking),
                p_text(tested),
            )
        )
    titles = (
        "Arm",
        "#Runs",
        "#Diverged",
        "#Dead",
        "#Failure rate, % (Wilson)",
        "#Flat lines",
        "#Blown up",
        "#Spikes per run (5 sd)",
        "#Spikes per run (7 sd)",
        "#Runs with one (7 sd)",
        "#p of spikes, Benjamini-Hochberg",
    )
    kept = [i for i in range(len(titles)) if i < 5 or any(row[i] != DASH for row in rows)]
    return table([titles[i] for i in kept], [[row[i] for i in kept] for row in rows], dense=True)


def _whole(count: int | None) -> str:
    return DASH if count is None else str(count)


def _notes(instability: Instability) -> list[str]:
    needs: dict[str, list[str]] = {}
    for metric, why in instability.missing.items():
        needs.setdefault(why.removeprefix("not logged: "), []).append(title_of(metric))
    lines = []
    if needs:
        parts = [f"{listed(names)} ({need})" for need, names in needs.items()]
        lines.append(f"Not measured, because no run has what is in brackets: {'; '.join(parts)}.")
    if not instability.labels_known:
        lines.append(
            "The training labels are not known here: the baseline's median first loss stands for their entropy."
        )
    if any(c.test == "t" for c in instability.cells):
        lines.append(
            f"With {len(instability.seeds)} seeds no exact test could show anything after the correction: the paired t"
            " test decides where no run failed (normal theory only), and the exact signed-rank test where one did."
        )
    return [
        *lines,
        "All measures: instability_contrasts.csv; each run: instability.csv. Definitions: results/README.md.",
    ]


def thresholds(instability: Instability) -> Section | None:
    """How fast each arm learns: the time to a threshold of accuracy on the probe."""
    reached = instability.reaching
    if reached is None:
        return None
    rows = []
    for arm in reached.arms:
        cell = instability.cell(arm.variant, TIME)
        contrast = arm.contrast
        base = next((a.contrast.baseline_mean for a in reached.arms if a.contrast is not None), None)
        mean = base if arm.variant == instability.baseline else None if contrast is None else contrast.variant_mean
        rows.append(
            (
                arm.variant,
                f"{arm.reached} of {arm.n}",
                number(mean, 0),
                DASH if cell is None else size_of(cell),
                DASH if cell is None else p_text(cell.p_bh if cell.p is not None else None),
                DASH if contrast is None else p_text(contrast.p_log_rank),
                DASH if contrast is None or contrast.p_log_rank is None else p_text(arm.p_bh),
            )
        )
    return Section(
        id="time-to-threshold",
        tells="How soon each arm reaches a fixed accuracy.",
        title="Time to a threshold",
        lead=(
            (
                f"The first of three probes in a row with an accuracy of at least {100 * reached.threshold:.1f} %,"
                " halfway between the commonest label's share"
                f" ({100 * reached.majority:.1f} %) and the baseline's median at the end: no variant moves it. A run"
                " that never gets there counts with all its steps."
            ),
        ),
        blocks=(
            table(
                (
                    "Arm",
                    "#Runs that got there",
                    "#Restricted mean, steps",
                    "#Ratio to the baseline",
                    "#p, paired, Benjamini-Hochberg",
                    "#p, log-rank",
                    "#Benjamini-Hochberg",
                ),
                rows,
            ),
        ),
        notes=(
            (
                "Paired: the exact signed-rank test of the ratios (see above), corrected with all other cells."
                " Log-rank: not paired, approximate, corrected over the variants."
            ),
        ),
    )


def spread(instability: Instability) -> Section | None:
    """The spread of the smoothed loss over seeds, arm by arm."""
    if all(s.spread is None for s in instability.spread):
        return None
    rows = []
    for s in instability.spread:
        values = s.spread
        if values is None:
            rows.append((s.variant, DASH, str(s.diverged), DASH, DASH))
            continue
        rows.append(
            (
                s.variant,
                str(values.n),
                str(s.diverged),
                f"{values.iqr:.4f} [{values.iqr_low:.4f}, {values.iqr_high:.4f}]",
                f"{values.tail:.4f} [{values.tail_low:.4f}, {values.tail_high:.4f}]",
            )
        )
    return Section(
        id="seed-spread",
        tells="How far the runs of one arm are apart.",
        title="Spread over seeds",
        lead=(
            (
                "How far runs of one arm are apart: the smoothed training loss at ten even steps, in nats. Each arm is"
                " one number, so nothing is paired and nothing is tested."
            ),
        ),
        blocks=(
            table(
                ("Arm", "#Runs", "#Diverged, left out", "#Inter-quartile range", "#Worst 5 % less the median"),
                rows,
            ),
        ),
        notes=("Bootstrap intervals over seeds; under 20 seeds they cover less than 95 %.",),
    )


def learning_rates(instability: Instability) -> Section | None:
    """Sensitivity to the learning rate, where arms differ in it alone."""
    rates = instability.rates
    if rates is None:
        return None

    def mean(values: Sequence[float | None]) -> str:
        known = [x for x in values if x is not None]
        return f"{float(np.mean(known)):.3f}" if known else DASH

    rows = []
    for group in rates.groups:
        known = [c for c in group.curves if c is not None]
        cell = instability.cell(group.name, RATES)
        stable = sorted(c.largest_stable for c in known if c.largest_stable is not None)
        difference: Cell | str = DASH if cell is None else _cell(cell)
        rows.append(
            (
                group.name,
                str(len(group.rates)),
                f"{len(known)} of {len(group.curves)}",
                mean([c.sensitivity for c in known]),
                mean([c.own_sensitivity for c in known]),
                difference,
                p_text(None if cell is None or cell.p is None else cell.p_bh),
                mean([c.decades for c in known]),
                f"{stable[(len(stable) - 1) // 2]:g}" if stable else DASH,
            )
        )
    return Section(
        id="learning-rates",
        tells="How much the learning rate matters to each arm.",
        title="Sensitivity to the learning rate",
        lead=(
            (
                "Arms that differ in the learning rate alone are one row. Sensitivity is the mean over the rates of the"
                " final validation loss, counted up to the untrained network's, above the lowest loss of any arm at"
                " that seed: 0 if every rate does as well as the best (Wortsman et al. 2023). Nats, means over seeds."
            ),
        ),
        blocks=(
            table(
                (
                    "Group",
                    "#Rates",
                    "#Seeds",
                    "#Sensitivity",
                    "#Above its own best",
                    "#Against the baseline's group",
                    "#p, Benjamini-Hochberg",
                    "#Decades within 1 point of the best",
                    "#Largest stable rate (median)",
                ),
                rows,
                dense=True,
            ),
        ),
        notes=(
            (
                "A group is named by its arm with the baseline's rate. Above its own best, a group that never learns"
                " looks insensitive. Stable: the run neither diverged nor is dead."
            ),
        ),
    )


def run_table(instability: Instability | None) -> pd.DataFrame:
    """Every run: variant, seed, each measure, the time to the threshold, and on what the run ranks as the worst."""
    if instability is None or instability.values.empty:
        return pd.DataFrame()
    values = instability.values
    columns = (values[name].tolist() for name in ("variant", "seed", "metric", "value"))
    by_run = {(variant, seed, metric): value for variant, seed, metric, value in zip(*columns, strict=True)}
    worst = values[values["ranked"]].groupby(["variant", "seed"], sort=False)["metric"].agg(", ".join)
    steps = {} if instability.reaching is None else instability.reaching.steps
    times = {(v, s): t for v, own in steps.items() for s, t in zip(instability.seeds, own, strict=True)}
    rows = []
    for variant, seed in dict.fromkeys(zip(values["variant"], values["seed"], strict=True)):
        own = {m: by_run[variant, seed, m] for m in METRICS}
        counts_as = worst.get((variant, seed), "")
        rows.append({"variant": variant, "seed": seed, **own, TIME: times.get((variant, seed)), "worst_on": counts_as})
    return pd.DataFrame(rows, columns=["variant", "seed", *METRICS, TIME, "worst_on"])


def contrast_table(instability: Instability | None) -> pd.DataFrame:
    """Every cell: `Instability.cell_frame`."""
    return pd.DataFrame() if instability is None else instability.cell_frame()
