"""What flows tell of a link's queue, to whom, and when."""

from collections.abc import Callable
from typing import cast

import pytest

from node.amqp10.hints import PUSH_MS, RESOLVED_QUEUE, HintCounts, LinkHints
from node.amqp10.locality import ACTIVE, CAPABILITY, are_wanted, hints_of, queue_of_target
from node.cluster.cluster_node import member_of
from node.cluster.services.leader_hints import lookup_url
from node.cluster.services.whereis import ELECTING, NodePlace, Place, Told, url_of, urls_told
from node.config.settings import Address, Config, ListenersSection
from queues.addresses.producer_window import LIMIT
from queues.definitions.broker_objects import Queue, Uid
from warren.wire.amqp10.codec.values import Symbol, UInt, ULong
from warren.wire.amqp10.link import Link
from warren.wire.amqp10.receiver import Receiver
from warren.wire.amqp10.session import Session

QUEUE = Queue(Uid(20), "/", "q", True, "", False, b"", "n1", (1, 2, 3))
NODES = ("n1", "n2", "n3")
ON_1 = Place("n1", 4, NODES)
ON_2 = Place("n2", 5, NODES)
ON_3 = Place("n3", 6, NODES)
NO_LEADER = Place(None, 0, NODES, ELECTING)


def urls_of(node: str) -> list[str]:
    return [f"amqp://{node}:5672"]


@pytest.mark.parametrize(
    ("setting", "desired", "wanted"),
    [
        ("off", [CAPABILITY], False),
        ("negotiated", None, False),
        ("negotiated", ["other"], False),
        ("negotiated", ["other", CAPABILITY], True),
        ("always", None, True),
    ],
)
def test_who_is_told_depends_on_the_setting_and_the_open(
    setting: str, desired: list[str] | None, wanted: bool
) -> None:
    assert are_wanted(setting, desired) is wanted


def test_the_short_form_is_part_of_the_full_one_and_types_are_those_of_the_table() -> None:
    full, short = hints_of(ON_1, "n1", urls_of)
    assert set(short) == {"local", "leader-epoch"} and short.items() <= full.items()
    assert (full["local"], full["leader"], full["replicas"]) == (True, "n1", list(NODES))
    assert full["local-replica"] is False and full["leader-endpoints"] == ["amqp://n1:5672"]
    assert type(full["leader-epoch"]) is ULong and type(full["state"]) is Symbol
    assert "retry-after-ms" not in full


def test_a_member_that_does_not_lead_is_a_local_replica() -> None:
    assert hints_of(ON_2, "n1", urls_of)[0]["local-replica"] is True
    full, short = hints_of(ON_2, "n9", urls_of)
    assert (full["local-replica"], short["local"]) == (False, False)


def test_without_a_leader_the_client_is_told_when_to_look_again() -> None:
    full, _ = hints_of(NO_LEADER, "n1", urls_of)
    assert (full["leader"], full["leader-endpoints"], full["state"]) == (None, [], "electing")
    assert type(full["retry-after-ms"]) is UInt and full["local"] is False


def test_only_a_target_that_names_a_queue_has_one() -> None:
    assert queue_of_target("/queues/a%2Fb") == "a/b"
    assert queue_of_target("/exchanges/x/a") is None and queue_of_target(None) is None


def test_addresses_of_ipv6_stand_in_brackets() -> None:
    assert url_of("::1", 5672) == "amqp://[::1]:5672"
    assert url_of("127.0.0.1", 5672) == "amqp://127.0.0.1:5672"
    assert url_of("::1", 5671, is_tls=True) == "amqps://[::1]:5671"


def test_a_client_is_told_addresses_of_its_own_kind_first() -> None:
    assert urls_told("a:1", "a:2") == ["amqp://a:1", "amqps://a:2"]
    assert urls_told("a:1", "a:2", tls_first=True) == ["amqps://a:2", "amqp://a:1"]
    assert urls_told("", "a:2") == ["amqps://a:2"] and urls_told("", "") == []


def told_by(**listeners: object) -> tuple[str, str, str]:
    """What the row of a node with these listeners says."""
    section = ListenersSection(cluster=Address("n", 3), **listeners)  # type: ignore[arg-type]
    member = member_of(Config(listeners=section), 7)
    return member.amqp, member.amqps, member.management


def test_a_node_tells_of_the_listeners_that_it_has_and_of_what_it_advertises() -> None:
    open_ones = {"amqp": Address("a", 1), "management": Address("a", 4)}
    assert told_by(**open_ones) == ("a:1", "", "a:4")
    assert told_by(**open_ones, amqps=Address("a", 2)) == ("a:1", "a:2", "a:4")
    assert told_by(**open_ones, amqps=Address("a", 2), plain=False) == ("", "a:2", "")
    assert told_by(**open_ones, amqps=Address("0.0.0.0", 2))[1] == ""
    advertised = {"amqps": Address("0.0.0.0", 2), "amqps_advertised": Address("p", 9)}
    assert told_by(**open_ones, **advertised)[1] == "p:9"


def test_leaders_are_looked_up_over_tls_where_that_is_all_there_is() -> None:
    place, other = Address("a", 1), Address("a", 2)
    found = lookup_url(ListenersSection(management=place, management_tls=other))
    assert found == "http://a:1/api/queues/{vhost}/{queue}/topology"
    secure = lookup_url(ListenersSection(management=place, management_tls=other, plain=False))
    assert secure == "https://a:2/api/queues/{vhost}/{queue}/topology"
    assert lookup_url(ListenersSection(management=place, plain=False)) == ""


# Changes


class FakeSession:
    """Takes down which links are to have a flow."""

    def __init__(self) -> None:
        self.pushed: list[Link] = []

    def push_flow(self, link: Link) -> None:
        link.full_due = True
        self.pushed.append(link)

    def flush(self) -> list[tuple[object, object]]:
        """The flows leave: (leader, epoch) of each."""
        told = []
        for link in self.pushed:
            assert link.properties is not None
            link.full_due = False
            told.append((link.properties["leader"], link.properties["leader-epoch"]))
        self.pushed = []
        return told


class Alarm:
    """A timer that the test lets ring."""

    def __init__(self, at_ms: int, call: Callable[[], None]) -> None:
        self.at_ms = at_ms
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Room:
    """One connection to node n1, and where its one queue is."""

    def __init__(self, place: Place = ON_1, wanted: bool = True) -> None:
        self.queue_place = place
        self.wanted = wanted
        self.watchers: list[Told] = []
        self.hint_counts = HintCounts()
        self.now_ms = 10_000
        self.alarms: list[Alarm] = []
        self.marks = 0
        self.session = FakeSession()
        self.hints = LinkHints(self)

    @property
    def whereis(self) -> "Room":
        return self

    @property
    def here(self) -> str:
        return "n1"

    def place(self, queue: Queue) -> Place:
        assert queue is QUEUE
        return self.queue_place

    def node(self, name: str) -> NodePlace | None:
        return NodePlace(name)

    def nodes(self) -> list[NodePlace]:
        return [NodePlace(each) for each in NODES]

    def watch(self, uid: int, told: Told) -> None:
        self.watchers.append(told)

    def unwatch(self, uid: int, told: Told) -> None:
        self.watchers.remove(told)

    def queue_changed(self, uid: int) -> None:
        raise AssertionError("the broker tells it, not a connection")

    def urls_of(self, node: str) -> list[str]:
        return urls_of(node)

    def hints_wanted(self) -> bool:
        return self.wanted

    def monotonic_ms(self) -> int:
        return self.now_ms

    def call_later(self, ms: int, call: Callable[[], None]) -> Alarm:
        self.alarms.append(Alarm(self.now_ms + ms, call))
        return self.alarms[-1]

    def mark(self) -> None:
        self.marks += 1

    def link(self, name: str = "a", has_flowed: bool = True) -> Link:
        link = Link(name, 0, Receiver(0, 0), None)
        self.hints.join(link, cast(Session, self.session), QUEUE)
        link.full_due = not has_flowed
        return link

    def move(self, place: Place) -> list[tuple[object, object]]:
        """The queue is there now; what is pushed."""
        self.queue_place = place
        for told in list(self.watchers):
            told()
        return self.session.flush()

    def wait(self, ms: int) -> list[tuple[object, object]]:
        self.now_ms += ms
        due = [each for each in self.alarms if each.at_ms <= self.now_ms and not each.cancelled]
        self.alarms = [each for each in self.alarms if each.at_ms > self.now_ms]
        for each in due:
            each.call()
        return self.session.flush()


def test_a_new_leader_is_pushed_at_once_to_every_link() -> None:
    room = Room()
    room.link("a")
    room.link("b")
    assert room.move(ON_2) == [("n2", 5), ("n2", 5)]
    assert room.marks == 1 and room.hint_counts.pushes == 2


def test_a_link_whose_first_flow_has_not_gone_has_that_tell_it_and_no_other() -> None:
    room = Room()
    link = room.link(has_flowed=False)
    assert room.move(ON_2) == []
    assert link.properties is not None and link.properties["leader"] == "n2"


def test_what_has_not_changed_is_not_pushed() -> None:
    room = Room()
    room.link()
    assert room.move(Place("n1", 4, NODES)) == [] and room.marks == 0


def test_a_higher_epoch_never_waits() -> None:
    room = Room()
    room.link()
    assert room.move(ON_2) == [("n2", 5)]
    assert room.move(ON_3) == [("n3", 6)]


def test_news_of_the_same_epoch_are_gathered() -> None:
    room = Room()
    room.link()
    assert room.move(NO_LEADER) == [(None, 4)]
    assert room.move(Place("n1", 4, NODES)) == []
    assert room.move(Place("n1", 4, ("n1", "n2"))) == []
    assert room.wait(PUSH_MS - 1) == []
    assert room.wait(1) == [("n1", 4)]
    assert room.wait(10 * PUSH_MS) == [] and room.alarms == []


def test_a_higher_epoch_does_not_wait_for_what_is_gathered() -> None:
    room = Room()
    room.link()
    room.move(NO_LEADER)
    assert room.move(ON_1) == []
    assert room.move(ON_2) == [("n2", 5)]
    assert room.wait(PUSH_MS) == []


def test_an_older_epoch_is_passed_over() -> None:
    room = Room(ON_3)
    link = room.link()
    assert room.move(ON_1) == []
    assert room.move(NO_LEADER) == [(None, 6)]
    room.now_ms += PUSH_MS
    assert room.move(ON_2) == []
    assert link.properties is not None and link.properties["leader-epoch"] == 6


def test_what_was_told_of_a_single_active_consumer_stays() -> None:
    room = Room()
    link = room.link()
    assert link.properties is not None
    link.properties = link.properties | {ACTIVE: True}
    room.move(ON_2)
    assert link.properties[ACTIVE] is True and link.properties["leader"] == "n2"


@pytest.mark.parametrize("is_resolved", [False, True])
def test_the_limit_of_a_publisher_stays_when_the_leader_moves_before_its_first_flow(
    is_resolved: bool,
) -> None:
    """Without it the client has credit and no window: it would send all that it has."""
    room = Room()
    link = room.link(has_flowed=False)
    link.properties = (link.properties or {}) | {LIMIT: ULong(9)}
    link.properties_short = (link.properties_short or {}) | {LIMIT: ULong(9)}
    if is_resolved:
        room.hints.resolve(link, cast(Session, room.session), None)
    else:
        room.move(ON_2)
    assert link.properties[LIMIT] == link.properties_short[LIMIT] == 9


def test_links_that_are_over_are_told_nothing_and_nothing_is_left_of_them() -> None:
    room = Room()
    link = room.link()
    other = room.link("b")
    assert len(room.watchers) == 1
    room.hints.leave(link)
    room.hints.leave(link)
    assert room.move(ON_2) == [("n2", 5)]
    room.move(Place("n2", 5, ("n2",)))
    room.hints.end()
    assert room.watchers == [] and room.alarms[0].cancelled
    assert (room.hint_counts.local, room.hint_counts.remote) == (0, 0)
    room.hints.leave(other)


def test_links_are_counted_by_where_their_queue_is_now() -> None:
    room = Room()
    room.link()
    room.link("b")
    assert (room.hint_counts.local, room.hint_counts.remote) == (2, 0)
    room.move(ON_2)
    assert (room.hint_counts.local, room.hint_counts.remote) == (0, 2)
    room.move(ON_3)
    assert (room.hint_counts.local, room.hint_counts.remote) == (0, 2)


def test_a_link_to_an_exchange_tells_of_the_one_queue_that_it_leads_to() -> None:
    room = Room()
    session = cast(Session, room.session)
    link = Link("a", 0, Receiver(0, 0), None)
    room.hints.resolve(link, session, QUEUE)
    assert link.properties is not None and link.properties[RESOLVED_QUEUE] == "q"
    assert room.session.pushed == []
    link.full_due = False
    room.hints.resolve(link, session, QUEUE)
    assert room.move(ON_2) == [("n2", 5)] and link.properties[RESOLVED_QUEUE] == "q"
    room.hints.resolve(link, session, None)
    assert not link.properties and not link.properties_short and room.watchers == []
    room.hints.resolve(link, session, None)
    room.hints.resolve(link, session, QUEUE)
    assert room.session.flush() == [("n2", 5)]
    room.hints.leave(link)
    assert room.hint_counts.remote == 0


def test_who_wants_no_hints_gets_none() -> None:
    room = Room(wanted=False)
    link = room.link()
    assert link.properties is None and room.watchers == []
    room.hints.join(link, cast(Session, room.session), None)
