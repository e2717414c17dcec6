"""Descriptions of trainers: the factors, recipe and version that a study needs. No trainer is called.

The built-in trainer is described without importing torch. A user's trainer is imported and checked against the
contract in `knockout.job`.
"""

import dataclasses
import importlib
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from knockout import variants as registry
from knockout.strict import Fault, got_text, nearest

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


def builtin_trainer() -> Trainer:
    """The Transformer encoder's trainer, described without importing torch."""
    return _described(DEFAULT_TRAINER, registry)


def describe_trainer(raw: object, file: str) -> tuple[Trainer | None, list[Fault]]:
    """The trainer that a study names, or the faults of its name, its module or what that lacks."""
    allowed = f'"module:function", such as "{DEFAULT_TRAINER}"'
    if raw == DEFAULT_TRAINER:
        return builtin_trainer(), []
    if not isinstance(raw, str) or not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", raw):
        return None, [Fault(file=file, key="trainer", got=f"got {got_text(raw)}", allowed=allowed)]
    module_name, function = raw.split(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a user's module may fail in any way, and it is reported here
        got = f'importing "{module_name}" failed: {type(error).__name__}: {error}'
        return None, [Fault(file=file, key="trainer", got=got, allowed=allowed)]
    lacking = [n for n in (function, "Factors", "VERSION") if not hasattr(module, n)]
    if lacking:
        names = [n for n, value in vars(module).items() if inspect.isfunction(value)]
        got = f'"{module_name}" has no {", ".join(lacking)}'
        hint = nearest(function, names) if function in lacking else ""
        return None, [Fault(file=file, key="trainer", got=got, allowed="see knockout.job", nearest=hint)]
    classes = [n for n in ("Factors", "Recipe") if hasattr(module, n)]
    wrong = [
        *([] if callable(getattr(module, function)) else [f'"{function}" is no function']),
        *([] if type(module.VERSION) is int else [f"VERSION is no integer: {got_text(module.VERSION)}"]),
        *(f"{n} is no frozen dataclass with defaults for all fields" for n in classes if not _frozen(module, n)),
    ]
    if wrong:
        return None, [Fault(file=file, key="trainer", got="; ".join(wrong), allowed="see knockout.job")]
    return _described(raw, module), []


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


def _described(path: str, module: Any) -> Trainer:
    return Trainer(
        path=path,
        version=module.VERSION,
        factors=module.Factors,
        recipe=getattr(module, "Recipe", None),
        variants=getattr(module, "VARIANTS", {}),
        papers=getattr(module, "PAPERS", {}),
        faults=getattr(module, "faults", lambda _factors, _recipe: {}),
    )
