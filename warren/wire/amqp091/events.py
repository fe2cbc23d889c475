"""What the AMQP 0-9-1 connection core tells its endpoint, in the order of arrival.

One event stands for a run of frames wherever the protocol allows: nothing is made per message or
per acknowledgement of a run. Compiled; made on the hot path, so plain typed classes.

`Publishes` is a run of whole messages of one channel, still as they came. Message `i` is
`data[offsets[i]:offsets[i + 1]]` and is its basic.publish method frame, its content header frame
and its body frames, one after the other, frame ends included: this is *stored form 1*
(`queues.message.FORMAT_091`), and it is what goes into memory, log and other consumers.
"""

from bisect import bisect_left
from typing import Final

from mypy_extensions import i64, mypyc_attr

from warren.wire.amqp091.methods import Method
from warren.wire.errors import ProtocolError

# Bits of `Publishes.infos`; the priority (0 where absent) is in bits 8-15.
INFO_PERSISTENT: Final = 1  # delivery-mode is 2
INFO_HEADERS: Final = 2  # the headers property is present
INFO_EXPIRATION: Final = 4  # the expiration property is present
INFO_USER_ID: Final = 8  # the user-id property is present
INFO_REPLY_TO: Final = 16  # the reply-to property is present
INFO_PRIORITY: Final = 32  # the priority property is present
INFO_PRIORITY_SHIFT: Final = 8

ACK: Final = 80  # basic.ack, reject and nack by their method ids
REJECT: Final = 90
NACK: Final = 120


@mypyc_attr(acyclic=True)
class Publishes:
    """A run of messages published on one channel, in order.

    `keys[k]` and `infos[k]` hold for the messages from `firsts[k]` up to `firsts[k + 1]` (or the
    end). A key is the publish method's payload after its ticket: exchange (short string), routing
    key (short string), bits (bit 0 mandatory, bit 1 immediate); it serves as cache key of the
    route.
    Invariant: firsts[0] == 0, the three lists are equally long, count >= 1.
    """

    def __init__(
        self,
        channel: i64,
        data: bytes,
        offsets: bytes,
        firsts: list[int],
        keys: list[bytes],
        infos: list[int],
    ) -> None:
        self.channel: i64 = channel
        self.data = data
        self.offsets = offsets  # count + 1 times u32 little-endian, positions in `data`
        self.firsts = firsts
        self.keys = keys
        self.infos = infos

    @property
    def count(self) -> int:
        return len(self.offsets) // 4 - 1

    def split(self, index: i64) -> "tuple[Publishes, Publishes]":
        """The first `index` messages, which are some and not all, and the others."""
        firsts = self.firsts
        k: i64 = bisect_left(firsts, index)
        head = Publishes(
            self.channel,
            self.data,
            self.offsets[: 4 * index + 4],
            firsts[:k],
            self.keys[:k],
            self.infos[:k],
        )
        if k == len(firsts) or firsts[k] != index:
            k -= 1  # The run before it goes on.
        rest = Publishes(
            self.channel,
            self.data,
            self.offsets[4 * index :],
            [max(0, first - int(index)) for first in firsts[k:]],
            self.keys[k:],
            self.infos[k:],
        )
        return head, rest


@mypyc_attr(acyclic=True)
class Settles:
    """basic.ack, basic.reject or basic.nack.

    `multiple`: everything outstanding up to `last` (0: everything); `first` is then `last`.
    Else each tag of first..last was named by a frame of its own, in ascending order.
    """

    def __init__(
        self, channel: i64, kind: i64, first: i64, last: i64, multiple: bool, requeue: bool
    ) -> None:
        self.channel: i64 = channel
        self.kind: i64 = kind  # ACK, REJECT or NACK
        self.first: i64 = first
        self.last: i64 = last
        self.multiple = multiple
        self.requeue = requeue


class Called:
    """Any other method, decoded. Channel 0 methods of the handshake do not reach the endpoint."""

    def __init__(self, channel: int, method: Method) -> None:
        self.channel = channel
        self.method = method


class LoginRequested:
    """connection.start-ok: the endpoint answers with `accept_login` or `refuse_login`."""

    def __init__(
        self, mechanism: str, response: bytes, client_properties: dict[str, object]
    ) -> None:
        self.mechanism = mechanism
        self.response = response
        self.client_properties = client_properties


class OpenRequested:
    """connection.open: the endpoint answers with `accept_open` or fails the connection."""

    def __init__(self, vhost: str) -> None:
        self.vhost = vhost


class ChannelFailed:
    """The peer broke a rule of one channel, and the core has closed it: what it held is released.

    channel.close is in the output already; frames of the channel are dropped up to close-ok.
    """

    def __init__(self, channel: int, error: ProtocolError) -> None:
        self.channel = channel
        self.error = error


class Failed:
    """The peer broke the protocol. The last event, but for an `Ended` later on.

    The core has already put connection.close (where the protocol allows one) into its output; it
    now waits for close-ok, for a limited time, and takes no other input.
    """

    def __init__(self, error: ProtocolError) -> None:
        self.error = error


class Ended:
    """Close and close-ok were exchanged, or the time for it is over: the socket may be closed."""


Event = (
    Publishes | Settles | Called | LoginRequested | OpenRequested | ChannelFailed | Failed | Ended
)
