"""What the management API reads and changes of a running node, made without the HTTP library.

Samples are taken from the start of the node on, whether or not a client ever connects.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

from node.build import installed_version
from node.events.event_feed import EventFeed
from node.management.rows.attempt_rows import ATTEMPTS, attempt_rows
from node.management.rows.cluster_view import ClusterView
from node.management.rows.sampling import Rates
from node.management.rows.view import ListenerView
from node.operations.live_controls import LiveControls
from node.operations.live_operations import LiveOperations
from node.views.broker_view import LiveView
from node.views.live_meter import LiveMeter
from node.views.tallies import LiveTallies
from warren.storage.disk import OsDisk

if TYPE_CHECKING:
    from node.broker import Broker
    from node.connections.amqp_listeners import AmqpListeners


class ApiSources:
    """One per node. Sampling until `close`."""

    def __init__(
        self,
        broker: "Broker",
        amqp: "AmqpListeners",
        listeners: Sequence[ListenerView],
        build: str,
        stop: Callable[[], None],
    ) -> None:
        """`stop` begins an orderly stop of the node."""
        loop = asyncio.get_running_loop()
        section = broker.config.management
        operating = broker.operating
        self.view = LiveView(broker, tuple(listeners), build, installed_version())
        self.rates = Rates(LiveTallies(broker, self.view), broker.now_ms, section.rates_interval_ms)
        self.operations = operations = LiveOperations(broker)
        operating.open_to(amqp)
        operations.peeking.serve(operating.status)
        operations.skipping.serve(operating.status)
        operating.stop_by(stop, OsDisk(), str(broker.config.node.data_dir))
        close = operations.close_connections
        self.cluster = ClusterView(self.view, operating, close, self.rates)
        self.feed = EventFeed(
            broker.events, broker.events_elsewhere, broker.identity.incarnation, loop.call_later
        )
        self.meter = LiveMeter(broker)
        self.controls = LiveControls(
            broker.alarms,
            amqp,
            broker.clock if broker.config.testing.adjustable_clock else None,
            broker.timers,
        )
        self._logins = broker.logins.log
        operating.status.serve(ATTEMPTS, self._attempts_asked)
        self.rates.start()

    async def _attempts_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        yield attempt_rows(self._logins, str(about))

    async def close(self) -> None:
        """Sample no more."""
        await self.rates.stop()
