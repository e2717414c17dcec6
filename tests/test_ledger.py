"""The ledger: a record is whole or absent, what is damaged is set aside, and what is missing is counted."""

import dataclasses
import errno
import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from knockout.design import read_design, save_design, write_design
from knockout.files import json_text
from knockout.job import Curve, Epoch, Outcome, Predictions, Status
from knockout.ledger import MAX_RETRIES, Ledger, read_ledger, run_config
from knockout.record import read_record, write_record
from knockout.study import Run, Study, design, read_study

WriteStudy = Callable[..., Path]

DATA_ID = "d" * 64
ENDED = "2026-01-02T03:04:05+00:00"
STUDY = """question = "What matters?"
variants = ["heads_1", "no_scale"]
seeds = 2

[data]
source = "rotten_tomatoes"
"""


@pytest.fixture
def study(write_study: WriteStudy) -> Study:
    return read_study(write_study(STUDY))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "results" / "study"


def outcome_of(run: Run, status: Status = "finished") -> Outcome:
    if status not in ("finished", "diverged"):
        return Outcome(
            run_id=run.id, status=status, metrics={}, curve=Curve(loss=[], learning_rate=[], grad_norm=[]), reason="why"
        )
    return Outcome(
        run_id=run.id,
        status=status,
        metrics={"test": {"correct": 2, "count": 3, "loss": 0.5}},
        curve=Curve(loss=[0.75, 0.5], learning_rate=[1e-3, 5e-4], grad_norm=[2.0, 1.0]),
        epochs=[Epoch(epoch=1, step=2, loss=0.625, correct=1, count=2)],
        predictions=Predictions(label=[0, 1, 1], predicted=[0, 1, 0], log_probability=[-0.25, -0.5, -1.5]),
        costs={"steps": 2, "train_seconds": 0.125},
        reason="",
    )


def write(
    root: Path, study: Study, run: Run, status: Status = "finished", *, ended: str = ENDED, log: str = "a line\n"
) -> Path:
    return write_record(
        root,
        config=run_config(study, run, data_id=DATA_ID),
        outcome=outcome_of(run, status),
        environment={"torch": "2", "host": "here"},
        ended=ended,
        log=log,
    )


def tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


# --- there and back -----------------------------------------------------------------------------------------------


def test_a_record_reads_back_as_it_was_written(study: Study, root: Path) -> None:
    run = design(study, data_id=DATA_ID)[1]
    folder = write(root, study, run, log="epoch 1\nprüfen\n")
    ledger = read_ledger(root)
    assert ledger.damaged == ()
    assert ledger.attempts == {}
    record = ledger.records[run.id]
    expected = outcome_of(run)
    assert (record.run_id, record.path, record.status) == (run.id, folder, "finished")
    assert record.config["factors"] == dataclasses.asdict(study.compared["heads_1"].factors)
    assert record.config["recipe"] == dataclasses.asdict(study.baseline.recipe)
    assert (record.config["variant"], record.config["seed"], record.config["threads"]) == ("heads_1", 0, 1)
    assert record.outcome["metrics"] == expected.metrics
    assert record.outcome["costs"] == expected.costs
    assert record.outcome["environment"] == {"torch": "2", "host": "here"}
    assert record.outcome["ended"] == ENDED
    assert record.log() == "epoch 1\nprüfen\n"
    assert record.table("curve").to_pydict() == {"step": [1, 2], **dataclasses.asdict(expected.curve)}
    assert record.table("epochs").to_pylist() == [dataclasses.asdict(e) for e in expected.epochs]
    assert expected.predictions is not None
    assert record.table("predictions").to_pydict() == {
        "example": [0, 1, 2],
        **dataclasses.asdict(expected.predictions),
    }


def test_the_manifest_holds_the_sha256_of_every_file(study: Study, root: Path) -> None:
    folder = write(root, study, design(study, data_id=DATA_ID)[0])
    manifest = json.loads((folder / "manifest.json").read_text())
    files = {p.name: p for p in folder.iterdir() if p.name != "manifest.json"}
    assert manifest == {name: hashlib.sha256(p.read_bytes()).hexdigest() for name, p in files.items()}
    assert set(files) == {
        "config.json", "outcome.json", "log.txt", "curve.parquet", "epochs.parquet", "predictions.parquet",
    }  # fmt: skip


def test_read_record_finds_one_run(study: Study, root: Path) -> None:
    first, second = design(study, data_id=DATA_ID)[:2]
    folder = write(root, study, first)
    found = read_record(root, run_config(study, first, data_id=DATA_ID))
    assert found is not None
    assert found.path == folder
    assert read_record(root, run_config(study, second, data_id=DATA_ID)) is None
    (folder / "log.txt").write_text("changed")
    assert read_record(root, run_config(study, first, data_id=DATA_ID)) is None


def test_no_folder_is_an_empty_ledger(study: Study, root: Path) -> None:
    runs = design(study, data_id=DATA_ID)
    ledger = read_ledger(root)
    assert (ledger.records, ledger.attempts, ledger.damaged) == ({}, {}, ())
    assert ledger.missing(runs) == list(runs)
    assert not root.exists()


def test_missing_is_planned_without_recorded_in_the_given_order(study: Study, root: Path) -> None:
    runs = design(study, data_id=DATA_ID)
    for run, status in ((runs[1], "finished"), (runs[4], "diverged"), (runs[2], "crashed")):
        write(root, study, run, status)  # type: ignore[arg-type]  # mypy reads the tuple's strings as str
    ledger = read_ledger(root)
    assert ledger.missing(runs) == [runs[0], runs[2], runs[3], runs[5]]
    assert ledger.missing(runs[::-1]) == [runs[5], runs[3], runs[2], runs[0]]


def test_the_second_of_two_orphans_changes_nothing(study: Study, root: Path) -> None:
    run = design(study, data_id=DATA_ID)[0]
    first = write(root, study, run)
    before = tree(root)
    assert write(root, study, run, ended="2027-01-01T00:00:00+00:00", log="another\n") == first
    assert tree(root) == before


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_json_stays_strict(value: float, study: Study, root: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        json_text({"x": [value]})
    run = design(study, data_id=DATA_ID)[0]
    bad = dataclasses.replace(outcome_of(run), metrics={"test": {"loss": value}})
    with pytest.raises(ValueError, match="JSON"):
        write_record(
            root, config=run_config(study, run, data_id=DATA_ID), outcome=bad, environment={}, ended=ENDED, log=""
        )
    assert tree(root) == {}
    assert list((root / "runs").iterdir()) == []


def test_what_is_not_finite_survives_in_the_curve_of_a_diverged_run(study: Study, root: Path) -> None:
    run = design(study, data_id=DATA_ID)[0]
    outcome = Outcome(
        run_id=run.id,
        status="diverged",
        metrics={},
        curve=Curve(loss=[1.0, math.nan], learning_rate=[0.1, 0.1], grad_norm=[math.inf, math.nan]),
        reason="loss not finite at step 2 of 9",
    )
    folder = write_record(
        root, config=run_config(study, run, data_id=DATA_ID), outcome=outcome, environment={}, ended=ENDED, log=""
    )
    record = read_ledger(root).records[run.id]
    curve = record.table("curve").to_pydict()
    assert curve["loss"][0] == 1.0
    assert math.isnan(curve["loss"][1])
    assert curve["grad_norm"][0] == math.inf
    assert math.isnan(curve["grad_norm"][1])
    assert (record.status, record.outcome["reason"]) == ("diverged", "loss not finite at step 2 of 9")
    with pytest.raises(FileNotFoundError):
        record.table("predictions")

    def refused(token: str) -> None:
        raise AssertionError(f"{token} in JSON")

    for path in folder.glob("*.json"):
        json.loads(path.read_text(), parse_constant=refused)


# --- the disk refuses ---------------------------------------------------------------------------------------------

WRITES: list[tuple[Any, str]] = [
    (os, "fsync"), (Path, "rename"), (Path, "write_text"), (Path, "mkdir"), (pq, "write_table"),
]  # fmt: skip


@contextmanager
def failing(nth: int, *, torn: bool) -> Iterator[list[int]]:
    """Every write point counts; the n-th raises. `torn`: it has written half, or has done it all, before it raises."""
    hits = [0]
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in WRITES:
            real = getattr(owner, name)

            def broken(*arguments: Any, real: Any = real, name: str = name, **options: Any) -> Any:
                hits[0] += 1
                if hits[0] != nth:
                    return real(*arguments, **options)
                if torn and name == "write_text":
                    real(arguments[0], arguments[1][: len(arguments[1]) // 2], **options)
                elif torn and name in ("write_table", "fsync"):
                    real(*arguments, **options)
                raise OSError(errno.ENOSPC, "No space left on device")

            patch.setattr(owner, name, broken)
        yield hits


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("status", ["finished", "crashed"])
def test_a_record_is_whole_or_absent_wherever_the_disk_refuses(
    torn: bool, status: Status, study: Study, root: Path
) -> None:
    run = design(study, data_id=DATA_ID)[0]
    nth = 0
    while True:
        nth += 1
        with failing(nth, torn=torn) as hits:
            try:
                write(root, study, run, status)
            except OSError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017  # the write that is not hit must pass
        if hits[0] < nth:
            break
        ledger = read_ledger(root)
        assert (ledger.records, ledger.attempts, ledger.damaged) == ({}, {}, ()), nth
        assert tree(root) == {}, nth
        again = write(root, study, run, status)
        ledger = read_ledger(root)
        assert ledger.damaged == ()
        assert (set(ledger.records) | set(ledger.attempts)) == {run.id}
        shutil.rmtree(again)
    assert nth > (15 if status == "finished" else 9)  # 2 folders, 4 texts, files, the folder, the parent, the rename


COPIES = ("study.toml", "plan.toml", "study.first.toml", "plan.first.toml")


@pytest.mark.parametrize("torn", [False, True])
def test_a_design_is_old_or_new_wherever_the_disk_refuses(
    torn: bool, study: Study, root: Path, write_study: WriteStudy
) -> None:
    write_design(root, study, data_id=DATA_ID, data_summary={})
    old = read_design(root)
    assert old is not None
    later = read_study(write_study(STUDY.replace("seeds = 2", "seeds = 3")))
    nth = 0
    while True:
        nth += 1
        with failing(nth, torn=torn) as hits:
            try:
                write_design(root, later, data_id=DATA_ID, data_summary={})
            except OSError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017
        if hits[0] < nth:
            break
        found = read_design(root)
        assert found is not None
        assert found == old or found.now.seeds == (0, 1, 2)
        assert {p.name for p in root.iterdir()} == {"design.json", *COPIES}
        save_design(root, old)
    assert nth > 3


@pytest.mark.parametrize("torn", [False, True])
def test_the_first_design_can_be_laid_down_again(torn: bool, study: Study, root: Path) -> None:
    nth = 0
    while True:
        nth += 1
        shutil.rmtree(root, ignore_errors=True)
        with failing(nth, torn=torn) as hits:
            try:
                write_design(root, study, data_id=DATA_ID, data_summary={})
            except OSError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017
        if hits[0] < nth:
            break
        write_design(root, study, data_id=DATA_ID, data_summary={})
        texts = [study.text, study.plan_text] * 2
        assert [(root / name).read_text() for name in COPIES] == texts
        found = read_design(root)
        assert found is not None
        assert found.first == found.now
    assert nth > 5


# --- torn and changed files ---------------------------------------------------------------------------------------


def assert_set_aside(root: Path, run: Run, runs: tuple[Run, ...], folder: Path) -> None:
    """The damaged record is told, moved whole, and its run is missing; then everything is put back."""
    before = tree(folder)
    told = read_ledger(root)
    assert folder.exists()
    assert len(told.damaged) == 1
    assert told.damaged[0].startswith(f"runs/{folder.name}: ")
    assert run.id not in told.records
    ledger = read_ledger(root, damaged="set_aside")
    assert ledger.damaged == told.damaged
    assert ledger.missing(runs) == [run]
    assert not folder.exists()
    (kept,) = (root / "set_aside").iterdir()
    assert kept.name.startswith(folder.name)
    assert tree(kept) == before
    assert read_ledger(root).damaged == ()
    kept.rename(folder)


@pytest.fixture
def full(study: Study, root: Path) -> tuple[Path, tuple[Run, ...]]:
    """A finished study, and the folder of its first run."""
    runs = design(study, data_id=DATA_ID)
    folders = [write(root, study, run) for run in runs]
    return folders[0], runs


FILES = ["config.json", "outcome.json", "log.txt", "curve.parquet", "predictions.parquet"]


@pytest.mark.parametrize("name", [*FILES, "epochs.parquet", "manifest.json"])
def test_a_file_cut_anywhere_is_not_verified(name: str, full: tuple[Path, tuple[Run, ...]], root: Path) -> None:
    folder, runs = full
    whole = (folder / name).read_bytes()
    text_end = len(whole) - 1 if name == "manifest.json" else len(whole)  # without its last line end it says the same
    small = folder.parent.parent / "small" / "runs"
    alone = small / folder.name
    shutil.copytree(folder, alone)
    every = 1 if len(whole) < 1000 else 29  # every byte of the small files; the ends and a comb of the larger ones
    ends = {*range(0, text_end, every), *range(9), *range(text_end - 9, text_end)} & {*range(text_end)}
    for end in sorted(ends, reverse=True):
        os.truncate(alone / name, end)
        ledger = read_ledger(small.parent)
        assert ledger.records == {}, end
        assert len(ledger.damaged) == 1, end
    (folder / name).write_bytes(whole[: len(whole) // 2])
    assert_set_aside(root, runs[0], runs, folder)


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_not_verified(name: str, full: tuple[Path, tuple[Run, ...]], root: Path) -> None:
    folder, runs = full
    whole = (folder / name).read_bytes()
    for at in (0, len(whole) // 2, len(whole) - 1):
        changed = bytearray(whole)
        changed[at] ^= 1
        (folder / name).write_bytes(bytes(changed))
        assert_set_aside(root, runs[0], runs, folder)


def test_a_manifest_with_a_bit_flipped_is_not_verified(full: tuple[Path, tuple[Run, ...]]) -> None:
    folder, _ = full
    alone = folder.parent.parent / "small" / "runs" / folder.name
    shutil.copytree(folder, alone)
    whole = (alone / "manifest.json").read_bytes()
    for at in range(0, len(whole), 3):
        changed = bytearray(whole)
        changed[at] ^= 1
        (alone / "manifest.json").write_bytes(bytes(changed))
        assert read_ledger(alone.parent.parent).records == {}, at


@pytest.mark.parametrize("name", [*FILES, "epochs.parquet", "manifest.json"])
def test_a_lost_file_is_not_verified(name: str, full: tuple[Path, tuple[Run, ...]], root: Path) -> None:
    folder, runs = full
    (folder / name).unlink()
    assert_set_aside(root, runs[0], runs, folder)


@pytest.mark.parametrize("manifest", ["{}", "[]", "3", "null", '{"config.json": 3}', '{"../../design.json": "x"}'])
def test_a_manifest_that_vouches_for_nothing(manifest: str, full: tuple[Path, tuple[Run, ...]], root: Path) -> None:
    folder, runs = full
    (folder / "manifest.json").write_text(manifest)
    assert_set_aside(root, runs[0], runs, folder)


def test_a_run_that_was_set_aside_can_be_written_again(
    full: tuple[Path, tuple[Run, ...]], root: Path, study: Study
) -> None:
    folder, runs = full
    (folder / "log.txt").write_text("damaged")
    read_ledger(root, damaged="set_aside")
    assert write(root, study, runs[0]) == folder
    assert read_ledger(root).missing(runs) == []
    (folder / "log.txt").write_text("damaged once more")
    read_ledger(root, damaged="set_aside")
    assert len(list((root / "set_aside").iterdir())) == 2


def test_a_new_result_takes_the_place_of_one_that_does_not_verify(study: Study, root: Path) -> None:
    run = design(study, data_id=DATA_ID)[0]
    folder = write(root, study, run)
    (folder / "curve.parquet").write_bytes(b"damaged while the study ran")
    assert write(root, study, run) == folder
    assert set(read_ledger(root).records) == {run.id}
    (kept,) = (root / "set_aside").iterdir()
    assert (kept / "curve.parquet").read_bytes() == b"damaged while the study ran"


def test_reading_moves_nothing(full: tuple[Path, tuple[Run, ...]], root: Path) -> None:
    folder, _ = full
    (folder / "outcome.json").write_text("{}")
    before = tree(root)
    assert len(read_ledger(root).damaged) == 1
    assert len(read_ledger(root, damaged="report").damaged) == 1
    assert tree(root) == before
    assert not (root / "set_aside").exists()


def test_a_status_in_the_wrong_place(study: Study, root: Path) -> None:
    run = design(study, data_id=DATA_ID)[0]
    folder = write(root, study, run, "crashed")
    (root / "runs").mkdir()
    folder.rename(root / "runs" / folder.name)
    ledger = read_ledger(root)
    assert ledger.records == {}
    assert ledger.damaged == (f"runs/{folder.name}: status crashed does not belong under runs/",)


# --- names of folders ---------------------------------------------------------------------------------------------


def test_a_record_is_found_by_its_id_whatever_its_folder_is_called(
    full: tuple[Path, tuple[Run, ...]], root: Path
) -> None:
    folder, runs = full
    folder.rename(folder.with_name("copied by hand"))
    ledger = read_ledger(root)
    assert ledger.missing(runs) == []
    assert ledger.records[runs[0].id].path.name == "copied by hand"
    shutil.copytree(folder.with_name("copied by hand"), folder)
    assert len(read_ledger(root).records) == len(runs)


def test_a_record_of_another_configuration_is_not_taken_for_this_one(
    full: tuple[Path, tuple[Run, ...]], root: Path, study: Study
) -> None:
    folder, runs = full
    other = Run(id="f" * 64, variant=runs[0].variant, seed=runs[0].seed)
    assert read_ledger(root).missing([other]) == [other]
    config = run_config(study, other, data_id=DATA_ID)
    shutil.copytree(folder, folder.with_name(f"{other.variant}-s{other.seed}-{other.id[:12]}"))
    assert read_record(root, config) is None


def test_unknown_and_hidden_folders_are_ignored(full: tuple[Path, tuple[Run, ...]], root: Path) -> None:
    folder, runs = full
    shutil.copytree(folder, folder.with_name(f".{folder.name}-0123abcd"))
    (folder.with_name(f".{folder.name}-0123abcd") / "config.json").unlink()
    (root / "report").mkdir()
    (root / "journal.log").write_text("no record")
    ledger = read_ledger(root, damaged="set_aside")
    assert ledger.damaged == ()
    assert len(ledger.records) == len(runs)
    assert not (root / "set_aside").exists()


def test_a_stray_folder_among_the_runs_is_told_and_kept(full: tuple[Path, tuple[Run, ...]], root: Path) -> None:
    folder, runs = full
    folder.with_name("notes").mkdir()
    (folder.with_name("notes") / "a.txt").write_text("mine")
    ledger = read_ledger(root, damaged="set_aside")
    assert [line.split(":")[0] for line in ledger.damaged] == ["runs/notes"]
    assert ledger.missing(runs) == []
    (kept,) = (root / "set_aside").iterdir()
    assert (kept / "a.txt").read_text() == "mine"


# --- attempts -----------------------------------------------------------------------------------------------------


def test_attempts_are_counted_and_ordered_by_time(study: Study, root: Path) -> None:
    run, other = design(study, data_id=DATA_ID)[:2]
    statuses: list[Status] = ["crashed", "killed", "out_of_memory", "timed_out"]
    times = ["2026-01-03T00:00:00+00:00", "2026-01-01T00:00:00+00:00", "2026-01-04T00:00:00+00:00", ENDED]
    folders: set[Path] = set()
    for status, ended in zip(statuses, times, strict=True):
        before = read_ledger(root)
        assert len(before.attempts.get(run.id, ())) == len(folders)
        assert before.exhausted(run) == (len(folders) > MAX_RETRIES)
        folders.add(write(root, study, run, status, ended=ended))
    ledger = read_ledger(root)
    assert len(folders) == 4
    assert [r.outcome["ended"] for r in ledger.attempts[run.id]] == sorted(times)
    assert [r.status for r in ledger.attempts[run.id]] == ["killed", "timed_out", "crashed", "out_of_memory"]
    assert {r.path for r in ledger.attempts[run.id]} == folders
    assert ledger.attempts[run.id][0].outcome["reason"] == "why"
    assert ledger.exhausted(run)
    assert not ledger.exhausted(other)
    assert ledger.missing([run, other]) == [run, other]  # an attempt is no result


def test_a_result_after_attempts_is_a_result(study: Study, root: Path) -> None:
    run = design(study, data_id=DATA_ID)[0]
    write(root, study, run, "crashed")
    write(root, study, run)
    ledger: Ledger = read_ledger(root)
    assert ledger.missing([run]) == []
    assert len(ledger.attempts[run.id]) == 1


def test_a_first_try_and_two_retries() -> None:
    assert MAX_RETRIES == 2  # as the design has it
