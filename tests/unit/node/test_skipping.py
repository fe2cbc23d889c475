"""Messages that no disk gives back: which they are, and what was written together with them."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from node.operations import body_access, peeking
from node.operations.peeking import Peeking
from node.operations.skipping import file_of, isolate
from queues.machine.commands import ACCEPT, Attach, consumer_key
from tests.unit.node.test_peeking import Site, message, publish
from tests.unit.queues.classic_harness import Harness


def is_refused(site: Site, seq: int) -> bool:
    host = site.queues.hosts.awake[5]
    return asyncio.run(Peeking(site).is_refused(host, seq))


def test_a_message_is_refused_if_the_disk_fails_each_time() -> None:
    harness = Harness(budget_bytes=0)
    publish(harness, "a", "b")
    site = Site(harness)
    site.bodies.failures = peeking.TRIES - 1
    assert not is_refused(site, 1)
    site.bodies.failures = peeking.TRIES
    assert is_refused(site, 2)
    assert site.bodies.lengths[-1] == len(message("b")), "it is read alone"
    assert not is_refused(site, 2)


def test_who_is_in_memory_or_not_ready_or_only_slow_is_not_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = Harness()
    publish(harness, "a")
    site = Site(harness)
    site.bodies.failures = 100
    assert not is_refused(site, 1)
    harness = Harness(budget_bytes=0)
    publish(harness, "a")
    site = Site(harness)
    site.bodies.failures = 100
    assert not is_refused(site, 7)
    monkeypatch.setattr(body_access, "READ_S", 0.001)
    monkeypatch.setattr(site.bodies, "read", silent)
    assert not is_refused(site, 1)


def silent(
    file_id: int, offset: int, length: int, done: Callable[[bytes | Exception], None]
) -> None:
    """A disk that hangs."""


def settle(harness: Harness, seqs: list[int]) -> None:
    """They are taken, and done with."""
    key = consumer_key(harness.sink.session, 1)
    harness.host.command(harness.sink, Attach(key, 1000, False, False, 0))
    harness.turn()
    harness.settle(1, ACCEPT, [(seq, 1) for seq in seqs])
    harness.turn()
    harness.sync()


@pytest.mark.parametrize("seed", range(30))
def test_what_was_written_with_the_dead_is_read_without_their_bytes(seed: int) -> None:
    random = Random(seed)
    harness = Harness(budget_bytes=0)
    bodies = [b"%d" % number * random.randint(1, 9) for number in range(random.randint(2, 12))]
    harness.publish([b"before"])
    harness.publish(bodies)
    harness.publish([b"behind"])
    harness.turn()
    harness.sync()
    host = harness.host
    bad = sorted(random.sample(range(2, 2 + len(bodies)), random.randint(1, len(bodies))))
    chunk = host.core.store.find(2).chunk
    file = harness.node.log.files[int(chunk.file_id)]
    at = int(chunk.file_offset)
    spans = [(at + int(chunk.bytes_between(0, seq - 2)), len(bodies[seq - 2])) for seq in bad]
    if len(bad) < len(bodies):
        assert file_of(host.core, bad[0]) == chunk.file_id
    settle(harness, bad)
    isolate(host.core, bad)
    assert harness.node.loads == []
    host.core.store.tidy()
    read: list[tuple[int, int]] = []
    expected = {1: b"before", 2 + len(bodies): b"behind"}
    expected.update({2 + n: body for n, body in enumerate(bodies) if 2 + n not in bad})
    for seq, body in expected.items():
        host.view(harness.sink, seq, 1)
        for _, each in harness.node.loads:
            read.append((int(each.file_offset), int(each.file_offset + each.size())))
        assert body in harness.body(seq)
    for begin, length in spans:
        assert not any(start < begin + length and begin < end for start, end in read)
    assert len(file) > 0
    for seq in expected:  # The log may move each run of what is alive, and no more than that.
        slot = host.core.store.find_live(seq)
        assert slot is not None and slot.first <= seq < slot.first + slot.count
        assert not set(bad) & set(range(slot.first, slot.first + slot.count))
