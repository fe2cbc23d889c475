"""Qpid JMS, the client that applications use: browsers, transacted sessions, subscriptions."""

import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conformance.broker import Broker, drain
from tests.conformance.programs import missing, program, tools_folder

SOURCE: Final = Path(__file__).resolve().parent / "jms" / "Session10.java"
QUORUM: Final = {"x-queue-type": "quorum"}


@pytest.fixture(scope="module")
def classpath(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of the compiled program and the client."""
    jars = tools_folder() / "jms"
    javac = program("javac", "default-jdk-headless")
    if not list(jars.glob("qpid-jms-client-*.jar")):
        missing(f"Qpid JMS is not in {jars}: .ci/run fetches it with Maven")
    folder = tmp_path_factory.mktemp("jms")
    path = f"{jars}/*:{folder}"
    command = [javac, "-nowarn", "-cp", path, "-d", str(folder), str(SOURCE)]
    subprocess.run(command, check=True, timeout=60)
    return path


@pytest.mark.parametrize("arguments", [{}, QUORUM], ids=["classic", "quorum"])
def test_jms_application_browses_commits_and_rolls_back(
    own_broker: Broker, channel: Any, name: str, classpath: str, arguments: Any
) -> None:
    other = f"{name}-other"
    for queue in (name, other):
        channel.queue_declare(queue, durable=True, arguments=arguments)
    command = [program("java", "default-jre-headless"), "-cp", classpath, "Session10"]
    done = subprocess.run(
        [*command, own_broker.host, str(own_broker.port), name],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        "browsed=150,m0,m149",
        f"rolled=m0,m0,{str(bool(arguments)).lower()}",  # Classic queues count no deliveries.
        "browsed=51,m100,committed",
        "moved=none,m100",
        "browsed=50,m101,committed",
        "subscribed=kept,both,both",
        "unsubscribed=none",
        "urgent=s0,s6",
        "between=s1,s11",
        "correlated=s4,s5",
        "none=",
        # Quorum queues have two priorities.
        "rest=s3,s9,s2,s7,s8,s10" if arguments else "rest=s2,s3,s7,s8,s9,s10",
    ]
    assert len(drain(channel, name)) == 50
    channel.queue_delete(other)
