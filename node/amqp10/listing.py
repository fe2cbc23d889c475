"""Sessions and links of AMQP 1.0 as the management API lists them. Reads only."""

from typing import Final

from node.amqp10.endpoint import Endpoint10
from node.amqp10.links.consuming import ConsumingLink
from node.amqp10.links.publishing import PublishingLink
from node.amqp10.sessions import Session10
from node.management.rows.view import LinkView, SessionView

SETTLE_MODES: Final = ("unsettled", "settled", "mixed")


def session_views(endpoint: Endpoint10) -> tuple[SessionView, ...]:
    """All sessions of the connection, by channel."""
    sessions = sorted(endpoint.sessions.items())
    return tuple(session_view(session) for _, session in sessions)


def session_view(session: Session10) -> SessionView:
    core = session.core
    publishing = [publishing_view(each) for each in session.publishing.values()]
    consuming = [consuming_view(each) for each in session.consuming.values()]
    return SessionView(
        channel=int(core.channel),
        handle_max=int(core.links.handle_max),
        next_incoming_id=int(core.incoming.next_id),
        incoming_window=int(core.incoming.announced()),
        next_outgoing_id=int(core.outgoing.next_id),
        remote_incoming_window=int(core.outgoing.left),
        remote_outgoing_window=int(core.remote_outgoing_window),
        unsettled=int(session.unacked.count),
        links=tuple(publishing + consuming),
    )


def publishing_view(mine: PublishingLink) -> LinkView:
    link, receiver = mine.link, mine.link.receiver
    assert receiver is not None
    return LinkView(
        incoming=True,
        handle=int(link.peer_handle),
        name=link.name,
        address=mine.address,
        settled=SETTLE_MODES[link.snd_settle_mode],
        message_bytes_max=int(receiver.message_bytes_max),
        delivery_count=int(receiver.delivery_count),
        credit=int(receiver.credit),
        unconfirmed=int(receiver.unconfirmed),
    )


def consuming_view(mine: ConsumingLink) -> LinkView:
    link, sender = mine.link, mine.link.sender
    assert sender is not None
    return LinkView(
        incoming=False,
        handle=int(link.peer_handle),
        name=link.name,
        address=mine.asked.source.address,
        queue=mine.host.name,
        settled=SETTLE_MODES[link.snd_settle_mode],
        message_bytes_max=link.peer_message_bytes_max,
        delivery_count=int(sender.delivery_count),
        credit=int(sender.credit),
    )
