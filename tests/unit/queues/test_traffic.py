"""Leaders go to where the bytes are: never to and fro, and few at a time."""

from random import Random

import pytest

from queues.definitions.policy_keys import KEYS
from queues.hosts.byte_counts import GUESS_BYTES, Traffic
from queues.machine.commands import SessionId, consumer_key
from queues.machine.effects import Delivers, Got, Purged
from queues.placement.leader_traffic import (
    ADVISE,
    AUTO,
    CALM_MS,
    KEY,
    MODES,
    OFF,
    Bounds,
    Moves,
    Watch,
    mode_of,
)

UID = 7
SPAN_MS = 5000
BOUNDS = Bounds()
MUCH = 1_000_000


class Follower:
    """A queue that moves on command, with the traffic of its nodes sample by sample."""

    def __init__(self, bounds: Bounds = BOUNDS) -> None:
        self.watches = {node: Watch(bounds) for node in (1, 2, 3)}
        self.moves = Moves(bounds)
        self.leader = 1
        self.now_ms = 0
        self.able = {1, 2, 3}
        self.moved = 0

    def sample(self, *carried: int) -> None:
        """Bytes of the nodes 1, 2, 3."""
        self.now_ms += SPAN_MS
        shares = dict(enumerate(carried, 1))
        advice = self.watches[self.leader].sample(
            UID, self.now_ms, SPAN_MS, shares, self.leader, self.able.__contains__
        )
        if advice is None or self.moves.refusal(UID, self.now_ms):
            return
        assert advice.target in self.able
        self.moves.begin(UID)
        self.watches[self.leader].forget(UID)
        self.leader = advice.target
        self.moves.end(UID, self.now_ms)
        self.moved += 1


@pytest.mark.parametrize("seed", range(20))
def test_two_halves_never_move_and_three_fifths_and_more_move_once(seed: int) -> None:
    random = Random(seed)
    even, uneven = Follower(), Follower()
    for _ in range(400):
        noise = random.randint(-MUCH // 20, MUCH // 20)
        even.sample(MUCH + noise, MUCH - noise)
        uneven.sample(39 * MUCH, 61 * MUCH + random.randint(0, MUCH))
    assert (even.moved, even.leader) == (0, 1)
    assert (uneven.moved, uneven.leader) == (1, 2)


def test_it_moves_when_the_time_is_over_and_not_before() -> None:
    follower = Follower()
    for _ in range(5):
        follower.sample(1, MUCH)
    assert follower.leader == 1
    follower.sample(1, MUCH)
    assert follower.leader == 2


@pytest.mark.parametrize(
    "between",
    [
        pytest.param((MUCH, MUCH), id="a sample with two halves"),
        pytest.param((0, 0), id="a sample of silence"),
        pytest.param((0, 0, MUCH), id="a sample of another node"),
    ],
)
def test_every_sample_must_be_of_the_same_node(between: tuple[int, ...]) -> None:
    follower = Follower()
    for _ in range(5):
        follower.sample(1, MUCH)
    follower.sample(*between)
    for _ in range(5):
        follower.sample(1, MUCH)
    assert follower.leader == 1
    follower.sample(1, MUCH)
    assert follower.leader == 2


def test_a_trickle_moves_nothing() -> None:
    follower = Follower()
    for _ in range(50):
        follower.sample(0, SPAN_MS // 2)
    assert follower.moved == 0


def test_nothing_goes_to_a_node_that_could_not_lead() -> None:
    follower = Follower()
    follower.able = {1, 3}
    for _ in range(20):
        follower.sample(0, MUCH)
    assert follower.leader == 1
    follower.able.add(2)
    for _ in range(5):
        follower.sample(0, MUCH)
    assert follower.leader == 1  # The time starts again.
    follower.sample(0, MUCH)
    assert follower.leader == 2


@pytest.mark.parametrize("seed", range(10))
def test_traffic_that_swings_moves_the_leader_less_and_less(seed: int) -> None:
    """An hour of it; each side has all of it for a minute or two."""
    random = Random(seed)
    follower = Follower()
    samples = CALM_MS // SPAN_MS
    moves = []
    while follower.now_ms < CALM_MS:
        side = random.randint(12, 24)
        for _ in range(side):
            follower.sample(0, MUCH)
        for _ in range(side):
            follower.sample(MUCH, 0)
        moves.append(follower.moved)
    assert samples / 18 > 20  # So often the traffic went to the other side.
    assert follower.moved <= 10
    assert moves[-1] - moves[len(moves) // 2] <= 4


def test_no_more_transfers_than_are_allowed_are_under_way() -> None:
    moves = Moves(Bounds(transfers_max=2))
    for uid in (1, 2):
        assert not moves.refusal(uid, 0)
        moves.begin(uid)
    assert "under way" in moves.refusal(1, 0) and "under way" in moves.refusal(3, 0)
    moves.end(1, 0)
    assert not moves.refusal(3, 0)
    assert "lately" in moves.refusal(1, 0)


def test_a_queue_rests_longer_with_each_move_until_it_was_calm() -> None:
    moves, now_ms, rests = Moves(BOUNDS), 0, []
    for _ in range(9):
        assert not moves.refusal(UID, now_ms)
        moves.begin(UID)
        moves.end(UID, now_ms)
        rest_ms = 0
        while moves.refusal(UID, now_ms + rest_ms):
            rest_ms += BOUNDS.time_ms
        rests.append(rest_ms // BOUNDS.time_ms)
        now_ms += rest_ms
    assert rests == [2, 4, 8, 16, 32, 64, 64, 64, 64]
    now_ms += CALM_MS
    moves.begin(8)
    moves.end(8, now_ms)
    moves.begin(UID)
    moves.end(UID, now_ms)
    assert not moves.refusal(UID, now_ms + 2 * BOUNDS.time_ms)


def test_a_policy_says_one_of_three_words() -> None:
    check, _ = KEYS[KEY]
    assert all(check(mode) for mode in MODES)
    assert not check(True) and not check("on")
    assert [mode_of({KEY: mode}) for mode in (ADVISE, AUTO, OFF, "on", True)] == [
        *(ADVISE, AUTO, OFF, OFF, OFF),
    ]
    assert mode_of({}) == OFF


# What is counted


def session(process: int) -> SessionId:
    return SessionId(process << 64 | 5)


def delivers(process: int, count: int) -> Delivers:
    return Delivers(consumer_key(session(process), 1), 1, 1, count, False, 0)


def test_bytes_are_counted_by_process_until_they_are_taken() -> None:
    traffic = Traffic()
    traffic.published(session(1), 3000, 3)
    traffic.told(delivers(2, 2))
    traffic.told(Got(session(2), 9, False, 0))
    traffic.told(Got(session(2), 0, False, 0))
    traffic.told(Purged(session(3), 7))
    assert traffic.take() == {1: 3000, 2: 3000}
    assert traffic.take() == {}


def test_without_publishes_the_shares_of_consumers_are_told() -> None:
    traffic = Traffic()
    traffic.told(delivers(1, 3))
    traffic.told(delivers(2, 1))
    assert traffic.take() == {1: 3 * GUESS_BYTES, 2: GUESS_BYTES}
