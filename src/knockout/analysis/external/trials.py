"""An export of Optuna's `study.trials_dataframe()`: which of its columns hold what, where none were named.

Its columns: number, value (values_0 and further ones of several objectives), datetime_start, datetime_complete,
duration, params_*, user_attrs_*, system_attrs_* and state
(https://optuna.readthedocs.io/en/stable/reference/generated/optuna.study.Study.html).
"""

from collections.abc import Callable, Sequence

PARAMETERS = "params_"
PREFIXES = (PARAMETERS, "user_attrs_")


def is_trials(header: Sequence[str]) -> bool:
    """Whether a file with these columns is an export of Optuna's trials."""
    objective = any(name == "value" or name.startswith("values_") for name in header)
    own = any(name.startswith(PREFIXES) for name in header)
    return "number" in header and "state" in header and objective and own


def named(header: Sequence[str], name: str) -> str:
    """The parameter or user attribute of this name; else the name itself."""
    there = [name, *(prefix + name for prefix in PREFIXES)]
    return next((other for other in there if other in header), name)


def varied(header: Sequence[str], seeds: Sequence[str], levels: Callable[[str], int], rows: int) -> tuple[str, ...]:
    """The parameters that together name a variant: all but the seeds, if each of their values stands in several trials.

    `levels`: the number of different values of a column.
    """
    names = tuple(name for name in header if name.startswith(PARAMETERS) and name not in seeds)
    return names if all(2 * levels(name) <= rows for name in names) else ()
