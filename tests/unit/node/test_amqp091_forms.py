"""Messages as a consumer of AMQP 0-9-1 gets them, begun as the one before or converted."""

from hypothesis import given
from hypothesis import strategies as st

from node.amqp091.forms import KNOWN_MAX, NO_OFFSET, Forms, with_offset
from queues.conversion.chunks import in_form_1, names_for
from queues.conversion.costs import CONVERTED, REPEATED
from queues.message import FORMAT_091, FORMAT_10, Chunk
from tests.unit.queues.messages import table
from warren.client.message import Message
from warren.wire.amqp091.deliver import build
from warren.wire.amqp091.properties import BasicProperties
from warren.wire.amqp10.transfers import store

PLENTY = 1 << 30
LARGE = 300_000  # of several frames
SECTION = b"\x00\x53\x75\xa0\x01x"
BODIES = st.one_of(
    st.just(SECTION), st.sampled_from([0, 1, 255, 256, LARGE]).map(lambda size: b"x" * size)
)
HEADERS = st.sampled_from([None, {}, {"a": 1}, {"x-stream-offset": 7, "b": "c"}])
FORMS_10 = st.builds(
    Message,
    BODIES,
    durable=st.booleans(),
    message_id=st.sampled_from([None, "m", "n"]),
    application_properties=st.sampled_from([{}, {"n": 1}, {"n": 2}]),
).map(Message.encode)
OTHER_10 = st.sampled_from(
    [
        b"",  # no body
        b"\x00\x53\x77\xa1\x01v",  # a value
        b"\x00\x53\x75\xa0\x01x\x00\x53\x75\xa0\x01y",  # two data sections
        b"\x00\x53\x75\xa0\x01x\x00\x53\x78\xc1\x01\x00",  # a footer
    ]
)
BAD_HEADERS = b"\x20\x00\x00\x00\x00\x04\xff\xff\xff\xff"
PROPERTIES = st.one_of(
    st.builds(
        lambda headers, key, type: BasicProperties(
            content_type=key, headers=headers, message_id=key, type=type
        ).encode(),
        HEADERS,
        st.sampled_from([None, "k", "l"]),
        st.sampled_from([None, "t"]),
    ),
    st.just(BAD_HEADERS),
)
FORMS_091 = st.builds(build, st.sampled_from(["", "ex"]), st.just(b"k"), PROPERTIES, BODIES)
OFFSETS = st.sampled_from([NO_OFFSET, 0, 255, 1 << 40])


def chunk_10(messages: list[bytes], names: bytes = b"\x02ex\x01k") -> Chunk:
    whole = [store(each) for each in messages]
    return Chunk(FORMAT_10, b"".join(whole), 0, table(whole, 0), 0, names)


def chunk_091(messages: list[bytes]) -> Chunk:
    return Chunk(FORMAT_091, b"".join(messages), 0, table(messages, 0), 0)


def each_of(chunk: Chunk) -> list[bytes]:
    data = chunk.data
    assert data is not None
    return [data[slice(*chunk.span(index))] for index in range(chunk.count())]


def shown_slowly(chunk: Chunk, index: int, offset: int) -> list[bytes]:
    """Each message converted by itself."""
    count = int(chunk.count()) - index
    if chunk.format_tag == FORMAT_10:
        chunk, index = in_form_1(chunk, index, count), 0
    found = each_of(chunk)[index:]
    if offset == NO_OFFSET:
        return found
    return [with_offset(each, 0, len(each), offset + at) for at, each in enumerate(found)]


@given(st.lists(st.one_of(FORMS_10, OTHER_10), min_size=1, max_size=8), OFFSETS, st.data())
def test_what_is_repeated_is_what_a_conversion_gives(
    messages: list[bytes], offset: int, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(messages) - 1))
    forms = Forms()
    for names in (b"\x02ex\x01k", b"\x00\x02kk"):
        chunk = chunk_10(messages, names)
        for number in (offset, NO_OFFSET):
            found = forms.show(chunk, index, len(messages) - index, number, PLENTY)
            assert found.format_tag == FORMAT_091
            assert each_of(found) == shown_slowly(chunk, index, number)


@given(st.lists(FORMS_091, min_size=1, max_size=8), st.sampled_from([0, 1 << 40]))
def test_messages_of_a_stream_get_their_offset_in_place_of_an_older_one(
    messages: list[bytes], offset: int
) -> None:
    chunk = chunk_091(messages)
    forms = Forms()
    for number in (offset, offset + 3):
        found = forms.show(chunk, 0, len(messages), number, PLENTY)
        assert each_of(found) == shown_slowly(chunk, 0, number)


def test_both_stored_forms_are_told_apart() -> None:
    forms = Forms()
    ten, other = chunk_10([Message(b"x").encode()] * 2), chunk_091([build("", b"", b"\0\0", b"x")])
    for _ in range(2):
        for chunk in (ten, other):
            count = int(chunk.count())
            assert each_of(forms.show(chunk, 0, count, 5, PLENTY)) == shown_slowly(chunk, 0, 5)


def test_more_beginnings_than_are_remembered_are_told_apart() -> None:
    forms = Forms()
    messages = [Message(b"x", message_id=f"{number}").encode() for number in range(2 * KNOWN_MAX)]
    chunk = chunk_10(messages)
    for _ in range(2):
        found = forms.show(chunk, 0, len(messages), 9, PLENTY)
        assert each_of(found) == shown_slowly(chunk, 0, 9)


def test_a_message_like_the_one_before_costs_little_and_another_one_much() -> None:
    forms = Forms()
    same = [Message(b"x").encode()] * 100
    forms.show(chunk_10(same), 0, 100, 0, PLENTY)
    assert forms.cost == CONVERTED + 99 * REPEATED
    each_other = [Message(b"x", message_id=f"{number}").encode() for number in range(100)]
    forms.show(chunk_10(each_other), 0, 100, 0, PLENTY)
    assert forms.cost == 100 * CONVERTED
    forms.show(chunk_10([Message(bytes(CONVERTED)).encode()]), 0, 1, 0, PLENTY)
    assert forms.cost > CONVERTED


def test_a_large_beginning_is_not_remembered() -> None:
    forms = Forms()
    large = chunk_10([Message(b"x", application_properties={"a": "x" * 10_000}).encode()] * 3)
    assert each_of(forms.show(large, 0, 3, 0, PLENTY)) == shown_slowly(large, 0, 0)
    assert forms.cost >= 3 * 10_000
    headers = BasicProperties(headers={"a": "x" * 5000}).encode()
    stored = chunk_091([build("", b"", headers, b"x")] * 3)
    assert each_of(forms.show(stored, 0, 3, 0, PLENTY)) == shown_slowly(stored, 0, 0)
    assert forms.cost >= 3 * 5000


def test_no_more_messages_are_shown_than_the_budget_pays() -> None:
    forms = Forms()
    values = chunk_10([b"\x00\x53\x77\xa1\x01v"] * 9)
    assert forms.show(values, 0, 9, 0, 1).count() == 1
    assert forms.show(values, 0, 9, 0, 3 * CONVERTED).count() == 3
    small = chunk_091([build("", b"", b"\0\0", b"x")] * 90)
    assert forms.show(small, 0, 90, 0, CONVERTED + 10 * REPEATED).count() == 11


def test_names_for_a_chunk_are_what_its_messages_say() -> None:
    shown = Forms().show(chunk_10([Message(b"x").encode()], names_for("ex", b"k")), 0, 1, 3, PLENTY)
    assert b"\x02ex\x01k" in each_of(shown)[0]
