"""Tidy frames for the tests of `compare`, and what must hold of every comparison whatever went in."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import pandas as pd

from knockout.analysis import Comparison
from knockout.analysis.inference.verdict import Tested
from knockout.analysis.report.audit_trail import account

Cell = float | int | str | None
"""A value, or a status"""

BASE = [0.80, 0.81, 0.79, 0.80, 0.82, 0.78, 0.81, 0.80]
MOVED = [0.83, 0.84, 0.80, 0.84, 0.83, 0.80, 0.85, 0.82]


def tidy(arms: Mapping[str, Sequence[Cell]], *, metric: str = "accuracy", **more: Any) -> pd.DataFrame:
    """One row per run, seeds 0, 1, 2, ...; a column of statuses only where a cell is one."""
    rows = [
        {"variant": v, "seed": s, metric: None if isinstance(c, str) else c, "status": c}
        for v, cells in arms.items()
        for s, c in enumerate(cells)
    ]
    frame = pd.DataFrame(rows).astype({metric: float})
    told = [isinstance(c, str) for c in frame["status"]]
    frame["status"] = [c if t else "finished" for c, t in zip(frame["status"], told, strict=True)]
    return (frame if any(told) else frame.drop(columns="status")).assign(**more)


def strict_json(text: str) -> Any:
    """JSON as the standard has it: NaN and Infinity are refused."""
    return json.loads(text, parse_constant=_refused)


def _refused(name: str) -> NoReturn:
    raise AssertionError(f"{name} is no JSON")


def sound(comparison: Comparison) -> Comparison:
    """Asserts what no input may break: nothing is decided without a p and a spread, and nothing that is told is NaN."""
    strict_json(account(comparison))
    alpha = comparison.plan.alpha
    for contrast, sentence in zip(comparison.contrasts, comparison.sentences(), strict=True):
        tested, estimate = contrast.judgement.tested, contrast.estimate
        assert isinstance(tested, Tested)
        for p in (contrast.p, contrast.p_holm, contrast.p_tost, contrast.p_tost_holm, contrast.p_failures):
            assert p is None or 0 < p <= 1
        decided = contrast.verdict in ("better", "worse", "trivial")
        if decided:
            assert contrast.p is not None
            assert contrast.p <= contrast.p_holm <= alpha
            if contrast.test == "t":  # the others are exact, and need no spread
                assert estimate is not None
                assert estimate.low is not None
                assert estimate.high is not None
                assert estimate.low < estimate.high
        own = sentence.replace(contrast.variant, "it", 1).split("Rests on ")[0]
        assert bool(re.search(r"\b(better|worse)\b", own)) == (contrast.verdict in ("better", "worse"))
        assert ("is negligible" in own) == (contrast.verdict == "trivial")
        assert not re.search(r"\b(nan|inf|infinity)\b", own.lower()), own
    for note in comparison.notes:
        assert not re.search(r"\b(nan|inf|infinity)\b", re.sub(r'"[^"]*"', "", note).lower()), note
    table = comparison.table(all=True)
    assert table["variant"].tolist() == [c.variant for c in comparison.contrasts]
    for column in map(str, table.columns):
        for value in table[column].tolist():
            if isinstance(value, float):
                assert not math.isinf(value), column
                if column.startswith("p_") or column == "p":
                    assert math.isnan(value) or 0 < value <= 1, column
    assert "nan" not in table["verdict"].str.cat(table["reason"]).str.cat().lower()
    return comparison
