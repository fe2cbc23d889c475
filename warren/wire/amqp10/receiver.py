"""One link as its receiver: what the sender may send, and a message that comes in parts. Compiled.

The broker is the receiver of a publisher's link. It grants `credit_max`, and grants again, back to
that, when no more than half is left *and* fewer than `credit_max` messages are unconfirmed: so a
slow queue slows the links that publish to it, and nothing else. With `credit_max` 0 nothing is
granted but what the host asks for (`grant`), as a consuming client does. The host may choose
another mark than half (`credit_low`); -1 stops grants.

Credit is counted when the first frame of a delivery comes, and granted when the flow is written, so
that it makes no difference how the input was cut into reads. Parts of an unfinished message are
kept here, as they came; the session bounds them (`held_bytes`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.wire.amqp10.codec.serial import ahead, plus

PART_BYTES: Final = 64  # what a part takes beside its bytes


@final
class Receiver:
    """Invariant: the sender may still send `credit` messages, as far as this side knows.

    Where the host took credit back, `overrun` more may be under way: they were sent before the
    sender read of it.
    """

    def __init__(self, credit_max: i64, message_bytes_max: i64) -> None:
        self.credit_max: i64 = credit_max  # 0: the host grants by itself
        self.credit_low: i64 = credit_max // 2  # granted again when so few are left; -1: never
        self.message_bytes_max: i64 = message_bytes_max  # 0: any size
        self.delivery_count: i64 = 0
        self.credit: i64 = 0
        self.overrun: i64 = 0
        self.unconfirmed: i64 = 0  # messages that the host still has to answer for
        self.drain = False
        self.echo = False  # ask for an answer with the next flow
        self.flow_due = False
        self.available: i64 = 0  # as the sender told last
        # The delivery that is coming in parts; `partial` says whether there is one.
        self.partial = False
        self.delivery_id: i64 = 0
        self.delivery_tag = b""
        self.message_format: i64 = 0
        self.settled = False
        self.parts: list[bytes] = []
        self.message_bytes: i64 = 0
        self.transaction = b""  # in which the message under way is posted
        self.held_bytes: i64 = 0

    def attached(self, initial_delivery_count: i64) -> None:
        """The link is up: the sender begins to count here."""
        self.delivery_count = initial_delivery_count

    def allowed(self) -> i64:
        """How many more deliveries may come."""
        return self.credit + self.overrun

    def take(self, count: i64) -> None:
        """So many deliveries came, or began to come; there was credit for them."""
        assert 0 <= count <= self.allowed()
        self.delivery_count = plus(self.delivery_count, count)
        self._use(count)

    def _use(self, count: i64) -> None:
        used = min(count, self.credit)
        self.credit -= used
        self.overrun -= min(count - used, self.overrun)

    def confirm(self, count: i64) -> None:
        """The host has answered for so many messages."""
        assert 0 <= count <= self.unconfirmed
        self.unconfirmed -= count

    def is_due(self) -> bool:
        """Whether a flow is to be written: by the rule of granting, or for another reason."""
        return self.flow_due or (
            self.credit <= self.credit_low and self.unconfirmed < self.credit_max
        )

    def set_scheme(self, credit_max: i64, credit_low: i64) -> None:
        """Grant up to `credit_max` when `credit_low` are left from now on."""
        self.credit_max = credit_max
        self.credit_low = credit_low

    def regrant(self) -> None:
        """A flow is being written: grant up to the limit again, if the rule says so."""
        self.flow_due = False
        if self.credit <= self.credit_low and self.unconfirmed < self.credit_max:
            self.credit = self.credit_max

    def grant(self, credit: i64, drain: bool, echo: bool) -> None:
        """The host's own grant: absolute, not added to what is left."""
        before = self.allowed()
        self.overrun = before - credit if before > credit else 0
        self.credit = credit
        self.drain = drain
        self.echo = self.echo or echo
        self.flow_due = True

    def follow(self, delivery_count: i64) -> None:
        """The sender told its count: what it skipped (drain) is credit that it used up."""
        skipped = ahead(delivery_count, self.delivery_count)
        if skipped > 0:
            self.delivery_count = delivery_count
            self._use(skipped)

    # A delivery in parts

    def begin(self, delivery_id: i64, tag: bytes, message_format: i64, settled: bool) -> None:
        assert not self.partial
        self.partial = True
        self.delivery_id = delivery_id
        self.delivery_tag = tag
        self.message_format = message_format
        self.settled = settled

    def add(self, payload: bytes) -> bool:
        """Keep a part; False: the message is larger than the link allows."""
        if len(payload) > 0:
            self.parts.append(payload)
            self.message_bytes += len(payload)
            self.held_bytes += len(payload) + PART_BYTES
        return self.message_bytes_max == 0 or self.message_bytes <= self.message_bytes_max

    def finish(self) -> bytes:
        """The message is whole, or is to be forgotten; return what there is of it."""
        parts = self.parts
        self.partial = False
        self.delivery_tag = b""
        self.parts = []
        self.message_bytes = 0
        self.held_bytes = 0
        return parts[0] if len(parts) == 1 else b"".join(parts)
