"""The web page shows the requests of the HTTP API."""

from collections.abc import Iterator

import pytest

from tests.conformance.pages import open_browser, show
from warren.testing import Node

pytestmark = [pytest.mark.timeout(120), pytest.mark.source]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started


def test_a_request_is_found_and_shows_its_body_and_answers(node: Node) -> None:
    base = f"{node.management_url}/"
    with open_browser() as pages, pages.tab(base) as tab:
        show(tab, base, "#/api", "HTTP API")
        tab.get_by_role("searchbox", name="Filter requests").fill("PUT /api/vhosts")
        tab.get_by_text("PUT /api/vhosts/{vhost}: ").click()
        tab.get_by_text('"default_queue_type"').first.wait_for()
        assert tab.get_by_text("GET /api/overview").count() == 0
        tab.get_by_role("searchbox", name="Filter requests").fill("no request has this")
        tab.get_by_text("PUT /api/vhosts/{vhost}: ").wait_for(state="detached")


def test_the_address_of_rabbitmq_leads_there(node: Node) -> None:
    base = f"{node.management_url}/"
    with open_browser() as pages, pages.tab(base) as tab:
        tab.goto(f"{base}api/index.html")
        tab.get_by_role("heading", name="HTTP API").wait_for()
        assert tab.url == f"{base}#/api"
