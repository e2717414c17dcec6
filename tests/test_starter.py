"""The starter study: whole, right, and with a word on every key."""

import dataclasses
import re
import tomllib
from pathlib import Path

import pytest

from knockout.job import DataSpec
from knockout.starter import write_starter
from knockout.strict import FaultsError
from knockout.study import Budget, Claim, RunSpec, default_plan_text, read_study
from knockout.variants import Recipe


def test_it_reads_without_fault_and_its_values_are_the_defaults(tmp_path: Path) -> None:
    study_path, plan_path = write_starter(tmp_path / "new")
    study = read_study(study_path)
    assert plan_path.read_text(encoding="utf-8") == default_plan_text() == study.plan_text
    assert study.baseline.recipe == Recipe()
    assert study.run == RunSpec()
    assert study.data == DataSpec(source="rotten_tomatoes")
    assert study.variants == ("no_position", "heads_1", "heads_4")


@pytest.mark.parametrize(
    ("table", "cls"), [("data", DataSpec), ("run", RunSpec), ("budget", Budget), ("claims", Claim)]
)
def test_every_key_stands_in_it_with_a_word(table: str, cls: type, tmp_path: Path) -> None:
    text = write_starter(tmp_path)[0].read_text(encoding="utf-8")
    value = tomllib.loads(text)[table]
    keys = value[0] if isinstance(value, list) else value
    assert list(keys) == [f.name for f in dataclasses.fields(cls)]


def test_the_recipe_and_the_top_are_whole_and_most_lines_carry_a_comment(tmp_path: Path) -> None:
    text = write_starter(tmp_path)[0].read_text(encoding="utf-8")
    told = tomllib.loads(text)
    assert {*told["model"], *told["train"]} == {f.name for f in dataclasses.fields(Recipe)}
    assert {"question", "variants", "seeds", "trainer", "plan"} <= set(told)
    lines = [line for line in text.splitlines() if re.match(r"\w+ = ", line)]
    assert sum("#" in line for line in lines) >= 0.6 * len(lines)


@pytest.mark.parametrize("trainer", [False, True])
def test_each_name_may_be_taken_out_of_its_variants(trainer: bool, tmp_path: Path) -> None:
    path = write_starter(tmp_path, trainer=trainer)[0]
    names = read_study(path).variants
    for name in names:
        left = [n for n in names if n != name]
        study = read_study(path, [f"variants={left}"])
        assert study.variants == tuple(left)
        assert all(claim.variant in left for claim in study.claims)
        assert all(name in line for line in study.unused)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text("mine", encoding="utf-8")
    with pytest.raises(FaultsError, match=r"already there: plan.toml"):
        write_starter(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["plan.toml"]
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(FaultsError, match="is a file"):
        write_starter(file)
