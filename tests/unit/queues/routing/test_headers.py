"""Headers exchanges: the four forms of x-match, void values, and the file behind them."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.routing.headers import Headers, binding_fault
from tests.unit.queues.routing.bindings import binding, matched
from warren.wire.amqp091.values import Int64, UInt8


def one(arguments: dict[str, object]) -> Headers:
    headers = Headers()
    headers.add(binding(1, 7, b"", arguments))
    return headers


def matches(arguments: dict[str, object], headers: dict[str, object]) -> bool:
    return matched(one(arguments), b"any key", headers) == [7]


def test_all_wants_every_header_and_is_the_default() -> None:
    for form in ({}, {"x-match": "all"}, {"x-match": "all-with-x"}):
        wanted: dict[str, object] = {"a": 1, "b": "two", **form}
        assert matches(wanted, {"a": 1, "b": "two", "c": 3})
        assert not matches(wanted, {"a": 1})
        assert not matches(wanted, {"a": 1, "b": "other"})


def test_any_wants_one_header() -> None:
    for form in ("any", "any-with-x"):
        wanted: dict[str, object] = {"a": 1, "b": "two", "x-match": form}
        assert matches(wanted, {"b": "two"})
        assert matches(wanted, {"a": 1, "b": "other"})
        assert not matches(wanted, {"a": 2, "b": "other"})
        assert not matches(wanted, {})


def test_all_of_nothing_matches_and_any_of_nothing_does_not() -> None:
    assert matches({}, {}) and matches({"x-match": "all"}, {"a": 1})
    assert not matches({"x-match": "any"}, {"a": 1})


def test_names_that_begin_with_x_count_only_in_the_forms_with_x() -> None:
    assert matches({"x-a": 1}, {})
    assert matches({"x-a": 1, "b": 2, "x-match": "all"}, {"b": 2})
    assert not matches({"x-a": 1, "x-match": "any"}, {"x-a": 1})
    assert not matches({"x-a": 1, "x-match": "all-with-x"}, {})
    assert matches({"x-a": 1, "x-match": "all-with-x"}, {"x-a": 1})
    assert matches({"x-a": 1, "x-match": "any-with-x"}, {"x-a": 1})


def test_x_match_itself_is_never_wanted_of_a_message() -> None:
    assert not matches({"x-match": "any-with-x"}, {"x-match": "any-with-x"})
    assert matches({"x-match": "all-with-x"}, {})


def test_a_void_argument_asks_only_for_presence() -> None:
    assert matches({"a": None}, {"a": "anything"})
    assert matches({"a": None}, {"a": None})
    assert not matches({"a": None}, {"b": 1})
    assert matches({"a": None, "b": 2, "x-match": "any"}, {"a": [1]})
    assert not matches({"a": 1}, {"a": None})


def test_numbers_are_equal_by_value_and_booleans_are_no_numbers() -> None:
    assert matches({"a": 5}, {"a": Int64(5)}) and matches({"a": UInt8(5)}, {"a": 5.0})
    assert matches({"a": 5}, {"a": Decimal("5.0")})
    assert not matches({"a": 1}, {"a": True}) and not matches({"a": False}, {"a": 0})
    assert matches({"a": True}, {"a": True}) and not matches({"a": "5"}, {"a": 5})


def test_tables_arrays_and_bytes_are_compared_whole() -> None:
    nested: dict[str, object] = {"a": {"x": [1, {"y": b"\xff"}], "z": None}}
    assert matches(nested, {"a": {"z": None, "x": [1, {"y": b"\xff"}]}})
    assert not matches(nested, {"a": {"z": None, "x": [1, {"y": b"\xfe"}]}})
    assert not matches({"a": bytearray(b"s")}, {"a": "s"})


def test_a_removed_binding_matches_no_more_and_leaves_the_others() -> None:
    headers = Headers()
    rows = [
        binding(1, 7, b"", {"a": 1}),
        binding(2, 8, b"", {"a": 1, "b": 2}),
        binding(3, 7, b"", {"b": 2, "x-match": "any"}),
        binding(4, 9),
        binding(5, 9, b"", {"x-match": "any"}),
    ]
    for row in rows:
        headers.add(row)
    assert matched(headers, b"", {"a": 1, "b": 2}) == [7, 8, 9]
    headers.remove(rows[0])
    headers.remove(rows[3])
    assert matched(headers, b"", {"a": 1, "b": 2}) == [7, 8]
    for row in (rows[1], rows[2], rows[4]):
        headers.remove(row)
    assert headers.is_empty() and matched(headers, b"", {"a": 1, "b": 2}) == []


def test_bindings_that_want_all_are_filed_under_their_rarest_header() -> None:
    """So that a message does not meet every binding that wants the same common header."""
    headers = Headers()
    for number in range(1, 1001):
        headers.add(binding(number, number, b"", {"a": "common", "id": number, "z": "common"}))
    assert headers.fullest() == 1
    assert matched(headers, b"", {"a": "common", "id": 500, "z": "common"}) == [500]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("all", None),
        ("any-with-x", None),
        (
            "some",
            'Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x',
        ),
        (5, "Invalid x-match field type signedint (value 5); expected longstr"),
    ],
)
def test_a_bad_x_match_is_refused_in_rabbitmqs_words(form: object, text: str | None) -> None:
    assert binding_fault({"x-match": form, "a": 1}) == text
    assert binding_fault({"a": 1}) is None


def naive(arguments: dict[str, object], headers: dict[str, object]) -> bool:
    form = str(arguments.get("x-match", "all"))
    wanted = {
        name: value
        for name, value in arguments.items()
        if name != "x-match" and (form.endswith("-with-x") or not name.startswith("x-"))
    }
    held = [
        name in headers and (value is None or (type(value), value) == _typed(headers[name]))
        for name, value in wanted.items()
    ]
    return any(held) if form.startswith("any") else all(held)


def _typed(value: object) -> tuple[type, object]:
    return type(value), value


names = st.sampled_from(["a", "b", "c", "x-a", "x-b"])
values = st.sampled_from([1, 2, "one", True, None])
forms = st.sampled_from(["all", "any", "all-with-x", "any-with-x"])
tables = st.dictionaries(names, values, max_size=4)
rows = st.builds(
    lambda table, form: {**table, "x-match": form} if form else table, tables, forms | st.none()
)


@given(st.lists(rows, max_size=10), st.sets(st.integers(0, 9)), st.lists(tables, max_size=4))
def test_the_file_agrees_with_a_naive_matcher(
    wanted: list[dict[str, object]], removed: set[int], messages: list[dict[str, object]]
) -> None:
    headers = Headers()
    live = dict(enumerate(wanted))
    for number, arguments in live.items():
        headers.add(binding(number + 1, number + 1, b"", arguments))
    for number in sorted(removed & set(live)):
        headers.remove(binding(number + 1, number + 1, b"", live.pop(number)))
    for message in messages:
        expected = [number + 1 for number, each in live.items() if naive(each, message)]
        assert matched(headers, b"", message) == expected
    assert headers.is_empty() == (not live)
