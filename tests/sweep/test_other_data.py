"""Studies on data of other kinds, from files to reports: Chinese characters, six classes, long texts as byte pairs."""

import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from .conftest import COMMAND, ENVIRONMENT, numbers, root_of, run

pytestmark = pytest.mark.long

SHARED = Path(__file__).parents[3] / "shared" / "data"

STUDY = """
question = "Do positions, heads and the pooling matter on {name}?"
variants = ["no_position", "heads_1", "pool_max"]
seeds = 3
[data]
source = "{source}"
tokens = "{tokens}"
max_length = {length}
vocabulary_size = 2000
[model]
d_model = 16
num_layers = 1
d_ff = 16
[train]
epochs = {epochs}
batch_size = 64
learning_rate = 1e-2
"""


def shared(name: str) -> Path:
    if not (SHARED / name).is_dir():
        pytest.skip(f"{SHARED / name} is not on this machine")
    return SHARED / name


def report_of(study: Path) -> str:
    done = run(study)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 planned: 12 finished, 0 diverged, 0 missing" in done.stdout
    assert len(numbers(study)) == 12
    verb = [*COMMAND, "report", str(root_of(study))]
    told = subprocess.run(verb, env=ENVIRONMENT, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    return (root_of(study) / "details.md").read_text(encoding="utf-8")


def write(tmp_path: Path, name: str, source: Path, *, tokens: str, length: int, epochs: int) -> Path:
    study = tmp_path / f"{name}.toml"
    text = STUDY.format(name=name, source=source, tokens=tokens, length=length, epochs=epochs)
    study.write_text(text, encoding="utf-8")
    return study


def test_chinese_by_character(tmp_path: Path) -> None:
    text = report_of(write(tmp_path, "waimai", shared("waimai_10k"), tokens="char", length=32, epochs=1))
    assert "test 1,162 texts" in text
    assert "67.4 %" in text  # always the commonest class: 783 of 1,162
    assert "ln 2 = 0.693" in text


def test_six_classes(tmp_path: Path) -> None:
    text = report_of(write(tmp_path, "trec", shared("trec6"), tokens="word", length=16, epochs=2))
    assert "27.6 %" in text  # 138 of 500
    assert "ln 6 = 1.792" in text
    assert "no validation split was given" in text


def test_long_texts_as_byte_pairs(tmp_path: Path) -> None:
    imdb, part = shared("imdb"), tmp_path / "part"
    part.mkdir()
    for split in ("train", "test"):
        table = pq.read_table(imdb / f"{split}.parquet")
        half = 1000
        labels = table["label"].to_numpy()
        chosen = [i for y in (0, 1) for i in (labels == y).nonzero()[0][:half]]
        pq.write_table(table.take(pa.array(chosen)), part / f"{split}.parquet")
    text = report_of(write(tmp_path, "imdb_part", part, tokens="bpe", length=64, epochs=2))
    assert "test 2,000 texts" in text
    assert "50.0 %" in text
