"""What a broker sends: each function returns one whole frame, with its size field."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from warren.wire.streams.codes import RESPONSE_BIT, Code, Command
from warren.wire.streams.requests import HIGHEST_VERSIONS

VERSION: Final = 1
NO_LEADER: Final = 0xFFFF  # a leader that is not known


def text(value: str) -> bytes:
    """A string with a length of two bytes, cut to what fits."""
    raw = value.encode("utf-8", "replace")[:0x7FFF]
    return len(raw).to_bytes(2, "big") + raw


def texts(values: Sequence[str]) -> bytes:
    return len(values).to_bytes(4, "big") + b"".join([text(each) for each in values])


def _pairs(values: Mapping[str, str]) -> bytes:
    items = [text(key) + text(value) for key, value in values.items()]
    return len(items).to_bytes(4, "big") + b"".join(items)


def frame(key: int, *fields: bytes, version: int = VERSION) -> bytes:
    """A frame of the key, the version and the fields."""
    body = b"".join(fields)
    head = (len(body) + 4).to_bytes(4, "big") + key.to_bytes(2, "big")
    return head + version.to_bytes(2, "big") + body


def response(command: Command, correlation: int, code: Code = Code.OK, rest: bytes = b"") -> bytes:
    """The answer to a request with a correlation id."""
    head = correlation.to_bytes(4, "big") + code.to_bytes(2, "big")
    return frame(command | RESPONSE_BIT, head, rest)


def publish_confirm(publisher: int, ids: Sequence[int]) -> bytes:
    body = [publisher.to_bytes(1, "big"), len(ids).to_bytes(4, "big")]
    return frame(Command.PUBLISH_CONFIRM, *body, *[each.to_bytes(8, "big") for each in ids])


def publish_error(publisher: int, ids: Sequence[int], code: Code) -> bytes:
    body = [publisher.to_bytes(1, "big"), len(ids).to_bytes(4, "big")]
    end = code.to_bytes(2, "big")
    return frame(Command.PUBLISH_ERROR, *body, *[each.to_bytes(8, "big") + end for each in ids])


def deliver(subscription: int, chunk: bytes, committed: int | None = None) -> bytes:
    """A chunk for a subscription; `committed`, the offset of the last chunk, makes it version 2."""
    number = subscription.to_bytes(1, "big")
    if committed is None:
        return frame(Command.DELIVER, number, chunk)
    return frame(Command.DELIVER, number, committed.to_bytes(8, "big"), chunk, version=2)


def credit_refused(subscription: int, code: Code) -> bytes:
    """The answer to credit for a subscription that there is not."""
    key = Command.CREDIT | RESPONSE_BIT
    return frame(key, code.to_bytes(2, "big"), subscription.to_bytes(1, "big"))


def numbered(command: Command, correlation: int, number: int, code: Code = Code.OK) -> bytes:
    """The answer with an offset or a publishing id."""
    return response(command, correlation, code, number.to_bytes(8, "big"))


def named(command: Command, correlation: int, names: Sequence[str]) -> bytes:
    """The answer with names of streams or of SASL mechanisms."""
    return response(command, correlation, Code.OK, texts(names))


def with_properties(command: Command, correlation: int, values: Mapping[str, str]) -> bytes:
    """The answer with keys and values."""
    return response(command, correlation, Code.OK, _pairs(values))


def sasl_challenge(correlation: int, challenge: bytes) -> bytes:
    rest = len(challenge).to_bytes(4, "big") + challenge
    return response(Command.SASL_AUTHENTICATE, correlation, Code.SASL_CHALLENGE, rest)


def tune(frame_max: int, heartbeat_s: int) -> bytes:
    return frame(Command.TUNE, frame_max.to_bytes(4, "big"), heartbeat_s.to_bytes(4, "big"))


def heartbeat() -> bytes:
    return frame(Command.HEARTBEAT)


def close(correlation: int, code: Code, reason: str) -> bytes:
    fields = correlation.to_bytes(4, "big") + code.to_bytes(2, "big")
    return frame(Command.CLOSE, fields, text(reason))


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """Where a stream is: numbers of brokers."""

    stream: str
    code: Code
    leader: int = NO_LEADER
    replicas: tuple[int, ...] = ()


def metadata(
    correlation: int, brokers: Sequence[tuple[str, int]], places: Sequence[StreamPlace]
) -> bytes:
    """Brokers (host, port), numbered from 0, and where streams are."""
    parts = [correlation.to_bytes(4, "big"), len(brokers).to_bytes(4, "big")]
    for number, (host, port) in enumerate(brokers):
        parts.append(number.to_bytes(2, "big") + text(host) + port.to_bytes(4, "big"))
    parts.append(len(places).to_bytes(4, "big"))
    for each in places:
        parts.append(text(each.stream) + each.code.to_bytes(2, "big"))
        parts.append(each.leader.to_bytes(2, "big") + len(each.replicas).to_bytes(4, "big"))
        parts.append(b"".join([one.to_bytes(2, "big") for one in each.replicas]))
    return frame(Command.METADATA | RESPONSE_BIT, *parts)


def metadata_update(stream: str, code: Code) -> bytes:
    """Tell a client that a stream is gone."""
    return frame(Command.METADATA_UPDATE, code.to_bytes(2, "big"), text(stream))


def consumer_update(correlation: int, subscription: int, is_active: bool) -> bytes:
    fields = correlation.to_bytes(4, "big") + subscription.to_bytes(1, "big")
    return frame(Command.CONSUMER_UPDATE, fields, int(is_active).to_bytes(1, "big"))


def command_versions(correlation: int, commands: Sequence[Command]) -> bytes:
    """The commands that the broker knows, with their lowest and highest version."""
    items = [
        each.to_bytes(2, "big") + b"\0\1" + HIGHEST_VERSIONS.get(each, 1).to_bytes(2, "big")
        for each in commands
    ]
    rest = len(items).to_bytes(4, "big") + b"".join(items)
    return response(Command.EXCHANGE_COMMAND_VERSIONS, correlation, Code.OK, rest)


def stream_stats(correlation: int, values: Mapping[str, int]) -> bytes:
    items = [text(key) + value.to_bytes(8, "big", signed=True) for key, value in values.items()]
    rest = len(items).to_bytes(4, "big") + b"".join(items)
    return response(Command.STREAM_STATS, correlation, Code.OK, rest)
