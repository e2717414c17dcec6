"""The command `knockout`, called in the process of the test: a process of its own spends two seconds on imports."""

import contextlib
import io
import subprocess
import sys
from pathlib import Path

import pytest

from knockout.cli import main


def knockout(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Exit code, standard output and standard error of `knockout *arguments` in a folder, with environment variables.

    Workers are processes as ever. `pytest` ends a call that hangs (`faulthandler_timeout` in pyproject.toml).
    """
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        patch.chdir(cwd)
        patch.setattr(sys, "argv", ["knockout", *arguments])
        for name, value in variables.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main()
    code = ended.value.code or 0
    assert isinstance(code, int), code
    return subprocess.CompletedProcess(sys.argv, code, stdout.getvalue(), stderr.getvalue())
