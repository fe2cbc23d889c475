"""What clients send: one frozen class per command, and `decode_request`.

request = decode_request(frame)    # StreamProtocolError: malformed, or an unknown command
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, final

from warren.wire.streams.codes import RESPONSE_BIT, Code, Command, StreamProtocolError
from warren.wire.streams.reading import FieldReader

FIRST: Final = 1
LAST: Final = 2
NEXT: Final = 3
OFFSET: Final = 4
TIMESTAMP: Final = 5
NO_OFFSET_SPEC: Final = 0  # in the answer to ConsumerUpdate


@dataclass(frozen=True, slots=True)
class Offset:
    """Where a subscription begins; `value` is an offset, or milliseconds since 1970."""

    kind: int
    value: int = 0


@dataclass(frozen=True, slots=True)
class DeclarePublisher:
    correlation: int
    publisher: int
    reference: str  # empty: messages are not deduplicated
    stream: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A message, or a batch of them with one publishing id."""

    publishing_id: int
    data: bytes
    filter_value: str = ""
    batch_count: int = 0  # 0: a single message
    compression: int = 0
    uncompressed_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Publish:
    publisher: int
    entries: list[Entry]


@dataclass(frozen=True, slots=True)
class QueryPublisherSequence:
    correlation: int
    reference: str
    stream: str


@dataclass(frozen=True, slots=True)
class DeletePublisher:
    correlation: int
    publisher: int


@dataclass(frozen=True, slots=True)
class Subscribe:
    correlation: int
    subscription: int
    stream: str
    offset: Offset
    credit: int
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Credit:
    subscription: int
    credit: int


@dataclass(frozen=True, slots=True)
class StoreOffset:
    reference: str
    stream: str
    offset: int


@dataclass(frozen=True, slots=True)
class QueryOffset:
    correlation: int
    reference: str
    stream: str


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    correlation: int
    subscription: int


@dataclass(frozen=True, slots=True)
class Create:
    correlation: int
    stream: str
    arguments: dict[str, str]


@dataclass(frozen=True, slots=True)
class Delete:
    correlation: int
    stream: str


@dataclass(frozen=True, slots=True)
class Metadata:
    correlation: int
    streams: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PeerProperties:
    correlation: int
    properties: dict[str, str]


@dataclass(frozen=True, slots=True)
class SaslHandshake:
    correlation: int


@dataclass(frozen=True, slots=True)
class SaslAuthenticate:
    correlation: int
    mechanism: str
    response: bytes


@dataclass(frozen=True, slots=True)
class Tune:
    frame_max: int
    heartbeat_s: int


@dataclass(frozen=True, slots=True)
class Open:
    correlation: int
    vhost: str


@dataclass(frozen=True, slots=True)
class Close:
    correlation: int
    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class CloseAnswered:
    correlation: int


@final
class Heartbeat:
    """Has no fields."""


@dataclass(frozen=True, slots=True)
class Route:
    correlation: int
    routing_key: str
    super_stream: str


@dataclass(frozen=True, slots=True)
class Partitions:
    correlation: int
    super_stream: str


@dataclass(frozen=True, slots=True)
class ConsumerUpdated:
    """The client's answer to ConsumerUpdate: where its subscription begins."""

    correlation: int
    code: int
    offset: Offset


@dataclass(frozen=True, slots=True)
class ExchangeCommandVersions:
    correlation: int
    versions: dict[int, tuple[int, int]]  # lowest and highest by key


@dataclass(frozen=True, slots=True)
class StreamStats:
    correlation: int
    stream: str


@dataclass(frozen=True, slots=True)
class CreateSuperStream:
    correlation: int
    name: str
    partitions: tuple[str, ...]
    binding_keys: tuple[str, ...]
    arguments: dict[str, str]


@dataclass(frozen=True, slots=True)
class DeleteSuperStream:
    correlation: int
    name: str


Request = (
    DeclarePublisher
    | Publish
    | QueryPublisherSequence
    | DeletePublisher
    | Subscribe
    | Credit
    | StoreOffset
    | QueryOffset
    | Unsubscribe
    | Create
    | Delete
    | Metadata
    | PeerProperties
    | SaslHandshake
    | SaslAuthenticate
    | Tune
    | Open
    | Close
    | CloseAnswered
    | Heartbeat
    | Route
    | Partitions
    | ConsumerUpdated
    | ExchangeCommandVersions
    | StreamStats
    | CreateSuperStream
    | DeleteSuperStream
)


def decode_request(frame: bytes) -> Request:
    """Decode a frame without its size field."""
    fields = FieldReader(frame)
    key, version = fields.u16(), fields.u16()
    highest = HIGHEST_VERSIONS.get(key & ~RESPONSE_BIT, 1)
    if not 1 <= version <= highest:
        text = f"version {version} of command {key}; allowed: 1 to {highest}"
        raise StreamProtocolError(Code.UNKNOWN_FRAME, text)
    if key == Command.PUBLISH:
        return _publish(fields, version)
    decode = DECODERS.get(key)
    if decode is None:
        raise StreamProtocolError(Code.UNKNOWN_FRAME, f"unknown command {key:#06x}")
    request = decode(fields)
    if not fields.is_at_end:
        surplus = len(frame) - int(fields.place)
        text = f"{surplus} bytes too many in command {key:#06x}"
        raise StreamProtocolError(Code.UNKNOWN_FRAME, text)
    return request


def _publish(fields: FieldReader, version: int) -> Publish:
    publisher = fields.u8()
    count = fields.count(12)
    entries = [_entry(fields, version) for _ in range(count)]
    if not fields.is_at_end:
        raise StreamProtocolError(Code.UNKNOWN_FRAME, "bytes behind the messages of a Publish")
    return Publish(publisher, entries)


def _entry(fields: FieldReader, version: int) -> Entry:
    publishing_id = fields.u64()
    value = fields.string() if version == 2 else ""
    kind = fields.u8()
    if kind & 0x80 == 0:
        size = kind << 24 | fields.u8() << 16 | fields.u16()
        return Entry(publishing_id, fields.raw(size), value)
    count, uncompressed, size = fields.u16(), fields.u32(), fields.u32()
    return Entry(publishing_id, fields.raw(size), value, count, kind >> 4 & 7, uncompressed)


def _offset(fields: FieldReader) -> Offset:
    kind = fields.u16()
    if not FIRST <= kind <= TIMESTAMP:
        raise StreamProtocolError(Code.UNKNOWN_FRAME, f"offset type {kind}; allowed: 1 to 5")
    if kind == OFFSET:
        return Offset(kind, fields.u64())
    return Offset(kind, fields.i64() if kind == TIMESTAMP else 0)


def _declare_publisher(fields: FieldReader) -> Request:
    return DeclarePublisher(fields.u32(), fields.u8(), fields.string(), fields.string())


def _subscribe(fields: FieldReader) -> Request:
    correlation, subscription, stream = fields.u32(), fields.u8(), fields.string()
    offset, credit = _offset(fields), fields.u16()
    properties = {} if fields.is_at_end else fields.pairs()
    return Subscribe(correlation, subscription, stream, offset, credit, properties)


def _store_offset(fields: FieldReader) -> Request:
    return StoreOffset(fields.string(), fields.string(), fields.u64())


def _query_offset(fields: FieldReader) -> Request:
    return QueryOffset(fields.u32(), fields.string(), fields.string())


def _query_publisher(fields: FieldReader) -> Request:
    return QueryPublisherSequence(fields.u32(), fields.string(), fields.string())


def _authenticate(fields: FieldReader) -> Request:
    correlation, mechanism = fields.u32(), fields.string()
    return SaslAuthenticate(correlation, mechanism, b"" if fields.is_at_end else fields.bytes32())


def _close_answered(fields: FieldReader) -> Request:
    correlation = fields.u32()
    fields.u16()
    return CloseAnswered(correlation)


def _consumer_updated(fields: FieldReader) -> Request:
    correlation, code = fields.u32(), fields.u16()
    kind = 0 if fields.is_at_end else fields.u16()
    if kind > TIMESTAMP:
        raise StreamProtocolError(Code.UNKNOWN_FRAME, f"offset type {kind}; allowed: 0 to 5")
    # Some clients send a value with every type.
    value = 0 if fields.is_at_end else fields.i64()
    return ConsumerUpdated(correlation, code, Offset(kind, value))


def _versions(fields: FieldReader) -> Request:
    correlation = fields.u32()
    found: dict[int, tuple[int, int]] = {}
    for _ in range(fields.count(6)):
        key = fields.u16()
        found[key] = (fields.u16(), fields.u16())
    return ExchangeCommandVersions(correlation, found)


def _create_super_stream(fields: FieldReader) -> Request:
    return CreateSuperStream(
        fields.u32(), fields.string(), fields.strings(), fields.strings(), fields.pairs()
    )


def _tune(fields: FieldReader) -> Request:
    return Tune(fields.u32(), fields.u32())


DECODERS: Final[dict[int, Callable[[FieldReader], Request]]] = {
    int(Command.DECLARE_PUBLISHER): _declare_publisher,
    int(Command.QUERY_PUBLISHER_SEQUENCE): _query_publisher,
    int(Command.DELETE_PUBLISHER): lambda each: DeletePublisher(each.u32(), each.u8()),
    int(Command.SUBSCRIBE): _subscribe,
    int(Command.CREDIT): lambda each: Credit(each.u8(), each.u16()),
    int(Command.STORE_OFFSET): _store_offset,
    int(Command.QUERY_OFFSET): _query_offset,
    int(Command.UNSUBSCRIBE): lambda each: Unsubscribe(each.u32(), each.u8()),
    int(Command.CREATE): lambda each: Create(each.u32(), each.string(), each.pairs()),
    int(Command.DELETE): lambda each: Delete(each.u32(), each.string()),
    int(Command.METADATA): lambda each: Metadata(each.u32(), each.strings()),
    int(Command.PEER_PROPERTIES): lambda each: PeerProperties(each.u32(), each.pairs()),
    int(Command.SASL_HANDSHAKE): lambda each: SaslHandshake(each.u32()),
    int(Command.SASL_AUTHENTICATE): _authenticate,
    int(Command.TUNE): _tune,
    int(Command.TUNE) | RESPONSE_BIT: _tune,  # clients answer in either form
    int(Command.OPEN): lambda each: Open(each.u32(), each.string()),
    int(Command.CLOSE): lambda each: Close(each.u32(), each.u16(), each.string()),
    int(Command.CLOSE) | RESPONSE_BIT: _close_answered,
    int(Command.HEARTBEAT): lambda _: Heartbeat(),
    int(Command.ROUTE): lambda each: Route(each.u32(), each.string(), each.string()),
    int(Command.PARTITIONS): lambda each: Partitions(each.u32(), each.string()),
    int(Command.CONSUMER_UPDATE) | RESPONSE_BIT: _consumer_updated,
    int(Command.EXCHANGE_COMMAND_VERSIONS): _versions,
    int(Command.STREAM_STATS): lambda each: StreamStats(each.u32(), each.string()),
    int(Command.CREATE_SUPER_STREAM): _create_super_stream,
    int(Command.DELETE_SUPER_STREAM): lambda each: DeleteSuperStream(each.u32(), each.string()),
}
HIGHEST_VERSIONS: Final[dict[int, int]] = {int(Command.PUBLISH): 2, int(Command.DELIVER): 2}
