"""Pictures of the web page for the documentation, taken from a real node or cluster.

    tools/screenshots.py [--to docs/page] [--nodes 3]

Starts the nodes, puts queues, clients and messages there, and takes a picture of each view with the
system's Chromium (playwright; Debian: chromium). Names, users and counts are made up. A picture is
at most PICTURE_BYTES_MAX long: a larger one is an error, for the documentation is part of the
sources. Exit code 1 if something is missing.
"""

import argparse
import base64
import json
import shutil
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

import pika
from playwright.sync_api import ViewportSize, sync_playwright

from warren.testing.cluster import ClusterOfNodes

ROOT: Final = Path(__file__).resolve().parent.parent
SIZE: Final = ViewportSize(width=1280, height=800)
PICTURE_BYTES_MAX: Final = 120_000
LOGIN: Final = base64.b64encode(b"guest:guest").decode()
VIEWS: Final = {
    "overview": ("#/", "Message rates"),
    "queues": ("#/queues", "Queues"),
    "queue": ("#/queues/%2F/orders", "Message rates"),
    "letters": ("#/queues/%2F/orders.dead/letters", "Send back"),
    "node": ("#/nodes/n1", "Memory used"),
    "cluster": ("#/cluster", "Which node leads which queue"),
    "admin": ("#/admin/policies", "Policies"),
}
STILL: Final = ("letters", "cluster", "admin")  # views without rates
ACTIVE_S: Final = 30.0  # of messages before the first picture
LOOKS_S: Final = 13.0  # until rates of what was first listed are known


class Load:
    """Clients that publish and consume at a gentle pace, each in a thread of its own."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._stop = threading.Event()
        jobs = [(self._publish, urls[0]), (self._consume, urls[1 % len(urls)])]
        self._threads = [threading.Thread(target=job, args=(url,)) for job, url in jobs]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _publish(self, url: str) -> None:
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            number = 0
            while not self._stop.wait(0.004):
                number += 1
                channel.basic_publish("shop", "order.new", b"order %d" % number)
                if number % 3 == 0:
                    channel.basic_publish("", "invoices", b"invoice %d" % number)

    def _consume(self, url: str) -> None:
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=20)
            for found in channel.consume("orders", inactivity_timeout=0.2):
                if self._stop.is_set():
                    return
                if found[0] is not None:
                    channel.basic_ack(found[0].delivery_tag)


def put(base: str, path: str, body: object) -> None:
    """Set something by the HTTP API."""
    headers = {"Authorization": f"Basic {LOGIN}", "Content-Type": "application/json"}
    data = json.dumps(body).encode()
    urlopen(Request(f"{base}/api/{path}", data, headers, method="PUT"), timeout=20).close()


def set_policies(base: str) -> None:
    limits = {"max-length": 1_000_000, "overflow": "reject-publish"}
    body = {"pattern": "^orders", "apply-to": "queues", "priority": 1, "definition": limits}
    put(base, "policies/%2F/orders", body)
    body = {"pattern": ".*", "apply-to": "queues", "definition": {"message-ttl": 86_400_000}}
    put(base, "operator-policies/%2F/a-day", body)
    put(base, "cluster-name", {"name": "shop"})


def prepare(url: str) -> None:
    """Queues of each kind, and a few dead letters."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.exchange_declare("shop", "topic", durable=True)
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.dead"}
        for name in ("orders", "payments", "mail"):
            arguments = {"x-queue-type": "quorum", **dead}
            channel.queue_declare(name, durable=True, arguments=arguments)
        channel.queue_declare("invoices", durable=True, arguments={"x-max-length": 100_000})
        channel.queue_declare("orders.dead", durable=True)
        channel.queue_bind("orders", "shop", "order.*")
        for number in range(3):
            channel.basic_publish("", "payments", b'{"payment": %d}' % number)
        for method, _, _ in channel.consume("payments", inactivity_timeout=2):
            if method is None:
                break
            channel.basic_reject(method.delivery_tag, requeue=False)
            if method.delivery_tag == 3:
                break


def photograph(tab: Any, base: str, folder: Path) -> list[str]:
    """A picture of each view; what is too large."""
    too_large = []
    for where in ("#/queues", "#/"):
        tab.goto(base + where)
    tab.get_by_role("heading", name="Message rates").wait_for()
    tab.wait_for_timeout(ACTIVE_S * 1000)
    for name, (where, heading) in VIEWS.items():
        tab.evaluate("where => { location.hash = where; }", where)
        tab.get_by_text(heading, exact=True).first.wait_for()
        tab.wait_for_timeout(1000 if name in STILL else LOOKS_S * 1000)
        path = folder / f"{name}.png"
        tab.screenshot(path=str(path))
        if path.stat().st_size > PICTURE_BYTES_MAX:
            too_large.append(f"{path}: {path.stat().st_size} bytes")
    return too_large


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "page")
    parser.add_argument("--nodes", type=int, default=3)
    options = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        print("screenshots: chromium is not installed", file=sys.stderr)
        return 1
    options.to.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        cluster = stack.enter_context(ClusterOfNodes(options.nodes))
        urls = [node.url for node in cluster.nodes]
        prepare(urls[0])
        set_policies(cluster.nodes[0].management_url)
        stack.enter_context(Load(urls))
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        stack.callback(browser.close)
        tab = browser.new_page(viewport=SIZE, reduced_motion="reduce")
        tab.add_init_script(f"sessionStorage.setItem('warren.login', '{LOGIN}')")
        too_large = photograph(tab, f"{cluster.nodes[0].management_url}/", options.to)
    for line in too_large:
        print(f"screenshots: too large: {line}", file=sys.stderr)
    return 1 if too_large else 0


if __name__ == "__main__":
    sys.exit(main())
