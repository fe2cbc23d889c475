"""Metrics of addresses with limits, as publishers of this node meet them."""

from collections.abc import Iterator, Sequence

from node.management.metrics.text import Family, counter, gauge
from node.management.metrics.view import AddressView


def address_families(addresses: Sequence[AddressView]) -> Iterator[Family]:
    """Nothing while no address has limits."""
    if not addresses:
        return
    yield gauge(
        "warren_addresses_full",
        "Addresses that have reached their limit.",
        float(sum(each.is_full for each in addresses)),
    )
    yield gauge(
        "warren_address_blocked_publishers",
        "Publishers of this node that wait until an address has room.",
        float(sum(each.blocked_publishers for each in addresses)),
    )
    yield gauge(
        "warren_address_over_limit_bytes",
        "Bytes that an address held above its limit, the most since the start.",
        float(max(each.over_bytes for each in addresses)),
    )
    yield gauge(
        "warren_address_granted_messages",
        "Messages that AMQP 1.0 publishers of this node may still send to addresses with limits.",
        float(sum(each.granted_credit for each in addresses)),
    )
    yield gauge(
        "warren_address_granted_bytes",
        "The same in bytes, of publishers with a byte window that they count themselves.",
        float(sum(each.granted_bytes for each in addresses)),
    )
    yield counter(
        "warren_address_refused_messages",
        "Messages that full addresses refused.",
        float(sum(each.refused_count for each in addresses)),
    )
    yield counter(
        "warren_address_dropped_messages",
        "Messages that full addresses dropped.",
        float(sum(each.dropped_count for each in addresses)),
    )
