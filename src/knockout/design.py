"""design.json: the study as it is now, and as it was when its first run started.

`Design` is the one reading of the file. What older files lack has its default here, and stays out of the file when it
is written again.
"""

import functools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import pydantic

from knockout.errors import UserError
from knockout.files import replace_json
from knockout.plan import build_plan
from knockout.strict import FaultsError, got_text
from knockout.study import SCHEMA, Budget, Claim, Plan, Run, RunSpec, Study, digest
from knockout.study import design as runs_of
from knockout.variants import BASELINE, changes

FILE = "design.json"


class DesignError(UserError, ValueError):
    """A design.json that cannot be read; the text names the file and the key."""


@dataclass(frozen=True, kw_only=True)
class Anytime:
    """How a study with `seeds = "anytime"` ends: by this e-process, or after so many seeds."""

    process: Literal["sign", "t"]
    max_seeds: int


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What can make a contrast or a claim exploratory when it changes after the first run."""

    study_sha256: str
    plan_sha256: str
    plan: Plan
    variants: tuple[str, ...]
    """without the baseline, in the study's order"""
    seeds: tuple[int, ...]
    claims: tuple[str, ...]
    """ids"""
    cross: tuple[tuple[str, ...], ...] = ()
    placebos: tuple[str, ...] = ()
    """arms that are the baseline on other streams: run, and no variants"""
    anytime: Anytime | None = None
    """`None` where all seeds are run"""
    absent: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """the keys that the file lacks, `plan.KEY` those of its plan"""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One arm's factors, how they differ from the baseline's, and the papers that the differences come from."""

    factors: Mapping[str, object]
    changes: Mapping[str, tuple[object, object]]
    """factor -> (the baseline's level, this variant's)"""
    papers: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Split:
    """The size of a split, and how many of its examples have each label."""

    count: int
    labels: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class DataSummary:
    """What the study trains on. A trainer that reads its own data has an id at most, and the defaults."""

    id: str
    source: str = ""
    tokens: str = ""
    max_length: int = 0
    classes: tuple[str, ...] = ()
    vocabulary: int = 0
    splits: Mapping[str, Split] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    """reason -> rows"""
    notes: tuple[str, ...] = ()
    absent: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """the keys that the file lacks"""

    @property
    def label_counts(self) -> dict[str, tuple[int, ...]]:
        """split -> how many of its examples have each label."""
        return {name: split.labels for name, split in self.splits.items()}


@dataclass(frozen=True, kw_only=True)
class Design:
    """A study as it was planned: everything that a report needs beside the records."""

    schema: int
    study: str
    question: str
    trainer: str
    version: int
    baseline: str
    described: Mapping[str, Variant]
    """name -> what it is, the baseline among them"""
    recipe: Mapping[str, object]
    """hyperparameters that all arms share"""
    run: RunSpec
    budget: Budget
    overridden: tuple[str, ...]
    """the keys of the plan that the study's own `[plan]` sets"""
    claims: tuple[Claim, ...]
    data: DataSummary
    runs: tuple[Run, ...]
    now: Snapshot
    first: Snapshot
    """when the first run started"""
    same_trainer: tuple[tuple[str, ...], ...] = ()
    """groups of sources of the trainer (sha256) that `run --same-trainer` declared to make the same numbers"""


def read_design(root: Path) -> Design | None:
    """The design in a study's folder, or `None` where no run was ever started.

    Raises `DesignError` for a file that is torn, lacks a key or has a value of the wrong type or out of its bounds, and
    `FaultsError` for a plan with an unknown key.
    """
    path = root / FILE
    if not path.is_file():
        return None
    content = path.read_bytes()
    try:
        design = _reader().validate_json(content, strict=True)
    except pydantic.ValidationError as error:
        raise DesignError(_said(path, error)) from error
    raw = json.loads(content)
    for when in ("first", "now"):
        _, faults = build_plan(raw[when]["plan"], str(path), f"{when}.plan")
        if faults:
            raise FaultsError(faults)  # such as a later version's key, which may change the verdicts
    return replace(
        design,
        data=replace(design.data, absent=_absent(DataSummary, raw["data"])),
        first=replace(design.first, absent=_absent_of_snapshot(raw["first"])),
        now=replace(design.now, absent=_absent_of_snapshot(raw["now"])),
    )


def write_design(
    root: Path,
    study: Study,
    *,
    data_id: str,
    data_summary: Mapping[str, Any],
    same_trainer: tuple[str, ...] = (),
) -> tuple[Run, ...]:
    """Write the study's design before its first run, update it on later calls, and return the planned runs.

    The first call copies study and plan into the folder. Later calls keep `first`: what was added after results existed
    is exploratory. `same_trainer`: sources of the trainer that are declared to make the same numbers, kept with those
    of earlier calls. A file that says the same already is left alone.
    """
    root.mkdir(parents=True, exist_ok=True)
    before = read_design(root)
    planned = planned_design(root, study, data_id=data_id, data_summary=data_summary)
    if same_trainer:
        planned = replace(planned, same_trainer=(*planned.same_trainer, same_trainer))
    if before is None:
        (root / "study.toml").write_text(study.text, encoding="utf-8")
        (root / "plan.toml").write_text(study.plan_text, encoding="utf-8")
    if planned != before:
        save_design(root, planned)
    return planned.runs


def save_design(root: Path, design: Design) -> None:
    """Write design.json whole, without the keys that the file it was read from lacked."""
    document = asdict(design)
    for key in ("data", "first", "now"):
        document[key] = _present(document[key], document[key].pop("absent"))
    if not design.same_trainer:
        del document["same_trainer"]
    document["runs"] = [{k: v for k, v in run.items() if v is not None} for run in document["runs"]]
    replace_json(root / FILE, document)


def planned_design(root: Path, study: Study, *, data_id: str, data_summary: Mapping[str, Any]) -> Design:
    """The design that `write_design` would write to this folder."""
    before = read_design(root)
    now = Snapshot(
        study_sha256=digest(study.text),
        plan_sha256=digest(study.plan_text),
        plan=study.plan,
        variants=study.variants,
        seeds=study.seeds,
        claims=tuple(claim.id for claim in study.claims),
        cross=study.cross,
        placebos=study.placebos,
        anytime=Anytime(process=study.anytime, max_seeds=len(study.seeds)) if study.anytime else None,
    )
    return Design(
        schema=SCHEMA,
        study=study.name,
        question=study.question,
        trainer=study.trainer.path,
        version=study.trainer.version,
        baseline=BASELINE,
        described={name: _described(factors, study.trainer.papers) for name, factors in study.factors.items()},
        recipe={} if study.recipe is None else asdict(study.recipe),
        run=study.run,
        budget=study.budget,
        overridden=study.overridden,
        claims=study.claims,
        data=_summarised(data_id, data_summary),
        runs=runs_of(study, data_id=data_id),
        now=now,
        first=before.first if before else now,
        same_trainer=before.same_trainer if before else (),
    )


def _described(factors: Any, papers: Mapping[str, str]) -> Variant:
    changed = changes(factors)
    return Variant(
        factors=asdict(factors), changes=dict(changed), papers=tuple(papers[k] for k in changed if k in papers)
    )


def _summarised(data_id: str, summary: Mapping[str, Any]) -> DataSummary:
    raw = {"id": data_id, **summary}
    data = pydantic.TypeAdapter(DataSummary).validate_python(raw)
    return replace(data, absent=_absent(DataSummary, raw))


@functools.cache
def _reader() -> pydantic.TypeAdapter[Design]:
    return pydantic.TypeAdapter(Design)


def _said(path: Path, error: pydantic.ValidationError) -> str:
    faults = error.errors(include_url=False)
    first, more = faults[0], f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    key = ".".join(str(part) for part in first["loc"])
    if not key:
        return f"{path}: not readable ({first['msg']})"
    if first["type"] == "missing":
        return f"{path}: {key} is missing{more}"
    return f"{path}: {key}: {first['msg']}, got {got_text(first['input'])}{more}"


def _absent(kind: type[Snapshot] | type[DataSummary] | type[Plan], raw: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(f.name for f in fields(kind) if f.name not in raw and f.name != "absent")


def _absent_of_snapshot(raw: Mapping[str, Any]) -> frozenset[str]:
    return _absent(Snapshot, raw) | {f"plan.{key}" for key in _absent(Plan, raw["plan"])}


def _present(values: Mapping[str, Any], absent: frozenset[str], prefix: str = "") -> dict[str, Any]:
    return {
        k: _present(v, absent, f"{prefix}{k}.") if isinstance(v, dict) else v
        for k, v in values.items()
        if prefix + k not in absent
    }
