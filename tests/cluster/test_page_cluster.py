"""The web page of a cluster: who leads what, whose clients are remote, members and maintenance."""

from collections.abc import Iterator
from typing import Any

import pika
import pytest

from tests.conformance.pages import Pages, address, open_browser, show, wrong_with
from tests.waiting import eventually
from warren.testing.cluster import ClusterOfNodes
from warren.testing.http_api import HttpApi

pytestmark = [pytest.mark.timeout(240), pytest.mark.source]

QUEUE = "page-orders"


@pytest.fixture(scope="module")
def pages() -> Iterator[Pages]:
    with open_browser() as found:
        yield found


@pytest.fixture
def led_by_n1(shared_cluster: ClusterOfNodes) -> Iterator[ClusterOfNodes]:
    """A quorum queue that the first node leads, with a consumer at the second one."""
    first, second = shared_cluster.node(1), shared_cluster.node(2)
    connection = pika.BlockingConnection(pika.URLParameters(first.url))
    channel = connection.channel()
    arguments = {"x-queue-type": "quorum", "x-queue-leader-locator": "client-local"}
    channel.queue_declare(QUEUE, durable=True, arguments=arguments)
    api = HttpApi(first.management_url)
    path = f"/queues/%2F/{QUEUE}"
    eventually(lambda: api.get(path).get("leader"))
    if api.get(path)["leader"] != "n1":  # Another one was elected since, on a busy machine.
        api.post(f"/queues/quorum/%2F/{QUEUE}/leader", {"node": "n1"})
        eventually(lambda: api.get(path).get("leader") == "n1")
    remote = pika.BlockingConnection(pika.URLParameters(second.url))
    remote.channel().basic_consume(QUEUE, lambda *_: None)
    yield shared_cluster
    remote.close()
    channel.queue_delete(QUEUE)
    connection.close()


def test_the_map_tells_leaders_members_and_clients_that_are_remote_and_leaders_move(
    pages: Pages, led_by_n1: ClusterOfNodes
) -> None:
    base = f"{led_by_n1.node(3).management_url}/"  # any node answers for all
    with pages.tab(base) as tab:
        tab.on("dialog", lambda dialog: dialog.accept())
        tab.goto(base)
        tab.get_by_role("heading", name="Queued messages, by node").wait_for()
        show(tab, base, "#/cluster", "Cluster")
        row = tab.get_by_role("row", name=QUEUE)
        leads(row, "n1").wait_for()
        tab.get_by_role("button", name="How far are their logs behind?").click()
        tab.get_by_text("entries that a member lacks").wait_for()
        tab.get_by_role("button", name="Look for them").click()
        remote = tab.get_by_role("table", name="remote consumers").get_by_role("row", name=QUEUE)
        remote.wait_for()
        assert remote.locator("td").all_inner_texts()[1] == "n2"
        assert wrong_with(tab) == []
        show(tab, base, address("queues", "/", QUEUE), f"Queue {QUEUE}")
        members = tab.get_by_role("table", name="members")
        members.get_by_role("row", name="n3").get_by_role("button", name="Let it lead").click()
        leads(members.get_by_role("row", name="n3"), "n3").wait_for()


def leads(row: Any, node: str) -> Any:
    """The mark of the leader in the column, or the row, of a node."""
    column = row.locator(f"td[data-label='{node}']").or_(row.locator("td[data-label='State']"))
    return column.get_by_text("leader", exact=True)
