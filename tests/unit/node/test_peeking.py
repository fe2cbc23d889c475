"""Messages are looked at where they are: positions, bodies on disk, and a queue that stays as it
was."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from node.cluster.services.cluster_services import Operating
from node.operations import peeking
from node.operations.message_filter import MessageFilter
from node.operations.peeking import Peeked, Peeking, ready_from
from queues.bodies.store import BodyBudget
from queues.definitions.metadata.machine import Metadata
from queues.hosts.queue_core import QueueCore
from queues.machine.commands import RELEASE, Attach, consumer_key
from queues.machine.effects import ACQUIRED_SHIFT
from queues.machine.ready import Ready
from tests.unit.queues.classic_harness import Harness
from warren.wire.amqp091.deliver import build
from warren.wire.amqp091.properties import BasicProperties


class Bodies:
    """The files of a fake log. The first `failures` reads fail."""

    def __init__(self, files: dict[int, bytearray]) -> None:
        self.lengths: list[int] = []
        self.failures = 0
        self.before: Callable[[], None] | None = None  # done before each read
        self._files = files

    def read(
        self, file_id: int, offset: int, length: int, done: Callable[[bytes | Exception], None]
    ) -> None:
        self.lengths.append(length)
        if self.before is not None:
            self.before()
        if self.failures:
            self.failures -= 1
            done(OSError("a bad place"))
        else:
            done(bytes(self._files[file_id][offset : offset + length]))


@dataclass
class Hosts:
    awake: dict[int, QueueCore] = field(default_factory=dict)


@dataclass
class Queues:
    hosts: Hosts


class Site:
    """A broker with one queue. Keeps `node.operations.peeking.Site`."""

    def __init__(self, harness: Harness) -> None:
        self.queues = Queues(Hosts({5: harness.host.core}))
        self.metadata = Metadata()
        self.budget: BodyBudget = harness.node.budget
        self.bodies = Bodies(harness.node.log.files)
        self.operating: Operating  # Asked where other nodes may lead the queue.


def message(text: str, **properties: Any) -> bytes:
    return build("x", b"key", BasicProperties(**properties).encode(), text.encode())


def publish(harness: Harness, *texts: str, persistent: bool = True, **properties: Any) -> None:
    harness.publish([message(text, **properties) for text in texts], persistent)
    harness.turn()
    harness.sync()


def peek(site: Site, offset: int, count: int, payload_bytes: int = 1 << 20) -> list[Peeked]:
    async def run() -> list[Peeked]:
        found = Peeking(site).messages(5, offset, count, payload_bytes)
        return [each async for each in found]

    return asyncio.run(run())


def payloads(site: Site, offset: int = 0, count: int = 100) -> list[bytes]:
    return [each.payload for each in peek(site, offset, count)]


def test_messages_are_found_by_their_place_and_told_in_full() -> None:
    harness = Harness()
    publish(harness, "a", "b", "c", message_id="m", headers={"n": 1})
    site = Site(harness)
    assert payloads(site) == [b"a", b"b", b"c"]
    assert payloads(site, 1, 1) == [b"b"]
    assert payloads(site, 3, 5) == []
    (found,) = peek(site, 2, 7)
    assert (found.position, found.exchange, found.routing_key) == (2, "x", b"key")
    assert (found.redelivered, found.failures, found.is_readable) == (False, 0, True)
    assert found.properties == BasicProperties(message_id="m", headers={"n": 1}).encode()
    (cut,) = peek(site, 0, 1, payload_bytes=0)
    assert (cut.payload, cut.payload_bytes) == (b"", 1)


def test_a_queue_at_rest_has_nothing_to_be_looked_at() -> None:
    site = Site(Harness())
    assert payloads(site) == []
    site.queues.hosts.awake.clear()
    assert payloads(site) == []


def test_what_a_consumer_holds_has_no_place_and_what_came_back_is_told_as_such() -> None:
    harness = Harness()
    publish(harness, "a", "b", "c")
    key = consumer_key(harness.sink.session, 1)
    harness.host.command(harness.sink, Attach(key, 2, False, False, 0))
    harness.turn()
    site = Site(harness)
    assert payloads(site) == [b"c"]
    harness.settle(1, RELEASE, [(1, 1)])
    harness.turn()
    (first, _) = peek(site, 0, 5)
    assert (first.payload, first.redelivered, first.failures) == (b"a", True, 0)
    harness.settle(1, RELEASE, [(2, 1)])
    harness.turn()
    harness.host.core.machine.attempts.put(
        2, 3 << ACQUIRED_SHIFT | 1
    )  # As a queue that counts has it.
    assert [(each.payload, each.failures) for each in peek(site, 0, 5)][1] == (b"b", 1)


def test_nothing_of_the_queue_changes() -> None:
    harness = Harness()
    publish(harness, "a", "b")
    machine = harness.host.core.machine
    before = (machine.ready.runs(), machine.delivered_high, machine.redelivered.count)
    assert payloads(Site(harness)) == [b"a", b"b"]
    assert (machine.ready.runs(), machine.delivered_high, machine.redelivered.count) == before
    assert (int(harness.host.core.delivered_count), int(harness.host.core.got_count)) == (0, 0)
    assert harness.turn() == [] and harness.node.loads == []


def test_higher_priorities_come_first_each_in_its_order() -> None:
    harness = Harness()
    host = harness.host
    host.core.machine.ready = Ready(5)
    host.core.machine.ready.add(11, 2, 0)
    host.core.machine.ready.add(20, 1, 3)
    host.core.machine.ready.add(13, 2, 3)
    host.core.machine.ready.add(30, 1, 0)
    order = [13, 14, 20, 11, 12, 30]
    for offset in range(7):
        for count in range(1, 8):
            found = asyncio.run(ready_from(host.core, offset, count))
            assert found == order[offset : offset + count]


def test_a_far_place_among_scattered_messages_is_found_in_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peeking, "RUNS", 3)
    harness = Harness()
    seqs = [seq for seq in range(1, 60) if seq % 5]
    for seq in seqs:
        harness.host.core.machine.ready.add(seq, 1, 0)
    for offset in (0, 1, 11, 12, 30, 47, 48):
        assert asyncio.run(ready_from(harness.host.core, offset, 4)) == seqs[offset : offset + 4]


def test_a_body_on_disk_is_read_alone_and_stays_there() -> None:
    harness = Harness(budget_bytes=0)
    publish(harness, "first", "second", "third")
    site = Site(harness)
    slot = harness.host.core.store.find(2)
    assert slot.chunk.data is None
    (found,) = peek(site, 1, 1)
    assert found.payload == b"second"
    assert site.bodies.lengths == [len(message("second"))]
    assert slot.chunk.data is None and int(harness.node.budget.used_bytes) == 0
    assert harness.node.loads == []


def test_a_body_that_cannot_be_read_is_tried_again_and_then_told_as_such() -> None:
    harness = Harness(budget_bytes=0)
    publish(harness, "a", "b")
    site = Site(harness)
    site.bodies.failures = peeking.TRIES - 1
    assert payloads(site, 0, 1) == [b"a"]
    site.bodies.failures = peeking.TRIES
    first, second = peek(site, 0, 2)
    assert (first.is_readable, first.payload) == (False, b"")
    assert (second.is_readable, second.payload, second.position) == (True, b"b", 1)


def test_what_leaves_while_it_is_read_gives_its_place_to_the_next() -> None:
    harness = Harness(budget_bytes=0)
    publish(harness, "a", "b", "c")
    site = Site(harness)
    site.bodies.failures = 1

    def consume() -> None:
        site.bodies.before = None
        harness.attach(1, credit=1)
        harness.turn()

    site.bodies.before = consume
    found = peek(site, 0, 2)
    assert [(each.position, each.payload) for each in found] == [(0, b"b")]


def test_an_answer_has_no_more_bytes_than_its_limit_but_one_message_at_least(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peeking, "ANSWER_BYTES", 10)
    harness = Harness()
    publish(harness, "x" * 6, "y" * 60, "z", headers=None)
    site = Site(harness)
    assert payloads(site) == [b"x" * 6, b"y" * 60]
    assert payloads(site, 1) == [b"y" * 60]
    assert payloads(site, 2) == [b"z"]


# Filters


def test_a_filter_that_says_nothing_means_every_message() -> None:
    assert MessageFilter().matches("x", b"k", BasicProperties())


def test_all_that_a_filter_says_must_be_so() -> None:
    headers = {"n": 1, "on": True, "raw": b"bytes", "x-first-death-queue": "work"}
    properties = BasicProperties(headers={**headers, "x-first-death-reason": "maxlen"}, type="t")

    def means(**wanted: Any) -> bool:
        return MessageFilter(**wanted).matches("x", b"k", properties)

    assert means(exchange="x", routing_key=b"k", death_queue="work", death_reason="maxlen")
    assert means(headers={"n": 1, "on": True, "raw": "bytes"}, properties={"type": "t"})
    for wrong in (
        {"exchange": ""},
        {"routing_key": b""},
        {"death_queue": "other"},
        {"death_reason": "rejected"},
        {"headers": {"n": True}},
        {"headers": {"on": 1}},
        {"headers": {"none": None, "n": 2}},
        {"properties": {"type": "t", "app_id": "a"}},
    ):
        assert not means(**wrong), wrong
    assert not MessageFilter(death_queue="work").matches("x", b"k", BasicProperties())
