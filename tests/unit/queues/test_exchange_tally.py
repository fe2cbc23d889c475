"""What is counted of each exchange while a client reads them."""

from queues.sessions import counts
from queues.sessions.counts import ExchangeTally, PairTally


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


def test_pairs_are_counted_by_channel_and_by_queue() -> None:
    tally = PairTally()
    queues = [["q"], [], ["q", "r"]]
    tally.count("c (1)", "/", [key("a"), key("b"), key("a", "x")], [0, 2, 5], 9, queues)
    assert tally.published == {("c (1)", "/", "a"): 6, ("c (1)", "/", "b"): 3}
    assert tally.routed == {("/", "a", "q"): 6, ("/", "a", "r"): 4}
    tally.count("", "/", [key("a")], [0], 1, [["q"]])
    assert tally.published["c (1)", "/", "a"] == 6 and len(tally.published) == 2
    assert tally.routed["/", "a", "q"] == 7


def test_only_so_many_pairs_are_counted() -> None:
    tally = PairTally()
    names = [str(number) for number in range(counts.PAIRS_MAX + 1)]
    tally.count("c", "/", [key("a")], [0], 1, [names])
    tally.count("c", "/", [key("a")], [0], 1, [[names[0], names[-1]]])
    assert len(tally.routed) == counts.PAIRS_MAX
    assert tally.routed["/", "a", "0"] == 2 and ("/", "a", names[-1]) not in tally.routed
