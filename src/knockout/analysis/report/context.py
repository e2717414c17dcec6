"""The document: everything that a report's templates print, as text and rows of text."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import pandas as pd

from knockout.analysis import history
from knockout.analysis.inference.aa_test import Placebos
from knockout.analysis.inference.claims import Judged
from knockout.analysis.inference.contrasts import Contrast
from knockout.analysis.inference.interactions import Crossing, JudgedEffect
from knockout.analysis.inference.secondary import Secondary
from knockout.analysis.inference.sequential import Sequential
from knockout.analysis.report import sentences, tables
from knockout.analysis.report.printed import Comparison
from knockout.analysis.results import Results
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.power import Needs, span
from knockout.analysis.stats.trace import recording
from knockout.design import Variant

DASH = sentences.DASH


def study_context(
    results: Results,
    comparison: Comparison,
    claims: Sequence[Judged],
    *,
    figures: Sequence[Any],
    late: Mapping[str, str],
) -> dict[str, Any]:
    """What the templates print of a study."""
    design = results.design
    tuned = "at the baseline's learning rate" if "learning_rate" in design.recipe else "nothing tuned per variant"
    later = history.later_claims(results)
    runs = results.runs
    if comparison.sequential is not None and comparison.sequential.decided_at is not None:
        runs = runs[runs["seed"].isin(comparison.seeds)]  # all is decided: no other was needed
    done = int(runs["status"].isin(["finished", "diverged"]).sum())
    with recording(comparison.trace):
        costs = tables.cost_rows(results)
    return {
        **judged_context(comparison, described=design.described, late=late, done=done, planned=len(runs)),
        "title": f"Ablation study “{design.study}”, {tuned}",
        "question": design.question,
        "lead": "Each variant is the baseline with one thing changed. All share the same seeds, so that every run of a"
        " variant is compared with the baseline's run of the same seed.",
        "design": history.design_rows(results),
        "figures": figures,
        "claims": [{"claim": c, "exploratory": c.id in later} for c in claims],
        "costs": [_cost_row(r) for r in costs],
        "workers": history.workers(results),
        "troubles": _troubles(runs),
        "caveats": sentences.caveats(results),
        "provenance": history.provenance_rows(results, version=version("knockout")),
    }


def judged_context(
    comparison: Comparison,
    *,
    described: Mapping[str, Variant],
    late: Mapping[str, str],
    done: int,
    planned: int,
) -> dict[str, Any]:
    """What the templates print of a comparison, wherever its runs come from."""
    found, metric, first = comparison.contrasts, comparison.metric, comparison.contrasts[0]
    base = first.baseline
    return {
        "answer": sentences.answer(found, done=done, planned=planned),
        "exploratory": sorted(set(late.values())),
        "baseline": {
            "name": comparison.baseline,
            "n": sentences.plural(base.runs, "run"),
            "failures": f"{base.failures} of {base.runs}",
            "level": sentences.level(base, metric.digits),
        },
        "header": sentences.header(metric),
        "unit": metric.unit,
        "verdicts": [_verdict_row(c, described, late) for c in found],
        "companions": [_companion_row(c) for c in found],
        "strips": [_strip_row(c) for c in found if c.left_out],
        "texts": [_texts_row(c) for c in found if c.two_source is not None],
        "examples": next((c.two_source.examples for c in found if c.two_source is not None), 0),
        "secondary": [_secondary_row(s) for s in comparison.secondary],
        "crossings": [_crossing_block(c, metric) for c in comparison.crossings],
        "placebos": _placebo_block(comparison.placebos),
        "sequential": _sequential_block(comparison.sequential, comparison.variants),
        "pairing_pays_above": sentences.number(first.pairing_pays_above),
        "floor": sentences.p_text(first.floor),
        "seeds_for_floor": first.seeds_for_floor,
        "sentences": comparison.sentences(),
        "margin": metric.size(comparison.plan.margin),
        "meanings": sentences.meanings(comparison.plan, metric),
        "notes": list(comparison.notes),
        "n": len(comparison.seeds),
        "k": first.family,
        "power": f"{comparison.plan.power:.0%}".replace("%", " %"),
    }


def _verdict_row(contrast: Contrast, described: Mapping[str, Variant], late: Mapping[str, str]) -> dict[str, Any]:
    arm, estimate, digits = contrast.arm, contrast.estimate, contrast.metric.digits
    low, high = arm.rate_low, arm.rate_high
    rate = f" [{100 * low:.0f}–{100 * high:.0f} %]" if arm.failures and low is not None and high is not None else ""
    tags = ["exploratory"] if contrast.variant in late else []
    tags += ["identical predictions"] if contrast.identical else ["same values"] if contrast.unchanged else []
    tags += ["normal theory only"] if contrast.normal_theory_only else []
    tags += ["one seed flips this"] if any(x.flips for x in contrast.left_out) else []
    pairs = f"{contrast.n_pairs} of {contrast.n_planned}" if contrast.n_pairs < contrast.n_planned else contrast.n_pairs
    return {
        "variant": contrast.variant,
        "change": sentences.change(described, contrast.variant),
        "papers": "; ".join(described[contrast.variant].papers if contrast.variant in described else ()),
        "n": pairs,
        "failures": f"{arm.failures} of {arm.runs}{rate}",
        "level": sentences.level(arm, digits),
        "difference": sentences.signed(None if estimate is None else estimate.difference, digits),
        "interval": sentences.interval(estimate, digits),
        "given": f"neither failed: {estimate.n} pairs" if contrast.failures and estimate is not None else "",
        "p": sentences.p_text(contrast.p),
        "p_holm": sentences.p_text(contrast.p_holm) if contrast.p is not None else DASH,
        "d_z": sentences.signed(None if estimate is None else estimate.d_z),
        "verdict": contrast.label,
        "kind": contrast.verdict.split()[0],
        "tags": tags,
    }


def _both(raw: float | None, adjusted: float | None) -> str:
    return DASH if raw is None else f"{sentences.p_text(raw)} / {sentences.p_text(adjusted)}"


def _companion_row(contrast: Contrast) -> dict[str, str]:
    e, beside, p_text = contrast.estimate, contrast.sensitivity, sentences.p_text
    digits = contrast.metric.digits
    flip, ranks, spread = beside.sign_flip, beside.wilcoxon, beside.stability

    def seeds(told: Needs | None, alone: str, first: str) -> str:
        if told is None:
            return DASH
        return span(getattr(told, alone), getattr(told, first)).replace(" to ", DASH)

    return {
        "variant": contrast.variant,
        "test": contrast.test,
        "n": str(e.n if e is not None else 0),
        "sd": sentences.number(e.sd if e is not None else None, digits),
        "d_z": sentences.signed(e.d_z if e is not None else None),
        "g_z": sentences.signed(e.g_z if e is not None else None),
        "d_av": sentences.signed(e.d_av if e is not None else None),
        "delta": sentences.signed(e.cliffs_delta if e is not None else None),
        "wins": sentences.number(e.win_rate if e is not None else None),
        "correlation": sentences.number(e.correlation if e is not None else None),
        "welch": p_text(e.p_welch if e is not None else None),
        "sign_flip": _both(None if flip is None else flip.p, beside.sign_flip_holm),
        "wilcoxon": _both(None if ranks is None else ranks.p, beside.wilcoxon_holm),
        "max_t": p_text(beside.max_t),
        "disagrees": f"disagrees: {', '.join(beside.disagree)}" if beside.disagree else "",
        "tost": _both(contrast.p_tost, contrast.p_tost_holm),
        "failures": p_text(contrast.p_failures),
        "spread": sentences.number(None if spread is None else spread.ratio),
        "p_spread": p_text(None if spread is None else spread.p),
        "detectable": sentences.detectable(contrast).replace(" to ", DASH),
        "seeds_difference": seeds(contrast.needs, "seeds_difference", "seeds_difference_first"),
        "seeds_equivalence": seeds(contrast.needs, "seeds_equivalence", "seeds_equivalence_first"),
    }


def _strip_row(contrast: Contrast) -> dict[str, str]:
    """One contrast with each seed left out."""
    digits = contrast.metric.digits
    sizes = [x.difference for x in contrast.left_out if x.difference is not None]
    p, tost = [x.p_holm for x in contrast.left_out], [x.p_tost_holm for x in contrast.left_out]
    flips = [f"{x.seed} ({x.verdict})" for x in contrast.left_out if x.flips]
    return {
        "variant": contrast.variant,
        "verdict": contrast.verdict,
        "difference": f"{sentences.signed(min(sizes), digits)} to {sentences.signed(max(sizes), digits)}"
        if sizes
        else DASH,
        "p_holm": f"{sentences.p_text(min(p))} to {sentences.p_text(max(p))}" if contrast.p is not None else DASH,
        "tost": f"{sentences.p_text(min(tost))} to {sentences.p_text(max(tost))}"
        if contrast.p_tost is not None
        else DASH,
        "flips": ", ".join(flips) or "none",
    }


def _texts_row(contrast: Contrast) -> dict[str, str]:
    """One contrast over seeds and test examples at once."""
    two = contrast.two_source
    assert two is not None

    def part(share: float | None) -> str:
        return DASH if share is None else f"{100 * share:.0f} %"

    mid = [d.p_mid for d in contrast.mcnemar]
    told = two.estimable and two.low is not None and two.high is not None
    return {
        "variant": contrast.variant,
        "seeds": sentences.interval(contrast.estimate),
        "both": f"[{sentences.signed(100 * (two.low or 0.0))}, {sentences.signed(100 * (two.high or 0.0))}]"
        if told
        else DASH,
        "p": sentences.p_text(two.p),
        "df": sentences.number(two.df, 1),
        "share_seed": part(two.share_seed),
        "share_example": part(two.share_example),
        "share_residual": part(two.share_residual),
        "advice": two.advice if told else f"not estimable here: {two.reason}",
        "mcnemar": f"{sum(p <= contrast.alpha for p in mid)} of {len(mid)}",
    }


def _secondary_row(told: Secondary) -> dict[str, str]:
    e, metric = told.estimate, told.metric
    return {
        "variant": told.variant,
        "metric": sentences.header(metric),
        "better": metric.better,
        "n": str(0 if e is None else e.n),
        "difference": sentences.signed(None if e is None else e.difference, metric.digits),
        "interval": sentences.interval(e, metric.digits),
        "d_z": sentences.signed(None if e is None else e.d_z),
        "test": told.test,
        "p": sentences.p_text(told.p),
        "p_bh": sentences.p_text(told.p_bh) if told.p is not None else DASH,
    }


def _crossing_block(crossing: Crossing, metric: Metric) -> dict[str, Any]:
    f = crossing.factorial
    size = len(f.factors)
    return {
        "title": " × ".join(f.factors),
        "axes": ", ".join(f"{factor}: baseline against {axis}" for factor, axis in zip(f.factors, f.axes, strict=True)),
        "cells": 2**size,
        "family": len(crossing.effects),
        "effects": [_effect_row(e, metric) for e in crossing.effects],
    }


def _effect_row(effect: JudgedEffect, metric: Metric) -> dict[str, Any]:
    e, judged = effect.estimate, effect.judgement
    return {
        "name": effect.name.replace(" x ", " × "),
        "n": effect.n if effect.n == effect.n_planned else f"{effect.n} of {effect.n_planned}",
        "difference": sentences.signed(None if e is None else e.difference, metric.digits),
        "interval": sentences.interval(e, metric.digits),
        "d_z": sentences.signed(None if e is None else e.d_z),
        "p": sentences.p_text(judged.tested.p),
        "p_holm": sentences.p_text(judged.p_holm) if judged.tested.p is not None else DASH,
        "tost": _both(judged.tested.p_tost, judged.p_tost_holm),
        "sign_flip": sentences.p_text(None if effect.sign_flip is None else effect.sign_flip.p),
        "finding": effect.finding,
        "kind": judged.verdict.split()[0],
        "reason": judged.reason if judged.verdict == "inconclusive" and judged.tested.p is None else "",
    }


def _placebo_block(placebos: Placebos | None) -> dict[str, Any] | None:
    if placebos is None:
        return None
    rate = placebos.rate
    return {
        "rows": [_verdict_row(c, {}, {}) for c in placebos.contrasts],
        "found": placebos.found,
        "judged": placebos.judged,
        "rate": ""
        if rate is None
        else f"{100 * rate.rate:.0f} % [95 % Wilson interval {100 * rate.low:.0f} to {100 * rate.high:.0f} %]",
    }


def _sequential_block(told: Sequential | None, variants: Sequence[str]) -> dict[str, Any] | None:
    if told is None:
        return None
    return {
        "process": told.process,
        "n": told.n,
        "stopped": told.decided_at,
        "rows": [
            {
                "variant": variant,
                "e": "over 10,000" if d.e > 10_000 else sentences.number(d.e),
                "e_max": "over 10,000" if d.e_max > 10_000 else sentences.number(d.e_max),
                "p": sentences.p_text(d.p),
                "p_holm": sentences.p_text(d.p_holm),
                "rejected_at": DASH if d.rejected_at is None else str(d.rejected_at),
            }
            for variant, d in zip(variants, told.decisions.values(), strict=True)
        ],
    }


def _cost_row(row: Mapping[str, Any]) -> dict[str, str]:
    def told(name: str, form: str, scale: float = 1.0) -> str:
        return DASH if row[name] is None else format(row[name] / scale, form)

    return {
        "variant": str(row["variant"]),
        "runs": str(row["runs"]),
        "parameters": told("parameters", ",.0f"),
        "train_seconds": told("train_seconds", ",.1f"),
        "ratio": told("ratio", ".2f"),
        "peak": told("peak_bytes", ",.0f", 2.0**20),
        "speed": told("tokens_per_second", ",.0f"),
    }


def _troubles(runs: pd.DataFrame) -> list[dict[str, str]]:
    """Every run that failed or has no result; those that were never tried in one line per variant."""
    found = []
    untried = runs["status"] == "missing"
    for run in runs[(runs["failed"] | (runs["status"] != "finished")) & ~untried].to_dict("records"):
        found.append(
            {
                "variant": str(run["variant"]),
                "seed": str(run["seed"]),
                "status": "dead" if run["dead"] else str(run["status"]),
                "reason": str(run["reason"]),
                "folder": str(run["folder"]),
            }
        )
    for variant, own in runs[untried].groupby("variant", sort=False):
        seeds = ", ".join(str(s) for s in own["seed"])
        found.append(
            {"variant": str(variant), "seed": seeds, "status": "missing", "reason": "not run yet", "folder": ""}
        )
    return found
