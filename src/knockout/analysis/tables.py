"""Tables: the CSV files of a report, and the frames that its figures are drawn from."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from knockout.analysis.contrasts import Contrast
from knockout.analysis.load import Results

SUMMARY = (
    "variant", "seed", "run_id", "status", "failed", "dead",
    "test_correct", "test_count", "test_accuracy", "test_loss",
    "validation_correct", "validation_count", "validation_accuracy", "validation_loss",
    "final_loss", "steps", "parameters",
)  # fmt: skip
"""The columns of summary.csv: only what every rerun of a study repeats."""


def csv_text(frame: pd.DataFrame) -> str:
    """CSV that loses nothing and runs nothing.

    Numbers in full precision, nothing for what is missing, text as it is but with a ' before = + - @ tab or CR at its
    start, which a spreadsheet would take for a formula.
    """
    columns = [frame[name].tolist() for name in frame.columns]
    rows = [[str(name) for name in frame.columns], *zip(*columns, strict=True)]
    return "".join(",".join(map(_cell, row)) + "\n" for row in rows)


def summary_table(results: Results) -> pd.DataFrame:
    return results.runs[list(SUMMARY)]


def contrast_table(contrasts: Sequence[Contrast], exploratory: Mapping[str, str]) -> pd.DataFrame:
    """Every number of every contrast, one row per variant. The arms' columns start with variant_ and baseline_."""
    rows = []
    for contrast in contrasts:
        whole = {
            k: v for k, v in vars(contrast).items() if k not in ("pairs", "arm", "baseline", "estimate", "verdict")
        }
        row: dict[str, Any] = {"variant": whole.pop("variant"), "verdict": contrast.label}
        row |= {f"variant_{k}": v for k, v in asdict(contrast.arm).items()}
        row |= {f"baseline_{k}": v for k, v in asdict(contrast.baseline).items()}
        names = ESTIMATE if contrast.estimate is None else asdict(contrast.estimate)
        row |= {("n_estimate" if k == "n" else k): v for k, v in dict(names).items()}
        rows.append({**row, **whole, "exploratory": exploratory.get(contrast.variant, "")})
    return pd.DataFrame(rows)


ESTIMATE = dict.fromkeys(
    ("n", "difference", "low", "high", "sd", "d_z", "g_z", "d_av", "win_rate", "correlation", "t", "p_welch")
)


def forest_table(contrasts: Sequence[Contrast]) -> pd.DataFrame:
    """What the forest plot shows of each contrast. Points."""
    rows = []
    for c in contrasts:
        e = c.estimate
        bounds = (None, None, None) if e is None else (e.difference, e.low, e.high)
        row = {"variant": c.variant, "difference": bounds[0], "low": bounds[1], "high": bounds[2]}
        rows.append({**row, "n": 0 if e is None else e.n, "failures": c.failures, "verdict": c.label})
    frame = pd.DataFrame(rows)
    return frame.astype({"difference": float, "low": float, "high": float})


def forest_seed_table(contrasts: Sequence[Contrast]) -> pd.DataFrame:
    """What the forest plot shows of each seed. Points."""
    rows = [
        {"variant": c.variant, "seed": p.seed, "state": p.state, "difference": p.difference}
        for c in contrasts
        for p in c.pairs
    ]
    return pd.DataFrame(rows).astype({"difference": float})


def cost_rows(results: Results) -> list[dict[str, Any]]:
    """Per variant, the baseline first: medians over the runs that finished. Seconds, bytes, tokens per second.

    `ratio` is the median over seeds of training seconds divided by the baseline's with the same seed.
    """
    costs = results.costs.reindex(columns=[*results.costs.columns, *(c for c in COSTS if c not in results.costs)])
    finished = costs[costs["status"] == "finished"]
    seconds = finished.assign(**{c: pd.to_numeric(finished[c]) for c in COSTS})
    base = seconds[seconds["variant"] == results.baseline].set_index("seed")["train_seconds"]
    rows = []
    for variant in (results.baseline, *results.variants):
        own = seconds[seconds["variant"] == variant].set_index("seed")
        train = own["train_seconds"]
        row = {
            "parameters": own["parameters"].median(),
            "train_seconds": train.median(),
            "ratio": (train / base.reindex(train.index)).median(),
            "peak_bytes": own["peak_bytes"].median(),
            "tokens_per_second": (own["tokens"] / train.where(train > 0)).median(),
        }
        known = {k: None if pd.isna(v) else float(v) for k, v in row.items()}
        rows.append({"variant": variant, "runs": len(own), **known})
    return rows


COSTS = ("parameters", "train_seconds", "peak_bytes", "tokens")


def _cell(value: object) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(value)
    text = f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
    # The csv module leaves a lone CR unquoted, and readers take it for the end of a row.
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\n\r') else text
