"""Where the program of the real Toxiproxy is; `warren.testing.toxiproxy` runs it."""

import os
from pathlib import Path

import pytest

from tests.conformance.programs import missing, tools_folder
from warren.testing.toxiproxy import PROGRAM


def server_program() -> str:
    """Path of the server that `make tools` builds; without it the test is skipped, or fails in CI.

    WARREN_NO_TOXIPROXY=1 says that it cannot be built there, which needs Go.
    """
    found: Path = tools_folder() / "bin" / PROGRAM
    if not found.exists():
        if os.environ.get("WARREN_NO_TOXIPROXY") == "1":
            pytest.skip(f"{PROGRAM} could not be built here")
        missing(f"{PROGRAM} is not there (make tools; needs Go)")
    return str(found)
