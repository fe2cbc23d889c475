"""What each command of the stream protocol does, for a connection whose login is done or under way.

`COMMANDS` and `COMMANDS_BEFORE_OPEN` say what may be asked when. Every request is answered under
its correlation id, at once or, if it changes definitions or asks the stream's leader, later.
"""

from collections.abc import Callable, Mapping
from typing import Final

from node.auth.permissions import READ, WRITE, vhost_refusal
from node.definitions.definition_changes import queue_declaration, queue_deletion
from node.streams.connection import StreamConnection
from node.streams.lookup import advertised, log_refusal, stream_of
from node.streams.metadata import answer_metadata
from node.streams.publish_frames import PublishRun
from node.streams.publisher import expanded
from node.streams.single_active import SingleActive
from node.streams.subscription import Subscription
from node.streams.super_streams import (
    create_super_stream,
    delete_super_stream,
    partition_of,
    partitions_of,
    route_to,
)
from queues.definitions.metadata.outcomes import Exists, Outcome, Refused
from queues.definitions.queue_arguments import STREAM
from queues.streams.filtering import parse_filter
from queues.streams.groups import NO_PARTITION
from queues.streams.offsets import OFFSET_MAX, OffsetSpec, Start
from queues.streams.tracking import BATCH
from warren.wire.errors import ProtocolError, ReplyCode
from warren.wire.stream import codes
from warren.wire.stream.frames import Answer, BadFrame, Fields, FrameWriter

REFERENCE_BYTES_MAX: Final = 255
SINGLE: Final = "single-active-consumer"  # properties of a subscription
SUPER: Final = "super-stream"
STARTS: Final[Mapping[int, Start]] = {
    codes.OFFSET_FIRST: Start.FIRST,
    codes.OFFSET_LAST: Start.LAST,
    codes.OFFSET_NEXT: Start.NEXT,
    codes.OFFSET_OFFSET: Start.OFFSET,
    codes.OFFSET_TIMESTAMP: Start.TIMESTAMP,
}
Command = Callable[[StreamConnection, Fields], None]


def answer(endpoint: StreamConnection, fields: Fields, correlation: int, code: int) -> None:
    endpoint.send(Answer(fields.key, correlation, code))


# Before a vhost is open


def _peer_properties(endpoint: StreamConnection, fields: Fields) -> None:
    correlation = fields.u32()
    endpoint.client_properties = fields.pairs()
    known = endpoint.broker.server_properties
    told = {key: value for key, value in known.items() if isinstance(value, str)}
    told["implementation"] = told.get("product", "")
    told["product"] = "RabbitMQ"  # Clients go by this name and the version.
    endpoint.send(Answer(fields.key, correlation, codes.OK).pairs(told))


def _sasl_handshake(endpoint: StreamConnection, fields: Fields) -> None:
    correlation = fields.u32()
    endpoint.send(Answer(fields.key, correlation, codes.OK).strings(endpoint.mechanisms))


def _sasl_authenticate(endpoint: StreamConnection, fields: Fields) -> None:
    correlation, mechanism = fields.u32(), fields.string()
    if endpoint.user and not endpoint.is_open:
        raise BadFrame("the client has logged in already")
    response = b"" if fields.is_at_end else fields.blob()
    if mechanism not in endpoint.mechanisms:
        answer(endpoint, fields, correlation, codes.SASL_MECHANISM_NOT_SUPPORTED)
        endpoint.close_when_sent()
        return
    endpoint.begin_login(correlation, mechanism, response)


def _tune(endpoint: StreamConnection, fields: Fields) -> None:
    endpoint.tuned(fields.u32(), fields.u32())


def _open(endpoint: StreamConnection, fields: Fields) -> None:
    correlation, vhost = fields.u32(), fields.string()
    broker = endpoint.broker
    if not endpoint.user:
        raise BadFrame("the client has not logged in: it cannot open a vhost")
    known, is_standby = broker.definitions.has_vhost(vhost), broker.definitions.is_standby(vhost)
    refusal = vhost_refusal(endpoint.access, endpoint.user, vhost, known, is_standby)
    refusal = refusal or broker.client_limits.connection_refusal(endpoint.user, vhost)
    if refusal is not None:
        answer(endpoint, fields, correlation, codes.VHOST_ACCESS_FAILURE)
        endpoint.fail(codes.VHOST_ACCESS_FAILURE, refusal.text)
        return
    endpoint.opened(vhost)
    host, port = advertised(endpoint)
    told = {"advertised_host": host, "advertised_port": str(port)}
    endpoint.send(Answer(fields.key, correlation, codes.OK).pairs(told))


def _close(endpoint: StreamConnection, fields: Fields) -> None:
    correlation = fields.u32()
    if fields.is_response:
        return
    answer(endpoint, fields, correlation, codes.OK)
    endpoint.close_when_sent()


def _heartbeat(endpoint: StreamConnection, fields: Fields) -> None:
    """That it came is all that it says."""


def _exchange_versions(endpoint: StreamConnection, fields: Fields) -> None:
    correlation = fields.u32()
    for _ in range(fields.count()):
        key, _, highest = fields.u16(), fields.u16(), fields.u16()
        if key == codes.DELIVER and highest >= codes.VERSION_2:
            endpoint.deliver_version = codes.VERSION_2
    told = Answer(fields.key, correlation, codes.OK).u32(len(codes.VERSIONS))
    for key, lowest, highest in codes.VERSIONS:
        told.u16(key).u16(lowest).u16(highest)
    endpoint.send(told)


# Streams


def code_of(error: ProtocolError | Refused) -> int:
    """The answer that comes nearest to an error of AMQP."""
    if error.code in (ReplyCode.ACCESS_REFUSED, ReplyCode.RESOURCE_LOCKED):
        return codes.ACCESS_REFUSED
    if error.code == ReplyCode.NOT_FOUND:
        return codes.STREAM_DOES_NOT_EXIST
    if error.code == ReplyCode.INTERNAL_ERROR:
        return codes.INTERNAL_ERROR
    return codes.PRECONDITION_FAILED


def _create(endpoint: StreamConnection, fields: Fields) -> None:
    correlation, name = fields.u32(), fields.string()
    arguments = stream_arguments(fields.pairs())

    def done(outcome: Outcome) -> None:
        code = codes.OK
        if isinstance(outcome, Refused):
            code = code_of(outcome)
            log_refusal(endpoint, outcome.text)
        elif isinstance(outcome, Exists):
            code = codes.STREAM_EXISTS
        answer(endpoint, fields, correlation, code)

    if isinstance(arguments, str) or not name:
        log_refusal(endpoint, arguments if isinstance(arguments, str) else "a stream has a name")
        answer(endpoint, fields, correlation, codes.PRECONDITION_FAILED)
        return
    if endpoint.broker.definitions.queue(endpoint.vhost, name) is not None:
        answer(endpoint, fields, correlation, codes.STREAM_EXISTS)
        return
    try:
        command = queue_declaration(
            endpoint,
            name,
            durable=True,
            exclusive=False,
            auto_delete=False,
            arguments=arguments,
        )
    except ProtocolError as error:
        answer(endpoint, fields, correlation, code_of(error))
        return
    endpoint.broker.definitions.propose(command, done, endpoint.author())


NUMBERS: Final[Mapping[str, str]] = {
    "max-length-bytes": "x-max-length-bytes",
    "stream-max-segment-size-bytes": "x-stream-max-segment-size-bytes",
    "initial-cluster-size": "x-initial-cluster-size",
    "stream-filter-size-bytes": "x-stream-filter-size-bytes",
    "stream-local-max-bytes": "x-stream-local-max-bytes",
}
FLAGS: Final[Mapping[str, str]] = {"stream-offload": "x-stream-offload"}
TEXTS: Final[Mapping[str, str]] = {
    "max-age": "x-max-age",
    "queue-leader-locator": "x-queue-leader-locator",
}


def stream_arguments(told: Mapping[str, str]) -> dict[str, object] | str:
    """Arguments of Create as those of queue.declare, or what is wrong with them."""
    found: dict[str, object] = {"x-queue-type": STREAM}
    for key, value in told.items():
        if key in TEXTS:
            found[TEXTS[key]] = value
        elif key in NUMBERS and value.isascii() and value.isdigit():
            found[NUMBERS[key]] = int(value)
        elif key in NUMBERS:
            return f"argument '{key}': {value!r} is no number"
        elif key in FLAGS and value in ("true", "false"):
            found[FLAGS[key]] = value == "true"
        elif key in FLAGS:
            return f"argument '{key}': {value!r} is neither true nor false"
        else:
            allowed = ", ".join(sorted({*TEXTS, *NUMBERS, *FLAGS}))
            return f"unknown argument '{key}'; allowed: {allowed}"
    return found


def _delete(endpoint: StreamConnection, fields: Fields) -> None:
    correlation, name = fields.u32(), fields.string()
    host = stream_of(endpoint, name)
    if host is None:
        answer(endpoint, fields, correlation, codes.STREAM_DOES_NOT_EXIST)
        return
    try:
        command = queue_deletion(endpoint, name)
    except ProtocolError as error:
        answer(endpoint, fields, correlation, code_of(error))
        return
    assert command is not None

    def done(outcome: Outcome) -> None:
        if isinstance(outcome, Refused):
            answer(endpoint, fields, correlation, code_of(outcome))
            return
        answer(endpoint, fields, correlation, codes.OK)
        endpoint.stream_gone(host)

    endpoint.broker.definitions.propose(command, done, endpoint.author())


def _stream_stats(endpoint: StreamConnection, fields: Fields) -> None:
    correlation, name = fields.u32(), fields.string()
    host = stream_of(endpoint, name)
    member = None if host is None else host.member
    code = codes.OK
    if host is None:
        code = codes.STREAM_DOES_NOT_EXIST
    elif not endpoint.permissions.allows(READ, name):
        code = codes.ACCESS_REFUSED
    elif member is None:
        code = codes.STREAM_NOT_AVAILABLE
    if code != codes.OK or member is None:
        endpoint.send(Answer(fields.key, correlation, code).u32(0))  # Clients read a count always.
        return
    is_empty = member.next_offset == member.first_offset
    stats = {
        "first_chunk_id": -1 if is_empty else member.first_offset,
        "last_chunk_id": -1 if is_empty else member.last_chunk_offset,
        "committed_chunk_id": -1 if is_empty else member.last_chunk_offset,
        "committed_offset": member.next_offset - 1,
    }
    told = Answer(fields.key, correlation, codes.OK).u32(len(stats))
    for key, number in stats.items():
        told.string(key).i64(number)
    endpoint.send(told)


# Publishing


def _declare_publisher(endpoint: StreamConnection, fields: Fields) -> None:
    correlation, number = fields.u32(), fields.u8()
    reference, name = fields.string(), fields.string()
    host = stream_of(endpoint, name)
    code = codes.OK
    if host is None:
        code = codes.STREAM_DOES_NOT_EXIST
    elif not endpoint.permissions.allows(WRITE, name):
        code = codes.ACCESS_REFUSED
    elif number in endpoint.publishers or len(reference.encode()) > REFERENCE_BYTES_MAX:
        code = codes.PRECONDITION_FAILED
    else:
        endpoint.add_publisher(number, host, reference)
    answer(endpoint, fields, correlation, code)


def _delete_publisher(endpoint: StreamConnection, fields: Fields) -> None:
    correlation, number = fields.u32(), fields.u8()
    publisher = endpoint.publishers.pop(number, None)
    if publisher is None:
        answer(endpoint, fields, correlation, codes.PUBLISHER_DOES_NOT_EXIST)
        return
    endpoint.flush_publisher(publisher)
    publisher.end()
    answer(endpoint, fields, correlation, codes.OK)


def _query_sequence(endpoint: StreamConnection, fields: Fields) -> None:
    correlation, reference, name = fields.u32(), fields.string(), fields.string()
    host = stream_of(endpoint, name)
    code = codes.OK
    if host is None:
        code = codes.STREAM_DOES_NOT_EXIST
    elif not endpoint.permissions.allows(WRITE, name):
        code = codes.ACCESS_REFUSED
    elif not 0 < len(reference.encode()) <= REFERENCE_BYTES_MAX:
        code = codes.PRECONDITION_FAILED
    if code != codes.OK or host is None:
        endpoint.send(Answer(fields.key, correlation, code).u64(0))
        return

    def done(number: int | None) -> None:
        endpoint.send(Answer(fields.key, correlation, codes.OK).u64(number or 0))

    host.query_publisher(reference.encode(), done)


def publish(endpoint: StreamConnection, run: PublishRun) -> None:
    """Publish a run; PublishError is the answer to what cannot be published.

    Undecided: nothing is done so far, the run is to be published when the permission is known.
    """
    publisher = endpoint.publishers.get(run.publisher)
    is_allowed = publisher is None or endpoint.permissions.allows(WRITE, publisher.host.name)
    if run.fault:
        log_refusal(endpoint, run.fault)
    if publisher is None:
        endpoint.refuse(run.publisher, run.refused, codes.PUBLISHER_DOES_NOT_EXIST)
        endpoint.refuse(run.publisher, ids_of_run(run), codes.PUBLISHER_DOES_NOT_EXIST)
        return
    endpoint.refuse(run.publisher, run.refused, codes.PRECONDITION_FAILED)
    if run.count == 0:
        return
    if not is_allowed:
        endpoint.refuse(run.publisher, ids_of_run(run), codes.ACCESS_REFUSED)
        return
    endpoint.count_published()
    publisher.publish(run, endpoint.plans().targets((publisher.host.uid,), ""))


def ids_of_run(run: PublishRun) -> list[int]:
    return expanded([(first, 1 if count & BATCH else count) for first, count in run.ids])


# Consuming


def _subscribe(endpoint: StreamConnection, fields: Fields) -> None:
    correlation, number, name = fields.u32(), fields.u8(), fields.string()
    start = _start(fields)
    credit = fields.u16()
    properties = {} if fields.is_at_end else fields.pairs()
    code, spec = _refusal(endpoint, number, name, properties, start)
    host = stream_of(endpoint, name)
    if code == codes.OK and host is not None:
        member = host.member
        if member is None:
            code = codes.STREAM_NOT_AVAILABLE
        else:
            is_single = properties.get(SINGLE) == "true"
            subscription = Subscription(
                *(number, host, member, spec, properties, endpoint.mark),
                endpoint.broker.counts10,
                not is_single,
            )
            subscription.grant(credit)
            endpoint.subscriptions[number] = subscription
            answer(endpoint, fields, correlation, code)
            if is_single:
                _join_group(endpoint, subscription)
            return
    answer(endpoint, fields, correlation, code)


def _join_group(endpoint: StreamConnection, subscription: Subscription) -> None:
    partition = NO_PARTITION
    if SUPER in subscription.properties:
        name = subscription.properties[SUPER]
        place = partition_of(endpoint, name, subscription.host.name)
        assert place is not None, "`_refusal` has looked"
        partition = place
    subscription.on_end = SingleActive(endpoint, subscription, partition).end


def _refusal(
    endpoint: StreamConnection,
    number: int,
    name: str,
    properties: dict[str, str],
    start: OffsetSpec,
) -> tuple[int, OffsetSpec]:
    """Why there is no such subscription (OK: there is), and where it begins, with its filter."""
    if stream_of(endpoint, name) is None:
        return codes.STREAM_DOES_NOT_EXIST, start
    if not endpoint.permissions.allows(READ, name):
        return codes.ACCESS_REFUSED, start
    if number in endpoint.subscriptions:
        return codes.SUBSCRIPTION_ID_EXISTS, start
    fault = _single_fault(endpoint, name, properties)
    if fault:
        log_refusal(endpoint, fault)
        return codes.PRECONDITION_FAILED, start
    wanted = [value for key, value in properties.items() if key.startswith("filter.")]
    if not wanted:
        return codes.OK, start
    unfiltered = properties.get("match-unfiltered") == "true"
    return codes.OK, OffsetSpec(start.start, start.value, parse_filter(wanted, unfiltered))


def _single_fault(endpoint: StreamConnection, stream: str, properties: dict[str, str]) -> str:
    """What is wrong with the properties of a single active consumer; '': nothing."""
    if properties.get(SINGLE) != "true":
        return ""
    name = properties.get("name", "")
    if not 0 < len(name.encode()) <= REFERENCE_BYTES_MAX:
        return f"a single active consumer has a name of 1 to {REFERENCE_BYTES_MAX} bytes: '{name}'"
    group = properties.get(SUPER)
    if group is not None and partition_of(endpoint, group, stream) is None:
        return f"stream '{stream}' is no partition of a super stream '{group}'"
    return ""


def _start(fields: Fields) -> OffsetSpec:
    kind = fields.u16()
    start = STARTS.get(kind)
    if start is None:
        raise BadFrame(f"an offset of the unknown kind {kind}")
    return OffsetSpec(start, _start_value(fields, start))


def _start_value(fields: Fields, start: Start) -> int:
    if start is Start.OFFSET:
        return min(fields.u64(), OFFSET_MAX)
    return max(0, fields.i64()) if start is Start.TIMESTAMP else 0


def _consumer_update(endpoint: StreamConnection, fields: Fields) -> None:
    """The answer to one of ours: where a consumer that is active now begins to read."""
    correlation, code = fields.u32(), fields.u16()
    kind = codes.OFFSET_NONE if fields.is_at_end else fields.u16()
    start = STARTS.get(kind)
    if not fields.is_response or (start is None and kind != codes.OFFSET_NONE):
        raise BadFrame(f"a ConsumerUpdate that is no answer, or of the unknown offset {kind}")
    value = 0 if start is None else _start_value(fields, start)
    consumer = endpoint.updates.take(correlation)
    if consumer is None:
        return  # The subscription has ended since.
    if code != codes.OK:
        log_refusal(endpoint, f"the client answers an update of a consumer with code {code}")
    consumer.answered(start, value)


def _credit(endpoint: StreamConnection, fields: Fields) -> None:
    number, credit = fields.u8(), fields.u16()
    subscription = endpoint.subscriptions.get(number)
    if subscription is not None:
        subscription.grant(credit)
        endpoint.mark()
        return
    refusal = FrameWriter(codes.CREDIT | codes.RESPONSE)
    endpoint.send(refusal.u16(codes.SUBSCRIPTION_ID_DOES_NOT_EXIST).u8(number))


def _unsubscribe(endpoint: StreamConnection, fields: Fields) -> None:
    correlation, number = fields.u32(), fields.u8()
    subscription = endpoint.subscriptions.pop(number, None)
    if subscription is None:
        answer(endpoint, fields, correlation, codes.SUBSCRIPTION_ID_DOES_NOT_EXIST)
        return
    subscription.end()
    answer(endpoint, fields, correlation, codes.OK)


def _store_offset(endpoint: StreamConnection, fields: Fields) -> None:
    """It has no answer."""
    reference, name, offset = fields.string(), fields.string(), fields.u64()
    host = stream_of(endpoint, name)
    is_named = 0 < len(reference.encode()) <= REFERENCE_BYTES_MAX
    may_read = endpoint.permissions.allows(READ, name)
    if host is not None and may_read and is_named and offset <= OFFSET_MAX:
        host.store_offset(reference.encode(), offset)
    else:
        log_refusal(endpoint, f"offset {offset} of '{reference}' in stream '{name}' is not stored")


def _query_offset(endpoint: StreamConnection, fields: Fields) -> None:
    correlation, reference, name = fields.u32(), fields.string(), fields.string()
    host = stream_of(endpoint, name)
    if host is None:
        endpoint.send(Answer(fields.key, correlation, codes.STREAM_DOES_NOT_EXIST).u64(0))
        return
    if not endpoint.permissions.allows(READ, name):
        endpoint.send(Answer(fields.key, correlation, codes.ACCESS_REFUSED).u64(0))
        return
    if not 0 < len(reference.encode()) <= REFERENCE_BYTES_MAX:
        endpoint.send(Answer(fields.key, correlation, codes.NO_OFFSET).u64(0))
        return

    def done(offset: int | None) -> None:
        code = codes.NO_OFFSET if offset is None else codes.OK
        endpoint.send(Answer(fields.key, correlation, code).u64(offset or 0))

    host.query_offset(reference.encode(), done)


# Super streams


def _route(endpoint: StreamConnection, fields: Fields) -> None:
    correlation, key, name = fields.u32(), fields.string(), fields.string()
    found = route_to(endpoint, name, key)
    _answer_streams(endpoint, fields, correlation, found)


def _partitions(endpoint: StreamConnection, fields: Fields) -> None:
    correlation, name = fields.u32(), fields.string()
    _answer_streams(endpoint, fields, correlation, partitions_of(endpoint, name))


def _answer_streams(
    endpoint: StreamConnection, fields: Fields, correlation: int, found: list[str] | None
) -> None:
    code = codes.STREAM_DOES_NOT_EXIST if found is None else codes.OK
    endpoint.send(Answer(fields.key, correlation, code).strings(found or []))


def _create_super(endpoint: StreamConnection, fields: Fields) -> None:
    correlation, name = fields.u32(), fields.string()
    partitions, keys = fields.strings(), fields.strings()
    arguments = stream_arguments(fields.pairs())

    def done(code: int, text: str) -> None:
        if text:
            log_refusal(endpoint, text)
        answer(endpoint, fields, correlation, code)

    if isinstance(arguments, str):
        done(codes.PRECONDITION_FAILED, arguments)
    else:
        create_super_stream(endpoint, name, partitions, keys, arguments, done)


def _delete_super(endpoint: StreamConnection, fields: Fields) -> None:
    correlation, name = fields.u32(), fields.string()

    def done(code: int, text: str) -> None:
        if text:
            log_refusal(endpoint, text)
        answer(endpoint, fields, correlation, code)

    delete_super_stream(endpoint, name, done)


COMMANDS_BEFORE_OPEN: Final[Mapping[int, Command]] = {
    codes.PEER_PROPERTIES: _peer_properties,
    codes.SASL_HANDSHAKE: _sasl_handshake,
    codes.SASL_AUTHENTICATE: _sasl_authenticate,
    codes.TUNE: _tune,
    codes.OPEN: _open,
    codes.CLOSE: _close,
    codes.HEARTBEAT: _heartbeat,
    codes.EXCHANGE_COMMAND_VERSIONS: _exchange_versions,
}
COMMANDS: Final[Mapping[int, Command]] = {
    codes.DECLARE_PUBLISHER: _declare_publisher,
    codes.QUERY_PUBLISHER_SEQUENCE: _query_sequence,
    codes.DELETE_PUBLISHER: _delete_publisher,
    codes.SUBSCRIBE: _subscribe,
    codes.CREDIT: _credit,
    codes.STORE_OFFSET: _store_offset,
    codes.QUERY_OFFSET: _query_offset,
    codes.UNSUBSCRIBE: _unsubscribe,
    codes.CONSUMER_UPDATE: _consumer_update,
    codes.CREATE: _create,
    codes.DELETE: _delete,
    codes.METADATA: answer_metadata,
    codes.CLOSE: _close,
    codes.HEARTBEAT: _heartbeat,
    codes.TUNE: _tune,
    codes.ROUTE: _route,
    codes.PARTITIONS: _partitions,
    codes.EXCHANGE_COMMAND_VERSIONS: _exchange_versions,
    codes.STREAM_STATS: _stream_stats,
    codes.CREATE_SUPER_STREAM: _create_super,
    codes.DELETE_SUPER_STREAM: _delete_super,
}
