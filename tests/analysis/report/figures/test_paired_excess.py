from dataclasses import replace

import numpy as np
import pytest

from knockout.analysis.report.curves import summary
from knockout.analysis.report.figures.paired_excess import (
    NAME,
    PLOT,
    excess_ends,
    linear_part,
    paired_excess,
)
from knockout.analysis.results import load
from knockout.analysis.stats.curve import RunCurve
from tests.analysis.conftest import BuildStudy
from tests.analysis.report.figures.curves import curve_of, source_of


def run(loss: list[float], *, variant: str = "a", seed: int = 0, first: int = 1, steps: int = 50) -> RunCurve:
    return replace(curve_of(np.array(loss), variant=variant, seed=seed, first=first), steps=steps)


def test_what_both_losses_share_cancels_seed_by_seed() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 1, (2, 50))
    runs = [run(list(n), variant="base", seed=s) for s, n in enumerate(noise)]
    runs += [run(list(n + 0.25 + s), seed=s) for s, n in enumerate(noise)]
    frame = paired_excess(runs, baseline="base")
    assert set(frame["variant"]) == {"a"}
    for seed in range(2):
        assert list(frame[frame["seed"] == seed]["value"]) == pytest.approx([0.25 + seed] * 50)


def test_only_steps_that_both_have_and_seeds_with_both_runs_count() -> None:
    runs = [run([1.0, 2.0, 3.0, 4.0], variant="base"), run([5.0, np.nan, 9.0], first=2), run([1.0], seed=7)]
    frame = paired_excess(runs, baseline="base")
    assert list(zip(frame["seed"], frame["x"], frame["value"], strict=True)) == [(0, 2.0, 3.0), (0, 4.0, 5.0)]


def test_runs_of_another_length_saw_other_batches() -> None:
    runs = [run([1.0, 2.0], variant="base"), run([3.0, 4.0]), run([3.0, 4.0], variant="b", steps=100)]
    assert set(paired_excess(runs, baseline="base")["variant"]) == {"a"}


def test_the_axis_is_compressed_where_one_variant_would_flatten_the_others() -> None:
    flat = [run([0.0] * 20, variant="base")]
    near = [run([x] * 20, variant=v) for v, x in (("a", 0.01), ("b", -0.012), ("c", 0.02))]
    for more, expected in (([], None), ([run([0.5] * 20, variant="d")], 0.01)):
        frame = paired_excess([*flat, *near, *more], baseline="base")
        frames = {NAME: frame, f"{NAME}_summary": summary(frame)}
        assert linear_part(frames) == pytest.approx(expected, rel=0.5) if expected else linear_part(frames) is None
        low, high = excess_ends(frames)
        assert low < -0.012
        assert high > frame["value"].max()


def test_variants_with_other_batches_are_left_out_by_name(build_study: BuildStudy) -> None:
    results = load(build_study({"baseline": [300, 301, 302], "no_scale": [301, 299, 300], "heads_1": [299, 300, 301]}))
    described = dict(results.design.described)
    described["heads_1"] = replace(described["heads_1"], own_batches=("order",))
    results = replace(results, design=replace(results.design, described=described))
    source = source_of(results)
    assert source.other_batches == {"heads_1": ("order",)}
    frames = PLOT.frames(source)
    assert set(frames[NAME]["variant"]) == {"no_scale"}
    ours, theirs = (
        results.curves[results.runs.loc[(results.runs["variant"] == v) & (results.runs["seed"] == 1), "run_id"].iloc[0]]
        for v in ("no_scale", "baseline")
    )
    own = frames[NAME][frames[NAME]["seed"] == 1]
    assert list(own["value"]) == pytest.approx(list(ours["loss"] - theirs["loss"]), abs=1e-6)
    assert "heads_1 (order)" in PLOT.caption(source, frames)
    assert ">no_scale</text>" in PLOT.draw(source, frames).svg()
