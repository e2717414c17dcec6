"""Studies: the strict reader of a study file, the runs that a study consists of, and their ids.

All faults of a file are reported at once, as `knockout.strict.Fault`s.
"""

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from knockout.claims import Claim, claim_metrics, read_claims, unused
from knockout.crossings import cross_variants
from knockout.job import DataSpec
from knockout.overrides import LINE, apply_lines, lines_in, override_lines, with_lines
from knockout.plan import Plan, default_plan_text, read_plan, read_study_plan
from knockout.seeds import placebo_streams, read_placebos, read_seeds
from knockout.strict import Fault, Faults, FaultsError, build, got_text, load_toml, nearest, shown, unknown_keys
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

NAME = re.compile(r"[a-z0-9_]{1,64}")
RESERVED = ("benchmarks", "calibration", "reliability", "reference")
TABLES = ("data", "model", "train", "run", "budget", "variant")
KEYS = (
    "question", "trainer", "variants", "cross", "seeds", "plan", "data", "model", "train", "run", "budget",
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
    factors: Mapping[str, Any]
    """name -> factors, the baseline first, then the variants in the file's order"""
    seeds: tuple[int, ...]
    anytime: Literal["sign", "t"] | None
    """the e-process that ends the study early; `None` where all seeds are run"""
    placebos: tuple[str, ...]
    """A/A arms: the baseline trained with other seeds"""
    data: DataSpec | None
    recipe: Any
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
        return tuple(name for name in self.factors if name != BASELINE)

    @property
    def arms(self) -> Mapping[str, Any]:
        """name -> factors of everything that is run: `factors`, then the placebos with the factors of the baseline."""
        return {**self.factors, **dict.fromkeys(self.placebos, self.factors[BASELINE])}


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
    identity = {
        "schema": SCHEMA,
        "trainer": study.trainer.path,
        "version": study.trainer.version,
        "factors": {name: after for name, (_, after) in changes(study.factors[variant]).items()},
        "recipe": {} if study.recipe is None else {k: after for k, (_, after) in changes(study.recipe).items()},
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
    recipe = faults.take(_recipe(trainer, tables["model"], tables["train"], file))
    factors = faults.take(_factors(trainer, recipe, raw.get("variants"), tables["variant"], file))
    cells, cross, wrong = cross_variants(
        raw.get("cross", []), factors, named=raw.get("variants"), trainer=trainer, recipe=recipe, file=file
    )
    faults += wrong
    factors |= cells
    known = {*trainer.variants, *tables["variant"]} if trainer else set()
    stated_claims = faults.take(read_claims(raw.get("claims", []), factors, known, raw.get("variants"), file))
    claims = tuple(c for c in stated_claims if c.variant in factors)
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
        factors=factors,
        seeds=seeds,
        anytime=stated.plan.anytime if stopping == "anytime" else None,
        placebos=placebos,
        data=data if tables["data"] else None,
        recipe=recipe,
        run=run,
        budget=budget,
        plan=stated.plan,
        plan_text=stated.text,
        overridden=stated.overridden,
        claims=claims,
        cross=cross,
        unused=unused(factors, tables["variant"], stated_claims),
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
    return data, faults


def _recipe(
    trainer: Trainer | None, model: Mapping[str, Any], train: Mapping[str, Any], file: str
) -> tuple[Any, list[Fault]]:
    if trainer is None:
        return None, []
    if trainer.recipe is None:
        return None, [*unknown_keys(model, (), file, "model"), *unknown_keys(train, (), file, "train")]
    sections = {f.name: f.metadata.get("section", "train") for f in dataclasses.fields(trainer.recipe)}
    faults = []
    for table, raw in (("model", model), ("train", train)):
        names = [n for n, section in sections.items() if section == table]
        for fault in unknown_keys(raw, names, file, table):
            key = fault.key.split(".", 1)[1]
            other = f"{sections[key]}.{key}" if key in sections else fault.nearest
            faults.append(dataclasses.replace(fault, nearest=other))
    known = {k: v for k, v in {**model, **train}.items() if k in sections}
    recipe, wrong = build(trainer.recipe, known, file, "")
    if wrong:  # the keys that are right still show whether the variants can be built
        bad = {fault.key.split(".")[0] for fault in wrong}
        recipe, _ = build(trainer.recipe, {k: v for k, v in known.items() if k not in bad}, file, "")
    faults += [dataclasses.replace(f, key=f"{sections[f.key.split('.')[0]]}.{f.key}") for f in wrong]
    return recipe, faults


def _factors(
    trainer: Trainer | None, recipe: Any, names: object, declared: Mapping[str, Any], file: str
) -> tuple[dict[str, Any], list[Fault]]:
    """name -> factors of every variant that is run, the baseline first."""
    if trainer is None:
        return {}, []
    faults = Faults()
    own = faults.take(_declared(trainer, declared, file))
    known = {name: value for name, value in {**trainer.variants, **own}.items() if name != BASELINE}
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        got = "missing" if names is None else f"got {got_text(names)}"
        faults.append(Fault(file=file, key="variants", got=got, allowed=f"a list of names from: {', '.join(known)}"))
        return {}, faults
    faults += _list_faults(names, known, declared, file)
    factors = {BASELINE: trainer.factors()}
    factors |= {n: known[n] for n in dict.fromkeys(names) if known.get(n) is not None}
    faults += _variant_faults(trainer, recipe, factors, file)
    return factors, faults


def _declared(trainer: Trainer, declared: Mapping[str, Any], file: str) -> tuple[dict[str, Any], list[Fault]]:
    """name -> factors of the study's own variants; `None` for one whose factors are wrong."""
    faults = Faults()
    own: dict[str, Any] = {}
    for name, table in declared.items():
        at = Fault(file=file, key=f"variant.{name}")
        if not NAME.fullmatch(name):
            faults.append(dataclasses.replace(at, got="a bad name", allowed="1 to 64 of a-z, 0-9 and _"))
        elif name in trainer.variants or name == BASELINE:
            got = f'"{name}" is a registered variant'
            faults.append(dataclasses.replace(at, got=got, allowed="a name of your own"))
        elif not isinstance(table, dict):
            got, allowed = f"got {got_text(table)}", f"a table, [variant.{name}]"
            faults.append(dataclasses.replace(at, got=got, allowed=allowed))
        else:
            own[name] = faults.take(build(trainer.factors, table, file, at.key))
    return own, faults


def _list_faults(names: list[str], known: Mapping[str, Any], declared: Mapping[str, Any], file: str) -> list[Fault]:
    """What is wrong with the list `variants`: the baseline, unknown names and names that stand there twice."""
    faults: list[Fault] = []
    at = Fault(file=file, key="variants", allowed=", ".join(known))
    for name in dict.fromkeys(names):
        if name == BASELINE:
            faults.append(dataclasses.replace(at, got="the baseline is always run and not named here"))
        elif name not in known and name not in declared:
            faults.append(dataclasses.replace(at, got=f'unknown variant "{name}"', nearest=nearest(name, known)))
        if names.count(name) > 1:
            faults.append(
                dataclasses.replace(at, got=f'"{name}" stands here {names.count(name)} times', allowed="once")
            )
    return faults


def _variant_faults(trainer: Trainer, recipe: Any, factors: Mapping[str, Any], file: str) -> list[Fault]:
    """Variants that equal another one, and variants that the trainer cannot build with this recipe."""
    faults: list[Fault] = []
    seen: dict[Any, str] = {}
    for name, value in factors.items():
        key = "baseline" if name == BASELINE else f"variant {name}"
        if value in seen:
            got = "changes nothing" if seen[value] == BASELINE else f'is the same as "{seen[value]}"'
            faults.append(Fault(file=file, key=key, got=got, allowed="a variant that differs from every other"))
        seen.setdefault(value, name)
        if recipe is not None or trainer.recipe is None:
            for factor, why in trainer.faults(value, recipe).items():
                given = getattr(value, factor, getattr(recipe, factor, None))  # of the factors, or of the recipe
                faults.append(Fault(file=file, key=key, got=f"{factor} = {got_text(given)} {why}"))
    return faults
