"""Message groups: messages of one group go to one consumer, in order, until it leaves."""

import struct
from random import Random
from typing import Any

import msgspec
import proton
import pytest

from queues.definitions.policy_keys import policy_fault
from queues.definitions.queue_arguments import argument_fault
from queues.hosts.message_digests import NO_GROUP, groups_of
from queues.machine.address_settings import AddressSettings
from queues.machine.commands import (
    ACCEPT,
    RELEASE,
    Attach,
    Command,
    Configure,
    ConsumerKey,
    Credit,
    Detach,
    EndSession,
    Enqueue,
    Get,
    Purge,
    SessionId,
    Settle,
    consumer_key,
    decode,
    encode,
)
from queues.machine.effects import Delivers, Effect, Got
from queues.machine.fifo import Fifo
from queues.machine.fifo_snapshot import decode_fifo, encode_fifo
from queues.machine.fifo_state import (
    BadSnapshot,
    decode_state,
    encode_state,
    machine_state,
    restore,
)
from queues.machine.options import Options
from queues.machine.traits import Traits
from queues.message import FORMAT_091, FORMAT_10, Chunk
from tests.unit.queues.messages import table
from warren.wire.amqp091.deliver import build
from warren.wire.amqp091.properties import BasicProperties
from warren.wire.amqp10.transfers import store

PUBLISHER = SessionId(7 << 64 | 1)
KEYS = [consumer_key(SessionId(7 << 64 | counter), 1) for counter in (2, 3, 4)]
BUCKETS = 1000


def queue_with(buckets: int = BUCKETS, levels: int = 1, **options: bool) -> Fifo:
    address = AddressSettings(group_buckets=buckets)
    return Fifo(Options(levels=levels, address=address, **options))


def published(first: int, *groups: int, priorities: tuple[int, ...] = ()) -> Enqueue:
    column = struct.pack(f"<{len(groups)}i", *groups) if any(groups) else None
    ranks = struct.pack(f"<{len(groups)}i", *priorities) if priorities else None
    return Enqueue(PUBLISHER, first, len(groups), Traits(-1, -1, ranks, None, groups=column))


def attach(place: int, credit: int = 100) -> Attach:
    return Attach(KEYS[place], credit, True, False, 0)


def delivered(effects: list[Effect]) -> dict[int, list[int]]:
    """Messages by the place of their consumer."""
    found: dict[int, list[int]] = {}
    for effect in effects:
        if isinstance(effect, Delivers):
            place = KEYS.index(effect.key)
            found.setdefault(place, []).extend(range(effect.first, effect.first + effect.count))
    return found


def settle(place: int, seqs: list[int], outcome: int = ACCEPT) -> Settle:
    return Settle(KEYS[place], outcome, [(seq, 1) for seq in seqs])


def test_messages_of_a_group_go_to_the_consumer_that_had_its_first_one() -> None:
    fifo = queue_with()
    fifo.apply([attach(0), attach(1)], 1)
    got = delivered(fifo.apply([published(1, 5, 6, 5, 6, 5)], 1))
    assert got == {0: [1, 3, 5], 1: [2, 4]}
    assert delivered(fifo.apply([published(6, 6, 6, 5)], 1)) == {0: [8], 1: [6, 7]}


def test_messages_without_a_group_go_to_all_in_turn() -> None:
    fifo = queue_with()
    fifo.apply([attach(0), attach(1)], 1)
    assert delivered(fifo.apply([published(1, 0, 0, 0, 0)], 1)) == {0: [1, 3], 1: [2, 4]}


def test_messages_wait_for_their_consumer_and_hold_no_other_up() -> None:
    fifo = queue_with()
    fifo.apply([attach(0, 1), attach(1, 1)], 1)
    assert delivered(fifo.apply([published(1, 5, 6, 5, 5, 6, 0)], 1)) == {0: [1], 1: [2]}
    assert delivered(fifo.apply([settle(1, [2])], 1)) == {1: [5]}
    assert delivered(fifo.apply([settle(1, [5])], 1)) == {1: [6]}
    assert delivered(fifo.apply([settle(0, [1])], 1)) == {0: [3]}


def test_groups_of_a_consumer_that_leaves_go_to_the_others() -> None:
    fifo = queue_with()
    fifo.apply([attach(0, 1), attach(1)], 1)
    assert delivered(fifo.apply([published(1, 5, 5, 5)], 1)) == {0: [1]}
    assert delivered(fifo.apply([Detach(KEYS[0])], 1)) == {1: [2, 3]}
    fifo.apply([attach(2)], 1)
    assert delivered(fifo.apply([published(4, 5, 5)], 1)) == {1: [4, 5]}


def test_what_a_closed_consumer_held_goes_to_the_next_in_order() -> None:
    fifo = queue_with()
    fifo.apply([attach(0, 3)], 1)
    fifo.apply([published(1, 5, 5, 5, 5)], 1)
    assert delivered(fifo.apply([EndSession(SessionId(7 << 64 | 2)), attach(1)], 1)) == {
        1: [1, 2, 3, 4]
    }


def test_returned_message_comes_before_those_behind_it_and_to_its_consumer() -> None:
    fifo = queue_with()
    fifo.apply([attach(0, 1), attach(1, 9)], 1)
    fifo.apply([published(1, 5, 5)], 1)
    assert delivered(fifo.apply([settle(0, [1], RELEASE)], 1)) == {0: [1]}


def test_higher_level_comes_first_within_what_a_consumer_may_get() -> None:
    fifo = queue_with(levels=10)
    fifo.apply([published(1, 5, 6, 5, priorities=(0, 0, 7)), attach(0, 1)], 1)
    assert delivered(fifo.apply([settle(0, [3])], 1)) == {0: [1]}


def test_groups_share_buckets_where_there_are_more_of_them() -> None:
    fifo = queue_with(buckets=1)
    fifo.apply([attach(0), attach(1)], 1)
    assert delivered(fifo.apply([published(1, 5, 6, 7)], 1)) == {0: [1, 2, 3]}


def test_groups_do_not_matter_to_a_single_active_consumer() -> None:
    fifo = queue_with(single_active=True)
    assert fifo.ready.groups is None
    fifo.apply([attach(0), attach(1)], 1)
    assert delivered(fifo.apply([published(1, 5, 6)], 1)) == {0: [1, 2]}


def test_get_takes_the_oldest_message_of_any_group() -> None:
    fifo = queue_with()
    fifo.apply([attach(0, 1), published(1, 5, 5, 6)], 1)
    effects = fifo.apply([Get(SessionId(7 << 64 | 9))], 1)
    assert [effect.message for effect in effects if isinstance(effect, Got)] == [2]


def test_setting_begins_and_ends_while_messages_wait() -> None:
    fifo = Fifo()
    fifo.apply([published(1, 5, 5)], 1)
    fifo.apply([Configure(Options(address=AddressSettings(group_buckets=9)))], 1)
    fifo.apply([published(3, 5, 5, 5), attach(0, 3), attach(1, 1)], 1)
    fifo.apply([attach(2, 1)], 1)
    assert (
        fifo.checked_out == 3
    )  # The first consumer took both without a known group, and the group.
    assert delivered(fifo.apply([Configure(Options())], 1)) == {1: [4], 2: [5]}


def test_messages_whose_group_a_restart_reads_from_their_bodies_are_of_it_then() -> None:
    fifo = queue_with()
    fifo.restore_run(1, 3, None, 0, 1)
    fifo.end_restore(4, 0)
    groups = fifo.ready.groups
    assert groups is not None
    for seq, number in ((1, 5), (2, 0), (3, 5)):
        groups.found(seq, number)
    assert delivered(fifo.apply([attach(0, 1), attach(1)], 1)) == {0: [1], 1: [2]}
    assert delivered(fifo.apply([settle(0, [1])], 1)) == {0: [3]}


# Stories


class Oracle:
    """Checks what consumers get: one owner of each group, and the order of its messages."""

    def __init__(self) -> None:
        self.group_of: dict[int, int] = {}
        self.owner_of: dict[int, ConsumerKey] = {}
        self.held: dict[int, ConsumerKey] = {}

    def see(self, effects: list[Effect]) -> None:
        for effect in effects:
            if not isinstance(effect, Delivers):
                continue
            for seq in range(effect.first, effect.first + effect.count):
                group = self.group_of[seq]
                if group > 0:
                    assert self.owner_of.setdefault(group, effect.key) == effect.key
                self.held[seq] = effect.key

    def gone(self, key: ConsumerKey) -> None:
        self.owner_of = {group: own for group, own in self.owner_of.items() if own != key}


class Story:
    """Random commands; the machine goes through a snapshot now and then."""

    def __init__(self, seed: int) -> None:
        self.lots = Random(seed)
        self.levels = self.lots.choice([1, 1, 4])
        self.fifo = queue_with(self.lots.choice([1, 3, 1000]), self.levels)
        if self.fifo.options.group_buckets < 1000:
            self.groups = [0, *range(1, self.fifo.options.group_buckets + 1)]  # a bucket for each
        else:
            self.groups = list(range(9))
        self.oracle = Oracle()
        self.next_seq = 1
        self.attached: list[ConsumerKey] = []

    def apply(self, *commands: Command) -> None:
        effects = self.fifo.apply([decode(encode(command)) for command in commands], 1)
        self.oracle.see(effects)

    def step(self) -> None:
        lots = self.lots
        kind = lots.choice(["publish", "publish", "settle", "settle", "attach", "detach", "credit"])
        if kind == "publish":
            groups = [lots.choice(self.groups) for _ in range(lots.randint(1, 6))]
            ranks = tuple(lots.randrange(self.levels) for _ in groups)
            for place, group in enumerate(groups):
                self.oracle.group_of[self.next_seq + place] = group
            self.apply(published(self.next_seq, *groups, priorities=ranks))
            self.next_seq += len(groups)
        elif kind == "settle" and self.oracle.held:
            seq = lots.choice(list(self.oracle.held))
            key = self.oracle.held.pop(seq)
            self.apply(Settle(key, lots.choice([ACCEPT, RELEASE]), [(seq, 1)]))
        elif kind == "attach" and len(self.attached) < len(KEYS):
            key = lots.choice([key for key in KEYS if key not in self.attached])
            if key not in self.fifo.consumers:
                self.attached.append(key)
                self.apply(Attach(key, lots.randint(0, 4), lots.random() < 0.7, False, 0))
        elif kind == "detach" and self.attached:
            key = self.attached.pop(lots.randrange(len(self.attached)))
            self.oracle.gone(key)
            self.apply(Detach(key))
        elif kind == "credit" and self.attached:
            key = lots.choice(self.attached)
            seen = int(self.fifo.consumers[key].delivery_count)
            self.apply(Credit(key, seen, lots.randint(0, 4), lots.random() < 0.3, True))
        if lots.random() < 0.2:
            self.restart()
        self.check()

    def restart(self) -> None:
        """Go on with the machine of a snapshot, a whole one or one in parts."""
        data = encode_fifo(self.fifo, self.lots.choice([0, 1024]))
        again = Fifo(Options(levels=self.levels))
        decode_fifo(again, data)
        assert encode_fifo(again) == encode_fifo(self.fifo)
        self.fifo = again

    def check(self) -> None:
        """No consumer with credit lacks a message that it may have."""
        groups = self.fifo.ready.groups
        assert groups is not None
        for consumer in self.fifo.consumers.values():
            if consumer.attached and consumer.credit > 0:
                assert groups.head(consumer, 1)[1] == 0
        assert groups.count == self.fifo.length() + sum(
            each.seqs.count for each in self.fifo.leaving
        )

    def end(self) -> None:
        """All messages reach a consumer in the end."""
        for key in KEYS:
            self.fifo.apply([EndSession(SessionId(key >> 32))], 1)
        self.fifo.apply([attach(0, 10_000)], 1)
        assert self.fifo.ready.count == 0


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_groups_keep_their_consumer_in_long_stories(start: int) -> None:
    for seed in range(start, start + 50):
        story = Story(seed)
        try:
            for _ in range(80):
                story.step()
            story.end()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


def test_purge_takes_messages_of_all_groups() -> None:
    fifo = queue_with()
    fifo.apply([attach(0, 1), published(1, 5, 5, 6)], 1)
    fifo.apply([Purge(PUBLISHER)], 1)
    fifo.apply([], 1)
    assert fifo.length() == 1
    assert delivered(fifo.apply([published(4, 5), settle(0, [1])], 1)) == {0: [4]}


def test_snapshot_with_groups_of_other_messages_is_refused() -> None:
    fifo = queue_with()
    fifo.apply([attach(0, 1), published(1, 5, 5, 6)], 1)
    fields = decode_state(encode_state(machine_state(fifo)))
    changes: tuple[dict[str, Any], ...] = (
        {"buckets": [(1, 2, 6)]},
        {"buckets": [(1, 3, 9999)]},
        {"owners": [(6, bytes(20))]},
        {"owners": [*fields.owners, *fields.owners]},
        {"idle": [bytes(20)]},
    )
    for change in changes:
        wrong = decode_state(encode_state(msgspec.structs.replace(fields, **change)))
        with pytest.raises(BadSnapshot):
            restore(queue_with(), wrong)


# Group ids


def test_group_of_both_protocols_is_the_same() -> None:
    old = build("", b"q", BasicProperties(headers={"JMSXGroupID": "g"}).encode(), b"body")
    core = build("", b"q", BasicProperties(headers={"_AMQ_GROUP_ID": "g"}).encode(), b"body")
    none = build("", b"q", BasicProperties().encode(), b"body")
    chunk = Chunk(FORMAT_091, old + core + none, 0, table([old, core, none], 0), 0)
    found = groups_of(chunk)
    assert found is not None
    numbers = struct.unpack("<3i", found)
    assert numbers[0] == numbers[1] > 0 == numbers[2] == NO_GROUP
    messages = [proton.Message(group_id="g"), proton.Message(subject="s")]
    bodies = [store(bytes(message.encode())) for message in messages]
    found = groups_of(Chunk(FORMAT_10, b"".join(bodies), 0, table(bodies, 0), 0))
    assert found is not None
    assert struct.unpack("<2i", found) == (numbers[0], NO_GROUP)


def test_messages_without_groups_cost_no_column() -> None:
    body = build("", b"q", BasicProperties().encode(), b"body")
    assert groups_of(Chunk(FORMAT_091, body, 0, table([body], 0), 0)) is None


@pytest.mark.parametrize("value", [-1, 1025, True, "4"])
def test_number_of_buckets_that_is_not_allowed_is_refused(value: object) -> None:
    fault = argument_fault("q", {"x-group-buckets": value})
    assert fault is not None and "expected a number of buckets from 0 to 1024" in str(fault)


def test_non_destructive_queue_has_no_groups() -> None:
    assert "excludes group-buckets" in str(
        policy_fault(".*", "queues", 0, {"non-destructive": True, "group-buckets": 4}, False)
    )
