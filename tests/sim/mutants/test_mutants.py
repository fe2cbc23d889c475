"""Planted faults, each a patch beside this file: the simulations must see every one of them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
pytestmark = [pytest.mark.source, pytest.mark.slow, pytest.mark.timeout(600)]


def test_every_planted_fault_is_found() -> None:
    command = [sys.executable, str(ROOT / "tools" / "mutants.py")]
    tried = subprocess.run(command, capture_output=True, text=True)
    assert tried.returncode == 0, tried.stdout + tried.stderr
