"""What both ends of a queue in use from another node need of the node (0036). Compiled.

A classic queue has one home for ever, and what is under way to it is kept by the stream between
two nodes. The home of a quorum queue is its leader, and that moves: `HomeEnd` is what its host on a
node that has a member of it offers, `StreamSink` what stands there for a session of any node.
"""

from collections.abc import Callable
from typing import Final, Protocol

from queues.machine.commands import Command, SessionId
from queues.machine.consuming.numbered_sessions import Resume, Resumed
from queues.message import Chunk
from queues.queue_host import Counts, SessionSink, View
from queues.sessions.credit import CreditActor

WINDOW_BYTES: Final = 1 << 20  # of bodies on their way to a session, or waiting for it
PART_BYTES: Final = 1 << 20  # a message of the stream is closed at this size

# A message of the stream to the other node, in parts that are not joined. The stream keeps the
# order, and loses and doubles nothing as long as both processes live.
Send = Callable[[list[bytes]], None]


class Ending(Protocol):
    """What has gathered something to be sent."""

    def end_turn(self) -> None: ...


class EndOfTurn(Protocol):
    """Who calls `end_turn` of what was marked, once all hosts of the turn were stepped."""

    def mark_away(self, ending: Ending) -> None: ...


class StreamSink(SessionSink, Protocol):
    """Whom the leader of a quorum queue tells what concerns one session, whichever its node.

    Told only while the session's stream is open here: from the first command that was taken, or
    from `HomeEnd.resume`, to the end of the leader's term.
    """

    def on_resumed(self, uid: int, term: int, number: int) -> None:
        """The answers to `HomeEnd.resume` follow
        (`queues.hosts.effect_dispatch.tell_resumed`)."""

    def on_applied(self, uid: int, number: int) -> None:
        """Effect `Applied`: commands of the session up to this number are in the state for good.
        Told behind everything that they have brought about in the same batch, confirms too.
        """

    def on_resend(self, uid: int) -> None:
        """Effect `ResendFrom`: a command is missing before one that has come."""

    def on_inspect_ok(self, uid: int, ready: int, consumer_count: int) -> None:
        """Answer to `HomeEnd.inspect`."""

    def on_leader_lost(self, uid: int) -> None:
        """This node no longer leads, or leads in another term: nothing more comes from here."""


class HomeEnd(Counts, Protocol):
    """A quorum queue on a node that has a member of it, as sessions of all nodes reach it.

    Commands are `Numbered` ones: what is refused here is sent again, to the leader of that time.
    """

    @property
    def uid(self) -> int: ...

    @property
    def term(self) -> int:
        """In which this node leads and takes commands; 0: it does not lead, or not yet. What the
        watchers of leaders get is no earlier than this."""

    def hand_down(self, sink: StreamSink, command: Command, chunk: Chunk | None) -> bool:
        """Propose it. `chunk`: the messages, if it enqueues (`enqueue_of`, whose traits are still
        to be filled in). False: this node does not lead, and nothing was taken. From now on `sink`
        gets what concerns its session."""

    def resume(self, sink: StreamSink, wanted: Resume) -> Resumed | None:
        """What the session's stream has to know, by the machine as it stands: `Fifo.resume`. From
        now on `sink`, in place of an older one, gets what concerns the session. None: this node
        does not lead. The caller makes sure that the session learns it."""

    def inspect(self, sink: StreamSink) -> bool:
        """Answer the sink in this turn or the next with the counts that are applied here, without
        an entry in the log. False: this node does not lead."""

    def view(self, sink: StreamSink, first: int, count: int) -> View | None:
        """See QueueHost. None as well, and for good, if the session holds it no more: it may have
        settled it by a command that came before it asked."""

    def forget_sink(
        self, session: SessionId, sink: StreamSink | None = None, is_cut_off: bool = False
    ) -> None:
        """The sink that stood here for the session is gone; the session itself goes on. Nothing is
        forgotten if another one than `sink` stands here: the session has moved to another node.
        `is_cut_off`: its node could not be reached for too long."""


FindEnd = Callable[[int], HomeEnd | None]  # by uid of the queue


class PeerRoute(Protocol):
    """The way to the queues of one other node (`queues.remote.proxy.Proxies`)."""

    @property
    def is_held(self) -> bool:
        """The stream has taken as much as it may."""

    def put(self, parts: list[bytes]) -> None:
        """Items to be sent at the end of the turn, in order."""

    def hold(self, credit: CreditActor) -> None:
        """While it is held: no more credit for the senders of this account until there is room."""


FindPeerRoute = Callable[
    [int], PeerRoute | None
]  # by member id; None: that node was never heard of


class RemoteSessionHome(Protocol):
    """What a remote session needs of its queue's proxy: the leader, and an account of what is
    kept.
    """

    @property
    def uid(self) -> int: ...

    @property
    def term(self) -> int:
        """Of the leader, or of the last one."""

    @property
    def is_led(self) -> bool:
        """Whether there is a leader that can be reached."""

    @property
    def end(self) -> HomeEnd | None:
        """The leader's end, if that is this node."""

    @property
    def credit(self) -> CreditActor: ...

    def send_publish(
        self, session: SessionId, number: int, confirmed: int, chunk: Chunk, first_seq: int
    ) -> None: ...

    def send_command(
        self, session: SessionId, number: int, confirmed: int, command: Command
    ) -> None: ...

    def send_resume(self, attempt: int, wanted: Resume) -> None: ...

    def send_inspect(self, session: SessionId) -> None: ...

    def send_taken(self, session: SessionId, byte_count: int) -> None: ...

    def keeps(self, byte_count: int) -> None:
        """So many bytes of publishes more, or fewer, are kept."""

    def is_ending(self, session: SessionId) -> bool:
        """Whether the session must not begin yet."""

    def over(self, session: SessionId, remote_session: object) -> None:
        """Nothing is left to be done for it."""
