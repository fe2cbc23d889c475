"""What a leader says of a session that resumes, passed to the sink of the session (0036).

Takes the effects of `Fifo.resume`; gives them as calls of a `StreamSink`. Compiled.
"""

from queues.hosts.effect_dispatch import tell
from queues.machine.effects import Refused
from queues.machine.numbered_sessions import Resumed
from queues.remote.remote_interfaces import StreamSink


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
            tell(sink, uid, effect, False)  # A quorum queue does not go for a consumer that goes.
