"""Studies of the toy trainer, run by the command line: in the test's process, or in the background to be killed."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from knockout.ledger import Ledger, read_ledger
from tests.command_line import knockout

REPOSITORY = Path(__file__).parents[2]
TRAINERS = str(REPOSITORY / "tests" / "trainers")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (TRAINERS, os.environ.get("PYTHONPATH"))))}
COMMAND = (sys.executable, "-m", "knockout")

WriteToy = Callable[..., Path]


@pytest.fixture
def toy(tmp_path: Path) -> WriteToy:
    """Write a study of the toy trainer and return its file."""

    def write(
        *, variants: tuple[str, ...] = ("up", "down"), seeds: int | str = 3, extra: str = "", **recipe: float
    ) -> Path:
        lines = "\n".join(f"{key} = {value}" for key, value in recipe.items())
        path = tmp_path / "toy.toml"
        names = ", ".join(f'"{v}"' for v in variants)
        path.write_text(
            f'question = "a toy?"\ntrainer = "toy_trainer:train"\nvariants = [{names}]\nseeds = {seeds}\n'
            f'{extra}\n[train]\nmarks = "{tmp_path}"\n{lines}\n',
            encoding="utf-8",
        )
        return path

    return write


def command(study: Path, *options: str) -> list[str]:
    return [*COMMAND, "run", str(study), "--results", str(study.parent / "results"), *options]


def run(study: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """`knockout run` of the study; its results go beside its file."""
    return knockout(*command(study, *options)[len(COMMAND) :], cwd=study.parent)


def start(study: Path, *options: str, output: str = "output.txt") -> subprocess.Popen[bytes]:
    """The same in a process in the background, leader of a process group of its own; its output goes into a file."""
    with (study.parent / output).open("wb") as file:
        return subprocess.Popen(
            command(study, *options), env=ENVIRONMENT, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )


def printed(study: Path, output: str = "output.txt") -> str:
    return (study.parent / output).read_text(encoding="utf-8")


def root_of(study: Path) -> Path:
    return study.parent / "results" / study.stem


def ledger_of(study: Path) -> Ledger:
    return read_ledger(root_of(study))


def starts(study: Path) -> Counter[tuple[str, int]]:
    """(variant, seed) -> how often its training was started, from the log that the workers keep."""
    path = root_of(study) / "starts.log"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    fields = [line.split("\t") for line in lines]
    return Counter((f[2], int(f[3])) for f in fields)


def numbers(study: Path) -> dict[tuple[str, int], tuple[object, ...]]:
    """What each record says, without what differs between reruns."""
    return {
        (str(r.config["variant"]), int(r.config["seed"])): (
            r.status,
            str(r.outcome["metrics"]),
            str(r.table("curve").to_pydict()),
        )
        for r in ledger_of(study).records.values()
    }
