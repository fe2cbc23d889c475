"""The time at which the broker took a message, as header and as annotation."""

import struct
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from queues.addresses.account import Account, Entry, Gate
from queues.addresses.limits import AddressLimits
from queues.conversion.annotated import annotated_with_ingress
from queues.conversion.ingress_times import KEY, IngressTimes
from queues.message import FORMAT_091, FORMAT_10, Chunk
from queues.sessions.counts import Counts
from queues.sessions.publishing import Publisher, Targets
from tests.unit.queues.fake_queue import FakeQueue
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.messages import bodies_of, event_of
from warren.client.message import Message, decode_message
from warren.wire.amqp091.deliver import build, extract
from warren.wire.amqp091.properties import BasicProperties, decode_properties
from warren.wire.amqp10.transfers import payload_at, store

NOW_MS = 1_800_000_000_123
BASE = 7
MESSAGES_10 = st.builds(
    Message,
    st.binary(max_size=40),
    durable=st.booleans(),
    message_id=st.sampled_from([None, "m", "n"]),
    annotations=st.dictionaries(st.sampled_from(["x-a", KEY]), st.integers(0, 9), max_size=2),
)
HEADERS = st.dictionaries(st.sampled_from(["a", KEY, "x-b"]), st.integers(0, 9), max_size=3)
MESSAGES_091 = st.tuples(
    st.builds(
        BasicProperties,
        content_type=st.sampled_from([None, "text/plain"]),
        headers=st.none() | HEADERS,
        expiration=st.sampled_from([None, "5000"]),
    ),
    st.binary(max_size=40),
)


def chunk_of(form: int, frames: list[bytes], names: bytes = b"") -> Chunk:
    places = [BASE, *accumulate(map(len, frames), initial=BASE)][1:]
    return Chunk(form, b"".join(frames), BASE, struct.pack(f"<{len(places)}I", *places), 1, names)


def stamped(chunk: Chunk, times: list[int] | None = None) -> list[bytes]:
    clock = iter(times or [NOW_MS])
    stamps = IngressTimes(lambda: next(clock), annotated_with_ingress)
    made = stamps.stamp(chunk)
    assert (made.format_tag, made.info, made.names) == (chunk.format_tag, chunk.info, chunk.names)
    return bodies_of(made)


@given(st.lists(MESSAGES_10, min_size=1, max_size=6))
def test_each_message_of_amqp_1_0_gets_the_annotation_and_keeps_the_rest(
    messages: list[Message],
) -> None:
    frames = stamped(chunk_of(FORMAT_10, [store(each.encode()) for each in messages], b"\x00\x01q"))
    assert len(frames) == len(messages)
    for frame, sent in zip(frames, messages, strict=True):
        assert int.from_bytes(frame[:4], "big") == len(frame)
        found = decode_message(frame, int(payload_at(frame, 0)), len(frame))
        assert found.annotations.pop(KEY) == NOW_MS
        sent.annotations.pop(KEY, None)
        assert found.annotations == sent.annotations
        assert (found.body, found.message_id) == (sent.body, sent.message_id)
        assert found.durable == sent.durable


@given(st.lists(MESSAGES_091, min_size=1, max_size=6))
def test_each_message_of_amqp_0_9_1_gets_the_header_and_keeps_the_rest(
    messages: list[tuple[BasicProperties, bytes]],
) -> None:
    made = [build("ex", b"key", each.encode(), body) for each, body in messages]
    for frame, (properties, body) in zip(
        stamped(chunk_of(FORMAT_091, made)), messages, strict=True
    ):
        exchange, key, encoded, found_body = extract(frame, 0, len(frame))
        found = decode_properties(encoded)
        assert found.headers is not None
        assert found.headers == {**(properties.headers or {}), KEY: NOW_MS}
        assert (exchange, key, found_body) == ("ex", b"key", body)
        assert (found.content_type, found.expiration) == (
            properties.content_type,
            properties.expiration,
        )


def test_messages_that_begin_alike_get_the_time_of_their_own_chunk() -> None:
    stamps = IngressTimes(iter([NOW_MS, NOW_MS, NOW_MS + 1]).__next__, annotated_with_ingress)
    chunk = chunk_of(FORMAT_10, [store(Message(b"a").encode())])
    found = []
    for _ in range(3):
        frame = bodies_of(stamps.stamp(chunk))[0]
        message = decode_message(frame, int(payload_at(frame, 0)), len(frame))
        found.append(message.annotations[KEY])
    assert found == [NOW_MS, NOW_MS, NOW_MS + 1]


def test_a_message_whose_headers_are_malformed_stays_as_it_is() -> None:
    properties = BasicProperties(headers={"a": 1}).encode()
    frame = build("", b"q", properties.replace(b"\x01a", b"\xffa"), b"body")
    assert stamped(chunk_of(FORMAT_091, [frame])) == [frame]


def test_an_address_counts_messages_with_their_time_and_hands_down_those_that_fit() -> None:
    body = build("", b"q", BasicProperties().encode(), b"body")
    [longer] = stamped(chunk_of(FORMAT_091, [body]))
    held: list[int] = []
    account = Account(
        *(1, "/", "queue", "q1"),
        AddressLimits(count_max=2, policy="FAIL", stamps=True),
        lambda: (sum(held), len(held)),
        lambda: 0,
    )
    stamps = IngressTimes(lambda: NOW_MS, annotated_with_ingress)
    gate = Gate([Entry(account, 0, frozenset({1}))], stamps.stamp)
    publisher, queue = Publisher(FakeSink(), Counts()), FakeQueue(1)
    publisher.confirming = True
    publisher.publish(event_of([(b"q", True, [body] * 3)]), [Targets([queue], gate)])
    assert queue.bodies == [longer] * 2
    assert (account.pending_bytes, account.pending_count) == (2 * len(longer), 2)
    publisher.on_confirms(1, 2)
    assert (account.pending_bytes, account.pending_count) == (0, 0)
    assert publisher.take_confirms() == [(2, True, True), (3, False, False)]
