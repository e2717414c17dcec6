"""From a study's results to the curves that its instability is measured on, and to the instability itself."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from knockout.analysis.inference.instability import Instability, instability_of
from knockout.analysis.inference.learning_rates import RateGroup
from knockout.analysis.inference.pairs import Seed
from knockout.analysis.results import Results
from knockout.analysis.stats.curve import Array, RunCurve
from knockout.job import RECORDED

RATE = "learning_rate"
CLIP = "clip_norm"


def study_instability(results: Results, *, seeds: Sequence[Seed] | None = None) -> Instability | None:
    """The instability of a study's runs; `None` where no run of the baseline has a curve. `seeds`: by default all that
    are planned."""
    curves = run_curves(results)
    if not any(c.variant == results.baseline for c in curves):
        return None
    labels = np.array(results.design.data.label_counts.get("train", ()), dtype=float)
    shares = labels[labels > 0] / labels.sum() if labels.sum() > 0 else None
    described = results.design.described
    return instability_of(
        curves,
        baseline=results.baseline,
        plan=results.plan,
        variants=results.variants,
        seeds=results.seeds if seeds is None else seeds,
        entropy=None if shares is None else float(-(shares * np.log(shares)).sum()),
        majority=None if shares is None else float(shares.max()),
        other_batches=[v for v in results.variants if v in described and described[v].own_batches],
        rate_groups=rate_groups(results),
    )


def run_curves(results: Results) -> list[RunCurve]:
    """The curves of the baseline and of every variant, of the runs that came to a result and kept one."""
    runs = results.runs[results.runs["status"].isin(RECORDED)]
    arms = {results.baseline, *results.variants}
    planned = _planned_steps(runs)
    columns = (runs[name].tolist() for name in ("run_id", "variant", "seed", "status", "dead"))
    curves = []
    for run_id, variant, seed, status, dead in zip(*columns, strict=True):
        table = results.curves.get(run_id)
        if variant not in arms or table is None or table.empty:
            continue
        step = table["step"].to_numpy(dtype=float)
        every = max(1, round(float(step[1] - step[0]))) if len(step) > 1 else 1
        probe = results.probes.get(run_id)
        curves.append(
            RunCurve(
                variant=variant,
                seed=seed,
                status=status,
                dead=bool(dead),
                step=step,
                loss=table["loss"].to_numpy(dtype=float),
                grad_norm=_column(table, "grad_norm"),
                learning_rate=_column(table, "learning_rate"),
                steps=planned.get(variant, len(step) * every),
                every=every,
                probe_step=None if probe is None else probe["step"].to_numpy(dtype=float),
                probe_loss=None if probe is None else probe["loss"].to_numpy(dtype=float),
                probe_accuracy=None if probe is None else (probe["correct"] / probe["count"]).to_numpy(dtype=float),
                layers=results.layers.get(run_id),
                clip_norm=_clip_norm(results, variant),
            )
        )
    return curves


def _column(table: pd.DataFrame, name: str) -> Array | None:
    """A column as numbers; `None` where it is not there or holds none."""
    if name not in table or table[name].isna().all():
        return None
    return np.asarray(table[name].to_numpy(dtype=float))


def _planned_steps(runs: pd.DataFrame) -> dict[str, int]:
    """Variant -> the steps of its runs that finished; of one of which none did, the most of any variant."""
    steps = pd.to_numeric(runs.loc[runs["status"] == "finished", "steps"]).groupby(runs["variant"]).max().dropna()
    known = {str(variant): int(n) for variant, n in steps.items() if n > 0}
    most = max(known.values(), default=0)
    return known if not most else {**{str(v): most for v in runs["variant"].unique()}, **known}


def _clip_norm(results: Results, variant: str) -> float | None:
    """The norm at which the variant clips gradients; `None` for 0, and where the trainer has no such setting."""
    value = _setting(results, variant, CLIP)
    return float(value) if isinstance(value, int | float) and value > 0 else None


def _setting(results: Results, variant: str, name: str) -> object:
    """The value of a factor or of a field of the recipe; `None` where there is none."""
    described = results.design.described.get(variant)
    own = described.factors if described is not None else {}
    return own.get(name, results.design.recipe.get(name))


def rate_groups(results: Results) -> tuple[RateGroup, ...]:
    """The arms that differ from each other in the learning rate alone, the baseline's group first."""
    apart: dict[str, list[str]] = {}
    changes: Mapping[str, Mapping[str, object]] = {results.baseline: {}, **results.changes}
    for arm, levels in changes.items():
        if isinstance(_setting(results, arm, RATE), float):
            same = sorted((name, repr(level)) for name, level in levels.items() if name != RATE)
            apart.setdefault(repr(same), []).append(arm)
    return tuple(_group(results, arms) for arms in apart.values() if len(arms) > 1)


def _group(results: Results, arms: Sequence[str]) -> RateGroup:
    rates = {arm: float(str(_setting(results, arm, RATE))) for arm in arms}
    own = results.design.recipe.get(RATE)
    runs = results.runs[results.runs["variant"].isin(arms) & (results.runs["status"] == "finished")]
    keys: list[tuple[str, Seed]] = list(zip(runs["variant"].tolist(), runs["seed"].tolist(), strict=True))
    losses, accuracies = (
        {key: float(x) for key, x in zip(keys, runs[f"validation_{name}"].tolist(), strict=True) if not pd.isna(x)}
        for name in ("loss", "accuracy")
    )
    return RateGroup(
        name=next((arm for arm, rate in rates.items() if rate == own), arms[0]),
        rates=dict(sorted(rates.items(), key=lambda item: item[1])),
        losses=losses,
        accuracies=accuracies,
    )
