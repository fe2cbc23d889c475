"""Who looks on at what a broker does: events, the event exchange, the firehose, the audit log.

Told by the broker of applied changes, of connections and of alarms; hands each to the part it
concerns. No rules of its own: those are in `event_sources`, `event_exchange`, `firehose`, `audit`.
All calls on the loop thread, in the midst of whatever happened: nothing here proposes anything.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from node.events.audit import Audit
from node.events.authors import Author
from node.events.event_exchange import EventExchange
from node.events.event_sources import (
    AlarmEvents,
    tell_changes,
    tell_leader,
)
from node.events.events import Events
from node.events.firehose import Firehose
from node.events.internal_publisher import InternalPublisher
from queues.definitions.broker_objects import Parameter, VhostEntry
from queues.definitions.metadata.outcomes import Change, Outcome

if TYPE_CHECKING:
    from node.config.settings import Config
    from node.connections.connection_registry import ConnectionRegistry
    from node.resources.alarms import Alarms
    from queues.definitions.metadata.machine import Metadata


class Observers:
    """See the module. One for each broker."""

    def __init__(
        self,
        events: Events,
        metadata: "Metadata",
        config: "Config",
        publisher: InternalPublisher,
        connections: "ConnectionRegistry",
    ) -> None:
        self._events = events
        self._metadata = metadata
        self._node_name = config.node.name
        self.publisher = publisher
        self.audit = Audit(events, config.log.audit)
        self.event_exchange = EventExchange(events, metadata, config.events, publisher)
        self.firehose = Firehose(self._node_name, metadata, connections, publisher)
        self._alarms = AlarmEvents(events)

    def load(self) -> None:
        """The definitions are there, as the disk has them."""
        self.firehose.load()
        self.event_exchange.load()

    # Definitions

    def carried(self, changes: Sequence[Change]) -> None:
        """The broker follows these changes, whichever node proposed them."""
        for change in changes:
            subject = change.subject
            if isinstance(subject, VhostEntry):
                self.firehose.vhost_changed(subject.name)
            elif isinstance(subject, Parameter) and not subject.vhost:
                self.event_exchange.parameter_changed()

    def proposal_applied(self, outcome: Outcome, author: Author) -> None:
        """What this node has proposed is applied here: told once in the whole cluster."""
        if outcome.changes:
            tell_changes(self._events, outcome.changes, author, self._member_name)
            self.audit.definitions_changed(outcome.changes, author)

    def _member_name(self, member: int) -> str:
        found = self._metadata.roster.members.get(member)
        return str(member) if found is None else found.name

    # What runs

    def alarms_changed(self, alarms: "Alarms") -> None:
        self._alarms.changed(alarms)

    def maintenance_changed(self, is_so: bool) -> None:
        word = "draining" if is_so else "revived"
        self._events.tell(f"node.{word}", name=self._node_name)

    def paused_changed(self, reason: str) -> None:
        """The node serves no classic and mirrored queues for this reason; '': it does again."""
        if reason:
            self._events.tell("node.paused", name=self._node_name, reason=reason)
        else:
            self._events.tell("node.resumed", name=self._node_name)

    def leads(self, uid: int, term: int) -> None:
        """This node leads the group, which another one, or none, led before."""
        queue = self._metadata.queue(uid)
        if queue is not None:
            tell_leader(self._events, queue, self._node_name, term)
