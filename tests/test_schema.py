"""`--json`: each command prints one object of the documented schema, and nothing else on standard output."""

import csv
import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from pydantic import TypeAdapter

from knockout import schema
from tests.analysis.conftest import BuildStudy, build_study
from tests.command_line import knockout

__all__ = ["build_study"]

REPOSITORY = Path(__file__).parents[1]
ADAPTER = TypeAdapter[schema.Document](schema.Document)
COUNTS: Mapping[str, list[int | str]] = {
    "baseline": [300, 304, 296, 302, 299],
    "heads_1": [290, 292, 287, 289, 288],
    "pool_max": [301, "diverged", 297, "dead", 300],
    "post_norm": [300, 303, 297, "crashed", "missing"],
}
RUNS = "variant,seed,accuracy\n" + "".join(
    f"{name},{seed},{0.8 + 0.001 * (seed * len(name) % 5) + worth:.4f}\n"
    for name, worth in (("base", 0.0), ("<script>alert(1)</script>", -0.03), ("\u4f60\u597d \U0001f600", 0.0))
    for seed in range(8)
)


def checked(text: str, command: str) -> dict[str, Any]:
    """The object in a command's output: valid by the committed schema, without a key that the schema does not name."""
    value: dict[str, Any] = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    document = ADAPTER.validate_json(text, strict=True)
    assert ADAPTER.dump_python(document, mode="json") == value  # else it has keys that no field takes
    assert (value["schema"], value["command"]) == (1, command)
    assert text.isascii()
    validator = pytest.importorskip("jsonschema") if _has_jsonschema() else None
    if validator is not None:
        validator.validate(value, json.loads((REPOSITORY / "docs" / "schema.json").read_text(encoding="utf-8")))
    return value


def _has_jsonschema() -> bool:
    from importlib.util import find_spec

    return find_spec("jsonschema") is not None


def test_the_committed_schema_is_that_of_the_code() -> None:
    """After a change: `python -m knockout.schema > docs/schema.json`."""
    assert (REPOSITORY / "docs" / "schema.json").read_text(encoding="utf-8") == schema.schema_text()


def test_the_examples_of_the_page_have_only_fields_of_the_schema() -> None:
    text = (REPOSITORY / "docs" / "json.md").read_text(encoding="utf-8")
    kinds = {name: kind for kind in get_args(schema.Document) for name in get_args(_hint(kind, "command"))}
    seen = set()
    for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL):
        example = json.loads(block)
        kind = schema.Failure if "error" in example else kinds[example["command"]]
        seen.add(kind)
        assert set(example) <= {f.name for f in fields(kind)}, example["command"]
    assert seen == set(get_args(schema.Document))


def _hint(kind: type, name: str) -> Any:
    return next(f.type for f in fields(kind) if f.name == name)


@pytest.mark.parametrize("options", [(), ("--quiet",)])
def test_report(options: tuple[str, ...], build_study: BuildStudy, tmp_path: Path) -> None:
    root = build_study(COUNTS, claims='[[claims]]\nid = "C1"\nvariant = "heads_1"\nsays = "worse"\n')
    done = knockout("report", str(root), "--json", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = checked(done.stdout, "report")
    with (root / "contrasts.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [c["variant"] for c in told["contrasts"]] == [row["variant"] for row in rows]
    for row, contrast in zip(rows, told["contrasts"], strict=True):
        assert row["verdict"] == contrast["label"]
        for name, cell in row.items():
            if name != "verdict":
                assert _same(cell, contrast[name]), (name, cell, contrast[name])
    accounted = json.loads((root / "analysis.json").read_text(encoding="utf-8"))["verdicts"]
    assert [v["sentence"] for v in accounted] == [c["sentence"] for c in told["contrasts"]]
    assert told["contrasts"][0]["seeds"][0] == {"seed": 0, "state": "complete", "difference": -2.5}
    page = (root / "details.md").read_text(encoding="utf-8")
    assert told["answer"]
    assert all(line.split(":")[0] in page for line in told["answer"])
    assert {(f["variant"], f["status"]) for f in told["failures"]} == {
        ("pool_max", "diverged"), ("pool_max", "dead"), ("post_norm", "crashed"), ("post_norm", "missing"),
    }  # fmt: skip
    assert [c["ruling"] for c in told["claims"]] == ["supported"]
    assert all(Path(path).is_file() for path in told["files"].values())
    assert set(told["files"]) >= {"report.html", "report.md", "contrasts.csv", "analysis.json"}


def _same(cell: str, value: object) -> bool:
    if value is None or value == "":
        return cell == ""
    if isinstance(value, bool):
        return cell == str(value).lower()
    return float(cell) == value if isinstance(value, int | float) else cell.removeprefix("'") == value


def test_status(build_study: BuildStudy, tmp_path: Path) -> None:
    root = build_study(COUNTS)
    (root / "runs" / "torn-s0").mkdir()
    done = knockout("status", str(root), "--json", cwd=tmp_path)
    assert done.returncode == 1  # runs are missing
    told = checked(done.stdout, "status")
    assert told["counts"] == {"planned": 20, "finished": 17, "diverged": 1, "missing": 2, "lost": 1}
    assert told["complete"] is False
    assert [(r["variant"], r["seed"]) for r in told["missing"]] == [("post_norm", 3), ("post_norm", 4)]
    assert [(r["variant"], r["attempts"], r["given_up"], r["status"], r["reason"]) for r in told["lost"]] == [
        ("post_norm", 1, False, "crashed", "RuntimeError: boom | <b>")
    ]
    assert told["dead"] == [{"variant": "pool_max", "seed": 3}]
    assert (told["running"], told["coordinator"], told["ends"]) == ([], None, None)
    assert len(told["damage"]) == 1
    assert "torn-s0" in told["damage"][0]


def test_status_of_a_study_that_runs(build_study: BuildStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from knockout.design import read_design
    from knockout.sweep.owner import Owner, Progress

    root = build_study(COUNTS)
    design = read_design(root)
    assert design is not None
    missing = next(run for run in design.runs if (run.variant, run.seed) == ("post_norm", 4))
    monkeypatch.setattr("knockout.sweep.owner.coordinator", lambda _: Owner(host="box", pid=7, started=0.0))
    monkeypatch.setattr("knockout.sweep.owner.running_ids", lambda _: [missing.id, "f" * 64])
    at = Progress(step=10, steps=40, loss=math.nan)
    monkeypatch.setattr("knockout.sweep.owner.read_progress", lambda _, run_id: at if run_id == missing.id else None)
    told = checked(knockout("status", str(root), "--json", cwd=tmp_path).stdout, "status")
    assert told["running"] == [
        {"run_id": missing.id, "variant": "post_norm", "seed": 4, "step": 10, "steps": 40, "loss": None},
        {"run_id": "f" * 64, "variant": None, "seed": None, "step": None, "steps": None, "loss": None},
    ]
    assert told["coordinator"] == {"pid": 7, "host": "box"}
    assert told["ends"]["seconds"] > 0


def test_check_says_what_would_run_and_what_it_can_show(tmp_path: Path) -> None:
    study = str(REPOSITORY / "ablations" / "quick.toml")
    done = knockout("check", study, "--no-measure", "--json", "--set", "seeds=5", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = checked(done.stdout, "check")
    assert len(told["runs"]) == 55
    assert {run["state"] for run in told["runs"]} == {"missing"}
    arms = {arm["name"]: arm for arm in told["arms"]}
    assert arms["baseline"]["role"] == "baseline"
    assert {"key": "norm", "before": "pre", "after": "post"} in arms["post_norm"]["changes"]
    assert told["cost"] is None
    # the minimum detectable d_z of the paired t test at n = 5, alpha .05, power .8 is 1.68 (G*Power)
    assert told["outlook"]["alone"]["detectable"] / told["plan"]["planned_sd"] == pytest.approx(1.68, abs=0.01)
    assert told["outlook"]["first"]["alpha"] == pytest.approx(told["plan"]["alpha"] / 10)
    assert [floor["name"] for floor in told["floors"]][1] == "a linear model on word uni- and bigrams"
    assert list(tmp_path.iterdir()) == []


def test_check_of_two_seeds_has_null_where_nothing_can_be_detected(tmp_path: Path) -> None:
    study = str(REPOSITORY / "ablations" / "quick.toml")
    done = knockout("check", study, "--no-measure", "--json", "--set", "seeds=2", cwd=tmp_path)
    assert checked(done.stdout, "check")["outlook"]["alone"]["detectable"] is None


@pytest.mark.long
def test_check_measures_the_cost_on_standard_error_alone(tmp_path: Path) -> None:
    (tmp_path / "toy.toml").write_text(
        'question = "q"\ntrainer = "toy_trainer:train"\nvariants = ["up"]\nseeds = 3\n[run]\nworkers = 1\n',
        encoding="utf-8",
    )
    done = knockout("check", "toy.toml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = checked(done.stdout, "check")
    assert told["data"] is None
    assert [pace["variant"] for pace in told["cost"]["paces"]] == ["baseline", "up"]
    assert told["cost"]["workers"] == 1


@pytest.mark.parametrize("paired", [True, False])
def test_compare(paired: bool, tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text(RUNS, encoding="utf-8")
    options = () if paired else ("--unpaired",)
    done = knockout("compare", "runs.csv", "--baseline", "base", "--json", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = checked(done.stdout, "compare")
    assert told["paired"] is paired
    filled, empty = ("contrasts", "unpaired_contrasts") if paired else ("unpaired_contrasts", "contrasts")
    assert told[empty] == []
    assert [c["variant"] for c in told[filled]] == ["<script>alert(1)</script>", "\u4f60\u597d \U0001f600"]
    assert told[filled][0]["verdict"] == "worse"
    assert told[filled][0]["difference"] == pytest.approx(-3.0, abs=0.5)
    with (tmp_path / "runs_report" / "contrasts.csv").open(encoding="utf-8", newline="") as file:
        for row, contrast in zip(csv.DictReader(file), told[filled], strict=True):
            assert set(row) <= set(contrast)
    assert (tmp_path / told["files"]["report.html"]).is_file()


@pytest.mark.parametrize(
    ("arguments", "command", "says"),
    [
        (("report", "results/none"), "report", "no design.json"),
        (("status", "results/none"), "status", "no design.json"),
        (("check", "gone.toml"), "check", "no such file"),
        (("compare", "gone.csv"), "compare", "no such file"),
        (("report",), "report", "Missing argument"),
        (("check", "gone.toml", "--bogus"), "check", "--bogus"),
        (("list",), "list", "--json"),
        ((), "", "--json"),
    ],
)
def test_what_a_user_can_mend_is_an_object_too(
    arguments: tuple[str, ...], command: str, says: str, tmp_path: Path
) -> None:
    done = knockout(*arguments, "--json", cwd=tmp_path)
    assert done.returncode == 2
    assert says in checked(done.stdout, command)["error"]["message"]
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_disk_that_refuses_is_an_object_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Path, **_options: object) -> None:
        raise OSError(28, "No space left on device", "report.html")

    monkeypatch.setattr("knockout.analysis.report.write.write_report", full)
    done = knockout("report", "some/folder", "--json", cwd=tmp_path)
    assert done.returncode == 2
    assert "make room on the disk" in checked(done.stdout, "report")["error"]["message"]


def test_json_after_two_dashes_is_a_name_and_no_option(tmp_path: Path) -> None:
    done = knockout("status", "--", "--json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--json: no design.json" in done.stderr


def test_diff(build_study: BuildStudy, tmp_path: Path) -> None:
    build_study(COUNTS, name="before")
    build_study({**COUNTS, "heads_1": [300, 303, 297, 300, 298]}, name="after")
    done = knockout("diff", "before", "after", "--json", "--to", "written", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = checked(done.stdout, "diff")
    assert [arm["arm"] for arm in told["arms"]] == list(COUNTS)
    heads = told["arms"][1]
    assert heads["contrast"]["difference"] == pytest.approx(100 * np.mean([10, 11, 10, 11, 10]) / 400)
    assert heads["identity"] == {"pairs": 5, "predictions": 0, "losses": 5, "identical": 0}
    assert told["identity"]["pairs"] == 18
    assert {"of": "study", "key": "study", "before": "before", "after": "after"} in told["differences"]
    assert all((tmp_path / path).is_file() for path in told["files"].values())
