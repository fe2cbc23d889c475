"""A node's tracker: one command at a time, answers behind what was stored, under any leader."""

from queues.machine.commands import GROUP_CONSUMER, Command, SessionId
from queues.machine.consuming.numbered_sessions import Resume, Resumed
from queues.message import Chunk
from queues.queue_host import SessionSink, View
from queues.remote.quorum_proxy import QuorumProxies, QuorumProxy
from queues.remote.remote_interfaces import Ending, HomeEnd, StreamSink
from queues.sessions.credit import CreditSpec
from queues.streams.machine import StreamMachine, restored_machine
from queues.streams.tracker import Tracker

UID = 5
HERE = 1


class End:
    """A leader whose entries are committed when the test says so. Keeps `HomeEnd`."""

    uid = UID
    ready_count = checked_out_count = consumer_count = 0

    def __init__(self, term: int, machine: StreamMachine) -> None:
        self.term = term
        self.machine = machine
        self.waiting: list[Command] = []
        self.sinks: dict[SessionId, StreamSink] = {}

    def hand_down(self, sink: StreamSink, command: Command, chunk: Chunk | None) -> bool:
        self.sinks[sink.session] = sink
        self.waiting.append(command)
        return True

    def resume(self, sink: StreamSink, wanted: Resume) -> Resumed | None:
        self.sinks[sink.session] = sink
        return self.machine.resume(wanted)

    def inspect(self, sink: StreamSink) -> bool:
        raise AssertionError("a tracker does not ask for counts")

    def view(self, sink: SessionSink, first: int, count: int) -> View | None:
        return None

    def forget_sink(
        self, session: SessionId, sink: StreamSink | None = None, is_cut_off: bool = False
    ) -> None:
        self.sinks.pop(session, None)

    def commit(self) -> int:
        """Apply what was handed down; return how many commands that were."""
        commands, self.waiting = self.waiting, []
        outcome = self.machine.apply(1, commands, ())
        for answer in outcome.answers:
            self.sinks[answer.session].on_inspected(UID, int(answer.ready), 0)
        for session, is_active in outcome.activated:
            self.sinks[session].on_activated(UID, GROUP_CONSUMER, is_active)
        for session, number in outcome.applied:
            self.sinks[session].on_applied(UID, number)
        return len(commands)


class World:
    def __init__(self) -> None:
        self.end = End(1, StreamMachine())
        self.sessions = 0
        self.answers: list[int | None] = []
        proxies = QuorumProxies(HERE, self._find_end, lambda member: None, self)
        self.proxy = QuorumProxy(UID, "/", "s", False, CreditSpec(4, 2), proxies)
        self.tracker = Tracker(self.proxy, self.draw_session)

    def _find_end(self, uid: int) -> HomeEnd:
        return self.end

    def draw_session(self) -> SessionId:
        self.sessions += 1
        return SessionId(9 << 64 | self.sessions)

    def mark_away(self, ending: Ending) -> None:
        raise AssertionError("a proxy has nothing to be ended")

    def lead(self) -> None:
        self.proxy.leader(HERE, self.end.term)

    def next_leader(self, machine: StreamMachine) -> None:
        self.end = End(self.end.term + 1, machine)
        self.lead()

    def commit_all(self) -> None:
        while self.end.commit():
            pass


def test_a_query_is_answered_behind_everything_stored_before_it() -> None:
    world = World()
    world.tracker.store_offset(b"app", 3)
    world.tracker.query_offset(b"app", world.answers.append)
    world.tracker.store_offset(b"app", 4)
    world.tracker.query_offset(b"other", world.answers.append)
    world.tracker.query_publisher(b"app", world.answers.append)
    assert world.answers == []
    world.lead()
    world.commit_all()
    assert world.answers == [3, None, None]
    assert world.end.machine.tracking.offsets == {b"app": 4}


def test_offsets_stored_while_a_command_is_under_way_take_one_more_command() -> None:
    world = World()
    world.lead()
    for offset in range(1000):
        world.tracker.store_offset(b"app", offset)
        world.tracker.store_offset(b"other", offset)
    assert [world.end.commit() for _ in range(3)] == [1, 1, 0]
    assert world.end.machine.tracking.offsets == {b"app": 999, b"other": 999}


def test_what_an_old_leader_did_not_commit_is_sent_to_the_next_one() -> None:
    world = World()
    world.lead()
    world.tracker.store_offset(b"app", 3)
    world.commit_all()
    state = world.end.machine.state()
    world.tracker.store_offset(b"app", 8)
    world.tracker.query_offset(b"app", world.answers.append)
    world.next_leader(restored_machine(state))
    world.commit_all()
    assert world.answers == [8]


def test_an_answer_that_an_old_leader_did_not_send_comes_from_the_next_one() -> None:
    world = World()
    world.lead()
    world.tracker.store_offset(b"app", 3)
    world.commit_all()
    world.tracker.query_offset(b"app", world.answers.append)
    world.end.machine.apply(1, world.end.waiting, ())
    world.next_leader(restored_machine(world.end.machine.state()))
    assert world.answers == [3]


def test_a_session_that_the_cluster_has_ended_is_replaced() -> None:
    world = World()
    world.lead()
    world.tracker.store_offset(b"app", 3)
    world.commit_all()
    world.tracker.store_offset(b"app", 4)
    world.tracker.on_gone(UID)
    world.commit_all()
    assert world.sessions == 2
    assert world.end.machine.tracking.offsets == {b"app": 4}


def test_queries_end_without_an_answer_when_the_stream_is_deleted() -> None:
    world = World()
    world.tracker.query_offset(b"app", world.answers.append)
    world.tracker.query_publisher(b"app", world.answers.append)
    world.proxy.delete()
    assert world.answers == [None, None]
