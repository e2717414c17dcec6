"""design.json: read and written by one type, older files with their defaults, broken ones with their key."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from knockout.design import (
    Anytime,
    DataSummary,
    Design,
    DesignError,
    Split,
    planned_design,
    read_design,
    save_design,
    write_design,
)
from knockout.files import replace_json
from knockout.plan import FIXED
from knockout.strict import FaultsError
from knockout.study import Plan, Study, design, digest, read_study
from tests.designs import raw_design

WriteStudy = Callable[..., Path]

REFERENCE = Path(__file__).parents[1] / "results" / "reference" / "quick"
DATA_ID = "d" * 64
COPIES = ("study.toml", "study.first.toml", "plan.toml", "plan.first.toml")
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


def read(root: Path) -> Design:
    value = read_design(root)
    assert value is not None
    return value


def test_the_published_design_is_the_same_when_it_is_written_again(root: Path) -> None:
    root.mkdir(parents=True)
    save_design(root, read(REFERENCE))
    published = raw_design(REFERENCE)
    for when in ("first", "now"):  # keys of earlier plans, which had one value each
        published[when]["plan"] = {k: v for k, v in published[when]["plan"].items() if k not in FIXED}
    assert raw_design(root) == published


def test_a_new_design_reads_back_equal_and_is_written_again_with_the_same_bytes(root: Path, study: Study) -> None:
    write_design(root, study, data_id=DATA_ID, data_summary={})
    before = (root / "design.json").read_bytes()
    assert read(root) == planned_design(root, study, data_id=DATA_ID, data_summary={})
    save_design(root, read(root))
    assert (root / "design.json").read_bytes() == before


def test_the_file_has_these_keys(root: Path, study: Study) -> None:
    write_design(root, study, data_id=DATA_ID, data_summary={"notes": []})
    value = raw_design(root)
    assert sorted(value) == [
        "baseline", "budget", "claims", "data", "described", "first", "now", "overridden", "question", "recipe", "run",
        "runs", "schema", "study", "trainer", "version",
    ]  # fmt: skip
    assert sorted(value["now"]) == [
        "anytime", "claims", "cross", "placebos", "plan", "plan_sha256", "seeds", "setting", "study_sha256",
        "variants",
    ]  # fmt: skip
    assert value["first"] == value["now"]
    assert value["data"] == {"id": DATA_ID, "notes": []}
    assert value["runs"][0].keys() == {"id", "variant", "seed"}
    assert value["described"]["heads_1"]["changes"] == {"num_heads": [8, 1]}


def test_the_first_design_stays_and_the_present_one_follows(study: Study, root: Path, write_study: WriteStudy) -> None:
    runs = write_design(root, study, data_id=DATA_ID, data_summary={"notes": []})
    assert runs == design(study, data_id=DATA_ID)
    first = read(root)
    assert first.first == first.now
    assert first.now.study_sha256 == hashlib.sha256(STUDY.encode()).hexdigest()
    assert first.now.plan_sha256 == digest(study.plan_text)
    assert first.runs == runs
    assert first.data == DataSummary(id=DATA_ID)
    assert first.described["heads_1"].changes == {"num_heads": (8, 1)}
    assert len(first.described["heads_1"].papers) == 1
    assert first.described["baseline"].papers == ()

    write_study("margin = 2.0\n", "plan")
    text = STUDY.replace('"no_scale"]', '"pool_max"]').replace("seeds = 2", 'seeds = 3\nplan = "plan.toml"')
    later = read_study(write_study(text))
    write_design(root, later, data_id=DATA_ID, data_summary={})
    second = read(root)
    assert second.first == first.first
    assert second.now.variants == ("heads_1", "pool_max")
    assert second.now.seeds == (0, 1, 2)
    assert second.now.plan.margin == 2.0
    assert second.now.study_sha256 != first.now.study_sha256
    assert len(second.runs) == 9
    copies = [(root / name).read_text(encoding="utf-8") for name in COPIES]
    assert copies == [text, STUDY, "margin = 2.0\n", study.plan_text]


def test_an_unchanged_design_is_not_written_again(study: Study, root: Path) -> None:
    write_design(root, study, data_id=DATA_ID, data_summary={})
    before = (root / "design.json").stat().st_mtime_ns, (root / "design.json").stat().st_ino
    write_design(root, study, data_id=DATA_ID, data_summary={})
    assert ((root / "design.json").stat().st_mtime_ns, (root / "design.json").stat().st_ino) == before


def test_the_design_holds_the_crossings_and_their_cells(root: Path, write_study: WriteStudy) -> None:
    crossed = read_study(write_study(STUDY.replace("seeds = 2", 'seeds = 2\ncross = [["heads_1", "no_scale"]]')))
    write_design(root, crossed, data_id=DATA_ID, data_summary={})
    value = read(root)
    assert value.now.cross == (("heads_1", "no_scale"),)
    assert value.now.variants == ("heads_1", "no_scale", "heads_1__and__no_scale")
    assert value.described["heads_1__and__no_scale"].changes == {"num_heads": (8, 1), "scale": ("sqrt_dk", "none")}


def test_the_design_holds_the_data_the_placebos_and_how_the_study_ends(root: Path, write_study: WriteStudy) -> None:
    text = STUDY.replace("seeds = 2", 'seeds = "anytime"\nmax_seeds = 12\nplacebo = 1')
    summary = {"source": "x", "classes": ["a", "b"], "splits": {"test": {"count": 5, "labels": [2, 3]}}}
    runs = write_design(root, read_study(write_study(text)), data_id=DATA_ID, data_summary=summary)
    value = read(root)
    assert value.now.anytime == Anytime(process="sign", max_seeds=12)
    assert value.now.placebos == ("placebo_1",)
    assert value.runs == runs
    assert [run.variant for run in runs if run.stream is not None] == ["placebo_1"] * 12
    assert value.data.splits == {"test": Split(count=5, labels=(2, 3))}
    assert value.data.label_counts == {"test": (2, 3)}
    assert (value.data.classes, value.data.tokens, value.data.dropped) == (("a", "b"), "", {})


def test_an_older_design_has_the_defaults_and_keeps_its_bytes(
    study: Study, root: Path, write_study: WriteStudy
) -> None:
    write_design(root, study, data_id=DATA_ID, data_summary={})
    old = raw_design(root)
    for when in ("first", "now"):
        del old[when]["cross"], old[when]["placebos"], old[when]["anytime"], old[when]["plan"]["draws"]
        del old[when]["setting"]
    replace_json(root / "design.json", old)
    value = read(root)
    assert (value.first.cross, value.now.placebos, value.now.anytime) == ((), (), None)
    assert value.now.plan.draws == Plan().draws
    before = (root / "design.json").read_bytes()
    write_design(root, study, data_id=DATA_ID, data_summary={})
    assert (root / "design.json").read_bytes() == before
    later = read_study(write_study(STUDY.replace("seeds = 2", 'seeds = 2\ncross = [["heads_1", "no_scale"]]')))
    write_design(root, later, data_id=DATA_ID, data_summary={})
    assert (read(root).first.cross, read(root).now.cross) == ((), (("heads_1", "no_scale"),))
    first = raw_design(root)["first"]
    setting = first.pop("setting")
    assert {k: value for k, (_, value) in setting["recipe"].items()} == old[
        "recipe"
    ]  # known, since the study file had not changed until then
    assert first == old["first"]


def test_no_design_where_no_run_was_started(root: Path) -> None:
    assert read_design(root) is None


@pytest.mark.parametrize(
    "path",
    ["study", "now", "first.plan_sha256", "now.plan", "data.id", "data.splits.test.count", "runs.1.id"],
)
def test_a_design_that_lacks_a_key_is_refused_by_its_name(path: str, study: Study, root: Path) -> None:
    summary = {"splits": {"test": {"count": 5, "labels": [2, 3]}}}
    write_design(root, study, data_id=DATA_ID, data_summary=summary)
    value = inner = raw_design(root)
    *parents, key = path.split(".")
    for name in parents:
        inner = inner[int(name) if name.isdigit() else name]
    del inner[key]
    replace_json(root / "design.json", value)
    with pytest.raises(DesignError) as caught:
        read_design(root)
    rebuilds = "`knockout run` with the study file sets it aside and rebuilds it"
    assert str(caught.value) == f"{root / 'design.json'}: {path} is missing; {rebuilds}"


def test_a_value_of_the_wrong_kind_is_refused_by_its_key(study: Study, root: Path) -> None:
    write_design(root, study, data_id=DATA_ID, data_summary={})
    value = raw_design(root)
    value["now"]["seeds"] = ["0", 1]
    replace_json(root / "design.json", value)
    with pytest.raises(DesignError, match=r'design\.json: now\.seeds\.0: Input should be a valid integer, got "0"'):
        read_design(root)


def test_a_plan_out_of_its_bounds_is_refused(study: Study, root: Path) -> None:
    write_design(root, study, data_id=DATA_ID, data_summary={})
    value = raw_design(root)
    value["first"]["plan"]["alpha"] = 0.9
    replace_json(root / "design.json", value)
    with pytest.raises(DesignError, match=r"design\.json: first\.plan\.alpha: .* less than 0\.5, got 0\.9"):
        read_design(root)


def test_a_plan_with_an_unknown_key_is_refused(study: Study, root: Path) -> None:
    write_design(root, study, data_id=DATA_ID, data_summary={})
    value = raw_design(root)
    value["now"]["plan"]["marginal"] = 1
    replace_json(root / "design.json", value)
    with pytest.raises(FaultsError, match=r'now\.plan\.marginal: unknown key \(did you mean "margin"'):
        read_design(root)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_a_torn_design_is_refused(content: bytes, root: Path) -> None:
    root.mkdir(parents=True)
    (root / "design.json").write_bytes(content)
    with pytest.raises(DesignError, match=r"design\.json: not readable"):
        read_design(root)
