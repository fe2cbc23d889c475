"""A queue that a session of another node uses and that this node knows nothing of yet.

A declare is answered when all trusted nodes have applied it; one that lags behind may be asked for
a queue that is defined and not known here. What is published to it is refused, for nothing else
would be safe, and to the session the queue is gone: it restarts. Keeps `QueueHost`, for session
stubs (`queues.remote.home`) alone, which may be answered at once.
"""

from queues.machine.commands import Command, EndSession
from queues.message import Chunk
from queues.queue_host import SessionSink, View


class UnknownHost:
    """See the module."""

    def __init__(self, uid: int) -> None:
        self.uid = uid
        self.vhost = ""
        self.name = ""
        self.quorum = False
        self.single_active = False
        self.ready_count = 0
        self.checked_out_count = 0
        self.consumer_count = 0

    def publish(self, sink: SessionSink, chunk: Chunk, first_seq: int) -> None:
        count = int(chunk.count())
        sink.on_refused(self.uid, first_seq, count)
        sink.on_confirms(self.uid, first_seq + count - 1)
        sink.on_gone(self.uid)

    def command(self, sink: SessionSink, command: Command) -> None:
        if not isinstance(command, EndSession):
            sink.on_gone(self.uid)

    def view(self, sink: SessionSink, first: int, count: int) -> View | None:
        return None
