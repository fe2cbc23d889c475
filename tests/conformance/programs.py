"""Outside programs that some tests drive."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest


def program(command: str, package: str) -> str:
    """Path of an outside program; without it the test is skipped, or fails in CI."""
    found = shutil.which(command)
    if found is None:
        missing(f"{command} is not installed (Debian: {package})")
    return found


def missing(what: str) -> NoReturn:
    """Skip, unless this is CI, where everything must be there."""
    if os.environ.get("WARREN_CI") == "1":
        pytest.fail(what)
    pytest.skip(what)


def output(command: list[str], seconds: float = 60) -> str:
    """What the program prints; it must end well, within that time."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tools_folder() -> Path:
    """Where `.ci/run` puts what npm and Maven fetch."""
    default = Path(__file__).resolve().parent.parent.parent / ".tools"
    return Path(os.environ.get("WARREN_TOOLS") or default)


def node_js(*packages: str) -> str:
    """Path of Node.js; the tools folder has these packages of npm."""
    node = program("node", "nodejs")
    for package in packages:
        if not (tools_folder() / "node_modules" / package).is_dir():
            missing(f"{package} is not there: npm install --prefix {tools_folder().name} {package}")
    return node
