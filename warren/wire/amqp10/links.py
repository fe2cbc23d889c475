"""The links of one session: the handles of both sides, and the detaches that are due. Compiled.

A link of the peer's gets the peer's handle on our side, too, where that is free. Within a session a
name belongs to one link in each direction: a later one takes it from the one before (part 2.6.1).
The answer to an attach of ours is found by name and direction.
"""

from typing import final

from mypy_extensions import i64

from warren.wire.amqp10.codec.performatives import AnyTarget, Attach, Detach, Error, Source
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.amqp10.limits import Limits
from warren.wire.amqp10.link import DETACHING, GONE, NO_HANDLE, Link
from warren.wire.amqp10.output import Output
from warren.wire.amqp10.receiver import Receiver
from warren.wire.amqp10.sender import Sender


@final
class Due:
    """A detach that leaves with the next flush."""

    def __init__(self, link: Link, closed: bool, error: Error | None) -> None:
        self.link = link
        self.closed = closed
        self.error = error


@final
class Links:
    """Invariant: a link is in `all` from attach until the peer has detached it.

    Its handle on our side is taken until our detach is written, too.
    """

    def __init__(self, channel: i64, output: Output, limits: Limits) -> None:
        self.channel: i64 = channel
        self.all: list[Link] = []
        self.handle_max: i64 = limits.handle_max  # of our handles: what the peer takes, too
        self._limits = limits
        self._output = output
        self._by_handle: dict[int, Link] = {}  # by the peer's handle
        self._handles: set[int] = set()  # ours that are taken
        self._due: list[Due] = []
        self._unanswered: list[Due] = []  # detaches of the peer that the host answers later

    def new(self, name: str, as_receiver: bool) -> Link:
        limits = self._limits
        receiver: Receiver | None = None
        sender: Sender | None = None
        if as_receiver:
            receiver = Receiver(limits.max_link_credit, limits.message_bytes_max)
        else:
            sender = Sender(limits.initial_delivery_count, limits.max_queue_credit)
        link = Link(name, self.channel, receiver, sender)
        self.all.append(link)
        return link

    def take_all(self) -> list[Link]:
        """The session is over, and so are its links."""
        links = self.all
        for link in links:
            link.status = GONE
        self.all = []
        self._by_handle = {}
        self._handles = set()
        self._due = []
        self._unanswered = []
        return links

    # Handles

    def check_handle(self, handle: int) -> None:
        """The peer attaches a link as `handle`."""
        if handle > self._limits.handle_max:
            text = f"handle {handle} is above the handle-max of {self._limits.handle_max}"
            raise ProtocolError(Condition.NOT_ALLOWED, text, Scope.SESSION)
        if handle in self._by_handle:
            text = f"handle {handle} is in use"
            raise ProtocolError(Condition.HANDLE_IN_USE, text, Scope.SESSION)

    def of_handle(self, handle: int) -> Link:
        """The link that the peer names so."""
        link = self._by_handle.get(handle)
        if link is None:
            text = f"no link is attached as handle {handle}"
            raise ProtocolError(Condition.UNATTACHED_HANDLE, text, Scope.SESSION)
        return link

    def is_receiving(self, handle: int) -> bool:
        """Whether the peer may send on the link that it names so."""
        link = self._by_handle.get(handle)
        return link is not None and link.receiver is not None and link.is_up()

    def is_taken(self, handle: int) -> bool:
        """Whether a link has that handle on our side."""
        return handle in self._handles

    def free_handle(self, wanted: i64) -> i64:
        """Take a handle for our side: the wanted one if it is free, else the lowest."""
        handle = wanted
        if handle > self.handle_max or handle in self._handles:
            handle = 0
            while handle in self._handles:
                handle += 1
        if handle > self.handle_max:
            text = f"the peer takes no handle above {self.handle_max}"
            raise ProtocolError(Condition.NOT_ALLOWED, text, Scope.SESSION)
        self._handles.add(handle)
        return handle

    # Attach and detach

    def asked(self, attach: Attach) -> Link | None:
        """The link of ours that this attach answers to."""
        for link in self.all:
            is_answer = link.name == attach.name and link.is_receiver != attach.role
            if is_answer and link.peer_handle == NO_HANDLE:
                return link
        return None

    def namesake(self, name: str, as_receiver: bool) -> Link | None:
        """The link of the peer's that has that name in that direction, if it is up."""
        for link in self.all:
            if link.name == name and link.is_receiver == as_receiver and link.is_up():
                return link
        return None

    def identify(self, link: Link, attach: Attach) -> None:
        """Keep what the peer's attach tells."""
        link.peer_handle = attach.handle
        link.snd_settle_mode = attach.snd_settle_mode
        if link.sender is not None:
            link.rcv_settle_mode = attach.rcv_settle_mode
        link.peer_message_bytes_max = attach.max_message_size or 0
        self._by_handle[attach.handle] = link
        if link.receiver is not None:
            link.receiver.attached(attach.initial_delivery_count or 0)

    def attach_frame(self, link: Link, source: Source | None, target: AnyTarget | None) -> Attach:
        """Our attach: the peer's modes; where we receive, rcv-settle-mode is first."""
        receiver = link.receiver
        sender = link.sender
        frame = Attach(
            name=link.name,
            handle=int(link.handle),
            role=receiver is not None,
            snd_settle_mode=int(link.snd_settle_mode),
            rcv_settle_mode=int(link.rcv_settle_mode),
            source=source,
            target=target,
        )
        if sender is not None:
            frame.initial_delivery_count = sender.initial_delivery_count
        if receiver is not None and receiver.message_bytes_max > 0:
            frame.max_message_size = receiver.message_bytes_max
        return frame

    def detach(self, link: Link, closed: bool, error: Error | None) -> None:
        """Our detach is to be written; what comes for the link is dropped from now on."""
        link.status = DETACHING
        self._due.append(Due(link, closed, error))

    def answer_later(self, link: Link, closed: bool) -> None:
        """The peer has detached the link; our detach waits for `answer`."""
        link.status = DETACHING
        self._unanswered.append(Due(link, closed, None))

    def answer(self, link: Link) -> None:
        """Our detach is to be written now, if it waits for this."""
        for due in self._unanswered:
            if due.link is link:
                self._unanswered.remove(due)
                self._due.append(due)
                return

    def drop(self, link: Link) -> None:
        """A link of ours of which the peer has not heard."""
        self.all.remove(link)
        link.status = GONE
        self._handles.discard(link.handle)

    def check_name(self, link: Link) -> None:
        """A link of the peer's that could not even be refused ends its session."""
        if not self._output.fits(self.attach_frame(link, None, None)):
            text = "the answer to an attach with this name is larger than your max-frame-size"
            raise ProtocolError(Condition.FRAME_SIZE_TOO_SMALL, text, Scope.SESSION)

    def remove(self, link: Link) -> None:
        """The peer has detached the link."""
        del self._by_handle[link.peer_handle]
        self.all.remove(link)
        link.status = GONE
        for due in [*self._due, *self._unanswered]:
            if due.link is link:
                return
        self._handles.discard(link.handle)  # Our detach was written before.

    def write_detaches(self) -> None:
        """Write those that are due."""
        if len(self._due) == 0:
            return
        written = self._due
        self._due = []
        for due in written:
            link = due.link
            frame = Detach(handle=int(link.handle), closed=due.closed, error=due.error)
            self._output.ending(self.channel, frame)
            if link.status == GONE:
                self._handles.discard(link.handle)
