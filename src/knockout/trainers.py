"""Descriptions of trainers: the factors, recipe and version that a study needs. No trainer is called.

The built-in trainer is described without importing torch. A user's trainer is imported and checked against the
contract in `knockout.job`.
"""

import dataclasses
import importlib
import inspect
import math
import numbers
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from knockout import variants as registry
from knockout.job import SCORES, DataRef, Floor
from knockout.pages import page
from knockout.strict import Fault, FaultsError, got_text, nearest
from knockout.trainer_source import Source, import_path, trainer_source

DEFAULT_TRAINER = "knockout.train:train"


@dataclass(frozen=True, kw_only=True)
class Trainer:
    """The description of a trainer."""

    path: str
    version: int
    factors: type
    recipe: type | None
    variants: Mapping[str, Any]
    papers: Mapping[str, str]
    faults: Any  # (factors, recipe) -> {factor: why it cannot be built}
    systems: Mapping[str, Any] = field(default_factory=dict)
    """name -> its `factors`, and what it states of the `recipe`"""
    without_effect: Any = field(default=lambda _factors, _recipe: {}, compare=False)
    """(factors, recipe) -> {field: why another value of it changes nothing}"""
    floors: Any = field(default_factory=dict)
    """`FLOORS`: name -> metric -> value, or a function of the data that returns this"""
    source: Source = field(default=Source(), compare=False)
    """as it was when the study was read"""
    folders: tuple[Path, ...] = ()
    """in which its imports are looked for besides Python's own"""


def builtin_trainer() -> Trainer:
    """The Transformer encoder's trainer, described without importing torch."""
    return _described(DEFAULT_TRAINER, registry)


def describe_trainer(raw: object, file: str, folders: Sequence[Path] = ()) -> tuple[Trainer | None, list[Fault]]:
    """The trainer that a study names, or the faults of its name, its module or what that lacks.

    `folders`: where it is looked for besides Python's own places; the caller has imports search them (`import_path`).
    """
    allowed = f'"module:function", such as "{DEFAULT_TRAINER}"'
    if raw == DEFAULT_TRAINER:
        return builtin_trainer(), []
    if not isinstance(raw, str) or not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", raw):
        return None, [Fault(file=file, key="trainer", got=f"got {got_text(raw)}", allowed=allowed)]
    module_name, function = raw.split(":")
    source = trainer_source(raw, folders)
    if source.hidden:
        return None, [_hidden_fault(path, taken, file) for path, taken in source.hidden.items()]
    try:
        module = _imported(module_name, source)
    except (Exception, SystemExit) as error:  # a user's module may fail in any way, and it is reported here
        return None, [_import_fault(raw, error, source, file, folders)]
    lacking = [n for n in (function, "Factors", "VERSION") if not hasattr(module, n)]
    if lacking:
        names = [n for n, value in vars(module).items() if inspect.isfunction(value)]
        got = f'"{module_name}" has no {", ".join(lacking)}'
        hint = nearest(function, names) if function in lacking else ""
        return None, [Fault(file=file, key="trainer", got=got, allowed=_contract(), nearest=hint)]
    classes = [n for n in ("Factors", "Recipe") if hasattr(module, n)]
    wrong = [
        *([] if callable(getattr(module, function)) else [f'"{function}" is no function']),
        *([] if type(module.VERSION) is int else [f"VERSION is no integer: {got_text(module.VERSION)}"]),
        *(f"{n} is no frozen dataclass with defaults for all fields" for n in classes if not _frozen(module, n)),
        *([] if callable(floors := getattr(module, "FLOORS", {})) else wrong_floors(floors)),
    ]
    wrong = wrong or _registry_faults(module)
    if wrong:
        return None, [Fault(file=file, key="trainer", got="; ".join(wrong), allowed=_contract())]
    return dataclasses.replace(_described(raw, module), source=source, folders=tuple(folders)), []


def stated_floors(trainer: Trainer, data: DataRef | None, file: str) -> tuple[Floor, ...]:
    """The floors that a trainer's module states, or computes from the study's data (`None` for a study without any).

    Raises `FaultsError` where its function fails, or returns what is no mapping of names to scores. `file`: the
    study's.
    """
    stated = trainer.floors
    if callable(stated):
        try:
            with import_path(trainer.folders):
                stated = trainer.floors(data)
        except (Exception, SystemExit) as error:  # a user's function may fail in any way, and it is reported here
            got = f"FLOORS failed: {type(error).__name__}: {error}"
            raise FaultsError([Fault(file=file, key="trainer", got=got, allowed=_contract())]) from error
    wrong = wrong_floors(stated)
    if wrong:
        raise FaultsError([Fault(file=file, key="trainer", got="; ".join(wrong), allowed=_contract())])
    return tuple(
        Floor(name=name, scores={metric: float(value) for metric, value in scores.items()})
        for name, scores in stated.items()
    )


def wrong_floors(stated: object) -> list[str]:
    """What is wrong with `FLOORS`, in words; nothing where it is a mapping of names to scores."""
    if not isinstance(stated, Mapping):
        return [f"FLOORS is no mapping of names to scores: {got_text(stated)}"]
    wrong = []
    for name, scores in stated.items():
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            wrong.append(f"FLOORS: a name is a line of text, got {got_text(name)}")
        elif not isinstance(scores, Mapping) or not scores:
            wrong.append(f'FLOORS["{name}"] is no mapping of metrics to values: {got_text(scores)}')
        else:
            wrong += [f'FLOORS["{name}"]: {why}' for metric, value in scores.items() if (why := _wrong(metric, value))]
    return wrong


def _wrong(metric: object, value: object) -> str:
    if metric not in SCORES:
        hint = nearest(metric, SCORES)
        also = f' (did you mean "{hint}"?)' if hint else ""
        return f"unknown metric {got_text(metric)}{also}; it may have {', '.join(SCORES)}"
    plain = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    if metric == "log_loss":
        return "" if 0 <= plain < math.inf else f"log_loss is in nats, at least 0; got {got_text(value)}"
    return "" if 0 <= plain <= 1 else f"{metric} is a share from 0 to 1; got {got_text(value)}"


_sources: dict[str, str] = {}
"""module -> the hash of the trainer's source when this process imported it"""


def _imported(name: str, source: Source) -> ModuleType:
    """The trainer's module: imported again where its source has changed, or another folder's had the same name."""
    loaded = {n: sys.modules[n] for n in source.files if n in sys.modules}
    moved = any(
        (there := getattr(module, "__file__", None)) is not None and os.path.realpath(there) != os.path.realpath(path)
        for n, path in source.files.items()
        if (module := loaded.get(n)) is not None
    )
    if moved or _sources.get(name, source.sha256) != source.sha256:
        for n in loaded:
            del sys.modules[n]
    _sources[name] = source.sha256
    return importlib.import_module(name)


def _import_fault(trainer: str, error: BaseException, source: Source, file: str, folders: Sequence[Path]) -> Fault:
    name = trainer.partition(":")[0]
    got = f'importing "{name}" failed: {type(error).__name__}: {error}'
    if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
        searched = [
            *map(str, folders),
            f"PYTHONPATH ({os.environ.get('PYTHONPATH') or 'not set'})",
            "what is installed",
        ]
        near = trainer.replace(".py:", ":") if ".py:" in trainer else ""
        allowed = f'"module:function", such as "{DEFAULT_TRAINER}"; looked for in: {", ".join(searched)}'
        return Fault(file=file, key="trainer", got=got, allowed=allowed, nearest=near)
    own = {os.path.realpath(path) for path in source.files.values()}
    frames = [f for f in traceback.extract_tb(error.__traceback__) if os.path.realpath(f.filename) in own]
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    lacks = isinstance(error, ModuleNotFoundError)
    allowed = "install what it imports, or put its folder on PYTHONPATH" if lacks else "a module that can be imported"
    return Fault(file=file, key="trainer", got=got + where, allowed=allowed)


def _hidden_fault(path: Path, taken: str, file: str) -> Fault:
    got = f"{path} is not what is imported: {taken} has the same name, and comes first"
    return Fault(file=file, key="trainer", got=got, allowed="another name for the file, or its folder on PYTHONPATH")


def _contract() -> str:
    return f"see {page('docs/your-own-model.md')}"


def _frozen(module: Any, name: str) -> bool:
    cls = getattr(module, name)
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        return False
    given = all(
        f.default is not dataclasses.MISSING or f.default_factory is not dataclasses.MISSING
        for f in dataclasses.fields(cls)
    )
    untyped: Any = cls
    return given and bool(untyped.__dataclass_params__.frozen)


def _registry_faults(module: Any) -> list[str]:
    """What is wrong with the variants and systems that a trainer's module registers."""
    wrong = []
    for registry_name in ("VARIANTS", "SYSTEMS"):
        entries = getattr(module, registry_name, {})
        if not isinstance(entries, Mapping):
            wrong.append(f"{registry_name} is no mapping of names")
            continue
        for name, entry in entries.items():
            factors = entry if registry_name == "VARIANTS" else getattr(entry, "factors", None)
            if not isinstance(factors, module.Factors):
                wrong.append(f'{registry_name}["{name}"]: got {got_text(factors)}, and not an instance of Factors')
            elif registry_name == "SYSTEMS":
                recipe = getattr(module, "Recipe", None)
                fields = {f.name for f in dataclasses.fields(recipe)} if recipe else set()
                stated = getattr(entry, "recipe", None)
                unknown = [k for k in stated if k not in fields] if isinstance(stated, Mapping) else ["recipe"]
                wrong += [f'{registry_name}["{name}"]: Recipe has no field "{key}"' for key in unknown]
    return wrong


def _described(path: str, module: Any) -> Trainer:
    return Trainer(
        path=path,
        version=module.VERSION,
        factors=module.Factors,
        recipe=getattr(module, "Recipe", None),
        variants=getattr(module, "VARIANTS", {}),
        papers=getattr(module, "PAPERS", {}),
        faults=getattr(module, "faults", lambda _factors, _recipe: {}),
        systems=getattr(module, "SYSTEMS", {}),
        without_effect=getattr(module, "without_effect", lambda _factors, _recipe: {}),
        floors=getattr(module, "FLOORS", {}),
    )
