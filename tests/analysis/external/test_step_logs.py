"""Step logs from elsewhere: long and wide tables, exports of W&B, TensorBoard and MLflow, restarts, gaps, intervals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from knockout.analysis.external.step_logs import LoggedRun, StepLogs, read_step_logs
from knockout.analysis.external.step_points import StepColumns
from knockout.strict import FaultsError

LONG = "variant,seed,step,loss\n"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def read(paths: Path | Sequence[Path], **columns: Any) -> StepLogs:
    return read_step_logs([paths] if isinstance(paths, Path) else paths, StepColumns(**columns))


def refused(paths: Path | Sequence[Path], **columns: Any) -> str:
    with pytest.raises(FaultsError) as caught:
        read(paths, **columns)
    return str(caught.value)


def losses(logs: StepLogs) -> dict[tuple[str, Any], dict[int, float]]:
    return {
        (run.variant, run.seed): dict(
            zip(run.series["loss"].step.astype(int).tolist(), run.series["loss"].value.tolist(), strict=True)
        )
        for run in logs.runs
    }


def one(logs: StepLogs) -> LoggedRun:
    (run,) = logs.runs
    return run


def rows(steps: Sequence[int], values: Sequence[object], who: str = "base,1") -> str:
    return "".join(f"{who},{step},{value}\n" for step, value in zip(steps, values, strict=True))


def test_a_long_table_of_variant_seed_step_and_loss(tmp_path: Path) -> None:
    text = "variant;seed;step;loss;grad_norm;learning_rate;status\n"
    for seed in (1, 2):
        text += "".join(f"base;{seed};{t};{2 / t:.3f};1,5;0,001;finished\n".replace(".", ",") for t in (1, 2, 4))
    logs = read(written(tmp_path, "steps.csv", text))
    assert losses(logs) == {("base", s): {1: 2.0, 2: 1.0, 4: 0.5} for s in (1, 2)}
    assert logs.quantities == ("loss", "grad_norm", "learning_rate")
    assert logs.runs[0].series["grad_norm"].value.tolist() == [1.5, 1.5, 1.5]
    assert any("decimal comma" in note for note in logs.notes)


def test_parquet_reads_as_the_same_csv(tmp_path: Path) -> None:
    frame = pd.DataFrame({"variant": ["a"] * 3 + ["b"] * 3, "seed": 7, "step": [1, 2, 3] * 2, "loss": np.arange(6.0)})
    frame.to_parquet(tmp_path / "steps.parquet")
    frame.to_csv(tmp_path / "steps.csv", index=False)
    assert losses(read(tmp_path / "steps.parquet")) == losses(read(tmp_path / "steps.csv"))


# W&B's page, a line plot, "Export as CSV": quoted cells, one column per line with its range in each bucket
WANDB_PLOT = (
    '"Step",'
    '"base_seed1 - train/loss","base_seed1 - train/loss__MIN","base_seed1 - train/loss__MAX",'
    '"no_warmup_seed1 - train/loss","no_warmup_seed1 - train/loss__MIN","no_warmup_seed1 - train/loss__MAX"\n'
    '"1","2.5","2.5","2.5","2.6","2.6","2.6"\n'
    '"2","2.25","2.25","2.25","","",""\n'
    '"3","2","2","2","NaN","NaN","NaN"\n'
)


def test_a_line_plot_of_weights_and_biases(tmp_path: Path) -> None:
    path = written(tmp_path, "wandb_export_2024-05-02T10_11_12.000+02_00.csv", WANDB_PLOT)
    logs = read(path, loss="train/loss", seed_pattern=r"_seed(\d+)$")
    assert losses(logs)["base", 1] == {1: 2.5, 2: 2.25, 3: 2.0}
    run = logs.runs[1]
    assert (run.variant, run.status, run.series["loss"].step.tolist()) == ("no_warmup", "diverged", [1, 3])
    assert "a divergence" in " ".join(logs.notes)


def test_a_line_plot_over_another_axis_has_no_steps(tmp_path: Path) -> None:
    path = written(tmp_path, "plot.csv", WANDB_PLOT.replace('"Step"', '"Relative Time (Process)"'))
    assert "not over steps" in refused(path, loss="train/loss", seed_pattern=r"_seed(\d+)$")
    path = written(tmp_path, "plot.csv", WANDB_PLOT.replace('"Step"', '"trainer/global_step"'))
    assert len(read(path, loss="train/loss", seed_pattern=r"_seed(\d+)$").runs) == 2


def test_a_line_plot_of_means_says_so_or_is_refused(tmp_path: Path) -> None:
    bucketed = WANDB_PLOT.replace('"2.25","2.25","2.25"', '"2.25","2.1","2.4"')
    logs = read(written(tmp_path, "plot.csv", bucketed), loss="train/loss", seed_pattern=r"_seed(\d+)$")
    assert "hides spikes" in " ".join(logs.notes)
    grouped = bucketed.replace("base_seed1", "Group: base").replace("no_warmup_seed1", "Group: no_warmup")
    assert "means over several runs" in refused(written(tmp_path, "plot.csv", grouped), loss="train/loss")


# wandb.Api().run(...).history().to_csv(): the index, then the metrics; validation is logged at steps of its own
WANDB_HISTORY = """,train/loss,val/loss,_step,_runtime,_timestamp
0,2.5,,1,3.1,1714637472.1
1,2.0,,2,3.2,1714637472.2
2,,2.2,2,3.3,1714637472.3
3,1.5,,3,3.4,1714637472.4
4,,1.9,3,3.5,1714637472.5
"""


def test_histories_of_weights_and_biases_one_file_per_run(tmp_path: Path) -> None:
    paths = [written(tmp_path, f"{run}.csv", WANDB_HISTORY) for run in ("base-1", "base-2", "post-1", "post-2")]
    for given in (paths, tmp_path):
        logs = read(given, loss="train/loss", step="_step", seed_pattern=r"-(\d+)$")
        assert losses(logs) == {(v, s): {1: 2.5, 2: 2.0, 3: 1.5} for v in ("base", "post") for s in (1, 2)}
        assert "Each of 4 files is a run" in " ".join(logs.notes)


# TensorBoard's page, scalars, "Show data download links", CSV
SCALAR = "Wall time,Step,Value\n1714637472.123,1,{}\n1714637473.456,2,{}\n1714637474.789,3,{}\n"


def test_scalars_of_tensorboard_one_file_per_run_and_tag(tmp_path: Path) -> None:
    for seed in (1, 2):
        for v in ("base", "post"):
            written(tmp_path, f"run-{v}_s{seed}-tag-train_loss.csv", SCALAR.format(2.5, 2.25, 2))
            written(tmp_path, f"run-{v}_s{seed}-tag-grad_norm.csv", SCALAR.format(1, 5, 1))
    logs = read(tmp_path, loss="train_loss", seed_pattern=r"_s(\d)$")
    assert losses(logs) == {(v, s): {1: 2.5, 2: 2.25, 3: 2.0} for v in ("base", "post") for s in (1, 2)}
    assert logs.runs[0].series["grad_norm"].value.tolist() == [1, 5, 1]


def test_scalars_of_tensorboard_in_a_folder_per_run(tmp_path: Path) -> None:
    for run in ("base_s1", "post_s1"):
        written(tmp_path, f"{run}/loss.csv", SCALAR.format(2.5, 2.25, 2))
    logs = read(tmp_path, seed_pattern=r"_s(\d)/loss$")
    assert {run.variant for run in logs.runs} == {"base", "post"}


# tbparse.SummaryReader(..., extra_columns={"dir_name"}).scalars, and tensorboard.dev's get_scalars(): run, tag, step
TAGS = "run,tag,step,value\n" + "".join(
    f"{run},{tag},{t},{value}\n"
    for run in ("base_s1", "base_s2")
    for tag, value in (("train/loss", 2.5), ("lr", 0.001))
    for t in (10, 20, 30)
)

# mlflow.MlflowClient().get_metric_history(run_id, key), one row per entry
HISTORY = "run_id,key,value,step,timestamp,seed,variant\n" + "".join(
    f"{'ab' * 16},{key},{value + t},{t},{1714637472000 + t},3,base\n"
    for key, value in (("loss", 2.0), ("grad_norm", 1.0))
    for t in (0, 1, 2)
)


def test_lists_of_metrics_of_tensorboard_and_mlflow(tmp_path: Path) -> None:
    logs = read(written(tmp_path, "tags.csv", TAGS), loss="train/loss", learning_rate="lr", seed_pattern=r"_s(\d+)$")
    assert losses(logs) == {("base", s): {10: 2.5, 20: 2.5, 30: 2.5} for s in (1, 2)}
    assert logs.runs[0].series["learning_rate"].value.tolist() == [0.001] * 3
    run = one(read(written(tmp_path, "mlflow.csv", HISTORY)))
    assert (run.variant, run.seed) == ("base", 3)
    assert run.series["loss"].value.tolist() == [2, 3, 4]
    assert run.series["grad_norm"].value.tolist() == [1, 2, 3]
    assert run.steps == 3  # steps 0, 1 and 2


def test_a_wide_table_with_a_column_per_run(tmp_path: Path) -> None:
    path = written(tmp_path, "wide.tsv", "step\tbase-1\tpost-1\n1\t2.5\t2.6\n2\t2\tinf\n")
    logs = read(path, wide=True, seed_pattern=r"-(\d)$")
    assert losses(logs)["base", 1] == {1: 2.5, 2: 2.0}
    assert [run.status for run in logs.runs] == ["finished", "diverged"]


def test_several_columns_of_variants(tmp_path: Path) -> None:
    text = "norm,warmup,seed,step,loss\n" + rows([1, 2], [2, 1], "pre,True,1") + rows([1, 2], [2, 1], "post,True,1")
    logs = read(written(tmp_path, "steps.csv", text), variant=("norm", "warmup"))
    assert logs.variants == ("norm=pre, warmup=True", "norm=post, warmup=True")


# --- Steps that are not 1, 2, 3, ... --------------------------------------------------------------------------------


def test_a_restart_replaces_what_was_logged_after_its_checkpoint(tmp_path: Path) -> None:
    text = LONG + rows([1, 2, 3, 4, 5, 3, 4, 5, 6], [9, 8, 7, 99, 99, 6, 5, 4, 3])
    logs = read(written(tmp_path, "steps.csv", text))
    assert losses(logs)["base", 1] == {1: 9, 2: 8, 3: 6, 4: 5, 5: 4, 6: 3}
    assert "a restart" in " ".join(logs.notes)


def test_steps_beyond_a_later_restart_do_not_stay(tmp_path: Path) -> None:
    """A first try came to step 6, was restarted at 3 and again, and ended at 7: step 6 of the first is none of it."""
    text = LONG + rows([1, 2, 3, 4, 5, 6, 3, 4, 7], [9, 8, 7, 99, 99, 99, 6, 5, 4])
    assert losses(read(written(tmp_path, "steps.csv", text)))["base", 1] == {1: 9, 2: 8, 3: 6, 4: 5, 7: 4}


def test_a_short_first_try_gives_way_and_a_whole_one_is_refused(tmp_path: Path) -> None:
    logs = read(written(tmp_path, "steps.csv", LONG + rows([1, 2, 1, 2, 3], [9, 9, 2, 1, 0.5])))
    assert losses(logs)["base", 1] == {1: 2, 2: 1, 3: 0.5}
    message = refused(written(tmp_path, "steps.csv", LONG + rows([1, 2, 3, 1, 2, 3], [9, 9, 9, 2, 1, 0.5])))
    assert 'base" with seed "1" stands more than once' in message
    assert "--variant" in message
    twice = LONG + rows([1, 1, 2, 2, 3, 3], [9, 2, 9, 1, 9, 0.5])
    assert "most of its steps more than once" in refused(written(tmp_path, "steps.csv", twice))


def test_steps_in_no_order_are_sorted(tmp_path: Path) -> None:
    text = LONG + rows([1, 10, 11, 2, 3], [5, 1, 0, 4, 3])
    logs = read(written(tmp_path, "steps.csv", text))
    assert list(losses(logs)["base", 1].items()) == [(1, 5), (2, 4), (3, 3), (10, 1), (11, 0)]
    assert "in no order" in " ".join(logs.notes)


def test_different_intervals_become_alike(tmp_path: Path) -> None:
    text = LONG + rows(range(1, 101), range(1, 101)) + rows(range(50, 101, 10), range(6), "post,1")
    logs = read(written(tmp_path, "steps.csv", text))
    assert [run.every for run in logs.runs] == [10, 10]
    assert losses(logs)["base", 1] == {t: t for t in range(10, 101, 10)}
    assert "every 1 to every 10 steps" in " ".join(logs.notes)


def test_losses_every_fifty_steps_are_said(tmp_path: Path) -> None:
    logs = read(written(tmp_path, "steps.csv", LONG + rows(range(50, 501, 50), range(10))))
    assert one(logs).every == 50
    assert one(logs).steps == 500
    assert "every 50 steps" in " ".join(logs.notes)


def test_a_sample_of_steps_has_no_interval_of_one(tmp_path: Path) -> None:
    steps = np.sort(np.random.default_rng(0).choice(np.arange(1, 5000), 1000, replace=False))
    logs = read(written(tmp_path, "steps.csv", LONG + rows(steps.tolist(), [1] * 1000)))
    assert one(logs).every >= 2
    assert "irregular" in " ".join(logs.notes)


def test_a_shorter_run_without_a_status_is_said_and_with_one_is_read(tmp_path: Path) -> None:
    long, short = list(range(1, 101)), list(range(1, 41))
    text = LONG + rows(long, long) + rows(short, short, "post,1")
    logs = read(written(tmp_path, "steps.csv", text))
    assert [run.status for run in logs.runs] == ["finished", "finished"]
    assert [run.steps for run in logs.runs] == [100, 40]
    assert "step 40 of 100" in " ".join(logs.notes)
    stated = "".join(f"{line},{'killed' if 'post' in line else 'done'}\n" for line in text.splitlines()[1:])
    logs = read(written(tmp_path, "steps.csv", "variant,seed,step,loss,status\n" + stated))
    assert [run.status for run in logs.runs] == ["finished", "killed"]
    assert [run.steps for run in logs.runs] == [100, 100]


def test_gaps_are_counted(tmp_path: Path) -> None:
    steps = [t for t in range(1, 101) if t not in (40, 41, 42)]
    logs = read(written(tmp_path, "steps.csv", LONG + rows(steps, steps)))
    assert one(logs).every == 1
    assert "3 steps in 1 run have no loss" in " ".join(logs.notes)


# --- Faults ---------------------------------------------------------------------------------------------------------


def test_all_faults_of_the_cells_come_at_once(tmp_path: Path) -> None:
    text = "variant,seed,step,loss\nbase,1,0.5,2\nbase,1,2,high\nbase,,3,1\n"
    message = refused(written(tmp_path, "steps.csv", text))
    assert "step is " in message
    assert '"high", which is no number' in message
    assert '"seed" is empty (line 4)' in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty: a header and one row per run and step are needed"),
        (LONG, "no rows: one row per run and step is needed"),
        ("variant,seed,iteration,loss\nbase,1,1,2\n", "--step"),
        ("variant,seed,step,train_loss\nbase,1,1,2\n", "--loss"),
        ("variant,seed,step,loss\nbase,1,1,low\n", "--loss"),
        ("variant,seed,step,loss,State\nbase,1,1,2,crashed\n", "is not read"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused(written(tmp_path, "steps.csv", text))


def test_a_folder_without_files_is_named(tmp_path: Path) -> None:
    assert "a folder without a CSV" in refused(tmp_path)


def test_an_earlier_report_in_the_folder_is_not_read(tmp_path: Path) -> None:
    written(tmp_path, "steps.csv", LONG + rows([1, 2], [2, 1]))
    written(tmp_path, "steps_curves/analysis.json", "{}")
    written(tmp_path, "steps_curves/figures/loss_curves.csv", "variant,seed\n")
    assert len(read(tmp_path).runs) == 1
