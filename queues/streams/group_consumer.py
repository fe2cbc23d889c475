"""A consumer of this node in a group of a stream, of which one at a time is active.

It is a session of its own at the stream, so that the cluster ends its membership with its node's
process. `changed` is called with what it is from now on. A consumer that is to stop says `stopped`
once it has: only then the next one is activated.
"""

from collections.abc import Callable
from typing import Final

from queues.machine.commands import NAME_BYTES_MAX, EndSession, JoinGroup, SessionId
from queues.queue_host import PublishingOnly
from queues.remote.quorum_proxy import QuorumProxy
from queues.sessions.credit import CreditActor, CreditSpec

CREDIT: Final = CreditSpec(1, 1)


class GroupConsumer(PublishingOnly):
    """See the module. Keeps `SessionSink`. `end` must be called."""

    def __init__(
        self,
        proxy: QuorumProxy,
        draw_session: Callable[[], SessionId],
        name: bytes,
        partition: int,
        changed: Callable[[bool], None],
    ) -> None:
        assert 0 < len(name) <= NAME_BYTES_MAX, f"a name of {len(name)} bytes"
        self.is_active = False
        self._proxy = proxy
        self._draw_session = draw_session
        self._name = name
        self._partition = partition
        self._changed = changed
        self._session = draw_session()
        self._credit = CreditActor("single active consumer", CREDIT)
        self._is_over = False
        self._join()

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    def stopped(self) -> None:
        """It consumes no more, as it was asked: another one may, and it waits again."""
        self._join()

    def end(self) -> None:
        """It leaves the group."""
        self._is_over = True
        if not self._proxy.is_gone:
            self._proxy.command(self, EndSession(self._session))

    def _join(self) -> None:
        if not self._proxy.is_gone and not self._is_over:
            command = JoinGroup(self._session, self._name, self._partition)
            self._proxy.command(self, command)

    # From the stream

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        raise AssertionError("a consumer publishes nothing")

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        raise AssertionError("a consumer publishes nothing")

    def on_activated(self, uid: int, number: int, active: bool) -> None:
        if active != self.is_active and not self._is_over:
            self.is_active = active
            self._changed(active)

    def on_gone(self, uid: int) -> None:
        """The stream is deleted, or the cluster has ended the session, and with it the membership:
        it joins again as a new one, when it has stopped."""
        if self._is_over or self._proxy.is_gone:
            return
        self._session = self._draw_session()
        if self.is_active:
            self.is_active = False
            self._changed(False)
        else:
            self._join()
