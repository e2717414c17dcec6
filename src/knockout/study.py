"""Studies: the strict reader of a study file, the runs that a study consists of, and their ids.

All faults of a file are reported at once, as `knockout.strict.Fault`s.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from knockout.arms import NAME, Arm, Stated, known_variants, read_arms
from knockout.claims import Claim, claim_metrics, read_claims, unused
from knockout.crossings import cross_variants
from knockout.job import DataSpec
from knockout.overrides import LINE, apply_lines, lines_in, override_lines, with_lines
from knockout.plan import Plan, default_plan_text, read_plan, read_study_plan
from knockout.seeds import placebo_streams, read_placebos, read_seeds
from knockout.strict import Fault, Faults, FaultsError, build, got_text, load_toml, shown, unknown_keys
from knockout.trainer_source import import_folders, import_path
from knockout.trainers import DEFAULT_TRAINER, Trainer, describe_trainer
from knockout.variants import BASELINE, changes

__all__ = [
    "Claim",
    "Plan",
    "Run",
    "Study",
    "default_plan_text",
    "design",
    "digest",
    "read_copy",
    "read_plan",
    "read_study",
    "run_id",
]

SCHEMA = 1
"""Of a run's id and record. Raised when their form changes."""

RESERVED = ("benchmarks", "calibration", "reliability", "reference")
TABLES = ("data", "model", "train", "run", "budget", "variant")
KEYS = (
    "question", "trainer", "variants", "baseline", "cross", "seeds", "plan", "data", "model", "train", "run", "budget",
    "max_seeds", "placebo", "variant", "claims",
)  # fmt: skip
DEVICE_FILES = {"con", "prn", "aux", "nul", *(f"{kind}{n}" for kind in ("com", "lpt") for n in range(10))}


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """The table [run]: how runs are executed. Only `threads` is part of a run's id."""

    workers: int = field(default=0, metadata={"ge": 0, "le": 1024})  # 0: one per core / threads; on a GPU one per GPU
    threads: int = field(default=1, metadata={"ge": 1, "le": 1024})
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    timeout_minutes: float = field(default=0.0, metadata={"ge": 0.0})  # of one run; 0: none


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The table [budget]. `hours`: training time over all `run` commands, divided by the workers; 0 is no limit."""

    hours: float = field(default=0.0, metadata={"ge": 0.0})


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study file, read and checked."""

    name: str
    path: Path
    text: str
    question: str
    trainer: Trainer
    compared: Mapping[str, Arm]
    """name -> what it is trained with, the baseline first, then the variants in the file's order"""
    seeds: tuple[int, ...]
    anytime: Literal["sign", "t"] | None
    """the e-process that ends the study early; `None` where all seeds are run"""
    placebos: tuple[str, ...]
    """A/A arms: the baseline trained with other seeds"""
    data: DataSpec | None
    run: RunSpec
    budget: Budget
    plan: Plan
    plan_text: str
    overridden: tuple[str, ...]
    """the keys of the plan that the study's own `[plan]` sets"""
    claims: tuple[Claim, ...]
    """on variants that are run"""
    cross: tuple[tuple[str, ...], ...]
    """the variants whose full factorial is run, one tuple of names for each"""
    unused: tuple[str, ...] = ()
    """sentences on what the file holds and the study does not use: variants and claims left out of `variants`"""

    @classmethod
    def read(cls, path: str | Path) -> "Study":
        """Read and check a study file. Raises `knockout.strict.FaultsError` with every fault."""
        return read_study(Path(path))

    @property
    def variants(self) -> tuple[str, ...]:
        """The names without the baseline: one contrast each."""
        return tuple(name for name in self.compared if name != BASELINE)

    @property
    def baseline(self) -> Arm:
        """What the baseline is trained with."""
        return self.compared[BASELINE]

    @property
    def arms(self) -> Mapping[str, Arm]:
        """name -> what it is trained with, of everything that is run: `compared`, then the placebos as the baseline."""
        return {**self.compared, **dict.fromkeys(self.placebos, self.baseline)}


@dataclass(frozen=True, kw_only=True)
class Run:
    """One (variant, seed) of a study."""

    id: str
    variant: str
    seed: int
    stream: int | None = None
    """the seed that a placebo is trained with (`seed` is that of the runs it is paired with); `None` for other runs"""

    @property
    def training_seed(self) -> int:
        """The seed that the trainer gets and that the record holds."""
        return self.seed if self.stream is None else self.stream


def digest(text: str) -> str:
    """sha256, as 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def run_id(study: Study, *, variant: str, seed: int, data_id: str) -> str:
    """sha256 of everything that can change the numbers of a run, and of nothing else."""
    arm = study.compared[variant]
    identity = {
        "schema": SCHEMA,
        "trainer": study.trainer.path,
        "version": study.trainer.version,
        "factors": {name: after for name, (_, after) in changes(arm.factors).items()},
        "recipe": {} if arm.recipe is None else {k: after for k, (_, after) in changes(arm.recipe).items()},
        "data": data_id,
        "threads": study.run.threads,
        "seed": seed,
    }
    return digest(json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False))


def design(study: Study, *, data_id: str) -> tuple[Run, ...]:
    """All runs of the study, seed by seed: all variants of one seed before the next, so any stop leaves whole blocks.

    The placebos of a seed come after its variants.
    """
    streams = placebo_streams(study.placebos, study.seeds)

    def run(name: str, seed: int) -> Run:
        stream = streams.get((name, seed))
        of = BASELINE if stream is not None else name
        known = run_id(study, variant=of, seed=seed if stream is None else stream, data_id=data_id)
        return Run(id=known, variant=name, seed=seed, stream=stream)

    arms = tuple(study.arms)
    return tuple(run(name, seed) for seed in study.seeds for name in arms)


def read_study(path: Path, overrides: Sequence[str] = ()) -> Study:
    """Read and check a study file and the plan that it names. Its trainer may lie beside it, or in the current folder.

    `overrides`: `KEY=VALUE` in the place of what the file says; the study's text, and so its sha256, includes them.
    Raises `FaultsError` with every fault of file and plan.
    """
    lines = override_lines(overrides)
    folders = import_folders(path)
    with import_path(folders):
        return _read_study(path, lines, folders)


def _read_study(path: Path, lines: tuple[str, ...], folders: tuple[Path, ...]) -> Study:
    raw, text, unreadable = load_toml(path)
    file = shown(path)
    faults = _name_faults(path.stem, file)
    if raw is None:
        raise FaultsError([*faults, *unreadable])
    if lines_in(text):
        got = f'a copy from a results folder, in which --set had changed values (the lines "{LINE.strip()}" at its end)'
        allowed = "these values in the file itself, without the lines"
        faults.append(Fault(file=file, got=got, allowed=allowed))
    faults += apply_lines(raw, lines, file)
    return _study(path, path.stem, raw, with_lines(text, lines), faults, folders)


def read_copy(path: Path, *, name: str, plan: Path, folders: tuple[Path, ...]) -> Study:
    """The study in a copy of its file. `name` is the study's; `plan` is a copy of the plan, wherever that was.

    `folders`: where a trainer beside the study's own file is looked for.

    Raises `FaultsError` with every fault of both.
    """
    raw, text, unreadable = load_toml(path)
    if raw is None:
        raise FaultsError(unreadable)
    faults = apply_lines(raw, lines_in(text), shown(path))
    stated = raw.get("plan")
    raw["plan"] = {**(stated if isinstance(stated, dict) else {}), "file": str(plan.absolute())}
    with import_path(folders):
        return _study(path, name, raw, text, faults, folders)


def _study(
    path: Path, name: str, raw: Mapping[str, Any], text: str, wrong: list[Fault], folders: tuple[Path, ...]
) -> Study:
    file = shown(path)
    faults = Faults(wrong)
    faults += unknown_keys(raw, KEYS, file, "")
    tables = {key: faults.take(_table(raw, key, file)) for key in TABLES}
    question = faults.take(_question(raw.get("question", ""), file))
    trainer = faults.take(describe_trainer(raw.get("trainer", DEFAULT_TRAINER), file, folders))
    seeds, stopping, wrong = read_seeds(raw, file)
    faults += wrong
    placebos = faults.take(read_placebos(raw.get("placebo", 0), raw.get("variants"), tables["variant"], file))
    stated = faults.take(read_study_plan(raw.get("plan"), path, file))
    data = faults.take(_data(trainer, tables["data"], file))
    run = faults.take(build(RunSpec, tables["run"], file, "run"))
    budget = faults.take(build(Budget, tables["budget"], file, "budget"))
    stated_arms = Stated(
        baseline=raw.get(BASELINE, {}), variants=raw.get("variants"), declared=tables["variant"],
        model=tables["model"], train=tables["train"],
    )  # fmt: skip
    arms = faults.take(read_arms(trainer, stated_arms, file))
    cells, cross, wrong = cross_variants(
        raw.get("cross", []), arms, named=raw.get("variants"), trainer=trainer, file=file
    )
    faults += wrong
    arms |= cells
    known = {*known_variants(trainer), *tables["variant"]} if trainer else set()
    stated_claims = faults.take(read_claims(raw.get("claims", []), arms, known, raw.get("variants"), file))
    claims = tuple(c for c in stated_claims if c.variant in arms)
    faults += _length_faults(data, arms, file) if trainer is not None and trainer.path == DEFAULT_TRAINER else []
    faults += claim_metrics(claims, stated.plan, file) if stated is not None else []
    if faults:
        raise FaultsError(faults)
    assert trainer is not None
    assert stated is not None
    assert run is not None
    assert budget is not None
    return Study(
        name=name,
        path=path,
        text=text,
        question=question,
        trainer=trainer,
        compared=arms,
        seeds=seeds,
        anytime=stated.plan.anytime if stopping == "anytime" else None,
        placebos=placebos,
        data=data if tables["data"] else None,
        run=run,
        budget=budget,
        plan=stated.plan,
        plan_text=stated.text,
        overridden=stated.overridden,
        claims=claims,
        cross=cross,
        unused=unused(arms, tables["variant"], stated_claims),
    )


def _name_faults(name: str, file: str) -> list[Fault]:
    if name in RESERVED:
        got = f'the name "{name}" is reserved under results/'
        return [Fault(file=file, key="file name", got=got, allowed="any other name of a-z, 0-9 and _")]
    if not NAME.fullmatch(name) or name in DEVICE_FILES:
        allowed = "1 to 64 of a-z, 0-9 and _, and no name that Windows keeps for a device, such as con"
        fitting = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_")[:64]
        return [
            Fault(
                file=file,
                key="file name",
                got=f"a study is named after its file, got {got_text(name)}",
                allowed=allowed,
                nearest=fitting if fitting not in DEVICE_FILES else "",
            )
        ]
    return []


def _table(raw: Mapping[str, Any], key: str, file: str) -> tuple[dict[str, Any], list[Fault]]:
    """The table under a key; an empty one where it is missing or no table."""
    table = raw.get(key, {})
    if isinstance(table, dict):
        return table, []
    return {}, [Fault(file=file, key=key, got=f"got {got_text(table)}", allowed=f"a table, [{key}]")]


def _question(question: object, file: str) -> tuple[str, list[Fault]]:
    if not isinstance(question, str) or not question.strip() or len(question) > 2000:
        return "", [Fault(file=file, key="question", got=f"got {got_text(question)}", allowed="the question in words")]
    return " ".join(question.split()), []


def _data(trainer: Trainer | None, table: Mapping[str, Any], file: str) -> tuple[DataSpec | None, list[Fault]]:
    data, faults = build(DataSpec, table, file, "data")
    if trainer is not None and trainer.path == DEFAULT_TRAINER and not table.get("source"):
        allowed = '"rotten_tomatoes", or a file or folder'
        faults.append(Fault(file=file, key="data.source", got="missing", allowed=allowed))
    if data is not None and not math.isclose(sum(data.split), 1.0, abs_tol=1e-9):
        allowed = "three fractions above 0 that add up to 1"
        faults.append(Fault(file=file, key="data.split", got=f"got {list(data.split)}", allowed=allowed))
    elif data is not None and min(data.split) <= 0:
        faults.append(Fault(file=file, key="data.split", got=f"got {list(data.split)}", allowed="fractions above 0"))
    if data is not None and min(data.sizes) < 0:
        allowed = "three whole numbers of texts: training, validation, test; 0 means all"
        faults.append(Fault(file=file, key="data.sizes", got=f"got {list(data.sizes)}", allowed=allowed))
    return data, faults


def _length_faults(data: DataSpec | None, arms: Mapping[str, Arm], file: str) -> list[Fault]:
    """Arms that ask for longer texts than the prepared data have."""
    if data is None:
        return []
    return [
        Fault(
            file=file,
            key="baseline" if name == BASELINE else f"variant {name}",
            got=f"{field} = {length}, above data.max_length = {data.max_length}",
            allowed=f"at most {data.max_length}, or a larger data.max_length",
        )
        for name, arm in arms.items()
        for field in ("max_length", "train_length")
        if (length := getattr(arm.recipe, field)) > data.max_length
    ]
