"""A quorum queue as a session sees it: the leader may change, what it receives may not."""

from queues.machine.commands import (
    ACCEPT,
    Attach,
    EndSession,
    Get,
    Inspect,
    SessionId,
    Settle,
    consumer_key,
)
from queues.machine.options import REJECT_PUBLISH, Options
from queues.remote import quorum_proxy as module
from queues.remote.items import (
    APPLIED,
    BODIES,
    CONFIRMS,
    INSPECT,
    INSPECT_OK,
    NOT_LEADER,
    NUMBERED,
    RESUME,
    BadItem,
    Item,
    put_numbers,
    put_run,
    resume_in,
    take_items,
)
from queues.remote.quorum_proxy import QuorumProxies, QuorumProxy
from queues.remote.remote_interfaces import Ending, HomeEnd
from queues.sessions.credit import CreditActor, CreditSpec
from tests.sim.queues.roaming_end import End
from tests.unit.queues.fake_sink import FakeSink, Told
from tests.unit.queues.messages import body_of, chunk_of

UID = 5
HERE, THERE = 1, 2


class FakeRoad:
    """A way to another node: what was put is there to be looked at."""

    def __init__(self) -> None:
        self.is_held = False
        self.parts: list[bytes] = []
        self.held: list[CreditActor] = []

    def put(self, parts: list[bytes]) -> None:
        self.parts += parts

    def hold(self, credit: CreditActor) -> None:
        self.held.append(credit)

    def take(self) -> list[Item]:
        parts, self.parts = self.parts, []
        return take_items(b"".join(parts))


class Steady:
    """Lots that never fall badly: bodies are in memory."""

    def random(self) -> float:
        return 0.9


class Desk:
    """One node: a proxy, a session, the end of a member here, and a road to another node."""

    def __init__(self, options: Options | None = None) -> None:
        self.end = End(UID, options or Options(), Steady())
        self.peer_route = FakeRoad()
        self.quorum_proxies = QuorumProxies(
            HERE, self._find_end, lambda member: self.peer_route, self
        )
        spec = CreditSpec(400, 200)
        self.proxy = QuorumProxy(UID, "/", "q", False, spec, self.quorum_proxies)
        self.quorum_proxies.add(self.proxy)
        self.sink = FakeSink()
        self.published = 0
        self.now_ms = 1_000

    def _find_end(self, uid: int) -> HomeEnd:
        return self.end

    def mark_away(self, ending: Ending) -> None:
        raise AssertionError("a proxy has nothing to be ended")

    def lead_here(self, term: int) -> None:
        self.end.begin(term)
        self.commit()
        self.proxy.leader(HERE, term)

    def commit(self) -> None:
        """What the member here has proposed is committed and applied."""
        self.end.propose(self.now_ms)
        proposed, self.end.proposed = self.end.proposed, []
        for entry in proposed:
            self.end.apply(entry)

    def publish(self, *bodies: bytes) -> None:
        self.proxy.publish(self.sink, chunk_of(list(bodies), base=3), self.published + 1)
        self.published += len(bodies)

    def attach(self, number: int, credit: int) -> None:
        key = consumer_key(self.sink.session, number)
        self.proxy.command(self.sink, Attach(key, credit, True, False, 0))

    def hear(self, parts: bytes | list[bytes]) -> None:
        """Items from the other node."""
        joined = parts if isinstance(parts, bytes) else b"".join(parts)
        for item in take_items(joined):
            self.quorum_proxies.take(THERE, item)

    def told(self) -> list[Told]:
        return self.sink.take()

    def answer_resume(self, number: int) -> None:
        """The other node, asked, says how far the stream has come."""
        (asked,) = [item for item in self.peer_route.take() if item.kind == RESUME]
        term, attempt, wanted = resume_in(asked)
        self.hear(put_numbers(35, UID, wanted.session, term, attempt, number))


def numbers_of(items: list[Item]) -> list[int]:
    """The numbers of the commands among them."""
    return [item.numbers[1] for item in items if item.kind == NUMBERED]


def test_while_nobody_leads_everything_waits_and_then_it_goes() -> None:
    desk = Desk()
    desk.publish(b"a")
    desk.publish(b"b")
    assert desk.told() == []
    desk.lead_here(3)
    desk.commit()
    assert desk.told() == [("confirms", UID, 1), ("confirms", UID, 2)]
    assert desk.proxy.kept_bytes == 0


def test_what_the_old_leader_lost_is_sent_to_the_new_one_and_nothing_else() -> None:
    desk = Desk()
    desk.lead_here(3)
    desk.publish(b"a")
    desk.commit()
    desk.publish(b"b")
    desk.end.step_down()
    desk.proxy.leader(THERE, 4)
    desk.answer_resume(1)
    assert numbers_of(desk.peer_route.take()) == [2]
    assert desk.told() == [("confirms", UID, 1)]


def test_a_leader_that_knows_of_all_is_sent_nothing_again() -> None:
    desk = Desk()
    desk.proxy.leader(THERE, 3)
    desk.publish(b"a")
    assert numbers_of(desk.peer_route.take()) == [1]
    desk.proxy.leader(THERE, 4)
    desk.answer_resume(1)
    assert desk.peer_route.take() == []
    assert desk.proxy.kept_bytes == 0


def test_what_an_old_leader_says_counts_no_more() -> None:
    desk = Desk()
    desk.proxy.leader(THERE, 3)
    desk.publish(b"a")
    confirm = put_numbers(CONFIRMS, UID, desk.sink.session, 1)
    desk.proxy.leader(THERE, 4)
    desk.hear(confirm)
    assert desk.told() == []
    desk.proxy.leader(HERE, 3)
    assert desk.proxy.member == THERE


def test_a_leader_that_leads_no_more_is_asked_again_when_time_passes() -> None:
    desk = Desk()
    desk.proxy.leader(THERE, 3)
    desk.publish(b"a")
    desk.peer_route.take()
    desk.hear(put_numbers(NOT_LEADER, UID, desk.sink.session, 2))
    desk.publish(b"b")
    assert numbers_of(desk.peer_route.take()) == [2]
    desk.hear(put_numbers(NOT_LEADER, UID, desk.sink.session, 3))
    desk.publish(b"c")
    assert desk.peer_route.take() == []
    desk.quorum_proxies.tick()
    desk.answer_resume(0)
    assert numbers_of(desk.peer_route.take()) == [1, 2, 3]


def test_a_delivery_that_was_seen_is_not_told_a_second_time_and_its_body_comes() -> None:
    desk = Desk()
    desk.lead_here(3)
    desk.publish(b"a", b"b")
    desk.attach(1, 2)
    desk.commit()
    assert ("delivers", UID, 1, 1, 3 << 40 | 1, 2, False) in desk.told()
    view = desk.proxy.view(desk.sink, 3 << 40 | 1, 1)
    assert view is not None
    desk.end.step_down()
    desk.proxy.leader(THERE, 4)
    (asked,) = [item for item in desk.peer_route.take() if item.kind == RESUME]
    assert resume_in(asked)[2].wanted == [(1, 2)]
    session = desk.sink.session
    second = 3 << 40 | 2
    desk.hear(put_numbers(35, UID, session, 4, 1, 2))
    desk.hear(put_numbers(19, UID, session, 1, 2, second, 1, 0, 0))
    assert desk.proxy.view(desk.sink, second, 1) is None
    desk.hear(put_run(BODIES, UID, session, second, chunk_of([b"b"]), 0, 1))
    assert desk.told() == [("loaded", UID)]
    view = desk.proxy.view(desk.sink, second, 1)
    assert view is not None
    assert body_of(view.chunk, view.index) == b"b"


def test_one_question_is_under_way_and_what_comes_after_it_waits() -> None:
    desk = Desk()
    desk.lead_here(3)
    session = desk.sink.session
    desk.proxy.command(desk.sink, Inspect(session))
    desk.proxy.command(desk.sink, Get(session))
    desk.publish(b"a")
    desk.commit()
    assert desk.told() == [("inspected", UID, 0, 0), ("got", UID, 0, False, 0)]
    desk.commit()
    assert desk.told() == [("confirms", UID, 1)]


def test_an_answer_that_was_lost_with_its_leader_comes_from_the_next() -> None:
    desk = Desk()
    desk.lead_here(3)
    desk.proxy.command(desk.sink, Get(desk.sink.session))
    desk.end.propose(1_000)
    proposed = desk.end.proposed
    desk.end.step_down()
    for entry in proposed:
        desk.end.apply(entry)
    assert desk.told() == []
    desk.lead_here(4)
    assert desk.told() == [("got", UID, 0, False, 0)]
    desk.lead_here(5)
    assert desk.told() == []


def test_inspect_is_answered_from_applied_state_without_an_entry() -> None:
    desk = Desk()
    desk.lead_here(3)
    desk.proxy.command(desk.sink, Inspect(desk.sink.session))
    assert desk.told() == []
    desk.end.propose(desk.now_ms)
    assert desk.told() == [("inspected", UID, 0, 0)]
    assert desk.end.proposed == []
    desk.proxy.command(desk.sink, EndSession(desk.sink.session))
    assert desk.proxy.sessions == set()


def test_inspect_waits_until_earlier_commands_of_the_session_are_applied() -> None:
    desk = Desk()
    desk.lead_here(3)
    desk.publish(b"a", b"b")
    desk.proxy.command(desk.sink, Inspect(desk.sink.session))
    desk.end.propose(desk.now_ms)
    assert desk.told() == []
    desk.commit()
    desk.end.propose(desk.now_ms)
    assert desk.told() == [("confirms", UID, 2), ("inspected", UID, 2, 0)]
    desk.proxy.leader(THERE, 4)
    desk.hear(put_numbers(35, UID, desk.sink.session, 4, 1, 1))
    desk.publish(b"c")
    desk.proxy.command(desk.sink, Inspect(desk.sink.session))
    assert INSPECT not in [item.kind for item in desk.peer_route.take()]
    desk.hear(put_numbers(APPLIED, UID, desk.sink.session, 2))
    assert [item.kind for item in desk.peer_route.take()] == [INSPECT]


def test_a_lost_inspect_is_asked_again_from_the_next_leader() -> None:
    desk = Desk()
    desk.lead_here(3)
    desk.proxy.command(desk.sink, Inspect(desk.sink.session))
    desk.end.step_down()
    assert desk.told() == []
    desk.proxy.leader(THERE, 4)
    (asked,) = desk.peer_route.take()
    assert (asked.kind, asked.numbers) == (INSPECT, (4,))
    desk.hear(put_numbers(NOT_LEADER, UID, desk.sink.session, 4))
    desk.quorum_proxies.tick()
    (again,) = desk.peer_route.take()
    assert again.kind == INSPECT
    desk.hear(put_numbers(INSPECT_OK, UID, desk.sink.session, 7, 1))
    assert desk.told() == [("inspected", UID, 7, 1)]
    desk.hear(put_numbers(INSPECT_OK, UID, desk.sink.session, 7, 1))
    assert desk.told() == []


def test_the_end_of_a_session_goes_when_all_else_is_applied() -> None:
    desk = Desk()
    desk.lead_here(3)
    desk.publish(b"a")
    desk.proxy.command(desk.sink, EndSession(desk.sink.session))
    desk.commit()
    assert desk.proxy.sessions == {desk.sink.session}
    desk.commit()
    assert not desk.proxy.sessions
    assert desk.told() == []
    assert not desk.end.machine.last_seqs.all()


def test_a_session_that_has_ended_and_is_not_known_any_more_is_not_sent_again() -> None:
    desk = Desk()
    desk.proxy.leader(THERE, 3)
    desk.publish(b"a")
    desk.hear(put_numbers(34, UID, desk.sink.session, 1))
    desk.proxy.command(desk.sink, EndSession(desk.sink.session))
    assert numbers_of(desk.peer_route.take()) == [1, 2]
    desk.proxy.leader(THERE, 4)
    desk.answer_resume(0)
    assert desk.peer_route.take() == []
    assert not desk.proxy.sessions


def test_a_session_that_the_cluster_has_ended_hears_that_the_queue_is_gone() -> None:
    desk = Desk()
    desk.proxy.leader(THERE, 3)
    desk.publish(b"a")
    desk.hear(put_numbers(CONFIRMS, UID, desk.sink.session, 1))
    desk.hear(put_numbers(34, UID, desk.sink.session, 1))
    desk.publish(b"b")
    desk.peer_route.take()
    desk.proxy.leader(THERE, 4)
    desk.answer_resume(0)
    told = [each[0] for each in desk.told()]
    assert told == ["confirms", "refused", "confirms", "gone"]
    assert not desk.proxy.sessions


def test_a_session_that_used_nothing_leaves_no_trace() -> None:
    desk = Desk()
    desk.proxy.command(desk.sink, EndSession(desk.sink.session))
    assert not desk.proxy.sessions


def test_refused_publishes_are_told_once_whoever_tells_them() -> None:
    desk = Desk(Options(length_max=1, overflow=REJECT_PUBLISH))
    desk.lead_here(3)
    desk.publish(b"a", b"b")
    desk.commit()
    assert desk.told() == [("refused", UID, 2, 1), ("confirms", UID, 2)]
    desk.publish(b"c")
    desk.end.propose(1_000)
    proposed = desk.end.proposed
    desk.end.step_down()
    for entry in proposed:
        desk.end.apply(entry)
    desk.lead_here(4)
    assert desk.told() == [("refused", UID, 3, 1), ("confirms", UID, 3)]


def test_when_too_much_is_kept_its_sessions_are_held_up_until_it_is_applied() -> None:
    desk = Desk()
    big = b"x" * (module.KEPT_BYTES_MAX // 2)
    desk.publish(big)
    assert not desk.proxy.credit.is_blocked()
    desk.publish(big)
    assert desk.proxy.credit.is_blocked()
    desk.lead_here(3)
    desk.commit()
    assert not desk.proxy.credit.is_blocked()


def test_while_the_road_is_full_its_publishers_are_held_up() -> None:
    desk = Desk()
    desk.proxy.leader(THERE, 3)
    desk.peer_route.is_held = True
    desk.publish(b"a")
    assert desk.peer_route.held == [desk.proxy.credit]


def test_a_queue_that_is_deleted_is_gone_for_its_sessions() -> None:
    desk = Desk()
    desk.publish(b"a")
    desk.quorum_proxies.remove(UID)
    assert desk.told() == [("gone", UID)]
    desk.quorum_proxies.lost(THERE)
    assert desk.proxy.is_gone


def test_settled_messages_leave_the_queue_once_though_the_settlement_is_sent_twice() -> None:
    desk = Desk()
    desk.lead_here(3)
    desk.publish(b"a", b"b")
    desk.attach(1, 2)
    desk.commit()
    key = consumer_key(desk.sink.session, 1)
    desk.proxy.command(desk.sink, Settle(key, ACCEPT, [(3 << 40 | 1, 1)]))
    desk.end.propose(1_000)
    proposed = desk.end.proposed
    desk.end.step_down()
    for entry in proposed:
        desk.end.apply(entry)
    desk.lead_here(4)
    desk.commit()
    assert desk.end.checked_out_count == 1
    assert desk.end.machine.streams is not None
    assert desk.end.machine.streams.by_session[desk.sink.session].number == 3


def test_an_item_for_a_home_is_none_for_a_session() -> None:
    desk = Desk()
    desk.proxy.leader(THERE, 3)
    desk.publish(b"a")
    try:
        desk.hear(put_numbers(3, UID, desk.sink.session, 1))
    except BadItem:
        return
    raise AssertionError("it was believed")


def test_a_session_of_another_queue_is_nobody() -> None:
    desk = Desk()
    desk.hear(put_numbers(CONFIRMS, 99, SessionId(1), 1))
    desk.hear(put_numbers(CONFIRMS, UID, SessionId(1), 1))
    assert desk.told() == []


def test_a_question_that_was_lost_takes_nothing_of_what_the_next_one_asks_for() -> None:
    desk = Desk()
    desk.lead_here(3)
    desk.publish(b"a", b"b")
    desk.attach(1, 2)
    desk.commit()
    desk.end.step_down()
    desk.proxy.leader(THERE, 4)
    desk.peer_route.take()
    desk.proxy.leader(THERE, 5)
    (asked,) = desk.peer_route.take()
    assert resume_in(asked)[2].wanted == [(1, 1)]


def test_what_comes_after_a_get_goes_on_when_what_was_got_is_taken_back() -> None:
    desk = Desk(Options(consumer_timeout_ms=100))
    desk.lead_here(3)
    desk.publish(b"a")
    desk.commit()
    desk.end.keeps_on_disk = True
    desk.proxy.command(desk.sink, Get(desk.sink.session))
    desk.publish(b"b")
    desk.commit()
    desk.told()
    for _ in range(3):
        desk.now_ms += 100
        desk.commit()
    assert [each[0] for each in desk.told()] == ["got", "timed out", "confirms"]


def test_a_lost_link_resumes_the_sessions_of_every_queue_led_there() -> None:
    desk = Desk()
    other = QuorumProxy(UID + 1, "/", "other", False, CreditSpec(400, 200), desk.quorum_proxies)
    desk.quorum_proxies.add(other)
    for proxy in (desk.proxy, other):
        proxy.leader(THERE, 3)
        proxy.publish(desk.sink, chunk_of([b"one"], base=3), 1)
    desk.peer_route.take()
    desk.quorum_proxies.lost(THERE)
    resumed = {item.uid for item in desk.peer_route.take() if item.kind == RESUME}
    assert resumed == {UID, UID + 1}
