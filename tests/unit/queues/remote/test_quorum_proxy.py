"""A quorum queue as a session sees it: the leader may change, what it receives may not."""

from collections.abc import Callable

import pytest

from queues.machine.commands import (
    ACCEPT,
    Attach,
    Command,
    ConsumerKey,
    EndSession,
    Get,
    Inspect,
    Purge,
    Retire,
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
    CONFIRMS_HELD,
    INSPECT,
    INSPECT_OK,
    NOT_LEADER,
    NUMBERED,
    PURGED,
    RELEASED,
    RESUME,
    BadItem,
    Item,
    put_numbers,
    put_run,
    resume_in,
    take_items,
)
from queues.remote.quorum_proxy import NO_MEMBER, QuorumProxies, QuorumProxy
from queues.remote.remote_interfaces import Ending, HomeEnd
from queues.sessions.credit import CreditActor, CreditSpec
from tests.sim.queues.roaming_end import End
from tests.unit.queues.fake_sink import FakeSink, Told
from tests.unit.queues.messages import body_of, chunk_of

UID = 5
HERE, THERE = 1, 2
PATIENCE_MS = 5_000


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


class Harness:
    """One node: a proxy, a session, the end of a member here, and a connection to another node."""

    def __init__(self, options: Options | None = None) -> None:
        self.end = End(UID, options or Options(), Steady())
        self.peer_route = FakeRoad()
        self.quorum_proxies = QuorumProxies(
            HERE, self._find_end, lambda member: self.peer_route, self, PATIENCE_MS
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

    def ask(self, command: Command, awaits_confirms: bool = False) -> None:
        """Hand it down, and wait for its answer no longer than PATIENCE_MS without a leader."""
        self.proxy.command(self.sink, command)
        self.proxy.watch_leader(self.sink.session, self.sink, 0, awaits_confirms)

    def wait(self, wait_ms: int) -> None:
        """Time passes, without news of a leader."""
        self.quorum_proxies.tick(self.now_ms)
        self.now_ms += wait_ms
        self.quorum_proxies.tick(self.now_ms)

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
    harness = Harness()
    harness.publish(b"a")
    harness.publish(b"b")
    assert harness.told() == []
    harness.lead_here(3)
    harness.commit()
    assert harness.told() == [("confirms", UID, 1), ("confirms", UID, 2)]
    assert harness.proxy.kept_bytes == 0


def test_what_the_old_leader_lost_is_sent_to_the_new_one_and_nothing_else() -> None:
    harness = Harness()
    harness.lead_here(3)
    harness.publish(b"a")
    harness.commit()
    harness.publish(b"b")
    harness.end.step_down()
    harness.proxy.leader(THERE, 4)
    harness.answer_resume(1)
    assert numbers_of(harness.peer_route.take()) == [2]
    assert harness.told() == [("confirms", UID, 1)]


def test_a_leader_that_knows_of_all_is_sent_nothing_again() -> None:
    harness = Harness()
    harness.proxy.leader(THERE, 3)
    harness.publish(b"a")
    assert numbers_of(harness.peer_route.take()) == [1]
    harness.proxy.leader(THERE, 4)
    harness.answer_resume(1)
    assert harness.peer_route.take() == []
    assert harness.proxy.kept_bytes == 0


def test_what_an_old_leader_says_counts_no_more() -> None:
    harness = Harness()
    harness.proxy.leader(THERE, 3)
    harness.publish(b"a")
    confirm = put_numbers(CONFIRMS, UID, harness.sink.session, 1)
    harness.proxy.leader(THERE, 4)
    harness.hear(confirm)
    assert harness.told() == []
    harness.proxy.leader(HERE, 3)
    assert harness.proxy.member == THERE


def test_a_leader_that_leads_no_more_is_asked_again_when_time_passes() -> None:
    harness = Harness()
    harness.proxy.leader(THERE, 3)
    harness.publish(b"a")
    harness.peer_route.take()
    harness.hear(put_numbers(NOT_LEADER, UID, harness.sink.session, 2))
    harness.publish(b"b")
    assert numbers_of(harness.peer_route.take()) == [2]
    harness.hear(put_numbers(NOT_LEADER, UID, harness.sink.session, 3))
    harness.publish(b"c")
    assert harness.peer_route.take() == []
    harness.quorum_proxies.tick(harness.now_ms)
    harness.answer_resume(0)
    assert numbers_of(harness.peer_route.take()) == [1, 2, 3]


def test_a_delivery_that_was_seen_is_not_told_a_second_time_and_its_body_comes() -> None:
    harness = Harness()
    harness.lead_here(3)
    harness.publish(b"a", b"b")
    harness.attach(1, 2)
    harness.commit()
    assert ("delivers", UID, 1, 1, 3 << 40 | 1, 2, False) in harness.told()
    view = harness.proxy.view(harness.sink, 3 << 40 | 1, 1)
    assert view is not None
    harness.end.step_down()
    harness.proxy.leader(THERE, 4)
    (asked,) = [item for item in harness.peer_route.take() if item.kind == RESUME]
    assert resume_in(asked)[2].wanted == [(1, 2)]
    session = harness.sink.session
    second = 3 << 40 | 2
    harness.hear(put_numbers(35, UID, session, 4, 1, 2))
    harness.hear(put_numbers(19, UID, session, 1, 2, second, 1, 0, 0))
    assert harness.proxy.view(harness.sink, second, 1) is None
    harness.hear(put_run(BODIES, UID, session, second, chunk_of([b"b"]), 0, 1))
    assert harness.told() == [("loaded", UID)]
    view = harness.proxy.view(harness.sink, second, 1)
    assert view is not None
    assert body_of(view.chunk, view.index) == b"b"


def test_one_question_is_under_way_and_what_comes_after_it_waits() -> None:
    harness = Harness()
    harness.lead_here(3)
    session = harness.sink.session
    harness.proxy.command(harness.sink, Inspect(session))
    harness.proxy.command(harness.sink, Get(session))
    harness.publish(b"a")
    harness.commit()
    assert harness.told() == [("inspected", UID, 0, 0), ("got", UID, 0, False, 0)]
    harness.commit()
    assert harness.told() == [("confirms", UID, 1)]


def test_an_answer_that_was_lost_with_its_leader_comes_from_the_next() -> None:
    harness = Harness()
    harness.lead_here(3)
    harness.proxy.command(harness.sink, Get(harness.sink.session))
    harness.end.propose(1_000)
    proposed = harness.end.proposed
    harness.end.step_down()
    for entry in proposed:
        harness.end.apply(entry)
    assert harness.told() == []
    harness.lead_here(4)
    assert harness.told() == [("got", UID, 0, False, 0)]
    harness.lead_here(5)
    assert harness.told() == []


def test_inspect_is_answered_from_applied_state_without_an_entry() -> None:
    harness = Harness()
    harness.lead_here(3)
    harness.proxy.command(harness.sink, Inspect(harness.sink.session))
    assert harness.told() == []
    harness.end.propose(harness.now_ms)
    assert harness.told() == [("inspected", UID, 0, 0)]
    assert harness.end.proposed == []
    harness.proxy.command(harness.sink, EndSession(harness.sink.session))
    assert harness.proxy.sessions == set()


def test_inspect_waits_until_earlier_commands_of_the_session_are_applied() -> None:
    harness = Harness()
    harness.lead_here(3)
    harness.publish(b"a", b"b")
    harness.proxy.command(harness.sink, Inspect(harness.sink.session))
    harness.end.propose(harness.now_ms)
    assert harness.told() == []
    harness.commit()
    harness.end.propose(harness.now_ms)
    assert harness.told() == [("confirms", UID, 2), ("inspected", UID, 2, 0)]
    harness.proxy.leader(THERE, 4)
    harness.hear(put_numbers(35, UID, harness.sink.session, 4, 1, 1))
    harness.publish(b"c")
    harness.proxy.command(harness.sink, Inspect(harness.sink.session))
    assert INSPECT not in [item.kind for item in harness.peer_route.take()]
    harness.hear(put_numbers(APPLIED, UID, harness.sink.session, 2))
    assert [item.kind for item in harness.peer_route.take()] == [INSPECT]


def test_a_lost_inspect_is_asked_again_from_the_next_leader() -> None:
    harness = Harness()
    harness.lead_here(3)
    harness.proxy.command(harness.sink, Inspect(harness.sink.session))
    harness.end.step_down()
    assert harness.told() == []
    harness.proxy.leader(THERE, 4)
    (asked,) = harness.peer_route.take()
    assert (asked.kind, asked.numbers) == (INSPECT, (4,))
    harness.hear(put_numbers(NOT_LEADER, UID, harness.sink.session, 4))
    harness.quorum_proxies.tick(harness.now_ms)
    (again,) = harness.peer_route.take()
    assert again.kind == INSPECT
    harness.hear(put_numbers(INSPECT_OK, UID, harness.sink.session, 7, 1))
    assert harness.told() == [("inspected", UID, 7, 1)]
    harness.hear(put_numbers(INSPECT_OK, UID, harness.sink.session, 7, 1))
    assert harness.told() == []


def test_the_end_of_a_session_goes_when_all_else_is_applied() -> None:
    harness = Harness()
    harness.lead_here(3)
    harness.publish(b"a")
    harness.proxy.command(harness.sink, EndSession(harness.sink.session))
    harness.commit()
    assert harness.proxy.sessions == {harness.sink.session}
    harness.commit()
    assert not harness.proxy.sessions
    assert harness.told() == []
    assert not harness.end.machine.last_seqs.all()


def test_a_session_that_has_ended_and_is_not_known_any_more_is_not_sent_again() -> None:
    harness = Harness()
    harness.proxy.leader(THERE, 3)
    harness.publish(b"a")
    harness.hear(put_numbers(34, UID, harness.sink.session, 1))
    harness.proxy.command(harness.sink, EndSession(harness.sink.session))
    assert numbers_of(harness.peer_route.take()) == [1, 2]
    harness.proxy.leader(THERE, 4)
    harness.answer_resume(0)
    assert harness.peer_route.take() == []
    assert not harness.proxy.sessions


def test_a_session_that_the_cluster_has_ended_hears_that_the_queue_is_gone() -> None:
    harness = Harness()
    harness.proxy.leader(THERE, 3)
    harness.publish(b"a")
    harness.hear(put_numbers(CONFIRMS, UID, harness.sink.session, 1))
    harness.hear(put_numbers(34, UID, harness.sink.session, 1))
    harness.publish(b"b")
    harness.peer_route.take()
    harness.proxy.leader(THERE, 4)
    harness.answer_resume(0)
    told = [each[0] for each in harness.told()]
    assert told == ["confirms", "refused", "confirms", "gone"]
    assert not harness.proxy.sessions


def test_a_session_that_used_nothing_leaves_no_trace() -> None:
    harness = Harness()
    harness.proxy.command(harness.sink, EndSession(harness.sink.session))
    assert not harness.proxy.sessions


def test_refused_publishes_are_told_once_whoever_tells_them() -> None:
    harness = Harness(Options(length_max=1, overflow=REJECT_PUBLISH))
    harness.lead_here(3)
    harness.publish(b"a", b"b")
    harness.commit()
    assert harness.told() == [("refused", UID, 2, 1), ("confirms", UID, 2)]
    harness.publish(b"c")
    harness.end.propose(1_000)
    proposed = harness.end.proposed
    harness.end.step_down()
    for entry in proposed:
        harness.end.apply(entry)
    harness.lead_here(4)
    assert harness.told() == [("refused", UID, 3, 1), ("confirms", UID, 3)]


def test_when_too_much_is_kept_its_sessions_are_held_up_until_it_is_applied() -> None:
    harness = Harness()
    big = b"x" * (module.KEPT_BYTES_MAX // 2)
    harness.publish(big)
    assert not harness.proxy.credit.is_blocked()
    harness.publish(big)
    assert harness.proxy.credit.is_blocked()
    harness.lead_here(3)
    harness.commit()
    assert not harness.proxy.credit.is_blocked()


def test_while_the_road_is_full_its_publishers_are_held_up() -> None:
    harness = Harness()
    harness.proxy.leader(THERE, 3)
    harness.peer_route.is_held = True
    harness.publish(b"a")
    assert harness.peer_route.held == [harness.proxy.credit]


def test_a_queue_that_is_deleted_is_gone_for_its_sessions() -> None:
    harness = Harness()
    harness.publish(b"a")
    harness.quorum_proxies.remove(UID)
    assert harness.told() == [("gone", UID)]
    harness.quorum_proxies.lost(THERE)
    assert harness.proxy.is_gone


def test_settled_messages_leave_the_queue_once_though_the_settlement_is_sent_twice() -> None:
    harness = Harness()
    harness.lead_here(3)
    harness.publish(b"a", b"b")
    harness.attach(1, 2)
    harness.commit()
    key = consumer_key(harness.sink.session, 1)
    harness.proxy.command(harness.sink, Settle(key, ACCEPT, [(3 << 40 | 1, 1)]))
    harness.end.propose(1_000)
    proposed = harness.end.proposed
    harness.end.step_down()
    for entry in proposed:
        harness.end.apply(entry)
    harness.lead_here(4)
    harness.commit()
    assert harness.end.checked_out_count == 1
    assert harness.end.machine.streams is not None
    assert harness.end.machine.streams.by_session[harness.sink.session].number == 3


def test_an_item_for_a_home_is_none_for_a_session() -> None:
    harness = Harness()
    harness.proxy.leader(THERE, 3)
    harness.publish(b"a")
    try:
        harness.hear(put_numbers(3, UID, harness.sink.session, 1))
    except BadItem:
        return
    raise AssertionError("it was believed")


def test_a_session_of_another_queue_is_nobody() -> None:
    harness = Harness()
    harness.hear(put_numbers(CONFIRMS, 99, SessionId(1), 1))
    harness.hear(put_numbers(CONFIRMS, UID, SessionId(1), 1))
    assert harness.told() == []


def test_a_question_that_was_lost_takes_nothing_of_what_the_next_one_asks_for() -> None:
    harness = Harness()
    harness.lead_here(3)
    harness.publish(b"a", b"b")
    harness.attach(1, 2)
    harness.commit()
    harness.end.step_down()
    harness.proxy.leader(THERE, 4)
    harness.peer_route.take()
    harness.proxy.leader(THERE, 5)
    (asked,) = harness.peer_route.take()
    assert resume_in(asked)[2].wanted == [(1, 1)]


def test_a_session_ends_while_it_waits_for_a_body_and_has_more_to_hand_down() -> None:
    harness = Harness()
    harness.lead_here(1)
    harness.publish(b"one")
    harness.commit()
    harness.end.keeps_on_disk = True
    session = harness.sink.session
    harness.proxy.command(harness.sink, Get(session))
    harness.commit()
    harness.publish(b"two")
    harness.proxy.command(harness.sink, EndSession(session))
    for _ in range(3):
        harness.commit()
    assert harness.proxy.sessions == set()
    assert harness.end.machine.length() == 2


def test_what_comes_after_a_get_goes_on_when_what_was_got_is_taken_back() -> None:
    harness = Harness(Options(consumer_timeout_ms=100))
    harness.lead_here(3)
    harness.publish(b"a")
    harness.commit()
    harness.end.keeps_on_disk = True
    harness.proxy.command(harness.sink, Get(harness.sink.session))
    harness.publish(b"b")
    harness.commit()
    harness.told()
    for _ in range(3):
        harness.now_ms += 100
        harness.commit()
    assert [each[0] for each in harness.told()] == ["got", "timed out", "confirms"]


def test_a_lost_link_resumes_the_sessions_of_every_queue_led_there() -> None:
    harness = Harness()
    other = QuorumProxy(UID + 1, "/", "other", False, CreditSpec(400, 200), harness.quorum_proxies)
    harness.quorum_proxies.add(other)
    for proxy in (harness.proxy, other):
        proxy.leader(THERE, 3)
        proxy.publish(harness.sink, chunk_of([b"one"], base=3), 1)
    harness.peer_route.take()
    harness.quorum_proxies.lost(THERE)
    resumed = {item.uid for item in harness.peer_route.take() if item.kind == RESUME}
    assert resumed == {UID, UID + 1}


class Failovers:
    """Keeps `CancelSink`."""

    def __init__(self) -> None:
        self.keys: list[int] = []

    def on_cancelled(self, uid: int, key: ConsumerKey) -> None:
        assert uid == UID
        self.keys.append(key)


def test_consumers_that_watch_learn_once_that_another_node_leads() -> None:
    harness = Harness()
    failovers = Failovers()
    first, second = (consumer_key(harness.sink.session, number) for number in (1, 2))
    harness.lead_here(1)
    harness.proxy.watch_failover(first, failovers)
    harness.proxy.watch_failover(second, failovers)
    harness.proxy.unwatch_failover(second)
    harness.proxy.leader(0, 0)
    harness.lead_here(2)
    assert failovers.keys == []  # The same node leads again.
    harness.proxy.leader(THERE, 3)
    assert failovers.keys == [first]
    harness.lead_here(4)
    assert failovers.keys == [first]


def blocked_by(harness: Harness, publishes: int) -> bool:
    """Whether so many publishes of one message, which are all confirmed, use up the credit."""
    harness.publish(*[b"a"] * publishes)
    return harness.sink.credit.is_blocked()


def test_a_session_has_no_credit_for_what_is_confirmed_while_the_leader_withholds_it() -> None:
    harness = Harness()
    harness.proxy.leader(THERE, 3)
    assert blocked_by(harness, 400)
    held = put_numbers(CONFIRMS_HELD, UID, harness.sink.session, 400)
    harness.hear(held)
    assert harness.told() == [("confirms", UID, 400)]
    assert harness.sink.credit.is_blocked()
    harness.hear(put_numbers(RELEASED, UID, harness.sink.session))
    assert not harness.sink.credit.is_blocked()


def test_credit_that_a_leader_withheld_comes_back_when_it_is_lost() -> None:
    harness = Harness()
    harness.proxy.leader(THERE, 3)
    assert blocked_by(harness, 400)
    harness.hear(put_numbers(CONFIRMS_HELD, UID, harness.sink.session, 400))
    harness.proxy.leader(THERE, 4)
    assert not harness.sink.credit.is_blocked()


# Without a leader for long


QUESTIONS = [
    lambda session: Get(session),
    lambda session: Purge(session),
    lambda session: Inspect(session),
    lambda session: Retire(session, False, True, True),
    lambda session: Attach(consumer_key(session, 1), 1, True, False, 0),
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_that_no_leader_got_is_withdrawn_when_there_is_none_for_long(
    question: Callable[[SessionId], Command],
) -> None:
    harness = Harness()
    harness.publish(b"a")
    harness.ask(question(harness.sink.session))
    harness.publish(b"b")
    harness.wait(PATIENCE_MS - 1)
    assert harness.told() == []
    harness.wait(1)
    assert harness.told() == [("leaderless", UID)]
    harness.proxy.command(harness.sink, EndSession(harness.sink.session))
    harness.proxy.leader(THERE, 4)
    items = harness.peer_route.take()
    assert numbers_of(items) == [1, 2], "the publishes alone"
    harness.hear(put_numbers(APPLIED, UID, harness.sink.session, 2))
    assert numbers_of(harness.peer_route.take()) == [3], "the end of the session"


def test_a_question_that_a_leader_may_have_is_not_withdrawn() -> None:
    harness = Harness()
    harness.proxy.leader(THERE, 3)
    harness.ask(Purge(harness.sink.session))
    assert numbers_of(harness.peer_route.take()) == [1]
    harness.proxy.leader(NO_MEMBER, 0)
    harness.wait(PATIENCE_MS)
    assert harness.told() == [("leaderless", UID)]
    harness.proxy.command(harness.sink, EndSession(harness.sink.session))
    harness.proxy.leader(THERE, 4)
    harness.answer_resume(1)
    harness.hear(put_numbers(PURGED, UID, harness.sink.session, 7))
    assert harness.told() == []
    assert numbers_of(harness.peer_route.take()) == [2], "the end alone: the purge was applied"


def test_the_time_without_a_leader_counts_from_the_last_one() -> None:
    harness = Harness()
    harness.proxy.leader(THERE, 3)
    harness.ask(Purge(harness.sink.session))
    harness.proxy.leader(NO_MEMBER, 0)
    harness.wait(PATIENCE_MS - 1)
    harness.peer_route.take()
    harness.proxy.leader(THERE, 4)
    harness.answer_resume(1)
    harness.proxy.leader(NO_MEMBER, 0)
    harness.wait(PATIENCE_MS - 1)
    assert harness.told() == []
    harness.wait(1)
    assert harness.told() == [("leaderless", UID)]


def test_publishes_wait_for_a_leader_however_long_that_takes() -> None:
    harness = Harness()
    harness.publish(b"a")
    harness.wait(100 * PATIENCE_MS)
    assert harness.told() == []
    harness.proxy.leader(THERE, 4)
    assert numbers_of(harness.peer_route.take()) == [1]


def test_a_request_that_waits_for_confirms_is_told_and_its_message_is_not_published_later() -> None:
    harness = Harness()
    harness.publish(b"a")
    harness.proxy.watch_leader(harness.sink.session, harness.sink, 0, True)
    harness.wait(PATIENCE_MS)
    assert harness.told() == [("leaderless", UID)]
    assert harness.proxy.kept_bytes > 0
    harness.proxy.withdraw_publishes(harness.sink.session)
    harness.proxy.command(harness.sink, EndSession(harness.sink.session))
    assert harness.proxy.kept_bytes == 0 and not harness.proxy.sessions
    harness.proxy.leader(THERE, 4)
    assert harness.peer_route.take() == []


def test_what_a_session_asked_without_a_leader_goes_with_the_session() -> None:
    harness = Harness()
    harness.proxy.command(harness.sink, Purge(harness.sink.session))
    harness.proxy.command(harness.sink, EndSession(harness.sink.session))
    assert not harness.proxy.sessions
    harness.proxy.leader(THERE, 4)
    assert harness.peer_route.take() == []


def test_counts_stay_as_they_were_while_there_is_no_leader() -> None:
    harness = Harness()
    harness.lead_here(3)
    harness.publish(b"a", b"b")
    harness.commit()
    harness.proxy.leader(NO_MEMBER, 0)
    assert harness.proxy.ready_count == 2
