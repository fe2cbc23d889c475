"""The flows that one session sends: its own, and those of its links. Compiled.

Whatever asks for a flow in one turn (a grant, an echo, the end of an alarm, new properties) is
answered by one flow per link, written at the end of the turn with the state of that moment.
Properties go in full with a link's first flow and with answers to echo, else in short.
"""

from typing import final

from mypy_extensions import i64

from warren.wire.amqp10.codec.performatives import Flow
from warren.wire.amqp10.codec.serial import UINT_MAX
from warren.wire.amqp10.dispositions import ABSENT, write_flow
from warren.wire.amqp10.link import ATTACHED, ATTACHING, REQUESTED, Link
from warren.wire.amqp10.output import Output
from warren.wire.amqp10.windows import IncomingWindow, OutgoingWindow


@final
class Flows:
    """Invariant: a link stands in the list at most once, and then has `flow_listed`."""

    def __init__(
        self, channel: i64, output: Output, incoming: IncomingWindow, outgoing: OutgoingWindow
    ) -> None:
        self.channel: i64 = channel
        self._output = output
        self._incoming = incoming
        self._outgoing = outgoing
        self._listed: list[Link] = []

    def watch(self, link: Link) -> None:
        """A flow may be due for the link."""
        if not link.flow_listed:
            link.flow_listed = True
            self._listed.append(link)

    def want(self, link: Link) -> None:
        """A flow is due for the link."""
        if link.receiver is not None:
            link.receiver.flow_due = True
        elif link.sender is not None:
            link.sender.flow_due = True
        self.watch(link)

    def forget(self) -> None:
        self._listed = []

    def flush(self) -> None:
        """Write what is due; links that are not attached yet wait until they are."""
        if self._incoming.flow_due:
            self._incoming.refill()
            self._write(ABSENT, ABSENT, ABSENT, ABSENT, False, False, None)
        if len(self._listed) == 0:
            return
        listed = self._listed
        self._listed = []
        for link in listed:
            link.flow_listed = False
            if link.status == ATTACHED:
                self.write(link)
            elif link.status == REQUESTED or link.status == ATTACHING:
                self.watch(link)

    def write(self, link: Link) -> None:
        """The link's flow, if one is due."""
        receiver = link.receiver
        sender = link.sender
        properties = link.properties if link.full_due else link.properties_short
        if receiver is not None:
            if not receiver.is_due():
                return
            receiver.regrant()
            count, credit, echo = receiver.delivery_count, receiver.credit, receiver.echo
            receiver.echo = False
            self._write(link.handle, count, credit, ABSENT, receiver.drain, echo, properties)
        elif sender is not None:
            if not sender.flow_due:
                return
            sender.flow_due = False
            count, credit, available = sender.delivery_count, sender.credit, sender.available
            self._write(link.handle, count, credit, available, sender.drain, False, properties)
        link.full_due = False

    def _write(
        self,
        handle: i64,
        delivery_count: i64,
        credit: i64,
        available: i64,
        drain: bool,
        echo: bool,
        properties: dict[str, object] | None,
    ) -> None:
        """Properties that the peer cannot take in one frame are left out."""
        incoming, outgoing = self._incoming, self._outgoing
        if properties is not None:
            flow = Flow(
                next_incoming_id=incoming.next_id if incoming.is_begun else None,
                incoming_window=incoming.announced(),
                next_outgoing_id=outgoing.next_id,
                outgoing_window=UINT_MAX,
                handle=handle,
                delivery_count=delivery_count,
                link_credit=credit,
                available=None if available < 0 else int(available),
                drain=drain,
                echo=echo,
                properties=properties,
            )
            if self._output.frame_if_fits(self.channel, flow):
                return
        write_flow(
            self._output.writer,
            self.channel,
            incoming.next_id if incoming.is_begun else ABSENT,
            incoming.announced(),
            outgoing.next_id,
            UINT_MAX,
            handle,
            delivery_count,
            credit,
            available,
            drain,
            echo,
        )
