"""What a study has and what it lacks, before anything is trained: the same for `run` and `run --dry-run`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from knockout.data.prepare import prepare
from knockout.data.sources import absolute_source
from knockout.design import planned_design
from knockout.job import DataRef, Floor
from knockout.ledger import Ledger, read_ledger, run_config
from knockout.source_changes import SourceChange, change_of_study
from knockout.strict import Fault, FaultsError, nearest, shown
from knockout.study import Run, Study, design
from knockout.sweep.blocks import Blocks
from knockout.trainers import stated_floors

if TYPE_CHECKING:
    from knockout.analysis.stopping import Stop


@dataclass(frozen=True, kw_only=True)
class StudyData:
    """The prepared data of a study; empty for a study without any."""

    ref: DataRef | None = None
    summary: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The part of every run's id that stands for the data."""
        return self.ref.id if self.ref else ""

    @property
    def test_examples(self) -> int | None:
        """How many examples the test split has; `None` without data."""
        count: int | None = self.summary.get("splits", {}).get("test", {}).get("count")
        return count


def prepare_data(study: Study) -> StudyData:
    """The data that a study names, prepared now or before. Raises `DataError`."""
    if study.data is None:
        return StudyData()
    prepared = prepare(absolute_source(study.data, study.path.parent))
    return StudyData(ref=prepared.ref, summary=prepared.summary)


def study_floors(study: Study, data: StudyData) -> tuple[Floor, ...]:
    """What simpler models reach on the study's test split: of its texts, computed once and cached, and those that its
    trainer states. None for a trainer without data that states none. Raises `FaultsError` for wrong ones of a trainer.
    """
    own = stated_floors(study.trainer, data.ref, shown(study.path))
    if data.ref is None or study.data is None:
        return own
    from knockout.data.floors import text_floors  # scikit-learn: only where a study has texts

    return (*text_floors(data.ref, tokens=study.data.tokens), *own)


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What a study has and what it lacks."""

    study: Study
    root: Path
    data: StudyData
    runs: tuple[Run, ...]
    """all runs of the design"""
    ledger: Ledger
    chosen: tuple[Run, ...]
    """the runs that are asked for: all, or those of some variants; once all is decided, only those that count"""
    todo: tuple[Run, ...]
    """of these, the runs to be tried: without a result, and not exhausted"""
    exhausted: tuple[Run, ...]
    """the chosen runs that failed so often that only `--retry` tries them again"""
    change: SourceChange
    """the sources of the trainer that the results were made with"""
    dropped: tuple[str, ...]
    """variants that were planned when the first run started, and are not any more"""
    blocks: Blocks | None
    """the blocks of a study with `seeds = "anytime"`"""

    @property
    def wanted(self) -> tuple[Run, ...]:
        """The runs that would be trained: at most, where the study stops as soon as it is decided."""
        return self.todo if self.blocks is None else tuple(run for run in self.todo if self.blocks.wanted(run))

    @property
    def stop(self) -> "Stop | None":
        """What is decided in a study with `seeds = "anytime"`, once one of its blocks is complete."""
        return self.blocks.stop if self.blocks else None

    def config(self, run: Run) -> dict[str, Any]:
        """What the record of a run says was run."""
        return run_config(self.study, run, data_id=self.data.id)


def check_only(study: Study, only: Sequence[str]) -> None:
    """Raise `FaultsError` where a variant is asked for that the study does not run."""
    for name in only:
        if name not in study.arms:
            allowed = ", ".join(study.arms)
            hint = nearest(name, study.arms)
            got = f'--only: "{name}" is not run by this study'
            parts = [part.strip() for part in name.split(",")]
            if len(parts) > 1 and set(parts) & set(study.arms):
                got += f"; repeat the option: `{' '.join(f'--only {part}' for part in parts)}`"
                hint = ""
            raise FaultsError([Fault(file=study.path.name, got=got, allowed=allowed, nearest=hint)])


def survey(
    study: Study,
    root: Path,
    *,
    data: StudyData | None = None,
    only: Sequence[str] = (),
    retry: bool = False,
    damaged: Literal["set_aside", "report"] = "report",
) -> Survey:
    """Compare a study's design with the records in its folder `root`. Writes nothing, unless `damaged` says so.

    `data`: prepared here where it is not given. `only`: the variants to look at; all where it is empty. `retry`:
    exhausted runs are tried again. `damaged`: see `read_ledger`. Raises `FaultsError` for a variant that the study does
    not run, and `DataError`.
    """
    check_only(study, only)
    data = prepare_data(study) if data is None else data
    runs, ledger = design(study, data_id=data.id), read_ledger(root, damaged=damaged)
    chosen = [run for run in runs if not only or run.variant in only]
    todo = [run for run in ledger.missing(chosen) if retry or not ledger.exhausted(run)]
    blocks: Blocks | None = None
    had = sum(run.id in ledger.records for run in runs)
    planned = planned_design(root, study, data_id=data.id, data_summary=data.summary, results=had)
    if study.anytime is not None and not only:
        tried = {run.id for run in todo}
        lost = [run for run in ledger.missing(runs) if run.id not in tried]
        blocks = Blocks(study, root, runs=runs, design=planned, ledger=ledger, lost=lost)
        if blocks.decided:
            chosen = [run for run in chosen if blocks.counts(run, ledger)]
            todo = [run for run in todo if blocks.wanted(run)]
    return Survey(
        study=study,
        root=root,
        data=data,
        runs=tuple(runs),
        ledger=ledger,
        chosen=tuple(chosen),
        todo=tuple(todo),
        exhausted=tuple(run for run in ledger.missing(chosen) if not retry and ledger.exhausted(run)),
        change=change_of_study(study, root, ledger, [run.id for run in runs]),
        dropped=planned.dropped,
        blocks=blocks,
    )
