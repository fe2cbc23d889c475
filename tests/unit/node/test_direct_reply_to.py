"""Answers past all queues: who gets them, when names die, what is rewritten, what is dropped."""

from hypothesis import given
from hypothesis import strategies as st

from node.connections.direct_reply_to import (
    PREFIX,
    REPLY_TO,
    WAITING_BYTES_MAX,
    AnswerHost,
    DirectReplies,
    FindElsewhere,
    Flushable,
    is_answer,
    name_answers,
)
from queues.machine.commands import (
    ACCEPT,
    Attach,
    Detach,
    EndSession,
    Inspect,
    Settle,
    consumer_key,
)
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.messages import bodies_of, chunk_of, table
from tests.unit.wire.frames import BOUNDED, message
from warren.wire.amqp091.deliver import extract
from warren.wire.amqp091.events import INFO_REPLY_TO, Publishes
from warren.wire.amqp091.properties import BasicProperties, decode_properties


def in_no_other_node(member: int, uid: int, vhost: str, name: str) -> None:
    """All consumers of answers are on one node."""


class Node:
    """A harness, and the end of the turn."""

    def __init__(self, member: int = 1, elsewhere: FindElsewhere = in_no_other_node) -> None:
        self.marked: list[Flushable] = []
        self.harness = DirectReplies(self.marked.append, member, elsewhere)

    def turn(self) -> None:
        marked = list(self.marked)
        self.marked.clear()
        for host in marked:
            host.flush()

    def consumer(self) -> tuple[AnswerHost, FakeSink]:
        """A pseudo-queue whose consumer is number 3 of its session."""
        host, sink = self.harness.open("/"), FakeSink(1)
        host.command(sink, Attach(consumer_key(sink.session, 3), 2048, False, False, 0))
        self.turn()
        assert sink.take() == [("attached", host.uid, 3)]
        return host, sink


def test_answers_are_delivered_and_confirmed_at_the_end_of_the_turn() -> None:
    node = Node()
    host, asking = node.consumer()
    answering = FakeSink(2)
    host.publish(answering, chunk_of([b"1", b"2"]), 1)
    host.publish(answering, chunk_of([b"3"]), 3)
    assert (asking.take(), answering.take()) == ([], [])
    node.turn()
    assert asking.take() == [
        ("delivers", host.uid, 3, 1, 1, 2, False),
        ("delivers", host.uid, 3, 3, 3, 1, False),
    ]
    assert answering.take() == [("confirms", host.uid, 2), ("confirms", host.uid, 3)]
    assert host.checked_out_count == 3


def test_answers_are_seen_chunk_by_chunk_and_go_when_they_are_settled() -> None:
    node = Node()
    host, asking = node.consumer()
    host.publish(FakeSink(2), chunk_of([b"1", b"2"]), 1)
    host.publish(FakeSink(2), chunk_of([b"3"]), 3)
    node.turn()
    view = host.view(asking, 2, 2)
    assert view is not None
    assert (view.index, view.first, view.count) == (1, 2, 1)
    assert bodies_of(view.chunk) == [b"1", b"2"]
    key = consumer_key(asking.session, 3)
    host.command(asking, Settle(key, ACCEPT, [(1, 1)]))
    assert host.checked_out_count == 3
    host.command(asking, Settle(key, ACCEPT, [(2, 1)]))
    assert host.checked_out_count == 1
    host.command(asking, Settle(key, ACCEPT, [(3, 1)]))
    assert host.checked_out_count == 0


def test_a_name_is_known_in_its_vhost_alone_and_cannot_be_guessed() -> None:
    node = Node()
    names = {node.harness.open("/").name for _ in range(50)}
    assert len(names) == 50
    name = names.pop()
    assert name.startswith(PREFIX)
    assert len(name) == len(PREFIX) + 22 + len(".1")
    targets = node.harness.targets("/", name.encode())
    assert targets is not None
    assert targets.hosts == [node.harness.find("/", name)]
    assert node.harness.targets("/", name.encode()) is targets
    assert node.harness.find("other", name) is None
    assert node.harness.targets("/", PREFIX.encode() + b"\xff") is None


def test_a_cancel_ends_the_name_at_once_and_answers_on_their_way_are_confirmed() -> None:
    node = Node()
    host, asking = node.consumer()
    answering = FakeSink(2)
    host.publish(answering, chunk_of([b"late"]), 1)
    host.command(asking, Detach(consumer_key(asking.session, 3)))
    assert node.harness.find("/", host.name) is None
    node.turn()
    assert answering.take() == [("confirms", host.uid, 1), ("gone", host.uid)]
    assert asking.take() == [("detached", host.uid, 3, False), ("gone", host.uid)]


def test_the_end_of_the_channel_ends_the_name_and_only_the_publishers_are_told() -> None:
    node = Node()
    host, asking = node.consumer()
    answering, ended = FakeSink(2), FakeSink(3)
    for sink in (answering, ended):
        host.publish(sink, chunk_of([b"x"]), 1)
    node.turn()
    host.command(ended, EndSession(ended.session))
    assert node.harness.find("/", host.name) is host
    host.command(asking, EndSession(asking.session))
    assert node.harness.find("/", host.name) is None
    for sink in (asking, answering, ended):
        sink.take()
    node.turn()
    told = (asking.take(), answering.take(), ended.take())
    assert told == ([], [("gone", host.uid)], [])


def test_a_client_that_does_not_read_loses_answers_and_hinders_nobody() -> None:
    node = Node()
    host, asking = node.consumer()
    answering = FakeSink(2)
    large = bytes(WAITING_BYTES_MAX + 1)
    for seq in (1, 2):
        host.publish(answering, chunk_of([large]), seq)
    node.turn()
    assert host.dropped_count == 1
    assert [told[0] for told in asking.take()] == ["delivers"]
    assert answering.take() == [("confirms", host.uid, 1), ("confirms", host.uid, 2)]
    host.command(asking, Settle(consumer_key(asking.session, 3), ACCEPT, [(1, 1)]))
    host.publish(answering, chunk_of([b"small"]), 3)
    node.turn()
    assert asking.take() == [("delivers", host.uid, 3, 2, 2, 1, False)]


def event(reply_tos: list[list[str | None]]) -> Publishes:
    """An event with a run for each list; bodies are numbers."""
    parts: list[bytes] = []
    firsts: list[int] = []
    infos: list[int] = []
    for run in reply_tos:
        firsts.append(len(parts))
        infos.append(0 if run[0] is None else INFO_REPLY_TO)
        for reply_to in run:
            properties = BasicProperties(reply_to=reply_to, message_id="m")
            parts.append(message(1, b"%d" % len(parts), properties=properties))
    keys = [b"key %d" % k for k in range(len(firsts))]
    return Publishes(1, b"".join(parts), table(parts, 0), firsts, keys, infos)


def seen(event: Publishes) -> list[tuple[str | None, bytes]]:
    """Reply-to and body of each message."""
    found = []
    for index in range(event.count):
        start, end = (
            int.from_bytes(event.offsets[at : at + 4], "little")
            for at in (4 * index, 4 * index + 4)
        )
        _, _, properties, body = extract(event.data, start, end)
        decoded = decode_properties(properties)
        assert decoded.message_id == "m"
        found.append((decoded.reply_to, body))
    return found


RUNS = st.lists(
    st.one_of(
        st.lists(st.sampled_from([REPLY_TO, "mine", REPLY_TO + ".x"]), min_size=1, max_size=3),
        st.lists(st.none(), min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=4,
)


@BOUNDED
@given(RUNS)
def test_requests_for_answers_get_the_name_and_nothing_else_changes(
    runs: list[list[str | None]],
) -> None:
    before = event(runs)
    after, complete = name_answers(before, b"the.name")
    assert complete
    assert after is not None
    assert (after.firsts, after.keys, after.infos) == (before.firsts, before.keys, before.infos)
    expected = [("the.name" if name == REPLY_TO else name, body) for name, body in seen(before)]
    assert seen(after) == expected


@BOUNDED
@given(RUNS)
def test_without_a_name_the_event_ends_before_the_first_request_for_answers(
    runs: list[list[str | None]],
) -> None:
    before = event(runs)
    names = [name for name, _ in seen(before)]
    after, complete = name_answers(before, None)
    count = names.index(REPLY_TO) if REPLY_TO in names else len(names)
    assert complete == (count == len(names))
    assert (after is None) == (count == 0)
    if after is not None:
        assert seen(after) == seen(before)[:count]
        length = len(after.firsts)
        assert (length, length) == (len(after.keys), len(after.infos))
        assert after.firsts == [first for first in before.firsts if first < count]


def test_only_the_default_exchange_leads_to_answers() -> None:
    assert is_answer("", f"{PREFIX}abc".encode())
    assert not is_answer("amq.direct", f"{PREFIX}abc".encode())
    assert not is_answer("", REPLY_TO.encode())


# In a cluster


def test_a_name_of_another_node_leads_to_what_that_node_knows_by_its_uid() -> None:
    there = Node(12)
    asked: list[tuple[int, int, str, str]] = []

    def elsewhere(member: int, uid: int, vhost: str, name: str) -> AnswerHost | None:
        asked.append((member, uid, vhost, name))
        return there.harness.of_uid(uid)

    here = Node(1, elsewhere)
    host, _ = there.consumer()
    assert host.name.endswith(".12")
    targets = here.harness.targets("/", host.name.encode())
    assert targets is not None
    assert targets.hosts == [host]
    assert asked == [(12, host.uid, "/", host.name)]
    assert not here.harness.is_here("/", host.name)


def test_names_that_are_none_lead_nowhere() -> None:
    asked: list[int] = []
    node = Node(1, lambda member, uid, vhost, name: asked.append(member))
    token = "A" * 22
    for rest in ("", token, f"{token}.", f"{token}.x", f"{token}.1", f"{token}.-2", "A.2", "ü.2"):
        assert node.harness.find("/", PREFIX + rest) is None
    assert node.harness.find("/", f"{PREFIX}{token}.{10**9}") is None
    assert asked == []
    assert node.harness.find("/", f"{PREFIX}{token}.2") is None
    assert asked == [2]


def test_whoever_asks_is_told_that_somebody_waits_here() -> None:
    node = Node()
    host, _ = node.consumer()
    asking = FakeSink(4)
    host.command(asking, Inspect(asking.session))
    assert asking.take() == []
    node.turn()
    assert asking.take() == [("inspected", host.uid, 0, 1)]
