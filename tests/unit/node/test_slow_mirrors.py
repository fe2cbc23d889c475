"""How an operator learns of slow mirrors and of lost messages: details of the node, metrics."""

from node.management.metrics.node_families import mirroring_families
from node.management.rows.node_rows import slow_mirror_details
from node.management.rows.view import MirroringView, SlowMirrorsView

SLOW = SlowMirrorsView(node="n3", queue_count=1, queue="'orders' in vhost '/'", lag_ms=700)
MORE = SlowMirrorsView(node="n2", queue_count=3, queue="'bills' in vhost '/'", lag_ms=1200)
COUNTS = (
    "warren_unsynchronised_mirrors",
    "warren_mirror_promotions_unsynchronised_total",
    "warren_mirror_lost_messages_total",
)


def test_details_of_a_node_name_slow_mirrors_and_their_queues() -> None:
    assert list(slow_mirror_details(MirroringView(slow=(SLOW, MORE)))) == [
        "slow mirrors: node n3 takes 700 ms to sync messages of 'orders' in vhost '/'; publishers "
        "wait for it",
        "slow mirrors: node n2 takes 1200 ms to sync messages of 'bills' in vhost '/' and of 2 "
        "more queues; publishers wait for it",
    ]
    assert list(slow_mirror_details(MirroringView())) == []


def test_metrics_name_slow_nodes_and_count_lost_messages() -> None:
    view = MirroringView(
        slow=(SLOW, MORE), unsynchronised=4, unsynchronised_promotions=1, lost_messages=70
    )
    found = {each.name: dict(each.rows) for each in mirroring_families(view)}
    lags = found["warren_slow_mirrors_seconds"]
    assert sorted(lags.values()) == [0.7, 1.2] and any('node="n3"' in each for each in lags)
    assert [list(found[name].values()) for name in COUNTS] == [[4], [1], [70]]
