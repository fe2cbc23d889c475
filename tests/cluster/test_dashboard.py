"""The dashboard and the alert rules, asked of a real Prometheus that scrapes a real cluster.

Needs the program `prometheus` (Debian: `prometheus`); where it is not installed, all is skipped.
Grafana itself is not needed: what it would do is put the panel's words in place of its variables,
ask, and take the legend from the labels of the answer.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import urlopen

import pika
import pytest

from tests.waiting import eventually
from warren.testing import ClusterOfNodes
from warren.testing.node import free_ports

pytestmark = pytest.mark.source

MONITORING: Final = Path(__file__).resolve().parent.parent.parent / "deploy" / "monitoring"
NAME: Final = re.compile(r"\b(?:rabbitmq|warren)_[a-z0-9_]+")
LEGEND: Final = re.compile(r"{{(\w+)}}")
NODES: Final = 2
SCRAPES: Final = 3  # before anything is asked: a rate needs two
# No publisher is blocked here, and a family without events has no rows.
NEVER_HERE: Final = frozenset({"warren_flow_blocked_seconds_total"})


class Prometheus:
    """A server with the configuration of deploy/monitoring, which scrapes every second."""

    def __init__(self, folder: Path, targets: list[int], port: int) -> None:
        program = shutil.which("prometheus")
        if program is None:
            pytest.skip("prometheus is not installed")
        config = (MONITORING / "prometheus.yml").read_text()
        (folder / "prometheus.yml").write_text(config.replace("15s", "1s"))
        shutil.copy(MONITORING / "alerts.yml", folder / "alerts.yml")
        nodes = "".join(f"    - 127.0.0.1:{each}\n" for each in targets)
        (folder / "nodes.yml").write_text(f"- targets:\n{nodes}")
        self._url = f"http://127.0.0.1:{port}/api/v1"
        self._log = (folder / "log").open("wb")
        command = [
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'series'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def close(self) -> None:
        self._process.kill()
        self._process.wait(10)
        self._log.close()

    def ask(self, path: str) -> Any:
        """What the API answers to that; the words of its error if that is what it is."""
        try:
            with urlopen(f"{self._url}/{path}", timeout=20) as answer:
                return json.load(answer)["data"]
        except HTTPError as error:
            with error:
                return error.read().decode()

    def query(self, expression: str) -> Any:
        """Rows of the answer, or the words of an error."""
        found = self.ask(f"query?query={quote(expression)}")
        return found["result"] if isinstance(found, dict) else found

    def has_scraped(self) -> bool:
        """Whether all nodes were scraped some times, by both jobs."""
        try:
            rows = self.query("sum_over_time(up[1m])")
        except (URLError, HTTPException, ConnectionError):
            return False
        counts = [float(row["value"][1]) for row in rows if isinstance(row, dict)]
        return len(counts) == 2 * NODES and min(counts) >= SCRAPES


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It has scraped two nodes that have quorum and classic queues, and some work."""
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed")
    port, *metrics = free_ports(1 + NODES)
    own = {n: {"listeners.metrics": f"127.0.0.1:{port}"} for n, port in enumerate(metrics, 1)}
    with ClusterOfNodes(NODES, node_settings=own) as cluster:
        for node in cluster.nodes:
            work(node.url, node.name)
        running = Prometheus(tmp_path_factory.mktemp("prometheus"), metrics, port)
        try:
            eventually(running.has_scraped, lambda: running.ask("targets"), seconds=60)
            yield running
        finally:
            running.close()


def work(url: str, name: str) -> None:
    """A queue of each type on that node, and a message that is given back and then taken."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    for kind in ("classic", "quorum"):
        queue = f"{name}-{kind}"
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
        channel.basic_publish("", queue, b"x", pika.BasicProperties(delivery_mode=2))
        channel.basic_publish("", queue, b"y", pika.BasicProperties(delivery_mode=2))
        method, _, _ = channel.basic_get(queue)
        channel.basic_nack(method.delivery_tag, requeue=True)
    connection.close()


def panels() -> list[Any]:
    dashboard = json.loads((MONITORING / "grafana/dashboards/warren.json").read_text())
    return [panel for panel in dashboard["panels"] if panel.get("targets")]


def as_grafana_asks(expression: str) -> str:
    """With all nodes chosen, and a step of some scrapes."""
    return expression.replace("$node", ".+").replace("$__rate_interval", "30s")


def test_every_query_of_every_panel_is_answered_with_rows_that_have_the_labels_of_its_legend(
    prometheus: Prometheus,
) -> None:
    asked = 0
    for panel in panels():
        for target in panel["targets"]:
            expression = as_grafana_asks(target["expr"])
            assert "$" not in expression
            rows = prometheus.query(expression)
            assert isinstance(rows, list), f"{panel['title']}: {expression}: {rows}"
            asked += 1
            if NEVER_HERE.intersection(NAME.findall(expression)):
                continue
            assert rows, f"{panel['title']}: nothing is answered to {expression}"
            for label in LEGEND.findall(target["legendFormat"]):
                assert all(row["metric"].get(label) for row in rows), (expression, label)
    assert asked > 40


def test_the_nodes_that_can_be_chosen_are_those_that_are_scraped(prometheus: Prometheus) -> None:
    dashboard = json.loads((MONITORING / "grafana/dashboards/warren.json").read_text())
    (variable,) = dashboard["templating"]["list"]
    found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
    assert found is not None
    values = prometheus.ask(f"label/{found[2]}/values?match[]={quote(found[1])}")
    assert len(values) == NODES


def test_every_metric_of_a_rule_is_there_and_every_rule_can_be_judged(
    prometheus: Prometheus,
) -> None:
    known = set(prometheus.ask("label/__name__/values")) | NEVER_HERE

    def judged() -> list[Any]:
        groups = prometheus.ask("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return [] if any(rule["health"] == "unknown" for rule in rules) else rules

    rules = eventually(judged, lambda: prometheus.ask("rules"))
    assert len(rules) > 20
    for rule in rules:
        assert rule["health"] == "ok", (rule["name"], rule.get("lastError"))
        assert set(NAME.findall(rule["query"])) <= known, rule["query"]
        raised = [alert["labels"] for alert in rule["alerts"] if alert["state"] == "firing"]
        assert not raised, rule["name"]  # A cluster that is well raises none.
