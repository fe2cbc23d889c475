"""A classic queue with sessions becomes a mirrored queue: what they have stays as it is."""

from collections.abc import Sequence

from queues.hosts.founding import Founding
from queues.machine.commands import (
    ACCEPT,
    ConsumerKey,
    EndSession,
    Get,
    consumer_key,
)
from queues.machine.consuming.numbered_sessions import Resume
from queues.machine.effects import Delivers
from queues.machine.fifo import Fifo
from queues.machine.fifo_snapshot import decode_fifo, encode_fifo
from queues.queue_host import SessionSink
from tests.unit.queues.classic_harness import Harness
from tests.unit.queues.effect_rows import spread
from tests.unit.queues.messages import chunk_of
from tests.unit.queues.remote.test_quorum_proxy import UID
from tests.unit.queues.remote.test_quorum_proxy import Harness as Proxied
from tests.unit.queues.runs import seqs_of
from tests.unit.queues.test_leadership import check_rows


class Handing:
    """A classic queue with a session of this node, and the proxy that takes it over."""

    def __init__(self, auto_delete: bool = False) -> None:
        self.classic = Harness(auto_delete=auto_delete)
        self.proxied = Proxied()
        self.sink = self.proxied.sink = self.classic.sink
        self.founded: Sequence[SessionSink] | None = None

    @property
    def machine(self) -> Fifo:
        return self.classic.host.core.machine

    def key(self, number: int) -> ConsumerKey:
        return consumer_key(self.sink.session, number)

    def publish(self, *bodies: bytes) -> None:
        self.classic.publish(list(bodies))

    def begin(self) -> None:
        node = self.classic.node
        self.classic.host.divert(self.proxied.proxy)

        def done(sinks: Sequence[SessionSink]) -> None:
            self.founded = sinks
            self.classic.host.core.begin_group()
            for sink in sinks:
                self.proxied.proxy.adopt(sink, self.machine)

        Founding(self.classic.host, node, lambda: node.now_ms, done).begin()

    def finish(self) -> None:
        """The queue is handed over, and led by this node as a mirrored one."""
        node = self.classic.node
        for _ in range(10):
            node.turn()
            node.sync()
            if self.founded is not None:
                break
        assert self.founded is not None
        self.proxied.end.machine = self.machine
        for first, count in self.machine.queue_within(1, 1000):
            for seq in range(first, first + count):
                self.proxied.end.bodies[seq] = (chunk_of([b"%d" % seq]), 0)
        self.sink.take()
        self.proxied.lead_here(1)


def test_a_consumer_keeps_what_it_holds_and_gets_what_comes() -> None:
    handing = Handing()
    handing.publish(b"a", b"b", b"c")
    handing.classic.attach(1, 2)
    assert ("delivers", UID, 1, 1, 1, 2, False) in handing.classic.turn()
    handing.begin()
    handing.finish()
    assert handing.sink.take() == []
    assert seqs_of(handing.machine.consumers[handing.key(1)].held.runs()) == [1, 2]
    check_rows(handing.machine)
    handing.classic.settle(1, ACCEPT, [(1, 2)])  # By the host that the session still has.
    handing.proxied.commit()
    assert handing.sink.take() == [("delivers", UID, 1, 3, 3, 1, False)]
    assert handing.machine.length() == 1


def test_publishes_go_on_with_their_numbers() -> None:
    handing = Handing()
    handing.publish(b"a", b"b")
    handing.classic.turn()
    handing.begin()
    handing.publish(b"on its way")
    handing.finish()
    handing.publish(b"behind")
    handing.proxied.commit()
    assert handing.sink.confirmed == {UID: 4}
    assert handing.machine.ready.count == 4
    assert handing.machine.last_seqs.of(handing.sink.session) == 4


def test_what_a_session_gives_while_the_queue_is_not_led_waits() -> None:
    handing = Handing()
    handing.publish(b"a")
    handing.classic.attach(1, 1)
    handing.classic.turn()
    handing.begin()
    node = handing.classic.node
    while handing.founded is None:
        node.turn()
        node.sync()
    handing.classic.settle(1, ACCEPT, [(1, 1)])
    handing.proxied.end.bodies[1] = (chunk_of([b"a"]), 0)
    handing.proxied.end.machine = handing.machine
    handing.proxied.lead_here(1)
    handing.proxied.commit()
    assert handing.machine.length() == 0


def test_a_message_got_before_can_be_acknowledged_afterwards() -> None:
    handing = Handing()
    handing.publish(b"a")
    handing.classic.host.command(handing.sink, Get(handing.sink.session))
    handing.classic.turn()
    handing.begin()
    handing.finish()
    handing.classic.settle(0, ACCEPT, [(1, 1)])
    handing.proxied.commit()
    assert handing.machine.length() == 0


def test_a_session_that_ends_without_another_word_gives_back_what_it_held() -> None:
    handing = Handing()
    handing.publish(b"a")
    handing.classic.attach(1, 1)
    handing.classic.turn()
    handing.begin()
    handing.finish()
    handing.classic.host.command(handing.sink, EndSession(handing.sink.session))
    handing.proxied.commit()
    assert handing.machine.consumers == {}
    assert handing.machine.ready.count == 1
    assert handing.proxied.proxy.sessions == set()


def test_a_new_leader_sends_again_what_was_not_looked_at() -> None:
    handing = Handing()
    handing.publish(b"a", b"b")
    handing.classic.attach(1, 2)
    handing.classic.turn()
    handing.begin()
    handing.finish()
    copy = Fifo(handing.machine.options)
    copy.begin_streams()
    decode_fifo(copy, encode_fifo(handing.machine))
    check_rows(copy)
    wanted = Resume(handing.sink.session, 0, 2, [(1, 1)])
    resumed = copy.resume(wanted)
    assert resumed.published == 2
    assert spread(resumed.effects) == spread(handing.machine.resume(wanted).effects)
    delivered = [each for each in resumed.effects if isinstance(each, Delivers)]
    assert seqs_of([(each.first, each.count) for each in delivered]) == [1, 2]


def test_the_mark_of_deliveries_is_waited_for_no_more() -> None:
    handing = Handing()
    handing.publish(*[b"%d" % number for number in range(5000)])
    handing.classic.attach(1, 5000)
    handing.classic.turn()
    assert handing.classic.host.view(handing.sink, 4500, 1) is None, "its mark is not durable"
    handing.sink.take()
    handing.classic.host.core.begin_group()
    assert ("loaded", UID) in handing.sink.take()
