"""RabbitMQ's Java client: one session does the usual things and reports them."""

from pathlib import Path
from typing import Final

import pytest

from tests.conformance.broker import Broker
from tests.conformance.programs import missing, output, program, tools_folder

SOURCE: Final = Path(__file__).resolve().parent / "java" / "Session.java"
QUEUE: Final = "java-session"


def classpath() -> str:
    """The client and what it logs with, as `.ci/run` fetches them with Maven."""
    jars = sorted((tools_folder() / "java").glob("*.jar"))
    if not any(jar.name.startswith("amqp-client-") for jar in jars):
        missing(f"com.rabbitmq:amqp-client is not in {tools_folder().name}/java: see .ci/run")
    return ":".join(str(jar) for jar in jars)


@pytest.fixture(scope="module")
def report(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    java = program("java", "default-jre-headless")
    javac = program("javac", "default-jdk-headless")
    jars = classpath()
    classes = tmp_path_factory.mktemp("java")
    output([javac, "-cp", jars, "-d", str(classes), str(SOURCE)])
    light = ["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    shown = output([java, *light, "-cp", f"{jars}:{classes}", "Session", broker.url(), QUEUE])
    lines = [line.split(" ", 1) for line in shown.splitlines()]
    return {line[0]: line[1] for line in lines if len(line) == 2}


EXPECTED: Final = {
    "single-is-multiple": "false",
    "confirmed": "500",
    "in-order": "true",
    "shared": "true",
    "redelivered": "true",
    "empty": "true",
    "committed": "done",
    "rolled-back": "true",
    "returned": "312 NO_ROUTE",
    "cancelled": "true",
    "open": "true",
    "missing": "404",
    "default-exchange": "403",
    "still-open": "true",
    "closed": "true",
}


@pytest.mark.parametrize("step", EXPECTED)
def test_the_java_client_sees_what_rabbitmq_would_show(report: dict[str, str], step: str) -> None:
    assert report.get(step) == EXPECTED[step]
