"""The pytest plugin keeps the logs of clusters whose test has failed."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from warren.testing import ClusterOfNodes
from warren.testing.plugin import pytest_runtest_makereport


def reported(cluster: ClusterOfNodes, failed: bool) -> list[tuple[str, str]]:
    """The sections of a report about a test that had this cluster."""
    report: Any = SimpleNamespace(failed=failed, sections=[])
    item: Any = SimpleNamespace(funcargs={"cluster": cluster, "other": 1})
    wrapper: Any = pytest_runtest_makereport(item, SimpleNamespace())  # type: ignore[arg-type]
    next(wrapper)
    try:
        wrapper.send(report)
    except StopIteration as stop:
        assert stop.value is report
    sections: list[tuple[str, str]] = report.sections
    return sections


def test_the_report_of_a_failed_test_names_a_folder_with_the_logs() -> None:
    cluster = ClusterOfNodes(2)
    cluster.node(2).log_path.write_text("what went wrong\n")
    try:
        ((_, kept),) = reported(cluster, failed=True)
    finally:
        cluster.close()
    assert (Path(kept) / "n2.log").read_text() == "what went wrong\n"
    shutil.rmtree(kept)


def test_the_report_of_a_test_that_passed_names_none() -> None:
    cluster = ClusterOfNodes(2)
    try:
        assert reported(cluster, failed=False) == []
        assert cluster.logs_kept is None
    finally:
        cluster.close()
