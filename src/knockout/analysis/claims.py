"""Claims: what a study stated before it ran, read off the verdicts (rule D0)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from knockout.analysis.contrasts import Contrast
from knockout.analysis.power import in_points

Ruling = Literal["supported", "refuted", "inconclusive"]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One claim, and what became of it."""

    id: str
    variant: str
    says: Literal["better", "worse", "equal"]
    metric: str
    text: str
    ruling: Ruling
    reason: str


def judge(claims: Sequence[Mapping[str, Any]], contrasts: Sequence[Contrast]) -> list[Judged]:
    """Every claim with its ruling, in the order of the study. Raises `KeyError` for a variant without a contrast."""
    by_variant = {c.variant: c for c in contrasts}
    found = []
    for claim in claims:
        ruling, reason = _rule(claim["says"], by_variant[claim["variant"]])
        found.append(
            Judged(
                id=claim["id"],
                variant=claim["variant"],
                says=claim["says"],
                metric=claim["metric"],
                text=claim["text"],
                ruling=ruling,
                reason=reason,
            )
        )
    return found


def _rule(says: str, contrast: Contrast) -> tuple[Ruling, str]:
    """Rule D0. A direction counts only with |difference| >= margin; a verdict without an estimate has no size."""
    verdict = contrast.verdict
    size = None if contrast.estimate is None else abs(contrast.estimate.difference)
    large = size is not None and size >= contrast.margin
    reach = "at least" if large else "under"
    sized = f"{verdict}, by {reach} the margin of {in_points(contrast.margin)}" if size is not None else f"{verdict}"
    if says == "equal":
        if verdict in ("equivalent", "trivial"):
            return "supported", f"the verdict is {verdict}"
        if verdict in ("better", "worse"):
            return ("refuted" if large else "inconclusive"), f"the verdict is {sized}"
        return "inconclusive", f"the verdict is {contrast.label}"
    if verdict == says:
        return ("supported" if large else "inconclusive"), f"the verdict is {sized}"
    if verdict in ("better", "worse", "trivial", "equivalent"):
        return "refuted", f"the verdict is {verdict}"
    return "inconclusive", f"the verdict is {contrast.label}"
