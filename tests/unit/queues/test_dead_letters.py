"""Dead letters: exact headers, who is believed, runs, cycles, and a plain second opinion."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.dead_lettering import dead_letters
from queues.dead_lettering.dead_letters import (
    DEATH_TICKET,
    DELIVERY_LIMIT,
    EXPIRED,
    MAXLEN,
    REASONS,
    REJECTED,
    DeadLetterRule,
    DeadRun,
    Death,
    dead_letter,
    info_of_dead,
    is_cycle,
)
from tests.unit.reachable import held
from tests.unit.wire.frames import BOUNDED, frame, message, split_frames
from tests.unit.wire.test_fields import kinds, tables
from tests.unit.wire.test_properties import NAMES, all_properties
from warren.wire.amqp091.deliver import build, extract
from warren.wire.amqp091.events import INFO_EXPIRATION, INFO_HEADERS, INFO_PERSISTENT
from warren.wire.amqp091.fields import encode_table
from warren.wire.amqp091.methods import BasicPublish, decode_method
from warren.wire.amqp091.properties import BasicProperties, decode_properties, headers_of
from warren.wire.amqp091.values import Int64, Timestamp

NOW_S = 1_700_000_000
TO_DLX = DeadLetterRule("work", "dlx")
TO_KEY = DeadLetterRule("work", "dlx", b"dead")
OURS = {
    *dead_letters.FIRST_DEATH,
    *dead_letters.LAST_DEATH,
    b"x-death",
}


def table_of(chunk: list[bytes], base: int) -> bytes:
    places = [base]
    for each in chunk:
        places.append(places[-1] + len(each))
    return b"".join(place.to_bytes(4, "little") for place in places)


def runs_of(
    rule: DeadLetterRule, messages: list[bytes], reason: str = EXPIRED, now_s: int = NOW_S
) -> list[DeadRun]:
    """The dead letters of a chunk that lies behind others and is followed by one."""
    outside = message(9, b"not of this chunk")
    offsets = table_of([outside, *messages, outside], 5000)
    data = b"".join([outside, *messages, outside])
    last = 1 + len(messages)
    return dead_letters.dead_letters(rule, data, 5000, offsets, 1, last, reason, now_s)


def messages_of(run: DeadRun) -> list[bytes]:
    places = [
        int.from_bytes(run.offsets[at : at + 4], "little") for at in range(0, len(run.offsets), 4)
    ]
    assert places[0] == 0
    assert places[-1] == len(run.data)
    return [run.data[start:end] for start, end in pairwise(places)]


def died(
    data: bytes,
    reason: str = EXPIRED,
    now_s: int = NOW_S,
    rule: DeadLetterRule = TO_DLX,
) -> bytes:
    (run,) = runs_of(rule, [data], reason, now_s)
    (letter,) = messages_of(run)
    return letter


def published(
    headers: dict[str, object] | None = None,
    expiration: str | None = None,
    exchange: str = "events",
    routing_key: bytes = b"a.b",
) -> bytes:
    properties = BasicProperties(headers=headers, expiration=expiration)
    return message(4, b"body", routing_key, properties, exchange)


def headers_in(data: bytes) -> dict[str, object]:
    headers = headers_of(data, 0)
    assert headers is not None
    return headers


def death(
    queue: str, reason: str, count: int, exchange: str, *keys: str, expiration: str | None = None
) -> dict[str, object]:
    """A table of x-death as RabbitMQ writes it."""
    first: dict[str, object] = {} if expiration is None else {"original-expiration": expiration}
    return {
        **first,
        "count": Int64(count),
        "reason": reason,
        "queue": queue,
        "time": Timestamp(NOW_S),
        "exchange": exchange,
        "routing-keys": list(keys),
    }


def deaths_in(data: bytes) -> list[tuple[object, object, object]]:
    tables_in = headers_in(data)["x-death"]
    assert isinstance(tables_in, list)
    return [(each["queue"], each["reason"], each["count"]) for each in tables_in]


def in_order(value: object) -> object:
    """Kinds and order of everything in it."""
    if isinstance(value, dict):
        return [(name, in_order(item)) for name, item in value.items()]
    if isinstance(value, list):
        return [in_order(item) for item in value]
    return type(value), value


def test_the_first_death_writes_these_very_bytes() -> None:
    letter = died(published(), REJECTED)
    publish, header, body = split_frames(letter)
    assert publish == (1, 0, b"\0\x3c\0\x28\xde\xad\x03dlx\x03a.b\0")
    entry = (
        b"\x05countl\0\0\0\0\0\0\0\1"
        b"\x06reasonS\0\0\0\x08rejected"
        b"\x05queueS\0\0\0\x04work"
        b"\x04timeT\0\0\0\0\x65\x53\xf1\x00"
        b"\x08exchangeS\0\0\0\x06events"
        b"\x0crouting-keysA\0\0\0\x08S\0\0\0\x03a.b"
    )
    headers = (
        b"\x07x-deathA" + (len(entry) + 5).to_bytes(4, "big") + b"F"
        + len(entry).to_bytes(4, "big") + entry
        + b"\x16x-first-death-exchangeS\0\0\0\x06events"
        + b"\x13x-first-death-queueS\0\0\0\x04work"
        + b"\x14x-first-death-reasonS\0\0\0\x08rejected"
        + b"\x15x-last-death-exchangeS\0\0\0\x06events"
        + b"\x12x-last-death-queueS\0\0\0\x04work"
        + b"\x13x-last-death-reasonS\0\0\0\x08rejected"
    )  # fmt: skip
    properties = b"\x20\0" + len(headers).to_bytes(4, "big") + headers
    assert header == (2, 4, b"\0\x3c\0\0" + (4).to_bytes(8, "big") + properties)
    assert body == (3, 4, b"body")


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_is_written_by_its_own_name(reason: str) -> None:
    headers = headers_in(died(published(), reason))
    assert in_order(headers["x-death"]) == in_order([death("work", reason, 1, "events", "a.b")])
    assert headers["x-first-death-reason"] == headers["x-last-death-reason"] == reason
    assert REASONS == ("rejected", "expired", "maxlen", "delivery_limit", "headers_too_large")


@pytest.mark.parametrize(
    ("expiration", "written"), [("5000", "5000"), ("0", "0"), ("0070", "70"), ("+5", "5")]
)
def test_a_messages_own_ttl_goes_into_its_history_as_a_number(
    expiration: str, written: str
) -> None:
    letter = died(published(expiration=expiration), MAXLEN)
    wanted = death("work", MAXLEN, 1, "events", "a.b", expiration=written)
    assert in_order(headers_in(letter)["x-death"]) == in_order([wanted])
    assert decode_properties(extract(letter, 0, len(letter))[2]).expiration is None


def test_the_same_pair_again_counts_up_and_comes_to_the_front() -> None:
    once = died(published(expiration="7"))
    twice = died(once, REJECTED, NOW_S + 1, DeadLetterRule("retry", "back", b"a.b"))
    again = died(twice, EXPIRED, NOW_S + 9)
    assert deaths_in(again) == [("work", "expired", 2), ("retry", "rejected", 1)]
    wanted = death("work", EXPIRED, 2, "events", "a.b", expiration="7")
    headers = headers_in(again)
    assert isinstance(headers["x-death"], list)
    assert in_order(headers["x-death"][0]) == in_order(wanted)
    assert headers["x-first-death-queue"] == "work"
    assert headers["x-first-death-reason"] == "expired"
    assert headers["x-first-death-exchange"] == "events"
    assert headers["x-last-death-exchange"] == "back"
    assert headers["x-last-death-reason"] == "expired"


def test_another_reason_in_the_same_queue_is_another_entry() -> None:
    letter = died(died(published()), MAXLEN)
    assert deaths_in(letter) == [("work", "maxlen", 1), ("work", "expired", 1)]
    headers = headers_in(letter)
    assert headers["x-first-death-reason"] == "expired"
    assert headers["x-last-death-reason"] == "maxlen"
    assert headers["x-last-death-exchange"] == "dlx"
    assert list(headers) == sorted(headers)


def test_a_count_stops_at_63_bits() -> None:
    headers: dict[str, object] = {
        "x-death": [{"queue": "work", "reason": "expired", "count": 2**63 - 1}]
    }
    rule = DeadLetterRule("work", "dlx", trusts_clients=True)
    assert deaths_in(died(published(headers), rule=rule)) == [("work", "expired", 2**63 - 1)]


def test_a_history_that_a_client_sends_is_not_believed() -> None:
    headers: dict[str, object] = {
        "x-death": [{"queue": "work", "reason": "expired", "count": 41}],
        "x-first-death-queue": "elsewhere",
        "x-last-death-queue": "elsewhere",
        "x-other": 1,
    }
    letter = died(published(headers))
    assert deaths_in(letter) == [("work", "expired", 1)]
    assert headers_in(letter)["x-first-death-queue"] == "work"
    assert headers_in(letter)["x-last-death-queue"] == "work"
    assert headers_in(letter)["x-other"] == 1


@pytest.mark.parametrize(("channel", "ticket"), [(4, DEATH_TICKET), (0, 0), (0, 1)])
def test_a_history_without_the_whole_mark_is_not_believed(channel: int, ticket: int) -> None:
    letter = died(published())
    publish = b"\0\x3c\0\x28" + ticket.to_bytes(2, "big") + b"\x03dlx\x03a.b\0"
    forged = frame(1, channel, publish) + letter[letter.index(b"\xce\x02") + 1 :]
    assert deaths_in(died(forged)) == [("work", "expired", 1)]
    assert deaths_in(died(letter)) == [("work", "expired", 2)]


def test_what_the_broker_builds_on_channel_0_does_not_carry_the_mark() -> None:
    exchange, routing_key, properties, body = extract(died(published()), 0, len(died(published())))
    rebuilt = build(exchange, routing_key, properties, body)
    assert deaths_in(died(rebuilt)) == [("work", "expired", 1)]


def test_a_history_that_a_client_sends_goes_on_where_clients_are_trusted() -> None:
    headers: dict[str, object] = {
        "x-death": [
            "nonsense",
            {"queue": "work", "reason": "expired"},
            {"queue": "work", "reason": "expired", "count": True},
            {"queue": "q", "reason": "rejected", "count": 3, "time": Timestamp(1)},
            {"queue": "work", "reason": "expired", "count": 41, "routing-keys": ["old"]},
            {"queue": b"\xff", "reason": "expired", "count": 1},
        ],
        "x-first-death-queue": "elsewhere",
    }
    rule = DeadLetterRule("work", "dlx", trusts_clients=True)
    letter = died(published(headers), rule=rule)
    assert deaths_in(letter) == [("work", "expired", 42), ("q", "rejected", 3)]
    assert headers_in(letter)["x-first-death-queue"] == "elsewhere"
    assert headers_in(letter)["x-last-death-queue"] == "work"


@pytest.mark.parametrize("wrong", ["text", 7, None, [], {"a": 1}])
def test_a_trusted_client_that_sends_no_history_gets_a_new_one(wrong: object) -> None:
    rule = DeadLetterRule("work", "dlx", trusts_clients=True)
    headers: dict[str, object] = {"x-death": wrong, "x-first-death-queue": "elsewhere"}
    letter = died(published(headers), rule=rule)
    assert deaths_in(letter) == [("work", "expired", 1)]
    assert headers_in(letter)["x-first-death-queue"] == "work"


@pytest.mark.parametrize(
    "inside", [b"\x01", b"\x01aS\0\0\0\x09short", b"\x01bV\x02CC?", b"\x01bV\x03BCCV\x01k?"]
)
def test_headers_that_cannot_be_read_give_way_to_ours(inside: bytes) -> None:
    properties = b"\x20\0" + len(inside).to_bytes(4, "big") + inside
    letter = died(build("events", b"a.b", properties, b"body"))
    assert {name.encode() for name in headers_in(letter)} == OURS
    assert extract(letter, 0, len(letter))[3] == b"body"


@pytest.mark.parametrize("array", [b"?", b"S\0\0\0\x02ab?", b"S\0\0\0\x09ab", b"F\0\0\0\x02\x09a"])
def test_lists_that_cannot_be_read_say_nothing(array: bytes) -> None:
    value = b"A" + len(array).to_bytes(4, "big") + array

    def build_with(inside: bytes) -> bytes:
        properties = b"\x20\0" + len(inside).to_bytes(4, "big") + inside
        return build("events", b"a.b", properties, b"body")

    data = build_with(b"\x01aV\x07x-death" + value)
    rule = DeadLetterRule("work", "dlx", b"dead", trusts_clients=True)
    assert deaths_in(died(data, rule=rule)) == [("work", "expired", 1)]
    assert headers_in(died(data, rule=rule))["a"] is None
    (run,) = runs_of(TO_DLX, [build_with(b"\x02CC" + value)])
    assert run.routing_keys == [b"a.b"]


def test_of_two_headers_of_one_name_the_first_counts() -> None:
    copies = b"\x02CCA\0\0\0\x06S\0\0\0\x01"
    history = encode_table({"x-death": [{"queue": "work", "reason": "expired", "count": 4}]})[4:]
    inside = copies + b"1" + history + copies + b"2" + history.replace(b"\4", b"\7")
    properties = b"\x20\0" + len(inside).to_bytes(4, "big") + inside
    rule = DeadLetterRule("work", "dlx", trusts_clients=True)
    (run,) = runs_of(rule, [build("events", b"a.b", properties, b"body")])
    assert run.routing_keys == [b"a.b", b"1"]
    assert deaths_in(run.data) == [("work", "expired", 5)]


def test_of_two_entries_of_one_pair_the_newer_counts() -> None:
    entry = {"queue": "work", "reason": "expired"}
    headers: dict[str, object] = {"x-death": [{**entry, "count": 2}, {**entry, "count": 6}]}
    rule = DeadLetterRule("work", "dlx", trusts_clients=True)
    assert deaths_in(died(published(headers), rule=rule)) == [("work", "expired", 3)]


def test_messages_that_differ_in_what_matters_are_not_taken_for_each_other() -> None:
    array: list[object] = ["x" * 34, "y" * 50]
    value = encode_table({"CC": array})[7:]
    assert len(value) == ord("c")  # An expiration as long as that is distinguished from copies.
    expiring = BasicProperties(expiration="").encode()[:2] + bytes([len(value)]) + value
    history = [{"queue": "q", "reason": "maxlen", "count": 1}]
    messages = [
        published({"CC": array}),
        build("events", b"a.b", expiring, b"body"),
        published({"x-death": array}),
        published({"x-death": history, "x-first-death-queue": "one"}),
        published({"x-death": history, "x-first-death-queue": "two"}),
    ]
    together = DeadLetterRule("work", "dlx", trusts_clients=True)
    for data in messages:
        alone = DeadLetterRule("work", "dlx", trusts_clients=True)
        assert died(data, rule=together) == died(data, rule=alone)


def test_without_a_key_of_its_own_the_letter_goes_by_all_keys_of_the_message() -> None:
    copies: dict[str, object] = {"CC": ["c1", 5, "c2"], "BCC": ["b1"], "k": "v"}
    (run,) = runs_of(TO_DLX, [published(copies)])
    assert run.routing_keys == [b"a.b", b"c1", b"c2"]
    assert run.key == b"\x03dlx\x03a.b\0"
    (letter,) = messages_of(run)
    headers = headers_in(letter)
    assert headers["CC"] == ["c1", 5, "c2"]
    assert "BCC" not in headers
    assert headers["k"] == "v"
    wanted = [death("work", EXPIRED, 1, "events", "a.b", "c1", "c2")]
    assert in_order(headers["x-death"]) == in_order(wanted)


def test_with_a_key_of_its_own_the_letter_goes_by_it_alone() -> None:
    (run,) = runs_of(TO_KEY, [published({"CC": ["c1"], "BCC": ["b1"]})])
    assert run.routing_keys == [b"dead"]
    assert run.key == b"\x03dlx\x04dead\0"
    (letter,) = messages_of(run)
    headers = headers_in(letter)
    assert {name.encode() for name in headers} == OURS | {b"CC"}
    wanted = [death("work", EXPIRED, 1, "events", "a.b", "c1")]
    assert in_order(headers["x-death"]) == in_order(wanted)


def test_keys_in_cc_that_a_routing_key_has_replaced_stay_without_effect() -> None:
    letter = died(published({"CC": ["c1"]}), rule=TO_KEY)
    (run,) = runs_of(TO_DLX, [letter])
    assert run.routing_keys == [b"dead"]
    (again,) = messages_of(run)
    assert headers_in(again)["CC"] == ["c1"]
    (third,) = runs_of(TO_DLX, [again])
    assert third.routing_keys == [b"dead"]


def test_a_copy_list_of_the_wrong_kind_names_nobody() -> None:
    (run,) = runs_of(TO_DLX, [published({"CC": "c1"})])
    assert run.routing_keys == [b"a.b"]


def test_neither_mandatory_nor_immediate_outlives_a_message() -> None:
    data = message(4, b"body", b"a.b", None, "events", True)
    method = decode_method(split_frames(died(data))[0][2])
    assert isinstance(method, BasicPublish)
    assert (method.mandatory, method.immediate) == (False, False)


def test_names_that_no_frame_holds_are_refused() -> None:
    longest = DeadLetterRule("q" * 255, "é" * 127, b"k" * 255)
    letter = died(published(routing_key=b"r" * 255), rule=longest)
    assert extract(letter, 0, len(letter))[:2] == ("é" * 127, b"k" * 255)
    with pytest.raises(ValueError, match="255"):
        DeadLetterRule("q", "é" * 128)
    with pytest.raises(ValueError, match="255"):
        DeadLetterRule("q", "x", b"k" * 256)


@pytest.mark.parametrize("reason", [EXPIRED, MAXLEN, DELIVERY_LIMIT])
@pytest.mark.parametrize(
    ("deaths", "cycle"),
    [
        ([], False),
        ([("a", EXPIRED)], True),
        ([("b", EXPIRED)], False),
        ([("b", MAXLEN), ("a", DELIVERY_LIMIT), ("c", REJECTED)], True),
        ([("b", EXPIRED), ("c", REJECTED), ("a", EXPIRED)], False),
        ([("b", EXPIRED), ("a", REJECTED)], False),
        ([("b", EXPIRED), ("a", REJECTED), ("a", EXPIRED)], False),
        ([("b", EXPIRED), ("a", EXPIRED), ("a", REJECTED)], True),
    ],
)
def test_a_way_back_is_a_cycle_if_nobody_rejected_on_it(
    deaths: list[Death], cycle: bool, reason: str
) -> None:
    assert is_cycle("a", deaths, reason) is cycle


def test_who_rejects_may_send_a_message_round_for_ever() -> None:
    assert not is_cycle("a", [("a", REJECTED), ("a", EXPIRED)], REJECTED)
    assert not is_cycle("a", [("a", EXPIRED)], REJECTED)


def test_a_death_is_part_of_its_own_cycle_check() -> None:
    (run,) = runs_of(TO_DLX, [died(published(), REJECTED)], EXPIRED)
    assert run.deaths == [("work", EXPIRED), ("work", REJECTED)]
    assert is_cycle("work", run.deaths, EXPIRED)


def test_messages_that_go_the_same_way_are_one_run() -> None:
    same = [published(), published({"trace": 1}), published(expiration="5"), published()]
    (run,) = runs_of(TO_DLX, same)
    assert run.count() == 4
    assert len(messages_of(run)) == 4
    assert run.routing_keys == [b"a.b"]
    assert run.deaths == [("work", EXPIRED)]


def test_a_run_ends_where_keys_or_history_differ() -> None:
    other_key = published(routing_key=b"c")
    copies = published({"CC": ["x"]})
    dead_before = died(published(), MAXLEN)
    mixed = [published(), other_key, other_key, copies, dead_before, published()]
    runs = runs_of(TO_DLX, mixed)
    assert [run.count() for run in runs] == [1, 2, 1, 1, 1]
    assert [run.count() for run in runs_of(TO_KEY, mixed)] == [4, 1, 1]


def test_no_messages_are_no_runs() -> None:
    assert runs_of(TO_DLX, []) == []


def test_another_second_or_reason_does_not_take_over_an_earlier_letter() -> None:
    rule = DeadLetterRule("work", "dlx")
    times = []
    for reason, now_s in [(EXPIRED, 5), (EXPIRED, 6), (MAXLEN, 6), (EXPIRED, 6)]:
        headers = headers_in(died(published(), reason, now_s, rule))
        assert isinstance(headers["x-death"], list)
        entries: list[dict[str, object]] = headers["x-death"]
        times.append([(entry["reason"], entry["time"]) for entry in entries])
    assert times == [[(EXPIRED, 5)], [(EXPIRED, 6)], [(MAXLEN, 6)], [(EXPIRED, 6)]]


def test_what_a_rule_remembers_is_bounded() -> None:
    rule = DeadLetterRule("work", "dlx")
    for number in range(3 * dead_letters.LETTERS_KEPT_MAX):
        data = published(routing_key=b"%d" % number)
        assert died(data, rule=rule) == died(data)
        assert len(held(rule, dead_letters.Letter)) <= dead_letters.LETTERS_KEPT_MAX
    before = len(held(rule, dead_letters.Letter))
    copies = ["x" * 250] * (dead_letters.KEY_BYTES_MAX // 250)
    died(published({"CC": copies}), rule=rule)
    assert len(held(rule, dead_letters.Letter)) == before


def test_the_bits_of_a_dead_letter_say_headers_and_no_expiration() -> None:
    assert info_of_dead(INFO_PERSISTENT | INFO_EXPIRATION | 5 << 8) == (
        INFO_PERSISTENT | INFO_HEADERS | 5 << 8
    )


names = st.sampled_from(["work", "retry", "é", "q"])
expirations = st.none() | st.integers(0, 2**32).map(str)
carbon_copies = st.fixed_dictionaries(
    {},
    optional={
        "CC": st.lists(st.sampled_from(["c1", "c2", "a.b"]), max_size=3),
        "BCC": st.lists(st.text(max_size=5), max_size=2),
        "x-death": st.just([{"queue": "work", "reason": "expired", "count": 9}]) | st.text(),
        "x-first-death-queue": st.text(max_size=9),
        "x-last-death-reason": st.integers(0, 9),
    },
)
keys = st.sampled_from([b"a.b", b"", b"\xff\0", b"k" * 255])
lives = st.lists(
    st.tuples(names, st.sampled_from(REASONS), st.none() | keys, st.integers(0, 3)),
    min_size=1,
    max_size=6,
)


def naive(
    letter: tuple[str, bytes, BasicProperties],
    life: tuple[str, str, bytes | None, int],
    old: bool,
    alone: bool,
) -> tuple[str, bytes, BasicProperties]:
    """RabbitMQ's rules once more, on decoded values.

    `old`: it was a dead letter before; `alone`: and a routing key has replaced those in CC.
    """
    exchange, routing_key, properties = letter
    queue, reason, new_key, now_s = life
    headers = dict(properties.headers or {})
    copies = [] if alone else headers.get("CC", [])
    assert isinstance(copies, list)
    history = headers.pop("x-death", []) if old else []
    assert isinstance(history, list)
    entry: dict[str, object] = {}
    if properties.expiration is not None:
        entry["original-expiration"] = properties.expiration
    entry |= {"count": Int64(0), "reason": reason, "queue": queue, "time": Timestamp(now_s)}
    entry |= {"exchange": exchange, "routing-keys": [text(routing_key), *copies]}
    for each in history:
        if (each["queue"], each["reason"]) == (queue, reason):
            entry = each
    entry["count"] = Int64(entry["count"] + 1)  # type: ignore[operator]
    headers["x-death"] = [entry, *(each for each in history if each is not entry)]
    for what, value in (("queue", queue), ("reason", reason), ("exchange", exchange)):
        headers[f"x-last-death-{what}"] = value
        if not old:
            headers[f"x-first-death-{what}"] = value
    headers.pop("BCC", None)
    properties.headers = headers
    properties.expiration = None
    return "dlx", routing_key if new_key is None else new_key, properties


def text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def assert_same(letter: bytes, naive_letter: tuple[str, bytes, BasicProperties]) -> None:
    exchange, routing_key, properties, _ = extract(letter, 0, len(letter))
    wanted = naive_letter[2]
    assert (exchange, routing_key) == naive_letter[:2]
    found = decode_properties(properties)
    for name in set(NAMES) - {"headers"}:
        assert getattr(found, name) == getattr(wanted, name)
    assert found.headers is not None
    assert wanted.headers is not None
    assert kinds(found.headers) == kinds(wanted.headers)
    for mine, plain in zip(found.headers["x-death"], wanted.headers["x-death"], strict=True):  # type: ignore[call-overload]
        assert in_order(mine) == in_order(plain)


@BOUNDED
@given(all_properties, tables, carbon_copies, expirations, lives, st.binary(max_size=90))
def test_any_life_reads_as_it_does_by_the_plain_rules(
    one: BasicProperties,
    headers: dict[str, object],
    special: dict[str, object],
    expiration: str | None,
    life: list[tuple[str, str, bytes | None, int]],
    body: bytes,
) -> None:
    one.headers = {**headers, **special} if headers or special else one.headers
    one.expiration = expiration
    data = message(3, body, b"key", one, "e", True, 40)
    plain = ("e", b"key", one)
    for number, each in enumerate(life):
        queue, reason, new_key, now_s = each
        rule = DeadLetterRule(queue, "dlx", new_key)
        before = split_frames(data)
        data = died(data, reason, now_s, rule)
        alone = any(new_key is not None for _, _, new_key, _ in life[:number])
        plain = naive(plain, each, number > 0, alone)
        assert_same(data, plain)
        after = split_frames(data)
        assert after[2:] == before[2:]
        assert b"".join([frame(*each_frame) for each_frame in after]) == data


@BOUNDED
@given(st.lists(st.tuples(all_properties, keys, st.booleans()), max_size=12), st.none() | keys)
def test_many_at_once_are_what_each_is_alone(
    parts: list[tuple[BasicProperties, bytes, bool]], new_key: bytes | None
) -> None:
    rule = DeadLetterRule("work", "dlx", new_key)
    data = []
    for properties, routing_key, dead_before in parts:
        one = message(2, b"body", routing_key, properties, "e")
        data.append(died(one, MAXLEN) if dead_before else one)
    runs = runs_of(rule, data)
    alone = []
    for one in data:
        other = DeadLetterRule("work", "dlx", new_key)
        alone.append(dead_letter(other, b"##" + one, 2, 2 + len(one), EXPIRED, NOW_S))
    assert [one for run in runs for one in messages_of(run)] == [run.data for run in alone]
    ways = [(run.routing_keys, run.deaths, run.key) for run in alone]
    told = [(run.routing_keys, run.deaths, run.key) for run in runs for _ in messages_of(run)]
    assert told == ways
    for left, right in pairwise(runs):
        assert (left.routing_keys, left.deaths) != (right.routing_keys, right.deaths)
