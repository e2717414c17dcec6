"""design.json: the study as it is now, and as it was when its first run started.

`Design` is the one reading of the file. What older files lack has its default here, and stays out of the file when it
is written again. The file holds its own sha256 (older ones do not), so that a changed one is not taken for a design.
"""

import contextlib
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from knockout.arms import Arm
from knockout.copies import oldest_copy, write_copies
from knockout.data.lengths import unpack_lengths
from knockout.errors import UserError
from knockout.files import json_text, replace_json
from knockout.job import Floor
from knockout.plan import build_plan
from knockout.plurals import plural
from knockout.strict import FaultsError, got_text
from knockout.study import SCHEMA, Budget, Claim, Plan, Run, RunSpec, Study, digest, read_copy
from knockout.study import design as runs_of
from knockout.variants import BASELINE, changes, papers_of

FILE = "design.json"
CHECKSUM = "sha256"
"""Its key for the sha256 of everything else in it."""
REBUILDS = "`knockout run` with the study file sets it aside and rebuilds it"


class DesignError(UserError, ValueError):
    """A design.json that cannot be read; the text names the file and the key."""


@dataclass(frozen=True, kw_only=True)
class Anytime:
    """How a study with `seeds = "anytime"` ends: by this e-process, or after so many seeds."""

    process: Literal["sign", "t"]
    max_seeds: int


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the numbers of a run depend on, beside its seed, as plain JSON values."""

    trainer: str
    version: int
    recipe: Mapping[str, tuple[object, object]]
    """key -> its default, its value"""
    factors: Mapping[str, Mapping[str, tuple[object, object]]]
    """variant -> factor -> the baseline's level, its own; the baseline among them"""
    data: Mapping[str, object]
    """the keys of `[data]` as the study file has them, and the `id` where it is known"""


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
    setting: Setting | None = field(default=None, compare=False)
    """`None` in older files"""
    absent: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """the keys that the file lacks, `plan.KEY` those of its plan"""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One arm's factors, how they differ from the baseline's, and the papers that the differences come from."""

    factors: Mapping[str, object]
    """with the fields of the recipe that the variant changes"""
    changes: Mapping[str, tuple[object, object]]
    """field -> (the baseline's value, this variant's); of the baseline itself, (the default, its own) of its factors"""
    papers: tuple[str, ...]
    system: str = ""
    """the registered system that it is made from"""
    own_batches: tuple[str, ...] = ()
    """the changes by which its batches hold other examples than the baseline's"""


@dataclass(frozen=True, kw_only=True)
class Split:
    """The size of a split, and how many of its examples have each label."""

    count: int
    labels: tuple[int, ...]


def _packed(text: str) -> str:
    """The text, which holds lengths or nothing. Raises `ValueError` where it holds something else."""
    if text:
        unpack_lengths(text)
    return text


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
    test_lengths: Annotated[str, pydantic.AfterValidator(_packed)] = ""
    """of the test texts, in tokens before they are cut (`knockout.data.lengths`); empty in older files"""
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
    """the baseline's hyperparameters; a variant may change some"""
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
    floors: tuple[Floor, ...] = ()
    """what simpler models reach on the test split; none in older files, and where a trainer without data states none"""
    rebuilt: tuple[str, ...] = ()
    """sentences on what is not known any more, since the file was lost and laid down again beside results"""

    @property
    def dropped(self) -> tuple[str, ...]:
        """Variants that were planned when the first run started, and are not any more. Holm still counts them."""
        return tuple(name for name in self.first.variants if name not in self.now.variants)


def dropped_line(names: Sequence[str]) -> str:
    """What a reader has to know of variants that are not in the study file any more."""
    return f"dropped since the first run, and still counted by Holm: {', '.join(names)}"


def absence(root: Path) -> str:
    """Why a folder without design.json cannot be read, in one line."""
    runs = any((root / "runs").glob("[!.]*")) if (root / "runs").is_dir() else False
    if runs or any(root.glob("records*.parquet")) or oldest_copy(root) is not None:
        return f"{root / FILE} is missing; `knockout run` with the study file rebuilds it"
    return f"{root}: no {FILE}, so no study was ever started here"


def read_design(root: Path) -> Design | None:
    """The design in a study's folder, or `None` where there is no design.json.

    Raises `DesignError` for a file that is torn, lacks a key, has a value of the wrong type or out of its bounds, or
    was changed since it was written, and `FaultsError` for a plan with an unknown key.
    """
    path = root / FILE
    if path.is_dir():
        raise DesignError(f"{path}: not readable (a folder); {REBUILDS}")
    if not path.is_file():
        return None
    content = path.read_bytes()
    try:
        design = _reader().validate_json(content, strict=True)
    except pydantic.ValidationError as error:
        raise DesignError(f"{_said(path, error)}; {REBUILDS}") from error
    raw = json.loads(content)
    if not _holds(raw):
        raise DesignError(f"{path}: changed since it was written; {REBUILDS}")
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
    floors: tuple[Floor, ...] = (),
    results: int = 0,
    same_trainer: tuple[str, ...] = (),
) -> tuple[Run, ...]:
    """Write the study's design before its first run, update it on later calls, and return the planned runs.

    Later calls keep `first`: what was added after results existed is exploratory. `results`: how many runs have a
    result already; where there is no design beside them, the new one says what is not known any more. Copies of the
    study file and the plan are kept as they are now and as they were first. `same_trainer`: sources of the trainer that
    are declared to make the same numbers, kept with those of earlier calls. A file that says the same already is left
    alone.
    """
    root.mkdir(parents=True, exist_ok=True)
    before = read_design(root)
    planned = planned_design(root, study, data_id=data_id, data_summary=data_summary, floors=floors, results=results)
    if same_trainer:
        planned = replace(planned, same_trainer=(*planned.same_trainer, same_trainer))
    write_copies(root, "study", study.text, first_sha256=planned.first.study_sha256)
    write_copies(root, "plan", study.plan_text, first_sha256=planned.first.plan_sha256)
    if planned != before:
        save_design(root, planned)
    return planned.runs


def save_design(root: Path, design: Design) -> None:
    """Write design.json whole, with its checksum, without the keys that the file it was read from lacked."""
    document = asdict(design)
    for key in ("data", "first", "now"):
        document[key] = _present(document[key], document[key].pop("absent"))
    for key in ("same_trainer", "floors", "rebuilt"):
        if not document[key]:
            del document[key]
    document["runs"] = [{k: v for k, v in run.items() if v is not None} for run in document["runs"]]
    for variant in document["described"].values():  # older files lack them
        for key in ("system", "own_batches"):
            if not variant[key]:
                del variant[key]
    replace_json(root / FILE, {**document, CHECKSUM: digest(json_text(document))})


def planned_design(
    root: Path,
    study: Study,
    *,
    data_id: str,
    data_summary: Mapping[str, Any],
    floors: tuple[Floor, ...] = (),
    results: int = 0,
) -> Design:
    """The design that `write_design` would write to this folder. One that cannot be read would be rebuilt."""
    try:
        before = read_design(root)
    except DesignError:
        before = None
    now = _snapshot(study, data_id=data_id)
    first, rebuilt = (_first_of(before), before.rebuilt) if before else (now, ())
    if before is None and results:
        first, rebuilt = _recovered(root, study, results=results) or (now, rebuilt)
    return Design(
        schema=SCHEMA,
        study=study.name,
        question=study.question,
        trainer=study.trainer.path,
        version=study.trainer.version,
        baseline=BASELINE,
        described={
            name: _described(arm, study.baseline if name != BASELINE else None, study.trainer.papers)
            for name, arm in study.compared.items()
        },
        recipe={} if study.baseline.recipe is None else asdict(study.baseline.recipe),
        run=study.run,
        budget=study.budget,
        overridden=study.overridden,
        claims=study.claims,
        data=_summarised(data_id, data_summary),
        runs=runs_of(study, data_id=data_id),
        now=now,
        first=first,
        floors=floors,
        rebuilt=rebuilt,
        same_trainer=before.same_trainer if before else (),
    )


def _snapshot(study: Study, *, data_id: str) -> Snapshot:
    spec = {} if study.data is None else asdict(study.data)
    if study.data is not None and not any(study.data.sizes):  # left out where all texts are kept, as in older files
        del spec["sizes"]
    setting = Setting(
        trainer=study.trainer.path,
        version=study.trainer.version,
        recipe={} if study.baseline.recipe is None else _levels(study.baseline.recipe),
        factors={name: _levels_of(arm, study.baseline) for name, arm in study.compared.items()},
        data=_plain({**spec, **({"id": data_id} if data_id else {})}),
    )
    return Snapshot(
        study_sha256=digest(study.text),
        plan_sha256=digest(study.plan_text),
        plan=study.plan,
        variants=study.variants,
        seeds=study.seeds,
        claims=tuple(claim.id for claim in study.claims),
        cross=study.cross,
        placebos=study.placebos,
        anytime=Anytime(process=study.anytime, max_seeds=len(study.seeds)) if study.anytime else None,
        setting=setting,
    )


def _first_of(before: Design) -> Snapshot:
    """The first snapshot; that of an older file gets its setting from the design, where the study file is the same."""
    first = before.first
    if first.setting is not None or first.study_sha256 != before.now.study_sha256:
        return first
    setting = Setting(
        trainer=before.trainer,
        version=before.version,
        recipe={key: (value, value) for key, value in before.recipe.items()},
        factors={
            name: {k: variant.changes.get(k, (level, level)) for k, level in variant.factors.items()}
            for name, variant in before.described.items()
        },
        data={"id": before.data.id} if before.data.id else {},
    )
    return replace(first, setting=setting, absent=first.absent - {"setting"})


def _recovered(root: Path, study: Study, *, results: int) -> tuple[Snapshot, tuple[str, ...]]:
    """The first snapshot of a study whose design.json was lost, as far as a copy tells, and what is not known."""
    had = f"{plural(results, 'run')} had a result"
    laid = f"{FILE} was missing or not readable, and was laid down on {datetime.now(UTC).date()}, when {had} already."
    copy = oldest_copy(root)
    if copy is not None:
        file, plan = copy
        with contextlib.suppress(FaultsError):
            first = _snapshot(read_copy(file, name=study.name, plan=plan, folders=study.trainer.folders), data_id="")
            said = (
                f"What was planned before the first run is read from {file.name} and {plan.name} beside it; that these"
                " are as they were then cannot be checked any more."
            )
            return first, (f"{laid} {said}",)
    said = (
        "What was planned before the first run (variants, seeds, plan, claims, recipe) is not known any more, nor when:"
        " no contrast or claim can be shown to have been fixed before results existed."
    )
    return _snapshot(study, data_id=""), (f"{laid} {said}",)


def _described(arm: Arm, baseline: Arm | None, papers: Mapping[str, str]) -> Variant:
    """What an arm is. `baseline`: `None` for the baseline itself: how its factors differ from the defaults."""
    changed = changes(arm.factors) if baseline is None else arm.differences(baseline)
    factors = asdict(arm.factors)
    return Variant(
        factors={**factors, **{k: value for k, (_, value) in changed.items() if k not in factors}},
        changes=dict(changed),
        papers=papers_of({field: value for field, (_, value) in changed.items()}, papers),
        system=arm.system,
        own_batches=() if baseline is None else arm.batch_fields(baseline),
    )


def _summarised(data_id: str, summary: Mapping[str, Any]) -> DataSummary:
    raw = {"id": data_id, **summary}
    data = pydantic.TypeAdapter(DataSummary).validate_python(raw)
    return replace(data, absent=_absent(DataSummary, raw))


def _levels(factors: Any) -> Mapping[str, tuple[object, object]]:
    """key -> default, value, of all fields of a recipe or of factors."""
    differing = changes(factors)
    levels = {key: differing.get(key, (value, value)) for key, value in asdict(factors).items()}
    return {key: (before, after) for key, (before, after) in _plain(levels).items()}


def _levels_of(arm: Arm, baseline: Arm) -> Mapping[str, tuple[object, object]]:
    """Key -> default, value of an arm's factors, and key -> the baseline's, its own of the recipe that it changes."""
    factors = _levels(arm.factors)
    return {**factors, **_plain({k: v for k, v in arm.differences(baseline).items() if k not in factors})}


def _plain(value: Mapping[str, object]) -> dict[str, Any]:
    """As it reads back from JSON."""
    plain: dict[str, Any] = json.loads(json.dumps(value))
    return plain


def _holds(raw: dict[str, Any]) -> bool:
    """Whether a document is what its checksum was made of; older files have none."""
    stated = raw.get(CHECKSUM)
    if stated is None:
        return True
    try:
        return bool(stated == digest(json_text({k: v for k, v in raw.items() if k != CHECKSUM})))
    except ValueError:  # NaN, or half a character: nothing that is ever written
        return False


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
