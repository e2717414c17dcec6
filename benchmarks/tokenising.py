"""IMDB's texts from a file to arrays of ids, compared with the library `tokenizers` alone on the same texts.

Both run in one process with the same threads: `tokenizers` uses one for each core, unless the environment says
otherwise (`RAYON_NUM_THREADS`, `TOKENIZERS_PARALLELISM`).
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ParamSpec, TypeVar
from unittest.mock import patch

from benchmarks.figure import Figure

P = ParamSpec("P")
T = TypeVar("T")

IMDB = Path(__file__).parents[2] / "shared" / "data" / "imdb"
MAX_LENGTH = 256
REPEATS = 2

FOUND = """
import sys, time
from knockout.data.batches import load
from knockout.data.prepare import prepare
from knockout.job import DataSpec
started = time.perf_counter()
load(prepare(DataSpec(source=sys.argv[1], max_length=int(sys.argv[2]))).ref.path, "cpu")
print(time.perf_counter() - started)
"""


def tokenising(folder: Path) -> list[Figure]:
    """Tokenising and all of preparing over `tokenizers` alone, and finding the prepared data again.

    Preparing begins with an empty cache and reads, cleans, splits, hashes, tokenises and writes; tokenising is the part
    of it from clean texts in memory to arrays of ids. `tokenizers` alone learns the same vocabulary and encodes the
    same texts, whole, and its answer is dropped. The best of the repeats, which alternate; imports are counted nowhere.
    """
    if not IMDB.is_dir():
        print(f"tokenising: left out, since there is no {IMDB}")
        return []
    from knockout.data import prepare as preparing
    from knockout.data.corpus import SPLITS
    from knockout.data.sources import read_corpus
    from knockout.job import DataSpec

    spec = DataSpec(source=str(IMDB), max_length=MAX_LENGTH)
    cache = folder / "cache"
    clocks = {what: Clock() for what in ("tokenizers alone", "tokenising", "preparing")}
    with patch.dict(os.environ, KNOCKOUT_CACHE=str(cache)):
        corpus = read_corpus(spec)  # and all imports
        texts = [corpus.splits[split].text for split in SPLITS]
        prepare = clocks["preparing"].of(preparing.prepare)
        alone = clocks["tokenizers alone"].of(_alone)
        with patch.object(preparing, "_arrays", clocks["tokenising"].of(preparing._arrays)):
            for _ in range(REPEATS):
                alone(texts, spec.vocabulary_size, spec.min_frequency)
                shutil.rmtree(cache)
                prepare(spec)
        found = [_found_again() for _ in range(REPEATS)]
    return [
        _over_alone(f"tokenising IMDB's {sum(map(len, texts)):,} texts", "tokenising", clocks, bar=1.3),
        _over_alone("preparing IMDB, from its files to ours", "preparing", clocks, bar=None),
        Figure(
            what="loading IMDB from the cache",
            value=min(found),
            unit="s",
            parts={f"process {i}": value for i, value in enumerate(found, start=1)},
            bar=1.0,
            least=False,
        ),
    ]


@dataclass
class Clock:
    """Seconds of each call, by the wall and on all cores together: others' work on the machine lengthens the first."""

    wall: list[float] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)

    def of(self, work: Callable[P, T]) -> Callable[P, T]:
        """The function, timed."""

        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            wall, cores = time.perf_counter(), time.process_time()
            result = work(*args, **kwargs)
            self.wall.append(time.perf_counter() - wall)
            self.cores.append(time.process_time() - cores)
            return result

        return timed


def _over_alone(what: str, name: str, clocks: Mapping[str, Clock], *, bar: float | None) -> Figure:
    ours, alone = clocks[name], clocks["tokenizers alone"]
    return Figure(
        what=f"{what} / tokenizers alone",
        value=min(ours.wall) / min(alone.wall),
        unit="x",
        parts={
            name: min(ours.wall),
            "tokenizers alone": min(alone.wall),
            f"{name}, core seconds": min(ours.cores),
            "tokenizers alone, core seconds": min(alone.cores),
        },
        bar=bar,
        least=False,
    )


def _alone(texts: Sequence[list[str]], vocabulary_size: int, min_frequency: int) -> None:
    """What anyone would write: the first split is learned from, all are encoded, in pieces that are kind to memory."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    from knockout.data.vocabulary import PIECE

    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocabulary_size, min_frequency=min_frequency, special_tokens=["[PAD]", "[UNK]"], show_progress=False
    )
    tokenizer.train_from_iterator(texts[0], trainer, length=len(texts[0]))
    for of_split in texts:
        for start in range(0, len(of_split), PIECE):
            tokenizer.encode_batch_fast(of_split[start : start + PIECE], add_special_tokens=False)


def _found_again() -> float:
    """Seconds that a fresh process takes to find prepared data in the cache and to load them."""
    told = subprocess.run(
        [sys.executable, "-c", FOUND, str(IMDB), str(MAX_LENGTH)], check=True, stdout=subprocess.PIPE, text=True
    )
    return float(told.stdout)
