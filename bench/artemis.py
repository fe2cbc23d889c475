"""A broker of Apache ActiveMQ Artemis to compare with, on a loopback port and fresh data.

Needs Java and the unzipped binary distribution (Maven: org.apache.activemq:apache-artemis, type
zip, classifier bin). Its journal is that of NIO with `fdatasync`, and its heap has 1 GiB.
"""

import re
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Final

PORT: Final = 5960
START_SECONDS: Final = 90.0
CREATE: Final = (
    *("--user", "guest", "--password", "guest", "--allow-anonymous", "--silent"),
    *("--no-autotune", "--no-web", "--nio", "--host", "127.0.0.1"),
    *(f"--no-{name}-acceptor" for name in ("amqp", "hornetq", "mqtt", "stomp")),
)


class Artemis:
    """`max_bytes`: size of an address in memory; beyond it pages. Credits are 100 and 30."""

    def __init__(self, home: Path, folder: Path, max_bytes: int, queue: str) -> None:
        self.name = "artemis"
        self.port = PORT
        self.version = home.name.removeprefix("apache-artemis-")
        self._home = home
        self._folder = folder / "artemis"
        self._max_bytes = max_bytes
        self._queue = queue  # an anycast one: Artemis itself would make a topic
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start on empty data; seconds until connections are accepted."""
        shutil.rmtree(self._folder, ignore_errors=True)
        command = [str(self._home / "bin/artemis"), "create", str(self._folder), *CREATE]
        java = ["--java-options", "-Xmx1g"]
        subprocess.run([*command, *java], check=True, stdout=subprocess.DEVNULL, timeout=90)
        self._configure(self._folder / "etc/broker.xml")
        begun = time.monotonic()
        with (self._folder / "run.log").open("wb") as log:
            run = [str(self._folder / "bin/artemis"), "run"]
            self._process = subprocess.Popen(run, stdout=log, stderr=log)
        while not self._accepts():
            if self._process.poll() is not None or time.monotonic() > begun + START_SECONDS:
                raise SystemExit(f"Artemis did not start; see {self._folder / 'run.log'}")
            time.sleep(0.1)
        return time.monotonic() - begun

    def _configure(self, path: Path) -> None:
        """One acceptor of AMQP, a size of each address, the queue, and nearly all of the disk."""
        text = path.read_text()
        url = f"tcp://127.0.0.1:{self.port}?protocols=AMQP;amqpCredits=100;amqpLowCredits=30"
        text = re.sub(
            '(<acceptor name="artemis">)[^<]*',
            lambda found: found[1] + url,
            text,
        )
        queue = f'<anycast><queue name="{self._queue}"/></anycast>'
        queue = f'<addresses><address name="{self._queue}">{queue}</address>'
        text = text.replace("<addresses>", queue)
        size = f"<max-size-bytes>{self._max_bytes}</max-size-bytes>"
        text = text.replace("<max-size-bytes>-1</max-size-bytes>", size)
        # Or it blocks producers on a disk that others have filled, and then loses its client.
        path.write_text(re.sub("(<max-disk-usage>)[0-9]+", r"\g<1>99", text))

    def _accepts(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(60)
