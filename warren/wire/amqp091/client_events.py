"""What the client's core tells its host, in the order of arrival. Compiled.

Beside these come `Settles` (the broker's confirms), `Called` (any other method, decoded), `Failed`
and `Ended` of `events`.
"""

from mypy_extensions import i64, mypyc_attr

from warren.wire.amqp091.events import Called, Ended, Failed, Settles


@mypyc_attr(acyclic=True)
class Arrived:
    """A run of whole contents of one channel, as they came: deliver, return or get-ok.

    Content `i` is `data[offsets[i]:offsets[i + 1]]`: the method frame, the content header frame and
    the body frames, one after the other, frame ends included.
    """

    def __init__(self, channel: i64, data: bytes, offsets: bytes) -> None:
        self.channel: i64 = channel
        self.data = data
        self.offsets = offsets  # count + 1 times u32 little-endian, positions in `data`

    @property
    def count(self) -> int:
        return len(self.offsets) // 4 - 1


class StartRequested:
    """connection.start: the host answers with `login`, or gives up."""

    def __init__(self, mechanisms: list[str], server_properties: dict[str, object]) -> None:
        self.mechanisms = mechanisms
        self.server_properties = server_properties


class Opened:
    """The vhost is open: channels may be."""


class ChannelClosed:
    """The broker closed a channel, and said why. close-ok is in the output already."""

    def __init__(
        self, channel: int, reply_code: int, reply_text: str, class_id: int, method_id: int
    ) -> None:
        self.channel = channel
        self.reply_code = reply_code
        self.reply_text = reply_text
        self.class_id = class_id
        self.method_id = method_id


class Closed:
    """The broker closed the connection, and said why; `Ended` follows."""

    def __init__(self, reply_code: int, reply_text: str) -> None:
        self.reply_code = reply_code
        self.reply_text = reply_text


ClientEvent = (
    Arrived | Settles | Called | StartRequested | Opened | ChannelClosed | Closed | Failed | Ended
)
