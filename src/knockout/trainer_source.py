"""The source of a trainer: which files of the user's own it consists of, and their hash. None of them is run.

The source is the module that a study names, the other modules of its package that it imports, and what these import of
the user's own: whatever is neither of the standard library, nor installed, nor Knockout. The built-in trainer is a part
of Knockout, and its VERSION stands for its source: tests hold its numbers to the last bit. Not seen are data files, and
modules whose names are put together while the trainer runs.

Comments, docstrings and layout do not count: what is hashed is the syntax tree.
"""

import ast
import contextlib
import hashlib
import importlib
import importlib.util
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

KNOCKOUT = "knockout"


@dataclass(frozen=True, kw_only=True)
class Source:
    """A trainer's source."""

    sha256: str = ""
    """empty where there is nothing to hash: the built-in trainer, a module that was not found"""
    files: Mapping[str, Path] = field(default_factory=dict)
    """module -> its file"""
    hidden: Mapping[Path, str] = field(default_factory=dict)
    """file beside the trainer that an import does not reach -> where the module of that name is taken from"""


@contextlib.contextmanager
def import_path(folders: Sequence[Path]) -> Iterator[None]:
    """Have imports search these folders too, after all others, until the block ends."""
    added = [str(folder) for folder in folders if str(folder) not in sys.path]
    sys.path.extend(added)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for folder in added:
            with contextlib.suppress(ValueError):  # a trainer may have taken it out
                sys.path.remove(folder)


def import_folders(study: Path) -> tuple[Path, ...]:
    """The folders in which a study's trainer is looked for besides Python's own: the study's, then the current one."""
    return tuple(dict.fromkeys((study.resolve().parent, Path.cwd())))


def trainer_source(trainer: str, folders: Sequence[Path] = ()) -> Source:
    """The source of a trainer ("module:function"), found as an import that also searches `folders` would find it."""
    module = trainer.partition(":")[0]
    top = module.partition(".")[0]
    if top == KNOCKOUT:
        return Source()
    with import_path(folders):
        return _Scan(module, folders).source()


class _Scan:
    """One walk over the imports of a trainer, module by module."""

    def __init__(self, module: str, folders: Sequence[Path]) -> None:
        self.module, self.top = module, module.partition(".")[0]
        self.specs: dict[str, ModuleSpec | None] = {}
        self.files: dict[str, Path] = {}
        self.hidden: dict[Path, str] = {}
        self.folders = folders

    def source(self) -> Source:
        self._look_beside(self.top, self.folders)
        root = self._root()
        todo = [self.module]
        sha = hashlib.sha256()
        texts: dict[str, bytes] = {}
        while todo:
            name = todo.pop()
            for part in _with_parents(name):
                spec = self._spec(part)
                if part in texts or spec is None or not self._own(spec):
                    continue
                texts[part] = b""  # a namespace package has no file
                if spec.origin is None or not spec.has_location:
                    continue
                path = self.files[part] = Path(spec.origin)
                texts[part], imported = _read(path, package=_package(spec))
                for found in imported:
                    if root is not None and "." not in found and found != self.top:
                        self._look_beside(found, [root])
                todo += imported
        if not self.files:
            return Source(hidden=self.hidden)
        for part in sorted(self.files):
            sha.update(f"{part}:{len(texts[part])}:".encode() + texts[part])
        return Source(sha256=sha.hexdigest(), files=self.files, hidden=self.hidden)

    def _root(self) -> Path | None:
        """The folder that the trainer is imported from; `None` where it is not the user's own."""
        spec = self._spec(self.top)
        if spec is None or spec.origin is None or not spec.has_location or _installed(Path(spec.origin)):
            return None
        return Path(spec.origin).parent.parent if spec.submodule_search_locations else Path(spec.origin).parent

    def _spec(self, name: str) -> ModuleSpec | None:
        """Where an import would take a module from, whatever is loaded now."""
        if name not in self.specs:
            self.specs[name] = self._find(name)
        return self.specs[name]

    def _find(self, name: str) -> ModuleSpec | None:
        parent = name.rpartition(".")[0]
        if not parent:
            found = (finder.find_spec(name, None) for finder in sys.meta_path)
            return next((spec for spec in found if spec is not None), None)
        above = self._spec(parent)
        if above is None or above.submodule_search_locations is None or not self._own(above):
            return None
        return PathFinder.find_spec(name, list(above.submodule_search_locations))

    def _own(self, spec: ModuleSpec) -> bool:
        """Whether a module counts: the trainer's package, and what the user has written beside it."""
        top = spec.name.partition(".")[0]
        if top == self.top:
            return True
        if top == KNOCKOUT:
            return False
        if spec.origin is None:
            return not any(_installed(Path(place)) for place in spec.submodule_search_locations or ())
        return spec.has_location and not _installed(Path(spec.origin))

    def _look_beside(self, name: str, folders: Sequence[Path]) -> None:
        """Note a file of the user's that has the name of a module, and is not the one that is imported."""
        places = (f / p for f in folders for p in (f"{name}/__init__.py", f"{name}.py"))
        beside = next((path for path in places if path.is_file()), None)
        spec = self._spec(name)
        if beside is None or spec is None:
            return
        taken = Path(spec.origin) if spec.has_location and spec.origin else None
        if taken is None or not taken.exists() or not taken.samefile(beside):
            self.hidden[beside] = str(taken or "Python itself")


def _with_parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: n + 1]) for n in range(len(parts))]


def _package(spec: ModuleSpec) -> str:
    return spec.name if spec.submodule_search_locations is not None else spec.name.rpartition(".")[0]


def _read(path: Path, *, package: str) -> tuple[bytes, list[str]]:
    """What is hashed of a module, and the names of what it imports. `package`: what relative imports start from."""
    try:
        content = path.read_bytes()
    except OSError:
        return b"", []
    try:
        tree = ast.parse(content)
        return _canonical(tree).encode("utf-8", "surrogatepass"), sorted(_imported(tree, package))
    except (SyntaxError, ValueError, RecursionError):  # an extension module, or what no import can read
        return content, []


def _imported(tree: ast.AST, package: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            try:
                base = importlib.util.resolve_name(relative, package) if node.level else relative
            except ImportError:  # beyond the top of the package
                continue
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names if alias.name != "*")}
    return names


def _canonical(node: object) -> str:
    """A syntax tree as text, without places, docstrings, and the empty fields that differ between Python versions."""
    if isinstance(node, list):
        return "[" + ",".join(map(_canonical, node)) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = dict(ast.iter_fields(node))
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and _documented(node):
        fields["body"] = node.body[1:]
    if isinstance(node, ast.Constant):  # whose value may be None
        return f"Constant({node.value!r})"
    stated = [f"{name}={_canonical(value)}" for name, value in fields.items() if value is not None and value != []]
    return f"{type(node).__name__}({','.join(stated)})"


def _documented(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    first = node.body[0] if node.body else None
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)


def _installed(path: Path) -> bool:
    """Whether a file is of the standard library or of an installed package."""
    if {"site-packages", "dist-packages"} & set(path.parts):
        return True
    resolved = path.resolve()
    return any(resolved.is_relative_to(folder) for folder in _libraries())


@cache
def _libraries() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    named = [paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    return tuple(Path(folder).resolve() for folder in (*named, site.getusersitepackages()))
