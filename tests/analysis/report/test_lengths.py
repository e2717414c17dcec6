"""The section on length and lengths.csv: from the records of a study, and absent where lengths are not known."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from knockout.analysis.publish import publish
from knockout.analysis.report import figures
from knockout.analysis.report.write import write_report
from knockout.analysis.results import load
from knockout.data.lengths import pack_lengths
from knockout.design import DesignError, read_design, save_design, write_design
from knockout.study import read_study
from tests.analysis.conftest import DATA_ID, TEST, BuildStudy, data_summary
from tests.designs import raw_design

LENGTHS = [int(n) for n in np.random.default_rng(3).integers(1, 300, TEST)]
COUNTS: dict[str, list[int | str]] = {
    "baseline": [330, 334, 328, 331, "dead"],
    "heads_1": [320, 322, 325, 318, 321],
    "no_residual": ["diverged"] * 5,
}


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "draw_all", lambda *_, **__: ())


def with_lengths(root: Path, packed: str) -> Path:
    """The folder, its design written again by `run` with data whose lengths are known."""
    study = read_study(root.parent / f"{root.name}.toml")
    write_design(root, study, data_id=DATA_ID, data_summary={**data_summary(), "test_lengths": packed}, results=1)
    return root


def test_the_table_is_a_count_of_the_records(build_study: BuildStudy, tmp_path: Path) -> None:
    root = with_lengths(build_study(COUNTS), pack_lengths(LENGTHS))
    report = write_report(root)
    table = pd.read_csv(report.paths["lengths.csv"])
    assert list(dict.fromkeys(table["variant"])) == ["baseline", "heads_1"]  # no run of the third came through
    right = {}
    for path in (root / "runs").iterdir():
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        if (path / "predictions.parquet").exists():
            seen = pq.read_table(path / "predictions.parquet").to_pandas().sort_values("example")
            right[config["variant"], config["seed"]] = (seen["label"] == seen["predicted"]).tolist()
    for row in table.to_dict("records"):
        longest = 10**6 if pd.isna(row["longest"]) else row["longest"]
        inside = [i for i, n in enumerate(LENGTHS) if row["shortest"] <= n <= longest]
        assert row["texts"] == len(inside)
        seeds = range(4) if row["variant"] == "baseline" else range(5)  # one run of the baseline is dead
        assert row["runs"] == len(seeds)
        shares = {
            (arm, s): 100 * sum(right[arm, s][i] for i in inside) / len(inside)
            for arm in ("baseline", "heads_1")
            for s in range(5)
        }
        assert row["accuracy"] == pytest.approx(np.mean([shares[row["variant"], s] for s in seeds]))
        if row["variant"] == "heads_1":
            assert row["n"] == 4
            d = [shares["heads_1", s] - shares["baseline", s] for s in range(4)]
            assert row["difference"] == pytest.approx(np.mean(d))
    text = report.paths["details.md"].read_text(encoding="utf-8")
    section = text.split("## Accuracy by length of the text")[1].split("\n## ")[0]
    assert "nothing is tested" in section
    assert "before it is cut at 64" in section
    (counts,) = [line for line in section.splitlines() if line.startswith("| test texts")]
    assert [int(cell.split("(")[0]) for cell in counts.split("|")[2:-1]] == table["texts"].tolist()[:4]
    published = publish(root, target=tmp_path / "published")
    assert (tmp_path / "published" / "lengths.csv").read_bytes() == published.paths["lengths.csv"].read_bytes()
    again = load(tmp_path / "published")
    assert again.design.data.test_lengths == pack_lengths(LENGTHS)


def test_an_older_folder_has_no_section_and_stays_as_it_is(build_study: BuildStudy) -> None:
    root = build_study(COUNTS)
    before = (root / "design.json").read_bytes()
    assert b"test_lengths" not in before
    (root / "lengths.csv").write_text("of an earlier report", encoding="utf-8")
    report = write_report(root)
    assert "lengths.csv" not in report.paths
    assert not (root / "lengths.csv").exists()
    assert "Accuracy by length" not in report.paths["details.md"].read_text(encoding="utf-8")
    design = read_design(root)
    assert design is not None
    save_design(root, design)
    assert (root / "design.json").read_bytes() == before


def test_texts_of_one_length_or_lengths_of_other_texts_make_no_section(build_study: BuildStudy) -> None:
    root = build_study(COUNTS)
    for lengths in ([9] * TEST, [9, 50]):
        assert "lengths.csv" not in write_report(with_lengths(root, pack_lengths(lengths))).paths


def test_lengths_that_are_damaged_are_named_in_one_line(build_study: BuildStudy) -> None:
    root = with_lengths(build_study(COUNTS), pack_lengths(LENGTHS))
    raw = raw_design(root)
    raw["data"]["test_lengths"] = raw["data"]["test_lengths"][:-8]
    (root / "design.json").write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(DesignError, match=r"design.json: data.test_lengths: .*no packed lengths") as caught:
        read_design(root)
    assert len(str(caught.value).splitlines()) == 1
