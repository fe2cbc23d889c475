"""Who waits while the log's upkeep is behind."""

from node.hold import Hold
from queues.credit import CreditActor, CreditSpec


class Connection:
    """Keeps `Holdable`."""

    def __init__(self, has_published: bool) -> None:
        self.has_published = has_published
        self.unblocked = 0
        self.marks = 0
        self._reader = CreditActor("reader", CreditSpec(400, 200), self._count)

    @property
    def reader(self) -> CreditActor:
        return self._reader

    def mark(self) -> None:
        self.marks += 1

    def _count(self) -> None:
        self.unblocked += 1


def test_connections_that_have_published_wait_and_the_others_do_not() -> None:
    hold = Hold()
    publisher, consumer = Connection(True), Connection(False)
    hold.turn(True, [publisher, consumer])
    assert (publisher.reader.is_blocked(), consumer.reader.is_blocked()) == (True, False)
    assert (publisher.marks, consumer.marks) == (1, 1)
    hold.turn(False, [publisher, consumer])
    assert not publisher.reader.is_blocked()
    assert (publisher.unblocked, consumer.unblocked) == (1, 0)


def test_one_that_begins_to_publish_meanwhile_waits_with_them() -> None:
    hold = Hold()
    late = Connection(False)
    hold.begins_to_publish(late.reader)
    assert not late.reader.is_blocked()
    hold.turn(True, [late])
    hold.begins_to_publish(late.reader)
    assert late.reader.is_blocked()
    hold.turn(False, [late])
    assert not late.reader.is_blocked()


def test_it_can_be_begun_and_ended_again_and_again() -> None:
    hold = Hold()
    connection = Connection(True)
    for _ in range(5):
        hold.turn(True, [connection])
        assert connection.reader.is_blocked()
        hold.turn(False, [connection])
        assert not connection.reader.is_blocked()


def test_a_connection_that_goes_while_it_waits_leaves_nothing_behind() -> None:
    hold = Hold()
    connection = Connection(True)
    hold.turn(True, [connection])
    connection.reader.peer_down_everywhere()
    hold.turn(False, [])
    assert hold.actor._from == {}
