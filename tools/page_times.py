"""How long the web page takes until it can be used, on a cluster with many queues.

    tools/page_times.py [--queues 10000] [--limit SECONDS]

A cluster of three nodes of this environment, and Chromium (`chromium` in the path; playwright). A
view is opened in a new tab several times, until it shows what it was opened for; printed is the
median. Exit code 1: one took longer than the limit.
"""

import argparse
import base64
import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from warren.testing import ClusterOfNodes  # noqa: E402

LIMIT_S: Final = 1.0
TIMES: Final = 5
IMPORT_S: Final = 120.0
BATCH: Final = 1000  # queues of one import
SIZES: Final = {"wide": (1440, 900), "phone": (390, 844)}
VIEWS: Final = {  # and what each of them is opened for
    "#/": "svg",
    "#/queues": "tbody tr:nth-child(20)",
    "#/queues?sort=messages&reverse=yes": "tbody tr:nth-child(20)",
    "#/queues?name=queue-0999": "tbody tr:nth-child(10)",
    "#/exchanges": "tbody tr:nth-child(5)",
    "#/cluster": "tbody tr:nth-child(3)",
}
LOGIN: Final = base64.b64encode(b"guest:guest").decode()


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--queues", type=int, default=10_000, help="default: 10000")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help=f"default: {LIMIT_S}")
    options = parser.parse_args()
    with ClusterOfNodes(3) as cluster:
        node = cluster.node(1)
        for first in range(0, options.queues, BATCH):
            queues = [queue(n) for n in range(first, min(first + BATCH, options.queues))]
            node.api("POST", "/api/definitions", {"queues": queues}, seconds=IMPORT_S)
        slowest = max(measure(node.management_url + "/"))
    return 1 if slowest > options.limit else 0


def queue(number: int) -> dict[str, object]:
    return {
        "name": f"queue-{number:05}",
        "vhost": "/",
        "durable": True,
        "auto_delete": False,
        "arguments": {},
    }


def measure(base: str) -> list[float]:
    """Seconds of each view, the median of TIMES."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium is not there")
    found: list[float] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        for name, (width, height) in SIZES.items():
            for view, wanted in VIEWS.items():
                size = {"width": width, "height": height}
                times = [opened(browser, size, base + view, wanted) for _ in range(TIMES)]
                found.append(statistics.median(times))
                print(f"{name:5} {view:35} {found[-1]:.2f} s, at most {max(times):.2f} s")
    return found


def opened(browser: Any, size: dict[str, int], url: str, wanted: str) -> float:
    """Seconds until a new tab shows what is wanted, and takes input."""
    context = browser.new_context(viewport=size)
    tab = context.new_page()
    tab.add_init_script(f"sessionStorage.setItem('warren.login', '{LOGIN}')")
    begun = time.perf_counter()
    tab.goto(url, wait_until="commit")
    tab.locator(wanted).first.wait_for()
    tab.locator("main:not([aria-busy])").wait_for()
    took = time.perf_counter() - begun
    context.close()
    return took


if __name__ == "__main__":
    sys.exit(main())
