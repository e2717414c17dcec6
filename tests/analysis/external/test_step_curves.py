"""`knockout.curves`: frames and files give the same numbers, and each number is what the curve says."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import knockout
from knockout.analysis.external.frame import FrameError
from knockout.analysis.results import ResultsError

T = 400
SEEDS = range(1, 11)


def frame(seeds: range = SEEDS) -> pd.DataFrame:
    """A baseline that falls smoothly; a variant whose first losses are 3 times as large, on the same batches."""
    parts = []
    for seed in seeds:
        noise = np.random.default_rng(seed).normal(0, 0.01, T)
        for variant in ("base", "peak"):
            steps = np.arange(1, T + 1)
            loss = np.exp(-steps / 100) + 0.2 + noise
            if variant == "peak":
                loss = np.where((steps > 1) & (steps <= 10), 3 * loss, loss)
            parts.append(pd.DataFrame({"variant": variant, "seed": seed, "step": steps, "loss": loss}))
    return pd.concat(parts, ignore_index=True)


def test_a_planted_early_peak_is_shown_and_measured() -> None:
    judged = knockout.curves(frame(), baseline="base")
    cell = judged.instability.cell("peak", "early_peak")
    assert cell is not None
    assert cell.label == "higher"
    by_hand = [
        own["loss"].iloc[:20].max() / own["loss"].iloc[0]
        for _, own in frame().query("variant == 'peak'").groupby("seed")
    ]
    own = judged.runs[judged.runs["variant"] == "peak"]
    assert own["early_peak"].to_numpy(dtype=float) == pytest.approx(by_hand)
    calm = judged.instability.cell("peak", "excess_late")
    assert calm is not None
    assert calm.estimate == pytest.approx(0, abs=1e-12)  # the same batches, and the same loss


def test_a_file_and_a_frame_give_the_same_numbers(tmp_path: Path) -> None:
    made = frame(range(1, 4))
    made["grad_norm"] = made["loss"] + 1
    made.to_csv(tmp_path / "steps.csv", index=False)
    by_file, by_frame = (knockout.curves(x, baseline="base") for x in (tmp_path / "steps.csv", made))
    pd.testing.assert_frame_equal(by_file.runs, by_frame.runs)
    pd.testing.assert_frame_equal(by_file.contrasts, by_frame.contrasts)


def test_steps_from_zero_are_those_from_one() -> None:
    made = frame(range(1, 4))
    pd.testing.assert_frame_equal(
        knockout.curves(made.assign(step=made["step"] - 1), baseline="base").runs,
        knockout.curves(made, baseline="base").runs,
    )


def test_a_divergence_in_a_frame_counts_and_validation_between_does_not() -> None:
    made = frame(range(1, 4))
    gone = (made["variant"] == "peak") & (made["seed"] == 2) & (made["step"] > 200)
    made.loc[gone, "loss"] = np.nan
    validated = made.iloc[::50].assign(loss=np.nan, val_loss=1.0)
    judged = knockout.curves(
        pd.concat([made, validated]).sort_values(["variant", "seed", "step"], kind="stable"), baseline="base"
    )
    assert judged.instability.counts["peak"].diverged == 1
    assert judged.instability.counts["base"].diverged == 0
    assert not any("repeat" in note for note in judged.notes)


def test_under_three_seeds_nothing_is_tested() -> None:
    judged = knockout.curves(frame(range(1, 3)), baseline="base")
    assert {cell.label for cell in judged.instability.cells} == {"not testable"}
    cell = judged.instability.cell("peak", "early_peak")
    assert cell is not None
    assert cell.estimate is not None


def test_thinned_losses_name_what_is_missing() -> None:
    made = frame(range(1, 4))
    judged = knockout.curves(made[made["step"] % 20 == 0], baseline="base")
    assert {"spikes", "early_peak", "excess_early"} <= set(judged.instability.missing)


def test_other_batches_leave_out_what_subtracts_losses() -> None:
    judged = knockout.curves(frame(range(1, 4)), baseline="base", same_batches=False)
    assert {"excess_early", "excess_late"} <= set(judged.instability.missing)


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        (lambda f: knockout.curves(f, baseline="bose"), 'did you mean "base"'),
        (lambda f: knockout.curves(f, baseline="base", loss="losses"), 'no column "losses"'),
        (lambda f: knockout.curves(f, baseline="base", clip_norm=-1.0), "above 0"),
        (lambda f: knockout.curves(f, baseline="base", variants=["peek"]), 'no run of "peek"'),
        (lambda f: knockout.curves(f, baseline="base", alpha=0.7), "alpha"),
    ],
)
def test_faults_of_arguments(judge: Callable[[pd.DataFrame], object], said: str) -> None:
    with pytest.raises(FrameError, match=said):
        judge(frame(range(1, 3)))


def test_only_the_baseline_is_refused() -> None:
    made = frame(range(1, 3))
    with pytest.raises(FrameError, match="nothing to compare"):
        knockout.curves(made[made["variant"] == "base"], baseline="base")


@pytest.mark.long
def test_the_report_is_the_same_twice_and_no_other_folder_is_written(tmp_path: Path) -> None:
    judged = knockout.curves(frame(range(1, 5)), baseline="base")
    first, second = (judged.write(tmp_path / name) for name in ("a", "b"))
    assert {name: path.read_bytes() for name, path in first.items()} == {
        name: path.read_bytes() for name, path in second.items()
    }
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ResultsError, match="no report"):
        judged.write(tmp_path / "mine")
