"""The seeds of a study file: how many blocks are run, and the training seeds of the placebo (A/A) arms."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from knockout.strict import Fault, got_text, nearest

MAX_SEEDS = 10_000
MAX_SEED = 2**53  # Optuna keeps parameters as float64
MAX_PLACEBOS = 1_000
PLACEBO = re.compile(r"placebo_[0-9]+")

Stopping = Literal["fixed", "anytime"]
"""`fixed`: all seeds are run. `anytime`: they are run in order until an e-process has decided every contrast."""


def read_seeds(raw: Mapping[str, Any], file: str) -> tuple[tuple[int, ...], Stopping, list[Fault]]:
    """The keys `seeds` and `max_seeds`: all seeds that may be run, in order, and how their number is fixed."""
    value = raw.get("seeds")
    if value == "anytime":
        most = raw.get("max_seeds")
        if isinstance(most, int) and not isinstance(most, bool) and 1 <= most <= MAX_SEEDS:
            return tuple(range(most)), "anytime", []
        got = f"got {got_text(most)}" if "max_seeds" in raw else 'missing, beside seeds = "anytime"'
        allowed = f"the most seeds that may be run, from 1 to {MAX_SEEDS}"
        return (), "anytime", [Fault(file=file, key="max_seeds", got=got, allowed=allowed)]
    seeds, faults = _fixed(value, file)
    if "max_seeds" in raw:
        got = "the number of seeds is fixed"
        faults.append(Fault(file=file, key="max_seeds", got=got, allowed='only beside seeds = "anytime"'))
    return seeds, "fixed", faults


def _fixed(raw: object, file: str) -> tuple[tuple[int, ...], list[Fault]]:
    allowed = (
        f"a number of seeds from 1 to {MAX_SEEDS}, a list of different integers from 0 to 2^53 - 1, or"
        ' "anytime" beside max_seeds'
    )
    trouble, hint = "", ""
    if isinstance(raw, int) and not isinstance(raw, bool):
        if 1 <= raw <= MAX_SEEDS:
            return tuple(range(raw)), []
        trouble = f"got {got_text(raw)}"
    elif isinstance(raw, list) and raw:
        wrong = [s for s in raw if not isinstance(s, int) or isinstance(s, bool) or not 0 <= s < MAX_SEED]
        doubled = sorted({s for s in raw if not wrong and raw.count(s) > 1}) if len(raw) <= MAX_SEEDS else []
        if not wrong and not doubled and len(raw) <= MAX_SEEDS:
            return tuple(raw), []
        trouble = (
            f"got {got_text(wrong)}" if wrong else f"twice: {got_text(doubled)}" if doubled else f"got {len(raw)} seeds"
        )
    else:
        trouble = "missing" if raw is None else f"got {got_text(raw)}"
        hint = nearest(raw, ["anytime"]) if isinstance(raw, str) else ""
    return (), [Fault(file=file, key="seeds", got=trouble, allowed=allowed, nearest=hint)]


def read_placebos(
    raw: object, names: object, declared: Mapping[str, Any], file: str
) -> tuple[tuple[str, ...], list[Fault]]:
    """The key `placebo`: the names of the arms. No variant of the study may have such a name beside them."""
    if not isinstance(raw, int) or isinstance(raw, bool) or not 0 <= raw <= MAX_PLACEBOS:
        allowed = f"a number of placebo arms from 0 to {MAX_PLACEBOS}"
        return (), [Fault(file=file, key="placebo", got=f"got {got_text(raw)}", allowed=allowed)]
    used = [*(names if isinstance(names, list) else []), *declared]
    clashes = dict.fromkeys(n for n in used if raw and isinstance(n, str) and PLACEBO.fullmatch(n))
    faults = [
        Fault(
            file=file,
            key="variants" if isinstance(names, list) and name in names else f"variant.{name}",
            got=f'"{name}" is a name of a placebo arm',
            allowed=f"another name where placebo = {raw}",
        )
        for name in clashes
    ]
    return tuple(f"placebo_{i}" for i in range(1, raw + 1)), faults


def placebo_streams(placebos: Sequence[str], seeds: Sequence[int]) -> dict[tuple[str, int], int]:
    """(arm, seed of the study) -> the seed that the arm is trained with. No other run of the study has this seed.

    From sha256 of arm, seed and a count of tries, below 2^53; one that is a seed of the study or taken is passed over.
    """
    taken = set(seeds)
    streams = {}
    for arm in placebos:  # arm by arm: one that is added later moves none before it
        for seed in seeds:
            stream, tries = _candidate(arm, seed, 0), 0
            while stream in taken:
                tries += 1
                stream = _candidate(arm, seed, tries)
            taken.add(stream)
            streams[arm, seed] = stream
    return streams


def _candidate(arm: str, seed: int, tries: int) -> int:
    digest = hashlib.sha256(f"{arm}/{seed}/{tries}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % MAX_SEED
