"""Tables: the CSV files of a report, and the frames that its figures are drawn from."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from knockout.analysis.inference.by_length import LengthRow, accuracy_by_length
from knockout.analysis.inference.contrasts import LEVELS, Contrast
from knockout.analysis.inference.interactions import Crossing, EffectEstimate
from knockout.analysis.inference.pairs import Estimate, Seed
from knockout.analysis.inference.secondary import Secondary
from knockout.analysis.measured import MEASURED
from knockout.analysis.results import Results
from knockout.analysis.stats.crossed_anova import TwoSource
from knockout.analysis.stats.power import Needs
from knockout.analysis.stats.trace import made_with, traced
from knockout.data.lengths import unpack_lengths

SUMMARY = ("variant", "seed", "run_id", "status", "failed", "dead", *(column.name for column in MEASURED))
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
    return pd.DataFrame([contrast_row(c, exploratory.get(c.variant, "")) for c in contrasts])


def contrast_row(c: Contrast, exploratory: str = "") -> dict[str, Any]:
    """One contrast as it stands in contrasts.csv. results/README.md says what each column is."""
    beside, two = c.sensitivity, c.two_source
    row: dict[str, Any] = {"variant": c.variant, "metric": c.metric.name, "unit": c.metric.unit, "verdict": c.label}
    row |= {f"variant_{k}": v for k, v in asdict(c.arm).items()}
    row |= {f"baseline_{k}": v for k, v in asdict(c.baseline).items()}
    row |= {("n_estimate" if k == "n" else k): v for k, v in _fields(Estimate, c.estimate).items()}
    row |= asdict(c.counts)
    row |= {"family": c.family, "alpha": c.alpha, "margin": c.margin, "power": c.power, "p_failures": c.p_failures}
    row |= {"test": c.test, "p": c.p, "p_holm": c.p_holm, "p_tost": c.p_tost, "p_tost_holm": c.p_tost_holm}
    row |= {
        "p_sign_flip": c.p_sign_flip,
        "p_sign_flip_holm": c.p_sign_flip_holm,
        "sign_flip_method": None if beside.sign_flip is None else beside.sign_flip.method,
        "p_wilcoxon": None if beside.wilcoxon is None else beside.wilcoxon.p,
        "p_wilcoxon_holm": beside.wilcoxon_holm,
        "rank_biserial": None if beside.wilcoxon is None else beside.wilcoxon.rank_biserial,
        "p_max_t": beside.max_t,
        "disagree": ", ".join(beside.disagree),
        "sd_ratio": None if beside.stability is None else beside.stability.ratio,
        "p_pitman_morgan": None if beside.stability is None else beside.stability.p,
    }
    row |= {"floor": c.floor, "seeds_for_floor": c.seeds_for_floor, "normal_theory_only": c.normal_theory_only}
    row |= {"identical": c.identical, "unchanged": c.unchanged}
    row |= _fields(Needs, c.needs) | {"pairing_pays_above": c.pairing_pays_above}
    row |= {f"texts_{k}": v for k, v in _fields(TwoSource, two).items()}
    row |= {
        "left_out_flips": ", ".join(str(x.seed) for x in c.left_out if x.flips),
        "direction": c.direction,
        "reason": c.reason,
    }
    return {**row, "exploratory": exploratory}


def _fields(cls: type, value: Any) -> dict[str, Any]:
    """The fields of a result, each None where there is no result."""
    return {f.name: None if value is None else getattr(value, f.name) for f in fields(cls)}


def left_out_table(contrasts: Sequence[Contrast]) -> pd.DataFrame:
    """Every contrast without each of its seeds: seeds.csv."""
    return pd.DataFrame([{"variant": c.variant, **asdict(x)} for c in contrasts for x in c.left_out])


def mcnemar_table(contrasts: Sequence[Contrast]) -> pd.DataFrame:
    """McNemar's test over test examples, seed by seed: examples.csv. Each p is given its seed, and not corrected."""
    return pd.DataFrame([{"variant": c.variant, **asdict(d)} for c in contrasts for d in c.mcnemar])


def secondary_table(rows: Sequence[Secondary]) -> pd.DataFrame:
    """Every variant on every secondary metric: secondary.csv."""
    return pd.DataFrame(
        [
            {
                "metric": s.metric.name,
                "unit": s.metric.unit,
                "better": s.metric.better,
                "variant": s.variant,
                "variant_mean": s.arm.mean,
                "variant_sd": s.arm.sd,
                "baseline_mean": s.baseline.mean,
                "baseline_sd": s.baseline.sd,
                **_fields(Estimate, s.estimate),
                "test": s.test,
                "p": s.p,
                "p_bh": s.p_bh,
            }
            for s in rows
        ]
    )


def loss_rows(results: Results) -> list[dict[str, Any]]:
    """Losses of every arm (nats), means over its runs that did not fail, the baseline first: losses.csv.

    None where no run recorded a loss on the validation split. `train`: the mean over the last 5 % of the steps;
    `validation` and `validation_lowest`: after the last epoch, and after the epoch where it is lowest; `test`. `sd_`:
    over the runs. `overfitted`: runs whose validation loss ends above its lowest.
    """
    rows = []
    for variant in (results.baseline, *results.variants):
        runs = results.runs[(results.runs["variant"] == variant) & (results.runs["status"] == "finished")]
        runs = runs[~runs["failed"]]
        own = [results.epochs[i]["loss"].to_numpy(dtype=float) for i in runs["run_id"] if i in results.epochs]
        own = [losses for losses in own if len(losses) and np.isfinite(losses).all()]
        if not own:
            continue
        last, lowest = [float(losses[-1]) for losses in own], [float(losses.min()) for losses in own]
        given: dict[str, list[float]] = {
            "train": [float(x) for x in runs["final_loss"].dropna()],
            "validation": last,
            "validation_lowest": lowest,
            "test": [float(x) for x in runs["test_loss"].dropna()],
        }
        row: dict[str, Any] = {"variant": variant, "runs": len(own)}
        for name, values in given.items():
            row[name] = float(np.mean(values)) if len(values) else None
            row[f"sd_{name}"] = float(np.std(values, ddof=1)) if len(values) > 1 else None
        row["overfitted"] = int(sum(a > b for a, b in zip(last, lowest, strict=True)))
        row["lowest_epoch"] = float(np.median([1 + int(losses.argmin()) for losses in own]))
        rows.append(row)
    return rows


def length_rows(results: Results, seeds: Sequence[Seed]) -> list[LengthRow]:
    """Every arm in classes of length of the test texts, at these seeds; none where their lengths are not known."""
    packed = results.design.data.test_lengths
    runs = results.runs[(results.runs["status"] == "finished") & ~results.runs["failed"]]
    runs = runs[runs["seed"].isin(seeds)]
    alive = {arm: runs.loc[runs["variant"] == arm, "seed"].tolist() for arm in (results.baseline, *results.variants)}
    lengths = unpack_lengths(packed) if packed else ()
    return accuracy_by_length(lengths, results.correctness, alive, baseline=results.baseline) if lengths else []


def length_table(rows: Sequence[LengthRow]) -> pd.DataFrame:
    """Accuracy by length of the test text: lengths.csv."""
    shown = ("n", "difference", "low", "high")
    return pd.DataFrame(
        [
            {
                "variant": row.variant,
                **asdict(row.of),
                "runs": row.runs,
                "accuracy": row.accuracy,
                **{name: None if row.estimate is None else getattr(row.estimate, name) for name in shown},
            }
            for row in rows
        ],
        dtype=object,  # counts stay whole beside gaps
    )


def effect_table(crossings: Sequence[Crossing]) -> pd.DataFrame:
    """Main effects and interactions of every factorial: effects.csv."""
    return pd.DataFrame(
        [
            {
                "factorial": " x ".join(crossing.factorial.factors),
                "effect": e.name,
                "order": e.order,
                "n_planned": e.n_planned,
                **_fields(EffectEstimate, e.estimate),
                "p": e.judgement.tested.p,
                "p_holm": e.judgement.p_holm,
                "p_tost": e.judgement.tested.p_tost,
                "p_tost_holm": e.judgement.p_tost_holm,
                "p_sign_flip": None if e.sign_flip is None else e.sign_flip.p,
                "finding": e.finding,
                "reason": e.judgement.reason,
            }
            for crossing in crossings
            for e in crossing.effects
        ]
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


def examples_table(contrasts: Sequence[Contrast]) -> pd.DataFrame:
    """Each contrast over seeds, and over seeds and test examples: the data of the figure. Points."""
    rows = []
    for c in contrasts:
        two, e = c.two_source, c.estimate
        if two is None or e is None:
            continue
        row = {"variant": c.variant, "difference": e.difference, "seeds_low": e.low, "seeds_high": e.high}
        row |= {f"both_{k}": None if v is None else 100 * v for k, v in (("low", two.low), ("high", two.high))}
        rows.append({**row, **{f"q{1000 * q:03.0f}": x for q, x in zip(LEVELS, c.drawn, strict=True)}})
    return pd.DataFrame(rows)


def forest_seed_table(contrasts: Sequence[Contrast]) -> pd.DataFrame:
    """What the forest plot shows of each seed. Points."""
    rows = [
        {"variant": c.variant, "seed": p.seed, "state": p.state, "difference": p.difference}
        for c in contrasts
        for p in c.pairs
    ]
    return pd.DataFrame(rows).astype({"difference": float})


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What one variant costs: medians over the runs that finished. Seconds, bytes, tokens per second."""

    runs: int
    parameters: float | None
    train_seconds: float | None
    ratio: float | None
    """median over seeds of training seconds divided by the baseline's with the same seed"""
    peak_bytes: float | None
    tokens_per_second: float | None


def cost_rows(results: Results) -> list[dict[str, Any]]:
    """What every variant costs, the baseline first: `variant`, and the fields of `Costs`."""
    costs = results.costs.reindex(columns=[*results.costs.columns, *(c for c in COSTS if c not in results.costs)])
    finished = costs[costs["status"] == "finished"]
    seconds = finished.assign(**{c: pd.to_numeric(finished[c]).astype(float) for c in COSTS})
    base = seconds[seconds["variant"] == results.baseline].set_index("seed")["train_seconds"]
    rows = []
    for variant in (results.baseline, *results.variants):
        own = seconds[seconds["variant"] == variant].set_index("seed")
        given = {c: [None if pd.isna(x) else float(x) for x in own[c]] for c in COSTS}
        theirs = [None if pd.isna(x) else float(x) for x in base.reindex(own.index)]
        cost = traced(("cost", variant), medians, **given, baseline_seconds=theirs)
        rows.append({"variant": variant, **asdict(cost)})
    return rows


@made_with("numpy.median")
def medians(
    parameters: Sequence[float | None],
    train_seconds: Sequence[float | None],
    peak_bytes: Sequence[float | None],
    tokens: Sequence[float | None],
    baseline_seconds: Sequence[float | None],
) -> Costs:
    """Medians over runs, each given by its place in every list; what is not known is left out."""

    def middle(values: Iterable[float | None]) -> float | None:
        known = [v for v in values if v is not None]
        return float(np.median(known)) if known else None

    return Costs(
        runs=len(train_seconds),
        parameters=middle(parameters),
        train_seconds=middle(train_seconds),
        ratio=middle(
            a / b if a is not None and b else None for a, b in zip(train_seconds, baseline_seconds, strict=True)
        ),
        peak_bytes=middle(peak_bytes),
        tokens_per_second=middle(
            t / s if t is not None and s else None for t, s in zip(tokens, train_seconds, strict=True)
        ),
    )


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
