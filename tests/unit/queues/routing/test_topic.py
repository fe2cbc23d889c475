"""Topic exchanges: words, wildcards, and a trie that stays clean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.routing.topic import Topic, words_of
from tests.unit.queues.routing.bindings import binding, matched

# The patterns of RabbitMQ's own suite, and what each routing key meets of them.
PATTERNS = [
    *("a.b.c", "a.*.c", "a.#.b", "a.b.b.c", "#", "#.#", "#.b", "*.*", "a.*", "*.b.c"),
    *("a.#", "a.#.#", "b.b.c", "a.b.b", "a.b", "b.c", "", "*.*.*", "vodka.martini", "a.b.c"),
    *("*.#", "#.*.#", "*.#.#", "#.#.#", "*", "#.b.#"),
]


def filled(patterns: list[str]) -> Topic:
    topic = Topic()
    for number, pattern in enumerate(patterns, 1):
        topic.add(binding(number, number, pattern.encode()))
    return topic


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("a.b.c", [1, 2, 5, 6, 10, 11, 12, 18, 20, 21, 22, 23, 24, 26]),
        ("a.b", [3, 5, 6, 7, 8, 9, 11, 12, 15, 21, 22, 23, 24, 26]),
        ("a.b.b", [3, 5, 6, 7, 11, 12, 14, 18, 21, 22, 23, 24, 26]),
        ("", [5, 6, 17, 24]),
        ("b.c.c", [5, 6, 18, 21, 22, 23, 24, 26]),
        ("a.a.a.a.a", [5, 6, 11, 12, 21, 22, 23, 24]),
        ("vodka.gin", [5, 6, 8, 21, 22, 23, 24]),
        ("vodka.martini", [5, 6, 8, 19, 21, 22, 23, 24]),
        ("b.b.c", [5, 6, 10, 13, 18, 21, 22, 23, 24, 26]),
        ("nothing.here.at.all", [5, 6, 21, 22, 23, 24]),
        ("oneword", [5, 6, 21, 22, 23, 24, 25]),
    ],
)
def test_wildcards_match_as_in_rabbitmq(key: str, expected: list[int]) -> None:
    assert matched(filled(PATTERNS), key.encode()) == expected


def test_empty_words_count() -> None:
    topic = filled(["a.", ".", "a..b", "a.*", "*.*.b", "a.#.b"])
    assert matched(topic, b"a.") == [1, 4]
    assert matched(topic, b".") == [2]
    assert matched(topic, b"a..b") == [3, 5, 6]


def test_a_star_in_a_routing_key_is_a_word_like_others() -> None:
    topic = filled(["*", "#", "a"])
    assert matched(topic, b"*") == [1, 2]
    assert matched(topic, b"#") == [1, 2]


def test_one_target_bound_twice_by_the_same_key_stays_until_both_are_gone() -> None:
    topic = Topic()
    topic.add(binding(1, 7, b"a.*"))
    topic.add(binding(2, 7, b"a.*"))
    topic.remove(binding(1, 7, b"a.*"))
    assert matched(topic, b"a.b") == [7]
    topic.remove(binding(2, 7, b"a.*"))
    assert matched(topic, b"a.b") == []


def test_removing_every_binding_leaves_an_empty_trie() -> None:
    topic = filled(PATTERNS)
    for number, pattern in enumerate(PATTERNS, 1):
        assert not topic.is_empty()
        topic.remove(binding(number, number, pattern.encode()))
    assert topic.is_empty()


def test_many_hashes_cost_no_more_than_words_times_nodes() -> None:
    """Tried path by path this key would take longer than the universe is old."""
    topic = filled([".".join(["#", "a"] * 20)])
    assert matched(topic, b".".join([b"a"] * 120)) == [1]
    assert matched(topic, b".".join([b"a"] * 120 + [b"b"])) == []


def naive(pattern: list[bytes], words: list[bytes]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == b"#":
        return any(naive(pattern[1:], words[skip:]) for skip in range(len(words) + 1))
    if not words or pattern[0] not in (b"*", words[0]):
        return False
    return naive(pattern[1:], words[1:])


def dotted(words: list[str]) -> st.SearchStrategy[bytes]:
    return st.lists(st.sampled_from(words), max_size=6).map(lambda each: ".".join(each).encode())


@given(
    st.lists(dotted(["a", "b", "", "*", "#"]), max_size=12),
    st.lists(st.integers(0, 11), max_size=12),
    st.lists(dotted(["a", "b", "c", "", "*"]), min_size=1, max_size=6),
)
def test_the_trie_agrees_with_a_naive_matcher(
    patterns: list[bytes], removed: list[int], keys: list[bytes]
) -> None:
    topic = Topic()
    live = dict(enumerate(patterns, 1))
    for number, pattern in live.items():
        topic.add(binding(number, number, pattern))
    for number in removed:
        pattern_or_none = live.pop(number, None)
        if pattern_or_none is not None:
            topic.remove(binding(number, number, pattern_or_none))
    for key in keys:
        expected = [number for number, each in live.items() if naive(words_of(each), words_of(key))]
        assert matched(topic, key) == expected
    assert topic.is_empty() == (not live)
