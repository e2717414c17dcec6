"""The real trainer under the sweep: the same bytes however a study comes about."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from .conftest import ENVIRONMENT, command, ledger_of, root_of, run, start, starts

pytestmark = pytest.mark.long

TEXT = """
question = "tiny?"
variants = ["no_position", "pool_cls", "post_norm"]
seeds = 4
[data]
source = "rotten_tomatoes"
max_length = 24
vocabulary_size = 500
split = [0.2, 0.1, 0.7]
[model]
d_model = 16
num_layers = 1
d_ff = 16
[train]
epochs = 2
batch_size = 128
"""


def summary(study: Path) -> bytes:
    """summary.csv of the study as it stands."""
    verb = [*command(study)[:3], "report", str(root_of(study))]
    done = subprocess.run(verb, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return (root_of(study) / "summary.csv").read_bytes()


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """The study run by one worker, without interruption."""
    study = tmp_path_factory.mktemp("calm") / "tiny.toml"
    study.write_text(TEXT, encoding="utf-8")
    assert run(study, "--workers", "1").returncode == 0
    return study, summary(study)


def test_four_workers_give_the_bytes_of_one(calm: tuple[Path, bytes], tmp_path: Path) -> None:
    study = tmp_path / "tiny.toml"
    study.write_text(TEXT, encoding="utf-8")
    assert run(study, "--workers", "4").returncode == 0
    assert summary(study) == calm[1]
    assert calm[1].count(b"\n") == 17


def test_a_study_killed_in_the_middle_gives_the_bytes_of_a_calm_one(calm: tuple[Path, bytes], tmp_path: Path) -> None:
    study = tmp_path / "tiny.toml"
    study.write_text(TEXT, encoding="utf-8")
    process = start(study)
    deadline = time.monotonic() + 60
    while len(ledger_of(study).records) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = set(ledger_of(study).records)
    assert run(study).returncode == 0
    assert summary(study) == calm[1]
    assert set(starts(study).values()) == {1}
    assert before < set(ledger_of(study).records)


def test_a_warm_worker_stays_as_lean_as_it_was(calm: tuple[Path, bytes]) -> None:
    """20 runs would show a leak; 16 of one worker do too. Peaks are of each run, and do not climb with its place."""
    records = sorted(ledger_of(calm[0]).records.values(), key=lambda r: str(r.outcome["ended"]))
    assert len({r.outcome["environment"]["pid"] for r in records}) == 1
    peaks = [r.outcome["costs"]["peak_bytes"] for r in records]
    assert max(peaks[8:]) < 1.05 * max(peaks[:8])
