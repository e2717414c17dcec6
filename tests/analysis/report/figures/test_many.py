"""Figures of many runs, and of curves without a study."""

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from knockout.analysis import compare
from knockout.analysis.inference.instability import Instability, instability_of
from knockout.analysis.report import figures
from knockout.analysis.report.figures import PLOTS, draw_all
from knockout.analysis.report.figures.plot import Source
from knockout.analysis.stats.curve import RunCurve
from knockout.plan import Plan
from tests.analysis.frames import tidy
from tests.analysis.report.figures.curves import curve_of

OF_STEPS = ["instability", "paired_excess", "spread", "probe", "gradient_norm"]


def made(arms: list[str], seeds: int, steps: int) -> Source:
    """Noise around a decaying loss, with probes and gradient norms."""
    rng = np.random.default_rng(0)
    probed = np.linspace(0, steps, 100).round()
    level = 0.3 + 0.5 * np.exp(-np.arange(steps) / (steps / 5))
    curves = [
        replace(
            curve_of(np.abs(level + rng.normal(0, 0.05, steps)), variant=v, seed=s),
            grad_norm=np.exp(rng.normal(-0.5, 0.5, steps)),
            clip_norm=1.0,
            probe_step=probed,
            probe_loss=0.4 + rng.normal(0, 0.01, 100),
            probe_accuracy=np.linspace(0.5, 0.8, 100),
        )
        for v in arms
        for s in range(seeds)
    ]
    scores = {v: list(rng.normal(0.7, 0.01, seeds)) for v in arms}
    comparison = compare(tidy(scores), metric="accuracy", baseline=arms[0], margin=1.0)
    return Source(comparison=comparison, results=None, curves=tuple(curves), instability=judged(curves, arms[0]))


def judged(curves: list[RunCurve], baseline: str) -> Instability:
    return instability_of(curves, baseline=baseline, plan=Plan())


def test_curves_from_elsewhere_are_drawn_as_those_of_a_study(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "PLOTS", [plot for plot in PLOTS if plot.name in OF_STEPS])
    source = made(["<script>alert(1)</script>", "=1+1", "\U0001f600 " * 60], 4, 60)
    drawn = {f.name: f for f in draw_all(source.comparison, None, source.instability, source.curves)}
    assert set(drawn) == set(OF_STEPS)
    for name in OF_STEPS:
        assert "<script>" not in drawn[name].svg
        assert drawn[name].caption
        assert next(iter(drawn[name].data)) == name


LONG_NAMES = ["x" * 200, "注意力" * 30, "a_variant_with_a_name_of_many_words_" * 5]
NAMELESS = {"power"}
"""Figures in which no variant is named."""


def test_long_names_stand_whole_in_every_figure_that_names_variants() -> None:
    """A warning of matplotlib, such as that no room is left for the axes, is an error in these tests."""
    source = made(["baseline", *LONG_NAMES], 4, 60)
    drawn = [plot for plot in PLOTS if plot.frames(source)]
    assert {"forest", "instability", "paired_excess", "spread", "probe"} <= {p.name for p in drawn}
    for plot in drawn:
        root = ElementTree.fromstring(plot.draw(source, plot.frames(source)).svg())
        shown = "".join("".join(node.itertext()) for node in root.iter() if node.tag.endswith("}text"))
        assert all(name in shown for name in LONG_NAMES) or plot.name in NAMELESS, plot.name


@pytest.mark.long
def test_forty_variants_of_thirty_seeds_stay_under_a_megabyte() -> None:
    arms = [f"variant_{i}_{'x' * (40 if i % 3 else 5)}" for i in range(41)]
    source = made(arms, 30, 2000)
    for plot in PLOTS:
        frames = plot.frames(source)
        if frames:
            assert len(plot.draw(source, frames).svg().encode()) < 1_000_000, plot.name
