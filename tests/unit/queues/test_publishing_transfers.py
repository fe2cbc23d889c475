"""Publishing by AMQP 1.0: runs of transfers become chunks, and each message is decided once."""

from itertools import accumulate
from random import Random

import pytest

from queues.machine.traits import ABSENT, traits_of
from queues.message import FORMAT_10
from queues.sessions.counts import Counts
from queues.sessions.publishing import Publisher, Targets
from tests.unit.queues.fake_queue import FakeQueue
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.messages import bodies_of
from warren.wire.amqp10.codec.descriptors import DATA
from warren.wire.amqp10.codec.performatives import Header
from warren.wire.amqp10.codec.values import Described, ULong
from warren.wire.amqp10.codec.writer import encode_value
from warren.wire.amqp10.transfers import Transfers, store

NAMES = b"\x02ex\x03key"
DURABLE, TTL = 1, 4


def stored(body: bytes, **header: object) -> bytes:
    """A message in stored form 2."""
    sections = Header(**header).encoded() if header else b""  # type: ignore[arg-type]
    return store(sections + encode_value(Described(ULong(DATA), body)))


def transfers(messages: list[bytes], firsts: list[int], infos: list[int]) -> Transfers:
    table = [0, *accumulate(map(len, messages))]
    offsets = b"".join(place.to_bytes(4, "little") for place in table)
    return Transfers(1, 0, 0, False, 0, b"".join(messages), offsets, firsts, infos)


class Link:
    """A publisher with two queues, and who decided what."""

    def __init__(self) -> None:
        self.publisher = Publisher(FakeSink(), Counts())
        self.queues = {uid: FakeQueue(uid) for uid in (1, 2)}
        self.decided: dict[int, int] = {}  # tag -> who refused it, or 0

    def publish(self, messages: list[bytes], infos: list[int], uids: tuple[int, ...]) -> None:
        targets = Targets([self.queues[uid] for uid in uids])
        event = transfers(messages, list(range(len(infos))), infos)
        self.publisher.publish_transfers(event, targets, NAMES)

    def take(self) -> None:
        last = 0
        for each in self.publisher.take_outcomes():
            assert last < each.first <= each.last
            last = int(each.last)
            for tag in range(each.first, each.last + 1):
                assert tag not in self.decided
                self.decided[tag] = int(each.refused_by)


def test_what_is_durable_and_what_is_not_are_chunks_of_their_own() -> None:
    link = Link()
    messages = [stored(b"a%d" % number) for number in range(4)]
    link.publish(messages, [DURABLE, DURABLE | TTL, 0, DURABLE], (1,))
    chunks = link.queues[1].chunks
    assert [bodies_of(chunk) for chunk in chunks] == [messages[:2], messages[2:3], messages[3:]]
    assert [int(chunk.info) for chunk in chunks] == [DURABLE | TTL, 0, DURABLE]
    assert {(int(chunk.format_tag), chunk.names) for chunk in chunks} == {(FORMAT_10, NAMES)}


def test_a_message_is_accepted_when_all_its_queues_have_it() -> None:
    link = Link()
    link.publish([stored(b"a"), stored(b"b")], [DURABLE, DURABLE], (1, 2))
    assert not link.publisher.on_confirms(1, 2)
    link.take()
    assert link.decided == {}
    assert link.publisher.on_confirms(2, 2)
    link.take()
    assert link.decided == {1: 0, 2: 0}
    assert link.publisher.all_decided()


def test_a_later_run_may_be_decided_first_and_refusals_name_their_queue() -> None:
    link = Link()
    link.publish([stored(b"a")], [0], (1,))
    link.publish([stored(b"b"), stored(b"c"), stored(b"d")], [0, 0, 0], (2,))
    link.publisher.on_refused(2, 2, 1)
    assert link.publisher.on_confirms(2, 3)
    link.take()
    assert link.decided == {2: 0, 3: 2, 4: 0}
    assert not link.publisher.all_decided()
    assert link.publisher.on_gone(1)
    link.take()
    assert link.decided == {1: 0, 2: 0, 3: 2, 4: 0}
    assert link.publisher.all_decided()


@pytest.mark.parametrize("seed", range(30))
def test_every_message_is_decided_once_whatever_the_queues_do(seed: int) -> None:
    chance = Random(seed)
    link = Link()
    expected: dict[int, int] = {}
    tags: dict[int, list[int]] = {1: [], 2: []}
    confirmed = {1: 0, 2: 0}
    tag = 0
    for _ in range(60):
        uids = chance.choice([(1,), (2,), (1, 2)])
        count = chance.randint(1, 5)
        infos = [chance.choice([0, DURABLE]) for _ in range(count)]
        link.publish([stored(b"%d" % place) for place in range(count)], infos, uids)
        for _ in range(count):
            tag += 1
            expected[tag] = 0
            for uid in uids:
                tags[uid].append(tag)
        uid = chance.choice([1, 2])
        upto = chance.randint(confirmed[uid], len(tags[uid]))
        if upto > confirmed[uid]:
            if chance.random() < 0.3:
                link.publisher.on_refused(uid, upto, 1)
                expected[tags[uid][upto - 1]] = 1
            link.publisher.on_confirms(uid, upto)
            confirmed[uid] = upto
        if chance.random() < 0.5:
            link.take()
    for uid in (1, 2):
        link.publisher.on_confirms(uid, len(tags[uid]))
    link.take()
    assert {each: min(by, 1) for each, by in link.decided.items()} == expected
    assert link.publisher.all_decided()
    assert link.publisher.in_flight_bytes == 0


def test_traits_are_read_from_the_header_of_each_message() -> None:
    link = Link()
    messages = [
        stored(b"one", priority=7),
        stored(b"three", ttl=250, durable=True),
        stored(b""),
    ]
    link.publish(messages, [32, 4, 0], (1,))
    [chunk] = link.queues[1].chunks
    traits = traits_of(chunk, True)
    assert [traits.priority_of(place) for place in range(3)] == [7, ABSENT, ABSENT]
    assert [traits.ttl_of(place) for place in range(3)] == [ABSENT, 250, ABSENT]
    assert [traits.size_of(place) for place in range(3)] == [8, 10, 5]  # With the section's head.
