"""One section per variant: its verdict in words, its numbers, what they depend on, its loss, its failed runs."""

import re
from collections.abc import Mapping, Sequence

from knockout.analysis.inference.comparison import Comparison
from knockout.analysis.inference.contrasts import Contrast
from knockout.analysis.report import sentences
from knockout.analysis.report.blocks import Block, Bullets, Cell, Definitions, Drawing, Section, Table, table
from knockout.analysis.report.sections.verdicts import counts, verdict_cell
from knockout.analysis.report.sentences import DASH, difference, interval, number, p_text, signed
from knockout.design import Variant
from knockout.plurals import plural

SHOWN_SEEDS = 60
"""The most seeds of which each pair is shown; `figures/forest.csv` has them all."""


def section_ids(variants: Sequence[str]) -> dict[str, str]:
    """variant -> the id of its section: its name where that can be one, else its place in the order."""
    plain = re.compile(r"[A-Za-z0-9_-]+")
    return {
        v: f"variant-{v}" if plain.fullmatch(v) and len(v) <= 80 else f"variant.{i}" for i, v in enumerate(variants, 1)
    }


def variants(
    comparison: Comparison,
    *,
    described: Mapping[str, Variant],
    late: Mapping[str, str],
    troubles: Sequence[tuple[str, str, str, str, str]] = (),
    drawings: Mapping[str, Drawing] | None = None,
) -> list[Section]:
    """The sections, in the order of the contrasts.

    `described`: variant -> what it changes; `late`: variant -> why it is exploratory; `troubles`: runs that failed or
    have no result, as (variant, seed, status, reason, folder); `drawings`: variant -> its training loss.
    """
    ids = section_ids(comparison.variants)
    sections = []
    for c in comparison.contrasts:
        drawing = (drawings or {}).get(c.variant)
        blocks: list[Block] = [Definitions(items=tuple(_numbers(c, described, late)))]
        blocks += [Bullets(items=tuple(checks))] if (checks := _checks(c)) else []
        blocks += [drawing] if drawing is not None else []
        blocks += [pairs] if (pairs := _pairs(c, comparison.baseline)) is not None else []
        own = [row[1:] for row in troubles if row[0] == c.variant]
        blocks += [table(("Seed", "Status", "Reason", "Folder"), own, caption=_failed_caption(own))] if own else []
        change = sentences.change(described, c.variant)
        sections.append(
            Section(
                id=ids[c.variant],
                title=c.variant,
                part="variants",
                lead=(sentences.sentence(c),),
                blocks=tuple(blocks),
                tells="; ".join(part for part in (_size(c), change) if part),
                verdict=verdict_cell(c),
            )
        )
    return sections


def _size(c: Contrast) -> str:
    if c.estimate is None:
        return f"{c.arm.failures} of {c.arm.runs} runs failed" if c.arm.failures else ""
    return f"{difference(c.estimate, c.metric.digits)} {c.metric.unit}".rstrip()


def _numbers(c: Contrast, described: Mapping[str, Variant], late: Mapping[str, str]) -> list[tuple[str, str]]:
    e, metric = c.estimate, c.metric
    pairs, failed = counts(c)
    tost = f", TOST {p_text(c.p_tost)}, after Holm {p_text(c.p_tost_holm)}" if c.p_tost is not None else ""
    size = DASH if e is None else f"{difference(e, metric.digits)} {metric.unit}".rstrip()
    rows = [
        ("Changes", sentences.change(described, c.variant)),
        ("Exploratory", late.get(c.variant, "")),
        (sentences.header(metric), f"{sentences.level(c.arm, metric.digits)}; baseline {_baseline(c)}"),
        ("Difference", f"{size} {interval(e, metric.digits)}, over {plural(e.n, 'pair')}" if e is not None else ""),
        ("p", f"{p_text(c.p)}, after Holm {p_text(c.p_holm)}{tost}" if c.p is not None else ""),
        ("Pairs and failed runs", f"{pairs} pairs; {failed} runs failed"),
        ("Effect size", _effect(c)),
        ("Smallest difference that would be shown", _detectable(c)),
    ]
    return [(name, value) for name, value in rows if value]


def _baseline(c: Contrast) -> str:
    return sentences.level(c.baseline, c.metric.digits)


def _effect(c: Contrast) -> str:
    e = c.estimate
    if e is None or e.d_z is None:
        return ""
    return f"d_z {signed(e.d_z)}, Cliff's delta {signed(e.cliffs_delta)}, win rate {number(e.win_rate)}"


def _detectable(c: Contrast) -> str:
    if c.needs is None:
        return ""
    return f"{sentences.detectable(c)} {c.metric.unit}".rstrip() + f", with {100 * c.power:g} % power"


def _checks(c: Contrast) -> list[str]:
    """Whether other tests agree, and whether one seed decides."""
    others, lines = c.sensitivity, []
    tests = [
        ("sign-flip", None if others.sign_flip is None else others.sign_flip_holm),
        ("Wilcoxon", None if others.wilcoxon is None else others.wilcoxon_holm),
        ("max-T", others.max_t),
    ]
    given = [f"{name} {p_text(p)}" for name, p in tests if p is not None]
    if given:
        agree = "disagree in part" if others.disagree else "agree"
        lines.append(f"Other tests {agree} with the planned one. Adjusted p values: {', '.join(given)}.")
    if c.left_out:
        flips = [x for x in c.left_out if x.flips]
        known = [x.difference for x in c.left_out if x.difference is not None]
        spread = (
            f" The difference then lies between {signed(min(known), c.metric.digits)} and"
            f" {signed(max(known), c.metric.digits)}."
            if known
            else ""
        )
        kept = "The verdict stays the same whichever seed is left out."
        changed = f"Leaving out one seed changes the verdict at {len(flips)} of {plural(len(c.left_out), 'seed')}."
        lines.append((changed if flips else kept) + spread)
    return lines


def _pairs(c: Contrast, baseline: str) -> Table | None:
    """Every pair of runs, where there are not too many."""
    if len(c.pairs) > SHOWN_SEEDS:
        return None
    metric = c.metric

    def value(stored: float | None) -> str:
        return DASH if stored is None else number(stored * metric.scale, metric.digits)

    rows: list[tuple[Cell | str, ...]] = [
        (
            str(p.seed),
            value(p.baseline),
            value(p.variant),
            signed(p.difference, metric.digits) if p.state == "complete" else p.state,
        )
        for p in c.pairs
    ]
    unit = f", {metric.unit}" if metric.unit else ""
    return table(
        ("Seed", f"#{baseline}", f"#{c.variant}", f"#Difference{unit}"),
        rows,
        dense=True,
        caption=f"{sentences.header(metric)}, seed by seed",
    )


def _failed_caption(rows: Sequence[tuple[str, ...]]) -> str:
    return f"{plural(len(rows), 'run')} failed or without a result" if len(rows) != 1 else "Failed, or without a result"
