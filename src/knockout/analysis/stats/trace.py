"""The trace: for every number of an analysis the call that made it, what went in, and the version of its library.

A statistic is called through a `Trace`, which keeps the call with its arguments. `analysis.json` holds them all, so
that any number can be made again: import the function, hand it the arguments, compare.
"""

import dataclasses
import functools
import hashlib
import importlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Protocol, TypeVar

import numpy as np

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

INLINE = 4096
"""Inputs of more numbers are told by their hash and shape alone."""


class Caller(Protocol):
    """What calls a statistic: a `Trace`, or `Untraced` where thousands of repetitions need no account."""

    def call(
        self,
        of: Sequence[str],
        function: Callable[..., T],
        arguments: Mapping[str, Any],
        *,
        items: Sequence[str] | None = None,
    ) -> T: ...


class Untraced:
    """Calls and keeps nothing."""

    def call(
        self,
        of: Sequence[str],  # noqa: ARG002
        function: Callable[..., T],
        arguments: Mapping[str, Any],
        *,
        items: Sequence[str] | None = None,  # noqa: ARG002
    ) -> T:
        return function(**arguments)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Number:
    """One number: of what it is, what it is called there, and the call that made it."""

    of: tuple[str, ...]
    """such as ("contrast", "no_scale")"""
    name: str
    value: float | int | bool | None
    call: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Call:
    """One call. `arguments` as JSON values, where those that are large are told by shape and hash."""

    function: str
    made_with: str
    library: str
    arguments: Mapping[str, Any]
    inputs_sha256: str


class Trace:
    """Calls, and keeps an account of them."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.numbers: list[Number] = []

    def call(
        self,
        of: Sequence[str],
        function: Callable[..., T],
        arguments: Mapping[str, Any],
        *,
        items: Sequence[str] | None = None,
    ) -> T:
        """`function(**arguments)`. `of`: what the result belongs to, its last part the name of the number.

        A result that is a dataclass gives one number for each of its fields. A sequence gives one for each of its
        items, which belong to what `items` names.
        """
        result = function(**arguments)
        given = {name: _told(value) for name, value in arguments.items()}
        made_with = str(getattr(function, "made_with", f"{function.__module__}.{function.__qualname__}"))
        self.calls.append(
            Call(
                function=f"{function.__module__}.{function.__qualname__}",
                made_with=made_with,
                library=_library(made_with),
                arguments=given,
                inputs_sha256=sha256_of(given),
            )
        )
        for name, value in _leaves(result, ""):
            parts = tuple(of) if not name else (*of, name)
            if items is not None:
                i, _, field = name.removeprefix("[").partition("]")
                parts = (*of[:-1], items[int(i)], field.removeprefix(".") or of[-1])
            self.numbers.append(Number(of=parts[:-1], name=parts[-1], value=value, call=len(self.calls) - 1))
        return result


def made_with(name: str) -> Callable[[F], F]:
    """Marks a function of ours with the library function that does its work, such as "scipy.stats.ttest_1samp"."""

    def mark(function: F) -> F:
        function.made_with = name  # type: ignore[attr-defined]  # a note on the function, read by `Trace`
        return function

    return mark


def replay(call: Mapping[str, Any]) -> Any:
    """Makes a call of `analysis.json` again and returns its result.

    Raises `ValueError` where an argument was too large to be kept, or the function is not one of Knockout's.
    """
    module, _, name = str(call["function"]).rpartition(".")
    if not module.startswith("knockout.analysis."):
        raise ValueError(f"{call['function']} is no function of knockout.analysis")
    arguments = {k: _restored(v) for k, v in call["arguments"].items()}
    return getattr(importlib.import_module(module), name)(**arguments)


def leaves(result: Any) -> list[tuple[str, float | int | bool | None]]:
    """Every number of a result with its name, as `Trace` keeps them."""
    return list(_leaves(result, ""))


def sha256_of(value: Any) -> str:
    """sha256 of a JSON value in canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _library(made_by: str) -> str:
    return _versioned(made_by.split(".", 1)[0])


@functools.cache  # each look-up parses the package's metadata: 2 ms, some sixty times in one comparison
def _versioned(name: str) -> str:
    return f"{name} {version(name)}"


def _leaves(result: Any, name: str) -> Any:
    if result is None or isinstance(result, bool | int | float | np.generic):
        value = result.item() if isinstance(result, np.generic) else result
        yield name, value
    elif dataclasses.is_dataclass(result):
        for field in dataclasses.fields(result):
            yield from _leaves(getattr(result, field.name), f"{name}.{field.name}" if name else field.name)
    elif isinstance(result, list | tuple):
        for i, item in enumerate(result):
            yield from _leaves(item, f"{name}[{i}]")


def _told(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.size > INLINE:
            return {
                "shape": list(value.shape),
                "dtype": str(value.dtype),
                "sha256": hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest(),
            }
        return {"array": _told(value.tolist()), "dtype": str(value.dtype)}
    if isinstance(value, np.generic):
        return _told(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if isinstance(value, list | tuple):
        return [_told(v) for v in value]
    assert value is None or isinstance(value, str | bool | int | float), f"{type(value)} is no argument of a statistic"
    return value


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return [_restored(v) for v in value]
    if isinstance(value, dict):
        if "float" in value:
            return float(value["float"])
        if "array" in value:
            return np.array(_restored(value["array"]), dtype=value["dtype"])
        raise ValueError(f"an input of shape {value['shape']} was too large to be kept: only its hash is there")
    return value
