"""What the documents say of keys, commands and files is what there is."""

import dataclasses
import re
from pathlib import Path

import pytest

from knockout.job import DataSpec
from knockout.strict import FaultsError
from knockout.study import Budget, Claim, Plan, RunSpec, read_study
from knockout.variants import Factors, Recipe

REPOSITORY = Path(__file__).parents[1]


def documented(text: str) -> dict[str, dict[str, str]]:
    """Heading in bold -> key -> default, from the tables of ablations/README.md."""
    tables: dict[str, dict[str, str]] = {}
    heading = "top"
    for line in text.splitlines():
        if found := re.match(r"\*\*`(.+?)`\*\*", line):
            heading = found[1]
        elif found := re.match(r"\| ((?:`\w+`(?:, )?)+) \| (.+?) \|", line):
            keys = re.findall(r"`(\w+)`", found[1])
            values = found[2].split(", ") if len(keys) > 1 else [found[2]]
            tables.setdefault(heading, {}).update(dict(zip(keys, values, strict=True)))
    return tables


@pytest.mark.parametrize(
    ("heading", "cls"),
    [
        ("[data]", DataSpec),
        ("[run]", RunSpec),
        ("[budget]", Budget),
        ("[[claims]]", Claim),
        ("[variant.NAME]", Factors),
    ],
)
def test_every_key_and_its_default_is_explained(heading: str, cls: type) -> None:
    told = documented((REPOSITORY / "ablations" / "README.md").read_text(encoding="utf-8"))[heading]
    assert list(told) == [f.name for f in dataclasses.fields(cls)]
    for field in dataclasses.fields(cls):
        _same(told[field.name], field)


def test_every_key_of_a_plan_is_explained() -> None:
    text = (REPOSITORY / "analysis" / "README.md").read_text(encoding="utf-8")
    told = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.+?) \|", text.split("## The verdict")[0], re.MULTILINE)))
    assert sorted(told) == sorted(f.name for f in dataclasses.fields(Plan))


def test_every_key_at_the_top_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text("zzz = 1\n", encoding="utf-8")
    with pytest.raises(FaultsError) as caught:
        read_study(path)
    (allowed,) = [fault.allowed for fault in caught.value.faults if fault.key == "zzz"]
    told = documented((REPOSITORY / "ablations" / "README.md").read_text(encoding="utf-8"))
    tables = {heading.strip("[]").removesuffix(".NAME") for heading in told if heading != "top"}
    assert {*told["top"], *tables} == set(allowed.split(", "))


def test_the_recipe_is_explained_where_its_keys_stand() -> None:
    told = documented((REPOSITORY / "ablations" / "README.md").read_text(encoding="utf-8"))
    for heading in ("model", "train"):
        fields = [f for f in dataclasses.fields(Recipe) if f.metadata.get("section", "train") == heading]
        assert list(told[f"[{heading}]"]) == [f.name for f in fields]
        for field in fields:
            _same(told[f"[{heading}]"][field.name], field)


def _same(text: str, field: "dataclasses.Field[object]") -> None:
    if text == "must be given":
        assert field.default in (dataclasses.MISSING, ""), field.name
        return
    value = text.strip('`"') if isinstance(field.default, str) else text.strip("`")
    default = field.default
    if isinstance(default, bool):
        assert value == str(default).lower(), field.name
    elif isinstance(default, int | float):
        assert float(value) == default, field.name
    elif isinstance(default, tuple):
        assert value == str(list(default)), field.name
    else:
        assert value == default, field.name


def test_every_make_target_that_the_readme_names_exists() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"make ([a-z-]+)", (REPOSITORY / "README.md").read_text(encoding="utf-8")))
    assert {"ablate", "test"} <= named <= targets
    assert {"setup", "report", "publish", "check", "bench", "clean"} <= targets


def test_every_file_that_a_document_points_to_exists() -> None:
    for document in (*REPOSITORY.glob("*.md"), *REPOSITORY.glob("*/*.md")):
        for target in re.findall(r"\]\((?!http|#)([^)#]+)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
