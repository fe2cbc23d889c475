"""Turn the effects of a machine into calls of a `SessionSink`.

`session_in` names the session of an effect, `tell` calls the sink that stands here for that
session. Effects that concern bodies (Enqueued, Left) or the queue itself are the host's own.
Compiled.
"""

from mypy_extensions import i64

from queues.machine.commands import ConsumerKey, SessionId, session_of
from queues.machine.consuming.numbered_sessions import Resumed
from queues.machine.effects import (
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
from queues.queue_host import SessionSink
from queues.remote.remote_interfaces import StreamSink


def number_of(key: ConsumerKey) -> int:
    """The session's own number of the consumer."""
    return key & 0xFFFFFFFF


def session_in(effect: Effect) -> SessionId:
    """Whose session is to be told; 0: none."""
    if isinstance(effect, Delivers):
        return session_of(effect.key)
    if isinstance(effect, (Got, Refused, Purged, Inspected)):
        return effect.session
    if isinstance(effect, (Attached, AttachRefused, Detached, Drained, Activated, TimedOut)):
        return session_of(effect.key)
    return SessionId(0)


def tell(sink: SessionSink, uid: i64, effect: Effect, goes: bool) -> None:
    """Tell the session. `goes`: a consumer that detaches was the last one, and takes the queue."""
    if isinstance(effect, Delivers):
        sink.on_delivers(
            uid,
            number_of(effect.key),
            effect.delivery_seq,
            effect.first,
            effect.count,
            effect.redelivered,
            effect.attempts,
        )
    elif isinstance(effect, Got):
        sink.on_got(uid, effect.message, effect.redelivered, effect.ready, effect.attempts)
    elif isinstance(effect, Refused):
        sink.on_refused(uid, effect.first_seq, effect.count)
    else:
        tell_seldom(sink, uid, effect, goes)


def tell_seldom(sink: SessionSink, uid: i64, effect: Effect, goes: bool) -> None:
    """What a consumer brings about once in a while."""
    if isinstance(effect, Attached):
        sink.on_attached(uid, number_of(effect.key))
    elif isinstance(effect, AttachRefused):
        sink.on_attach_refused(uid, number_of(effect.key), int(effect.reason))
    elif isinstance(effect, Detached):
        sink.on_detached(uid, number_of(effect.key), goes)
    elif isinstance(effect, Drained):
        sink.on_drained(uid, number_of(effect.key), effect.delivery_count)
    elif isinstance(effect, Purged):
        sink.on_purged(uid, effect.count)
    elif isinstance(effect, Inspected):
        sink.on_inspected(uid, effect.ready, effect.consumer_count)
    elif isinstance(effect, Activated):
        sink.on_activated(uid, number_of(effect.key), effect.active)
    elif isinstance(effect, TimedOut):
        sink.on_timed_out(uid, number_of(effect.key), effect.timeout_ms)
    else:
        raise AssertionError(f"unexpected effect {type(effect).__name__}")


def tell_resumed(sink: StreamSink, uid: int, term: int, resumed: Resumed) -> None:
    """Tell a session that resumes what `Fifo.resume` found: refusals before confirms."""
    sink.on_resumed(uid, term, resumed.number)
    for effect in resumed.effects:
        if isinstance(effect, Refused):
            sink.on_refused(uid, effect.first_seq, effect.count)
    if resumed.published > 0:
        sink.on_confirms(uid, resumed.published)
    for effect in resumed.effects:
        if not isinstance(effect, Refused):
            tell(sink, uid, effect, False)  # A quorum queue does not go for a consumer that goes.
