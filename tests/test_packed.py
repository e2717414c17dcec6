"""Packed records stand for the folders that they were made of, in a report and in a run."""

import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from knockout.analysis.report.write import write_report
from knockout.ledger import read_ledger
from knockout.packed import CURVE_POINTS, pack, thin, unpack
from tests.analysis.conftest import BuildStudy, build_study  # noqa: F401  # a fixture

STUDY: dict[str, list[int | str]] = {
    "baseline": [300, 301, 299, 305, 303],
    "heads_1": [290, 288, 291, 287, 289],
    "no_scale": [250, "diverged", 255, "crashed", 251],
}


def pack_all(root: Path, path: Path) -> int:
    ledger = read_ledger(root)
    return pack([*ledger.records.values(), *(a for many in ledger.attempts.values() for a in many)], path)


def test_a_report_from_packed_records_has_the_bytes_of_one_from_folders(
    build_study: BuildStudy,  # noqa: F811
    tmp_path: Path,
) -> None:
    root = build_study(STUDY)
    write_report(root)
    away = tmp_path / "away" / root.name
    away.mkdir(parents=True)
    size = pack_all(root, away / "records.parquet")
    shutil.copy(root / "design.json", away)
    write_report(away)
    for name in ("summary.csv", "contrasts.csv", "costs.csv"):
        assert (away / name).read_bytes() == (root / name).read_bytes(), name
    assert size == (away / "records.parquet").stat().st_size < sum(p.stat().st_size for p in root.rglob("*.parquet"))


def test_what_is_packed_reads_back(build_study: BuildStudy, tmp_path: Path) -> None:  # noqa: F811
    root = build_study(STUDY)
    ledger = read_ledger(root)
    pack_all(root, tmp_path / "records.parquet")
    records, damaged = unpack(tmp_path / "records.parquet")
    assert damaged == []
    found = {r.run_id: r for r in records if r.status in ("finished", "diverged")}
    assert set(found) == set(ledger.records)
    for run_id, record in ledger.records.items():
        other = found[run_id]
        outcome = dict(other.outcome)
        losses = outcome.pop("losses", None)
        assert (other.config, outcome) == (record.config, record.outcome)
        assert other.final_loss() == pytest.approx(record.final_loss(), nan_ok=True)
        if record.has("predictions"):
            for name in ("label", "predicted"):
                assert other.table("predictions")[name].to_pylist() == record.table("predictions")[name].to_pylist()
            assert losses == {"sum": [100.0, 100.0], "squares": [50.0, 50.0]}  # 200 texts of each class, 0.5 nats each
        else:
            with pytest.raises(FileNotFoundError):
                other.table("predictions")
    (attempt,) = [r for r in records if r.status == "crashed"]
    assert attempt.log() == next(iter(ledger.attempts.values()))[0].log()


def test_halves_of_two_machines_are_merged_and_a_folder_comes_first(
    build_study: BuildStudy,  # noqa: F811
    tmp_path: Path,
) -> None:
    root = build_study(STUDY)
    whole = read_ledger(root)
    ids = sorted(whole.records)
    half = tmp_path / "half"
    half.mkdir()
    pack([whole.records[i] for i in ids[:6]], half / "records.parquet")
    pack([whole.records[i] for i in ids[4:]], half / "records_other.parquet")
    merged = read_ledger(half)
    assert sorted(merged.records) == ids
    folder = whole.records[ids[0]].path
    shutil.copytree(folder, half / "runs" / folder.name)
    assert read_ledger(half).records[ids[0]].path == half / "runs" / folder.name


def test_a_changed_row_is_told_and_the_others_stand(build_study: BuildStudy, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "records.parquet"
    pack_all(build_study(STUDY), path)
    table = pq.read_table(path)
    for column in ("outcome", "loss", "predicted", "final_loss"):
        rows = table.to_pylist()
        victim = next(r for r in rows if r["predicted"])
        match column:
            case "outcome":
                victim[column] = victim[column].replace('"finished"', '"diverged"')
            case "loss":
                victim[column][0] += 0.5
            case "predicted":
                victim[column] = bytes([1 - victim[column][0]]) + victim[column][1:]
            case "final_loss":
                victim[column] = 0.0
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
        records, damaged = unpack(path)
        assert len(records) == len(rows) - 1
        assert damaged == [f"records.parquet: run {victim['run_id'][:12]}: changed since it was packed"]


def test_a_row_that_no_reader_can_use_is_named_and_the_others_stand(
    build_study: BuildStudy,  # noqa: F811
    tmp_path: Path,
) -> None:
    first, *others = read_ledger(build_study({"baseline": [300, 301], "heads_1": [290, 288]})).records.values()
    odd = replace(first, outcome={**first.outcome, "metrics": {"test": {"accuracy": 0.83}}})
    pack([odd, *others], tmp_path / "records.parquet")
    records, (line,) = unpack(tmp_path / "records.parquet")
    assert {r.run_id for r in records} == {r.run_id for r in others}
    assert f"run {first.run_id[:12]}: its test split has no two integers with 0 <= correct <= count" in line


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not Parquet at all"])
def test_a_file_that_is_no_pack(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "records.parquet").write_bytes(content)
    ledger = read_ledger(tmp_path)
    assert ledger.records == {}
    (line,) = ledger.damaged
    assert line.startswith("records.parquet: not readable")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "records.parquet")
    assert read_ledger(tmp_path).damaged == ("records.parquet: no packed records, or of another version of knockout",)


@pytest.mark.parametrize("n", [1, 199, 200, 201, 282, 400, 5003])
def test_thinning_keeps_means_and_the_grid(n: int) -> None:
    loss = np.random.default_rng(n).normal(size=n)
    table = pa.table({"step": np.arange(1, n + 1, dtype=np.int32), "loss": pa.array(loss, pa.float32())})
    thinned = thin(table)
    block = math.ceil(n / CURVE_POINTS)
    assert thinned.num_rows == math.ceil(n / block) <= CURVE_POINTS
    for i in range(thinned.num_rows):
        part = loss[i * block : (i + 1) * block]
        assert thinned["loss"][i].as_py() == pytest.approx(part.mean(), rel=1e-4, abs=1e-6)
        assert thinned["step"][i].as_py() == pytest.approx(1 + i * block + (block - 1) / 2)


def test_a_full_disk_leaves_the_old_pack(build_study: BuildStudy, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    root = build_study(STUDY)
    path = root / "records.parquet"
    pack_all(root, path)
    before = path.read_bytes()

    def refuse(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(OSError, match="No space left"):
        pack_all(root, path)
    assert path.read_bytes() == before
    assert [p.name for p in root.glob(".records*")] == []
