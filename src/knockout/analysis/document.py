"""The document: everything that a report's templates print, as text and rows of text."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from knockout.analysis import provenance, tables, wording
from knockout.analysis.claims import Judged
from knockout.analysis.contrasts import Contrast
from knockout.analysis.load import Results
from knockout.analysis.power import in_points, span


def context(
    results: Results,
    found: Sequence[Contrast],
    claims: Sequence[Judged],
    *,
    figures: Sequence[Any],
    late: Mapping[str, str],
) -> dict[str, Any]:
    """Everything that the templates print. `late`: variant -> why its contrast is exploratory."""
    design, first = results.design, found[0]
    tuned = "at the baseline's learning rate" if "learning_rate" in design["recipe"] else "nothing tuned per variant"
    later = provenance.later_claims(results)
    rows = [_verdict_row(c, design["described"], late) for c in found]
    base = first.baseline
    return {
        "title": f"Ablation study “{design['study']}”, {tuned}",
        "question": design["question"],
        "answer": wording.answer(results, found),
        "exploratory": sorted(set(late.values())),
        "design": provenance.design_rows(results),
        "baseline": {
            "n": wording.plural(base.runs, "run"),
            "failures": f"{base.failures} of {base.runs}",
            "accuracy": wording.accuracy(base),
        },
        "verdicts": rows,
        "companions": [_companion_row(c) for c in found],
        "pairing_pays_above": wording.number(first.pairing_pays_above),
        "floor": wording.p_text(first.floor),
        "seeds_for_floor": first.seeds_for_floor,
        "sentences": [wording.sentence(c) for c in found],
        "claims": [{"claim": c, "exploratory": c.id in later} for c in claims],
        "costs": [_cost_row(r) for r in tables.cost_rows(results)],
        "workers": provenance.workers(results),
        "troubles": _troubles(results),
        "figures": figures,
        "margin": in_points(results.plan.margin),
        "meanings": wording.meanings(results.plan),
        "caveats": wording.caveats(results),
        "n": len(results.seeds),
        "k": first.family,
        "power": f"{results.plan.power:.0%}".replace("%", " %"),
        "provenance": provenance.provenance_rows(results, version=version("knockout")),
    }


def _verdict_row(contrast: Contrast, described: Mapping[str, Any], late: Mapping[str, str]) -> dict[str, Any]:
    arm, estimate = contrast.arm, contrast.estimate
    low, high = arm.rate_low, arm.rate_high
    rate = f" [{100 * low:.0f}–{100 * high:.0f} %]" if arm.failures and low is not None and high is not None else ""
    tags = ["exploratory"] if contrast.variant in late else []
    tags += ["identical predictions"] if contrast.identical else []
    tags += ["normal theory only"] if contrast.normal_theory_only else []
    return {
        "variant": contrast.variant,
        "change": wording.change(described, contrast.variant),
        "papers": "; ".join(described.get(contrast.variant, {}).get("papers", [])),
        "n": f"{contrast.n_pairs} of {contrast.n_planned}"
        if contrast.n_pairs < contrast.n_planned
        else contrast.n_pairs,
        "failures": f"{arm.failures} of {arm.runs}{rate}",
        "accuracy": wording.accuracy(arm),
        "difference": wording.signed(None if estimate is None else estimate.difference),
        "interval": wording.interval(estimate),
        "given": f"neither failed: {estimate.n} pairs" if contrast.failures and estimate is not None else "",
        "p": wording.p_text(contrast.p),
        "p_holm": wording.p_text(contrast.p_holm) if contrast.p is not None else wording.DASH,
        "d_z": wording.signed(None if estimate is None else estimate.d_z),
        "verdict": contrast.label,
        "kind": contrast.verdict.split()[0],
        "tags": tags,
    }


def _companion_row(contrast: Contrast) -> dict[str, str]:
    e, p_text = contrast.estimate, wording.p_text

    def both(raw: float | None, holm: float) -> str:
        return wording.DASH if raw is None else f"{p_text(raw)} / {p_text(holm)}"

    def seeds(alone: int | None, first: int | None) -> str:
        return wording.DASH if contrast.detectable is None else span(alone, first).replace(" to ", wording.DASH)

    return {
        "variant": contrast.variant,
        "test": contrast.test,
        "n": str(e.n if e is not None else 0),
        "sd": wording.number(e.sd if e is not None else None),
        "g_z": wording.signed(e.g_z if e is not None else None),
        "d_av": wording.signed(e.d_av if e is not None else None),
        "wins": wording.number(e.win_rate if e is not None else None),
        "correlation": wording.number(e.correlation if e is not None else None),
        "welch": p_text(e.p_welch if e is not None else None),
        "sign_flip": both(contrast.p_sign_flip, contrast.p_sign_flip_holm),
        "disagrees": "disagrees" if contrast.sign_flip_disagrees else "",
        "tost": both(contrast.p_tost, contrast.p_tost_holm),
        "detectable": wording.detectable(contrast).replace(" to ", wording.DASH),
        "seeds_difference": seeds(contrast.seeds_difference, contrast.seeds_difference_first),
        "seeds_equivalence": seeds(contrast.seeds_equivalence, contrast.seeds_equivalence_first),
    }


def _cost_row(row: Mapping[str, Any]) -> dict[str, str]:
    def told(name: str, form: str, scale: float = 1.0) -> str:
        return wording.DASH if row[name] is None else format(row[name] / scale, form)

    return {
        "variant": str(row["variant"]),
        "runs": str(row["runs"]),
        "parameters": told("parameters", ",.0f"),
        "train_seconds": told("train_seconds", ",.1f"),
        "ratio": told("ratio", ".2f"),
        "peak": told("peak_bytes", ",.0f", 2.0**20),
        "speed": told("tokens_per_second", ",.0f"),
    }


def _troubles(results: Results) -> list[dict[str, str]]:
    """Every run that failed or has no result; those that were never tried in one line per variant."""
    found = []
    runs = results.runs
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
