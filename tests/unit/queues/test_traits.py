"""What is read of messages: priority, lifetime and size of each, in as few numbers as will do."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.machine.traits import ABSENT, META_BYTES, Traits, decode_meta, encode_meta, traits_of
from queues.message import FORMAT_091, Chunk
from tests.unit.queues.messages import table
from tests.unit.wire.frames import message
from warren.wire.amqp091.properties import BasicProperties

BOUNDED = settings(max_examples=100, deadline=None, database=None)
Seen = tuple[int, int, int]  # priority, lifetime, size
ONE = st.tuples(
    st.sampled_from([ABSENT, 0, 4, 255]),
    st.sampled_from([ABSENT, 0, 60_000, 10 * 365 * 86_400_000]),
    st.sampled_from([0, 1, 300]),
)


def chunk_of(wanted: list[Seen], base: int = 7000) -> Chunk:
    """Messages as they are stored, with these traits; the offsets begin at `base`."""
    stored = [
        message(
            1,
            bytes(size),
            properties=BasicProperties(
                priority=None if priority == ABSENT else priority,
                expiration=None if ttl == ABSENT else str(ttl),
                content_type="text/plain",
            ),
        )
        for priority, ttl, size in wanted
    ]
    return Chunk(FORMAT_091, b"".join(stored), base, table(stored, base), 0)


def seen(traits: Traits, count: int) -> list[Seen]:
    return [
        (traits.priority_of(i), traits.ttl_of(i), 0 if traits.sizes is None else traits.size_of(i))
        for i in range(count)
    ]


@BOUNDED
@given(st.lists(ONE, min_size=1, max_size=6))
def test_each_message_has_what_its_properties_say(wanted: list[Seen]) -> None:
    assert seen(traits_of(chunk_of(wanted), True), len(wanted)) == wanted
    unsized = [(priority, ttl, 0) for priority, ttl, _ in wanted]
    assert seen(traits_of(chunk_of(wanted), False), len(wanted)) == unsized


@BOUNDED
@given(st.lists(ONE, min_size=1, max_size=6))
def test_what_is_the_same_for_all_takes_no_column(wanted: list[Seen]) -> None:
    traits = traits_of(chunk_of(wanted), False)
    assert (traits.priorities is None) == (len({priority for priority, _, _ in wanted}) == 1)
    assert (traits.ttls is None) == (len({ttl for _, ttl, _ in wanted}) == 1)
    assert traits.sizes is None


@BOUNDED
@given(st.lists(ONE, min_size=2, max_size=6), st.data())
def test_a_rest_of_a_run_has_the_traits_of_its_messages(
    wanted: list[Seen], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(wanted) - 1))
    rest = traits_of(chunk_of(wanted), True).from_index(first)
    assert seen(rest, len(wanted) - first) == wanted[first:]


@BOUNDED
@given(st.lists(ONE, min_size=1, max_size=6), st.booleans())
def test_what_the_log_keeps_of_a_record_gives_the_same_traits(
    wanted: list[Seen], sized: bool
) -> None:
    traits = traits_of(chunk_of(wanted), sized)
    meta = encode_meta(traits, len(wanted))
    assert len(meta) == META_BYTES * len(wanted)
    assert seen(decode_meta(meta), len(wanted)) == seen(traits, len(wanted))


def test_sizes_that_nobody_asked_for_cannot_be_asked_for() -> None:
    with pytest.raises(AssertionError):
        traits_of(chunk_of([(1, 2, 3)]), False).size_of(0)
