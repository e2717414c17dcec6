"""Attention maps: what every head attends to in the chosen texts, for the baseline and a few variants."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from knockout.analysis.inference.comparison import Comparison
from knockout.analysis.inference.pairs import Seed
from knockout.analysis.report.figures.plot import Frames, Plot, Source
from knockout.analysis.report.figures.small_multiples import NOTE_COLOUR, panel_title, some
from knockout.analysis.report.svg import Drawing, label_text, line_count
from knockout.analysis.results import Results

NAME = "attention"
ARMS, HEADS, ROWS, TOKENS = 6, 8, 24, 24
"""The most arms, heads of a layer, rows of maps, and tokens of a text."""


def chosen_arms(comparison: Comparison, there: Sequence[str], most: int) -> list[str]:
    """The baseline and the variants with the largest differences from it, of those that are there, in their order."""
    size = {c.variant: abs(c.estimate.difference) for c in comparison.contrasts if c.estimate is not None}
    variants = [v for v in comparison.variants if v in there]
    room = most - (comparison.baseline in there)
    largest = set(sorted(variants, key=lambda v: -size.get(v, -1.0))[: max(room, 0)])
    return [a for a in (comparison.baseline, *variants) if a in largest or (a == comparison.baseline and a in there)]


def first_maps(results: Results, arms: Sequence[str]) -> dict[str, tuple[Seed, str]]:
    """arm -> the first seed whose run kept attention weights, and its run id; arms without one are left out."""
    found: dict[str, tuple[Seed, str]] = {}
    for run in results.runs[["run_id", "variant", "seed"]].itertuples(index=False):
        if run.variant in arms and run.variant not in found and str(run.run_id) in results.attention:
            found[str(run.variant)] = (run.seed, str(run.run_id))  # type: ignore[assignment]  # a row of any type
    return {arm: found[arm] for arm in arms if arm in found}


def attention_maps(source: Source, results: Results) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The weights that are drawn, and the tokens.

    Columns of the first: variant, seed, text, example, split, layer, head, query, key (positions), weight (0 to 1).
    Of the second: text, position, token.
    """
    runs = first_maps(results, source.arms)
    if not runs:
        return pd.DataFrame(), pd.DataFrame()
    tables = {arm: results.attention[run_id] for arm, (_, run_id) in runs.items()}
    rows = max(table.groupby("text")["layer"].nunique().sum() for table in tables.values())
    arms = chosen_arms(source.comparison, list(runs), min(ARMS, max(2, ROWS // max(int(rows), 1))))
    parts = []
    for arm in arms:
        table = tables[arm]
        kept = table[(table["head"] < HEADS) & (table["query"] < TOKENS) & (table["key"] < TOKENS)]
        parts.append(kept.assign(variant=arm, seed=runs[arm][0]))
    columns = ["variant", "seed", "text", "example", "split", "layer", "head", "query", "key", "weight"]
    tokens = results.attention_tokens[runs[arms[0]][1]]
    tokens = tokens[tokens["position"] < TOKENS]
    return pd.concat(parts, ignore_index=True)[columns], tokens[["text", "position", "token"]].reset_index(drop=True)


def _frames(source: Source) -> Frames:
    if source.results is None:
        return {}
    maps, tokens = attention_maps(source, source.results)
    return {NAME: maps, f"{NAME}_tokens": tokens} if len(maps) else {}


def draw_attention(frame: pd.DataFrame, *, ax: Axes) -> Axes:
    """The map of one head: queries down, keys across, dark where the weight is large. `frame`: query, key, weight."""
    size = int(max(frame["query"].max(), frame["key"].max())) + 1
    weights = np.zeros((size, size))
    weights[frame["query"], frame["key"]] = frame["weight"]
    ax.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, interpolation="none", aspect="equal")
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set(color="#888888", linewidth=0.5)
    return ax


def _grid(frame: pd.DataFrame) -> list[tuple[int, str, int]]:
    """The rows of maps: text, arm, layer."""
    arms = list(dict.fromkeys(frame["variant"]))
    rows = frame[["text", "variant", "layer"]].drop_duplicates()
    seen = [(int(t), str(v), int(n)) for t, v, n in zip(rows["text"], rows["variant"], rows["layer"], strict=True)]
    return sorted(seen, key=lambda row: (row[0], arms.index(row[1]), row[2]))


def _words(tokens: pd.DataFrame, text: int) -> list[str]:
    own = tokens[tokens["text"] == text].sort_values("position")
    return [label_text(token, 12) for token in own["token"]]


def _svg(_: Source, frames: Frames) -> Drawing:
    frame, tokens = frames[NAME], frames[f"{NAME}_tokens"]
    grid, heads = _grid(frame), int(frame["head"].max()) + 1
    size = max(1.05, 0.085 * int(frame["key"].max() + 1))
    titled = {(t, v) for t, v, _ in grid}
    keyed = {grid[i] for i in range(len(grid)) if i + 1 == len(grid) or grid[i + 1][:2] != grid[i][:2]}

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots(len(grid), heads, squeeze=False)
        for (text, arm, layer), line in zip(grid, axes, strict=True):
            own = frame[(frame["text"] == text) & (frame["variant"] == arm) & (frame["layer"] == layer)]
            words = _words(tokens, text)
            for head, ax in enumerate(line):
                one = own[own["head"] == head]
                if one.empty:
                    ax.set_visible(False)
                    continue
                draw_attention(one, ax=ax)
                if head == 0:
                    ax.set_yticks(range(len(words)), words, fontsize=6)
                    ax.set_ylabel(f"layer {layer + 1}", fontsize=8)
                    if layer == 0:
                        ax.set_title(
                            f"{panel_title(arm)}\ntext {text + 1}, head 1", fontsize=9, loc="left", color="#222222"
                        )
                if layer == 0 and head > 0:
                    ax.set_title(f"head {head + 1}", fontsize=8, color=NOTE_COLOUR)
                if (text, arm, layer) in keyed:
                    ax.set_xticks(range(len(words)), words, fontsize=6, rotation=90)
                ax.tick_params(length=0, pad=1)

    height = len(grid) * size + sum(0.74 + 0.16 * line_count(panel_title(arm)) for _, arm in titled)
    return Drawing(draw, name=NAME, width=1.0 + heads * (size + 0.08), height=height)


def _caption(source: Source, frames: Frames) -> str:
    assert source.results is not None
    frame, results = frames[NAME], source.results
    arms = list(dict.fromkeys(frame["variant"]))
    runs = first_maps(results, source.arms)
    seeds = list(dict.fromkeys(str(seed) for seed in frame["seed"]))
    chosen = frame.drop_duplicates("text").sort_values("text")
    named = zip(chosen["text"], chosen["example"], chosen["split"], strict=True)
    texts = ", ".join(f"{text + 1}: example {example} of {split}" for text, example, split in named)
    lines = [
        "Attention weights after the last step, a map per head: from the token at the left to the token below it.",
        f"White is 0, the darkest blue 1. Texts: {texts}. Seed {', '.join(seeds)} only; other seeds look different.",
        "Weights alone do not say what a model uses.",
    ]
    left = [arm for arm in runs if arm not in arms]
    if left:
        lines.append(
            f"Of {len(runs)} arms with recorded weights, the baseline and those with the largest differences from it;"
            f" left out: {some(left)}."
        )
    without = [a for a in source.arms if a not in runs]
    lines += [f"Without recorded weights: {some(without)}."] if without else []
    more = [arm for arm in arms if int(results.attention[runs[arm][1]]["head"].max()) >= HEADS]
    lines += [f"Only the first {HEADS} heads of {', '.join(more)}."] if more else []
    if any(int(results.attention[runs[arm][1]]["key"].max()) >= TOKENS for arm in arms):
        lines.append(f"Only the first {TOKENS} tokens of a text.")
    return " ".join(lines)


PLOT = Plot(name=NAME, title=lambda _: "Attention maps", frames=_frames, draw=_svg, caption=_caption)
