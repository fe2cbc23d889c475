"""Damaged files of a log: queues that are hit are not served, all others are, and nothing is
hidden.
"""

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pika
import pika.exceptions
import pytest

from tests.conformance.broker import drain, numbered, publish_all, take
from tests.conformance.raw10 import DISPOSITION, FLOW, Raw10
from tests.waiting import eventually
from warren.storage.log_proof import LIST_OFFSETS, decode_end
from warren.storage.log_proof import NAME as PROOF
from warren.storage.record import HEADER, PUBLISH, RAFT_ENTRY, SETTLE, padded
from warren.testing import Node, NodeFailed
from warren.testing.http_api import HttpApi

BLOCK_BYTES: Final = 4096
FIRST_FILE: Final = "wal-00000000000000000001.log"
QUORUM: Final = {"x-queue-type": "quorum"}
LAZY: Final = {"x-queue-mode": "lazy"}
KINDS: Final[dict[str, dict[str, str]]] = {"classic": {}, "lazy": LAZY, "quorum": QUORUM}

pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture
def node() -> Iterator[Node]:
    settings = {"storage.wal_file_bytes": str(1024 * 1024)}
    with Node(name="damaged", settings=settings) as started:
        eventually(lambda: has_gone_over(started))
        yield started


def connect(node: Node) -> Any:
    return pika.BlockingConnection(pika.URLParameters(node.url))


def check(data_dir: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "node", "check-data", str(data_dir)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def records(path: Path) -> list[tuple[int, int, int, int]]:
    """(offset, length of the payload, owner, kind) of each record of a file."""
    content = path.read_bytes()
    epoch = struct.unpack_from("<I", content, 24)[0]
    found = []
    at = BLOCK_BYTES
    while at + HEADER.size <= len(content):
        fields = HEADER.unpack_from(content, at)
        if fields[2] != epoch:
            break
        found.append((at, fields[1], fields[4], fields[6]))
        at += padded(fields[1])
    return found


def logs(node: Node) -> list[Path]:
    return sorted(path for path in (node.data_dir / "log").glob("wal-*.log"))


def has_gone_over(node: Node) -> bool:
    """Whether the log went over from its first file to one that was prepared: there are this one
    and the next. Messages in a file that is left nearly empty would be rewritten soon.
    """
    return len([path for path in logs(node) if path.name != FIRST_FILE]) >= 2


def flip(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x20]))


def damage(node: Node, marker: bytes, kind: int = PUBLISH) -> tuple[Path, int]:
    """Flip a byte in the first record of that kind whose bytes have the marker."""
    for path in logs(node):
        content = path.read_bytes()
        for offset, length, _, its_kind in records(path):
            if its_kind == kind and marker in content[offset : offset + 40 + length]:
                flip(path, offset + 40 + length - 1)
                return path, offset
    raise AssertionError(f"no record of kind {kind} with {marker!r}")


def ask(node: Node, path: str, body: object = None) -> Any:
    """The answer of the HTTP API; (status, answer) if that is an error."""
    method = "GET" if body is None else "POST"
    status, answer = HttpApi(node.management_url).ask(method, path.removeprefix("/api"), body)
    return answer if status < 300 else (status, answer)


def declare(node: Node, **queues: dict[str, str]) -> None:
    """Durable queues with ten messages each."""
    channel = connect(node).channel()
    channel.confirm_delivery()
    for name, arguments in queues.items():
        channel.queue_declare(name, durable=True, arguments=arguments)
        bodies = [b"%s-%d." % (name.encode(), number) for number in range(10)]
        for body in bodies:
            channel.basic_publish("", name, body, pika.BasicProperties(delivery_mode=2))
    channel.connection.close()


def refusal(node: Node, call: Callable[[Any], object]) -> str:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        call(connect(node).channel())
    assert caught.value.reply_code == 404
    return str(caught.value.reply_text)


def refusal10(node: Node, queue: str) -> tuple[str, str]:
    """Why the queue refuses a message of AMQP 1.0: condition and reason."""
    with Raw10(node.host, node.port) as raw:
        raw.open()
        raw.begin()
        raw.attach_sender(f"/queues/{queue}")
        raw.expect(FLOW)
        raw.send(raw.transfer())
        error = raw.until(DISPOSITION).field(4).value[0].value
    reasons = [str(value) for key, value in error[2].items() if str(key) == "reason"]
    return str(error[0]), reasons[0]


def test_damaged_queues_are_not_served_and_the_others_are(node: Node) -> None:
    declare(node, well={}, **KINDS)
    node.kill9()
    places = {name: damage(node, b"%s-4." % name.encode()) for name in KINDS}
    node.start()
    for name, arguments in KINDS.items():
        path, offset = places[name]
        where = f"corrupt record in {path.name} at offset {offset}"
        crashed = f"NOT_FOUND - queue '{name}' in vhost '/' has crashed and failed to restart: "
        for call in calls(name, arguments):
            assert refusal(node, call) == crashed + where
        channel = connect(node).channel()
        channel.confirm_delivery()
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", name, b"refused")
        assert refusal10(node, name) == ("amqp:precondition-failed", "unavailable")
        queue = ask(node, f"/api/queues/%2F/{name}")
        assert (queue["state"], queue["reason"]) == ("crashed", where)
        assert node.log().count(f"{path} at offset {offset}") == 1
        assert f"queue '{name}' in vhost '/' is not served: {where}; `warrenctl" in node.log()
    assert drain(connect(node).channel(), "well") == [b"well-%d." % n for n in range(10)]
    status, failed = ask(node, "/api/health/checks/local-crashed-queues")
    assert (status, [queue["name"] for queue in failed["queues"]]) == (503, list(KINDS))
    assert ask(node, "/api/health/checks/virtual-hosts")[0] == 503
    corrupt = ask(node, "/api/nodes/damaged")["recovery"]["corrupt"]
    assert [(each["file"], each["offset"]) for each in corrupt] == [
        (str(path), offset) for path, offset in places.values()
    ]
    assert [each["queues"] for each in corrupt] == [[{"vhost": "/", "name": n}] for n in KINDS]


@dataclass(frozen=True, slots=True)
class Loss:
    """A way to lose the content of a log file, and what is said of the file then."""

    lose: Callable[[Path], object]
    reason: str


def zero(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))


def cut(path: Path) -> None:
    os.truncate(path, BLOCK_BYTES + 8)


LOSSES: Final = {
    "removed": Loss(os.unlink, "is missing"),
    "overwritten": Loss(zero, "has not the content that was written"),
    "truncated": Loss(cut, ""),
}


def logs_with_messages(node: Node) -> list[Path]:
    return [path for path in logs(node) if any(each[3] == PUBLISH for each in records(path))]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("how", LOSSES)
def test_a_lost_log_file_is_damage_until_the_loss_is_accepted(
    node: Node, how: str, kind: str
) -> None:
    declare(node, hit=KINDS[kind])
    with_messages = logs_with_messages(node)
    node.stop()
    node.start()  # What follows is in another file.
    declare(node, well={})
    node.stop()
    for path in with_messages:
        LOSSES[how].lose(path)
    checked = check(node.data_dir)
    assert (checked.returncode, "verdict: damaged" in checked.stdout) == (1, True)
    assert f"corrupt: {with_messages[-1]} {LOSSES[how].reason}" in checked.stdout
    assert "hits queue 'hit' in vhost '/'" in checked.stdout
    node.start()
    assert ask(node, "/api/queues/%2F/hit")["state"] == "crashed"
    places = ask(node, "/api/nodes/damaged")["recovery"]["corrupt"]
    assert {each["file"] for each in places} == set(map(str, with_messages))
    assert {each["reason"] for each in places} == {LOSSES[how].reason}
    channel = connect(node).channel()
    assert drain(channel, "well") == [b"well-%d." % number for number in range(10)]
    ask(node, "/api/queues/%2F/hit/actions", {"action": "accept_damage"})
    for restart in (node.kill9, node.stop):
        restart()
        node.start()
        assert ask(node, "/api/queues/%2F/hit")["state"] == "running"
    node.stop()
    checked = check(node.data_dir)
    assert (checked.returncode, "corrupt" in checked.stdout) == (0, False)


@pytest.mark.parametrize("how", LOSSES)
def test_a_lost_file_that_may_have_had_definitions_stops_the_start(node: Node, how: str) -> None:
    declare(node, hit={})
    node.stop()  # The definition is saved.
    before = set(logs_with_messages(node))
    node.start()
    declare(node, hit={})
    node.kill9()
    lost = sorted(set(logs_with_messages(node)) - before)
    for path in lost:
        LOSSES[how].lose(path)
    with pytest.raises(NodeFailed, match="code 1"):
        node.start()
    assert lost[-1].name in node.log()
    assert "storage.accept_lost_definitions" in node.log()
    bold = {"storage.accept_lost_definitions": "true"}
    with Node(name="damaged", data_dir=node.data_dir, settings=bold) as again:
        assert ask(again, "/api/queues/%2F/hit")["state"] == "crashed"
        ask(again, "/api/queues/%2F/hit/actions", {"action": "accept_damage"})
        again.stop()
    node.start()
    channel = connect(node).channel()
    assert drain(channel, "hit") == [b"hit-%d." % number for number in range(10)]


def calls(name: str, arguments: dict[str, str]) -> list[Callable[[Any], object]]:
    return [
        lambda channel: channel.queue_declare(name, passive=True),
        lambda channel: channel.queue_declare(name, durable=True, arguments=arguments),
        lambda channel: channel.basic_get(name),
        lambda channel: channel.queue_purge(name),
        lambda channel: channel.basic_consume(name, lambda *_: None),
    ]


def test_an_accepted_loss_is_served_and_does_not_stop_the_queue_again(node: Node) -> None:
    declare(node, **KINDS)
    node.kill9()
    for name in KINDS:
        damage(node, b"%s-4." % name.encode())
    node.start()
    publisher = connect(node).channel()
    publisher.confirm_delivery()
    for name in KINDS:
        with pytest.raises(pika.exceptions.NackError):
            publisher.basic_publish("", name, b"refused")
        action = {"action": "accept_damage"}
        assert ask(node, f"/api/queues/%2F/{name}/actions", action) is None
        assert ask(node, f"/api/queues/%2F/{name}/actions", action)[0] == 400
        publisher.basic_publish("", name, b"new", pika.BasicProperties(delivery_mode=2))
    for restart in (node.kill9, node.stop):
        restart()
        node.start()
        assert ask(node, "/api/health/checks/local-crashed-queues") == {"status": "ok"}
    channel = connect(node).channel()
    for name in KINDS:
        left = [f"{name}-{number}.".encode() for number in range(10) if number != 4]
        taken = [take(channel, name) for _ in range(10)]
        assert [message.body for message in taken] == [*left, b"new"]
        assert all(message.redelivered for message in taken[:9])


def test_an_end_that_was_torn_is_cut_and_told(node: Node) -> None:
    declare(node, q={})
    node.kill9()
    path = [path for path in logs(node) if records(path)][-1]
    offset, length, _, _ = records(path)[-1]
    flip(node.data_dir / PROOF, 0)  # As it is in the first second.
    flip(path, offset + 39 + length)  # Nothing behind it says that it was durable.
    node.start()
    assert f"the end of {path} is torn and was cut at offset {offset}" in node.log()
    torn = ask(node, "/api/nodes/damaged")["recovery"]["torn"]
    assert torn == {"file": str(path), "offset": offset}
    channel = connect(node).channel()
    assert drain(channel, "q")[:9] == [b"q-%d." % number for number in range(9)]


def test_zeros_over_an_end_that_was_proven_to_be_durable_are_damage(node: Node) -> None:
    declare(node, hit={})
    path = [path for path in logs(node) if records(path)][-1]
    offset, length, owner, kind = records(path)[-1]
    assert (kind, owner > 0) == (PUBLISH, True)
    eventually(lambda: proven_end(node) >= offset + padded(length))
    node.kill9()
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(bytes(padded(length)))
    checked = check(node.data_dir)
    assert checked.returncode == 1 and f"{path.name} at offset {offset}" in checked.stdout
    with pytest.raises(NodeFailed, match="code 1"):
        node.start()
    assert f"{path} at offset {offset}" in node.log()
    accept_lost_definitions(node)
    node.start()
    assert ask(node, "/api/queues/%2F/hit")["state"] == "crashed"


def test_whole_directory_of_the_log_lost_is_damage(node: Node) -> None:
    declare(node, hit={})
    node.stop()  # The definition is saved.
    node.start()
    node.kill9()
    shutil.rmtree(node.data_dir / "log")
    checked = check(node.data_dir)
    assert checked.returncode == 1 and "hits queue 'hit' in vhost '/'" in checked.stdout
    with pytest.raises(NodeFailed, match="code 1"):
        node.start()
    assert "is missing" in node.log()
    accept_lost_definitions(node)
    node.start()
    assert ask(node, "/api/queues/%2F/hit")["state"] == "crashed"
    ask(node, "/api/queues/%2F/hit/actions", {"action": "accept_damage"})
    declare(node, hit={}, new={})
    node.stop()
    node.start()
    channel = connect(node).channel()
    for name in (b"hit", b"new"):
        assert drain(channel, name.decode()) == [name + b"-%d." % number for number in range(10)]


def proven_end(node: Node) -> int:
    return decode_end((node.data_dir / PROOF).read_bytes()[: LIST_OFFSETS[0]])[2]


def accept_lost_definitions(node: Node) -> None:
    """Start a node on the same data that accepts what is lost, and stop it."""
    bold = {"storage.accept_lost_definitions": "true"}
    with Node(name="damaged", data_dir=node.data_dir, settings=bold) as again:
        again.stop()


def test_a_damaged_queue_can_be_deleted_and_made_anew(node: Node) -> None:
    declare(node, hit={}, other=QUORUM)
    node.kill9()
    damage(node, b"hit-4.")
    damage(node, b"other-4.")
    node.start()
    channel = connect(node).channel()
    channel.queue_delete("hit", if_unused=True)
    channel.queue_delete("other")
    assert ask(node, "/api/health/checks/local-crashed-queues") == {"status": "ok"}
    declare(node, hit={}, other=QUORUM)
    node.kill9()
    node.start()
    channel = connect(node).channel()
    for name in (b"hit", b"other"):
        assert drain(channel, name.decode()) == [name + b"-%d." % number for number in range(10)]


def test_a_lost_settlement_brings_the_message_back_as_redelivered(node: Node) -> None:
    channel = connect(node).channel()
    channel.queue_declare("q", durable=True)
    publish_all(channel, "q", numbered(3), persistent=True)
    channel.basic_ack(take(channel, "q").delivery_tag)
    publish_all(channel, "q", [b"3"], persistent=True)  # The settlement goes with it.
    node.kill9()
    damage(node, b"", SETTLE)
    node.start()
    channel = connect(node).channel()
    first = take(channel, "q")
    assert (first.body, first.redelivered) == (numbered(3)[0], True)
    assert ask(node, "/api/queues/%2F/q")["state"] == "running"


def test_a_damaged_entry_of_a_quorum_queue_hits_that_queue_alone(node: Node) -> None:
    declare(node, well=QUORUM, hit=QUORUM)
    node.kill9()
    written = [(path, *found) for path in logs(node) for found in records(path)]
    owner = max(found[3] for found in written if found[4] == PUBLISH)
    entries = [found for found in written if found[3] == owner and found[4] == RAFT_ENTRY]
    flip(entries[3][0], entries[3][1] + 50)
    node.start()
    assert ask(node, "/api/queues/%2F/hit")["state"] == "crashed"
    channel = connect(node).channel()
    assert drain(channel, "well") == [b"well-%d." % number for number in range(10)]
    ask(node, "/api/queues/%2F/hit/actions", {"action": "accept_damage"})
    node.kill9()
    node.start()
    channel = connect(node).channel()
    assert drain(channel, "hit") == [b"hit-%d." % number for number in range(10)]


def test_a_node_with_damaged_definitions_refuses_to_start_until_that_is_accepted(
    node: Node,
) -> None:
    declare(node, before={}, hit={}, behind={})
    node.kill9()
    path, offset = damage(node, b"hit", RAFT_ENTRY)
    with pytest.raises(NodeFailed, match="code 1"):
        node.start()
    assert f"{path} at offset {offset}" in node.log()
    assert "storage.accept_lost_definitions" in node.log()
    assert "Traceback" not in node.log()
    bold = {"storage.accept_lost_definitions": "true"}
    with Node(name="damaged", data_dir=node.data_dir, settings=bold) as again:
        assert "defined before that" in again.log()
        declare(again, behind={})
        again.stop()
    node.start()
    channel = connect(node).channel()
    for name in (b"before", b"behind"):
        assert drain(channel, name.decode()) == [name + b"-%d." % number for number in range(10)]


def test_after_kill_9_what_was_seen_is_redelivered_and_what_is_new_is_not(node: Node) -> None:
    declare(node, **KINDS)
    channel = connect(node).channel()
    assert [take(channel, name).redelivered for name in KINDS] == [False] * len(KINDS)
    node.kill9()
    node.start()
    channel = connect(node).channel()
    for name in KINDS:
        publish_all(channel, name, [b"new"], persistent=True)
        taken = [take(channel, name) for _ in range(11)]
        assert taken[0].redelivered is True
        assert (taken[10].body, taken[10].redelivered) == (b"new", False)


LARGE: Final = b"." * 100_000  # 32 MB of entries are a snapshot
FILLED: Final = 345


def publish_to_stream(node: Node, first: int, count: int) -> None:
    connection = connect(node)
    channel = connection.channel()
    channel.confirm_delivery()
    for number in range(first, first + count):
        channel.basic_publish("", "s", b"s-%d." % number + LARGE)
    connection.close()


def read_stream(node: Node, last: int) -> list[int]:
    """Offsets of all messages up to that one."""
    connection = connect(node)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=50)
    found: list[int] = []
    arguments = {"x-stream-offset": "first"}
    for method, properties, body in channel.consume(
        "s", inactivity_timeout=30, arguments=arguments
    ):
        assert method is not None, f"nothing comes behind {found[-1:]}"
        channel.basic_ack(method.delivery_tag)
        found.append(properties.headers["x-stream-offset"])
        assert body.startswith(b"s-%d." % found[-1])
        if found[-1] == last:
            break
    connection.close()
    return found


@pytest.mark.parametrize("how", ["segment", "log"])
def test_a_damaged_stream_is_served_with_what_is_whole_once_accepted(node: Node, how: str) -> None:
    """A segment that is cut short is lost alone; of a damaged log, all behind the snapshot is."""
    arguments = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 5_000_000}
    connect(node).channel().queue_declare("s", durable=True, arguments=arguments)
    publish_to_stream(node, 0, FILLED)
    members = "/api/queues/quorum/%2F/s/status"
    eventually(lambda: ask(node, members)[0]["Snapshot Index"] > 100)
    node.kill9()
    kept = list(range(FILLED))
    if how == "segment":
        paths = sorted((node.data_dir / "streams").glob("*.data"))
        first, following = (int(each.stem.rpartition("-")[2]) for each in paths[1:3])
        os.truncate(paths[1], paths[1].stat().st_size - 10)
        kept = [each for each in kept if not first <= each < following]
    else:
        damage(node, b"s-%d." % (FILLED - 1), RAFT_ENTRY)
    node.start()
    text = refusal(node, lambda channel: channel.queue_declare("s", passive=True))
    assert "has crashed and failed to restart" in text
    assert ask(node, "/api/queues/%2F/s")["state"] == "crashed"
    assert ask(node, "/api/queues/%2F/s/actions", {"action": "accept_damage"}) is None
    node.kill9()  # What was answered holds.
    node.start()
    assert ask(node, "/api/health/checks/local-crashed-queues") == {"status": "ok"}
    eventually(lambda: ask(node, members)[0]["Raft State"] == "leader")
    if how == "log":
        end = ask(node, members)[0]["Stream Next Offset"]
        assert 300 < end < FILLED
        kept = list(range(end))
    assert read_stream(node, kept[-1]) == kept
    publish_to_stream(node, kept[-1] + 1, 5)
    for restart in (node.kill9, node.stop):
        restart()
        node.start()
        assert ask(node, "/api/health/checks/local-crashed-queues") == {"status": "ok"}
        assert read_stream(node, kept[-1] + 5) == [*kept, *range(kept[-1] + 1, kept[-1] + 6)]
