"""The source of a trainer: which files count, and which edits."""

import sys
from pathlib import Path

import pytest

from knockout.strict import FaultsError
from knockout.study import read_study
from knockout.trainer_source import trainer_source

TRAINER = '''"""Mine."""
from dataclasses import dataclass
import json, numpy
import helper_of_mine
from knockout.job import Outcome

VERSION = 1
RATE = 1e-2

@dataclass(frozen=True, kw_only=True)
class Factors:
    """All of them."""
    deep: bool = True

def train(job):
    return helper_of_mine.answer(job)
'''
HELPER = "def answer(job):\n    from mine_package.inner import deeper\n    return []\n"
STUDY = (
    'question = "q?"\ntrainer = "trainer_of_mine:train"\nvariants = ["flat"]\nseeds = 3\n[variant.flat]\ndeep = false\n'
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trainer, a module beside it, and a package that this one imports inside a function."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    write(tmp_path / "trainer_of_mine.py", TRAINER)
    write(tmp_path / "helper_of_mine.py", HELPER)
    write(tmp_path / "mine_package" / "__init__.py", "")
    write(tmp_path / "mine_package" / "inner.py", "from .innermost import deeper\n")
    write(tmp_path / "mine_package" / "innermost.py", "deeper = 3\n")
    write(tmp_path / "mine_package" / "unrelated.py", "x = 1\n")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_it_is_the_module_and_what_it_imports_of_the_users_own(folder: Path) -> None:
    assert set(trainer_source("trainer_of_mine:train", [folder]).files) == {
        "trainer_of_mine", "helper_of_mine", "mine_package", "mine_package.inner", "mine_package.innermost"
    }  # fmt: skip
    assert str(folder) not in sys.path


@pytest.mark.parametrize(
    ("file", "before", "after", "counts"),
    [
        ("trainer_of_mine.py", "1e-2", "1e-1", True),
        ("trainer_of_mine.py", "deep: bool = True", "deep: bool = False", True),
        ("helper_of_mine.py", "return []", "return [None]", True),
        ("mine_package/innermost.py", "3", "None", True),
        ("mine_package/unrelated.py", "1", "2", False),
        ("trainer_of_mine.py", "RATE = 1e-2", "RATE = 0.01  # as in the paper\n\n", False),
        ("trainer_of_mine.py", '"""Mine."""', '"""Still mine."""', False),
        ("trainer_of_mine.py", '    """All of them."""\n', "", False),
    ],
)
def test_which_edits_count(folder: Path, file: str, before: str, after: str, counts: bool) -> None:
    was = trainer_source("trainer_of_mine:train", [folder]).sha256
    path = folder / file
    assert before in path.read_text(encoding="utf-8")
    write(path, path.read_text(encoding="utf-8").replace(before, after))
    assert len(was) == 64
    assert (trainer_source("trainer_of_mine:train", [folder]).sha256 != was) == counts


def test_the_built_in_trainer_is_represented_by_its_version() -> None:
    assert trainer_source("knockout.train:train").sha256 == ""


def test_a_trainer_beside_the_study_is_read_from_any_folder(folder: Path) -> None:
    write(folder / "mine.toml", STUDY)
    before = list(sys.path)
    study = read_study(folder / "mine.toml")
    assert study.trainer.source.sha256 == trainer_source("trainer_of_mine:train", [folder]).sha256
    assert sys.path == before


def test_in_the_current_folder_it_is_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "studies" / "mine.toml", STUDY)
    monkeypatch.chdir(folder)
    assert read_study(folder / "studies" / "mine.toml").trainer.version == 1


def test_an_edit_and_another_folders_module_of_the_same_name_are_imported_anew(folder: Path) -> None:
    write(folder / "mine.toml", STUDY)
    first = read_study(folder / "mine.toml").trainer
    assert read_study(folder / "mine.toml").trainer.factors is first.factors
    write(folder / "trainer_of_mine.py", TRAINER.replace("VERSION = 1", "VERSION = 23"))
    assert read_study(folder / "mine.toml").trainer.version == 23
    other = folder / "other"
    write(other / "trainer_of_mine.py", TRAINER.replace("VERSION = 1", "VERSION = 345"))
    write(other / "mine.toml", STUDY)
    write(other / "helper_of_mine.py", "answer = None\n")
    assert read_study(other / "mine.toml").trainer.version == 345


def faults(path: Path) -> str:
    with pytest.raises(FaultsError) as caught:
        read_study(path)
    return str(caught.value)


def test_a_module_that_is_nowhere_names_the_folders(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere/else")
    write(folder / "mine.toml", STUDY.replace("trainer_of_mine:", "trainer_of_mien:"))
    said = faults(folder / "mine.toml")
    assert all(part in said for part in (str(folder), str(Path.cwd()), "PYTHONPATH (/nowhere/else)")), said
    write(folder / "mine.toml", STUDY.replace("trainer_of_mine:", "trainer_of_mine.py:"))
    assert 'did you mean "trainer_of_mine:train"' in faults(folder / "mine.toml")


def test_what_it_cannot_import_itself_is_told_apart(folder: Path) -> None:
    write(folder / "mine.toml", STUDY)
    write(folder / "trainer_of_mine.py", "import no_such_module_of_anyone\n" + TRAINER)
    said = faults(folder / "mine.toml")
    assert "install what it imports" in said
    assert f"{folder / 'trainer_of_mine.py'}, line 1" in said


@pytest.mark.parametrize("name", ["json", "numpy"])
def test_a_file_with_the_name_of_another_module_is_refused(folder: Path, name: str) -> None:
    write(folder / f"{name}.py", TRAINER)
    write(folder / "mine.toml", STUDY)  # its trainer imports a module of that name
    said = faults(folder / "mine.toml")
    assert f"{folder / name}.py is not what is imported" in said
    write(folder / "mine.toml", STUDY.replace("trainer_of_mine:", f"{name}:"))
    assert f"{folder / name}.py is not what is imported" in faults(folder / "mine.toml")


def test_an_unrelated_file_of_that_name_is_not(folder: Path) -> None:
    write(folder / "decimal.py", "")
    write(folder / "mine.toml", STUDY)
    assert read_study(folder / "mine.toml").trainer.version == 1
