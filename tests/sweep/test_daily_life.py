"""What a person needs on the second day: a part of a study, a look before, another machine, a published report."""

import re
import shutil
from pathlib import Path

import pytest

from tests.command_line import knockout

from .conftest import WriteToy, ledger_of, numbers, root_of, run, starts


def tree(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def test_only_trains_and_counts_what_is_named(toy: WriteToy) -> None:
    study = toy(seeds=3)
    done = run(study, "--only", "up", "--only", "baseline")
    assert done.returncode == 0, done.stderr
    assert "6 planned: 6 finished, 0 diverged, 0 missing; 6 trained now" in done.stdout
    assert {v for v, _ in starts(study)} == {"up", "baseline"}
    refused = run(study, "--only", "upp")
    assert refused.returncode == 2
    assert '"upp" is not run by this study (did you mean "up"?)' in refused.stderr
    assert "3 trained now" in run(study).stdout


@pytest.mark.long
def test_the_cells_of_a_crossing_are_trained_like_any_variant(toy: WriteToy) -> None:
    study = toy(variants=("up", "diverges"), seeds=2, extra='cross = [["up", "diverges"]]')
    cell = "up__and__diverges"
    assert "2 trained now" in run(study, "--only", cell).stdout
    done = run(study)
    assert "8 planned: 4 finished, 4 diverged, 0 missing; 6 trained now" in done.stdout
    assert starts(study) == {(v, s): 1 for v in ("baseline", "up", "diverges", cell) for s in (0, 1)}
    told = knockout("check", str(study), "--no-measure", cwd=study.parent)
    assert "3 variants and the baseline x 2 seeds = 8 runs" in told.stdout
    assert cell in told.stdout


def test_a_dry_run_says_what_and_writes_nothing(toy: WriteToy) -> None:
    study = toy(seeds=2)
    before = tree(study.parent)
    told = run(study, "--dry-run")
    assert told.returncode == 0
    assert "up: seeds 0, 1" in told.stdout
    assert "6 of 6 runs would be trained; nothing was written" in told.stdout
    assert tree(study.parent) == before
    run(study)
    before = tree(study.parent)
    assert "0 of 6 runs would be trained" in run(study, "--dry-run").stdout
    assert tree(study.parent) == before


@pytest.mark.long
def test_two_machines_train_halves_and_one_reports_on_the_whole(toy: WriteToy, tmp_path: Path) -> None:
    study = toy(seeds=3)
    run(study, "--only", "baseline", "--only", "up")
    packed = knockout("pack", str(root_of(study)), "--output", str(tmp_path / "records_a.parquet"), cwd=tmp_path)
    assert packed.returncode == 0, packed.stderr
    assert "6 records of 9 planned runs, " in packed.stdout
    one = numbers(study)
    shutil.rmtree(root_of(study))

    run(study, "--only", "down")
    shutil.move(tmp_path / "records_a.parquet", root_of(study))
    rest = run(study)
    assert rest.returncode == 0
    assert "9 planned: 9 finished, 0 diverged, 0 missing; 0 trained now" in rest.stdout
    assert {k[0] for k in starts(study)} == {"down"}
    merged = {(r.config["variant"], r.config["seed"]): r for r in ledger_of(study).records.values()}
    assert {k for k, r in merged.items() if r.packed} == set(one)
    report = knockout("report", str(root_of(study)), cwd=tmp_path)
    assert report.returncode == 0, report.stderr
    assert "undecidable" not in report.stdout


@pytest.mark.long
def test_a_published_report_is_whole_and_stands_alone(toy: WriteToy, tmp_path: Path) -> None:
    study = toy(seeds=3)
    run(study, "--only", "up", "--only", "baseline")
    refused = knockout("publish", str(root_of(study)), "--to", str(tmp_path / "reference"), cwd=tmp_path)
    assert refused.returncode == 2
    assert "3 of 9 runs are missing" in refused.stderr
    assert not (tmp_path / "reference").exists()

    run(study)
    done = knockout("publish", str(root_of(study)), "--to", str(tmp_path / "reference"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    public = tmp_path / "reference" / "toy"
    assert {"report.html", "report.md", "summary.csv", "study.toml", "plan.toml", "design.json", "records.parquet"} <= {
        p.name for p in public.iterdir()
    }
    told = {name: (public / name).read_bytes() for name in ("summary.csv", "contrasts.csv", "costs.csv")}
    shutil.rmtree(root_of(study))
    assert knockout("report", str(public), cwd=tmp_path).returncode == 0  # from the packed records alone
    assert {name: (public / name).read_bytes() for name in told} == told


def test_an_estimate_measures_every_variant_and_says_who_does_not_train(toy: WriteToy, tmp_path: Path) -> None:
    study = toy(variants=("up", "raises"), seeds=4, steps=100, step_seconds=0.02)
    before = tree(tmp_path)
    told = knockout("check", str(study), cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    # 3 variants x 4 seeds x 100 steps of 20 ms, where one variant cannot be counted: 16 s on all workers
    assert "for 12 runs with" in told.stdout
    pace = re.search(r"100 steps of (\d+) ms", told.stdout)
    assert pace is not None
    assert int(pace[1]) >= 20  # a busy machine is slower, and none is faster than the sleep
    assert "raises did not train: Unpicklable: no pickle of this" in told.stdout
    assert tree(tmp_path) == before
    assert "cost" not in knockout("check", str(study), "--no-measure", cwd=tmp_path).stdout


def test_check_says_what_is_there_already(toy: WriteToy) -> None:
    study = toy(seeds=2)
    results = str(study.parent / "results")
    before = knockout("check", str(study), "--results", results, "--no-measure", cwd=study.parent).stdout
    assert "have a result" not in before
    run(study, "--only", "baseline", "--only", "up")
    after = knockout("check", str(study), "--results", results, "--no-measure", cwd=study.parent).stdout
    assert "4 of 6 runs have a result, 2 would be trained" in after


def test_packing_nothing_is_refused(tmp_path: Path) -> None:
    told = knockout("pack", str(tmp_path), cwd=tmp_path)
    assert told.returncode == 2
    assert "no records to pack" in told.stderr
    assert list(tmp_path.iterdir()) == []
