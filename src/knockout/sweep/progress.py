"""What a person sees while a study runs: a live display on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Mapping

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from rich.segment import Segment, SegmentLines
from rich.text import Text

from knockout.lines import print_lines
from knockout.plurals import plural
from knockout.study import Run
from knockout.sweep.answer import Answer
from knockout.sweep.interim import Interim
from knockout.sweep.owner import Progress

Draw = Callable[[Interim, Console], RenderableType]
"""What makes text of the state of a study, for a console's width."""

UNKNOWN = "time left: not known yet"
START_MATTERS_SECONDS = 60.0
"""In a session shorter than that, the start of the workers is no part of the pace."""
LEAST_LINES = 6
"""A terminal with less room beside what runs shows no differences."""


def describe(seconds: float) -> str:
    """A duration in words, rounded: seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


class Watch:
    """Counts and times of the whole study, for both displays."""

    def __init__(self) -> None:
        self.total = self.done = self.workers = self.ended_here = 0
        self.started = time.monotonic()
        self.share_running = 0.0
        self.first_ended: tuple[float, float] | None = None
        """when the first run ended, and how many had been trained by then, parts of runs counted"""
        self.reasons = Reasons()

    def start(self, *, total: int, done: int, workers: int) -> None:
        self.total, self.done, self.workers = total, done, workers
        self.started = time.monotonic()

    def count(self, answer: Answer) -> None:
        if answer.status != "stopped":
            self.done += 1
            self.ended_here += 1
            if self.first_ended is None:
                self.first_ended = time.monotonic(), 1 + self.share_running

    def time_left(self) -> str:
        """The time left in words, from the pace of this session's runs, once one has ended; "" once all is done."""
        if self.done >= self.total:
            return ""
        if self.first_ended is None:
            return UNKNOWN
        now, trained = time.monotonic(), self.ended_here + self.share_running
        begun, before = self.started, 0.0
        few = self.total - self.done + self.ended_here <= 2 * self.workers
        if now - self.started < START_MATTERS_SECONDS and not few:
            if self.ended_here <= self.workers:
                return UNKNOWN
            begun, before = self.first_ended  # without the start of the workers, which takes as long as short runs do
        if trained <= before:
            return UNKNOWN
        left = (now - begun) / (trained - before) * max(0.0, self.total - self.done - self.share_running)
        return f"about {describe(left)} left"


class Reasons:
    """Why runs ended: several lines once, and the first of them for every other run with the same reason."""

    def __init__(self) -> None:
        self.known: set[str] = set()

    def shown(self, reason: str) -> str:
        first, *more = reason.splitlines() or [""]
        if not more:
            return reason
        again = reason in self.known
        self.known.add(reason)
        return f"{first} (as above)" if again else reason


def line_of(answer: Answer, reasons: Reasons) -> str:
    """One line on how a run ended, and more where the reason has more."""
    run, seen = answer.run, answer.objective
    value = "" if seen is None else f", {seen.name} {100 * seen.value:.1f} %"
    seconds = f", {answer.seconds:.1f} s" if answer.seconds else ""
    reason = f": {reasons.shown(answer.reason)}" if answer.reason else ""
    return f"{run.variant} seed {run.seed}: {answer.status}{value}{seconds}{reason}"


class PlainDisplay:
    """One line for each run that ends, for logs and pipes; the differences so far at each quarter of the blocks."""

    def __init__(self, console: Console, draw: Draw) -> None:
        self.console, self.draw = console, draw
        self.watch = Watch()
        self.quarter = 0
        """of the blocks, at which the differences were last shown"""

    def start(self, *, total: int, done: int, workers: int) -> None:
        self.watch.start(total=total, done=done, workers=workers)
        self.say(f"{plural(total, 'run')}, {done} of them done before; {plural(workers, 'worker')}")

    def say(self, line: str) -> None:
        print_lines(self.console, Text(line))

    def ended(self, answer: Answer) -> None:
        self.watch.count(answer)
        left = self.watch.time_left()
        first, *more = line_of(answer, self.watch.reasons).splitlines()
        self.say("\n".join([f"[{self.watch.done}/{self.watch.total}] {first}" + (f"; {left}" if left else ""), *more]))

    def interim(self, interim: Interim) -> None:
        quarter = 4 * interim.blocks // interim.planned
        if self.quarter < quarter < 4:
            self.quarter = quarter
            self.console.print(self.draw(interim, self.console))

    def running(self, progress: Mapping[Run, Progress | None]) -> None:
        self.watch.share_running = _share(progress)

    def stop(self) -> None:
        pass


class QuietDisplay(PlainDisplay):
    """One line for each run that came to no result, and nothing else."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, lambda _interim, _console: "")

    def start(self, *, total: int, done: int, workers: int) -> None:
        self.watch.start(total=total, done=done, workers=workers)

    def say(self, line: str) -> None:
        pass

    def ended(self, answer: Answer) -> None:
        self.watch.count(answer)
        if answer.status not in ("finished", "diverged", "held", "stopped"):
            super().say(line_of(answer, self.watch.reasons))

    def interim(self, interim: Interim) -> None:
        pass


class LiveDisplay:
    """The differences so far, a bar over the whole study, a line for each run in flight; failures as they happen."""

    def __init__(self, console: Console, draw: Draw) -> None:
        self.console, self.draw = console, draw
        self.watch = Watch()
        self.newest: Interim | None = None
        self.drawn: tuple[int, list[list[Segment]]] | None = None
        """the width for which the newest state was drawn, and its lines"""
        self.bar = Bar(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"),
            console=console, auto_refresh=False,
        )  # fmt: skip
        self.task = self.bar.add_task("runs", total=None, left="")
        # Refreshed here, not in a thread of its own. The console writes to whatever `sys.stdout` is at the moment: if
        # that led back to the console, it would never come to an end.
        self.live = Live(console=console, auto_refresh=False, redirect_stdout=False)

    def start(self, *, total: int, done: int, workers: int) -> None:
        self.watch.start(total=total, done=done, workers=workers)
        self.bar.update(self.task, total=total, completed=done)
        self.live.start()
        self.running({})

    def say(self, line: str) -> None:
        print_lines(self.live.console, Text(line))

    def ended(self, answer: Answer) -> None:
        self.watch.count(answer)
        style = "" if answer.status == "finished" else "bold red"
        if style:
            line = line_of(answer, self.watch.reasons)
            print_lines(self.live.console, Text(line, style=style))

    def interim(self, interim: Interim) -> None:
        self.newest, self.drawn = interim, None

    def _so_far(self, room: int) -> list[RenderableType]:
        """The newest state, drawn once for each width of the terminal, in so many lines at most."""
        if self.newest is None or room < LEAST_LINES:
            return []
        width = self.console.width
        if self.drawn is None or self.drawn[0] != width:
            self.drawn = width, self.console.render_lines(self.draw(self.newest, self.console), pad=False)
        lines = self.drawn[1]
        if len(lines) <= room - 1:
            return [SegmentLines(lines, new_lines=True), Text("")]
        cut = Text(f"... {plural(len(lines) - room + 2, 'more line')}: the terminal is too low", style="dim")
        return [SegmentLines(lines[: room - 2], new_lines=True), cut, Text("")]

    def running(self, progress: Mapping[Run, Progress | None]) -> None:
        self.watch.share_running = _share(progress)
        self.bar.update(self.task, completed=self.watch.done, left=self.watch.time_left())
        lines = []
        for run, now in progress.items():
            name = f"  {run.variant} seed {run.seed}"
            state = "starting" if now is None else f"step {now.step}/{now.steps}  loss {now.loss:.3f}"
            lines.append(Text(f"{name:<40}{state}", style="dim"))
        so_far = self._so_far(self.console.height - 2 - len(lines))
        self.live.update(Group(*so_far, self.bar, *lines), refresh=True)

    def stop(self) -> None:
        self.running({})
        self.live.stop()


def _share(progress: Mapping[Run, Progress | None]) -> float:
    return sum(now.step / now.steps for now in progress.values() if now is not None)
