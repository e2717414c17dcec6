"""A diff in words, and its files: CSV, Markdown, and the audit trail."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from knockout.analysis.diff.paired import Diff, Identity
from knockout.analysis.diff.sides import DiffError
from knockout.analysis.inference.contrasts import Contrast
from knockout.analysis.report import sentences, tables
from knockout.analysis.report.audit_trail import account_of
from knockout.analysis.report.render import markdown
from knockout.analysis.results import Results
from knockout.files import replace_text
from knockout.plurals import plural

FILES = ("diff.csv", "verdicts.csv", "diff.md", "analysis.json")


def answer(diff: Diff) -> list[str]:
    """What moved, in a few sentences."""
    total = diff.total
    lines = [_alike(total)]
    by: dict[str, list[Contrast]] = {}
    for contrast in diff.contrasts:
        by.setdefault(contrast.verdict, []).append(contrast)
    for verdict in ("worse", "better"):
        if verdict in by:
            named = sentences.listed([f"{c.variant} ({_size(c)})" for c in by[verdict]])
            lines.append(f"In B {named} {'is' if len(by[verdict]) == 1 else 'are'} {verdict}.")
    if "worse" not in by and "better" not in by:
        lines.append("No arm is shown to be better or worse in B.")
    margin = diff.comparison.metric.size(diff.comparison.plan.margin)
    within = [c.variant for v in ("trivial", "equivalent") for c in by.get(v, [])]
    if within:
        verb = "is" if len(within) == 1 else "are"
        lines.append(f"{sentences.listed(within)} {verb} shown to differ by less than {margin}.")
    same = {arm for arm, i in diff.identity.items() if i.identical == i.pairs == len(diff.comparison.seeds)}
    still = [
        c.variant for v in ("inconclusive", "undecidable by design") for c in by.get(v, []) if c.variant not in same
    ]
    if still:
        lines.append(f"Neither a difference nor equivalence is shown for {sentences.listed(still)}.")
    moved = [m for m in diff.verdicts if m.moved]
    if moved:
        shown = [f"{m.variant}: {sentences.shown(m.before)} -> {sentences.shown(m.after)}" for m in moved]
        of = plural(len(diff.verdicts), "variant")
        lines.append(f"The verdict against the own baseline moved for {len(moved)} of {of}: {'; '.join(shown)}.")
    elif diff.verdicts:
        lines.append(
            f"The verdict against the own baseline is the same for all {plural(len(diff.verdicts), 'variant')}."
        )
    for side, names in (("A", diff.only_before), ("B", diff.only_after)):
        if names:
            lines.append(f"Only {side} has {sentences.listed(names)}.")
    return lines


def sentence(contrast: Contrast, alike: Identity) -> str:
    """One arm in words: what B's runs show against A's runs of the same seed."""
    name, metric = contrast.variant, contrast.metric
    margin, size = metric.size(contrast.margin), _size(contrast)
    p = f"{sentences.p_equals(contrast.p_holm)} after Holm over {plural(contrast.family, 'arm')}"
    same = f" {_alike(alike)}" if alike.identical else ""
    if contrast.verdict in ("better", "worse"):
        return f"{name} is {contrast.verdict} in B than in A: {size} ({p}).{same}"
    tost = f"TOST {sentences.p_equals(contrast.p_tost_holm)} after Holm"
    if contrast.verdict == "trivial":
        return f"{name} differs between A and B by {size} ({p}), shown to be less than {margin} ({tost}).{same}"
    if contrast.verdict == "equivalent":
        return f"{name} is equivalent in A and B within ±{margin}: difference {size} ({tost}).{same}"
    return f"{name} is {sentences.verdict_text(contrast)}: {contrast.reason}. The difference is {size}.{same}"


def _alike(identity: Identity) -> str:
    """How many runs are bit-identical."""
    if not identity.pairs:
        return "No run has a result in both."
    if identity.identical == identity.pairs:
        return f"All {plural(identity.pairs, 'pair')} of runs are bit-identical (predictions and losses)."
    if identity.identical:
        return f"{identity.identical} of {plural(identity.pairs, 'pair')} of runs are bit-identical."
    if identity.predictions:
        return f"No pair of runs is bit-identical; {identity.predictions} of {identity.pairs} predict the same."
    return f"None of {plural(identity.pairs, 'pair')} of runs is bit-identical."


def _size(contrast: Contrast) -> str:
    estimate, metric = contrast.estimate, contrast.metric
    if estimate is None:
        return "not known"
    text = f"{sentences.difference(estimate, metric.digits)} {metric.unit}".rstrip()
    return f"{text}, 95 % CI {sentences.interval(estimate, metric.digits)}" if estimate.low is not None else text


def diff_table(diff: Diff) -> pd.DataFrame:
    """Every number of every arm. Columns as in contrasts.csv: variant_ is the arm in B, baseline_ in A."""
    rows = [
        {
            **tables.contrast_row(c),
            **{f"alike_{name}": n for name, n in asdict(diff.identity[c.variant]).items()},
        }
        for c in diff.contrasts
    ]
    return pd.DataFrame(rows)


def write_diff(diff: Diff, target: Path) -> dict[str, Path]:
    """Write the report of a diff into a folder, each file whole or not at all. Returns the paths by name below it.

    Raises `DiffError` for a study's folder, and for one that holds other files.
    """
    if (target / "design.json").exists():
        raise DiffError(f"{target} is the folder of a study: name another with --to")
    if target.is_dir() and any(p.name not in FILES for p in target.iterdir()):
        raise DiffError(f"{target} holds files that are no report of a diff: name another folder with --to")
    verdicts = [
        {
            "variant": c.variant,
            "verdict": c.label,
            "reason": c.reason,
            "sentence": sentence(c, diff.identity[c.variant]),
        }
        for c in diff.contrasts
    ]
    moved = pd.DataFrame([{**asdict(m), "moved": m.moved} for m in diff.verdicts])
    texts = {
        "diff.csv": tables.csv_text(diff_table(diff)),
        "verdicts.csv": tables.csv_text(moved),
        "diff.md": markdown_text(diff),
        "analysis.json": account_of(
            diff.comparison, verdicts, {"comparison": "diff", "seeds": list(diff.comparison.seeds)}
        ),
    }
    target.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        replace_text(target / name, text)
    return {name: target / name for name in texts}


def markdown_text(diff: Diff) -> str:
    """The diff as Markdown. All texts of the studies are escaped."""
    names = [markdown(f"{path} ({side.design.study})") for path, side in _sides(diff)]
    metric = diff.comparison.metric
    header = ["Arm", "Pairs", "A", "B", "B − A [95 % CI]", "p (Holm)", "Verdict", "Bit-identical"]
    lines = [
        "# What differs between two studies",
        "",
        f"A: {names[0]}  ",
        f"B: {names[1]}",
        "",
        *(f"{markdown(line)}" for line in answer(diff)),
        "",
        f"## {sentences.header(metric)}, B minus A, paired by seed",
        "",
        _row(header),
        _row(["---"] * len(header)),
        *(_row([markdown(cell) for cell in cells]) for cells in diff_rows(diff)),
        "",
        *(f"- {markdown(sentence(c, diff.identity[c.variant]))}" for c in diff.contrasts),
        "",
        "## What differs in design, data, trainer and libraries",
        "",
        *([f"- {markdown(str(d))}" for d in diff.differences] or ["Nothing."]),
        "",
        "## Verdicts against the own baseline",
        "",
        _row(["Variant", "A", "B"]),
        _row(["---"] * 3),
        *(
            _row([markdown(m.variant), *(markdown(sentences.shown(x)) for x in (m.before, m.after))])
            for m in diff.verdicts
        ),
        "",
        *(f"Note: {markdown(note)}" for note in diff.comparison.notes),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def diff_rows(diff: Diff) -> list[list[str]]:
    """The table of arms: name, pairs, levels of A and B, difference, p, verdict, how many runs are bit-identical."""
    digits = diff.comparison.metric.digits
    rows = []
    for c in diff.contrasts:
        alike = diff.identity[c.variant]
        rows.append(
            [
                c.variant,
                f"{c.n_pairs}/{c.n_planned}",
                sentences.level(c.baseline, digits),
                sentences.level(c.arm, digits),
                sentences.DASH
                if c.estimate is None
                else f"{sentences.difference(c.estimate, digits)} {sentences.interval(c.estimate, digits)}",
                sentences.p_text(c.p_holm if c.p is not None else None),
                sentences.verdict_text(c),
                f"{alike.identical} of {alike.pairs}",
            ]
        )
    return rows


def _sides(diff: Diff) -> list[tuple[Path, Results]]:
    return list(zip(diff.paths, (diff.before, diff.after), strict=True))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
