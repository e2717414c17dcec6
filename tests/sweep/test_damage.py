"""Every kind of file of a study's folder, damaged in every way, and every command on it.

No command ends in a traceback, none shows a number that the records do not hold, and `run` repairs what can be.
"""

import contextlib
import csv
import json
import random
import re
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from knockout.analysis.report import figures
from knockout.analysis.results import ResultsError
from knockout.design import Design, DesignError, read_design
from knockout.ledger import damaged_files, read_ledger
from knockout.packed import pack, unpack
from knockout.profile_table import ENDINGS, ProfileRow, write_profile
from knockout.sweep.allocate import Allocation
from knockout.sweep.dashboard import Watched
from tests.command_line import knockout

STUDY = """question = "a toy?"
trainer = "toy_trainer:train"
variants = ["up", "breaks_once"]
seeds = 3
[[claims]]
id = "A"
variant = "up"
says = "better"
[train]
marks = "{}"
"""
RUNS = 9

FOLDERS = {
    "run": "runs/up-s1-*",
    "attempt": "attempts/breaks_once-s1-*",
    **{name: name for name in ("runs", "attempts", "running", "figures", "set_aside")},
}
FILES = {
    **{
        name: name
        for name in (
            *("design.json", "study.toml", "study.first.toml", "plan.toml", "plan.first.toml"),
            *("journal.log", "starts.log", "coordinator.lock", "coordinator.json", "records.parquet"),
            *("trainer.json", "report.html", "summary.csv", "profile.csv", "figures/forest.csv"),
        )
    },
    **{f"run's {n}": f"runs/up-s1-*/{n}" for n in ("config.json", "outcome.json", "log.txt", "manifest.json")},
    **{f"run's {n}": f"runs/up-s1-*/{n}" for n in ("curve.parquet", "epochs.parquet", "predictions.parquet")},
    "attempt's outcome.json": "attempts/breaks_once-s1-*/outcome.json",
    "progress": "running/*.progress",
    "lock": "running/*.lock",
}
LOGS = ("journal.log", "starts.log")
MADE_AGAIN = (
    "trainer.json",
    "report.html",
    "summary.csv",
    "figures/forest.csv",
    "coordinator.json",
    "progress",
    "lock",
)
"""What says nothing that is not elsewhere."""
OF_REPORT = re.compile(r"(report|details|tables|analysis|\w+\.csv|figures/).*")

Damage = Callable[[Path], None]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[len(content) // 3] ^= 0x04
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "stray").write_text("stray", encoding="utf-8")


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"op_code":4, "wor\xff')


def make_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("stray", encoding="utf-8")


def cases() -> list[ParameterSet]:
    """All files with all kinds of damage: four of them quick, one for each file long, the others exhaustive."""
    quick = {("design.json", cut), ("design.json", make_folder), ("journal.log", flip), ("runs", make_file)}
    damages = (cut, flip, empty, delete, make_folder, append)
    one_each = {(f, damages[i % len(damages)]) for i, f in enumerate(FILES)} | {(f, delete) for f in FOLDERS}
    every = [(f, d) for f in FILES for d in damages]
    every += [(f, d) for f in FOLDERS for d in (delete, make_file)]
    return [
        pytest.param(
            kind,
            damage,
            id=f"{kind}-{damage.__name__}".replace(" ", "_"),
            marks=()
            if (kind, damage) in quick
            else pytest.mark.long
            if (kind, damage) in one_each
            else pytest.mark.exhaustive,
        )
        for kind, damage in every
    ]


SECONDS = {f"seconds_per_step{ending}": 0.5 for ending in ENDINGS}


def planned(root: Path) -> Design:
    design = read_design(root)
    assert design is not None
    return design


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study file and its results: nine finished runs, one of them packed, three tried twice."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "toy.toml").write_text(STUDY.format(folder), encoding="utf-8")
    assert knockout("run", "toy.toml", cwd=folder).returncode == 1
    assert knockout("run", "toy.toml", cwd=folder).returncode == 0
    root = folder / "results" / "toy"
    (first,) = (root / "runs").glob("up-s0-*")
    pack([r for r in read_ledger(root).records.values() if r.path == first], root / "records.parquet")
    shutil.rmtree(first)
    (root / "set_aside").mkdir()
    (root / "running").mkdir(exist_ok=True)
    for name in ("ab.lock", "ab.progress"):
        (root / "running" / name).write_text("3 5 0.25" if name.endswith("progress") else "", encoding="utf-8")
    died = {"host": socket.gethostname(), "pid": 1, "started": 0.0}
    (root / "coordinator.json").write_text(json.dumps(died), encoding="utf-8")
    texts = {"device": "cpu", "device_name": "a processor", "measured": "2026-01-02T03:04:05+00:00"}
    ids = {run.variant: run.id for run in planned(root).runs if run.seed == 0}
    rows = [ProfileRow(variant=v, run_id=i, numbers={"threads": 1, **SECONDS}, texts=texts) for v, i in ids.items()]
    write_profile(root, rows)
    assert knockout("report", str(root), cwd=folder).returncode == 0
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to damage. Reports are made without their figures, which take most of the time."""
    monkeypatch.setattr(figures, "draw_all", lambda *_, **__: ())
    shutil.copytree(whole, tmp_path / "copy")
    return tmp_path / "copy"


Rows = Mapping[tuple[str, str], tuple[str, str, str]]


def rows(root: Path) -> Rows:
    """(variant, seed) -> status, test_correct and final_loss in summary.csv."""
    with (root / "summary.csv").open(encoding="utf-8", newline="") as file:
        return {
            (r["variant"], r["seed"]): (r["status"], r["test_correct"], r["final_loss"]) for r in csv.DictReader(file)
        }


def contents(folder: Path) -> set[bytes]:
    return {p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def finished(text: str) -> int:
    counts = re.search(rf"{RUNS} planned: (\d+) finished", text)
    assert counts is not None, text
    return int(counts[1])


def test_every_file_of_a_study_is_damaged_here(whole: Path) -> None:
    root = whole / "results" / "toy"
    known = {p for pattern in FILES.values() for p in root.glob(pattern)}
    names = {re.sub(r"-s\d+.*?/", "/", p.relative_to(root).as_posix()) for p in known}
    for path in root.rglob("*"):
        name = re.sub(r"-s\d+.*?/", "/", path.relative_to(root).as_posix())
        same = {name, name.replace("baseline", "up"), re.sub(r"runs/\w+", "runs/up", name)}
        attempt = name.startswith("attempts/")  # of the same files as a run
        assert path.is_dir() or OF_REPORT.fullmatch(name) or same & names or attempt, name


@pytest.mark.parametrize(("kind", "damage"), cases())
def test_no_command_breaks_on_it_and_run_repairs_it(kind: str, damage: Damage, folder: Path, whole: Path) -> None:
    root, truth = folder / "results" / "toy", rows(whole / "results" / "toy")
    target = next(root.glob({**FILES, **FOLDERS}[kind]))
    damage(target)
    left = contents(target) if target.is_dir() else {target.read_bytes()} if target.exists() else set()
    unreadable = kind == "design.json"
    lost = len(read_ledger(root).missing(design.runs)) if (design := _design(root)) else 0

    status = knockout("status", str(root), cwd=folder)
    assert status.returncode == (2 if unreadable else 1 if lost else 0), status
    if unreadable:
        assert "design.json" in status.stderr
        assert "`knockout run` with the study file" in status.stderr
        assert status.stderr.count("\n") == 1
    else:
        assert finished(status.stdout) == RUNS - lost
        assert not lost or damage is delete or "damaged" in status.stdout
    check = knockout("check", "toy.toml", "--no-measure", cwd=folder)
    assert check.returncode == 0, check.stderr
    assert not unreadable or damage is delete or "damaged: " in check.stdout
    with pytest.raises(ResultsError, match=r"design\.json") if unreadable else contextlib.nullcontext():
        Watched(root)
    report = knockout("report", str(root), cwd=folder)
    assert report.returncode == (2 if unreadable else 0), report.stderr
    if not unreadable:
        shown = rows(root)
        assert {k for k, row in shown.items() if row != truth[k]} == {k for k, row in shown.items() if row[1] == ""}
        assert sum(row[1] == "" for row in shown.values()) == lost
    packed = knockout("pack", str(root), "--output", str(folder / "packed.parquet"), cwd=folder)
    assert packed.returncode == 0, packed.stderr
    assert len(unpack(folder / "packed.parquet")[0]) >= RUNS - 1 - 6 * (kind in ("runs", "attempts"))
    published = knockout("publish", str(root), "--to", str(folder / "reference"), cwd=folder)
    assert published.returncode in (0, 2), published.stderr
    assert published.stderr.count("\n") <= 2
    assert knockout("run", "toy.toml", "--dry-run", cwd=folder).returncode == 0

    run = knockout("run", "toy.toml", cwd=folder)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{lost} trained now" in run.stdout or unreadable
    if kind in LOGS:  # read on, or put aside
        assert all(any(kept.startswith(part[:100]) for kept in contents(root)) for part in left)
    elif kind not in MADE_AGAIN:
        assert left <= contents(root)
    assert "0 trained now" in knockout("run", "toy.toml", cwd=folder).stdout
    assert damaged_files(root) == []
    after = knockout("status", str(root), cwd=folder)
    assert after.returncode == 0, after.stdout
    assert finished(after.stdout) == RUNS
    assert "damaged" not in after.stdout or kind == "records.parquet"
    assert knockout("report", str(root), cwd=folder).returncode == 0
    assert rows(root) == truth
    assert ("was laid down on" in (root / "report.md").read_text(encoding="utf-8")) == unreadable
    if kind != "records.parquet":
        assert knockout("publish", str(root), "--to", str(folder / "reference"), cwd=folder).returncode == 0


def flipped(content: bytes, *, times: int) -> Iterator[bytes]:
    """The content with one bit changed, here and there."""
    draw = random.Random(0)
    for _ in range(times):
        changed = bytearray(content)
        changed[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        yield bytes(changed)


def test_a_flipped_bit_in_a_design_never_passes(folder: Path) -> None:
    root = folder / "results" / "toy"
    path, truth = root / "design.json", read_design(root)
    for content in flipped(path.read_bytes(), times=300):
        path.write_bytes(content)
        try:
            design = read_design(root)
        except DesignError as error:
            told = str(error)
            assert told.count("\n") == 0
        else:
            assert design == truth  # the bit was in the name of the checksum


def test_a_flipped_bit_in_a_packed_file_loses_its_records_and_is_told(folder: Path) -> None:
    path = folder / "results" / "toy" / "records.parquet"
    (record,), _ = unpack(path)
    for content in flipped(path.read_bytes(), times=300):
        path.write_bytes(content)
        records, damaged = unpack(path)
        assert len(damaged) == (not records)
        assert all(r.outcome == record.outcome and r.config == record.config for r in records)


def test_a_flipped_bit_in_the_journal_changes_no_trial(folder: Path) -> None:
    root = folder / "results" / "toy"
    design, ledger = read_design(root), read_ledger(root)
    assert design is not None
    truth = {(r.config["variant"], r.config["seed"]): r.status for r in ledger.records.values()}
    content = (root / "journal.log").read_bytes()
    for changed in flipped(content, times=40):
        (root / "journal.log").write_bytes(changed)
        study = Allocation(root, "toy", runs=design.runs, ledger=ledger, todo=()).study
        told = [t.user_attrs for t in study.get_trials(deepcopy=False)]
        assert {(a["variant"], a["seed"]): a["status"] for a in told if a.get("status") == "finished"} == truth


@pytest.mark.long
def test_what_was_added_late_stays_marked_when_the_design_is_lost(folder: Path) -> None:
    root, study = folder / "results" / "toy", folder / "toy.toml"
    study.write_text(study.read_text(encoding="utf-8").replace("seeds = 3", "seeds = 4"), encoding="utf-8")
    assert knockout("run", "toy.toml", cwd=folder).returncode == 1  # a seed that breaks once
    assert knockout("run", "toy.toml", cwd=folder).returncode == 0
    knockout("report", str(root), cwd=folder)
    before = read_design(root)
    assert "the seeds changed after the first run" in (root / "report.md").read_text(encoding="utf-8")

    cut(root / "design.json")
    told = knockout("run", "toy.toml", cwd=folder)
    assert told.returncode == 0, told.stderr
    (line,) = [line for line in told.stdout.splitlines() if "design.json" in line]
    assert line.startswith("set aside, and made again where it can be: ")
    after = read_design(root)
    assert before is not None
    assert after is not None
    assert (after.first, after.now, after.runs) == (before.first, before.now, before.runs)
    knockout("report", str(root), cwd=folder)
    head = (root / "report.md").read_text(encoding="utf-8").partition("\n## ")[0]
    assert "the seeds changed after the first run" in head
    assert (
        "when 12 runs had a result already. What was planned before the first run is read from study.first.toml" in head
    )

    for name in ("design.json", "study.toml", "study.first.toml"):
        (root / name).unlink()
    knockout("run", "toy.toml", cwd=folder)
    knockout("report", str(root), cwd=folder)
    head = (root / "report.md").read_text(encoding="utf-8").partition("\n## ")[0]
    assert "no contrast or claim can be shown to have been fixed before results existed" in head


def _design(root: Path) -> Design | None:
    try:
        return read_design(root)
    except DesignError:
        return None


def test_packing_keeps_a_packed_file_that_it_would_replace_and_cannot_read(folder: Path) -> None:
    path = folder / "results" / "toy" / "records.parquet"
    cut(path)
    damaged = path.read_bytes()
    told = knockout("pack", str(path.parent), cwd=folder)
    assert told.returncode == 0, told.stderr
    assert "damaged, not packed: records.parquet: not readable" in told.stdout
    assert damaged in contents(path.parent / "set_aside")
    records, wrong = unpack(path)
    assert len(records) == RUNS - 1 + 3  # with the attempts
    assert wrong == []
