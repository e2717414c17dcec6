"""Measures on a probe and inside the network, on tables made by hand."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knockout.analysis.stats.instability import smoothed
from knockout.analysis.stats.internals import (
    area,
    attention_entropy,
    attention_logit,
    attention_peak,
    blow_up,
    depth_ratio,
    plateau,
    rank_residual,
    time_to_threshold,
    total_variation,
)

H = math.log(2)


def layers(rows: dict[str, dict[int, list[float]]]) -> pd.DataFrame:
    """quantity -> step -> the value of each layer; an embedding and a head beside them that must not count."""
    table = [
        {"step": step, "quantity": quantity, "layer": layer, "value": value}
        for quantity, by_step in rows.items()
        for step, values in by_step.items()
        for layer, value in [(-2, 1e6), *enumerate(values), (-1, 1e-6)]
    ]
    return pd.DataFrame(table)


@given(st.lists(st.floats(0.01, 1.0), min_size=3, max_size=40))
def test_total_variation_of_a_curve_that_only_falls_is_one(drops: list[float]) -> None:
    falling = 100 - np.cumsum([0.0, *drops])
    assert total_variation(falling, least=0.01) == pytest.approx(1.0)


def test_total_variation_of_a_sawtooth() -> None:
    """Down 2, up 1, down 2: the path is 5 and the descent 3."""
    assert total_variation(np.array([4.0, 2.0, 3.0, 1.0]), least=0.05) == pytest.approx(5 / 3)
    assert total_variation(10 * np.array([4.0, 2.0, 3.0, 1.0]), least=0.05) == pytest.approx(5 / 3)


def test_total_variation_counts_what_comes_after_the_lowest_point() -> None:
    assert total_variation(np.array([1.0, 0.5, 1.5]), least=0.05) == pytest.approx(3.0)


def test_total_variation_is_that_of_the_shape_however_often_it_is_probed() -> None:
    x = np.linspace(0, 1, 201)
    shape = 1 - x + 0.2 * np.sin(4 * np.pi * x)
    assert total_variation(shape, least=0.05) == pytest.approx(total_variation(shape[::5], least=0.05) or 0, rel=0.03)


def test_a_flat_line_has_no_total_variation_and_is_a_plateau() -> None:
    flat = np.full(60, H) + 1e-4 * np.sin(np.arange(60))
    found = total_variation(flat, least=0.05 * H)
    assert found is not None
    assert math.isnan(found)
    at = plateau(flat, entropy=H)
    assert at is not None
    assert at > 0.98
    assert plateau(np.linspace(H, H / 2, 60), entropy=H) == pytest.approx(0.5)
    assert plateau(flat, entropy=None) is None


def test_the_area_is_the_mean() -> None:
    assert area(np.array([1.0, 0.5, 0.0])) == pytest.approx(0.5)
    assert area(None) is None
    assert area(np.array([1.0, math.nan, 0.0])) is None  # fewer than three are left


def test_blow_up_is_the_end_over_the_start() -> None:
    steps = 2_000
    loss = np.concatenate([np.full(1_000, 0.5), np.full(1_000, 2.0)])
    probe = np.array([0.5, 0.4, 0.4, 0.4])
    assert blow_up(smoothed(loss, steps=steps), probe, steps=steps) == pytest.approx(4.0, rel=1e-3)
    assert blow_up(smoothed(loss[:1_500], steps=steps), probe, steps=steps) is None  # ended before
    assert blow_up(smoothed(loss, steps=steps), None, steps=steps) is None


def test_time_to_threshold_needs_three_in_a_row() -> None:
    step = np.array([0.0, 10, 20, 30, 40, 50, 60])
    accuracy = np.array([0.5, 0.8, 0.6, 0.8, 0.8, 0.8, 0.6])
    assert time_to_threshold(step, accuracy, threshold=0.7) == 30.0
    assert time_to_threshold(step, accuracy, threshold=0.5) == 0.0
    assert time_to_threshold(step, accuracy, threshold=0.9) == math.inf
    assert time_to_threshold(step[:2], accuracy[:2], threshold=0.1) == math.inf
    assert time_to_threshold(None, None, threshold=0.5) is None


def test_the_depth_ratio_is_last_over_first_at_its_step() -> None:
    table = layers({"ffn_output_gradient": {1: [1.0, 2.0, 8.0], 64: [1, 1, 2], 128: [1.0, 1.0, 3.0], 300: [2.0, 1, 1]}})
    assert depth_ratio(table, 0) == 8.0
    assert depth_ratio(table, 100) == 3.0  # the first that was logged from there on
    assert depth_ratio(table, -1) == 0.5
    assert depth_ratio(layers({"ffn_output_gradient": {1: [1.0]}}), 0) is None  # one layer
    assert depth_ratio(layers({"ffn_output_gradient": {1: [0.0, 1.0]}}), 0) is None
    assert depth_ratio(layers({"ffn_output_gradient": {1: [1.0, 2.0]}}), 100) is None  # ended before
    assert depth_ratio(table.sample(frac=1, random_state=1), 0) == 8.0  # rows in any order
    assert depth_ratio(None, 0) is None


def test_attention_and_rank() -> None:
    table = layers(
        {
            "attention_logit": {1: [3.0, 4.0], 100: [21.0, 5.0], 200: [6.0, 7.0]},
            "attention_entropy": {1: [0.9, 0.9], 200: [0.4, 0.6]},
            "attention_peak": {1: [0.0, 0.0], 200: [0.3, 0.1]},
            "rank_residual": {1: [0.9, 0.8], 200: [0.5, 0.02]},
        }
    )
    assert attention_logit(table, initial=True) == 4.0
    assert attention_logit(table, initial=False) == 21.0
    assert attention_entropy(table) == 0.4
    assert attention_peak(table) == 0.3
    assert rank_residual(table, 0) == 0.8
    assert rank_residual(table, -1) == 0.02
    other = layers({"gradient": {1: [1.0]}})
    assert attention_logit(other, initial=False) is None
    assert attention_entropy(other) is None
    assert rank_residual(None, -1) is None
