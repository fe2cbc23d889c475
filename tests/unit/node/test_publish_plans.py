"""Plans of publishes, and events taken apart: routes by message, copies, returns, refusals."""

from itertools import count, pairwise

import pytest

from node.amqp091.publish_plans import RouteCache
from node.auth.permissions import PermissionCache
from queues.queue_host import QueueHost
from queues.routing.pace import HOSTS_AT_ONCE, ROUTE_MS_MAX, NewHosts, RoutingPace
from queues.routing.router import HUBS_AT_ONCE
from queues.sessions.publishing import Targets
from tests.unit.node.fake_access import FakeAccess
from tests.unit.queues.definitions.steps import Steps
from tests.unit.queues.fake_queue import FakeQueue
from tests.unit.wire.frames import message, opened
from warren.wire.amqp091.deliver import extract
from warren.wire.amqp091.events import Publishes
from warren.wire.amqp091.properties import BasicProperties, decode_properties
from warren.wire.buffer import read_i32_le
from warren.wire.errors import ReplyCode

ALL = (".*", ".*", ".*")


class Room:
    """A machine, its queues, and the plans of guest."""

    def __init__(self, *queues: str, pace: RoutingPace | None = None) -> None:
        self.steps = Steps()
        self.queues: dict[int, FakeQueue] = {}
        self.access = FakeAccess(permitted={("guest", "/"): ALL})
        self.is_traced = False
        self.cache = RouteCache(
            "/",
            "guest",
            False,
            self.steps.router,
            PermissionCache(self.access, "guest", "/"),
            self._host,
            lambda: self.steps.machine.version,
            is_traced=lambda: self.is_traced,
            pace=pace,
        )
        self.uids: dict[str, int] = {name: self.steps.queue(name).uid for name in queues}
        self.cache.refresh()

    def _host(self, uid: int) -> QueueHost:
        return self.queues.setdefault(uid, FakeQueue(uid))

    def names(self, targets: Targets) -> list[str]:
        by_uid = {uid: name for name, uid in self.uids.items()}
        return [by_uid[host.uid] for host in targets.hosts]


def run_of(*messages: bytes) -> Publishes:
    [event] = opened(1).receive(b"".join(messages), 0)
    assert isinstance(event, Publishes)
    return event


def headed(body: bytes, key: bytes = b"a", mandatory: bool = False, **headers: object) -> bytes:
    properties = BasicProperties(headers=dict(headers))
    return message(1, body, key, properties, mandatory=mandatory)


def parts_of(event: Publishes | None) -> list[tuple[bytes, dict[str, object] | None, bytes]]:
    """Routing key, headers and body of each message."""
    assert event is not None
    places = [int(read_i32_le(event.offsets, 4 * index)) for index in range(event.count + 1)]
    assert event.firsts == list(range(event.count))
    assert len(event.keys) == len(event.infos) == event.count
    found = []
    for start, end in pairwise(places):
        _, key, properties, body = extract(event.data, start, end)
        found.append((key, decode_properties(properties).headers, body))
    return found


def test_copies_go_to_every_queue_named_and_bcc_is_gone() -> None:
    room = Room("a", "b", "c")
    event = run_of(
        message(1, b"1", b"b"),
        headed(b"2", CC=["b", "a"], BCC=["c"], x=1),
        message(1, b"3", b"a"),
        headed(b"4", b"absent", CC=["c"]),
    )
    assert room.cache.needs_look(event)
    parted = room.cache.part(event)
    assert parted.error is None and parted.returns == []
    assert [room.names(targets) for targets in parted.plans] == [
        *(["b"], ["a", "b", "c"], ["a"], ["c"]),
    ]
    assert parts_of(parted.event) == [
        (b"b", None, b"1"),
        (b"a", {"CC": ["b", "a"], "x": 1}, b"2"),
        (b"a", None, b"3"),
        (b"absent", {"CC": ["c"]}, b"4"),
    ]
    assert parted.event is not None and parted.event.infos == [
        *(event.infos[0], event.infos[1], event.infos[2], event.infos[3]),
    ]


def test_without_bcc_the_bytes_are_not_copied() -> None:
    room = Room("a", "b")
    event = run_of(headed(b"1", CC=["b"]), message(1, b"2", b"a"))
    parted = room.cache.part(event)
    assert parted.event is not None
    assert parted.event.data is event.data and parted.event.offsets == event.offsets


def test_the_same_queues_by_another_way_are_the_same_targets() -> None:
    room = Room("a", "b")
    parted = room.cache.part(run_of(headed(b"1", b"a", CC=["b"]), headed(b"2", b"b", CC=["a"])))
    assert parted.plans[0] is parted.plans[1]


def test_a_mandatory_message_returns_if_none_of_its_keys_leads_anywhere() -> None:
    room = Room("a")
    event = run_of(
        headed(b"1", b"a", True, BCC=["none"]),
        headed(b"2", b"no", True, BCC=["none"]),
        headed(b"3", b"no", True, CC=["a"]),
        headed(b"4", b"no", False, CC=["none"]),
    )
    parted = room.cache.part(event)
    assert [room.names(targets) for targets in parted.plans] == [["a"], [], ["a"], []]
    [(start, end, exchange, key)] = parted.returns
    assert parted.event is not None and (exchange, key) == ("", b"no")
    _, _, properties, body = extract(parted.event.data, start, end)
    assert body == b"2" and decode_properties(properties).headers == {}


@pytest.mark.parametrize("name", ["CC", "BCC"])
def test_what_is_before_a_bad_header_goes_on(name: str) -> None:
    room = Room("a", "b")
    event = run_of(headed(b"1", BCC=["b"]), headed(b"2", b"a", False, **{name: "b"}), headed(b"3"))
    parted = room.cache.part(event)
    assert parts_of(parted.event) == [(b"a", {}, b"1")]
    assert [room.names(targets) for targets in parted.plans] == [["a", "b"]]
    assert parted.error is not None
    assert parted.error.code is ReplyCode.PRECONDITION_FAILED
    text = f'invalid message: {{unacceptable_type_in_header,"{name}",longstr}}'
    assert text in str(parted.error)
    alone = room.cache.part(run_of(headed(b"2", b"a", False, **{name: "b"})))
    assert alone.event is None and alone.plans == [] and alone.error is not None


def test_who_may_not_write_is_told_so_before_headers_are_looked_at() -> None:
    room = Room("a")
    room.access.permitted = {}
    parted = room.cache.part(run_of(headed(b"1", CC="bad")))
    assert parted.error is not None and parted.error.code is ReplyCode.ACCESS_REFUSED


def test_a_property_that_is_hashed_is_read_without_headers() -> None:
    room = Room(*(f"q{number}" for number in range(20)))
    room.steps.exchange("x", "x-consistent-hash", {"hash-property": "message_id"})
    for name in room.uids:
        room.steps.bind("x", name, b"1")
    room.cache.refresh()
    ids = [f"id {number % 25}" for number in range(50)]
    event = run_of(*(message(1, b"", b"k", BasicProperties(message_id=each), "x") for each in ids))
    assert not room.cache.make(event.keys[0]).plain
    parted = room.cache.part(event)
    chosen = [room.names(targets)[0] for targets in parted.plans]
    assert chosen[:25] == chosen[25:] and len(set(chosen)) > 8


def test_a_message_by_lot_is_drawn_for_each_time() -> None:
    room = Room("a", "b", "c")
    room.steps.exchange("x", "x-random")
    for name in room.uids:
        room.steps.bind("x", name)
    room.cache.refresh()
    parted = room.cache.part(run_of(*(message(1, b"", b"k", exchange="x") for _ in range(60))))
    chosen = [room.names(targets) for targets in parted.plans]
    assert all(len(each) == 1 for each in chosen)
    assert {each[0] for each in chosen} == {"a", "b", "c"}


def test_a_binding_that_makes_no_difference_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    room = Room("a")
    room.steps.exchange("x", "x-consistent-hash")
    room.steps.bind("x", "a", b"1")
    room.steps.bind("x", "a", b"2")
    with caplog.at_level("WARNING", "warren.routing"):
        room.cache.refresh()
        room.cache.refresh()
        room.steps.queue("b")
        room.cache.refresh()
    assert [record.message for record in caplog.records] == [
        "exchange 'x' in vhost '/' takes one binding from each destination: 'a' keeps weight 1, "
        "and 2 is ignored"
    ]


def test_while_a_vhost_is_traced_every_plan_needs_a_look_and_leads_where_it_did() -> None:
    room = Room("a")
    event = run_of(message(1, b"1", b"a"), message(1, b"2", b"a"))
    plan = room.cache.make(event.keys[0])
    assert plan.plain and not plan.traced
    room.is_traced = True
    room.steps.queue("b")  # The version goes up, as it does with the vhost.
    room.cache.refresh()
    traced = room.cache.make(event.keys[0])
    assert traced.traced and not traced.plain
    parted = room.cache.part(event)
    assert parted.error is None and parted.returns == []
    assert [room.names(targets) for targets in parted.plans] == [["a"], ["a"]]
    assert [body for _, _, body in parts_of(parted.event)] == [b"1", b"2"]


def test_keys_of_copies_need_the_right_to_the_topic_as_well() -> None:
    room = Room("a")
    room.steps.exchange("t", "topic")
    room.steps.bind("t", "a", b"#")
    room.cache.refresh()
    room.access.topics["guest", "/", "t"] = ("^mine[.]", ".*")

    def sent(key: bytes, headers: dict[str, object], exchange: str = "t") -> bytes:
        return message(1, b"x", key, BasicProperties(headers=headers), exchange)

    good = room.cache.part(run_of(sent(b"mine.1", {"CC": ["mine.2"], "BCC": ["mine.3"]})))
    assert good.error is None and [room.names(each) for each in good.plans] == [["a"]]
    wrong: list[dict[str, object]] = [{"CC": ["mine.2", "theirs"]}, {"BCC": ["theirs"]}]
    for headers in wrong:
        parted = room.cache.part(run_of(sent(b"mine.1", headers), sent(b"mine.4", {})))
        assert parted.event is None
        assert parted.error is not None and parted.error.code == ReplyCode.ACCESS_REFUSED
        assert "access to topic 'theirs' in exchange 't'" in parted.error.text
    other = room.cache.part(run_of(sent(b"a", {"CC": ["theirs"]}, "")))
    assert other.error is None


def test_route_through_thousands_of_exchanges_takes_several_turns() -> None:
    now_s = 0.0

    def clock_s() -> float:
        nonlocal now_s
        now_s += ROUTE_MS_MAX / 1000
        return now_s

    pace = RoutingPace(clock_s)
    room = Room("last", pace=pace)
    room.steps.exchange("start", "fanout")
    for number in range(4 * HUBS_AT_ONCE):
        room.steps.exchange(f"x{number}", "fanout")
        room.steps.link("start", f"x{number}")
    room.steps.bind("x0", "last")
    room.cache.refresh()
    event = run_of(message(1, b"1", b"", exchange="start"))
    parted = room.cache.part(event)
    turns = 1
    while parted.rest is not None:
        assert parted.rest is event and parted.event is None
        pace.begin_turn()
        parted = room.cache.part(event)
        turns += 1
    assert turns > 2
    assert [room.names(targets) for targets in parted.plans] == [["last"]]
    plan = room.cache.make_some(event.keys[0])
    while plan is None:
        pace.begin_turn()
        plan = room.cache.make_some(event.keys[0])
    assert room.names(plan.targets) == ["last"]
    assert room.cache.get(event.keys[0]) is plan


def slow_pace() -> RoutingPace:
    """Each look at the clock takes longer than a turn may route."""
    ticks = count(0, 1)
    return RoutingPace(lambda: float(next(ticks)))


MANY = [f"q{number}" for number in range(3 * HOSTS_AT_ONCE + 1)]


def test_hosts_of_queues_that_are_used_for_the_first_time_are_made_in_several_turns() -> None:
    pace = slow_pace()
    room = Room(*MANY, pace=pace)
    room.steps.exchange("all", "fanout")
    for name in MANY:
        room.steps.bind("all", name)
    room.cache.refresh()
    key = run_of(message(1, b"1", b"", exchange="all")).keys[0]
    made = [len(room.queues)]
    while (plan := room.cache.make_some(key)) is None:
        pace.begin_turn()
        made.append(len(room.queues))
    made.append(len(room.queues))
    assert made[-1] == len(MANY)
    assert max(after - before for before, after in pairwise(made)) <= HOSTS_AT_ONCE
    assert len(plan.targets.hosts) == len(MANY)


@pytest.mark.parametrize("by", ["headers", "CC", "BCC"])
def test_hosts_for_a_message_that_needs_a_look_are_made_in_several_turns(by: str) -> None:
    pace = slow_pace()
    room = Room(*MANY, pace=pace)
    if by == "headers":
        room.steps.exchange("by", "headers")
        for name in MANY:
            room.steps.bind("by", name, side="left")
        first = message(1, b"1", b"", BasicProperties(headers={"side": "left"}), exchange="by")
    else:
        copied = BasicProperties(headers={by: MANY[1:]})
        first = message(1, b"1", MANY[0].encode(), copied)
    room.cache.refresh()
    waiting: Publishes | None = run_of(first, message(1, b"2", MANY[0].encode()))
    made, bodies, widths = [len(room.queues)], [], []
    while waiting is not None:
        pace.begin_turn()
        parted = room.cache.part(waiting)
        made.append(len(room.queues))
        if parted.event is not None:
            bodies += [body for _, _, body in parts_of(parted.event)]
            widths += [len(targets.hosts) for targets in parted.plans]
        waiting = parted.rest
    assert (bodies, widths) == ([b"1", b"2"], [len(MANY), 1])
    assert made[-1] == len(MANY) and len(made) > 3
    assert max(after - before for before, after in pairwise(made)) <= HOSTS_AT_ONCE


def test_messages_that_take_turns_have_the_hosts_of_all_queues_made() -> None:
    made: set[int] = set()

    def host_of(uid: int) -> FakeQueue:
        made.add(uid)
        return FakeQueue(uid)

    new_hosts = NewHosts(host_of)
    waiting = [tuple(range(first, first + len(MANY))) for first in (0, 10_000)]
    turns = 0
    while waiting:
        uids = waiting.pop(0)
        before = len(made)
        if not new_hosts.have(uids, lambda: True):
            waiting.append(uids)
        assert len(made) - before <= HOSTS_AT_ONCE
        turns += 1
    assert turns == 2 * 4
    assert len(made) == 2 * (len(MANY) - 1)  # The last of each is left to the caller.
