"""The files for Prometheus: which nodes are scraped, and what the alert rules say in given cases.

promtool comes with Prometheus (Debian: `prometheus`); where it is not installed, its tests are
skipped.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.source

ROOT: Final = Path(__file__).resolve().parent.parent.parent
MONITORING: Final = ROOT / "deploy" / "monitoring"


def promtool(*arguments: str) -> None:
    """Run it; what it says is the reason of a failure."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed")
    command = [program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("count", [3, 5, 7])
def test_a_cluster_is_scraped_whole_and_nothing_that_is_not_there(count: int) -> None:
    text = (MONITORING / f"nodes-{count}.yml").read_text()
    nodes = [f"node{number}:15692" for number in range(1, count + 1)]
    assert re.findall(r"^    - (.*)$", text, re.MULTILINE) == nodes
    compose = (ROOT / "docker-compose.yml").read_text()
    assert "deploy/monitoring/nodes-${WARREN_NODES:-3}.yml:/etc/prometheus/nodes.yml:" in compose
    assert "export WARREN_NODES=$N" in (ROOT / "deploy" / "compose.sh").read_text()


def test_each_rule_has_a_case_in_which_it_is_raised_and_one_in_which_it_is_not() -> None:
    rules = re.findall(r"- alert: (\w+)", (MONITORING / "alerts.yml").read_text())
    text = (MONITORING / "alerts_test.yml").read_text()
    raised = re.findall(r"alertname: (\w+)\n +exp_alerts:\n +- exp_labels", text)
    assert sorted(set(raised)) == sorted(rules)
    quiet = re.findall(r"alertname: (\w+), exp_alerts: \[\]", text)
    assert set(quiet) <= set(rules)
    beside = {"WarrenElections"}  # A series that is well, in the same case.
    assert set(rules) - set(quiet) == beside


@pytest.mark.parametrize("count", [3, 7])
def test_promtool_takes_the_configuration_and_the_rules(tmp_path: Path, count: int) -> None:
    for name in ("prometheus.yml", "alerts.yml"):
        shutil.copy(MONITORING / name, tmp_path / name)
    shutil.copy(MONITORING / f"nodes-{count}.yml", tmp_path / "nodes.yml")
    promtool("check", "config", str(tmp_path / "prometheus.yml"))


def test_alerts_are_raised_when_they_should_be_and_not_before() -> None:
    promtool("test", "rules", str(MONITORING / "alerts_test.yml"))
