"""Credit flow: its invariants over random chains, and each rule alone."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from queues.sessions.credit import PAST_MAX, CreditActor, CreditSpec, FlowLedger
from tests.unit.reachable import held

BOUNDED = settings(max_examples=300, deadline=None, database=None)
SPECS = st.tuples(st.integers(1, 6), st.integers(1, 6)).map(lambda pair: (sum(pair), pair[1]))
Action = tuple[str, int, int]
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["read", "read", "work", "work", "work", "stick"]),
        st.integers(0, 3),
        st.integers(1, 3),
    ),
    max_size=60,
)


class Chain:
    """Actors in a row, each with a mailbox. The first one, the reader, stops while it is blocked;
    the others forward whatever they have. The last one only acknowledges.
    """

    def __init__(self, specs: list[tuple[int, int]]) -> None:
        self.unblocked = 0
        self.actors = [CreditActor("reader", CreditSpec(1, 1), self.on_unblocked)]
        self.actors += [CreditActor(f"actor {n}", CreditSpec(*s)) for n, s in enumerate(specs)]
        self.mailboxes = [0] * len(self.actors)
        self.initial_sum = sum(initial for initial, _ in specs)
        self.stuck = False

    def on_unblocked(self) -> None:
        self.unblocked += 1

    def read(self, count: int) -> None:
        if not self.actors[0].is_blocked():
            self.hand_down(0, count)

    def hand_down(self, place: int, count: int) -> None:
        self.actors[place].send(self.actors[place + 1], count)
        self.mailboxes[place + 1] += count

    def work(self, place: int, count: int) -> None:
        """Actor `place` deals with some of its mailbox, in the order of RabbitMQ: ack, forward."""
        last = place == len(self.actors) - 1
        count = min(count, self.mailboxes[place])
        if count == 0 or (last and self.stuck):
            return
        self.mailboxes[place] -= count
        self.actors[place].ack(self.actors[place - 1], count)
        if not last:
            self.hand_down(place, count)

    def rest(self) -> None:
        """All actors work until there is nothing left to do."""
        for _ in range(10_000):
            if not any(self.mailboxes):
                return
            for place in range(1, len(self.actors)):
                self.work(place, 1)
        raise AssertionError("deadlock")

    def check(self) -> None:
        for sender, receiver in pairwise(self.actors):
            blocked = sender.credit_towards(receiver) <= 0
            assert (receiver in sender.blocked_by) == blocked
            assert sender.is_blocked() == blocked
            assert sender.credit_towards(receiver) <= receiver.spec.initial


@BOUNDED
@given(st.lists(SPECS, min_size=1, max_size=4), ACTIONS)
def test_a_chain_neither_overfills_nor_stops(
    specs: list[tuple[int, int]], actions: list[Action]
) -> None:
    """Credit is counted by batches, so each edge may get what is left of one beyond its bound."""
    chain = Chain(specs)
    batch_max = 1
    for kind, place, count in actions:
        batch_max = max(batch_max, count)
        if kind == "read":
            chain.read(count)
        elif kind == "work":
            chain.work(1 + place % len(specs), count)
        else:
            chain.stuck = not chain.stuck
        chain.check()
        assert sum(chain.mailboxes) <= chain.initial_sum + (batch_max - 1) * len(specs)
    check_at_rest(chain)


def check_at_rest(chain: Chain) -> None:
    """No actor is stuck any more, and everything was dealt with."""
    chain.stuck = False
    chain.rest()
    assert not chain.actors[0].is_blocked()
    for sender, receiver in pairwise(chain.actors):
        spec = receiver.spec
        credit = sender.credit_towards(receiver)
        assert spec.initial - spec.more_after + 1 <= credit <= spec.initial


@BOUNDED
@given(st.lists(SPECS, min_size=1, max_size=4), ACTIONS)
def test_with_the_last_actor_stuck_the_reader_stops_in_time(
    specs: list[tuple[int, int]], actions: list[Action]
) -> None:
    chain = Chain(specs)
    chain.stuck = True
    for _, place, count in actions:
        chain.work(1 + place % len(specs), count)
    for _ in range(2 * chain.initial_sum + 2):
        chain.read(1)
        for place in range(1, len(chain.actors)):
            chain.work(place, 100)
    assert chain.actors[0].is_blocked()
    assert sum(chain.mailboxes) <= chain.initial_sum
    check_at_rest(chain)


SPEC = CreditSpec(4, 2)


def trio(on_unblocked: list[str] | None = None) -> tuple[CreditActor, CreditActor, CreditActor]:
    """A sender, an actor in the middle that has got 4 of it, and the receiver below."""
    heard = [] if on_unblocked is None else on_unblocked
    sender = CreditActor("sender", SPEC, lambda: heard.append("sender"))
    middle = CreditActor("middle", SPEC, lambda: heard.append("middle"))
    receiver = CreditActor("receiver", SPEC)
    sender.send(middle, 4)
    return sender, middle, receiver


def test_a_grant_goes_out_once_for_every_so_many_messages() -> None:
    sender, middle, _ = trio()
    middle.ack(sender, 1)
    assert sender.credit_towards(middle) == 0
    assert sender.is_blocked()
    middle.ack(sender, 2)
    assert sender.credit_towards(middle) == 2
    assert not sender.is_blocked()
    middle.ack(sender, 1)
    assert sender.credit_towards(middle) == 4


def test_no_grant_leaves_a_blocked_actor() -> None:
    sender, middle, receiver = trio()
    middle.send(receiver, 5)
    middle.ack(sender, 4)
    assert sender.credit_towards(middle) == 0
    receiver.ack(middle, 2)
    assert middle.credit_towards(receiver) == 1
    assert sender.credit_towards(middle) == 4


def test_grants_held_back_add_up() -> None:
    sender, middle, receiver = trio()
    middle.send(receiver, 4)
    middle.ack(sender, 2)
    middle.ack(sender, 2)
    receiver.ack(middle, 4)
    assert sender.credit_towards(middle) == 4


def test_an_actor_with_two_that_block_it_waits_for_both() -> None:
    sender, middle, receiver = trio()
    other = CreditActor("other", SPEC)
    middle.send(receiver, 4)
    middle.send(other, 4)
    middle.ack(sender, 4)
    receiver.ack(middle, 4)
    assert sender.is_blocked()
    other.ack(middle, 2)
    assert sender.credit_towards(middle) == 4


def test_a_blocked_actor_goes_on_forwarding_below_zero() -> None:
    _, middle, receiver = trio()
    middle.send(receiver, 4)
    middle.send(receiver, 3)
    assert middle.credit_towards(receiver) == -3
    assert middle.blocked_by == [receiver]
    assert middle.blocked_count == 1
    receiver.ack(middle, 2)
    assert middle.is_blocked()
    receiver.ack(middle, 2)
    assert not middle.is_blocked()


def test_the_death_of_the_receiver_frees_the_grants_held_back() -> None:
    heard: list[str] = []
    sender, middle, receiver = trio(heard)
    middle.send(receiver, 4)
    middle.ack(sender, 4)
    receiver.peer_down_everywhere()
    assert not middle.is_blocked()
    assert sender.credit_towards(middle) == 4
    assert heard == ["sender", "middle"]
    receiver.ack(middle, 2)
    assert middle.credit_towards(receiver) == 4


def test_the_death_of_the_middle_frees_its_senders_and_forgets_what_it_owed() -> None:
    sender, middle, receiver = trio()
    middle.send(receiver, 6)
    middle.ack(sender, 4)
    middle.peer_down_everywhere()
    assert not sender.is_blocked()
    assert not middle.is_blocked()
    receiver.ack(middle, 6)
    assert sender.credit_towards(middle) == 4
    sender.send(middle, 1)
    assert sender.credit_towards(middle) == 3


def test_the_death_of_a_sender_leaves_no_grant_behind() -> None:
    sender, middle, receiver = trio()
    middle.send(receiver, 4)
    middle.ack(sender, 4)
    sender.peer_down_everywhere()
    assert not any(each is sender for each in held(middle, CreditActor)), "it is remembered"
    sender.send(middle, 1)
    receiver.ack(middle, 4)
    assert not middle.is_blocked()
    assert sender.credit_towards(middle) == 3


def test_an_actor_is_told_when_it_may_go_on_and_only_then() -> None:
    heard: list[str] = []
    sender, middle, _ = trio(heard)
    middle.ack(sender, 1)
    assert heard == []
    middle.ack(sender, 1)
    assert heard == ["sender"]
    middle.ack(sender, 2)
    assert heard == ["sender"]


class Ticking:
    """A clock that is set by the test."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_the_ledger_knows_who_is_held_back_by_whom_and_for_how_long() -> None:
    clock = Ticking()
    ledger = FlowLedger(clock)
    spec = CreditSpec(2, 2, ledger)
    reader = CreditActor("c1", spec, None, "connection")
    queue = CreditActor("q1", spec, None, "queue")
    reader.send(queue, 1)
    assert ledger.edges() == [] and ledger.totals() == []
    reader.send(queue, 1)
    clock.now_s += 3
    assert ledger.edges() == [(reader, queue, 3.0)]
    assert ledger.totals() == [(("connection", "queue"), 3.0, 1)]
    assert ledger.past() == []
    queue.ack(reader, 2)
    clock.now_s += 10
    assert ledger.edges() == []
    assert ledger.totals() == [(("connection", "queue"), 3.0, 1)]
    assert ledger.past() == [(("connection", "c1", "queue", "q1"), 3.0, 1)]
    reader.send(queue, 2)
    clock.now_s += 1
    assert ledger.totals() == [(("connection", "queue"), 4.0, 2)]


def test_an_edge_ends_when_either_of_its_actors_goes() -> None:
    clock = Ticking()
    ledger = FlowLedger(clock)
    for goes in (0, 1):
        actors = [CreditActor(f"a{goes}{n}", CreditSpec(1, 1, ledger)) for n in range(2)]
        actors[0].send(actors[1], 1)
        assert len(ledger.edges()) == 1
        actors[goes].peer_down_everywhere()
        assert ledger.edges() == []


def test_the_rule_of_one_of_both_ends_is_enough_for_the_ledger() -> None:
    ledger = FlowLedger(Ticking())
    with_it = CreditActor("with", CreditSpec(1, 1, ledger))
    without = CreditActor("without", CreditSpec(1, 1))
    without.send(with_it, 1)
    with_it.send(without, 1)
    assert [(one.name, other.name) for one, other, _ in ledger.edges()] == [
        ("without", "with"),
        ("with", "without"),
    ]


def test_of_pairs_that_are_over_the_ledger_keeps_the_latest() -> None:
    ledger = FlowLedger(Ticking())
    spec = CreditSpec(1, 1, ledger)
    log = CreditActor("log", spec)
    for number in range(PAST_MAX + 2):
        sender = CreditActor(f"s{number}", spec, None, "sender")
        sender.send(log, 1)
        log.ack(sender, 1)
        sender.peer_down_everywhere()
    past = ledger.past()
    assert len(past) == PAST_MAX
    assert past[0][0][1] == "s2" and past[-1][0][1] == f"s{PAST_MAX + 1}"
    assert ledger.totals() == [(("sender", "log"), 0.0, PAST_MAX + 2)]


def test_who_is_forgotten_by_its_receiver_alone_gets_no_grants() -> None:
    sender, middle, _ = trio()
    middle.peer_down(sender)
    middle.ack(sender, 4)
    assert sender.credit_towards(middle) == 0
    sender.send(middle, 1)
    middle.ack(sender, 4)
    assert sender.credit_towards(middle) == -1


def test_who_comes_again_begins_with_all_its_credit_and_nothing_owed() -> None:
    sender, middle, _ = trio()
    middle.ack(sender, 1)
    sender.peer_down(middle)
    sender.send(middle, 2)
    assert sender.credit_towards(middle) == 2
    middle.ack(sender, 1)
    assert sender.credit_towards(middle) == 2, "one was dealt with, not two"
    middle.ack(sender, 1)
    assert sender.credit_towards(middle) == 4


def test_edges_that_are_used_in_turn_are_counted_apart() -> None:
    sender, middle, receiver = trio()
    other = CreditActor("other", SPEC)
    for _ in range(2):
        other.send(middle, 1)
        other.send(receiver, 1)
        middle.ack(other, 1)
        middle.ack(sender, 1)
    assert sender.credit_towards(middle) == 2
    assert other.credit_towards(middle) == 4
    assert other.credit_towards(receiver) == 2
