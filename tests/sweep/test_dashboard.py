"""The dashboard: it says what the ledger says, an open page stays right, and nobody but a reader here gets in."""

import hashlib
import io
import json
import math
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from html.parser import HTMLParser
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol
from wsgiref.simple_server import WSGIServer
from wsgiref.util import setup_testing_defaults

import optuna_dashboard
import pandas as pd
import pytest
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial, TrialState

from knockout.analysis.publish import pack_study
from knockout.analysis.results import ResultsError
from knockout.design import read_design, write_design
from knockout.files import replace_json
from knockout.job import Curve, Epoch, Outcome, Predictions, Status
from knockout.ledger import run_config
from knockout.record import write_record
from knockout.study import Run, Study, read_study
from knockout.sweep import dashboard, snapshot
from knockout.sweep.dashboard import REBUILD_SECONDS, PortError, Watched, guarded, serving
from knockout.sweep.dashboard_page import NUMBERED, for_readers
from knockout.sweep.owner import Progress, hold_run, write_progress
from knockout.sweep.snapshot import MAX_POINTS, Epochs, as_text, mirror, number_tries, read_state, thinned
from tests.designs import raw_design

from .conftest import COMMAND, ENVIRONMENT, REPOSITORY, WriteToy, root_of, start

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
HTML = "<img src=x onerror=alert(1)>"


class Folder:
    """A study's folder that a test fills by hand, without processes."""

    def __init__(self, study: Path) -> None:
        self.file = study
        self.root = root_of(study)
        self.clock = 0.0
        self.minutes = 0
        self.runs: dict[tuple[str, int], Run] = {}
        self.study: Study
        self.plan()

    def plan(self) -> None:
        self.study = read_study(self.file)
        runs = write_design(self.root, self.study, data_id="", data_summary={})
        self.runs = {(r.variant, r.seed): r for r in runs}

    def put(self, variant: str, seed: int, outcome: Outcome) -> Path:
        self.minutes += 1
        return write_record(
            self.root,
            config=run_config(self.study, self.runs[variant, seed], data_id=""),
            outcome=outcome,
            environment={},
            ended=f"2026-01-01T{self.minutes // 60:02}:{self.minutes % 60:02}:00+00:00",
            log="a log\n",
        )

    def finish(self, variant: str, seed: int, *, correct: int | None = None) -> Path:
        run = self.runs[variant, seed]
        count = random.Random(f"{variant}{seed}").randint(120, 180) if correct is None else correct
        return self.put(variant, seed, finished(run, correct=count))

    def fail(self, variant: str, seed: int, status: Status, reason: str) -> Path:
        nan = Curve(loss=[1.0, math.nan], learning_rate=[0.1, 0.1], grad_norm=[1.0, math.inf])
        outcome = Outcome(
            run_id=self.runs[variant, seed].id, status=status, reason=reason, metrics={}, curve=nan,
            epochs=[Epoch(epoch=1, step=1, loss=math.nan, correct=0, count=0)],
        )  # fmt: skip
        return self.put(variant, seed, outcome)

    def trials(self) -> list[FrozenTrial]:
        design = read_design(self.root)
        assert design is not None
        state = read_state(self.root, design)
        return mirror(number_tries([], state), state, runs=state.runs, epochs=Epochs())

    def watch(self) -> Watched:
        return Watched(self.root, clock=lambda: self.clock)

    def later(self) -> None:
        self.clock += REBUILD_SECONDS


def finished(run: Run, *, correct: int) -> Outcome:
    labels = [i % 2 for i in range(200)]
    predicted = [y if i < correct else 1 - y for i, y in enumerate(labels)]
    told: dict[str, float | int] = {"loss": 0.5, "correct": correct, "count": 200}
    return Outcome(
        run_id=run.id,
        status="finished",
        metrics={"validation": {**told, "correct": correct - 10}, "test": told},
        curve=Curve(loss=[1.0, 0.5], learning_rate=[0.1, 0.1], grad_norm=[1.0, 1.0]),
        epochs=[
            Epoch(epoch=1, step=1, loss=0.7, correct=100, count=200),
            Epoch(epoch=2, step=2, loss=0.5, correct=correct - 10, count=200),
        ],
        predictions=Predictions(label=labels, predicted=predicted, log_probability=[-0.5] * 200),
        costs={"train_seconds": 12.34, "eval_seconds": 0.5, "steps": 2},
    )


@pytest.fixture
def folder(toy: WriteToy) -> Folder:
    return Folder(toy(variants=("up", "down"), seeds=2))


@pytest.fixture
def every_status(toy: WriteToy) -> Iterator[Folder]:
    """Three seeds: finished, diverged, crashed, killed, out of memory, timed out, running, missing."""
    variants = ("up", "down", "diverges", "raises", "is_killed", "runs_out", "exits", "vanishes")
    made = Folder(toy(variants=variants, seeds=3))
    for variant in ("baseline", "up", "down"):
        for seed in (0, 1, 2):
            made.finish(variant, seed)
    made.fail("diverges", 0, "diverged", "loss not finite at step 2")
    made.fail("raises", 0, "crashed", f"ValueError: {HTML}")
    made.fail("is_killed", 0, "killed", "its worker died 2 times")
    made.fail("runs_out", 0, "out_of_memory", "=MemoryError()")
    made.fail("exits", 0, "timed_out", "stopped after 60 s")
    running = made.runs["vanishes", 0].id
    with hold_run(made.root, running):
        write_progress(made.root, running, Progress(step=3, steps=9, loss=math.nan))
        yield made


def get(
    app: Any, path: str, *, method: str = "GET", query: str = "", host: str = "127.0.0.1", origin: str = ""
) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers of one request, without a server."""
    environ: dict[str, Any] = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query}
    environ |= {"HTTP_HOST": host, "HTTP_ORIGIN": origin, "HTTP_ACCEPT_ENCODING": "gzip"}
    setup_testing_defaults(environ)
    environ["wsgi.input"] = io.BytesIO(b"{}")
    seen: list[Any] = []
    answer = app(environ, lambda status, found, _=None: seen.append((int(status[:3]), dict(found))))
    body = b"".join(answer)
    if hasattr(answer, "close"):  # a file
        answer.close()
    return seen[0][0], body, seen[0][1]


def detail(app: Any, after: int = 0) -> dict[str, Any]:
    status, body, _ = get(app, "/api/studies/0", query=f"after={after}")
    assert status == 200, body
    told = json.loads(body, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert isinstance(told, dict)
    return told


def attributes(trial: Mapping[str, Any]) -> dict[str, str]:
    return {a["key"]: a["value"] for a in trial["user_attrs"]}


class TestMirror:
    def test_every_status_is_there(self, every_status: Folder) -> None:
        trials = every_status.trials()
        assert [t.number for t in trials] == list(range(27))
        assert [t.params["seed"] for t in trials] == [0] * 9 + [1] * 9 + [2] * 9
        first = {t.params["variant"]: t for t in trials[:9]}
        told = {v: (t.state.name, t.user_attrs["status"], t.user_attrs.get("reason")) for v, t in first.items()}
        assert told == {
            "baseline": ("COMPLETE", "finished", None),
            "up": ("COMPLETE", "finished", None),
            "down": ("COMPLETE", "finished", None),
            "diverges": ("FAIL", "diverged", "loss not finite at step 2"),
            "raises": ("FAIL", "crashed", "ValueError: <\u200bimg src=x onerror=alert(1)>"),
            "is_killed": ("FAIL", "killed", "its worker died 2 times"),
            "runs_out": ("FAIL", "out_of_memory", "'=MemoryError()"),
            "exits": ("FAIL", "timed_out", "stopped after 60 s"),
            "vanishes": ("RUNNING", "running", None),
        }
        assert {t.state for t in trials[12:18] + trials[21:]} == {TrialState.WAITING}
        for trial in trials:
            assert trial.user_attrs["run_id"] == every_status.runs[trial.params["variant"], trial.params["seed"]].id

    def test_a_finished_run_has_its_metrics_its_curve_and_its_times(self, folder: Folder) -> None:
        folder.finish("up", 0, correct=150)
        (folder.root / "starts.log").write_text(
            f"2025-12-31T23:59:00+00:00\t{folder.runs['up', 0].id}\tup\t0\thost\t1\n"
            f"2026-01-01T00:00:30+00:00\t{folder.runs['up', 0].id}\tup\t0\thost\t1\n",
            encoding="utf-8",
        )
        trial = folder.trials()[1]
        assert trial.value == 0.7
        assert trial.intermediate_values == {1: 0.5, 2: 0.7}
        metrics = {k: v for k, v in trial.user_attrs.items() if k not in ("run_id", "status")}
        assert metrics == {
            "objective": "validation accuracy",
            "validation_accuracy": 0.7, "validation_loss": 0.5, "test_accuracy": 0.75, "test_loss": 0.5,
            "train_seconds": 12.3,
        }  # fmt: skip
        assert trial.duration is not None
        assert trial.duration.total_seconds() == 30

    def test_each_try_began_when_it_was_started_and_times_are_local(
        self, folder: Folder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder.fail("up", 0, "crashed", "ended at 00:01")
        folder.finish("up", 0)  # ended at 00:02
        rows = [f"2026-01-01T00:0{n}:30+00:00\t{folder.runs['up', 0].id}\tup\t0\thost\t1\n" for n in (0, 1)]
        (folder.root / "starts.log").write_text("".join(rows), encoding="utf-8")
        with monkeypatch.context() as patch:
            patch.setenv("TZ", "XXX-05:30")
            time.tzset()
            first, second = folder.trials()[1:3]
        time.tzset()
        assert [str(t) for t in (first.datetime_start, first.datetime_complete)] == [
            "2026-01-01 05:30:30", "2026-01-01 05:31:00",
        ]  # fmt: skip
        assert str(second.datetime_start) == "2026-01-01 05:31:30"

    def test_a_lock_that_may_not_be_tried_is_taken_for_free(
        self, every_status: Folder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(_root: Path, _run_id: str) -> bool:
            raise PermissionError("read only")

        monkeypatch.setattr(snapshot, "run_held", refused)
        assert every_status.trials()[8].state == TrialState.WAITING

    def test_a_run_in_training_says_how_far_it_is(self, every_status: Folder) -> None:
        trial = next(t for t in every_status.trials() if t.state == TrialState.RUNNING)
        assert (trial.user_attrs["step"], trial.user_attrs["steps"]) == (3, 9)
        assert math.isnan(trial.user_attrs["loss"])

    def test_what_is_not_a_number_has_no_value(self, folder: Folder) -> None:
        none = finished(folder.runs["up", 0], correct=150)
        none.metrics["validation"] = {"correct": 0, "count": 0}
        folder.put("up", 0, none)
        folder.fail("down", 0, "diverged", "loss not finite")
        _, up, down, *_ = folder.trials()
        assert (up.state, up.value, up.user_attrs["status"]) == (TrialState.FAIL, None, "finished")
        assert down.state == TrialState.FAIL
        assert math.isnan(down.intermediate_values[1])

    def test_a_run_without_validation_is_valued_by_its_test_split(self, folder: Folder) -> None:
        outcome = finished(folder.runs["up", 0], correct=150)
        del outcome.metrics["validation"]
        folder.put("up", 0, outcome)
        assert folder.trials()[1].value == 0.75

    def test_a_run_that_was_tried_again_is_one_trial_for_each_try(self, folder: Folder) -> None:
        folder.fail("up", 0, "crashed", "first")
        folder.fail("up", 0, "killed", "second")
        folder.finish("up", 0)
        told = [(t.params["variant"], t.user_attrs["status"]) for t in folder.trials()[:5]]
        tries = [("up", "crashed"), ("up", "killed"), ("up", "finished")]
        assert told == [("baseline", "missing"), *tries, ("down", "missing")]

    def test_every_packed_run_has_its_own_curve(self) -> None:
        root = REPOSITORY / "results" / "reference" / "quick"
        design = read_design(root)
        assert design is not None
        state = read_state(root, design)
        trials = mirror(number_tries([], state), state, runs=state.runs, epochs=Epochs())
        curves = {
            (t.params["variant"], t.params["seed"]): [round(v, 3) for _, v in sorted(t.intermediate_values.items())]
            for t in trials
        }
        costs = pd.read_csv(root / "costs.csv").set_index(["variant", "seed"])["train_seconds"]
        for trial in trials:
            assert trial.duration is not None
            trained = costs[trial.params["variant"], trial.params["seed"]]
            assert trained <= trial.duration.total_seconds() <= 1.5 * trained
        published = pd.read_csv(root / "figures" / "validation_curves.csv")  # what the report draws of the same records
        expected = {
            key: [pytest.approx(v / 100, abs=6e-4) for v in rows.sort_values("x")["value"]]
            for key, rows in published.groupby(["variant", "seed"])
        }
        assert curves == expected
        assert len({tuple(curve) for curve in curves.values()}) > len(curves) / 2  # and not one curve for all

    def test_a_packed_run_that_was_tried_again_has_a_curve_where_it_finished(self, folder: Folder) -> None:
        folder.fail("up", 0, "crashed", "once")
        folder.finish("up", 0, correct=150)
        before = [t.intermediate_values for t in folder.trials()]
        pack_study(folder.root, folder.root / "records.parquet")
        for kind in ("runs", "attempts"):
            shutil.rmtree(folder.root / kind)
        assert [t.intermediate_values for t in folder.trials()] == before
        assert [curve for curve in before if curve] == [{1: 0.5, 2: 0.7}]

    def test_a_seed_of_53_bits_is_the_same_seed(self, toy: WriteToy) -> None:
        path = toy(variants=("up",), seeds=2)
        path.write_text(path.read_text("utf-8").replace("seeds = 2", f"seeds = [0, {2**53 - 1}]"), encoding="utf-8")
        app = Folder(path).watch()
        seeds = [p["param_external_value"] for t in detail(app)["trials"] for p in t["params"] if p["name"] == "seed"]
        assert seeds == ["0", "0", str(2**53 - 1), str(2**53 - 1)]

    @pytest.mark.parametrize("length", [0, 1, 2, MAX_POINTS, MAX_POINTS + 1, 10_000])
    def test_long_curves_are_thinned_and_keep_their_ends(self, length: int) -> None:
        points = [(i, float(i)) for i in range(length)]
        left = thinned(points, MAX_POINTS)
        assert len(left) == len(set(left)) == min(length, MAX_POINTS)
        assert left == sorted(left)
        assert not points or (left[0], left[-1]) == (points[0], points[-1])
        gaps = [b - a for (a, _), (b, _) in pairwise(left)]
        assert not gaps or max(gaps) - min(gaps) <= 1

    @pytest.mark.parametrize(
        ("raw", "shown"),
        [
            ("plain, 1 < 2 & 3", "plain, 1 <\u200b 2 & 3"),
            ("=1+1", "'=1+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("a\nb\tc", "a b c"),
            ("\x1b[31m\u202ered", "\ufffd[31m\ufffdred"),
            (7, "7"),
        ],
    )
    def test_any_value_becomes_text(self, raw: object, shown: str) -> None:
        assert as_text(raw) == shown


class OpenPage:
    """What the dashboard's own page does: it asks for what comes after its first unfinished trial, and keeps the rest.

    A trial keeps the list of variants that there were when it was fetched: nothing is read off that.
    """

    def __init__(self, app: Any) -> None:
        self.app = app
        self.trials: list[dict[str, Any]] = []

    def poll(self) -> list[tuple[str, int, str]]:
        open_ = [i for i, t in enumerate(self.trials) if t["state"] in ("Running", "Waiting")]
        after = open_[0] if open_ else len(self.trials)
        self.trials = self.trials[:after] + _without_space(detail(self.app, after)["trials"])
        assert self.trials == _without_space(detail(self.app)["trials"]), "differs from a page that is loaded now"
        assert [(t["number"], t["trial_id"]) for t in self.trials] == [(i, i) for i in range(len(self.trials))]
        return [(named(t, "variant"), int(named(t, "seed")), attributes(t)["status"]) for t in self.trials]


def _without_space(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for trial in trials:
        for parameter in trial["params"]:
            del parameter["distribution"]
    return trials


def named(trial: Mapping[str, Any], name: str) -> str:
    (value,) = [p["param_external_value"] for p in trial["params"] if p["name"] == name]
    return str(value)


class TestAnOpenPage:
    def test_it_stays_right_while_runs_come_fail_and_come_again(self, folder: Folder) -> None:
        page = OpenPage(folder.watch())
        cells = [(v, s) for s in (0, 1) for v in ("baseline", "up", "down")]
        status = dict.fromkeys(cells, "missing")
        assert page.poll() == [(*c, "missing") for c in cells]
        with hold_run(folder.root, folder.runs["up", 0].id):
            folder.finish("baseline", 0)
            folder.later()
            status |= {("baseline", 0): "finished", ("up", 0): "running"}
            assert page.poll() == [(*c, status[c]) for c in cells]
        folder.fail("up", 0, "crashed", "once")
        for cell in cells[2:]:
            folder.finish(*cell)
        folder.later()
        status |= dict.fromkeys(cells[2:], "finished") | {("up", 0): "crashed"}
        assert page.poll() == [(*c, status[c]) for c in cells]
        with hold_run(folder.root, folder.runs["up", 0].id):  # a later `run`: the crash stays, the new try comes last
            folder.later()
            assert page.poll() == [*((*c, status[c]) for c in cells), ("up", 0, "running")]
        folder.later()  # its worker was killed and left nothing
        assert page.poll()[-1] == ("up", 0, "missing")
        folder.finish("up", 0)
        folder.later()
        assert page.poll() == [*((*c, status[c]) for c in cells), ("up", 0, "finished")]

    def test_variants_and_seeds_that_are_added_come_last_and_what_is_dropped_stays(self, folder: Folder) -> None:
        for cell in folder.runs:
            if cell != ("down", 1):
                folder.finish(*cell)
        page = OpenPage(folder.watch())
        before = page.poll()
        text = folder.file.read_text(encoding="utf-8")
        folder.file.write_text(text.replace('"up", "down"', '"up", "exits"').replace("seeds = 2", "seeds = 3"), "utf-8")
        folder.plan()
        folder.later()
        after = page.poll()
        assert after[:5] == before[:5]
        assert after[5] == ("down", 1, "removed")
        added = [("exits", 0), ("exits", 1), ("baseline", 2), ("up", 2), ("exits", 2)]
        assert after[6:] == [(*c, "missing") for c in added]

    def test_a_record_that_is_taken_away_is_missing_again(self, folder: Folder) -> None:
        gone = folder.finish("baseline", 0)
        app = folder.watch()
        shutil.rmtree(gone)
        folder.later()
        assert attributes(detail(app)["trials"][0])["status"] == "missing"

    def test_attempts_that_are_taken_away_do_not_move_the_others(self, folder: Folder) -> None:
        gone = folder.fail("baseline", 0, "crashed", "first")
        folder.fail("baseline", 0, "crashed", "second")
        folder.finish("baseline", 0)
        app = folder.watch()
        shutil.rmtree(gone)
        folder.later()
        told = [(attributes(t)["status"], attributes(t).get("reason", "")) for t in detail(app)["trials"][:4]]
        assert told[0] == ("crashed", "second")
        assert told[1] == ("removed", "its record is not in the folder any more")
        assert told[2:] == [("finished", ""), ("missing", "")]


class TestSnapshots:
    def test_one_is_kept_for_ten_seconds_and_not_longer(self, folder: Folder) -> None:
        app = folder.watch()
        folder.finish("baseline", 0)
        folder.clock = REBUILD_SECONDS - 0.001
        assert detail(app)["best_trials"] == []
        folder.clock = REBUILD_SECONDS
        assert [t["number"] for t in detail(app)["best_trials"]] == [0]

    def test_nothing_is_read_for_the_pages_themselves(self, folder: Folder) -> None:
        app = folder.watch()
        before = app.app
        folder.later()
        assert get(app, "/dashboard")[0] == 200
        assert app.app is before
        assert get(app, "/api/studies")[0] == 200
        assert app.app is not before

    def test_the_best_trial_is_the_highest_validation_accuracy_and_the_metric_is_named(self, folder: Folder) -> None:
        folder.finish("baseline", 0, correct=120)
        folder.finish("up", 0, correct=170)
        folder.finish("down", 0, correct=140)
        told = detail(folder.watch())
        assert [named(t, "variant") for t in told["best_trials"]] == ["up"]
        assert (told["directions"], told["objective_names"]) == (["maximize"], ["validation accuracy (no verdict)"])

    @pytest.mark.parametrize(
        ("without", "named"),
        [(("baseline", "up"), "test accuracy"), (("up",), "accuracy"), ((), "validation accuracy")],
    )
    def test_the_metric_is_that_of_the_split_that_the_runs_have(
        self, folder: Folder, without: tuple[str, ...], named: str
    ) -> None:
        for variant in ("baseline", "up"):
            outcome = finished(folder.runs[variant, 0], correct=150)
            if variant in without:
                del outcome.metrics["validation"]
            folder.put(variant, 0, outcome)
        assert detail(folder.watch())["objective_names"] == [f"{named} (no verdict)"]

    def test_every_request_of_many_threads_is_answered_whole_while_snapshots_change(self, folder: Folder) -> None:
        app = folder.watch()
        stop = threading.Event()
        seen: list[tuple[int, int]] = []
        wrong: list[object] = []

        def ask() -> None:
            while not stop.is_set():
                try:
                    told = detail(app)
                    done = sum(t["state"] == "Complete" for t in told["trials"])
                    said = int(next(a["value"] for a in told["user_attrs"] if a["key"] == "runs").split()[2])
                    seen.append((done, said))
                    assert get(app, "/api/studies/0/param_importances")[0] == 200
                    assert get(app, "/csv/0")[0] == 200
                except BaseException as error:
                    wrong.append(error)
                    return

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for cell in folder.runs:
            folder.finish(*cell)
            folder.later()
            known = len(seen)
            while len(seen) < known + 8 and not wrong:
                time.sleep(0.001)
        stop.set()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert all(done == said for done, said in seen)
        assert {done for done, _ in seen} >= {1, 6}

    def test_a_folder_that_goes_away_is_shown_as_it_was_and_said_so(self, folder: Folder) -> None:
        folder.finish("baseline", 0)
        app = folder.watch()
        before = detail(app)
        folder.root.rename(folder.root.with_name("moved"))
        folder.later()
        away = detail(app)
        assert away["trials"] == before["trials"]
        assert "not up to date" in away["note"]["body"]
        assert away["note"]["version"] > before["note"]["version"]
        folder.root.with_name("moved").rename(folder.root)
        folder.later()
        assert detail(app)["note"]["body"] == before["note"]["body"]

    def test_a_record_of_another_make_is_named(self, folder: Folder) -> None:
        app = folder.watch()
        record = folder.finish("baseline", 0)
        replace_json(record / "outcome.json", {"status": "finished"})
        names = json.loads((record / "manifest.json").read_text(encoding="utf-8"))
        names["outcome.json"] = hashlib.sha256((record / "outcome.json").read_bytes()).hexdigest()
        replace_json(record / "manifest.json", names)
        folder.later()
        named = attributes(detail(app))["damaged records"]
        assert named.startswith("runs/baseline-s0-")
        assert "its reason is no text" in named
        assert app.note.writer is not None
        app.note.writer.join()
        folder.later()
        assert "Damaged records" in detail(app)["note"]["body"]

    def test_looking_changes_nothing_in_the_folder(self, every_status: Folder) -> None:
        def contents() -> dict[str, bytes]:
            files = [p for p in every_status.root.rglob("*") if p.is_file()]
            return {str(p): p.read_bytes() for p in files}

        (every_status.root / "journal.log").write_text("torn, and none of its business", encoding="utf-8")
        before = contents()
        app = every_status.watch()
        every_status.later()
        detail(app)
        assert contents() == before


class TestTheNote:
    def test_it_says_so_while_no_run_has_finished(self, folder: Folder) -> None:
        body = detail(folder.watch())["note"]["body"]
        assert "No verdict yet: none of the 6 planned runs has finished." in body
        assert "|" not in body

    def test_it_holds_the_verdict_table_and_follows_the_records(self, toy: WriteToy) -> None:
        folder = Folder(toy(variants=("up", "down"), seeds=3))
        for cell in folder.runs:
            if cell != ("down", 1):
                folder.finish(*cell)
        app = folder.watch()
        before = detail(app)["note"]
        assert re.search(r"^\| down; effect: 0.0 → -0.1.*incomplete: 2 of 3", before["body"], re.MULTILINE)
        assert "8 of 9 runs came to a result" in before["body"]
        folder.finish("down", 1)
        folder.later()
        detail(app)  # begins the new note beside the request
        assert app.note.writer is not None
        writer = app.note.writer
        writer.join()
        folder.later()
        after = detail(app)["note"]
        assert "incomplete" not in after["body"]
        assert after["version"] > before["version"]
        folder.later()
        assert detail(app)["note"] == after
        assert app.note.writer is writer, "written again, though no record was added"

    def test_it_is_not_written_all_the_time(self, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
        app = folder.watch()

        def slow(_: Path) -> str:
            folder.clock += 30.0
            return "slow"

        monkeypatch.setattr(dashboard, "verdict_note", slow)
        app.note.write(records="some")
        folder.finish("baseline", 0)
        folder.clock += 269.0
        detail(app)
        assert app.note.writer is None
        folder.clock += 10.0
        detail(app)
        assert app.note.writer is not None
        app.note.writer.join()

    def test_records_that_contradict_each_other_are_said_in_words(self, folder: Folder) -> None:
        record = folder.finish("baseline", 0)
        shutil.copytree(record, record.with_name("twice"))
        body = detail(folder.watch())["note"]["body"]
        assert body.startswith("These records cannot be judged: ")
        assert "recorded twice" in body

    def test_html_comes_out_as_text(self, folder: Folder) -> None:
        text = folder.file.read_text(encoding="utf-8").replace("a toy?", HTML)
        folder.file.write_text(text, encoding="utf-8")
        folder.plan()
        assert f"\\{HTML[:-1]}\\>" in detail(folder.watch())["note"]["body"]


METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "")
GOOD_HOSTS = ("127.0.0.1", "127.0.0.1:8080", "localhost", "localhost:8080", "LocalHost:8080")
BAD_HOSTS = (
    "", "evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "evil-localhost",
    "127.0.0.1:80801", "127.0.0.1:9", "localhost:9", "127.0.0.2", "0.0.0.0", "[::1]:8080",
    "127.0.0.1:8080@evil.example", "localhost,evil.example", "evil.example,localhost", "user@localhost",
    "localhost.", " localhost",
)  # fmt: skip


class TestTheGuard:
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("host", [*GOOD_HOSTS, *BAD_HOSTS])
    def test_only_readers_of_this_machine_get_through(self, method: str, host: str) -> None:
        through: list[str] = []

        def app(environ: Any, start_response: Any) -> list[bytes]:
            through.append(environ["REQUEST_METHOD"])
            start_response("200 OK", [])
            return [b"inside"]

        status, body, _ = get(guarded(app, port=8080), "/api/studies", method=method, host=host)
        if method in ("GET", "HEAD") and host in GOOD_HOSTS:
            assert (status, body, through) == (200, b"inside", [method])
        else:
            assert (status, through) == (403, [])
            assert b"inside" not in body

    def test_a_request_without_a_host_is_refused(self) -> None:
        def app(_environ: Any, _start_response: Any) -> list[bytes]:
            raise AssertionError("got through")

        seen: list[str] = []
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/"}
        list(guarded(app, port=8080)(environ, lambda status, _headers, _=None: seen.append(status)))  # type: ignore[arg-type]  # a start_response of a test
        assert seen == ["403 Forbidden"]

    def test_no_route_of_the_dashboard_that_changes_something_can_be_reached(self, folder: Folder) -> None:
        folder.finish("baseline", 0)
        watched = folder.watch()
        before = detail(watched)
        app = guarded(watched, port=8080)
        routes = optuna_dashboard.wsgi(InMemoryStorage()).routes
        changing = [r for r in routes if r.method != "GET"]
        assert {r.method for r in changing} == {"POST", "PUT", "DELETE"}
        assert len(changing) >= 15
        for route in changing:
            path = re.sub(r"<\w+:int>", "0", re.sub(r"<\w+(:re:[^>]+)?>", "0", route.rule))
            assert "<" not in path, route.rule
            assert get(app, path, method=route.method)[0] == 403, (route.method, path)
        assert detail(watched) == before

    def test_every_route_that_reads_answers_without_permission_for_other_origins(self, every_status: Folder) -> None:
        every_status.later()
        app = guarded(every_status.watch(), port=8080)
        answered = {}
        for path in ("/dashboard", "/dashboard/studies/0", "/api/meta", "/api/studies", "/api/studies/0", "/csv/0",
                     "/favicon.ico", "/static/bundle.js", "/api/studies/0/param_importances", "/"):  # fmt: skip
            status, _, headers = get(app, path, origin="https://evil.example")
            answered[path] = status
            assert not [h for h in headers if h.lower().startswith("access-control")], path
        assert answered == dict.fromkeys(answered, 200) | {"/": 302, "/dashboard": 302}
        meta = json.loads(get(app, "/api/meta")[1])
        assert (meta["artifact_is_available"], meta["llm_is_available"], meta["allow_unsafe"]) == (False, False, False)
        assert "script-src 'self'" in get(app, "/dashboard/studies/0")[2]["Content-Security-Policy"]

    def test_the_csv_begins_no_cell_with_a_formula(self, every_status: Folder) -> None:
        text = get(every_status.watch(), "/csv/0")[1].decode()
        assert "'=MemoryError()" in text
        assert ",=" not in text

    @pytest.mark.filterwarnings("ignore:Target and region quantiles")  # Optuna's, and what is asked here
    def test_equal_values_have_importances_that_are_numbers(self, folder: Folder) -> None:
        for cell in folder.runs:
            folder.finish(*cell, correct=150)
        status, body, _ = get(folder.watch(), "/api/studies/0/param_importances")
        assert status == 200
        told = json.loads(body, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        assert {i["name"] for i in told["param_importances"][0]} == {"variant", "seed"}


class TestThePage:
    def test_every_page_loads_the_script_of_knockout_before_the_one_it_changes(self, folder: Folder) -> None:
        app = guarded(for_readers(folder.watch()), port=80)
        for path in ("/dashboard/studies/0", "/dashboard/studies/0/note"):
            status, body, headers = get(app, path)
            assert (status, int(headers["Content-Length"])) == (200, len(body))
            assert "script-src 'self'" in headers["Content-Security-Policy"]
            sources = re.findall(r'<script[^>]* src="([^"]+)"', body.decode())
            assert sources == ["/knockout/dashboard.js", "/static/bundle.js"]
            (style,) = re.findall(r'<link rel="stylesheet" href="([^"]+)"', body.decode())
            for asset, kind in ((style, "text/css"), (sources[0], "text/javascript")):
                status, found, told = get(app, asset)
                assert (status, told["Content-Type"].split(";")[0]) == (200, kind)
                assert len(found) > 100

    def test_it_has_a_body_for_get_only_and_is_sent_again_whatever_a_browser_kept(self, folder: Folder) -> None:
        app = for_readers(folder.watch())
        _, whole, headers = get(app, "/dashboard/studies/0")
        _, none, of_head = get(app, "/dashboard/studies/0", method="HEAD")
        assert (none, of_head) == (b"", headers)
        assert not {"ETag", "Last-Modified"} & set(headers)

        def old(environ: dict[str, Any], start_response: Any) -> Any:
            return app({**environ, "HTTP_IF_MODIFIED_SINCE": "Fri, 01 Jan 2100 00:00:00 GMT"}, start_response)

        assert get(old, "/dashboard/studies/0")[:2] == (200, whole)

    def test_learning_curves_are_named_by_the_script_of_this_version(self, folder: Folder) -> None:
        app = folder.watch()
        plain, sent = get(app, "/static/bundle.js")[1], get(for_readers(app), "/static/bundle.js")
        before, after = NUMBERED
        assert plain[:2] == b"\x1f\x8b"  # packed, unlike what is sent
        assert "Content-Encoding" not in sent[2]
        assert (before in sent[1], sent[1].count(after)) == (False, 1)

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("POST", "/api/studies"),
            ("DELETE", "/api/studies/0"),
            ("PUT", "/api/studies/0/note"),
            ("PUT", "/api/studies/0/3/note"),
        ],
    )
    def test_a_change_is_refused_with_a_reason_that_the_page_can_show(
        self, method: str, path: str, folder: Folder
    ) -> None:
        status, body, headers = get(guarded(for_readers(folder.watch()), port=80), path, method=method)
        assert (status, headers["Content-Type"]) == (403, "application/json")
        assert "look at only" in json.loads(body)["reason"]


@contextmanager
def served(root: Path) -> Iterator[WSGIServer]:
    with serving(root, port=0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class TestTheServer:
    @pytest.mark.parametrize(
        "path",
        [
            "/",
            "/dashboard",
            "/dashboard/",
            "/dashboard/compare-studies",
            "/dashboard/studies/7",
            "/dashboard/studies/01",
        ],
    )
    def test_it_opens_on_the_verdicts_and_not_on_a_list_with_buttons_that_are_refused(
        self, path: str, folder: Folder
    ) -> None:
        status, _, headers = get(guarded(folder.watch(), port=80), path)
        assert (status, headers["Location"]) == (302, "/dashboard/studies/0/note")

    def test_it_listens_on_this_machine_only_and_answers_several_at_once(self, folder: Folder) -> None:
        with served(folder.root) as server, ExitStack() as stack:
            assert server.server_address[0] == "127.0.0.1"
            silent = socket.create_connection(("127.0.0.1", server.server_port))  # a browser's spare connection
            stack.callback(silent.close)
            connection = HTTPConnection("localhost", server.server_port, timeout=10)
            stack.callback(connection.close)
            connection.request("GET", "/api/studies")
            assert json.loads(connection.getresponse().read())["study_summaries"][0]["study_name"] == "toy"

    @pytest.mark.parametrize(
        ("method", "headers", "status"),
        [
            ("GET", {}, 200),
            ("HEAD", {}, 200),
            ("GET", {"Host": "evil.example"}, 403),
            ("POST", {"Content-Type": "text/plain"}, 403),
            ("DELETE", {}, 403),
        ],
    )
    def test_over_the_wire(
        self, folder: Folder, method: str, headers: dict[str, str], status: int, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with served(folder.root) as server:
            connection = HTTPConnection("127.0.0.1", server.server_port, timeout=10)
            connection.request(method, "/api/studies", headers=headers)
            assert connection.getresponse().status == status
            connection.close()
        assert capfd.readouterr() == ("", "")

    def test_a_program_that_names_no_encodings_is_answered_too(self, folder: Folder) -> None:
        with served(folder.root) as server:
            connection = HTTPConnection("127.0.0.1", server.server_port, timeout=10)
            connection.putrequest("GET", "/favicon.ico", skip_accept_encoding=True)
            connection.endheaders()
            assert connection.getresponse().status == 200
            connection.close()

    def test_a_busy_port_and_a_folder_without_a_study_are_named(self, folder: Folder, tmp_path: Path) -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            with pytest.raises(PortError, match=rf"port {port} is in use; --port"), serving(folder.root, port=port):
                pass
        with pytest.raises(ResultsError, match="no study was ever started here"), serving(tmp_path / "none", port=0):
            pass


def dashboard_process(*arguments: str) -> "subprocess.Popen[str]":
    """Ctrl-C reaches it, too, where a shell started the tests in the background and so had them ignore it."""
    return subprocess.Popen(
        [*COMMAND, "dashboard", *arguments],
        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


@pytest.mark.long
class TestTheCommand:
    def test_it_prints_where_it_is_and_ends_with_ctrl_c(self, folder: Folder) -> None:
        process = dashboard_process(str(folder.root), "--port", "0")
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
        assert found, line
        connection = HTTPConnection("127.0.0.1", int(found[1]), timeout=10)
        connection.request("GET", "/api/studies/0")
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (130, "stopped\n", "")

    def test_what_a_user_can_mend_is_one_line_and_exit_code_2(self, folder: Folder, tmp_path: Path) -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            busy = dashboard_process(str(folder.root), "--port", str(port))
            none = dashboard_process(str(tmp_path / "none"), "--port", "0")
            for process, text in ((busy, f"port {port} is in use; --port"), (none, "no study was ever started here")):
                out, err = process.communicate(timeout=60)
                assert (process.returncode, out, err.count("\n")) == (2, "", 1)
                assert text in err

    def test_it_follows_a_study_that_runs(self, toy: WriteToy) -> None:
        study = toy(variants=("up",), seeds=2, step_seconds=0.15, steps=8)
        process = start(study, "--workers", "2")
        root, clock = root_of(study), 0.0
        deadline = time.monotonic() + 60
        while read_design(root) is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        app = Watched(root, clock=lambda: clock)
        seen = set()
        while process.poll() is None:
            assert time.monotonic() < deadline
            trials = detail(app)["trials"]
            seen |= {t["state"] for t in trials}
            seen |= {f"{k} told" for t in trials if t["state"] == "Running" for k in attributes(t)}
            clock += REBUILD_SECONDS
            time.sleep(0.1)
        assert process.wait() == 0
        assert {"Waiting", "Running", "Complete", "step told", "loss told"} <= seen
        clock += REBUILD_SECONDS
        assert [t[2] for t in OpenPage(app).poll()] == ["finished"] * 4


_VOID = {"img", "input", "br", "hr", "link", "meta", "source"}


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.images: list[str | None] = []
        self.runs: list[str] = []
        """the names that Knockout's script gives to trials"""
        self.hidden: list[str] = []
        """the text of what it hides"""
        self.inside = 0

    def handle_data(self, data: str) -> None:
        (self.hidden if self.inside else self.parts).append(data)

    def handle_endtag(self, tag: str) -> None:
        self.inside -= self.inside > 0 and tag not in _VOID

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.inside += (self.inside > 0 or "data-knockout-hidden" in found) and tag not in _VOID
        if run := found.get("data-knockout-run"):
            self.runs.append(run)
        if tag == "img":
            self.images.append(dict(attrs).get("src"))


class Visit(Protocol):
    """Open a page of the dashboard in Chromium, and return what it shows.

    The browser must not complain but of what `complains` of; `script` runs in the page beside its own.
    """

    def __call__(self, path: str, *, script: str = "", complains: str = "WebGL|GPU") -> _Text: ...


def with_script(app: Any, script: str) -> Callable[[dict[str, Any], Any], Any]:
    """The application with a script of a test in each of its pages."""

    def answer(environ: dict[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"] == "/test.js":
            start_response("200 OK", [("Content-Type", "text/javascript")])
            return [script.encode()]
        status, body, headers = get(app, environ["PATH_INFO"], query=environ["QUERY_STRING"], host=environ["HTTP_HOST"],
                                    method=environ["REQUEST_METHOD"])  # fmt: skip
        if environ["PATH_INFO"].startswith("/dashboard"):
            body = body.replace(b"</head>", b'<script defer src="/test.js"></script></head>')
        start_response(f"{status} Status", [*((headers | {"Content-Length": str(len(body))}).items())])
        return [body]

    return answer


@pytest.fixture
def visit(every_status: Folder, tmp_path: Path) -> Iterator[Visit]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed; `make deps-debian` installs it")
    design = json.dumps(raw_design(every_status.root))  # a folder from somebody else may name a variant as it likes
    renamed = json.loads(design.replace('"down"', '"<b>down</b>"'))
    replace_json(every_status.root / "design.json", renamed)
    options = [
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
        *("--disable-background-networking", "--disable-component-update", "--enable-logging=stderr"),
        *(
            "--virtual-time-budget=8000",
            "--window-size=1400,3000",
            "--dump-dom",
            f"--user-data-dir={tmp_path / 'chromium'}",
        ),
    ]
    with served(every_status.root) as server:
        app = server.get_app()

        def open_page(path: str, *, script: str = "", complains: str = "WebGL|GPU") -> _Text:
            server.set_app(with_script(app, script) if script else app)
            command = [str(CHROMIUM), *options, f"http://127.0.0.1:{server.server_port}{path}"]
            seen = subprocess.run(command, capture_output=True, text=True, timeout=120, env=dict(os.environ))
            assert seen.returncode == 0, seen.stderr
            complaints = [s for s in seen.stderr.splitlines() if "CONSOLE" in s and not re.search(complains, s)]
            assert complaints == []
            page = _Text()
            page.feed(seen.stdout)
            return page

        yield open_page


@pytest.mark.long
class TestInABrowser:
    def test_the_list_and_the_history(self, visit: Visit) -> None:
        assert "Verdict\u2002" in visit("/").parts  # it opens on the verdicts
        page = visit("/dashboard/studies/0")
        assert {"History", "Timeline", "Intermediate values", "validation accuracy (no verdict)"} <= set(page.parts)
        assert "Best Trials" in page.hidden
        assert not [p for p in page.parts if p.startswith(("Best Trial", "Params = ["))]
        curves = {p.strip() for p in page.parts}
        assert {"baseline, seed 0", "up, seed 2", "<\u200bb>down<\u200b/b>, seed 1"} <= curves
        assert not [p for p in curves if p.startswith("trial #")]
        assert any("27 planned: 9 finished, 1 diverged, 17 missing" in p for p in page.parts)

    def test_the_note_is_a_table_of_verdicts(self, visit: Visit) -> None:
        page = visit("/dashboard/studies/0/note")
        text = " ".join(p.strip("\u2002 \n") for p in page.parts)
        assert "Verdict\u2002" in page.parts
        for change in (
            "effect: 0.0 → 0.1",
            "effect: 0.0 → -0.1",
            "conduct: good → diverges",
            "conduct: good → vanishes",
        ):
            assert change in text
        assert text.count("inconclusive (incomplete: 0 of 3)") == 5
        assert "<b>down</b>" in text

    def test_trials_of_every_status_are_told(self, visit: Visit) -> None:
        page = visit("/dashboard/studies/0/trials?numbers=4")
        text = " ".join(page.parts)
        assert {"27 Trials", "Complete", "Fail", "Running"} <= set(page.parts)
        assert "crashed" in text
        assert page.runs.count("raises, seed 0") == 2  # in the list, and above what it says
        assert {"baseline, seed 0", "up, seed 0", "vanishes, seed 0"} <= set(page.runs)
        assert "Note" in page.hidden
        assert f"ValueError: <\u200b{HTML[1:]}" in text
        assert page.images == []
        shown = visit("/dashboard/studies/0/trials?numbers=8")
        assert "Fail Trial" in shown.hidden
        running = " ".join(shown.parts)
        assert re.search(r"step\s+3", running)
        assert re.search(r"loss\s+nan", running)

    @pytest.mark.parametrize(
        ("path", "parts"),
        [
            ("/dashboard/studies/0", ["#graph-hyperparameter-importances", "#plot-history .js-line"]),
            ("/dashboard/studies/0/note", ["[data-testid=EditIcon]", "[title='Return to the top page']"]),
        ],
    )
    def test_what_cannot_be_used_and_what_looks_like_a_verdict_is_not_drawn(
        self, path: str, parts: list[str], visit: Visit
    ) -> None:
        size = "parts.map((p) => [...document.querySelectorAll(p)].map((e) => e.getBoundingClientRect().width > 0))"
        script = f"""setTimeout(() => {{
            const parts = {json.dumps(parts)}, line = document.createElement("p");
            line.textContent = "drawn: " + JSON.stringify({size});
            document.body.append(line);
        }}, 6000);"""
        (said,) = [p for p in visit(path, script=script).parts if p.startswith("drawn: ")]
        assert json.loads(said.removeprefix("drawn: ")) == [[False], [False]]

    def test_a_change_that_is_refused_says_why_on_the_page(self, visit: Visit) -> None:
        page = visit(
            "/dashboard/studies/0/note",
            script='window.addEventListener("load", () => fetch("/api/studies/0", { method: "DELETE" }));',
            complains="WebGL|GPU|403",
        )
        (said,) = [p for p in page.parts if p.startswith("Nothing was changed: ")]
        assert "look at only" in said

    def test_names_are_text_in_plots_too(self, visit: Visit) -> None:
        page = visit("/dashboard/studies/0/analytics")
        assert "Slice" in page.parts
        shown = {p for p in page.parts if "down" in p}
        assert shown
        assert shown <= {"<\u200bb>down<\u200b/b>"}
        selection = visit("/dashboard/studies/0/smartSelection")
        assert "Parallel Coordinate" in selection.parts
