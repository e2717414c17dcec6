"""Whether the results of a study come from one source of its trainer (`knockout.trainer_source`).

Each record holds the hash of the source that its run was trained with, as `trainer_source` of its environment. It is no
part of the run's id, so an edit changes no id: it is named wherever results are shown, until VERSION is raised or
`run --same-trainer` declares that the edit changes no number. Records of older versions hold no hash, and say nothing.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from knockout.design import Design, DesignError, read_design
from knockout.files import replace_json
from knockout.ledger import Ledger
from knockout.study import Study
from knockout.trainer_source import trainer_source

FILE = "trainer.json"
"""Where the trainer of the last `run` lies: of this machine, and so published with no report."""

DIGITS = 12
"""Of a hash, in a message."""


@dataclass(frozen=True, kw_only=True)
class SourceChange:
    """The sources of a trainer that the results of one study were made with."""

    trainer: str
    version: int
    recorded: Mapping[str, int]
    """source -> how many results of the study it made, the oldest first"""
    unrecorded: int
    """results that do not say"""
    now: str
    """of the trainer as it is; empty where that is not known"""
    same: tuple[tuple[str, ...], ...]
    """groups of sources that were declared to make the same numbers"""

    @property
    def undeclared(self) -> bool:
        """Whether a source differs from another, and nobody has declared that this does not matter."""
        sources = [*self.recorded, *([self.now] if self.now else [])]
        return bool(self.recorded) and not set(sources) <= self._like(sources[0])

    @property
    def lines(self) -> tuple[str, ...]:
        """What a reader of the results has to know; empty where all come from one source."""
        made = ", ".join(f"{source[:DIGITS]} ({_runs(n)})" for source, n in self.recorded.items())
        if self.undeclared:
            if self.now and self.now not in self.recorded:
                what = f"the trainer has changed since these results: {self.trainer}, {made}; now {self.now[:DIGITS]}"
            else:
                what = f"results of different sources of the trainer are mixed: {self.trainer}, {made}"
            return (f"{what}; VERSION is {self.version} in all",)
        declared = [s for s in self._like(*self.recorded) if s not in self.recorded]
        if len(self.recorded) < 2 and not declared:
            return ()
        others = f"; without results: {', '.join(s[:DIGITS] for s in sorted(declared))}" if declared else ""
        what = "the trainer's source changed between runs, and --same-trainer declared that this changes no number"
        return (f"{what}: {self.trainer}, {made}{others}",)

    @property
    def way_on(self) -> str:
        """What a user can do about a change that was not declared."""
        return (
            f"raise VERSION (now {self.version}) to train all runs again, or continue with --same-trainer if the change"
            " cannot change a number of the runs that are there: the report says so"
        )

    def declared(self) -> tuple[str, ...]:
        """The sources that `--same-trainer` declares to be the same, now."""
        return tuple(sorted({*self.recorded, self.now} - {""})) if self.undeclared else ()

    def _like(self, *sources: str) -> set[str]:
        """These sources, and those that were declared to be the same as one of them."""
        alike = set(sources)
        for _ in self.same:
            alike |= {s for group in self.same if alike & set(group) for s in group}
        return alike


def source_change(
    ledger: Ledger, ids: Iterable[str], *, trainer: str, version: int, now: str, same: Sequence[Sequence[str]]
) -> SourceChange:
    """The sources of the results of these runs. `now`: the trainer's as it is, or empty; `same`: see `Design`."""
    records = [ledger.records[i] for i in ids if i in ledger.records]
    ordered = sorted(records, key=lambda record: str(record.outcome.get("ended", "")))
    sources = [str(record.outcome.get("environment", {}).get("trainer_source", "")) for record in ordered]
    counts = Counter(sources)
    return SourceChange(
        trainer=trainer,
        version=version,
        recorded={source: n for source, n in counts.items() if source},
        unrecorded=counts[""],
        now=now,
        same=tuple(tuple(group) for group in same),
    )


def change_in_folder(root: Path, design: Design, ledger: Ledger) -> SourceChange:
    """The sources of a study's results, with that of the trainer where the last `run` on this machine had it."""
    return source_change(
        ledger,
        [run.id for run in design.runs],
        trainer=design.trainer,
        version=design.version,
        now=_source_now(root, design.trainer),
        same=design.same_trainer,
    )


def change_of_study(study: Study, root: Path, ledger: Ledger, ids: Iterable[str]) -> SourceChange:
    """The sources of a study's results, with that of the trainer as the study's file names it.

    What `--same-trainer` declared is lost with a design.json that cannot be read.
    """
    try:
        before = read_design(root)
    except DesignError:
        before = None
    return source_change(
        ledger,
        ids,
        trainer=study.trainer.path,
        version=study.trainer.version,
        now=study.trainer.source.sha256,
        same=before.same_trainer if before else (),
    )


def write_place(root: Path, study: Study) -> None:
    """Write down where the trainer lies, for `status` and `report`. The built-in one has no place."""
    if not study.trainer.source.sha256:
        return
    place = {"trainer": study.trainer.path, "folders": [str(folder) for folder in study.trainer.folders]}
    if _place(root) != place:
        replace_json(root / FILE, place)


def _source_now(root: Path, trainer: str) -> str:
    place = _place(root)
    if place.get("trainer") != trainer:
        return ""
    folders = place.get("folders")
    return trainer_source(trainer, [Path(str(f)) for f in folders] if isinstance(folders, list) else ()).sha256


def _place(root: Path) -> dict[str, object]:
    """The content of the file; empty where it is missing or damaged: the next `run` writes it again."""
    try:
        place = json.loads((root / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return place if isinstance(place, dict) else {}


def _runs(n: int) -> str:
    return f"{n} run{'' if n == 1 else 's'}"
