"""Credit flow: the invariants of FEATURES G-11 over random chains, and each rule of G-10 alone."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from queues.credit import CreditActor, CreditSpec

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
        """Everybody works until there is nothing left to do."""
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
    """Nobody is stuck any more, and everything was dealt with."""
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
    assert middle._owed == {}, "who is gone is not remembered"
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
