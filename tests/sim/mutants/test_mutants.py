"""Planted faults, each a patch beside this file: the simulations must see every one of them.

Here one in PARTS of them is tried, which ones the sources decide: the same tree tries the same, and
changes bring others in turn. `make mutants` tries all.
"""

import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PARTS = 8
DIES_IN = re.compile(r"^Dies in: ([^:\n]+)(?:::(\w+).*)?$", re.MULTILINE)
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


def test_each_patch_names_a_test_that_there_is() -> None:
    """One that was renamed would be missed only on the day on which the patch is chosen."""
    unknown = []
    for path in sorted(HERE.glob("*.patch")):
        found = DIES_IN.search(path.read_text())
        assert found is not None, path.name
        file, test = found.groups()
        if not (ROOT / file).exists() or (test and f"def {test}(" not in (ROOT / file).read_text()):
            unknown.append(path.name)
    assert unknown == []
