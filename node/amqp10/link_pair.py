"""Pairs of links to `/management`: requests in on one, replies out on the other.

A client attaches a sender and a receiver under one name to the address `/management`, both with the
property `paired` and settled. `ManagementLinks` has the pairs of one session; a link's `owner` is
its `LinkPair`, which the session tells what comes for the link.

A request is a settled message with message-id, `to`, `subject` and `reply-to` `$me`, no larger than
a frame. One without message-id, or while the other half is missing, costs the link; everything else
is answered. No more than 8 requests are open at once; replies wait for the client's credit.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from node.amqp10.management import Management
from node.amqp10.requests import Reply, Request, RequestError
from warren.wire.amqp10.codec.descriptors import AMQP_VALUE, APPLICATION_PROPERTIES
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.codec.performatives import Attach, Properties, Target
from warren.wire.amqp10.codec.reader import decode_value
from warren.wire.amqp10.codec.values import Described
from warren.wire.amqp10.codec.writer import write_ulong, write_value
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.amqp10.link import SENDER_SETTLED, Link
from warren.wire.amqp10.sender import Run
from warren.wire.amqp10.session import Session
from warren.wire.amqp10.transfers import Transfers, payload_at, store
from warren.wire.buffer import BytesWriter, read_i32_le, write_i32_le

ADDRESS: Final = "/management"
CREDIT: Final = 8  # requests that may be open at once
PAIRED: Final = "paired"
SELF: Final = "$me"  # the reply goes to the other link of the pair
VALUE_NAMES: Final = (AMQP_VALUE, "amqp:amqp-value:*")


def is_management(attach: Attach) -> bool:
    """Whether the peer attaches a link to `/management`."""
    if attach.role:
        return attach.source is not None and attach.source.address == ADDRESS
    return isinstance(attach.target, Target) and attach.target.address == ADDRESS


class ManagementLinks:
    """The pairs of one session, by name. `mark` says that there is output."""

    def __init__(
        self,
        core: Session,
        management: Management,
        mark: Callable[[], None],
        request_bytes_max: int,
    ) -> None:
        self.core = core
        self.management = management
        self.mark = mark
        self.request_bytes_max = request_bytes_max
        self.pairs: dict[str, LinkPair] = {}

    def attach(self, link: Link, attach: Attach) -> None:
        """Answer to AttachRequested."""
        reason = ""
        if (attach.properties or {}).get(PAIRED) is not True:
            reason = f"a link to {ADDRESS} must have the property '{PAIRED}'"
        elif attach.snd_settle_mode != SENDER_SETTLED:
            reason = f"a link to {ADDRESS} must be settled by its sender"
        if reason:
            error = ProtocolError(Condition.PRECONDITION_FAILED, reason, Scope.LINK)
            self.core.refuse(link, error)
            return
        pair = self.pairs.get(link.name)
        if pair is None:
            pair = LinkPair(self, link.name)
            self.pairs[link.name] = pair
        pair.join(link)
        if link.sender is not None:
            link.sender.queue_credit_max = 0  # No queue is behind it.
        properties: dict[str, object] = {PAIRED: True}
        limits = CREDIT, self.request_bytes_max
        if self.core.accept(link, attach.source, attach.target, properties, None, *limits):
            pair.flowed()
        else:
            pair.leave(link)

    def end(self) -> None:
        """The session is over."""
        for pair in list(self.pairs.values()):
            pair.requests = pair.replies = None
        self.pairs = {}


class LinkPair:
    """One pair, or half of one. Replies are sent in the order in which they are ready."""

    def __init__(self, links: ManagementLinks, name: str) -> None:
        self.requests: Link | None = None
        self.replies: Link | None = None
        self._links = links
        self._name = name
        self._waiting: deque[bytes] = deque()  # replies without credit
        self._offered: dict[int, bytes] = {}  # by number of the run: not sent yet
        self._numbered = 0

    def join(self, link: Link) -> None:
        link.owner = self
        if link.is_receiver:
            self.requests = link
        else:
            self.replies = link

    def leave(self, link: Link) -> None:
        """The link is over. Replies to what it asked still go out; those not sent are dropped."""
        if link is self.requests:
            self.requests = None
        elif link is self.replies:
            self.replies = None
            self._waiting.clear()
            self._offered.clear()
        if self.requests is None and self.replies is None:
            self._links.pairs.pop(self._name, None)

    # Requests

    def received(self, run: Transfers) -> None:
        """Requests came."""
        link = self.requests
        place = 0
        while place < run.count and link is not None and link is self.requests:
            start = int(read_i32_le(run.offsets, 4 * place))
            end = int(read_i32_le(run.offsets, 4 * place + 4))
            self._request(link, run.data, payload_at(run.data, start), end)
            place += 1

    def _request(self, link: Link, data: bytes, start: int, end: int) -> None:
        if self.replies is None:
            text = "received transfer on half open management link pair"
            self._fail(link, Condition.PRECONDITION_FAILED, text)
            return
        sections = Sections()
        sections.walk(data, start, end)
        try:
            properties = sections.properties(data)
        except ProtocolError as error:
            self._fail(link, error.condition, error.text)
            return
        request_id = properties.message_id
        if request_id is None:
            self._fail(link, Condition.INVALID_FIELD, "a request must have a message-id")
            return

        def answer(reply: Reply) -> None:
            if link is self.requests:
                self._links.core.confirm(link, 1)
            self._answer(request_id, reply)

        try:
            request = decode_request(data, sections, properties)
        except RequestError as error:
            answer(Reply(error.status, error.text))
        else:
            self._links.management.handle(request, answer)

    def _fail(self, link: Link, condition: Condition, text: str) -> None:
        self._links.core.detach(link, ProtocolError(condition, text, Scope.LINK))
        self.leave(link)
        self._links.mark()

    # Replies

    def _answer(self, request_id: object, reply: Reply) -> None:
        link = self.replies
        if link is not None:
            encoded = encode_reply(request_id, reply)
            if 0 < link.peer_message_bytes_max < len(encoded):
                text = f"the reply of {len(encoded)} bytes is larger than the link takes"
                encoded = encode_reply(request_id, Reply(413, text))
            self._waiting.append(encoded)
            self.flowed()
        self._links.mark()

    def flowed(self) -> None:
        """The client may have granted credit: send what waits."""
        link = self.replies
        if link is None or link.sender is None:
            return
        sender = link.sender
        while self._waiting and sender.credit > sender.waiting:
            encoded = self._waiting.popleft()
            self._numbered += 1
            self._offered[self._numbered] = encoded
            run = Run(self._numbered, 1, 1, True)
            run.put(store(encoded), 0, _offsets(encoded), 0, 1)
            if self._links.core.offer(link, run) == 0:
                self.withdrawn([(self._numbered, 1, 1)])
                return

    def withdrawn(self, runs: list[tuple[int, int, int]]) -> None:
        """The client took credit back: these wait again. The last comes first."""
        for number, _, _ in runs:
            self._waiting.appendleft(self._offered.pop(number))

    def sent(self, run: Run) -> None:
        """A reply leaves."""
        self._offered.pop(int(run.number), None)


def decode_request(data: bytes, sections: Sections, properties: Properties) -> Request:
    """The request in a message; RequestError if it is none."""
    method, target = properties.subject, properties.to
    if method is None or not isinstance(target, str):
        raise RequestError(400, "a request must have 'to' and 'subject'")
    if properties.reply_to != SELF:
        raise RequestError(400, f"the 'reply-to' of a request must be '{SELF}'")
    if sections.body_at == sections.footer_at:
        return Request(method, target)
    try:
        body = decode_value(data, sections.body_at, sections.footer_at)
    except ProtocolError as error:
        raise RequestError(400, f"the body does not decode: {error.text}") from error
    if not isinstance(body, Described) or body.descriptor not in VALUE_NAMES:
        raise RequestError(400, "the body of a request must be one value")
    return Request(method, target, body.value)


def encode_reply(request_id: object, reply: Reply) -> bytes:
    """The sections of the message that answers."""
    writer = BytesWriter()
    Properties(subject=str(reply.status), correlation_id=request_id).encode(writer)
    writer.append(0)
    write_ulong(writer, APPLICATION_PROPERTIES)
    write_value(writer, {"http:response": "1.1"})
    writer.append(0)
    write_ulong(writer, AMQP_VALUE)
    write_value(writer, reply.body)
    return writer.getvalue()


def _offsets(encoded: bytes) -> bytes:
    """Of a run of one message in stored form 2."""
    writer = BytesWriter()
    write_i32_le(writer, 0)
    write_i32_le(writer, len(store(encoded)))
    return writer.getvalue()
