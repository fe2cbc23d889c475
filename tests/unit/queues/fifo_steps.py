"""Random stories of a queue: options, steps, and the commands that sessions could send then.

Lifetimes are odd multiples of 5 s and time goes on by multiples of 10 s, so that nothing is looked
at within the moment by which the machine may expire late.
"""

import struct
from collections.abc import Mapping
from random import Random
from typing import Protocol

from hypothesis import strategies as st

from queues.machine.address_settings import AddressSettings
from queues.machine.annotations import encode_words
from queues.machine.commands import (
    QUEUE_LIMIT,
    Attach,
    Command,
    Configure,
    ConsumerKey,
    Credit,
    Detach,
    EndSession,
    Enqueue,
    Get,
    Inspect,
    Purge,
    Restarted,
    SessionId,
    Settle,
    Tick,
    consumer_key,
)
from queues.machine.options import Options
from queues.machine.traits import Traits
from tests.unit.queues.runs import runs_of

SESSIONS = [SessionId(7 << 64 | counter) for counter in (1, 2, 3)]
LIFETIMES = (0, 5_000, 15_000, 35_000)
DELAY_MS = 3_700  # no small multiple of it is near one of 10 s
LEAPS = (0, 0, 0, 10_000, 20_000, 60_000)
WINDOWS = (-1, 0, 30, 200)
RATES = (-1, 3, 10)  # so low that one message is kept of them at most
NOTES = (
    b"",
    b"",
    encode_words({b"x-a": b"\x41"}),
    encode_words({b"x-b": b"\x42", b"x-a": b"\x43"}),
    encode_words({b"x-opt-delivery-time": b"\x83" + (1_045_000).to_bytes(8, "big")}),
)

# Kind of command, which session or consumer, and three numbers that the kind makes something of.
Step = tuple[str, int, int, int, int]
Batch = tuple[int, list[Step]]  # how much later it comes
KINDS = (
    *["enqueue"] * 6,
    *["settle"] * 6,
    *["attach"] * 3,
    *["credit"] * 3,
    *["get", "get", "detach", "purge", "inspect", "end"],
)
SELDOM = ("configure", "configure", "restarted", "tick")


def steps_of(kinds: tuple[str, ...]) -> st.SearchStrategy[Step]:
    return st.tuples(
        st.sampled_from(kinds),
        *(st.integers(0, 5), st.integers(0, 9), st.integers(1, 6), st.integers(0, 11)),
    )


def batches_of(kinds: tuple[str, ...], leaps: tuple[int, ...]) -> st.SearchStrategy[list[Batch]]:
    batch = st.lists(steps_of(kinds), min_size=1, max_size=4)
    return st.lists(st.tuples(st.sampled_from(leaps), batch), max_size=25)


PLAIN_BATCHES = batches_of(KINDS, (0,))
BATCHES = batches_of((*KINDS, *SELDOM), LEAPS)
ADDRESSES = st.builds(
    AddressSettings,
    window_bytes=st.sampled_from(WINDOWS),
    rate_max=st.sampled_from(RATES),
    counts_bytes=st.sampled_from([0, 1]),
    redelivery_ms=st.sampled_from([0, 0, DELAY_MS]),
    redelivery_multiplier=st.sampled_from([1000, 2000]),
    redelivery_max_ms=st.sampled_from([-1, 13_300]),
    expiry_ms=st.sampled_from([-1, -1, 35_000]),
    expiry_min_ms=st.sampled_from([-1, -1, 15_000]),
    expiry_max_ms=st.sampled_from([-1, -1, 15_000]),
    dispatch_consumers=st.sampled_from([0, 0, 2]),
    dispatch_delay_ms=st.sampled_from([-1, 15_000]),
    slow_threshold=st.sampled_from([-1, 1]),
    slow_period_ms=st.sampled_from([5000, 15_000]),
    slow_kills=st.sampled_from([0, 1]),
    id_cache_size=st.sampled_from([0, 2, 5]),
    last_value_key=st.sampled_from(["", "key"]),
)
SMALL = st.sampled_from([-1, -1, 0, 1, 3, 6])
OPTIONS = st.builds(
    Options,
    levels=st.sampled_from([1, 1, 3, 10]),
    default_level=st.just(0),
    ttl_ms=st.sampled_from([-1, -1, *LIFETIMES]),
    length_max=SMALL,
    bytes_max=st.sampled_from([-1, -1, 0, 40, 100]),
    overflow=st.sampled_from([0, 1, 2]),
    single_active=st.booleans(),
    drain_handover=st.booleans(),
    counts_deliveries=st.booleans(),
    delivery_limit=st.sampled_from([-1, 0, 1, 2]),
    consumer_timeout_ms=st.sampled_from([-1, 0, 30_000]),
    expires_ms=st.sampled_from([-1, -1, 30_000]),
    delays=st.just(True),
    delay_type=st.sampled_from([0, 0, 1, 2, 3]),
    delay_min_ms=st.just(DELAY_MS),
    delay_max_ms=st.sampled_from([-1, 13_300]),
    counts_returns=st.booleans(),
    address=st.one_of(st.none(), ADDRESSES),
)


def story_of(seed: int) -> tuple[Options, list[Batch]]:
    """Options and a long story; half of the stories have no options that change on the way."""
    lots = Random(seed)
    options = Options(
        levels=lots.choice([1, 1, 3, 10]),
        ttl_ms=lots.choice([-1, -1, *LIFETIMES]),
        length_max=lots.choice([-1, -1, 0, 1, 3, 6]),
        bytes_max=lots.choice([-1, -1, 0, 40, 100]),
        overflow=lots.choice([0, 1, 2]),
        single_active=lots.random() < 0.4,
        drain_handover=lots.random() < 0.5,
        counts_deliveries=lots.random() < 0.5,
        delivery_limit=lots.choice([-1, 0, 1, 2]),
        consumer_timeout_ms=lots.choice([-1, 0, 30_000]),
        expires_ms=lots.choice([-1, -1, 30_000]),
        delays=True,
        delay_type=lots.choice([0, 0, 1, 2, 3]),
        delay_min_ms=DELAY_MS,
        delay_max_ms=lots.choice([-1, 13_300]),
        counts_returns=seed % 2 == 0,
        address=AddressSettings(
            *(lots.choice(WINDOWS), lots.choice(RATES), seed % 3 == 0),
            redelivery_ms=lots.choice([0, DELAY_MS]),
            redelivery_multiplier=lots.choice([1000, 2000]),
            expiry_ms=lots.choice([-1, -1, 35_000]),
            expiry_min_ms=lots.choice([-1, -1, 15_000]),
            expiry_max_ms=lots.choice([-1, -1, 15_000]),
            dispatch_consumers=lots.choice([0, 0, 2]),
            dispatch_delay_ms=lots.choice([-1, -1, 15_000]),
            slow_threshold=lots.choice([-1, 1]),
            slow_kills=lots.choice([0, 1]),
            id_cache_size=lots.choice([0, 2, 5]),
            last_value_key=lots.choice(["", "key"]),
        ),
    )
    kinds = KINDS if lots.random() < 0.5 else (*KINDS, *SELDOM)
    leaps = LEAPS if lots.random() < 0.7 else (0,)
    batches: list[Batch] = []
    for _ in range(lots.randrange(5, 60)):
        steps = [
            (lots.choice(kinds), lots.randrange(6), lots.randrange(10), *_two(lots))
            for _ in range(lots.randrange(1, 5))
        ]
        batches.append((lots.choice(leaps), steps))
    return options, batches


def _two(lots: Random) -> tuple[int, int]:
    return lots.randrange(1, 6), lots.randrange(12)


def digests(numbers: list[int]) -> bytes:
    return b"".join(number.to_bytes(16, "big") for number in numbers)


def traits_of(priorities: list[int], ttls: list[int], sizes: list[int] | None) -> Traits:
    """Of so many messages, with columns only where they differ."""
    alike = len(set(priorities)) == 1, len(set(ttls)) == 1
    return Traits(
        priorities[0],
        ttls[0],
        None if alike[0] else struct.pack(f"<{len(priorities)}i", *priorities),
        None if alike[1] else struct.pack(f"<{len(ttls)}q", *ttls),
        None if sizes is None else struct.pack(f"<{len(sizes)}i", *sizes),
    )


class Holder(Protocol):
    """A consumer, as far as commands depend on it."""

    @property
    def held(self) -> list[int]: ...


class Model(Protocol):
    """The state of a queue, as far as commands depend on it."""

    @property
    def options(self) -> Options: ...

    @property
    def next_seq(self) -> int: ...

    @property
    def consumers(self) -> Mapping[int, Holder]: ...


class Script:
    """Makes commands of steps: ones that sessions could send in the state that there is.

    `selectors` are those that consumers have, some of them; empty: it has none.
    """

    def __init__(
        self, naive: Model, with_traits: bool = True, selectors: tuple[bytes, ...] = ()
    ) -> None:
        self._naive = naive
        self._selectors = selectors
        self._with_traits = with_traits
        self._options = naive.options  # after all commands so far
        self._keys: list[ConsumerKey] = [consumer_key(session, 0) for session in SESSIONS]
        self._next_number = 1
        self._sent: dict[SessionId, int] = {}

    def command(self, step: Step) -> Command:
        kind, who, a, b, c = step
        session = SESSIONS[who % len(SESSIONS)]
        key = self._keys[-1 - who % len(self._keys)]
        match kind:
            case "enqueue":
                return self._enqueue(session, a, b, c)
            case "attach":
                return self._attach(session, who, a, b, c)
            case "settle":
                return self._settle(key, a, b, c)
            case "credit":
                return Credit(key, a, b * (c > 1), c % 4 == 0, c % 3 == 0)
            case "detach":
                return Detach(key)
            case "get":
                return Get(session)
            case "purge":
                return Purge(session)
            case "inspect":
                return Inspect(session)
            case "configure":
                begins = not self._options.counts_bytes
                options = self._other_options(who, a, b, c)
                return Configure(options, self._sizes(a, b) if begins else None)
            case "tick":
                return Tick()
            case "restarted":
                self._sent.clear()
                return Restarted(self._naive.next_seq + a * (c == 0))
            case _:
                self._sent.pop(session, None)
                return EndSession(session)

    def _enqueue(self, session: SessionId, a: int, count: int, c: int) -> Enqueue:
        """Mostly what comes next; at times something again, or something after a gap."""
        following = self._sent.get(session, 0) + 1
        first = following
        if a == 0:
            first = following + 1
        elif a in (1, 2):
            first = max(following - a, 1)
        if a != 0:
            self._sent[session] = max(following - 1, first + count - 1)
        return Enqueue(session, first, count, self._traits(a, count, c))

    def _traits(self, a: int, count: int, c: int) -> Traits | None:
        sized = self._options.counts_bytes
        if not self._with_traits or (c < 4 and not sized):
            return None
        places = range(count)
        priorities = [(a * 7 + place * (c % 3) * 5) % 13 - 1 for place in places]
        ttls = [-1] * count
        if c % 2 == 0:
            ttls = [(-1, *LIFETIMES)[(a + place * (c % 4)) % 5] for place in places]
        sizes = [(a * 11 + place * 17) % 60 for place in places] if sized else None
        found = traits_of(priorities, ttls, sizes)
        if a % 3:
            ids = [(a * place + c) % 6 for place in places]
            keys = [(b + place) % 3 for b in (count,) for place in places]
            found = found.with_digests(digests(ids) if c % 2 else None, digests(keys))
        return found

    def _attach(self, session: SessionId, who: int, a: int, b: int, c: int) -> Attach:
        key = consumer_key(session, self._next_number)
        self._next_number += 1
        self._keys.append(key)
        timeout = (-1, -1, 0, 20_000, 90_000)[(a + b + c) % 5] if self._with_traits else -1
        selector = self._selectors[(a + b) % len(self._selectors)] if self._selectors else b""
        limits = QUEUE_LIMIT, QUEUE_LIMIT
        if self._with_traits and who >= 4:
            limits = (QUEUE_LIMIT, *WINDOWS)[(a + c) % 5], (QUEUE_LIMIT, *RATES)[b % 4]
        return Attach(
            key, a % 4, c % 3 != 0, c == 1, b % 3 - 1, timeout, *limits, selector=selector
        )

    def _settle(self, key: ConsumerKey, a: int, b: int, c: int) -> Settle:
        """Of what it holds, from some place on; at times also what it does not hold."""
        consumer = self._naive.consumers.get(key)
        held = [] if consumer is None else consumer.held
        if c >= 10 or not held:
            return Settle(key, b, [(a + 1, b), (max(a - 1, 1), 3)], NOTES[a % 5])
        return Settle(key, b, runs_of(held[a % len(held) :][: 1 + c % 5]), NOTES[(a + c) % 5])

    def _sizes(self, a: int, b: int) -> list[tuple[int, int, int]]:
        """Of some messages, and of some that are none."""
        start = max(self._naive.next_seq - 2 * a, 1)
        return [(start, b + 1, 7 * a), (start + b + 1 + a % 2, a + 1, 5 * b)]

    @staticmethod
    def _other_address(a: int, b: int, c: int) -> AddressSettings:
        return AddressSettings(
            *(WINDOWS[(a + b) % 4], RATES[c % 3], (a + c) % 2),
            redelivery_ms=(0, DELAY_MS)[b % 2],
            redelivery_multiplier=(1000, 2000, 3000)[c % 3],
            expiry_ms=(-1, -1, 35_000)[a % 3],
            expiry_max_ms=(-1, 15_000)[c % 2],
            dispatch_consumers=(0, 0, 2)[c % 3],
            dispatch_delay_ms=(-1, 15_000)[a % 2],
            slow_threshold=(-1, 1)[b % 2],
            slow_kills=(0, 1)[c % 2],
            id_cache_size=(5, 0, 2)[b % 3],
            last_value_key=("", "key")[(a + b) % 2],
        )

    def _other_options(self, who: int, a: int, b: int, c: int) -> Options:
        """What may change in the life of a queue."""
        old = self._options
        self._options = Options(
            *(old.levels, old.default_level),
            ttl_ms=(-1, *LIFETIMES)[a % 5],
            length_max=(-1, 0, 2, 5, -1)[b % 5],
            bytes_max=(50, 90, -1)[c % 3] if self._with_traits else -1,
            overflow=c % 3,
            single_active=old.single_active,
            drain_handover=who % 2 == 0,
            counts_deliveries=old.counts_deliveries,
            delivery_limit=(-1, 0, 3)[who % 3],
            consumer_timeout_ms=(-1, 20_000, 100_000)[a % 3],
            expires_ms=(-1, 30_000, old.expires_ms)[b % 3],
            dead_letters=c % 2 == 0,
            delays=old.delays,
            delay_type=(a + c) % 4 if old.delays else 0,
            delay_min_ms=DELAY_MS,
            delay_max_ms=(-1, 13_300)[b % 2],
            counts_returns=a % 2 == 0,
            address=self._other_address(a, b, c) if self._with_traits else None,
        )
        return self._options
