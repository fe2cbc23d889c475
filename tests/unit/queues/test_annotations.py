"""What consumers note on messages: words and their bytes, and the bounds on them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.machine.annotations import (
    TOTAL_BYTES_MAX,
    WORDS_BYTES_MAX,
    Annotations,
    decode_words,
    encode_words,
    merged_words,
)

BOUNDED = settings(max_examples=60, deadline=None, database=None)
WORDS = st.dictionaries(st.binary(max_size=6), st.binary(max_size=9), max_size=4)
STEP = st.tuples(st.booleans(), st.integers(1, 12), st.integers(1, 6), WORDS)


@pytest.mark.parametrize("wrong", ["01", "0161", "016100000000ff", "0161020000", "026100000000"])
def test_words_that_are_cut_short_or_go_on_are_none(wrong: str) -> None:
    with pytest.raises(ValueError, match="cut short"):
        decode_words(bytes.fromhex(wrong))


def test_the_same_key_twice_is_no_words() -> None:
    with pytest.raises(ValueError, match="twice"):
        decode_words(2 * encode_words({b"x-a": b"\x40"}))


def test_a_key_of_256_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="256"):
        encode_words({b"x" * 256: b"\x40"})


def test_the_bytes_of_words_are_those_of_the_document() -> None:
    assert (
        encode_words({b"x-a": b"\x41", b"": b""}).hex() == "03782d61" + "01000000" + "41" + "00" * 5
    )


@BOUNDED
@given(WORDS)
def test_what_is_encoded_is_decoded_again(words: dict[bytes, bytes]) -> None:
    assert decode_words(encode_words(words)) == words
    assert list(decode_words(encode_words(words))) == list(words)


def test_a_later_value_takes_the_place_of_an_earlier_one() -> None:
    old = encode_words({b"a": b"1", b"b": b"2"})
    new = encode_words({b"c": b"3", b"a": b"4"})
    assert list(decode_words(merged_words(old, new)).items()) == [
        (b"a", b"4"),
        (b"b", b"2"),
        (b"c", b"3"),
    ]


@BOUNDED
@given(st.lists(STEP, max_size=12))
def test_annotations_are_what_a_dict_of_dicts_says(
    steps: list[tuple[bool, int, int, dict[bytes, bytes]]],
) -> None:
    noted = Annotations()
    naive: dict[int, dict[bytes, bytes]] = {}
    for takes, first, count, words in steps:
        seqs = range(first, first + count)
        if takes:
            taken = noted.take(first, count)
            gone = {seq: naive.pop(seq) for seq in seqs if seq in naive}
            assert {seq: decode_words(each) for seq, each in taken.items()} == gone
        elif words:
            noted.merge(first, count, encode_words(words))
            for seq in seqs:
                naive.setdefault(seq, {}).update(words)
        assert {seq: decode_words(each) for seq, each in noted.words.items()} == naive
        assert noted.total_bytes == sum(len(each) for each in noted.words.values())
        bare = noted.bare_run(first, count)
        assert bare == next((seq - first for seq in seqs if seq in naive), count)
        copy = Annotations()
        for run_first, run_count, each in noted.runs():
            copy.restore(run_first, run_count, each)
        assert (copy.words, copy.total_bytes) == (noted.words, noted.total_bytes)


def test_equal_words_of_messages_in_a_row_are_one_run() -> None:
    noted = Annotations()
    one, other = encode_words({b"a": b"1"}), encode_words({b"a": b"2"})
    noted.merge(5, 3, one)
    noted.merge(8, 1, other)
    noted.merge(10, 2, other)
    assert noted.runs() == [(5, 3, one), (8, 1, other), (10, 2, other)]


def test_words_that_would_be_too_many_for_a_message_leave_it_as_it_was() -> None:
    noted = Annotations()
    first = encode_words({b"a": bytes(WORDS_BYTES_MAX - 6)})
    assert len(first) == WORDS_BYTES_MAX
    noted.merge(1, 1, first)
    noted.merge(1, 1, encode_words({b"b": b""}))
    assert noted.words == {1: first}
    noted.merge(1, 1, encode_words({b"a": b"less"}))
    assert noted.words == {1: encode_words({b"a": b"less"})}
    noted.merge(2, 1, encode_words({b"a": bytes(WORDS_BYTES_MAX - 5)}))
    assert 2 not in noted.words


def test_a_queue_takes_no_more_words_than_its_bound_until_some_have_left() -> None:
    noted = Annotations()
    large = encode_words({b"a": bytes(WORDS_BYTES_MAX - 6)})
    count = TOTAL_BYTES_MAX // WORDS_BYTES_MAX
    noted.merge(1, count + 5, large)
    assert len(noted.words) == count
    assert noted.total_bytes == TOTAL_BYTES_MAX
    noted.take(1, 1)
    noted.merge(count + 5, 1, large)
    assert count + 5 in noted.words
    assert noted.total_bytes == TOTAL_BYTES_MAX
