"""Studies and plans: strict readers of TOML, and the design that a study stands for.

Whatever is wrong with a file is found in one reading and told at once, as `knockout.strict.Fault`s.
"""

import dataclasses
import hashlib
import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from knockout.crossings import cross_variants
from knockout.job import DataSpec
from knockout.seeds import placebo_streams, read_placebos, read_seeds
from knockout.strict import Fault, FaultsError, build, got_text, load_toml, nearest, shown, unknown_keys
from knockout.trainers import DEFAULT_TRAINER, Trainer, describe_trainer
from knockout.variants import BASELINE, changes

SCHEMA = 1
"""Of a run's id and record. Raised when their form changes."""

NAME = re.compile(r"[a-z0-9_]{1,64}")
RESERVED = ("benchmarks", "calibration", "reliability", "reference")
DEVICE_FILES = {"con", "prn", "aux", "nul", *(f"{kind}{n}" for kind in ("com", "lpt") for n in range(10))}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How results are judged. Margin and planned sd in the metric's unit: points (hundredths), of log_loss nats."""

    metric: Literal["accuracy", "macro_f1", "log_loss"] = "accuracy"
    test: Literal["paired_t"] = "paired_t"
    failures: Literal["worst_rank"] = "worst_rank"
    equivalence: Literal["tost"] = "tost"
    correction: Literal["holm"] = "holm"
    alpha: float = field(default=0.05, metadata={"gt": 0.0, "lt": 0.5})
    margin: float = field(default=0.5, metadata={"gt": 0.0, "lt": 100.0})
    power: float = field(default=0.8, metadata={"gt": 0.0, "lt": 1.0})
    planned_sd: float = field(default=1.0, metadata={"gt": 0.0, "lt": 100.0})
    dead_standard_errors: float = field(default=2.0, metadata={"ge": 0.0})
    secondary: tuple[Literal["accuracy", "macro_f1", "log_loss"], ...] = ("macro_f1", "log_loss")
    secondary_correction: Literal["benjamini_hochberg"] = "benjamini_hochberg"
    draws: int = field(default=10_000, metadata={"ge": 1000, "le": 1_000_000})
    random_seed: int = field(default=0, metadata={"ge": 0, "lt": 2**63})
    anytime: Literal["sign", "t"] = "sign"


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """How runs are executed. Only `threads` is part of a run's id."""

    workers: int = field(default=0, metadata={"ge": 0, "le": 1024})  # 0: one per core / threads; on a GPU one per GPU
    threads: int = field(default=1, metadata={"ge": 1, "le": 1024})
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    timeout_minutes: float = field(default=0.0, metadata={"ge": 0.0})  # of one run; 0: none


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a study may cost: hours of all workers together training, over all its `run` commands; 0: no limit."""

    hours: float = field(default=0.0, metadata={"ge": 0.0})


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A preregistered statement about one variant against the baseline."""

    id: str
    variant: str
    says: Literal["better", "worse", "equal"]
    metric: Literal["accuracy", "macro_f1", "log_loss", "final_loss", "failures"] = "accuracy"
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study file that has been read and found without fault."""

    name: str
    path: Path
    text: str
    question: str
    trainer: Trainer
    factors: Mapping[str, Any]
    """name -> factors, the baseline first, then the variants in the file's order"""
    seeds: tuple[int, ...]
    anytime: Literal["sign", "t"] | None
    """the e-process that tells when enough of the seeds were run; `None` where all of them are"""
    placebos: tuple[str, ...]
    """arms that are the baseline on other streams: run, and no variants"""
    data: DataSpec | None
    recipe: Any
    run: RunSpec
    budget: Budget
    plan: Plan
    plan_text: str
    overridden: tuple[str, ...]
    """the keys of the plan that the study's own `[plan]` sets"""
    claims: tuple[Claim, ...]
    cross: tuple[tuple[str, ...], ...]
    """the variants whose full factorial is run, one tuple of names for each"""

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
        """name -> factors of all that is run: `factors`, then the placebos with the baseline's."""
        return {**self.factors, **dict.fromkeys(self.placebos, self.factors[BASELINE])}


@dataclass(frozen=True, kw_only=True)
class Run:
    """One (variant, seed) of a study."""

    id: str
    variant: str
    seed: int
    stream: int | None = None
    """the seed that a placebo is trained with: `seed` says which runs it pairs with; `None` for all other runs"""

    @property
    def training_seed(self) -> int:
        """What the trainer gets, and what the record calls seed."""
        return self.seed if self.stream is None else self.stream


def digest(text: str) -> str:
    """sha256, as 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def run_id(study: Study, *, variant: str, seed: int, data_id: str) -> str:
    """sha256 over everything that may change a run's numbers, and nothing else."""
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
    """All runs of the study, seed by seed: all variants of one seed before the next, so that any stop leaves blocks.

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


def read_study(path: Path) -> Study:
    """Read and check a study file and the plan that it names.

    Raises `FaultsError` with every fault of both.
    """
    file = shown(path)
    found = _name_faults(path.stem, file)
    raw, text, unreadable = load_toml(path)
    if raw is None:
        raise FaultsError([*found, *unreadable])
    allowed = ["question", "trainer", "variants", "cross", "seeds", "plan", "data", "model", "train", "run", "budget"]
    allowed += ["max_seeds", "placebo"]
    found += unknown_keys(raw, [*allowed, "variant", "claims"], file, "")
    tables = {}
    for key in ("data", "model", "train", "run", "budget", "variant"):
        tables[key] = raw.get(key, {})
        if not isinstance(tables[key], dict):
            found.append(Fault(file=file, key=key, got=f"got {got_text(tables[key])}", allowed=f"a table, [{key}]"))
            tables[key] = {}

    question = raw.get("question", "")
    if not isinstance(question, str) or not question.strip() or len(question) > 2000:
        found.append(Fault(file=file, key="question", got=f"got {got_text(question)}", allowed="the question in words"))
    trainer, trouble = describe_trainer(raw.get("trainer", DEFAULT_TRAINER), file)
    found += trouble
    seeds, stopping, trouble = read_seeds(raw, file)
    found += trouble
    placebos, trouble = read_placebos(raw.get("placebo", 0), raw.get("variants"), tables["variant"], file)
    found += trouble
    plan, plan_text, overridden, trouble = _plan(raw.get("plan"), path, file)
    found += trouble
    data, trouble = build(DataSpec, tables["data"], file, "data")
    found += trouble
    if trainer is not None and trainer.path == DEFAULT_TRAINER and not tables["data"].get("source"):
        found.append(
            Fault(file=file, key="data.source", got="missing", allowed='"rotten_tomatoes", or a file or folder')
        )
    if data is not None and not math.isclose(sum(data.split), 1.0, abs_tol=1e-9):
        allowed_split = "three fractions above 0 that add up to 1"
        found.append(Fault(file=file, key="data.split", got=f"got {list(data.split)}", allowed=allowed_split))
    elif data is not None and min(data.split) <= 0:
        found.append(Fault(file=file, key="data.split", got=f"got {list(data.split)}", allowed="fractions above 0"))
    run, trouble = build(RunSpec, tables["run"], file, "run")
    found += trouble
    budget, trouble = build(Budget, tables["budget"], file, "budget")
    found += trouble
    recipe, trouble = _recipe(trainer, tables["model"], tables["train"], file)
    found += trouble
    factors, trouble = _factors(trainer, recipe, raw.get("variants"), tables["variant"], file)
    found += trouble
    cells, cross, trouble = cross_variants(
        raw.get("cross", []), factors, named=raw.get("variants"), trainer=trainer, recipe=recipe, file=file
    )
    factors |= cells
    found += trouble
    claims, trouble = _claims(raw.get("claims", []), factors, raw.get("variants"), file)
    found += trouble
    found += _claim_metrics(claims, plan, file)
    if found:
        raise FaultsError(found)
    assert trainer is not None
    assert plan is not None
    assert run is not None
    assert budget is not None
    return Study(
        name=path.stem,
        path=path,
        text=text,
        question=" ".join(question.split()),
        trainer=trainer,
        factors=factors,
        seeds=seeds,
        anytime=plan.anytime if stopping == "anytime" else None,
        placebos=placebos,
        data=data if tables["data"] else None,
        recipe=recipe,
        run=run,
        budget=budget,
        plan=plan,
        plan_text=plan_text,
        overridden=overridden,
        claims=claims,
        cross=cross,
    )


def _claim_metrics(claims: tuple[Claim, ...], plan: Plan | None, file: str) -> list[Fault]:
    """A claim is on the plan's metric, or on one that has a rule of its own."""
    if plan is None:
        return []
    allowed = list(dict.fromkeys([plan.metric, "log_loss", "final_loss", "failures"]))
    return [
        Fault(
            file=file,
            key=f'claims "{c.id}".metric',
            got=f'got "{c.metric}", where the plan judges by {plan.metric}',
            allowed=", ".join(f'"{name}"' for name in allowed),
        )
        for c in claims
        if c.metric not in allowed
    ]


def default_plan_text() -> str:
    """The packaged plan, as TOML."""
    return (resources.files("knockout") / "plan.toml").read_text(encoding="utf-8")


def read_plan(path: Path) -> tuple[Plan, frozenset[str]]:
    """A plan that stands in a file of its own, and the keys that it names. Raises `FaultsError` with every fault."""
    raw, _, found = load_toml(path)
    plan, trouble = build(Plan, raw or {}, shown(path), "")
    if found or trouble:
        raise FaultsError([*found, *trouble])
    assert isinstance(plan, Plan)
    return plan, frozenset(raw or {})


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


def _plan(raw: object, study_path: Path, file: str) -> tuple[Plan | None, str, tuple[str, ...], list[Fault]]:
    """The plan: a path, a table that overrides margin and metric (with `file` for a path), or the packaged default."""
    override: dict[str, Any] = {}
    plan_file, text, found = "the packaged plan", default_plan_text(), []
    if isinstance(raw, dict):
        override = dict(raw)
        raw = override.pop("file", None)
        found += unknown_keys(override, ("margin", "metric", "file"), file, "plan")
        override = {k: v for k, v in override.items() if k in ("margin", "metric")}
    if raw is not None and not isinstance(raw, str):
        found.append(Fault(file=file, key="plan", got=f"got {got_text(raw)}", allowed="a path, or a table [plan]"))
    base: dict[str, Any] | None = tomllib.loads(text)
    if isinstance(raw, str):
        plan_path = study_path.parent / raw
        plan_file = shown(plan_path)
        base, text, trouble = load_toml(plan_path)
        found += trouble
    if base is None:
        return None, "", (), found
    _, trouble = build(Plan, base, plan_file, "")
    found += trouble
    _, trouble = build(Plan, override, file, "plan")
    found += trouble
    if override.get("metric", base.get("metric")) == "log_loss" and "margin" not in {**base, **override}:
        got = "missing, where the metric is log_loss"
        found.append(
            Fault(file=file, key="plan.margin", got=got, allowed="the margin in nats: the default is in points")
        )
    elif override.get("metric") == "log_loss" and base.get("metric") != "log_loss" and "margin" not in override:
        got = f"the plan's {base['margin']:g} is in points of another metric"
        found.append(
            Fault(file=file, key="plan.margin", got=got, allowed="a margin in nats beside the metric log_loss")
        )
    if found:
        return None, text, (), found
    plan, _ = build(Plan, {**base, **override}, file, "plan")
    return plan, text, tuple(override), found


def _recipe(
    trainer: Trainer | None, model: Mapping[str, Any], train: Mapping[str, Any], file: str
) -> tuple[Any, list[Fault]]:
    if trainer is None:
        return None, []
    if trainer.recipe is None:
        return None, [*unknown_keys(model, (), file, "model"), *unknown_keys(train, (), file, "train")]
    sections = {f.name: f.metadata.get("section", "train") for f in dataclasses.fields(trainer.recipe)}
    found = []
    for table, raw in (("model", model), ("train", train)):
        names = [n for n, section in sections.items() if section == table]
        for fault in unknown_keys(raw, names, file, table):
            elsewhere = sections.get(fault.key.split(".", 1)[1])
            found.append(
                dataclasses.replace(fault, nearest=f"{elsewhere}.{fault.key.split('.', 1)[1]}") if elsewhere else fault
            )
    known = {k: v for k, v in {**model, **train}.items() if k in sections}
    recipe, trouble = build(trainer.recipe, known, file, "")
    if trouble:  # what is right of it still tells whether the variants can be built
        wrong = {t.key.split(".")[0] for t in trouble}
        recipe, _ = build(trainer.recipe, {k: v for k, v in known.items() if k not in wrong}, file, "")
    found += [dataclasses.replace(t, key=f"{sections[t.key.split('.')[0]]}.{t.key}") for t in trouble]
    return recipe, found


def _factors(
    trainer: Trainer | None, recipe: Any, names: object, declared: Mapping[str, Any], file: str
) -> tuple[dict[str, Any], list[Fault]]:
    """name -> factors of every variant that is run, the baseline first."""
    if trainer is None:
        return {}, []
    found: list[Fault] = []
    own: dict[str, Any] = {}
    for name, table in declared.items():
        key = f"variant.{name}"
        if not NAME.fullmatch(name):
            found.append(Fault(file=file, key=key, got="a bad name", allowed="1 to 64 of a-z, 0-9 and _"))
        elif name in trainer.variants or name == BASELINE:
            found.append(
                Fault(file=file, key=key, got=f'"{name}" is a registered variant', allowed="a name of your own")
            )
        elif not isinstance(table, dict):
            found.append(Fault(file=file, key=key, got=f"got {got_text(table)}", allowed=f"a table, [variant.{name}]"))
        else:
            own[name], trouble = build(trainer.factors, table, file, key)
            found += trouble
    known = {**trainer.variants, **own}
    known.pop(BASELINE, None)
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        got = "missing" if names is None else f"got {got_text(names)}"
        found.append(Fault(file=file, key="variants", got=got, allowed=f"a list of names from: {', '.join(known)}"))
        return {}, found
    for name in dict.fromkeys(names):
        if name == BASELINE:
            got = "the baseline is always run and not named here"
            found.append(Fault(file=file, key="variants", got=got, allowed=", ".join(known)))
        elif name not in known and name not in declared:
            got, hint = f'unknown variant "{name}"', nearest(name, known)
            found.append(Fault(file=file, key="variants", got=got, allowed=", ".join(known), nearest=hint))
        if names.count(name) > 1:
            found.append(
                Fault(file=file, key="variants", got=f'"{name}" stands here {names.count(name)} times', allowed="once")
            )
    for name in own:
        if name not in names:
            got = "declared, but not run"
            found.append(Fault(file=file, key=f"variant.{name}", got=got, allowed=f'"{name}" in the list `variants`'))
    factors = {BASELINE: trainer.factors()}
    factors |= {n: known[n] for n in dict.fromkeys(names) if known.get(n) is not None}
    seen: dict[Any, str] = {}
    for name, value in factors.items():
        key = "baseline" if name == BASELINE else f"variant {name}"
        if value in seen:
            got = "changes nothing" if seen[value] == BASELINE else f'is the same as "{seen[value]}"'
            found.append(Fault(file=file, key=key, got=got, allowed="a variant that differs from every other"))
        seen.setdefault(value, name)
        if recipe is not None or trainer.recipe is None:
            for factor, why in trainer.faults(value, recipe).items():
                found.append(Fault(file=file, key=key, got=f"{factor} = {got_text(getattr(value, factor))} {why}"))
    return factors, found


def _claims(raw: object, factors: Mapping[str, Any], named: object, file: str) -> tuple[tuple[Claim, ...], list[Fault]]:
    if not isinstance(raw, list) or not all(isinstance(c, dict) for c in raw):
        return (), [Fault(file=file, key="claims", got=f"got {got_text(raw)}", allowed="tables, [[claims]]")]
    named = named if isinstance(named, list) else []  # a name of these that is no variant is a fault already
    found: list[Fault] = []
    claims: list[Claim] = []
    for i, table in enumerate(raw, 1):
        claim, trouble = build(Claim, table, file, f"claims {i}")
        found += trouble
        if claim is None:
            continue
        run = [n for n in factors if n != BASELINE]
        if factors and claim.variant not in run and claim.variant not in named:
            got = f'on "{claim.variant}", which this study does not run'
            hint = nearest(claim.variant, run)
            found.append(Fault(file=file, key=f"claims {i}.variant", got=got, allowed=", ".join(run), nearest=hint))
        if claim.id in {c.id for c in claims}:
            found.append(Fault(file=file, key=f"claims {i}.id", got=f'"{claim.id}" stands here twice', allowed="once"))
        claims.append(claim)
    return tuple(claims), found
