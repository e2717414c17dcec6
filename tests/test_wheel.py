"""The built wheel works where there is no repository."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(REPOSITORY)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = folder.glob("knockout-*.whl")
    return path


def test_it_holds_the_package_and_its_pages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    held = {n.removeprefix("knockout/") for n in names if n.startswith("knockout/")}
    source = REPOSITORY / "src" / "knockout"
    expected = {str(p.relative_to(source)) for p in source.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    pages = {
        p.relative_to(REPOSITORY).as_posix() for p in (REPOSITORY / "docs").iterdir() if p.suffix in (".md", ".json")
    }
    pages |= {"ablations/README.md", "analysis/README.md", "analysis/RULES.md", "results/README.md"}
    assert held == expected | {f"pages/{name}" for name in pages}
    assert {"plan.toml", "py.typed", "analysis/report/templates/report.html.j2"} <= held
    assert {n.split("/")[0].split("-")[0] for n in names} == {"knockout"}


def test_installed_elsewhere_it_reads_a_study_and_plans(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(target)
    study = tmp_path / "mine.toml"
    study.write_text(
        'question = "mine?"\nvariants = ["heads_1"]\nseeds = 3\n[data]\nsource = "rotten_tomatoes"\n', encoding="utf-8"
    )
    program = (
        f"import sys; sys.path.insert(0, {str(target)!r})\n"
        "import knockout\n"
        f"assert knockout.__file__.startswith({str(target)!r}), knockout.__file__\n"
        "from pathlib import Path\n"
        "from knockout.study import read_study\n"
        f"study = read_study(Path({str(study)!r}))\n"
        "print(study.plan.margin, *study.compared)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split() == ["0.5", "baseline", "heads_1"], done.stderr


def test_installed_elsewhere_its_messages_name_pages_that_are_there(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(target)
    named = set()
    for path in (target / "knockout").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        named |= set(re.findall(r"(?:docs|analysis|ablations|results)/[\w-]+\.md", text))
    assert "docs/your-own-model.md" in named
    assert not {name for name in named if not (target / "knockout" / "pages" / name).is_file()}
    program = (
        f"import sys; sys.path.insert(0, {str(target)!r})\n"
        "from knockout.cli import main\n"
        "sys.argv[1:] = ['init', 'mine', '--trainer']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert f"explained in: {target / 'knockout/pages/docs/your-own-model.md'}" in done.stdout, done.stderr
