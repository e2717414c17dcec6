import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from knockout.analysis.report.curves import (
    divergences,
    early_loss,
    loss_curves,
    steps_per_point,
    summary,
    validation_curves,
    validation_losses,
)
from knockout.analysis.results import load
from tests.analysis.conftest import STEPS, BuildStudy


def test_blocks_are_means_and_runs_meet(build_study: BuildStudy) -> None:
    results = load(build_study({"baseline": [300, 301, 302], "no_scale": [300, "diverged", 301]}))
    curves = loss_curves(results)
    assert steps_per_point(results) == 1
    first = curves[(curves["variant"] == "baseline") & (curves["seed"] == 0)]
    assert list(first["x"]) == list(range(1, STEPS + 1))
    assert list(first["value"]) == pytest.approx(list(results.curves[str(results.runs["run_id"][0])]["loss"]))
    broken = curves[(curves["variant"] == "no_scale") & (curves["seed"] == 1)]
    assert set(broken["status"]) == {"diverged"}
    assert (len(broken), list(broken["value"])[-1]) == (21, 9.0)  # the step that was not finite is left out
    middle = summary(curves)
    late = middle[(middle["variant"] == "no_scale") & (middle["x"] == 40)].iloc[0]
    assert late["n"] == 2
    assert np.isfinite(curves["value"]).all()


def test_a_long_run_is_drawn_in_at_most_a_hundred_points(build_study: BuildStudy) -> None:
    results = load(build_study({"baseline": [300], "no_scale": ["diverged"]}))
    long = {
        run_id: pd.DataFrame({"step": np.arange(1, n + 1), "loss": np.arange(1.0, n + 1)})
        for run_id, n in zip(results.runs["run_id"], (1003, 500), strict=True)
    }
    results = dataclasses.replace(results, curves=long)
    curves = loss_curves(results)
    assert steps_per_point(results) == math.ceil(1003 / 100)
    base = curves[curves["variant"] == "baseline"]
    assert len(base) <= 100
    assert list(base["value"][:-1]) == list(base["x"][:-1])  # the mean of a block of a line is its middle
    other = curves[curves["variant"] == "no_scale"]
    assert set(other["x"]) <= set(base["x"])


def test_validation_is_accuracy_in_points(build_study: BuildStudy) -> None:
    curves = validation_curves(load(build_study({"baseline": [300, 301], "no_scale": [300, 301]})))
    assert list(curves["x"].unique()) == [1, 2]
    assert curves["value"].iloc[0] == 79.5


def test_early_loss_is_the_first_tenth_as_recorded(build_study: BuildStudy) -> None:
    results = load(build_study({"baseline": [300], "no_scale": [301]}))
    rng = np.random.default_rng(5)
    for steps, most in ((40, 4), (2_000, 200), (20_000, 200)):
        table = {i: pd.DataFrame({"step": np.arange(1, steps + 1), "loss": rng.random(steps)}) for i in results.curves}
        early = early_loss(dataclasses.replace(results, curves=table))
        own = early[early["variant"] == "baseline"]
        whole = table[str(results.runs["run_id"][0])].set_index("step")["loss"]
        assert (own["x"].min(), own["x"].max()) == (1, steps // 10)
        assert list(own["value"]) == pytest.approx(list(whole.loc[own["x"]]))
        assert most * 0.6 <= len(own) <= most


def test_divergences_are_the_last_recorded_steps(build_study: BuildStudy) -> None:
    results = load(build_study({"baseline": [300, 301], "no_scale": ["diverged", 301]}))
    assert divergences(results).to_dict("records") == [{"variant": "no_scale", "seed": 0, "x": 22.0}]
    assert divergences(load(build_study({"baseline": [3], "no_scale": [4]}, name="whole"))).empty


def test_validation_losses_stand_at_the_steps_of_the_epochs(build_study: BuildStudy) -> None:
    curves = validation_losses(load(build_study({"baseline": [300], "no_scale": [301]})))
    assert list(curves["x"].unique()) == [STEPS / 2, STEPS]
    assert set(curves["value"]) == {0.5}
