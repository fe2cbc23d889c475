"""Snapshots of the queue machine: the same bytes again, the same life afterwards, no nonsense."""

import struct
from collections.abc import Callable
from random import Random

import msgspec
import pytest

from queues.machine.address_settings import AddressSettings
from queues.machine.annotations import WORDS_BYTES_MAX, encode_words
from queues.machine.commands import (
    ACCEPT,
    FAIL,
    QUEUE_LIMIT,
    REJECT,
    REJECT_TOO_LARGE,
    RELEASE,
    Attach,
    Command,
    ConsumerKey,
    Credit,
    Detach,
    EndSession,
    Enqueue,
    Get,
    Purge,
    SessionId,
    Settle,
    Tick,
    consumer_key,
    session_of,
)
from queues.machine.effects import Effect
from queues.machine.expiry import FAR
from queues.machine.fifo import DUE_SLICE, Fifo
from queues.machine.fifo_snapshot import SMALL, BadSnapshot, decode_fifo, encode_fifo, machine_state
from queues.machine.options import DROP_HEAD, REJECT_PUBLISH, REJECT_PUBLISH_DLX, Options
from queues.machine.traits import Traits
from tests.unit.queues.runs import runs_of

SESSIONS = [SessionId(7 << 64 | counter) for counter in (1, 2, 3)]


def pick_address(pick: Callable[[tuple[int, ...]], int]) -> AddressSettings:
    return AddressSettings(
        *(pick((-1, 0, 30)), pick((-1, 4)), pick((0, 1))),
        redelivery_ms=pick((0, 50)),
        redelivery_multiplier=pick((1000, 1500)),
        redelivery_collision=pick((0, 200)),
        expiry_max_ms=pick((-1, 700)),
        dispatch_consumers=pick((0, 0, 2)),
        dispatch_delay_ms=pick((-1, 90)),
        slow_threshold=pick((-1, 5)),
        slow_period_ms=pick((100, 400)),
        slow_kills=pick((0, 1)),
        id_cache_size=pick((0, 3)),
        last_value_key="key" if pick((0, 1)) else "",
    )


class Story:
    """Random commands that the sessions of one machine could send."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.options = self._options()
        self.machine = Fifo(self.options)
        self.now_ms = 10_000
        self._sent: dict[SessionId, int] = {}
        self._consumers = 0

    def _options(self) -> Options:
        pick = self.random.choice
        return Options(
            levels=pick((1, 1, 4)),
            default_level=0,
            ttl_ms=pick((-1, -1, 0, 500)),
            length_max=pick((-1, -1, 5)),
            bytes_max=pick((-1, -1, 60)),
            overflow=pick((DROP_HEAD, REJECT_PUBLISH, REJECT_PUBLISH_DLX)),
            single_active=pick((False, False, True)),
            drain_handover=pick((False, True)),
            counts_deliveries=pick((False, True)),
            delivery_limit=pick((-1, 2)),
            consumer_timeout_ms=pick((-1, 400)),
            expires_ms=pick((-1, 3000)),
            dead_letters=pick((False, True)),
            keeps_dead=pick((False, False, True)),
            delays=True,
            delay_type=pick((0, 1, 2, 3)),
            delay_min_ms=pick((0, 40)),
            delay_max_ms=pick((-1, 100)),
            address=pick((None, pick_address(pick))),
        )

    def batch(self) -> tuple[list[Command], int]:
        self.now_ms += self.random.choice((0, 1, 7, 60, 400))
        return [self._command() for _ in range(self.random.randint(0, 4))], self.now_ms

    def _command(self) -> Command:
        choice = self.random.random()
        session = self.random.choice(SESSIONS)
        if choice < 0.4:
            return self._enqueue(session)
        if choice < 0.65:
            return self._settle()
        if choice < 0.75:
            self._consumers += 1
            key = consumer_key(session, self._consumers)
            timeout = self.random.choice((-1, 0, 200))
            return Attach(
                key,
                self.random.choice((0, 2, 9)),
                True,
                choice < 0.66,
                self._consumers % 3,
                timeout,
                self.random.choice((QUEUE_LIMIT, -1, 0, 25)),
                self.random.choice((QUEUE_LIMIT, -1, 7)),
            )
        if choice < 0.85:
            return Get(session)
        key = self._key()
        others: list[Command] = [
            Credit(key, self.random.randint(0, 3), self.random.randint(0, 5), choice < 0.87, True),
            Detach(key),
            Purge(session),
            Tick(),
        ]
        if choice > 0.98:
            self._sent.pop(session, None)
            return EndSession(session)
        return self.random.choice(others)

    def _enqueue(self, session: SessionId) -> Command:
        count = self.random.randint(1, 4)
        first = self._sent.get(session, 0) + 1
        self._sent[session] = first + count - 1
        sizes = [self.random.choice((0, 10, 10, 40)) for _ in range(count)]
        levels = [self.random.choice((-1, 0, 2, 9)) for _ in range(count)]
        ttls = [self.random.choice((-1, -1, 0, 300, 900)) for _ in range(count)]
        packed = [struct.pack(f"<{count}i", *column) for column in (levels, sizes)]
        sized = self.options.counts_bytes
        if not sized and self.random.random() < 0.3:
            return Enqueue(session, first, count)
        lives = struct.pack(f"<{count}q", *ttls)
        traits = Traits(-1, -1, packed[0], lives, packed[1] if sized else None)
        return Enqueue(session, first, count, traits)

    def _key(self) -> ConsumerKey:
        keys = list(self.machine.consumers) or [consumer_key(SESSIONS[0], 999)]
        return self.random.choice(keys)

    def _settle(self) -> Command:
        key = self._key()
        consumer = self.machine.consumers.get(key)
        runs = [] if consumer is None else consumer.held.runs()
        seqs = [seq for first, count in runs for seq in range(first, first + count)]
        chosen = self.random.sample(seqs, min(len(seqs), self.random.randint(1, 3)))
        outcome = self.random.choice((ACCEPT, ACCEPT, REJECT, REJECT_TOO_LARGE, RELEASE, FAIL))
        notes = (b"", b"", encode_words({b"x-a": b"1"}), encode_words({b"x-b": b"22"}))
        return Settle(key, outcome, runs_of(chosen), self.random.choice(notes))


def row(effect: Effect) -> tuple[object, ...]:
    """What an effect says, to be compared."""
    names = [name for name in dir(effect) if not name.startswith("_")]
    return type(effect).__name__, *[(name, getattr(effect, name)) for name in names]


def rows(effects: list[Effect]) -> list[tuple[object, ...]]:
    return [row(effect) for effect in effects]


def copy_of(machine: Fifo, options: Options, small: int = SMALL) -> Fifo:
    """A machine made of the other's snapshot."""
    made = Fifo(options)
    decode_fifo(made, encode_fifo(machine, small))
    return made


@pytest.mark.parametrize("seed", range(60))
def test_a_machine_made_of_a_snapshot_has_the_same_snapshot_and_lives_the_same_life(
    seed: int,
) -> None:
    story = Story(seed)
    machine = story.machine
    for _ in range(story.random.randint(0, 60)):
        machine.apply(*story.batch())
    copy = copy_of(machine, story.options)
    assert machine_state(copy) == machine_state(machine)
    assert encode_fifo(copy) == encode_fifo(machine)
    for _ in range(60):
        commands, now_ms = story.batch()
        assert rows(copy.apply(commands, now_ms)) == rows(machine.apply(commands, now_ms))
        assert machine_state(copy) == machine_state(machine)
        assert (copy.checked_out, copy.attached_count) == (
            machine.checked_out,
            machine.attached_count,
        )


def test_what_was_put_off_while_much_was_due_is_done_by_the_copy_too() -> None:
    """More expires at once than one batch looks at; a get waits until all of it is out."""
    count = 3 * DUE_SLICE
    lives = struct.pack(f"<{count}q", *([300, 900] * (count // 2)))
    machine = Fifo()
    machine.apply([Enqueue(SESSIONS[0], 1, count, Traits(-1, -1, None, lives))], 1000)
    machine.apply([Enqueue(SESSIONS[0], count + 1, 1)], 1000)
    machine.apply([Get(SESSIONS[1])], 5000)
    assert machine.checked_out == 0
    copy = copy_of(machine, Options())
    assert machine_state(copy) == machine_state(machine)
    for _ in range(8):
        assert rows(copy.apply([], 5000)) == rows(machine.apply([], 5000))
    assert (machine.checked_out, copy.checked_out) == (1, 1)
    assert machine_state(copy) == machine_state(machine)


def busy_machine() -> tuple[Fifo, Options]:
    story = Story(11)
    for _ in range(40):
        story.machine.apply(*story.batch())
    assert story.machine.checked_out > 0
    return story.machine, story.options


def test_bytes_that_are_cut_short_or_go_on_are_no_snapshot() -> None:
    machine, options = busy_machine()
    whole = encode_fifo(machine)
    for cut in range(len(whole)):
        with pytest.raises(BadSnapshot):
            decode_fifo(Fifo(options), whole[:cut])
    with pytest.raises(BadSnapshot):
        decode_fifo(Fifo(options), whole + b"\x00")


def test_a_snapshot_of_another_version_is_refused() -> None:
    machine, options = busy_machine()
    fields = msgspec.msgpack.decode(encode_fifo(machine))
    fields[0] = 99
    with pytest.raises(BadSnapshot, match="99"):
        decode_fifo(Fifo(options), msgspec.msgpack.encode(fields))


FIELDS = (
    *["version", "options", "next_seq", "now_ms", "delivered_high", "unused_since_ms", "lanes"],
    *["redelivered", "overdue", "consumers", "lines", "exclusive", "active", "gives_way"],
    *["last_seqs", "leaving", "arrivals", "calendar", "attempts", "levels", "sizes"],
    *["check_ms", "look_sooner", "put_off", "annotations", "retired", "dying", "led"],
    *["pending_dead_letter_sizes", "delayed", "delays"],
)
WRONG: list[tuple[str, object]] = [
    ("pending_dead_letter_sizes", [(1, 1, 5)]),
    ("delayed", [(1, 1)]),
    ("delays", [(5, 0, 1)]),
    ("delays", [(5, 1, 1), (6, 1, 1)]),
    ("delays", [(-1, 1, 1)]),
    ("options", b"short"),
    ("options", Options(levels=9).encode()),
    ("next_seq", -1),
    ("next_seq", 0),
    ("next_seq", 1 << 63),
    ("lanes", []),
    ("lanes", [[(1, 1)]] * 300),
    ("lanes", [[(0, 1)]]),
    ("lanes", [[(5, -1)]]),
    ("lanes", [[(1 << 40, 1)]]),
    ("redelivered", [(1, 1 << 63)]),
    ("redelivered", [(3, 2), (1, 1)]),
    ("consumers", [(b"short", 0, 0, 0, True, True, -1, [], [], [])]),
    ("lines", [[bytes(19) + b"x"]]),
    ("exclusive", b"x" * 20),
    ("active", b"short"),
    ("last_seqs", [(b"short", 1)]),
    ("leaving", [(1, -1, b"short", [])]),
    ("calendar", [(5, 1, -1)]),
    ("check_ms", -1),
    ("put_off", [b"nonsense"]),
    ("annotations", [(1 << 40, 1, encode_words({b"a": b"1"}))]),
    ("annotations", [(1, 1 << 40, encode_words({b"a": b"1"}))]),
]


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_a_snapshot_that_no_machine_wrote_is_refused(field: str, value: object) -> None:
    machine, options = busy_machine()
    fields = msgspec.msgpack.decode(encode_fifo(machine))
    fields[FIELDS.index(field)] = value
    with pytest.raises(BadSnapshot):
        decode_fifo(Fifo(options), msgspec.msgpack.encode(fields))


@pytest.mark.parametrize(
    "words", [b"", b"\x01", encode_words({b"a": bytes(WORDS_BYTES_MAX)})], ids=len
)
def test_annotations_that_no_machine_has_are_refused(words: bytes) -> None:
    machine = Fifo()
    machine.apply([Enqueue(SESSIONS[0], 1, 3)], 5)
    fields = msgspec.msgpack.decode(encode_fifo(machine))
    fields[FIELDS.index("annotations")] = [(2, 1, encode_words({b"a": b"1"}))]
    decode_fifo(Fifo(), msgspec.msgpack.encode(fields))
    fields[FIELDS.index("annotations")] = [(2, 1, words)]
    with pytest.raises(BadSnapshot):
        decode_fifo(Fifo(), msgspec.msgpack.encode(fields))


def test_a_snapshot_of_the_first_version_has_no_annotations() -> None:
    machine = Fifo()
    machine.apply([Enqueue(SESSIONS[0], 1, 3)], 5)
    fields = msgspec.msgpack.decode(encode_fifo(machine))
    fields[0] = 1
    made = Fifo()
    decode_fifo(made, msgspec.msgpack.encode(fields[: FIELDS.index("annotations")]))
    assert machine_state(made) == machine_state(machine)


def test_the_bytes_of_an_empty_machine_are_those_of_the_document() -> None:
    """An array of 31 elements, as docs/formats/queue-snapshot.md lists them."""
    since = Fifo().unused_since_ms
    runs: list[object] = []
    fields = [
        4,
        Options().encode(),
        1,
        0,
        0,
        since,
        [runs],
        runs,
        runs,
        runs,
        runs,
        b"",
        b"",
        False,
    ]
    fields += [runs] * 7
    expected = msgspec.msgpack.encode(
        [*fields, FAR, False, runs, runs, b"", runs, None, *[runs] * 3]
    )
    assert expected.startswith(bytes.fromhex("dc001f04c434"))
    assert encode_fifo(Fifo()) == expected


def test_a_consumer_that_only_holds_is_kept_and_its_session_known() -> None:
    machine = Fifo()
    key = consumer_key(SESSIONS[1], 3)
    machine.apply([Attach(key, 2, True, False, 0), Enqueue(SESSIONS[0], 1, 2)], 5)
    machine.apply([Detach(key)], 5)
    copy = copy_of(machine, Options())
    assert [session_of(each) for each in copy.consumers] == [SESSIONS[1]]
    assert (copy.checked_out, copy.attached_count) == (2, 0)
    copy.apply([Settle(key, ACCEPT, [(1, 2)])], 6)
    assert copy.consumers == {}
