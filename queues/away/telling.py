"""What a leader says of a session that resumes, told to whoever stands for the session (0042).

Takes the effects of `Fifo.resume`; gives them as calls of a `StreamSink`. Compiled.
"""

from queues.away.seam import StreamSink
from queues.commands import ConsumerKey
from queues.effects import (
    Activated,
    Attached,
    AttachRefused,
    Delivers,
    Detached,
    Drained,
    Effect,
    Got,
    Inspected,
    Purged,
    Refused,
    TimedOut,
)
from queues.streams import Resumed


def tell_resumed(sink: StreamSink, uid: int, term: int, resumed: Resumed) -> None:
    """All of it. What was refused comes before what confirms the others."""
    sink.on_resumed(uid, term, resumed.number)
    for effect in resumed.effects:
        if isinstance(effect, Refused):
            sink.on_refused(uid, effect.first_seq, effect.count)
    if resumed.published > 0:
        sink.on_confirms(uid, resumed.published)
    for effect in resumed.effects:
        if not isinstance(effect, Refused):
            tell(sink, uid, effect)


def tell(sink: StreamSink, uid: int, effect: Effect) -> None:
    """A delivery, an answer, or news of a consumer."""
    if isinstance(effect, Delivers):
        sink.on_delivers(
            uid,
            _number(effect.key),
            effect.delivery_seq,
            effect.first,
            effect.count,
            effect.redelivered,
            effect.attempts,
        )
    elif isinstance(effect, Got):
        sink.on_got(uid, effect.message, effect.redelivered, effect.ready, effect.attempts)
    elif isinstance(effect, Attached):
        sink.on_attached(uid, _number(effect.key))
    elif isinstance(effect, AttachRefused):
        sink.on_attach_refused(uid, _number(effect.key))
    elif isinstance(effect, Detached):
        sink.on_detached(uid, _number(effect.key), False)  # A quorum queue does not go for that.
    elif isinstance(effect, Activated):
        sink.on_activated(uid, _number(effect.key), effect.active)
    elif isinstance(effect, TimedOut):
        sink.on_timed_out(uid, _number(effect.key), effect.timeout_ms)
    elif isinstance(effect, Drained):
        sink.on_drained(uid, _number(effect.key), effect.delivery_count)
    elif isinstance(effect, Purged):
        sink.on_purged(uid, effect.count)
    else:
        assert isinstance(effect, Inspected), type(effect).__name__
        sink.on_inspected(uid, effect.ready, effect.consumer_count)


def _number(key: ConsumerKey) -> int:
    """The session's own number of the consumer."""
    return key & 0xFFFFFFFF
