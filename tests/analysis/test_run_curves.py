"""From a study's folder to its curves and their instability."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from knockout.analysis.report.write import write_report
from knockout.analysis.results import load
from knockout.analysis.run_curves import rate_groups, run_curves, study_instability
from knockout.design import write_design
from knockout.job import Layers, Probe
from tests.analysis.conftest import STEPS, BuildStudy, data_summary, outcome, write_run, write_study

ARMS = {"baseline": [300, 301, 299], "heads_1": [290, "dead", "diverged"]}


def test_each_run_with_a_result_is_a_curve(build_study: BuildStudy) -> None:
    results = load(build_study({**ARMS, "no_warmup": [300, "crashed", "missing"]}))
    curves = {(c.variant, c.seed): c for c in run_curves(results)}
    seeds = results.seeds
    assert set(curves) == {(v, s) for v in ("baseline", "heads_1") for s in seeds} | {("no_warmup", seeds[0])}
    diverged = curves["heads_1", seeds[2]]
    assert (diverged.status, diverged.failed, diverged.steps) == ("diverged", True, STEPS)
    assert not np.isfinite(diverged.loss[-1])
    assert curves["heads_1", seeds[1]].dead
    assert curves["baseline", seeds[0]].clip_norm == 1.0  # the recipe's default
    assert curves["baseline", seeds[0]].every == 1


def test_the_entropy_is_that_of_the_training_labels(build_study: BuildStudy) -> None:
    found = study_instability(load(build_study(ARMS)))
    assert found is not None
    assert found.entropy == pytest.approx(math.log(2))
    assert found.labels_known
    assert found.seeds == tuple(load(build_study(ARMS)).seeds)


def test_variants_of_one_learning_rate_each_are_a_group(tmp_path: Path) -> None:
    names = ["low", "high", "post", "post_high", "other"]
    claims = (
        "[variant.low]\nlearning_rate = 1e-4\n[variant.high]\nlearning_rate = 1e-2\n"
        '[variant.post]\nnorm = "post"\n[variant.post_high]\nnorm = "post"\nlearning_rate = 1e-2\n'
        "[variant.other]\nnum_heads = 1\n"
    )
    study = write_study(tmp_path, names, 3, name="rates", claims=claims, extra="")
    root = tmp_path / "rates"
    for planned in write_design(root, study, data_id="ab" * 32, data_summary=data_summary()):
        write_run(root, study, planned, 300)
    results = load(root)
    groups = {g.name: g for g in rate_groups(results)}
    assert set(groups) == {"baseline", "post"}
    assert groups["baseline"].rates == {"low": 1e-4, "baseline": 1e-3, "high": 1e-2}
    assert groups["post"].rates == {"post": 1e-3, "post_high": 1e-2}
    assert set(groups["post"].losses.values()) == {0.5}
    found = study_instability(results)
    assert found is not None
    assert found.rates is not None
    assert [g.name for g in found.rates.groups] == ["baseline", "post"]


def whole_study(tmp_path: Path, *, claims: str = "", seeds: int = 12) -> Path:
    """A study whose variant no_scale is rougher on its probe, and has larger attention logits, than the baseline."""
    study = write_study(tmp_path, ["no_scale", "heads_1"], seeds, name="whole", claims=claims, extra="")
    root = tmp_path / "whole"
    for i, planned in enumerate(write_design(root, study, data_id="ab" * 32, data_summary=data_summary())):
        rough = 0.1 if planned.variant == "no_scale" else 0.01
        step = list(range(0, STEPS + 1, 2))
        rng = np.random.default_rng(i)
        probe = Probe(
            step=step,
            loss=[0.7 - 0.01 * s + float(rng.uniform(0, rough)) for s in step],
            correct=[128 + 3 * s for s in step],
            count=256,
        )
        logits = (20.0 if planned.variant == "no_scale" else 3.0) + float(rng.uniform(0, 1))
        layers = Layers(
            step=[1, 1, STEPS, STEPS],
            quantity=["attention_logit"] * 4,
            layer=[0, 1, 0, 1],
            value=[logits, logits / 2, logits, logits],
        )
        answer = dataclasses.replace(outcome(planned, 300 + i % 7), probe=probe, layers=layers)
        write_run(root, study, planned, 300, answer=answer)
    return root


@pytest.mark.long
def test_the_report_of_a_study_shows_what_its_probes_and_layers_say(tmp_path: Path) -> None:
    root = whole_study(tmp_path)
    report = write_report(root)
    text = (root / "details.md").read_text(encoding="utf-8")
    line = next(row for row in text.splitlines() if row.startswith("- no_scale: "))
    assert "largest attention logit higher (×5.7)" in line  # 20.5 over 3.5
    table = pd.read_csv(report.paths["instability_contrasts.csv"]).set_index(["variant", "metric"])
    assert table.at[("no_scale", "total_variation"), "label"] == "higher"
    assert table.at[("heads_1", "total_variation"), "label"] == "not shown"
    runs = pd.read_csv(report.paths["instability.csv"])
    assert len(runs) == 36
    assert runs.loc[runs["variant"] == "no_scale", "attention_logit"].between(20, 21).all()
    assert not any(row.startswith("- heads_1: ") for row in text.splitlines())
    assert {"instability.csv", "instability_contrasts.csv"} <= set(report.paths)
    before = {name: path.read_bytes() for name, path in report.paths.items()}
    again = write_report(root)
    assert {name: path.read_bytes() for name, path in again.paths.items()} == before
    account = json.loads((root / "analysis.json").read_text(encoding="utf-8"))
    assert any(n["of"] == ["instability", "total_variation no_scale"] for n in account["numbers"])


@pytest.mark.long
def test_claims_on_measures_of_instability_are_ruled(tmp_path: Path) -> None:
    claims = "".join(
        f'[[claims]]\nid = "{says}_{metric}"\nvariant = "no_scale"\nsays = "{says}"\nmetric = "{metric}"\n'
        for metric in ("total_variation", "attention_logit", "rank_residual_end")
        for says in ("worse", "better", "equal")
    )
    report = write_report(whole_study(tmp_path, claims=claims))
    ruled = {c.id: c for c in report.claims}
    for metric in ("total_variation", "attention_logit"):
        rulings = [ruled[f"{says}_{metric}"].ruling for says in ("worse", "better", "equal")]
        assert rulings == ["supported", "refuted", "refuted"]
    assert ruled["worse_rank_residual_end"].ruling == "inconclusive"
    assert "not logged" in ruled["worse_rank_residual_end"].reason
    assert "ratio" in ruled["worse_attention_logit"].reason
