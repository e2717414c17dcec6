"""The trace: for every number of an analysis the call that made it, what went in, and the version of its library.

A statistic is called through `traced`, which hands the call with its arguments to the trace that is recording, and only
calls where none is. `analysis.json` holds all calls, so that any number can be made again: import the function, hand it
the arguments, compare.
"""

import dataclasses
import functools
import hashlib
import importlib
import inspect
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

INLINE = 4096
"""Arrays of more numbers are kept as hash and shape alone."""


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
    """One call. `arguments` by name, as JSON values; large arrays as shape and hash."""

    function: str
    made_with: str
    library: str
    arguments: Mapping[str, Any]
    inputs_sha256: str


class Trace:
    """All calls of an analysis, with the numbers that they returned."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.numbers: list[Number] = []

    def add(
        self,
        of: Sequence[str],
        function: Callable[..., object],
        arguments: Mapping[str, object],
        result: object,
        *,
        items: Sequence[str] | None = None,
    ) -> None:
        """Keep one call and its result.

        `of`: what the result belongs to, its last part the name of the number. A result that is a dataclass gives one
        number for each of its fields. A sequence gives one for each of its items, which belong to what `items` names.
        """
        kept = {name: _as_json(value) for name, value in arguments.items()}
        name_of_function = f"{function.__module__}.{function.__qualname__}"
        library_function = str(getattr(function, "made_with", name_of_function))
        self.calls.append(
            Call(
                function=name_of_function,
                made_with=library_function,
                library=_library(library_function),
                arguments=kept,
                inputs_sha256=sha256_of(kept),
            )
        )
        for name, value in _leaves(result, ""):
            parts = tuple(of) if not name else (*of, name)
            if items is not None:
                i, _, field = name.removeprefix("[").partition("]")
                parts = (*of[:-1], items[int(i)], field.removeprefix(".") or of[-1])
            self.numbers.append(Number(of=parts[:-1], name=parts[-1], value=value, call=len(self.calls) - 1))


_RECORDING: ContextVar[Trace | None] = ContextVar("recording", default=None)


@contextmanager
def recording(trace: Trace) -> Iterator[Trace]:
    """Inside this block every traced call is kept in `trace`."""
    before = _RECORDING.set(trace)
    try:
        yield trace
    finally:
        _RECORDING.reset(before)


def traced(of: Sequence[str], function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`function(*args, **kwargs)`, kept under `of` (see `Trace.add`) where a trace is recording."""
    result = function(*args, **kwargs)
    trace = _RECORDING.get()
    if trace is not None:
        trace.add(of, function, _by_name(function, args, kwargs), result)
    return result


def traced_each(
    of: Sequence[str], items: Sequence[str], function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """As `traced`, for a function that returns one result for each of `items`."""
    result = function(*args, **kwargs)
    trace = _RECORDING.get()
    if trace is not None:
        trace.add(of, function, _by_name(function, args, kwargs), result, items=items)
    return result


def _by_name(
    function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> Mapping[str, object]:
    """Arguments by name. `rounding` is left out where it is the default, as it is of all float64 values."""
    given, defaults = _signature(function).bind(*args, **kwargs).arguments, _signature(function).parameters
    return {k: v for k, v in given.items() if k != "rounding" or v != defaults[k].default}


@functools.cache
def _signature(function: Callable[..., object]) -> inspect.Signature:
    return inspect.signature(function)


def made_with(name: str) -> Callable[[F], F]:
    """Marks a function with the library function that does its work, such as "scipy.stats.ttest_1samp"."""

    def mark(function: F) -> F:
        function.made_with = name  # type: ignore[attr-defined]  # a note on the function, read by `Trace`
        return function

    return mark


def replay(call: Mapping[str, Any]) -> Any:
    """The result of a call of `analysis.json`, made again.

    Raises `ValueError` where an argument was too large to be kept, or the function is not in knockout.analysis.
    """
    module, _, name = str(call["function"]).rpartition(".")
    if not module.startswith("knockout.analysis."):
        raise ValueError(f"{call['function']} is no function of knockout.analysis")
    arguments = {k: _restored(v) for k, v in call["arguments"].items()}
    return getattr(importlib.import_module(module), name)(**arguments)


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


def _as_json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.size > INLINE:
            return {
                "shape": list(value.shape),
                "dtype": str(value.dtype),
                "sha256": hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest(),
            }
        return {"array": _as_json(value.tolist()), "dtype": str(value.dtype)}
    if isinstance(value, np.generic):
        return _as_json(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if isinstance(value, list | tuple):
        return [_as_json(v) for v in value]
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
