"""Frames and messages of AMQP 1.0 as clients send them, for the tests of the wire floor."""

from hypothesis import settings
from hypothesis import strategies as st

from warren.wire.amqp10.codec.performatives import (
    Composite,
    Header,
    Properties,
    Transfer,
    read_performative,
)
from warren.wire.amqp10.codec.reader import Reader
from warren.wire.amqp10.codec.values import Described, Symbol, UInt, ULong
from warren.wire.amqp10.codec.writer import encode_value

BOUNDED = settings(max_examples=30, deadline=None, database=None)

HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS = 0x70, 0x71, 0x72
PROPERTIES, APPLICATION_PROPERTIES = 0x73, 0x74
DATA, SEQUENCE, VALUE, FOOTER = 0x75, 0x76, 0x77, 0x78


def frame(body: bytes, channel: int = 0, kind: int = 0) -> bytes:
    head = (8 + len(body)).to_bytes(4, "big") + bytes((2, kind)) + channel.to_bytes(2, "big")
    return head + body


def section(code: int, value: object) -> bytes:
    return encode_value(Described(ULong(code), value))


def message(body: bytes = b"hello world!", durable: bool = True) -> bytes:
    """Header and one data section."""
    return Header(durable=durable).encoded() + section(DATA, body)


def transfer(
    payload: bytes,
    delivery_id: int,
    handle: int = 0,
    channel: int = 0,
    settled: bool = False,
    tag: bytes | None = None,
    more: bool = False,
) -> bytes:
    """A whole frame, its transfer in the smallest form."""
    performative = Transfer(
        handle=handle,
        delivery_id=delivery_id,
        delivery_tag=b"%d" % delivery_id if tag is None else tag,
        message_format=0,
        settled=settled,
        more=more,
    )
    return frame(performative.encoded() + payload, channel)


def bgen_transfer(payload: bytes, delivery_id: int, handle: int = 0) -> bytes:
    """As the load generator repeats it: fixed widths, a tag of four bytes."""
    fields = b"\x52" + bytes([handle]) + b"\x70" + delivery_id.to_bytes(4, "big")
    fields += b"\xa0\x04" + delivery_id.to_bytes(4, "little") + b"\x43\x42"
    return frame(b"\x00\x53\x14\xc0" + bytes((len(fields) + 1, 5)) + fields + payload)


def wide_transfer(payload: bytes, delivery_id: int, handle: int = 0) -> bytes:
    """A list of 32 bits with every field, as some clients write it."""
    fields = b"\x70" + handle.to_bytes(4, "big") + b"\x70" + delivery_id.to_bytes(4, "big")
    fields += b"\xa0\x08" + delivery_id.to_bytes(8, "big") + b"\x43\x42\x42\x40\x40\x42\x42\x41"
    size = (len(fields) + 4).to_bytes(4, "big")
    return frame(b"\x00\x53\x14\xd0" + size + b"\x00\x00\x00\x0b" + fields + payload)


def performative_of(data: bytes) -> tuple[Composite, bytes]:
    """What a frame carries: its performative, and the payload behind it."""
    reader = Reader(data, 8, len(data))
    return read_performative(reader), data[reader.pos :]


def frames_of(stream: bytes) -> list[bytes]:
    found = []
    while stream:
        size = int.from_bytes(stream[:4], "big")
        found.append(stream[:size])
        stream = stream[size:]
    return found


symbols = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=8).map(Symbol)
maps = st.dictionaries(symbols, st.integers(0, 9) | st.text(max_size=9), max_size=3)
headers = st.builds(
    Header,
    durable=st.none() | st.booleans(),
    priority=st.none() | st.integers(0, 255),
    ttl=st.none() | st.integers(0, 0xFFFFFFFF),
    first_acquirer=st.none() | st.booleans(),
    delivery_count=st.none() | st.integers(0, 9),
)
property_lists = st.builds(
    Properties,
    message_id=st.none() | st.text(max_size=9) | st.binary(max_size=9),
    user_id=st.none() | st.binary(max_size=9),
    to=st.none() | st.text(max_size=9),
    reply_to=st.none() | st.text(max_size=9),
    content_type=st.none() | st.just("text/plain"),
    absolute_expiry_time=st.none() | st.integers(0, 1 << 40),
    group_sequence=st.none() | st.integers(0, 0xFFFFFFFF),
)
bodies = (
    st.lists(st.binary(max_size=300).map(lambda body: section(DATA, body)), max_size=3).map(
        b"".join
    )
    | st.lists(st.just(section(SEQUENCE, [1, "a"])), max_size=2).map(b"".join)
    | st.sampled_from([section(VALUE, None), section(VALUE, {"a": [UInt(1)]})])
)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Any message: sections that may be absent, in their order."""
    parts = [
        draw(st.just(b"") | headers.map(lambda header: header.encoded())),
        draw(st.just(b"") | maps.map(lambda found: section(DELIVERY_ANNOTATIONS, found))),
        draw(st.just(b"") | maps.map(lambda found: section(MESSAGE_ANNOTATIONS, found))),
        draw(st.just(b"") | property_lists.map(lambda properties: properties.encoded())),
        draw(st.just(b"") | maps.map(lambda found: section(APPLICATION_PROPERTIES, found))),
        draw(bodies),
        draw(st.just(b"") | maps.map(lambda found: section(FOOTER, found))),
    ]
    return b"".join(parts)
