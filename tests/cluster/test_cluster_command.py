"""`warren cluster N` as a developer uses it: ready lines, data that is kept, Ctrl-C."""

import signal
import subprocess
import sys
from pathlib import Path

import pika

from warren.testing import free_port
from warren.testing.node import PACKAGES_DIR

SECONDS = 60


def begun(folder: Path, port: int) -> subprocess.Popen[str]:
    """The command for one node, when its ready line has come."""
    command = [sys.executable, "-P", "-m", "node", "cluster", "1"]
    command += ["--data", str(folder), "--base-port", str(port)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={"PYTHONPATH": str(PACKAGES_DIR), "PATH": "/usr/bin:/bin"},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith(f"ready node=n1 amqp=127.0.0.1:{port} "), line
    return process


def ended(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=SECONDS)
    return process.returncode


def test_a_cluster_goes_on_with_its_data_after_ctrl_c(tmp_path: Path) -> None:
    port = free_port()
    process = begun(tmp_path, port)
    try:
        parameters = pika.URLParameters(f"amqp://guest:guest@127.0.0.1:{port}/%2F")
        with pika.BlockingConnection(parameters) as connection:
            connection.channel().queue_declare("kept", durable=True)
    finally:
        assert ended(process) == 0
    process = begun(tmp_path, port)
    try:
        with pika.BlockingConnection(parameters) as connection:
            connection.channel().queue_declare("kept", passive=True)
    finally:
        assert ended(process) == 0
    assert (tmp_path / "n1.log").exists()
