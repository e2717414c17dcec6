"""The command line's arguments and options that several commands share, and its exit codes."""

import enum
from pathlib import Path
from typing import Annotated

import typer

FINISHED, MISSING, USER_FAULT, BUDGET_SPENT, OUTPUT_LOST, INTERRUPTED = 0, 1, 2, 3, 4, 128

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="A study file. `knockout init` writes an example.")]


def folder_of(given: Path) -> Path:
    """The results folder that a study's folder, file or name stands for."""
    below = Path("results") / (given.stem if given.suffix == ".toml" else given)
    is_name = given.suffix == ".toml" or given.parent == Path()
    is_study = (given / "design.json").exists()
    return below if is_name and not is_study and below.is_dir() else given


StudyFolder = Annotated[
    Path,
    typer.Argument(
        metavar="STUDY",
        callback=folder_of,
        help="A study's results folder, such as results/first_study; or its name or file, for results/NAME.",
    ),
]

Figures = Annotated[
    list[str] | None,
    typer.Option(
        "--figures",
        metavar="FORMAT",
        help="Write the figures as pdf or png too, beside the SVG files. Can be repeated.",
    ),
]

Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Replace a value of the study file, such as train.epochs=1. Can be repeated. The results go to the same"
        " folder, unless --results names another.",
    ),
]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors and the last line only.")]

Open = Annotated[bool, typer.Option("--open", help="Open the report in the browser.")]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead, for scripts (docs/json.md).")]


class Unit(enum.StrEnum):
    """The choices of `compare`'s unit, as typer wants them."""

    share = "share"
    percent = "percent"
    raw = "raw"


class Tokens(enum.StrEnum):
    """The values of `DataSpec.tokens`, as an enum for typer."""

    word = "word"
    char = "char"
    bpe = "bpe"
