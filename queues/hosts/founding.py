"""A classic queue with messages becomes the first member of a mirror ring.

    founding = Founding(host, turn, now_ms, done)
    founding.begin()     # `done` in a turn: the host is handed over, and the log has all messages

Messages of a mirrored queue are in the log, the transient ones of a classic queue are not: they are
written first, read back from page files where that is needed. Then all that was published before is
confirmed (`Journal.when_durable`), and the host gives its sessions away (`ClassicHost.hand_over`);
`done` gets them. Publishes of this node that come meanwhile wait in the host that takes over.
"""

from collections.abc import Callable, Sequence
from typing import Final

from queues.hosts.classic import ClassicHost
from queues.hosts.host_interfaces import Steps
from queues.hosts.quorum_entry import cut_of
from queues.machine.commands import SessionId
from queues.queue_host import PublishingOnly, SessionSink
from queues.sessions.credit import CreditActor, CreditSpec

WRITTEN_MAX: Final = 256  # pieces that are written in one turn
READ_AGAIN_MS: Final = 1000


class Founding(PublishingOnly):
    """See the module. To the queue's core it is a session that reads."""

    def __init__(
        self,
        host: ClassicHost,
        turn: Steps,
        now_ms: Callable[[], int],
        done: Callable[[Sequence[SessionSink]], None],
    ) -> None:
        self._host = host
        self._turn = turn
        self._now_ms = now_ms
        self._done = done
        self._credit = CreditActor("transient messages", CreditSpec(1, 1))
        self._awaits_sync = False
        self._is_synced = False  # what was published before the host was diverted is confirmed
        self._is_over = False

    @property
    def session(self) -> SessionId:
        return SessionId(0)

    @property
    def credit(self) -> CreditActor:
        return self._credit

    @property
    def is_gone(self) -> bool:
        return self._host.is_gone

    def begin(self) -> None:
        self._turn.mark_host_later(self)

    def step(self, now_ms: int) -> None:
        host = self._host
        if host.is_gone or self._is_over:
            return
        host.step(now_ms)  # What was handed down in this turn comes first.
        if not self._write_some(now_ms):
            return
        if self._is_synced:
            self._is_over = True
            self._done(host.hand_over(now_ms))
        elif not self._awaits_sync:
            self._awaits_sync = True
            host.core.journal.when_durable(self._synced)
            self._turn.mark_host_later(self)  # A turn has to end for it.

    def _synced(self) -> None:
        self._awaits_sync = False
        self._is_synced = True
        self.begin()

    def _write_some(self, now_ms: int) -> bool:
        """Whether the log has all messages."""
        core = self._host.core
        store = core.store
        left = WRITTEN_MAX
        for slot in list(store.slots()):
            if slot.journaled:
                continue
            if left == 0:
                self._turn.mark_host_later(self)
                return False
            left -= 1
            for first, count in core.live_ranges(slot.first, slot.count):
                if not self._write(first, count, now_ms):
                    return False  # `on_loaded` goes on.
        return True

    def _write(self, first: int, count: int, now_ms: int) -> bool:
        """Put these messages into the log; False: they are being read."""
        core = self._host.core
        while count > 0:
            view = core.bytes_of(self, first, count)
            if view is None:
                return False
            piece = cut_of(view.chunk, view.index, view.count)
            own = piece.twin() if piece is view.chunk else piece
            core.store.release(first, view.count)
            core.store.add(first, own, 0, view.count, True)
            core.journal.write_now(own, core.uid, first, now_ms)
            first += view.count
            count -= view.count
        return True

    def on_timer(self) -> None:
        self.begin()

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        return

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        return

    def on_gone(self, uid: int) -> None:
        return

    def on_loaded(self, uid: int) -> None:
        self.begin()

    def on_unreadable(self, uid: int) -> None:
        self._turn.wake_host(self, self._now_ms() + READ_AGAIN_MS)
