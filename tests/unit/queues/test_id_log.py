"""Ids of duplicate detection in the log: what is written when, and what a restart makes of it."""

from struct import iter_unpack

from queues.hosts.classic import ClassicHost
from queues.hosts.id_log import IDS_OWNER, ROW, queue_of_ids
from queues.hosts.message_digests import DUPLICATE_IDS, digest_of
from queues.machine.address_settings import AddressSettings
from queues.machine.commands import ACCEPT
from queues.machine.known_ids import NO_ID
from queues.machine.options import Options
from queues.message import FORMAT_091, Chunk
from tests.unit.queues.classic_harness import Harness
from tests.unit.queues.messages import table
from warren.wire.amqp091.deliver import build
from warren.wire.amqp091.events import INFO_PERSISTENT
from warren.wire.amqp091.properties import BasicProperties

UID = 5


def harness_with(limit: int) -> Harness:
    harness = Harness()
    harness.host.configure(Options(address=AddressSettings(id_cache_size=limit)), 0, None)
    harness.turn()
    harness.node.log.take()
    return harness


def messages(*ids: str | None, persistent: bool = True) -> Chunk:
    bodies = []
    for each in ids:
        headers: dict[str, object] = {} if each is None else {"_AMQ_DUPL_ID": each}
        bodies.append(build("", b"q", BasicProperties(headers=headers).encode(), b"body"))
    info = INFO_PERSISTENT if persistent else 0
    return Chunk(FORMAT_091, b"".join(bodies), 0, table(bodies, 0), info)


def publish(harness: Harness, chunk: Chunk) -> None:
    harness.host.publish(harness.sink, chunk, harness.next_seq)
    harness.next_seq += int(chunk.count())
    harness.turn()


def logged(record: tuple[object, ...]) -> list[tuple[int, bytes]]:
    kind, owner, _, content = record
    assert (kind, owner) == ("entry", IDS_OWNER + UID)
    assert isinstance(content, bytes)
    return list(iter_unpack(ROW.format, content))


def digest(text: str) -> bytes:
    chunk = messages(text)
    assert chunk.data is not None
    return digest_of(chunk, chunk.data, 0, DUPLICATE_IDS)


def test_owner_of_ids_says_whose_they_are() -> None:
    assert queue_of_ids(IDS_OWNER + UID) == UID
    assert [queue_of_ids(owner) for owner in (0, 2, UID, IDS_OWNER)] == [0] * 4


def test_ids_that_are_remembered_are_written_behind_their_messages() -> None:
    harness = harness_with(10)
    publish(harness, messages("a", None, "b", "a"))
    publish(harness, messages("b", "c"))
    records = harness.node.log.take()
    assert [record[0] for record in records] == ["publish", "entry", "settle"] * 2
    assert logged(records[1]) == [(1, digest("a")), (3, digest("b"))]
    assert logged(records[4]) == [(6, digest("c"))]


def test_ids_of_messages_that_are_in_no_log_are_not_written() -> None:
    harness = harness_with(10)
    publish(harness, messages("a", persistent=False))
    assert harness.node.log.take() == []


def test_entry_is_released_once_all_of_its_ids_are_forgotten() -> None:
    harness = harness_with(3)
    released = harness.node.log.released_entries
    publish(harness, messages("a", "b"))
    publish(harness, messages("c", "d"))
    assert released == {}  # "b" is still known.
    publish(harness, messages("e"))
    assert released == {IDS_OWNER + UID: 1}
    harness.host.delete()
    assert released == {IDS_OWNER + UID: 3}


def test_queue_that_remembers_ids_no_more_releases_them() -> None:
    harness = harness_with(3)
    publish(harness, messages("a"))
    harness.host.configure(Options(), 0, None)
    harness.turn()
    assert harness.node.log.released_entries == {IDS_OWNER + UID: 1}
    harness.host.configure(Options(address=AddressSettings(id_cache_size=3)), 0, None)
    harness.node.log.take()
    publish(harness, messages("b"))
    assert [record[2] for record in harness.node.log.take() if record[0] == "entry"] == [2]


def restarted(harness: Harness, limit: int) -> Harness:
    again = harness_with(limit)
    entries = [record for record in harness.node.log.take() if record[0] == "entry"]
    for _, _, index, content in entries:
        assert isinstance(index, int) and isinstance(content, bytes)
        again.host.ids_found(index, content)
    again.host.recovered(0, 0, 0)
    return again


def left_of(host: ClassicHost) -> int:
    return int(host.core.machine.length())


def test_ids_of_the_log_are_known_after_a_restart() -> None:
    harness = harness_with(10)
    publish(harness, messages("a"))
    publish(harness, messages("b", "c"))
    again = restarted(harness, 2)
    publish(again, messages("b", "c", "a"))
    assert left_of(again.host) == 1
    again.attach(1, 10)
    again.turn()
    again.settle(1, ACCEPT, [(3, 1)])
    again.turn()
    assert left_of(again.host) == 0


def test_ids_that_a_crash_has_kept_from_the_log_are_read_from_the_messages() -> None:
    harness = harness_with(10)
    publish(harness, messages("a", "b"))
    again = restarted(harness, 10)
    assert again.host.first_unread() == 0  # It has no message.
    publish(again, messages("c"))
    again.host.core.machine.known_ids = None  # As if the entry of "c" had not been written.
    again.host.configure(Options(address=AddressSettings(id_cache_size=9)), 0, None)
    again.turn()
    again.node.log.take()
    assert again.host.first_unread() == 2 + 1
    again.host.digests_found([(1, NO_ID, digest("c"), 0)])
    again.turn()
    assert logged(again.node.log.take()[0]) == [(1, digest("c"))]
    publish(again, messages("c"))
    assert left_of(again.host) == 1


def test_ids_are_kept_while_the_policy_that_asks_for_them_is_not_known() -> None:
    harness = harness_with(10)
    publish(harness, messages("a", "b"))
    again = Harness()
    for record in harness.node.log.take():
        if record[0] == "entry":
            _, _, index, content = record
            assert isinstance(index, int) and isinstance(content, bytes)
            again.host.ids_found(index, content)
    again.host.recovered(0, 0, 0)
    for limit in (10, 0, 10):  # The definitions are applied as the log has them.
        again.host.configure(Options(address=AddressSettings(id_cache_size=limit)), 0, None)
    again.turn()
    publish(again, messages("a", "b", "c"))
    assert left_of(again.host) == 1
    assert again.node.log.released_entries == {}
