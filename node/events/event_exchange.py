"""Events as messages: the topic exchange `amq.rabbitmq.event`, as RabbitMQ's plugin has it.

While it is switched on, every event of this node is published there: routing key is the name of
the event, headers are its properties with `node` and `timestamp_in_ms`, the body is empty, the
delivery mode persistent. The exchange is there in every vhost; used is the one of `events.vhost`.
Switched on by the setting `events.exchange`, or for the whole cluster by the global parameter
`event-exchange`, an object with `enabled` and perhaps `vhost`, which goes before the settings.

Off, it hears of nothing; on with nothing bound, an event costs one look. What waits and what is
dropped: `internal_publisher`.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from node.events.events import Event, Events
from node.events.internal_publisher import InternalPublisher, Letter

if TYPE_CHECKING:
    from node.config.settings import EventsSection
    from queues.definitions.metadata.machine import Metadata

log = logging.getLogger("warren.events")

EXCHANGE: Final = "amq.rabbitmq.event"
PARAMETER: Final = ("", "event-exchange")  # component, name


class Wish(msgspec.Struct):
    """The value of the parameter."""

    enabled: bool = False
    vhost: str = ""  # "": that of the settings


_DECODE: Final = msgspec.json.Decoder(Wish).decode


class EventExchange:
    """Invariant: it is subscribed to the events exactly while it is on."""

    def __init__(
        self,
        events: Events,
        metadata: "Metadata",
        section: "EventsSection",
        publisher: InternalPublisher,
    ) -> None:
        self._events = events
        self._metadata = metadata
        self._section = section
        self._publisher = publisher
        self._leave: Callable[[], None] | None = None
        self.vhost = ""

    @property
    def is_on(self) -> bool:
        return self._leave is not None

    def load(self) -> None:
        """The definitions are there."""
        self.parameter_changed()

    def parameter_changed(self) -> None:
        """Some global parameter is another one now."""
        wish = self._wish()
        self.vhost = wish.vhost or self._section.vhost
        if wish.enabled and self._leave is None:
            self._leave = self._events.subscribe(self._heard)
        elif not wish.enabled and self._leave is not None:
            self._leave()
            self._leave = None

    def _wish(self) -> Wish:
        parameter = self._metadata.parameters.get(PARAMETER)
        section = self._section
        if parameter is None:
            return Wish(section.exchange, section.vhost)
        try:
            return _DECODE(parameter.value)
        except msgspec.DecodeError as error:
            log.warning("global parameter '%s' is passed over: %s", PARAMETER[1], error)
            return Wish(section.exchange, section.vhost)

    def _heard(self, event: Event) -> None:
        if not self._publisher.is_heard(self.vhost, EXCHANGE):
            return
        headers = {
            "timestamp_in_ms": event.at_ms,
            "node": event.node,
            **event.properties,
        }
        self._publisher.offer(
            Letter(self.vhost, EXCHANGE, event.name, headers, b"", event.at_ms, True)
        )
