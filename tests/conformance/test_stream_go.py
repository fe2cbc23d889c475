"""RabbitMQ's Go client for streams: one session does the usual things and reports them."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.programs import program
from tests.conformance.test_stream_protocol import StreamNode

SOURCES: Final = Path(__file__).resolve().parent / "streams_go"
SECONDS: Final = 180
EXPECTED: Final = [
    "confirmed 2000",
    "first 0",
    "offset 1500",
    "stats 0",
    "exists true false",
    "closed",
]


@pytest.mark.timeout(2 * SECONDS)
def test_the_go_client_sees_what_rabbitmq_would_show(tmp_path: Path) -> None:
    if os.environ.get("WARREN_NO_TOXIPROXY"):
        pytest.skip("Go is not there: Toxiproxy is built by it too")
    go = program("go", "golang")
    shutil.copytree(SOURCES, tmp_path / "program")
    built = subprocess.run(
        [go, "build", "-mod=mod", "-o", "streams", "."],
        cwd=tmp_path / "program",
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    with StreamNode() as node:
        done = subprocess.run(
            [str(tmp_path / "program" / "streams"), str(node.stream_port)],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = [line for line in done.stdout.splitlines() if line.split(" ")[0] in WORDS]
    assert shown == EXPECTED


WORDS: Final = {line.split(" ")[0] for line in EXPECTED}
