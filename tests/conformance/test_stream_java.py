"""RabbitMQ's Java client for streams: one session does the usual things and reports them."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.programs import missing, program, tools_folder
from tests.conformance.test_stream_protocol import StreamNode

SOURCE: Final = Path(__file__).resolve().parent / "streams_java" / "StreamSession.java"
SECONDS: Final = 180


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    jars = tools_folder() / "streams_java"
    java = program("java", "default-jre-headless")
    javac = program("javac", "default-jdk-headless")
    if not list(jars.glob("stream-client-*.jar")):
        missing(f"com.rabbitmq:stream-client is not in {jars}: .ci/run fetches it with Maven")
    path = f"{jars}/*:{tmp_path_factory.mktemp('streams')}"
    folder = path.rpartition(":")[2]
    command = [javac, "-nowarn", "-cp", path, "-d", folder, str(SOURCE)]
    subprocess.run(command, check=True, timeout=SECONDS)
    light = ["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    with StreamNode() as node:
        command = [java, *light, "-cp", path, "StreamSession", node.host, str(node.stream_port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        yield dict(line.split(" ", 1) for line in done.stdout.splitlines())


EXPECTED: Final = {
    "read": "true,0",
    "stats": "0,true",
    "last-id-0": "0",
    "last-id-1": "9",
    "appended": "10",
    "filtered": "true",
    "tracked-0": "0",
    "tracked-1": "100",
    "active": "3000,0",
    "next": "true,3000",
    "shared": "true",
    "partitions": "3",
    "deleted": "true",
    "exists": "true,false",
    "missing": "StreamDoesNotExistException",
    "closed": "true",
}


@pytest.mark.parametrize("step", EXPECTED)
@pytest.mark.timeout(2 * SECONDS)
def test_the_java_client_sees_what_rabbitmq_would_show(report: dict[str, str], step: str) -> None:
    assert report.get(step) == EXPECTED[step]
