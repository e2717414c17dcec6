"""Which column probably holds what, judged by its name and its cells. Best guess first; none where nothing fits."""

import re
from collections import Counter
from collections.abc import Sequence
from statistics import median

from knockout.analysis.external.numbers import read_values
from knockout.analysis.external.shapes import has_numbers
from knockout.analysis.external.statuses import LIKELY
from knockout.analysis.external.table import Sheet, similar
from knockout.analysis.stats.metric import HIGHER, LOWER, SHARES, words_of
from knockout.strict import nearest

VARIANTS = (
    *("variant", "group", "ablation", "model", "arm", "method", "condition", "config", "configuration", "setting"),
    *("experiment", "name", "run", "runname", "displayname"),
)
"""What columns of variants are called, without the prefixes of trackers."""

SEEDS = ("seed", "randomseed", "rngseed", "randomstate", "seedid", "manualseed", "fold", "split", "rep", "replicate")

BASELINES = ("base", "baseline", "default", "control", "full", "vanilla", "reference", "original", "standard", "none")

TRACKERS = frozenset(
    {"notes", "user", "tags", "created", "runtime", "sweep", "id", "description", "runid", "experimentid", "hostname"}
    | {"artifacturi", "starttime", "endtime", "enddate", "updated", "gpucount", "commit", "jobtype", "path"}
    | {"step", "epoch", "epochs", "timestamp", "number", "params", "datetimestart", "datetimecomplete", "duration"}
)
"""Columns that trackers add, and that say nothing of a variant."""

SEED_IN_NAME = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(.*?)[-_ ./]?(seed)[-_ =]?(\d+)",
        r"(.*?)[-_ ./](s|run|rep|fold|trial)[-_ =]?(\d+)",
        r"(.*?)[-_ ./]()(\d+)",
    )
)
"""Names of runs: the variant, the word for the seed, the seed."""

DATA = ("dataset", "data", "task", "benchmark", "corpus", "language", "fold", "split")
"""Columns that are part of a block with the seed, not of the variant."""

ROWS = ("", *SEEDS, "run", "trial", "number", "id", "index", "unnamed0", "runid", "repeat", "repetition")
"""What columns that number rows are called."""

FIRST = "only because it is the first: name another one if it is not"

MOST_LEVELS = 12
"""Values of a setting that was varied."""


def word_of(column: str) -> str:
    """The name of a column without a tracker's prefix, in small letters: "params.random_seed" is "randomseed"."""
    bare = re.sub(r"^(?:params|config|tags|attributes|user_attrs|hparams|metrics)[./_]", "", column.casefold())
    return re.sub(r"[^a-z0-9]", "", bare.replace("mlflow.", ""))


def _levels(sheet: Sheet, name: str) -> Counter[str]:
    return Counter(cell for cell in sheet.cells[name] if cell)


def variant_columns(sheet: Sheet, asked: str, baseline: str) -> list[str]:
    """Columns that may name the variant: those that hold the baseline's name, else those that are called so."""
    usable = [name for name in sheet.cells if len(_levels(sheet, name)) > 1 and word_of(name) not in SEEDS]
    usable = [name for name in usable if name not in LIKELY]

    def rank(name: str) -> tuple[int, int]:
        word = word_of(name)
        order = VARIANTS.index(word) if word in VARIANTS else len(VARIANTS)
        return (0 if name in similar(asked, usable) else 1, order)

    holding = [name for name in usable if baseline and baseline in _levels(sheet, name)]
    if holding:
        return sorted(holding, key=rank)
    seeded = bool(seed_columns(sheet, taken=()))  # then a name that is another for each run is no variant
    repeated = [name for name in usable if _repeats(sheet, name) or (not seeded and seed_pattern_of(sheet.cells[name]))]
    called = [name for name in repeated if word_of(name) in VARIANTS and not has_numbers(sheet, name)]
    return sorted(called, key=rank)


def _repeats(sheet: Sheet, name: str) -> bool:
    """Whether the column's values are groups of runs: most stand several times."""
    levels = _levels(sheet, name)
    return len(levels) > 1 and 2 * len(levels) <= sum(levels.values())


def configuration_columns(sheet: Sheet, baseline: str) -> list[str]:
    """Columns of settings that were varied: few values, each in several runs; those that the baseline names first."""
    named = [part.split("=", 1)[0].strip() for part in re.split(r",\s*", baseline) if "=" in part]
    if named and all(name in sheet.cells for name in named):
        return list(dict.fromkeys(named))
    found = []
    for name in sheet.cells:
        word, levels = word_of(name), _levels(sheet, name)
        if (
            not name
            or word in TRACKERS
            or word in SEEDS
            or name in LIKELY
            or words_of(name) & (SHARES | HIGHER | LOWER)
        ):
            continue
        if 1 < len(levels) <= MOST_LEVELS and _repeats(sheet, name) and min(levels.values()) > 1:
            found.append(name)
    return found


def seed_columns(sheet: Sheet, taken: Sequence[str]) -> list[str]:
    """Columns that are called as seeds are."""
    there = [name for name in sheet.cells if name not in taken and len(_levels(sheet, name)) > 1]
    called = [name for name in there if word_of(name) in SEEDS]
    parts = [name for name in there if "seed" in word_of(name) and name not in called]
    return [*sorted(called, key=lambda name: SEEDS.index(word_of(name))), *parts]


def seed_pattern_of(names: Sequence[str]) -> str:
    """A pattern that takes the seed out of every name, such as "base_seed3"; empty where the names hold none.

    Numbers are seeds only where most of them stand beside several variants: trackers number runs too.
    """
    names = [name for name in names if name]
    for pattern in SEED_IN_NAME:
        matches = [pattern.fullmatch(name) for name in names]
        parts = [match.groups() for match in matches if match is not None]
        if len(parts) < max(2, len(names)):
            continue
        stems = Counter(part[0] for part in parts)
        if "" in stems or min(stems.values()) < 2:
            continue
        of_seed = Counter(part[-1] for part in parts)
        if len(stems) < 2 or 2 * sum(n for n in of_seed.values() if n > 1) < len(parts):
            continue  # no seed that variants share: "run-0", "run-1" and "brisk-sun-12" count runs
        words = {part[1] for part in parts}
        if len(words) > 1:
            continue
        ends = {name[len(part[0]) : -len(part[-1])] for name, part in zip(names, parts, strict=True)}
        exact = re.escape(next(iter(ends))) if len(ends) == 1 else f"[-_ ./]?{words.pop()}[-_ =]?"
        return rf"{exact}(\d+)$"
    return ""


def metric_columns(sheet: Sheet, asked: str, taken: Sequence[str]) -> list[str]:
    """Columns of numbers that may be the metric: those like the name that was asked for, then by their own names."""
    numeric = [name for name in sheet.cells if name and name not in taken and has_numbers(sheet, name)]
    numeric = [name for name in numeric if word_of(name) not in TRACKERS and word_of(name) not in SEEDS]
    near = similar(asked, numeric)

    def rank(name: str) -> tuple[int, int, int]:
        words = words_of(name)
        kind = next((i for i, of in enumerate(({"accuracy", "acc"}, SHARES, HIGHER, LOWER)) if words & of), 4)
        split = 0 if "test" in words else 2 if words & {"train", "training"} else 1
        return (0 if name in near else 1, kind, split)

    known = [name for name in numeric if name in near or rank(name)[1] < 4]
    return sorted(known or [name for name in numeric if not _repeats(sheet, name)], key=rank)


def row_labels(sheet: Sheet) -> list[str]:
    """Columns that may number the rows of a wide sheet, each of which is a seed."""
    return [
        name
        for name in sheet.cells
        if name and word_of(name) in ROWS and len(set(sheet.cells[name])) == len(sheet.rows) and all(sheet.cells[name])
    ]


def wide_columns(sheet: Sheet, seed: Sequence[str], baseline: str) -> tuple[str, list[str]]:
    """The columns of numbers of a sheet that seems to be wide, and the column of variants where each is of a seed.

    Else none, and no name.
    """
    numbers = [name for name in sheet.cells if name and name not in seed and has_numbers(sheet, name)]
    of_seeds = [name for name in numbers if re.fullmatch(r"(?:seed|s|run|rep|fold)?[-_ ]?\d+", name, re.IGNORECASE)]
    names = [name for name in sheet.cells if name and name not in numbers]
    once = [name for name in names if len(_levels(sheet, name)) == len(sheet.rows)]
    if len(of_seeds) > 1 and once:
        return once[0], of_seeds
    labels = {*row_labels(sheet), *(name for name in numbers if word_of(name) in (*SEEDS, *TRACKERS))}
    others = [name for name in numbers if name not in labels]
    if len(others) < 2:
        return "", []
    if baseline in others or (not baseline and any(word_of(name) in BASELINES for name in others)):
        return "", others
    if baseline or any(words_of(name) & (SHARES | HIGHER | LOWER) for name in others):
        return "", []
    grouped = variant_columns(sheet, "variant", "") or configuration_columns(sheet, "")
    return "", [] if grouped or not _alike(sheet, others) else others


def _alike(sheet: Sheet, names: Sequence[str]) -> bool:
    """Whether the numbers of the columns are of one size, as those of one metric are."""
    sizes = [abs(median(x for x in read_values(sheet, name).cells if x is not None)) for name in names]
    return max(sizes) <= 10 * min(sizes)


def telling_apart(sheet: Sheet, keys: Sequence[str], ended: Sequence[bool]) -> list[str]:
    """Further columns of settings that tell apart the runs which the key columns do not; none where none do.

    `ended`: for each row, whether the run came to a result: of the others there may be several tries.
    """
    found = [name for name in configuration_columns(sheet, "") if name not in keys]
    runs = sum(ended)

    def distinct(names: Sequence[str]) -> int:
        rows = zip(*(sheet.cells[name] for name in names), strict=True)
        return len({row for row, there in zip(rows, ended, strict=True) if there})

    if distinct(keys) == runs or not found or distinct([*keys, *found]) < runs:
        return []
    alone = [name for name in found if distinct([*keys, name]) == runs]
    return alone[:1] or found


def baseline_like(asked: str, names: Sequence[str], columns: Sequence[str]) -> tuple[str, str]:
    """The variant that is probably the baseline, and why. Of combinations, the one from which the others differ least.

    The first one, which the reason says, where nothing tells.
    """
    near = nearest(asked, names) or next(iter(similar(asked, names)), "") if asked else ""
    called = [name for word in BASELINES for name in names if word_of(name) == word]
    starts = [name for word in BASELINES for name in names if word in re.split(r"[^a-z0-9]+", name.casefold())]
    if near or called or starts:
        return near or (called or starts)[0], "by its name"
    if columns:
        parts = {name: name.split(", ") for name in names}
        apart = {a: sum(x != y for b in names for x, y in zip(parts[a], parts[b], strict=False)) for a in names}
        least = [name for name in names if apart[name] == min(apart.values())]
        if len(least) == 1:
            return least[0], "from which the others differ least"
    return names[0], FIRST
