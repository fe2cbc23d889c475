"""Who is held back by whom, as one graph of the cluster."""

from node.management.api.operations.flow import EDGES_MAX, part_of, whole
from node.management.metrics.view import EdgeView, WaitView
from tests.unit.node.fake_meter import FakeMeter
from tests.unit.node.metered_api import Call, with_meter

CHANNEL = ("channel", "c1 (1)")
QUEUE = ("queue", "queue 'q' in vhost '/'")
LOG = ("log", "log")


def test_edges_go_from_who_is_held_back_to_who_holds_it_back() -> None:
    edges = [
        EdgeView(*CHANNEL, *QUEUE, 1.5, 4.0, 3, "no credit"),
        EdgeView(*QUEUE, *LOG, None, 0.25, 1, "no credit"),
    ]
    part = part_of("n1", edges, [WaitView("channel", "queue", 4.0, 3)], now_ms=10_000)
    ids = {(row["kind"], row["name"]): row["id"] for row in part["nodes"]}
    assert set(ids) == {CHANNEL, QUEUE, LOG}
    assert all(row["node"] == "n1" for row in part["nodes"])
    first, second = part["edges"]
    assert (first["from"], first["to"]) == (ids[CHANNEL], ids[QUEUE])
    assert (first["since"], first["blocked_seconds"], first["times"]) == (8500, 4.0, 3)
    assert (first["kinds"], first["reason"]) == (["channel", "queue"], "no credit")
    assert (second["from"], second["since"]) == (ids[QUEUE], None)
    assert part["totals"] == [
        {"node": "n1", "from": "channel", "to": "queue", "blocked_seconds": 4.0, "times": 3}
    ]


def test_a_queue_and_the_way_to_it_are_one() -> None:
    part = part_of("n1", [EdgeView(*QUEUE, *QUEUE, 1.0, 1.0, 1, "no credit")], [], 0)
    assert part["edges"] == []


def test_a_graph_that_is_too_large_is_cut_and_says_so() -> None:
    edges = [EdgeView("channel", f"c{n}", *QUEUE, 1.0, 1.0, 1, "") for n in range(EDGES_MAX + 1)]
    part = part_of("n1", edges, [], 0)
    assert len(part["edges"]) == EDGES_MAX
    assert whole([part, part_of("n2", [], [], 0)], ["n3"])["truncated"]


def test_the_graphs_of_all_nodes_are_one() -> None:
    edge = EdgeView(*CHANNEL, *QUEUE, 1.0, 1.0, 1, "")
    graph = whole([part_of(node, [edge], [], 0) for node in ("n1", "n2")], ["n4", "n3"])
    assert len({row["id"] for row in graph["nodes"]}) == 4
    assert len(graph["edges"]) == 2
    assert graph["nodes_silent"] == ["n3", "n4"]
    assert not graph["truncated"]


def test_the_graph_is_for_those_who_may_watch() -> None:
    meter = FakeMeter(the_edges=[EdgeView(*CHANNEL, *QUEUE, 1.0, 1.0, 1, "no credit")])

    async def test(call: Call) -> None:
        assert (await call("/api/flow/graph", user="shop"))[0] == 401
        status, graph = await call("/api/flow/graph", user="watch")
        assert status == 200
        assert [row["node"] for row in graph["nodes"]] == ["warren@here"] * 2
        assert graph["edges"][0]["since"] > 1_600_000_000_000

    with_meter(test, meter)
