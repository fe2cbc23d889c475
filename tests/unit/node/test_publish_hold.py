"""Who waits while the log's upkeep is behind."""

from node.resources.publish_hold import Hold
from queues.sessions.credit import CreditActor, CreditSpec
from tests.unit.reachable import held


class Connection:
    """Keeps `Holdable`."""

    def __init__(self, hold: Hold) -> None:
        self.is_publishing = False
        self.unblocked = 0
        self.marks = 0
        self._hold = hold
        self._reader = CreditActor("reader", CreditSpec(400, 200), self._count)

    @property
    def reader(self) -> CreditActor:
        return self._reader

    def mark(self) -> None:
        self.marks += 1

    def publish(self) -> None:
        if not self.is_publishing:
            self._hold.begins_to_publish(self)

    def is_held(self) -> bool:
        return self._reader.is_blocked()

    def _count(self) -> None:
        self.unblocked += 1


def test_connections_that_publish_wait_and_the_others_do_not() -> None:
    hold = Hold()
    publisher, consumer = Connection(hold), Connection(hold)
    publisher.publish()
    hold.turn(True)
    assert (publisher.is_held(), consumer.is_held()) == (True, False)
    assert (publisher.marks, consumer.marks) == (1, 0)
    hold.turn(False)
    assert not publisher.is_held()
    assert (publisher.unblocked, consumer.unblocked) == (1, 0)
    assert (publisher.marks, consumer.marks) == (2, 0)


def test_one_that_begins_to_publish_meanwhile_waits_with_them() -> None:
    hold = Hold()
    late = Connection(hold)
    hold.turn(True)
    late.publish()
    assert late.is_held()
    hold.turn(False)
    assert not late.is_held()


def test_one_that_published_once_is_not_gone_through_again_until_it_publishes() -> None:
    hold = Hold()
    idle, busy = Connection(hold), Connection(hold)
    idle.publish()
    hold.turn(True)
    hold.turn(False)
    marks = idle.marks
    for _ in range(3):
        busy.publish()
        hold.turn(True)
        assert (idle.is_held(), busy.is_held()) == (False, True)
        hold.turn(False)
    assert idle.marks == marks
    hold.turn(True)
    assert not busy.is_held()
    for late in (idle, busy):
        late.publish()
        assert late.is_held()
    hold.turn(False)
    assert not idle.is_held()


def test_it_can_be_begun_and_ended_again_and_again() -> None:
    hold = Hold()
    connection = Connection(hold)
    for _ in range(5):
        connection.publish()
        hold.turn(True)
        hold.turn(True)
        assert connection.is_held()
        hold.turn(False)
        hold.turn(False)
        assert not connection.is_held()
    assert connection.reader.credit_towards(hold.actor) == 1


def test_a_connection_that_goes_leaves_nothing_behind() -> None:
    hold = Hold()
    waiting, other = Connection(hold), Connection(hold)
    other.publish()
    hold.gone(other)
    waiting.publish()
    hold.turn(True)
    assert not other.is_held()
    waiting.reader.peer_down_everywhere()
    hold.gone(waiting)
    hold.turn(False)
    assert waiting.marks == 1
    assert held(hold.actor, CreditActor) == [hold.actor], "connections that are gone"
