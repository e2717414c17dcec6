"""The arms of a study: its baseline and its variants, each with the factors and the recipe that it is trained with.

The baseline is a registered system or variant, or the defaults, changed by what the study states. A variant is a change
of the baseline: of any factor, and of any field of the recipe.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from knockout.strict import Fault, Faults, build, got_text, nearest, unknown_keys
from knockout.trainers import Trainer
from knockout.variants import BASELINE, changes

NAME = re.compile(r"[a-z0-9_]{1,64}")
"""Of a variant, and of a study."""

SYSTEM = "system"
"""The key of `[baseline]` and `[variant.NAME]` that names a registered system, or variant, to start from."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """What all runs of one arm are trained with."""

    factors: Any
    recipe: Any
    """`None` for a trainer without one"""
    system: str = dataclasses.field(default="", compare=False)
    """the registered system that it is made from; empty for one made from the defaults"""

    def differences(self, other: "Arm") -> dict[str, tuple[Any, Any]]:
        """field -> (its value in `other`, its value here), factors before the recipe."""
        factors = changes(self.factors, other.factors)
        recipe = {} if self.recipe is None else changes(self.recipe, other.recipe)
        return {**factors, **{name: pair for name, pair in recipe.items() if name not in factors}}

    def changed(self, values: Mapping[str, Any]) -> "Arm":
        """This arm with other values of some fields. A name that factors and recipe share is a factor's."""
        own = _names(self.factors)
        factors = {k: v for k, v in values.items() if k in own}
        recipe = {k: v for k, v in values.items() if k not in own}
        return Arm(
            factors=dataclasses.replace(self.factors, **factors),
            recipe=dataclasses.replace(self.recipe, **recipe) if recipe else self.recipe,
            system=self.system,
        )

    def batch_fields(self, other: "Arm") -> tuple[str, ...]:
        """The fields with another value than in `other` by which its batches hold other examples.

        A trainer names them by `batches` in the metadata of the field.
        """
        marked = {
            f.name for values in (self.factors, self.recipe) if values is not None for f in dataclasses.fields(values)
            if f.metadata.get("batches")
        }  # fmt: skip
        return tuple(name for name in self.differences(other) if name in marked)


@dataclass(frozen=True, kw_only=True)
class Stated:
    """What a study file says of its arms, as read from TOML."""

    baseline: object
    variants: object
    declared: Mapping[str, Any]
    """the tables `[variant.NAME]`"""
    model: Mapping[str, Any]
    train: Mapping[str, Any]


def _names(values: Any) -> set[str]:
    return {f.name for f in dataclasses.fields(values)} if values is not None else set()


def read_arms(trainer: Trainer | None, stated: Stated, file: str) -> tuple[dict[str, Arm], list[Fault]]:
    """name -> arm of everything that is compared, the baseline first, then the variants in the file's order.

    The baseline alone where the list of variants cannot be read; empty where there is no trainer.
    """
    if trainer is None:
        return {}, []
    faults = Faults()
    base = faults.take(_baseline(trainer, stated, file))
    sound = base is not None
    base = base or Arm(factors=trainer.factors(), recipe=trainer.recipe() if trainer.recipe else None)
    registered = _registered(trainer, base, stated)
    known = {**registered, **faults.take(_declared(trainer, base, registered, stated.declared, file))}
    names = stated.variants
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        got = "missing" if names is None else f"got {got_text(names)}"
        faults.append(Fault(file=file, key="variants", got=got, allowed=f"a list of names from: {', '.join(known)}"))
        return ({BASELINE: base} if sound else {}), faults
    faults += _list_faults(names, known, stated.declared, file)
    arms = {BASELINE: base}
    arms |= {n: arm for n in dict.fromkeys(names) if (arm := known.get(n)) is not None}
    faults += _arm_faults(trainer, arms, file) if sound else []
    return (arms if sound else {}), faults


def known_variants(trainer: Trainer) -> tuple[str, ...]:
    """The names that every study with this trainer can list as variants."""
    return tuple(dict.fromkeys(name for name in (*trainer.variants, *trainer.systems) if name != BASELINE))


def _baseline(trainer: Trainer, stated: Stated, file: str) -> tuple[Arm | None, list[Fault]]:
    """The key `baseline`, which is a name or a table, with the values of `[model]` and `[train]`."""
    faults = Faults()
    table, name = stated.baseline, ""
    if isinstance(table, str):
        table = {SYSTEM: table}
    if not isinstance(table, dict):
        allowed = f"a registered name, or a table, [{BASELINE}]"
        faults.append(Fault(file=file, key=BASELINE, got=f"got {got_text(table)}", allowed=allowed))
        table = {}
    start = Arm(factors=trainer.factors(), recipe=trainer.recipe() if trainer.recipe else None)
    if SYSTEM in table and SYSTEM not in _names(start.factors) | _names(start.recipe):
        name = table[SYSTEM]
        allowed = ", ".join((*trainer.systems, *(v for v in trainer.variants if v != BASELINE)))
        if isinstance(name, str) and name in trainer.systems:
            system = trainer.systems[name]
            start = Arm(factors=system.factors, recipe=start.recipe, system=name).changed(dict(system.recipe))
        elif isinstance(name, str) and name in trainer.variants:
            start = dataclasses.replace(start, factors=trainer.variants[name], system=name if name != BASELINE else "")
        else:
            hint = nearest(name, (*trainer.systems, *trainer.variants))
            got = f"unknown system {got_text(name)}"
            faults.append(Fault(file=file, key=BASELINE, got=got, allowed=allowed, nearest=hint))
        table = {k: v for k, v in table.items() if k != SYSTEM}
    twice = [key for key in table if key in stated.model or key in stated.train]
    for key in twice:
        other = "model" if key in stated.model else "train"
        got = f"also set in [{other}]"
        faults.append(Fault(file=file, key=f"{BASELINE}.{key}", got=got, allowed="one of the two"))
    values = faults.take(_values(trainer, table, file, BASELINE))
    recipe = faults.take(_recipe_values(trainer, stated.model, stated.train, file))
    if values is None or recipe is None:
        return None, faults
    return start.changed({**recipe, **values}), faults


def _recipe_values(
    trainer: Trainer, model: Mapping[str, Any], train: Mapping[str, Any], file: str
) -> tuple[dict[str, Any] | None, list[Fault]]:
    """What `[model]` and `[train]` set, field -> value; the right ones alone where some are wrong."""
    if trainer.recipe is None:
        faults = [*unknown_keys(model, (), file, "model"), *unknown_keys(train, (), file, "train")]
        return {}, faults
    sections = {f.name: f.metadata.get("section", "train") for f in dataclasses.fields(trainer.recipe)}
    faults = []
    for table, raw in (("model", model), ("train", train)):
        names = [n for n, section in sections.items() if section == table]
        for fault in unknown_keys(raw, names, file, table):
            key = fault.key.split(".", 1)[1]
            other = f"{sections[key]}.{key}" if key in sections else fault.nearest
            faults.append(dataclasses.replace(fault, nearest=other))
    given = {k: v for k, v in {**model, **train}.items() if k in sections}
    built, wrong = build(trainer.recipe, given, file, "")
    if wrong:  # the keys that are right still show whether the variants can be built
        bad = {fault.key.split(".")[0] for fault in wrong}
        given = {k: v for k, v in given.items() if k not in bad}
        built, _ = build(trainer.recipe, given, file, "")
    faults += [dataclasses.replace(f, key=f"{sections[f.key.split('.')[0]]}.{f.key}") for f in wrong]
    return (None if built is None else {k: getattr(built, k) for k in given}), faults


def _values(
    trainer: Trainer, table: Mapping[str, Any], file: str, key: str
) -> tuple[dict[str, Any] | None, list[Fault]]:
    """The values of a table of factors and fields of the recipe, checked; `None` where one is wrong."""
    factors = [f.name for f in dataclasses.fields(trainer.factors)]
    recipe = [f.name for f in dataclasses.fields(trainer.recipe)] if trainer.recipe else []
    faults = Faults(unknown_keys(table, (*factors, *(n for n in recipe if n not in factors)), file, key))
    own = {k: v for k, v in table.items() if k in factors}
    rest = {k: v for k, v in table.items() if k in recipe and k not in factors}
    values: dict[str, Any] = {}
    for cls, part in ((trainer.factors, own), (trainer.recipe, rest)):
        built = faults.take(build(cls, part, file, key)) if cls and part else None
        values |= {k: getattr(built, k) for k in part} if built is not None else {}
    return (None if faults else values), faults


def _registered(trainer: Trainer, base: Arm, stated: Stated) -> dict[str, Arm]:
    """The registered variants as changes of this baseline, and the systems.

    A system is taken whole, with the sizes and the training that it states; what `[train]` of the study sets holds for
    it as well.
    """
    arms = {}
    for name, factors in trainer.variants.items():
        if name != BASELINE:
            arms[name] = base.changed({factor: after for factor, (_, after) in changes(factors).items()})
    for name, system in trainer.systems.items():
        recipe = {k: v for k, v in system.recipe.items() if k not in stated.train}
        arms[name] = Arm(factors=system.factors, recipe=base.recipe, system=name).changed(recipe)
    return arms


def _declared(
    trainer: Trainer, base: Arm, registered: Mapping[str, Arm], declared: Mapping[str, Any], file: str
) -> tuple[dict[str, Arm | None], list[Fault]]:
    """name -> arm of the study's own variants; `None` for one whose values are wrong."""
    faults = Faults()
    own: dict[str, Arm | None] = {}
    for name, table in declared.items():
        at = Fault(file=file, key=f"variant.{name}")
        if not NAME.fullmatch(name):
            faults.append(dataclasses.replace(at, got="a bad name", allowed="1 to 64 of a-z, 0-9 and _"))
        elif name in trainer.variants or name in trainer.systems or name == BASELINE:
            got = f'"{name}" is a registered {"system" if name in trainer.systems else "variant"}'
            faults.append(dataclasses.replace(at, got=got, allowed="a name of your own"))
        elif not isinstance(table, dict):
            got, allowed = f"got {got_text(table)}", f"a table, [variant.{name}]"
            faults.append(dataclasses.replace(at, got=got, allowed=allowed))
        else:
            start, rest, wrong = _start(base, registered, table, at)
            faults += wrong
            values = faults.take(_values(trainer, rest, file, at.key))
            own[name] = None if values is None or wrong else start.changed(values)
    return own, faults


def _start(
    base: Arm, registered: Mapping[str, Arm], table: Mapping[str, Any], at: Fault
) -> tuple[Arm, dict[str, Any], list[Fault]]:
    """What a variant's table changes: the baseline, or what its key `system` names; and the other keys."""
    rest = {k: v for k, v in table.items() if k != SYSTEM or k in _names(base.factors) | _names(base.recipe)}
    if len(rest) == len(table):
        return base, rest, []
    name = table[SYSTEM]
    if isinstance(name, str) and name in registered:
        return registered[name], rest, []
    fault = Fault(
        file=at.file,
        key=f"{at.key}.{SYSTEM}",
        got=f"unknown system {got_text(name)}",
        allowed=", ".join(registered),
        nearest=nearest(name, registered),
    )
    return base, rest, [fault]


def _list_faults(names: list[str], known: Iterable[str], declared: Mapping[str, Any], file: str) -> list[Fault]:
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


def _arm_faults(trainer: Trainer, arms: Mapping[str, Arm], file: str) -> list[Fault]:
    """Variants that train what another arm trains, and arms that the trainer cannot build."""
    faults: list[Fault] = []
    seen: dict[Arm, str] = {}
    for name, arm in arms.items():
        key = "baseline" if name == BASELINE else f"variant {name}"
        if arm in seen:
            got = "changes nothing" if seen[arm] == BASELINE else f'is the same as "{seen[arm]}"'
            faults.append(Fault(file=file, key=key, got=got, allowed="a variant that differs from every other"))
        elif name != BASELINE and (idle := _idle(trainer, arm, arms[BASELINE])):
            got = f"changes nothing: {idle}"
            faults.append(Fault(file=file, key=key, got=got, allowed="a variant that differs from every other"))
        seen.setdefault(arm, name)
        faults += build_faults(trainer, arm, file, key)
    return faults


def build_faults(trainer: Trainer, arm: Arm, file: str, key: str) -> list[Fault]:
    """Why a trainer cannot build an arm, one fault for each field that is to blame."""
    values = {**_shallow(arm.recipe), **_shallow(arm.factors)}
    wrong = trainer.faults(arm.factors, arm.recipe)
    return [
        Fault(file=file, key=key, got=f"{field} = {got_text(values.get(field))} {why}") for field, why in wrong.items()
    ]


def _idle(trainer: Trainer, arm: Arm, base: Arm) -> str:
    """Why all that an arm changes is without effect in it and in the baseline; empty where something has one."""
    without = trainer.without_effect(base.factors, base.recipe)
    mine = trainer.without_effect(arm.factors, arm.recipe)
    differing = arm.differences(base)
    if not differing or not all(name in mine and name in without for name in differing):
        return ""
    return "; ".join(f"{name}: {mine[name]}" for name in differing)


def _shallow(values: Any) -> dict[str, Any]:
    return {} if values is None else {f.name: getattr(values, f.name) for f in dataclasses.fields(values)}
