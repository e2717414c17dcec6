"""What goes beyond the planned contrasts: test examples, factorials, A/A arms, other metrics, claims, an e-process."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from knockout.analysis.inference.claims import Judged
from knockout.analysis.inference.comparison import Comparison
from knockout.analysis.inference.contrasts import Contrast
from knockout.analysis.inference.interactions import Crossing, JudgedEffect
from knockout.analysis.inference.pairs import Arm
from knockout.analysis.inference.secondary import Secondary
from knockout.analysis.report import sentences
from knockout.analysis.report.blocks import Cell, Section, table
from knockout.analysis.report.sections.verdicts import (
    INTERVAL,
    counts,
    difference_cell,
    difference_header,
    verdict_cell,
)
from knockout.analysis.report.sentences import DASH, difference, interval, number, p_text, signed
from knockout.analysis.stats.metric import Metric
from knockout.plurals import plural


def sequential(comparison: Comparison) -> Section | None:
    """The e-process, where seeds were added until every contrast was decided."""
    process = comparison.sequential
    if process is None:
        return None

    def e_text(value: float) -> str:
        return "over 10,000" if value > 10_000 else number(value)

    rows = [
        (
            variant,
            e_text(d.e),
            e_text(d.e_max),
            p_text(d.p),
            p_text(d.p_holm),
            DASH if d.rejected_at is None else str(d.rejected_at),
        )
        for variant, d in process.decisions.items()
    ]
    stopped = (
        f"All contrasts were decided after {process.decided_at} seeds."
        if process.decided_at
        else f"After {process.n} seeds not all contrasts are decided."
    )
    return Section(
        id="sequential",
        title="Seeds added until every contrast was decided",
        tells="When each contrast was decided, by a test that stays valid at every look.",
        terms=("E-process",),
        lead=(
            (
                f"The {process.process} e-process was planned. One may look at it after every seed: p = 1 / (largest e)"
                f" stays valid. Holm's correction is over the contrasts. {stopped}"
            ),
        ),
        blocks=(table(("Variant", "#e, last", "#e, largest", "#p", "#p, Holm", "#Decided at, seeds"), rows),),
        notes=("The t tests and intervals above are those of a fixed number of seeds; verdicts do not use them here.",),
    )


def test_examples(comparison: Comparison) -> Section | None:
    """Intervals over seeds and test examples at once."""
    crossed = [c for c in comparison.contrasts if c.two_source is not None]
    if not crossed or crossed[0].two_source is None:
        return None
    examples = crossed[0].two_source.examples
    return Section(
        id="examples",
        title="This test set, and other test examples like these",
        tells="Whether the differences should hold on other test examples, too.",
        terms=("Crossed random effects", "McNemar's test"),
        lead=(
            (
                "Verdicts are over seeds, on this test set: would the difference hold with other seeds? The second"
                f" interval treats the {examples:,} test examples as a sample too (crossed random effects): would it"
                " hold on other test examples like these? It is for illustration; verdicts do not use it."
            ),
        ),
        blocks=(
            table(
                (
                    "Variant",
                    "#Interval over seeds",
                    "#Over seeds and examples",
                    "#p",
                    "#df",
                    "#Share of seeds",
                    "#Share of examples",
                    "#Share of both",
                    "What would help",
                    "#McNemar, seeds",
                ),
                map(_example_row, crossed),
                dense=True,
            ),
        ),
        notes=(
            (
                "In points. Shares: how much of the variance of the mean difference comes from seeds, from examples,"
                " and from both together. McNemar: at how many seeds the two models differ over the test examples"
                " (mid-p at most alpha, not corrected); see examples.csv."
            ),
        ),
    )


def _example_row(contrast: Contrast) -> tuple[str, ...]:
    two = contrast.two_source
    assert two is not None

    def share(value: float | None) -> str:
        return DASH if value is None else f"{100 * value:.0f} %"

    p = [d.p_mid for d in contrast.mcnemar]
    bounds = DASH
    advice = f"cannot be estimated here: {two.reason}"
    if two.estimable and two.low is not None and two.high is not None:
        bounds, advice = f"[{signed(100 * two.low)}, {signed(100 * two.high)}]", two.advice
    return (
        contrast.variant,
        interval(contrast.estimate),
        bounds,
        p_text(two.p),
        number(two.df, 1),
        share(two.share_seed),
        share(two.share_example),
        share(two.share_residual),
        advice,
        f"{sum(x <= contrast.alpha for x in p)} of {len(p)}",
    )


def factorial(crossing: Crossing, metric: Metric, *, index: int) -> Section:
    """Main effects and interactions of one full factorial; `index` makes its anchor unique."""
    f = crossing.factorial
    axes = ", ".join(f"{factor}: baseline against {axis}" for factor, axis in zip(f.factors, f.axes, strict=True))
    return Section(
        id=f"factorial-{index}",
        title=f"Factorial: {' × '.join(f.factors)}",
        tells="Whether the effect of one factor depends on another.",
        lead=(
            (
                f"{axes}; all {2 ** len(f.factors)} cells, paired by seed. A main effect is the mean change over the"
                " levels of the other factors. An interaction is a difference of differences: by how much the effect"
                " of one factor changes when the other changes. Holm's correction is over these"
                f" {len(crossing.effects)} effects, apart from the variants above."
            ),
        ),
        blocks=(
            table(
                (
                    "Effect",
                    "#Seeds",
                    f"#Size{f', {metric.unit}' if metric.unit else ''} [{INTERVAL}]",
                    "#p",
                    "#p, Holm",
                    "#TOST p",
                    "#Sign-flip p",
                    "#d_z",
                    "Finding",
                ),
                [_effect_row(e, metric) for e in crossing.effects],
            ),
        ),
    )


def _effect_row(effect: JudgedEffect, metric: Metric) -> tuple[Cell | str, ...]:
    e, judged = effect.estimate, effect.judgement
    untested = judged.verdict == "inconclusive" and judged.tested.p is None
    tost = judged.tested.p_tost
    return (
        effect.name.replace(" x ", " × "),
        str(effect.n) + ("" if effect.n == effect.n_planned else f" of {effect.n_planned}"),
        f"{difference(e, metric.digits)} {interval(e, metric.digits)}",
        p_text(judged.tested.p),
        p_text(judged.p_holm) if judged.tested.p is not None else DASH,
        DASH if tost is None else f"{p_text(tost)} / {p_text(judged.p_tost_holm)}",
        p_text(None if effect.sign_flip is None else effect.sign_flip.p),
        signed(None if e is None else e.d_z),
        Cell(
            text=sentences.shown(effect.finding),
            badge=sentences.shown(judged.verdict).split()[0],
            notes=(judged.reason,) if untested else (),
        ),
    )


def aa_arms(comparison: Comparison) -> Section | None:
    """The A/A arms: the baseline again, with other random numbers."""
    arms = comparison.placebos
    if arms is None:
        return None
    rate = ""
    if arms.rate is not None:
        low, high = 100 * arms.rate.low, 100 * arms.rate.high
        rate = f", {100 * arms.rate.rate:.0f} % [95 % Wilson interval {low:.0f} to {high:.0f} %]"
    rows = [(c.variant, *counts(c), difference_cell(c), p_text(c.p), verdict_cell(c)) for c in arms.contrasts]
    return Section(
        id="aa",
        title="A/A test",
        tells="How often the test finds a difference where there is none.",
        terms=("A/A arm",),
        lead=(
            (
                "These arms are the baseline again, with other random numbers, so no true difference exists. Each is"
                f" judged as if it were the only variant. A difference was found in {arms.found} of"
                f" {arms.judged}{rate}; alpha is the rate to expect."
            ),
        ),
        blocks=(
            table(("Arm", "#Pairs", "#Failed runs", f"#{difference_header(comparison.metric)}", "#p", "Verdict"), rows),
        ),
    )


def secondary(comparison: Comparison, *, repeating: Container[str] = ()) -> Section | None:
    """Every variant on the metrics that the plan does not judge by.

    `repeating`: metrics that repeat the plan's here, and are left to secondary.csv.
    """
    shown = [row for row in comparison.secondary if row.metric.name not in repeating]
    folded = {row.metric.name: row.metric for row in comparison.secondary if row.metric.name in repeating}
    if not shown and not folded:
        return None
    rows: list[tuple[Cell | str, ...]] = []
    for i, row in enumerate(shown):
        if i == 0 or shown[i - 1].metric != row.metric:
            metric = Cell(text=sentences.header(row.metric), notes=(f"{row.metric.better} is better",))
            rows.append((metric, comparison.baseline, "", _level(row.baseline, row.metric), "", "", "", "", ""))
        rows.append(_secondary_row(row))
    columns = (
        "Metric",
        "Variant",
        "#n",
        "#Mean ± sd",
        f"#Difference [{INTERVAL}]",
        "#d_z",
        "Test",
        "#p",
        "#p, Benjamini-Hochberg",
    )
    return Section(
        id="secondary",
        title="Secondary metrics (exploratory)",
        tells="The same variants on metrics that the plan does not judge by.",
        terms=("Exploratory", "Benjamini-Hochberg"),
        lead=(
            (
                "Verdicts do not use these metrics. Treat a difference here as a question for another study. The p"
                " values are adjusted after Benjamini and Hochberg over all rows: this bounds the expected share of"
                " false discoveries, not the chance of a single one."
            ),
        ),
        blocks=(table(columns, rows),) if rows else (),
        notes=tuple(_repeated(comparison, metric) for metric in folded.values()),
    )


def _repeated(comparison: Comparison, metric: Metric) -> str:
    """Why a secondary metric is not shown, with the largest distance between it and the metric of the verdicts."""
    main = {c.variant: c.estimate.difference for c in comparison.contrasts if c.estimate is not None}
    apart = [
        abs(row.estimate.difference - main[row.variant])
        for row in comparison.secondary
        if row.metric.name == metric.name and row.estimate is not None and row.variant in main
    ]
    size = f": the differences are at most {number(max(apart))} {metric.unit} apart" if apart else ""
    return (
        f"{sentences.header(metric).partition(',')[0]} repeats accuracy on two classes of about the same size{size}."
        " It is in secondary.csv, and counts in the adjustment above."
    )


def _level(arm: Arm, metric: Metric) -> str:
    return sentences.level(arm, metric.digits)


def _secondary_row(row: Secondary) -> tuple[Cell | str, ...]:
    e, metric = row.estimate, row.metric
    return (
        sentences.header(metric),
        row.variant,
        str(0 if e is None else e.n),
        _level(row.arm, metric),
        f"{difference(e, metric.digits)} {interval(e, metric.digits)}",
        signed(None if e is None else e.d_z),
        row.test,
        p_text(row.p),
        p_text(row.p_bh) if row.p is not None else DASH,
    )


def losses(rows: Sequence[Mapping[str, Any]]) -> Section | None:
    """Losses on the training, validation and test split, arm by arm, and where they show over-fitting."""
    if not rows:
        return None

    def cell(row: Mapping[str, Any], name: str) -> str:
        sd = row[f"sd_{name}"]
        return number(row[name], 3) + (f" ± {number(sd, 3)}" if sd is not None else "")

    over = [row for row in rows if 2 * row["overfitted"] > row["runs"]]
    base = rows[0]
    gap = (
        "" if base["train"] is None else f" The baseline's gap is {signed(base['validation'] - base['train'], 3)} nats."
    )
    verdict = (
        f"In {len(over)} of {plural(len(rows), 'arm')} most runs end above their lowest validation loss: they"
        " over-fit, or train too long."
        if over
        else "In no arm do most runs end above their lowest validation loss."
    )
    return Section(
        id="losses",
        title="Losses, and over-fitting",
        tells="Whether the models still learn at the end, or learn their training texts by heart.",
        lead=(
            (
                "Mean ± sd over the runs that did not fail, in nats. The training loss is over the last 5 % of the"
                " steps, with dropout on. Over-fitting shows as a validation loss above the training loss, and above"
                f" its own lowest value. {verdict}{gap}"
            ),
        ),
        blocks=(
            table(
                (
                    "Variant",
                    "#Training",
                    "#Validation, last epoch",
                    "#Validation, lowest",
                    "#Epoch of the lowest",
                    "#Runs that end above it",
                    "#Test",
                    "#Gap, validation − training",
                ),
                [
                    (
                        str(row["variant"]),
                        cell(row, "train"),
                        cell(row, "validation"),
                        cell(row, "validation_lowest"),
                        f"{row['lowest_epoch']:g}",
                        f"{row['overfitted']} of {row['runs']}",
                        cell(row, "test"),
                        DASH if row["train"] is None else signed(row["validation"] - row["train"], 3),
                    )
                    for row in rows
                ],
            ),
        ),
        notes=("Verdicts do not use these numbers. All of them: losses.csv.",),
    )


def _rulings(judged: Sequence[Judged]) -> str:
    """How many claims of the study file came out how."""
    counted = Counter(c.ruling for c in judged)
    return f"{plural(len(judged), 'claim')} of the study file: {', '.join(f'{n} {r}' for r, n in counted.items())}."


def claims(judged: Sequence[Judged], *, later: AbstractSet[str], margin: str) -> Section | None:
    """The rulings on the claims of the study file. `later`: ids of claims stated after the first run."""
    if not judged:
        return None
    rows = [
        (
            c.id,
            c.variant,
            c.says,
            c.metric,
            c.text,
            Cell(
                text=c.ruling,
                badge=c.ruling,
                notes=("exploratory: stated after the first run",) if c.id in later else (),
            ),
            sentences.shown(c.reason),
        )
        for c in judged
    ]
    return Section(
        id="claims",
        title="Claims",
        part="answer",
        folded=True,
        tells=_rulings(judged),
        lead=(
            (
                "Claims stated in the study file. “better” or “worse” is supported by that verdict with a difference"
                f" of at least {margin}, and refuted by the opposite verdict, by negligible or by equivalent. “equal”"
                " is supported by equivalent or negligible, and refuted by better or worse with a difference of at"
                f" least {margin}."
            ),
        ),
        blocks=(table(("Claim", "Variant", "Claimed", "Metric", "Text", "Ruling", "Reason"), rows),),
        notes=(
            (
                "Claims on losses use the exact signed-rank test on ratios and need a Cliff's delta of at least .47;"
                " claims on failures use the exact paired test."
            ),
        ),
    )
