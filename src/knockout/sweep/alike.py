"""Runs that fail with the same error, one after the other: the next would fail too, so the sweep stops and says why."""

import re
from dataclasses import dataclass
from pathlib import Path

from knockout.ledger import Ledger
from knockout.sweep.answer import Answer

MOST = 3
"""So many equal failures in a row, none of another kind and no result between them, end a sweep."""

FAILURES = ("crashed", "out_of_memory", "killed")

TRACE_LINES = 30
"""The last lines of a traceback that are shown."""


@dataclass(frozen=True, kw_only=True)
class FailedAlike:
    """The error with which runs failed."""

    count: int
    error: str
    """the traceback where there is one, else the reason"""
    log: Path | None
    """the log of the last of these runs"""


class Alike:
    """Counts equal failures in a row."""

    def __init__(self, *, keep_going: bool) -> None:
        """`keep_going`: count, and never stop."""
        self.keep_going = keep_going
        self.row: list[Answer] = []

    @property
    def stop(self) -> bool:
        """Whether no further run should be started. A run in flight that comes to a result takes it back."""
        return not self.keep_going and len(self.row) >= MOST

    def count(self, answer: Answer) -> bool:
        """Take in how a run ended; True where no further run should be started because of it."""
        before = self.stop
        if answer.status in ("stopped", "held"):
            return False
        if answer.status not in FAILURES:
            self.row = []
        elif self.row and _error(answer) == _error(self.row[-1]):
            self.row.append(answer)
        else:
            self.row = [answer]
        return self.stop and not before

    def described(self, ledger: Ledger) -> FailedAlike:
        """The error, read from the log of the last run that failed with it."""
        last = self.row[-1]
        attempts = ledger.attempts.get(last.run.id, ())
        lines = attempts[-1].log().splitlines() if attempts else []
        start = next((i for i, line in enumerate(lines) if line.startswith("Traceback ")), None)
        end = max((i for i, line in enumerate(lines) if f" {last.status}: " in line), default=len(lines))
        trace = lines[start:end] if start is not None else []  # a log ends with the status and the reason
        if len(trace) > TRACE_LINES:
            trace = [trace[0], "  ...", *trace[-TRACE_LINES:]]
        log = attempts[-1].path / "log.txt" if attempts else None
        return FailedAlike(count=len(self.row), error="\n".join(trace) or last.reason, log=log)


def _error(answer: Answer) -> tuple[str, str]:
    """What two equal failures have in common: numbers and addresses differ from run to run."""
    return answer.status, re.sub(r"0x[0-9a-f]+|\d+", "#", answer.reason)
