"""The dashboard: optuna-dashboard over a study in memory, built from the ledger; for this machine, and to look at only.

A snapshot is an Optuna study in memory with an application of its own, and so with caches of its own. It is built aside
and swapped in whole: a request sees one snapshot from beginning to end. The journal is never opened.
"""

import errno
import json
import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import optuna
import optuna_dashboard
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial

from knockout.analysis.report.render import markdown
from knockout.analysis.report.study import verdict_note
from knockout.analysis.results import ResultsError
from knockout.design import Design, absence, read_design
from knockout.errors import UserError
from knockout.strict import FaultsError
from knockout.study import Run
from knockout.sweep.answer import objective_name
from knockout.sweep.coordinate import totals
from knockout.sweep.dashboard_page import for_readers
from knockout.sweep.owner import coordinator
from knockout.sweep.snapshot import Epochs, State, Try, as_text, mirror, number_tries, read_state

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

ADDRESS = "127.0.0.1"
REBUILD_SECONDS = 10.0
NOTE_SHARE = 0.1
"""The verdicts are computed anew at most this share of the time, on one core: the runs need the machine."""
STUDY_PAGES = "/dashboard/studies/0"
"""The pages of the only study, which has the number 0."""
NOTE_PAGE = f"{STUDY_PAGES}/note"
"""Where the verdicts are."""
READ_ONLY = "this dashboard is to look at only; a study is changed in its file, and its folder by `knockout run`"


def build_app(
    name: str,
    trials: Iterable[FrozenTrial],
    *,
    objective: str,
    note: str,
    version: int,
    attributes: Mapping[str, str],
) -> "WSGIApplication":
    """An application that shows these trials. `version` counts the notes: an open page shows one that is newer.

    `objective`: what the value of a trial is.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = InMemoryStorage()
    study = optuna.create_study(
        storage=storage,
        sampler=optuna.samplers.RandomSampler(),  # named, and never asked
        pruner=optuna.pruners.NopPruner(),
        study_name=name,
        direction="maximize",
    )
    # `set_metric_names` does the same, and warns that it is experimental.
    study_id = storage.get_study_id_from_name(name)
    storage.set_study_system_attr(study_id, "study:metric_names", [f"{objective} (no verdict)"])
    for key, value in attributes.items():
        study.set_user_attr(key, value)
    study.add_trials(trials)
    optuna_dashboard.save_note(study, note)
    storage.set_study_system_attr(study_id, "dashboard:note_ver", version)
    app: WSGIApplication = optuna_dashboard.wsgi(storage)
    return app


class PortError(UserError):
    """The port cannot be listened on."""


class Watched:
    """A study's folder as a WSGI application that is never older than `REBUILD_SECONDS` when it is asked for data.

    Nothing is read while nobody looks. The verdicts are computed beside the requests, when records were added.
    """

    def __init__(self, root: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises `ResultsError` where no study was started in the folder, or it cannot be read."""
        self.root, self.clock = root, clock
        self.lock = threading.Lock()
        self.runs: dict[str, Run] = {}
        self.tries: list[Try] = []
        self.epochs = Epochs()
        self.built_at = clock()
        self.shown = self._read()
        self.note = _Note(root, clock)
        self.note.write(self.shown.records)
        self.app = self._build(trouble="")

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith(("/api", "/csv")):
            self.refresh()
        return self.app(environ, start_response)

    def refresh(self) -> None:
        """Swap in a new snapshot where the present one is too old; requests for data wait for it."""
        with self.lock:
            if self.clock() - self.built_at < REBUILD_SECONDS:
                return
            self.built_at = self.clock()
            trouble = ""
            try:
                self.shown = self._read()
            except ResultsError as error:  # a share that went away, a folder that was moved: show what was there
                trouble = str(error)
            else:
                self.note.start(self.shown.records)
            self.app = self._build(trouble=trouble)

    def _read(self) -> "_Shown":
        try:
            design = read_design(self.root)
            if design is None:
                raise ResultsError(absence(self.root))
            state = read_state(self.root, design)
            runs = {**self.runs, **state.runs}
            tries = number_tries(self.tries, state)
            trials = mirror(tries, state, runs=runs, epochs=self.epochs)
            owner = coordinator(self.root)
            attributes = {
                "question": design.question,
                "runs": str(totals(state.ledger, list(state.runs.values()))),
                "running now": str(len(state.running)),
                "coordinator": f"process {owner.pid} on {owner.host}" if owner else "none at work",
                "read at": datetime.now().isoformat(" ", timespec="seconds"),
            }
            if state.ledger.damaged:
                attributes["damaged records"] = as_text("; ".join(state.ledger.damaged))
            results = state.ledger.records.values()
            shown = _Shown(
                name=design.study,
                trials=trials,
                objective=objective_name(r.outcome["metrics"] for r in results if r.status == "finished"),
                attributes=attributes,
                records=_records(design, state),
            )
        except UserError as error:
            raise error if isinstance(error, ResultsError) else ResultsError(str(error)) from error
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise ResultsError(f"{self.root}: not readable ({type(error).__name__}: {error})") from error
        self.runs, self.tries = runs, tries
        return shown

    def _build(self, *, trouble: str) -> "WSGIApplication":
        text, version = self.note.written
        if trouble:
            text, version = f"**What is shown here is not up to date.** {markdown(trouble)}\n\n{text}", version + 1
        shown = self.shown
        return build_app(
            shown.name,
            shown.trials,
            objective=shown.objective,
            note=text,
            version=version,
            attributes=shown.attributes,
        )


@dataclass(frozen=True, kw_only=True)
class _Shown:
    """What was read last."""

    name: str
    trials: Sequence[FrozenTrial]
    objective: str
    attributes: Mapping[str, str]
    records: object
    """What the verdicts depend on: equal where nothing was added, changed or planned since."""


def _records(design: Design, state: State) -> object:
    results = [(i, r.outcome["ended"]) for i, r in state.ledger.records.items()]
    tried = [(i, len(a)) for i, a in state.ledger.attempts.items()]
    return sorted(results), sorted(tried), state.ledger.damaged, design


class _Note:
    """The verdicts in Markdown."""

    def __init__(self, root: Path, clock: Callable[[], float]) -> None:
        self.root, self.clock = root, clock
        self.written = ("", 0)
        """the text and its version, which grows by 2: the one between says that the text is outdated"""
        self.records: object = None
        self.not_before = -math.inf
        self.writer: threading.Thread | None = None

    def start(self, records: object) -> None:
        """Write it in a thread, where other records are there than those it was written from."""
        idle = self.writer is None or not self.writer.is_alive()
        if records != self.records and idle and self.clock() >= self.not_before:
            self.writer = threading.Thread(target=self.write, args=(records,), daemon=True)
            self.writer.start()

    def write(self, records: object) -> None:
        """Write it now. What cannot be judged is said in its place."""
        began = self.clock()
        try:
            text = verdict_note(self.root)
        except (FaultsError, KeyError, ValueError, OSError) as error:
            text = f"These records cannot be judged: {markdown(error)}"
        ended = self.clock()
        self.not_before = ended + (ended - began) * (1 / NOTE_SHARE - 1)
        self.written, self.records = (text, self.written[1] + 2), records


def guarded(app: "WSGIApplication", *, port: int) -> "WSGIApplication":
    """The application for readers on this machine: 403 to every method but GET and HEAD, and to every other host.

    The host is what a page's address names. One that names another, and leads here all the same, belongs to somebody
    who has his name server point to this machine (DNS rebinding).
    """
    allowed = {name for host in (ADDRESS, "localhost") for name in (host, f"{host}:{port}")}

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _refuse(start_response, READ_ONLY)
        if environ.get("HTTP_HOST", "").lower() not in allowed:
            return _refuse(start_response, f"this dashboard is at http://{ADDRESS}:{port}/ only")
        path = environ["PATH_INFO"]
        if path == "/" or (path.startswith("/dashboard") and not f"{path}/".startswith(f"{STUDY_PAGES}/")):
            # A list of one study, with buttons that change it: the verdicts are what it is opened for.
            start_response("302 Found", [("Location", NOTE_PAGE), ("Content-Length", "0")])
            return []
        environ.setdefault("HTTP_ACCEPT_ENCODING", "")  # optuna-dashboard takes it for granted
        return app(environ, start_response)

    return answer


def _refuse(start_response: "StartResponse", why: str) -> list[bytes]:
    body = json.dumps({"reason": why}).encode()  # as optuna-dashboard refuses: its page shows the reason
    start_response("403 Forbidden", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


class _Handler(WSGIRequestHandler):
    timeout = 60.0  # seconds that a connection may stay silent

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        TCPServer.server_bind(
            self
        )  # HTTPServer's asks a name server for the name of this address: seconds, for nothing
        self.server_name, self.server_port = ADDRESS, self.server_address[1]
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # a browser that went away is none
            super().handle_error(request, client_address)


@contextmanager
def serving(root: Path, *, port: int) -> Iterator[WSGIServer]:
    """A server for a study's folder, bound to this machine; `serve_forever` serves. Port 0 takes any that is free.

    Raises `ResultsError` where no study was started in the folder, `PortError` where the port cannot be listened on.
    """
    try:
        server = _Server((ADDRESS, port), _Handler)
    except OSError as error:
        what = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be listened on ({error.strerror})"
        raise PortError(f"port {port} {what}; --port takes another, and --port 0 any that is free") from error
    with server:
        server.set_app(guarded(for_readers(Watched(root)), port=server.server_port))
        yield server
