"""The Python interface: the script of the README runs as it stands there, from a file without a main guard."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import knockout

REPOSITORY = Path(__file__).parents[1]


def script() -> str:
    (block,) = re.findall(r"```python\n(.*?)```", (REPOSITORY / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    return str(block)


def test_the_script_of_the_readme(tmp_path: Path) -> None:
    text = script()
    assert len([line for line in text.splitlines() if line.strip()]) <= 10
    study = tmp_path / "tiny.toml"
    study.write_text(
        'question = "tiny?"\nvariants = ["no_position", "heads_1"]\nseeds = 3\n[data]\nsource = "rotten_tomatoes"\n'
        "max_length = 16\nvocabulary_size = 300\nsplit = [0.1, 0.1, 0.8]\n[model]\nd_model = 16\nnum_layers = 1\n"
        "[train]\nepochs = 1\n",
        encoding="utf-8",
    )
    (tmp_path / "script.py").write_text(text.replace("mine/first_study.toml", str(study)), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=os.environ.copy(), capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert "9 planned: 9 finished, 0 diverged, 0 missing" in done.stdout
    assert re.search(r"^no_position \w+", done.stdout, re.MULTILINE)
    assert done.stdout.strip().endswith("results/tiny/report.html")


def test_importing_it_loads_nothing_heavy() -> None:
    program = (
        "import sys, knockout\n"
        "heavy = {'torch', 'optuna', 'datasets', 'pandas', 'scipy', 'pydantic', 'pyarrow'} & set(sys.modules)\n"
        "print(sorted(heavy), sorted(knockout.__all__))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[] ['Study', 'compare', 'compare_unpaired', 'curves', 'report', 'run']"


def test_what_it_does_not_have_it_says() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'runn'"):
        knockout.runn  # noqa: B018


def test_comparisons_are_where_run_and_report_are() -> None:
    from knockout import analysis

    assert knockout.compare is analysis.compare
    assert knockout.compare_unpaired is analysis.compare_unpaired
    with pytest.raises(AttributeError, match="no attribute 'compares'"):
        _ = knockout.compares
