"""Packed records stand for the folders that they were made of, in a report and in a run."""

import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from knockout.analysis.report.write import write_report
from knockout.design import write_design
from knockout.job import QUANTITIES, Attention, AttentionText, Curve, Layers, Outcome, Probe, Status
from knockout.ledger import read_ledger
from knockout.packed import CURVE_POINTS, KINDS, THINNED, _digest, is_thinned, pack, thin, unpack
from knockout.record import Folder, Record, TableName, write_record
from knockout.study import read_study
from tests.analysis.conftest import (
    DATA_ID,
    BuildStudy,
    build_study,  # noqa: F401  # a fixture
    data_summary,
    outcome,
    write_run,
)

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
    for column in ("outcome", "curve_loss", "predicted", "final_loss"):
        rows = table.to_pylist()
        victim = next(r for r in rows if r["predicted"])
        match column:
            case "outcome":
                victim[column] = victim[column].replace('"finished"', '"diverged"')
            case "curve_loss" | "predicted":
                victim[column] = bytes([1 ^ victim[column][0]]) + victim[column][1:]
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


def measured_run(root: Path, run_id: str, steps: int, *, status: Status = "finished") -> Record:
    """A record of a trainer without `steps` among its costs, with everything that a run may measure."""
    rng = np.random.default_rng(steps)
    texts = [
        AttentionText(
            example=i, split="test", tokens=["<script>", "影片", "\0", "a" * 200][: 3 + i],
            weights=rng.dirichlet(np.ones(3 + i), size=(2, 4, 3 + i)).tolist(),
        )
        for i in (0, 1)
    ]  # fmt: skip
    loss = [*map(float, rng.normal(size=steps - 1)), math.nan if status == "diverged" else 0.5]
    outcome = Outcome(
        run_id=run_id,
        status=status,
        metrics={"test": {"correct": 3, "count": 4}} if status == "finished" else {},
        curve=Curve(loss=loss, learning_rate=[0.1 / (i + 1) for i in range(steps)], grad_norm=[2.5] * steps),
        probe=Probe(step=[0, steps // 2, steps], loss=[0.7, 1e-20, math.inf], correct=[0, 128, 70], count=128),
        layers=Layers(
            step=[1, 1, 2, steps], quantity=[*QUANTITIES[:3], QUANTITIES[-1]], layer=[-2, -1, 0, 200],
            value=[0.1, math.nan, 3e38, 0.25],
        ),
        attention=Attention(texts=texts) if status == "finished" else None,
    )  # fmt: skip
    config = {"run_id": run_id, "variant": "up", "seed": 0}
    write_record(root, config=config, outcome=outcome, environment={}, ended="2026-01-01T00:00:00", log="")
    return read_ledger(root).records[run_id]


@pytest.mark.parametrize("steps", [2, 200, 201, 2500])
@pytest.mark.parametrize("status", ["finished", "diverged"])
def test_every_table_of_a_record_is_packed_to_the_last_bit(steps: int, status: Status, tmp_path: Path) -> None:
    record = measured_run(tmp_path / "study", "a" * 64, steps, status=status)
    pack([record], tmp_path / "records.parquet")
    (other,), damaged = unpack(tmp_path / "records.parquet")
    assert damaged == []
    names: list[TableName] = ["curve", "probe", "layers", "attention", "attention_tokens"]
    assert [other.has(name) for name in names] == [record.has(name) for name in names]
    assert record.has("attention") == (status == "finished")
    for name in filter(record.has, names):
        expected, table = record.table(name), other.table(name)
        assert table.schema.equals(expected.schema), name
        assert table.column_names == expected.column_names
        for column in table.column_names:
            if pa.types.is_floating(table.schema.field(column).type):
                assert table[column].to_numpy().tobytes() == expected[column].to_numpy().tobytes(), (name, column)
            else:
                assert table[column].to_pylist() == expected[column].to_pylist(), (name, column)
    first = (tmp_path / "records.parquet").read_bytes()
    pack([other], tmp_path / "records.parquet")  # packing what is packed loses nothing
    assert (tmp_path / "records.parquet").read_bytes() == first


@pytest.mark.parametrize("column", [f"{table}_{name}" for table, names in KINDS.items() for name in names] + [
    "attention_texts", "attention_weights",
])  # fmt: skip
def test_a_changed_table_is_told(column: str, tmp_path: Path) -> None:
    path = tmp_path / "records.parquet"
    pack([measured_run(tmp_path / "study", "a" * 64, 30)], path)
    table = pq.read_table(path)
    (row,) = table.to_pylist()
    if column == "curve_step":
        assert row[column] is None
        row[column] = bytes(8 * 30)
    else:
        row[column] = row[column][:-1] + ("0" if isinstance(row[column], str) else bytes([row[column][-1] ^ 1]))
    pq.write_table(pa.Table.from_pylist([row], schema=table.schema), path)
    assert unpack(path) == ([], ["records.parquet: run aaaaaaaaaaaa: changed since it was packed"])


def pack_as_before(records: Sequence[Record], path: Path) -> None:
    """Write records as the earlier version did: curves thinned, nothing of what was measured."""
    rows = []
    for record in records:
        row: dict[str, Any] = dict.fromkeys(THINNED.names)
        curve = thin(record.table("curve"))
        row |= {name: curve[name].cast(THINNED.field(name).type.value_type).to_pylist() for name in curve.column_names}
        row |= {"run_id": record.run_id, "final_loss": record.final_loss(), "log": ""}
        row |= {"config": json.dumps(dict(record.config)), "outcome": json.dumps(dict(record.outcome))}
        rows.append(row | {"sha256": _digest(row, THINNED)})
    pq.write_table(pa.Table.from_pylist(rows, schema=THINNED), path)


@pytest.mark.parametrize(("steps", "whole"), [(1, True), (199, True), (200, True), (201, False), (1000, False)])
def test_a_file_of_the_earlier_version_is_read_and_packed_again_as_it_is(
    steps: int, whole: bool, tmp_path: Path
) -> None:
    record = measured_run(tmp_path / "study", "b" * 64, max(2, steps))
    if steps == 1:
        record = replace(record, storage=Folder(path=tmp_path / "one"))
        (tmp_path / "one").mkdir()
        pq.write_table(
            pa.table({n: [1] if n == "step" else [0.5] for n in KINDS["curve"]}), tmp_path / "one" / "curve.parquet"
        )
    pack_as_before([record], tmp_path / "records.parquet")
    (other,), damaged = unpack(tmp_path / "records.parquet")
    assert damaged == []
    curve = other.table("curve")
    assert is_thinned(curve) != whole
    assert curve["step"].type == (pa.int32() if whole else pa.float64())
    np.testing.assert_array_equal(curve["step"].to_numpy(), thin(record.table("curve"))["step"].to_numpy())
    assert not any(other.has(name) for name in ("probe", "layers", "attention"))
    assert other.final_loss() == record.final_loss()
    pack([other], tmp_path / "records.parquet")
    (again,), _ = unpack(tmp_path / "records.parquet")
    assert again.table("curve").equals(curve)


@pytest.mark.parametrize("study", ["quick", "tutorial_faults"])
def test_the_published_records_are_read(study: str) -> None:
    path = Path(__file__).parents[1] / "results" / "reference" / study / "records.parquet"
    records, damaged = unpack(path)
    assert damaged == []
    assert len(records) == pq.read_metadata(path).num_rows > 0
    for record in records:
        if record.status == "finished":
            curve = record.table("curve")
            assert np.isfinite(curve["loss"].to_numpy()).all()
            assert len(curve) == record.outcome["costs"]["steps"] or is_thinned(curve)


def test_a_report_from_packed_records_has_the_bytes_of_one_from_folders_also_of_what_was_measured(
    build_study: BuildStudy,  # noqa: F811
    tmp_path: Path,
) -> None:
    root = build_study({"baseline": ["missing"] * 2, "heads_1": ["missing"] * 2})
    study = read_study(root.parent / "synthetic.toml")
    for run in write_design(root, study, data_id=DATA_ID, data_summary=data_summary()):
        rng = np.random.default_rng([run.seed, len(run.variant)])
        plain, steps = outcome(run, 300), 700
        answer = replace(
            plain,
            curve=Curve(
                loss=rng.exponential(size=steps).tolist(), learning_rate=[1e-3] * steps, grad_norm=[1.0] * steps
            ),
            costs={k: v for k, v in plain.costs.items() if k != "steps"},
            probe=Probe(step=[0, 350, 700], loss=rng.exponential(size=3).tolist(), correct=[1, 2, 3], count=128),
            layers=Layers(step=[1], quantity=["gradient"], layer=[0], value=[0.1]),
        )
        write_run(root, study, run, 300, answer=answer)
    write_report(root)
    away = tmp_path / "away" / root.name
    away.mkdir(parents=True)
    pack_all(root, away / "records.parquet")
    for name in ("design.json", "study.toml", "plan.toml", "study.first.toml", "plan.first.toml"):
        shutil.copy(root / name, away)
    write_report(away)
    names = {p.relative_to(away) for p in away.rglob("*") if p.suffix in (".csv", ".svg", ".html", ".md")}
    assert len(names) > 10
    for file in names:
        assert (away / file).read_bytes() == (root / file).read_bytes(), file


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
