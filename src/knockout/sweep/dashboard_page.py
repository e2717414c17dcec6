"""The dashboard's page for readers: a style sheet and a script of Knockout's are added to optuna-dashboard's page.

They name the trials by variant and seed, hide what cannot be used or looks like a verdict, and show why a change was
refused. The page's policy allows scripts of this address only, and so does not change.
"""

from collections.abc import Callable, Iterable
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

FILES: Final = {
    "/knockout/dashboard.css": ("dashboard.css", "text/css; charset=UTF-8"),
    "/knockout/dashboard.js": ("dashboard.js", "text/javascript; charset=UTF-8"),
}
HEAD: Final = b'<link rel="stylesheet" href="/knockout/dashboard.css"><script src="/knockout/dashboard.js"></script>'
BUNDLE: Final = "/static/bundle.js"
NUMBERED: Final = (b"name:`trial #${e.number} ", b"name:`${window.knockoutRun(e.number)} ")
"""The names of the learning curves: in optuna-dashboard's script, and as it is sent."""
_CONDITIONS: Final = ("HTTP_IF_MODIFIED_SINCE", "HTTP_IF_NONE_MATCH", "HTTP_RANGE")
_OF_THE_FILE: Final = ("content-length", "etag", "last-modified", "accept-ranges")


def for_readers(app: "WSGIApplication") -> "WSGIApplication":
    """The application with Knockout's style sheet and script in each of its pages."""
    contents = {path: (files(__package__) / name).read_bytes() for path, (name, _) in FILES.items()}

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path in contents:
            return _send(environ, start_response, "200 OK", [("Content-Type", FILES[path][1])], contents[path])
        if path != BUNDLE and not path.startswith("/dashboard"):
            return app(environ, start_response)
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def start(status: str, headers: list[tuple[str, str]], _exc_info: object = None) -> Callable[[bytes], object]:
            started.append((status, headers))
            return lambda _data: None

        whole = {key: value for key, value in environ.items() if key not in _CONDITIONS}
        found = app({**whole, "REQUEST_METHOD": "GET", "HTTP_ACCEPT_ENCODING": ""}, start)
        try:
            body = b"".join(found)
        finally:
            if hasattr(found, "close"):
                found.close()
        status, headers = started[-1]
        kept = [(name, value) for name, value in headers if name.lower() not in _OF_THE_FILE]
        # The script comes before the page's own: it must be there when the page asks for the study.
        changed = body.replace(*NUMBERED) if path == BUNDLE else body.replace(b"<script", HEAD + b"<script", 1)
        return _send(environ, start_response, status, kept, changed)

    return answer


def _send(
    environ: "WSGIEnvironment",
    start_response: "StartResponse",
    status: str,
    headers: list[tuple[str, str]],
    body: bytes,
) -> list[bytes]:
    start_response(status, [*headers, ("Content-Length", str(len(body))), ("Cache-Control", "no-cache")])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]
