"""What this side of an AMQP 1.0 connection allows and grants. Compiled.

The values are the broker's defaults. A client takes the same with
`max_link_credit` 0, for it grants by itself, and `max_queue_credit` 0, for it has no queue.
"""

from typing import Final, final

from warren.wire.amqp10.deliver import HANDLE_MAX

FRAME_SIZE_MIN: Final = 512  # AMQP 1.0: MIN-MAX-FRAME-SIZE
IDLE_MS_MIN: Final = 1_000  # a peer may not ask to be written to more often than so


@final
class Limits:
    """What one connection allows. Held by its host; the cores only read it."""

    def __init__(
        self,
        max_frame_size: int = 131_072,
        initial_frame_size: int = 8_192,
        channel_max: int = 63,
        handle_max: int = 255,
        idle_time_out_ms: int = 30_000,
        max_incoming_window: int = 400,
        max_link_credit: int = 170,
        max_queue_credit: int = 256,
        message_bytes_max: int = 16 * 1024 * 1024,
        held_bytes_max: int = 64 * 1024 * 1024,
        handshake_ms: int = 10_000,
        first_outgoing_id: int = 0,
        initial_delivery_count: int = 0,
        container_id: str = "",
    ) -> None:
        assert max_frame_size >= FRAME_SIZE_MIN
        assert initial_frame_size >= FRAME_SIZE_MIN
        assert 0 <= channel_max <= 65_535
        assert 0 <= handle_max <= HANDLE_MAX
        assert max_incoming_window > 0
        self.max_frame_size = max_frame_size  # that we read
        self.initial_frame_size = initial_frame_size  # that we read until open; SASL frames too
        self.channel_max = channel_max  # highest channel number: one session more
        self.handle_max = handle_max  # highest handle: one link more, in each session
        self.idle_time_out_ms = (
            idle_time_out_ms  # announced; silence is borne twice as long; 0: any
        )
        self.max_incoming_window = max_incoming_window  # transfer frames, per session
        self.max_link_credit = max_link_credit  # granted to a sender; 0: the host grants
        self.max_queue_credit = max_queue_credit  # asked of a queue at once; 0: there is no queue
        self.message_bytes_max = message_bytes_max
        self.held_bytes_max = held_bytes_max  # in unfinished messages of all links together
        self.handshake_ms = handshake_ms  # until the connection is open
        self.first_outgoing_id = first_outgoing_id  # of transfers and of deliveries, per session
        self.initial_delivery_count = initial_delivery_count  # of links that send
        self.container_id = container_id  # in the open that goes before a refusal
