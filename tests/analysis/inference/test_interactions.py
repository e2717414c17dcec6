"""Main effects and interactions as a study's report has them: by hand, by least squares, and with failures."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from knockout.analysis.inference.comparison import Comparison, compare_runs
from knockout.analysis.stats.metric import counted
from knockout.study import Plan

N, TEXTS = 8, 2000
CHANGES: dict[str, dict[str, object]] = {
    "norm": {"norm": "post"},
    "warmup": {"warmup": 0.0},
    "both": {"norm": "post", "warmup": 0.0},
}
NAMES = ["base", *CHANGES]


def runs(counts: dict[str, list[int]], failed: tuple[tuple[str, int], ...] = ()) -> pd.DataFrame:
    rows = [
        {
            "variant": v,
            "seed": s,
            "status": "diverged" if (v, s) in failed else "finished",
            "failed": (v, s) in failed,
            "value": None if (v, s) in failed else c,
        }
        for v, own in counts.items()
        for s, c in enumerate(own)
    ]
    return pd.DataFrame(rows).astype({"value": "Int64"})


def compared(frame: pd.DataFrame, *, asked: bool = False, plan: Plan | None = None) -> Comparison:
    return compare_runs(
        frame,
        metric=counted("accuracy", examples=TEXTS),
        baseline="base",
        variants=list(CHANGES),
        seeds=range(N),
        plan=plan or Plan(),
        changes=CHANGES,
        crossed=[["norm", "warmup"]] if asked else [],
    )


def counts(interaction: int = -160) -> dict[str, list[int]]:
    rng = np.random.default_rng(3)
    block = rng.integers(-40, 40, N)
    noise = {name: rng.integers(-8, 9, N) for name in NAMES}
    level = {"base": 1500, "norm": 1480, "warmup": 1500, "both": 1480 + interaction}
    return {name: [int(level[name] + b + e) for b, e in zip(block, noise[name], strict=True)] for name in NAMES}


def test_effects_are_those_of_the_four_cells_seed_by_seed() -> None:
    told = counts()
    (crossing,) = compared(runs(told)).crossings
    assert crossing.factorial.factors == ("norm", "warmup")
    base, norm, warmup, both = (np.array(told[name]) for name in NAMES)
    by_hand = {
        "norm": ((norm - base) + (both - warmup)) / 2,
        "warmup": ((warmup - base) + (both - norm)) / 2,
        "norm x warmup": (both - warmup) - (norm - base),
    }
    assert [e.name for e in crossing.effects] == list(by_hand)
    raw: list[float] = []
    for effect in crossing.effects:
        values = by_hand[effect.name] * 100 / TEXTS
        told_t = stats.ttest_1samp(values, 0)
        assert effect.estimate is not None
        assert effect.estimate.difference == pytest.approx(values.mean())
        assert (effect.estimate.low, effect.estimate.high) == pytest.approx(tuple(told_t.confidence_interval()))
        assert effect.judgement.tested.p == pytest.approx(told_t.pvalue)
        raw.append(float(told_t.pvalue))
        brute = np.abs(values @ (1 - 2 * ((np.arange(2**N)[None] >> np.arange(N)[:, None]) & 1)))
        assert effect.sign_flip is not None
        assert effect.sign_flip.p == pytest.approx(np.mean(brute >= abs(values.sum()) - 1e-9))
    order = np.argsort(raw)
    holm = np.maximum.accumulate(np.array(raw)[order] * [3, 2, 1]).clip(max=1)
    assert [crossing.effects[i].judgement.p_holm for i in order] == pytest.approx(list(holm))
    assert crossing.effects[2].finding == "lowers"


def test_without_an_interaction_none_within_the_margin_is_found() -> None:
    (crossing,) = compared(runs(counts(0)), plan=Plan(margin=2.0)).crossings
    assert crossing.effects[2].finding == "none within the margin"


def test_a_failed_run_leaves_nothing_tested_and_the_estimate_to_the_whole_seeds() -> None:
    (crossing,) = compared(runs(counts(), failed=(("both", 2), ("norm", 5)))).crossings
    for effect in crossing.effects:
        assert (effect.n, effect.n_planned) == (N - 2, N)
        assert effect.judgement.tested.p is None
        assert effect.sign_flip is None
        assert effect.finding == "inconclusive"
        assert "a run failed at 2 of 8 seeds" in effect.judgement.reason
        assert effect.estimate is not None
        assert effect.estimate.n == N - 2


def test_a_missing_run_is_said() -> None:
    frame = runs(counts())
    (crossing,) = compared(frame[~((frame["variant"] == "both") & (frame["seed"] == 1))]).crossings
    assert {e.judgement.reason for e in crossing.effects} == {"a run is missing at 1 of 8 seeds"}


def test_one_that_was_asked_for_is_told_once() -> None:
    found, asked = compared(runs(counts())).crossings, compared(runs(counts()), asked=True).crossings
    assert len(found) == len(asked) == 1
    assert found[0].effects == asked[0].effects
