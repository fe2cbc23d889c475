"""Planted faults, each a patch beside this file: the simulations must see every one of them.

Here one in PARTS of them is tried, which ones the sources decide: the same tree tries the same, and
changes bring others in turn. `make mutants` tries all.
"""

import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PARTS = 8
PATCHED = ("raft", "warren/storage", "queues")
pytestmark = [pytest.mark.source, pytest.mark.slow, pytest.mark.timeout(600)]


def chosen() -> list[Path]:
    """Some of the patches."""
    digest = sha256()
    for folder in PATCHED:
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    first = int.from_bytes(digest.digest()[:4], "big") % PARTS
    return sorted(HERE.glob("*.patch"))[first::PARTS]


def test_planted_faults_are_found() -> None:
    patches = chosen()
    assert len(patches) >= 5
    command = [sys.executable, str(ROOT / "tools" / "mutants.py"), *map(str, patches)]
    tried = subprocess.run(command, capture_output=True, text=True)
    assert tried.returncode == 0, tried.stdout + tried.stderr
