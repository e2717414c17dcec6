"""`knockout profile`: in which order variants are measured, what becomes of the rounds, and what the user sees."""

import csv
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from knockout.job import Job
from knockout.profile_table import COLUMNS, ProfileRow, read_profile, write_profile
from knockout.strict import FaultsError
from knockout.study import read_study
from knockout.sweep import profile
from knockout.sweep.owner import hold
from knockout.sweep.profile import Answer, Sample, own_training, profile_rows, profile_study, rotated
from tests.command_line import knockout
from tests.sweep.conftest import WriteToy, root_of
from tests.trainers import toy_trainer


def test_each_round_has_all_variants_and_none_keeps_its_place() -> None:
    names = ["baseline", "a", "b", "c", "d", "e"]
    orders = [rotated(names, number, 3) for number in range(3)]
    assert orders[0] == names
    assert all(sorted(order) == sorted(names) for order in orders)
    assert all(len({order.index(name) for order in orders}) == 3 for name in names)


def test_variants_are_measured_round_by_round(toy: WriteToy, monkeypatch: pytest.MonkeyPatch) -> None:
    study = read_study(toy(variants=("up", "down")))
    asked: list[str] = []

    def answer(_study: object, sample: Sample) -> Answer:
        asked.append(sample.variant)
        return Answer(measured={"seconds_per_step": float(len(asked))}, machine=MACHINE)

    monkeypatch.setattr(profile, "_answer", answer)
    measured = profile_study(study, root=study.path.parent / "r", say=lambda _line: None)
    rounds = [asked[i : i + 3] for i in range(0, 9, 3)]
    assert rounds == [["baseline", "up", "down"], ["up", "down", "baseline"], ["down", "baseline", "up"]]
    # seconds, round by round: baseline 1, 6, 8; up 2, 4, 9; down 3, 5, 7
    up = measured.rows[1].numbers
    assert [up[f"seconds_per_step{e}"] for e in ("", "_low", "_high")] == [4, 2, 9]
    ratios = sorted([2 / 1, 4 / 6, 9 / 8])
    assert [up[f"seconds_per_step_ratio{e}"] for e in ("_low", "", "_high")] == ratios
    assert up["rounds"] == 3
    assert measured.path is not None
    assert read_profile(measured.path.parent)[1].numbers == up


MACHINE = {
    "device": "cpu",
    "device_name": "a processor",
    "torch": "",
    "memory_of": "process",
    "host": "",
    "platform": "",
}


def test_a_variant_in_trouble_is_not_tried_again_and_others_are_measured(
    toy: WriteToy, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = read_study(toy(variants=("up", "down")))
    asked: Counter[str] = Counter()

    def answer(_study: object, sample: Sample) -> Answer:
        asked[sample.variant] += 1
        trouble = "training: RuntimeError: broken" if sample.variant == "up" else ""
        return Answer(measured={} if trouble else {"seconds_per_step": 1.0}, machine=MACHINE, trouble=trouble)

    monkeypatch.setattr(profile, "_answer", answer)
    rows = profile_study(study, root=study.path.parent / "r", say=lambda _line: None).rows
    assert asked == {"baseline": 3, "up": 1, "down": 3}
    assert rows[1].texts["trouble"] == "training: RuntimeError: broken"
    assert "seconds_per_step" not in rows[1].numbers
    assert rows[2].numbers["seconds_per_step_ratio"] == 1.0


def test_without_a_baseline_there_are_values_and_no_ratios() -> None:
    answers: Mapping[tuple[str, profile.Part], list[Answer]] = {
        ("baseline", "training"): [],
        ("up", "training"): [Answer(measured={"seconds_per_step": 2.0}, machine=MACHINE)],
    }
    rows = profile_rows(answers, ids={"baseline": "a", "up": "b"}, troubles={"baseline": "x", "up": ""}, threads=1)
    assert rows[1].numbers["seconds_per_step"] == 2.0
    assert "seconds_per_step_ratio" not in rows[1].numbers


@pytest.mark.parametrize(("steps", "timed", "warm"), [(100, 30, 5), (5, 2, 2), (3, 1, 1)])
def test_seconds_per_step_are_from_the_calls_of_progress(
    steps: int, timed: int, warm: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([10.0 * i if i < warm else 10.0 * warm + 0.5 * (i - warm) for i in range(steps)])
    monkeypatch.setattr(profile, "clock", lambda: next(times))
    job = Job(
        variant="up", factors=toy_trainer.Factors(), recipe=toy_trainer.Recipe(steps=steps), seeds=(0,), run_ids=("i",),
        data=None, device="cpu", threads=1, progress=lambda _step, _steps, _loss: None, log=lambda _line: None,
    )  # fmt: skip
    measured = own_training("toy_trainer:train", job)
    assert measured["timed_steps"] == timed
    assert measured["seconds_per_step"] == pytest.approx(0.5)
    assert "seconds_per_epoch" not in measured  # its recipe has no epochs


@pytest.mark.long
def test_a_trainer_of_ones_own_from_the_command_to_the_report(toy: WriteToy) -> None:
    study = toy(variants=("up", "raises"), step_seconds=0.02)
    ran = knockout("profile", "toy.toml", "--rounds", "2", cwd=study.parent)
    assert ran.returncode == 0, ran.stderr
    assert "raises: not measured: training: Unpicklable: no pickle of this" in ran.stdout
    assert "no latency, no parameters" in " ".join(ran.stdout.split())
    with (root_of(study) / "profile.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["variant"]: row for row in csv.DictReader(file)}
    assert tuple(rows["up"]) == COLUMNS
    assert float(rows["up"]["seconds_per_step"]) >= 0.02
    assert (rows["up"]["rounds"], rows["up"]["latency_1_p50_ms"], rows["up"]["parameters"]) == ("2", "", "")
    assert float(rows["up"]["train_peak_bytes"]) > 1e6
    assert rows["raises"]["seconds_per_step"] == ""


def test_only_some_variants_are_shown_and_not_written(toy: WriteToy, monkeypatch: pytest.MonkeyPatch) -> None:
    study = toy(variants=("up", "down"))
    monkeypatch.setattr(profile, "_answer", lambda *_: Answer(measured={"seconds_per_step": 1.0}, machine=MACHINE))
    ran = knockout("profile", "toy.toml", "--only", "down", "--rounds", "1", cwd=study.parent)
    assert ran.returncode == 0, ran.stderr
    assert "not written" in ran.stdout
    assert "\nup" not in ran.stdout
    assert not (root_of(study) / "profile.csv").exists()


def test_what_cannot_be_measured_is_said_in_one_line(toy: WriteToy, monkeypatch: pytest.MonkeyPatch) -> None:
    study = toy(variants=("up",))
    with pytest.raises(FaultsError, match=r'"upp" is not run by this study'):
        profile_study(read_study(study), root=root_of(study), only=["upp"], say=lambda _line: None)
    assert not root_of(study).exists()
    told = knockout("profile", "toy.toml", "--only", "upp", cwd=study.parent)
    assert (told.returncode, told.stderr.count("\n")) == (2, 2)  # the second line says which are allowed
    monkeypatch.setattr(profile, "_answer", lambda *_: Answer(measured={}, machine={}, trouble="training: no luck"))
    told = knockout("profile", "toy.toml", cwd=study.parent)
    assert (told.returncode, told.stderr) == (2, "knockout: nothing could be measured: training: no luck\n")
    assert not (root_of(study) / "profile.csv").exists()
    with hold(root_of(study), take_over=False):
        told = knockout("profile", "toy.toml", cwd=study.parent)
    assert told.returncode == 2
    assert "is held by process" in told.stderr
    (study.parent / "no_data.toml").write_text(
        'question = "q"\nvariants = ["heads_1"]\nseeds = 1\n[data]\nsource = "./absent"\n', encoding="utf-8"
    )
    told = knockout("profile", "no_data.toml", cwd=study.parent)
    assert (told.returncode, "no such file or folder" in told.stderr) == (2, True), told.stderr


@pytest.mark.long
def test_the_built_in_trainer_from_the_command_to_the_report(tmp_path: Path, cache: Path) -> None:
    assert cache
    text = 'question = "q"\nvariants = ["heads_1"]\nseeds = 2\n[data]\nsource = "rotten_tomatoes"\nmax_length = 8\n'
    text += "[model]\nd_model = 16\nnum_layers = 1\nd_ff = 8\n[train]\nepochs = 1\nbatch_size = 512\n"
    (tmp_path / "tiny.toml").write_text(text, encoding="utf-8")
    ran = knockout("profile", "tiny.toml", "--rounds", "1", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    base, variant = read_profile(tmp_path / "results" / "tiny")
    assert base.numbers["parameters"] == variant.numbers["parameters"] > 1000
    assert (base.numbers["timed_steps"], base.numbers["latency_1_passes"]) == (30, 200)
    assert 0 < base.numbers["latency_1_p50_ms"] <= base.numbers["latency_1_p95_ms"]
    assert base.numbers["seconds_per_epoch_ratio_low"] == 1.0
    assert base.texts["memory_of"] == "process"
    ran = knockout("run", "tiny.toml", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert knockout("publish", "results/tiny", "--to", "public", cwd=tmp_path).returncode == 0
    page = (tmp_path / "public" / "tiny" / "details.md").read_text(encoding="utf-8")
    assert "### Systems side by side" in page
    assert read_profile(tmp_path / "public" / "tiny") == (base, variant)


@pytest.mark.long
def test_a_damaged_table_is_set_aside_and_the_report_says_so(toy: WriteToy) -> None:
    study = toy(variants=("up",), seeds=2)
    root = root_of(study)
    assert knockout("run", "toy.toml", cwd=study.parent).returncode == 0
    path = write_profile(root, [ProfileRow(variant="baseline", run_id="x", numbers={"threads": 1}, texts=MACHINE)])
    path.write_text(path.read_text(encoding="utf-8").replace("a processor", "another"), encoding="utf-8")
    why = "profile.csv: changed since it was written, or cut off"
    assert why in knockout("status", str(root), cwd=study.parent).stdout
    told = knockout("report", str(root), cwd=study.parent)
    assert told.returncode == 0, told.stderr
    assert why in (root / "details.md").read_text(encoding="utf-8")
    told = knockout("publish", str(root), "--to", "public", cwd=study.parent)
    assert (told.returncode, why in told.stderr) == (2, True)
    knockout("run", "toy.toml", cwd=study.parent)
    assert not path.exists()
    assert list((root / "set_aside").rglob("profile.csv*"))
