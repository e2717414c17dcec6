"""One refusal lists all that is missing, and its command, copied, compares the file."""

import csv
import itertools
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
import pytest

from knockout.analysis.external.asked import Asked
from knockout.analysis.external.guesses import seed_pattern_of
from knockout.analysis.external.runs import RunColumns
from knockout.analysis.external.suggest import Refused, report_or_suggest
from knockout.errors import UserError
from tests.command_line import knockout

JITTER = (0.004, -0.003, 0.001, 0.002, -0.002, 0.0)
ARMS = {"base": 0.80, "no x": 0.77, "it's $HOME": 0.83}

Rows = Sequence[Sequence[object]]


def wandb() -> Rows:
    head = ["Name", "State", "Notes", "User", "Created", "Runtime", "Group", "seed", "lr", "val/acc", "val/loss"]
    rows = [
        [
            f"sun-{v}-{s}",
            "crashed" if (v, s) == ("no x", 3) else "finished",
            "-",
            "ada",
            "2026",
            60 + s,
            v,
            s,
            0.001,
            level + JITTER[s],
            1 - level,
        ]
        for v, level in ARMS.items()
        for s in range(6)
    ]
    return [head, *rows]


def configured() -> Rows:
    rows = [
        [f"run-{i}", "finished", 61 + i, residual, heads, s, 0.8 - 0.03 * (residual == "False") + JITTER[s] / heads]
        for i, (residual, heads, s) in enumerate(itertools.product(("True", "False"), (8, 1), range(5)))
    ]
    return [["Name", "State", "Runtime", "use_residual", "num_heads", "seed", "test/accuracy"], *rows]


def named() -> Rows:
    return [["run", "bleu"], *([f"{v}_seed{s}", 30 * x + JITTER[s]] for v, x in ARMS.items() for s in range(6))]


def bare() -> Rows:
    return [["model", "acc"], *([v, x + jitter] for v, x in ARMS.items() for jitter in JITTER)]


def wide() -> Rows:
    return [["seed", *ARMS], *([s, *(x + JITTER[s] * (1 + i) for i, x in enumerate(ARMS.values()))] for s in range(6))]


def wide_by_seed() -> Rows:
    return [["model", *(f"seed{s}" for s in range(6))], *([v, *(x + j for j in JITTER)] for v, x in ARMS.items())]


def odd() -> Rows:
    rows = [
        [v, s, 40 * x + JITTER[s] * i, "stopped" if (i, s) == (2, 1) else "FINISHED"]
        for i, (v, x) in enumerate(ARMS.items())
        for s in range(6)
    ]
    return [["group", "seed", "goodness", "status"], *rows]


def percent() -> Rows:
    rows = [[v, s, 100 * x + JITTER[s] * i] for i, (v, x) in enumerate(ARMS.items()) for s in range(6)]
    return [["variant", "seed", "accuracy"], *rows]


def tasks() -> Rows:
    rows = [
        [v, s, d, x + JITTER[s] * (1 + i)]
        for i, (v, x) in enumerate(ARMS.items())
        for s in range(6)
        for d in ("sst", "imdb")
    ]
    return [["variant", "seed", "dataset", "accuracy"], *rows]


def without(rows: Rows, *columns: str) -> Rows:
    head = [i for i, name in enumerate(rows[0]) if name not in columns]
    return [[row[i] for i in head] for row in rows]


def unseeded() -> Rows:
    """A table of W&B whose names, run-0 to run-19, count its runs."""
    return without(configured(), "seed")


def unseeded_sun() -> Rows:
    head, *rows = unseeded()
    words = ("dauntless-sun", "calm-sea", "old-owl", "brisk-moon", "odd-hill")
    return [head, *([f"{words[i % 5]}-{i + 1}", *row[1:]] for i, row in enumerate(rows))]


def unseeded_group() -> Rows:
    return without(wandb(), "seed")


def renamed(rows: Rows, **names: str) -> Rows:
    return [[names.get(str(name), name) for name in rows[0]], *rows[1:]]


ARCHITECTURES = {"base": "lstm", "no x": "gru", "it's $HOME": "cnn"}


def wide_of_any_name() -> Rows:
    return renamed(wide(), **ARCHITECTURES)


def wide_by_run() -> Rows:
    return renamed(wide(), seed="run", **ARCHITECTURES)


def wide_without_seeds() -> Rows:
    return without(wide_of_any_name(), "seed")


def wide_with_an_index() -> Rows:
    return renamed(wide(), seed="", **ARCHITECTURES)


def wide_of_losses() -> Rows:
    return renamed(wide(), **{"no x": "no loss weight", "it's $HOME": "acc head"})


EXPORTS = {
    "wandb": (wandb, ["--variant", "--metric", "--status", "--baseline"]),
    "configured": (configured, ["--variant", "--metric", "--baseline"]),
    "named": (named, ["--variant", "--seed-pattern", "--metric", "--baseline", "--margin"]),
    "bare": (bare, ["--variant", "--unpaired", "--metric", "--baseline"]),
    "wide": (wide, ["--wide", "--baseline"]),
    "wide by seed": (wide_by_seed, ["--wide", "--variant", "--baseline"]),
    "odd": (
        odd,
        ["--variant", "--metric", "--status WORD=STATUS", "--baseline", "--higher-is-better", "--margin"],
    ),
    "percent": (percent, ["--baseline", "--unit"]),
    "tasks": (tasks, ["--seed", "--baseline"]),
    "unseeded": (unseeded, ["--variant", "--unpaired", "--metric", "--baseline"]),
    "unseeded sun": (unseeded_sun, ["--variant", "--unpaired", "--metric", "--baseline"]),
    "unseeded group": (unseeded_group, ["--variant", "--unpaired", "--metric", "--status", "--baseline"]),
    "wide of any name": (wide_of_any_name, ["--wide", "--baseline"]),
    "wide by run": (wide_by_run, ["--wide", "--seed", "--baseline"]),
    "wide without seeds": (wide_without_seeds, ["--wide", "--unpaired", "--baseline"]),
    "wide with an index": (wide_with_an_index, ["--wide", "--unpaired", "--baseline"]),
    "wide of losses": (wide_of_losses, ["--wide", "--baseline"]),
}


def write(path: Path, rows: Rows) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


@pytest.mark.parametrize("name", EXPORTS)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_two_commands_compare_any_export(name: str, ending: str, tmp_path: Path) -> None:
    made, options = EXPORTS[name]
    path = tmp_path / f"my runs.{ending}"
    rows = made()
    if ending == "csv":
        write(path, rows)
    else:
        pd.DataFrame(rows[1:], columns=pd.Index(map(str, rows[0]))).to_parquet(path)
    first = knockout("compare", path.name, cwd=tmp_path)
    assert first.returncode == 2
    lines = first.stderr.splitlines()
    assert [line.split(":")[0].strip() for line in lines if line.startswith("  --")] == options
    command = shlex.split(lines[-1])
    assert command[0] == "knockout"
    second = knockout(*command[1:], cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    variants = len(pd.read_csv(tmp_path / "my runs_report" / "contrasts.csv"))
    assert variants == (3 if name in ("configured", "unseeded", "unseeded sun") else 2)


GIVEN: Mapping[str, tuple[Rows, Sequence[str], Sequence[str]]] = {
    "one column of the configuration": (
        renamed(configured(), seed="config.seed"),
        ["--variant", "use_residual"],
        ["--seed", "--variant", "--metric", "--baseline"],
    ),
    "and a run that was tried twice": (
        [*configured(), ["run-99", "crashed", 3, "True", 8, 0, ""]],
        ["--variant", "use_residual"],
        ["--variant", "--metric", "--status", "--baseline"],
    ),
    "the name of each run": (
        unseeded(),
        ["--variant", "Name"],
        ["--variant", "--unpaired", "--metric", "--baseline"],
    ),
    "wide, and no more": (wide_by_run(), ["--wide"], ["--seed", "--baseline"]),
    "wide by seed, and no more": (wide_by_seed(), ["--wide"], ["--variant", "--baseline"]),
    "wide, and a baseline": (wide_by_run(), ["--baseline", "gru"], ["--wide", "--seed"]),
}


@pytest.mark.parametrize("name", GIVEN)
def test_what_was_given_stays_in_the_command_that_works(name: str, tmp_path: Path) -> None:
    rows, words, options = GIVEN[name]
    write(tmp_path / "runs.csv", rows)
    first = knockout("compare", "runs.csv", *words, cwd=tmp_path)
    lines = first.stderr.splitlines()
    assert [line.split(":")[0].strip() for line in lines if line.startswith("  --")] == options
    second = knockout(*shlex.split(lines[-1])[1:], cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    assert len(pd.read_csv(tmp_path / "runs_report" / "contrasts.csv")) == (3 if "num_heads" in rows[0] else 2)


def test_a_baseline_that_is_merely_the_first_is_called_so(tmp_path: Path) -> None:
    write(tmp_path / "runs.csv", wide_of_any_name())
    told = str(refusal(tmp_path / "runs.csv", baseline=""))
    assert 'perhaps "lstm", only because it is the first: name another one if it is not' in told
    write(tmp_path / "runs.csv", wide())
    assert 'perhaps "base", by its name' in str(refusal(tmp_path / "runs.csv", baseline=""))


def test_where_nothing_names_a_variant_the_baseline_is_listed_too(tmp_path: Path) -> None:
    write(tmp_path / "runs.csv", without(unseeded(), "use_residual", "num_heads"))
    told = str(refusal(tmp_path / "runs.csv", baseline=""))
    assert "  --baseline: not named: the variant that all others are compared with" in told
    assert "After that remains: " in told
    assert 'no column "variant"' in told


def refusal(path: Path, *, baseline: str, columns: RunColumns | None = None) -> Refused:
    with pytest.raises(Refused) as caught:
        report_or_suggest(Asked(source=path, baseline=baseline, columns=columns or RunColumns()))
    return caught.value


def test_one_of_several_configuration_columns_is_refused_and_the_others_named(tmp_path: Path) -> None:
    """The last of several was used silently; one alone stands for several variants."""
    path = tmp_path / "runs.csv"
    write(path, configured())
    told = refusal(path, baseline="True", columns=RunColumns(variant="use_residual", metric="test/accuracy"))
    assert "--variant use_residual --variant num_heads" in told.command


@pytest.mark.parametrize("baseline", [("use_residual=true", "num_heads=8.0"), ("num_heads=8, use_residual=True",)])
def test_the_baseline_of_combinations_is_named_by_columns_and_values(baseline: Sequence[str], tmp_path: Path) -> None:
    write(tmp_path / "runs.csv", configured())
    words = [word for value in baseline for word in ("--baseline", value)]
    both = ("--variant", "use_residual", "--variant", "num_heads", "--metric", "test/accuracy")
    done = knockout("compare", "runs.csv", *both, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / "runs_report" / "contrasts.csv")
    assert "use_residual=True, num_heads=8" not in table["variant"].tolist()
    assert len(table) == 3


def test_a_baseline_that_fits_several_combinations_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    write(path, configured())
    columns = RunColumns(configuration=("use_residual", "num_heads"), metric="test/accuracy")
    told = refusal(path, baseline="num_heads=8", columns=columns)
    assert "use_residual=True, num_heads=8, use_residual=False, num_heads=8 all have num_heads=8" in str(told)
    assert "--baseline 'use_residual=True, num_heads=8'" in told.command


def test_what_no_guess_mends_stays_in_the_message(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    write(path, [["Group", "seed", "accuracy"], ["base", 1, 0.8], ["base", 2, "x"], ["v", 1, 0.7], ["v", 2, 0.7]])
    told = refusal(path, baseline="base")
    assert "line 3" in str(told)
    assert "After that remains" in str(told)
    assert told.command.endswith("--baseline base --variant Group")


def test_an_error_that_needs_no_option_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    with pytest.raises(UserError, match="no such file"):
        report_or_suggest(Asked(source=path, baseline="base"))
    with pytest.raises(UserError, match="no such file"):
        report_or_suggest(Asked(source=path))
    write(path, [["variant", "seed", "accuracy"], ["base", 1, 0.8], ["base", 1, 0.81], ["v", 1, 0.7]])
    with pytest.raises(UserError, match="and all ended") as caught:
        report_or_suggest(Asked(source=path, baseline="base"))
    assert not isinstance(caught.value, Refused)


def test_names_cannot_break_out_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "-runs; rm x.csv"
    evil = "$(touch pwned) `id` \"'; #"
    write(path, [["Group", "seed", "accuracy"], *([v, s, 0.8 + s / 100] for v in (evil, "-v") for s in range(4))])
    asked = Asked(source=Path(path.name), baseline=evil, columns=RunColumns(variant="-v\n"), margin=0.5)
    words = shlex.split(asked.command())
    assert words[2] == f"./{path.name}"
    assert words[words.index("--baseline") + 1] == evil
    assert "--variant=-v\n" in words
    assert words[-2:] == ["--margin", "0.5"]


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (["base_seed1", "base_seed2", "v_seed1", "v_seed2"], r"_seed(\d+)$"),
        (["base-seed=1", "base-seed=2", "v Seed 1", "v Seed 2"], ""),
        (["base-s1", "base-s2", "v-s1", "v-s2"], r"\-s(\d+)$"),
        (["base_1", "base_2", "v_1", "v_2"], r"_(\d+)$"),
        (["brisk-sun-1", "calm-sea-2", "old-owl-3"], ""),
        (["base", "base", "v"], ""),
        (["run-0", "run-1", "run-2"], ""),
        (["calm-sun-1", "calm-sun-2", "old-owl-3", "old-owl-4"], ""),
        (["heads8", "heads4", "heads2", "heads1"], ""),
    ],
)
def test_names_that_look_like_a_variant_and_a_seed(names: list[str], pattern: str) -> None:
    assert seed_pattern_of(names) == pattern


def test_columns_in_a_list_with_commas_are_named_one_by_one(tmp_path: Path) -> None:
    write(tmp_path / "runs.csv", configured())
    given = ("--variant", "use_residual,num_heads", "--baseline", "use_residual=True,num_heads=8", "--metric", "acc")
    done = knockout("compare", "runs.csv", *given, cwd=tmp_path)
    assert done.returncode == 2
    assert "repeat the option for each of several columns" in done.stderr
    assert "--variant use_residual --variant num_heads" in done.stderr


def test_three_ways_to_seeds_exclude_each_other(tmp_path: Path) -> None:
    write(tmp_path / "runs.csv", percent())
    done = knockout("compare", "runs.csv", "--unpaired", "--seed", "seed", cwd=tmp_path)
    assert (done.returncode, done.stderr.strip()) == (
        2,
        "knockout: --seed and --unpaired exclude each other: name one of them",
    )


def test_an_unpaired_comparison_is_labelled_on_the_terminal_and_in_the_report(tmp_path: Path) -> None:
    write(tmp_path / "runs.csv", percent())
    done = knockout("compare", "runs.csv", "--baseline", "base", "--unit", "percent", "--unpaired", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "unpaired" in done.stdout.splitlines()[0]
    assert "Unpaired: nothing says which runs share a seed" in done.stdout
    assert '"seed" was not read: an unpaired comparison was asked for. Paired is stronger.' in done.stdout
    assert "Minimum detectable" in done.stdout.splitlines()[0]
    table = pd.read_csv(tmp_path / "runs_report" / "contrasts.csv")
    assert (table["detectable_first"] > table["detectable"]).all()
    page = (tmp_path / "runs_report" / "report.md").read_text(encoding="utf-8")
    assert "Minimum detectable: the smallest difference that Welch's test" in page
    assert page.startswith("# Unpaired comparison of runs.csv")
    assert "paired t test" not in page.replace("unpaired t test", "")
