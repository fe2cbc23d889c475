"""What is counted of each exchange while somebody looks."""

from queues import counts
from queues.counts import ExchangeTally


def key(exchange: str, routing_key: str = "k") -> bytes:
    """As a publish has it."""
    name, rest = exchange.encode(), routing_key.encode()
    return bytes([len(name)]) + name + bytes([len(rest)]) + rest + b"\x00"


def test_each_run_counts_for_its_exchange_and_its_copies() -> None:
    tally = ExchangeTally()
    tally.count("/", [key("a"), key("b"), key("a", "x")], [0, 2, 5], 9, [1, 0, 3])
    assert tally.of("/", "a") == (2 + 4, 2 * 1 + 4 * 3)
    assert tally.of("/", "b") == (3, 0)
    assert tally.of("/", "none") == (0, 0)
    assert tally.of("other", "a") == (0, 0)


def test_the_default_exchange_has_no_name() -> None:
    tally = ExchangeTally()
    tally.count("/", [key("")], [0], 7, [1])
    assert tally.of("/", "") == (7, 7)


def test_only_so_many_exchanges_are_counted() -> None:
    tally = ExchangeTally()
    for number in range(counts.EXCHANGES_MAX + 1):
        tally.count("/", [key(str(number))], [0], 1, [1])
    assert tally.of("/", "0") == (1, 1)
    assert tally.of("/", str(counts.EXCHANGES_MAX)) == (0, 0)
    tally.count("/", [key("0")], [0], 1, [1])
    assert tally.of("/", "0") == (2, 2)
