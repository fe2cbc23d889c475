"""Patches of planted faults fit the sources; `make mutants` shows that tests find the faults."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATCHES = sorted((ROOT / "tests" / "sim" / "mutants").glob("*.patch"))
pytestmark = pytest.mark.source


@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: str(path.stem))
def test_a_planted_fault_applies(patch: Path) -> None:
    command = ["git", "apply", "--check", "-C1", "--recount", str(patch)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"stale: {done.stderr}"
