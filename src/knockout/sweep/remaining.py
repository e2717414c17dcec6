"""When a study that runs now will end, as far as the durations of its runs so far tell."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from statistics import fmean

from knockout.ledger import Ledger
from knockout.study import Run
from knockout.sweep.answer import answer_of_record
from knockout.sweep.owner import Progress
from knockout.sweep.progress import describe


def seconds_left(runs: Sequence[Run], ledger: Ledger, running: Mapping[str, Progress | None]) -> float | None:
    """Seconds until the missing runs have ended, with as many workers as there are runs in `running` now.

    A run takes as long as those of its variant so far, or as all of them where its variant has none. `None` where no
    run has a duration yet, or nothing is running.
    """
    done: dict[str, list[float]] = {}
    for run in runs:
        if run.id in ledger.records:
            seconds = answer_of_record(run, ledger.records[run.id], curve=()).seconds
            if seconds > 0:
                done.setdefault(run.variant, []).append(seconds)
    if not done or not running:
        return None
    overall = fmean([s for seconds in done.values() for s in seconds])
    left = {
        run.id: fmean(done.get(run.variant, [overall])) * (1 - _share(running.get(run.id)))
        for run in ledger.missing(runs)
        if run.id in running or not ledger.exhausted(run)
    }
    return max(sum(left.values()) / len(running), max((left[i] for i in running if i in left), default=0.0))


def ends_text(seconds: float, *, now: datetime, at_most: bool) -> str:
    """When it ends in words: how long from now, and the time of the day (and the date, if that is another)."""
    end = now + timedelta(seconds=seconds)
    day = "" if end.date() == now.date() else f"{end:%Y-%m-%d} "
    return f"{'at the latest ' if at_most else ''}in about {describe(seconds)}, at {day}{end:%H:%M}"


def _share(progress: Progress | None) -> float:
    """How much of a run is done, 0 to 1."""
    return min(1.0, progress.step / progress.steps) if progress and progress.steps else 0.0
