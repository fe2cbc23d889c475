"""Nodes that publish to one address: how far they exceed its limit together, by simulation."""

from collections import deque
from dataclasses import dataclass, field
from random import Random

import pytest

from queues.addresses.account import Account, Entry, Gate
from queues.addresses.limits import AddressLimits
from queues.addresses.share import ROUNDS, SLICES, Share

HOME = 1  # the member that has the queue
BATCH = 50
LIMIT = 16_000
STEPS_PER_ROUND = 10


@dataclass
class Word:
    sender: int
    held: int
    due: int
    is_active: bool


@dataclass
class Member:
    number: int
    cluster: "Cluster"
    heard: dict[int, Word] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    sent: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        def measure() -> tuple[int, int]:
            mine = self.cluster.stored if self.number == HOME else 0
            return mine + sum(word.held + word.due for word in self.heard.values()), 0

        leader = 0 if self.number == HOME else HOME
        self.account = Account(
            *(1, "/", "queue", "q", AddressLimits(LIMIT, -1, "BLOCK"), measure),
            lambda: self.cluster.step,
            lambda uid: leader,
        )
        entry = (
            Entry(self.account, 1, frozenset())
            if self.number == HOME
            else Entry(self.account, 0, frozenset({7}))
        )
        self.gate = Gate([entry])
        self.account.begin_round(0, len(self.cluster.numbers) - 1)

    def publish(self, producer: int, size: int) -> None:
        offsets = (0).to_bytes(4, "little") + size.to_bytes(4, "little")
        assert self.gate.admit(offsets, 0, 1) == (1, 0)
        self.sent[producer] = self.sent.get(producer, 0) + 1
        self.cluster.publish(self, size)
        if self.gate.must_wait():
            self.waiting.add(producer)

    def tell(self) -> Word:
        held = self.cluster.stored if self.number == HOME else 0
        return Word(self.number, held, self.account.due_bytes, self.account.share.is_active)

    def hear(self, word: Word) -> None:
        self.heard[word.sender] = word
        self.account.heard_from(word.sender)

    def begin_round(self) -> None:
        others = sum(word.is_active for word in self.heard.values())
        self.account.begin_round(others, len(self.cluster.numbers) - 1)

    def release(self) -> None:
        if not self.account.is_blocking():
            self.waiting.clear()


class Cluster:
    """Words and messages take between one step and a round; confirms come with the messages."""

    def __init__(self, seed: int, numbers: list[int]) -> None:
        self.random = Random(seed)
        self.numbers = numbers
        self.step = 0
        self.stored = 0
        self.handed = 0  # at home, in this step
        self.under_way: deque[tuple[int, Member, int]] = deque()  # due step, from, size
        self.confirms: list[tuple[int, Member, int]] = []  # due step, to, size
        self.last_due: dict[int, int] = {}
        self.words: list[tuple[int, int, Word]] = []  # due step, to, word
        self.members = {number: Member(number, self) for number in numbers}

    def delay(self) -> int:
        return self.step + self.random.randint(1, STEPS_PER_ROUND)

    def publish(self, member: Member, size: int) -> None:
        if member.number == HOME:
            self.handed += size
        else:
            self.under_way.append((self.delay(), member, size))

    def in_order(self, number: int) -> int:
        """When something arrives that overtakes nothing on its way to the node."""
        self.last_due[number] = max(self.last_due.get(number, 0), self.delay())
        return self.last_due[number]

    def everything(self) -> int:
        return self.stored + self.handed + sum(size for _, _, size in self.under_way)

    def end_step(self) -> None:
        self.step += 1
        self.stored += self.handed
        self.handed = 0
        for due in [each for each in self.under_way if each[0] <= self.step]:
            self.under_way.remove(due)
            self.stored += due[2]
            arrives = self.in_order(due[1].number)
            self.confirms.append((arrives, due[1], due[2]))
        for confirm in [each for each in self.confirms if each[0] <= self.step]:
            self.confirms.remove(confirm)
            confirm[1].account.decided(7, confirm[2], 1)
        for word in [each for each in self.words if each[0] <= self.step]:
            self.words.remove(word)
            self.members[word[1]].hear(word[2])
        for member in self.members.values():
            if self.step % STEPS_PER_ROUND == member.number:
                for other in self.numbers:
                    if other != member.number:
                        self.words.append((self.in_order(other), other, member.tell()))
                member.begin_round()
            member.release()

    def consume(self, size: int) -> None:
        self.stored -= min(size, self.stored)


@pytest.mark.parametrize("seed", range(40))
def test_nodes_exceed_a_blocking_limit_by_their_slices_and_a_batch_for_each_producer(
    seed: int,
) -> None:
    """Consumers take what they like, nodes begin to publish at any time, words are late."""
    random = Random(seed)
    nodes = random.randint(2, 5)
    producers = random.randint(1, 10)
    cluster = Cluster(seed, list(range(1, nodes + 1)))
    begins = {number: random.randint(0, 300) for number in cluster.numbers}
    takes = random.choice([0, 50, 400, 2000])
    eagerness = random.choice([1, 10, 100])
    most = 0
    for step in range(600):
        for number, member in cluster.members.items():
            if step < begins[number]:
                continue
            for producer in range(producers) if random.random() < 0.5 else ():
                for _ in range(eagerness):
                    if producer not in member.waiting:
                        member.publish(producer, random.randint(1, BATCH))
        cluster.end_step()
        cluster.consume(random.randint(0, takes))
        most = max(most, cluster.everything())
    assert most <= LIMIT + nodes * ROUNDS * (LIMIT // SLICES) + nodes * producers * BATCH
    if takes:
        assert all(len(member.sent) == producers for member in cluster.members.values())


def test_a_node_alone_uses_all_of_the_room_once_the_others_have_heard() -> None:
    share = Share()
    share.begin_round((1600, -1), (1600, 0), 0, 2)
    assert share.bytes_left == 100
    assert share.count_left > 1600
    for _ in range(ROUNDS):
        share.spend(1, 1)
        share.begin_round((1600, -1), (1600, 0), 0, 2)
    assert not share.is_spent()
    assert share.bytes_left > 1600


def test_nodes_that_publish_share_the_room() -> None:
    share = Share()
    for _ in range(ROUNDS + 1):
        share.spend(1, 1)
        share.begin_round((1600, -1), (900, 0), 2, 2)
    assert share.bytes_left == 100
    share.spend(100, 1)
    assert share.is_spent()


def test_what_a_silent_leader_was_sent_counts_no_more() -> None:
    account = Account(
        *(1, "/", "queue", "q", AddressLimits(100, -1, "FAIL"), lambda: (0, 0), lambda: 0),
        lambda uid: 3,
    )
    gate = Gate([Entry(account, 0, frozenset({7}))])
    gate.admit((0).to_bytes(4, "little") + (90).to_bytes(4, "little"), 0, 1)
    gate.decided(7, 90, 1)
    assert account.size_bytes == 90
    for _ in range(ROUNDS + 2):
        account.begin_round(0, 1)
    assert account.size_bytes == 0
