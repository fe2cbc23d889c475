"""What all tests share: the node fixtures, the marks, and which packages are under test.

`WARREN_INSTALLED=1` says that the installed packages are under test and the sources are not to
be found; `WARREN_CI=1` that every outside program must be there.
"""

import gc
import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

import warren

pytest_plugins = ["warren.testing.plugin"]

INSTALLED: Final = os.environ.get("WARREN_INSTALLED") == "1"
PACKAGE: Final = Path(warren.__file__ or "").resolve().parent
# They import `deploy`, `bench` and `tools`.
WITH_SOURCES: Final = [
    f"unit/test_{name}.py" for name in ("compose_target", "bench_turns", "environment")
]
collect_ignore = WITH_SOURCES if INSTALLED else []
MARKS: Final = (
    "slow: takes more than 5 seconds",
    "source: needs the source tree; left out when the installed packages are tested",
    "installed: needs the installed packages; left out when the sources are tested",
)

# How long an example takes says more of the machine than of what is tested.
settings.register_profile("warren", deadline=None)
settings.load_profile("warren")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks, and refuse to test other packages than those asked for."""
    for mark in MARKS:
        config.addinivalue_line("markers", mark)
    beside_tests = PACKAGE.parent == Path(__file__).resolve().parent.parent
    if INSTALLED and (beside_tests or "site-packages" not in PACKAGE.parts):
        raise pytest.UsageError(f"WARREN_INSTALLED=1, but warren was found at {PACKAGE}")


def pytest_collection_finish() -> None:
    """What the tests themselves are made of stays: collections of garbage need not look at it.

    A worker holds more than a million objects of thousands of tests, a fifth of a second each time.
    """
    gc.collect()
    gc.freeze()


def pytest_report_header() -> str:
    """Which build is tested, and from where."""
    compiled = any(PACKAGE.rglob("*.so"))
    return f"warren: {'compiled' if compiled else 'pure'}, {PACKAGE}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is for the other kind of environment."""
    absent = "source" if INSTALLED else "installed"
    config.hook.pytest_deselected(items=[i for i in items if i.get_closest_marker(absent)])
    items[:] = [item for item in items if not item.get_closest_marker(absent)]
