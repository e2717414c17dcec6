from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from knockout.analysis.report.figures.attention import (
    ARMS,
    HEADS,
    NAME,
    PLOT,
    TOKENS,
    attention_maps,
    chosen_arms,
    draw_attention,
)
from knockout.analysis.report.figures.plot import Source
from knockout.analysis.results import load
from tests.analysis.conftest import BuildStudy
from tests.analysis.report.figures.curves import source_of

HOSTILE = ["<script>alert(1)</script>", "注意", "$x$", "\x07"]


def maps(*, layers: int = 2, heads: int = 2, tokens: int = 4, texts: int = 2) -> pd.DataFrame:
    """Every token attends to itself alone."""
    rows = [
        (t, 10 + t, "test", layer, h, q, k, float(q == k))
        for t, layer, h, q, k in product(range(texts), range(layers), range(heads), range(tokens), range(tokens))
    ]
    return pd.DataFrame(rows, columns=["text", "example", "split", "layer", "head", "query", "key", "weight"])


def words(*, tokens: int = 4, texts: int = 2) -> pd.DataFrame:
    rows = [(t, p, HOSTILE[p % 4]) for t in range(texts) for p in range(tokens)]
    return pd.DataFrame(rows, columns=["text", "position", "token"])


def with_maps(source: Source, arms: dict[str, pd.DataFrame], tokens: pd.DataFrame) -> Source:
    assert source.results is not None
    runs = source.results.runs
    kept = {str(i): arms[v] for i, v in zip(runs["run_id"], runs["variant"], strict=True) if v in arms}
    results = replace(source.results, attention=kept, attention_tokens=dict.fromkeys(kept, tokens))
    return replace(source, results=results)


@pytest.fixture
def source(build_study: BuildStudy) -> Source:
    names = ["no_scale", "heads_1", "heads_16", "pool_max", "pool_cls", "no_position", "no_warmup"]
    arms = {v: [300 - 5 * i + s for s in range(3)] for i, v in enumerate(names)}
    return source_of(load(build_study({"baseline": [300, 302, 301], **arms})))


def test_the_weight_of_each_key_stands_in_its_column() -> None:
    frame = pd.DataFrame({"query": [0, 0, 1, 1], "key": [0, 1, 0, 1], "weight": [0.1, 0.9, 0.75, 0.25]})
    ax = draw_attention(frame, ax=Figure().subplots())
    assert np.asarray(ax.images[0].get_array()).tolist() == [[0.1, 0.9], [0.75, 0.25]]
    assert ax.images[0].get_clim() == (0.0, 1.0)


def test_the_baseline_and_the_variants_that_differ_most_are_drawn(source: Source) -> None:
    arms = dict.fromkeys(source.arms, maps())
    frames = PLOT.frames(with_maps(source, arms, words()))
    kept = list(dict.fromkeys(frames[NAME]["variant"]))
    assert len(kept) == ARMS
    assert kept[0] == "baseline"
    assert "no_scale" not in kept  # its difference is the least
    assert "no_warmup" in kept  # ... and this the largest
    assert set(frames[NAME]["seed"]) == {0}


def test_many_layers_leave_room_for_fewer_arms(source: Source) -> None:
    drawn = with_maps(source, dict.fromkeys(source.arms, maps(layers=6)), words())
    assert drawn.results is not None
    frame, _ = attention_maps(drawn, drawn.results)
    assert list(dict.fromkeys(frame["variant"])) == ["baseline", "no_warmup"]


def test_what_is_left_out_is_said(source: Source) -> None:
    many, few = maps(heads=HEADS + 2, tokens=TOKENS + 1, layers=1, texts=1), maps(layers=1, texts=1)
    drawn = with_maps(source, {"baseline": many, "no_scale": few}, words(tokens=TOKENS + 1, texts=1))
    frames = PLOT.frames(drawn)
    assert frames[NAME]["head"].max() == HEADS - 1
    assert frames[NAME]["key"].max() == TOKENS - 1
    said = PLOT.caption(drawn, frames)
    assert f"Only the first {HEADS} heads of baseline." in said
    assert f"Only the first {TOKENS} tokens of a text." in said
    assert "Without recorded weights: heads_1," in said
    assert "1: example 10 of test" in said


def test_hostile_and_chinese_tokens_are_text(source: Source) -> None:
    drawn = with_maps(source, {"baseline": maps(), "no_scale": maps()}, words())
    frames = PLOT.frames(drawn)
    text = PLOT.draw(drawn, frames).svg()
    assert text == PLOT.draw(drawn, frames).svg()
    assert "<script>" not in text
    assert "注意" in text
    assert "\x07" not in text


def test_arms_without_a_difference_come_last(source: Source) -> None:
    there = list(source.arms)
    assert chosen_arms(source.comparison, there, 2) == ["baseline", "no_warmup"]
    assert chosen_arms(source.comparison, there[1:], 2) == ["no_position", "no_warmup"]
    assert not PLOT.frames(source)
