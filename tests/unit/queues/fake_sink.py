"""A session that writes down what the queues tell it (`queues.queue_host.SessionSink`)."""

from queues.machine.commands import ConsumerKey, SessionId
from queues.sessions.credit import CreditActor, CreditSpec

Told = tuple[object, ...]


class FakeSink:
    """`told` is everything in order; `confirmed` the highest confirmed number for each queue."""

    def __init__(
        self, counter: int = 1, initial: int = 400, session: SessionId | None = None
    ) -> None:
        self._session = SessionId(7 << 64 | counter) if session is None else session
        self._credit = CreditActor(f"session {counter}", CreditSpec(initial, initial // 2))
        self.told: list[Told] = []
        self.confirmed: dict[int, int] = {}

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    def take(self) -> list[Told]:
        """What it received since the last time."""
        told, self.told = self.told, []
        return told

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        assert upto_seq > self.confirmed.get(uid, 0)
        self.confirmed[uid] = upto_seq
        self.told.append(("confirms", uid, upto_seq))

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        assert first_seq > self.confirmed.get(uid, 0)
        self.told.append(("refused", uid, first_seq, count))

    def on_delivers(
        self,
        uid: int,
        number: int,
        delivery_seq: int,
        first: int,
        count: int,
        redelivered: bool,
        attempts: int,
    ) -> None:
        counted = (attempts,) if attempts else ()
        run = (uid, number, delivery_seq, first, count, redelivered)
        self.told.append(("delivers", *run, *counted))

    def on_got(self, uid: int, message: int, redelivered: bool, ready: int, attempts: int) -> None:
        counted = (attempts,) if attempts else ()
        self.told.append(("got", uid, message, redelivered, ready, *counted))

    def on_attached(self, uid: int, number: int) -> None:
        self.told.append(("attached", uid, number))

    def on_attach_refused(self, uid: int, number: int, reason: int) -> None:
        self.told.append(("attach refused", uid, number))

    def on_detached(self, uid: int, number: int, goes: bool) -> None:
        self.told.append(("detached", uid, number, goes))

    def on_cancelled(self, uid: int, key: ConsumerKey) -> None:
        self.told.append(("cancelled", uid, key))

    def on_activated(self, uid: int, number: int, active: bool) -> None:
        self.told.append(("activated", uid, number, active))

    def on_timed_out(self, uid: int, number: int, timeout_ms: int) -> None:
        self.told.append(("timed out", uid, number, timeout_ms))

    def on_drained(self, uid: int, number: int, delivery_count: int) -> None:
        self.told.append(("drained", uid, number, delivery_count))

    def on_purged(self, uid: int, count: int) -> None:
        self.told.append(("purged", uid, count))

    def on_inspected(self, uid: int, ready: int, consumer_count: int) -> None:
        self.told.append(("inspected", uid, ready, consumer_count))

    def on_loaded(self, uid: int) -> None:
        self.told.append(("loaded", uid))

    def on_unreadable(self, uid: int) -> None:
        self.told.append(("unreadable", uid))

    def on_leaderless(self, uid: int) -> None:
        self.told.append(("leaderless", uid))

    def on_gone(self, uid: int) -> None:
        self.confirmed.pop(uid, None)  # It starts again if it uses the queue again.
        self.told.append(("gone", uid))
