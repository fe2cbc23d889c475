"""One session of an AMQP 1.0 connection: its links, its flows, its dispositions. Compiled.

Frames come by `take` (decoded) and `take_run` (transfers found in place); events go into the list
that the connection hands in. The host answers `AttachRequested` with `accept` or `refuse`, and asks
for all else by methods. What it asks for in one turn is gathered and leaves with `flush`, in the
order that peers rely on: dispositions (rejected, accepted, released, modified), detaches,
then flows, at most one for each link. Transfers leave when the host calls `write`.

Errors of a link are settled here: it is detached, `LinkFailed` tells, and what still comes for it
is dropped up to the peer's detach. Errors of the session are raised; the connection ends it.

The two halves that count frames and messages are `arrivals` and `departures`.
"""

from typing import Final, final

from mypy_extensions import i64

from warren.wire.amqp10.arrivals import Arrivals, Held
from warren.wire.amqp10.codec.performatives import (
    AnyTarget,
    Attach,
    Begin,
    DeliveryState,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Performative,
    Source,
    Transfer,
)
from warren.wire.amqp10.codec.serial import UINT_MAX, ahead, plus
from warren.wire.amqp10.departures import Bodies, Departures
from warren.wire.amqp10.dispositions import Dispositions
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.amqp10.events import (
    AttachRequested,
    Event,
    Flowed,
    LinkAttached,
    LinkDetached,
    LinkFailed,
    Settled,
    Withdrawn,
    Writable,
    report,
)
from warren.wire.amqp10.flows import Flows
from warren.wire.amqp10.gather import Gathered
from warren.wire.amqp10.limits import Limits
from warren.wire.amqp10.link import (
    ATTACHED,
    ATTACHING,
    DETACHING,
    REQUESTED,
    Link,
)
from warren.wire.amqp10.links import Links
from warren.wire.amqp10.outcomes import Outcomes
from warren.wire.amqp10.output import Output, error_of
from warren.wire.amqp10.receiver import Receiver
from warren.wire.amqp10.sender import QueueCredit, Run, Sender
from warren.wire.amqp10.settling import (
    ACCEPTED,
    MODIFIED,
    outcome_of,
    outcome_of_descriptor,
    says_more,
)
from warren.wire.amqp10.transfers import Transfers
from warren.wire.amqp10.windows import IncomingWindow, OutgoingWindow

BEGINNING: Final = 0  # our begin is sent
MAPPED: Final = 1
ENDING: Final = 2  # our end is sent; input is dropped until the peer's comes
ENDED: Final = 3


@final
class Session:
    """Invariant: a link is in `links` from attach until both sides have detached it."""

    def __init__(
        self, channel: i64, output: Output, limits: Limits, held: Held, window_is_open: bool
    ) -> None:
        self.channel: i64 = channel  # ours: in frames that we send
        self.peer_channel: i64 = -1  # the peer's: in frames that come
        self.status: i64 = MAPPED
        self.limits = limits
        self.owner: object = None  # the host's
        self.end_waits = False  # the peer's end is answered by the host
        self.links = Links(channel, output, limits)
        self.remote_outgoing_window: i64 = 0
        self.incoming = IncomingWindow(limits.max_incoming_window, window_is_open)
        self.outgoing = OutgoingWindow(limits.first_outgoing_id)
        self.arrivals = Arrivals(self.incoming, held)
        self.departures = Departures(channel, output, self.outgoing)
        self._output = output
        self._received = Outcomes(True)  # of what the peer sent
        self._sent = Outcomes(False)  # of what we sent
        self._flows = Flows(channel, output, self.incoming, self.outgoing)
        self._touched: list[Link] = []  # the queue's credit may have changed

    # --- Begin and end ----------------------------------------------------------------------

    def begin_frame(self) -> Begin:
        answers = self.peer_channel >= 0
        return Begin(
            remote_channel=int(self.peer_channel) if answers else None,
            next_outgoing_id=self.outgoing.next_id,
            incoming_window=self.incoming.announced(),
            outgoing_window=UINT_MAX,
            handle_max=self.limits.handle_max,
        )

    def begun(self, begin: Begin, peer_channel: i64) -> None:
        """The peer's begin has come."""
        self.peer_channel = peer_channel
        self.incoming.next_id = begin.next_outgoing_id
        self.incoming.is_begun = True
        self.remote_outgoing_window = begin.outgoing_window
        self.outgoing.left = begin.incoming_window
        self.links.handle_max = min(self.links.handle_max, begin.handle_max)

    def end(self, error: ProtocolError | None = None) -> None:
        """End the session; what still comes for it is dropped."""
        if self.status >= ENDING:
            return
        if self.status == MAPPED:
            self.flush()
        self.status = ENDING
        self._output.ending(self.channel, End(error=None if error is None else error_of(error)))
        self.forget()

    def ended(self) -> bool:
        """The peer's end has come. False: the host answers it (`Connection.answer_end`)."""
        is_answered = self.status >= ENDING or not self.end_waits
        if self.status < ENDING:
            self.flush()
            if is_answered:
                self._output.frame(self.channel, End())
        self.status = ENDED
        self.forget()
        return is_answered

    def lost(self) -> None:
        """The connection is over, and nothing is written any more."""
        self.status = ENDED
        self.forget()

    def forget(self) -> None:
        """The links are over; what they had begun to receive is forgotten."""
        for link in self.links.take_all():
            if link.receiver is not None:
                self.arrivals.forget(link.receiver)
        self._flows.forget()
        self._touched = []

    # --- Links: what the host asks for ------------------------------------------------------

    def attach(
        self,
        name: str,
        as_receiver: bool,
        source: Source | None,
        target: AnyTarget | None,
        snd_settle_mode: int = 2,
        properties: dict[str, object] | None = None,
        desired_capabilities: list[str] | None = None,
    ) -> Link:
        """Ask the peer for a link (a client does); `LinkAttached` or `LinkDetached` answers.

        ProtocolError amqp:frame-size-too-small: it does not fit a frame of the peer.
        """
        assert self.status <= MAPPED
        link = self.links.new(name, as_receiver)
        link.status = ATTACHING
        link.snd_settle_mode = snd_settle_mode
        link.handle = self.links.free_handle(0)
        self._flush_first()
        frame = self.links.attach_frame(link, source, target)
        frame.properties = properties
        frame.desired_capabilities = desired_capabilities
        if not self._output.frame_if_fits(self.channel, frame):
            self.links.drop(link)
            text = f"the attach of link '{name}' is larger than the peer's max-frame-size"
            raise ProtocolError(Condition.FRAME_SIZE_TOO_SMALL, text, Scope.LINK)
        return link

    def accept(
        self,
        link: Link,
        source: Source | None,
        target: AnyTarget | None,
        properties: dict[str, object] | None = None,
        offered_capabilities: list[str] | None = None,
        credit_max: i64 = -1,
        message_bytes_max: i64 = -1,
    ) -> bool:
        """Answer to AttachRequested: the link is up, and granted credit if it receives.

        `credit_max` and `message_bytes_max` replace those of `limits`. False: the peer has detached
        it meanwhile, or the answer does not fit a frame of the peer and the link is refused.
        """
        if link.status != REQUESTED:
            return False
        receiver = link.receiver
        if receiver is not None:
            if credit_max >= 0:
                receiver.set_scheme(credit_max, credit_max // 2)
            if message_bytes_max >= 0:
                receiver.message_bytes_max = message_bytes_max
        self._flush_first()
        frame = self.links.attach_frame(link, source, target)
        frame.properties = properties
        frame.offered_capabilities = offered_capabilities
        if not self._output.frame_if_fits(self.channel, frame):
            text = "the answer to the attach is larger than your max-frame-size"
            self.refuse(link, ProtocolError(Condition.FRAME_SIZE_TOO_SMALL, text, Scope.LINK))
            return False
        link.status = ATTACHED
        if receiver is None:
            self._touch(link)
            self._settle_drain(link)
        self._flows.watch(link)
        return True

    def refuse(self, link: Link, error: ProtocolError) -> None:
        """Answer to AttachRequested: attach without terminus, then detach (part 2.6.3)."""
        if link.status == REQUESTED:
            self._write_refusal(link)
            self._detach(link, True, error_of(error))

    def detach(self, link: Link, error: ProtocolError | None = None, closed: bool = True) -> None:
        """Detach the link at the end of the turn; what comes for it is dropped from now on."""
        if link.status == ATTACHED or link.status == ATTACHING:
            self.departures.abort(link)
            self._detach(link, closed, None if error is None else error_of(error))

    def answer_detach(self, link: Link) -> None:
        """Answer the peer's detach of a link with `detach_waits`."""
        self.links.answer(link)

    # --- Receiving: what the host asks for --------------------------------------------------

    def confirm(self, link: Link, count: i64) -> None:
        """The host has answered for `count` messages of the link: credit may be granted again."""
        receiver = link.receiver
        assert receiver is not None
        receiver.confirm(count)
        self._flows.watch(link)

    def set_scheme(self, link: Link, credit_max: i64, credit_low: i64) -> None:
        """Grant the sender `credit_max` whenever it has `credit_low` left; -1: never."""
        receiver = link.receiver
        assert receiver is not None
        receiver.set_scheme(credit_max, credit_low)
        self._flows.watch(link)

    def grant(self, link: Link, credit: i64, drain: bool = False, echo: bool = False) -> None:
        """Grant that much credit, absolute; 0 stops the sender."""
        receiver = link.receiver
        assert receiver is not None
        receiver.grant(credit, drain, echo)
        self._flows.watch(link)

    def settle(
        self,
        first: i64,
        count: i64,
        outcome: i64 = ACCEPTED,
        state: DeliveryState | None = None,
        settled: bool = True,
    ) -> None:
        """Tell the outcome of deliveries that came, by their delivery-ids."""
        self._received.add(outcome, first, count, settled, state)

    def settle_sent(
        self,
        first: i64,
        count: i64,
        outcome: i64 = ACCEPTED,
        state: DeliveryState | None = None,
    ) -> None:
        """Tell that deliveries which we sent are settled on this side, too."""
        self._sent.add(outcome, first, count, True, state)

    def close_window(self) -> None:
        """An alarm: the peer is to send no transfers; everything else goes on."""
        self.incoming.close()

    def open_window(self) -> None:
        self.incoming.reopen()

    # --- Sending: what the host asks for ----------------------------------------------------

    def offer(self, link: Link, run: Run) -> i64:
        """Messages for the link; return how many are taken. The host takes back the rest."""
        sender = link.sender
        assert sender is not None
        if link.status != ATTACHED:
            return 0
        taken = sender.offer(run)
        self.departures.join(link)
        self._touch(link)
        return taken

    def loaded(self, link: Link) -> None:
        """Bodies that `Bodies.fetch` could not give are there now."""
        sender = link.sender
        assert sender is not None
        sender.loading = False
        self.departures.join(link)

    def renew(self, link: Link) -> bool:
        """The queue behind the link has taken back all that it handed over and was not settled:
        what waits here is forgotten, and the queue is asked again.

        False: a message is under way that cannot be aborted now; the link has to go.
        """
        sender = link.sender
        assert sender is not None
        if link.status != ATTACHED or not self.departures.abort(link):
            return False
        self.departures.leave(link)
        sender.renew()
        self._touch(link)
        self._settle_drain(link)
        return True

    def drained(self, link: Link, arrived: i64) -> None:
        """The queue's answer to a drain; see `Sender.drained`."""
        sender = link.sender
        assert sender is not None
        sender.drained(arrived)
        self._touch(link)
        self._settle_drain(link)

    def take_queue_credits(self) -> list[tuple[Link, QueueCredit]]:
        """What queues are to be told now."""
        taken: list[tuple[Link, QueueCredit]] = []
        if len(self._touched) > 0:
            touched = self._touched
            self._touched = []
            for link in touched:
                link.touched = False
                sender = link.sender
                if sender is not None and link.status == ATTACHED:
                    credit = sender.queue_credit()
                    if credit is not None:
                        taken.append((link, credit))
        return taken

    def has_work(self) -> bool:
        """Whether `write` could write something now."""
        return self.status == MAPPED and self.departures.has_work()

    def write(self, bodies: Bodies, budget: i64) -> None:
        """Write transfers of about `budget` bytes, as far as the peer's window goes."""
        if self.status != MAPPED:
            return
        for link in self.departures.write(bodies, budget):
            self._touch(link)
            self._settle_drain(link)

    def want_flow(self, link: Link) -> None:
        """Tell the link's properties in short; its credit stays what it is, or is granted again."""
        self._flows.want(link)

    def push_flow(self, link: Link) -> None:
        """Tell the link's properties in full now; its credit stays what it is."""
        link.full_due = True
        self._flows.want(link)

    # --- Output -----------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what this turn has gathered."""
        if self.status != MAPPED:
            return
        self._flush_first()
        self._flows.flush()

    def _flush_first(self) -> None:
        """Dispositions and detaches: they go before anything else of this turn."""
        self._received.write(self._output, self.channel)
        self._sent.write(self._output, self.channel)
        self.links.write_detaches()

    def _touch(self, link: Link) -> None:
        if not link.touched:
            link.touched = True
            self._touched.append(link)

    def _write_refusal(self, link: Link) -> None:
        self._flush_first()
        self._output.frame(self.channel, self.links.attach_frame(link, None, None))

    # --- Input ------------------------------------------------------------------------------

    def take(
        self, frame: Performative, data: bytes, start: i64, end: i64, events: list[Event]
    ) -> None:
        """A frame of this session; a transfer carries data[start:end]."""
        if isinstance(frame, Transfer):
            self._take_transfer(frame, data, start, end, events)
        elif isinstance(frame, Disposition):
            self._take_disposition(frame, events)
        elif isinstance(frame, Flow):
            self._take_flow(frame, events)
        elif isinstance(frame, Attach):
            self._take_attach(frame, events)
        elif isinstance(frame, Detach):
            self._take_detach(frame, events)
        else:
            raise ProtocolError(Condition.ILLEGAL_STATE, f"{frame.type_name} within a session")

    def take_run(self, run: Transfers, events: list[Event]) -> None:
        """Transfers of one link, found in place."""
        link = self._receiving(run.handle)
        try:
            self.arrivals.take_run(link, run, events)
        except ProtocolError as error:
            self._settle_error(link, error, events)
        receiver = link.receiver
        if receiver is not None and receiver.is_due():
            self._flows.watch(link)

    def fits(self, part: Gathered) -> bool:
        """Whether `take_gathered` may take these runs of several links."""
        if self.status != MAPPED or not self.arrivals.fits(part):
            return False
        return all(self.links.is_receiving(run.handle) for run in part.runs)

    def take_gathered(self, part: Gathered, events: list[Event]) -> None:
        """Transfers of several links that took turns; they fit."""
        self.arrivals.count(part)
        for run in part.runs:
            link = self._receiving(run.handle)
            receiver = link.receiver
            assert receiver is not None
            try:
                self.arrivals.take_counted(link, receiver, run, events)
            except ProtocolError as error:
                self._settle_error(link, error, events)
            if receiver.is_due():
                self._flows.watch(link)

    def _take_transfer(
        self, transfer: Transfer, data: bytes, start: i64, end: i64, events: list[Event]
    ) -> None:
        link = self._receiving(transfer.handle)
        try:
            self.arrivals.take(link, transfer, data, start, end, events)
        except ProtocolError as error:
            self._settle_error(link, error, events)
        receiver = link.receiver
        if receiver is not None and receiver.is_due():
            self._flows.watch(link)

    def _receiving(self, handle: int) -> Link:
        """The link of the peer's handle, which must be one that sends to us."""
        link = self.links.of_handle(handle)
        if link.receiver is None:
            text = f"transfer on link '{link.name}', whose receiver is the peer"
            raise ProtocolError(Condition.ILLEGAL_STATE, text, Scope.SESSION)
        return link

    def _settle_error(self, link: Link, error: ProtocolError, events: list[Event]) -> None:
        """The peer is wrong: what is of the link is settled here."""
        if error.scope is not Scope.LINK:
            raise error
        if link.status == REQUESTED:
            self._write_refusal(link)
        self._detach(link, True, error_of(error))
        events.append(LinkFailed(link, error))

    def _detach(self, link: Link, closed: bool, error: Error | None) -> None:
        self._halt(link)
        self.links.detach(link, closed, error)

    def _halt(self, link: Link) -> None:
        if link.receiver is not None:
            self.arrivals.forget(link.receiver)
        self.departures.leave(link)

    # Links

    def _take_attach(self, attach: Attach, events: list[Event]) -> None:
        self.links.check_handle(attach.handle)
        if not attach.role and attach.initial_delivery_count is None:
            text = "attach of a sender without initial-delivery-count"
            raise ProtocolError(Condition.INVALID_FIELD, text, Scope.SESSION)
        link = self.links.asked(attach)
        if link is None:
            self._requested(attach, events)
        else:
            self._attached(link, attach, events)

    def _attached(self, link: Link, attach: Attach, events: list[Event]) -> None:
        """The answer to our attach. If it has no terminus, a detach with the reason follows."""
        self.links.identify(link, attach)
        if link.status != ATTACHING:
            return  # Detached meanwhile; the peer's detach is to come.
        link.status = ATTACHED
        refused = attach.target is None
        if link.receiver is not None:
            refused = attach.source is None
        self._flows.watch(link)
        if not refused:
            events.append(LinkAttached(link, attach))

    def _requested(self, attach: Attach, events: list[Event]) -> None:
        older = self.links.namesake(attach.name, not attach.role)
        if older is not None:
            text = f"another link of this session was attached as '{attach.name}'"
            self._settle_error(older, ProtocolError(Condition.STOLEN, text, Scope.LINK), events)
            self._flush_first()
        if self.links.is_taken(attach.handle):
            self._flush_first()  # The peer has done with the link that had this number, too.
        link = self.links.new(attach.name, not attach.role)
        link.handle = self.links.free_handle(attach.handle)
        self.links.identify(link, attach)
        self.links.check_name(link)
        if attach.incomplete_unsettled:
            text = "links are not resumed: incomplete-unsettled"
            self.refuse(link, ProtocolError(Condition.NOT_IMPLEMENTED, text, Scope.LINK))
            return
        events.append(AttachRequested(link, attach))

    def _take_detach(self, detach: Detach, events: list[Event]) -> None:
        link = self.links.of_handle(detach.handle)
        ours = link.status == DETACHING
        if link.status == REQUESTED:
            self._write_refusal(link)
        if link.status == ATTACHED and link.detach_waits:
            self._halt(link)
            self.links.answer_later(link, detach.closed)
        elif not ours:
            self._detach(link, detach.closed, None)
        self.links.remove(link)
        events.append(LinkDetached(link, detach.error, ours, detach.closed))

    # Flows

    def _take_flow(self, flow: Flow, events: list[Event]) -> None:
        if not self.outgoing.update(flow.next_incoming_id, flow.incoming_window):
            text = (
                f"next-incoming-id {flow.next_incoming_id} is ahead of "
                f"next-outgoing-id {self.outgoing.next_id}"
            )
            raise ProtocolError(Condition.WINDOW_VIOLATION, text, Scope.SESSION)
        self.incoming.next_id = flow.next_outgoing_id
        self.remote_outgoing_window = flow.outgoing_window
        if self.departures.has_work():
            events.append(Writable(self))
        if flow.handle is None:
            if flow.echo:
                self.incoming.flow_due = True
            return
        link = self.links.of_handle(flow.handle)
        if not link.is_up():
            return
        if link.receiver is not None:
            self._flow_of_sender(link, link.receiver, flow)
        elif link.sender is not None:
            self._flow_of_receiver(link, link.sender, flow, events)
        if flow.echo:
            link.full_due = True
            self._flows.want(link)
        events.append(Flowed(link, flow))

    def _flow_of_sender(self, link: Link, receiver: Receiver, flow: Flow) -> None:
        if flow.available is not None:
            receiver.available = flow.available
        if flow.delivery_count is not None:
            receiver.follow(flow.delivery_count)
        if receiver.is_due():
            self._flows.watch(link)

    def _flow_of_receiver(
        self, link: Link, sender: Sender, flow: Flow, events: list[Event]
    ) -> None:
        if flow.link_credit is None:
            return
        if sender.update(flow.delivery_count, flow.link_credit, flow.drain):
            given_up = sender.withdraw()
            if len(given_up) > 0:
                events.append(Withdrawn(link, given_up))
                if len(sender.runs) == 0:
                    self.departures.leave(link)
        if link.full_due and link.properties is not None:
            self._flows.want(link)  # In answer to the first credit.
        self._touch(link)
        self._settle_drain(link)

    def _settle_drain(self, link: Link) -> None:
        """Answer a drain that is over, then do what was asked for meanwhile."""
        sender = link.sender
        assert sender is not None
        while link.status == ATTACHED and sender.may_finish_drain():
            sender.finish_drain()
            sender.flow_due = True
            self._flush_first()
            self._flows.write(link)
            self._touch(link)
            if not sender.unstash():
                return

    # Dispositions

    def take_dispositions(self, run: Dispositions, events: list[Event]) -> None:
        """Dispositions that say the same, found in place."""
        outcome = outcome_of_descriptor(run.state)
        self._settled(run.as_receiver, run.first, run.last, run.settled, outcome, None, events)

    def _take_disposition(self, disposition: Disposition, events: list[Event]) -> None:
        first = disposition.first
        last = disposition.first if disposition.last is None else disposition.last
        if ahead(last, first) < 0:
            text = f"disposition of deliveries {first} to {last}"
            raise ProtocolError(Condition.INVALID_FIELD, text, Scope.SESSION)
        state = disposition.state
        outcome = outcome_of(state)
        if outcome <= MODIFIED and not says_more(state):
            state = None
        sent, settled = disposition.role, disposition.settled
        self._settled(sent, first, last, settled, outcome, state, events)

    def _settled(
        self,
        sent: bool,
        first: i64,
        last: i64,
        settled: bool,
        outcome: i64,
        state: DeliveryState | None,
        events: list[Event],
    ) -> None:
        """Tell of deliveries first..last, as far as there were such."""
        next_id = self.departures.next_id if sent else self.arrivals.next_id
        if next_id < 0 or ahead(first, next_id) >= 0:
            return  # None of them has been sent yet.
        if ahead(last, next_id) >= 0:
            last = plus(next_id, -1)
        report(Settled(self, sent, first, last, settled, outcome, state), events)
