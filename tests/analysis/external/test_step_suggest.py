"""`knockout curves` refuses once, with all that is unclear and a command that works."""

import shlex
from pathlib import Path

import pytest

from knockout.analysis.external.step_asked import CurvesAsked
from knockout.analysis.external.step_points import StepColumns
from knockout.analysis.external.step_suggest import CurvesRefused, curves_or_suggest
from knockout.errors import UserError
from knockout.terminal import out
from tests.command_line import knockout

STEPS = 120
RUNS = [f"{variant}_seed{seed}" for variant in ("base", "no_warmup", "<b>post</b>") for seed in (1, 2, 3)]


def loss(run: str, step: int) -> float:
    """A curve that falls, with noise of the run's own; one variant begins far above."""
    noise = ((37 * step + 11 * RUNS.index(run)) % 17) / 170
    return 2.0 / (1 + step / 40) + noise + (3.0 if run.startswith("no_warmup") and step < 10 else 0.0)


def wandb_plot(folder: Path) -> Path:
    """W&B's page, a line plot, "Export as CSV"."""
    heads = [f'"{run} - train/loss{end}"' for run in RUNS for end in ("", "__MIN", "__MAX")]
    lines = [",".join(['"Step"', *heads])]
    lines += [",".join([f'"{t}"', *(f'"{loss(r, t)}"' for r in RUNS for _ in range(3))]) for t in range(STEPS)]
    return saved(folder / "wandb_export.csv", lines)


def wandb_history(folder: Path) -> Path:
    """wandb.Api().runs(...), each run's scan_history() with its name and state, joined and written by pandas."""
    lines = [",_step,_runtime,train/loss,train/grad_norm,lr,name,State,epoch"]
    rows = [(run, t) for run in RUNS for t in range(STEPS)]
    lines += [f"{i},{t},{t / 9},{loss(r, t)},1.5,0.001,{r},finished,{t // 50}" for i, (r, t) in enumerate(rows)]
    return saved(folder / "history.csv", lines)


def tensorboard(folder: Path) -> Path:
    """TensorBoard's page, scalars, one CSV for each run."""
    for run in RUNS:
        name = run.replace("<b>", "").replace("</b>", "")
        lines = [f"{1714637472 + t}.25,{t},{loss(run, t)}" for t in range(STEPS)]
        saved(folder / "scalars" / f"run-{name}-tag-loss.csv", ["Wall time,Step,Value", *lines])
    return folder / "scalars"


def mlflow(folder: Path) -> Path:
    """mlflow.MlflowClient().get_metric_history(run_id, key) of every run, under its name."""
    lines = ["run_id,key,value,step,timestamp"]
    for key in ("train_loss", "grad_norm"):
        lines += [f"{run},{key},{loss(run, t)},{t},{1714637472000 + t}" for run in RUNS for t in range(STEPS)]
    return saved(folder / "history.csv", lines)


def wide(folder: Path) -> Path:
    lines = [",".join(["step", *RUNS])]
    lines += [",".join([str(t), *(str(loss(run, t)) for run in RUNS)]) for t in range(STEPS)]
    return saved(folder / "wide.csv", lines)


def long(folder: Path) -> Path:
    lines = ["group;random_seed;global_step;nll"]
    for run in RUNS:
        variant, seed = run.rsplit("_seed", 1)
        lines += [f"{variant};{seed};{t};{loss(run, t)}".replace(".", ",") for t in range(STEPS)]
    return saved(folder / "long.csv", lines)


def saved(path: Path, lines: list[str]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("made", "options"),
    [
        (wandb_plot, ("--loss", "--seed-pattern", "--baseline")),
        (
            wandb_history,
            ("--step", "--loss", "--grad-norm", "--learning-rate", "--variant", "--seed-pattern", "--baseline"),
        ),
        (tensorboard, ("--seed-pattern", "--baseline")),
        (mlflow, ("--loss", "--seed-pattern", "--baseline")),
        (wide, ("--wide", "--seed-pattern", "--baseline")),
        (long, ("--step", "--loss", "--variant", "--seed", "--baseline")),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
@pytest.mark.long
def test_one_refusal_names_all_and_its_command_works(
    tmp_path: Path, made: object, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(made)
    monkeypatch.setattr(out, "width", 80)
    source = made(tmp_path)
    refused = knockout("curves", str(source), cwd=tmp_path)
    assert refused.returncode == 2
    with pytest.raises(CurvesRefused) as caught:
        curves_or_suggest(CurvesAsked(sources=(source,)))
    assert caught.value.options == options
    command = shlex.split(caught.value.command)
    assert command[:2] == ["knockout", "curves"]
    assert command[command.index("--baseline") + 1] == "base"
    done = knockout(*command[1:], cwd=tmp_path, COLUMNS="80")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 80
    assert "no_warmup" in done.stdout
    folder = source.with_name(f"{source.stem}_curves")
    assert {path.name for path in folder.iterdir()} >= {
        "report.html", "report.md", "analysis.json", "instability.csv", "instability_contrasts.csv", "figures",
    }  # fmt: skip
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<b>post" not in page


def test_what_no_guess_mends_comes_as_it_is(tmp_path: Path) -> None:
    path = saved(tmp_path / "steps.csv", ["variant,seed,step,loss", "base,1,1,high"])
    with pytest.raises(UserError, match="not a number") as caught:
        curves_or_suggest(CurvesAsked(sources=(path,), baseline="base"))
    assert not isinstance(caught.value, CurvesRefused)
    with pytest.raises(UserError, match="no such file"):
        curves_or_suggest(CurvesAsked(sources=(tmp_path / "absent.csv",)))


def test_a_command_is_quoted_and_leaves_defaults_out() -> None:
    asked = CurvesAsked(
        sources=(Path("-a b.csv"), Path("logs")),
        columns=StepColumns(variant=("norm", "warm up"), seed_pattern=r"_(\d+)$", status="", grad_norm="g"),
        baseline="norm=pre",
        statuses={"lost": "missing"},
        same_batches=False,
        clip_norm=1.0,
    )
    assert asked.command() == (
        "knockout curves './-a b.csv' logs --baseline norm=pre --variant norm --variant 'warm up'"
        r" --seed-pattern '_(\d+)$' --grad-norm g --status= --status lost=missing --clip-norm 1 --other-batches"
    )
