"""What an attach asks for, checked: address, rights, queue or exchange.

Gives what a link needs to begin, and what our attach answers. Raises ProtocolError: of scope link,
for which the link is refused, or of scope session where the user has no right.
"""

from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from node.amqp10.dynamic import Made
from node.amqp10.links.stream_source import selector_of_link, start_of_link
from node.amqp10.owner import Owner10
from node.auth.asked_access import Undecided
from node.definitions.definition_changes import find_queue, readable_queue
from queues.addresses.producer_window import BadWindow, asked_window
from queues.conversion.addresses import malformed, parse_source, parse_target, queue_address
from queues.definitions.consumer_limits import BadLimit, own_limits
from queues.definitions.queue_arguments import DURATION_MS_MAX
from queues.machine.commands import QUEUE_LIMIT
from queues.queue_host import QueueHost
from queues.streams.host import StreamHost
from queues.streams.offsets import OffsetSpec
from warren.wire.amqp10.codec.performatives import AnyTarget, Attach, Released, Source, Target
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.errors import ProtocolError as Refusal
from warren.wire.errors import ReplyCode

NAME_BYTES_MAX: Final = 255
PRIORITY_MAX: Final = (1 << 31) - 1
PRIORITY: Final = "rabbitmq:priority"
CONSUMER_TIMEOUT: Final = "rabbitmq:consumer-timeout"
OWN_PREFIX: Final = "warren:"
NEVER: Final = "never"  # expiry policies
UNSETTLED_STATE: Final = 2  # terminus-durability
LINK_DETACH: Final = "link-detach"
SESSION_END: Final = "session-end"
OUTCOMES: Final = [
    "amqp:accepted:list",
    "amqp:rejected:list",
    "amqp:released:list",
    "amqp:modified:list",
]
CONDITIONS: Final = {
    ReplyCode.NOT_FOUND: Condition.NOT_FOUND,
    ReplyCode.ACCESS_REFUSED: Condition.UNAUTHORIZED_ACCESS,
    ReplyCode.RESOURCE_LOCKED: Condition.RESOURCE_LOCKED,
    ReplyCode.PRECONDITION_FAILED: Condition.PRECONDITION_FAILED,
    ReplyCode.NOT_ALLOWED: Condition.NOT_ALLOWED,
    ReplyCode.RESOURCE_ERROR: Condition.RESOURCE_LIMIT_EXCEEDED,
    ReplyCode.NOT_IMPLEMENTED: Condition.NOT_IMPLEMENTED,
}


class Consumption(Struct, frozen=True):
    """A consumer's link as it was asked for, and how we answer."""

    host: QueueHost
    priority: int
    timeout_ms: int  # -1: the queue's own
    source: Source
    target: AnyTarget | None
    made: Made | None  # the queue, if it was made for this link
    is_durable: bool = False  # a subscription that outlives the link
    start: OffsetSpec | None = None  # of a stream: where it begins
    window_bytes: int = QUEUE_LIMIT
    rate_max: int = QUEUE_LIMIT
    selector: bytes = b""  # of a queue that is no stream


def error_of(refusal: Refusal) -> ProtocolError:
    """The same refusal in the words of AMQP 1.0."""
    condition = CONDITIONS.get(refusal.code, Condition.INTERNAL_ERROR)
    scope = Scope.SESSION if condition is Condition.UNAUTHORIZED_ACCESS else Scope.LINK
    return ProtocolError(condition, refusal.text, scope)


class Waiting(Protocol):
    """The endpoint."""

    def when(self, undecided: Undecided, call: Callable[[], None]) -> None:
        """Call in a turn in which that is decided, if the connection is still there."""


def retried(
    owner: Waiting, call: Callable[[], None], refused: Callable[[ProtocolError], None]
) -> None:
    """Call; again, when a permission is known. `refused` hears why it cannot be."""
    try:
        call()
    except Undecided as undecided:
        owner.when(undecided, lambda: retried(owner, call, refused))
    except Refusal as refusal:
        refused(error_of(refusal))
    except ProtocolError as error:
        refused(error)


def consumption(
    owner: Owner10, attach: Attach, made: Made | None = None, subscription: str = ""
) -> Consumption:
    """Check the source of a consumer's link; `made` is the queue of a dynamic one, `subscription`
    the name of the queue of one that reads from an exchange."""
    source = attach.source
    is_durable = subscription != "" and made is None
    if source is None and is_durable:
        address = queue_address(subscription)
        source = Source(address=address, durable=UNSETTLED_STATE, expiry_policy=NEVER)
    if source is None:
        raise malformed(None)
    if not is_durable:
        check_expiry(source.expiry_policy)
    name = subscription
    if not name:
        name = parse_source(source.address) if made is None else made.name
    find = find_queue if made is not None and made.wish.volatile else readable_queue
    try:
        host = owner.broker.queues.host(find(owner, name).uid)
    except Refusal as refusal:
        raise error_of(refusal) from refusal
    properties = attach.properties or {}
    priority = _integer(properties, PRIORITY, 0)
    timeout_ms = _integer(properties, CONSUMER_TIMEOUT, -1)
    if CONSUMER_TIMEOUT in properties and not 0 <= timeout_ms <= DURATION_MS_MAX:
        raise invalid(f"{CONSUMER_TIMEOUT} of {timeout_ms} ms")
    try:
        window_bytes, rate_max = own_limits(properties, OWN_PREFIX, isinstance(host, StreamHost))
    except BadLimit as fault:
        raise invalid(f"{fault.key}: {fault.reason}") from fault
    priority = max(-PRIORITY_MAX, min(priority, PRIORITY_MAX))
    answer = Source(
        address=source.address,
        durable=source.durable,
        expiry_policy=NEVER if is_durable else honoured(source.expiry_policy),
        timeout=source.timeout,
        distribution_mode=source.distribution_mode,
        default_outcome=Released(),
        outcomes=OUTCOMES,
    )
    if not subscription:
        _tell_made(answer, made)
    start = start_of_link(host, source, answer)
    selector = selector_of_link(host, source, answer)
    return Consumption(
        *(host, priority, timeout_ms, answer, attach.target, made, is_durable, start),
        *(window_bytes, rate_max, selector),
    )


def publication(
    owner: Owner10, attach: Attach, made: Made | None = None
) -> tuple[bytes | None, Target]:
    """Check the target of a publisher's link: (names of exchange and key, our answer).

    The names are short strings, as a chunk has them; None: the anonymous terminus, to which each
    message brings its own.
    """
    target = attach.target
    if target is not None and not isinstance(target, Target):
        raise unsupported("transactions")
    if target is None:
        raise malformed(None)
    check_expiry(target.expiry_policy)
    answer = Target(
        address=target.address,
        durable=target.durable,
        expiry_policy=honoured(target.expiry_policy),
        timeout=target.timeout,
    )
    _tell_made(answer, made)
    if answer.address is None:
        return None, answer
    return checked_names(owner, answer.address), answer


def window_asked(attach: Attach) -> int:
    """Bytes that the publisher's client wants to have under way at most; -1: it does not say."""
    try:
        return asked_window(attach.properties)
    except BadWindow as fault:
        raise invalid(str(fault)) from fault


def _tell_made(answer: Source | Target, made: Made | None) -> None:
    if made is not None:
        answer.address = made.address
        answer.dynamic = True
        answer.dynamic_node_properties = made.properties
        answer.capabilities = made.capabilities


def checked_names(owner: Owner10, address: object) -> bytes:
    """Exchange and routing key of a target's address, to which the user may publish."""
    names = names_of(address)
    plans = owner.plans()
    plans.refresh()
    key = names + b"\x00"
    plan = plans.get(key) or plans.make(key)
    if plan.error is not None:
        raise error_of(plan.error)
    asked = parse_target(address)
    if asked.queue is not None and owner.broker.definitions.queue(owner.vhost, asked.queue) is None:
        text = f"no queue '{asked.queue}' in vhost '{owner.vhost}'"
        raise ProtocolError(Condition.NOT_FOUND, text, Scope.LINK)
    return names


def names_of(address: object) -> bytes:
    """Exchange and routing key, as short strings."""
    target = parse_target(address)
    exchange = target.exchange.encode()
    if max(len(exchange), len(target.routing_key)) > NAME_BYTES_MAX:
        raise malformed(address)
    head = bytes((len(exchange),)) + exchange
    return head + bytes((len(target.routing_key),)) + target.routing_key


def unsupported(what: str) -> ProtocolError:
    return ProtocolError(Condition.NOT_IMPLEMENTED, f"{what} are not supported", Scope.LINK)


def invalid(text: str) -> ProtocolError:
    return ProtocolError(Condition.INVALID_FIELD, text, Scope.LINK)


def check_expiry(policy: str) -> None:
    """Nothing of a link outlives it."""
    if policy == NEVER:
        raise unsupported("termini that never expire")


def honoured(policy: str) -> str:
    """What our attach says of a terminus: it ends with its link, so with its session, too.

    Some clients send words that no standard knows; they get what holds where nothing is said.
    """
    return policy if policy == LINK_DETACH else SESSION_END


def _integer(properties: dict[str, object], name: str, absent: int) -> int:
    value = properties.get(name, absent)
    if not isinstance(value, int) or isinstance(value, bool):
        raise invalid(f"{name} is no integer")
    return int(value)
